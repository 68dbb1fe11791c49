"""Preference pairs of trajectories, for DPO, ORPO, reward models and the like.

Compared are trajectories with the same task, rules and first observation; whole episodes also share the turns before
the first one that is trained on. Ties are counted, not paired. The same trajectories of a task and the same seed give
the same pairs, whatever other tasks are in the data.
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
"""Which trajectories are compared: the best with the worst by return, the second best with the second worst, and so on;
every success with every failure; or all with all, by return. At levels `fork` and `turn`, `best_worst` means all with
all."""
Level = Literal["episode", "fork", "turn"]
"""What is compared: whole episodes; what follows the state in which the two diverge, after at least one shared turn; or
only the two replies in that state, which may be the first one."""


class Pair(NamedTuple):
    """Positions of the better and the worse trajectory."""

    chosen: int
    rejected: int
    fork: int = 0
    """Number of turns that the two share; 0 at level `episode`, which does not use it."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of a set of trajectories, task by task, and what is in none."""

    pairs: list[Pair]
    ties: int
    """Number of comparisons without a better trajectory."""
    dropped: Counter[str]
    """Number of trajectories in no pair, by reason."""


def build_pairs(
    trajectories: Sequence[Trajectory],
    *,
    match: Match = "best_worst",
    level: Level = "episode",
    max_pairs: int | None = 4,
    min_gap: float = 1e-9,
    seed: int = 0,
) -> Pairs:
    """Build at most `max_pairs` pairs per task (None: all); pairs by return differ in it by at least `min_gap`.

    Of too many pairs `best_worst` keeps those with the largest gap, the other rules a random choice.

    Raises:
        ConfigError: `max_pairs` below 1.
    """
    if max_pairs is not None and max_pairs < 1:
        raise ConfigError(f"max_pairs must be at least 1, got {max_pairs}")
    least = 1e-12 if match == "success" else max(min_gap, 1e-12)
    pairs, ties, dropped = list[Pair](), 0, Counter[str]()
    for key, group in _groups(trajectories, level, dropped).items():
        candidates = list(_candidates(trajectories, group, match, level))
        decided = [pair for pair in candidates if _gap(trajectories, pair, match) >= least]
        selected = _limit(decided, trajectories, match, max_pairs, Rng("pairs", seed, *key))
        dropped += _drop_reasons(group, decided, selected, level)
        pairs += selected
        ties += len(candidates) - len(decided)
    return Pairs(pairs, ties, dropped)


def pair_sides(trajectories: Sequence[Trajectory], pair: Pair, level: Level) -> tuple[Trajectory, Trajectory]:
    """Return the better and the worse trajectory, with `trained` off in turns that the level does not compare."""
    chosen, rejected = trajectories[pair.chosen], trajectories[pair.rejected]
    if level == "episode":
        return chosen, rejected
    last = pair.fork if level == "turn" else max(len(chosen.steps), len(rejected.steps))
    return _train_only_on(chosen, pair.fork, last), _train_only_on(rejected, pair.fork, last)


def opening_key(trajectory: Trajectory, level: Level = "episode") -> tuple[Hashable, ...]:
    """Return what two trajectories (with at least one step) must share to be compared."""
    untrained = takewhile(lambda step: not step.trained, trajectory.steps if level == "episode" else ())
    start = (*trajectory.provenance.task_key, trajectory.rules, trajectory.steps[0].observation)
    return *start, *((step.observation, step.reply) for step in untrained)


def _train_only_on(trajectory: Trajectory, first: int, last: int) -> Trajectory:
    """Train only on turns `first` to `last`; later turns are cut off, because nothing depends on them."""
    steps = trajectory.steps[: last + 1]
    return replace(trajectory, steps=tuple(replace(s, trained=s.trained and i >= first) for i, s in enumerate(steps)))


def _groups(
    trajectories: Sequence[Trajectory], level: Level, dropped: Counter[str]
) -> dict[tuple[Hashable, ...], list[int]]:
    """Positions of comparable trajectories by their key; others are counted in `dropped`."""
    groups: dict[tuple[Hashable, ...], list[int]] = defaultdict(list)
    for i, trajectory in enumerate(trajectories):
        if trajectory.steps and trajectory.is_evidence:
            groups[opening_key(trajectory, level)].append(i)
        else:
            dropped["without a turn, or ended by an infrastructure error"] += 1
    for key in [key for key, group in groups.items() if len(group) == 1]:
        del groups[key]
        dropped["alone at their task"] += 1
    return groups


def _candidates(trajectories: Sequence[Trajectory], group: Sequence[int], match: Match, level: Level) -> Iterator[Pair]:
    """The pairs that the rule compares, the better trajectory first."""
    if level != "episode":
        for fork, members in _states(trajectories, group, least=int(level == "fork")):
            replies = {i: trajectories[i].steps[fork].reply for i in members}
            for a, b in combinations(_ranked(trajectories, members, match), 2):
                if replies[a] != replies[b]:  # else they diverge later
                    yield Pair(a, b, fork)
        return
    order = _ranked(trajectories, group, match)
    if match == "best_worst":
        yield from (Pair(order[k], order[-1 - k]) for k in range(len(order) // 2))
    else:
        yield from (Pair(a, b) for a, b in combinations(order, 2))


def _ranked(trajectories: Sequence[Trajectory], positions: Sequence[int], match: Match) -> list[int]:
    """Positions, the best first."""
    order = best_first(trajectories, positions)
    return sorted(order, key=lambda i: not trajectories[i].success) if match == "success" else order


def _gap(trajectories: Sequence[Trajectory], pair: Pair, match: Match) -> float:
    """By how much the chosen trajectory is better."""
    chosen, rejected = trajectories[pair.chosen], trajectories[pair.rejected]
    return float(chosen.success - rejected.success) if match == "success" else chosen.reward - rejected.reward


def _states(trajectories: Sequence[Trajectory], group: Sequence[int], least: int) -> Iterator[tuple[int, list[int]]]:
    """States after at least `least` turns that several trajectories share: number of turns, positions.

    Trajectories share a state if the generator's seed and all observations and replies so far are equal.
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


def _limit(
    pairs: list[Pair], trajectories: Sequence[Trajectory], match: Match, max_pairs: int | None, rng: Rng
) -> list[Pair]:
    """At most `max_pairs` of a task's pairs; of equal gaps the later forks, which are closer to the end."""
    if match == "best_worst":
        pairs = sorted(pairs, key=lambda pair: (-_gap(trajectories, pair, match), -pair.fork))
    if max_pairs is None or len(pairs) <= max_pairs:
        return pairs
    return pairs[:max_pairs] if match == "best_worst" else sorted(rng.sample(pairs, max_pairs))


def _drop_reasons(group: Sequence[int], decided: list[Pair], selected: list[Pair], level: Level) -> Counter[str]:
    """Count the trajectories of a group that are in no pair, by reason."""
    in_decided, in_selected = ({i for pair in pairs for i in pair[:2]} for pairs in (decided, selected))
    state = {"episode": "", "fork": " after a shared turn", "turn": " in one state"}[level]
    reasons = {
        f"without a better or worse one of their task{state}": len(set(group) - in_decided),
        "beyond the most pairs of a task": len(in_decided - in_selected),
    }
    return Counter({reason: number for reason, number in reasons.items() if number})
