"""The expert: what is still to be called, from any board, until the board is as it should be."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Set
from functools import lru_cache
from typing import Any, TypeVar

from agentgym_envs.todo.app import App
from agentgym_envs.todo.board import INBOX, Board, Row, alike, next_due
from agentgym_envs.todo.tools import call

T = TypeVar("T")
_ODD = re.compile(r"[<{}\[\]]|ction|CTION")
_ESCAPES = {ord(each): f"\\u{ord(each):04x}" for each in "<{}[]:"}


def written(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as an action, its arguments on a second line; it reads the same whatever stands in its texts."""
    if not arguments:
        return name
    values = ", ".join(f'"{key}": {_written(value)}' for key, value in arguments.items())
    return f"{name}\nAction Input: {{{values}}}"


def _written(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    return _quoted(value) if type(value) is str else json.dumps(value)


@lru_cache(maxsize=10_000)
def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted.translate(_ESCAPES) if _ODD.search(quoted) else quoted


def plan(board: Board, goal: Board, start: Board, today: str) -> list[str]:
    """Calls that turn `board` into `goal`, which grew out of `start`."""
    planner = _Planner(App(board.copy(), today), goal, start)
    planner.run()
    return planner.calls


class _Planner:
    """Does each call on a board of its own before it thinks of the next."""

    def __init__(self, app: App, goal: Board, start: Board) -> None:
        self.app, self.goal, self.start = app, goal, start
        self.calls: list[str] = []

    def do(self, name: str, /, **arguments: Any) -> None:
        call(self.app, name, arguments)
        self.calls.append(written(name, arguments))

    def run(self) -> None:
        """First what tasks need, then the tasks, then what no task needs any more."""
        self.need_projects()
        self.need_labels()
        self.need_sections()
        for tid in self.start.tasks:
            if self.app.board.tasks[tid] is not self.goal.tasks[tid]:
                self.mend(tid, self.goal.tasks[tid])
        self.new_tasks()
        self.tidy()

    # ---- names ----------------------------------------------------------------------------------------------------

    def need_projects(self) -> None:
        board = self.app.board
        for name in [each for each in self.goal.projects if each not in board.projects]:
            old = self.former(name, board.projects.keys() - self.goal.projects, lambda row: (row.project,))
            if old:
                self.do("rename_project", project=old, name=name)
            else:
                self.do("add_project", project=name)

    def need_labels(self) -> None:
        for name in [each for each in self.goal.labels if each not in self.app.board.labels]:
            old = self.former(name, {*self.app.board.labels} - {*self.goal.labels}, lambda row: row.labels)
            if old:
                self.do("rename_label", label=old, name=name)
            else:
                self.do("add_label", label=name)

    def need_sections(self) -> None:
        sections = self.app.board.sections
        for project, names in self.goal.sections.items():
            for name in [each for each in names if each not in sections[project]]:
                gone = {(project, each) for each in sections[project] if each not in names}
                old = self.former((project, name), gone, lambda row: ((row.project, row.section),))
                if old:
                    self.do("rename_section", project=project, section=old[1], name=name)
                else:
                    self.do("add_section", project=project, section=name)

    def former(self, name: T, gone: Set[T], names: Callable[[Row], tuple[T, ...]]) -> T | None:
        """What most of the tasks that should bear `name` bear instead, of the names that nothing should bear."""
        meant = [
            tid for tid in self.start.tasks if name in names(self.goal.tasks[tid]) and not self.goal.tasks[tid].deleted
        ]
        votes = Counter(each for tid in meant for each in names(self.app.board.tasks[tid]) if each in gone)
        return votes.most_common(1)[0][0] if votes else None

    # ---- tasks ----------------------------------------------------------------------------------------------------

    def mend(self, tid: str, want: Row) -> None:
        """Make a task what it should be."""
        row = self.app.board.tasks[tid]
        if alike(row, want):
            return
        if want.deleted:
            self.do("delete_task", task=tid)
            return
        if row.deleted:
            self.do("restore_task", task=tid)
        self.mend_text(tid, want)
        self.mend_labels(tid, want)
        self.mend_state(tid, want)

    def mend_text(self, tid: str, want: Row) -> None:
        row = self.app.board.tasks[tid]
        if row.title != want.title:
            self.do("rename_task", task=tid, title=want.title)
        if (row.project, row.section) != (want.project, want.section):
            section = {"section": want.section} if want.section else {}
            self.do("move_task", task=tid, project=want.project, **section)
        if row.priority != want.priority:
            self.do("set_priority", task=tid, priority=want.priority)

    def mend_labels(self, tid: str, want: Row) -> None:
        row = self.app.board.tasks[tid]
        for label in row.labels:
            if label not in want.labels:
                self.do("unlabel_task", task=tid, label=label)
        for label in want.labels:
            if label not in row.labels:
                self.do("label_task", task=tid, label=label)
        excess = Counter(row.comments) - Counter(want.comments)
        for number in range(len(row.comments), 0, -1):
            if excess[row.comments[number - 1]] > 0:
                excess[row.comments[number - 1]] -= 1
                self.do("delete_comment", task=tid, number=number)
        for text in (Counter(want.comments) - Counter(row.comments)).elements():
            self.do("add_comment", task=tid, text=text)

    def mend_state(self, tid: str, want: Row) -> None:
        """Done or not, and when it comes back; to complete what repeats changes its day."""
        row = self.app.board.tasks[tid]
        if row.done and not want.done:
            self.do("reopen_task", task=tid)
        elif want.done and not row.done:
            if row.every:
                self.do("stop_repeat", task=tid)
            self.do("complete_task", task=tid)
        elif self.came_back(row, want):
            self.do("complete_task", task=tid)
        row = self.app.board.tasks[tid]
        if row.every != want.every:
            self.do("set_repeat", task=tid, every=want.every) if want.every else self.do("stop_repeat", task=tid)
        if row.due != want.due:
            self.do("set_due", task=tid, date=want.due) if want.due else self.do("clear_due", task=tid)

    def came_back(self, row: Row, want: Row) -> bool:
        """Whether to complete a task that repeats makes it due when it should be."""
        if not row.every or row.done or row.every != want.every or row.due == want.due:
            return False
        return next_due(row.due, row.every, self.app.today) == want.due

    def new_tasks(self) -> None:
        """Those that `start` has not: what is there is kept where its title is wanted, and deleted else."""
        board = self.app.board
        there = {tid: row for tid, row in board.tasks.items() if tid not in self.start.tasks and not row.deleted}
        wanted = [row for tid, row in self.goal.tasks.items() if tid not in self.start.tasks and not row.deleted]
        for match in (alike, lambda row, want: row.title == want.title):
            for tid, row in list(there.items()):
                found = next((want for want in wanted if match(row, want)), None)
                if found is not None:
                    wanted.remove(found)
                    del there[tid]
                    self.mend(tid, found)
        for tid in there:
            self.do("delete_task", task=tid)
        for want in wanted:
            self.add(want)

    def add(self, want: Row) -> None:
        arguments: dict[str, Any] = {"title": want.title}
        if want.project != INBOX:
            arguments["project"] = want.project
        for name in ("section", "due", "every"):
            if getattr(want, name):
                arguments[name] = getattr(want, name)
        if want.priority < 4:
            arguments["priority"] = want.priority
        if want.labels:
            arguments["labels"] = list(want.labels)
        tid = self.app.board.next_id()
        self.do("add_task", **arguments)
        self.mend(tid, want)

    def tidy(self) -> None:
        """Take away names that should not be, and archive what should be archived."""
        board = self.app.board
        for project in [each for each in board.projects if each not in self.goal.projects]:
            self.do("delete_project", project=project)
        for project, names in list(board.sections.items()):
            for section in names:
                if section not in self.goal.sections[project]:
                    self.do("delete_section", project=project, section=section)
        for label in [each for each in board.labels if each not in self.goal.labels]:
            self.do("delete_label", label=label)
        for project, archived in self.goal.projects.items():
            if board.projects[project] != archived:
                self.do("archive_project" if archived else "unarchive_project", project=project)
