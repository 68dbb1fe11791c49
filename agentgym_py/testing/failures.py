"""How a check fails: the error, the episode that reproduces it, and what an env raised."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from agentgym_py.env import TextEnv
from agentgym_py.env.tracebacks import env_frames, error_text

_CALLS = {"restore": "env.restore(env.snapshot())", "expert_thought": "env.expert_thought(env.expert()[0])"}
_FRAMES = 3


@dataclass(frozen=True, slots=True)
class Moves:
    """An episode that reproduces a failure: its reset and its actions."""

    seed: int | None = None
    options: Mapping[str, Any] | None = None
    actions: tuple[str, ...] = ()
    snapshot: str | None = None
    """A snapshot to restore afterwards, its bytes decoded as latin-1."""
    setup: str = ""
    """Lines of Python that run before the env is made."""
    after: str = ""
    """Lines of Python that run at the end: `env` is the env, `make()` makes another one."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the env beyond those of the report, such as another difficulty."""

    @property
    def summary(self) -> str:
        """The episode in words, without what follows it."""
        seed = "Any seed" if self.seed is None else f"Seed {self.seed}"
        start = f"Options {dict(self.options)}" if self.options else seed
        actions = f"{len(self.actions) or 'no'} action{'s' * (len(self.actions) != 1)}"
        return f"{start} and {actions}, as a program"


class BrokenContractError(Exception):
    """The env breaks its contract.

    `moves` reproduce it; `trace` is the traceback if the env raised in another process.
    """

    ends_process = False
    """Whether the env would end the process of the other checks."""

    def __init__(self, message: str, moves: Moves | None = None, trace: str = "") -> None:
        super().__init__(message)
        self.moves, self.trace = moves, trace


class NotApplicableError(Exception):
    """The check makes no sense for this env; the message says why."""


class StoppedError(Exception):
    """The check was given up, which says nothing about the env; the message says why."""


@contextmanager
def report_with(moves: Moves) -> Iterator[None]:
    """Report what fails inside the block as a broken contract that these moves reproduce."""
    try:
        yield
    except BrokenContractError as error:
        raise BrokenContractError(str(error), moves) from error.__cause__
    except Exception as error:  # an env may raise anything
        raise BrokenContractError(describe_error(error), moves) from error


@contextmanager
def report_error(seed: int, actions: Sequence[str]) -> Iterator[None]:
    """Report an error inside the block with the reset, the actions up to it, and the call that raised it."""
    try:
        yield
    except Exception as error:  # an env may raise anything
        moves = moves_to_error(Moves(seed, None, tuple(actions)), error)
        raise BrokenContractError(describe_error(error), moves) from error


def describe_error(error: BaseException) -> str:
    """Return `expert() raised IndexError('…')`."""
    calls = _env_calls(error)
    text = error_text(error)
    return f"{calls[-1][1]}() raised {text}" if calls else f"raised {text}"


def moves_to_error(moves: Moves, error: BaseException) -> Moves:
    """Return the moves with the call that raised appended, unless they contain it."""
    calls = _env_calls(error)
    return moves_to_call(moves, calls[-1][1]) if calls else moves


def moves_to_call(moves: Moves, call: str) -> Moves:
    """Return the moves with this call of the env appended, unless they contain it."""
    if call in ("__init__", "step") or (call == "reset" and not moves.actions):
        return moves
    return replace(moves, after=_CALLS.get(call, f"print(env.{call}())"))


def _env_calls(error: BaseException) -> list[tuple[type, str]]:
    """Return the calls on the way to an error as (class, name), up to the first method of the env."""
    calls: list[tuple[type, str]] = []
    for frame, _ in traceback.walk_tb(error.__traceback__):
        calls.append((type(frame.f_locals.get("self")), frame.f_code.co_name))
        if issubclass(calls[-1][0], TextEnv):
            return calls
    return []


def error_trace(error: BaseException | None) -> str:
    """Return the traceback of an error's first cause, from the env's own source on if it is in it."""
    if error is None:
        return ""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = traceback.format_list(env_frames(error) or traceback.extract_tb(error.__traceback__)[-_FRAMES:])
    if len(lines) > 2 * _FRAMES:
        lines = [*lines[:_FRAMES], f"  … {len(lines) - 2 * _FRAMES} calls …\n", *lines[-_FRAMES:]]
    return "".join([*lines, *traceback.format_exception_only(error)[-1:]]).rstrip()
