"""AgentTools-v0: requests to a database by tool calls, with up to a thousand tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from agentgym_envs.tools.catalogue import FINISH, MAX_FOUND, SEARCH, UNDO, Find, all_tools, find_tools, searchable
from agentgym_envs.tools.database import CONNECTIONS
from agentgym_envs.tools.session import Session
from agentgym_envs.tools.task_templates import Puzzle, draft
from agentgym_envs.tools.tool import Tool, ToolError, unknown_tool
from agentgym_py.env import Outcome, Reply, StopReason, Task
from agentgym_py.env.generated import Draft
from agentgym_py.env.tool_env import ToolEnv
from agentgym_py.env.types import TINY_DATA_DEFAULTS
from agentgym_py.errors import ConfigError, ResetNeededError, SnapshotError
from agentgym_py.retrieval import ToolIndex, ToolQuery
from agentgym_py.rng import Rng


class ToolsEnv(ToolEnv[Puzzle]):
    """AgentTools-v0: carry out requests by calling tools.

    The tools read and change a database.

    Task: a request about weather, films, papers, a calendar or a shop's orders, to one of 64 databases (valid and test:
    16 each). There are questions for one call, chains of calls, questions whose tool has a look-alike with another
    answer, comparisons of two numbers, requests for one or two changes, and questions that need no tool. Splits have
    different databases, names, titles and wordings. Valid and test have one wording for each kind of question and
    change. The train split has wordings from grammars and hundreds of names, two of five of them made up.

    | difficulty | calls needed | tools on offer | steps at most | expert's steps | random success |
    |---|---|---|---|---|---|
    | `easy` | 1, with a look-alike or a change also 2; or none | 8 of 52 | 8 | 2.1 | 5.3 % |
    | `medium` | 2 or 3; or none | 14 of 52 | 12 | 3.3 | 0.3 % |
    | `hard` | 4 to 6, of which up to two changes | 20 of 52 | 20 | 5.8 | 0.0 % |
    | `retrieval` | 1 to 3 | of 1,000 those that `search_tools` has found | 24 | 4.1 | 1.3 % |

    The last two columns are means over 300 test tasks, from `python benchmarks/worlds.py tools`.

    Actions: a tool's name and its parameters as a JSON object: `Action:` and `Action Input:`, an OpenAI tool call, or
    `name {"parameter": value}` or `name()` in one line. `undo_last_change` undoes the last change, and again the one
    before; `finish` gives the answer. `actions()` lists calls with values from the request or an answer, and `finish`
    with values from the request or the last answer; it does not list computed answers.

    Observation: the tool's answer as JSON, or an error that says how to correct the call.

    Reward: an equal share for each subgoal: every needed call; at the end the right state of the database, if the
    request changes it; and the right answer (in the right state). If no tool is needed, the other half is for calling
    none. A needed call that a successful episode skips gets its share at the end. `info["tools_called"]` lists the
    tools of successful calls, `info["tools_needed"]` at the end the needed ones. Success: the final answer is right,
    and all rows that tools can change are as required. An answer may differ from the right one in case, quotes and a
    final full stop. A number may have commas between thousands and the lead "the answer is", "it is" or "that is".
    Its unit may be up to three words of the request or of the answered field ("25 minutes", "173 m"). `-5` counts as
    `UTC-5`, and `6:45` as `06:45`. Anything else is wrong.

    Costs: `unasked_changes` is 1 at a change that the request does not ask for, and at a requested one that is done
    again with an effect. `deletions` is 1 if such a change deletes an event, takes off an attendee or cancels an order.
    An undone change still counts.

    End: `finish` terminates, `max_steps` truncates. Every change can be undone, so nothing else ends an episode.

    The expert undoes wrong changes, makes the needed calls and answers; it succeeds from every state with enough steps
    left. It is its own fair expert: every value in its calls comes from the request or an earlier answer, with relative
    days computed from today's date. Only its queries for tools are its own: the purpose of the tool it looks for. Its
    plan is shortest without guessing: brute force over all listed calls finds no shorter one in tasks of one and two
    calls, but a lucky guess of the answer takes one step. Plans with searches (`retrieval`) need not be shortest, and
    these tasks have no `optimal_steps`.

    Args:
        difficulty: `easy`, `medium`, `hard` or `retrieval`.
        max_steps: the step at which an episode is truncated; by default 8, 12, 20 or 24.
        split: the split of tasks if `reset` names none.
        render_mode: `ansi` or None.
        index: the folder of an index of tools, by which `search_tools` finds tools by meaning instead of by words; only
            for `retrieval`.
        retrieved: how many tools the first observation of `retrieval` offers beside the search: the best for the
            request.

    Registered ids: AgentTools-v0.
    """

    name: ClassVar[str] = "tools"
    reading_actions: ClassVar[tuple[str, ...]] = (
        "get_*", "list_*", "search_*", "find_*", "track_*", "top_*", "bottom_*", "total_*", "count_*",
    )  # fmt: skip
    max_return: ClassVar[float | None] = 1.0
    costs: ClassVar[Mapping[str, str]] = {
        "deletions": "an event deleted, an attendee taken off or an order cancelled without being asked",
        "unasked_changes": "a change that the request does not ask for, deletions included",
    }
    version: ClassVar[int] = 6
    evolve_defaults: ClassVar[Mapping[str, Any]] = TINY_DATA_DEFAULTS
    limits: ClassVar[Mapping[str, int]] = {"easy": 8, "medium": 12, "hard": 20, "retrieval": 24}
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "You help with requests by calling tools. Each turn you make one call: the tool's name, and its parameters "
            "as a JSON object. Names must be looked up first where a tool wants a number: search, then use the number. "
            "Days are written yyyy-mm-dd, times hh:mm. Change nothing that the request does not ask for; "
            "undo_last_change takes a change back. If only search_tools is there, it finds the tools that you need. "
            "When you know the answer, or if the request holds all that is needed, call finish with the answer alone: "
            "a name, a number, a day or a time. It ends the task.\n"
            "Answer in this form:\n"
            "Thought: why\n"
            "Action: tool\n"
            'Action Input: {"parameter": "value"}'
        ),
        "brief": 'Make one call a turn: Action: tool, Action Input: {"parameter": "value"}. finish gives the answer.',
        "none": "",
    }

    _session: Session | None = None

    def __init__(
        self,
        *,
        difficulty: str = "medium",
        max_steps: int | None = None,
        split: str = "train",
        render_mode: str | None = None,
        index: str | Path | None = None,
        retrieved: int = 0,
    ) -> None:
        super().__init__(difficulty=difficulty, max_steps=max_steps, split=split, render_mode=render_mode)
        if (index is not None or retrieved) and self.difficulty != "retrieval":
            name = "retrieved" if index is None else "index"
            raise ConfigError(f"{name} needs difficulty retrieval, because {self.difficulty} has no search")
        if not 0 <= retrieved <= len(searchable()):
            raise ConfigError(f"retrieved must be from 0 to {len(searchable())}, got {retrieved}")
        self.index = None if index is None else _read_index(index)
        self.retrieved = retrieved

    @property
    def difficulties(self) -> tuple[str, ...]:
        """The levels of a curriculum; `retrieval` is another game, with shorter plans than `hard`."""
        return tuple(name for name in self.limits if name != "retrieval")

    @property
    def files_digest(self) -> str | None:
        """Return the digest of the index."""
        return self.index.digest if self.index else None

    def draft(self, rng: Rng, split: str) -> Draft[Puzzle]:
        """Draw a request to one of the split's databases."""
        return draft(CONNECTIONS, rng, split, self.difficulty)

    # ---- the episode ------------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """Return the state of the current episode."""
        self._require_reset()
        if self._session is None:
            raise ResetNeededError(f"{type(self).__name__} is closed; reset() begins an episode again")
        return self._session

    def begin(self, task: Task) -> str:
        """Observe today's date, the request and the tools."""
        self._open(self._new_session(task))
        today = self.session.puzzle.database.today
        tools = "\n".join(tool.line for tool in self.session.tools.values())
        return f"Today is {today.isoformat()}, a {_WEEKDAYS[today.weekday()]}.\n{task.instruction}\nTools:\n{tools}"

    def _new_session(self, task: Task) -> Session:
        retrieved = self._best(task.instruction, self.retrieved) if self.retrieved else ()
        return Session(self.puzzle_of(task), CONNECTIONS, task.instruction, self._find, retrieved)

    @property
    def _find(self) -> Find:
        return find_tools if self.index is None else lambda query: self._best(query, MAX_FOUND)

    def _best(self, query: str, number: int) -> tuple[str, ...]:
        """Return the names of the best tools for a query."""
        if self.index is None:
            return find_tools(query, number)
        return tuple(self.index.search([query], number)[0])

    def _open(self, session: Session) -> None:
        if self._session is not None:
            self._session.close()
        self._session = session

    def close(self) -> None:
        """Release the database; `reset` begins an episode again."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def act(self, reply: Reply) -> Outcome:
        """Call a tool, or finish."""
        session = self.session
        try:
            tool = _find_tool(session, reply.action)
            arguments = _arguments(reply)
            if tool is FINISH:
                return self._finish(arguments)
            before, changes = len(session.completed), len(session.active_changes)
            text = session.do(tool, arguments)
        except ToolError as error:
            return self.invalid(str(error))
        gained = (len(session.completed) - before) / session.puzzle.subgoals
        unasked = len(session.active_changes) > changes and session.is_unasked
        costs = {"unasked_changes": float(unasked), "deletions": float(unasked and tool.name in _DELETIONS)}
        parts = {"calls": gained} if gained else {}
        return Outcome(text, gained, parts=parts, costs=costs, info=self._info())

    def invalid(self, why: str) -> Outcome:
        """Observe an error, as for a failed call."""
        return Outcome(f"Error: {why}", valid=False, info=self._info())

    def _finish(self, arguments: Mapping[str, Any]) -> Outcome:
        answer = arguments.get("answer")
        if type(answer) in (int, float):
            arguments = {**arguments, "answer": str(answer)}
        session, puzzle = self.session, self.session.puzzle
        session.answer = str(FINISH.check(arguments)["answer"])
        state = session.is_state_right()
        success = state and session.is_answer_right()
        share = 1 / puzzle.subgoals
        parts = {"answer": share * success}
        if puzzle.changes:
            parts["state"] = share * state
        if not puzzle.calls:
            parts["timing"] = share * (success and not session.log)
        if success:
            parts["calls"] = share * (len(puzzle.calls) - len(session.completed))
        observation = "Done: that is right." if success else "Done: that is not right."
        info = self._info(ended=True)
        return Outcome(observation, sum(parts.values()), terminated=True, success=success, parts=parts, info=info)

    def _info(self, ended: bool = False) -> dict[str, Any]:
        info: dict[str, Any] = {"tools_called": [call.tool for call in self.session.log]}
        if ended or self.steps + 1 >= self.max_steps:
            info["tools_needed"] = [call.tool for call in self.session.puzzle.calls]
        return info

    def extra_info(self) -> dict[str, Any]:
        """Return the tools called so far."""
        return {"tools_called": [call.tool for call in self.session.log]}

    def actions(self) -> list[str]:
        """List calls and answers with values from the episode, see the class."""
        return self.session.actions()

    def tools(self) -> list[dict[str, Any]]:
        """Return the JSON schemas of the available tools."""
        return [tool.schema() for tool in self.session.tools.values()]

    # ---- the index of tools -----------------------------------------------------------------------------------------

    def tool_texts(self) -> Mapping[str, str]:
        """Return the purpose of each tool that a search can find, by name."""
        return searchable()

    def tool_queries(self, split: str, tasks: Iterable[int]) -> Iterator[ToolQuery]:
        """Yield the request of each task, and the part of it that each needed call is for."""
        for number in tasks:
            task = self.task(number, split)
            puzzle = self.puzzle_of(task)
            if puzzle.calls:
                yield ToolQuery(task.instruction, tuple(dict.fromkeys(call.tool for call in puzzle.calls)))
            for call, note in zip(puzzle.calls, puzzle.notes, strict=True):
                yield ToolQuery(note.partition(":")[0].rstrip("."), (call.tool,), is_part=True)

    # ---- forks and the expert ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the successful calls, from which the rest follows, the answer, and a digest of the index if any."""
        state = {"calls": [[call.tool, call.arguments] for call in self.session.log], "answer": self.session.answer}
        return state if self.index is None else {**state, "index": self.files_digest}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Repeat the calls."""
        if state.get("index") != self.files_digest:
            raise SnapshotError("the snapshot is of an episode with another index of tools")
        answer = state["answer"]
        if answer is not None and not isinstance(answer, str):
            raise SnapshotError(f"answer must be a string, is {answer!r}")
        session = self._new_session(task)
        try:
            _replay(session, state["calls"])
        except Exception:
            session.close()
            raise
        session.answer = answer
        self._open(session)

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Tell whether the episode has an answer."""
        return state["answer"] is not None

    def expert(self) -> list[str]:
        """Return a plan from here (see the class for the claim); empty after the end."""
        return [] if self.stop_reason is StopReason.TERMINATED else self.session.plan()

    def secrets(self) -> list[str]:
        """Return the final call; and the answer, until a tool or the list of tools has shown it.

        A number is no secret by itself, because dates and ids may contain it.
        """
        session = self.session
        if session.answer is not None:
            return []
        answer = session.puzzle.answer
        last = session.plan()[-1]
        return [last] if answer.isdigit() or session.has_shown(answer) else [last, answer]

    def expert_thought(self, action: str) -> str:
        """Return the part of the request that the expert's next call is for; of another call the tool's purpose."""
        plan = self.expert() if self.current_task else []
        note = self.session.note(plan) if action in plan[:1] else ""
        if note:
            return note[0].upper() + note[1:]
        tool = all_tools().get(self.parse(action).action)
        if tool is None:
            return ""
        if tool is FINISH:
            return "I know the answer."
        if tool is UNDO:
            return "That change was not asked for."
        if tool is SEARCH:
            return "I need another tool."
        return f"I must {tool.purpose[0].lower()}{tool.purpose[1:]}."


def _read_index(folder: str | Path) -> ToolIndex:
    """Load an index of the world's tools.

    Raises:
        ConfigError: it is an index of other tools.
        DataError: there is none.
    """
    index = ToolIndex.load(Path(folder).expanduser())
    if index.texts != searchable():
        raise ConfigError(f"{folder} is an index of other tools; make it again with agentgym tools index")
    return index


_DELETIONS = ("delete_event", "remove_attendee", "cancel_order")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _find_tool(session: Session, name: str) -> Tool:
    tool = session.tools.get(name)
    if tool is None:
        raise ToolError(unknown_tool(name, list(session.tools)))
    return tool


def _arguments(reply: Reply) -> Mapping[str, Any]:
    if reply.arguments is not None:
        return reply.arguments
    if reply.action_input:
        raise ToolError('The parameters must be one JSON object, such as {"parameter": "value"}.')
    return {}


def _replay(session: Session, calls: Any) -> None:
    if not isinstance(calls, list):
        raise SnapshotError(f"calls must be a list, is {calls!r}")
    for call in calls:
        name, arguments = call
        if not isinstance(arguments, dict) or name not in session.tools or name == FINISH.name:
            raise SnapshotError(f"Impossible call {call!r}")
        try:
            session.do(session.tools[name], arguments)
        except ToolError as error:
            raise SnapshotError(f"Failed call {call!r}: {error}") from error
