"""How good is an advantage estimator? Measured against the policy's own advantages, from worlds that fork.

For each task the policy plays 2 G episodes, a pool. Steps of the first of them are credited, and each state before and
after such a step is continued K times by the policy:

    V(s) = mean return to go of the continuations before the step,
    Q(s, a) = that of the continuations after it,  A(s, a) = Q(s, a) - V(s).

With `truth` exact both are enumerated instead, if the agent's action probabilities are known.

An estimator credits a step in a group of G episodes. To see what it does to this step on average, the group is drawn
again: its own episode is another continuation after the step, and the others come from the pool. Nothing more is
played. Pool and continuations are divided into two independent halves, of which each gives a bias b; since the noise of
the two is independent, the mean of b1 b2 estimates the squared bias without its noise. For the variance over groups,
episodes are drawn with replacement from both halves together, because groups drawn from a few episodes are too alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from statistics import fmean, variance
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym_py.agents import Agent
from agentgym_py.credit.estimators import CreditSample, Estimator
from agentgym_py.credit.probes import HALVES, CreditConfig, Probe, Probes, Truth, collect_probes
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError
from agentgym_py.evaluation.stats import Estimate, bootstrap, bootstrap_mean
from agentgym_py.rewards.state_values import Play
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy


@dataclass(frozen=True, slots=True)
class EstimatorScore:
    """How an estimator compares with the true advantages; intervals are over tasks."""

    name: str
    bias: Estimate
    """Mean of its expectation minus the advantage."""
    rms_bias: Estimate
    """Root of the mean squared bias of a step, without noise."""
    sd: float
    """Root of the mean variance of its value at one step, over groups."""
    rank_correlation: Estimate
    """Spearman's, of single values with the advantages."""
    cosine: Estimate
    """Cosine of the policy gradient with these advantages and that with the true ones."""


@dataclass(frozen=True, slots=True)
class CreditReport:
    """Estimators, the best cosine first."""

    scores: Sequence[EstimatorScore]
    agent: str
    worlds: Sequence[str]
    """Their ids with their arguments."""
    truth: Truth
    tasks: int
    steps: int
    """Credited steps."""
    spread: float
    """Standard deviation of their true advantages."""
    cosine_of: Literal["gradients", "advantages"]
    """What the cosine compares: gradients of a policy's weights, or for other agents the advantages themselves."""
    left_out: Mapping[str, int]
    """Episodes and steps that could not be credited, by reason."""
    config: CreditConfig

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Return a header and a row for each estimator."""
        header = ["estimator", "bias [95 %]", "rms bias", "sd", "rank correlation [95 %]", "cosine [95 %]"]
        return header, [
            [score.name, _text(score.bias, "+.3f"), f"{score.rms_bias.value:.3f}", f"{score.sd:.3f}",
             _text(score.rank_correlation, ".2f"), _text(score.cosine, ".2f")]
            for score in self.scores
        ]  # fmt: skip

    def notes(self) -> list[str]:
        """Return what was measured, in sentences."""
        by = "enumeration" if self.truth == "exact" else f"{self.config.continuations} continuations of each state"
        notes = [
            f"{self.steps} steps of {self.tasks} tasks by {self.agent}; true advantages by {by}, with a standard "
            f"deviation of {self.spread:.3f}; groups of {self.config.group_size}.",
            "bias: expectation minus true advantage, its mean and root mean square over steps; sd: of one step's value "
            f"over groups; cosine: of the {self.cosine_of} by the estimates with those by the true ones.",
        ]
        if not self.spread:
            notes.append(
                "All true advantages are equal, so there is nothing to rank: choose an agent that solves some of the "
                "tasks and fails others."
            )
        return notes + [f"{count} {what} are left out." for what, count in self.left_out.items()]

    def __str__(self) -> str:
        """Return the table in Markdown, and the notes."""
        header, rows = self.rows()
        lines = ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)]
        return "\n".join([*lines, "", *self.notes()])


def _text(estimate: Estimate, form: str) -> str:
    value = format(estimate.value, form)
    return value if math.isnan(estimate.low) else f"{value} [{estimate.low:{form}}, {estimate.high:{form}}]"


# ---- the measurement ------------------------------------------------------------------------------------------------


def measure_credit(
    agent: Agent,
    play: Play,
    envs: Sequence[EnvSpec],
    estimators: Mapping[str, Estimator],
    config: CreditConfig,
    *,
    tasks: Sequence[int] = range(20),
    split: str = "train",
    seed: int = 0,
    policy: Policy | None = None,
) -> CreditReport:
    """Measure estimators of the advantages of an agent's steps.

    Args:
        agent: The agent that `play` plays by.
        play: Plays jobs, as `Collector.collect_batch`.
        envs: The worlds.
        estimators: Estimators by name; one with a method `fit` gets all episodes of the pool first, one with a
            method `prepare` then all samples.
        config: Sizes.
        tasks: Numbers of the tasks in each world.
        split: Split of the tasks.
        seed: Seed of the steps that are credited and of the groups.
        policy: The agent's policy, for the cosine of its gradients.

    Raises:
        ConfigError: no step could be credited, or the truth cannot be exact and must be.
    """
    probes = collect_probes(agent, play, envs, config, tasks=tasks, split=split, seed=seed)
    measured = {name: measure_estimator(name, one, probes, config, seed) for name, one in estimators.items()}
    truth_N, labels = probes.advantages_N, [probe.task for probe in probes.probes]
    cosines = _cosines({name: found.single_N for name, found in measured.items()}, probes, policy)
    scores = [_score(name, measured[name], truth_N, labels, cosines[name]) for name in estimators]
    return CreditReport(
        sorted(scores, key=lambda score: -score.cosine.value), agent.name, [spec.title for spec in envs],
        probes.truth, len(set(labels)), len(labels),
        float(truth_N.std()), "gradients" if policy else "advantages", dict(probes.left_out), config,
    )  # fmt: skip


class Measured(NamedTuple):
    """What an estimator makes of N probes."""

    single_N: NDArray[np.float64]
    """The estimate in one group."""
    biases_2N: NDArray[np.float64]
    """Its bias by each half."""
    variances_N: NDArray[np.float64]
    """Its variance over groups."""


def measure_estimator(name: str, estimator: Estimator, probes: Probes, config: CreditConfig, seed: int = 0) -> Measured:
    """Estimate the advantage of each probe in one group and in groups that are drawn again."""
    samples = [_draw_samples(probe, config, seed) for probe in probes.probes]
    if fit := getattr(estimator, "fit", None):
        fit(probes.pool)
    if prepare := getattr(estimator, "prepare", None):
        prepare([sample for drawn in samples for sample in (drawn.single, *chain(*drawn.halves), *drawn.groups)])
    singles, biases, variances = list[float](), list[list[float]](), list[float]()
    try:
        for probe, drawn in zip(probes.probes, samples, strict=True):
            singles.append(_value(name, estimator, drawn.single))
            means = [fmean(_value(name, estimator, sample) for sample in half) for half in drawn.halves]
            biases.append([mean - truth for mean, truth in zip(means, probe.halves, strict=True)])
            variances.append(variance(_value(name, estimator, sample) for sample in drawn.groups))
    finally:
        if close := getattr(estimator, "close", None):
            close()
    return Measured(np.array(singles), np.array(biases).T, np.array(variances))


class _Samples(NamedTuple):
    """The groups in which a step is credited, the same for every estimator."""

    single: CreditSample
    """One of all that was played."""
    halves: Sequence[Sequence[CreditSample]]
    """Groups of each half, for the bias."""
    groups: Sequence[CreditSample]
    """Groups of both halves, drawn with replacement, for the variance."""


def _draw_samples(probe: Probe, config: CreditConfig, seed: int) -> _Samples:
    rng = Rng("credit", seed, probe.trunk.id, probe.step)
    others = rng.sample(probe.others, config.group_size - 1)
    single = CreditSample([probe.trunk, *others], 0, probe.step, probe.forks)
    return _Samples(single, [_redraw(probe, half, config, rng) for half in HALVES], _groups(probe, config, rng))


def _redraw(probe: Probe, half: int, config: CreditConfig, rng: Rng) -> list[CreditSample]:
    """Draw groups from a half of what was played."""
    others, after, before = probe.others[half::2], probe.after[half::2], probe.before[half::2]
    size, samples = min(config.group_size - 1, len(others)), list[CreditSample]()
    for number in range(config.redraws // 2):
        own, rest = after[number % len(after)], rng.sample(others, size)
        forks = rng.sample(before, min(size, len(before)))
        samples.append(CreditSample([own, *rest], 0, probe.step, forks))
    return samples


def _groups(probe: Probe, config: CreditConfig, rng: Rng) -> list[CreditSample]:
    """Draw groups with replacement from all that was played."""

    def draw(episodes: Sequence[Trajectory], number: int) -> list[Trajectory]:
        return [rng.choice(episodes) for _ in range(number)]

    size = config.group_size - 1
    return [
        CreditSample([*draw(probe.after, 1), *draw(probe.others, size)], 0, probe.step, draw(probe.before, size))
        for _ in range(config.redraws)
    ]


def _value(name: str, estimator: Estimator, sample: CreditSample) -> float:
    """Return an estimate; ConfigError if it is no finite number."""
    value = estimator(sample)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"the credit estimator {name} must return a finite number, got {value!r:.60}")
    return float(value)


# ---- the scores -----------------------------------------------------------------------------------------------------


def _score(
    name: str, measured: Measured, truth_N: NDArray[np.float64], labels: Sequence[Any], cosine: Estimate
) -> EstimatorScore:
    first_N, second_N = measured.biases_2N
    squared = bootstrap_mean(first_N * second_N, clusters=labels)
    (correlation,) = bootstrap(lambda rows: [spearman(measured.single_N[rows], truth_N[rows])], labels)
    return EstimatorScore(
        name, bootstrap_mean((first_N + second_N) / 2, clusters=labels),
        Estimate(_root(squared.value), _root(squared.low), _root(squared.high), squared.n),
        math.sqrt(float(measured.variances_N.mean())), correlation, cosine,
    )  # fmt: skip


def _root(square: float) -> float:
    return square if math.isnan(square) else math.sqrt(max(square, 0.0))


def spearman(first_N: NDArray[np.float64], second_N: NDArray[np.float64]) -> float:
    """Return Spearman's rank correlation, with mean ranks for ties; 0 if all values of one are equal."""
    one, other = (mean_ranks(values_N) - (len(values_N) - 1) / 2 for values_N in (first_N, second_N))
    scale = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / scale if scale else 0.0


def mean_ranks(values_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each value from 0, the mean rank for equal ones."""
    _, place_N, counts = np.unique(values_N, return_inverse=True, return_counts=True)
    ends = np.concatenate([[0], np.cumsum(counts)])
    ranks: NDArray[np.float64] = np.array([(start + end - 1) / 2 for start, end in pairwise(ends)])[place_N]
    return ranks


def _cosines(values: Mapping[str, NDArray[np.float64]], probes: Probes, policy: Policy | None) -> dict[str, Estimate]:
    """Return the cosine of each estimator's gradient with that of the true advantages, with intervals over tasks."""
    columns_EN = np.stack([*values.values(), probes.advantages_N])
    if policy is None:  # the score functions of different steps count as orthogonal and equally long
        labels: Sequence[Any] = [probe.task for probe in probes.probes]
        return dict(zip(values, bootstrap(lambda rows: _angles(columns_EN[:, rows]), labels), strict=True))
    from agentgym_py.credit.gradients import task_gradients

    labels, gradients_TEK = task_gradients(policy, probes.probes, columns_EN)
    return dict(zip(values, bootstrap(lambda rows: _angles(gradients_TEK[rows].sum(0)), labels), strict=True))


def _angles(vectors_EK: NDArray[np.float64]) -> list[float]:
    """Return the cosine of each vector but the last with the last."""
    *vectors, truth = vectors_EK
    lengths = [float(np.linalg.norm(vector) * np.linalg.norm(truth)) for vector in vectors]
    return [float(vector @ truth) / length if length else 0.0 for vector, length in zip(vectors, lengths, strict=True)]
