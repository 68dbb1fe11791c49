"""A test that the world can be learned: a policy of a few thousand numbers climbs in seconds.

The policy is a log-linear model of the next action (a softmax over candidates), trained by cross-entropy on what the
fair expert does in states that it and random actions reach. The candidates are the fair expert's action, admissible
ones, and actions of the fair expert in other tasks. So the policy need not write text; it must tell the right action
from others by what the episode has shown. If it cannot, the observations do not say what the task needs.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym_py.certificate.criteria import levels
from agentgym_py.env import TextEnv
from agentgym_py.rng import Rng
from agentgym_py.testing.agents import binomial_tail
from agentgym_py.testing.failures import NotApplicableError
from agentgym_py.testing.harness import Episode, Subject

_TRAINING_TASKS, _HELD_OUT_TASKS = 300, 100
"""Enough that a small climb is seen; more if the settings ask for more episodes than these."""
_LISTED, _POOLED = 8, 7
"""Candidates beside the right action: admissible ones, and the expert's in other tasks."""
_NOISE = 0.2
"""Share of random candidates in training episodes, so that the policy learns to recover."""
_EPOCHS, _LEARNING_RATE = 4, 0.3
_CPU_SECONDS = 300.0
_MAX_P, _MIN_CLIMB = 0.01, 0.15
"""Largest p of the sign test, and smallest share of tasks that become better, less those that become worse."""
_MAX_WORDS, _SHORT, _SENTENCE = 60, 4, 12
"""Words of a text that are features, of an observation that is one as a whole, and of one that says a fact."""
_WORD = re.compile(r"[^\W_]+")


class Outcome(NamedTuple):
    """The end of an episode; the larger, the better."""

    success: bool
    total: float


@dataclass(slots=True)
class History:
    """What an episode has shown and what was done in it, as words."""

    instruction: list[str]
    latest: list[str]
    """Words of the last observation."""
    seen: set[str] = field(default_factory=set)
    """Words of all observations."""
    recalled: int = 0
    """Number of words of the last observation that were shown before, or twice in the first one."""
    said: dict[str, set[str]] = field(default_factory=dict)
    """For each word of a short observation the words beside it, such as `no` for `red` after `Does red fit? No.`"""
    taken: Counter[str] = field(default_factory=Counter)
    taken_here: set[tuple[str, ...]] = field(default_factory=set)
    """Actions, each after the words of the observation in which it was taken."""
    last_action: str = ""

    def add(self, action: str, observation: str) -> None:
        """Add a step."""
        self.taken[action] += 1
        self.taken_here.add((*self.latest, action))
        self.last_action = action
        self.latest = words_of(observation)
        self.recalled = len(self.seen.intersection(self.latest))
        self.seen.update(self.latest)
        if len(self.latest) <= _SENTENCE:
            for word in self.latest:
                self.said.setdefault(word, set()).update(self.latest)


def words_of(text: str) -> list[str]:
    """Return the first words of a text in lower case."""
    return _WORD.findall(text.lower())[:400]


def features(history: History, action: str) -> Iterator[tuple[object, ...]]:
    """Yield what the policy knows of a candidate in a state: names that are equal for equal facts."""
    words = words_of(action) or [""]
    name, step = words[0], min(sum(history.taken.values()), 6)
    yield ("name", name)
    yield ("length", name, min(len(words), 8))
    yield ("step", name, step)
    yield ("last", name, *words_of(history.last_action)[:1])
    yield ("next", history.last_action, action)
    if len(history.latest) <= _SHORT:
        yield ("next after", *history.latest, history.last_action, action)
    yield ("taken here", name, (*history.latest, action) in history.taken_here)
    yield ("taken", name, min(history.taken[action], 2))
    told, latest = set(history.instruction), set(history.latest)
    for place, word in enumerate(words[1:_MAX_WORDS], 1):
        yield ("word", name, word)
        yield ("shown", name, min(place, 4), word in told, word in latest, word in history.seen)
        for label, text in (("told after", history.instruction), ("latest after", history.latest)):
            if word in text:
                at = text.index(word)
                yield (label, name, text[at - 1] if at else "")
    letters = {word for word in told if len(word) == 1 and word.isalpha()}
    yield ("letters told", name, min(3, sum(letter not in action.lower() for letter in letters)))
    shown = [word in history.seen or word in told for word in words[1:]]
    yield ("recalled", name, step, min(history.recalled, 4))
    yield ("all shown", name, all(shown), any(shown))
    said = set[str]().union(*(history.said.get(word, ()) for word in words[1:_MAX_WORDS]))
    for beside in sorted(said.difference(words)):
        yield ("said of", name, beside)
    for word in history.latest[:_MAX_WORDS]:
        yield ("context", name, word)


class LinearPolicy:
    """Scores of candidate actions, linear in their features, trained with Adagrad (Duchi et al., 2011)."""

    def __init__(self) -> None:
        self.index: dict[tuple[object, ...], int] = {}
        self.weights: NDArray[np.float64] = np.zeros(0)

    def encode(self, history: History, actions: Sequence[str], grow: bool) -> list[NDArray[np.int64]]:
        """Return the numbers of each candidate's features; unknown ones are dropped, or added with `grow`."""
        encoded = []
        for action in actions:
            names = dict.fromkeys(features(history, action))
            numbers = [self.index.setdefault(name, len(self.index)) if grow else self.index.get(name) for name in names]
            encoded.append(np.array([number for number in numbers if number is not None], dtype=np.int64))
        return encoded

    def fit(self, choices: Sequence[tuple[list[NDArray[np.int64]], int]], rng: Rng, deadline: float) -> None:
        """Train on choices: candidates, and the number of the right one."""
        self.weights, squares = np.zeros(len(self.index)), np.full(len(self.index), 1e-6)
        for _ in range(_EPOCHS):
            for number in rng.sample(range(len(choices)), len(choices)):
                if time.process_time() > deadline:
                    return
                candidates, right = choices[number]
                scores = np.array([self.weights[ids].sum() for ids in candidates])
                errors = np.exp(scores - scores.max())
                errors /= errors.sum()
                errors[right] -= 1.0
                for ids, error in zip(candidates, errors, strict=True):
                    squares[ids] += error * error
                    self.weights[ids] -= _LEARNING_RATE * error / np.sqrt(squares[ids])

    def choose(self, history: History, actions: Sequence[str]) -> str:
        """Return the candidate with the highest score."""
        scores = [self.weights[ids].sum() for ids in self.encode(history, actions, grow=False)]
        return actions[int(np.argmax(scores))]


def learnable(subject: Subject) -> None:
    """A tiny policy that imitates the fair expert does better in held-out tasks than one that guesses.

    Both choose among the same kind of candidates, in valid tasks of the easiest difficulty. A task is better if its
    success is, or with equal success its return. At least 15 % more tasks must be better than worse, and an exact sign
    test over tasks must say so at p < 0.01.
    """
    world = next(iter(levels(subject).values()))
    settings = world.settings
    train, held_out = (
        world.tasks("train", max(_TRAINING_TASKS, settings.episodes)),
        world.tasks("valid", max(_HELD_OUT_TASKS, settings.episodes)),
    )
    if not train or not held_out:
        raise NotApplicableError("the training or the valid split has no tasks")
    began = time.process_time()
    policy, choices = LinearPolicy(), list[tuple[list[NDArray[np.int64]], int]]()
    pools = {split: _pool(world, split, numbers) for split, numbers in (("train", train), ("valid", held_out))}
    for number in train:
        choices += _expert_choices(world, number, policy, pools["train"])
    if not choices:
        raise NotApplicableError("the fair expert does nothing in the training tasks")
    policy.fit(choices, world.rng("fit"), began + _CPU_SECONDS)
    before = [_play(world, number, None, pools["valid"]) for number in held_out]
    after = [_play(world, number, policy, pools["valid"]) for number in held_out]
    better, worse = (
        sum(a > b for a, b in zip(one, two, strict=True)) for one, two in ((after, before), (before, after))
    )
    rates = [sum(outcome.success for outcome in outcomes) for outcomes in (before, after)]
    seconds = time.process_time() - began
    note = (
        f"success in valid tasks {rates[0]} -> {rates[1]} of {len(held_out)} after {len(train)} training tasks, in "
        f"{seconds:.0f} CPU seconds"
    )
    p = binomial_tail(better, better + worse, 0.5)
    subject.measured.update(
        success_untrained=rates[0] / len(held_out), success_trained=rates[1] / len(held_out), cpu_seconds=seconds
    )
    subject.require_overall(
        climbs(better, worse, len(held_out)),
        f"the policy does not climb: {note}; {better} tasks better, {worse} worse (p = {p:.2g})"
        + _no_fair_expert(subject),
    )
    subject.notes.append(note)


def _no_fair_expert(subject: Subject) -> str:
    """Return a likely reason if a world has no fair expert: choices that depend on hidden facts cannot be learned."""
    if type(subject.shared).fair_expert is not TextEnv.fair_expert:
        return ""
    return "; it imitates expert(), which knows what is hidden, because the world has no fair_expert()"


def climbs(better: int, worse: int, tasks: int) -> bool:
    """Return whether at least 15 % more tasks became better than worse, and more than chance explains."""
    p = binomial_tail(better, better + worse, 0.5)
    return p < _MAX_P and better - worse >= _MIN_CLIMB * tasks


def _pool(world: Subject, split: str, numbers: Sequence[int]) -> list[tuple[int, str]]:
    """Return the fair expert's actions in tasks of a split, each with the task's number."""
    pool, env = list[tuple[int, str]](), world.shared
    for number in numbers:
        episode = world.episode(env)
        episode.reset(0, {"task": number, "split": split})
        while not episode.over and (action := env.fair_expert()) is not None:
            pool.append((number, action))
            episode.step(action)
    return pool


def candidates(env: TextEnv, right: str, number: int, pool: Sequence[tuple[int, str]], rng: Rng) -> list[str]:
    """Return the right action and up to 15 others, shuffled."""
    listed = env.actions() or []
    others = rng.sample(listed, min(_LISTED, len(listed)))
    want = _POOLED + _LISTED - len(others)
    others += [action for task, action in rng.sample(pool, min(3 * want, len(pool))) if task != number][:want]
    actions = list(dict.fromkeys([right, *others]))
    return rng.sample(actions, len(actions))


def _begin(world: Subject, number: int, split: str) -> tuple[Episode, History]:
    episode = world.episode(world.shared)
    observation = episode.reset(0, {"task": number, "split": split})
    task = world.shared.current_task
    words = words_of(observation)
    repeated = sum(number > 1 for number in Counter(words).values())
    return episode, History(words_of(task.instruction if task else ""), words, set(words), repeated)


def _expert_choices(
    world: Subject, number: int, policy: LinearPolicy, pool: Sequence[tuple[int, str]]
) -> list[tuple[list[NDArray[np.int64]], int]]:
    """Play a training task as the fair expert, with some random candidates that do not end it; return its choices."""
    rng, choices = world.rng("choices", number), list[tuple[list[NDArray[np.int64]], int]]()
    episode, history = _begin(world, number, "train")
    while not episode.over and (right := episode.env.fair_expert()) is not None:
        actions = candidates(episode.env, right, number, pool, rng)
        choices.append((policy.encode(history, actions, grow=True), actions.index(right)))
        action, before = (rng.choice(actions) if rng.uniform() < _NOISE else right), episode.snapshot()
        turn = episode.step(action)
        if turn.terminated and action != right:
            episode.take_back(before)
            action, turn = right, episode.step(right)
        history.add(action, turn.observation)
    return choices


def _play(world: Subject, number: int, policy: LinearPolicy | None, pool: Sequence[tuple[int, str]]) -> Outcome:
    """Play a valid task by the policy's choices, or by random ones."""
    rng, total = world.rng("held out", number), 0.0
    episode, history = _begin(world, number, "valid")
    while not episode.over and (right := episode.env.fair_expert()) is not None:
        actions = candidates(episode.env, right, number, pool, rng)
        action = policy.choose(history, actions) if policy else rng.choice(actions)
        turn = episode.step(action)
        total += turn.reward
        history.add(action, turn.observation)
    return Outcome(episode.env.succeeded, total)
