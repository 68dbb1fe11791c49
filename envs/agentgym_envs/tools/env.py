"""AgentTools-v0: requests that take tool calls over a database, with a thousand tools where they must be searched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from agentgym_envs.tools.catalogue import FINISH, SEARCH, UNDO, all_tools
from agentgym_envs.tools.session import Session
from agentgym_envs.tools.task_templates import Errand, draft
from agentgym_envs.tools.tool import Refused, Tool, unknown_tool
from agentgym_envs.tools.world import DESK
from agentgym_py.env import GeneratedEnv, Outcome, Reply, StopReason, Task
from agentgym_py.env.actions import parse_tool_call
from agentgym_py.env.generated import Draft
from agentgym_py.errors import SnapshotError
from agentgym_py.rng import Rng


class ToolsEnv(GeneratedEnv[Errand]):
    """AgentTools-v0: answer requests, and carry them out, by tools.

    The tools read and change a database.

    Task: a request about weather, films, papers, a calendar or a shop's orders, to one of 64 databases (valid and test:
    16 each): questions that one call answers, chains in which one answer is needed for the next call, questions whose
    tool has a look-alike that answers something else, comparisons of two numbers, requests for one change or two, and
    questions that need no tool since they say all that is needed. Splits have databases, names, titles and wordings of
    their own.

    | difficulty | calls needed | tools on offer | steps at most | expert's steps | random success |
    |---|---|---|---|---|---|
    | `easy` | 1, with a look-alike or a change also 2; or none | 8 of 52 | 8 | 2.1 | 4.7 % |
    | `medium` | 2 or 3; or none | 14 of 52 | 12 | 3.3 | 0.7 % |
    | `hard` | 4 to 6, of which up to two changes | 20 of 52 | 20 | 5.8 | 0.0 % |
    | `retrieval` | 1 to 3 | of 1,000 those that `search_tools` has found | 24 | 4.1 | 1.7 % |

    The last two columns: means over 300 test tasks, `python benchmarks/worlds.py tools`.

    Actions: a tool's name and its parameters as a JSON object: `Action:` and `Action Input:`, an OpenAI tool call, or
    `name {"parameter": value}` or `name()` in one line. `undo_last_change` takes back one change after the other;
    `finish` gives the answer. `actions()` lists calls with values that the request or an answer has shown, and `finish`
    with values that the request names or the last answer holds; an answer that must be reckoned out is not among them.

    Observation: what the tool answers, as JSON, or an error that says how to mend the call.

    Reward: an equal share for each subgoal: every needed call, at the end the right state of the database where the
    request changes it, and the right answer (in a state that is right); where no tool is needed, the other half is for
    calling none. Whoever succeeds without a needed call gets its share at the end. `info["tools_called"]` lists the
    tools of the calls that worked, and at the end `info["tools_needed"]` those needed. Success: the final answer is
    right, and all that tools can change is row by row as it should be. An answer may differ from the right one in case,
    quotes and a last full stop; a number may have commas between thousands, the lead "the answer is", "it is" or "that
    is", and after it up to three words of the request as its unit ("25 minutes" where that asks for minutes). Whatever
    else stands there makes it wrong.

    End: `finish` terminates, `max_steps` truncates. Since every change can be taken back, nothing else ends an episode.

    The expert takes back wrong changes, makes the needed calls and answers; it succeeds from every state of an episode
    that leaves it the steps. It is its own fair expert: every value in its calls was in the request or in an answer
    before, relative days reckoned from today's date; only the words that it searches tools with are its own, the
    tool's purpose as the search will tell it. Its plan is a shortest one for whoever guesses nothing: brute force over
    all listed calls finds no shorter one in tasks of one and two calls; a lucky guess of the answer is one step. In
    `retrieval`, where searches come in between, it need not be, and tasks have no `optimal_steps`.

    Args:
        difficulty: `easy`, `medium`, `hard` or `retrieval`.
        max_steps: when an episode is cut; by default 8, 12, 20 or 24.
        split: where tasks come from if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentTools-v0.
    """

    name: ClassVar[str] = "tools"
    max_return: ClassVar[float | None] = 1.0
    version: ClassVar[int] = 2
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

    def draft(self, rng: Rng, split: str) -> Draft[Errand]:
        """A request to one of the split's databases."""
        return draft(DESK, rng, split, self.difficulty)

    # ---- the episode ------------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The current episode."""
        self._require_reset()
        assert self._session is not None
        return self._session

    def begin(self, task: Task) -> str:
        """Today's date, the request and the tools."""
        self._open(Session(self.puzzle_of(task), DESK, task.instruction))
        today = self.session.errand.world.today
        tools = "\n".join(tool.line for tool in self.session.tools.values())
        return f"Today is {today.isoformat()}, a {_WEEKDAYS[today.weekday()]}.\n{task.instruction}\nTools:\n{tools}"

    def _open(self, session: Session) -> None:
        if self._session is not None:
            self._session.close()
        self._session = session

    def read(self, text: str) -> Reply:
        """A reply in any form; the parameters may follow the tool's name in its line."""
        return parse_tool_call(text)

    def act(self, reply: Reply) -> Outcome:
        """Call a tool, or finish."""
        session = self.session
        try:
            tool = _named(session, reply.action)
            given = _given(reply)
            if tool is FINISH:
                return self._finish(given)
            before = len(session.met)
            text = session.do(tool, given)
        except Refused as refused:
            return self.invalid(str(refused))
        gained = (len(session.met) - before) / session.errand.subgoals
        return Outcome(text, gained, parts={"calls": gained} if gained else {}, info=self._info())

    def invalid(self, why: str) -> Outcome:
        """An error, as a call that does not work is."""
        return Outcome(f"Error: {why}", valid=False, info=self._info())

    def _finish(self, given: Mapping[str, Any]) -> Outcome:
        said = given.get("answer")
        if type(said) in (int, float):
            given = {**given, "answer": str(said)}
        session, errand = self.session, self.session.errand
        session.answer = str(FINISH.check(given)["answer"])
        state = session.state_is_right()
        success = state and session.answer_is_right()
        share = 1 / errand.subgoals
        parts = {"answer": share * success}
        if errand.changes:
            parts["state"] = share * state
        if not errand.calls:
            parts["timing"] = share * (success and not session.log)
        if success:
            parts["calls"] = share * (len(errand.calls) - len(session.met))
        shown = "Done: that is right." if success else "Done: that is not right."
        info = self._info(ended=True)
        return Outcome(shown, sum(parts.values()), terminated=True, success=success, parts=parts, info=info)

    def _info(self, ended: bool = False) -> dict[str, Any]:
        info: dict[str, Any] = {"tools_called": [call.tool for call in self.session.log]}
        if ended or self.steps + 1 >= self.max_steps:
            info["tools_needed"] = [call.tool for call in self.session.errand.calls]
        return info

    def extra_info(self) -> dict[str, Any]:
        """The tools called so far."""
        return {"tools_called": [call.tool for call in self.session.log]}

    def actions(self) -> list[str]:
        """Calls and answers with values that were shown, see the class."""
        return self.session.actions()

    def tools(self) -> list[dict[str, Any]]:
        """JSON schemas of the tools on offer, in `retrieval` of those found."""
        return [tool.schema() for tool in self.session.tools.values()]

    # ---- forks and the expert ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The calls that worked, from which all else follows, and the answer."""
        return {"calls": [[call.tool, call.arguments] for call in self.session.log], "answer": self.session.answer}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Make the calls again."""
        answer = state["answer"]
        if answer is not None and not isinstance(answer, str):
            raise SnapshotError(f"An answer is a string, not {answer!r}")
        session = Session(self.puzzle_of(task), DESK, task.instruction)
        try:
            _replay(session, state["calls"])
        except Exception:
            session.close()
            raise
        session.answer = answer
        self._open(session)

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Whether an answer was given."""
        return state["answer"] is not None

    def expert(self) -> list[str]:
        """A plan from here, see the class for what it claims; empty after the end."""
        return [] if self.stop_reason is StopReason.TERMINATED else self.session.plan()

    def secrets(self) -> list[str]:
        """The call that gives the answer; and the answer, until a tool or the list of tools has said it.

        A number is no secret by itself: it may stand in anything, a date or another thing's number.
        """
        session = self.session
        if session.answer is not None:
            return []
        wanted = session.errand.answer
        last = session.plan()[-1]
        return [last] if wanted.isdigit() or session.has_said(wanted) else [last, wanted]

    def expert_thought(self, action: str) -> str:
        """What the tool is for."""
        tool = all_tools().get(self.parse(action).action)
        if tool is None:
            return ""
        if tool is FINISH:
            return "I know the answer."
        if tool is UNDO:
            return "That change was not asked for."
        if tool is SEARCH:
            return "I need another tool."
        return f"I must {tool.does[0].lower()}{tool.does[1:]}."


_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _named(session: Session, name: str) -> Tool:
    tool = session.tools.get(name)
    if tool is None:
        raise Refused(unknown_tool(name, list(session.tools)))
    return tool


def _given(reply: Reply) -> Mapping[str, Any]:
    if reply.arguments is not None:
        return reply.arguments
    if reply.action_input:
        raise Refused('The parameters must be one JSON object, such as {"parameter": "value"}.')
    return {}


def _replay(session: Session, calls: Any) -> None:
    if not isinstance(calls, list):
        raise SnapshotError(f"Calls are a list, not {calls!r}")
    for each in calls:
        name, given = each
        if not isinstance(given, dict) or name not in session.tools or name == FINISH.name:
            raise SnapshotError(f"A call that cannot be: {each!r}")
        try:
            session.do(session.tools[name], given)
        except Refused as refused:
            raise SnapshotError(f"A call that does not work: {each!r}: {refused}") from refused
