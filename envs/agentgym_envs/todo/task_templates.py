"""Requests: drawn as words, as what must be looked up for them, and as calls that fulfil them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym_envs.todo import wording
from agentgym_envs.todo.app import PAGE, App
from agentgym_envs.todo.board import INBOX, Board, shift
from agentgym_envs.todo.reads import matching
from agentgym_envs.todo.seeding import draw_board, draw_today
from agentgym_envs.todo.words import FILL
from agentgym_py.rng import Rng

Call = tuple[str, dict[str, Any]]
MANY: Mapping[str, tuple[int, int]] = {"easy": (2, 3), "medium": (2, 4), "hard": (3, 6)}
"""How many tasks several are, by difficulty."""
SIZES: Mapping[str, tuple[int, int]] = {"easy": (3, 12), "medium": (4, 20), "hard": (5, 30)}
"""Projects and tasks by difficulty."""


@dataclass(frozen=True, slots=True)
class Errand:
    """What only the world knows of a task."""

    today: str
    start: Board
    goal: Board
    reads: tuple[Call, ...]
    """Calls that show all that the request depends on."""
    answer: str
    """Empty where none is asked for."""


@dataclass(frozen=True, slots=True)
class Pick:
    """Tasks that a phrase means."""

    what: str
    ids: tuple[str, ...]
    reads: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One sentence of a request."""

    kind: str
    text: str
    reads: tuple[Call, ...]
    calls: tuple[Call, ...] = ()
    answer: str = ""
    again: Callable[[App], tuple[str, ...]] | None = field(default=None, compare=False)
    """Finds the tasks that the sentence means on another board."""
    ids: tuple[str, ...] = ()


class NoneFitError(Exception):
    """What was drawn does not fit the board; another draw may."""


class Drafter:
    """Draws parts of requests on one board."""

    def __init__(self, rng: Rng, split: str, difficulty: str) -> None:
        self.rng, self.split, self.fill = rng, split, FILL[split]
        self.today = draw_today(rng)
        self.app = App(draw_board(rng, split, self.today, *SIZES[difficulty]), self.today)
        self.board = self.app.board
        self.many = MANY[difficulty]

    def say(self, wordings: Mapping[str, tuple[str, ...]], **fields: object) -> str:
        """One of the split's wordings, filled in."""
        return self.rng.choice(wordings[self.split]).format(**fields)

    def sentence(self, kind: str, **fields: object) -> str:
        """What is to be done, in words."""
        text = self.say(wording.DO[kind], **fields)
        return text[0].upper() + text[1:]

    def project(self) -> str:
        """A project with open tasks, not the inbox."""
        return self.rng.choice([name for name in self.board.projects if name != INBOX])

    def one_of(self, items: Sequence[Any]) -> Any:
        """One of the items; NoneFitError where there is none."""
        if not items:
            raise NoneFitError
        return self.rng.choice(items)

    # ---- which tasks ------------------------------------------------------------------------------------------------

    def named(self, *, done: bool = False, deleted: bool = False, having: str = "") -> Pick:
        """One task by its title; `having` names a field that must not be empty."""
        tasks = self.board.tasks.items()
        state = (done, deleted)
        fit = [tid for tid, row in tasks if (row.done, row.deleted) == state and (not having or getattr(row, having))]
        tid = self.one_of(fit)
        title = self.board.tasks[tid].title
        return Pick(f'"{title}"', (tid,), (("list_trash", {}) if deleted else ("search_tasks", {"text": title}),))

    def several(self, low: int, high: int) -> Pick:
        """A number of tasks, by what they have in common."""
        name = self.rng.choice(("overdue", "overdue", "today", "nodate", "label", "priority", "section", "days",
                                "anywhere label", "anywhere overdue", "anywhere repeat"))  # fmt: skip
        fields: dict[str, Any] = {} if name.startswith("anywhere") else {"project": self.project()}
        kind = name.removeprefix("anywhere ")
        if kind == "repeat":
            return self._repeating(low, high)
        if kind in ("overdue", "today", "nodate"):
            given: dict[str, Any] = {"due": {"overdue": "overdue", "today": self.today, "nodate": "none"}[kind]}
        elif kind == "label":
            fields["label"] = self.rng.choice(self.board.labels)
            given = {"label": fields["label"]}
        elif kind == "priority":
            fields["priority"] = 1 + self.rng.below(3)
            given = {"priority": fields["priority"]}
        elif kind == "section":
            fields["section"] = self.rng.choice(self.board.sections[fields["project"]])
            given = {"section": fields["section"]}
        else:
            return self._days(fields["project"], low, high)
        where: dict[str, Any] = {"project": fields["project"]} if "project" in fields else {}
        found = tuple(tid for tid, _ in matching(self.app, **where, **given))
        if not low <= len(found) <= min(high, PAGE):
            raise NoneFitError
        return Pick(self.say(wording.WHAT[name], **fields), found, (("list_tasks", where | given),))

    def _repeating(self, low: int, high: int) -> Pick:
        rows = matching(self.app)
        found = tuple(tid for tid, row in rows if row.every)
        if not low <= len(found) <= high:
            raise NoneFitError
        pages = range(1, -(-len(rows) // PAGE) + 1)
        return Pick(self.say(wording.WHAT["anywhere repeat"]), found, tuple(("list_tasks", {"page": n}) for n in pages))

    def _days(self, project: str, low: int, high: int) -> Pick:
        start = shift(self.today, self.rng.below(5))
        end = shift(start, 3 + self.rng.below(6))
        rows = matching(self.app, project)
        found = tuple(tid for tid, row in rows if row.due and start <= row.due <= end)
        if not low <= len(found) <= high:
            raise NoneFitError
        what = self.say(wording.WHAT["days"], project=project, start=start, end=end)
        return Pick(what, found, (("list_due", {"start": start, "end": end, "project": project}),))

    def excepted(self, low: int, high: int) -> Pick:
        """Several tasks except those with a label that some, not all of them have."""
        pick = self.several(low + 1, high + 2)
        rows = self.board.tasks
        labels = {label for tid in pick.ids for label in rows[tid].labels}
        label = self.one_of(sorted(labels))
        left = tuple(tid for tid in pick.ids if label not in rows[tid].labels)
        if not low <= len(left) <= high:
            raise NoneFitError
        return Pick(self.say(wording.EXCEPT, what=pick.what, label=label), left, pick.reads)

    def found_one(self) -> Pick:
        """One task that must be looked for."""
        project = self.project()
        rows = matching(self.app, project)
        listing: Call = ("list_tasks", {"project": project})
        if self.rng.below(2):
            dates = sorted((row.due, tid) for tid, row in rows if row.due)
            if len(dates) < 3 or dates[0][0] == dates[1][0]:
                raise NoneFitError
            return Pick(self.say(wording.WHAT["earliest"], project=project), (dates[0][1],), (listing,))
        noted = [tid for tid, row in rows if row.comments]
        tid = self.one_of(noted)
        text = self.one_of(self.board.tasks[tid].comments)
        if sum(text in self.board.tasks[each].comments for each in noted) > 1:
            raise NoneFitError
        shown = tuple(("show_task", {"task": each}) for each in noted[: noted.index(tid) + 1])
        return Pick(self.say(wording.WHAT["commented"], project=project, text=text), (tid,), (listing, *shown))
