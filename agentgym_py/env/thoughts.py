"""The marks that models put around a thought, and how a reply is split at them."""

from __future__ import annotations

import re
from collections import deque
from typing import NamedTuple


class ThoughtMarks(NamedTuple):
    """What begins a thought, and what ends it."""

    opening: str
    closing: str


_WORDS = [prefix + word for prefix in ("", "seed:") for word in ("think", "thinking", "thought", "reasoning")]
THOUGHT_MARKS = (
    *(ThoughtMarks(f"<{word}>", f"</{word}>") for word in _WORDS),
    ThoughtMarks("[THINK]", "[/THINK]"),
    ThoughtMarks("<|channel>thought", "<channel|>"),
    ThoughtMarks("<|channel>", "<channel|>"),
)
"""Of Qwen, DeepSeek and others, of Magistral, and of Gemma 4."""
OPENING_MARK = "|".join(re.escape(marks.opening) for marks in THOUGHT_MARKS)
"""Pattern of a mark that begins a thought."""
CLOSING_MARK = "|".join(dict.fromkeys(re.escape(marks.closing) for marks in THOUGHT_MARKS))
"""Pattern of a mark that ends a thought."""
_OPENING = re.compile(rf"(?:\A\s*|(?<=\n)[ \t]*)(?:{OPENING_MARK})")
_CLOSING = re.compile(CLOSING_MARK)
_MARK = re.compile(f"{OPENING_MARK}|{CLOSING_MARK}")


def is_thought_mark(token: str) -> bool:
    """Whether a token begins or ends a thought."""
    return _MARK.fullmatch(token) is not None


def thought_marks_of(text: str) -> ThoughtMarks | None:
    """Return the marks of the first thought that a text ends; None if it ends none."""
    closing = _CLOSING.search(text)
    return next(marks for marks in THOUGHT_MARKS if marks.closing == closing[0]) if closing else None


def thought_ends(text: str) -> list[int]:
    """Return the places behind the marks that end a thought."""
    return [match.end() for match in _CLOSING.finditer(text)]


def split_thought(text: str) -> tuple[str, str]:
    """Split a reply of a thinking model into its thought and the rest."""
    if ">" not in text and "THINK]" not in text:
        return "", text
    thoughts = list[str]()
    if closed := deque(_CLOSING.finditer(text), maxlen=1):
        before, text = text[: closed[0].start()], text[closed[0].end() :]
        thoughts.append(_OPENING.sub("", before, count=1).strip())
    if opened := _OPENING.search(text):
        thoughts.append(text[opened.end() :].strip())
        text = text[: opened.start()]
    return "\n".join(filter(None, thoughts)), text
