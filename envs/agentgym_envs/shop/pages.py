"""WebShop's pages as data: what is written on a page, part by part, from which every mode but `react` is rendered."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Literal, NamedTuple

from agentgym_envs.shop.catalogue import Product
from agentgym_envs.shop.session import Moves, Visit, plain, shortest_choice

BASE_URL = "http://127.0.0.1:3000"
_ASCII_SPACE = " \t\n\f\r"


class Part(NamedTuple):
    """One string on a page."""

    kind: Literal["text", "button", "name", "option", "product", "mark"]
    """`name` heads a group of options; a `mark` follows the option that is chosen, outside of strict mode."""
    text: str
    hot: bool = False
    """An option that shows as clicked, a product that was opened."""
    group: str = ""
    """An option's name."""
    click: str = ""
    """What to click for an option; its text, unless that is ambiguous."""


class Page(NamedTuple):
    """A page and where it is."""

    url: str
    parts: list[Part]
    search_bar: bool = False


def build(moves: Moves, visit: Visit, session: str, instruction: str) -> Page:
    """The page that a visit stands on."""
    where = url(visit, session)
    strict = moves.strict
    if visit.place == "search":
        lead = "Instruction: " if strict else "Instruction:"  # WebShop's own space
        parts = [Part("text", "WebShop"), *_texts((lead, instruction), strict), Part("button", "Search")]
        return Page(where, parts, search_bar=True)
    if visit.place == "done":
        return Page(where, _done(visit, strict))
    parts = [*_texts(("Instruction:", instruction), strict), Part("button", "Back to Search")]
    if visit.place == "results":
        return Page(where, parts + _results(moves, visit))
    parts.append(Part("button", "< Prev"))
    product = moves.product(visit)
    if visit.place == "item":
        return Page(where, parts + _item(product, visit, where, strict))
    return Page(where, parts + _body(product, visit.place, strict))


def url(visit: Visit, session: str) -> str:
    """The address of a page, as WebShop's in-process server writes it."""
    if visit.place == "search":
        return f"{BASE_URL}/{session}"
    if visit.place == "done":
        return f"{BASE_URL}/done/{session}/{visit.asin}/{visit.chosen}"
    words = visit.query.replace(" ", "+")
    if visit.place == "results":
        return f"{BASE_URL}/search_results/{session}/{words}/{visit.number}"
    item = f"{session}/{visit.asin}/{words}/{visit.number}"
    if visit.place == "item":
        return f"{BASE_URL}/item_page/{item}/{json.dumps(visit.chosen)}"
    return f"{BASE_URL}/item_sub_page/{item}/{visit.place.capitalize()}/{visit.chosen}"


def shown_text(text: str, strict: bool) -> str | None:
    """A string as it comes out of a page, or None where it does not.

    An html parser makes one newline, which WebShop drops, of a string of spaces that has one, and one space of others.
    """
    if not strict:
        return " ".join(text.split()) or None
    if text.strip(_ASCII_SPACE):
        return text
    return None if "\n" in text or not text else " "


def _texts(texts: tuple[str, ...], strict: bool) -> list[Part]:
    shown = (shown_text(text, strict) for text in texts)
    return [Part("text", text) for text in shown if text is not None]


def _results(moves: Moves, visit: Visit) -> list[Part]:
    parts = [Part("text", f"Page {visit.number} (Total results: {len(moves.hits(visit))})")]
    if visit.number > 1:
        parts.append(Part("button", "< Prev"))
    if moves.strict or visit.number < moves.pages(visit):
        parts.append(Part("button", "Next >"))
    for product in moves.shown(visit):
        opened, closed = _row(product, moves.strict)
        parts += opened if product.asin in visit.seen else closed
    return parts


@lru_cache(maxsize=50_000)
def _row(product: Product, strict: bool) -> tuple[list[Part], list[Part]]:
    rest = _texts((product.title, product.price_text), strict)
    return [Part("product", product.asin, True), *rest], [Part("product", product.asin), *rest]


def _item(product: Product, visit: Visit, where: str, strict: bool) -> list[Part]:
    if not visit.chosen and not strict:
        return _plain_item(product, strict)
    parts = []
    for part in _plain_item(product, strict):
        # WebShop looks for the quoted value in the address, where JSON has escaped it
        hot = f'"{part.text}"' in where if strict else plain(visit.chosen.get(part.group, "")) == part.text
        if part.kind == "option" and hot:
            parts.append(part._replace(hot=True))
            if not strict:
                parts.append(Part("mark", "(selected)"))
        else:
            parts.append(part)
    return parts


@lru_cache(maxsize=50_000)
def _plain_item(product: Product, strict: bool) -> list[Part]:
    parts = []
    for name, values in product.options.items():
        shown = shown_text(name, strict)
        parts += [Part("name", shown)] if shown else []
        for value in values if strict else dict.fromkeys(values):
            shown, click = shown_text(value, strict), value if strict else shortest_choice(product, name, value)
            parts += [Part("option", shown, False, name, click)] if shown else []
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


def _done(visit: Visit, strict: bool) -> list[Part]:
    score = ("Your score (min 0.0, max 1.0)", str(visit.reward))
    thanks = "Thank you for shopping with us!"
    if not strict:
        return _texts((thanks, *score), strict)
    options = json.dumps(visit.chosen, sort_keys=True)
    for sign in "<>&'":
        options = options.replace(sign, f"\\u{ord(sign):04x}")
    bought = ("asin", visit.asin, "options", options, "attrs", "None", "category", "None", "query", "None")
    target = ("asin", "options", "attrs", "price upper", "instuction text", "category", "product category", "query")
    hidden = ("Purchased", *bought, "product category", "None", "Target", *target, "Goal ", "None", "Reward")
    code = ("Your code: ", "None", " (Paste it in your MTurk interface.)")
    return _texts((thanks, *code, *hidden, *score, "Reward Details ", "None"), strict)
