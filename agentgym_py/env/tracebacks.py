"""What a world raised, and where in its source, for the world's author."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import FrameSummary, extract_tb, walk_tb

from agentgym_py.env.base import TextEnv
from agentgym_py.errors import AgentGymError, InfrastructureError

_CORE = f"{Path(__file__).parent.parent}{os.sep}"
_MAX_ERROR = 500
"""Most characters of an error's text; a world may put anything into it."""


def env_frames(error: BaseException) -> list[FrameSummary]:
    """Return the frames from the first method in the world's own source on; empty if there is none."""
    for number, (frame, _) in enumerate(walk_tb(error.__traceback__)):
        if isinstance(frame.f_locals.get("self"), TextEnv) and not frame.f_code.co_filename.startswith(_CORE):
            return extract_tb(error.__traceback__)[number:]
    return []


def env_line(error: BaseException) -> str:
    """Return the last place in the world's own source before an error, `FILE, line N, in NAME`, or an empty text."""
    frames = env_frames(error)
    last = [frame for frame in frames if frame.filename == frames[0].filename][-1:]
    return "".join(f"{frame.filename}, line {frame.lineno}, in {frame.name}" for frame in last)


def describe_failure(error: BaseException) -> str:
    """Describe what a world raised and where in its own source, without the folder: files name no machine's paths."""
    place = env_line(error).rpartition(os.sep)[2]
    return error_text(error) + (f" ({place})" if place else "")


@contextmanager
def contained(what: str) -> Iterator[None]:
    """Raise whatever a world raises within as an InfrastructureError of one line, which begins with `what`."""
    try:
        yield
    except AgentGymError:
        raise
    except (Exception, SystemExit) as error:
        raise InfrastructureError(f"{what}: {describe_failure(error)}") from error


def error_text(error: BaseException) -> str:
    """Return the `repr` of an error, shortened; its type alone if that raises an error itself."""
    try:
        text = repr(error)
    except Exception:  # a world may raise anything
        return f"{type(error).__name__}, whose text cannot be printed"
    return text if len(text) <= _MAX_ERROR else f"{text[:_MAX_ERROR]}…"
