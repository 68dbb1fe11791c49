"""What a request may have done: to the tasks that it means, or to the board."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym_envs.todo.board import EVERY, INBOX, Row, shift, weekday
from agentgym_envs.todo.seeding import draw_title
from agentgym_envs.todo.task_templates import Call, Drafter, NoneFitError, Part, Pick

Ids = tuple[str, ...]
Deed = tuple[dict[str, Any], list[Call]]
"""What fills the wording, and the calls."""


def change(drafter: Drafter, kind: str, pick: Pick) -> Part:
    """A change of every task that is picked."""
    fields, calls = CHANGES[kind](drafter, pick.ids)
    text = drafter.sentence(kind, what=pick.what, **fields)
    return Part(kind, text, pick.reads, tuple(calls), ids=pick.ids)


def _rows(drafter: Drafter, ids: Ids) -> list[Row]:
    return [drafter.board.tasks[tid] for tid in ids]


def complete(drafter: Drafter, ids: Ids) -> Deed:
    """Mark them done."""
    return {}, [("complete_task", {"task": tid}) for tid in ids]


def due(drafter: Drafter, ids: Ids) -> Deed:
    """Another day."""
    days = 1 + drafter.rng.below(14)
    day = shift(drafter.today, days)
    if any(row.due == day for row in _rows(drafter, ids)):
        raise NoneFitError
    named = "tomorrow" if days == 1 else f"the coming {weekday(day)}" if days < 7 else day
    on = "tomorrow" if days == 1 else f"on {named}"
    return {"when": named, "on": on}, [("set_due", {"task": tid, "date": day}) for tid in ids]


def postpone(drafter: Drafter, ids: Ids) -> Deed:
    """This many days later, each."""
    days = drafter.one_of((1, 2, 3, 5, 7, 10))
    if not all(row.due for row in _rows(drafter, ids)):
        raise NoneFitError
    calls = [("set_due", {"task": tid, "date": shift(drafter.board.tasks[tid].due, days)}) for tid in ids]
    return {"days": f"{days} day{'s' * (days > 1)}"}, calls


def undue(drafter: Drafter, ids: Ids) -> Deed:
    """No day."""
    if not all(row.due for row in _rows(drafter, ids)):
        raise NoneFitError
    return {}, [("clear_due", {"task": tid}) for tid in ids]


def priority(drafter: Drafter, ids: Ids) -> Deed:
    """Another priority."""
    there = {row.priority for row in _rows(drafter, ids)}
    priority = drafter.one_of([each for each in (1, 2, 3, 4) if each not in there])
    return {"priority": priority}, [("set_priority", {"task": tid, "priority": priority}) for tid in ids]


def label(drafter: Drafter, ids: Ids) -> Deed:
    """One label more."""
    there = {label for row in _rows(drafter, ids) for label in row.labels}
    label = drafter.one_of([each for each in drafter.board.labels if each not in there])
    return {"label": label}, [("label_task", {"task": tid, "label": label}) for tid in ids]


def unlabel(drafter: Drafter, ids: Ids) -> Deed:
    """One label less."""
    labels = set(drafter.board.labels).intersection(*(row.labels for row in _rows(drafter, ids)))
    label = drafter.one_of(sorted(labels))
    having = sum(label in row.labels and not row.deleted for row in drafter.board.tasks.values())
    if 2 + having - len(ids) < len(ids):  # to delete the label and put it back where it stays would be shorter
        raise NoneFitError
    return {"label": label}, [("unlabel_task", {"task": tid, "label": label}) for tid in ids]


def move(drafter: Drafter, ids: Ids) -> Deed:
    """Another place."""
    there = {(row.project, row.section) for row in _rows(drafter, ids)}
    text, place = _place(drafter)
    to = (place["project"], place.get("section", ""))
    if to in there or (to[1] and _swappable(drafter, ids, to)):
        raise NoneFitError
    return {"place": text}, [("move_task", {"task": tid, **place}) for tid in ids]


def _swappable(drafter: Drafter, ids: Ids, to: tuple[str, str]) -> bool:
    """Whether it would be shorter to delete the empty section `to`, rename that of the tasks and add it again."""
    places = [(row.project, row.section) for row in drafter.board.tasks.values() if not row.deleted]
    origin = {(row.project, row.section) for row in _rows(drafter, ids)}
    if to in places or len(origin) > 1:
        return False
    here = origin.pop()
    return here[0] == to[0] and here[1] != "" and 3 + places.count(here) - len(ids) < len(ids)


def _place(drafter: Drafter) -> tuple[str, dict[str, str]]:
    project = drafter.project()
    section = drafter.rng.choice(("", *drafter.board.sections[project]))
    if not section:
        return f"the project {project}", {"project": project}
    return f"the section {section} of {project}", {"project": project, "section": section}


def delete(drafter: Drafter, ids: Ids) -> Deed:
    """Into the trash."""
    return {}, [("delete_task", {"task": tid}) for tid in ids]


def comment(drafter: Drafter, ids: Ids) -> Deed:
    """One comment more."""
    text = drafter.rng.choice(drafter.fill["text"])
    return {"text": text}, [("add_comment", {"task": tid, "text": text}) for tid in ids]


def uncomment(drafter: Drafter, ids: Ids) -> Deed:
    """One comment less."""
    comments = drafter.board.tasks[ids[0]].comments
    text = drafter.one_of(comments)
    return {"text": text}, [("delete_comment", {"task": ids[0], "number": comments.index(text) + 1})]


def rename(drafter: Drafter, ids: Ids) -> Deed:
    """Another title."""
    row = drafter.board.tasks[ids[0]]
    title = _new_title(drafter, row.project if row.project != INBOX else drafter.project())
    return {"title": title}, [("rename_task", {"task": ids[0], "title": title})]


def _new_title(drafter: Drafter, theme: str) -> str:
    return draw_title(drafter.rng, theme, drafter.split, {row.title for row in drafter.board.tasks.values()})


def repeat(drafter: Drafter, ids: Ids) -> Deed:
    """Come back."""
    every = drafter.one_of([each for each in EVERY if each != drafter.board.tasks[ids[0]].every])
    return {"every": every}, [("set_repeat", {"task": ids[0], "every": every})]


def stop(drafter: Drafter, ids: Ids) -> Deed:
    """Come back no more."""
    return {}, [("stop_repeat", {"task": tid}) for tid in ids]


def restore(drafter: Drafter, ids: Ids) -> Deed:
    """Out of the trash."""
    return {}, [("restore_task", {"task": ids[0]})]


def reopen(drafter: Drafter, ids: Ids) -> Deed:
    """Not done after all."""
    return {}, [("reopen_task", {"task": ids[0]})]


CHANGES: Mapping[str, Callable[[Drafter, Ids], Deed]] = {
    "complete": complete, "due": due, "postpone": postpone, "undue": undue, "priority": priority, "label": label,
    "unlabel": unlabel, "move": move, "delete": delete, "comment": comment, "uncomment": uncomment, "rename": rename,
    "repeat": repeat, "stop": stop, "restore": restore, "reopen": reopen,
}  # fmt: skip
OF_SEVERAL = ("complete", "due", "postpone", "undue", "priority", "label", "unlabel", "move", "delete", "comment")


# ---- the board ------------------------------------------------------------------------------------------------------


def add(drafter: Drafter) -> Part:
    """A new task with some details."""
    text, place = _place(drafter)
    title = _new_title(drafter, place["project"])
    details: list[str] = []
    given: dict[str, Any] = {"title": title, **place}
    if drafter.rng.below(2):
        given["due"] = shift(drafter.today, drafter.rng.below(15))
        details.append(f"due {given['due']}")
    if drafter.rng.below(2):
        given["priority"] = 1 + drafter.rng.below(3)
        details.append(f"priority {given['priority']}")
    if drafter.rng.below(2):
        given["labels"] = [drafter.rng.choice(drafter.board.labels)]
        details.append(f"label {given['labels'][0]}")
    said = "".join(f", {each}" for each in details)
    return Part("add", drafter.sentence("add", title=title, place=text, details=said), (), (("add_task", given),))


def new_project(drafter: Drafter, pick: Pick) -> Part:
    """A project with two sections, and tasks that go there."""
    name = drafter.rng.choice(drafter.fill["project"])
    first, second = drafter.rng.sample(drafter.fill["section"], 2)
    at = drafter.rng.choice((first, second))
    calls: list[Call] = [("add_project", {"project": name})]
    calls += [("add_section", {"project": name, "section": each}) for each in (first, second)]
    calls += [("move_task", {"task": tid, "project": name, "section": at}) for tid in pick.ids]
    fields = {"project": name, "sections": f"{first} and {second}", "section": at, "what": pick.what}
    return Part("project", drafter.sentence("project", **fields), pick.reads, tuple(calls), ids=pick.ids)


def rename_name(drafter: Drafter) -> Part:
    """Another name for a project, a section or a label that some task has."""
    what = drafter.rng.choice(("project", "section", "label"))
    row: Row = drafter.one_of([row for row in drafter.board.tasks.values() if row.section and row.labels and row.open])
    old = {"project": row.project, "section": row.section, "label": row.labels[0]}[what]
    taken = (*drafter.board.labels, *drafter.board.sections[row.project])
    new = drafter.one_of([each for each in drafter.fill[what] if each not in taken])
    text = drafter.sentence(f"rename {what}", old=old, new=new, project=row.project)
    where = {"project": row.project} if what == "section" else {}
    return Part(f"rename {what}", text, (), ((f"rename_{what}", {**where, what: old, "name": new}),))


def archive(drafter: Drafter) -> Part:
    """A project out of the lists."""
    name = drafter.project()
    text = drafter.sentence("archive", project=name)
    return Part("archive", text, (), (("archive_project", {"project": name}),))


def empty_section(drafter: Drafter) -> Part:
    """A section away, and its tasks to another place."""
    project = drafter.project()
    section = drafter.rng.choice(drafter.board.sections[project])
    text, place = _place(drafter)
    rows = drafter.board.tasks.items()
    inside = [tid for tid, row in rows if (row.project, row.section) == (project, section) and not row.deleted]
    if place["project"] == project or not 1 <= len(inside) <= 4:
        raise NoneFitError
    reads: list[Call] = [("list_tasks", {"project": project, "section": section}), ("list_done", {"project": project})]
    calls: list[Call] = [("move_task", {"task": tid, **place}) for tid in inside]
    calls.append(("delete_section", {"project": project, "section": section}))
    said = drafter.sentence("empty section", section=section, project=project, place=text)
    return Part("empty section", said, tuple(reads), tuple(calls), ids=tuple(inside))
