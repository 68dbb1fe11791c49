from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import pad_rows, sample_logprobs
from agentgym_py.policy.tokens import Sample, encode
from agentgym_py.training.data import prepare
from agentgym_py.training.fit import Fit
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.dpo import DPO, LogRatios, dpo_loss
from agentgym_trainers.ranking import Ranked, Ranking, best_loss, pick_evenly, ranked_size, ranking_loss

TASKS = torch.tensor([0, 1, 1, 2, 0, 0, 2, 3, 0, 0, 1, 2])
"""Of twelve trajectories; one task has a single one."""


def returns_of(seed: int) -> Any:
    """Returns of the twelve, with ties."""
    return torch.randint(4, (12,), generator=torch.Generator().manual_seed(seed)).double() / 4


def slow_loss(ratios: Any, returns: Any, tasks: Any, beta: float, margins: list[float] | None = None) -> Any:
    """The formula, task by task and pair by pair; `margins` get those of all pairs."""
    means = []
    for task in range(int(tasks.max()) + 1):
        rows = [row for row in range(len(returns)) if tasks[row] == task]
        said = [beta * (ratios[i] - ratios[j]) for i in rows for j in rows if returns[i] > returns[j]]
        if margins is not None:
            margins.extend(float(each.detach()) for each in said)
        if said:
            means.append(sum(torch.log(1 + torch.exp(-each)) for each in said) / len(said))
    assert len(means) >= 2
    return sum(means) / len(means)


def slow_best(logps: Any, tokens: Any, returns: Any, tasks: Any) -> Any:
    """Of each task the mean over its best, one by one, of what a token of it costs; then the mean over the tasks."""
    means = []
    for task in sorted(set(tasks.tolist())):
        rows = [row for row in range(len(returns)) if tasks[row] == task]
        most = max(float(returns[row]) for row in rows)
        costs = [-logps[row] / tokens[row] for row in rows if float(returns[row]) == most]
        means.append(sum(costs) / len(costs))
    return sum(means) / len(means)


def slow_logp(model: Any, sample: Sample) -> Any:
    """Sum over the agent's tokens of log pi(a_t | before), token by token."""
    ids = sample.input_ids
    logits = model(input_ids=torch.tensor([ids])).logits[0].double()
    return sum(torch.log_softmax(logits[t - 1], -1)[ids[t]] for t in range(1, len(ids)) if sample.mask[t])


def fit_of(loss_checks: Any, policy: Policy, played: list[Trajectory], **settings: Any) -> tuple[Ranking, Fit[Ranked]]:
    """A training on the tasks of the trajectories; the reference is the policy as it is now."""
    ranking = Ranking(**settings)
    data = prepare(policy, played, 4096)
    rows = ranking.rows(policy, data, ranking._groups(data)[0])
    return ranking, loss_checks.fitted(ranking, policy, rows, size_of=ranked_size)


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_is_the_formula(loss_checks: Any, seed: int) -> None:
    """In float64, against a loop over tasks and ordered pairs, of ratios and of tokens under ragged masks.

    Gradients are checked by differences.
    """
    ratios, returns, margins = 5 * loss_checks.drawn(12, seed=seed), returns_of(seed), list[float]()

    def slow(x: Any) -> Any:
        margins.clear()
        return slow_loss(x, returns, TASKS, 0.3, margins)

    loss_checks.check_formula(lambda x: ranking_loss(x, returns, TASKS, 0.3).loss, slow, ratios)
    found = ranking_loss(ratios, returns, TASKS, 0.3).margins_P
    assert sorted(found.tolist()) == pytest.approx(sorted(margins), rel=0, abs=1e-9)

    mask, refs = loss_checks.ragged(seed, 12), loss_checks.drawn(12, seed=seed + 20)

    def masked(x: Any) -> Any:
        return slow([sum(x[row, t] for t in range(9) if mask[row, t]) - refs[row] for row in range(12)])

    loss_checks.check_formula(
        lambda x: ranking_loss((x * mask).sum(-1) - refs, returns, TASKS, 0.3).loss, masked,
        5 * loss_checks.drawn(12, 9, seed=seed),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_the_best_are_imitated_by_the_formula(loss_checks: Any, seed: int) -> None:
    """In float64, of tokens under ragged masks; every task counts alike, and of several best ones each a share."""
    returns, mask = returns_of(seed), loss_checks.ragged(seed, 12)

    def slow(x: Any) -> Any:
        logps = [sum(x[row, t] for t in range(9) if mask[row, t]) for row in range(12)]
        return slow_best(logps, mask.sum(-1), returns, TASKS)

    loss_checks.check_formula(
        lambda x: best_loss((x * mask).sum(-1), mask.sum(-1), returns, TASKS), slow, loss_checks.drawn(12, 9, seed=seed)
    )


def test_order_and_splits_change_nothing(loss_checks: Any) -> None:
    """Rows in another order have the same loss, and a batch of several tasks the mean of theirs."""
    columns = {"ratios_R": 5 * loss_checks.drawn(12, seed=1), "returns_R": returns_of(1), "tasks_R": TASKS}
    every = torch.randperm(12, generator=torch.Generator().manual_seed(2))

    def loss_of(tasks: list[int], padding: int) -> Any:
        rows = [int(row) for task in tasks for row in every if TASKS[row] == task]
        return ranking_loss(**loss_checks.part(columns, rows), beta=0.1).loss

    loss_checks.check_rows(loss_of, 3)
    torch.testing.assert_close(
        ranking_loss(**columns, beta=0.1).loss, loss_of([0, 1, 2], 0), rtol=0, atol=1e-9
    )  # fmt: skip


def test_ties_alone_are_no_loss() -> None:
    """A batch without two different returns of one task has loss and gradient 0, not NaN."""
    ratios = torch.randn(3, dtype=torch.float64, requires_grad=True)
    found = ranking_loss(ratios, torch.tensor([1.0, 1.0, 0.0]), torch.tensor([0, 0, 1]), 0.1)
    torch.autograd.backward(found.loss)
    assert found.loss == 0 and found.margins_P.numel() == 0
    assert ratios.grad is not None and ratios.grad.abs().sum() == 0


def test_of_one_task_it_is_dpo_on_every_pair() -> None:
    """The mean of DPO's sigmoid loss over all ordered pairs."""
    ratios, returns = torch.randn(5, dtype=torch.float64), torch.tensor([0.0, 1.0, 0.5, 0.5, 0.2])
    better, worse = zip(*[(i, j) for i in range(5) for j in range(5) if returns[i] > returns[j]], strict=True)
    sides = [LogRatios(ratios[list(rows)], torch.ones(9)) for rows in (better, worse)]
    expected = dpo_loss(sides[0], sides[1], 0.1).mean()
    torch.testing.assert_close(ranking_loss(ratios, returns, torch.zeros(5), 0.1).loss, expected, rtol=0, atol=1e-9)


def test_with_two_trajectories_a_task_it_is_dpo(tiny_policy: Any, tmp_path: Path, fresh: Any) -> None:
    """Losses at every step and the weights after the training are those of the trainer `dpo`."""
    jobs = jobs_for([EnvSpec("shop", {"max_steps": 8})], "train", range(3))
    played = Collector(ExpertAgent()).collect_batch(jobs) + Collector(RandomAgent()).collect_batch(jobs)
    same: Any = {"batch_size": 2, "epochs": 2, "learning_rate": 1e-4}
    reports, ended = [], []
    for trainer in (DPO(**same, sft_weight=0.7), Ranking(**same, sft_weight=0.7)):
        policy = fresh(tiny_policy)
        reports.append(trainer.train(policy, played, seed=1, output_dir=tmp_path))
        ended.append(torch.cat([each.detach().flatten() for each in policy.model.parameters()]))
    assert reports[0].loss == pytest.approx(reports[1].loss, rel=1e-4)
    torch.testing.assert_close(*ended, rtol=1e-3, atol=2e-5)


def walks(episode: Callable[..., Trajectory], *returns: float, task: str = "shop/train/easy/1") -> list[Trajectory]:
    """One short trajectory of the task a return."""
    made = [episode("look", f"buy {n}", task=task, reward=each) for n, each in enumerate(returns)]
    return [replace(each, id=f"t{n}") for n, each in enumerate(made)]


def test_it_ranks_the_trajectories_of_a_task(
    tiny_policy: Any, episode: Callable[..., Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """After the training what did better has gained more, for every pair; the report counts tasks and ties."""
    returns = (0.0, 1.0, 0.4, 0.4, 0.8)
    played, policy = walks(episode, *returns), fresh(tiny_policy)
    others = [*walks(episode, 0.0, 0.0, task="other"), *walks(episode, 1.0, task="lone")]
    report = Ranking(epochs=60, learning_rate=3e-3, sft_weight=0).train(
        policy, [*played, *others], seed=0, output_dir=tmp_path
    )
    samples = [encode(each, policy.chat) for each in played]
    before, after = (sample_logprobs(each.model, samples, 5) for each in (tiny_policy, policy))
    gained = [b - a for a, b in zip(before, after, strict=True)]
    pairs = [(i, j) for i in range(5) for j in range(5) if returns[i] > returns[j]]
    assert all(gained[i] > gained[j] for i, j in pairs) and report.loss[-1] < 0.5
    assert report.trajectories == 5 and report.metrics["tasks"] == 1 and report.metrics["ties"] == 2
    assert report.dropped == {"alone at their task": 1, "without a better or worse one of their task": 2}
    assert report.tokens == 60 * sum(len(each.input_ids) for each in samples), "each goes through once an epoch"


def several(episode: Callable[..., Trajectory]) -> list[Trajectory]:
    """Three trajectories of one task, one of them longer, and two of another."""
    longer = episode("look", "look again", "buy 0", reward=1.0)
    return [longer, *walks(episode, 0.5, 0.0), *walks(episode, 0.2, 0.7, task="other")]


def test_a_batch_is_its_tasks_whole(
    tiny_policy: Any, episode: Callable[..., Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """All trajectories of as many tasks as the batch holds, with returns and the reference's log-probabilities.

    Its loss and gradient are the formula's, token by token. Observations get none; padding, order and a split into
    tasks do not matter.
    """
    played, policy = several(episode), loss_checks.doubled(fresh(tiny_policy))
    by_return = {each.reward: encode(each, policy.chat) for each in played}
    ranking, fit = fit_of(loss_checks, policy, played, batch_size=2, sft_weight=0.7)
    assert sorted(sorted(row.returns) for row in fit.rows) == [[0.0, 0.5, 1.0], [0.2, 0.7]]
    for row in fit.rows:
        assert row.samples == [by_return[each] for each in row.returns]
        assert row.refs == pytest.approx([float(slow_logp(policy.model, each)) for each in row.samples], rel=1e-9)

    loss_checks.moved(policy)  # or what comes of the middle one's two pairs were equal and opposite
    agent = pad_rows([sample.mask for row in fit.rows for sample in row.samples])
    loss_checks.check_observations(policy.model, agent, lambda: loss_checks.share(ranking, fit, fit.rows))

    def share(tasks: list[int], padding: int) -> Any:
        with loss_checks.wider(padding):
            return loss_checks.share(ranking, fit, [fit.rows[i] for i in tasks], 2).detach()

    loss_checks.check_rows(share, 2, summed=True)

    policy.model.zero_grad()
    slow = copy.deepcopy(policy.model)
    logps = [slow_logp(slow, sample) for row in fit.rows for sample in row.samples]
    ratios = [logp - ref for logp, ref in zip(logps, [ref for row in fit.rows for ref in row.refs], strict=True)]
    tokens = [sum(sample.mask[1:]) for row in fit.rows for sample in row.samples]
    of = (
        torch.tensor([each for row in fit.rows for each in row.returns]),
        torch.tensor([number for number, row in enumerate(fit.rows) for _ in row.samples]),
    )
    expected = slow_loss(ratios, *of, 0.1) + 0.7 * slow_best(logps, tokens, *of)
    loss = loss_checks.share(ranking, fit, fit.rows)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-9)
    loss.backward()
    expected.backward()
    loss_checks.check_gradients(loss_checks.gradients_of(policy.model), loss_checks.gradients_of(slow))


def test_a_microbatch_holds_whole_tasks_and_no_more_tokens_than_it_may(
    tiny_policy: Any, episode: Callable[..., Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """A task is never cut, and a task of few short rows beside one of many counts by its rows."""
    played = [*walks(episode, *(n / 10 for n in range(8))), *several(episode)[:1]]
    played += [episode("look", "look again", "buy", reward=each, task="long") for each in (0.0, 1.0)]
    _, fit = fit_of(loss_checks, fresh(tiny_policy), played)
    tokens = {len(row.samples): ranked_size(row).tokens for row in fit.rows}
    assert sorted(tokens) == [2, 8]
    together = 10 * max(count // number for number, count in tokens.items())
    for most, parts in ((together, 1), (together - 1, 2), (1, 2)):
        _, fit = fit_of(loss_checks, fresh(tiny_policy), played, microbatch_tokens=most)
        found = list(fit.microbatches(fit.rows))
        assert len(found) == parts and sorted(len(row.samples) for part in found for row in part) == [2, 8]


def test_with_two_trajectories_a_task_the_loss_is_trls(
    tiny_policy: Any, episode: Callable[..., Trajectory], fresh: Any, loss_checks: Any, trl_reference: Any
) -> None:
    """Loss and gradient are those of trl's DPOTrainer; with imitation of the best, for a batch of one task."""
    played = [*several(episode)[:2], *walks(episode, 0.2, 0.7, task="other")]
    for sft_weight, tasks in ((0.0, 2), (0.7, 1)):
        policy = loss_checks.doubled(fresh(tiny_policy))
        reference = copy.deepcopy(policy)
        ranking, fit = fit_of(loss_checks, policy, played[: 2 * tasks], sft_weight=sft_weight)
        loss_checks.moved(policy)
        samples = [
            row.samples[i] for row in fit.rows for i in sorted((0, 1), key=lambda i: -row.returns[i])
        ]  # fmt: skip
        weights = {"sigmoid": 1.0} | ({"sft": sft_weight} if sft_weight else {})
        theirs = trl_reference.dpo_loss_of(policy, reference, samples, weights, beta=0.1)
        loss, gradients = loss_checks.share_gradients(ranking, fit, fit.rows)
        torch.testing.assert_close(loss.float(), theirs.loss.float(), rtol=1e-6, atol=0)
        loss_checks.check_gradients(gradients.items(), theirs.gradients.items(), rel=1e-6)


def test_the_best_one_becomes_likelier_too(
    tiny_policy: Any, episode: Callable[..., Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """By its default the best of a task gains more than by ranking alone."""
    played, gained = walks(episode, 0.0, 1.0, 0.4), []
    for settings in (Ranking(epochs=30, learning_rate=3e-3), Ranking(epochs=30, learning_rate=3e-3, sft_weight=0)):
        policy = fresh(tiny_policy)
        report = settings.train(policy, played, seed=0, output_dir=tmp_path)
        for row in report.history if settings.sft_weight else ():
            assert row["loss"] == pytest.approx(row["loss/ranking"] + row["loss/best"], abs=2e-3)
        best = [encode(each, policy.chat) for each in played[1:2]]
        gained.append(sample_logprobs(policy.model, best, 1)[0] - sample_logprobs(tiny_policy.model, best, 1)[0])
    assert gained[0] > gained[1] + 1


def test_only_what_went_on_from_one_state_is_ranked(tiny_policy: Any, episode: Callable[..., Trajectory]) -> None:
    """Two forks of one task are two groups: what led there differs, and is learnt on neither side."""

    def gone_on(first: str, reward: float) -> Trajectory:
        whole = episode(first, f"buy[{reward}]", reward=reward)
        return replace(whole, steps=(replace(whole.steps[0], trained=False), *whole.steps[1:]))

    played = [gone_on("look", 1.0), gone_on("run", 1.0), gone_on("look", 0.0), gone_on("run", 0.0), episode("buy")]
    kept = prepare(tiny_policy, played, 4096)
    groups, counts = Ranking()._groups(kept)
    assert groups == [[0, 2], [1, 3]] and counts["tasks"] == 2 and kept.dropped == {"alone at their task": 1}


def test_a_task_gives_at_most_so_many(
    tiny_policy: Any, episode: Callable[..., Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """Evenly from the best to the worst; the others are counted."""
    assert (
        pick_evenly(range(3), 4) == [0, 1, 2]
        and pick_evenly(range(10), 4) == [0, 3, 6, 9]
        and pick_evenly(range(5), 2) == [0, 4]
    )
    played = walks(episode, *(n / 10 for n in range(10)))
    report = Ranking(epochs=1, max_per_task=4).train(fresh(tiny_policy), played, seed=0, output_dir=tmp_path)
    assert report.trajectories == 4 and report.dropped == {"beyond 4 of their task": 6}


def test_no_pair_is_an_error(tiny_policy: Any, episode: Callable[..., Trajectory], tmp_path: Path, fresh: Any) -> None:
    """Where all did equally well there is nothing to rank, and it is said why."""
    with pytest.raises(NothingToTrainOnError, match=r"ranking: nothing left of 3 .*3 without a better or worse"):
        Ranking().train(fresh(tiny_policy), walks(episode, 0.5, 0.5, 0.5), seed=0, output_dir=tmp_path)


def test_wrong_settings_are_refused() -> None:
    """Settings that cannot be meant raise at once and are named."""
    for name, value in {"beta": 0.0, "max_per_task": 1, "sft_weight": -1.0, "epochs": 0}.items():
        with pytest.raises(ConfigError, match=name):
            Ranking(**{name: value})  # type: ignore[arg-type]  # one of several
