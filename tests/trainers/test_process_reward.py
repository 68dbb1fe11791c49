from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, Job
from agentgym_py.collection.branching import snapshots_at
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, NothingToTrainOnError, TrainingError
from agentgym_py.rewards.process_reward_model import (
    LabelledTrajectory,
    ProcessRewardModel,
    label_steps,
    label_trajectory,
    state_pairs,
)
from agentgym_py.rewards.state_values import exact_values, monte_carlo, policy_player, values_from_marks
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.process_reward import ProcessReward, process_loss


def labels_of(loss_checks: Any, steps: int, seed: int) -> Any:
    """Labels, a third of them unknown."""
    wanted = loss_checks.drawn(steps, 3, seed=seed)
    wanted[loss_checks.drawn(steps, 3, seed=seed + 50) > 0.4] = math.nan
    wanted[:, 1] = loss_checks.drawn(steps, seed=seed + 60)  # pairs are of steps whose correctness is known
    return wanted


TIGHT: dict[str, float] = {"rtol": 0.0, "atol": 1e-9}
COUPLES = torch.tensor([[0, 3], [5, 1], [5, 2], [7, 6]])


def slow_loss(said: Any, wanted: Any, couples: Any, weight: float) -> Any:
    """The formula, number by number and pair by pair."""
    squares = [
        (said[m, d] - wanted[m, d]) ** 2 for m in range(len(said)) for d in range(3) if not math.isnan(wanted[m, d])
    ]
    crossed = torch.zeros((), dtype=torch.float64)
    for better, worse in couples.tolist():
        p = 1 / (1 + torch.exp(-10 * (said[better, 1] - said[worse, 1])))
        q = 1 / (1 + torch.exp(-10 * (wanted[better, 1] - wanted[worse, 1])))
        crossed = crossed - (q * torch.log(p) + (1 - q) * torch.log(1 - p)) / 10
    return sum(squares) / len(squares) + weight * crossed / max(len(couples), 1)


# ---- the formula ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_the_formula(loss_checks: Any, seed: int) -> None:
    """In double precision to 1e-9, gradients as well; in any order, and in parts that add up."""
    said, wanted = loss_checks.drawn(8, 3, seed=seed), labels_of(loss_checks, 8, seed + 9)
    loss_checks.check_formula(
        lambda x: process_loss(x, wanted, *COUPLES.T, pair_weight=0.7).loss,
        lambda x: slow_loss(x, wanted, COUPLES, 0.7), said,
    )  # fmt: skip
    found = process_loss(said, wanted, *COUPLES.T, pair_weight=0.7)
    order = torch.tensor([3, 5, 0, 1, 4, 2, 7, 6])
    moved = torch.argsort(order)[COUPLES]
    torch.testing.assert_close(
        process_loss(said[order], wanted[order], *moved.T, pair_weight=0.7).loss, found.loss, **TIGHT
    )
    entries = int((~torch.isnan(wanted)).sum())
    halves = [
        process_loss(said[:6], wanted[:6], *COUPLES[:3].T, pair_weight=0.7, entries=entries, pairs=4),
        process_loss(said[6:], wanted[6:], *(COUPLES[3:] - 6).T, pair_weight=0.7, entries=entries, pairs=4),
    ]
    for name in found._fields:
        torch.testing.assert_close(sum(getattr(half, name) for half in halves), getattr(found, name), **TIGHT)


def test_what_nobody_knows_has_no_gradient_and_both_terms_agree(loss_checks: Any) -> None:
    """An unknown label's number stays; where everything is said right, neither term pulls."""
    said, wanted = loss_checks.drawn(8, 3, seed=1).requires_grad_(), labels_of(loss_checks, 8, 2)
    (gradient,) = torch.autograd.grad(process_loss(said, wanted, *COUPLES.T, pair_weight=0.0).loss, said)
    assert torch.equal(gradient == 0, torch.isnan(wanted))
    right = torch.nan_to_num(wanted).requires_grad_()
    (gradient,) = torch.autograd.grad(process_loss(right, wanted, *COUPLES.T, pair_weight=1.0).loss, right)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient))
    nothing = process_loss(said, torch.full_like(wanted, math.nan), *COUPLES[:0].T, pair_weight=1.0)
    assert nothing.loss == 0 and torch.isfinite(torch.autograd.grad(nothing.loss, said)[0]).all()


# ---- labels ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played() -> list[Trajectory]:
    """Two of the expert in the shop; six that part from them in their midst, and do anything."""
    shop, found = EnvSpec("shop", {"max_steps": 6}), list[Trajectory]()
    for task in range(2):
        good = Collector(ExpertAgent()).collect(Job(shop, task))
        parting = [Job(shop, task, start=fork) for fork in snapshots_at(good, [1, 2, 3])]
        found += [good, *Collector(RandomAgent()).collect_batch(parting)]
    return [replace(each, steps=tuple(replace(step, trained=True) for step in each.steps)) for each in found]


def test_pairs_are_of_one_state(tiny_policy: Any, played: list[Trajectory]) -> None:
    """Two steps that replied otherwise to all the same, one of them better; the better one first, nothing else."""
    data = [label_trajectory(each, exact_values(each, 0.9), tiny_policy) for each in played]
    flat = [
        ((t.provenance.task_key, t.steps[: i + 1][-1].observation, [s.reply for s in t.steps[:i]]), t.steps[i].reply, v)
        for t, each in zip(played, data, strict=True)
        for i, v in enumerate(each.labels[:, 1].tolist())
    ]
    found = state_pairs(data)
    expected = {
        (a, b)
        for a, (state, said, value) in enumerate(flat)
        for b, (other, answered, worse) in enumerate(flat)
        if state == other and said != answered and value > worse + 1e-6
    }
    assert set(found) == expected and len(found) == len(expected) > 0


def test_a_step_that_must_not_be_learnt_has_no_label(tiny_policy: Any, episode: Any) -> None:
    """As the ones before a fork."""
    whole = episode("a", "b")
    half = replace(whole, steps=(replace(whole.steps[0], trained=False), whole.steps[1]))
    found = label_trajectory(half, [0.5, 0.5, 1.0], tiny_policy)
    assert np.isnan(found.labels[0]).all() and not np.isnan(found.labels[1]).any() and len(found.encoded.positions) == 2


def test_where_the_values_come_from(toy_envs: Any) -> None:
    """Outcome, expert or continuations by the policy itself; what its world does not play again is counted."""
    policy, jobs = toy_envs.word_policy(), [Job(toy_envs.CHAIN, n) for n in range(3)]
    played = toy_envs.rollouts(policy, toy_envs.CHAIN, 3).groups(3, 1)
    episodes = [group[0] for group in played]
    changed = [*episodes[:2], replace(episodes[2], final_observation="?")]
    from collections import Counter

    def never(jobs: Any) -> Any:
        raise AssertionError("nothing is to be played")

    dropped = Counter[str]()
    exact = ProcessReward(labels="exact", discount=0.8).values(changed, dropped, never, 0)
    assert exact[:2] == (changed[:2], [exact_values(each, 0.8) for each in changed[:2]]) and math.isnan(exact.stderr)
    assert dropped == {"whose world does not play it again": 1}
    how = ProcessReward(labels="monte_carlo", attempts=3, states=2, discount=0.8, max_new_tokens=1)
    play = policy_player(policy, 1.0, 1, 5)
    _, values, stderr = how.values(episodes, Counter(), play, 5)
    known = monte_carlo(episodes, play, attempts=3, states=2, discount=0.8, seed=5)
    assert values == [[None if v is None else v.mean for v in each] for each in known]
    assert sum(value is not None for each in values for value in each) == 9 and len(jobs) == 3
    assert stderr == pytest.approx(np.mean([v.stderr for each in known for v in each[:-1] if v]))


def test_only_exact_labels_ask_the_expert(toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, continuations are learnt from all the same, with their error in the report; `exact` says why not."""

    def none(env: Any) -> Any:
        raise NotImplementedError("no expert here")

    monkeypatch.setattr(type(toy_envs.CHAIN.make()), "expert", none)
    policy = toy_envs.word_policy()
    episodes = [group[0] for group in toy_envs.rollouts(policy, toy_envs.CHAIN, 3).groups(3, 1)]
    how = ProcessReward(labels="monte_carlo", attempts=2, states=2, max_new_tokens=1, epochs=1.0)
    report = how.train(policy, episodes, seed=0, output_dir=tmp_path / "judge")
    assert report.trajectories == 3 and not report.dropped and 0 < report.metrics["label_stderr"] < 0.5
    single = replace(how, attempts=1).train(policy, episodes, seed=0, output_dir=tmp_path / "single")
    assert "label_stderr" not in single.metrics
    with pytest.raises(NothingToTrainOnError, match="3 whose expert gave no plan"):
        replace(how, labels="exact").train(policy, episodes, seed=0, output_dir=tmp_path / "none")


# ---- training -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "share"),
    [
        pytest.param({"epochs": 50.0}, 0.35, marks=pytest.mark.slow),
        ({"lora_rank": 2, "epochs": 12.0}, 0.9),
        ({"train_backbone": False, "epochs": 200.0}, 0.6),
    ],
    ids=["all", "lora", "heads"],
)
def test_it_learns_a_batch_by_heart(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path, how: dict[str, Any], share: float, fresh: Any
) -> None:
    """What it says comes near the labels; the policy stays, a frozen backbone too."""
    settings: dict[str, Any] = {"labels": "exact", "epochs": 30.0, "learning_rate": 0.005, "batch_size": 4, **how}
    policy = fresh(tiny_policy)
    report = ProcessReward(**settings).train(policy, played, seed=0, output_dir=tmp_path)
    model = ProcessRewardModel.load(tmp_path)
    labels = np.concatenate([label_steps(each, exact_values(each, 0.9)) for each in played])
    said = np.concatenate(model.by_dimension(played))
    wrong = ((said - labels) ** 2).mean()
    assert policy.digest() == tiny_policy.digest() and report.trajectories == 8 and report.metrics["pairs"] > 0
    same = model.policy.digest() == tiny_policy.digest()
    assert same == (not how.get("train_backbone", True)) and not hasattr(model.policy.model, "peft_config")
    chance = ((labels - labels.mean(0)) ** 2).mean()
    assert wrong < share * chance and report.loss[-1] < report.loss[0]


@pytest.mark.parametrize("backbone", [True, False])
def test_a_gradient_that_is_not_finite_stops_it(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path, backbone: bool
) -> None:
    """The step is not taken, and no model is written that says nothing but NaN."""
    marks = [values_from_marks(each, lambda t, i: 1e30 if t.success else 0.1) for each in played]
    how = ProcessReward(epochs=1.0, train_backbone=backbone)
    with pytest.raises(TrainingError, match=r"gradient norm (nan|inf) at step 1 of 1: the step was not taken"):
        how.train_on(tiny_policy, played, marks, seed=0, output_dir=tmp_path / "judge")
    assert not (tmp_path / "judge").exists()


def test_a_judges_marks_are_learnt(tiny_policy: Any, played: list[Trajectory], tmp_path: Path) -> None:
    """`train_on` takes the values of anybody; what is left out of the trajectories needs none."""
    marks = [values_from_marks(each, lambda t, i: 0.9 if t.success else 0.1) for each in played]
    data = [*played, replace(played[0], error="lost")]
    how = ProcessReward(epochs=30.0, learning_rate=0.004, weights={"correctness": 1.0})
    report = how.train_on(tiny_policy, data, [*marks, [None] * 9], seed=0, output_dir=tmp_path)
    assert report.dropped == {"ended by an infrastructure error": 1}
    scores = ProcessRewardModel.load(tmp_path).score(played)
    good, bad = (
        [s[-1] for s, each in zip(scores, played, strict=True) if each.success is won] for won in (True, False)
    )
    assert min(good) > 0.5 > max(bad) and len(good) == 2


class StopError(Exception):
    """Stops a training before its first step."""


def step_of(how: ProcessReward, model: ProcessRewardModel, data: list[LabelledTrajectory]) -> dict[str, float]:
    """Add the gradient of one step on all the data; what is logged of it."""
    logged = dict[str, float]()
    fit = replace(how, batch_size=len(data), epochs=1.0).fit(model, data, seed=0)

    def stop() -> None:
        logged.update({name.removeprefix("share "): value for name, value in fit._part.items()})
        raise StopError

    fit.step = stop  # type: ignore[method-assign]  # the gradient is looked at, the step not taken
    with pytest.raises(StopError):
        how.run(fit, data, 0)
    return logged


def test_only_the_marks_states_get_a_gradient(
    tiny_policy: Any, played: list[Trajectory], fresh: Any, loss_checks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither padding, nor an observation, nor another token of a reply; a step's parts make the whole's gradient."""
    how, policy = ProcessReward(labels="exact"), loss_checks.doubled(fresh(tiny_policy))
    data = [label_trajectory(each, exact_values(each, 0.9), policy) for each in played]
    model, whole = how.init_model(policy, data, 0), dict[str, float]()
    kept = loss_checks.state_gradients(model.policy.model, lambda: whole.update(step_of(how, model, data)))
    read = [int((each > 0).sum()) for each in kept]
    assert sum(read) == sum(len(each.encoded.positions) for each in data)
    trained = [*model.heads.parameters(), *model.policy.model.parameters()]
    expected = [("", p.grad.clone()) for p in trained]
    for p in trained:
        p.grad = None
    parts, loss = list[list[str]](), ProcessReward.loss

    def watched(self: ProcessReward, fit: Any, part: list[LabelledTrajectory], *totals: int) -> Any:
        parts.append([row.state_ids[0] for row in part])
        return loss(self, fit, part, *totals)

    monkeypatch.setattr(ProcessReward, "loss", watched)
    in_parts = step_of(replace(how, microbatch_tokens=1), model, data)
    assert [len(part) for part in parts] == [4, 4] and all(len(set(part)) == 1 for part in parts)
    assert in_parts == pytest.approx(whole, rel=1e-8) and whole["pairs"] > 0
    loss_checks.check_gradients([("", p.grad) for p in trained], expected, rel=1e-7)  # labels are in float32


def test_a_frozen_backbone_reads_each_trajectory_once(
    toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all epochs; settings that only save its memory do no harm."""
    from transformers.models.llama.modeling_llama import LlamaModel

    played = [group[0] for group in toy_envs.rollouts(toy_envs.word_policy(), toy_envs.CHAIN, 6).groups(6, 1)]
    forward, read = LlamaModel.forward, list[int]()

    def watched(self: Any, input_ids: Any, **more: Any) -> Any:
        read.append(len(input_ids))
        return forward(self, input_ids=input_ids, **more)

    monkeypatch.setattr(LlamaModel, "forward", watched)
    how = ProcessReward(epochs=3, batch_size=2, train_backbone=False, gradient_checkpointing=True)
    report = how.train(toy_envs.word_policy(), played, seed=0, output_dir=tmp_path)
    assert sum(read) == len(played) == report.trajectories and len(report.history) == 9


def test_what_is_logged_of_a_step(tiny_policy: Any, played: list[Trajectory], tmp_path: Path) -> None:
    """The loss is made of its two terms; of pairs the number in a step."""
    how = ProcessReward(labels="exact", epochs=2, pair_weight=0.5)
    report = how.train(tiny_policy, played, seed=0, output_dir=tmp_path)
    data = [label_trajectory(each, exact_values(each, 0.9), tiny_policy) for each in played]
    assert {*report.metrics} == {
        "loss",
        "mse",
        "pairwise",
        "pairs",
        "steps",
        "grad_norm",
        "learning_rate",
        "weights_changed",
    }
    assert report.metrics["steps"] == sum(len(each.labels) for each in data)
    for row in report.history:
        assert row["loss"] == pytest.approx(row["mse"] + 0.5 * row["pairwise"]) and row["pairs"] == len(
            state_pairs(data)
        )


def test_dropout_is_drawn_by_the_seed(toy_envs: Any) -> None:
    """Whatever torch's own generator stands at, which is left where it was."""
    played = [group[0] for group in toy_envs.rollouts(toy_envs.word_policy(), toy_envs.CHAIN, 6).groups(6, 1)]
    weights = []
    for number, dropout in enumerate((0.5, 0.5, 0.0)):
        policy, how = toy_envs.word_policy(), ProcessReward(epochs=2, batch_size=2)
        data = [label_trajectory(each, exact_values(each, 0.9), policy) for each in played]
        model = how.init_model(policy, data, 0)
        for layer in model.policy.model.model.layers:
            layer.self_attn.attention_dropout = dropout
        torch.manual_seed(number)
        before = torch.random.get_rng_state()
        with how.fit(model, data, seed=3) as fit:
            how.run(fit, data, 3)
        assert torch.equal(before, torch.random.get_rng_state())
        weights.append(model.policy.digest())
    assert weights[0] == weights[1] != weights[2]


def test_nothing_to_train_on_says_why(tiny_policy: Any, episode: Any, tmp_path: Path) -> None:
    """A world that is not there, infrastructure errors: counted, and no model is written."""
    lost = replace(episode("a"), provenance=replace(episode().provenance, env_id="Gone-v0"))
    with pytest.raises(NothingToTrainOnError, match=r"1 ended by an infra.*, 1 whose world does not play it again"):
        ProcessReward(labels="exact").train(
            tiny_policy, [lost, replace(lost, error="lost")], seed=0, output_dir=tmp_path / "out"
        )
    assert not (tmp_path / "out").exists()


def test_wrong_settings_are_refused() -> None:
    """Each by its name."""
    wrong: dict[str, Any] = {"labels": "taste", "discount": 0.0, "hidden": 0, "attempts": 0, "states": 0, "epochs": 0.0}
    wrong |= {"pair_weight": -1.0, "max_new_tokens": 0, "weights": {"taste": 1.0}, "learning_rate": 0.0}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match="taste" if name == "weights" else name):
            ProcessReward(**{name: value})
    with pytest.raises(ConfigError, match="discount"):
        ProcessReward(discount=1.1)
    for weights in {"progress": 1.0}, {"progress": 1.0, "relevance": 0.0}:
        with pytest.raises(ConfigError, match="at 1 the progress of every step is 0"):
            ProcessReward(discount=1.0, weights=weights)
    ProcessReward(discount=1.0, weights={"correctness": 1.0})
    with pytest.raises(ConfigError, match="lora_rank"):
        ProcessReward(lora_rank=2, train_backbone=False)
