from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_envs.shop.reward import (
    COLORS,
    Goal,
    Option,
    RewardParts,
    exact_match,
    normalize_color,
    reward_parts,
    similar,
    token_set_ratio,
)


@dataclass(frozen=True)
class Bought:
    """A product, as far as the reward looks at it."""

    title: str = "Oakline Maxi Dress Charcoal"
    query: str = "women's dresses"
    product_category: str = "Clothing › Women › Dresses"
    description: str = "Soft cotton."
    bullets: tuple[str, ...] = ("Machine wash", "pull on closure")
    attributes: tuple[str, ...] = ("long sleeve", "arch support")
    nouns: tuple[str, ...] = ("oakline", "maxi", "dress", "charcoal")


BOUGHT = Bought()
GOAL = Goal(
    asin="B1",
    query=BOUGHT.query,
    product_category=BOUGHT.product_category,
    name=BOUGHT.title,
    attributes=("long sleeve", "machine wash"),
    options=(("color", "wine red"), ("size", "4 ounce (pack of 2)")),
    price_upper=40.0,
    nouns=BOUGHT.nouns,
    instruction="Find me a dress",
)
CHOSEN = {"color": "wine red", "size": "4 ounce (pack of 2)"}


def as_option(value: str | list[str]) -> Option:
    """A recorded option: a list stands for the pair of name and value."""
    return value if isinstance(value, str) else (value[0], value[1])


def recorded(case: dict[str, Any]) -> tuple[Bought, Goal, float, dict[str, str]]:
    """The arguments of a recorded reward."""
    bought, goal = case["purchased"], case["goal"]
    options = goal["goal_options"]
    return (
        Bought(
            title=bought["Title"],
            query=bought["query"],
            product_category=bought["product_category"],
            description=bought["Description"],
            bullets=tuple(bought["BulletPoints"]),
            attributes=tuple(bought["Attributes"]),
            nouns=tuple(case["purchased_name_nouns"]),
        ),
        Goal(
            asin="",
            query=goal["query"],
            product_category=goal["product_category"],
            name=goal["name"],
            attributes=tuple(goal["attributes"]),
            options=tuple(options.items() if isinstance(options, dict) else options),
            price_upper=goal["price_upper"],
            nouns=tuple(case["goal_name_nouns"]),
            instruction="",
        ),
        case["price"],
        case["options"],
    )


def test_every_part_of_the_reward_is_webshops(reward_cases: dict[str, Any]) -> None:
    """Each recorded purchase has WebShop's reward and every part of it; an exact one has the reward 1."""
    exact = 0
    for case in reward_cases["cases"]:
        assert asdict(reward_parts(*recorded(case))) == case["expected"], case["note"]
        if exact_match(*recorded(case)):
            exact += 1
            assert case["expected"]["reward"] == 1.0
    assert 0 < exact < sum(case["expected"]["reward"] == 1.0 for case in reward_cases["cases"])


def test_token_set_ratios_are_thefuzzs(reward_cases: dict[str, Any]) -> None:
    """Each recorded pair of texts has the score of thefuzz 0.19 over difflib."""
    for bought, goal, score in reward_cases["token_set_ratio"]["rows"]:
        assert token_set_ratio(bought, as_option(goal)) == score, (bought, goal)


def test_colours_are_webshops(reward_cases: dict[str, Any]) -> None:
    """Each recorded text is reduced to the colour that WebShop finds in it."""
    for text, color in reward_cases["normalize_color"]["rows"]:
        assert normalize_color(text) == color
    assert len(COLORS) == 102


@pytest.mark.parametrize(
    ("bought", "goal", "score"),
    [
        ("★", "★", 0),  # nothing is left to compare
        ("é", "é", 0),
        ("", "red", 0),
        ("café", "caf", 100),  # Latin-1 is dropped, not replaced
        ("中文 red", "red 中文", 100),
        ("men's", ("size", "men's"), 100),
        ("snake_case", "snake case", 50),
        ("RED Dress", "dress", 100),
    ],
)
def test_texts_are_cleaned_as_thefuzz_cleans_them(bought: str, goal: Option, score: int) -> None:
    """Case and punctuation do not count, the upper half of Latin-1 goes, and a pair is what Python prints of it."""
    assert token_set_ratio(bought, goal) == score


TEXTS = st.lists(
    st.sampled_from(["large", "xl", "4", "ounce", "(pack", "of", "red", "wine", "it's", "wash", "washable", "é"]),
    max_size=5,
).map(" ".join)


@given(TEXTS | st.text(st.sampled_from("abcde '-é"), max_size=12), TEXTS | st.tuples(TEXTS, TEXTS))
def test_the_quick_comparison_is_the_full_one(bought: str, goal: Option) -> None:
    """`similar` says of every pair whether its token set ratio is above 85."""
    assert similar(bought, goal) == (token_set_ratio(bought, goal) > 85)


def test_a_purchase_to_the_letter_is_exact_and_a_merely_similar_one_is_not() -> None:
    """Another pack size or kind has the full reward of WebShop's and is not exact; price, type and names count too."""
    assert exact_match(BOUGHT, GOAL, 40.0, CHOSEN)
    similar_size = CHOSEN | {"size": "4 ounce (pack of 1)"}
    assert reward_parts(BOUGHT, GOAL, 40.0, similar_size).reward == 1.0
    assert not exact_match(BOUGHT, GOAL, 40.0, similar_size)
    other_kind = replace(BOUGHT, query="women's skirts")
    assert reward_parts(other_kind, GOAL, 40.0, CHOSEN).reward == 1.0
    assert not exact_match(other_kind, GOAL, 40.0, CHOSEN)
    assert not exact_match(BOUGHT, GOAL, 40.01, CHOSEN)
    assert not exact_match(replace(BOUGHT, nouns=("cable",)), GOAL, 40.0, CHOSEN)
    assert not exact_match(BOUGHT, GOAL, 40.0, {"colour": "wine red", "size": "4 ounce (pack of 2)"})
    assert exact_match(BOUGHT, replace(GOAL, options=("wine red",)), 40.0, {"colour": "wine red"})
    assert not exact_match(BOUGHT, replace(GOAL, attributes=("waterproof",)), 40.0, CHOSEN)


def test_a_goal_without_attributes_and_options_has_no_shares() -> None:
    """Where nothing is asked for there is no share to tell, and the price alone decides."""
    bare = replace(GOAL, attributes=(), options=())
    assert reward_parts(BOUGHT, bare, 50.0, {}) == RewardParts(0.0, 1.0, 1.0, True, True, None, 0, None, 0, False)


NOUNS = st.lists(st.sampled_from(["dress", "cable", "oakline", "shoe"]), max_size=12).map(tuple)
CHOICES = st.dictionaries(st.sampled_from(["color", "size", "red"]), TEXTS | st.sampled_from(["red", "wine red", "xl"]))
PRODUCTS = st.builds(
    Bought,
    title=TEXTS,
    query=st.sampled_from(["a", "b"]),
    product_category=st.sampled_from(["x › y", "x", "y › x › z"]),
    attributes=st.lists(TEXTS, max_size=3).map(tuple),
    nouns=NOUNS,
)


@st.composite
def purchases(draw: st.DrawFn) -> tuple[Bought, Goal, float, dict[str, str]]:
    """A product, a goal that is often met by it, a price and choices."""
    bought, chosen = draw(PRODUCTS), draw(CHOICES)
    attributes = draw(st.lists(st.sampled_from([*bought.attributes, "Soft", "wash"]), max_size=3))
    option: st.SearchStrategy[Option] = st.sampled_from([*chosen.items(), *chosen.values(), "xl", ("size", "red")])
    goal = replace(
        GOAL,
        query=draw(st.sampled_from(["a", "b"])),
        product_category=draw(st.sampled_from(["x › y", "z"])),
        nouns=draw(NOUNS | st.just(bought.nouns)),
        attributes=tuple(attributes),
        options=tuple(draw(st.lists(option, max_size=3))),
    )
    return bought, goal, draw(st.sampled_from([0.0, 40.0, 41.0])), chosen


@given(purchases())
def test_a_reward_is_a_share_and_an_exact_purchase_has_all_of_it(
    purchase: tuple[Bought, Goal, float, dict[str, str]],
) -> None:
    """Rewards lie between 0 and 1, and whatever is exact has the reward 1."""
    reward = reward_parts(*purchase).reward
    assert 0.0 <= reward <= 1.0
    assert reward == 1.0 or not exact_match(*purchase)


@given(purchases(), st.randoms(use_true_random=False))
def test_the_order_of_options_does_not_matter(purchase: tuple[Bought, Goal, float, dict[str, str]], rng: Any) -> None:
    """Neither the order of the choices nor that of the goal's options and attributes changes anything."""
    bought, goal, price, chosen = purchase
    choices, options, attributes = list(chosen.items()), list(goal.options), list(goal.attributes)
    for items in (choices, options, attributes):
        rng.shuffle(items)
    shuffled = replace(goal, options=tuple(options), attributes=tuple(attributes))
    assert reward_parts(bought, shuffled, price, dict(choices)) == reward_parts(*purchase)
    assert exact_match(bought, shuffled, price, dict(choices)) == exact_match(*purchase)
