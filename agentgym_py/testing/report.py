"""What came of the checks, for people and for programs."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.registration import env_id, target_of
from agentgym_py.registry import installed
from agentgym_py.testing.harness import Moves, Settings

_RESTORE = """before = env.snapshot()
try:
    env.restore({}.encode('latin-1'))
    print(env.expert(), env.step('anything'))
except agentgym_py.errors.SnapshotError as error:
    print(f"{{error}}; the episode has changed: {{env.snapshot() != before}}")"""
Status = Literal["passed", "failed", "skipped", "stopped"]
_MESSAGE_AT_MOST = 80
_PERIOD_AT_MOST = 16
_LONG_TEXT = 400
_RUN = re.compile(r"(.)\1{49,}", re.DOTALL)
_PLACE = re.compile(r'^  File "(.*)", line (\d+), in ', re.MULTILINE)
_RAISED = re.compile(r"^\w[\w.]*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Failure:
    """What is wrong, and the episode that shows it."""

    message: str
    moves: Moves | None = None
    """The reset and the actions that show it; None where no episode is needed."""
    traceback: str = ""
    """Where the world raised, if it did."""

    @property
    def cause(self) -> str:
        """The same for two failures of one cause: the line of the world that raised, and what; else the message."""
        places = list(_PLACE.finditer(self.traceback))
        own = [place for place in places if place[1] == places[0][1]]
        raised = _RAISED.search(self.traceback, places[-1].end()) if places else None
        return f"{raised[0]} {own[-1][1]}:{own[-1][2]}" if raised else self.message

    def replay(self, spec: EnvSpec) -> TextEnv:
        """The world after these moves: the last of them raises what it raised, or shows what is wrong."""
        moves = self.moves or Moves()
        env = spec.make()
        env.reset(seed=moves.seed, options=dict(moves.options) if moves.options else None)
        for action in moves.actions:
            env.step(action)
        if moves.snapshot is not None:
            env.restore(moves.snapshot.encode("latin-1"))
        return env

    def script(self, spec: EnvSpec) -> str:
        """The same as a program to paste."""
        moves = self.moves or Moves()
        name = env_id(spec.name)
        more = "".join(f", {key}={value!r}" for key, value in spec.kwargs.items())
        made = f"gymnasium.make({name!r}, disable_env_checker=True{more}).unwrapped"
        known = installed(name) == target_of(name)
        lines = [
            "import agentgym_py, gymnasium",
            *([] if known else _registered(name)),
            *([moves.setup] if moves.setup else []),
            *([f"def make():\n    return {made}", "env = make()"] if "make()" in moves.after else [f"env = {made}"]),
            f"print(env.reset(seed={moves.seed!r}, options={dict(moves.options) if moves.options else None!r}))",
        ]
        if moves.actions:
            lines.append(f"for action in {listed(moves.actions)}:\n    print(env.step(action))")
        if moves.snapshot is not None:
            lines.append(_RESTORE.format(written(moves.snapshot)))
        if moves.after:
            lines.append(moves.after)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Result:
    """One check."""

    check: str
    about: str
    """What it looks at, in a sentence."""
    status: Status
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)
    """What was tried: episodes, steps, snapshots, strings, ..."""
    notes: tuple[str, ...] = ()
    """What else is to be said: how much a guess covers, how often luck won."""
    measured: Mapping[str, float] = field(default_factory=dict)
    """Speeds and sizes."""
    failure: Failure | None = None

    @property
    def line(self) -> str:
        """The check in one line."""
        said = " ".join(self.failure.message.split()) if self.failure else "; ".join([*self._tried, *self.notes])
        if self.failure and len(said) > _MESSAGE_AT_MOST:
            said = f"{said[:_MESSAGE_AT_MOST]}…"
        return f"{self.status:7} {self.check:17} {self.seconds:6.1f} s  {said}"

    @property
    def _tried(self) -> list[str]:
        tried = ", ".join(f"{number:,} {what}" for what, number in self.counts.items())
        return [tried] if tried else []


@dataclass(frozen=True, slots=True)
class Report:
    """A world, and what came of each check."""

    spec: EnvSpec
    settings: Settings
    results: tuple[Result, ...]
    left: tuple[str, ...] = ()
    """Checks that were asked for and not done, for somebody stopped the first of them."""

    @property
    def ok(self) -> bool:
        """Whether all checks were done, or make no sense here, and none failed."""
        return not self.failed and not self.not_done

    @property
    def failed(self) -> list[Result]:
        """The checks that failed."""
        return [each for each in self.results if each.failure]

    @property
    def not_done(self) -> list[str]:
        """The checks that were stopped, or not begun."""
        return [*(each.check for each in self.results if each.status == "stopped"), *self.left]

    @property
    def causes(self) -> list[list[Result]]:
        """The checks that failed, those by one cause together."""
        found: dict[str, list[Result]] = {}
        for each in self.failed:
            if each.failure:
                found.setdefault(each.failure.cause, []).append(each)
        return list(found.values())

    @property
    def counts(self) -> Counter[str]:
        """What was tried in all checks together."""
        return sum((Counter(each.counts) for each in self.results), Counter())

    @property
    def measured(self) -> dict[str, float]:
        """Speeds and sizes."""
        return {name: value for each in self.results for name, value in each.measured.items()}

    def text(self) -> str:
        """All of it, a line a check, and each cause of failures with the program that shows it."""
        lines = [each.line for each in self.results]
        return "\n".join([*lines, "", *(self.story(each) for each in self.causes), self.verdict()])

    def story(self, results: Sequence[Result]) -> str:
        """What failed by one cause: what should be, what is wrong, the shortest program that shows it."""
        failure = min((each.failure for each in results if each.failure), key=_length)
        names = ", ".join(each.check for each in results)
        what = f"{names}: {results[0].about}" if len(results) == 1 else f"{len(results)} checks by one cause: {names}"
        parts = [f"FAILED {what}", f"  {failure.message}"]
        if failure.traceback:
            parts += ["", _indented(failure.traceback)]
        if failure.moves is not None:
            parts += ["", f"  {failure.moves.told}:", _indented(failure.script(self.spec))]
        return "\n".join([*parts, ""])

    def verdict(self) -> str:
        """One line: how many checks failed, which were not done, what was tried."""
        counts = self.counts
        tried = ", ".join(
            f"{counts[key]:,} {key}" for key in ("episodes", "steps", "strings", "snapshots") if counts[key]
        )
        failed, causes, number = len(self.failed), len(self.causes), len(self.results) + len(self.left)
        wrong = f"{failed} of {number} checks failed" if failed else "no failure"
        if causes < failed:
            wrong += f", by {causes} cause{'s' * (causes != 1)}"
        if self.not_done:
            done = number - len(self.not_done)
            wrong += f" in the {done} of {number} checks that were done" * (not failed)
            wrong += f"; not done: {', '.join(self.not_done)}"
        return f"{env_id(self.spec.name)}: {wrong}" + f"; {tried}" * bool(tried)

    def as_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "env": env_id(self.spec.name), "env_kwargs": dict(self.spec.kwargs), "settings": asdict(self.settings),
            "ok": self.ok, "not_done": self.not_done, "counts": dict(self.counts), "measured": self.measured,
            "checks": [asdict(each) | {"script": self._script(each.failure)} for each in self.results],
        }  # fmt: skip

    def _script(self, failure: Failure | None) -> str | None:
        return failure.script(self.spec) if failure and failure.moves else None


def listed(actions: Sequence[str]) -> str:
    """Actions as a tuple in Python source, one a line."""
    return "(" + "".join(f"\n    {written(action)}," for action in actions) + "\n)" if actions else "()"


def written(text: str) -> str:
    """A string as Python source that gives exactly it; a repeated one as a product, if it is long."""
    if len(text) > _LONG_TEXT:
        for period in range(1, _PERIOD_AT_MOST + 1):
            times, rest = divmod(len(text), period)
            if not rest and text == text[:period] * times:
                return f"({text[:period]!a} * {times})"
        parts, end = list[str](), 0
        for run in _RUN.finditer(text):
            parts += [ascii(text[end : run.start()])] if run.start() > end else []
            parts.append(f"{run[1]!a} * {len(run[0])}")
            end = run.end()
        return f"({' + '.join([*parts, ascii(text[end:])])})"
    return ascii(text)


def _length(failure: Failure) -> tuple[bool, bool, int]:
    """The less, the easier a failure is to look at."""
    moves = failure.moves or Moves()
    return failure.moves is None, bool(moves.setup or moves.snapshot or moves.after), len(moves.actions)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _registered(name: str) -> list[str]:
    """Lines that make a world known which is not installed, or installed as another, wherever they are run."""
    target = target_of(name)
    module = target.partition(":")[0]
    file = getattr(sys.modules.get(module), "__file__", None)
    place = [f"import sys; sys.path.append({str(Path(file).parent)!r})"] if file and "." not in module else []
    other = [f"gymnasium.registry.pop({name!r})  # an installed world of this name"] if installed(name) else []
    return [*place, *other, f"gymnasium.register({name!r}, {target!r})"]
