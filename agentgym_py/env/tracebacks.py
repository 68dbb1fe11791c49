"""Where in a world's own source it raised, for those who wrote it."""

from __future__ import annotations

import os
from pathlib import Path
from traceback import FrameSummary, extract_tb, walk_tb

from agentgym_py.env.base import TextEnv

_CORE = f"{Path(__file__).parent.parent}{os.sep}"


def env_frames(error: BaseException) -> list[FrameSummary]:
    """A traceback from the first method that stands in the world's own source; empty where there is none."""
    for number, (frame, _) in enumerate(walk_tb(error.__traceback__)):
        if isinstance(frame.f_locals.get("self"), TextEnv) and not frame.f_code.co_filename.startswith(_CORE):
            return extract_tb(error.__traceback__)[number:]
    return []


def env_line(error: BaseException) -> str:
    """The last line of the world's own source on the way to an error, `FILE, line N, in NAME`; empty if none is."""
    frames = env_frames(error)
    last = [each for each in frames if each.filename == frames[0].filename][-1:]
    return "".join(f"{each.filename}, line {each.lineno}, in {each.name}" for each in last)
