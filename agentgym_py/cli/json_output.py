"""The results of `--json` on stdout, and everything else on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentgym_py.escapes import EscapedStream

_results: Any = None
"""The stream of `stdout_for_results`."""


@contextmanager
def stdout_for_results() -> Iterator[None]:
    """Keep stdout for machine-readable results; all else goes to stderr, such as what worlds print."""
    global _results
    stdout, before = sys.stdout, _results
    descriptor = _descriptor(stdout)
    if descriptor is None:  # such as a notebook's stream: only what Python prints can be told apart
        sys.stdout, _results = sys.stderr, stdout
        try:
            yield
        finally:
            sys.stdout, _results = stdout, before
        return
    stdout.flush()
    saved = os.dup(descriptor)
    with open(saved, "w", encoding=stdout.encoding, errors=stdout.errors) as results:  # noqa: PTH123  # no path
        os.dup2(2, descriptor)
        sys.stdout, _results = sys.stderr, EscapedStream(results)
        try:
            yield
            results.flush()
        finally:
            os.dup2(saved, descriptor)
            sys.stdout, _results = stdout, before


def _descriptor(stream: Any) -> int | None:
    """Return 1 if this stream is the process's stdout."""
    try:
        return 1 if stream.fileno() == 1 else None
    except (AttributeError, OSError, ValueError):  # it has none
        return None


def results_stream() -> Any:
    """Return the stream for machine-readable results."""
    return sys.stdout if _results is None else _results
