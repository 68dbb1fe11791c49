"""The application on one day, and how its tools find and show what is in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from agentgym_envs.todo.board import FIRST_DAY, LAST_DAY, LONGEST_NAME, LONGEST_TITLE, Board, Row, is_day
from agentgym_py.errors import did_you_mean

PAGE = 20
"""Tasks on a page of a list."""


class RefusedError(Exception):
    """A call that the application cannot do; its text is the observation and says what would help."""


@dataclass(slots=True)
class App:
    """The application on one day."""

    board: Board
    today: str


# ---- finding --------------------------------------------------------------------------------------------------------


def task_row(app: App, task: str, *, deleted: bool = False) -> Row:
    """A task that is there, and not in the trash unless `deleted` allows it."""
    row = app.board.tasks.get(task)
    if row is None:
        raise RefusedError(f"No task {task[:40]!r}. An id is t and a number, as the lists show it.")
    if row.deleted and not deleted:
        raise RefusedError(f"{task} is in the trash; restore_task brings it back.")
    return row


def near(name: str, known: Iterable[str]) -> str:
    """A clause on the nearest name and all that there are; how near is part of this world, as all that it says."""
    return did_you_mean(name[:40], known, "There are", 0.5)


def known_project(app: App, project: str) -> str:
    """A project that is there."""
    if project not in app.board.projects:
        raise RefusedError(f"No project {project[:40]!r}.{near(project, app.board.projects)}")
    return project


def known_section(app: App, project: str, section: str) -> str:
    """A section that the project has; the empty name stands for none."""
    known = app.board.sections[known_project(app, project)]
    if section and section not in known:
        raise RefusedError(f"No section {section[:40]!r} in {project}.{near(section, known)}")
    return section


def known_label(app: App, label: str) -> str:
    """A label that is there."""
    if label not in app.board.labels:
        raise RefusedError(f"No label {label[:40]!r}.{near(label, app.board.labels)}")
    return label


def known_day(text: str) -> str:
    """A day that the calendar has."""
    if not is_day(text):
        raise RefusedError(f"No day {text[:40]!r}; write YYYY-MM-DD, from {FIRST_DAY} to {LAST_DAY}.")
    return text


def clean(text: str, longest: int = LONGEST_TITLE) -> str:
    """A text in one line, neither empty nor too long."""
    found = " ".join(text[: 2 * longest].split())
    if not found or len(found) > longest:
        raise RefusedError(f"A text of 1 to {longest} characters is needed.")
    return found


def free_name(name: str, taken: Mapping[str, object] | tuple[str, ...], what: str) -> str:
    """A name that nothing of its kind has yet."""
    found = clean(name, LONGEST_NAME)
    if found in taken:
        raise RefusedError(f"There is a {what} {found!r} already.")
    return found


# ---- showing --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2_000)
def line(tid: str, row: Row) -> str:
    """A task in one line; what it has not is left out."""
    parts = [f"{tid} {row.title}", row.project + (f" > {row.section}" if row.section else "")]
    if row.due:
        parts.append(f"due {row.due}")
    if row.priority < 4:
        parts.append(f"p{row.priority}")
    parts += [f"#{label}" for label in row.labels]
    if row.every:
        parts.append(f"every {row.every}")
    if row.comments:
        parts.append(f"{len(row.comments)} comment{'s' * (len(row.comments) > 1)}")
    if row.done or row.deleted:
        parts.append("in the trash" if row.deleted else "done")
    return " | ".join(parts)


def listed(rows: list[tuple[str, Row]], page: int = 1) -> str:
    """A page of tasks under their number."""
    pages = max(1, -(-len(rows) // PAGE))
    if not 1 <= page <= pages:
        raise RefusedError(f"There {'is 1 page' if pages == 1 else f'are {pages} pages'}.")
    count = f"{len(rows)} task{'s' * (len(rows) != 1)}" + (f", page {page} of {pages}" if pages > 1 else "")
    return "\n".join([count, *(line(tid, row) for tid, row in rows[(page - 1) * PAGE : page * PAGE])])
