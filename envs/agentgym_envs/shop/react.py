"""The mode `react`: short pages for language models, one line per product, without the request."""

from __future__ import annotations

from functools import lru_cache

from agentgym_envs.shop.catalogue import Product
from agentgym_envs.shop.session import BACK, BUY, NEXT, PREV, Moves, Session, normalize

RULES = {
    "full": (
        "You are shopping. Buy one product that has everything the request asks for, with the right options, within "
        "the price limit. Each turn you do one action:\n"
        "search[words] looks for products; it works on the search page.\n"
        "click[name] clicks a button, a product's number or an option's value that the page shows: click[next >], "
        "click[B1234], click[red]. If two options share a value, write click[option: value].\n"
        "click[description] and click[features] tell more about a product, click[< prev] goes back, click[back to "
        "search] starts again. Choose every option that the request names, then click[buy now]: it ends the visit, and "
        "the purchase is scored from 0 to 1.\n"
        "Answer in this form:\n"
        "Thought: why\n"
        "Action: search[words] or click[name]"
    ),
    "brief": "Buy what is asked for, with search[words] and click[name]; click[buy now] ends the visit.",
    "none": "",
}


@lru_cache(maxsize=50_000)
def product_line(product: Product) -> str:
    """Format a product in one line."""
    return f"{product.asin} {' '.join(product.title.split())} {product.price_text}"


@lru_cache(maxsize=50_000)
def _item_lines(product: Product) -> str:
    lines = [product_line(product)]
    options = ((name, list(filter(normalize, dict.fromkeys(values)))) for name, values in product.options.items())
    lines += (f"{name}: {' | '.join(values)}" for name, values in options if values)
    return "\n".join(lines)


def first_page(instruction: str) -> str:
    """Format the first page of an episode."""
    return f"{instruction}\n[search]"


def page(moves: Moves, session: Session) -> str:
    """Format the open page."""
    if session.place == "search":
        return "[search]"
    if session.place == "results":
        return _results(moves, session)
    if session.place == "done":
        return f"Bought {session.asin}. Score {session.reward:.2f}."
    product = moves.product(session)
    if session.place == "item":
        chosen = [f"selected: {', '.join(f'{k}: {v}' for k, v in session.chosen.items())}"] if session.chosen else []
        buttons = f"[description] [features] [{PREV}] [{BACK}] [{BUY}]"
        return "\n".join([_item_lines(product), *chosen, buttons])
    return f"{_body(product, session.place)}\n[{PREV}] [{BACK}]"


def selection(session: Session, target: str) -> str:
    """Return the confirmation of a click on an option; "" if `target` is no chosen option."""
    for name, value in reversed(session.chosen.items()):
        if target in (normalize(value), normalize(f"{name}: {value}")):
            return f"{name}: {value} is selected."
    return ""


def _results(moves: Moves, session: Session) -> str:
    lines = [f"Page {session.number} of {moves.page_count(session)}"] if moves.hits(session) else ["No results."]
    lines += map(product_line, moves.page_products(session))
    buttons = [PREV] if session.number > 1 else []
    buttons += [NEXT] if moves.strict or session.number < moves.page_count(session) else []
    return "\n".join([*lines, " ".join(f"[{button}]" for button in [*buttons, BACK])])


@lru_cache(maxsize=10_000)
def _body(product: Product, place: str) -> str:
    if place == "description":
        return " ".join(product.description.split()) or "No description."
    if place == "features":
        return "\n".join(filter(None, (" ".join(bullet.split()) for bullet in product.bullets))) or "No features."
    if place == "attributes":
        return ", ".join(product.attributes)
    return "No reviews."
