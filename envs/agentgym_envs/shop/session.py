"""A shopping session: the open page, and the effect of a search or a click."""

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
class Session:
    """The state of an episode beside its task, as snapshots hold it."""

    place: Place = "search"
    query: str = ""
    number: int = 1
    """The page of the results, from 1."""
    asin: str = ""
    chosen: dict[str, str] = field(default_factory=dict)
    """Option name to its chosen value."""
    seen: list[str] = field(default_factory=list)
    """Products opened since the search page was last open."""
    salt: int = 0
    """Seed of the random results of WebShop's query `<r>`; strict mode only."""
    reward: float = 0.0
    """The reward of the last purchase."""

    def to_json(self) -> dict[str, Any]:
        """Return the session as JSON values."""
        return {name: getattr(self, name) for name in _KINDS}

    def restart(self) -> None:
        """Return to the search page."""
        self.place, self.query, self.number, self.asin, self.chosen, self.seen = "search", "", 1, "", {}, []


_KINDS: Mapping[str, type] = {
    "place": str, "query": str, "number": int, "asin": str, "chosen": dict, "seen": list, "salt": int, "reward": float,
}  # fmt: skip
"""Field to its type in a snapshot, in the order of the fields."""
_TYPES = list(_KINDS.values())


@lru_cache(maxsize=50_000)
def choices(product: Product) -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Map each text that chooses an option to the (name, value) pairs that it may mean, in page order.

    A value alone works unless a button has the same name; `name: value` always works. Blank values are skipped.
    """
    pairs = [(name, value) for name, values in product.options.items() for value in values if normalize(value)]
    by_value: dict[str, tuple[tuple[str, str], ...]] = {}
    for name, value in dict.fromkeys(pairs):
        bare = normalize(value)
        if bare not in ITEM_BUTTONS:
            by_value[bare] = (*by_value.get(bare, ()), (name, value))
    return {**by_value, **{normalize(f"{name}: {value}"): ((name, value),) for name, value in pairs}}


def shortest_choice(product: Product, name: str, value: str) -> str:
    """Return what to click for an option: its value if that is unambiguous, else `name: value`."""
    bare = normalize(value)
    return bare if choices(product).get(bare) == ((name, value),) else normalize(f"{name}: {value}")


@lru_cache(maxsize=50_000)
def item_clickables(product: Product) -> tuple[str, ...]:
    """List everything clickable on a product's page."""
    pairs = ((name, value) for name, values in product.options.items() for value in values if normalize(value))
    return tuple(dict.fromkeys((*ITEM_BUTTONS, *(shortest_choice(product, *pair) for pair in pairs))))


def normalize(text: str) -> str:
    """Lower the case and collapse whitespace."""
    return " ".join(text.lower().split())


def as_query(text: str) -> str:
    """Turn a text into a query that every action parser accepts."""
    return normalize(text.replace("[", " ").replace("]", " "))


class Moves:
    """WebShop's pages and buttons with its bugs fixed; `original.StrictMoves` keeps them.

    `search` and `click` change the session and return "", or change nothing and return an error message.
    """

    strict = False
    places: tuple[Place, ...] = ("search", "results", "item", *SUB_PAGES, "done")
    """The kinds of pages."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    def load_session(self, values: Mapping[str, Any]) -> Session:
        """Rebuild a session from `Session.to_json`; KeyError, TypeError or ValueError if it is impossible here."""
        fields = [values[name] for name in _KINDS]
        if list(map(type, fields)) != _TYPES:
            name = next(name for name, kind in _KINDS.items() if type(values[name]) is not kind)
            raise TypeError(f"{name!r} must be a {_KINDS[name].__name__}, found {values[name]!r}")
        session = Session(*fields)
        invalid = self._invalid_field(session)
        if invalid:
            raise ValueError(f"{invalid!r} cannot be {getattr(session, invalid)!r} here")
        return session

    def _invalid_field(self, session: Session) -> str:
        """Return the first field of a session that is impossible in this shop, or ""."""
        by_asin = self.catalogue.by_asin
        if session.place not in self.places:
            return "place"
        if not self.strict and not 1 <= session.number <= self.page_count(session):  # WebShop's lead beyond
            return "number"
        if session.asin not in by_asin if session.place not in ("search", "results") else session.asin:
            return "asin"
        options = by_asin[session.asin].options if session.asin else {}
        if session.chosen and any(value not in options.get(name, ()) for name, value in session.chosen.items()):
            return "chosen"
        if session.seen and not all(type(asin) is str and asin in by_asin for asin in session.seen):
            return "seen"
        return "" if math.isfinite(session.reward) else "reward"

    def hits(self, session: Session) -> tuple[Product, ...]:
        """Return all products of the last search."""
        return self.catalogue.search(session.query)

    def page_products(self, session: Session) -> tuple[Product, ...]:
        """Return the products on the current page of results."""
        return self.hits(session)[(session.number - 1) * PAGE_SIZE : session.number * PAGE_SIZE]

    def page_count(self, session: Session) -> int:
        """Count the pages of results."""
        return max(1, -(-len(self.hits(session)) // PAGE_SIZE))

    def product(self, session: Session) -> Product:
        """Return the product whose page or sub-page is open."""
        return self.catalogue.by_asin[session.asin]

    def clickables(self, session: Session) -> list[str]:
        """List the clickable names, lower-cased, in WebShop's order."""
        if session.place == "search":
            return ["search"]
        if session.place == "results":
            prev = [PREV] if session.number > 1 else []
            next_ = [NEXT] if session.number < self.page_count(session) else []
            return [BACK, *prev, *next_, *(product.asin.lower() for product in self.page_products(session))]
        if session.place == "item":
            return list(item_clickables(self.product(session)))
        return [] if session.place == "done" else [BACK, PREV]

    def option_click(self, product: Product, name: str, value: str) -> str | None:
        """Return what to click for an option, or None if it cannot be chosen."""
        return shortest_choice(product, name, value) if normalize(value) else None

    def can_go_back(self, session: Session) -> bool:
        """Tell whether `< prev` leads to the previous page."""
        return session.place not in ("search", "done")

    def search(self, session: Session, query: str) -> str:
        """Search for words; only the search page has a search box."""
        if session.place != "search":
            return f"No search here; click[{BACK}] first."
        words = normalize(query)[:_LONGEST_QUERY]
        if not words:
            return "Search for what? Write search[words]."
        session.place, session.query, session.number = "results", words, 1
        return ""

    def click(self, session: Session, target: str) -> str:
        """Click `target` on the current page."""
        name = normalize(target)
        if session.place == "search":
            return "Write search[words] to search."
        if name == BACK:
            session.restart()
            return ""
        if session.place == "results":
            return self._click_results(session, name)
        if session.place == "item":
            return self._click_item(session, name)
        if name == PREV:
            session.place = "item"
            return ""
        return no_such_target(target)

    def _click_results(self, session: Session, target: str) -> str:
        if target == NEXT:
            if session.number >= self.page_count(session):
                return "This is the last page."
            session.number += 1
            return ""
        if target == PREV and session.number > 1:
            session.number -= 1
            return ""
        for product in self.page_products(session):
            if product.asin.lower() == target:
                session.place, session.asin, session.chosen = "item", product.asin, {}
                session.seen = [*session.seen, product.asin] if product.asin not in session.seen else session.seen
                return ""
        return no_such_target(target)

    def _click_item(self, session: Session, target: str) -> str:
        if target == BUY:
            session.place = "done"
            return ""
        if target == PREV:
            session.place, session.asin, session.chosen = "results", "", {}
            return ""
        for page in SUB_PAGES:
            if target == page:
                session.place = page
                return ""
        options = choices(self.product(session)).get(target, ())
        if len(options) > 1:
            return "Which one? " + " or ".join(f"click[{name}: {value}]" for name, value in options)
        if not options:
            return no_such_target(target)
        name, value = options[0]
        session.chosen = {**session.chosen, name: value}
        return ""


def no_such_target(target: str) -> str:
    """Return the error for a click on a missing target."""
    return f"Nothing to click called '{target[:60]}' here."
