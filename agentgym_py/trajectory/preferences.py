"""Preference pairs: which trajectory of a task is better than which other, for DPO, ORPO, reward models and the like.

Compared are trajectories that open alike: the same task, rules and first observation, and as whole episodes the same
turns before the first one that is learnt from. Whoever did as well as the other is no pair, but counted. The same
trajectories and seed give the same pairs, whatever stands around them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, takewhile
from typing import Literal, NamedTuple

from agentgym_py.errors import ConfigError
from agentgym_py.rng import Rng
from agentgym_py.trajectory.selectors import best_first
from agentgym_py.trajectory.types import Trajectory

Match = Literal["best_worst", "success", "all"]
"""Who is compared: the best with the worst by return, the second best with the second worst, and so on; every success
with every failure; or all with all, by return. In a state where several part, `best_worst` compares all with all."""
Level = Literal["episode", "fork", "turn"]
"""What is compared: whole episodes; what follows the state in which the two part, after one shared turn at least; or
only the two replies in that state, which may be the first one."""


class Pair(NamedTuple):
    """Positions of the better and the worse trajectory."""

    chosen: int
    rejected: int
    fork: int = 0
    """Turns that the two share before they part; 0 at level `episode`, where it does not matter."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of a set of trajectories, task by task, and what did not become one."""

    pairs: list[Pair]
    ties: int
    """Pairs that would have been compared, but did equally well."""
    dropped: Counter[str]
    """How many trajectories are in no pair, by reason."""


def build(
    trajectories: Sequence[Trajectory],
    *,
    match: Match = "best_worst",
    level: Level = "episode",
    max_pairs: int | None = 4,
    min_gap: float = 1e-9,
    seed: int = 0,
) -> Pairs:
    """Pairs of each task, at most `max_pairs` (None: all); those matched by return differ in it by `min_gap` or more.

    Of too many pairs `best_worst` keeps those that differ most, the others a random choice.

    Raises:
        ConfigError: `max_pairs` below 1.
    """
    if max_pairs is not None and max_pairs < 1:
        raise ConfigError(f"max_pairs must be at least 1, got {max_pairs}")
    found, ties, dropped = list[Pair](), 0, Counter[str]()
    for key, group in _groups(trajectories, level, dropped).items():
        compared = list(_compared(trajectories, group, match, level))
        better = [pair for pair in compared if _gap(trajectories, pair, match) >= max(min_gap, 1e-12)]
        kept = _some(better, trajectories, match, max_pairs, Rng("pairs", seed, *key))
        dropped += _left_out(group, better, kept, level)
        found += kept
        ties += len(compared) - len(better)
    return Pairs(found, ties, dropped)


def sides(trajectories: Sequence[Trajectory], pair: Pair, level: Level) -> tuple[Trajectory, Trajectory]:
    """The better and the worse trajectory, with `trained` off in the turns that the level does not compare."""
    chosen, rejected = trajectories[pair.chosen], trajectories[pair.rejected]
    if level == "episode":
        return chosen, rejected
    last = pair.fork if level == "turn" else max(len(chosen.steps), len(rejected.steps))
    return _only(chosen, pair.fork, last), _only(rejected, pair.fork, last)


def opening(trajectory: Trajectory, level: Level = "episode") -> tuple[Hashable, ...]:
    """What two trajectories (of one step or more) must have in common to be compared."""
    led = takewhile(lambda step: not step.trained, trajectory.steps if level == "episode" else ())
    begun = (*trajectory.provenance.task_key, trajectory.rules, trajectory.steps[0].observation)
    return *begun, *((step.observation, step.reply) for step in led)


def _only(trajectory: Trajectory, first: int, last: int) -> Trajectory:
    """Trained on in turns `first` to `last` only; what follows them is cut off, for nothing depends on it."""
    steps = trajectory.steps[: last + 1]
    return replace(trajectory, steps=tuple(replace(s, trained=s.trained and i >= first) for i, s in enumerate(steps)))


def _groups(
    trajectories: Sequence[Trajectory], level: Level, dropped: Counter[str]
) -> dict[tuple[Hashable, ...], list[int]]:
    """Positions of trajectories that open alike; the others are counted in `dropped`."""
    groups: dict[tuple[Hashable, ...], list[int]] = defaultdict(list)
    for i, each in enumerate(trajectories):
        if each.steps and each.is_evidence:
            groups[opening(each, level)].append(i)
        else:
            dropped["without a turn, or ended by an infrastructure error"] += 1
    for key in [key for key, group in groups.items() if len(group) == 1]:
        del groups[key]
        dropped["alone at their task"] += 1
    return groups


def _compared(trajectories: Sequence[Trajectory], group: Sequence[int], match: Match, level: Level) -> Iterator[Pair]:
    """What the rule names, the better one first where one is."""
    if level != "episode":
        for fork, members in _states(trajectories, group, least=int(level == "fork")):
            replies = {i: trajectories[i].steps[fork].reply for i in members}
            for a, b in combinations(_order(trajectories, members, match), 2):
                if replies[a] != replies[b]:  # else they part later
                    yield Pair(a, b, fork)
        return
    order = _order(trajectories, group, match)
    if match == "best_worst":
        yield from (Pair(order[k], order[-1 - k]) for k in range(len(order) // 2))
    else:
        yield from (Pair(a, b) for a, b in combinations(order, 2))


def _order(trajectories: Sequence[Trajectory], positions: Sequence[int], match: Match) -> list[int]:
    """Positions, the best first."""
    order = best_first(trajectories, positions)
    return sorted(order, key=lambda i: not trajectories[i].success) if match == "success" else order


def _gap(trajectories: Sequence[Trajectory], pair: Pair, match: Match) -> float:
    """By how much the first is better."""
    chosen, rejected = trajectories[pair.chosen], trajectories[pair.rejected]
    return float(chosen.success - rejected.success) if match == "success" else chosen.reward - rejected.reward


def _states(trajectories: Sequence[Trajectory], group: Sequence[int], least: int) -> Iterator[tuple[int, list[int]]]:
    """The states after `least` turns or more that several trajectories have been in: number of turns, positions.

    A state is known by the generator's seed and by all that was seen and said so far, byte by byte.
    """
    states: dict[tuple[Hashable, ...], list[int]] = defaultdict(list)
    for i in group:
        past: tuple[Hashable, ...] = (trajectories[i].provenance.env_seed,)
        for step in trajectories[i].steps:
            past = (*past, step.observation)
            states[past].append(i)
            past = (*past, step.reply)
    for past, members in states.items():
        turns = len(past) // 2 - 1
        if turns >= least and len(members) > 1:
            yield turns, members


def _some(
    better: list[Pair], trajectories: Sequence[Trajectory], match: Match, max_pairs: int | None, rng: Rng
) -> list[Pair]:
    """At most `max_pairs` of a task's pairs; of equal gaps the later forks, for less came between them and the end."""
    if match == "best_worst":
        better = sorted(better, key=lambda pair: (-_gap(trajectories, pair, match), -pair.fork))
    if max_pairs is None or len(better) <= max_pairs:
        return better
    return better[:max_pairs] if match == "best_worst" else sorted(rng.sample(better, max_pairs))


def _left_out(group: Sequence[int], better: Sequence[Pair], kept: Sequence[Pair], level: Level) -> Counter[str]:
    """Why the trajectories of a group that are in no pair are in none."""
    in_better, in_kept = ({i for pair in pairs for i in pair[:2]} for pairs in (better, kept))
    state = {"episode": "", "fork": " after a shared turn", "turn": " in one state"}[level]
    reasons = {
        f"without a better or worse one of their task{state}": len(set(group) - in_better),
        "beyond the most pairs of a task": len(in_better - in_kept),
    }
    return Counter({reason: number for reason, number in reasons.items() if number})
