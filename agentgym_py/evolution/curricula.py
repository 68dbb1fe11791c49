"""Curricula: how the rounds of a run share a world's tasks among its levels, which are its difficulties.

A curriculum gets the outcomes of the earlier rounds by level, and returns a weight for each level. It has no state of
its own: a resumed run computes the same weights from the stored episodes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from agentgym_py import registry
from agentgym_py.checks import require_field_types
from agentgym_py.env import EnvSpec
from agentgym_py.env.registration import short_name
from agentgym_py.errors import ConfigError, setting
from agentgym_py.evaluation.stats import success_rate
from agentgym_py.trajectory import Trajectory


class Outcomes(NamedTuple):
    """Outcomes of the episodes of a round.

    Those that an infrastructure failure ended do not count, and neither do those that began in the middle of a task.
    """

    episodes: int = 0
    successes: int = 0


@runtime_checkable
class Curriculum(Protocol):
    """A plugin of the group `agentgym.curricula`: a dataclass, instantiated with its settings."""

    def weights(self, levels: Sequence[str], history: Sequence[Mapping[str, Outcomes]]) -> Sequence[float]:
        """Return a weight for each level; the next round shares its tasks of the world in proportion to them.

        Args:
            levels: The difficulties, from easy to hard.
            history: The outcomes at every level in each earlier round, the first round first; empty for round 1.
        """
        ...


# ---- the curricula ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difficulty:
    """One level at a time, beginning with the first: the next level after enough successes, the one before after few.

    A round without an episode that counts keeps the level.
    """

    threshold: float = 0.8
    """Success rate of a round from which the next round is one level higher."""
    fall_back: float = 0.2
    """Success rate of a round below which the next round is one level lower."""

    def __post_init__(self) -> None:
        require_field_types(self)
        if not 0 < self.threshold <= 1:
            raise ConfigError(f"threshold must be a number above 0 and at most 1, got {self.threshold:g}")
        if not 0 <= self.fall_back < self.threshold:
            raise ConfigError(
                f"fall_back must be at least 0 and below the threshold {self.threshold:g}, got {self.fall_back:g}"
            )

    def weights(self, levels: Sequence[str], history: Sequence[Mapping[str, Outcomes]]) -> Sequence[float]:
        """Return 1 for the level that the rounds have reached, and 0 for the others."""
        current = 0
        for outcomes in history:
            episodes, successes = outcomes[levels[current]]
            if episodes and successes / episodes >= self.threshold:
                current = min(current + 1, len(levels) - 1)
            elif episodes and successes / episodes < self.fall_back:
                current = max(current - 1, 0)
        return [float(number == current) for number in range(len(levels))]


@dataclass(frozen=True, slots=True)
class Learnable:
    """All levels in proportion to p (1 - p), where p is a level's success in the round before (arXiv:2502.12272)."""

    def weights(self, levels: Sequence[str], history: Sequence[Mapping[str, Outcomes]]) -> Sequence[float]:
        """Return the learnability of each level; in round 1 all are equal."""
        last = history[-1] if history else {}
        return [learnability(last.get(level, Outcomes())) for level in levels]


@dataclass(frozen=True, slots=True)
class Uniform:
    """All levels equally, in every round."""

    def weights(self, levels: Sequence[str], history: Sequence[Mapping[str, Outcomes]]) -> Sequence[float]:
        """Return 1 for each level."""
        del history
        return [1.0] * len(levels)


def learnability(outcomes: Outcomes) -> float:
    """Return p (1 - p), the variance of success: 0.25 if half of the episodes succeed.

    With p = (successes + 1) / (episodes + 2), so that nothing is dropped permanently.
    """
    rate = (outcomes.successes + 1) / (outcomes.episodes + 2)
    return rate * (1 - rate)


# ---- levels ----------------------------------------------------------------------------------------------------------


class Level(NamedTuple):
    """A world at one of its difficulties."""

    world: str
    """Name of the world by `world_and_role`."""
    difficulty: str
    """Empty in a run without a curriculum."""
    spec: EnvSpec


def world_and_role(env_id: str, kwargs: Mapping[str, Any]) -> str:
    """Return a world's short name, with the role that the agent plays if the arguments name one: `errand:client`."""
    role = kwargs.get("role")
    return short_name(env_id) + (f":{role}" if role else "")


def name_of_spec(spec: EnvSpec) -> str:
    """Return the name of a spec by `world_and_role`."""
    return world_and_role(spec.local_spec.name, spec.local_spec.kwargs)


def _name_of(trajectory: Trajectory) -> str:
    return world_and_role(trajectory.provenance.env_id, trajectory.provenance.env_kwargs)


def find_levels(spec: EnvSpec, names: Sequence[str] = ()) -> list[Level]:
    """Return the levels of a world, from easy to hard: its difficulties, or those of these names.

    The level of the spec's own difficulty is the spec itself.

    Raises:
        ConfigError: the world has no difficulties, or none of such a name.
    """
    world = name_of_spec(spec)
    with closing(spec.make()) as env:
        own, names = env.task(0, "train").difficulty, names or env.difficulties
    if not names:
        raise ConfigError(
            f"{setting('curriculum')} needs a world with difficulties, and {world} has none; {setting('levels')} names "
            "values of its argument difficulty"
        )
    specs = [spec if name == own else EnvSpec(spec.name, {**spec.kwargs, "difficulty": name}) for name in names]
    levels = [Level(world, name, level) for name, level in zip(names, specs, strict=True)]
    for level in levels:
        _require_level(level)
    return levels


def _require_level(level: Level) -> None:
    """Raise ConfigError if the world cannot be made at the level, or its tasks are of another difficulty."""
    try:
        with closing(level.spec.make()) as env:
            difficulty = env.task(0, "train").difficulty
    except ConfigError as error:
        raise ConfigError(f"{setting('levels')}: {level.world}: {error}") from error
    if difficulty != level.difficulty:
        raise ConfigError(
            f"{setting('levels')}: the tasks of {level.world} with difficulty {level.difficulty!r} have the difficulty "
            f"{difficulty!r}"
        )


Counts = Mapping[tuple[str, str], Outcomes]
"""Outcomes by world, named by `world_and_role`, and difficulty."""


def counts_for_task(trajectory: Trajectory) -> bool:
    """Return whether an episode says how hard its task is: it began at the task's start, and no failure ended it."""
    return trajectory.is_evidence and all(step.trained for step in trajectory.steps[:1])


def count_outcomes(trajectories: Iterable[Trajectory]) -> Counts:
    """Count the outcomes of episodes."""
    episodes, successes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for trajectory in trajectories:
        if counts_for_task(trajectory):
            key = _name_of(trajectory), trajectory.difficulty
            episodes[key] += 1
            successes[key] += trajectory.success
    return {key: Outcomes(episodes[key], successes[key]) for key in episodes}


def outcomes_in(world: str, counts: Counts) -> Outcomes:
    """Return the outcomes in a world at all difficulties."""
    found = [outcomes for (name, _), outcomes in counts.items() if name == world]
    return Outcomes(sum(o.episodes for o in found), sum(o.successes for o in found))


def level_weights(curriculum: Curriculum, levels: Sequence[Level], history: Sequence[Counts]) -> list[float]:
    """Return the weight of each level of a world; `history` has the counts of each earlier round.

    Raises:
        ConfigError: the curriculum fails, or returns something else than weights.
    """
    names = [level.difficulty for level in levels]
    keys = [(level.world, level.difficulty) for level in levels]
    rounds = [{key[1]: counts.get(key, Outcomes()) for key in keys} for counts in history]
    name = type(curriculum).__name__
    try:
        weights = [float(weight) for weight in curriculum.weights(names, rounds)]
    except Exception as error:  # a stranger's curriculum may raise anything
        raise ConfigError(f"the curriculum {name} failed: {registry.describe_error(error)}") from error
    if len(weights) != len(names) or not all(math.isfinite(w) and w >= 0 for w in weights) or not any(weights):
        raise ConfigError(
            f"the curriculum {name} must return a weight of at least 0 for each of {', '.join(names)}, not all of them "
            f"0; it returned {weights}"
        )
    return weights


def success_by_level(levels: Iterable[Level], trajectories: Sequence[Trajectory]) -> dict[str, dict[str, Any]]:
    """Return the success rate of episodes by world and level as JSON values, also of levels without an episode."""
    rates = dict[str, dict[str, Any]]()
    for world, difficulty, _ in levels:
        found = [
            t for t in trajectories
            if counts_for_task(t) and (_name_of(t), t.difficulty) == (world, difficulty)
        ]  # fmt: skip
        rate = success_rate([t.success for t in found], [t.provenance.task_key for t in found])
        rates.setdefault(world, {})[difficulty] = asdict(rate)
    return rates
