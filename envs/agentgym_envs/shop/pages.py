"""WebShop's pages as data: the strings of a page, from which every mode but `react` is rendered."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Literal, NamedTuple

from agentgym_envs.shop.catalogue import Product
from agentgym_envs.shop.session import Moves, Session, normalize, shortest_choice

BASE_URL = "http://127.0.0.1:3000"
_ASCII_SPACE = " \t\n\f\r"


class Part(NamedTuple):
    """One string on a page."""

    kind: Literal["text", "button", "name", "option", "product", "mark"]
    """`name` heads a group of options; a `mark` follows a chosen option, except in strict mode."""
    text: str
    selected: bool = False
    """A chosen option or a product that was opened."""
    group: str = ""
    """An option's name."""
    click: str = ""
    """What to click for an option: its text, unless that is ambiguous."""


class Page(NamedTuple):
    """A page and its address."""

    url: str
    parts: list[Part]
    search_bar: bool = False


def build(moves: Moves, session: Session, session_id: str, instruction: str) -> Page:
    """Build the open page."""
    where = url(session, session_id)
    strict = moves.strict
    if session.place == "search":
        lead = "Instruction: " if strict else "Instruction:"  # WebShop's space
        parts = [Part("text", "WebShop"), *_texts((lead, instruction), strict), Part("button", "Search")]
        return Page(where, parts, search_bar=True)
    if session.place == "done":
        return Page(where, _done(session, strict))
    parts = [*_texts(("Instruction:", instruction), strict), Part("button", "Back to Search")]
    if session.place == "results":
        return Page(where, parts + _results(moves, session))
    parts.append(Part("button", "< Prev"))
    product = moves.product(session)
    if session.place == "item":
        return Page(where, parts + _item(product, session, where, strict))
    return Page(where, parts + _body(product, session.place, strict))


def url(session: Session, session_id: str) -> str:
    """Return the address of a page, as WebShop's in-process server writes it."""
    if session.place == "search":
        return f"{BASE_URL}/{session_id}"
    if session.place == "done":
        return f"{BASE_URL}/done/{session_id}/{session.asin}/{session.chosen}"
    words = session.query.replace(" ", "+")
    if session.place == "results":
        return f"{BASE_URL}/search_results/{session_id}/{words}/{session.number}"
    item = f"{session_id}/{session.asin}/{words}/{session.number}"
    if session.place == "item":
        return f"{BASE_URL}/item_page/{item}/{json.dumps(session.chosen)}"
    return f"{BASE_URL}/item_sub_page/{item}/{session.place.capitalize()}/{session.chosen}"


def page_text(text: str, strict: bool) -> str | None:
    """Return a string as WebShop reads it from a page, or None if it drops it.

    Its html parser turns a blank string with a newline into a newline, which is dropped, and other blanks into a space.
    """
    if not strict:
        return " ".join(text.split()) or None
    if text.strip(_ASCII_SPACE):
        return text
    return None if "\n" in text or not text else " "


def _texts(texts: tuple[str, ...], strict: bool) -> list[Part]:
    visible = (page_text(text, strict) for text in texts)
    return [Part("text", text) for text in visible if text is not None]


def _results(moves: Moves, session: Session) -> list[Part]:
    parts = [Part("text", f"Page {session.number} (Total results: {len(moves.hits(session))})")]
    if session.number > 1:
        parts.append(Part("button", "< Prev"))
    if moves.strict or session.number < moves.page_count(session):
        parts.append(Part("button", "Next >"))
    for product in moves.page_products(session):
        opened, closed = _row(product, moves.strict)
        parts += opened if product.asin in session.seen else closed
    return parts


@lru_cache(maxsize=50_000)
def _row(product: Product, strict: bool) -> tuple[list[Part], list[Part]]:
    rest = _texts((product.title, product.price_text), strict)
    return [Part("product", product.asin, True), *rest], [Part("product", product.asin), *rest]


def _item(product: Product, session: Session, where: str, strict: bool) -> list[Part]:
    if not session.chosen and not strict:
        return _plain_item(product, strict)
    parts = []
    for part in _plain_item(product, strict):
        # WebShop looks for the quoted value in the address, in which JSON has escaped it
        selected = f'"{part.text}"' in where if strict else normalize(session.chosen.get(part.group, "")) == part.text
        if part.kind == "option" and selected:
            parts.append(part._replace(selected=True))
            if not strict:
                parts.append(Part("mark", "(selected)"))
        else:
            parts.append(part)
    return parts


@lru_cache(maxsize=50_000)
def _plain_item(product: Product, strict: bool) -> list[Part]:
    parts = []
    for name, values in product.options.items():
        label = page_text(name, strict)
        parts += [Part("name", label)] if label else []
        for value in values if strict else dict.fromkeys(values):
            label, click = page_text(value, strict), value if strict else shortest_choice(product, name, value)
            parts += [Part("option", label, False, name, click)] if label else []
    parts += _texts((product.title, f"Price: {product.price_text}", "Rating: N.A."), strict)
    return [*parts, *(Part("button", name) for name in ("Description", "Features", "Reviews", "Buy Now"))]


@lru_cache(maxsize=10_000)
def _body(product: Product, place: str, strict: bool) -> list[Part]:
    if place == "description":
        return _texts((product.description,), strict)
    if place == "features":
        return _texts(tuple(f" {bullet}" for bullet in product.bullets), strict)
    if place == "attributes":
        rows = (product.category, product.query, product.product_category)
        return _texts((*(f" {attribute}" for attribute in product.attributes), *rows), strict)
    return []


def _done(session: Session, strict: bool) -> list[Part]:
    score = ("Your score (min 0.0, max 1.0)", str(session.reward))
    thanks = "Thank you for shopping with us!"
    if not strict:
        return _texts((thanks, *score), strict)
    options = json.dumps(session.chosen, sort_keys=True)
    for sign in "<>&'":
        options = options.replace(sign, f"\\u{ord(sign):04x}")
    bought = ("asin", session.asin, "options", options, "attrs", "None", "category", "None", "query", "None")
    target = ("asin", "options", "attrs", "price upper", "instuction text", "category", "product category", "query")
    hidden = ("Purchased", *bought, "product category", "None", "Target", *target, "Goal ", "None", "Reward")
    code = ("Your code: ", "None", " (Paste it in your MTurk interface.)")
    return _texts((thanks, *code, *hidden, *score, "Reward Details ", "None"), strict)
