"""The tools that change something; each says what was, so that nothing is lost to who made a mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentgym_envs.todo.app import (
    App,
    RefusedError,
    clean,
    free_name,
    known_day,
    known_label,
    known_project,
    known_section,
    line,
    task_row,
)
from agentgym_envs.todo.board import INBOX, Row, next_due

# ---- changing a task ------------------------------------------------------------------------------------------------


def add_task(
    app: App, title: str, project: str = INBOX, section: str = "", due: str = "", priority: int = 4,
    labels: tuple[str, ...] | list[str] = (), every: str = "",
) -> str:  # fmt: skip
    """Put a new task on the board."""
    known_section(app, known_project(app, project), section)
    names = tuple(sorted({known_label(app, label) for label in labels}))
    tid = app.board.next_id()
    row = Row(clean(title), project, section, known_day(due) if due else "", priority, names, every)
    app.board.tasks[tid] = row
    return f"Added {line(tid, row)}"


def _put(app: App, task: str, was: object, said: str, **change: Any) -> str:
    """Change a task and say what it was and is: nothing that an agent has done is lost to it."""
    app.board.tasks[task] = app.board.tasks[task]._replace(**change)
    return f"{task} {said}: {was or 'none'} -> {next(iter(change.values())) or 'none'}"


def rename_task(app: App, task: str, title: str) -> str:
    """Another title."""
    return _put(app, task, task_row(app, task).title, "title", title=clean(title))


def set_due(app: App, task: str, date: str) -> str:
    """Another day."""
    return _put(app, task, task_row(app, task).due, "due", due=known_day(date))


def clear_due(app: App, task: str) -> str:
    """No day."""
    return _put(app, task, task_row(app, task).due, "due", due="")


def set_priority(app: App, task: str, priority: int) -> str:
    """Another priority."""
    return _put(app, task, task_row(app, task).priority, "priority", priority=priority)


def set_repeat(app: App, task: str, every: str) -> str:
    """Come back after it is done."""
    return _put(app, task, task_row(app, task).every, "every", every=every)


def stop_repeat(app: App, task: str) -> str:
    """Come back no more."""
    return _put(app, task, task_row(app, task).every, "every", every="")


def label_task(app: App, task: str, label: str) -> str:
    """One label more."""
    row = task_row(app, task)
    if known_label(app, label) in row.labels:
        raise RefusedError(f"{task} has the label {label} already.")
    labels = tuple(sorted((*row.labels, label)))
    app.board.tasks[task] = row._replace(labels=labels)
    return f"{task} labels: {', '.join(labels)}"


def unlabel_task(app: App, task: str, label: str) -> str:
    """One label less."""
    row = task_row(app, task)
    if label not in row.labels:
        raise RefusedError(f"{task} has no label {label[:40]!r}; it has {', '.join(row.labels) or 'none'}.")
    app.board.tasks[task] = row._replace(labels=tuple(each for each in row.labels if each != label))
    return f"{task} labels: {', '.join(app.board.tasks[task].labels) or 'none'}"


def move_task(app: App, task: str, project: str, section: str = "") -> str:
    """Another project, or another section of it."""
    row = task_row(app, task)
    known_section(app, project, section)
    app.board.tasks[task] = row._replace(project=project, section=section)
    return f"{task} place: {_place(row.project, row.section)} -> {_place(project, section)}"


def _place(project: str, section: str) -> str:
    return f"{project} > {section}" if section else project


def complete_task(app: App, task: str) -> str:
    """Done; or due on its next day, where it repeats."""
    row = task_row(app, task)
    if row.done:
        raise RefusedError(f"{task} is done already.")
    if not row.every:
        app.board.tasks[task] = row._replace(done=True)
        return f"{task} done"
    return _put(app, task, row.due, "done for now, due", due=known_day(next_due(row.due, row.every, app.today)))


def reopen_task(app: App, task: str) -> str:
    """Not done."""
    row = task_row(app, task)
    if not row.done:
        raise RefusedError(f"{task} is open already.")
    app.board.tasks[task] = row._replace(done=False)
    return f"{task} open again"


def delete_task(app: App, task: str) -> str:
    """Into the trash."""
    app.board.tasks[task] = task_row(app, task)._replace(deleted=True)
    return f"{task} in the trash"


def restore_task(app: App, task: str) -> str:
    """Out of the trash; into the inbox where its project is gone, and out of a section that is gone."""
    row = task_row(app, task, deleted=True)
    if not row.deleted:
        raise RefusedError(f"{task} is not in the trash.")
    project = row.project if row.project in app.board.projects else INBOX
    section = row.section if project == row.project and row.section in app.board.sections[project] else ""
    row = row._replace(deleted=False, project=project, section=section)
    app.board.tasks[task] = row
    return f"Restored {line(task, row)}"


def add_comment(app: App, task: str, text: str) -> str:
    """One comment more."""
    row = task_row(app, task)
    app.board.tasks[task] = row._replace(comments=(*row.comments, clean(text)))
    return f"{task} comment {len(row.comments) + 1} added"


def delete_comment(app: App, task: str, number: int) -> str:
    """One comment less."""
    row = task_row(app, task)
    if not 1 <= number <= len(row.comments):
        raise RefusedError(f"{task} has {len(row.comments) or 'no'} comment{'s' * (len(row.comments) != 1)}.")
    app.board.tasks[task] = row._replace(comments=row.comments[: number - 1] + row.comments[number:])
    return f"{task} comment {number} deleted: {row.comments[number - 1]}"


# ---- changing the board ---------------------------------------------------------------------------------------------


def _each(app: App, change: Callable[[Row], Row]) -> None:
    for tid, row in app.board.tasks.items():
        app.board.tasks[tid] = change(row)


def add_project(app: App, project: str) -> str:
    """An empty project."""
    name = free_name(project, app.board.projects, "project")
    app.board.projects[name], app.board.sections[name] = False, ()
    return f"Project {name} added"


def _own(app: App, project: str) -> str:
    if known_project(app, project) == INBOX:
        raise RefusedError("The inbox stays as it is.")
    return project


def rename_project(app: App, project: str, name: str) -> str:
    """Another name for a project, with all that is in it."""
    _own(app, project)
    new = free_name(name, app.board.projects, "project")
    board = app.board
    board.projects = {new if each == project else each: archived for each, archived in board.projects.items()}
    board.sections = {new if each == project else each: names for each, names in board.sections.items()}
    _each(app, lambda row: row._replace(project=new) if row.project == project else row)
    return f"Project {project} is now {new}"


def archive_project(app: App, project: str) -> str:
    """Out of the lists."""
    app.board.projects[_own(app, project)] = True
    return f"Project {project} archived"


def unarchive_project(app: App, project: str) -> str:
    """Into the lists."""
    app.board.projects[known_project(app, project)] = False
    return f"Project {project} not archived"


def delete_project(app: App, project: str) -> str:
    """Away with an empty project."""
    _own(app, project)
    left = sum(row.project == project and not row.deleted for row in app.board.tasks.values())
    if left:
        raise RefusedError(
            f"{project} still has {left} task{'s' * (left > 1)}, open or done; move or delete them first."
        )
    del app.board.projects[project], app.board.sections[project]
    return f"Project {project} deleted"


def add_section(app: App, project: str, section: str) -> str:
    """An empty section."""
    names = app.board.sections[known_project(app, project)]
    name = free_name(section, names, "section")
    app.board.sections[project] = (*names, name)
    return f"Section {project} > {name} added"


def rename_section(app: App, project: str, section: str, name: str) -> str:
    """Another name for a section, with all that is in it."""
    names = app.board.sections[known_project(app, project)]
    _named_section(app, project, section)
    new = free_name(name, names, "section")
    app.board.sections[project] = tuple(new if each == section else each for each in names)
    place = (project, section)
    _each(app, lambda row: row._replace(section=new) if (row.project, row.section) == place else row)
    return f"Section {project} > {section} is now {project} > {new}"


def _named_section(app: App, project: str, section: str) -> str:
    if not section:
        raise RefusedError("Which section?")
    return known_section(app, project, section)


def delete_section(app: App, project: str, section: str) -> str:
    """Away with an empty section."""
    _named_section(app, project, section)
    rows = app.board.tasks.values()
    left = sum((row.project, row.section) == (project, section) and not row.deleted for row in rows)
    if left:
        raise RefusedError(
            f"{section} still has {left} task{'s' * (left > 1)}, open or done; move or delete them first."
        )
    app.board.sections[project] = tuple(each for each in app.board.sections[project] if each != section)
    return f"Section {project} > {section} deleted"


def add_label(app: App, label: str) -> str:
    """A label that no task has."""
    app.board.labels = (*app.board.labels, free_name(label, app.board.labels, "label"))
    return f"Label {app.board.labels[-1]} added"


def rename_label(app: App, label: str, name: str) -> str:
    """Another name for a label, on every task that has it."""
    known_label(app, label)
    new = free_name(name, app.board.labels, "label")
    app.board.labels = tuple(new if each == label else each for each in app.board.labels)
    _each(app, lambda row: _with_labels(row, label, (new,)) if label in row.labels else row)
    return f"Label {label} is now {new}"


def delete_label(app: App, label: str) -> str:
    """Away with a label, on every task that has it."""
    had = [tid for tid, row in app.board.tasks.items() if known_label(app, label) in row.labels]
    app.board.labels = tuple(each for each in app.board.labels if each != label)
    _each(app, lambda row: _with_labels(row, label, ()) if label in row.labels else row)
    return f"Label {label} deleted; it was on {', '.join(had) or 'no task'}"


def _with_labels(row: Row, old: str, new: tuple[str, ...]) -> Row:
    return row._replace(labels=tuple(sorted({*row.labels, *new} - {old})))
