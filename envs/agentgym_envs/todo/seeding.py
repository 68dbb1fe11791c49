"""Random boards."""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache
from itertools import product

from agentgym_envs.todo.board import EVERY, INBOX, Board, Row, shift
from agentgym_envs.todo.words import FILL, THEMES
from agentgym_py.rng import Rng

_SLOT = re.compile(r"\{(\w+)\}")
_FIRST_TODAY, _TODAYS = "2026-01-05", 720


def draw_today(rng: Rng) -> str:
    """Draw the day of an episode."""
    return shift(_FIRST_TODAY, rng.below(_TODAYS))


def draw_board(rng: Rng, split: str, today: str, projects: int, tasks: int) -> Board:
    """Draw a board with this many projects beside the inbox, and this many tasks."""
    names = rng.sample(list(THEMES), projects)
    sections = {INBOX: ()} | {name: tuple(rng.sample(THEMES[name][0], 2)) for name in names}
    board = Board(dict.fromkeys(sections, False), sections, tuple(sorted(rng.sample(FILL[split]["label"], 5))), {})
    taken: set[str] = set()
    for number in range(tasks):
        # Most tasks are in the first projects, so that requests about a project match something.
        theme = names[min(rng.below(projects), rng.below(projects))]
        title = draw_title(rng, theme, split, taken)
        taken.add(title)
        board.tasks[f"t{number + 1}"] = _row(rng, title, theme, board, FILL[split]["text"], today)
    return board


def draw_title(rng: Rng, theme: str, split: str, taken: Container[str]) -> str:
    """Draw a title that is not taken."""
    titles = _titles(theme, split)
    while True:
        title = rng.choice(titles)
        if title not in taken:
            return title


@cache
def _titles(theme: str, split: str) -> tuple[str, ...]:
    """List all titles of a theme's patterns with a split's words."""
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
