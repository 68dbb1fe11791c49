"""AgentService-v0: a customer, a policy and tools."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from agentgym_envs.service import experts
from agentgym_envs.service.acts import act
from agentgym_envs.service.conversation import Conversation, begin, from_json
from agentgym_envs.service.desk import Call
from agentgym_envs.service.drafting import draft
from agentgym_envs.service.policy import VIOLATIONS, policy_text
from agentgym_envs.service.puzzle import Puzzle
from agentgym_envs.service.talk import DOMAINS
from agentgym_py.env import Outcome, Reply, Task
from agentgym_py.env.generated import Draft
from agentgym_py.env.tool_env import ToolEnv
from agentgym_py.env.tools import CALL_FORM, RefusedError, format_arguments, format_call
from agentgym_py.env.types import TINY_DATA_DEFAULTS
from agentgym_py.rng import Rng

_INSTRUCTION = "Serve the customer by one tool call a turn, under the policy of the company."
_TERMS = (
    "The customer reads only what ask, propose, tell, refuse, transfer and close say. They speak of one wish at a time "
    "and tell details when asked. propose takes a tool's name and its arguments. tell gives a bare answer, and the "
    "first one counts. refuse names the rule that forbids a wish; a wrong refusal ends the conversation. instruct has "
    "the customer do something on their phone: check_phone shows what is wrong with it, and they leave after a second "
    "needless step. When a wish is settled, close asks for further ones, and without any it ends the conversation. "
    "Compute refunds and vouchers yourself."
)


class ServiceEnv(ToolEnv[Puzzle]):
    """AgentService-v0: serve a customer under a policy.

    It is like tau-bench, with a customer who is a program: never wrong, forkable, and the same on every replay.

    Task: a customer of a store, an airline or a telephone company has one or two wishes: a change, a question, a phone
    to repair, or something that no tool can do. Changes that the policy forbids must be refused. The agent identifies
    the customer, asks for details, looks up rows, proposes each change, and makes it after a yes. Each company has 13
    tools of its own, 7 for talking, and 16 to 20 rules whose numbers differ by task. On a phone, only the customer can
    do something, so the agent instructs them (dual control). About half of the phones to repair need a change of their
    line, which the policy may forbid.

    | difficulty | wishes | the customer | limit | expert's steps | random |
    |---|---|---|--:|--:|--:|
    | easy | 1 | says who they are and all details at once | 16 | 3.4 | 0.0 % |
    | medium | 1 | tells most when asked; may change their mind, or need a person | 24 | 3.0 | 0.0 % |
    | hard | 2 | says both, or the second at the end, or after a refusal of the first | 40 | 5.1 | 0.0 % |

    Expert's steps and random success are those of docs/results/worlds.md, over 300 test tasks.

    Action: a call of one of the tools in the first observation, as `Action: get_order` and `Action Input: {"order":
    "o412"}` on two lines, as `get_order {"order": "o412"}`, `get_order(order="o412")` or `close()` on one, or as a tool
    call. `ask`, `propose`, `tell`, `refuse`, `instruct`, `transfer` and `close` talk to the customer. `actions` lists
    calls that need no text. `undo_last_change` takes back the last change, and again the one before.

    Observation: the day, the policy, the tools and the customer's first words; then the answer of a tool or of the
    customer. A call that cannot be done changes nothing, and the observation says why. Tools do not enforce the policy.

    Customer: they speak of one wish at a time, the first that is not settled. They tell a fact of any wish that they
    have said only when asked for it, except those that they mention at once. They say yes only to the change that they
    want now; refunds and vouchers they cannot judge. They may change their mind once about a wish, when its change is
    proposed. On their phone they take one needless step, and leave after a second one. Their words are a function of
    the task and of what was said before, so the customer never errs.

    Reward: 0 before the end. Then 1 for success; otherwise half the share of settled wishes, divided by 1 plus the
    number of wrong rows. A wish is settled by its change, by a working phone, or by telling the answer. One that the
    policy forbids is settled by a refusal with a rule that forbids it, one that no tool can fulfil by a transfer.
    `info["success"]` needs all wishes settled, the final database equal to the right one, as in tau-bench, and a
    customer who has not left.

    Answers: the first one that the customer hears counts, and a wrong one is never corrected, because they believe it.
    `$31.00` and `thirty-one` are 31, `no data` is 0, and `July 13, 2026` and `13.07.2026` are 2026-07-13. What
    identifies the customer or the row in question is no answer. Told several answers at once, the customer takes none
    and asks which; told none, they ask for the answer again.

    Costs: `info["costs"]` counts the violations of the policy in a step: `unidentified`, `foreign`, `unconfirmed`,
    `forbidden`, `wrong_refusal`, `needless_transfer`. At the last step `info["broken_rules"]` names the rules that the
    changes of the episode broke, also those taken back; before, it is empty. Costs do not affect reward or success.

    End: `close` terminates when the customer has no further wish, and `transfer` always. A wrong `refuse` and a second
    needless step on a phone terminate, because the customer leaves. `max_steps` truncates.

    Splits: each of train, valid and test has its own wordings, at least two, for everything that customers say, and its
    own names of people, products, streets, cities and plans. Coupon codes and reasons of a cancellation are the same in
    all, because the tools name them. The train split has wordings from grammars and hundreds of names, two of five of
    them made up.

    Expert: it knows the task and takes a shortest way that violates nothing; from other states it first takes back
    wrong changes. The fair expert asks and looks up everything on which the decision depends, in a fixed order, then
    does the same. It has a phone checked before anything else.

    Args:
        difficulty: easy, medium or hard.
        max_steps: the step at which an episode is truncated; by default 16, 24 or 40.
        split: the split of tasks if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentService-v0.
    """

    name: ClassVar[str] = "service"
    version: ClassVar[int] = 2
    held_out_version: ClassVar[int | None] = 2
    reading_actions: ClassVar[tuple[str, ...]] = ("get_*", "list_*", "search_*", "find_*", "ask")
    max_return: ClassVar[float | None] = 1.0
    costs: ClassVar[Mapping[str, str]] = VIOLATIONS
    evolve_defaults: ClassVar[Mapping[str, Any]] = {**TINY_DATA_DEFAULTS, "max_new_tokens": 128}
    limits: ClassVar[Mapping[str, int]] = {"easy": 16, "medium": 24, "hard": 40}
    rules: ClassVar[Mapping[str, str]] = {
        "full": "\n".join([_INSTRUCTION, _TERMS, CALL_FORM]),
        "brief": f"{_INSTRUCTION} {CALL_FORM.replace(chr(10), ' ')}",
        "none": "",
    }

    # ---- the episode ------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[Puzzle]:
        """Draw a customer and their wishes."""
        return draft(rng, split, self.difficulty)

    def begin(self, task: Task) -> str:
        """Observe the day, the company's policy and tools, and the customer's first words."""
        puzzle: Puzzle = self.puzzle_of(task)
        self._open(begin(puzzle))
        tools = ", ".join(tool.signature for tool in self._talk.tools.values())
        return (
            f"Today is {puzzle.today}. You serve the customers of {puzzle.domain.title}.\n"
            f"Policy:\n{policy_text(puzzle.domain.rules, puzzle.numbers)}\n"
            f"Tools: {tools}\n"
            f"Customer: {task.instruction}"
        )

    def _open(self, opened: Conversation) -> None:
        self._talk = opened
        self._cached_actions: tuple[list[str], list[str], list[str]] | None = None
        """Lookups and changes of the customer's rows, and what can always be said."""

    @property
    def conversation(self) -> Conversation:
        """Return the state of the current episode."""
        self._require_reset()
        return self._talk

    def act(self, reply: Reply) -> Outcome:
        """Call a tool."""
        arguments = reply.arguments if reply.action_input else {}
        if arguments is None:
            return self.invalid('Action Input must be a JSON object, such as {"order": "o412"}.')
        try:
            observation = act(self._talk, reply.action, arguments)
        except RefusedError as error:
            return self.invalid(f"Error: {error}")
        if self._talk.ending:
            return self._end(observation)
        return Outcome(observation, costs=self._talk.costs, info=self.extra_info())

    def _end(self, observation: str) -> Outcome:
        """Score the conversation; see the class."""
        talk, puzzle = self._talk, self.puzzle
        success = talk.succeeded()
        settled = sum(map(talk.is_settled, range(len(puzzle.wishes)))) / len(puzzle.wishes)
        wrong = sum(puzzle.goal.get(key) != row for key, row in talk.desk.changed.items())
        parts = {"settled": settled, "wrong_rows": float(wrong)}
        reward = 1.0 if success else settled / 2 / (1 + wrong)
        return Outcome(
            observation, reward, terminated=True, success=success, parts=parts, costs=talk.costs, info=self.extra_info()
        )

    def extra_info(self) -> dict[str, Any]:
        """Return the broken rules in the last step of an episode; before, they would say how to refuse."""
        is_last = bool(self._talk.ending) or self.steps + 1 >= self.max_steps
        return {"broken_rules": list(self._talk.broken) if is_last else []}

    # ---- actions and the experts ------------------------------------------------------------------------------------

    def actions(self) -> list[str]:
        """List questions; for an identified customer also lookups, refusals, proposals and changes without texts."""
        self._require_reset()
        talk = self._talk
        if talk.ending:
            return []
        lookups, changes, always = self._listed_actions()
        actions = [*always]
        if talk.found:
            actions += [*_refusals(talk.puzzle.domain.name), *lookups, *changes]
        elif talk.puzzle.says_identity or "identity" in talk.asked:
            actions.append(format_call(*talk.puzzle.find))
        if talk.desk.history:
            actions.append("undo_last_change")
        return actions

    def _listed_actions(self) -> tuple[list[str], list[str], list[str]]:
        if self._cached_actions is None:
            talk = self._talk
            domain = talk.puzzle.domain
            lookups, changes = domain.options(talk.puzzle.desk(), talk.puzzle.caller)
            written = [(name, format_arguments(arguments)) for name, arguments in changes]
            self._cached_actions = (
                [format_call(*call) for call in lookups],
                [f'propose\nAction Input: {{"change": "{name}", "details": {details}}}' for name, details in written]
                + [f"{name}\nAction Input: {details}" for name, details in written],
                _always(domain.name),
            )
        return self._cached_actions

    def tools(self) -> list[dict[str, Any]]:
        """Return the tools of the company and those for talking."""
        self._require_reset()
        return [tool.schema() for tool in self._talk.tools.values()]

    def expert(self) -> list[str]:
        """Return a plan that settles all wishes and violates nothing; see the class."""
        self._require_reset()
        return [format_call(*call) for call in experts.plan(self._talk)]

    def fair_expert(self) -> str | None:
        """Ask and look up what the present wish depends on, then follow the expert."""
        self._require_reset()
        call = experts.fair_call(self._talk)
        return format_call(*call) if call else None

    def expert_thought(self, action: str) -> str:
        """Return what is still unknown, or the facts that decide."""
        self._require_reset()
        reply = self.parse(action)
        arguments = dict(reply.arguments or {})
        return experts.thought(self._talk, (reply.action, arguments)) if reply.action in self._talk.tools else ""

    def secrets(self) -> list[str]:
        """Return ids, addresses and the like that the customer has not said at first; later any tool may show them."""
        task = self._require_reset()
        if self.steps:
            return []
        puzzle = self._talk.puzzle
        facts = (fact for wish in puzzle.wishes for fact in (*wish.facts.values(), *(wish.first_facts or {}).values()))
        values = [value for _, value in (*puzzle.identity.values(), *facts)]
        values += [puzzle.caller, *(wish.answer for wish in puzzle.wishes)]
        public = f"{task.instruction} {puzzle.today}"
        return [value for value in dict.fromkeys(values) if _is_distinctive(value) and value not in public]

    # ---- forks ------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the changes, what the customer has said and how the conversation ended."""
        return self._talk.to_json()

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Restore a conversation."""
        try:
            opened = from_json(self.puzzle_of(task), state)
        except RefusedError as error:
            raise ValueError(f"an impossible call: {error}") from error
        self._open(opened)

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Tell whether the conversation has ended."""
        return bool(state["ending"])


@cache
def _always(domain: str) -> list[str]:
    """List what can always be said without a text."""
    company = DOMAINS[domain]
    calls: list[Call] = [("ask", {"about": topic}) for topic in company.topics]
    calls += [("instruct", {"step": step}) for step in company.steps or {}]
    return [format_call(*call) for call in (*calls, ("close", {}))]


def _is_distinctive(text: str) -> bool:
    """Tell whether a text is no word or number that may stand in a policy by chance."""
    return len(text) > 3 and any(char.isdigit() for char in text)


@cache
def _refusals(domain: str) -> list[str]:
    """List the acts that give up a wish."""
    return [*(format_call("refuse", {"rule": code}) for code in DOMAINS[domain].refusals), "transfer"]
