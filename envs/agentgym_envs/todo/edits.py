"""The changes that a request can ask for: of tasks or of the board."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym_envs.todo import wording
from agentgym_envs.todo.board import EVERY, INBOX, Row, shift, weekday
from agentgym_envs.todo.seeding import draw_title
from agentgym_envs.todo.task_templates import Call, Drafter, NoFitError, Part, Pick

Ids = tuple[str, ...]
Edit = tuple[dict[str, Any], list[Call]]
"""The fields of the wording, and the calls."""


def change(drafter: Drafter, kind: str, pick: Pick) -> Part:
    """Draw a change of every task of a pick."""
    fields, calls = CHANGES[kind](drafter, pick.ids)
    text = drafter.sentence(wording.DO[kind], what=pick.what, **fields)
    notes = pick.notes(_AIMS[kind].format(**fields))
    return Part(kind, text, pick.reads, tuple(calls), ids=pick.ids, notes=notes)


def _rows(drafter: Drafter, ids: Ids) -> list[Row]:
    return [drafter.board.tasks[tid] for tid in ids]


def complete(drafter: Drafter, ids: Ids) -> Edit:
    """Complete the tasks."""
    return {}, [("complete_task", {"task": tid}) for tid in ids]


def due(drafter: Drafter, ids: Ids) -> Edit:
    """Set another due day."""
    days = 1 + drafter.rng.below(14)
    day = shift(drafter.today, days)
    if any(row.due == day for row in _rows(drafter, ids)):
        raise NoFitError
    words = "tomorrow" if days == 1 else f"the coming {weekday(day)}" if days < 7 else day
    on = "tomorrow" if days == 1 else f"on {words}"
    count = f"tomorrow, {day}" if days == 1 else f"{weekday(day)} in {days} days, {day}" if days < 7 else day
    return {"when": words, "on": on, "date": count}, [("set_due", {"task": tid, "date": day}) for tid in ids]


def postpone(drafter: Drafter, ids: Ids) -> Edit:
    """Postpone the due days."""
    days = drafter.one_of((1, 2, 3, 5, 7, 10))
    if not all(row.due for row in _rows(drafter, ids)):
        raise NoFitError
    calls = [("set_due", {"task": tid, "date": shift(drafter.board.tasks[tid].due, days)}) for tid in ids]
    return {"days": f"{days} day{'s' * (days > 1)}"}, calls


def undue(drafter: Drafter, ids: Ids) -> Edit:
    """Clear the due days."""
    if not all(row.due for row in _rows(drafter, ids)):
        raise NoFitError
    return {}, [("clear_due", {"task": tid}) for tid in ids]


def priority(drafter: Drafter, ids: Ids) -> Edit:
    """Set another priority."""
    present = {row.priority for row in _rows(drafter, ids)}
    priority = drafter.one_of([level for level in (1, 2, 3, 4) if level not in present])
    return {"priority": priority}, [("set_priority", {"task": tid, "priority": priority}) for tid in ids]


def label(drafter: Drafter, ids: Ids) -> Edit:
    """Add a label."""
    present = {label for row in _rows(drafter, ids) for label in row.labels}
    label = drafter.one_of([name for name in drafter.board.labels if name not in present])
    return {"label": label}, [("label_task", {"task": tid, "label": label}) for tid in ids]


def unlabel(drafter: Drafter, ids: Ids) -> Edit:
    """Remove a label."""
    labels = set(drafter.board.labels).intersection(*(row.labels for row in _rows(drafter, ids)))
    label = drafter.one_of(sorted(labels))
    having = sum(label in row.labels and not row.deleted for row in drafter.board.tasks.values())
    if 2 + having - len(ids) < len(ids):  # it would be shorter to delete the label and restore it on the other tasks
        raise NoFitError
    return {"label": label}, [("unlabel_task", {"task": tid, "label": label}) for tid in ids]


def move(drafter: Drafter, ids: Ids) -> Edit:
    """Move the tasks to another place."""
    present = {(row.project, row.section) for row in _rows(drafter, ids)}
    text, place = _place(drafter)
    to = (place["project"], place.get("section", ""))
    if to in present or (to[1] and _swappable(drafter, ids, to)):
        raise NoFitError
    return {"place": text, "to": " > ".join(place.values())}, [("move_task", {"task": tid, **place}) for tid in ids]


def _swappable(drafter: Drafter, ids: Ids, to: tuple[str, str]) -> bool:
    """Tell whether it is shorter to delete the empty section `to`, rename the tasks' section and add that again."""
    places = [(row.project, row.section) for row in drafter.board.tasks.values() if not row.deleted]
    origin = {(row.project, row.section) for row in _rows(drafter, ids)}
    if to in places or len(origin) > 1:
        return False
    here = origin.pop()
    return here[0] == to[0] and here[1] != "" and 3 + places.count(here) - len(ids) < len(ids)


def _place(drafter: Drafter) -> tuple[str, dict[str, str]]:
    place = {"project": drafter.project()}
    section = drafter.rng.choice(("", *drafter.board.sections[place["project"]]))
    if section:
        place["section"] = section
    return drafter.say(wording.PLACE["section" if section else "project"], **place), place


def delete(drafter: Drafter, ids: Ids) -> Edit:
    """Into the trash."""
    return {}, [("delete_task", {"task": tid}) for tid in ids]


def comment(drafter: Drafter, ids: Ids) -> Edit:
    """One comment more."""
    text = drafter.rng.choice(drafter.vocabulary["text"])
    return {"text": text}, [("add_comment", {"task": tid, "text": text}) for tid in ids]


def uncomment(drafter: Drafter, ids: Ids) -> Edit:
    """One comment less."""
    comments = drafter.board.tasks[ids[0]].comments
    text = drafter.one_of(comments)
    return {"text": text}, [("delete_comment", {"task": ids[0], "number": comments.index(text) + 1})]


def rename(drafter: Drafter, ids: Ids) -> Edit:
    """Another title."""
    row = drafter.board.tasks[ids[0]]
    title = _new_title(drafter, row.project if row.project != INBOX else drafter.project())
    return {"title": title}, [("rename_task", {"task": ids[0], "title": title})]


def _new_title(drafter: Drafter, theme: str) -> str:
    taken = {row.title for row in drafter.board.tasks.values()}
    return draw_title(drafter.rng, theme, drafter.split, drafter.vocabulary, taken)


def repeat(drafter: Drafter, ids: Ids) -> Edit:
    """Set a repetition."""
    every = drafter.one_of([every for every in EVERY if every != drafter.board.tasks[ids[0]].every])
    return {"every": every}, [("set_repeat", {"task": ids[0], "every": every})]


def stop(drafter: Drafter, ids: Ids) -> Edit:
    """Clear the repetitions."""
    return {}, [("stop_repeat", {"task": tid}) for tid in ids]


def restore(drafter: Drafter, ids: Ids) -> Edit:
    """Restore a task from the trash."""
    return {}, [("restore_task", {"task": ids[0]})]


def reopen(drafter: Drafter, ids: Ids) -> Edit:
    """Reopen a task."""
    return {}, [("reopen_task", {"task": ids[0]})]


CHANGES: Mapping[str, Callable[[Drafter, Ids], Edit]] = {
    "complete": complete, "due": due, "postpone": postpone, "undue": undue, "priority": priority, "label": label,
    "unlabel": unlabel, "move": move, "delete": delete, "comment": comment, "uncomment": uncomment, "rename": rename,
    "repeat": repeat, "stop": stop, "restore": restore, "reopen": reopen,
}  # fmt: skip
_AIMS: Mapping[str, str] = {
    "complete": "complete", "due": "due {date}", "postpone": "due date + {days}", "undue": "no due date",
    "priority": "priority {priority}", "label": "label {label}", "unlabel": "no label {label}", "move": "move to {to}",
    "delete": "delete", "comment": 'comment "{text}"', "uncomment": 'no comment "{text}"', "rename": 'title "{title}"',
    "repeat": "every {every}", "stop": "no repeat", "restore": "restore", "reopen": "reopen",
}  # fmt: skip
"""The kinds of changes in the terms of the tools, for thoughts."""
OF_SEVERAL = ("complete", "due", "postpone", "undue", "priority", "label", "unlabel", "move", "delete", "comment")


# ---- the board ------------------------------------------------------------------------------------------------------


def add(drafter: Drafter) -> Part:
    """Draw a new task with some details."""
    text, place = _place(drafter)
    title = _new_title(drafter, place["project"])
    details: list[str] = []
    arguments: dict[str, Any] = {"title": title, **place}
    if drafter.rng.below(2):
        arguments["due"] = shift(drafter.today, drafter.rng.below(15))
        details.append(drafter.say(wording.DETAILS["due"], due=arguments["due"]))
    if drafter.rng.below(2):
        arguments["priority"] = 1 + drafter.rng.below(3)
        details.append(drafter.say(wording.DETAILS["priority"], priority=arguments["priority"]))
    if drafter.rng.below(2):
        arguments["labels"] = [drafter.rng.choice(drafter.board.labels)]
        details.append(drafter.say(wording.DETAILS["label"], label=arguments["labels"][0]))
    if drafter.split == "train":
        details = drafter.rng.sample(details, len(details))
    suffix = "".join(f", {detail}" for detail in details)
    sentence = drafter.sentence(wording.DO["add"], title=title, place=text, details=suffix)
    asked = [f"{key} {value}" for key, value in arguments.items() if key not in ("title", "labels")]
    asked += [f"label {label}" for label in arguments.get("labels", ())]
    notes = (f"Asked: new task, {', '.join(asked)}.",)
    return Part("add", sentence, (), (("add_task", arguments),), notes=notes)


def new_project(drafter: Drafter, pick: Pick) -> Part:
    """Draw a new project with two sections, and tasks that move there."""
    name = drafter.rng.choice(drafter.vocabulary["project"])
    first, second = drafter.rng.sample(drafter.vocabulary["section"], 2)
    at = drafter.rng.choice((first, second))
    calls: list[Call] = [("add_project", {"project": name})]
    calls += [("add_section", {"project": name, "section": section}) for section in (first, second)]
    calls += [("move_task", {"task": tid, "project": name, "section": at}) for tid in pick.ids]
    fields = {"project": name, "sections": f"{first} and {second}", "section": at, "what": pick.what}
    text = drafter.sentence(wording.DO["project"], **fields)
    notes = pick.notes(f"new project {name} with {first}, {second}; move to {name} > {at}")
    return Part("project", text, pick.reads, tuple(calls), ids=pick.ids, notes=notes)


def rename_name(drafter: Drafter) -> Part:
    """Draw another name for a project, a section or a label with tasks."""
    what = drafter.rng.choice(("project", "section", "label"))
    row: Row = drafter.one_of([row for row in drafter.board.tasks.values() if row.section and row.labels and row.open])
    old = {"project": row.project, "section": row.section, "label": row.labels[0]}[what]
    taken = (*drafter.board.labels, *drafter.board.sections[row.project])
    new = drafter.one_of([name for name in drafter.vocabulary[what] if name not in taken])
    text = drafter.sentence(wording.DO[f"rename {what}"], old=old, new=new, project=row.project)
    where = {"project": row.project} if what == "section" else {}
    inside = f" of {row.project}" if what == "section" else ""
    notes = (f"Asked: {what} {old}{inside}, new name {new}.",)
    return Part(f"rename {what}", text, (), ((f"rename_{what}", {**where, what: old, "name": new}),), notes=notes)


def archive(drafter: Drafter) -> Part:
    """Archive a project."""
    name = drafter.project()
    text = drafter.sentence(wording.DO["archive"], project=name)
    return Part("archive", text, (), (("archive_project", {"project": name}),))


def empty_section(drafter: Drafter) -> Part:
    """Delete a section and move its tasks to another place."""
    project = drafter.project()
    section = drafter.rng.choice(drafter.board.sections[project])
    place_text, place = _place(drafter)
    rows = drafter.board.tasks.items()
    inside = [tid for tid, row in rows if (row.project, row.section) == (project, section) and not row.deleted]
    if place["project"] == project or not 1 <= len(inside) <= 4:
        raise NoFitError
    reads: list[Call] = [("list_tasks", {"project": project, "section": section}), ("list_done", {"project": project})]
    calls: list[Call] = [("move_task", {"task": tid, **place}) for tid in inside]
    calls.append(("delete_section", {"project": project, "section": section}))
    text = drafter.sentence(wording.DO["empty section"], section=section, project=project, place=place_text)
    to = " > ".join(place.values())
    notes = (f"Asked: empty {project} > {section} into {to}, then delete it.", "What is done there, too.")
    return Part("empty section", text, tuple(reads), tuple(calls), ids=tuple(inside), notes=notes)
