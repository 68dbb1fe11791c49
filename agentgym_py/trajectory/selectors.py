"""Selectors: which trajectories a round trains on, and how many were dropped for what reason.

A selector is a function from trajectories to a `Selection`, made by `threshold(1.0)`, `per_task(2)` and the like. The
kept trajectories stay in their order. A trajectory ranks higher with more reward, then fewer steps, then the smaller
id, then the earlier position, so a selection never depends on hashing or on chance outside `by_chance`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agentgym_py.errors import ConfigError
from agentgym_py.rng import Rng
from agentgym_py.trajectory.types import Trajectory


@dataclass(frozen=True, slots=True)
class Selection:
    """The trajectories that a selector kept, and why it dropped the others."""

    kept: tuple[Trajectory, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Number of dropped trajectories by reason; reasons with 0 are left out."""

    @property
    def line(self) -> str:
        """How many were kept and why the others were not, in one line."""
        total = len(self.kept) + sum(self.dropped.values())
        reasons = ", ".join(f"{number} {reason}" for reason, number in self.dropped.items())
        return f"kept {len(self.kept)} of {total}" + (f"; dropped: {reasons}" if reasons else "")


Selector = Callable[[Sequence[Trajectory]], Selection]


@dataclass(frozen=True, slots=True)
class SelectConfig:
    """Which trajectories to train on; `build_selector` makes the selector."""

    threshold: float = 1.0
    """Minimum reward."""
    success_only: bool = True
    """Whether the episode must also be successful."""
    dedupe: bool = True
    """Whether to keep only one of the trajectories with the same actions in the same task."""
    per_task: int | None = None
    """Keep at most this many per task, the best first (rejection sampling); by default all."""
    top_ratio: float | None = None
    """Fraction of the trajectories to keep, in (0, 1], the best first; by default all."""
    top_percentile: float | None = None
    """Percentile of the rewards, in [0, 100], that a trajectory must reach; by default all are kept."""
    by_chance: bool = False
    """Whether a trajectory is then kept with its reward, clipped to [0, 1], as the probability."""

    mask_invalid: bool = True
    """Whether replies whose action the world refused are read but not learned."""

    def __post_init__(self) -> None:
        build_selector(self)


def build_selector(spec: SelectConfig) -> Selector:
    """Build the selector of a config; trajectories that ended by an infrastructure failure are always dropped.

    Raises:
        ConfigError: a number is out of range.
    """
    steps: list[Selector] = [no_errors(), threshold(spec.threshold)]
    if spec.success_only:
        steps.append(success_only())
    if spec.dedupe:
        steps.append(dedupe())
    if spec.per_task is not None:
        steps.append(per_task(spec.per_task))
    if spec.top_ratio is not None:
        steps.append(top_ratio(spec.top_ratio))
    if spec.top_percentile is not None:
        steps.append(top_percentile(spec.top_percentile))
    if spec.by_chance:
        steps.append(by_chance())
    if spec.mask_invalid:
        steps.append(mask_invalid())
    return chain(*steps)


def chain(*selectors: Selector) -> Selector:
    """Apply selectors one after another and add their counts."""

    def select(trajectories: Sequence[Trajectory]) -> Selection:
        kept, dropped = tuple(trajectories), dict[str, int]()
        for selector in selectors:
            result = selector(kept)
            kept = result.kept
            for reason, number in result.dropped.items():
                dropped[reason] = dropped.get(reason, 0) + number
        return Selection(kept, dropped)

    return select


def where(predicate: Callable[[Trajectory], bool], reason: str) -> Selector:
    """Keep trajectories for which `predicate` holds; count the others under `reason`."""
    return lambda trajectories: _partition(trajectories, [predicate(t) for t in trajectories], reason)


def threshold(min_reward: float) -> Selector:
    """Keep a reward of at least `min_reward`."""
    if math.isnan(min_reward):
        raise ConfigError("threshold must be a number, got nan")
    return where(lambda t: t.reward >= min_reward, f"below reward {min_reward:g}")


def success_only() -> Selector:
    """Keep episodes that succeeded."""
    return where(lambda t: t.success, "without success")


def no_errors() -> Selector:
    """Keep episodes that no infrastructure failure ended."""
    return where(lambda t: t.is_evidence, "ended by an infrastructure error")


def dedupe() -> Selector:
    """Keep the best trajectory with the same task and the same sequence of actions."""
    return _best_of(_actions_key, 1, "duplicates")


def per_task(k: int) -> Selector:
    """Keep at most `k` of each task, the best first: rejection sampling."""
    if k < 1:
        raise ConfigError(f"per_task must be at least 1, got {k}")
    return _best_of(lambda t: t.provenance.task_key, k, f"beyond the best {k} of their task")


def top_ratio(r: float) -> Selector:
    """Keep the best fraction `r`, rounded up; 0 < r <= 1."""
    if not 0 < r <= 1:
        raise ConfigError(f"top_ratio must be in (0, 1], got {r}")

    def select(trajectories: Sequence[Trajectory]) -> Selection:
        number = math.ceil(r * len(trajectories) - 1e-9)  # 0.1 * 30 is 3.0000000000000004
        best = set(best_first(trajectories, range(len(trajectories)))[:number])
        return _partition(trajectories, [i in best for i in range(len(trajectories))], f"below the best {r:.4g} of all")

    return select


def top_percentile(p: float) -> Selector:
    """Keep a reward that reaches the `p`-th percentile of all rewards (linear interpolation); 0 <= p <= 100."""
    if not 0 <= p <= 100:
        raise ConfigError(f"top_percentile must be in [0, 100], got {p}")

    def select(trajectories: Sequence[Trajectory]) -> Selection:
        if not trajectories:
            return Selection(())
        bound = float(np.percentile([t.reward for t in trajectories], p))
        return where(lambda t: t.reward >= bound, f"below percentile {p:g} of the rewards")(trajectories)

    return select


def by_chance() -> Selector:
    """Keep a trajectory with its reward, clipped to [0, 1], as the probability: rejection sampling by a score.

    The draw depends on the trajectory's id and seed alone, so it is the same in every process and after a resumption.
    """
    return where(lambda t: Rng(t.provenance.seed, "by chance", t.id).uniform() < t.reward, "rejected by chance")


def mask_invalid() -> Selector:
    """Keep every trajectory, but do not train on its replies whose action was invalid."""

    def mask(trajectory: Trajectory) -> Trajectory:
        if all(step.valid for step in trajectory.steps):
            return trajectory
        steps = (step if step.valid else replace(step, trained=False) for step in trajectory.steps)
        return replace(trajectory, steps=tuple(steps))

    return lambda trajectories: Selection(tuple(map(mask, trajectories)))


def _best_of(key: Callable[[Trajectory], Hashable], k: int, reason: str) -> Selector:
    def select(trajectories: Sequence[Trajectory]) -> Selection:
        groups: dict[Hashable, list[int]] = defaultdict(list)
        for i, trajectory in enumerate(trajectories):
            groups[key(trajectory)].append(i)
        best = {i for group in groups.values() for i in best_first(trajectories, group)[:k]}
        return _partition(trajectories, [i in best for i in range(len(trajectories))], reason)

    return select


def best_first(trajectories: Sequence[Trajectory], positions: Iterable[int]) -> list[int]:
    """Sort positions, the best trajectory first."""

    def rank(i: int) -> tuple[float, int, int, str, int]:
        trajectory = trajectories[i]
        trained = sum(step.trained for step in trajectory.steps)  # a fork leaves out what it shares with its trunk
        return -trajectory.reward, len(trajectory.steps), -trained, trajectory.id, i

    return sorted(positions, key=rank)


def _actions_key(trajectory: Trajectory) -> Hashable:
    return trajectory.provenance.task_key, tuple((step.action, step.action_input) for step in trajectory.steps)


def _partition(trajectories: Sequence[Trajectory], keep: Sequence[bool], reason: str) -> Selection:
    selected = tuple(trajectory for trajectory, keep_it in zip(trajectories, keep, strict=True) if keep_it)
    dropped = len(trajectories) - len(selected)
    return Selection(selected, {reason: dropped} if dropped else {})
