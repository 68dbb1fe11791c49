"""The results of the checks, as text and as JSON, and programs that reproduce failures."""

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
from agentgym_py.registry import installed_target
from agentgym_py.testing.failures import Moves
from agentgym_py.testing.harness import Settings

_RESTORE = """before = env.snapshot()
try:
    env.restore({}.encode('latin-1'))
    print(env.expert(), env.step('anything'))
except agentgym_py.errors.SnapshotError as error:
    print(f"{{error}}; the episode has changed: {{env.snapshot() != before}}")"""
Status = Literal["passed", "failed", "skipped", "stopped"]
_MAX_MESSAGE = 80
_COUNTED = {"plans": "expert plans", "strings": "strings as actions"}
"""Clearer names of counts."""
_ONE = {"processes": "process", "strings": "string as an action"}
"""Names of a count of one, where they are not the plural without its s."""
_LONG_TEXT = 400
_REPETITION = re.compile(r"(.{1,16}?)\1{49,}", re.DOTALL)
_FRAME = re.compile(r'^  File "(.*)", line (\d+), in ', re.MULTILINE)
_ERROR_TYPE = re.compile(r"^\w[\w.]*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Failure:
    """What is wrong, and an episode that reproduces it."""

    message: str
    moves: Moves | None = None
    """The reset and the actions that reproduce it; None if no episode is needed."""
    traceback: str = ""
    """Where the env raised, if it did."""
    ends_process: bool = False
    """Whether the env would end, stop or copy the process of the other checks, so that they are not begun."""

    @property
    def cause(self) -> str:
        """The error type and the env's line that raised it, else the message: equal for failures of one cause."""
        frames = list(_FRAME.finditer(self.traceback))
        own = [frame for frame in frames if frame[1] == frames[0][1]]
        error_type = _ERROR_TYPE.search(self.traceback, frames[-1].end()) if frames else None
        return f"{error_type[0]} {own[-1][1]}:{own[-1][2]}" if error_type else self.message

    def replay(self, spec: EnvSpec) -> TextEnv:
        """Return the env after these moves; the last one raises again what the env raised."""
        moves = self.moves or Moves()
        env = EnvSpec(spec.name, {**spec.kwargs, **moves.env_kwargs}).make()
        env.reset(seed=moves.seed, options=dict(moves.options) if moves.options else None)
        for action in moves.actions:
            env.step(action)
        if moves.snapshot is not None:
            env.restore(moves.snapshot.encode("latin-1"))
        return env

    def script(self, spec: EnvSpec) -> str:
        """Return a program to paste that does the same."""
        moves = self.moves or Moves()
        name = env_id(spec.name)
        kwargs = "".join(f", {key}={value!r}" for key, value in {**spec.kwargs, **moves.env_kwargs}.items())
        make = f"gymnasium.make({name!r}, disable_env_checker=True{kwargs}).unwrapped"
        registered = installed_target(name) == target_of(name)
        lines = [
            "import agentgym_py, gymnasium",
            *([] if registered else _registration(name)),
            *([moves.setup] if moves.setup else []),
            *([f"def make():\n    return {make}", "env = make()"] if "make()" in moves.after else [f"env = {make}"]),
            f"print(env.reset(seed={moves.seed!r}, options={dict(moves.options) if moves.options else None!r}))",
        ]
        if moves.actions:
            lines.append(f"for action in {actions_source(moves.actions)}:\n    print(env.step(action))")
        if moves.snapshot is not None:
            lines.append(_RESTORE.format(text_source(moves.snapshot)))
        if moves.after:
            lines.append(moves.after)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one check."""

    check: str
    about: str
    """What it checks, in a sentence."""
    status: Status
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)
    """How much was tried: episodes, steps, snapshots, strings, ..."""
    notes: tuple[str, ...] = ()
    """Further information, such as how much a guess covers."""
    measured: Mapping[str, float] = field(default_factory=dict)
    """Speeds and sizes."""
    failure: Failure | None = None

    @property
    def line(self) -> str:
        """The result in one line."""
        if self.failure:
            text = " ".join(self.failure.message.split())
            text = f"{text[:_MAX_MESSAGE]}…" if len(text) > _MAX_MESSAGE else text
        else:
            counts = ", ".join(_count_text(number, name) for name, number in self.counts.items())
            text = "; ".join([*filter(None, [counts]), *self.notes])
        return f"{self.status:7} {self.check:17} {self.seconds:6.1f} s  {text}"


@dataclass(frozen=True, slots=True)
class Report:
    """An env and the result of each check."""

    spec: EnvSpec
    settings: Settings
    results: tuple[Result, ...]
    not_begun: tuple[str, ...] = ()
    """Checks that did not run because the user stopped the first of them, or the env would end this process."""

    @property
    def ok(self) -> bool:
        """Whether every check passed or was skipped."""
        return not self.failed and not self.not_done

    @property
    def failed(self) -> list[Result]:
        """The checks that failed."""
        return [result for result in self.results if result.failure]

    @property
    def not_done(self) -> list[str]:
        """The checks that were stopped, or not begun."""
        return [*(result.check for result in self.results if result.status == "stopped"), *self.not_begun]

    @property
    def causes(self) -> list[list[Result]]:
        """The failed checks, grouped by cause."""
        groups: dict[str, list[Result]] = {}
        for result in self.failed:
            if result.failure:
                groups.setdefault(result.failure.cause, []).append(result)
        return list(groups.values())

    @property
    def counts(self) -> Counter[str]:
        """How much all checks tried together."""
        return sum((Counter(result.counts) for result in self.results), Counter())

    def text(self) -> str:
        """Return a line per check, each cause of failures with its program, and the verdict."""
        lines = [result.line for result in self.results]
        return "\n".join([*lines, "", *(self.failure_text(results) for results in self.causes), self.verdict()])

    def failure_text(self, results: Sequence[Result]) -> str:
        """Return what failed by one cause, with the shortest program that reproduces it."""
        failure = min((result.failure for result in results if result.failure), key=_length)
        names = ", ".join(result.check for result in results)
        what = f"{names}: {results[0].about}" if len(results) == 1 else f"{len(results)} checks for one reason: {names}"
        parts = [f"FAILED {what}", f"  {failure.message}"]
        if failure.traceback:
            parts += ["", _indented(failure.traceback)]
        if failure.moves is not None:
            parts += ["", f"  {failure.moves.summary}:", _indented(failure.script(self.spec))]
        return "\n".join([*parts, ""])

    def verdict(self) -> str:
        """Return one line: how many checks failed, which were not done, how much was tried."""
        failed, causes, number = len(self.failed), len(self.causes), len(self.results) + len(self.not_begun)
        text = f"{failed} of {number} checks failed" if failed else "no failure"
        if causes < failed:
            text += f", for {causes} reason{'s' * (causes != 1)}"
        if self.not_done:
            if not failed:
                text += f" in the {number - len(self.not_done)} of {number} checks that were done"
            text += f"; not done: {', '.join(self.not_done)}"
        counts = self.counts
        tried = [f"{counts[key]:,} {key}" for key in ("episodes", "steps", "strings", "snapshots") if counts[key]]
        return "; ".join([f"{env_id(self.spec.name)}: {text}", *filter(None, [", ".join(tried)])])

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        checks = [
            asdict(result) | {"script": failure.script(self.spec) if failure and failure.moves else None}
            for result in self.results for failure in [result.failure]
        ]  # fmt: skip
        measured = {name: value for result in self.results for name, value in result.measured.items()}
        return {
            "env": env_id(self.spec.name), "env_kwargs": dict(self.spec.kwargs), "settings": asdict(self.settings),
            "ok": self.ok, "not_done": self.not_done, "counts": dict(self.counts), "measured": measured,
            "checks": checks,
        }  # fmt: skip


def actions_source(actions: Sequence[str]) -> str:
    """Return actions as a tuple in Python source, one per line."""
    return "(" + "".join(f"\n    {text_source(action)}," for action in actions) + "\n)" if actions else "()"


def text_source(text: str) -> str:
    """Return Python source of a string; repetitions in a long one are written as products."""
    if len(text) <= _LONG_TEXT:
        return ascii(text)
    parts, end = list[str](), 0
    for match in _REPETITION.finditer(text):
        parts += [ascii(text[end : match.start()])] if match.start() > end else []
        parts.append(f"{match[1]!a} * {len(match[0]) // len(match[1])}")
        end = match.end()
    return f"({' + '.join([*parts, ascii(text[end:])])})"


def _length(failure: Failure) -> tuple[bool, bool, int]:
    """Return a sort key: the smaller, the easier a failure is to understand."""
    moves = failure.moves or Moves()
    return failure.moves is None, bool(moves.setup or moves.snapshot or moves.after), len(moves.actions)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _registration(name: str) -> list[str]:
    """Return lines that register an env that is not installed, or whose name belongs to another installed one."""
    target = target_of(name)
    module = target.partition(":")[0]
    file = getattr(sys.modules.get(module), "__file__", None)
    path = [f"import sys; sys.path.append({str(Path(file).parent)!r})"] if file and "." not in module else []
    other = [f"gymnasium.registry.pop({name!r})  # an installed world of this name"] if installed_target(name) else []
    return [*path, *other, f"gymnasium.register({name!r}, {target!r})"]


def _count_text(number: int, name: str) -> str:
    plural = _COUNTED.get(name, name)
    return f"{number:,} {plural if number != 1 else _ONE.get(name, plural.removesuffix('s'))}"
