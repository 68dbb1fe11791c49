"""Pages in WebShop's modes: html reads as text, and the default mends what the original shows wrongly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from bs4.element import Comment

from agentgym_envs.shop.env import ShopEnv
from agentgym_py.rng import Rng

ODD = [
    "Features",
    "Buy Now",
    "< Prev",
    'red "x"',
    "a/b",
    "x [y]",
    "</label><p>",
    "&amp;",
    "  ",
    "Café",
    "a\nb",
    "red",
    "Red",
]
HIDDEN = {"style", "script", "head", "title", "meta", "[document]"}


def visible(html: str) -> str:
    """The strings of a page as WebShop's text mode picks them."""
    strings = BeautifulSoup(html, "html.parser").find_all(string=True)
    seen = (s for s in strings if s.parent and s.parent.name not in HIDDEN and not isinstance(s, Comment))
    return " [SEP] ".join(s.strip() for s in seen if s != "\n")


def clickable(html: str) -> list[str]:
    """The names of a page as WebShop picks them: buttons, links to products, values of radio buttons."""
    page = BeautifulSoup(html, "html.parser")
    links = [*page.find_all(class_="btn"), *page.find_all(class_="product-link")]
    radios = page.select('input[type="radio"]')
    return list(dict.fromkeys([*(link.get_text().lower() for link in links), *(str(r.get("value")) for r in radios)]))


@pytest.fixture(scope="module")
def odd_folder(golden: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded catalogue with odd options, empty texts and markup in its titles."""
    folder, rng, items = tmp_path_factory.mktemp("odd"), Rng("odd"), []
    for item in golden["items"]:
        options = {name: [{"value": rng.choice(ODD)} for _ in range(rng.below(4))] for name in ("Color", "Size", 'a"b')}
        text = rng.choice(["", " ", "\n", " \n ", "<b>bold</b> & so on", "two\n\nlines", " spaced  out "])
        changed = {"customization_options": options, "full_description": text, "small_description": [text, "fine"]}
        items.append({**item, **changed, "name": f"{item['name']} {text}"})
    for name, content in {
        "items_shuffle": items,
        "items_ins_v2": golden["items_ins_v2"],
        "items_human_ins": {},
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.mark.parametrize("strict", [False, True])
def test_html_reads_as_text(odd_folder: Path, strict: bool) -> None:
    """Parsed as WebShop parses it, every page of the html mode gives the text mode and the clickables."""
    settings: dict[str, Any] = {"catalogue": odd_folder, "strict_compat": strict, "max_steps": 10_000}
    html, text = (ShopEnv(observation_mode=mode, **settings) for mode in ("html", "text"))
    places = set()
    for seed in range(60):
        (page, info), (words, _) = html.reset(seed=seed), text.reset(seed=seed)
        for turn in range(12):
            assert visible(page) == words
            assert clickable(page) == [name for name in info["clickables"] if name.strip()]
            assert ("search_input" in page) == info["has_search_bar"]
            places.add(html.session.place)
            if html.stop_reason:
                break
            action = Rng("page", seed, turn).choice(html.actions())
            if seed % 3 and action == "click[back to search]":
                continue
            page, _, _, _, info = html.step(action)
            words = text.step(action)[0]
    assert places >= {"search", "results", "item", "description", "features", "reviews", "done"}


def at_item(folder: Path, asin: str, **settings: Any) -> ShopEnv:
    """An environment on a product's page."""
    env = ShopEnv(catalogue=folder, max_steps=100, **settings)
    env.reset(options={"task": 0})
    env.step(f"search[{env.catalogue.by_asin[asin].title}]".replace("\n", " "))
    while asin.lower() not in env.extra_info()["clickables"]:
        assert env.step("click[next >]")[4]["valid_action"]
    env.step(f"click[{asin}]")
    return env


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalogue of one product whose options collide with each other and with buttons."""
    folder = tmp_path_factory.mktemp("one")
    options = {"Color": ["Black", "Features", "Café"], "Style": ["Black", "Plain"], "Size": ["Size [US 8]", '8 "wide"']}
    item = {
        "asin": "B1",
        "name": "Thing",
        "category": "things",
        "query": "things",
        "product_category": "Things › All",
        "full_description": "It is a thing.",
        "small_description": ["good"],
        "pricing": "$5.00",
        "customization_options": {name: [{"value": value} for value in values] for name, values in options.items()},
    }
    ins = {"B1": {"attributes": ["good"], "instruction": "Find me good things", "instruction_attributes": ["good"]}}
    for name, content in {"items_shuffle": [item], "items_ins_v2": ins, "items_human_ins": {}}.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("action", "chosen"),
    [
        ("click[color: black]", {"color": "black"}),
        ("click[style: black]", {"style": "black"}),
        ("click[plain]", {"style": "plain"}),
        ("click[color: features]", {"color": "features"}),
        ("click[size [us 8]]", {"size": "size [us 8]"}),
        ('click[8 "WIDE"]', {"size": '8 "wide"'}),
    ],
)
def test_every_option_can_be_reached(one: Path, action: str, chosen: dict[str, str]) -> None:
    """Equal values, names of buttons and brackets are no obstacle outside of strict mode."""
    env = at_item(one, "B1")
    assert env.step(action)[4]["valid_action"] and env.session.chosen == chosen


def test_an_ambiguous_value_is_asked_back(one: Path) -> None:
    """The bare value of two options chooses neither and says how to write each."""
    env = at_item(one, "B1")
    assert env.step("click[black]")[0] == "Which one? click[color: black] or click[style: black]"
    assert env.session.chosen == {}
    assert env.extra_info()["clickables"][6:10] == ["color: black", "color: features", "café", "style: black"]


def test_every_goal_of_colliding_options_is_won(one: Path) -> None:
    """The expert writes options in the form that reaches them."""
    env = ShopEnv(catalogue=one)
    for number in range(12):
        env.reset(options={"task": number})
        assert [env.step(action) for action in env.expert()][-1][4]["success"], env.current_task


@pytest.mark.parametrize("value", ["café", '8 "wide"', "plain"])
def test_a_chosen_option_shows(one: Path, value: str) -> None:
    """Text mode marks what is selected, text_rich announces it, whatever letters it has."""
    text, rich = (at_item(one, "B1", observation_mode=mode) for mode in ("text", "text_rich"))
    assert f" [SEP] {value} [SEP] (selected) [SEP] " in text.step(f"click[{value}]")[0]
    shown = rich.step(f"click[{value}]")[0]
    assert shown.startswith(f"You have clicked {value}.\n")
    assert f"\n  [clicked button] {value} [clicked button_]\n" in shown and "(selected)" not in shown


def test_an_invalid_action_shows_the_page_again(one: Path) -> None:
    """In WebShop's modes nothing changes and the page stays."""
    env = at_item(one, "B1", observation_mode="text")
    page = env.step("click[< prev]")[0]
    assert env.step("click[zzz]")[0] == page and env.step("search[thing]")[0] == page
    assert "Next >" not in page and "Page 1 (Total results: 1)" in page


def test_the_end_page_has_no_hidden_fields(one: Path) -> None:
    """Thanks and score, nothing else."""
    env = at_item(one, "B1", observation_mode="text")
    shown = env.step("click[buy now]")[0]
    start = "Thank you for shopping with us! [SEP] Your score (min 0.0, max 1.0) [SEP] 0."
    assert shown.startswith(start) and shown.count("[SEP]") == 2


def test_urls_name_the_page(one: Path) -> None:
    """Session, product, words, page and options stand in the address."""
    env = at_item(one, "B1", observation_mode="url")
    assert env.step("click[plain]")[0] == 'http://127.0.0.1:3000/item_page/0/B1/thing/1/{"style": "plain"}'
    sub = "http://127.0.0.1:3000/item_sub_page/0/B1/thing/1/Reviews/{'style': 'plain'}"
    assert env.step("click[reviews]")[0] == sub
