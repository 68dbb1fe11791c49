"""The time of a round or a test, over all sittings of a run that was interrupted."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

from agentgym_py import distributed
from agentgym_py.files import load_json, write_atomic

ELAPSED = "elapsed.json"
"""File with the seconds of a round or test that is not over."""


class Stopwatch:
    """Counts seconds; a file keeps them when the run is interrupted."""

    def __init__(self, folder: Path) -> None:
        self._path, self._began = folder / ELAPSED, time.monotonic()
        self._before = _read(self._path)

    def __enter__(self) -> Stopwatch:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            with suppress(OSError):  # such as a full disk, which is the error to report
                self.save()

    @property
    def seconds(self) -> float:
        """The seconds until now, those before the interruptions included."""
        return self._before + time.monotonic() - self._began

    def stop(self) -> float:
        """Return the seconds and remove the file, just before the result of the work is written."""
        if distributed.is_rank_zero():
            self._path.unlink(missing_ok=True)
        return self.seconds

    def save(self) -> None:
        """Write the seconds to the file, for a process that is killed later."""
        if distributed.is_rank_zero():
            write_atomic(self._path, json.dumps({"seconds": self.seconds}) + "\n")


def _read(path: Path) -> float:
    """Return the stored seconds; 0 without a file or with a broken one, because no result depends on them."""
    try:
        seconds = load_json(path)["seconds"]
    except (OSError, ValueError, LookupError, TypeError):
        return 0.0
    return float(seconds) if isinstance(seconds, int | float) and seconds >= 0 else 0.0
