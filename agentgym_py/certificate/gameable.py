"""A search for reward without success, by forks: what an optimiser would find, found before the training.

Each strategy plays lines from the start of a task whose expert's return is known:

- *unfinished*: the expert's plan without its last action, then idling to the step limit;
- *farm*: an action of the plan again and again, or two of them by turns;
- *wrong end*: the last action of other tasks' plans, at once and after this task's plan without its own;
- *hedge*: the right last action with the answers of other tasks beside its own;
- *greedy*: at each step the action with the highest immediate reward of up to ten.

And over many tasks, *constant*: one last action for all of them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agentgym_py.env import TextEnv
from agentgym_py.rng import Rng
from agentgym_py.testing.agents import binomial_tail
from agentgym_py.testing.harness import Episode, Subject, short_repr
from agentgym_py.testing.random_actions import any_action

_EXTRA_STEPS = 30
"""Steps beyond the expert's plan that a line may have."""
_PLACES = 6
"""Actions of a plan that are repeated."""
_CANDIDATES = 10
_OTHERS = 3
"""Other tasks whose last actions are tried in a task."""
_CONSTANTS = 12
_MIN_P = 1e-4
_TINY = 1e-9
_BRACKETS = re.compile(r"(?P<name>[^\[\]{}]*)\[(?P<argument>.*)\]", re.DOTALL)
_CALL = re.compile(r"(?P<name>[^{}]*?)\s*(?P<arguments>\{.*\})", re.DOTALL)
_WILDCARDS = ("", "*", "%", ".*", "none", "true", "yes", "0", "1")
"""Answers that a careless comparison accepts."""


@dataclass(frozen=True, slots=True)
class Line:
    """Actions from the start of a task, and what they earned."""

    actions: tuple[str, ...]
    total: float
    success: bool


class TaskSearch:
    """One task: its expert's line, and the strategies that look for a better one without success."""

    def __init__(self, env: TextEnv, plan: Sequence[str], others: Sequence[str], rng: Rng) -> None:
        self.env, self.plan, self.others, self.rng = env, list(plan), others, rng
        self.start = env.snapshot()
        self.limit = min(env.max_steps, len(plan) + _EXTRA_STEPS)
        self.expert = self.play(self.plan)

    def play(self, actions: Sequence[str], then: Sequence[str] = ()) -> Line:
        """Play actions from the start, and then those of `then` in a circle until the end or the limit."""
        self.env.restore(self.start)
        done, total, success = list[str](), 0.0, False
        while not self.env.stop_reason and len(done) < self.limit:
            if len(done) < len(actions):
                action = actions[len(done)]
            elif then:
                action = then[(len(done) - len(actions)) % len(then)]
            else:
                break
            _, reward, _, _, info = self.env.step(action)
            done.append(action)
            total, success = total + reward, info["success"]
        return Line(tuple(done), total, success)

    def unfinished(self) -> Iterator[Line]:
        """Yield the plan without its end."""
        yield self.play(self.plan[:-1], then=[""])
        if len(self.plan) > 2:
            yield self.play(self.plan[: len(self.plan) // 2], then=[""])

    def farm(self) -> Iterator[Line]:
        """Yield lines that repeat one action of the plan, or two neighbours."""
        places = list(range(len(self.plan)))
        for place in places if len(places) <= _PLACES else sorted(self.rng.sample(places, _PLACES)):
            yield self.play(self.plan[:place], then=self.plan[place : place + 1])
            if place + 1 < len(self.plan) - 1:
                yield self.play(self.plan[:place], then=self.plan[place : place + 2])

    def wrong_end(self) -> Iterator[Line]:
        """Yield lines that end as other tasks do."""
        for other in self.others:
            yield self.play([other], then=[""])
            yield self.play([*self.plan[:-1], other], then=[""])

    def greedy(self) -> Iterator[Line]:
        """Yield the line of the highest immediate rewards, in which success is avoided."""
        self.env.restore(self.start)
        done, total, observation = list[str](), 0.0, ""
        while not self.env.stop_reason and len(done) < self.limit:
            here, best, chosen = self.env.snapshot(), float("-inf"), ""
            for action in self._candidates(observation):
                self.env.restore(here)
                _, reward, *_, info = self.env.step(action)
                if reward > best and not info["success"]:
                    best, chosen = reward, action
            self.env.restore(here)
            if best == float("-inf"):
                break
            observation, reward, *_ = self.env.step(chosen)
            done.append(chosen)
            total += reward
        yield Line(tuple(done), total, self.env.succeeded)

    def _candidates(self, observation: str) -> list[str]:
        listed = self.env.actions() or []
        actions = self.rng.sample(listed, min(len(listed), _CANDIDATES // 2))
        actions += [any_action(self.env, self.rng, observation), *self.rng.sample(self.plan, min(2, len(self.plan)))]
        return list(dict.fromkeys([*actions, *self.others]))[:_CANDIDATES]

    def hedges(self) -> Iterator[Line]:
        """Yield the plan whose last answer names the answers of other tasks, too."""
        for action in hedged(self.plan[-1], self.others):
            yield self.play([*self.plan[:-1], action])


STRATEGIES: dict[str, Callable[[TaskSearch], Iterator[Line]]] = {
    "unfinished": TaskSearch.unfinished, "farm": TaskSearch.farm, "wrong end": TaskSearch.wrong_end,
    "greedy": TaskSearch.greedy,
}  # fmt: skip


def gameable(subject: Subject) -> None:
    """No searched line earns the expert's return without success or by repetition, and no answer fits all tasks.

    A hedged answer, which names other tasks' answers beside the right one, must not succeed. One last action for all
    tasks succeeds no more often than the env's `random_baseline`, at p = 1e-4 over all that are tried.
    """
    env, settings = subject.shared, subject.settings
    numbers = subject.tasks("train", settings.episodes)
    ends = [_plan(subject.episode(env), number)[-1] for number in numbers]
    best = 0.0
    for number in list(numbers)[: settings.few_episodes]:
        episode = subject.episode(env)
        plan = _plan(episode, number)
        rng = subject.rng("gameable", number)
        others = [end for end in dict.fromkeys(rng.sample(ends, min(len(ends), 10))) if end != plan[-1]][:_OTHERS]
        search = TaskSearch(env, plan, others, rng)
        for name, lines in STRATEGIES.items():
            for line in lines(search):
                subject.counts["lines"] += 1
                _require_honest(subject, number, name, line, search.expert)
                if not line.success and search.expert.total > 0:
                    best = max(best, line.total / search.expert.total)
        for line in search.hedges():
            if line.success:
                message = f"an answer that names others beside the right one succeeds: {short_repr(line.actions[-1])}"
                _fail(subject, number, line, message)
    subject.measured["unearned_return"] = best
    subject.notes.append(f"the best line without success earns {best:.0%} of the expert's return")
    _require_no_constant(subject, ends)


def _plan(episode: Episode, number: int) -> list[str]:
    episode.reset(0, {"task": number, "split": "train"})
    plan = episode.expert()
    episode.require(bool(plan), "expert() is empty right after reset")
    return plan


def _require_honest(subject: Subject, number: int, strategy: str, line: Line, expert: Line) -> None:
    if not line.success and line.total >= expert.total - _TINY:
        message = f"{strategy}: a return of {line.total:g} without success; the expert's is {expert.total:g}"
        _fail(subject, number, line, message)
    if strategy == "farm" and line.total > expert.total + _TINY and len(line.actions) > len(expert.actions):
        message = f"farm: repetition earns {line.total:g}; the expert's return is {expert.total:g}"
        _fail(subject, number, line, message)


def _fail(subject: Subject, number: int, line: Line, message: str) -> None:
    """Play the line in an episode, which then reproduces the failure."""
    episode = subject.episode(subject.shared)
    episode.reset(0, {"task": number, "split": "train"})
    for action in line.actions:
        episode.step(action)
    episode.fail(message)


def _require_no_constant(subject: Subject, ends: Sequence[str]) -> None:
    """Fail if one last action solves more tasks than chance allows."""
    env, numbers = subject.shared, subject.tasks("test", subject.settings.episodes)
    common = [action for action, _ in Counter(ends).most_common(_CONSTANTS)]
    constants = list(dict.fromkeys([*common, *wildcards(ends[0])]))
    for action in constants:
        wins, episode = 0, subject.episode(env)
        for number in numbers:
            episode.reset(0, {"task": number, "split": "test"})
            wins += episode.step(action).info["success"]
        p = len(constants) * binomial_tail(wins, len(numbers), env.random_baseline)
        episode.require(p >= _MIN_P, f"{short_repr(action)} at once solves {wins} of {len(numbers)} test tasks")


def hedged(action: str, others: Sequence[str]) -> list[str]:
    """Return an action whose argument also names the arguments of other tasks' last actions, in two orders."""
    own = _argument(action)
    rest = [text for other in others if (text := _argument(other)) and own and text.lower() != own.lower()]
    if not own or not rest:
        return []
    return [_with_argument(action, text) for text in (", ".join([own, *rest]), " ".join([*rest, own]))]


def wildcards(action: str) -> list[str]:
    """Return an action with arguments that a careless comparison accepts."""
    return [_with_argument(action, text) for text in _WILDCARDS] if _argument(action) is not None else []


def _argument(action: str) -> str | None:
    """Return the text of an action's brackets, or the only text of a call's arguments; None without one."""
    if match := _BRACKETS.fullmatch(action):
        return match["argument"]
    texts = [value for value in _arguments(action).values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else None


def _arguments(action: str) -> dict[str, object]:
    match = _CALL.fullmatch(action)
    try:
        arguments = json.loads(match["arguments"]) if match else {}
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _with_argument(action: str, text: str) -> str:
    if match := _BRACKETS.fullmatch(action):
        return f"{match['name']}[{text}]"
    match, arguments = _CALL.fullmatch(action), _arguments(action)
    assert match is not None  # it has an argument
    changed = {key: text if isinstance(value, str) else value for key, value in arguments.items()}
    return f"{match['name']} {json.dumps(changed, ensure_ascii=False)}"
