"""The tools that change something; each answer includes the old value, so that the agent can undo mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentgym_envs.todo.app import (
    App,
    format_row,
    require_day,
    require_free_name,
    require_label,
    require_project,
    require_section,
    require_task,
    require_text,
)
from agentgym_envs.todo.board import INBOX, Row, next_due
from agentgym_py.env.tools import RefusedError

# ---- changing a task ------------------------------------------------------------------------------------------------


def add_task(
    app: App, title: str, project: str = INBOX, section: str = "", due: str = "", priority: int = 4,
    labels: tuple[str, ...] | list[str] = (), every: str = "",
) -> str:  # fmt: skip
    """Add a task."""
    require_section(app, require_project(app, project), section)
    names = tuple(sorted({require_label(app, label) for label in labels}))
    tid = app.board.next_id()
    row = Row(require_text(title), project, section, require_day(due) if due else "", priority, names, every)
    app.board.tasks[tid] = row
    return f"Added {format_row(tid, row)}"


def _update(app: App, task: str, old: object, label: str, **change: Any) -> str:
    """Change a field of a task and report its old and new value."""
    app.board.tasks[task] = app.board.tasks[task]._replace(**change)
    return f"{task} {label}: {old or 'none'} -> {next(iter(change.values())) or 'none'}"


def rename_task(app: App, task: str, title: str) -> str:
    """Set the title."""
    return _update(app, task, require_task(app, task).title, "title", title=require_text(title))


def set_due(app: App, task: str, date: str) -> str:
    """Set the due day."""
    return _update(app, task, require_task(app, task).due, "due", due=require_day(date))


def clear_due(app: App, task: str) -> str:
    """Clear the due day."""
    return _update(app, task, require_task(app, task).due, "due", due="")


def set_priority(app: App, task: str, priority: int) -> str:
    """Set the priority."""
    return _update(app, task, require_task(app, task).priority, "priority", priority=priority)


def set_repeat(app: App, task: str, every: str) -> str:
    """Set the repetition."""
    return _update(app, task, require_task(app, task).every, "every", every=every)


def stop_repeat(app: App, task: str) -> str:
    """Clear the repetition."""
    return _update(app, task, require_task(app, task).every, "every", every="")


def label_task(app: App, task: str, label: str) -> str:
    """Add a label."""
    row = require_task(app, task)
    if require_label(app, label) in row.labels:
        raise RefusedError(f"{task} has the label {label} already.")
    labels = tuple(sorted((*row.labels, label)))
    app.board.tasks[task] = row._replace(labels=labels)
    return f"{task} labels: {', '.join(labels)}"


def unlabel_task(app: App, task: str, label: str) -> str:
    """Remove a label."""
    row = require_task(app, task)
    if label not in row.labels:
        raise RefusedError(f"{task} has no label {label[:40]!r}; it has {', '.join(row.labels) or 'none'}.")
    app.board.tasks[task] = row._replace(labels=tuple(name for name in row.labels if name != label))
    return f"{task} labels: {', '.join(app.board.tasks[task].labels) or 'none'}"


def move_task(app: App, task: str, project: str, section: str = "") -> str:
    """Move a task to a project or a section of it."""
    row = require_task(app, task)
    require_section(app, project, section)
    app.board.tasks[task] = row._replace(project=project, section=section)
    return f"{task} place: {_place(row.project, row.section)} -> {_place(project, section)}"


def _place(project: str, section: str) -> str:
    return f"{project} > {section}" if section else project


def complete_task(app: App, task: str) -> str:
    """Mark a task done, or set its next due day if it repeats."""
    row = require_task(app, task)
    if row.done:
        raise RefusedError(f"{task} is done already.")
    if not row.every:
        app.board.tasks[task] = row._replace(done=True)
        return f"{task} done"
    return _update(app, task, row.due, "done for now, due", due=require_day(next_due(row.due, row.every, app.today)))


def reopen_task(app: App, task: str) -> str:
    """Mark a task open."""
    row = require_task(app, task)
    if not row.done:
        raise RefusedError(f"{task} is open already.")
    app.board.tasks[task] = row._replace(done=False)
    return f"{task} open again"


def delete_task(app: App, task: str) -> str:
    """Move a task into the trash."""
    app.board.tasks[task] = require_task(app, task)._replace(deleted=True)
    return f"{task} in the trash"


def restore_task(app: App, task: str) -> str:
    """Restore a task from the trash: into the inbox if its project is gone, into no section if its section is gone."""
    row = require_task(app, task, deleted=True)
    if not row.deleted:
        raise RefusedError(f"{task} is not in the trash.")
    project = row.project if row.project in app.board.projects else INBOX
    section = row.section if project == row.project and row.section in app.board.sections[project] else ""
    row = row._replace(deleted=False, project=project, section=section)
    app.board.tasks[task] = row
    return f"Restored {format_row(task, row)}"


def add_comment(app: App, task: str, text: str) -> str:
    """Add a comment."""
    row = require_task(app, task)
    app.board.tasks[task] = row._replace(comments=(*row.comments, require_text(text)))
    return f"{task} comment {len(row.comments) + 1} added"


def delete_comment(app: App, task: str, number: int) -> str:
    """Delete a comment."""
    row = require_task(app, task)
    if not 1 <= number <= len(row.comments):
        raise RefusedError(f"{task} has {len(row.comments) or 'no'} comment{'s' * (len(row.comments) != 1)}.")
    app.board.tasks[task] = row._replace(comments=row.comments[: number - 1] + row.comments[number:])
    return f"{task} comment {number} deleted: {row.comments[number - 1]}"


# ---- changing the board ---------------------------------------------------------------------------------------------


def _replace_rows(app: App, change: Callable[[Row], Row]) -> None:
    for tid, row in app.board.tasks.items():
        app.board.tasks[tid] = change(row)


def add_project(app: App, project: str) -> str:
    """Add an empty project."""
    name = require_free_name(project, app.board.projects, "project")
    app.board.projects[name], app.board.sections[name] = False, ()
    return f"Project {name} added"


def _require_no_inbox(app: App, project: str) -> str:
    if require_project(app, project) == INBOX:
        raise RefusedError("The inbox stays as it is.")
    return project


def rename_project(app: App, project: str, name: str) -> str:
    """Rename a project."""
    _require_no_inbox(app, project)
    new = require_free_name(name, app.board.projects, "project")
    board = app.board
    board.projects = {new if old == project else old: archived for old, archived in board.projects.items()}
    board.sections = {new if old == project else old: names for old, names in board.sections.items()}
    _replace_rows(app, lambda row: row._replace(project=new) if row.project == project else row)
    return f"Project {project} is now {new}"


def archive_project(app: App, project: str) -> str:
    """Archive a project."""
    app.board.projects[_require_no_inbox(app, project)] = True
    return f"Project {project} archived"


def unarchive_project(app: App, project: str) -> str:
    """Unarchive a project."""
    app.board.projects[require_project(app, project)] = False
    return f"Project {project} not archived"


def delete_project(app: App, project: str) -> str:
    """Delete an empty project."""
    _require_no_inbox(app, project)
    _require_empty(app, project, lambda row: row.project == project)
    del app.board.projects[project], app.board.sections[project]
    return f"Project {project} deleted"


def _require_empty(app: App, name: str, contains: Callable[[Row], bool]) -> None:
    count = sum(contains(row) and not row.deleted for row in app.board.tasks.values())
    if count:
        raise RefusedError(
            f"{name} still has {count} task{'s' * (count > 1)}, open or done; move or delete them first."
        )


def add_section(app: App, project: str, section: str) -> str:
    """Add an empty section."""
    names = app.board.sections[require_project(app, project)]
    name = require_free_name(section, names, "section")
    app.board.sections[project] = (*names, name)
    return f"Section {project} > {name} added"


def rename_section(app: App, project: str, section: str, name: str) -> str:
    """Rename a section."""
    names = app.board.sections[require_project(app, project)]
    _require_section_name(app, project, section)
    new = require_free_name(name, names, "section")
    app.board.sections[project] = tuple(new if old == section else old for old in names)
    place = (project, section)
    _replace_rows(app, lambda row: row._replace(section=new) if (row.project, row.section) == place else row)
    return f"Section {project} > {section} is now {project} > {new}"


def _require_section_name(app: App, project: str, section: str) -> str:
    if not section:
        raise RefusedError("Which section?")
    return require_section(app, project, section)


def delete_section(app: App, project: str, section: str) -> str:
    """Delete an empty section."""
    _require_section_name(app, project, section)
    _require_empty(app, section, lambda row: (row.project, row.section) == (project, section))
    app.board.sections[project] = tuple(name for name in app.board.sections[project] if name != section)
    return f"Section {project} > {section} deleted"


def add_label(app: App, label: str) -> str:
    """Add a label."""
    app.board.labels = (*app.board.labels, require_free_name(label, app.board.labels, "label"))
    return f"Label {app.board.labels[-1]} added"


def rename_label(app: App, label: str, name: str) -> str:
    """Rename a label, also on its tasks."""
    require_label(app, label)
    new = require_free_name(name, app.board.labels, "label")
    app.board.labels = tuple(new if old == label else old for old in app.board.labels)
    _replace_rows(app, lambda row: _with_labels(row, label, (new,)) if label in row.labels else row)
    return f"Label {label} is now {new}"


def delete_label(app: App, label: str) -> str:
    """Delete a label, also on its tasks."""
    tasks = [tid for tid, row in app.board.tasks.items() if require_label(app, label) in row.labels]
    app.board.labels = tuple(name for name in app.board.labels if name != label)
    _replace_rows(app, lambda row: _with_labels(row, label, ()) if label in row.labels else row)
    return f"Label {label} deleted; it was on {', '.join(tasks) or 'no task'}"


def _with_labels(row: Row, old: str, new: tuple[str, ...]) -> Row:
    return row._replace(labels=tuple(sorted({*row.labels, *new} - {old})))
