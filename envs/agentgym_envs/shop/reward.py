"""WebShop's reward of a purchase, and the stricter exact match.

R = r_type · (matching attributes + matching options + [price within the limit]) / (|attributes| + |options| + 1)

Source: Yao et al., "WebShop", arXiv:2207.01206, section 3; the details are those of the reference implementation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Protocol

Option = str | tuple[str, str]
"""A value alone, as in human goals, or a name and its value, as in synthetic ones."""

COLORS = tuple(
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux "  # noqa: SIM905  # reads better
    "bronze brown burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac "
    "copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite "
    "grass gray green grey heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon "
    "mauve merlot midnight mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter pink "
    "plum purple rainbow red rose royal rust sand sapphire seashell silver skull slate steel stone stonewash "
    "sunflower tan taupe teal tiger turquoise violet walnut wheat white wine yellow".split()
)
"""WebShop's colour words. The first one that a text contains counts, so the order matters."""

_MATCH = 85
"""Two texts match when their `token_set_ratio` is above this."""
_not_a_word = re.compile(r"\W")
_drop_latin_1 = dict.fromkeys(range(128, 256))


class Product(Protocol):
    """The properties of a product that the reward uses."""

    @property
    def title(self) -> str:
        """Its name."""

    @property
    def query(self) -> str:
        """What kind of thing it is."""

    @property
    def product_category(self) -> str:
        """Its path of categories, split by `›`."""

    @property
    def description(self) -> str:
        """The seller's description."""

    @property
    def bullets(self) -> Sequence[str]:
        """Its features, one per line."""

    @property
    def attributes(self) -> Sequence[str]:
        """Its attributes in WebShop's files: `machine wash`."""

    @property
    def nouns(self) -> Sequence[str]:
        """The nouns of its title, lower-cased."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A customer's request."""

    asin: str
    """The product that the goal was made from."""
    query: str
    """What kind of thing that product is."""
    product_category: str
    """Its path of categories, split by `›`."""
    name: str
    """Its title."""
    attributes: tuple[str, ...]
    options: tuple[Option, ...]
    price_upper: float
    """In dollars; a price equal to it is still within."""
    nouns: tuple[str, ...]
    """The nouns of the name, lower-cased, repetitions included."""
    instruction: str
    weight: float = 1.0
    """How often it is drawn, relative to other goals."""


@dataclass(frozen=True, slots=True)
class RewardParts:
    """A reward and its parts."""

    reward: float
    """0 to 1."""
    r_type: float
    """1, 0.5, 0.1 or 0: how close the product's kind is to the goal's."""
    title_score: float
    """The share of the goal's nouns that occur in the product's title."""
    query_match: bool
    category_match: bool
    """Whether the two have two categories in common."""
    r_att: float | None
    """The share of the goal's attributes that the product has; None for a goal without attributes."""
    num_attr_matches: int
    r_option: float | None
    """The share of the goal's options that were chosen; None for a goal without options."""
    num_option_matches: int
    r_price: bool
    """Whether the price is within the limit."""


def reward_parts(product: Product, goal: Goal, price: float, chosen: Mapping[str, str]) -> RewardParts:
    """Compute the reward for buying a product at a price, in dollars, with the chosen options (name to value)."""
    shared = len(set(product.nouns) & set(goal.nouns))
    title_score = shared / len(goal.nouns) if goal.nouns else 0.2
    query_match = product.query == goal.query
    category_match = len(_categories(product) & _categories(goal)) >= 2
    r_type = _type_reward(query_match or category_match, title_score)
    num_attr = sum(_has_attribute(product, attribute) for attribute in goal.attributes)
    num_option = _count_options(chosen.values(), goal.options)
    r_price = price <= goal.price_upper
    share = (num_attr + num_option + r_price) / (len(goal.attributes) + len(goal.options) + 1)
    return RewardParts(
        reward=share * r_type,
        r_type=r_type,
        title_score=title_score,
        query_match=query_match,
        category_match=category_match,
        r_att=num_attr / len(goal.attributes) if goal.attributes else None,
        num_attr_matches=num_attr,
        r_option=num_option / len(goal.options) if goal.options else None,
        num_option_matches=num_option,
        r_price=r_price,
    )


def exact_match(product: Product, goal: Goal, price: float, chosen: Mapping[str, str]) -> bool:
    """Tell whether a purchase literally matches the goal; its reward is then 1.

    The product is of the goal's kind, its attributes or texts contain each attribute (in any case), and each option is
    chosen literally, under its name if the goal states one. WebShop's reward alone is more lenient: it takes 4 ounce
    (pack of 2) for 4 ounce (pack of 1), and a computer mouse for a keyboard.
    """
    return (
        product.query == goal.query
        and all(_has_literally(product, attribute) for attribute in goal.attributes)
        and all(_is_chosen(option, chosen) for option in goal.options)
        and reward_parts(product, goal, price, chosen).reward == 1.0
    )


def normalize_color(text: str) -> str:
    """Return the first of `COLORS` within a text, else the text."""
    return next((color for color in COLORS if color in text), text)


def token_set_ratio(bought: str, goal: Option) -> int:
    """Compute the similarity of two texts as sets of words, 0 to 100: thefuzz 0.19's with Python's difflib.

    Rapidfuzz and newer thefuzz count edits and return other numbers. A (name, value) is compared as Python prints it.
    """
    return max((_ratio(left, right) for left, right in _set_pairs(bought, goal)), default=0)


def similar(bought: str, goal: Option) -> bool:
    """Tell whether `token_set_ratio` is above 85, faster than by computing it."""
    return any(_is_close(left, right) for left, right in _set_pairs(bought, goal))


def _type_reward(same_kind: bool, title_score: float) -> float:
    """Rate how close two products' kinds are; a different title outweighs an equal query or category."""
    if title_score == 0.0:
        return 0.0
    if title_score < 0.1:
        return 0.1
    return 1.0 if same_kind or title_score > 0.2 else 0.5


def _categories(thing: Product | Goal) -> set[str]:
    return {category.strip() for category in thing.product_category.split("›")}


def _has_attribute(product: Product, attribute: str) -> bool:
    """Tell whether an attribute is similar to one of the product's or occurs in its lower-cased texts."""
    return any(similar(name, attribute) for name in product.attributes) or _in_texts(product, attribute)


def _in_texts(product: Product, text: str) -> bool:
    texts = (product.title, " ".join(product.bullets), product.description)
    return any(text in place.lower() for place in texts)


def _count_options(values: Collection[str], options: Sequence[Option]) -> int:
    """Count the goal's options that are similar to a chosen value, colours reduced; a value may count for several."""
    bought = [normalize_color(value) for value in values]
    # for a (name, value), `in` compares whole members, as in WebShop
    targets: list[Option] = [next((color for color in COLORS if color in option), option) for option in options]
    return sum(any(similar(value, option) for value in bought) for option in targets)


def _has_literally(product: Product, attribute: str) -> bool:
    folded = attribute.lower()
    return any(folded == name.lower() for name in product.attributes) or _in_texts(product, folded)


def _is_chosen(option: Option, chosen: Mapping[str, str]) -> bool:
    if isinstance(option, str):
        return option in chosen.values()
    name, value = option
    return chosen.get(name) == value


@lru_cache(maxsize=10_000)
def _tokens(text: str) -> frozenset[str]:
    """Return the words of a text as thefuzz cleans it: Latin-1's upper half is dropped, not replaced."""
    return frozenset(_not_a_word.sub(" ", text.translate(_drop_latin_1)).lower().split())


def _set_pairs(bought: str, goal: Option) -> list[tuple[str, str]]:
    """Return the pairs of strings that token_set_ratio compares; none if either text has no word."""
    left, right = _tokens(bought), _tokens(goal if isinstance(goal, str) else str(goal))
    if not left or not right:
        return []
    common = sorted(left & right)
    shared, first, second = (" ".join((*common, *sorted(more))) for more in ((), left - right, right - left))
    return [(shared, first), (shared, second), (first, second)]


def _ratio(left: str, right: str) -> int:
    """Compute twice the matching characters over all characters, in percent."""
    return round(100 * SequenceMatcher(None, left, right).ratio()) if left and right else 0


def _is_close(left: str, right: str) -> bool:
    """Tell whether `_ratio` is above 85; upper bounds are tried first, the cheapest first."""
    if left == right:
        return bool(left)
    if 200 * min(len(left), len(right)) < _MATCH * (len(left) + len(right)):
        return False
    matcher = SequenceMatcher(None, left, right)
    return round(100 * matcher.quick_ratio()) > _MATCH and round(100 * matcher.ratio()) > _MATCH
