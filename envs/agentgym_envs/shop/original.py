"""WebShop's pages and buttons with every slip of the original, for `strict_compat=True`."""

from __future__ import annotations

import re
from dataclasses import replace

from agentgym_envs.shop.catalogue import HITS, Product
from agentgym_envs.shop.pages import url
from agentgym_envs.shop.session import (
    BACK,
    BUY,
    ITEM_BUTTONS,
    NEXT,
    PREV,
    SUB_PAGES,
    Moves,
    Place,
    Visit,
    nothing_called,
)
from agentgym_py.rng import Rng

_ACTION = re.compile(r"(.+)\[(.+)\]")
_OPENS_SUB_PAGE: dict[str, Place] = {**{str(name): name for name in SUB_PAGES}, "attributes": "attributes"}
_PAGE_NAMES = ("search_results", "item_page", "item_sub_page", "done")


def split_action(text: str) -> tuple[str, str]:
    """Name and lower-cased argument of an action as WebShop reads it; both empty if it is none."""
    found = _ACTION.match(text)
    return (found[1], found[2].lower()) if found else ("", "")


def page_name(where: str) -> str:
    """What WebShop takes a page for: the first page name that stands anywhere in its address, in the query too."""
    return next((name for name in _PAGE_NAMES if name in where), "")


class StrictMoves(Moves):
    """The original's rules: search works everywhere, Next has no end, an option may be mistaken for a button."""

    strict = True
    places = (*Moves.places, "attributes")

    def hits(self, visit: Visit) -> tuple[Product, ...]:
        """Everything that the last search found; `<r>`, `<a>`, `<c>` and `<q>` are WebShop's shortcuts for its authors.

        In the original `<a>` and a bare `<c>` crash; here they find the products of an attribute, and nothing.
        """
        lead, _, rest = visit.query.partition(" ")
        products, rest = self.catalogue.products, rest.strip()
        if lead == "<r>":
            return tuple(Rng("shop <r>", visit.salt).sample(products, min(HITS, len(products))))
        if lead == "<a>":
            return tuple(product for product in products if rest in product.attributes)
        if lead == "<c>":
            return tuple(product for product in products if product.category == rest.split(" ")[0])
        if lead == "<q>":
            return tuple(product for product in products if product.query == rest)
        return self.catalogue.search(visit.query)

    def clickables(self, visit: Visit) -> list[str]:
        """What can be clicked, in WebShop's order; of equal names the first gives the place."""
        if visit.place == "results":
            prev = [PREV] if visit.number > 1 else []
            return list(dict.fromkeys([BACK, *prev, NEXT, *(product.asin.lower() for product in self.shown(visit))]))
        if visit.place == "item":
            values = (value for values in self.product(visit).options.values() for value in values)
            return list(dict.fromkeys([*ITEM_BUTTONS, *values]))
        return super().clickables(visit)

    def search(self, visit: Visit, query: str) -> str:
        """Search for words, wherever the customer is, even after the end."""
        visit.place, visit.query, visit.number = "results", query, 1
        self._leave_item(visit)
        return ""

    def click(self, visit: Visit, target: str) -> str:
        """Click what is called `target`: the name decides what happens, whatever carries it."""
        if target == "search" or target not in self.clickables(visit):
            return nothing_called(target)
        here = page_name(url(visit, ""))
        if target == BUY:
            visit.place = "done"
        elif target == BACK:
            visit.place, visit.query, visit.number, visit.asin, visit.chosen, visit.seen = "search", "", 1, "", {}, []
        elif target in (NEXT, PREV) and here == "search_results":
            visit.place, visit.number = "results", visit.number + (1 if target == NEXT else -1)
            self._leave_item(visit)
        elif target == PREV and here == "item_page":
            visit.place = "results"
            self._leave_item(visit)
        elif target in _OPENS_SUB_PAGE:
            visit.place = _OPENS_SUB_PAGE[target]
        else:
            self._item_page(visit, target)
        return ""

    def _leave_item(self, visit: Visit) -> None:
        visit.asin, visit.chosen, visit.salt = "", {}, visit.salt + 1

    def _item_page(self, visit: Visit, target: str) -> None:
        if visit.place == "results":
            asin = next(product.asin for product in self.shown(visit) if product.asin.lower() == target)
            visit.asin, visit.place = asin, "item"
            visit.seen = [*visit.seen, asin] if asin not in visit.seen else visit.seen
            return
        if visit.place == "item":
            name = last_holder(self.product(visit), target)
            visit.chosen = {**visit.chosen, name: target} if name is not None else visit.chosen
        visit.place = "item"

    def can_go_back(self, visit: Visit) -> bool:
        """Not where the query holds the name of another page."""
        return page_name(url(visit, "")) == page_name(url(replace(visit, query=""), ""))

    def option_click(self, product: Product, name: str, value: str) -> str | None:
        """What to click for an option, or None where the original offers no way to choose it."""
        taken = value in ITEM_BUTTONS or value in _OPENS_SUB_PAGE or value == "search"
        unreadable = "[" in value or "\n" in value or not value
        return None if taken or unreadable or last_holder(product, value) != name else value


def last_holder(product: Product, value: str) -> str | None:
    """The last option that has a value: the only one that a click on it can reach."""
    return next((name for name in reversed(list(product.options)) if value in product.options[name]), None)
