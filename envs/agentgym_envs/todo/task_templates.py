"""Parts of requests: their words, the lookups that they need and the calls that fulfil them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_envs.todo import wording
from agentgym_envs.todo.app import PAGE, App
from agentgym_envs.todo.board import INBOX, Board, shift
from agentgym_envs.todo.reads import open_tasks
from agentgym_envs.todo.seeding import draw_board, draw_today, draw_vocabulary
from agentgym_py.env.wording import expand
from agentgym_py.rng import Rng

Call = tuple[str, dict[str, Any]]
MANY: Mapping[str, tuple[int, int]] = {"easy": (2, 3), "medium": (2, 4), "hard": (3, 6)}
"""Difficulty to the minimum and maximum number of several tasks."""
SIZES: Mapping[str, tuple[int, int]] = {"easy": (3, 12), "medium": (4, 20), "hard": (5, 30)}
"""Difficulty to the numbers of projects and tasks."""

FILTERS = ("overdue", "overdue", "today", "nodate", "label", "priority", "section", "days", "anywhere label",
           "anywhere overdue", "anywhere repeat")  # fmt: skip
"""The filters by a common property; one that is listed twice is twice as frequent."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """The hidden part of a task."""

    today: str
    start: Board
    goal: Board
    reads: tuple[Call, ...]
    """Calls that show everything on which the request depends."""
    notes: tuple[str, ...]
    """A thought of the fair expert for each of `reads`; without reads, one before the first call. Some are empty."""
    answer: str
    """Empty if the request asks nothing."""
    ids: tuple[str, ...]
    """The tasks that the request means, which `reads` show."""


@dataclass(frozen=True, slots=True)
class Pick:
    """A phrase and the tasks that it means."""

    what: str
    ids: tuple[str, ...]
    reads: tuple[Call, ...]
    rule: str
    """Which tasks these are, in the terms of the tools."""

    def notes(self, aim: str) -> tuple[str, ...]:
        """Return what the fair expert thinks before each of `reads`, when `aim` is asked for."""
        return (f"Asked: {aim}. Which: {self.rule}.", *("",) * (len(self.reads) - 1))


@dataclass(frozen=True, slots=True)
class Part:
    """A sentence of a request."""

    kind: str
    text: str
    reads: tuple[Call, ...]
    calls: tuple[Call, ...] = ()
    answer: str = ""
    ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """See `Puzzle.notes`."""


class NoFitError(Exception):
    """The draw does not fit the board; another one may."""


class Drafter:
    """Draws parts of requests on one board."""

    def __init__(self, rng: Rng, split: str, difficulty: str) -> None:
        self.rng, self.split = rng, split
        self.today = draw_today(rng, split)
        vocabulary = draw_vocabulary(rng, split)
        self.board = draw_board(rng, split, vocabulary, self.today, *SIZES[difficulty])
        self.app = App(self.board, self.today)
        new_projects = tuple(name for name in vocabulary["project"] if name not in self.board.projects)
        self.vocabulary = {**vocabulary, "project": new_projects}
        self.many = MANY[difficulty]

    def say(self, wordings: Mapping[str, tuple[str, ...]], **fields: object) -> str:
        """Draw one of the split's wordings and fill it in."""
        texts = wordings[self.split]
        return expand(self.rng, texts[0] if len(texts) == 1 else self.rng.choice(texts)).format(**fields)

    def sentence(self, wordings: Mapping[str, tuple[str, ...]], **fields: object) -> str:
        """Draw a sentence, with a capital at its beginning."""
        text = self.say(wordings, **fields)
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
        read: Call = ("list_trash", {}) if deleted else ("search_tasks", {"text": title})
        return Pick(self.say(wording.TITLE, title=title), (tid,), (read,), f'"{title}"')

    def by_filter(self, low: int, high: int, name: str = "") -> Pick:
        """Draw several tasks, by a common property; `name` is one of `FILTERS`, by default any."""
        name = name or self.rng.choice(FILTERS)
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
        rule = ", ".join(f"{argument} {value}" for argument, value in (where | filters).items())
        return Pick(self.say(wording.WHAT[name], **fields), ids, (("list_tasks", where | filters),), rule)

    def _repeating(self, low: int, high: int) -> Pick:
        rows = open_tasks(self.app)
        ids = tuple(tid for tid, row in rows if row.every)
        _require_size(ids, low, high)
        pages = range(1, -(-len(rows) // PAGE) + 1)
        reads = tuple(("list_tasks", {"page": number}) for number in pages)
        return Pick(self.say(wording.WHAT["anywhere repeat"]), ids, reads, "repeating, in any project")

    def _days(self, project: str, low: int, high: int) -> Pick:
        start = shift(self.today, self.rng.below(5))
        end = shift(start, 3 + self.rng.below(6))
        rows = open_tasks(self.app, project)
        ids = tuple(tid for tid, row in rows if row.due and start <= row.due <= end)
        _require_size(ids, low, high)
        what = self.say(wording.WHAT["days"], project=project, start=start, end=end)
        reads: tuple[Call, ...] = (("list_due", {"start": start, "end": end, "project": project}),)
        return Pick(what, ids, reads, f"project {project}, due {start} to {end}")

    def by_filter_except(self, low: int, high: int) -> Pick:
        """Draw several tasks except those with a label that some of them have."""
        pick = self.by_filter(low + 1, high + 2)
        rows = self.board.tasks
        labels = {label for tid in pick.ids for label in rows[tid].labels}
        label = self.one_of(sorted(labels))
        ids = tuple(tid for tid in pick.ids if label not in rows[tid].labels)
        _require_size(ids, low, high)
        what = self.say(wording.EXCEPT, what=pick.what, label=label)
        return Pick(what, ids, pick.reads, f"{pick.rule}, not label {label}")

    def by_search(self) -> Pick:
        """Draw one task that must be searched."""
        project = self.project()
        rows = open_tasks(self.app, project)
        listing: Call = ("list_tasks", {"project": project})
        if self.rng.below(2):
            dates = sorted((row.due, tid) for tid, row in rows if row.due)
            if len(dates) < 3 or dates[0][0] == dates[1][0]:
                raise NoFitError
            what = self.say(wording.WHAT["earliest"], project=project)
            return Pick(what, (dates[0][1],), (listing,), f"project {project}, earliest due date")
        commented = [tid for tid, row in rows if row.comments]
        tid = self.one_of(commented)
        text = self.one_of(self.board.tasks[tid].comments)
        if sum(text in self.board.tasks[other].comments for other in commented) > 1:
            raise NoFitError
        looks = tuple(("show_task", {"task": other}) for other in commented[: commented.index(tid) + 1])
        what = self.say(wording.WHAT["commented"], project=project, text=text)
        return Pick(what, (tid,), (listing, *looks), f'project {project}, comment "{text}"')


def _require_size(ids: tuple[str, ...], low: int, high: int) -> None:
    if not low <= len(ids) <= high:
        raise NoFitError
