"""The application on one day: checked access to its contents, and their formatting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from agentgym_envs.todo.board import FIRST_DAY, LAST_DAY, LONGEST_NAME, LONGEST_TITLE, Board, Row, is_day
from agentgym_py.env.tools import RefusedError
from agentgym_py.errors import did_you_mean

PAGE = 20
"""Tasks on a page of a list."""


@dataclass(slots=True)
class App:
    """The application on one day."""

    board: Board
    today: str


# ---- access ---------------------------------------------------------------------------------------------------------


def require_task(app: App, task: str, *, deleted: bool = False) -> Row:
    """Return a task, which must exist and must not be in the trash unless `deleted`."""
    row = app.board.tasks.get(task)
    if row is None:
        raise RefusedError(f"No task {task[:40]!r}. An id is t and a number, as the lists show it.")
    if row.deleted and not deleted:
        raise RefusedError(f"{task} is in the trash; restore_task brings it back.")
    return row


def suggestion(name: str, names: Iterable[str]) -> str:
    """Suggest the nearest name and list all names; the similarity is fixed here, because it is part of the world."""
    return did_you_mean(name[:40], names, "There are", 0.5)


def require_project(app: App, project: str) -> str:
    """Return a project, which must exist."""
    if project not in app.board.projects:
        raise RefusedError(f"No project {project[:40]!r}.{suggestion(project, app.board.projects)}")
    return project


def require_section(app: App, project: str, section: str) -> str:
    """Return a section of a project, which must exist; the empty name means none."""
    sections = app.board.sections[require_project(app, project)]
    if section and section not in sections:
        raise RefusedError(f"No section {section[:40]!r} in {project}.{suggestion(section, sections)}")
    return section


def require_label(app: App, label: str) -> str:
    """Return a label, which must exist."""
    if label not in app.board.labels:
        raise RefusedError(f"No label {label[:40]!r}.{suggestion(label, app.board.labels)}")
    return label


def require_day(text: str) -> str:
    """Return a day, which must be valid."""
    if not is_day(text):
        raise RefusedError(f"No day {text[:40]!r}; write YYYY-MM-DD, from {FIRST_DAY} to {LAST_DAY}.")
    return text


def require_text(text: str, longest: int = LONGEST_TITLE) -> str:
    """Return a text in one line, which must be neither empty nor too long."""
    text = " ".join(text[: 2 * longest].split())
    if not text or len(text) > longest:
        raise RefusedError(f"A text of 1 to {longest} characters is needed.")
    return text


def require_free_name(name: str, taken: Mapping[str, object] | tuple[str, ...], what: str) -> str:
    """Return a name, which must be new for its kind."""
    name = require_text(name, LONGEST_NAME)
    if name in taken:
        raise RefusedError(f"There is a {what} {name!r} already.")
    return name


# ---- formats --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2_000)
def format_row(tid: str, row: Row) -> str:
    """Format a task in one line without its empty fields."""
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


def format_page(rows: list[tuple[str, Row]], page: int = 1) -> str:
    """Format a page of tasks, headed by their number."""
    pages = max(1, -(-len(rows) // PAGE))
    if not 1 <= page <= pages:
        raise RefusedError(f"There {'is 1 page' if pages == 1 else f'are {pages} pages'}.")
    count = f"{len(rows)} task{'s' * (len(rows) != 1)}" + (f", page {page} of {pages}" if pages > 1 else "")
    return f"{count}\n{format_rows(rows[(page - 1) * PAGE : page * PAGE])}" if rows else count


def format_rows(rows: list[tuple[str, Row]]) -> str:
    """Format tasks, a line each."""
    return "\n".join(format_row(tid, row) for tid, row in rows)
