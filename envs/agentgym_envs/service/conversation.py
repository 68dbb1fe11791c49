"""The state of a conversation: the database, what the customer has said, and the violations of the policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym_envs.service.desk import Call, Desk
from agentgym_envs.service.domain import Wish
from agentgym_envs.service.policy import VIOLATIONS
from agentgym_envs.service.puzzle import Puzzle
from agentgym_envs.service.talk import tools_of
from agentgym_envs.service.tool import Tool

ENDINGS = ("", "closed", "transferred", "left")
"""How a conversation ended; empty while it runs."""
PATIENCE = 1
"""The needless steps on their device after which a customer stays."""


@dataclass(slots=True)
class Conversation:
    """A conversation."""

    puzzle: Puzzle
    desk: Desk
    tools: Mapping[str, Tool]
    found: bool = False
    """Whether the agent has identified the customer."""
    raised: int = 0
    """The number of wishes that the customer has said."""
    asked: list[str] = field(default_factory=list)
    """The topics that the customer has answered about the present wish; `identity` stays."""
    present: int = 0
    """The wish to which `asked` belongs."""
    reads: list[Call] = field(default_factory=list)
    """The lookups needed by wishes that are done."""
    confirmed: list[Call] = field(default_factory=list)
    """The changes to which the customer has said yes."""
    switched: list[int] = field(default_factory=list)
    """The wishes about which the customer has changed their mind."""
    refused: list[int] = field(default_factory=list)
    """The wishes that are rightly refused."""
    told: list[int] = field(default_factory=list)
    """The wishes whose answer the customer has been told."""
    misinformed: list[int] = field(default_factory=list)
    """The wishes about which the customer believes a wrong answer, so that they are never settled."""
    fixed: list[str] = field(default_factory=list)
    """The repaired faults of the customer's device."""
    needless: int = 0
    """The number of steps that the customer has taken on their device in vain."""
    ending: str = ""
    costs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VIOLATIONS, 0))
    """Kind of violation to its number in this step."""
    broken: list[str] = field(default_factory=list)
    """The rules that the changes of the episode have broken, also if they were taken back."""

    # ---- wishes -----------------------------------------------------------------------------------------------------

    def is_settled(self, number: int) -> bool:
        """Tell whether a wish is fulfilled or rightly refused."""
        wish = self.puzzle.wishes[number]
        if wish.no_tool:
            return self.ending == "transferred"
        if wish.codes:
            return number in self.refused
        if wish.answer:
            return number in self.told
        is_made = not wish.call or any(call == wish.call for call, _ in self.desk.history)
        return is_made and all(fault in self.fixed for fault in wish.faults)

    def current(self) -> int | None:
        """Return the first wish that the customer has said and takes for open; None if there is none."""
        said = (number for number in range(self.raised) if number not in self.misinformed)
        return next((number for number in said if not self.is_settled(number)), None)

    def faults(self) -> list[str]:
        """Return what is wrong with the customer's phone now, because of its settings or of a row of the company."""
        wishes = self.puzzle.wishes
        own = [fault for wish in wishes for fault in wish.faults if fault not in self.fixed]
        return own + [wish.symptom for wish in wishes if wish.symptom and self._is_ill(wish)]

    def _is_ill(self, wish: Wish) -> bool:
        """Tell whether the row that a wish changes still has the value that causes the symptom."""
        assert wish.call and self.puzzle.domain.symptoms
        table, field_, value = self.puzzle.domain.symptoms[wish.symptom]
        return bool(self.desk.get(table, wish.call[1][self.tools[wish.call[0]].about[0]])[field_] == value)

    def facts(self, number: int) -> Mapping[str, Any]:
        """Return what the customer says of a wish now."""
        wish = self.puzzle.wishes[number]
        return wish.first_facts if wish.first_facts and number not in self.switched else wish.facts

    def wanted(self, number: int) -> Call | None:
        """Return the change that the customer asks for now."""
        wish = self.puzzle.wishes[number]
        return wish.first if wish.first and number not in self.switched else wish.call

    def succeeded(self) -> bool:
        """Tell whether every wish is settled, the database is right and the customer has not lost patience."""
        everything = all(map(self.is_settled, range(len(self.puzzle.wishes))))
        return everything and self.desk.changed == self.puzzle.goal and self.ending != "left"

    # ---- snapshots --------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "changes": [[name, arguments] for (name, arguments), _ in self.desk.history],
            "found": self.found, "raised": self.raised, "asked": list(self.asked),
            "present": self.present, "reads": list(map(list, self.reads)),
            "confirmed": list(map(list, self.confirmed)),
            "switched": list(self.switched), "refused": list(self.refused), "told": list(self.told),
            "misinformed": list(self.misinformed), "fixed": list(self.fixed), "needless": self.needless,
            "broken": list(self.broken), "ending": self.ending,
        }  # fmt: skip


def begin(puzzle: Puzzle) -> Conversation:
    """Return the conversation at its start."""
    return Conversation(puzzle, puzzle.desk(), tools_of(puzzle.domain.name), raised=puzzle.together)


def from_json(puzzle: Puzzle, state: Mapping[str, Any]) -> Conversation:
    """Rebuild a conversation; ValueError, TypeError, LookupError or RefusedError if the state is impossible."""
    talk, size = begin(puzzle), len(puzzle.wishes)
    for name, arguments in state["changes"]:
        tool = talk.tools[name]
        if not tool.judge or not tool.run or tool.check(arguments) != arguments:
            raise ValueError(f"invalid change {name!r:.60}")
        talk.desk.history.append(((name, tool.check(arguments)), {}))
        tool.run(talk.desk, **arguments)
    if type(state["found"]) is not bool:
        raise ValueError("'found' must be a bool")
    talk.found = state["found"]
    talk.raised, talk.present = state["raised"], state["present"]
    if type(talk.raised) is not int or not puzzle.together <= talk.raised <= size:
        raise ValueError("'raised' is not a number of wishes")
    if type(talk.present) is not int or not 0 <= talk.present < size:
        raise ValueError("'present' is not a wish")
    for name in ("switched", "refused", "told", "misinformed"):
        setattr(talk, name, _listed(name, state[name], range(size)))
    talk.switched = [number for number in talk.switched if puzzle.wishes[number].first]
    talk.asked = _listed("asked", state["asked"], puzzle.domain.topics)
    talk.fixed = _listed("fixed", state["fixed"], tuple((puzzle.domain.steps or {}).values()))
    talk.broken = _listed("broken", state["broken"], puzzle.domain.refusals)
    talk.needless = state["needless"]
    if type(talk.needless) is not int or talk.needless not in range(PATIENCE + 2):
        raise ValueError("'needless' is not a number of steps")
    for calls, listed in ((talk.reads, state["reads"]), (talk.confirmed, state["confirmed"])):
        calls += [(name, talk.tools[name].check(arguments)) for name, arguments in listed]
    if type(state["ending"]) is not str or state["ending"] not in ENDINGS:
        raise ValueError("'ending' is no ending")
    talk.ending = state["ending"]
    return talk


def _listed(name: str, values: Any, allowed: Any) -> list[Any]:
    """Return a list of different allowed values."""
    kinds = {type(value) for value in allowed}
    if not isinstance(values, list) or len({str(value) for value in values}) < len(values):
        raise ValueError(f"{name!r} must be a list of different values")
    if not all(type(value) in kinds and value in allowed for value in values):
        raise ValueError(f"{name!r} has an unknown value: {values!r:.100}")
    return list(values)


def needed_calls(wishes: Iterable[Wish]) -> list[Call]:
    """Return the changes that fulfil the allowed wishes."""
    return [wish.call for wish in wishes if wish.call and not wish.codes]
