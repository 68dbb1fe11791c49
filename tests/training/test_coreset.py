"""Coresets: their rankings against slow references, their size, and what a training does with them."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_py import registry
from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, UnknownNameError
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import agent_logits, agent_logprobs, pad_samples
from agentgym_py.policy.tokens import encode
from agentgym_py.rng import Rng
from agentgym_py.training.coreset import (
    Candidate,
    Coreset,
    Diversity,
    Hybrid,
    LossTopK,
    Random,
    choose,
    coverage_order,
    load_coreset,
    ngram_counts,
    take,
)
from agentgym_py.training.trainer import require_single_trajectories
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.dpo import DPO
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.ppo import PPO
from agentgym_trainers.reward_model import RewardModelling

NAMES = registry.names("agentgym.coresets")


@pytest.fixture(scope="module")
def demos() -> list[Trajectory]:
    """Six expert trajectories of the shop, of different lengths."""
    return Collector(ExpertAgent()).collect_batch(jobs_for([EnvSpec("shop")], "train", range(6)))


def candidates(rows: Sequence[tuple[float, Sequence[int]]]) -> list[Any]:
    """Candidates of a loss and the agent's tokens."""
    return [Candidate(None, None, loss, tuple(ids)) for loss, ids in rows]  # type: ignore[arg-type]


def slow_coverage(counts: Sequence[Counter[Any]], costs: Sequence[int]) -> list[int]:
    """Compute every gain at every step."""
    order, left, covered = list[int](), list(range(len(counts))), Counter[Any]()

    def gain(i: int) -> float:
        before = math.fsum(math.sqrt(number) for number in covered.values())
        return (math.fsum(math.sqrt(number) for number in (covered + counts[i]).values()) - before) / costs[i]

    while left:
        best = max(gain(i) for i in left)
        position = next(i for i in left if gain(i) >= best - 1e-9)
        order.append(position)
        left.remove(position)
        covered += counts[position]
    return order


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=6))
def test_coverage_is_greedy(rows: list[list[int]]) -> None:
    """Lazy evaluation takes a trajectory with the gain of the best one; ties may differ by rounding."""
    counts, costs = [ngram_counts(ids, 2) for ids in rows], [len(ids) for ids in rows]
    order = coverage_order(counts, costs)
    assert sorted(order) == list(range(len(rows)))
    covered = Counter[Any]()
    for at, position in enumerate(order):
        gains = {
            i: (sum(math.sqrt(n) for n in (covered + counts[i]).values()) - sum(map(math.sqrt, covered.values())))
            / costs[i]
            for i in order[at:]
        }
        assert gains[position] >= max(gains.values()) - 1e-9
        covered += counts[position]


def test_rankings() -> None:
    """By loss per token, by its sum, by coverage, by the mean rank; equals in their order."""
    rows = candidates([(1.0, [1, 2, 3, 4, 5, 6]), (3.0, [1, 2]), (2.0, [1, 2]), (3.0, [7, 8])])
    rng = Rng(0)
    assert list(LossTopK().rank(rows, rng)) == [1, 3, 2, 0]
    assert list(LossTopK(per="trajectory").rank(rows, rng)) == [0, 1, 3, 2]
    counts, costs = [ngram_counts(c.agent_ids, 2) for c in rows], [len(c.agent_ids) for c in rows]
    covered = list(Diversity().rank(rows, rng))
    assert covered == slow_coverage(counts, costs) and covered[-1] == 2  # its only bigram is covered twice by then
    for weight, same in ((1.0, [1, 3, 2, 0]), (0.0, covered)):
        assert list(Hybrid(loss_weight=weight).rank(rows, rng)) == same
    drawn = [tuple(Random().rank(rows, Rng(seed))) for seed in range(20)]
    assert set(map(tuple, map(sorted, drawn))) == {(0, 1, 2, 3)} and len(set(drawn)) > 5
    assert rows[0].lexical_diversity == 1.0 and candidates([(0.0, [1, 1, 1, 2])])[0].lexical_diversity == 0.5


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.floats(0.01, 1.0))
def test_the_size_is_a_share(sizes: list[int], ratio: float) -> None:
    """The taken are the beginning of the order; one more would exceed the share. The first is always taken."""
    taken = take(range(len(sizes)), sizes, ratio)
    total, limit = sum(sizes[i] for i in taken), ratio * sum(sizes)
    assert taken == list(range(len(taken))) and taken
    assert total <= limit * (1 + 1e-6) or len(taken) == 1
    assert len(taken) == len(sizes) or total + sizes[len(taken)] > limit * (1 - 1e-6)
    assert len(take(range(10), [1] * 10, 0.3)) == 3


def test_a_coreset_is_measured_and_written(tiny_policy: Policy, demos: list[Trajectory], tmp_path: Path) -> None:
    """Loss, length and diversity of each, against a loop; the trainer leaves out what it cannot train on."""
    too_long = replace(demos[0], id="long", steps=demos[0].steps * 40)
    trainer = FilteredBC(max_length=2000)
    data = [*demos, too_long]
    chosen = choose(LossTopK(ratio=0.5), tiny_policy, data, trainer, seed=0, folder=tmp_path / "new")
    rows = [json.loads(line) for line in (tmp_path / "new" / "coreset.jsonl").read_text().splitlines()]
    by_id = {row["id"]: row for row in rows}
    for trajectory in demos:
        sample, row = encode(trajectory, tiny_policy.chat), by_id[trajectory.id]
        with torch.no_grad():
            logps = agent_logprobs(agent_logits(tiny_policy.model, *pad_samples([sample])))
        ids = [token for token, bit in zip(sample.input_ids, sample.mask, strict=True) if bit]
        assert row["loss"] == pytest.approx(-float(logps.mean()), rel=1e-5)
        assert (row["tokens"], row["agent_tokens"]) == (len(sample.input_ids), len(ids))
        assert row["lexical_diversity"] == len(set(ids)) / len(ids)
    measured = rows[:-1]
    assert [row["loss"] for row in measured] == sorted((row["loss"] for row in measured), reverse=True)
    assert rows[-1] == {
        "id": "long", "task": demos[0].task_id, "chosen": False, "reason": "longer than 2000 tokens",
    }  # fmt: skip
    assert [t.id for t in chosen.trajectories] == [t.id for t in data if by_id[t.id]["chosen"] or t.id == "long"]
    taken = [row for row in measured if row["chosen"]]
    assert (
        chosen.metrics["coreset/tokens"]
        == sum(row["tokens"] for row in taken)
        <= 0.5 * sum(row["tokens"] for row in measured)
    )
    assert chosen.left_out == len(measured) - len(taken) > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_training_takes_the_coreset(name: str, tiny_policy: Policy, demos: list[Trajectory], tmp_path: Path) -> None:
    """The same choice again, bit-identical; a share of 1 is the training without one."""
    import agentgym_py as ag

    def digest(coreset: Any, folder: str) -> tuple[str, Any]:
        policy = Policy(copy.deepcopy(tiny_policy.model), tiny_policy.tokenizer, "base")
        _, report = ag.train("filtered_bc", policy, demos, coreset=coreset, epochs=1, output_dir=tmp_path / folder)
        return policy.digest(), report

    part = {"name": name, "ratio": 0.5, "unit": "samples"}
    (first, report), (second, _) = digest(part, "a"), digest(part, "b")
    assert first == second and report.trajectories == 3 and report.dropped == {"outside the coreset": 3}
    assert report.metrics["coreset/samples"] == 3 and report.metrics["coreset/of_samples"] == 6
    assert (tmp_path / "a" / "coreset.jsonl").read_text() == (tmp_path / "b" / "coreset.jsonl").read_text()
    if name == NAMES[0]:
        assert digest({"name": name, "ratio": 1}, "c")[0] == digest(None, "d")[0] != first


def test_wrong_coresets_are_refused(tiny_policy: Policy, demos: list[Trajectory]) -> None:
    """Settings out of range, unknown names, trainers of other data, and a stranger's ranking that is none."""
    for wrong in ({"ratio": 0.0}, {"ratio": 1.5}, {"ratio": math.nan}, {"unit": "steps"}):
        with pytest.raises(ConfigError):
            Random(**wrong)
    with pytest.raises(ConfigError, match="loss_weight must be from 0 to 1"):
        Hybrid(loss_weight=2)
    with pytest.raises(UnknownNameError, match="Did you mean 'loss_topk'"):
        load_coreset("loss_top")
    with pytest.raises(ConfigError, match="takes no argument 'k'"):
        load_coreset({"name": "loss_topk", "k": 3})
    for trainer, message in (
        (DPO(), "DPO compares the attempts"), (PPO(), "PPO learns from its own episodes"),
        (RewardModelling(), "makes a reward_model"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            require_single_trajectories(trainer, "coreset")

    @dataclass(frozen=True, slots=True)
    class Mine(Coreset):
        order: Any = ()

        def rank(self, candidates: Sequence[Candidate], rng: Rng) -> Sequence[int]:
            return list(self.order)

    for order, message in (([], "it returned"), ([0, 0], "different positions from 0 to 5"), ([6], "0 to 5"),
                           ([0.9], "failed: TypeError"), (None, "failed: TypeError")):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            choose(Mine(order=order), tiny_policy, demos, FilteredBC(), seed=0, folder=None)
    chosen = choose(Mine(ratio=1.0, order=[4, 1]), tiny_policy, demos, FilteredBC(), seed=0, folder=None)
    assert [t.id for t in chosen.trajectories] == [demos[1].id, demos[4].id]
