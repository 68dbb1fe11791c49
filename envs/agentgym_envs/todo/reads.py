"""The tools that only look."""

from __future__ import annotations

from agentgym_envs.todo.app import (
    App,
    RefusedError,
    clean,
    known_day,
    known_label,
    known_project,
    known_section,
    line,
    listed,
    task_row,
)
from agentgym_envs.todo.board import LAST_DAY, Row, shift, weekday


def list_projects(app: App) -> str:
    """Projects, their sections, and how many open tasks each has."""
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
    """The labels."""
    return "Labels: " + (", ".join(app.board.labels) or "none")


def list_tasks(
    app: App, project: str = "", section: str = "", label: str = "", priority: int = 0, due: str = "", page: int = 1
) -> str:
    """Open tasks for which all that is given is so; archived projects only where one is named."""
    if section and not project:
        raise RefusedError("A section needs its 'project' too.")
    if project:
        known_section(app, known_project(app, project), section)
    if label:
        known_label(app, label)
    if due and due not in ("overdue", "none"):
        known_day(due)
    return listed(matching(app, project, section, label, priority, due), page)


def matching(
    app: App, project: str = "", section: str = "", label: str = "", priority: int = 0, due: str = ""
) -> list[tuple[str, Row]]:
    """The open tasks that `list_tasks` lists."""
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
    """Whether a task's day is `overdue`, `none` or the day that is named."""
    if due == "overdue":
        return bool(row.due) and row.due < today
    return row.due == ("" if due == "none" else due)


def list_due(app: App, start: str, end: str, project: str = "") -> str:
    """Open tasks due from a day to a day, both included."""
    known_day(start)
    known_day(end)
    if project:
        known_project(app, project)
    return listed([(tid, row) for tid, row in matching(app, project) if row.due and start <= row.due <= end])


def list_done(app: App, project: str = "", page: int = 1) -> str:
    """Tasks that are done."""
    if project:
        known_project(app, project)
    rows = app.board.tasks.items()
    done = [
        (tid, row) for tid, row in rows if row.done and not row.deleted and row.project in (project or row.project,)
    ]
    return listed(done, page)


def list_trash(app: App, page: int = 1) -> str:
    """Deleted tasks."""
    return listed([(tid, row) for tid, row in app.board.tasks.items() if row.deleted], page)


def search_tasks(app: App, text: str, page: int = 1) -> str:
    """Tasks, open or done, whose title holds the words as they stand."""
    wanted = clean(text).casefold()
    rows = app.board.tasks.items()
    return listed([(tid, row) for tid, row in rows if not row.deleted and wanted in row.title.casefold()], page)


def show_task(app: App, task: str) -> str:
    """A task and its comments."""
    row = task_row(app, task, deleted=True)
    return "\n".join([line(task, row), *(f"comment {n}: {text}" for n, text in enumerate(row.comments, 1))])


def show_calendar(app: App, start: str = "") -> str:
    """Fourteen days."""
    first = known_day(start) if start else app.today
    days = [shift(first, n) for n in range(14) if first <= shift(LAST_DAY, -n)]
    return "\n".join(f"{weekday(day)} {day}{' (today)' * (day == app.today)}" for day in days)
