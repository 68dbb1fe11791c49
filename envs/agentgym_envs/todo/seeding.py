"""A board as somebody might have it, drawn from a seed."""

from __future__ import annotations

import re

from agentgym_envs.todo.board import EVERY, INBOX, Board, Row, shift
from agentgym_envs.todo.words import FILL, THEMES, Words
from agentgym_py.rng import Rng

_SLOT = re.compile(r"\{(\w+)\}")
_FIRST_TODAY, _TODAYS = "2026-01-05", 720


def draw_today(rng: Rng) -> str:
    """The day of a task."""
    return shift(_FIRST_TODAY, rng.below(_TODAYS))


def draw_board(rng: Rng, split: str, today: str, projects: int, tasks: int) -> Board:
    """So many projects beside the inbox, and so many tasks."""
    fill = FILL[split]
    names = rng.sample(list(THEMES), projects)
    sections = {INBOX: ()} | {name: tuple(rng.sample(THEMES[name][0], 2)) for name in names}
    board = Board(dict.fromkeys(sections, False), sections, tuple(sorted(rng.sample(fill["label"], 5))), {})
    taken: set[str] = set()
    for number in range(tasks):
        # Most tasks lie in the first projects, so that what is asked of a project has something to find.
        theme = names[min(rng.below(projects), rng.below(projects))]
        title = draw_title(rng, theme, fill, taken)
        taken.add(title)
        board.tasks[f"t{number + 1}"] = _row(rng, title, theme, board, fill, today)
    return board


def draw_title(rng: Rng, theme: str, fill: Words, taken: set[str]) -> str:
    """A title that is not taken yet."""
    while True:
        pattern = rng.choice(THEMES[theme][1])
        title = _SLOT.sub(lambda slot: rng.choice(fill[slot[1]]), pattern)
        if title not in taken:
            return title


def _row(rng: Rng, title: str, theme: str, board: Board, fill: Words, today: str) -> Row:
    """A task of a theme; one number gives all that is drawn of it."""
    bits = rng.bits()

    def below(n: int) -> int:
        nonlocal bits
        bits, drawn = divmod(bits, n)
        return drawn

    project = theme if below(10) else INBOX
    section = (*board.sections[project], "")[below(3)] if project != INBOX else ""
    when = below(16)
    due = shift(today, -1 - below(20) if when < 5 else 0 if when < 7 else 1 + below(20)) if when < 13 else ""
    every = EVERY[below(len(EVERY))] if due and not below(8) else ""
    priority = (1, 2, 3, 3, 4, 4, 4, 4)[below(8)]
    labels = {board.labels[below(5)] for _ in range((0, 0, 1, 1, 1, 2)[below(6)])}
    comments = (fill["text"][below(len(fill["text"]))],) if not below(6) else ()
    fate = below(12)
    return Row(
        title, project, section, due, priority, tuple(sorted(labels)), every, comments,
        done=fate == 0 and not every, deleted=fate == 1,
    )  # fmt: skip
