"""That agents learn at all: minutes, so not in the default run (`pytest -m slow`)."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from agentgym_py.agents import ExpertAgent, ModelAgent
from agentgym_py.cli import main
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.evaluation import Evaluation, evaluate
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.policy import Policy
from agentgym_trainers.filtered_bc import FilteredBC

SHOP = EnvSpec("shop")


def played(policy: Policy) -> Evaluation:
    """The policy, greedy, on test tasks."""
    agent = ModelAgent(policy, HFEngine(policy, slots=64), SamplingParams(temperature=0.0, max_new_tokens=40))
    return evaluate(agent, [SHOP], "test", range(80))[0]


@pytest.mark.slow
def test_the_base_learns_to_shop_from_two_hundred_experts(tmp_path: Path) -> None:
    """After one training on expert episodes the tiny base succeeds and earns where it did neither: intervals apart."""
    policy = Policy.load("tiny")
    before = played(policy)
    demos = Collector(ExpertAgent()).collect_batch(jobs_for([SHOP], "train", range(200)))
    FilteredBC(epochs=2).train(policy, demos, seed=0, output_dir=tmp_path)
    after = played(policy)
    assert after.success.low > before.success.high
    assert after.reward.low > before.reward.value + 0.3


@pytest.mark.slow
def test_a_round_makes_the_agent_better(tmp_path: Path) -> None:
    """Trained on what it explored itself, no expert any more, it succeeds more often: intervals apart."""
    run = tmp_path / "run"
    sizes = ["--rounds", "1", "--explore_tasks", "600", "--valid_tasks", "200", "--test_tasks", "0", "--threads", "1"]
    assert main(["evolve", "--env", "shop", *sizes, "--out", str(run)]) == 0
    before, after = (RunFolder.open(run).metrics(number) for number in (0, 1))
    assert after["valid"]["success"]["low"] > before["valid"]["success"]["high"]
    assert after["training"]["trajectories"] == after["selection"]["kept"] < 600
