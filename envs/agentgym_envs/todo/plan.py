"""The expert: the calls that turn any board into the goal."""

from __future__ import annotations

import json
import re
from calendar import monthrange
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import date
from functools import lru_cache
from typing import Any, TypeVar

from agentgym_envs.todo.app import App
from agentgym_envs.todo.board import INBOX, Board, Row, equivalent, next_due, shift
from agentgym_envs.todo.tools import call

T = TypeVar("T")
_ODD = re.compile(r"[<{}\[\]]|ction|CTION")
_TASK = re.compile(r'^Action Input: \{"task": "(t[0-9]+)"')
_DUE = re.compile(r'set_due\nAction Input: \{"task": "(t[0-9]+)", "date": "([0-9-]+)"\}')
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<{}[]:"}


def format_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Write a call as an action, with the arguments on a second line, escaped so that any text parses back."""
    if not arguments:
        return name
    values = ", ".join(f'"{key}": {_format_value(value)}' for key, value in arguments.items())
    return f"{name}\nAction Input: {{{values}}}"


def _format_value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_format_value, value))}]"
    return _quoted(value) if type(value) is str else json.dumps(value)


@lru_cache(maxsize=2_000)
def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted.translate(_ESCAPES) if _ODD.search(quoted) else quoted


def plan(board: Board, goal: Board, start: Board, today: str) -> list[str]:
    """List the calls that turn `board` into `goal`; both derive from `start`."""
    planner = _Planner(App(board.copy(), today), goal, start)
    planner.run()
    return planner.calls


def describe(calls: Sequence[str], board: Board, start: Board, answer: str, delays: Set[int]) -> str:
    """Describe the rest of a plan as a thought: the days before and after a new due day, and the calls left.

    A day that is put off is counted from the one on the board at the start; `delays` are the days asked for.
    """
    first, *others = calls
    if not others:
        return f"Answer: {answer}." if answer else "All is done."
    left: dict[str, list[str]] = {}
    for text in calls[:-1]:
        name, _, arguments = text.partition("\n")
        left.setdefault(name, []).extend(_TASK.findall(arguments))
    rest = "; ".join(f"{name} {', '.join(ids)}".strip() for name, ids in left.items())
    change = ""
    if match := _DUE.fullmatch(first):
        tid, new = match.groups()
        old = board.tasks[tid].due
        put_off = old and tid in start.tasks and old == start.tasks[tid].due and new in {shift(old, n) for n in delays}
        written = f", {write_sum_of_days(old, new)}" if put_off else ""
        change = f"{tid} due: {old or 'none'}{written} -> {new}. "
    return f"{change}Left: {rest}."


def write_sum_of_days(old: str, new: str) -> str:
    """Write out a day plus the days until one in the same or the next month: `26 + 7 = 33, 33 - 31 = 2`."""
    first, last = date.fromisoformat(old), date.fromisoformat(new)
    total, length = first.day + (last - first).days, monthrange(first.year, first.month)[1]
    over = f", {total} - {length} = {total - length}" if total > length else ""
    return f"{first.day} + {(last - first).days} = {total}{over}"


class _Planner:
    """Plans by making each call on a copy of the board."""

    def __init__(self, app: App, goal: Board, start: Board) -> None:
        self.app, self.goal, self.start = app, goal, start
        self.calls: list[str] = []

    def do(self, name: str, /, **arguments: Any) -> None:
        call(self.app, name, arguments)
        self.calls.append(format_call(name, arguments))

    def run(self) -> None:
        """Add the names that tasks need, repair the tasks, then remove the names that no task needs."""
        self.need_projects()
        self.need_labels()
        self.need_sections()
        for tid in self.start.tasks:
            if self.app.board.tasks[tid] is not self.goal.tasks[tid]:
                self.repair(tid, self.goal.tasks[tid])
        self.new_tasks()
        self.tidy()

    # ---- names ----------------------------------------------------------------------------------------------------

    def need_projects(self) -> None:
        board = self.app.board
        for name in [project for project in self.goal.projects if project not in board.projects]:
            old = self.old_name(name, board.projects.keys() - self.goal.projects, lambda row: (row.project,))
            if old:
                self.do("rename_project", project=old, name=name)
            else:
                self.do("add_project", project=name)

    def need_labels(self) -> None:
        for name in [label for label in self.goal.labels if label not in self.app.board.labels]:
            old = self.old_name(name, {*self.app.board.labels} - {*self.goal.labels}, lambda row: row.labels)
            if old:
                self.do("rename_label", label=old, name=name)
            else:
                self.do("add_label", label=name)

    def need_sections(self) -> None:
        sections = self.app.board.sections
        for project, names in self.goal.sections.items():
            for name in [section for section in names if section not in sections[project]]:
                unwanted = {(project, section) for section in sections[project] if section not in names}
                old = self.old_name((project, name), unwanted, lambda row: ((row.project, row.section),))
                if old:
                    self.do("rename_section", project=project, section=old[1], name=name)
                else:
                    self.do("add_section", project=project, section=name)

    def old_name(self, name: T, unwanted: Set[T], names: Callable[[Row], tuple[T, ...]]) -> T | None:
        """Return the unwanted name that most tasks with the goal `name` have now."""
        tasks = [
            tid for tid in self.start.tasks if name in names(self.goal.tasks[tid]) and not self.goal.tasks[tid].deleted
        ]
        votes = Counter(old for tid in tasks for old in names(self.app.board.tasks[tid]) if old in unwanted)
        return votes.most_common(1)[0][0] if votes else None

    # ---- tasks ----------------------------------------------------------------------------------------------------

    def repair(self, tid: str, target: Row) -> None:
        """Turn a task into its target."""
        row = self.app.board.tasks[tid]
        if equivalent(row, target):
            return
        if target.deleted:
            self.do("delete_task", task=tid)
            return
        if row.deleted:
            self.do("restore_task", task=tid)
        self.repair_text(tid, target)
        self.repair_labels(tid, target)
        self.repair_state(tid, target)

    def repair_text(self, tid: str, target: Row) -> None:
        row = self.app.board.tasks[tid]
        if row.title != target.title:
            self.do("rename_task", task=tid, title=target.title)
        if (row.project, row.section) != (target.project, target.section):
            section = {"section": target.section} if target.section else {}
            self.do("move_task", task=tid, project=target.project, **section)
        if row.priority != target.priority:
            self.do("set_priority", task=tid, priority=target.priority)

    def repair_labels(self, tid: str, target: Row) -> None:
        row = self.app.board.tasks[tid]
        for label in row.labels:
            if label not in target.labels:
                self.do("unlabel_task", task=tid, label=label)
        for label in target.labels:
            if label not in row.labels:
                self.do("label_task", task=tid, label=label)
        excess = Counter(row.comments) - Counter(target.comments)
        for number in range(len(row.comments), 0, -1):
            if excess[row.comments[number - 1]] > 0:
                excess[row.comments[number - 1]] -= 1
                self.do("delete_comment", task=tid, number=number)
        for text in (Counter(target.comments) - Counter(row.comments)).elements():
            self.do("add_comment", task=tid, text=text)

    def repair_state(self, tid: str, target: Row) -> None:
        """Repair state, repetition and due day; completing a repeating task changes its day."""
        row = self.app.board.tasks[tid]
        if row.done and not target.done:
            self.do("reopen_task", task=tid)
        elif target.done and not row.done:
            if row.every:
                self.do("stop_repeat", task=tid)
            self.do("complete_task", task=tid)
        elif self.recurs_to(row, target):
            self.do("complete_task", task=tid)
        row = self.app.board.tasks[tid]
        if row.every != target.every:
            self.do("set_repeat", task=tid, every=target.every) if target.every else self.do("stop_repeat", task=tid)
        if row.due != target.due:
            self.do("set_due", task=tid, date=target.due) if target.due else self.do("clear_due", task=tid)

    def recurs_to(self, row: Row, target: Row) -> bool:
        """Tell whether completing a repeating task sets its target due day."""
        if not row.every or row.done or row.every != target.every or row.due == target.due:
            return False
        return next_due(row.due, row.every, self.app.today) == target.due

    def new_tasks(self) -> None:
        """Repair the tasks that are not in `start`: match by title, delete the others, add the missing ones."""
        board = self.app.board
        extra = {tid: row for tid, row in board.tasks.items() if tid not in self.start.tasks and not row.deleted}
        targets = [row for tid, row in self.goal.tasks.items() if tid not in self.start.tasks and not row.deleted]
        for match in (equivalent, lambda row, target: row.title == target.title):
            for tid, row in list(extra.items()):
                best = next((target for target in targets if match(row, target)), None)
                if best is not None:
                    targets.remove(best)
                    del extra[tid]
                    self.repair(tid, best)
        for tid in extra:
            self.do("delete_task", task=tid)
        for target in targets:
            self.add(target)

    def add(self, target: Row) -> None:
        arguments: dict[str, Any] = {"title": target.title}
        if target.project != INBOX:
            arguments["project"] = target.project
        for name in ("section", "due", "every"):
            if getattr(target, name):
                arguments[name] = getattr(target, name)
        if target.priority < 4:
            arguments["priority"] = target.priority
        if target.labels:
            arguments["labels"] = list(target.labels)
        tid = self.app.board.next_id()
        self.do("add_task", **arguments)
        self.repair(tid, target)

    def tidy(self) -> None:
        """Delete unwanted names and set the archived projects."""
        board = self.app.board
        for project in [project for project in board.projects if project not in self.goal.projects]:
            self.do("delete_project", project=project)
        for project, names in list(board.sections.items()):
            for section in names:
                if section not in self.goal.sections[project]:
                    self.do("delete_section", project=project, section=section)
        for label in [label for label in board.labels if label not in self.goal.labels]:
            self.do("delete_label", label=label)
        for project, archived in self.goal.projects.items():
            if board.projects[project] != archived:
                self.do("archive_project" if archived else "unarchive_project", project=project)
