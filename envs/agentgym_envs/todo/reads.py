"""The tools that change nothing."""

from __future__ import annotations

from agentgym_envs.todo.app import (
    PAGE,
    App,
    format_page,
    format_row,
    format_rows,
    require_day,
    require_label,
    require_project,
    require_section,
    require_task,
    require_text,
)
from agentgym_envs.todo.board import LAST_DAY, Row, shift, weekday
from agentgym_py.env.tools import RefusedError


def list_projects(app: App) -> str:
    """List projects, their sections and their numbers of open tasks."""
    counts = dict.fromkeys(app.board.projects, 0)
    for row in app.board.tasks.values():
        if row.open:
            counts[row.project] += 1
    lines = []
    for name, archived in app.board.projects.items():
        sections = ", ".join(app.board.sections[name])
        lines.append(
            f"{name}{' (archived)' * archived}: {counts[name]} open{f'; sections: {sections}' * bool(sections)}"
        )
    return "\n".join(lines)


def list_labels(app: App) -> str:
    """List the labels."""
    return "Labels: " + (", ".join(app.board.labels) or "none")


def list_tasks(
    app: App, project: str = "", section: str = "", label: str = "", priority: int = 0, due: str = "", page: int = 1
) -> str:
    """List the open tasks that match all arguments; an archived project only if it is named."""
    if section and not project:
        raise RefusedError("A section needs its 'project' too.")
    if project:
        require_section(app, require_project(app, project), section)
    if label:
        require_label(app, label)
    if due and due not in ("overdue", "none"):
        require_day(due)
    return format_page(open_tasks(app, project, section, label, priority, due), page)


def open_tasks(
    app: App, project: str = "", section: str = "", label: str = "", priority: int = 0, due: str = ""
) -> list[tuple[str, Row]]:
    """Return the open tasks of `list_tasks`."""
    hidden = {name for name, archived in app.board.projects.items() if archived and name != project}
    return [
        (tid, row)
        for tid, row in app.board.tasks.items()
        if not (row.done or row.deleted)
        and (not project or row.project == project)
        and (not section or row.section == section)
        and (not label or label in row.labels)
        and (not priority or row.priority == priority)
        and (not due or is_due(row, due, app.today))
        and row.project not in hidden
    ]


def is_due(row: Row, due: str, today: str) -> bool:
    """Tell whether a task's due day is `overdue`, `none` or the given day."""
    if due == "overdue":
        return bool(row.due) and row.due < today
    return row.due == ("" if due == "none" else due)


def list_due(app: App, start: str, end: str, project: str = "") -> str:
    """List the open tasks due from a day to a day, inclusive."""
    require_day(start)
    require_day(end)
    if project:
        require_project(app, project)
    due = [(tid, row) for tid, row in open_tasks(app, project) if row.due and start <= row.due <= end]
    if len(due) <= PAGE:
        return format_page(due)
    return f"{len(due)} tasks; of fewer days more are shown. The first {PAGE}:\n{format_rows(due[:PAGE])}"


def list_done(app: App, project: str = "", page: int = 1) -> str:
    """List the tasks that are done."""
    if project:
        require_project(app, project)
    rows = app.board.tasks.items()
    done = [
        (tid, row) for tid, row in rows if row.done and not row.deleted and row.project in (project or row.project,)
    ]
    return format_page(done, page)


def list_trash(app: App, page: int = 1) -> str:
    """List the deleted tasks."""
    return format_page([(tid, row) for tid, row in app.board.tasks.items() if row.deleted], page)


def search_tasks(app: App, text: str, page: int = 1) -> str:
    """List the tasks, open or done, whose title contains the text."""
    folded = require_text(text).casefold()
    rows = app.board.tasks.items()
    return format_page([(tid, row) for tid, row in rows if not row.deleted and folded in row.title.casefold()], page)


def show_task(app: App, task: str) -> str:
    """Show a task and its comments."""
    row = require_task(app, task, deleted=True)
    return "\n".join([format_row(task, row), *(f"comment {n}: {text}" for n, text in enumerate(row.comments, 1))])


def show_calendar(app: App, start: str = "") -> str:
    """Show fourteen days."""
    first = require_day(start) if start else app.today
    days = [shift(first, n) for n in range(14) if first <= shift(LAST_DAY, -n)]
    return "\n".join(f"{weekday(day)} {day}{' (today)' * (day == app.today)}" for day in days)
