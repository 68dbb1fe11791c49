from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import agent_logits, agent_logprobs, pad_samples, sample_logprobs
from agentgym_py.policy.tokens import IGNORED, RowSize, encode
from agentgym_py.training.data import length_grouped, row_key
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.step_kinds import by_action
from agentgym_trainers.filtered_bc import FilteredBC, bc_loss
from agentgym_trainers.weighted_bc import Weighted, WeightedBC, advantage_weights, softmax_weights, weighted_bc_loss


@pytest.fixture(scope="module")
def demos(episode: Any) -> list[Trajectory]:
    """Six successful trajectories of different lengths; two tries at each of three tasks."""
    words = ("search red cup", "open the first", "choose red", "buy it", "wait", "leave the shop")
    return [episode(*words[: n + 1], task=f"task {n // 2}", id=f"demo {n}") for n in range(6)]


def with_returns(trajectories: list[Trajectory], *returns: float) -> list[Trajectory]:
    """The trajectories with other returns."""
    return [replace(each, reward=r) for each, r in zip(trajectories, returns, strict=True)]


def weighted(policy: Policy, trajectories: list[Trajectory], *weights: float) -> list[Weighted]:
    """The rows that are trained on, of these weights."""
    samples = [encode(each, policy.chat) for each in trajectories]
    return [Weighted(sample, weight) for sample, weight in zip(samples, weights, strict=True)]


def tokens_of(rows: list[Weighted]) -> int:
    """Number of agent tokens of the rows."""
    return sum(sum(row.sample.mask) for row in rows)


def row_size(row: Weighted) -> RowSize:
    """Return what a row takes in a forward pass."""
    return RowSize.of(row.sample)


def loss_of(logprobs: Any, mask: Any, weights: Any, tokens: int | None = None) -> Any:
    """The loss of a batch of rows."""
    return weighted_bc_loss(logprobs[mask], weights[:, None].expand(mask.shape)[mask], tokens)


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_is_the_formula(loss_checks: Any, seed: int) -> None:
    """In float64, against loops over rows and tokens; its gradient is checked by differences."""
    mask, weights = loss_checks.ragged(seed), loss_checks.drawn(5, seed=seed + 9) ** 2

    def slow(logprobs: Any) -> Any:
        total, count = torch.zeros((), dtype=torch.float64), 0
        for row in range(5):
            for t in range(9):
                if mask[row, t]:
                    total, count = total - weights[row] * logprobs[row, t], count + 1
        return total / count

    loss_checks.check_formula(lambda x: loss_of(x, mask, weights), slow, loss_checks.drawn(5, 9, seed=seed))


def test_padding_order_and_splits_change_nothing(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any, loss_checks: Any
) -> None:
    """A batch in another order or with more padding has the same loss; its parts add up where the step's tokens count.

    So it is of the loss alone.
    """
    mask, weights, logprobs = loss_checks.ragged(7), loss_checks.drawn(5, seed=7) ** 2, loss_checks.drawn(5, 9, seed=8)
    columns = {"logprobs": logprobs, "mask": mask, "weights": weights}

    def pure(rows: list[int], padding: int) -> Any:
        return loss_of(**loss_checks.part(columns, rows, padding), tokens=int(mask.sum()))

    loss_checks.check_rows(pure, 5, summed=True)
    policy, trainer = loss_checks.doubled(fresh(tiny_policy)), WeightedBC()
    rows = weighted(policy, demos, 0.5, 1.0, 1.5, 0.1, 3.0, 0.7)
    fit = loss_checks.fitted(trainer, policy, rows, size_of=row_size)

    def whole(places: list[int], padding: int) -> Any:
        with loss_checks.wider(padding):
            return loss_checks.share(trainer, fit, [rows[i] for i in places], tokens_of(rows)).detach()

    loss_checks.check_rows(whole, 6, summed=True)


def test_softmax_weights_have_mean_one() -> None:
    """They are N softmax(R / T): equal returns weigh 1, a cold softmax leaves the best, large returns are safe."""
    for returns in ([0.0, 1.0, 0.5], [3.0] * 4, [1e4, -1e4, 9999.0]):
        for temperature in (0.1, 1.0, 7.0):
            weights = softmax_weights(returns, temperature)
            assert math.isclose(sum(weights) / len(weights), 1.0)
            expected = len(returns) * torch.softmax(torch.tensor(returns, dtype=torch.float64) / temperature, 0)
            assert torch.allclose(torch.tensor(weights, dtype=torch.float64), expected, rtol=0, atol=1e-9)
    assert softmax_weights([0.7] * 3, 0.5) == [1.0] * 3
    assert softmax_weights([0.0, 1.0], 1e-3) == [0.0, 2.0]


def test_advantage_weights_are_clipped() -> None:
    """exp((R - b) / T), at most `max_weight`, without overflow."""
    found = advantage_weights([0.0, 0.5, 1.0, 1e6], [0.5] * 4, 0.5, 20.0)
    assert found == pytest.approx([math.exp(-1), 1.0, math.exp(1), 20.0], rel=1e-9)


def test_a_mode_says_what_a_return_weighs(episode: Callable[..., Trajectory]) -> None:
    """The baseline is the mean of all, or of the task; AgentEvol's weight is the return, and never negative."""
    played = [episode("a", task=task, reward=r) for task, r in (("x", 1.0), ("x", 0.5), ("y", 0.0), ("y", -0.5))]
    e = math.exp
    assert WeightedBC(mode="agentevol").weights(played) == [1.0, 0.5, 0.0, 0.0]
    assert WeightedBC().weights(played) == softmax_weights([1.0, 0.5, 0.0, -0.5], 0.1)
    by_mean = WeightedBC(mode="advantage", temperature=0.5).weights(played)
    assert by_mean == pytest.approx([e(1.5), e(0.5), e(-0.5), e(-1.5)], rel=1e-9)
    by_task = WeightedBC(mode="advantage", baseline="task", temperature=1.0, max_weight=1.2).weights(played)
    assert by_task == pytest.approx([1.2, e(-0.25), 1.2, e(-0.25)], rel=1e-9)


def test_equal_returns_are_filtered_bc_to_the_bit(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """Where all weigh 1 the losses at every step and the weights after the training are those of `filtered_bc`."""
    reports, digests = [], []
    for trainer in (FilteredBC(batch_size=2), WeightedBC(batch_size=2), WeightedBC(batch_size=2, mode="agentevol")):
        policy = fresh(tiny_policy)
        reports.append(trainer.train(policy, demos, seed=1, output_dir=tmp_path))
        digests.append(policy.digest())
    assert len(set(digests)) == 1 != tiny_policy.digest() and reports[0].loss == reports[1].loss == reports[2].loss
    assert all(torch.equal(bc_loss(x), weighted_bc_loss(x, torch.ones(40))) for x in torch.randn(5, 40))


def test_equal_returns_are_trls_sft(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any, trl_reference: Any
) -> None:
    """Trained by trl's own SFTTrainer on the same batches, losses and weights come out the same."""
    ours, theirs, settings = fresh(tiny_policy), fresh(tiny_policy), WeightedBC(batch_size=2)
    report = settings.train(ours, demos, seed=1, output_dir=tmp_path)
    samples = [encode(each, theirs.chat) for each in demos]
    batches = length_grouped([len(sample.input_ids) for sample in samples], [row_key(s) for s in samples], settings, 1)
    assert len(batches) == 6 and sorted(i for batch in batches for i in batch) == sorted([*range(6)] * 2)
    trainer = trl_reference.sft_trainer(theirs, samples, tmp_path, **trl_reference.settings_of(settings, 6))
    losses = trl_reference.trained(trainer, batches)
    assert report.loss == pytest.approx(losses, rel=1e-4) and len(losses) == 6 and losses[0] != losses[-1]
    for mine, other in zip(ours.model.parameters(), trainer.model.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-5)


def test_the_weights_stay_with_their_rows(
    tiny_policy: Any,
    demos: list[Trajectory],
    fresh: Any,
    loss_checks: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Through the order of the training; a batch's loss is the sum of its rows' own, each times its weight."""
    policy, trainer = fresh(tiny_policy), WeightedBC(batch_size=3, epochs=1, mode="agentevol")
    returns = [0.5, 1.0, 1.5]
    played = with_returns(demos[::2], *returns)
    rows, seen = weighted(policy, played, *returns), list[Weighted]()
    shuffled = [rows[i] for i in (2, 0, 1)]
    fit = loss_checks.fitted(trainer, policy, shuffled, size_of=row_size)
    alone = sample_logprobs(policy.model, [row.sample for row in rows], 1)
    policy.model.train()
    expected = -sum(row.weight * logprob for row, logprob in zip(rows, alone, strict=True)) / tokens_of(rows)
    found = loss_checks.share(trainer, fit, shuffled, tokens_of(rows)).item()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    loss = WeightedBC.loss

    def watched(self: WeightedBC, fit: Any, part: Any, tokens: int) -> Any:
        seen.extend(part)
        return loss(self, fit, part, tokens)

    monkeypatch.setattr(WeightedBC, "loss", watched)
    trainer.train(fresh(tiny_policy), played, seed=0, output_dir=tmp_path)
    assert len(seen) == 3 and sorted(seen, key=row_size) == sorted(rows, key=row_size)


def test_a_split_batch_makes_the_same_step(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """Two batches of two a step end where one batch of four ends: the loss is normalised by the step's tokens."""
    played, ended = with_returns(demos, 1.0, 0.2, 0.9, 0.0, 0.4, 0.7), []
    for size, accumulate in ((4, 1), (2, 2)):
        policy = fresh(tiny_policy)
        settings = WeightedBC(epochs=2, batch_size=size, gradient_accumulation=accumulate, learning_rate=1e-3)
        settings.train(policy, played[:4], seed=0, output_dir=tmp_path)
        ended.append(torch.cat([each.detach().flatten() for each in policy.model.parameters()]))
    torch.testing.assert_close(*ended, rtol=1e-3, atol=1e-5)


def test_observations_get_no_gradient(tiny_policy: Any, demos: list[Trajectory], fresh: Any, loss_checks: Any) -> None:
    """Of the last states only those before an agent's token have a gradient, larger where the weight is."""
    policy, trainer = fresh(tiny_policy), WeightedBC()
    rows = weighted(policy, [demos[0], demos[0]], 1.0, 3.0)
    fit = loss_checks.fitted(trainer, policy, rows, size_of=row_size)
    agent = pad_samples([row.sample for row in rows])[1] != IGNORED
    light, heavy = loss_checks.check_observations(
        policy.model, agent, lambda: loss_checks.share(trainer, fit, rows, tokens_of(rows))
    )  # fmt: skip
    torch.testing.assert_close(heavy, 3 * light)


@pytest.mark.parametrize("mode", ["softmax", "advantage", "agentevol"])
def test_it_solves_a_bandit(
    tiny_policy: Any, tmp_path: Path, episode: Callable[..., Trajectory], mode: Any, fresh: Any, choices: Any
) -> None:
    """From both arms alike, within 40 steps it takes the better one nine times in ten."""
    settings = WeightedBC(mode=mode, temperature=0.1, epochs=20, learning_rate=1e-2, batch_size=4)
    arms = [episode("left", reward=1.0), episode("right", reward=0.0)]
    policy = fresh(tiny_policy)
    settings.train(policy, arms * 4, seed=0, output_dir=tmp_path)
    left, right = choices(policy, [], "left", "right")
    assert left - right > math.log(9)


def test_it_solves_a_chain(
    tiny_policy: Any, tmp_path: Path, episode: Callable[..., Trajectory], fresh: Any, choices: Any
) -> None:
    """From all walks alike, of which only five right steps lead anywhere, within 100 steps it goes right at each.

    The policy, as it comes, would rather go wrong.
    """
    settings = WeightedBC(temperature=0.1, epochs=25, learning_rate=1e-2, batch_size=8)
    walks = [list(each) for each in product(("go", "stop"), repeat=5)]
    policy = fresh(tiny_policy)
    settings.train(
        policy, [episode(*walk, reward=float(walk == ["stop"] * 5)) for walk in walks], seed=0, output_dir=tmp_path
    )
    for done in range(5):
        go, stop = choices(tiny_policy, ["stop"] * done, "go", "stop")
        assert stop < go, done
        go, stop = choices(policy, ["stop"] * done, "go", "stop")
        assert stop - go > math.log(9), done


def test_nothing_of_weight_is_an_error(tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any) -> None:
    """Returns of 0 weigh nothing with `agentevol`: they are left out and counted, and alone they are an error."""
    zero = with_returns(demos[:3], 0.0, -1.0, 0.0)
    report = WeightedBC(epochs=1, mode="agentevol").train(
        fresh(tiny_policy), [*zero, demos[3]], seed=0, output_dir=tmp_path
    )
    assert (report.trajectories, report.dropped) == (1, {"of weight 0": 3})
    assert report.metrics["weights/effective"] == 1.0
    with pytest.raises(NothingToTrainOnError, match="nothing left of 3 trajectories: 3 of weight 0"):
        WeightedBC(mode="agentevol").train(fresh(tiny_policy), zero, seed=0, output_dir=tmp_path)


def test_failures_that_all_count_alike_are_noted(
    tiny_policy: Any, tmp_path: Path, episode: Callable[..., Trajectory], fresh: Any
) -> None:
    """Cloning them is said, in the report and by a warning; where one succeeded, or returns differ, there is none."""
    for returns, noted in (((0.0, 0.0), True), ((0.0, 0.2), False), ((1.0, 1.0), False)):
        for mode in ("softmax", "advantage"):
            data = [replace(episode("left"), reward=each, success=each == 1) for each in returns]
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                report = WeightedBC(epochs=1, mode=mode).train(fresh(tiny_policy), data, seed=0, output_dir=tmp_path)
            assert [note for note in report.notes if "all 2 trajectories failed and returned 0" in note] == [
                str(each.message) for each in said if "the policy cloned failures" in str(each.message)
            ]
            assert bool(report.notes) == noted


def test_wrong_settings_are_refused() -> None:
    """Settings that cannot be meant raise at once and are named."""
    wrong: dict[str, Any] = {"temperature": 0.0, "max_weight": float("inf"), "mode": "hard", "baseline": "none"}
    for name, value in (wrong | {"epochs": 0}).items():
        with pytest.raises(ConfigError, match=name):
            WeightedBC(**{name: value})


SHARES = {"tool_selection": 0.35, "planning": 0.3, "timing": 0.2, "retrieval": 0.15}


@pytest.mark.parametrize("shares", [SHARES, {"timing": 1.0}, {"retrieval": 3, "planning": 1, "juggling": 5}], ids=str)
def test_kinds_of_steps_have_their_shares(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any, shares: dict[str, float]
) -> None:
    """Against a loop over trajectories, steps and tokens: each kind has its share of the weights, whatever its tokens.

    The loss of a whole step is the sum over tokens of both weights; the report has the share of the tokens by kind.
    """
    data = with_returns(demos, 1.0, 0.5, 1.0, 0.0, 2.0, 1.0)
    trainer = WeightedBC(mode="agentevol", kind_weights=shares, batch_size=6, epochs=1, learning_rate=1e-9)
    kept, sums, count = [each for each in data if each.reward], dict[str, float](), dict[str, int]()
    tokens = list[tuple[Trajectory, str, float]]()
    for trajectory in kept:
        for number, step in enumerate(trajectory.steps):
            kind = by_action(trajectory, number)
            for _ in tiny_policy.chat.reply(step.reply):
                tokens.append((trajectory, kind, trajectory.reward))
                sums[kind] = sums.get(kind, 0.0) + trajectory.reward
                count[kind] = count.get(kind, 0) + 1
    present = sum(shares.get(kind, 0.0) for kind in sums)
    total = sum(sums.values())
    slow = [reward * shares.get(kind, 0.0) / present / (sums[kind] / total) for _, kind, reward in tokens]
    for kind in sums:
        of_kind = sum(weight for weight, (_, name, _) in zip(slow, tokens, strict=True) if name == kind)
        assert of_kind / sum(slow) == pytest.approx(shares.get(kind, 0.0) / present)
    used, weights = trainer._prepare(tiny_policy, data)
    rows, kinds = trainer._rows(tiny_policy, used, weights)
    assert [weight for row in rows for weight in row.token_weights] == pytest.approx(slow)
    assert kinds == {f"kinds/{kind}": count[kind] / len(tokens) for kind in sorted(count)}
    policy = fresh(tiny_policy)
    report = trainer.train(policy, data, seed=0, output_dir=tmp_path)
    logps = []
    for trajectory in kept:
        ids, labels = pad_samples([encode(trajectory, tiny_policy.chat)])
        logps += agent_logprobs(agent_logits(tiny_policy.model, ids, labels)).tolist()
    expected = -sum(weight * logp for weight, logp in zip(slow, logps, strict=True)) / len(logps)
    assert report.loss[0] == pytest.approx(expected, rel=1e-4)
    assert report.metrics.items() >= kinds.items()


def test_kinds_without_a_share_are_refused(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """If no step is of a kind with a share, the error names the kinds that there are."""
    with pytest.raises(NothingToTrainOnError, match="there are planning, retrieval, timing"):
        WeightedBC(kind_weights={"joy": 1}).train(fresh(tiny_policy), demos, seed=0, output_dir=tmp_path)
    for wrong in ({}, {"planning": -1.0}, {"planning": 0.0}, {"planning": math.inf}):
        with pytest.raises(ConfigError, match="kind_weights must be numbers of at least 0"):
            WeightedBC(kind_weights=wrong)
    with pytest.raises(ConfigError, match="step_kind needs kind_weights"):
        WeightedBC(step_kind="my.py")
