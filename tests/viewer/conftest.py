"""A run folder as `evolve` leaves it: an expert's and a model's episodes, played, and a checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.agents import ExpertAgent, ModelAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.trajectory import Trajectory, store

SCRIPT = "<script>window.ran = true; alert('from an observation')</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="session")
def made_run(tmp_path_factory: pytest.TempPathFactory, tiny_policy: Any) -> Path:
    """Do not write there; `run` is a copy."""
    from agentgym_py.engine import HFEngine, SamplingParams

    root = tmp_path_factory.mktemp("viewed") / "run"
    tiny_policy.save(root / "rounds" / "01" / "checkpoint")
    expert = Collector(ExpertAgent(), PlayConfig(prompt="brief")).collect_batch(jobs_for("shop", "train", range(12)))
    agent = ModelAgent(tiny_policy, HFEngine(tiny_policy, slots=4), SamplingParams(max_new_tokens=8), "Agent_v0")
    played = Collector(agent, PlayConfig(prompt="brief")).collect_batch(jobs_for("shop", "train", range(3), 2))
    store.write(root / "rounds" / "00" / "trajectories.jsonl", expert)
    store.write(root / "rounds" / "01" / "trajectories.jsonl", played)
    store.write(root / "rounds" / "01" / "valid.jsonl", [_hostile(expert[0])])
    return root


@pytest.fixture
def run(made_run: Path, tmp_path: Path) -> Path:
    """A run folder of one's own."""
    return Path(shutil.copytree(made_run, tmp_path / "run"))


@pytest.fixture(scope="session")
def scripted() -> Callable[[Trajectory], Trajectory]:
    """An episode with HTML in each of its texts."""
    return _hostile


def _hostile(t: Trajectory) -> Trajectory:
    steps = tuple(replace(s, observation=SCRIPT, thought=SCRIPT, action=SCRIPT, valid=False) for s in t.steps)
    made = replace(t.provenance, agent="</script><b>x")
    return replace(
        t, id="hostile", provenance=made, split="valid", instruction=SCRIPT, rules=SCRIPT, steps=steps,
        final_observation=SCRIPT + "\ud800", reward=0.25, success=False,
    )  # fmt: skip
