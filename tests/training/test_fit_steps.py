"""What the steps of an offline training are made of: the order of rows, shares of processes, what is logged."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py import distributed
from agentgym_py.policy.tokens import RowSize, Sample, encode
from agentgym_py.training import tracking
from agentgym_py.training.data import Pair, length_grouped, pair_size, repeat_epochs, row_key, sequential_batches
from agentgym_py.training.settings import OfflineSettings
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.dpo import DPO
from agentgym_trainers.filtered_bc import FilteredBC


@pytest.fixture(scope="module")
def played(episode: Any) -> list[Trajectory]:
    """Of each of five tasks a good and a bad trajectory, of different lengths."""
    words = ("search cup", "open it", "buy it", "leave", "go back")
    good = [episode(*words[: n + 1], task=f"task {n}", id=f"good {n}") for n in range(5)]
    bad = [episode("wait", *words[n:], task=f"task {n}", id=f"bad {n}", reward=0.0, success=False) for n in range(5)]
    return [*good, *bad]


# ---- what is logged --------------------------------------------------------------------------------------------


def test_the_history_has_at_most_twenty_rows(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is the mean of the steps since the last; a training that is tracked has a row for every step.

    The weights are the same.
    """
    settings = FilteredBC(epochs=6, batch_size=1)
    short, long = fresh(tiny_policy), fresh(tiny_policy)
    few = settings.train(short, played, seed=0, output_dir=tmp_path).history
    monkeypatch.setattr(tracking, "is_tracking", lambda: True)
    every = settings.train(long, played, seed=0, output_dir=tmp_path).history
    assert len(every) == 30 and len(few) == 15 and short.digest() == long.digest()
    for number, row in enumerate(few):
        steps = every[2 * number : 2 * number + 2]
        assert row["loss"] == pytest.approx(sum(step["loss"] for step in steps) / 2, rel=1e-9)
        assert (row["learning_rate"], row["grad_norm"]) == (steps[-1]["learning_rate"], steps[-1]["grad_norm"])
    monkeypatch.undo()
    for epochs, rows in {1: 1, 20: 20, 21: 11}.items():
        report = FilteredBC(epochs=epochs).train(fresh(tiny_policy), played[:1], seed=0, output_dir=tmp_path)
        assert len(report.history) == rows


def test_what_it_logs_has_the_names_of_the_docs(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """In every row; docs/guides/tracking.md and the trainers' pages list them."""
    usual = {"loss", "grad_norm", "learning_rate"}
    cloned = FilteredBC(epochs=2).train(fresh(tiny_policy), played, seed=0, output_dir=tmp_path)
    assert cloned.history and all(set(row) == usual | {"mean_token_accuracy"} for row in cloned.history)
    pairs = DPO(epochs=2).train(fresh(tiny_policy), played, seed=0, output_dir=tmp_path)
    names = {f"rewards/{name}" for name in ("chosen", "rejected", "margins", "accuracies")}
    names |= {"logps/chosen", "logps/rejected", "loss/pairs", "loss/chosen"}
    assert pairs.history and all(set(row) == usual | names for row in pairs.history)
    measured = {"learning_rate", "weights_changed"}
    assert set(pairs.metrics) == names | measured | {"grad_norm", "pairs", "ties"}


# ---- the order of the data -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "size", "accumulate"), [(1, 4, 1), (10, 3, 1), (23, 2, 2), (900, 4, 1)])
def test_every_epoch_has_each_row_once(rows: int, size: int, accumulate: int) -> None:
    """In another order than the one before, rows of similar length together; a fraction of an epoch ends it early."""
    settings = OfflineSettings(epochs=2.5, batch_size=size, gradient_accumulation=accumulate)
    lengths = [(i * 7919) % 501 for i in range(rows)]
    step, found = size * accumulate, length_grouped(lengths, range(rows), settings, 3)
    each = math.ceil(rows / step)
    assert len(found) == math.ceil(2.5 * each) and found == length_grouped(lengths, range(rows), settings, 3)
    for epoch in (found[:each], found[each : 2 * each]):
        assert sorted(i for batch in epoch for i in batch) == list(range(rows))
        assert all(len(batch) == step for batch in epoch[:-1])
    if rows > 2 * step:
        assert found[:each] != found[each : 2 * each] and found != length_grouped(lengths, range(rows), settings, 4)
    if rows == 900:
        spread = [max(lengths[i] for i in batch) - min(lengths[i] for i in batch) for batch in found]
        assert sum(spread) / len(spread) < 30, "of lengths up to 500"
    plain = sequential_batches(rows, settings)
    assert plain[:each] == plain[each : 2 * each] and [i for batch in plain[:each] for i in batch] == [*range(rows)]
    assert len(repeat_epochs(lambda: iter([[0]] * each), rows, settings)) == len(found)


def test_the_order_keeps_if_a_row_is_missing() -> None:
    """So the batches of two trainings whose data differ by a row are nearly the same, and not drawn again."""
    samples = [Sample([1, 2, number], [0, 0, 1]) for number in range(40)]
    settings, fewer = OfflineSettings(epochs=2, batch_size=1), [s for s in samples if s.input_ids[2] != 7]

    def order(rows: list[Sample]) -> list[int]:
        batches = length_grouped([3] * len(rows), [row_key(row) for row in rows], settings, 5)
        return [rows[i].input_ids[2] for batch in batches for i in batch]

    assert order(fewer) == [number for number in order(samples) if number != 7]
    pairs = [Pair(a, b, ref_chosen=-2.5) for a, b in pairwise(samples)]
    assert row_key(pairs[0]) == row_key(Pair(samples[0], samples[1])) != row_key(pairs[1]), "by its tokens alone"
    assert row_key((samples[:1], 0.5)) == row_key(samples[0]) and row_key((0.5, "no tokens")) == ()


# ---- several processes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 3, 5])
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("kind", [FilteredBC, DPO])
def test_the_gradients_of_all_processes_add_up(
    kind: Any, rows: int, world: int, tiny_policy: Any, played: list[Trajectory], fresh: Any, loss_checks: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Their sum is the gradient of one process, in double precision to 1e-9; with one row some have none."""
    policy = loss_checks.doubled(fresh(tiny_policy))
    samples = [encode(each, policy.chat) for each in played]
    size_of: Callable[[Any], RowSize]
    if kind is FilteredBC:
        batch: list[Any] = samples[:rows]
        total, size_of = sum(sum(sample.mask) for sample in batch), RowSize.of
    else:
        batch = [Pair(*two, -3.0, -2.0) for two in zip(samples[:rows], samples[5 : 5 + rows], strict=True)]
        total, size_of = rows, pair_size
    trainer = kind(microbatch_tokens=150)
    fit = loss_checks.fitted(trainer, policy, batch, size_of=size_of)

    def gradients() -> list[tuple[str, Any]]:
        for part in fit.microbatches(batch):
            torch.autograd.backward(loss_checks.share(trainer, fit, part, total))
        return loss_checks.gradients_of(policy.model)  # type: ignore[no-any-return]  # untyped here

    whole, shares = gradients(), list[int]()
    policy.model.zero_grad()
    for rank in range(world):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(world))
        assert (distributed.rank(), distributed.world_size()) == (rank, world)
        shares.append(sum(len(part) for part in fit.microbatches(batch)))
        summed = gradients()
    assert sum(shares) == rows and max(shares) - min(shares) <= 1
    loss_checks.check_gradients(summed, whole, rel=1e-9)
