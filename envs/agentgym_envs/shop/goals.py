"""Goals of customers: WebShop's synthetic and human ones, and generated ones in the same wording."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product as combinations

from agentgym_envs.shop.catalogue import Catalogue, Product
from agentgym_envs.shop.json_checks import Entry
from agentgym_envs.shop.nouns import nouns_by_rule
from agentgym_envs.shop.reward import Goal, Option
from agentgym_py.errors import CatalogueError
from agentgym_py.rng import Rng

PRICE_RANGE = tuple(10.0 * i for i in range(1, 100))
NO_LIMIT = 1_000_000.0


def price_limit(price: float, rng: Rng) -> tuple[float, str]:
    """Draw a price limit by WebShop's rule and the words that state it; no words if there is no limit."""
    first = bisect_right(PRICE_RANGE, price)
    above = PRICE_RANGE[first : first + 4]
    if len(above) < 2:
        return NO_LIMIT, ""
    limit = max(rng.sample(above, 2))
    return limit, f", and price lower than {limit:.2f} dollars"


def option_words(options: Mapping[str, str]) -> str:
    """Write the words that ask for options."""
    words = ", and ".join(f"{name}: {value}" for name, value in options.items())
    return f" with {words}" if words else ""


def synthetic_goals(products: Iterable[Product]) -> list[Goal]:
    """Make a goal for every combination of options of every product with an instruction; rare attributes weigh more."""
    goals: list[Goal] = []
    for product in products:
        attributes = product.instruction_attributes
        if product.instruction is None or not attributes:
            continue
        limit, price_words = price_limit(product.price, Rng("shop price limit", product.asin))
        names = sorted(product.options)
        for values in combinations(*(product.options[name] for name in names)):
            options = dict(zip(names, values, strict=True))
            instruction = f"{product.instruction}{option_words(options)}{price_words}"
            goals.append(_goal(product, instruction, attributes, tuple(options.items()), limit))
    counts = Counter(attribute for goal in goals for attribute in goal.attributes)
    rarity = {attribute: 1.0 / count for attribute, count in counts.items()}
    return [
        replace(goal, weight=sum(rarity[name] for name in goal.attributes) / len(goal.attributes)) for goal in goals
    ]


def human_goals(products: Iterable[Product]) -> list[Goal]:
    """Make a goal of every request in full sentences that names an attribute."""
    goals = []
    for product in products:
        rng = Rng("shop price limit of a person", product.asin)
        for request in product.instructions:
            if not request.attributes:
                continue
            limit, price_words = price_limit(product.price, rng)
            instruction = request.words.strip(".") + price_words
            goals.append(_goal(product, instruction, request.attributes, request.options, limit))
    return goals


def generated_goal(product: Product, attributes: Sequence[str], options: Mapping[str, str], rng: Rng) -> Goal:
    """Make a goal in WebShop's synthetic wording for a product with these attributes and option values."""
    limit, price_words = price_limit(product.price, rng)
    instruction = f"Find me {', '.join(attributes)} {product.query}{option_words(options)}{price_words}"
    return _goal(product, instruction, attributes, tuple(options.items()), limit)


def _goal(
    product: Product, instruction: str, attributes: Sequence[str], options: Sequence[Option], limit: float
) -> Goal:
    return Goal(
        asin=product.asin,
        query=product.query,
        product_category=product.product_category,
        name=product.title,
        attributes=tuple(attributes),
        options=tuple(options),
        price_upper=limit,
        nouns=product.nouns,
        instruction=instruction,
    )


def read_goals(catalogue: Catalogue) -> list[Goal]:
    """Read the goals of a folder's `goals.json`, in order; CatalogueError names the goal and the key."""
    where = f"{catalogue.folder}: goals.json: goal"
    return [_read_goal(Entry.of(f"{where} {i}", goal), catalogue) for i, goal in enumerate(catalogue.goals or [])]


def _read_goal(goal: Entry, catalogue: Catalogue) -> Goal:
    asin, name = goal.text("asin"), goal.text("name")
    product = catalogue.by_asin.get(asin)
    if product is None:
        raise CatalogueError(f"{goal.where}: product {asin!r} is not in the catalogue")
    return Goal(
        asin=asin,
        query=goal.text("query"),
        product_category=goal.text("product_category"),
        name=name,
        attributes=goal.texts("attributes"),
        options=_goal_options(goal),
        price_upper=goal.number("price_upper"),
        nouns=product.nouns if product.title == name else nouns_by_rule(name),
        instruction=goal.text("instruction_text"),
        weight=goal.number("weight") if "weight" in goal.values else 1.0,
    )


def _goal_options(goal: Entry) -> tuple[Option, ...]:
    """Read pairs of name and value from WebShop's synthetic goals, values alone from human ones."""
    value = goal.values.get("goal_options")
    if isinstance(value, dict):
        options = goal.entry("goal_options")
        return tuple((name, options.text(name)) for name in value)
    return goal.texts("goal_options") if value is not None else ()
