"""The application's tools and their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from agentgym_envs.todo import changes, reads
from agentgym_envs.todo.app import PAGE, App
from agentgym_envs.todo.board import EVERY, LONGEST_TITLE
from agentgym_py.env.tools import RefusedError, Tool, make_tool, require_tool

ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "task": {"type": "string", "description": "A task's id, such as t7."},
    "title": {"type": "string", "description": "A task's title."},
    "project": {"type": "string", "description": "A project's name."},
    "section": {"type": "string", "description": "The name of a section of the project."},
    "label": {"type": "string", "description": "A label's name."},
    "labels": {"type": "array", "items": {"type": "string"}, "description": "Names of labels."},
    "name": {"type": "string", "description": "The new name."},
    "date": {"type": "string", "description": "A day as YYYY-MM-DD."},
    "start": {"type": "string", "description": "The first day, YYYY-MM-DD."},
    "end": {"type": "string", "description": "The last day, YYYY-MM-DD."},
    "due": {"type": "string", "description": "A day as YYYY-MM-DD; in a list also overdue or none."},
    "priority": {"type": "integer", "enum": [1, 2, 3, 4], "description": "1 is the most urgent, 4 is none."},
    "every": {"type": "string", "enum": list(EVERY), "description": "How often the task comes back."},
    "text": {"type": "string", "description": "Words of a title, or a comment."},
    "number": {"type": "integer", "description": "A comment's number, from 1."},
    "page": {"type": "integer", "description": f"A page of {PAGE} tasks, from 1."},
    "answer": {"type": "string", "description": "The bare answer: a number, a title, a name or a date."},
}
_KINDS = {"string": str, "integer": int, "array": list}


def call(app: App, name: str, arguments: Mapping[str, Any]) -> str:
    """Make a call and return its observation; RefusedError, with nothing changed, if it cannot be done."""
    return require_tool(name, TOOLS).call(app, arguments)


def _check(name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    kind = _KINDS[schema["type"]]
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind is str and type(value) is int:
        value = f"{value}"[:LONGEST_TITLE] if abs(value) < 10**18 else "a large number"
    if type(value) is not kind:
        raise RefusedError(f"{name!r} must be of type {schema['type']}. {schema['description']}")
    if isinstance(value, list) and not all(isinstance(item, str) for item in value):
        raise RefusedError(f"{name!r} must be a list of strings. {schema['description']}")
    if "enum" in schema and value not in schema["enum"]:
        raise RefusedError(f"{name!r} must be one of {', '.join(map(str, schema['enum']))}.")
    return value


def finish(app: App, answer: str = "") -> str:
    """Finish the request; the env ends the episode."""
    del app
    return f"Finished: {answer[:LONGEST_TITLE]}" if answer else "Finished."


_tool = partial(make_tool, schemas=ARGUMENTS, check_argument=_check)
TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        _tool(reads.list_projects, "List the projects, their sections and how many open tasks each has."),
        _tool(reads.list_labels, "List the labels."),
        _tool(reads.list_tasks,
              "List the open tasks for which all that is given is so; due may be overdue, none or a day.",
              "", "project section label priority due page"),
        _tool(reads.list_due, "List the open tasks due from a day to a day.", "start end", "project"),
        _tool(reads.list_done, "List the tasks that are done.", "", "project page"),
        _tool(reads.list_trash, "List the deleted tasks.", "", "page"),
        _tool(reads.search_tasks, "Find tasks, open or done, by words of their titles.", "text", "page"),
        _tool(reads.show_task, "Show a task with its comments.", "task"),
        _tool(reads.show_calendar, "Show fourteen days with their weekdays, from today or a given day.", "", "start"),
        _tool(changes.add_task, "Add a task, to the inbox unless a project is named.", "title",
              "project section due priority labels every"),
        _tool(changes.rename_task, "Give a task another title.", "task title"),
        _tool(changes.set_due, "Set the day a task is due.", "task date"),
        _tool(changes.clear_due, "Take the due day off a task.", "task"),
        _tool(changes.set_priority, "Set a task's priority.", "task priority"),
        _tool(changes.label_task, "Put a label on a task.", "task label"),
        _tool(changes.unlabel_task, "Take a label off a task.", "task label"),
        _tool(changes.move_task, "Move a task to a project, or to a section of it.", "task project", "section"),
        _tool(changes.set_repeat, "Let a task come back whenever it is completed.", "task every"),
        _tool(changes.stop_repeat, "Let a task come back no more.", "task"),
        _tool(changes.complete_task, "Mark a task done; one that repeats becomes due on its next day.", "task"),
        _tool(changes.reopen_task, "Mark a task not done.", "task"),
        _tool(changes.delete_task, "Put a task into the trash.", "task"),
        _tool(changes.restore_task, "Take a task out of the trash.", "task"),
        _tool(changes.add_comment, "Add a comment to a task.", "task text"),
        _tool(changes.delete_comment, "Delete a task's comment by its number.", "task number"),
        _tool(changes.add_project, "Add an empty project.", "project"),
        _tool(changes.rename_project, "Give a project another name.", "project name"),
        _tool(changes.archive_project, "Archive a project: lists show it only when it is named.", "project"),
        _tool(changes.unarchive_project, "Take a project out of the archive.", "project"),
        _tool(changes.delete_project, "Delete a project that has no tasks.", "project"),
        _tool(changes.add_section, "Add an empty section to a project.", "project section"),
        _tool(changes.rename_section, "Give a section another name.", "project section name"),
        _tool(changes.delete_section, "Delete a section that has no tasks.", "project section"),
        _tool(changes.add_label, "Add a label.", "label"),
        _tool(changes.rename_label, "Give a label another name.", "label name"),
        _tool(changes.delete_label, "Delete a label, also from its tasks.", "label"),
        _tool(finish, "Say that the request is done, with the answer if one is asked for.", "", "answer"),
    )
}  # fmt: skip
