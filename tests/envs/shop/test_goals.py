"""Goals by WebShop's rules, and which tasks stand where."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from agentgym_envs.shop.catalogue import load_catalogue
from agentgym_envs.shop.env import ShopEnv
from agentgym_envs.shop.goals import NO_LIMIT, PRICE_RANGE, human_goals, price_limit, synthetic_goals
from agentgym_envs.shop.reward import Goal
from agentgym_envs.shop.tasks import DIFFICULTIES, GeneratedTasks, ListedTasks, listed_goals, split_of
from agentgym_py.env import SPLITS
from agentgym_py.errors import ConfigError, UnknownNameError
from agentgym_py.rng import Rng

_PRICE = re.compile(r", and price lower than (\d+\.\d\d) dollars$")


def told(goal: Goal) -> tuple[object, ...]:
    """A goal without its price, which a generator draws."""
    return (
        goal.asin,
        _PRICE.sub("", goal.instruction),
        goal.query,
        goal.name,
        goal.product_category,
        goal.attributes,
        goal.options,
        round(goal.weight, 12),
    )


def recorded(goal: dict[str, Any]) -> tuple[object, ...]:
    """The same of a recorded goal."""
    options = goal["goal_options"]
    return (
        goal["asin"],
        _PRICE.sub("", goal["instruction_text"]),
        goal["query"],
        goal["name"],
        goal["product_category"],
        tuple(goal["attributes"]),
        tuple(options.items() if isinstance(options, dict) else options),
        round(goal["weight"], 12),
    )


@pytest.mark.parametrize("kind", ["synthetic", "human"])
def test_the_goals_are_webshops(folders: dict[str, Path], golden: dict[str, Any], kind: str) -> None:
    """The same goals as the original makes of this catalogue: words, attributes, options and weights."""
    products = load_catalogue(folders["bare"]).products
    made = human_goals(products) if kind == "human" else synthetic_goals(products)
    assert Counter(map(told, made)) == Counter(map(recorded, golden[kind]["goals"]))


@pytest.mark.parametrize("kind", ["synthetic", "human"])
def test_the_words_state_the_limit(folders: dict[str, Path], kind: str) -> None:
    """The limit is one of the four next steps above the price, and stands in the instruction; or there is none."""
    catalogue = load_catalogue(folders["bare"])
    goals = human_goals(catalogue.products) if kind == "human" else synthetic_goals(catalogue.products)
    for goal in goals:
        price, found = catalogue.by_asin[goal.asin].price, _PRICE.search(goal.instruction)
        above = [limit for limit in PRICE_RANGE if limit > price][:4]
        if len(above) < 2:
            assert found is None and goal.price_upper == NO_LIMIT
        else:
            assert found and float(found[1]) == goal.price_upper and goal.price_upper in above[1:]


def test_the_price_rule() -> None:
    """The larger of two of the next four tens above the price; nothing where fewer than two are left."""
    limits = {price_limit(55.5, Rng("limit", i)) for i in range(200)}
    assert limits == {(float(x), f", and price lower than {x}.00 dollars") for x in (70, 80, 90)}
    assert {price_limit(60.0, Rng("limit", i))[0] for i in range(200)} == {80.0, 90.0, 100.0}
    assert price_limit(975.0, Rng("limit"))[0] == 990.0
    assert price_limit(980.0, Rng("limit")) == (NO_LIMIT, "")


def test_a_synthetic_goal_draws_its_limit_once_a_product(folders: dict[str, Path]) -> None:
    """All combinations of a product's options share one limit."""
    limits: dict[str, set[float]] = {}
    for goal in synthetic_goals(load_catalogue(folders["bare"]).products):
        limits.setdefault(goal.asin, set()).add(goal.price_upper)
    assert all(len(each) == 1 for each in limits.values())


def test_goals_json_is_used_as_it_stands(folders: dict[str, Path], golden: dict[str, Any]) -> None:
    """Task i is goal i of the whole list, with its own words and limit."""
    env = ShopEnv(catalogue=folders["human"], goals="human")
    for number, goal in enumerate(golden["human"]["goals"]):
        assert env.task(number).instruction == goal["instruction_text"]
        env.reset(options={"task": number})
        assert env.shop_task.goal.price_upper == goal["price_upper"]
    with pytest.raises(UnknownNameError, match="100"):
        env.task(100)
    with pytest.raises(UnknownNameError):
        env.task(-1)


def test_a_list_is_split_by_position(folders: dict[str, Path]) -> None:
    """Test, valid and train are consecutive parts of a short list; within a named split a number counts from there."""
    env = ShopEnv(catalogue=folders["human"], goals="human")
    assert [env.task(i).split for i in (0, 19, 20, 29, 30, 99)] == ["test"] * 2 + ["valid"] * 2 + ["train"] * 2
    assert env.task(0, "train") == env.task(30) and env.task(30).id == "shop/train/human/30"
    assert {env.reset(seed=i, options={"split": "valid"})[1]["task_id"].split("/")[1] for i in range(20)} == {"valid"}
    with pytest.raises(UnknownNameError):
        env.task(10, "valid")


def test_a_folder_without_goals_gets_a_shuffled_list(folders: dict[str, Path]) -> None:
    """Goals made by the rules stand in an order that mixes products and is always the same."""
    env = ShopEnv(catalogue=folders["bare"])
    first = [env.task(i).instruction for i in range(5)]
    assert first == [ShopEnv(catalogue=folders["bare"]).task(i).instruction for i in range(5)]
    env.reset(options={"task": 0})
    assert len({goal.asin for goal in listed_goals(env.catalogue, "synthetic")[:10]}) > 3


GOLDEN_TASKS = {
    "shop/train/easy/0": "Find me fast pairing earbuds with size: medium, and price lower than 50.00 dollars",
    "shop/test/medium/17": (
        "Find me memory cushion, easy assembly desk chairs with color: black, and style: without "
        "headrest, and price lower than 250.00 dollars"
    ),
    "shop/valid/hard/123456": (
        "Find me waterproof, quick drying, rubber sole trail running shoes with color: black, and size: "
        "9.5, and width: narrow, and price lower than 130.00 dollars"
    ),
    "shop/test/human/0": (
        "i'd like to order a daily shampoo with the peppermint scent, and it matters that it is ph "
        "balanced and is made with coconut milk and argan oil, and price lower than 30.00 dollars"
    ),
}


def test_ids_are_stable() -> None:
    """A task's words never change under its id; change `GOLDEN_TASKS` only together with the catalogue."""
    for name, instruction in GOLDEN_TASKS.items():
        kind: Any = name.split("/")[2]
        env = ShopEnv(goals="human") if kind == "human" else ShopEnv(difficulty=kind)
        assert env.task(name).instruction == instruction


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_difficulty_is_attributes_and_options(difficulty: Any) -> None:
    """Easy names one attribute and one option, medium two and one or two, hard three and two or three."""
    env = ShopEnv(difficulty=difficulty)
    count, groups = DIFFICULTIES[difficulty]
    seen = set()
    for number in range(60):
        env.reset(options={"task": number, "split": "test"})
        goal = env.shop_task.goal
        product = env.catalogue.by_asin[goal.asin]
        assert len(goal.attributes) == count and set(goal.attributes) <= set(product.attributes)
        assert [option[0] for option in goal.options] == sorted(product.options)
        assert env.task(number, "test").kind == product.category
        seen.add(len(goal.options))
    assert seen == set(groups)


def test_splits_are_disjoint_in_their_products() -> None:
    """The target of a task belongs to the task's split, in the shares that are promised."""
    env = ShopEnv()
    shares = Counter(split_of(product) for product in env.catalogue.products)
    size = len(env.catalogue.products)
    assert 0.6 < shares["train"] / size < 0.8 and shares["valid"] / size > 0.05 and shares["test"] / size > 0.12
    for split in SPLITS:
        for number in range(50):
            env.reset(options={"task": number, "split": split})
            assert split_of(env.catalogue.by_asin[env.shop_task.goal.asin]) == split


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_splits_are_disjoint_in_their_requests(difficulty: Any) -> None:
    """No product of another split has what a task's target was asked for and as many groups of options."""
    env = ShopEnv(difficulty=difficulty)
    for split, number in product(SPLITS, range(50)):
        goal = env.tasks.get(number, split).goal
        for other in env.catalogue.products:
            if split_of(other) != split and other.query == goal.query and len(other.options) == len(goal.options):
                chosen = dict(option for option in goal.options if not isinstance(option, str))
                has_all = all(value in other.options.get(name, ()) for name, value in chosen.items())
                assert not (has_all and set(goal.attributes) <= set(other.attributes))


def test_people_wrote_finite_tasks_for_the_embedded_catalogue() -> None:
    """Human goals are numbered within their split, by product, and end somewhere."""
    env = ShopEnv(goals="human")
    assert isinstance(env.tasks, ListedTasks)
    for split in SPLITS:
        size = len(env.tasks.places[split])
        assert size > 10
        last = env.task(size - 1, split)
        assert last.id == f"shop/{split}/human/{size - 1}" and env.task(last.id) == last
        with pytest.raises(UnknownNameError):
            env.task(size, split)


@pytest.mark.parametrize(
    "name",
    [
        "shop/test/hard/3",
        "shop/tset/medium/3",
        "shop/test/medium/03",
        "shop/test/medium/-1",
        "shop/test/medium",
        "x",
        "",
    ],
)
def test_an_unknown_task_is_named(name: str) -> None:
    """The message shows what an id looks like."""
    with pytest.raises(UnknownNameError, match="medium"):
        ShopEnv().task(name)


@pytest.mark.parametrize("name", [None, 1.5, True, ["shop/test/medium/3"]])
def test_a_task_is_an_id_or_a_number(name: Any) -> None:
    """Nothing else names a task."""
    with pytest.raises(UnknownNameError):
        ShopEnv().task(name)


def test_a_catalogue_too_small_for_a_difficulty_says_so(folders: dict[str, Path]) -> None:
    """A split without a product of the kind is an error, not an endless search."""
    tasks = GeneratedTasks(load_catalogue(folders["bare"]), "hard")
    tasks.pools["test"].clear()
    with pytest.raises(ConfigError, match="split 'test' has no product for difficulty 'hard'"):
        tasks.get(0, "test")
