"""AgentErrand-v0: one knows what to buy, the other is in the shop."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import combinations
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

from agentgym_envs.errand.wording import REQUESTS
from agentgym_envs.things import ATTRIBUTES, Thing, draw_things, list_things, name_of, name_or_count
from agentgym_py.env import function_tool, text_parameter
from agentgym_py.env.generated import Draft
from agentgym_py.env.types import TINY_WORLDS_DEFAULTS
from agentgym_py.env.wording import expand
from agentgym_py.multiagent import Game, MultiAgentEnv
from agentgym_py.rng import Rng

CLIENT, SHOPPER = "client", "shopper"
AGAIN, ANY = "again", "any"
NOTE_COST = 0.02
"""What a note costs its writer."""
_WORD = re.compile(r"[^\W\d_]{1,24}")
"""A run of letters: a hyphen would make one word of all needs."""
_SIZES: Mapping[str, tuple[tuple[int, int, int, int], int, int]] = {
    "easy": ((2, 3, 2, 3), 10, 4),
    "medium": ((3, 3, 3, 4), 18, 2),
    "hard": ((4, 4, 4, 6), 30, 1),
}
"""Values of the attributes, products in the shop, and words of a note, by difficulty."""


class Order(NamedTuple):
    """The shop's products, the one that fits, and what the client needs of it."""

    request: str
    products: tuple[Thing, ...]
    target: Thing
    needs: tuple[str, ...]
    """The attributes that the client cares about, in the order of a request."""
    words: int
    """Longest note."""


class Errand(Game):
    """An episode: the client writes a note, the shopper writes one or buys, and so on."""

    def __init__(self, order: Order) -> None:
        super().__init__(CLIENT)
        self.order = order
        self.values = {
            word: attribute
            for place, attribute in enumerate(ATTRIBUTES)
            for word in sorted({product[place] for product in order.products})
        }
        self.names = {name_of(product): product for product in order.products}
        self.said: dict[str, str] = {}
        """What the client has said since the last `again`, by attribute."""
        self.indifferent: set[str] = set()
        """Attributes of which the client has said `any`."""
        self.asked = ""
        """The attribute that the shopper's last note asks about."""
        words = f"{order.words} word{'s' * (order.words > 1)}"
        self.tell(CLIENT, f"{order.request}\nWrite a note of at most {words} to the shopper.")
        self.tell(SHOPPER, f"The shop has:\n{list_things(order.products)}\nA note has at most {words}.")

    def move(self, name: str, argument: str) -> str:
        """Write a note, or buy."""
        argument = argument.lower()
        if name == "buy" and self.turn == SHOPPER:
            if argument not in self.names:
                return "Not a product: write the whole name of a product of the shop."
            self._buy(self.names[argument])
            return ""
        if name != "say":
            return f"Not an action: write say[note]{' or buy[product]' * (self.turn == SHOPPER)}."
        words = _WORD.findall(argument)
        if not 1 <= len(words) <= self.order.words:
            most = self.order.words
            needed = f"1 to {most} words" if most > 1 else "1 word"
            return f"Not a note: it needs {needed}, and this has {len(words)}."
        self._hear(words)
        other = SHOPPER if self.turn == CLIENT else CLIENT
        self.tell(other, f"The {self.turn} writes: {' '.join(words)}")
        self.pay(self.turn, -NOTE_COST)
        self.turn = other
        return ""

    def _hear(self, words: list[str]) -> None:
        """Take down what a note says."""
        if self.turn == SHOPPER:
            if AGAIN in words:
                self._forget()
            self.asked = next((word for word in words if word in ATTRIBUTES), "")
            return
        for word in words:
            if word == AGAIN:
                self._forget()
            elif word == ANY and self.asked:
                self.indifferent.add(self.asked)
            elif word in self.values:
                self.said[self.values[word]] = word
        self.asked = ""

    def _forget(self) -> None:
        self.said.clear()
        self.indifferent.clear()

    def _buy(self, product: Thing) -> None:
        needs = self._needs
        met = sum(value in product for value in needs.values()) / len(needs)
        for role in (CLIENT, SHOPPER):
            self.pay(role, met)
            self.tell(role, f"Bought: {name_of(product)}. It meets {met:.0%} of the needs.")
        self.end(success=met == 1)

    @property
    def _needs(self) -> dict[str, str]:
        return {attribute: self.order.target[ATTRIBUTES.index(attribute)] for attribute in self.order.needs}

    def _fitting(self, said: Mapping[str, str]) -> list[Thing]:
        return [product for product in self.order.products if all(word in product for word in said.values())]

    def actions(self, role: str) -> list[str]:
        """List notes of one word, and all purchases."""
        notes = [f"say[{word}]" for word in (*(ATTRIBUTES if role == SHOPPER else (*self.values, ANY)), AGAIN)]
        return notes if role == CLIENT else notes + [f"buy[{name}]" for name in self.names]

    def expert_move(self, role: str) -> str:
        """Buy what fits; write the note after which a fair shopper needs the fewest further notes to buy it."""
        if role == SHOPPER:
            return f"buy[{name_of(self.order.target)}]"
        return f"say[{self._best_note()}]"

    def fair_move(self, role: str) -> str:
        """Buy when one product fits, else ask; say what was asked for, then the other needs."""
        if role == CLIENT:
            return self._fair_note()
        products = self._fitting(self.said)
        if len(products) == 1:
            return f"buy[{name_of(products[0])}]"
        counts = {
            attribute: len({product[place] for product in products})
            for place, attribute in enumerate(ATTRIBUTES)
            if attribute not in self.indifferent
        }
        best = max(counts, key=lambda attribute: counts[attribute], default="")
        return f"say[{best}]" if counts.get(best, 0) > 1 else f"say[{AGAIN}]"

    def _fair_note(self) -> str:
        """Return the client's note with the need that was asked for; other needs are in the order of the request."""
        needs = self._needs
        if any(needs.get(attribute) != word for attribute, word in self.said.items()):
            return f"say[{AGAIN}]"
        unsaid = {attribute: word for attribute, word in needs.items() if attribute not in self.said}
        if not unsaid or (self.order.words == 1 and self.asked and self.asked not in needs):
            return f"say[{needs.get(self.asked, ANY) if self.asked else needs['kind']}]"
        choices = map(dict, combinations(unsaid.items(), min(self.order.words, len(unsaid))))
        return f"say[{' '.join(min(choices, key=lambda note: self.asked not in note).values())}]"

    def _best_note(self) -> str:
        """Return the first of the fewest notes that make a fair shopper buy the target: a breadth-first search.

        Words of other products, `any` and a wrong purchase never save a note. An exact shopper buys after any note.
        """
        goal, seen = self.expert_move(SHOPPER), set[tuple[frozenset[tuple[str, str]], frozenset[str]]]()
        queue = deque([(self, "")])
        while True:  # again and all words of the target always lead there
            game, first = queue.popleft()
            for note in game._true_notes():
                after, answer = game._answered(note)
                if answer == goal:
                    return first or note
                state = frozenset(after.said.items()), frozenset(after.indifferent)
                if answer.startswith("say") and state not in seen:
                    seen.add(state)
                    queue.append((after, first or note))

    def _true_notes(self) -> list[str]:
        """List notes of the target's unsaid words, some after `again`; those that leave the fewest products first.

        Then those of needs, and of more words.
        """
        order, notes = self.order, list[tuple[tuple[int, bool, int, int], str]]()
        target = dict(zip(ATTRIBUTES, order.target, strict=True))
        for again in (False, True) if self.said or self.indifferent else (False,):
            said = {} if again else self.said
            unsaid = [attribute for attribute in ATTRIBUTES if said.get(attribute) != target[attribute]]
            for count in range(1 - again, min(order.words - again, len(unsaid)) + 1):
                for chosen in combinations(unsaid, count):
                    words = {attribute: target[attribute] for attribute in chosen}
                    left = len(self._fitting(said | words)) or len(order.products) + 1
                    others = sum(attribute not in order.needs for attribute in chosen)
                    notes.append(((left, again, others, -count), " ".join([*[AGAIN] * again, *words.values()])))
        return [note for _, note in sorted(notes, key=itemgetter(0))]

    def _answered(self, note: str) -> tuple[Errand, str]:
        """Return the game after a note of the client and the fair shopper's answer, and that answer."""
        after = copy(self)
        after.said, after.indifferent = dict(self.said), set(self.indifferent)
        after.turn = CLIENT
        after._hear(note.split())
        after.turn = SHOPPER
        answer = after.fair_move(SHOPPER)
        after._hear(answer[len("say[") : -1].split())
        return after, answer

    def thought(self, role: str, action: str) -> str:
        """Say what the notes said and which products fit; say what is needed."""
        if action != self.fair_move(role):
            return ""
        if role == CLIENT:
            return f"I need: {', '.join(self._needs.values())}."
        said, fitting = " ".join(self.said.values()), self._fitting(self.said)
        fits = f"{name_or_count(fitting, 'product')} fit{'s' * (len(fitting) == 1)}."
        return f"{said[0].upper()}{said[1:]}: {fits}" if said else fits

    def secrets(self, role: str) -> list[str]:
        """Return the list of products, which the client does not see."""
        return [list_things(self.order.products)] if role == CLIENT else []


class ErrandEnv(MultiAgentEnv[Order]):
    """AgentErrand-v0: buy by notes what another one wants.

    A game of two roles.

    Task: the `client` knows what is needed, such as a red spoon. The `shopper` sees the products of a shop, such as
    `small red wooden spoon`, of which exactly one fits. They write notes to each other in turns, and the client begins.
    An agent plays `role`, a partner the other one.

    | difficulty | products | words of a note | limit |
    |---|--:|--:|--:|
    | easy | 10 | 4 | 12 |
    | medium | 18 | 2 | 16 |
    | hard | 30 | 1 | 24 |

    Actions: `say[red spoon]` writes a note; the shopper may also `buy[small red wooden spoon]`. The same as tools. The
    experts of both roles understand some words. The client says words of products; `any` if an attribute that was asked
    for does not matter. The shopper asks for `size`, `colour`, `material` or `kind`. `again` of either side makes all
    earlier notes void.

    Observation: the client sees the request, the shopper the products; then each sees the other's notes.

    Reward: on a purchase both roles get the share of the needs that the product meets; each note costs its writer 0.02.
    `success` is a product that meets all needs.

    End: a purchase terminates. `max_steps` (12, 16, 24) truncates; it counts the role's own moves.

    Luck: a random purchase is right once in 10, 18 or 30 products, and random notes also lead to one, so
    `random_baseline` is above 5 %.

    Splits: each has its own words and its own wordings; three of ten kinds of things in training are made-up words.

    Experts: the exact shopper buys what fits at once; the fair one buys when one product fits the notes, and else asks
    for the attribute that differs most. The exact client knows the product: with a fair shopper no other notes lead to
    its purchase sooner, and with an exact one the first note does. The fair client says what was asked for, then the
    other needs.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        role: `client` (the default) or `shopper`.
        partner: Agent of the other role: `fair`, `expert` or `random`.
        partner_model: Folder of a checkpoint that plays it instead, frozen and greedy.
        max_steps: Limit on the role's own moves; by default as above.
        split: Where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    Registered ids: AgentErrand-v0.
    """

    name: ClassVar[str] = "errand"
    version: ClassVar[int] = 3
    roles: ClassVar[tuple[str, ...]] = (CLIENT, SHOPPER)
    max_return: ClassVar[float | None] = 1.0
    evolve_defaults: ClassVar[Mapping[str, Any]] = {**TINY_WORLDS_DEFAULTS, "select.threshold": 0.0}
    limits: ClassVar[Mapping[str, int]] = {"easy": 12, "medium": 16, "hard": 24}
    role_baselines: ClassVar[Mapping[str, Mapping[str, float]]] = {
        CLIENT: {"easy": 0.2, "medium": 0.15, "hard": 0.1},
        SHOPPER: {"easy": 0.15, "medium": 0.1, "hard": 0.08},
    }
    role_rules: ClassVar[Mapping[str, Mapping[str, str]]] = {
        CLIENT: {
            "full": (
                "Another one is in a shop and buys for you. You do not see the shop: write what you need in short "
                "notes, such as say[red spoon]. The shopper may ask for size, colour, material or kind; answer with a "
                "word, or with any. The word again makes all earlier notes void.\n"
                "Answer in this form:\nThought: why\nAction: say[note]"
            ),
            "brief": "Write to the shopper what to buy: say[note].",
            "none": "",
        },
        SHOPPER: {
            "full": (
                "You are in a shop and buy for another one, who writes notes. Buy what is needed: buy[small red wooden "
                "spoon]. If several products fit, ask for size, colour, material or kind: say[colour]. The word again "
                "makes all earlier notes void.\n"
                "Answer in this form:\nThought: why\nAction: buy[product]"
            ),
            "brief": "Buy what the client needs: say[colour] asks, buy[product] buys.",
            "none": "",
        },
    }

    def draft(self, rng: Rng, split: str) -> Draft[Order]:
        """Draw the products, the one that is wanted, and needs that single it out; without one of them, more fit."""
        shape, number, words = _SIZES[self.difficulty]
        products = draw_things(rng, split, shape, number)
        target = rng.choice(products)
        needs = ["kind"]
        for place in rng.sample(range(3), 3):
            if len(_sharing(products, target, needs)) > 1:
                needs.append(ATTRIBUTES[place])
        for attribute in needs[1:-1]:  # one that came later may have made it redundant
            if len(_sharing(products, target, [need for need in needs if need != attribute])) == 1:
                needs.remove(attribute)
        needs.sort(key=ATTRIBUTES.index)
        wanted = " ".join(target[ATTRIBUTES.index(attribute)] for attribute in needs)
        article = "an" if wanted[0] in "aeiou" else "a"
        request = expand(rng, rng.choice(REQUESTS[split])).format(f"{article} {wanted}")
        request = request[0].upper() + request[1:]
        return Draft(request, Order(request, products, target, tuple(needs), words), f"{len(needs)} needs")

    def game(self, puzzle: Order) -> Game:
        """Return the game of an order."""
        return Errand(puzzle)

    def tools(self) -> list[dict[str, Any]]:
        """Return `say(note)`, and for the shopper `buy(product)`."""
        say = function_tool("say", "Write a note.", {"note": text_parameter("The note.")})
        buy = function_tool("buy", "Buy a product.", {"product": text_parameter("The product's whole name.")})
        return [say, buy] if self.role == SHOPPER else [say]

    def call_forms(self) -> Mapping[str, str]:
        """See `TextEnv.call_forms`."""
        return {"say": "say[{note}]", "buy": "buy[{product}]"}


def _sharing(products: Sequence[Thing], target: Thing, attributes: Sequence[str]) -> list[Thing]:
    """The products that have the target's values of some attributes."""
    places = [ATTRIBUTES.index(attribute) for attribute in attributes]
    return [product for product in products if all(product[place] == target[place] for place in places)]
