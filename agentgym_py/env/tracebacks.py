"""Where in a world's source an error was raised, for the world's author."""

from __future__ import annotations

import os
from pathlib import Path
from traceback import FrameSummary, extract_tb, walk_tb

from agentgym_py.env.base import TextEnv

_CORE = f"{Path(__file__).parent.parent}{os.sep}"


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
