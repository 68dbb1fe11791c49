"""Every registered trainer that plays itself keeps the contract of `OnPolicyTrainer`, without being listed here."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py import registry
from agentgym_py.errors import NothingToTrainOnError, RunError
from agentgym_py.testing.zoo_checks import with_teacher
from agentgym_py.training import OnPolicyTrainer, Trainer
from agentgym_py.training.trainer import info_of

ON_POLICY = [
    name for name in registry.names("agentgym.trainers") if hasattr(registry.load("agentgym.trainers", name), "improve")
]
SMALL = {"tasks_per_iteration": 4, "group_size": 4, "minibatch_size": 4, "batch_size": 16, "learning_rate": 0.01}
"""Settings by name for few episodes; what a trainer has none for is left out."""
BUDGET = 36
"""Episodes: two iterations of groups, nine without groups, and some that are too few for another group."""


@pytest.fixture(params=ON_POLICY)
def player(request: pytest.FixtureRequest, toy_envs: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An on-policy trainer for few episodes."""
    made = registry.load("agentgym.trainers", request.param)()
    names = {each.name for each in fields(made)}
    made = replace(made, **{name: value for name, value in SMALL.items() if name in names})
    return with_teacher(made, toy_envs.word_policy(spread=0.2), tmp_path_factory.mktemp("models") / "teacher")


def test_an_on_policy_trainer_is_a_dataclass_of_settings_with_improve(player: Any) -> None:
    """Its fields are its settings, each with a default, and it is not a trainer on stored trajectories."""
    assert is_dataclass(player) and isinstance(player, OnPolicyTrainer) and fields(player)
    assert not isinstance(player, Trainer) and replace(player) == player


class Cut(KeyboardInterrupt):
    """A training is cut off."""


def test_an_on_policy_trainer_changes_the_policy_and_resumes_to_the_same_end(
    player: Any, toy_envs: Any, tmp_path: Path
) -> None:
    """Counts add up to what was played, within the budget, and the same seed gives the same, changed weights.

    Cut off in its second iteration, and again in the second one after that, it ends bit-identical to one that was not
    and kept no states. A trainer that keeps no states starts again, and ends the same.
    """
    keeps = info_of(player).resumes

    def improved(output: Path, cut: int | None = None) -> tuple[Any, ...]:
        policy = toy_envs.word_policy()
        rollouts, told = toy_envs.rollouts(policy, toy_envs.CHAIN, BUDGET, tokens=2), list[int]()

        def tell(done: int, total: int) -> None:
            assert total == BUDGET
            told.append(done)
            if len(told) == cut:
                raise Cut

        how = replace(player, checkpoint_minutes=0.0) if keeps and output.name == "cut" else player
        report = how.improve(policy, rollouts, seed=3, output_dir=output, progress=tell)
        rows = [{k: v for k, v in row.items() if k != "tokens_per_second"} for row in report.history]
        said = (rows, report.loss, report.dropped, report.tokens, report.agent_tokens, report.notes)
        return policy.digest(), rollouts.episodes, said, told, report

    digest, episodes, said, told, report = improved(tmp_path / "whole")
    assert 30 < len(episodes) <= BUDGET and report.trajectories > 0 and digest != toy_envs.word_policy().digest()
    assert report.trajectories + sum(report.dropped.values()) == len(episodes)
    assert all(report.dropped.values()) and 0 < report.agent_tokens < report.tokens and report.loss
    about = {name: report.metrics[name] for name in ("learning_rate", "weights_changed") if name in report.metrics}
    rows = {name: value for row in report.history for name, value in row.items()}
    assert len(report.history) > 1 and report.metrics == rows | about
    finite = [torch.isfinite(torch.tensor(value)) for row in report.history for value in row.values()]
    assert finite and all(finite)
    assert told == sorted(told) and told[-1] == len(episodes)
    output = tmp_path / "cut"
    for _ in range(2 if keeps else 1):
        with pytest.raises(Cut):
            improved(output, cut=2)
        assert not keeps or list((output / "states").iterdir())
    resumed = improved(output)
    assert resumed[:3] == (digest, episodes, said) and (0 < len(resumed[3]) < len(told) or not keeps), (
        "it started again"
    )
    assert not (output / "states").exists()
    assert all(any(each.iterdir()) for each in tmp_path.rglob("*") if each.is_dir()), "an empty folder was left"


def test_a_state_that_is_damaged_or_another_trainings_is_refused(player: Any, toy_envs: Any, tmp_path: Path) -> None:
    """With the way out; the state stays."""
    if not info_of(player).resumes:
        pytest.skip("it keeps no states")
    player = replace(player, checkpoint_minutes=0.0)

    def improve(seed: int, stop: int | None = None) -> None:
        policy, told = toy_envs.word_policy(), list[int]()

        def tell(done: int, total: int) -> None:
            told.append(done)
            if len(told) == stop:
                raise Cut

        rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, BUDGET, tokens=2)
        player.improve(policy, rollouts, seed=seed, output_dir=tmp_path, progress=tell)

    with pytest.raises(Cut):
        improve(3, stop=2)
    with pytest.raises(RunError, match="another training"):
        improve(4)
    (state,) = (tmp_path / "states").iterdir()
    weights = state / "trained.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(RunError, match=r"damaged \(trained.safetensors.*delete .*states to restart"):
        improve(3)
    (state / "state.json").write_text("{")
    with pytest.raises(RunError, match="damaged"):
        improve(3)
    assert state.is_dir()


def test_an_on_policy_trainer_that_learnt_nothing_says_so(
    player: Any, toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no world begins, the policy stays as it is and the error counts why."""

    def fails(self: Any, task: Any) -> str:
        raise TimeoutError("it hangs")

    monkeypatch.setattr(toy_envs.Chain, "begin", fails)
    policy = toy_envs.word_policy()
    before = policy.digest()
    with pytest.raises(NothingToTrainOnError, match="ended by an infrastructure error"):
        player.improve(policy, toy_envs.rollouts(policy, toy_envs.CHAIN, BUDGET), seed=0, output_dir=tmp_path)
    assert policy.digest() == before
