"""One customer's walk through the shop: where they stand, and what an action does there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from agentgym_envs.shop.catalogue import PAGE_SIZE, Catalogue, Product

Place = Literal["search", "results", "item", "description", "features", "reviews", "attributes", "done"]
BACK, PREV, NEXT, BUY = "back to search", "< prev", "next >", "buy now"
SUB_PAGES: tuple[Place, ...] = ("description", "features", "reviews")
ITEM_BUTTONS = (BACK, PREV, *SUB_PAGES, BUY)
_LONGEST_QUERY = 1000


@dataclass(slots=True)
class Visit:
    """Everything of an episode that a snapshot must hold beside the task."""

    place: Place = "search"
    query: str = ""
    number: int = 1
    """The page of the results."""
    asin: str = ""
    chosen: dict[str, str] = field(default_factory=dict)
    """Option name to the value that is chosen."""
    seen: list[str] = field(default_factory=list)
    """Products opened since the search page was last shown."""
    salt: int = 0
    """Seed of the random results of WebShop's query `<r>`; strict mode only."""
    reward: float = 0.0
    """What the last purchase was worth."""

    def to_json(self) -> dict[str, Any]:
        """The visit as JSON values."""
        return {name: getattr(self, name) for name in _KINDS}


_KINDS: Mapping[str, type] = {
    "place": str, "query": str, "number": int, "asin": str, "chosen": dict, "seen": list, "salt": int, "reward": float,
}  # fmt: skip
"""The fields in their order, and their types in a snapshot."""
_TYPES = list(_KINDS.values())


@lru_cache(maxsize=50_000)
def choices(product: Product) -> Mapping[str, tuple[tuple[str, str], ...]]:
    """What can be written to choose an option, and the (name, value) pairs that it may mean, in page order.

    A value stands for itself unless a button has the same name; `name: value` always works. A blank value is none.
    """
    pairs = [(name, value) for name, values in product.options.items() for value in values if plain(value)]
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for name, value in dict.fromkeys(pairs):
        bare = plain(value)
        if bare not in ITEM_BUTTONS:
            found[bare] = (*found.get(bare, ()), (name, value))
    return {**found, **{plain(f"{name}: {value}"): ((name, value),) for name, value in pairs}}


def shortest_choice(product: Product, name: str, value: str) -> str:
    """What to click for an option: its value where that is clear, else `name: value`."""
    bare = plain(value)
    return bare if choices(product).get(bare) == ((name, value),) else plain(f"{name}: {value}")


@lru_cache(maxsize=50_000)
def item_clickables(product: Product) -> tuple[str, ...]:
    """Everything clickable on a product's page."""
    pairs = ((name, value) for name, values in product.options.items() for value in values if plain(value))
    return tuple(dict.fromkeys((*ITEM_BUTTONS, *(shortest_choice(product, *pair) for pair in pairs))))


def plain(text: str) -> str:
    """Lower case, single spaces."""
    return " ".join(text.lower().split())


def searchable(text: str) -> str:
    """A text as a query that every way of reading actions understands."""
    return plain(text.replace("[", " ").replace("]", " "))


class Moves:
    """WebShop's pages and buttons with its slips mended; `original.StrictMoves` keeps them.

    `search` and `click` change the visit and return "", or change nothing and return what is wrong.
    """

    strict = False
    places: tuple[Place, ...] = ("search", "results", "item", *SUB_PAGES, "done")
    """Where a customer can stand."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    def checked(self, values: Mapping[str, Any]) -> Visit:
        """The visit of `Visit.to_json`'s values; KeyError, TypeError or ValueError where they are no visit here."""
        given = [values[name] for name in _KINDS]
        if list(map(type, given)) != _TYPES:
            name = next(name for name, kind in _KINDS.items() if type(values[name]) is not kind)
            raise TypeError(f"{name!r} must be a {_KINDS[name].__name__}, found {values[name]!r}")
        visit = Visit(*given)
        wrong = self._impossible(visit)
        if wrong:
            raise ValueError(f"{wrong!r} cannot be {getattr(visit, wrong)!r} here")
        return visit

    def _impossible(self, visit: Visit) -> str:
        """The first field of a visit that cannot be so in this shop, or nothing."""
        known = self.catalogue.by_asin
        if visit.place not in self.places:
            return "place"
        if not self.strict and not 1 <= visit.number <= self.pages(visit):  # WebShop's buttons can lead beyond both
            return "number"
        if visit.asin not in known if visit.place not in ("search", "results") else visit.asin:
            return "asin"
        options = known[visit.asin].options if visit.asin else {}
        if visit.chosen and any(value not in options.get(name, ()) for name, value in visit.chosen.items()):
            return "chosen"
        if visit.seen and not all(type(asin) is str and asin in known for asin in visit.seen):
            return "seen"
        return "" if math.isfinite(visit.reward) else "reward"

    def hits(self, visit: Visit) -> tuple[Product, ...]:
        """Everything that the last search found."""
        return self.catalogue.search(visit.query)

    def shown(self, visit: Visit) -> tuple[Product, ...]:
        """The products on the current page of results."""
        return self.hits(visit)[(visit.number - 1) * PAGE_SIZE : visit.number * PAGE_SIZE]

    def pages(self, visit: Visit) -> int:
        """How many pages of results there are."""
        return max(1, -(-len(self.hits(visit)) // PAGE_SIZE))

    def product(self, visit: Visit) -> Product:
        """The product whose page or sub-page is open."""
        return self.catalogue.by_asin[visit.asin]

    def clickables(self, visit: Visit) -> list[str]:
        """What can be clicked, lower-cased, in WebShop's order."""
        if visit.place == "search":
            return ["search"]
        if visit.place == "results":
            prev = [PREV] if visit.number > 1 else []
            next_ = [NEXT] if visit.number < self.pages(visit) else []
            return [BACK, *prev, *next_, *(product.asin.lower() for product in self.shown(visit))]
        if visit.place == "item":
            return list(item_clickables(self.product(visit)))
        return [] if visit.place == "done" else [BACK, PREV]

    def option_click(self, product: Product, name: str, value: str) -> str | None:
        """What to click for an option, or None where there is no way to choose it."""
        return shortest_choice(product, name, value) if plain(value) else None

    def can_go_back(self, visit: Visit) -> bool:
        """Whether `< prev` leads where it should."""
        return visit.place not in ("search", "done")

    def search(self, visit: Visit, query: str) -> str:
        """Search for words; only the search page has a box for them."""
        if visit.place != "search":
            return f"No search here; click[{BACK}] first."
        words = plain(query)[:_LONGEST_QUERY]
        if not words:
            return "Search for what? Write search[words]."
        visit.place, visit.query, visit.number = "results", words, 1
        return ""

    def click(self, visit: Visit, target: str) -> str:
        """Click what is called `target` on the current page."""
        wanted = plain(target)
        if visit.place == "search":
            return "Write search[words] to search."
        if wanted == BACK:
            visit.place, visit.query, visit.number, visit.asin, visit.chosen, visit.seen = "search", "", 1, "", {}, []
            return ""
        if visit.place == "results":
            return self._click_results(visit, wanted)
        if visit.place == "item":
            return self._click_item(visit, wanted)
        if wanted == PREV:
            visit.place = "item"
            return ""
        return nothing_called(target)

    def _click_results(self, visit: Visit, wanted: str) -> str:
        if wanted == NEXT:
            if visit.number >= self.pages(visit):
                return "This is the last page."
            visit.number += 1
            return ""
        if wanted == PREV and visit.number > 1:
            visit.number -= 1
            return ""
        for product in self.shown(visit):
            if product.asin.lower() == wanted:
                visit.place, visit.asin, visit.chosen = "item", product.asin, {}
                visit.seen = [*visit.seen, product.asin] if product.asin not in visit.seen else visit.seen
                return ""
        return nothing_called(wanted)

    def _click_item(self, visit: Visit, wanted: str) -> str:
        if wanted == BUY:
            visit.place = "done"
            return ""
        if wanted == PREV:
            visit.place, visit.asin, visit.chosen = "results", "", {}
            return ""
        for page in SUB_PAGES:
            if wanted == page:
                visit.place = page
                return ""
        meant = choices(self.product(visit)).get(wanted, ())
        if len(meant) > 1:
            return "Which one? " + " or ".join(f"click[{name}: {value}]" for name, value in meant)
        if not meant:
            return nothing_called(wanted)
        visit.chosen = {**visit.chosen, meant[0][0]: meant[0][1]}
        return ""


def nothing_called(target: str) -> str:
    """The complaint about a click on what is not there."""
    return f"Nothing to click called '{target[:60]}' here."
