"""A checkpoint that lost what a training changed is an error; log-probabilities say what it changed."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, Job
from agentgym_py.errors import TrainingError
from agentgym_py.policy import Policy
from agentgym_py.training import TrainReport, logprob_check
from agentgym_py.training.logprob_check import LogprobCheck
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.grpo import GRPO


@pytest.fixture
def demos(toy_envs: Any) -> list[Any]:
    """Four episodes of the expert."""
    return Collector(ExpertAgent()).collect_batch([Job(toy_envs.CHAIN, task) for task in range(4)])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rank", [0, 2])
def test_a_checkpoint_that_lost_the_change_is_an_error(
    toy_envs: Any, tmp_path: Path, demos: list[Any], rank: int, dtype: str
) -> None:
    """The checkpoint of a training is as likely to write its sequences; one of the weights before it is refused."""
    toy_envs.word_policy(spread=0.2).save(tmp_path / "base")
    policy = Policy.load(tmp_path / "base", dtype=dtype, device="cpu")
    untrained, check = copy.deepcopy(policy), LogprobCheck(policy, demos)
    trainer = FilteredBC(lora_rank=rank, learning_rate=1e-2, epochs=4, batch_size=1, threshold=-9.0)
    report = trainer.train(policy, demos, seed=0, output_dir=tmp_path / "training")

    def load(folder: str) -> Policy:
        return Policy.load(folder, dtype=dtype, device="cpu")

    policy.save(tmp_path / "kept")
    metrics = check.require_saved(report, policy, tmp_path / "kept", load).metrics
    assert metrics["logprob_saved"] == metrics["logprob_trained"] > metrics["logprob_before"] + 0.01
    assert metrics["weights_changed"] == report.metrics["weights_changed"]
    untrained.save(tmp_path / "lost")
    with pytest.raises(TrainingError, match=r"lost does not hold what was trained: .* before, .* in the checkpoint"):
        check.require_saved(report, policy, tmp_path / "lost", load)


@pytest.mark.parametrize("params", [{}, {"temperature": 0.5}], ids=str)
def test_on_policy_trainings_are_checked(toy_envs: Any, tmp_path: Path, params: dict[str, float]) -> None:
    """The first episodes hold what the policy was before, at the sampling temperature; a lost change is an error."""
    policy = toy_envs.word_policy()
    untrained = copy.deepcopy(policy)
    rollouts = toy_envs.rollouts(policy, toy_envs.BANDIT, 32, **params)
    trainer = GRPO(learning_rate=1e-2, tasks_per_iteration=4, group_size=4, minibatch_size=4, max_ratio=0.0)
    report = trainer.improve(policy, rollouts, seed=0, output_dir=tmp_path / "training")
    check = LogprobCheck.of_rollouts(rollouts)
    assert len(check._samples) == 8 and check._measure(untrained) == pytest.approx(check._before, abs=1e-4)

    def load(folder: str) -> Policy:
        return Policy.load(folder, device="cpu")

    policy.save(tmp_path / "kept")
    metrics = check.require_saved(report, policy, tmp_path / "kept", load).metrics
    assert metrics["logprob_saved"] == metrics["logprob_trained"] != pytest.approx(metrics["logprob_before"], abs=1e-3)
    untrained.save(tmp_path / "lost")
    with pytest.raises(TrainingError, match="lost does not hold what was trained"):
        check.require_saved(report, policy, tmp_path / "lost", load)
    rollouts.params = replace(rollouts.params, temperature=0.0)
    assert LogprobCheck.of_rollouts(rollouts).require_saved(report, policy, tmp_path / "lost", load) is report


def test_a_long_prompt_hides_the_replies(toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the measured beginnings have no reply there is nothing to compare, and no error."""
    rollouts = toy_envs.rollouts(toy_envs.word_policy(), toy_envs.BANDIT, 4)
    rollouts.play(rollouts.tasks[:4])
    shortest = min(len(each.steps[0].tokens.context) for each in rollouts.episodes)
    monkeypatch.setattr(logprob_check, "_LONGEST", shortest)
    report = TrainReport(1, {}, 1, 1, 1.0)
    check = LogprobCheck.of_rollouts(rollouts)
    assert check.require_saved(report, rollouts.policy, tmp_path / "none", Policy.load) is report


def test_few_short_sequences_are_measured(
    toy_envs: Any, demos: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There are at most 8, cut to a length; without any, and on a full GPU, no checkpoint is loaded."""
    policy, many = toy_envs.word_policy(), [demo for demo in demos for _ in range(100)]
    assert [len(LogprobCheck(policy, each)._samples) for each in ([], demos[:1], demos, many)] == [0, 1, 1, 8]
    monkeypatch.setattr(logprob_check, "_LONGEST", 12)
    assert all(len(sample.input_ids) <= 12 for sample in LogprobCheck(policy, many)._samples)
    report = FilteredBC(epochs=1, threshold=-9.0).train(policy, demos, seed=0, output_dir=tmp_path)
    assert LogprobCheck(policy, []).require_saved(report, policy, tmp_path, Policy.load) is report
    monkeypatch.setattr(logprob_check, "_has_room", lambda _: False)
    with pytest.warns(UserWarning, match="no room for both"):
        full = LogprobCheck(policy, many).require_saved(report, policy, tmp_path, Policy.load)
    assert "logprob_trained" in full.metrics and "logprob_saved" not in full.metrics and len(full.notes) == 1
