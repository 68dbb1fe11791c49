"""OddCoin-v0: one coin of many is heavier; a balance finds it."""

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
_SEEN = {1: "The left pan goes down.", -1: "The right pan goes down.", 0: "The pans balance."}
_NUMBERS = re.compile(r"[0-9 |]{1,2000}")


@dataclass(frozen=True, slots=True)
class Puzzle:
    """What a seed draws."""

    coins: int
    odd: int
    """Number of the heavier one, from 1."""
    thing: str


class OddCoin(GeneratedEnv[Puzzle]):
    """OddCoin-v0. Task: find the one coin that is heavier than the others, with as few weighings as possible.

    Actions: `weigh[1 2 3 | 4 5 6]` puts coins on the two pans of a balance, as many on each; `name[5]` is the answer.

    Observation: which pan goes down, or what is wrong with the action. Reward: 1 for the right coin, less 0.02 for each
    weighing before it. End: at the first answer, right or wrong, or after 20 steps.

    24, 60 or 150 coins (easy, medium, hard). What is weighed is another kind of thing in each split, so that no
    instruction stands in two. Who names a coin without weighing is right by luck, in 1 of 24 at best.

    The expert knows the coin: one action is shortest. The fair expert weighs thirds of what is left.
    """

    name: ClassVar[str] = "oddcoin"
    limits: ClassVar[Mapping[str, int]] = dict.fromkeys(COINS, 20)
    rules: ClassVar[Mapping[str, str]] = {
        "full": "One of them is heavier. Write weigh[1 2 3 | 4 5 6] to put some on each pan, as many on the one as on "
        "the other; the heavier pan goes down. Write name[5] when you know which one it is: you can do so once.",
        "brief": "weigh[1 2 | 3 4] compares, name[5] answers, once.",
        "none": "",
    }

    named = 0  # there before the first reset, so that what needs one says so

    def draft(self, rng: Rng, split: str) -> Draft[Puzzle]:
        """A number of things, near that of the difficulty, one of them heavier."""
        coins = COINS[self.difficulty] + rng.below(7)
        puzzle = Puzzle(coins, 1 + rng.below(coins), rng.choice(THINGS[split]))
        text = f"There are {coins} {puzzle.thing}s, numbered from 1. One {puzzle.thing} is heavier. Which one?"
        return Draft(text, puzzle, "find", 1)

    def begin(self, task: Task) -> str:
        """Any of them may be it."""
        self.weighings: list[tuple[list[int], list[int]]] = []
        self.named = 0
        return task.instruction

    def act(self, reply: Reply) -> Outcome:
        """Weigh or name."""
        if reply.name not in ("weigh", "name") or not _NUMBERS.fullmatch(reply.argument or ""):
            return Outcome(self.rules["brief"], valid=False)
        pans = [[int(each) for each in pan.split()] for pan in (reply.argument or "").split("|")]
        return self._name(pans) if reply.name == "name" else self._weigh(pans)

    def _name(self, pans: Sequence[list[int]]) -> Outcome:
        if len(pans) != 1 or len(pans[0]) != 1 or not 1 <= pans[0][0] <= self.puzzle.coins:
            return Outcome(f"Name one number from 1 to {self.puzzle.coins}, as name[5].", valid=False)
        self.named = pans[0][0]
        if self.named != self.puzzle.odd:
            return Outcome("No, that one weighs what the others do.", terminated=True)
        cost = 0.02 * len(self.weighings)
        return Outcome("Yes.", 1.0 - cost, terminated=True, success=True, parts={"right": 1.0, "weighings": -cost})

    def _weigh(self, pans: Sequence[list[int]]) -> Outcome:
        wrong = self._wrong(pans)
        if wrong:
            return Outcome(wrong, valid=False)
        left, right = pans
        self.weighings.append((left, right))
        return Outcome(_SEEN[self._side(left, right)])

    def _wrong(self, pans: Sequence[list[int]]) -> str:
        """Why these pans cannot be weighed, or nothing."""
        if len(pans) != 2 or len(pans[0]) != len(pans[1]) or not pans[0]:
            return "Put as many on the one pan as on the other, as weigh[1 2 | 3 4]."
        on_them = [*pans[0], *pans[1]]
        if not all(1 <= each <= self.puzzle.coins for each in on_them):
            return f"They are numbered from 1 to {self.puzzle.coins}."
        return "" if len(set(on_them)) == len(on_them) else "Put each of them on one pan, once."

    def _side(self, left: Sequence[int], right: Sequence[int]) -> int:
        return (self.puzzle.odd in left) - (self.puzzle.odd in right)

    def suspects(self) -> list[int]:
        """Those that may be it, after what was weighed."""
        left_over = set(range(1, self.puzzle.coins + 1))
        for left, right in self.weighings:
            side = self._side(left, right)
            if side:
                left_over &= set(left if side > 0 else right)
            else:
                left_over -= {*left, *right}
        return sorted(left_over)

    def expert(self) -> list[str]:
        """Knows it."""
        return [] if self.named else [f"name[{self.puzzle.odd}]"]

    def fair_expert(self) -> str | None:
        """Weighs a third of the suspects against another."""
        if self.named:
            return None
        suspects = self.suspects()
        third = (len(suspects) + 1) // 3
        return weighing(suspects[:third], suspects[third : 2 * third]) if third else f"name[{suspects[0]}]"

    def secrets(self) -> list[str]:
        """The phrase that would give it away: a bare number stands in every weighing."""
        return [f"name[{self.puzzle.odd}]"]

    def actions(self) -> list[str]:
        """Every answer, and some weighings: of neighbours, and of the first two thirds."""
        if self.named:
            return []
        coins = self.puzzle.coins
        pairs = [weighing([n], [n + 1]) for n in range(1, coins, 2)]
        third = list(range(1, coins // 3 + 1))
        halves = weighing(third, [each + len(third) for each in third])
        return [*(f"name[{n}]" for n in range(1, coins + 1)), *pairs, halves]

    def state(self) -> dict[str, Any]:
        """What was weighed and named."""
        return {"weighings": [list(pans) for pans in self.weighings], "named": self.named}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Take it up."""
        coins = self.puzzle_of(task).coins
        weighings, named = state["weighings"], state["named"]
        if type(named) is not int or not 0 <= named <= coins or type(weighings) is not list:
            raise ValueError(f"not a number of one of {coins}, and weighings: {json.dumps(state):.100}")
        for pans in weighings:
            on_them = [each for pan in pans for each in pan]
            alike = len(pans) == 2 and len(pans[0]) == len(pans[1]) > 0 and len(set(on_them)) == len(on_them)
            if not alike or not all(type(each) is int and 1 <= each <= coins for each in on_them):
                raise ValueError(f"no weighing of {coins}: {pans!r:.100}")
        self.weighings, self.named = [(list(left), list(right)) for left, right in weighings], named

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Whether an answer was given."""
        return bool(state["named"])


def weighing(left: Sequence[int], right: Sequence[int]) -> str:
    """The action that weighs these."""
    return f"weigh[{' '.join(map(str, left))} | {' '.join(map(str, right))}]"
