"""A check that the goal's answer is neither in an observation nor in `info` before the end.

An env that declares `secrets()` is checked exactly: no secret may show in the first observation, in random episodes
with nonsense, or along the expert's plan. For any other env the answer is guessed: the words of the expert's last
action that are in neither instruction, rules, tools nor admissible actions; without any, the words in its brackets,
admissible or not. They may be in the first observation, in `info`, or in what follows empty, senseless and wrong
replies only as often as another task's answer. What an agent learns by acting well is not checked then, and a
paraphrased answer is not found. Without secrets and answers the check is skipped.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_py.testing.agents import binomial_tail
from agentgym_py.testing.failures import NotApplicableError
from agentgym_py.testing.harness import Episode, Subject, contains_words, short_repr
from agentgym_py.testing.random_actions import NONSENSE

_WORD = re.compile(r"\w+(?:[.,:'/-]\w+)*")
_ARGUMENT = re.compile(r"\[(.*)\]", re.DOTALL)
_MIN_P = 1e-6
_MIN_CHANCE = 0.02
_MIN_HITS = 5
_OTHER_TASKS = 5


def leaks(subject: Subject) -> None:
    """Nothing of the goal's answer shows in observation or `info` before the end: `secrets()`, else a guess."""
    env = subject.shared
    env.reset(seed=subject.seeds(1)[0])
    if env.secrets() is None:
        subject.notes.append("secrets() is not defined, so words of the expert's last action are searched for")
        _check_guesses(subject)
        return
    at_start = checked = 0
    for seed in subject.seeds(subject.settings.episodes):
        episode = subject.episode(env)
        episode.reset(seed)
        at_start += len(env.secrets() or [])
        checked += _check_secrets(episode)
        for action in _random_then_expert(episode, seed):
            episode.step(action)
            if not episode.over:
                checked += _check_secrets(episode)
    if not checked:
        raise NotApplicableError("secrets() always returns [], so the world hides nothing that could show")
    subject.notes.append(f"{at_start / subject.settings.episodes:.1f} texts of secrets() searched for in each task")


def _random_then_expert(episode: Episode, seed: int) -> Iterator[str]:
    """Yield random actions, then all of the expert's but the last."""
    rng = episode.subject.rng("leaks", seed)
    for _ in range(rng.below(8)):
        if not episode.over:
            yield NONSENSE if rng.below(3) == 0 else episode.any_action(rng)
    if not episode.over:
        yield from episode.expert()[:-1]


def _check_secrets(episode: Episode) -> int:
    """Fail if a secret shows; return the number of secrets."""
    task = episode.env.current_task
    public = "\n".join((task.instruction if task else "", *episode.env.rules.values(), *episode.moves.actions)).lower()
    texts = {"observation": episode.observation, **{f"info[{key!r}]": text for key, text in _info_texts(episode.info)}}
    lowered = {place: text.lower() for place, text in texts.items()}
    secrets = episode.env.secrets() or []
    for secret in secrets:
        for place, text in lowered.items():
            if contains_words(text, secret.lower()) and not contains_words(public, secret.lower()):
                episode.fail(f"the secret {short_repr(secret)} stands in {place}: {short_repr(texts[place])}")
    return len(secrets)


def _info_texts(info: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in info.items():
        yield key, value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


# ------------------------------------------------------------------------------------------------------------- guesses


@dataclass(frozen=True, slots=True)
class _Opening:
    """A task as an agent sees it that has done nothing sensible yet."""

    episode: Episode
    answer: frozenset[str]
    """Words of the expert's last action that nothing public contains."""
    words: dict[str, set[str]]
    """Visible words by place."""


def _check_guesses(subject: Subject) -> None:
    episodes = [subject.episode() for _ in subject.tasks("train", max(subject.settings.episodes, 30))]
    last_actions = [_last_action(episode, number) for number, episode in enumerate(episodes)]
    openings = [_opening(episode, last_actions, number) for number, episode in enumerate(episodes)]
    counts = Counter(opening.answer for opening in openings)
    answered = [opening for opening in openings if opening.answer and counts[opening.answer] <= len(openings) / 2]
    if not answered:
        raise NotApplicableError("the expert's last action has no word to search for: define secrets()")
    subject.notes.append(f"{len(answered)} of {len(openings)} tasks have such an answer")
    for place in sorted({place for opening in answered for place in opening.words}):
        _require_chance(answered, place)


def _last_action(episode: Episode, number: int) -> str:
    episode.reset(0, {"task": number, "split": "train"})
    plan = episode.expert()
    episode.require(bool(plan), "expert() is empty right after reset")
    return plan[-1]


def _opening(episode: Episode, last_actions: Sequence[str], number: int) -> _Opening:
    episode.reset(0, {"task": number, "split": "train"})
    env, task = episode.env, episode.env.current_task
    public = _words(" ".join((task.instruction if task else "", *env.rules.values(), json.dumps(env.tools() or []))))
    answer = _words(last_actions[number]) - public - _words(" ".join(env.actions() or []))
    answer = answer or _words("".join(_ARGUMENT.findall(last_actions[number]))) - public
    words = {"the first observation": _words(episode.observation)}
    words |= {f"info[{key!r}] of reset": _words(text) for key, text in _info_texts(episode.info)}
    for reply in ("", NONSENSE, last_actions[number - 1]):
        if episode.over:
            break
        episode.step(reply)
        if not episode.over:
            words.setdefault("what follows a wrong reply", set()).update(_words(episode.observation) - _words(reply))
            for key, text in _info_texts(episode.info):
                words.setdefault(f"info[{key!r}] of step", set()).update(_words(text) - _words(reply))
    return _Opening(episode, frozenset(answer), words)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _require_chance(openings: Sequence[_Opening], place: str) -> None:
    """Fail if answers are in a place more often than the answers of other tasks."""
    hits = [opening for opening in openings if opening.answer <= opening.words.get(place, set())]
    tried = other_hits = 0
    for number, opening in enumerate(openings):
        for offset in range(1, min(_OTHER_TASKS, len(openings) - 1) + 1):
            other = openings[(number + offset) % len(openings)].answer
            tried += other != opening.answer
            other_hits += other != opening.answer and other <= opening.words.get(place, set())
    chance = max(other_hits / max(tried, 1), _MIN_CHANCE)
    if len(hits) >= _MIN_HITS and binomial_tail(len(hits), len(openings), chance) < _MIN_P:
        share = f"{len(hits)} of {len(openings)} tasks (another task's in {other_hits} of {tried})"
        words = short_repr(" ".join(sorted(hits[0].answer)))
        hits[0].episode.fail(
            f"{place} holds the answer in {share}, here {words}; if it is not a secret let secrets() return []"
        )
