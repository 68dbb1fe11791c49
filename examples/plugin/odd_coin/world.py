"""OddCoin-v0: find the heavier one of many coins with a balance."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task
from agentgym_py.env.generated import Draft
from agentgym_py.rng import Rng

COINS = {"easy": 24, "medium": 60, "hard": 150}
THINGS = {"train": ("coin", "medal", "button"), "valid": ("pearl", "bead"), "test": ("marble", "nugget", "token")}
_RESULTS = {1: "The left pan goes down.", -1: "The right pan goes down.", 0: "The pans balance."}
_NUMBERS = re.compile(r"[0-9 |]{1,2000}")


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A generated task."""

    coins: int
    odd: int
    """Number of the heavier coin, from 1."""
    thing: str


class OddCoin(GeneratedEnv[Puzzle]):
    """OddCoin-v0. Task: find the one coin that is heavier than the others, with as few weighings as possible.

    Actions: `weigh[1 2 3 | 4 5 6]` puts the same number of coins on each pan of a balance; `name[5]` is the answer.

    Observation: which pan goes down, or what is wrong with the action. Reward: 1 for the right coin, minus 0.02 per
    weighing. End: the first answer terminates; 20 steps truncate.

    There are about 24, 60 or 150 coins (easy, medium, hard). The things differ between the splits, so no instruction is
    in two splits. Naming a coin without weighing is right in 1 of 24 cases at best.

    The expert knows the coin and needs one action. The fair expert weighs thirds of the suspects.
    """

    name: ClassVar[str] = "oddcoin"
    limits: ClassVar[Mapping[str, int]] = dict.fromkeys(COINS, 20)
    rules: ClassVar[Mapping[str, str]] = {
        "full": "One of them is heavier. Write weigh[1 2 3 | 4 5 6] to put some on each pan, as many on the one as on "
        "the other; the heavier pan goes down. Write name[5] when you know which one it is: you can do so once.",
        "brief": "weigh[1 2 | 3 4] compares, name[5] answers, once.",
        "none": "",
    }

    named = 0  # set before the first reset, so that calls before it raise ResetNeededError

    def draft(self, rng: Rng, split: str) -> Draft[Puzzle]:
        """Draw a number of things, one of them heavier."""
        coins = COINS[self.difficulty] + rng.below(7)
        puzzle = Puzzle(coins, 1 + rng.below(coins), rng.choice(THINGS[split]))
        text = f"There are {coins} {puzzle.thing}s, numbered from 1. One {puzzle.thing} is heavier. Which one?"
        return Draft(text, puzzle, "find", 1)

    def begin(self, task: Task) -> str:
        """Return the instruction."""
        self.weighings: list[tuple[list[int], list[int]]] = []
        self.named = 0
        return task.instruction

    def act(self, reply: Reply) -> Outcome:
        """Do `weigh` or `name`."""
        if reply.name not in ("weigh", "name") or not _NUMBERS.fullmatch(reply.argument or ""):
            return self.invalid(self.rules["brief"])
        pans = [[int(coin) for coin in pan.split()] for pan in (reply.argument or "").split("|")]
        return self._name(pans) if reply.name == "name" else self._weigh(pans)

    def _name(self, pans: Sequence[list[int]]) -> Outcome:
        if len(pans) != 1 or len(pans[0]) != 1 or not 1 <= pans[0][0] <= self.puzzle.coins:
            return self.invalid(f"Name one number from 1 to {self.puzzle.coins}, as name[5].")
        self.named = pans[0][0]
        if self.named != self.puzzle.odd:
            return Outcome("No, that one weighs what the others do.", terminated=True)
        cost = 0.02 * len(self.weighings)
        return Outcome("Yes.", 1.0 - cost, terminated=True, success=True, parts={"right": 1.0, "weighings": -cost})

    def _weigh(self, pans: Sequence[list[int]]) -> Outcome:
        if problem := self._problem_of(pans):
            return self.invalid(problem)
        left, right = pans
        self.weighings.append((left, right))
        return Outcome(_RESULTS[self._side(left, right)])

    def _problem_of(self, pans: Sequence[list[int]]) -> str:
        """Why these pans cannot be weighed; empty if they can."""
        if len(pans) != 2 or len(pans[0]) != len(pans[1]) or not pans[0]:
            return "Put as many on the one pan as on the other, as weigh[1 2 | 3 4]."
        coins = [*pans[0], *pans[1]]
        if not all(1 <= coin <= self.puzzle.coins for coin in coins):
            return f"They are numbered from 1 to {self.puzzle.coins}."
        return "" if len(set(coins)) == len(coins) else "Put each of them on one pan, once."

    def _side(self, left: Sequence[int], right: Sequence[int]) -> int:
        return (self.puzzle.odd in left) - (self.puzzle.odd in right)

    def suspects(self) -> list[int]:
        """Return the coins that may be the heavier one after the weighings."""
        suspects = set(range(1, self.puzzle.coins + 1))
        for left, right in self.weighings:
            side = self._side(left, right)
            if side:
                suspects &= set(left if side > 0 else right)
            else:
                suspects -= {*left, *right}
        return sorted(suspects)

    def expert(self) -> list[str]:
        """Name the heavier coin."""
        return [] if self.named else [f"name[{self.puzzle.odd}]"]

    def fair_expert(self) -> str | None:
        """Weigh a third of the suspects against another third; name the last suspect."""
        if self.named:
            return None
        suspects = self.suspects()
        third = (len(suspects) + 1) // 3
        return weighing(suspects[:third], suspects[third : 2 * third]) if third else f"name[{suspects[0]}]"

    def secrets(self) -> list[str]:
        """Return the right answer as an action, because bare numbers occur in every weighing."""
        return [f"name[{self.puzzle.odd}]"]

    def actions(self) -> list[str]:
        """List every answer, and some weighings: of neighbours, and of the first two thirds."""
        if self.named:
            return []
        coins = self.puzzle.coins
        pairs = [weighing([n], [n + 1]) for n in range(1, coins, 2)]
        third = list(range(1, coins // 3 + 1))
        thirds = weighing(third, [coin + len(third) for coin in third])
        return [*(f"name[{n}]" for n in range(1, coins + 1)), *pairs, thirds]

    def state(self) -> dict[str, Any]:
        """Return the weighings and the named coin."""
        return {"weighings": [list(pans) for pans in self.weighings], "named": self.named}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Continue an episode."""
        coins = self.puzzle_of(task).coins
        weighings, named = state["weighings"], state["named"]
        if type(named) is not int or not 0 <= named <= coins or type(weighings) is not list:
            raise ValueError(f"not a number of one of {coins}, and weighings: {json.dumps(state):.100}")
        for pans in weighings:
            numbers = [number for pan in pans for number in pan]
            balanced = len(pans) == 2 and len(pans[0]) == len(pans[1]) > 0 and len(set(numbers)) == len(numbers)
            if not balanced or not all(type(number) is int and 1 <= number <= coins for number in numbers):
                raise ValueError(f"no weighing of {coins}: {pans!r:.100}")
        self.weighings, self.named = [(list(left), list(right)) for left, right in weighings], named

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Return whether an answer was given."""
        return bool(state["named"])


def weighing(left: Sequence[int], right: Sequence[int]) -> str:
    """Return the action that weighs these coins."""
    return f"weigh[{' '.join(map(str, left))} | {' '.join(map(str, right))}]"
