"""AgentTodo-v0: a to-do application with tools."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from agentgym_envs.todo.app import App
from agentgym_envs.todo.board import (
    Board,
    Content,
    Row,
    board_from_json,
    contents,
    facts,
    same_board,
    shift,
    weekday,
)
from agentgym_envs.todo.plan import describe, format_call, plan
from agentgym_envs.todo.requests import draft
from agentgym_envs.todo.task_templates import Puzzle
from agentgym_envs.todo.tools import TOOLS, call
from agentgym_py.env import Outcome, Reply, Task
from agentgym_py.env.generated import Draft
from agentgym_py.env.tool_env import ToolEnv
from agentgym_py.env.tools import RefusedError, rules_of_tools
from agentgym_py.env.types import TINY_WORLDS_DEFAULTS
from agentgym_py.rng import Rng

_INSTRUCTION = "Do what is asked for in the to-do list, nothing else, then finish."
_TERMS = (
    "Overdue is what is open and due before today. The coming Friday is the first one after today. From one day to "
    "another includes both. What is done or in the trash stays as it is unless the request names it. Where the request "
    "asks something, finish with the bare answer: a number, a date (YYYY-MM-DD), a name, a title, a comment."
)


class TodoEnv(ToolEnv[Puzzle]):
    """AgentTodo-v0: carry out a request in a to-do list.

    Nothing else may change.

    Task: a request such as "Move everything overdue in Work to tomorrow. Tell me how many there were." on a board of
    projects, sections, labels and tasks with priorities, due dates, repetitions and comments, some of them done or in
    the trash. Every task has its own "today". Easy: a change of one named task, a new task, a new name, or a question.
    Medium: a change of all tasks that match a filter, with exceptions or a question for their number; a task that must
    be searched; a new project; a section to empty. Hard: two such parts, or one that depends on a number.

    | difficulty | projects, tasks | several means | limit | expert's steps | random |
    |---|---|---|--:|--:|--:|
    | easy | 3, 12 | | 25 | 1.9 | 0 % |
    | medium | 4, 20 | 2 to 4 | 30 | 3.2 | 0 % |
    | hard | 5, 30 | 3 to 6 | 40 | 5.3 | 0 % |

    Expert's steps and random success are those of docs/results/worlds.md, over 300 test tasks.

    Action: a call of one of the tools in the rules, as `Action: set_due` and `Action Input: {"task": "t7", "date":
    "2026-03-12"}` on two lines, as `set_due {"task": "t7", "date": "2026-03-12"}` or `list_labels()` on one, or as a
    tool call. `actions` lists only calls that need no text.
    Nothing is lost: deleted tasks can be restored, and every change reports the old value.

    Observation: the tool's answer; lists have one line per task. A call that cannot be done changes nothing, and the
    observation says why.

    Reward: 0 before `finish`. Then it is the mean of `changes` (the share of the requested facts that hold) and
    `answer` (1 or 0), if the request has them, divided by 1 + `collateral` (the number of other changed facts).
    `info["success"]` is strict: the answer is right and the board is exactly as requested. An answer may differ in
    case, spaces, quotes and a full stop.

    Costs: `deletions` is 1 at a call that deletes what the request leaves as it is, even if it is restored later.

    End: `finish` terminates; `max_steps` truncates.

    Comparison: boards are compared fact by fact. Only the order of sections, comments and new tasks is free, and the
    fields of a task in the trash do not count. A repeating task is next due on the first of its days after today and
    after its due day.

    Splits: each of train, valid and test has its own wordings, at least two, for every kind of request and filter, and
    its own people, things, cities, labels and comments. Valid and test share the names of existing projects and
    sections. The train split has wordings from grammars and hundreds of names, two of five of them made up.

    Expert: one call for each difference from the goal, then `finish`. From the start of a task this is a shortest
    solution: only labels and sections affect several tasks by one call, and no request can be solved faster by deleting
    and adding or renaming one. From other states the expert also repairs damage. The fair expert first calls the lists
    on which the request depends.

    Args:
        difficulty: easy, medium or hard.
        max_steps: the step at which an episode is truncated; by default 25, 30 or 40.
        split: the split of tasks if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentTodo-v0.
    """

    name: ClassVar[str] = "todo"
    reading_actions: ClassVar[tuple[str, ...]] = ("list_*", "search_*", "show_*")
    max_return: ClassVar[float | None] = 1.0
    costs: ClassVar[Mapping[str, str]] = {
        "deletions": "a task, project, section, label or comment deleted without being asked",
    }
    version: ClassVar[int] = 7
    evolve_defaults: ClassVar[Mapping[str, Any]] = {**TINY_WORLDS_DEFAULTS, "max_new_tokens": 128}
    limits: ClassVar[Mapping[str, int]] = {"easy": 25, "medium": 30, "hard": 40}
    rules: ClassVar[Mapping[str, str]] = rules_of_tools(_INSTRUCTION, _TERMS, TOOLS)

    # ---- the episode ------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[Puzzle]:
        """Draw a board and a request."""
        return draft(rng, split, self.difficulty)

    def begin(self, task: Task) -> str:
        """Observe the day and the request."""
        puzzle = self.puzzle_of(task)
        self._open(puzzle, puzzle.start.copy(), [], over=False)
        return f"Today is {weekday(self._app.today)} {self._app.today}.\n{task.instruction}"

    def _open(self, puzzle: Puzzle, board: Board, reads: list[int], *, over: bool) -> None:
        self._puzzle, self._app, self._reads, self._over = puzzle, App(board, puzzle.today), reads, over
        self._cached_actions: dict[str, tuple[Row, tuple[str, ...]]] = {}
        """Id to a task's row and its actions."""
        self._plan: list[str] | None = None
        """The expert's plan until the next call."""

    def act(self, reply: Reply) -> Outcome:
        """Call a tool."""
        self._plan = None
        arguments = reply.arguments if reply.action_input else {}
        if arguments is None:
            return Outcome('Action Input must be a JSON object, such as {"task": "t7"}.', valid=False)
        before = contents(self._app.board) if reply.action.startswith("delete_") else Counter[Content]()
        try:
            observation = call(self._app, reply.action, arguments)
        except RefusedError as error:
            return Outcome(str(error), valid=False)
        if reply.action == "finish":
            return self._finish(observation, TOOLS["finish"].check(arguments).get("answer", ""))
        self._note(reply.action, arguments)
        return Outcome(observation, costs={"deletions": float(bool(before) and self._has_lost(before))})

    def _has_lost(self, before: Counter[Content]) -> bool:
        """Tell whether something is gone that was there before, and that start and goal have in common."""
        return bool(contents(self._puzzle.start) & contents(self._puzzle.goal) & (before - contents(self._app.board)))

    def _note(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Record which of the needed lookups are done."""
        for number, lookup in enumerate(self._puzzle.reads):
            if (name, arguments) == lookup and number not in self._reads:
                self._reads.append(number)

    def _finish(self, observation: str, answer: str) -> Outcome:
        self._over = True
        puzzle, board = self._puzzle, self._app.board
        parts = {"collateral": 0.0}
        right = not puzzle.answer or normalize(answer) == normalize(puzzle.answer)
        if puzzle.answer:
            parts["answer"] = float(right)
        old, goal, now = (facts(b, puzzle.start) for b in (puzzle.start, puzzle.goal, board))
        requested = {key for key in old.keys() | goal.keys() if old.get(key) != goal.get(key)}
        if requested:
            parts["changes"] = sum(now.get(key) == goal.get(key) for key in requested) / len(requested)
        parts["collateral"] = float(sum(old.get(key) != now.get(key) for key in (old.keys() | now.keys()) - requested))
        success = right and same_board(board, puzzle.goal, puzzle.start)
        shares = [value for name, value in parts.items() if name != "collateral"]
        reward = sum(shares) / len(shares) / (1 + parts["collateral"])
        return Outcome(observation, reward, terminated=True, success=success, parts=parts)

    # ---- actions and the expert -------------------------------------------------------------------------------------

    def actions(self) -> list[str]:
        """List lookups of every list and task, and the changes of every task that need no text."""
        self._require_reset()
        if self._over:
            return []
        actions, cache, tomorrow = list(_LOOKUPS), self._cached_actions, shift(self._app.today, 1)
        for tid, row in self._app.board.tasks.items():
            entry = cache.get(tid)
            if entry is None or entry[0] is not row:
                entry = cache[tid] = (row, _actions_on(tid, row, tomorrow))
            actions += entry[1]
        return actions

    def tools(self) -> list[dict[str, Any]]:
        """Return all tools."""
        return [tool.schema() for tool in TOOLS.values()]

    def expert(self) -> list[str]:
        """Return one call for each difference from the goal, then `finish`; shortest from the start of a task."""
        self._require_reset()
        if self._over:
            return []
        if self._plan is None:
            puzzle = self._puzzle
            arguments = {"answer": puzzle.answer} if puzzle.answer else {}
            calls = plan(self._app.board, puzzle.goal, puzzle.start, puzzle.today)
            self._plan = [*calls, format_call("finish", arguments)]
        return list(self._plan)

    def fair_expert(self) -> str | None:
        """Look up everything on which the request depends, then follow the expert."""
        unread = self._first_unread()
        return super().fair_expert() if unread is None else format_call(*self._puzzle.reads[unread])

    def _first_unread(self) -> int | None:
        """The number of the first lookup of the fair expert that is not done; None after the end."""
        self._require_reset()
        unread = (number for number in range(len(self._puzzle.reads)) if number not in self._reads)
        return None if self._over else next(unread, None)

    def expert_thought(self, action: str) -> str:
        """Return what is asked for, before a lookup; then the tasks found, for what, and what is left to do."""
        unread = self._first_unread()
        if unread is not None and action == format_call(*self._puzzle.reads[unread]):
            name, arguments = self._puzzle.reads[unread]
            default = f"The comments of {arguments['task']}." if name == "show_task" else "The next page."
            return self._puzzle.notes[unread] or default
        plan = self.expert()
        if action not in plan:
            return ""
        puzzle, parts = self._puzzle, []
        if len(plan) == self._require_reset().optimal_steps and unread is None:
            parts += [f"Found {len(puzzle.ids)}: {', '.join(puzzle.ids)}."] if puzzle.ids else []
            aims = [note.partition(" Which: ")[0] for note in puzzle.notes if note.startswith("Asked: ")]
            parts += aims if len(aims) == 1 else []
        delays = {int(days) for note in puzzle.notes for days in _DELAY.findall(note)}
        rest = describe(plan[plan.index(action) :], self._app.board, puzzle.start, puzzle.answer, delays)
        return " ".join((*parts, rest))

    def secrets(self) -> list[str]:
        """Return the answer at the start, unless today's date contains it; later any tool may show it."""
        self._require_reset()
        answer, today = self._puzzle.answer, self._app.today
        return [answer] if answer and self.steps == 0 and answer not in (today, *today.split("-")) else []

    # ---- forks ------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the changes of the board, the lookups done and whether the episode is finished."""
        return {"over": self._over, "read": list(self._reads), **self._app.board.to_json(self._puzzle.start)}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Restore a board."""
        puzzle: Puzzle = self.puzzle_of(task)
        over, reads = state["over"], state["read"]
        if type(over) is not bool or not isinstance(reads, list) or len(set(reads)) != len(reads):
            raise ValueError("'over' must be a bool and 'read' a list of different numbers")
        if not all(type(number) is int and 0 <= number < len(puzzle.reads) for number in reads):
            raise ValueError(f"'read' has unknown lookups: {reads!r:.200}")
        self._open(puzzle, board_from_json(state, puzzle.start), list(reads), over=over)

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Tell whether `finish` was called."""
        return bool(state["over"])


def normalize(answer: str) -> str:
    """Remove irrelevant differences of an answer: case, spaces, quotes, a full stop."""
    return " ".join(answer.casefold().split()).strip("\"'`. ")


def _actions_on(tid: str, row: Row, tomorrow: str) -> tuple[str, ...]:
    task = f'\nAction Input: {{"task": "{tid}"'
    if row.deleted:
        return (f"show_task{task}}}", f"restore_task{task}}}")
    actions = [f"show_task{task}}}", f"{'reopen' if row.done else 'complete'}_task{task}}}", f"delete_task{task}}}"]
    if row.due:
        actions.append(f"clear_due{task}}}")
    if row.due != tomorrow:
        actions.append(f'set_due{task}, "date": "{tomorrow}"}}')
    if row.every:
        actions.append(f"stop_repeat{task}}}")
    actions += [f'set_priority{task}, "priority": {level}}}' for level in (1, 2, 3, 4) if level != row.priority]
    for label in row.labels:
        actions.append(format_call("unlabel_task", {"task": tid, "label": label}))
    for number in range(1, len(row.comments) + 1):
        actions.append(f'delete_comment{task}, "number": {number}}}')
    return tuple(actions)


_DELAY = re.compile(r"Asked: due date \+ (\d+) day")
_LOOKUPS = (
    "list_projects", "list_labels", "list_done", "list_trash", "show_calendar", "list_tasks",
    'list_tasks\nAction Input: {"due": "overdue"}', 'list_tasks\nAction Input: {"due": "none"}', "finish",
)  # fmt: skip
