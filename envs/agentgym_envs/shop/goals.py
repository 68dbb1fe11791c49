"""What customers ask for: WebShop's synthetic and human goals, and generated ones in the same wording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product as combinations
from typing import Any

from agentgym_envs.shop.catalogue import Catalogue, Product
from agentgym_envs.shop.nouns import nouns_by_rule
from agentgym_envs.shop.reward import Goal, Option
from agentgym_py.errors import CatalogueError
from agentgym_py.rng import Rng

PRICE_RANGE = tuple(10.0 * i for i in range(1, 100))
NO_LIMIT = 1_000_000.0


def price_limit(price: float, rng: Rng) -> tuple[float, str]:
    """A limit above a price by WebShop's rule, and the words that state it; no words where there is none."""
    above = [limit for limit in PRICE_RANGE if limit > price][:4]
    if len(above) < 2:
        return NO_LIMIT, ""
    limit = max(rng.sample(above, 2))
    return limit, f", and price lower than {limit:.2f} dollars"


def option_words(options: Mapping[str, str]) -> str:
    """The words that ask for options."""
    asked = ", and ".join(f"{name}: {value}" for name, value in options.items())
    return f" with {asked}" if asked else ""


def synthetic_goals(products: Iterable[Product]) -> list[Goal]:
    """Every combination of option values of every product with an instruction; rare attributes weigh more."""
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
        replace(goal, weight=sum(rarity[each] for each in goal.attributes) / len(goal.attributes)) for goal in goals
    ]


def human_goals(products: Iterable[Product]) -> list[Goal]:
    """One goal for every instruction that a person wrote, but for those that name no attribute."""
    goals = []
    for product in products:
        rng = Rng("shop price limit of a person", product.asin)
        for written in product.instructions:
            attributes = tuple(map(str, written["instruction_attributes"]))
            if not attributes:
                continue
            limit, price_words = price_limit(product.price, rng)
            instruction = str(written["instruction"]).strip(".") + price_words
            options = tuple(map(str, written["instruction_options"]))
            goals.append(_goal(product, instruction, attributes, options, limit))
    return goals


def generated_goal(product: Product, attributes: Sequence[str], options: Mapping[str, str], rng: Rng) -> Goal:
    """A request in WebShop's synthetic wording for a product that has these attributes and option values."""
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
    """The goals of a folder's `goals.json`, as they stand; CatalogueError names the goal and the key."""
    goals = catalogue.goals or []
    return [_read_goal(goal, f"{catalogue.folder}: goals.json: goal {i}", catalogue) for i, goal in enumerate(goals)]


def _read_goal(goal: Any, where: str, catalogue: Catalogue) -> Goal:
    if not isinstance(goal, dict):
        raise CatalogueError(f"{where} is no JSON object")
    for key in ("asin", "instruction_text", "query", "name", "product_category", "attributes", "price_upper"):
        if key not in goal:
            raise CatalogueError(f"{where}: key {key!r} is missing")
    product = catalogue.by_asin.get(goal["asin"])
    if product is None:
        raise CatalogueError(f"{where}: product {goal['asin']!r} is not in the catalogue")
    try:
        options = goal.get("goal_options") or ()
        return Goal(
            asin=product.asin,
            query=str(goal["query"]),
            product_category=str(goal["product_category"]),
            name=str(goal["name"]),
            attributes=tuple(map(str, goal["attributes"])),
            options=tuple(options.items()) if isinstance(options, dict) else tuple(map(str, options)),
            price_upper=float(goal["price_upper"]),
            nouns=product.nouns if product.title == goal["name"] else nouns_by_rule(str(goal["name"])),
            instruction=str(goal["instruction_text"]),
            weight=float(goal.get("weight", 1.0)),
        )
    except (TypeError, ValueError) as error:
        raise CatalogueError(f"{where}: a value of a wrong kind: {error}") from error
