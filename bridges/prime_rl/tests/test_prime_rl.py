"""The example's config, read by prime-rl's own schema."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from agentgym_verifiers import AgentGymEnv, AgentGymEnvConfig, ChatHarness
from prime_rl.configs.rl import RLConfig
from pydantic_config import cli
from verifiers.v1.utils.loaders import harness_class, load_environment

CONFIG = Path(__file__).parents[1] / "rl.toml"


def sources(*words: str) -> dict[str, Any]:
    """Return the sources of the config, with words of the command line, by the kind of run."""
    orchestrator = cli(RLConfig, args=["@", str(CONFIG), *words]).orchestrator
    (train,), (valid,) = orchestrator.train.source, orchestrator.eval.source
    return {"train": train, "valid": valid}


def test_the_sources_are_tasks_of_the_world() -> None:
    """The environment of each is ours, with its settings; groups and evaluations are finite."""
    found = sources()
    assert found["train"].group_size == 8 and found["valid"].num_examples == 100
    for split, source in found.items():
        assert isinstance(source.env, AgentGymEnvConfig)
        env = load_environment(source.env)
        assert isinstance(env, AgentGymEnv)
        tasks = [task.data for task in itertools.islice(env.taskset, 3)]
        assert [task.id for task in tasks] == [f"shop/{split}/medium/{number}" for number in range(3)]
        assert tasks[0].env_kwargs == {"max_steps": 20}
        assert harness_class(source.env.player.harness.id) is ChatHarness


def test_settings_of_the_world_are_words_of_the_command() -> None:
    """As prime-rl's other settings; a wrong one is refused."""
    prefix = "--orchestrator.train.source.0.env.taskset"
    assert sources(f"{prefix}.env", "todo")["train"].env.taskset.env == "todo"
    with pytest.raises((SystemExit, ValueError)):
        sources(f"{prefix}.wrld", "todo")
