"""The example's config, read by prime-rl's own schema."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from agentgym_verifiers import AgentGymEnv, AgentGymEnvConfig, ChatHarness
from prime_rl.configs.rl import RLConfig
from pydantic_config.cli import ConfigFileError, cli
from verifiers.v1.utils.loaders import default_harness_id, harness_class, load_environment

CONFIG = Path(__file__).parents[1] / "rl.toml"


def sources(config: Path) -> dict[str, Any]:
    """Return the sources of a config by their splits."""
    orchestrator = cli(RLConfig, args=["@", str(config)]).orchestrator
    (train,), (valid,) = orchestrator.train.source, orchestrator.eval.source
    return {"train": train, "valid": valid}


def test_the_sources_are_tasks_of_the_world() -> None:
    """The environment of each is ours, with its settings; groups and evaluations are finite."""
    found = sources(CONFIG)
    assert found["train"].group_size == 8 and found["valid"].num_examples == 100
    for split, source in found.items():
        assert isinstance(source.env, AgentGymEnvConfig)
        env = load_environment(source.env)
        assert isinstance(env, AgentGymEnv)
        tasks = [task.data for task in itertools.islice(env.taskset, 3)]
        assert [task.id for task in tasks] == [f"shop/{split}/medium/{number}" for number in range(3)]
        assert tasks[0].env_kwargs == {"max_steps": 20}
        assert source.env.player.harness is None
        assert harness_class(default_harness_id(source.env.taskset.id)) is ChatHarness


def test_a_setting_that_the_taskset_does_not_have_is_refused(tmp_path: Path) -> None:
    """When prime-rl reads the config."""
    text = CONFIG.read_text(encoding="utf-8")
    assert text.count('env = "shop"') == 2
    (tmp_path / "rl.toml").write_text(text.replace('env = "shop"', 'env = "todo"'), encoding="utf-8")
    assert sources(tmp_path / "rl.toml")["train"].env.taskset.env == "todo"
    (tmp_path / "rl.toml").write_text(text.replace('env = "shop"', 'world = "shop"'), encoding="utf-8")
    with pytest.raises(ConfigFileError, match="world"):
        sources(tmp_path / "rl.toml")
