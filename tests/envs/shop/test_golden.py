"""The recorded episodes of the original WebShop, replayed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym_envs.shop.env import ShopEnv

KINDS = ("synthetic", "human")
MODES = ("text", "text_rich", "url")


def replayed(env: ShopEnv, trace: dict[str, Any]) -> Iterator[tuple[dict[str, Any], tuple[object, ...]]]:
    """Each recorded step beside what the environment gives for it."""
    for step in trace["steps"]:
        if step["action"] is None:
            observation, info = env.reset(options={"task": trace["goal_index"]})
            reward, terminated = 0.0, False
        else:
            observation, reward, terminated, _, info = env.step(step["action"])
        yield step, (observation, reward, terminated, info["clickables"], info["has_search_bar"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_recorded_step_comes_back(golden: dict[str, Any], folders: dict[str, Path], kind: Any, mode: Any) -> None:
    """Observation, reward, end, clickables and search bar of all 40 episodes are equal, to the character."""
    env = ShopEnv(catalogue=folders[kind], goals=kind, observation_mode=mode, strict_compat=True)
    for trace in golden[kind]["traces"]:
        for step, got in replayed(env, trace):
            wanted = (step["obs"][mode], step["reward"], step["done"], step["clickables"], step["has_search_bar"])
            assert got == wanted, (trace["goal_index"], step["action"])


def test_recorded_episodes_fork_anywhere(golden: dict[str, Any], folders: dict[str, Path]) -> None:
    """A replay that is moved to another environment after every step still gives what was recorded."""
    make: dict[str, Any] = {"catalogue": folders["synthetic"], "observation_mode": "text_rich", "strict_compat": True}
    here, there = ShopEnv(**make), ShopEnv(**make)
    for trace in golden["synthetic"]["traces"][:5]:
        here.reset(options={"task": trace["goal_index"]})
        for step in trace["steps"][1:]:
            there.restore(here.snapshot())
            here, there = there, here
            assert here.step(step["action"])[0] == step["obs"]["text_rich"]


def strict(folder: Path, **kwargs: Any) -> ShopEnv:
    """A strict environment on goal 0."""
    env = ShopEnv(catalogue=folder, strict_compat=True, **{"observation_mode": "text", "max_steps": 100, **kwargs})
    env.reset(options={"task": 0})
    return env


@pytest.mark.parametrize(
    "action",
    ["Search[x]", "search[]", " search[x]", "\nclick[search]", "search", "x", "", "click[search]", "search[a\n]"],
)
def test_what_webshop_cannot_read_changes_nothing(folders: dict[str, Path], action: str) -> None:
    """The same observation, reward 0, not done, and `valid_action` says so."""
    env = strict(folders["synthetic"])
    before = env.reset(options={"task": 0})[0]
    observation, reward, terminated, _, info = env.step(action)
    assert (observation, reward, terminated, info["valid_action"]) == (before, 0.0, False, False)


def test_search_works_on_every_page_even_after_the_end(folders: dict[str, Path]) -> None:
    """One can search from an item and after the purchase, and be paid again."""
    env = strict(folders["synthetic"])
    env.step("search[power cord]")
    env.step(f"click[{env.extra_info()['clickables'][-1]}]")
    for _ in range(2):
        assert "Page 1 (Total results: " in env.step("search[women's dress] and the rest is not read")[0]
        bought = [env.step(action) for action in env.expert()][-1]
        assert bought[1:3] == (1.0, True)
        assert env.step("click[Buy Now]")[1:3] == (0.0, False)


def test_next_has_no_end(folders: dict[str, Path]) -> None:
    """Page 7 of 5 is empty and offers Next again; every one of the steps is valid."""
    env = strict(folders["synthetic"])
    env.step("search[cord]")
    for _ in range(6):
        assert env.step("click[Next >]")[4]["valid_action"]
    assert env.extra_info()["clickables"] == ["back to search", "< prev", "next >"]


def test_the_first_of_two_equal_values_cannot_be_reached(folders: dict[str, Path], golden: dict[str, Any]) -> None:
    """Of color: black and style: black a click chooses the style."""
    asin = next(i["asin"] for i in golden["items"] if {"Color", "Style"} <= set(i["customization_options"] or ()))
    env = strict(folders["synthetic"], observation_mode="url")
    env.step(f"search[{env.catalogue.by_asin[asin].title}]")
    env.step(f"click[{asin}]")
    assert env.step("click[black]")[0].endswith('{"style": "black"}')


def test_an_option_called_features_opens_features(folders: dict[str, Path], golden: dict[str, Any]) -> None:
    """The name decides, and the option stays unchosen."""
    asin = next(i["asin"] for i in golden["items"] if "Features" in str(i["customization_options"]))
    env = strict(folders["synthetic"], observation_mode="url")
    env.step(f"search[{env.catalogue.by_asin[asin].title}]")
    env.step(f"click[{asin}]")
    assert "/Features/{}" in env.step("click[features]")[0]


@pytest.mark.parametrize(
    ("query", "count"),
    [("<r>", 50), ("<q> power cords", None), ("<c> beauty", None), ("<a> non slip", None), ("<c>", 0)],
)
def test_the_shortcuts_of_the_authors_work(folders: dict[str, Path], query: str, count: int | None) -> None:
    """`<r>`, `<q>`, `<c>` and `<a>` list products at random, of a query, a category or an attribute."""
    env = strict(folders["synthetic"])
    assert env.step(f"search[{query}]")[4]["valid_action"]
    found = env.moves.hits(env.session)
    assert len(found) == count if count is not None else 0 < len(found) < 100
    there = strict(folders["synthetic"])
    there.restore(env.snapshot())
    assert there.step("click[next >]") == env.step("click[next >]")
