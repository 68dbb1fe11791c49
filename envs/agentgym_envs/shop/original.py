"""WebShop's pages and buttons with every bug of the original, for `strict_compat=True`."""

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
    Session,
    no_such_target,
)
from agentgym_py.rng import Rng

_ACTION = re.compile(r"(.+)\[(.+)\]")
_OPENS_SUB_PAGE: dict[str, Place] = {**{str(name): name for name in SUB_PAGES}, "attributes": "attributes"}
_PAGE_NAMES = ("search_results", "item_page", "item_sub_page", "done")


def split_action(text: str) -> tuple[str, str]:
    """Split an action into name and lower-cased argument as WebShop does; both are empty if it is none."""
    match = _ACTION.match(text)
    return (match[1], match[2].lower()) if match else ("", "")


def page_name(where: str) -> str:
    """Return what WebShop takes a page for: the first page name anywhere in its address, including the query."""
    return next((name for name in _PAGE_NAMES if name in where), "")


class StrictMoves(Moves):
    """The original's rules: search works everywhere, Next never ends, options are mistaken for buttons."""

    strict = True
    places = (*Moves.places, "attributes")

    def hits(self, session: Session) -> tuple[Product, ...]:
        """Return all products of the last search, with WebShop's shortcuts `<r>`, `<a>`, `<c>` and `<q>`.

        The original crashes on `<a>` and a bare `<c>`; here they return the products of an attribute, and nothing.
        """
        lead, _, rest = session.query.partition(" ")
        products, rest = self.catalogue.products, rest.strip()
        if lead == "<r>":
            return tuple(Rng("shop <r>", session.salt).sample(products, min(HITS, len(products))))
        if lead == "<a>":
            return tuple(product for product in products if rest in product.attributes)
        if lead == "<c>":
            return tuple(product for product in products if product.category == rest.split(" ")[0])
        if lead == "<q>":
            return tuple(product for product in products if product.query == rest)
        return self.catalogue.search(session.query)

    def clickables(self, session: Session) -> list[str]:
        """List the clickable names in WebShop's order, without repetitions."""
        if session.place == "results":
            prev = [PREV] if session.number > 1 else []
            return list(
                dict.fromkeys([BACK, *prev, NEXT, *(product.asin.lower() for product in self.page_products(session))])
            )
        if session.place == "item":
            values = (value for values in self.product(session).options.values() for value in values)
            return list(dict.fromkeys([*ITEM_BUTTONS, *values]))
        return super().clickables(session)

    def search(self, session: Session, query: str) -> str:
        """Search for words from any page, even after the purchase."""
        session.place, session.query, session.number = "results", query, 1
        self._leave_item(session)
        return ""

    def click(self, session: Session, target: str) -> str:
        """Click `target`: its name alone decides the effect."""
        if target == "search" or target not in self.clickables(session):
            return no_such_target(target)
        here = page_name(url(session, ""))
        if target == BUY:
            session.place = "done"
        elif target == BACK:
            session.restart()
        elif target in (NEXT, PREV) and here == "search_results":
            session.place, session.number = "results", session.number + (1 if target == NEXT else -1)
            self._leave_item(session)
        elif target == PREV and here == "item_page":
            session.place = "results"
            self._leave_item(session)
        elif target in _OPENS_SUB_PAGE:
            session.place = _OPENS_SUB_PAGE[target]
        else:
            self._item_page(session, target)
        return ""

    def _leave_item(self, session: Session) -> None:
        session.asin, session.chosen, session.salt = "", {}, session.salt + 1

    def _item_page(self, session: Session, target: str) -> None:
        if session.place == "results":
            asin = next(product.asin for product in self.page_products(session) if product.asin.lower() == target)
            session.asin, session.place = asin, "item"
            session.seen = [*session.seen, asin] if asin not in session.seen else session.seen
            return
        if session.place == "item":
            name = last_option_with(self.product(session), target)
            session.chosen = {**session.chosen, name: target} if name is not None else session.chosen
        session.place = "item"

    def can_go_back(self, session: Session) -> bool:
        """Tell whether the query holds no name of another page."""
        return page_name(url(session, "")) == page_name(url(replace(session, query=""), ""))

    def option_click(self, product: Product, name: str, value: str) -> str | None:
        """Return what to click for an option, or None if the original cannot choose it."""
        taken = value in ITEM_BUTTONS or value in _OPENS_SUB_PAGE or value == "search"
        unreadable = "[" in value or "\n" in value or not value
        return None if taken or unreadable or last_option_with(product, value) != name else value


def last_option_with(product: Product, value: str) -> str | None:
    """Return the last option that has a value: a click on the value always means this one."""
    return next((name for name in reversed(list(product.options)) if value in product.options[name]), None)
