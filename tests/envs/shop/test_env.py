"""AgentShop as an environment: its default mode, what may be said to it, forks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym_py  # noqa: F401  # registers the environments
from agentgym_envs.shop.env import Mode, ShopEnv
from agentgym_py.errors import ConfigError, SnapshotError
from agentgym_py.rng import Rng

MODES: tuple[Mode, ...] = ("react", "text", "text_rich", "html", "url")


def walk(env: ShopEnv, rng: Rng, steps: int) -> list[tuple[object, ...]]:
    """Random admissible actions, with what came of them."""
    return [env.step(rng.choice(env.actions() or ["nothing"])) for _ in range(steps)]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_gymnasium_accepts_every_mode(mode: Any, strict: bool) -> None:
    """Gymnasium's checker is content, and copies step under `make_vec`."""
    options = {"observation_mode": mode, "strict_compat": strict}
    env: Any = gymnasium.make("AgentShop-v0", disable_env_checker=True, **options).unwrapped
    check_env(env, skip_render_check=True)
    vector = gymnasium.make_vec("AgentShop-v0", num_envs=2, vectorization_mode="sync", **options)
    starts, _ = vector.reset(seed=1)
    assert tuple(starts) == (env.reset(seed=1)[0], env.reset(seed=2)[0])
    turns, rewards, terminated, *_ = vector.step(("click[buy now]", "search[shoes]"))
    assert turns[1] == env.step("search[shoes]")[0] and not rewards.any() and not terminated.any()
    vector.close()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"goals": "synth"}, "goals must be one of synthetic, human, not 'synth'"),
        ({"observation_mode": "rich"}, "one of react, text, text_rich, html, url, not 'rich'"),
        ({"difficulty": "harder"}, "one of easy, medium, hard, not 'harder'. Did you mean 'hard'?"),
        ({"goals": "human", "difficulty": "easy"}, "goals='human' has no difficulties"),
        ({"max_steps": 0}, "max_steps must be at least 1"),
    ],
)
def test_a_wrong_setting_says_what_is_possible(setting: dict[str, Any], said: str) -> None:
    """ConfigError names the setting, the value and the possible ones."""
    with pytest.raises(ConfigError) as raised:
        ShopEnv(**setting)
    assert said in str(raised.value)


def test_an_argument_that_it_does_not_take_is_named() -> None:
    """Through Gymnasium too, which would only have a TypeError: the nearest argument, and all of them."""
    said = r"takes no argument 'dificulty'\. Did you mean 'difficulty'\? It takes: catalogue, .*, strict_compat\."
    with pytest.raises(ConfigError, match=said):
        gymnasium.make("AgentShop-v0", dificulty="hard")


def bought(env: ShopEnv) -> list[tuple[str, str]]:
    """The actions of the expert and the observations that follow."""
    return [(action, env.step(action)[0]) for action in env.expert()]


def test_react_shows_a_visit_in_few_lines() -> None:
    """Request and search box, a line a product, a line a group of options, a line an option, a line at the end."""
    env = ShopEnv(difficulty="medium")
    first, _ = env.reset(options={"task": "shop/test/medium/1"})
    goal = env.shop_task.goal
    assert first == f"{goal.instruction}\n[search]"
    steps = bought(env)
    assert steps[0][0] == f"search[{', '.join(goal.attributes)} {goal.query}]"
    assert steps[0][1].startswith("Page 1 of ") and steps[0][1].endswith("\n[next >] [back to search]")
    assert len(steps[0][1].splitlines()) == 12
    asin = steps[1][0][6:-1]
    product = env.catalogue.by_asin[asin]
    lines = steps[1][1].splitlines()
    assert lines[0] == f"{asin} {product.title} {product.price_text}" and lines[0] in steps[0][1].splitlines()
    assert lines[1:-1] == [f"{name}: {' | '.join(values)}" for name, values in product.options.items()]
    assert lines[-1] == "[description] [features] [< prev] [back to search] [buy now]"
    said = [f"{option[0]}: {option[1]} is selected." for option in goal.options]
    assert sorted(step[1] for step in steps[2:-1]) == sorted(said)
    assert steps[-1] == ("click[buy now]", f"Bought {asin}. Score 1.00.")


@pytest.fixture
def at_item() -> ShopEnv:
    """An environment on the page of the product that the expert would buy."""
    env = ShopEnv(max_steps=50)
    env.reset(options={"task": "shop/test/medium/1"})
    for action in env.expert()[:2]:
        env.step(action)
    return env


def test_sub_pages_keep_the_options(at_item: ShopEnv) -> None:
    """Description, features and reviews lead back to the item with what was chosen; results forget it."""
    product = at_item.moves.product(at_item.session)
    name, values = next(iter(product.options.items()))
    at_item.step(f"click[{values[0]}]")
    assert at_item.step("click[description]")[0] == f"{product.description}\n[< prev] [back to search]"
    assert f"selected: {name}: {values[0]}" in at_item.step("click[< prev]")[0].splitlines()
    assert at_item.step("click[features]")[0].splitlines()[:-1] == list(product.bullets)
    at_item.step("click[< prev]")
    assert at_item.step("click[reviews]")[0] == "No reviews.\n[< prev] [back to search]"
    at_item.step("click[< prev]")
    assert at_item.step("click[< prev]")[0].startswith("Page 1 of ")
    assert at_item.session.chosen == {}
    assert at_item.step("click[back to search]")[0] == "[search]"


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("search[shoes]", "No search here; click[back to search] first."),
        ("click[a thing]", "Nothing to click called 'a thing' here."),
        (f"click[{'x' * 500}]", f"Nothing to click called '{'x' * 60}' here."),
        ("buy it", "Not an action: write search[words] or click[button]."),
        ("Click['a thing']", "Nothing to click called 'a thing' here."),
        ("click[]", "Not an action: write search[words] or click[button]."),
        ("", "Not an action: write search[words] or click[button]."),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(at_item: ShopEnv, action: str, said: str) -> None:
    """The state stays, the observation says what is wrong, `valid_action` is False."""
    before = at_item.state()
    observation, reward, terminated, _, info = at_item.step(action)
    assert (observation, reward, terminated, info["valid_action"]) == (said, 0.0, False, False)
    assert at_item.state() == before


def test_the_search_page_wants_words() -> None:
    """Blank words and clicks are refused there with what to do instead."""
    env = ShopEnv()
    env.reset(seed=0)
    assert env.step("search[ \n ]")[0] == "Search for what? Write search[words]."
    assert env.step("click[buy now]")[0] == "Write search[words] to search."
    assert env.step("search[zzzz]")[0] == "No results.\n[back to search]"


def test_next_ends_at_the_last_page() -> None:
    """The last page offers no Next and refuses it; Prev goes back to page 1, which has none."""
    env = ShopEnv(max_steps=50)
    env.reset(seed=0)
    last = env.step("search[shoes]")[0]
    pages = int(last.split("\n")[0].split()[-1])
    for _ in range(pages - 1):
        last = env.step("click[next >]")[0]
    assert last.startswith(f"Page {pages} of {pages}") and last.endswith("\n[< prev] [back to search]")
    assert env.step("click[next >]")[0] == "This is the last page."
    for _ in range(pages - 1):
        last = env.step("click[< prev]")[0]
    assert last.endswith("\n[next >] [back to search]")
    assert not env.step("click[< prev]")[4]["valid_action"]


@pytest.mark.parametrize(
    "reply",
    [
        "Thought: I want it.\nAction: click[Buy Now]",
        "Action: click\nAction Input: buy now",
        '{"name": "click", "arguments": {"target": "buy now"}}',
        '<tool_call>{"name": "click", "arguments": "{\\"target\\": \\"BUY NOW\\"}"}</tool_call>',
        "  click[  buy   now ] please",
    ],
)
def test_every_form_of_reply_is_understood(at_item: ShopEnv, reply: str) -> None:
    """ReAct text, a tool call and the bare action do the same."""
    observation, _, terminated, _, info = at_item.step(reply)
    assert terminated and info["valid_action"] and observation.startswith("Bought ")


def test_tools_are_schemas_of_the_two_actions() -> None:
    """Both tools are OpenAI functions with one required string."""
    tools = ShopEnv().tools()
    assert [tool["function"]["name"] for tool in tools] == ["search", "click"]
    for tool in tools:
        parameters = tool["function"]["parameters"]
        assert parameters["required"] == list(parameters["properties"])
    json.dumps(tools)


def test_the_reward_comes_with_its_parts(at_item: ShopEnv) -> None:
    """Buying without options earns a part; `exact` and `success` are False, `reward_parts` tell why."""
    _, reward, terminated, _, info = at_item.step("click[buy now]")
    parts = info["reward_parts"]
    assert terminated and 0 < reward < 1 and not info["success"] and not info["exact"]
    assert parts["r_option"] < 1 and parts["r_type"] == parts["r_att"] == parts["r_price"] == 1.0


def test_a_thing_of_another_kind_is_no_success() -> None:
    """A mouse is no keyboard, even with the full reward of WebShop's."""
    env = ShopEnv(difficulty="easy")
    env.reset(options={"task": "shop/test/easy/10"})
    assert "rechargeable keyboards with color: black" in env.shop_task.goal.instruction
    mouse = env.catalogue.by_asin["B2723"]
    for action in (f"search[{mouse.title}]", f"click[{mouse.asin}]", "click[black]"):
        env.step(action)
    _, reward, terminated, _, info = env.step("click[buy now]")
    assert terminated and reward == 1.0 and not info["success"] and info["costs"] == {"wrong_purchase": 1.0}
    assert mouse not in env._guide().suitable


def test_nothing_happens_after_the_end(at_item: ShopEnv) -> None:
    """A second purchase pays nothing."""
    at_item.step("click[buy now]")
    assert at_item.step("click[buy now]")[:3] == ("The episode has ended.", 0.0, True)
    assert at_item.expert() == []


def test_every_admissible_action_is_valid() -> None:
    """Whatever `actions` lists can be done, in every mode."""
    for mode in MODES:
        env = ShopEnv(observation_mode=mode, max_steps=10_000)
        for seed in range(5):
            env.reset(seed=seed)
            while not env.stop_reason and env.steps < 60:
                action = Rng("valid", seed, env.steps).choice(env.actions())
                assert env.step(action)[4]["valid_action"], action


@settings(max_examples=75, deadline=None)
@given(
    text=st.text() | st.text("searchclik[]< >:\n{}\"'").map(lambda inner: f"click[{inner}]"), seed=st.integers(0, 20)
)
@pytest.mark.parametrize("strict", [False, True])
def test_any_string_is_a_step(strict: bool, text: str, seed: int) -> None:
    """No string raises, wherever it is said, and the episode can still be forked."""
    env = ShopEnv(strict_compat=strict)
    env.reset(seed=seed)
    walk(env, Rng("any", seed), seed % 5)
    env.step(text)
    env.restore(env.snapshot())
    assert isinstance(env.step(f"search[{text}]")[0], str)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(0, 12), mode=st.sampled_from(MODES), strict=st.booleans())
def test_a_fork_has_the_same_future(seed: int, steps: int, mode: Any, strict: bool) -> None:
    """A snapshot of any moment, restored in another environment, continues the same."""
    here, there = (ShopEnv(observation_mode=mode, strict_compat=strict) for _ in range(2))
    here.reset(seed=seed)
    walk(here, Rng("past", seed), steps)
    snapshot = here.snapshot()
    there.restore(snapshot)
    assert there.snapshot() == snapshot
    assert walk(there, Rng("future", seed), 8) == walk(here, Rng("future", seed), 8)
    assert there.reset() == here.reset()


def test_a_snapshot_of_another_catalogue_is_refused(folders: dict[str, Path]) -> None:
    """As is one of a task that this environment does not have."""
    env, other = ShopEnv(), ShopEnv(catalogue=folders["bare"], difficulty="medium")
    env.reset(seed=0)
    other.reset(seed=0)
    with pytest.raises(SnapshotError, match="catalogue"):
        other.restore(env.snapshot())
    with pytest.raises(SnapshotError):
        ShopEnv(difficulty="hard").restore(env.snapshot())


def test_random_tasks_differ_and_stay_in_their_split() -> None:
    """Seeds give different tasks, all of the environment's split or of the one asked for."""
    env = ShopEnv(split="valid")
    ids = [env.reset(seed=seed)[1]["task_id"] for seed in range(30)]
    assert len(set(ids)) == 30 and {name.split("/")[1] for name in ids} == {"valid"}
    assert env.reset(seed=0, options={"split": "test"})[1]["task_id"].startswith("shop/test/medium/")


def test_rules_are_as_long_as_they_say() -> None:
    """Full rules are some 120 words, brief ones a sentence."""
    assert 100 <= len(ShopEnv.rules["full"].split()) <= 140
    assert ShopEnv.rules["brief"].count(".") == 1 and ShopEnv.rules["none"] == ""


@pytest.mark.parametrize(
    "change",
    [
        {"place": "cellar"},
        {"place": "attributes"},
        {"place": "results"},
        {"query": None},
        {"number": "x"},
        {"number": 0},
        {"number": 1 << 70},
        {"number": True},
        {"asin": "B9999"},
        {"asin": ""},
        {"chosen": {"color": "no such colour"}},
        {"chosen": {"no such option": 3}},
        {"chosen": []},
        {"seen": ["B9999"]},
        {"seen": [3]},
        {"salt": 1.5},
        {"reward": float("nan")},
        {"reward": "1"},
        {"catalogue": "other"},
    ],
)
def test_a_corrupt_visit_is_refused_and_nothing_changes(at_item: ShopEnv, change: dict[str, Any]) -> None:
    """A snapshot whose visit cannot be is a SnapshotError, and the episode continues as if it had not been tried."""
    whole = json.loads(at_item.snapshot())
    whole["state"] |= change
    at_item.step("click[description]")
    before = at_item.snapshot()
    with pytest.raises(SnapshotError):
        at_item.restore(json.dumps(whole).encode())
    assert at_item.snapshot() == before


def ended_otherwise(env: ShopEnv) -> bytes:
    """The snapshot of a visit after its purchase, of which it is said that it continues."""
    env.reset(seed=0)
    for action in env.expert():
        env.step(action)
    whole = json.loads(env.snapshot())
    assert (whole["state"]["place"], whole["ended"]) == ("done", "terminated")
    return json.dumps(whole | {"ended": ""}).encode()


def test_after_the_purchase_an_episode_is_over(at_item: ShopEnv) -> None:
    """A snapshot after the purchase that has not ended is refused, as is one before it that has."""
    going_on = json.loads(at_item.snapshot())
    for wrong in (ended_otherwise(ShopEnv(max_steps=50)), json.dumps(going_on | {"ended": "terminated"}).encode()):
        with pytest.raises(SnapshotError, match=r"'ended'|has not ended"):
            at_item.restore(wrong)
        assert json.loads(at_item.snapshot()) == going_on
    at_item.restore(json.dumps(going_on | {"ended": "truncated", "steps": at_item.max_steps}).encode())


def test_webshop_goes_on_after_the_purchase() -> None:
    """In strict mode an action that is refused there takes the end away: such a snapshot is a true one."""
    env = ShopEnv(strict_compat=True)
    env.restore(ended_otherwise(ShopEnv(strict_compat=True)))
    assert env.session.place == "done" and not env.stop_reason
