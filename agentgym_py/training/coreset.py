"""Coresets: the part of the selected trajectories that an offline trainer learns from.

A coreset ranks the trajectories, and the training takes the first of them up to a share of their tokens or of their
number. Each trajectory is measured under the policy that is about to be trained: its loss, its length and its lexical
diversity. A coreset has no state: a training that resumes measures the same policy, and ranks the same trajectories.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentgym_py import distributed, registry
from agentgym_py.checks import require_arguments, require_at_least, require_field_types
from agentgym_py.errors import ConfigError, setting
from agentgym_py.files import write_atomic
from agentgym_py.policy.tokens import Sample
from agentgym_py.rng import Rng
from agentgym_py.training.data import prepare
from agentgym_py.training.trainer import TrainReport
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

FILE = "coreset.jsonl"
"""Has a line for each trajectory, the first in the ranking first."""
_BATCH = 8
"""Trajectories whose loss is measured in one forward pass."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trajectory that a trainer could learn from."""

    trajectory: Trajectory
    sample: Sample
    """The trajectory in tokens."""
    loss: float
    """Negative log-probability of an agent token under the policy that is about to be trained, the mean, in nats."""
    agent_ids: tuple[int, ...] = field(repr=False)
    """The tokens with a loss."""

    @property
    def tokens(self) -> int:
        """Number of tokens, including prompts and observations: what training on it costs."""
        return len(self.sample.input_ids)

    @property
    def lexical_diversity(self) -> float:
        """Share of different tokens among the agent's, above 0 and at most 1 (distinct-1, arXiv:1510.03055)."""
        return len(set(self.agent_ids)) / len(self.agent_ids)


@dataclass(frozen=True, slots=True)
class Coreset:
    """A plugin of the group `agentgym.coresets`: inherit this dataclass, add settings, and override `rank`."""

    ratio: float = 1 / 3
    """Share of the data to train on, above 0 and at most 1."""
    unit: Literal["tokens", "samples"] = "tokens"
    """Whether that is a share of the tokens, which is the cost of the training, or of the number of trajectories."""

    def __post_init__(self) -> None:
        require_field_types(self)
        if not 0 < self.ratio <= 1:
            raise ConfigError(f"ratio must be above 0 and at most 1, got {self.ratio:g}")

    def rank(self, candidates: Sequence[Candidate], rng: Rng) -> Sequence[int]:
        """Return the positions of candidates in the order in which the coreset takes them.

        It takes them until the next one would exceed the share, and always the first. Positions that are missing are
        never taken.

        Args:
            candidates: The trajectories that can be trained on; at least one.
            rng: The only source of chance, seeded with the run's seed and round.
        """
        raise NotImplementedError


# ---- the coresets ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LossTopK(Coreset):
    """The trajectories that the policy predicts worst."""

    per: Literal["token", "trajectory"] = "token"
    """Whether the mean loss per agent token counts, or the sum over the trajectory, which prefers long ones."""

    def rank(self, candidates: Sequence[Candidate], rng: Rng) -> Sequence[int]:
        """Sort by loss, the largest first; of equals the earlier one."""
        del rng
        whole = self.per == "trajectory"
        losses = [c.loss * (len(c.agent_ids) if whole else 1) for c in candidates]
        return sorted(range(len(losses)), key=lambda i: -losses[i])


@dataclass(frozen=True, slots=True)
class Diversity(Coreset):
    """Trajectories whose replies differ: greedy coverage of their n-grams.

    Each step takes the trajectory with the largest gain per agent token of f(S) = sum over n-grams g of
    sqrt(count of g in S), which rewards new n-grams most (feature-based submodular selection, Wei et al., ICASSP 2014).
    """

    ngram: int = 2
    """Tokens in an n-gram of the agent's replies."""

    def __post_init__(self) -> None:
        Coreset.__post_init__(self)
        require_at_least(self, {"ngram": 1})

    def rank(self, candidates: Sequence[Candidate], rng: Rng) -> Sequence[int]:
        """Rank by coverage."""
        del rng
        return coverage_order(
            [ngram_counts(c.agent_ids, self.ngram) for c in candidates], [len(c.agent_ids) for c in candidates]
        )


@dataclass(frozen=True, slots=True)
class Hybrid(Coreset):
    """Trajectories with a high loss that also differ: the weighted mean of the ranks of `loss_topk` and `diversity`."""

    loss_weight: float = 0.5
    """Weight of the rank by loss, from 0 (`diversity`) to 1 (`loss_topk`)."""
    ngram: int = 2
    """As of `diversity`."""

    def __post_init__(self) -> None:
        Coreset.__post_init__(self)
        require_at_least(self, {"ngram": 1, "loss_weight": 0.0})
        if self.loss_weight > 1:
            raise ConfigError(f"loss_weight must be from 0 to 1, got {self.loss_weight:g}")

    def rank(self, candidates: Sequence[Candidate], rng: Rng) -> Sequence[int]:
        """Sort by the mean rank; of equals the earlier one."""
        by_loss = _places(LossTopK().rank(candidates, rng))
        by_coverage = _places(Diversity(ngram=self.ngram).rank(candidates, rng))
        weight = self.loss_weight
        return sorted(by_loss, key=lambda i: (weight * by_loss[i] + (1 - weight) * by_coverage[i], i))


@dataclass(frozen=True, slots=True)
class Random(Coreset):
    """A random part: what any other coreset must beat."""

    def rank(self, candidates: Sequence[Candidate], rng: Rng) -> Sequence[int]:
        """Return a random order."""
        return rng.sample(range(len(candidates)), len(candidates))


def _places(order: Sequence[int]) -> dict[int, int]:
    return {position: place for place, position in enumerate(order)}


def ngram_counts(ids: Sequence[int], n: int) -> Counter[Hashable]:
    """Count the n-grams of tokens; shorter sequences are one n-gram."""
    return Counter(tuple(ids[at : at + n]) for at in range(max(len(ids) - n + 1, 1)))


def coverage_order(counts: Sequence[Counter[Hashable]], costs: Sequence[int]) -> list[int]:
    """Return positions in the order of the largest gain of sum of sqrt(count) per cost, of equals the earlier one.

    Gains never grow while others are taken, so only a gain that leads is computed again (lazy greedy, Minoux 1978).
    """
    covered, order = Counter[Hashable](), list[int]()

    def gain(position: int) -> float:
        new = (
            math.sqrt(covered[feature] + count) - math.sqrt(covered[feature])
            for feature, count in counts[position].items()
        )
        return math.fsum(new) / costs[position]

    queue = [(-gain(position), position) for position in range(len(counts))]
    heapify(queue)
    while queue:
        _, position = heappop(queue)
        fresh = (-gain(position), position)
        if queue and fresh > queue[0]:
            heappush(queue, fresh)
            continue
        order.append(position)
        covered.update(counts[position])
    return order


# ---- a training with a coreset ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chosen:
    """The trajectories of a coreset."""

    trajectories: list[Trajectory]
    """In the order of the data, with those that the trainer will leave out for a reason of its own."""
    left_out: int = 0
    """Number of trajectories outside the coreset."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Samples, tokens, loss and lexical diversity of the coreset, and of all the data as `coreset/of_…`."""

    def add_to(self, report: TrainReport) -> TrainReport:
        """Add the trajectories outside the coreset, and what it measured, to a training's report."""
        dropped = {**report.dropped, **({"outside the coreset": self.left_out} if self.left_out else {})}
        return replace(report, dropped=dropped, metrics={**report.metrics, **self.metrics})


def choose(
    coreset: Coreset | None, policy: Policy, trajectories: Sequence[Trajectory], trainer: object, *, seed: int,
    folder: Path | None,
) -> Chosen:  # fmt: skip
    """Choose the trajectories that a trainer learns from; without a coreset all of them.

    Args:
        coreset: What ranks them, and the share to keep.
        policy: The policy that is about to be trained; it is not changed.
        trajectories: The selected trajectories.
        trainer: Its `max_length`, `threshold` and `mask_truncated_completions` say what can be trained on.
        seed: Seeds the ranking's chance.
        folder: Where `coreset.jsonl` is written; None writes none.

    Raises:
        ConfigError: the ranking failed, or is none.
    """
    if coreset is None:
        return Chosen(list(trajectories))
    chosen, lines = distributed.on_rank_zero(_choose, coreset, policy, trajectories, trainer, seed)
    if folder and distributed.is_rank_zero():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / FILE, "".join(json.dumps(line) + "\n" for line in lines))
    kept, metrics = chosen
    return Chosen([trajectories[i] for i in kept], len(trajectories) - len(kept), metrics)


def _choose(
    coreset: Coreset, policy: Policy, trajectories: Sequence[Trajectory], trainer: object, seed: int
) -> tuple[tuple[list[int], dict[str, float]], list[dict[str, Any]]]:
    """Return the positions of the coreset, its metrics, and the lines of its file."""
    candidates, unfit = _measure(policy, trajectories, trainer)
    order = _rank(coreset, list(candidates.values()), seed) if candidates else []
    positions = list(candidates)
    ranking = dict.fromkeys([*(positions[place] for place in order), *positions])  # then those that it left out
    size_of: Callable[[Candidate], int] = (lambda c: c.tokens) if coreset.unit == "tokens" else (lambda c: 1)
    sizes = [size_of(candidate) for candidate in candidates.values()]
    taken = {positions[place] for place in take(order, sizes, coreset.ratio)}
    lines = [
        {
            "id": candidates[i].trajectory.id, "task": candidates[i].trajectory.task_id, "chosen": i in taken,
            "loss": candidates[i].loss, "tokens": candidates[i].tokens, "agent_tokens": len(candidates[i].agent_ids),
            "lexical_diversity": candidates[i].lexical_diversity,
        } for i in ranking
    ]  # fmt: skip
    lines += [
        {"id": trajectories[i].id, "task": trajectories[i].task_id, "chosen": False, "reason": reason}
        for i, reason in unfit.items()
    ]
    metrics = {
        **_summary([candidates[i] for i in taken], "coreset/"), **_summary(list(candidates.values()), "coreset/of_"),
    }  # fmt: skip
    return (sorted(taken | set(unfit)), metrics), lines


def _measure(
    policy: Policy, trajectories: Sequence[Trajectory], trainer: object
) -> tuple[dict[int, Candidate], dict[int, str]]:
    """Measure the trajectories that can be trained on, by position; returns why the others cannot, too."""
    from agentgym_py.policy.logprobs import sample_logprobs

    max_length, threshold = getattr(trainer, "max_length", policy.max_length), getattr(trainer, "threshold", -math.inf)
    mask_cut = getattr(trainer, "mask_truncated_completions", False)
    samples, unfit = dict[int, Sample](), dict[int, str]()
    for position, trajectory in enumerate(trajectories):
        data = prepare(policy, [trajectory], max_length, threshold, mask_cut=mask_cut)
        if data.samples:
            samples[position] = data.samples[0]
        else:
            unfit[position] = next(iter(+data.dropped))
    bf16 = getattr(trainer, "bf16", False)
    most = getattr(trainer, "microbatch_tokens", math.inf)
    logprobs = sample_logprobs(policy.model, list(samples.values()), _BATCH, bf16, max_tokens=most)
    candidates = dict[int, Candidate]()
    for (position, sample), logprob in zip(samples.items(), logprobs, strict=True):
        ids = tuple(token for token, bit in zip(sample.input_ids, sample.mask, strict=True) if bit)
        candidates[position] = Candidate(trajectories[position], sample, -logprob / len(ids), ids)
    return candidates, unfit


def _rank(coreset: Coreset, candidates: Sequence[Candidate], seed: int) -> list[int]:
    """Return the order of a coreset; raise ConfigError if it fails, or returns something else than positions."""
    name = type(coreset).__name__
    try:
        order = [index(position) for position in coreset.rank(candidates, Rng(seed, "coreset"))]
    except Exception as error:  # a stranger's coreset may raise anything
        raise ConfigError(f"the coreset {name} failed: {registry.describe_error(error)}") from error
    if not order or len(set(order)) < len(order) or not 0 <= min(order) <= max(order) < len(candidates):
        raise ConfigError(
            f"the coreset {name} must rank different positions from 0 to {len(candidates) - 1}; it returned "
            f"{order!s:.60}"
        )
    return order


def take(order: Sequence[int], sizes: Sequence[int], ratio: float) -> list[int]:
    """Return the beginning of an order whose sizes add up to at most `ratio` of all sizes; at least its first."""
    budget, taken = ratio * sum(sizes) * (1 + 1e-9), list[int]()  # 0.1 * 30 is 3.0000000000000004, others less
    for position in order:
        budget -= sizes[position]
        if taken and budget < 0:
            break
        taken.append(position)
    return taken


def _summary(candidates: Sequence[Candidate], prefix: str) -> dict[str, float]:
    if not candidates:
        return {}
    agent_tokens = sum(len(c.agent_ids) for c in candidates)
    values = {
        "samples": len(candidates),
        "tokens": sum(c.tokens for c in candidates),
        "loss": math.fsum(c.loss * len(c.agent_ids) for c in candidates) / agent_tokens,
        "lexical_diversity": math.fsum(c.lexical_diversity for c in candidates) / len(candidates),
    }
    return {f"{prefix}{name}": float(value) for name, value in values.items()}


def coreset_line(metrics: Mapping[str, float]) -> str:
    """Describe a training's coreset by the metrics of `Chosen`, in one line; empty without one."""
    if "coreset/samples" not in metrics:
        return ""
    part = {name: metrics[f"coreset/{name}"] for name in ("samples", "tokens", "loss", "lexical_diversity")}
    whole = {name: metrics[f"coreset/of_{name}"] for name in part}
    return (
        f"coreset: {part['samples']:.0f} of {whole['samples']:.0f} trajectories with "
        f"{100 * part['tokens'] / whole['tokens']:.0f} % of the tokens; loss {part['loss']:.2g} (all: "
        f"{whole['loss']:.2g}), lexical diversity {part['lexical_diversity']:.2f} "
        f"(all: {whole['lexical_diversity']:.2f})"
    )


def load_coreset(choice: str | Mapping[str, Any] | Coreset | None) -> Coreset | None:
    """Return a coreset, made from a name, or from a mapping of its `name` and settings, if it is not one.

    Raises:
        UnknownNameError: no such coreset is installed.
        ConfigError: it does not take a setting.
    """
    if choice is None or isinstance(choice, Coreset):
        return choice
    settings = {"name": choice} if isinstance(choice, str) else dict(choice)
    if not isinstance(name := settings.pop("name", None), str):
        raise ConfigError(f"{setting('coreset')} must be a name, or a mapping with its name, got {choice!r:.60}")
    kind = coreset_class(name)
    require_arguments(kind, settings)
    return kind(**settings)


def coreset_class(name: str) -> type[Coreset]:
    """Return the dataclass of a coreset, by its name or source."""
    kind = registry.load("agentgym.coresets", name)
    if not (isinstance(kind, type) and issubclass(kind, Coreset)):
        raise ConfigError(f"the coreset {name!r} must be a subclass of Coreset, got {kind!r:.80}")
    return kind
