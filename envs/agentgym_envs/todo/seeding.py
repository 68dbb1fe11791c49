"""Random boards."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from functools import cache
from itertools import product

from agentgym_envs.todo.board import EVERY, INBOX, Board, Row, shift
from agentgym_envs.todo.words import FILL, THEMES, TRAINING_PATTERNS
from agentgym_py.env.wording import expand
from agentgym_py.rng import Rng

_SLOT = re.compile(r"\{(\w+)\}")
_FIRST_TODAY, _TODAYS = "2026-01-05", 720
_FIRST_TRAINING_TODAY, _TRAINING_TODAYS = "2016-01-01", 9_000
_DRAWN_WORDS = {"project": 16, "section": 24}
"""The number of words of a training board for a slot, by default 8; a held-out board has all words of its split."""
_TRAINING_WORDS = {slot: (2 * words, len(words)) for slot, words in FILL["train"].items()}

Vocabulary = Mapping[str, tuple[str, ...]]
"""Slot to its words."""


def draw_today(rng: Rng, split: str) -> str:
    """Draw the day of an episode."""
    if split == "train":
        return shift(_FIRST_TRAINING_TODAY, rng.below(_TRAINING_TODAYS))
    return shift(_FIRST_TODAY, rng.below(_TODAYS))


def draw_vocabulary(rng: Rng, split: str) -> Vocabulary:
    """Draw the words of a board: few of many in training, so that they must be read."""
    if split != "train":
        return FILL[split]
    drawn = {}
    for slot, (words, size) in _TRAINING_WORDS.items():
        # at equal distances, because one slice is faster than many random numbers
        bits, start = divmod(rng.bits(), size)
        count = _DRAWN_WORDS.get(slot, 8)
        step = 1 + bits % ((size - 1) // count)
        drawn[slot] = words[start : start + count * step : step]
    return drawn


def draw_board(rng: Rng, split: str, vocabulary: Vocabulary, today: str, projects: int, tasks: int) -> Board:
    """Draw a board with this many projects beside the inbox, and this many tasks."""
    sections = {INBOX: ()} | _draw_places(rng, split, vocabulary, projects)
    names = list(sections)[1:]
    board = Board(dict.fromkeys(sections, False), sections, tuple(sorted(rng.sample(vocabulary["label"], 5))), {})
    taken: set[str] = set()
    for number in range(tasks):
        # Most tasks are in the first projects, so that requests about a project match something.
        project = names[min(rng.below(projects), rng.below(projects))]
        title = draw_title(rng, project, split, vocabulary, taken)
        taken.add(title)
        board.tasks[f"t{number + 1}"] = _row(rng, title, project, board, vocabulary["text"], today)
    return board


def _draw_places(rng: Rng, split: str, vocabulary: Vocabulary, projects: int) -> dict[str, tuple[str, ...]]:
    """Draw projects and two sections of each: those of the themes, or in training any."""
    if split != "train":
        return {name: tuple(rng.sample(THEMES[name][0], 2)) for name in rng.sample(list(THEMES), projects)}
    sections = iter(vocabulary["section"])
    return {name: (next(sections), next(sections)) for name in vocabulary["project"][:projects]}


def draw_title(rng: Rng, project: str, split: str, vocabulary: Vocabulary, taken: Container[str]) -> str:
    """Draw a title that is not taken."""
    while True:
        title = _training_title(rng, project, vocabulary) if split == "train" else rng.choice(_titles(project, split))
        if title not in taken:
            return title


def _training_title(rng: Rng, project: str, vocabulary: Vocabulary) -> str:
    pattern = expand(rng, rng.choice(THEMES[project][1] if project in THEMES else TRAINING_PATTERNS))
    words = {slot: rng.choice(vocabulary[slot]) for slot in _slots(pattern) if slot != "number"}
    return pattern.format(**words, number=2 + rng.below(9_998)) if "{number}" in pattern else pattern.format(**words)


@cache
def _slots(pattern: str) -> tuple[str, ...]:
    return tuple(_SLOT.findall(pattern))


@cache
def _titles(theme: str, split: str) -> tuple[str, ...]:
    """List all titles of a theme's patterns with a held-out split's words."""
    titles: list[str] = []
    for pattern in THEMES[theme][1]:
        slots = _SLOT.findall(pattern)
        for words in product(*(FILL[split][slot] for slot in slots)):
            titles.append(pattern.format(**dict(zip(slots, words, strict=True))))
    return tuple(titles)


def _row(rng: Rng, title: str, theme: str, board: Board, texts: tuple[str, ...], today: str) -> Row:
    """Draw a task of a theme from the bits of one random number."""
    bits = rng.bits()
    project = theme if bits & 15 else INBOX
    section = (*board.sections[project], "")[(bits >> 4 & 255) % 3] if project == theme else ""
    when, days = bits >> 12 & 15, (bits >> 16 & 255) % 20 + 1
    due = "" if when > 12 else shift(today, -days if when < 5 else 0 if when < 7 else days)
    every = EVERY[(bits >> 24 & 255) % len(EVERY)] if due and not bits >> 32 & 7 else ""
    priority = (1, 2, 3, 3, 4, 4, 4, 4)[bits >> 35 & 7]
    drawn = {board.labels[(bits >> 38 & 255) % 5], board.labels[(bits >> 46 & 255) % 5]}
    labels = ((), (board.labels[(bits >> 38 & 255) % 5],), (), tuple(sorted(drawn)))[bits >> 54 & 3]
    comments = (texts[(bits >> 24 & 255) % len(texts)],) if not bits >> 56 & 7 else ()
    fate = bits >> 59 & 15
    done, deleted = fate == 0 and not every, fate == 1
    return Row(title, project, section, due, priority, labels, every, comments, done, deleted)
