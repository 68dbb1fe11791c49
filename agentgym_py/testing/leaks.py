"""A check that the goal's answer stands neither in an observation nor in `info` before the end.

What is covered: of a world that names its `secrets` every one of them, in the first observation, in random episodes
with nonsense, and along the expert's plan. Of a world that names none a guess: the words of the expert's last action
that neither instruction, rules, tools nor listed actions hold, else those in its brackets though actions that are
listed hold them, must not stand, more often than another task's do, in the first observation and in `info` or in what
comes after empty, senseless and wrong replies. What an agent learns by acting well is not looked at there, and an
answer that is said in other words is not found. Where there is neither secret nor answer the check is skipped.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_py.testing.agents import tail
from agentgym_py.testing.harness import NONSENSE, NotApplicableError, Play, Subject, shown, stands_in

_WORD = re.compile(r"\w+(?:[.,:'/-]\w+)*")
_ARGUMENT = re.compile(r"\[(.*)\]", re.DOTALL)
_SURE = 1e-6
_CHANCE_AT_LEAST = 0.02
_HITS_AT_LEAST = 5
_OTHERS = 5


def leaks(subject: Subject) -> None:
    """Nothing of the goal's answer shows in observation or `info` before the end: `secrets()`, else a guess."""
    env = subject.shared
    env.reset(seed=subject.seeds(1)[0])
    if env.secrets() is None:
        subject.notes.append("guessed from the expert's last action: secrets() names nothing")
        _guessed(subject)
        return
    named = looked = 0
    for seed in subject.seeds(subject.settings.episodes):
        play = subject.play(env)
        play.reset(seed)
        named += len(env.secrets() or [])
        looked += _hides(play)
        for action in _moves(play, seed):
            play.step(action)
            if not play.ended:
                looked += _hides(play)
    if not looked:
        raise NotApplicableError("nothing was looked for: secrets() says [] all the time, that nothing is hidden")
    subject.notes.append(f"{named / subject.settings.episodes:.1f} secrets a task, as secrets() names them")


def _moves(play: Play, seed: int) -> Iterator[str]:
    """Random ones, then the expert's but for the last."""
    rng = play.subject.rng("leaks", seed)
    for _ in range(rng.below(8)):
        if not play.ended:
            yield NONSENSE if rng.below(3) == 0 else play.any_action(rng)
    if not play.ended:
        yield from play.expert()[:-1]


def _hides(play: Play) -> int:
    """How many secrets were looked for, of which none may show."""
    task = play.env.current_task
    public = "\n".join((task.instruction if task else "", *play.env.rules.values(), *play.moves.actions)).lower()
    seen = {"observation": play.observation, **{f"info[{key!r}]": text for key, text in _leaves(play.info)}}
    lowered = {where: text.lower() for where, text in seen.items()}
    secrets = play.env.secrets() or []
    for secret in secrets:
        for where, text in lowered.items():
            if stands_in(secret.lower(), text) and not stands_in(secret.lower(), public):
                play.fail(f"the secret {shown(secret)} stands in {where}: {shown(seen[where])}")
    return len(secrets)


def _leaves(info: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in info.items():
        yield key, value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


# ------------------------------------------------------------------------------------------------------------- guesses


@dataclass(frozen=True, slots=True)
class _Opening:
    """A task as it looks to who has not done anything sensible."""

    play: Play
    answer: frozenset[str]
    """Words of the expert's last action that nothing public holds."""
    seen: dict[str, set[str]]
    """Words by where they stand."""


def _guessed(subject: Subject) -> None:
    plays = [subject.play() for _ in subject.tasks("train", max(subject.settings.episodes, 30))]
    lasts = [_last_action(play, number) for number, play in enumerate(plays)]
    openings = [_opening(play, lasts, number) for number, play in enumerate(plays)]
    shares = Counter(each.answer for each in openings)
    answered = [each for each in openings if each.answer and shares[each.answer] <= len(openings) / 2]
    if not answered:
        raise NotApplicableError("nothing was looked for: declare secrets()")
    subject.notes.append(f"{len(answered)} of {len(openings)} tasks have such an answer")
    for where in sorted({where for each in answered for where in each.seen}):
        _no_more_than_by_chance(answered, where)


def _last_action(play: Play, number: int) -> str:
    play.reset(0, {"task": number, "split": "train"})
    plan = play.expert()
    play.need(bool(plan), "expert() is empty right after reset")
    return plan[-1]


def _opening(play: Play, lasts: Sequence[str], number: int) -> _Opening:
    play.reset(0, {"task": number, "split": "train"})
    env = play.env
    task = env.current_task
    public = _words(" ".join((task.instruction if task else "", *env.rules.values(), json.dumps(env.tools() or []))))
    words = _words(lasts[number]) - public - _words(" ".join(env.actions() or []))
    answer = frozenset(words or _words("".join(_ARGUMENT.findall(lasts[number]))) - public)
    seen = {"the first observation": _words(play.observation)}
    seen |= {f"info[{key!r}] of reset": _words(text) for key, text in _leaves(play.info)}
    for reply in ("", NONSENSE, lasts[number - 1]):
        if play.ended:
            break
        play.step(reply)
        if not play.ended:
            seen.setdefault("what follows a wrong reply", set()).update(_words(play.observation) - _words(reply))
            for key, text in _leaves(play.info):
                seen.setdefault(f"info[{key!r}] of step", set()).update(_words(text) - _words(reply))
    return _Opening(play, answer, seen)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _no_more_than_by_chance(openings: Sequence[_Opening], where: str) -> None:
    """As often as the answers of other tasks stand there, an answer may stand there."""
    own = [each for each in openings if each.answer <= each.seen.get(where, set())]
    tried = others = 0
    for number, each in enumerate(openings):
        for further in range(1, min(_OTHERS, len(openings) - 1) + 1):
            other = openings[(number + further) % len(openings)].answer
            tried += other != each.answer
            others += other != each.answer and other <= each.seen.get(where, set())
    chance = max(others / max(tried, 1), _CHANCE_AT_LEAST)
    if len(own) >= _HITS_AT_LEAST and tail(len(own), len(openings), chance) < _SURE:
        share = f"{len(own)} of {len(openings)} tasks (another task's in {others} of {tried})"
        words = " ".join(sorted(own[0].answer))
        own[0].play.fail(
            f"{where} holds the answer in {share}, here {shown(words)}; if it is no secret let secrets() return []"
        )
