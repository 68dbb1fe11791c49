"""AgentTodo-v0: a to-do application to be worked through its tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from agentgym_envs.todo.app import App, RefusedError
from agentgym_envs.todo.board import Board, Row, board_from_json, facts, same, shift, weekday
from agentgym_envs.todo.plan import plan, written
from agentgym_envs.todo.requests import draft
from agentgym_envs.todo.task_templates import Errand
from agentgym_envs.todo.tools import TOOLS, call, checked
from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task
from agentgym_py.env.actions import parse_tool_call
from agentgym_py.env.generated import Draft
from agentgym_py.rng import Rng

_ASKED = "Do what is asked for in the to-do list, nothing else, then finish."
_TERMS = (
    "Overdue is what is open and due before today. The coming Friday is the first one after today. From one day to "
    "another includes both. What is done or in the trash stays as it is unless the request names it. Where the request "
    "asks something, finish with the bare answer: a number, a date (YYYY-MM-DD), a name, a title, a comment."
)
_FORM = 'Answer in this form:\nThought: why\nAction: tool\nAction Input: {"argument": "value"}'


class TodoEnv(GeneratedEnv[Errand]):
    """AgentTodo-v0: do what a request asks for in a to-do list.

    Nothing else may change.

    Task: a request such as "Move everything overdue in Work to tomorrow. Tell me how many there were." on a board of
    projects, sections, labels and tasks with priorities, due dates, repetitions and comments, some of them done or in
    the trash. Every task has its own "today". Easy: one thing of one named task, a new task, a name, or a question.
    Medium: something for all tasks that a filter finds, with exceptions or a question how many; a task that must be
    looked for; a new project; a section to be emptied. Hard: two such parts, or one that depends on a number.

    | difficulty | projects, tasks | several are | limit | expert's steps | random |
    |---|---|---|--:|--:|--:|
    | easy | 3, 12 | | 25 | 1.9 | 0 % |
    | medium | 4, 20 | 2 to 4 | 30 | 3.2 | 0 % |
    | hard | 5, 30 | 3 to 6 | 40 | 5.3 | 0 % |

    Steps and success of random actions are those of docs/benchmarks.md, 300 test tasks each.

    Action: a call of one of the tools in the rules, as `Action: set_due` and `Action Input: {"task": "t7", "date":
    "2026-03-12"}` on two lines, as `set_due {"task": "t7", "date": "2026-03-12"}` or `list_labels()` on one, or as a
    tool call. `actions` lists what needs no text, not all that is possible.
    Nothing is lost: what is deleted can be restored, and every change says what was before.

    Observation: what the tool says; lists have one line a task. A call that cannot be done changes nothing, and the
    observation says why.

    Reward: at `finish`, the mean of `changes` (the share of the facts asked for that hold now) and `answer` (1 or 0),
    as far as the request asks for them, divided by 1 + `collateral` (the number of other facts that have changed);
    before, 0. `info["success"]` is strict: the answer is right and the board is exactly as asked for. An answer may
    differ in case, spaces, quotes and a full stop.

    End: `finish` terminates; `max_steps` truncates.

    What is exact: the board is compared fact by fact; only the order of sections, comments and new tasks is free, and
    what is in the trash is only that. A task that repeats is next due on the first of its days after today and its day.

    Splits: each of train, valid and test has its own wordings, two at least, for every kind of request and filter, and
    its own people, things, cities, labels and comments; names of projects and sections that are there are shared.

    Expert: one call for each thing that is not as it should be, then `finish`. From the start of a task that is a
    shortest solution: only labels and sections are changed for several tasks by one call, and no request is asked for
    which deleting such a one and adding or renaming one would be shorter; from elsewhere it also undoes what was
    damaged. The fair expert first calls the lists that show what the request depends on.

    Args:
        difficulty: easy, medium or hard.
        max_steps: when an episode is cut; by default 25, 30 or 40.
        split: where tasks come from if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentTodo-v0.
    """

    name: ClassVar[str] = "todo"
    max_return: ClassVar[float | None] = 1.0
    version: ClassVar[int] = 3
    limits: ClassVar[Mapping[str, int]] = {"easy": 25, "medium": 30, "hard": 40}
    rules: ClassVar[Mapping[str, str]] = {
        "full": "\n".join([_ASKED, _TERMS, "Tools (? may be left out):", *map(str, TOOLS.values()), _FORM]),
        "brief": f"{_ASKED} Tools: {', '.join(tool.signature for tool in TOOLS.values())}.",
        "none": "",
    }

    # ---- the episode ------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[Errand]:
        """A board and a request."""
        return draft(rng, split, self.difficulty)

    def begin(self, task: Task) -> str:
        """The day and the request."""
        errand = self.puzzle_of(task)
        self._take(errand, errand.start.copy(), [], over=False)
        return f"Today is {weekday(self._app.today)} {self._app.today}.\n{task.instruction}"

    def _take(self, errand: Errand, board: Board, read: list[int], *, over: bool) -> None:
        self._errand, self._app, self._read, self._over = errand, App(board, errand.today), read, over
        self._listed: dict[str, tuple[Row, tuple[str, ...]]] = {}
        """Actions on a task as it is; made once for each row."""

    def read(self, text: str) -> Reply:
        """A reply in any form; the arguments may follow the tool's name in its line."""
        return parse_tool_call(text)

    def act(self, reply: Reply) -> Outcome:
        """Call one tool."""
        arguments = reply.arguments if reply.action_input else {}
        if arguments is None:
            return Outcome('Action Input must be a JSON object, such as {"task": "t7"}.', valid=False)
        try:
            said = call(self._app, reply.action, arguments)
        except RefusedError as refused:
            return Outcome(str(refused), valid=False)
        if reply.action == "finish":
            return self._finish(said, checked(TOOLS["finish"], arguments).get("answer", ""))
        self._note(reply.action, arguments)
        return Outcome(said)

    def _note(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Remember which of the looks that the request needs have been taken."""
        for number, (wanted, given) in enumerate(self._errand.reads):
            if name == wanted and arguments == given and number not in self._read:
                self._read.append(number)

    def _finish(self, said: str, answer: str) -> Outcome:
        self._over = True
        errand, board = self._errand, self._app.board
        parts = {"collateral": 0.0}
        right = not errand.answer or plain(answer) == plain(errand.answer)
        if errand.answer:
            parts["answer"] = float(right)
        was, wanted, now = (facts(each, errand.start) for each in (errand.start, errand.goal, board))
        asked = {key for key in was.keys() | wanted.keys() if was.get(key) != wanted.get(key)}
        if asked:
            parts["changes"] = sum(now.get(key) == wanted.get(key) for key in asked) / len(asked)
        parts["collateral"] = float(sum(was.get(key) != now.get(key) for key in (was.keys() | now.keys()) - asked))
        success = right and same(board, errand.goal, errand.start)
        met = [value for name, value in parts.items() if name != "collateral"]
        reward = sum(met) / len(met) / (1 + parts["collateral"])
        return Outcome(said, reward, terminated=True, success=success, parts=parts)

    # ---- actions and the expert -------------------------------------------------------------------------------------

    def actions(self) -> list[str]:
        """Looks at every list and task, and changes of every task that need no text; not all that is admissible."""
        self._require_reset()
        if self._over:
            return []
        listed, known, tomorrow = list(_LOOKS), self._listed, shift(self._app.today, 1)
        for tid, row in self._app.board.tasks.items():
            made = known.get(tid)
            if made is None or made[0] is not row:
                made = known[tid] = (row, _actions_on(tid, row, tomorrow))
            listed += made[1]
        return listed

    def tools(self) -> list[dict[str, Any]]:
        """All the tools."""
        return [tool.schema() for tool in TOOLS.values()]

    def expert(self) -> list[str]:
        """One call for each thing that is not yet as it should be, then `finish`: shortest from the start of a task."""
        self._require_reset()
        if self._over:
            return []
        errand = self._errand
        arguments = {"answer": errand.answer} if errand.answer else {}
        calls = plan(self._app.board, errand.goal, errand.start, errand.today)
        return [*calls, written("finish", arguments)]

    def fair_expert(self) -> str | None:
        """Looks up all that the request depends on, then does what the expert does."""
        self._require_reset()
        unread = [read for number, read in enumerate(self._errand.reads) if number not in self._read]
        return written(*unread[0]) if unread and not self._over else super().fair_expert()

    def secrets(self) -> list[str]:
        """The answer at the start, unless today's date holds it; afterwards any tool may show it."""
        self._require_reset()
        answer, today = self._errand.answer, self._app.today
        return [answer] if answer and self.steps == 0 and answer not in (today, *today.split("-")) else []

    # ---- forks ------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The board, as far as it is not what it was, which looks were taken, and whether it is finished."""
        return {"over": self._over, "read": list(self._read), **self._app.board.to_json(self._errand.start)}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Take up a board."""
        errand: Errand = self.puzzle_of(task)
        over, read = state["over"], state["read"]
        if type(over) is not bool or not isinstance(read, list) or len(set(read)) != len(read):
            raise ValueError("neither finished nor unfinished, or not a list of looks")
        if not all(type(number) is int and 0 <= number < len(errand.reads) for number in read):
            raise ValueError(f"looks that the request does not need: {read!r:.200}")
        self._take(errand, board_from_json(state, errand.start), list(read), over=over)

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Whether `finish` was called."""
        return bool(state["over"])


def plain(answer: str) -> str:
    """An answer without what does not matter: case, spaces, quotes, a full stop."""
    return " ".join(answer.casefold().split()).strip("\"'`. ")


def _actions_on(tid: str, row: Row, tomorrow: str) -> tuple[str, ...]:
    task = f'\nAction Input: {{"task": "{tid}"'
    if row.deleted:
        return (f"show_task{task}}}", f"restore_task{task}}}")
    listed = [f"show_task{task}}}", f"{'reopen' if row.done else 'complete'}_task{task}}}", f"delete_task{task}}}"]
    if row.due:
        listed.append(f"clear_due{task}}}")
    if row.due != tomorrow:
        listed.append(f'set_due{task}, "date": "{tomorrow}"}}')
    if row.every:
        listed.append(f"stop_repeat{task}}}")
    listed += [f'set_priority{task}, "priority": {each}}}' for each in (1, 2, 3, 4) if each != row.priority]
    for label in row.labels:
        listed.append(written("unlabel_task", {"task": tid, "label": label}))
    for number in range(1, len(row.comments) + 1):
        listed.append(f'delete_comment{task}, "number": {number}}}')
    return tuple(listed)


_LOOKS = (
    "list_projects", "list_labels", "list_done", "list_trash", "show_calendar", "list_tasks",
    'list_tasks\nAction Input: {"due": "overdue"}', 'list_tasks\nAction Input: {"due": "none"}', "finish",
)  # fmt: skip
