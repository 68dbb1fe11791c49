"""Checks with agents: the expert succeeds from every state, thoughtless agents stay below the random baseline."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentgym_py.env import SPLITS, TextEnv
from agentgym_py.rng import Rng
from agentgym_py.testing.failures import BrokenContractError, Moves, NotApplicableError, report_with
from agentgym_py.testing.harness import Episode, Subject, contains_words, short_repr

_MIN_P = 1e-4
"""A thoughtless agent fails the check when its successes are less likely than this under the random baseline."""
_RETRY_FACTOR = 10
_STATES, _ACTIONS_PER_STATE = 6, 5
"""States of an episode at which admissible actions are tried, and how many of them."""
_WANDER_FACTOR = 3
"""A wanderer takes fewer random steps than this factor times the plan's length, plus 12."""


def expert(subject: Subject) -> None:
    """From the start of tasks of every split: success, every action valid, in `optimal_steps` if the task has them.

    When it is asked again before each step, it also succeeds, in no more steps if the optimum is known. An env's own
    fair expert may fail, but two tasks that have shown the same so far must not differ in a secret that it says.
    """
    fair, default = _FairExpert(), type(subject.shared).fair_expert is TextEnv.fair_expert
    for split in SPLITS:
        for number in subject.tasks(split, subject.settings.episodes):
            episode = subject.episode(subject.shared)
            episode.reset(0, {"task": number, "split": split})
            plan = episode.expert()
            task = episode.env.current_task
            optimal = task.optimal_steps if task else None
            message = f"the plan has {len(plan)} actions, optimal_steps is {optimal}"
            episode.require(optimal in (None, len(plan)), message)
            _require_success(episode, plan)
            _require_success_when_replanned(episode, number, split, optimal)
            if not default:
                fair.play(episode, number, split)
    subject.notes.append("fair_expert() is not defined, so the exact expert replaces it" if default else fair.summary)


def _require_success(episode: Episode, plan: list[str]) -> None:
    last = episode.follow(plan)
    episode.require(last.terminated, "the expert's plan is done, and the episode has not terminated")
    episode.require(last.info["success"], "the expert's plan ends without success")


def _require_success_when_replanned(episode: Episode, number: int, split: str, optimal: int | None) -> None:
    episode.reset(0, {"task": number, "split": split})
    while not episode.over:
        plan = episode.expert()
        episode.require(bool(plan), "expert() is empty, and the episode is not over")
        episode.step(plan[0])
    when = "asked again before each step, the expert"
    episode.require(episode.env.succeeded, f"{when} does not reach success")
    steps = len(episode.moves.actions)
    episode.require(optimal in (None, steps), f"{when} takes {steps} steps, optimal_steps is {optimal}")


@dataclass(slots=True)
class _FairExpert:
    """The fair expert in many tasks: if two have shown the same, it must not tell their secrets apart."""

    successes: int = 0
    tasks: int = 0
    tasks_with_secrets: int = 0
    """Tasks in which it said a secret before an observation showed it."""
    _actions: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    """Its action in each visible history, and the hidden secrets that the action contains."""

    def play(self, episode: Episode, number: int, split: str) -> None:
        """Play a task; the fair expert may fail, but not raise, act after the end, or know more than was shown."""
        episode.reset(0, {"task": number, "split": split})
        history, knows_secret = [_instruction(episode), episode.observation], False
        while not episode.over:
            action = episode.env.fair_expert()
            if action is None:
                break
            episode.require(isinstance(action, str), f"fair_expert() gives {action!r}")
            knows_secret |= bool(self._hidden_secrets(episode, action, history))
            episode.step(action)
            history += [action, episode.observation]
        self.successes += episode.env.succeeded
        self.tasks += 1
        self.tasks_with_secrets += knows_secret

    def _hidden_secrets(self, episode: Episode, action: str, history: Sequence[str]) -> list[str]:
        """Return the hidden secrets in its action, which must be the same in every task with this history."""
        text = "\n".join(history).lower()
        secrets = [
            secret for secret in episode.env.secrets() or []
            if contains_words(action.lower(), secret.lower()) and not contains_words(text, secret.lower())
        ]  # fmt: skip
        state = json.dumps([*history, episode.env.actions()])
        other, other_secrets = self._actions.setdefault(state, (action, secrets))
        revealed = [*secrets, *other_secrets]
        if other != action and revealed:
            message = (
                f"fair_expert() says {short_repr(action)} here and {short_repr(other)} in another task that has shown "
                f"the same: no observation has shown the secret {short_repr(revealed[0])}"
            )
            raise BrokenContractError(message, replace(episode.moves, after="print(env.fair_expert())"))
        return secrets

    @property
    def summary(self) -> str:
        """Its successes, and in how many tasks it said a hidden secret."""
        hidden = self.tasks_with_secrets
        note = f"; in {hidden}, its action named a secret that no observation had shown" if hidden else ""
        return f"the fair expert succeeds in {self.successes} of {self.tasks} tasks{note}"


def actions(subject: Subject) -> None:
    """Most of what `actions()` lists is valid, tried in a fork at several states of a few episodes."""
    refused = tried = 0
    fork = subject.make()
    for seed in subject.seeds(subject.settings.few_episodes):
        episode, rng = subject.episode(), subject.rng("actions", seed)
        episode.reset(seed)
        for _ in range(_STATES):
            admissible = [] if episode.over else episode.env.actions()
            if admissible is None:
                raise NotApplicableError("actions() lists no actions")
            if not admissible:
                break
            before = episode.snapshot()
            sample = rng.sample(admissible, min(_ACTIONS_PER_STATE, len(admissible)))
            invalid = [action for action in sample if not _is_valid(fork, before, action, episode.moves)]
            refused, tried = refused + len(invalid), tried + len(sample)
            message = f"none of {len(invalid)} listed actions can be done, such as {short_repr(sample[0])}"
            episode.require(not len(invalid) == len(sample) > 1, message)
            episode.step(rng.choice(sample))
    summary = f"{refused} of {tried} listed actions were refused"
    subject.require(2 * refused <= tried, f"{summary}: list what can be done")
    subject.notes.append(summary)


def _is_valid(fork: TextEnv, before: bytes, action: str, moves: Moves) -> bool:
    """Try an action in a fork of the episode of `moves`."""
    with report_with(replace(moves, actions=(*moves.actions, action))):
        fork.restore(before)
        return bool(fork.step(action)[4]["valid_action"])


def wanderer(subject: Subject) -> None:
    """The expert still reaches success from states after random actions, nonsense and parts of a plan."""
    env = subject.make_longer()
    over = 0
    for seed in subject.seeds(subject.settings.episodes):
        rng = subject.rng("wanderer", seed)
        episode = subject.episode(env)
        episode.reset(seed)
        episode.explore(rng, rng.below(_WANDER_FACTOR * len(episode.expert()) + 12))
        if episode.over:
            over += 1
        else:
            _require_success(episode, episode.expert())
    subject.notes.append(f"{over} of {subject.settings.episodes} episodes ended before the expert took over")


# -------------------------------------------------------------------------------------------------- thoughtless agents

Policy = Callable[[Episode, Rng, str], str]
"""Returns the next action from the episode, a generator, and a random action drawn at the episode's start."""

THOUGHTLESS: Mapping[str, Policy] = {
    "says nothing": lambda episode, rng, first: "",
    "acts at random": lambda episode, rng, first: episode.any_action(rng),
    "echoes the observation": lambda episode, rng, first: episode.observation,
    "repeats one action": lambda episode, rng, first: first,
    "repeats the instruction": lambda episode, rng, first: _instruction(episode),
}


def _instruction(episode: Episode) -> str:
    task = episode.env.current_task
    return task.instruction if task else ""


def random_baseline(subject: Subject) -> None:
    """Agents that do not think succeed no more often than the env's `random_baseline`, 5 % by default.

    An agent above it plays ten times as many episodes. The check fails if its successes then have a probability below
    1 in 10,000 under the baseline.
    """
    numbers = subject.tasks("test", subject.settings.episodes)
    if not numbers:
        raise NotApplicableError("the test split has no tasks")
    for name in THOUGHTLESS:
        wins, tried = _wins(subject, name, numbers), len(numbers)
        if len(wins) > subject.shared.random_baseline * tried:
            tasks = subject.tasks("test", _RETRY_FACTOR * subject.settings.episodes)
            more = [number for number in tasks if number not in numbers]
            wins, tried = wins + _wins(subject, name, more), tried + len(more)
            _require_luck(subject, name, wins, tried)
        subject.notes.append(f"an agent that {name} succeeds in {len(wins)} of {tried} episodes")


def _wins(subject: Subject, name: str, numbers: Iterable[int]) -> list[Moves]:
    """Return the episodes of these test tasks in which a thoughtless agent succeeds."""
    wins = []
    for number in numbers:
        episode, rng = subject.episode(subject.shared), subject.rng("floor", name, number)
        episode.reset(0, {"task": number, "split": "test"})
        first = episode.any_action(rng)
        while not episode.over:
            episode.step(THOUGHTLESS[name](episode, rng, first))
        if episode.env.succeeded:
            wins.append(episode.moves)
    return wins


def _require_luck(subject: Subject, name: str, wins: Sequence[Moves], tried: int) -> None:
    baseline = subject.shared.random_baseline
    p = binomial_tail(len(wins), tried, baseline)
    share = f"{len(wins)} of {tried} episodes, the random baseline is {baseline:.0%}"
    message = f"an agent that {name} succeeds in {share} (p = {p:.1g}); one of them:"
    subject.require(p >= _MIN_P, message, wins[0])


def binomial_tail(hits: int, n: int, p: float) -> float:
    """Return P(X >= hits) of a binomial X of n tries at p."""
    if hits <= 0:
        return 1.0
    if p <= 0:
        return 0.0
    log_p, log_q = math.log(p), math.log1p(-p)
    ways = (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(hits, n + 1))
    return min(1.0, sum(math.exp(way + k * log_p + (n - k) * log_q) for k, way in enumerate(ways, hits)))
