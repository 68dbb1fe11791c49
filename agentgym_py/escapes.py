"""Texts of worlds, models, files and servers on the terminal: control characters are shown, not obeyed.

`escaped_output` replaces stdout and stderr while a command runs, and in the processes that play for it, so every
`print`, warning and log line passes through `visible`. The console of progress and results writes its own colours past
it, and its texts through it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
"""Control characters except tab and line feed, changes of the writing direction, characters without width but joiners,
separators of lines, tags, and what UTF-8 cannot hold."""


def visible(text: str) -> str:
    r"""Return a text with its control characters as `\x1b`."""
    return UNSAFE.sub(lambda found: _escape(ord(found[0])), text) if UNSAFE.search(text) else text


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class EscapedStream:
    """A text stream whose `write` escapes; everything else is the stream's own."""

    def __init__(self, stream: Any) -> None:
        self.raw = stream

    def write(self, text: str) -> int:
        """Write a text, with its control characters visible."""
        self.raw.write(visible(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


@contextmanager
def escaped_output() -> Iterator[None]:
    """Escape what is written to stdout and stderr, also the traceback of a bug."""
    if isinstance(sys.stdout, EscapedStream):
        yield
        return
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = EscapedStream(sys.stdout), EscapedStream(sys.stderr)
    try:
        yield
    except Exception:
        sys.excepthook = _print_escaped
        raise
    finally:
        sys.stdout, sys.stderr = before


def _print_escaped(*error: Any) -> None:
    from traceback import format_exception

    print(visible("".join(format_exception(*error))), end="", file=sys.stderr)


def raw_stream(stream: Any) -> Any:
    """Return the stream behind `escaped_output`, for a program's own colours."""
    return stream.raw if isinstance(stream, EscapedStream) else stream
