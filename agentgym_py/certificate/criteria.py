"""Criteria of a certificate that need no search: solvable, floor and ceiling, difficulty, splits."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, pvariance

from agentgym_py.env import SPLITS
from agentgym_py.rng import Rng
from agentgym_py.testing.agents import THOUGHTLESS
from agentgym_py.testing.failures import Moves, NotApplicableError
from agentgym_py.testing.harness import Episode, Subject

_FLOOR = 0.5
"""The floor may be this share of the ceiling, or the env's `random_baseline` if that is more."""
_FLOOR_NOISE = 2.0
"""Standard errors by which chance may lift the floor."""
_NOISE = 0.3
"""Chance that the noisy expert acts at random."""
_MIN_Z = 3.0
"""Standard errors by which one difficulty differs from another."""
_TWIN, _SAME_STATE = 0.8, 0.95
"""Two tasks of one plan are twins if they share this much of their first observations, in bits: with the instruction,
or without it."""
_ENOUGH_BITS = 8.0
"""Words with fewer bits do not tell a task from others."""
_USUAL_PLAN = 0.05
"""A plan that more of the training tasks have, such as refusing at once, tells no task from others."""
_FEW_TWINS = 2
_SPLIT_FACTOR = 3
"""Tasks of each split that are compared, per episode of the settings."""
_WORD = re.compile(r"\w+")


def levels(subject: Subject) -> dict[str, Subject]:
    """Return a subject for each difficulty from easy to hard; only the subject itself if there is one."""
    names = () if "difficulty" in subject.spec.kwargs else subject.shared.difficulties
    return {name: subject.at(difficulty=name) for name in names} or {"": subject}


# ---- solvable --------------------------------------------------------------------------------------------------------


def solvable(subject: Subject) -> None:
    """The exact expert succeeds in every task that is tried, of each split and difficulty, within the step limit."""
    for name, level in levels(subject).items():
        steps = list[int]()
        for split in SPLITS:
            for number in level.tasks(split, level.settings.few_episodes):
                episode = level.episode(level.shared)
                episode.reset(0, {"task": number, "split": split})
                plan = episode.expert()
                limit = (
                    f"the plan of the expert has {len(plan)} actions, and the step limit is {level.shared.max_steps}"
                )
                episode.require(len(plan) <= level.shared.max_steps, limit)
                last = episode.follow(plan)
                episode.require(
                    last.info["success"], "the expert's plan ends without success: the task is not solvable"
                )
                steps.append(len(plan))
        subject.notes.append(f"{name + ': ' if name else ''}{fmean(steps):.1f} steps, at most {max(steps)}")


# ---- floor and ceiling -----------------------------------------------------------------------------------------------


def floor_and_ceiling(subject: Subject) -> None:
    """Each task pays the expert more than an agent that does not think, and the mean return of those is far below.

    The ceiling is the expert's mean return, the floor that of the best of five thoughtless agents. The floor may be
    half of the ceiling, or more if the env declares a higher `random_baseline`, by two standard errors.
    """
    numbers = subject.tasks("test", subject.settings.episodes)
    if not numbers:
        raise NotApplicableError("the test split has no tasks")
    returns = {name: [_thoughtless_return(subject, name, number) for number in numbers] for name in THOUGHTLESS}
    ceilings = [_expert_return(subject, number) for number in numbers]
    for place, number in enumerate(numbers):
        idle = returns["says nothing"][place]
        message = f"the expert's return of {ceilings[place]:g} is no more than the {idle:g} of doing nothing"
        subject.require(ceilings[place] > idle, message, Moves(0, {"task": number, "split": "test"}))
    best = max(returns, key=lambda name: fmean(returns[name]))
    floor, ceiling = fmean(returns[best]), fmean(ceilings)
    subject.measured.update(floor=floor, ceiling=ceiling)
    note = f"ceiling {ceiling:.2f}, floor {floor:.2f} (an agent that {best})"
    limit = max(_FLOOR, subject.shared.random_baseline) * ceiling if ceiling > 0 else ceiling
    noise = _FLOOR_NOISE * math.sqrt(pvariance(returns[best]) / len(numbers))
    subject.require_overall(
        floor < ceiling and floor <= limit + noise, f"{note}: a floor of at most {limit:.2f} leaves room to learn"
    )
    subject.notes.append(note)


def _expert_return(subject: Subject, number: int) -> float:
    episode = subject.episode(subject.shared)
    episode.reset(0, {"task": number, "split": "test"})
    return math.fsum(episode.step(action).reward for action in episode.expert())


def _thoughtless_return(subject: Subject, name: str, number: int) -> float:
    episode, rng, total = subject.episode(subject.shared), subject.rng("floor", name, number), 0.0
    episode.reset(0, {"task": number, "split": "test"})
    first = episode.any_action(rng)
    while not episode.over:
        total += episode.step(THOUGHTLESS[name](episode, rng, first)).reward
    return total


# ---- difficulty ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Hardness:
    """How hard the tasks of one difficulty are: a number per task, larger if harder."""

    exact: list[float] = field(default_factory=list)
    """Steps of the exact expert."""
    fair: list[float] = field(default_factory=list)
    """Steps of the fair expert; the step limit if it fails."""
    noisy: list[float] = field(default_factory=list)
    """1 if the fair expert fails that acts at random in 30 % of its steps."""

    def z_scores(self, easier: Hardness) -> list[float]:
        """Return by how many standard errors this is harder, in each measure."""
        return [z_score(easier.exact, self.exact), z_score(easier.fair, self.fair), z_score(easier.noisy, self.noisy)]

    @property
    def summary(self) -> str:
        """The means."""
        return (
            f"{fmean(self.exact):.1f} exact and {fmean(self.fair):.1f} fair steps, {1 - fmean(self.noisy):.0%} "
            "with noise"
        )


def z_score(low: Sequence[float], high: Sequence[float]) -> float:
    """Return the difference of two means in standard errors (Welch); infinite between two constants that differ."""
    gap = fmean(high) - fmean(low)
    error = math.sqrt(pvariance(low) / len(low) + pvariance(high) / len(high))
    return gap / error if error else math.copysign(math.inf, gap) if gap else 0.0


def difficulty(subject: Subject) -> None:
    """The hardest difficulty is harder than the easiest, and none is easier than the one before it.

    A difficulty is harder if the exact expert or the fair one needs more steps, or if the fair one with random actions
    fails more often, by three standard errors. It is easier if one measure says so, and no measure the contrary.
    """
    found = {name: _hardness(level) for name, level in levels(subject).items()}
    if len(found) < 2:
        raise NotApplicableError("the world has one difficulty only")
    names = list(found)
    subject.notes += [f"{name}: {hardness.summary}" for name, hardness in found.items()]
    said = "; ".join(subject.notes)
    for low, high in pairwise(names):
        scores = found[high].z_scores(found[low])
        reverse = min(scores) < -_MIN_Z and max(scores) < _MIN_Z
        subject.require_overall(not reverse, f"{high!r} is easier than {low!r}: {said}")
    separate = max(found[names[-1]].z_scores(found[names[0]])) >= _MIN_Z
    subject.require_overall(separate, f"{names[-1]!r} is not harder than {names[0]!r}: {said}")


def _hardness(level: Subject) -> Hardness:
    hardness, env = Hardness(), level.shared
    for number in level.tasks("test", level.settings.episodes):
        episode = level.episode(env)
        options = {"task": number, "split": "test"}
        episode.reset(0, options)
        hardness.exact.append(len(episode.expert()))
        play_fairly(episode, level.rng("fair", number), 0.0)
        hardness.fair.append(env.steps if env.succeeded else env.max_steps)
        episode.reset(0, options)
        play_fairly(episode, level.rng("noisy", number), _NOISE)
        hardness.noisy.append(float(not env.succeeded))
    return hardness


def play_fairly(episode: Episode, rng: Rng, noise: float) -> None:
    """Play to the end as the fair expert, a share of the actions at random."""
    while not episode.over:
        action = episode.env.fair_expert()
        if action is None:
            return
        episode.step(episode.any_action(rng) if rng.uniform() < noise else action)


# ---- splits ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opening:
    """A task as it begins, for a comparison with tasks of other splits."""

    task_id: str
    instruction: str
    """In lower case, without punctuation and spaces."""
    words: frozenset[str]
    """The words of the first observation."""
    state: frozenset[str]
    """Those that the instruction lacks."""
    plan: tuple[str, ...]
    """The exact expert's plan, in lower case."""

    def is_twin(self, other: Opening, bits: WordBits) -> bool:
        """Tell whether two tasks of one plan are the same but for a few words, or but for the instruction."""
        pairs = ((self.words, other.words, _TWIN), (self.state, other.state, _SAME_STATE))
        return any(bits.of(one) >= _ENOUGH_BITS and bits.overlap(one, two) >= share for one, two, share in pairs)


class WordBits:
    """How much a word says of a task: -log2 of the share of tasks that have it (inverse document frequency)."""

    def __init__(self, tasks: Sequence[frozenset[str]]) -> None:
        counts = Counter(word for words in tasks for word in words)
        self._most = math.log2(len(tasks) or 1)
        self._bits = {word: self._most - math.log2(count) for word, count in counts.items()}

    def of(self, words: frozenset[str]) -> float:
        """Return the bits of several words; a word of no task counts as one of a single task."""
        return math.fsum(self._bits.get(word, self._most) for word in words)

    def overlap(self, one: frozenset[str], other: frozenset[str]) -> float:
        """Return the share of bits that two sets of words have in common (weighted Jaccard)."""
        return self.of(one & other) / max(self.of(one | other), 1e-9)


def splits(subject: Subject) -> None:
    """No valid or test task is a training task again: in other punctuation, or with other words.

    Instructions are compared without case, punctuation and spaces. Two tasks are twins if the expert's plans are equal
    and the first observations share 80 % of their words, or 95 % without the instruction. A rare word counts more
    (`WordBits`), and plans that one training task in twenty has do not count. A split may have 1 % of twins.
    """
    openings = {split: _openings(subject, split) for split in SPLITS}
    bits = WordBits([opening.words for opening in openings["train"]])
    trained = {opening.instruction: opening for opening in openings["train"]}
    by_plan: dict[tuple[str, ...], list[Opening]] = {}
    for opening in openings["train"]:
        by_plan.setdefault(opening.plan, []).append(opening)
    most = max(_FEW_TWINS, int(_USUAL_PLAN * len(openings["train"])))
    by_plan = {plan: tasks for plan, tasks in by_plan.items() if len(tasks) <= most}
    for split in ("valid", "test"):
        twins = list[tuple[str, str]]()
        for opening in openings[split]:
            if same := trained.get(opening.instruction):
                message = f"{opening.task_id} has the instruction of {same.task_id}, but for punctuation"
                subject.require(False, message, Moves(0, {"task": opening.task_id}))
            pairs = [other for other in by_plan.get(opening.plan, []) if opening.is_twin(other, bits)]
            twins += [(opening.task_id, other.task_id) for other in pairs[:1]]
        share = f"{len(twins)} of {len(openings[split])} {split} tasks have a twin in training"
        if len(twins) > max(_FEW_TWINS, len(openings[split]) // 100):
            message = f"{share}, such as {' and '.join(twins[0])}: the same plan, almost the same words"
            subject.require(False, message, Moves(0, {"task": twins[0][0]}))
        subject.notes.append(share)


def _openings(subject: Subject, split: str) -> list[Opening]:
    env, openings = subject.shared, list[Opening]()
    for number in subject.tasks(split, _SPLIT_FACTOR * subject.settings.episodes):
        episode = subject.episode(env)
        observation = episode.reset(0, {"task": number, "split": split})
        task = env.current_task
        assert task is not None  # after reset
        told, shown = (_WORD.findall(text.lower()) for text in (task.instruction, observation))
        words, plan = frozenset(shown), tuple(action.lower() for action in episode.expert())
        openings.append(Opening(task.id, "".join(told), words, words - set(told), plan))
    return openings
