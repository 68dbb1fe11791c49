"""What customers ask for: WebShop's synthetic and human goals, and generated ones in the same wording."""

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
    """A limit above a price by WebShop's rule, and the words that state it; no words where there is none."""
    first = bisect_right(PRICE_RANGE, price)
    above = PRICE_RANGE[first : first + 4]
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
    """One goal for every request in full sentences, but for those that name no attribute."""
    goals = []
    for product in products:
        rng = Rng("shop price limit of a person", product.asin)
        for written in product.instructions:
            if not written.attributes:
                continue
            limit, price_words = price_limit(product.price, rng)
            instruction = written.words.strip(".") + price_words
            goals.append(_goal(product, instruction, written.attributes, written.options, limit))
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
    """Pairs of name and value in WebShop's synthetic goals, values alone in human ones."""
    given = goal.values.get("goal_options")
    if isinstance(given, dict):
        options = goal.entry("goal_options")
        return tuple((name, options.text(name)) for name in given)
    return goal.texts("goal_options") if given is not None else ()
