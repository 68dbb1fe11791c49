"""The environment as agents meet it: modes, tools, snapshots, settings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.household.env import HouseholdEnv, Mode
from agentgym_envs.household.house import QUIRKS
from agentgym_py.errors import ConfigError, SnapshotError
from agentgym_py.rng import Rng


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"observation_mode": "text"}, "one of react, alfworld"),
        ({"dialect": "new"}, "observation_mode='alfworld'"),
        ({"dialect": "oldest", "observation_mode": "alfworld"}, "one of new, old"),
        ({"quirks": ["blind_loop"]}, "Did you mean 'blind_look'"),
        ({"difficulty": "harder"}, "Did you mean 'hard'"),
        ({"colour": "red"}, "no argument 'colour'"),
    ],
)
def test_wrong_settings_are_said(settings: dict[str, Any], says: str) -> None:
    """With what there is instead."""
    with pytest.raises(ConfigError, match=says):
        HouseholdEnv(**settings)


def test_quirks_are_the_modes_own_unless_named() -> None:
    """All in mode alfworld, one in react; named ones replace them."""
    assert HouseholdEnv(observation_mode="alfworld").quirks == frozenset(QUIRKS)
    assert HouseholdEnv().quirks == {"one_temperature"}
    assert HouseholdEnv(quirks="blind_look").quirks == {"blind_look"} and HouseholdEnv(quirks=[]).quirks == frozenset()


@pytest.mark.parametrize("mode", ["react", "alfworld"])
@pytest.mark.parametrize("dialect", [None, "old"])
def test_tools_do_what_commands_do(mode: str, dialect: Any) -> None:
    """Each step of an expert's plan said as a tool call, ReAct text or an action with its input has the same answer."""
    if mode == "react" and dialect:
        return
    made: dict[str, Any] = {"observation_mode": mode, "dialect": dialect, "difficulty": "medium"}
    plain, called = HouseholdEnv(**made), HouseholdEnv(**made)
    names = {tool["function"]["name"]: list(tool["function"]["parameters"]["properties"]) for tool in plain.tools()}
    for number in range(30):
        plain.reset(options={"task": number})
        called.reset(options={"task": number})
        for command in plain.expert():
            words = command.split()
            tool = {"go": "go_to", "put": "put_in"}.get(words[0], words[0])
            given = [" ".join(words[2:4])] if tool == "go_to" else [" ".join(words[1:3])]
            given += [" ".join(words[4:6])] if len(words) == 6 else []
            call = {"name": tool, "arguments": dict(zip(names[tool], given, strict=True))}
            said = json.dumps(call) if number % 2 else f"Thought: so\nAction: {command}"
            assert plain.step(command) == called.step(said)
        assert called.succeeded


@pytest.mark.parametrize(
    "said",
    [
        '{"name": "fly", "arguments": {}}',
        '{"name": "take", "arguments": {"object": 5}}',
        "Action: go\nAction Input: {}",
    ],
)
def test_calls_that_make_no_sense_are_answered(said: str) -> None:
    """Unknown tools and missing or odd arguments are invalid steps that say what is possible."""
    env = HouseholdEnv()
    env.reset(seed=1)
    told, _, _, _, info = env.step(said)
    assert told.startswith("Nothing happens: ") and not info["valid_action"]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(0, 30), alfworld=st.booleans())
def test_an_episode_can_be_moved_at_any_step(seed: int, steps: int, alfworld: bool) -> None:
    """A snapshot of a random walk, taken up elsewhere, has the same commands, plan and next command of the searcher."""
    made: dict[str, Any] = {"observation_mode": "alfworld" if alfworld else "react"}
    here, there = HouseholdEnv(**made), HouseholdEnv(**made)
    here.reset(seed=seed)
    rng = Rng("move", seed)
    for _ in range(steps):
        if not here.stop_reason:
            here.step(rng.choice(here.actions()))
    there.restore(here.snapshot())
    assert there.snapshot() == here.snapshot() and there.actions() == here.actions()
    assert (there.expert(), there.fair_expert()) == (here.expert(), here.fair_expert())


def test_a_snapshot_of_other_rules_is_refused() -> None:
    """The same task in another mode or with other quirks is another episode."""
    env = HouseholdEnv(observation_mode="alfworld")
    env.reset(seed=1)
    for other in (HouseholdEnv(), HouseholdEnv(observation_mode="alfworld", quirks=["blind_look"])):
        with pytest.raises(SnapshotError, match=r"its world was made with .'observation_mode': 'alfworld'"):
            other.restore(env.snapshot())


def test_a_searchers_episode_is_short_enough_for_small_models() -> None:
    """Rules aside, an episode of the fair expert at medium stays far below 6,000 characters."""
    env = HouseholdEnv(split="test")
    for number in range(60):
        told, _ = env.reset(options={"task": number})
        length = len(told)
        while not env.stop_reason:
            command = env.fair_expert() or ""
            length += len(command) + len(env.step(command)[0])
        assert length < 6000


@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
def test_chance_does_not_get_there(difficulty: str) -> None:
    """Random admissible commands solve at most one episode in twenty."""
    env, solved = HouseholdEnv(difficulty=difficulty), 0
    for seed in range(100):
        rng = Rng("chance", seed)
        env.reset(seed=seed)
        while not env.stop_reason:
            env.step(rng.choice(env.actions()))
        solved += env.succeeded
    assert solved <= 5


def test_the_admissible_commands_are_told_as_the_original_does() -> None:
    """In `info` of mode alfworld at reset and at each step; mode react leaves them to `actions`."""
    env = HouseholdEnv(observation_mode="alfworld")
    assert env.reset(seed=1)[1]["admissible_commands"] == env.actions()
    assert env.step("look")[4]["admissible_commands"] == env.actions()
    assert "admissible_commands" not in HouseholdEnv().reset(seed=1)[1]


@pytest.mark.parametrize("mode", ["react", "alfworld"])
def test_what_was_not_told_stays_secret(mode: str) -> None:
    """No step of a random walk names a secret, a step that tells of one makes it none, and all begin as such."""
    env, told_of = HouseholdEnv(observation_mode=mode, difficulty="hard"), 0  # type: ignore[arg-type]  # one of two
    for seed in range(30):
        rng = Rng("secrets", seed)
        told, info = env.reset(seed=seed)
        assert len(env.secrets()) == len(env.house.room.things)
        while not env.stop_reason:
            shown = f"{told} {' '.join(info.get('admissible_commands', ()))} "
            assert not [name for name in env.secrets() if re.search(rf"\b{name}\b", shown)], env.current_task
            before = len(env.secrets())
            told, *_, info = env.step(rng.choice(env.actions()))
            told_of += len(env.secrets()) < before
    assert told_of > 100


def test_the_original_goes_on_after_the_end(games: Path) -> None:
    """Mode alfworld answers and judges what is done then; mode react says that it is over."""
    for mode in get_args(Mode):
        env = HouseholdEnv(games=games, observation_mode=mode)
        env.reset(options={"task": "pick_and_place_simple-Mug-None-CoffeeMachine-10"})
        last = env.expert()[-1]
        assert [env.step(command)[1:4] for command in env.expert()][-1] == (1.0, True, False)
        words = last.split()
        after = env.step(f"take {words[1]} {words[2]} from {words[4]} {words[5]}")
        assert after[1:4] == ((0.0, False, False) if mode == "alfworld" else (0.0, True, False))
        assert after[0].startswith("You pick up" if mode == "alfworld" else "The episode has ended.")
    env = HouseholdEnv(games=games, observation_mode="alfworld", max_steps=2)
    env.reset(options={"task": 0})
    said = [env.step(command) for command in ("look", "go to desk 1", "examine desk 1")]
    assert [each[3] for each in said] == [False, True, True]
    assert said[2][0] == said[1][0].removeprefix("You arrive at desk 1. ")


def test_games_are_kept_but_not_all_of_them(tmp_path: Path, games: Path) -> None:
    """A folder of thousands does not fill the memory: the last 64 rooms stay read."""
    text = next(games.glob("*424.tw-pddl")).read_text("utf-8")
    for number in range(70):
        (tmp_path / f"g{number:02}.tw-pddl").write_text(text, encoding="utf-8")
    env = HouseholdEnv(games=tmp_path)
    assert len({env.task(number).id for number in range(70)}) == 70 and len(env._read) == 64
