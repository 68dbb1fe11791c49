"""The contents of a to-do application: projects, sections, labels, tasks, and dates of repeating tasks."""

from __future__ import annotations

import calendar
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

INBOX = "Inbox"
EVERY = ("day", "weekday", "week", "2 weeks", "month")
"""The repetitions of a task."""
FIRST_DAY, LAST_DAY = "2000-01-01", "2099-12-31"
LONGEST_TITLE, LONGEST_NAME = 200, 40
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ID = re.compile(r"t[1-9][0-9]{0,5}")
_DAYS = {"day": 1, "week": 7, "2 weeks": 14}


class Row(NamedTuple):
    """A task. It is immutable: a change replaces the row, so that copies of a board can be shallow."""

    title: str
    project: str = INBOX
    section: str = ""
    due: str = ""
    """A day as YYYY-MM-DD, or empty."""
    priority: int = 4
    """1 is the most urgent; 4 is none."""
    labels: tuple[str, ...] = ()
    """In alphabetical order."""
    every: str = ""
    """One of `EVERY`, or empty."""
    comments: tuple[str, ...] = ()
    done: bool = False
    deleted: bool = False
    """In the trash, from which it can be restored."""

    @property
    def open(self) -> bool:
        """Tell whether it is neither done nor deleted."""
        return not (self.done or self.deleted)


@dataclass(slots=True)
class Board:
    """The contents of the application."""

    projects: dict[str, bool]
    """Name to whether it is archived; always includes the inbox."""
    sections: dict[str, tuple[str, ...]]
    """Project to the names of its sections; every project has an entry."""
    labels: tuple[str, ...]
    tasks: dict[str, Row]
    """Id to task, in the order of the ids."""

    def copy(self) -> Board:
        """Return another board with the same rows."""
        return Board(dict(self.projects), dict(self.sections), self.labels, dict(self.tasks))

    def next_id(self) -> str:
        """Return the id of the next task; no id is reused, because tasks never leave the board."""
        return f"t{len(self.tasks) + 1}"

    def to_json(self, start: Board) -> dict[str, Any]:
        """Return the board as JSON values, with only the tasks that differ from `start`."""
        changed = {tid: list(row) for tid, row in self.tasks.items() if start.tasks.get(tid) != row}
        sections = {name: list(names) for name, names in self.sections.items()}
        return {"projects": dict(self.projects), "sections": sections, "labels": list(self.labels), "tasks": changed}


# ---- facts, for comparing boards ------------------------------------------------------------------------------------


def facts(board: Board, start: Board) -> dict[tuple[object, ...], object]:
    """Return the facts of a board, regardless of the order of changes.

    A deleted task has no other fact. A new task (not in `start`) is identified by title and has no fact if deleted.
    """
    result: dict[tuple[object, ...], object] = {("project", name): state for name, state in board.projects.items()}
    result |= {("section", project, name): True for project, names in board.sections.items() for name in names}
    result |= {("label", name): True for name in board.labels}
    titles: list[str] = []
    for tid, row in board.tasks.items():
        if tid in start.tasks:
            result |= {(tid, "deleted"): True} if row.deleted else {(tid, k): v for k, v in _comparable(row).items()}
        elif not row.deleted:
            number = titles.count(row.title)
            titles.append(row.title)
            result["new", row.title, number] = tuple(_comparable(row).values())
    return result


def _comparable(row: Row) -> dict[str, object]:
    place = (row.project, row.section)
    return row._asdict() | {"project": place, "section": place, "comments": tuple(sorted(row.comments))}


Content = tuple[str, ...]
"""Kind and name of something that can be deleted."""


def contents(board: Board) -> Counter[Content]:
    """Count everything that can be deleted: tasks and their comments, projects, sections and labels."""
    found = Counter[Content](("project", name) for name in board.projects)
    found.update(("section", project, name) for project, names in board.sections.items() for name in names)
    found.update(("label", name) for name in board.labels)
    for tid, row in board.tasks.items():
        if not row.deleted:
            found["task", tid] += 1
            found.update(("comment", tid, text) for text in row.comments)
    return found


def equivalent(row: Row, other: Row) -> bool:
    """Tell whether two tasks are equal, up to the order of comments and anything in the trash."""
    if row == other or (row.deleted and other.deleted):
        return True
    return row._replace(comments=()) == other._replace(comments=()) and sorted(row.comments) == sorted(other.comments)


def same_board(board: Board, goal: Board, start: Board) -> bool:
    """Tell whether a board equals the goal: every task of `start`, and the new ones in any order."""
    if board.projects != goal.projects or set(board.labels) != set(goal.labels):
        return False
    if any(set(names) != set(goal.sections[project]) for project, names in board.sections.items()):
        return False
    for tid in start.tasks:
        if board.tasks[tid] is not goal.tasks[tid] and not equivalent(board.tasks[tid], goal.tasks[tid]):
            return False
    return _new(board, start) == _new(goal, start)


def _new(board: Board, start: Board) -> list[Row]:
    rows = (row for tid, row in board.tasks.items() if tid not in start.tasks and not row.deleted)
    return sorted(row._replace(comments=tuple(sorted(row.comments))) for row in rows)


# ---- dates ----------------------------------------------------------------------------------------------------------


def is_day(text: str) -> bool:
    """Tell whether a text is a valid day, as YYYY-MM-DD."""
    if not _DATE.fullmatch(text) or not FIRST_DAY <= text <= LAST_DAY:
        return False
    return int(text[8:]) in range(1, 32) and int(text[5:7]) in range(1, 13) and int(text[8:]) <= _month_days(text)


def _month_days(day: str) -> int:
    return calendar.monthrange(int(day[:4]), int(day[5:7]))[1]


@lru_cache(maxsize=2_000)
def shift(day: str, days: int) -> str:
    """Return the day this many days later."""
    return (date.fromisoformat(day) + timedelta(days)).isoformat()


@lru_cache(maxsize=2_000)
def weekday(day: str) -> str:
    """Return the name of the weekday."""
    return calendar.day_name[date.fromisoformat(day).weekday()]


@lru_cache(maxsize=2_000)
def next_due(due: str, every: str, today: str) -> str:
    """Return the next due day of a repeating task: the first of its days after today and after `due`.

    Its days are counted from `due`, or from today if it has none. In a month that is too short it is the last day.
    """
    start = due or today
    if every == "month":
        return _next_month(start, today)
    if every == "weekday":
        day = shift(max(start, today), 1)
        return shift(day, {"Saturday": 2, "Sunday": 1}.get(weekday(day), 0))
    days = _DAYS[every]
    late = (date.fromisoformat(today) - date.fromisoformat(start)).days
    return shift(start, days * (late // days + 1 if late >= 0 else 1))


def _next_month(start: str, today: str) -> str:
    first = int(start[:4]) * 12 + int(start[5:7]) - 1
    months = max(1, int(today[:4]) * 12 + int(today[5:7]) - 1 - first)
    day = _months_later(start, first + months)
    return day if day > today else _months_later(start, first + months + 1)


def _months_later(start: str, month: int) -> str:
    text = f"{month // 12:04}-{month % 12 + 1:02}"
    return f"{text}-{min(int(start[8:]), _month_days(text)):02}"


# ---- from JSON ------------------------------------------------------------------------------------------------------


def board_from_json(value: Mapping[str, Any], start: Board) -> Board:
    """Rebuild a board from `to_json` and the same `start`; ValueError, TypeError or LookupError if it is invalid."""
    projects, sections, labels = value["projects"], value["sections"], value["labels"]
    if (
        not all(_name(name) and type(archived) is bool for name, archived in projects.items())
        or projects.get(INBOX) is not False
    ):
        raise ValueError("invalid projects")
    if set(sections) != set(projects) or not all(map(_names, sections.values())) or not _names(labels):
        raise ValueError("invalid sections or labels")
    board = Board(dict(projects), {name: tuple(names) for name, names in sections.items()}, tuple(labels), {})
    changed = {tid: _row(tid, fields) for tid, fields in value["tasks"].items()}
    new = sorted(set(changed) - set(start.tasks), key=lambda tid: int(tid[1:]))
    if new != [f"t{len(start.tasks) + n + 1}" for n in range(len(new))]:
        raise ValueError("invalid ids of tasks")
    board.tasks = start.tasks | changed | {tid: changed[tid] for tid in new}
    if not all(_fits(row, board) for row in board.tasks.values()):
        raise ValueError("a task's place or label is not on the board")
    return board


def _name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and value == " ".join(value.split())


def _names(value: object) -> bool:
    return isinstance(value, list) and all(map(_name, value)) and len(set(value)) == len(value)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) and 0 < len(text) <= LONGEST_TITLE for text in value)


def _row(tid: str, fields: list[Any]) -> Row:
    row = Row._make(fields)
    strings = (row.title, row.project, row.section, row.due, row.every)
    flags = (row.done, row.deleted)
    valid = (
        _ID.fullmatch(tid)
        and all(type(value) is str for value in strings)
        and all(type(value) is bool for value in flags)
        and 0 < len(row.title) <= LONGEST_TITLE
        and (row.due == "" or is_day(row.due))
        and row.every in ("", *EVERY)
        and type(row.priority) is int
        and 1 <= row.priority <= 4
        and _names(row.labels)
        and sorted(row.labels) == list(row.labels)
        and _texts(row.comments)
    )
    if not valid:
        raise ValueError(f"invalid task: {fields!r:.200}")
    return row._replace(labels=tuple(row.labels), comments=tuple(row.comments))


def _fits(row: Row, board: Board) -> bool:
    """Tell whether a row's labels are on the board, and its place, unless it is in the trash."""
    has_place = row.deleted or (row.project in board.sections and row.section in ("", *board.sections[row.project]))
    return has_place and set(row.labels) <= set(board.labels)
