"""Parts of requests: their words, the lookups that they need and the calls that fulfil them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_envs.todo import wording
from agentgym_envs.todo.app import PAGE, App
from agentgym_envs.todo.board import INBOX, Board, shift
from agentgym_envs.todo.reads import open_tasks
from agentgym_envs.todo.seeding import draw_board, draw_today
from agentgym_envs.todo.words import FILL
from agentgym_py.rng import Rng

Call = tuple[str, dict[str, Any]]
MANY: Mapping[str, tuple[int, int]] = {"easy": (2, 3), "medium": (2, 4), "hard": (3, 6)}
"""Difficulty to the minimum and maximum number of several tasks."""
SIZES: Mapping[str, tuple[int, int]] = {"easy": (3, 12), "medium": (4, 20), "hard": (5, 30)}
"""Difficulty to the numbers of projects and tasks."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """The hidden part of a task."""

    today: str
    start: Board
    goal: Board
    reads: tuple[Call, ...]
    """Calls that show everything on which the request depends."""
    answer: str
    """Empty if the request asks nothing."""


@dataclass(frozen=True, slots=True)
class Pick:
    """A phrase and the tasks that it means."""

    what: str
    ids: tuple[str, ...]
    reads: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A sentence of a request."""

    kind: str
    text: str
    reads: tuple[Call, ...]
    calls: tuple[Call, ...] = ()
    answer: str = ""
    ids: tuple[str, ...] = ()


class NoFitError(Exception):
    """The draw does not fit the board; another one may."""


class Drafter:
    """Draws parts of requests on one board."""

    def __init__(self, rng: Rng, split: str, difficulty: str) -> None:
        self.rng, self.split, self.vocabulary = rng, split, FILL[split]
        self.today = draw_today(rng)
        self.app = App(draw_board(rng, split, self.today, *SIZES[difficulty]), self.today)
        self.board = self.app.board
        self.many = MANY[difficulty]

    def say(self, wordings: Mapping[str, tuple[str, ...]], **fields: object) -> str:
        """Draw one of the split's wordings and fill it in."""
        return self.rng.choice(wordings[self.split]).format(**fields)

    def sentence(self, kind: str, **fields: object) -> str:
        """Draw a sentence for a change."""
        text = self.say(wording.DO[kind], **fields)
        return text[0].upper() + text[1:]

    def project(self) -> str:
        """Draw a project other than the inbox."""
        return self.rng.choice([name for name in self.board.projects if name != INBOX])

    def one_of(self, items: Sequence[Any]) -> Any:
        """Draw one of the items; NoFitError if there is none."""
        if not items:
            raise NoFitError
        return self.rng.choice(items)

    # ---- picks of tasks ---------------------------------------------------------------------------------------------

    def by_title(self, *, done: bool = False, deleted: bool = False, having: str = "") -> Pick:
        """Draw one task, by its title; `having` is a field that must not be empty."""
        tasks = self.board.tasks.items()
        state = (done, deleted)
        fit = [tid for tid, row in tasks if (row.done, row.deleted) == state and (not having or getattr(row, having))]
        tid = self.one_of(fit)
        title = self.board.tasks[tid].title
        return Pick(f'"{title}"', (tid,), (("list_trash", {}) if deleted else ("search_tasks", {"text": title}),))

    def by_filter(self, low: int, high: int) -> Pick:
        """Draw several tasks, by a common property."""
        name = self.rng.choice(("overdue", "overdue", "today", "nodate", "label", "priority", "section", "days",
                                "anywhere label", "anywhere overdue", "anywhere repeat"))  # fmt: skip
        fields: dict[str, Any] = {} if name.startswith("anywhere") else {"project": self.project()}
        kind = name.removeprefix("anywhere ")
        if kind == "repeat":
            return self._repeating(low, high)
        if kind in ("overdue", "today", "nodate"):
            filters: dict[str, Any] = {"due": {"overdue": "overdue", "today": self.today, "nodate": "none"}[kind]}
        elif kind == "label":
            fields["label"] = self.rng.choice(self.board.labels)
            filters = {"label": fields["label"]}
        elif kind == "priority":
            fields["priority"] = 1 + self.rng.below(3)
            filters = {"priority": fields["priority"]}
        elif kind == "section":
            fields["section"] = self.rng.choice(self.board.sections[fields["project"]])
            filters = {"section": fields["section"]}
        else:
            return self._days(fields["project"], low, high)
        where: dict[str, Any] = {"project": fields["project"]} if "project" in fields else {}
        ids = tuple(tid for tid, _ in open_tasks(self.app, **where, **filters))
        _require_size(ids, low, min(high, PAGE))
        return Pick(self.say(wording.WHAT[name], **fields), ids, (("list_tasks", where | filters),))

    def _repeating(self, low: int, high: int) -> Pick:
        rows = open_tasks(self.app)
        ids = tuple(tid for tid, row in rows if row.every)
        _require_size(ids, low, high)
        pages = range(1, -(-len(rows) // PAGE) + 1)
        return Pick(self.say(wording.WHAT["anywhere repeat"]), ids, tuple(("list_tasks", {"page": n}) for n in pages))

    def _days(self, project: str, low: int, high: int) -> Pick:
        start = shift(self.today, self.rng.below(5))
        end = shift(start, 3 + self.rng.below(6))
        rows = open_tasks(self.app, project)
        ids = tuple(tid for tid, row in rows if row.due and start <= row.due <= end)
        _require_size(ids, low, high)
        what = self.say(wording.WHAT["days"], project=project, start=start, end=end)
        return Pick(what, ids, (("list_due", {"start": start, "end": end, "project": project}),))

    def by_filter_except(self, low: int, high: int) -> Pick:
        """Draw several tasks except those with a label that some of them have."""
        pick = self.by_filter(low + 1, high + 2)
        rows = self.board.tasks
        labels = {label for tid in pick.ids for label in rows[tid].labels}
        label = self.one_of(sorted(labels))
        ids = tuple(tid for tid in pick.ids if label not in rows[tid].labels)
        _require_size(ids, low, high)
        return Pick(self.say(wording.EXCEPT, what=pick.what, label=label), ids, pick.reads)

    def by_search(self) -> Pick:
        """Draw one task that must be searched."""
        project = self.project()
        rows = open_tasks(self.app, project)
        listing: Call = ("list_tasks", {"project": project})
        if self.rng.below(2):
            dates = sorted((row.due, tid) for tid, row in rows if row.due)
            if len(dates) < 3 or dates[0][0] == dates[1][0]:
                raise NoFitError
            return Pick(self.say(wording.WHAT["earliest"], project=project), (dates[0][1],), (listing,))
        commented = [tid for tid, row in rows if row.comments]
        tid = self.one_of(commented)
        text = self.one_of(self.board.tasks[tid].comments)
        if sum(text in self.board.tasks[other].comments for other in commented) > 1:
            raise NoFitError
        looks = tuple(("show_task", {"task": other}) for other in commented[: commented.index(tid) + 1])
        return Pick(self.say(wording.WHAT["commented"], project=project, text=text), (tid,), (listing, *looks))


def _require_size(ids: tuple[str, ...], low: int, high: int) -> None:
    if not low <= len(ids) <= high:
        raise NoFitError
