"""The recorded episodes of ALFWorld's engine, replayed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from agentgym_envs.household.env import HouseholdEnv, Mode
from agentgym_envs.household.sentences import AlfworldSentences


def played(games: Path, **kwargs: Any) -> HouseholdEnv:
    """An environment of the recorded games, with room for the longest recording."""
    return HouseholdEnv(games=games, observation_mode="alfworld", max_steps=500, **kwargs)


def test_every_recorded_step_comes_back(recorded: dict[str, Any], games: Path) -> None:
    """Text, admissible commands, reward, end and validity of all 29 episodes are equal, to the character."""
    env, count = played(games), 0
    for episode in recorded["transcripts"]:
        observation, info = env.reset(options={"task": episode["game"]})
        wanted = (episode["initial_observation"], episode["initial_admissible"])
        assert (observation, info["admissible_commands"]) == wanted, episode["game"]
        task = env.current_task
        assert task and (task.kind, task.instruction) == (episode["task_type"], episode["task"])
        for step in episode["steps"]:
            observation, reward, terminated, truncated, info = env.step(step["command"])
            got = (observation, reward, terminated, info["success"], info["valid_action"], info["admissible_commands"])
            known = (step["reward"], step["done"], step["won"], step["was_admissible"], step["admissible"])
            assert got == (step["feedback"], *known), (episode["game"], step["command"])
            assert env.actions() == step["admissible"] and not truncated
            count += 1
    assert (len(recorded["transcripts"]), count) == (29, 2034)


def test_every_step_of_changed_games_comes_back(variants: list[dict[str, Any]], tmp_path: Path) -> None:
    """In the older grammar, in crowded places, with odd facts (no type, out of reach), and beyond the end."""
    for episode in variants:
        (tmp_path / f"{episode['name']}.tw-pddl").write_text(json.dumps(episode["game"]), encoding="utf-8")
    env, count, crowded = played(tmp_path), 0, 0
    for episode in variants:
        told, info = env.reset(options={"task": episode["name"]})
        assert (told, info["admissible_commands"]) == (episode["first"], episode["admissible"])
        for step in episode["steps"]:
            told, reward, _, _, info = env.step(step["command"])
            assert (told, info["admissible_commands"]) == (step["feedback"], step["admissible"]), step["command"]
            assert (reward, info["success"]) == (step["reward"], step["won"])
            count += 1
            crowded += "Next to it, you see a " in told
    assert count > 850 and crowded > 10


def test_recorded_episodes_fork_anywhere(recorded: dict[str, Any], games: Path) -> None:
    """A replay that is moved to another environment after every step still gives what was recorded."""
    here, there = played(games), played(games)
    for episode in recorded["transcripts"][20:]:
        here.reset(options={"task": episode["game"]})
        for step in episode["steps"]:
            there.restore(here.snapshot())
            here, there = there, here
            assert here.step(step["command"])[0] == step["feedback"]


def test_the_expert_needs_no_more_than_any_recorded_winner(recorded: dict[str, Any], games: Path) -> None:
    """As many commands as ALFWorld's planner, which is optimal; the handcoded expert needs as many or more."""
    env, planned = played(games), 0
    for episode in recorded["transcripts"]:
        if not episode["won"]:
            continue
        env.reset(options={"task": episode["game"]})
        plan = env.expert()
        assert env.current_task and len(plan) == env.current_task.optimal_steps
        if episode["policy"] == "planner":
            assert len(plan) == episode["n_steps"]
            planned += 1
        assert len(plan) <= episode["n_steps"]
        assert [env.step(command) for command in plan][-1][4]["success"]
    assert planned == 6


def test_both_experts_solve_every_recorded_game(games: Path) -> None:
    """In either mode; the one who must search gets there within ALFWorld's fifty steps."""
    for mode in get_args(Mode):
        env = HouseholdEnv(games=games, observation_mode=mode)
        for number in range(12):
            env.reset(options={"task": number})
            plan = env.expert()
            assert [env.step(command) for command in plan][-1][2] and 4 <= len(plan) <= 10
            env.reset(options={"task": number})
            while not env.stop_reason:
                env.step(env.fair_expert() or "nothing is left")
            assert env.succeeded, env.current_task


def test_the_published_episodes_speak_the_old_dialect(recorded: dict[str, Any], games: Path) -> None:
    """Commands and answers of the thirty published prompts are of our old dialect, some edits by hand aside."""
    voice, count = AlfworldSentences("old"), 0
    env = played(games, dialect="old")
    env.reset(options={"task": 0})
    for episode in recorded["react"]:
        for step in episode["steps"]:
            command = voice.read(step["command"])
            if step["command"].startswith("think:"):
                assert command is None
                continue
            if step["feedback"] in ("", "Nothing happens."):
                continue
            assert command is not None, step["command"]
            if command.verb in ("take", "move", "clean", "heat", "cool", "close"):
                assert voice.report(env.house, command) == step["feedback"]
                count += 1
            elif command.verb in ("go", "open"):
                shape = r"(You open the \w+ \d+\. )?(The \w+ \d+ is (closed|open)\.|On the \w+ \d+, you see)"
                assert re.match(shape, step["feedback"]), step
    assert count > 60


def test_the_old_dialect_goes_to_places_and_puts_things_in_or_on(games: Path) -> None:
    """`put O in/on R` is its command, it arrives at numbered places and has no help."""
    env = played(games, dialect="old")
    env.reset(options={"task": "pick_and_place_simple-Mug-None-CoffeeMachine-10"})
    said = [env.step(command)[0] for command in env.expert()]
    assert re.fullmatch(r"You arrive at loc \d+\. The cabinet 3 is closed\.", said[0])
    assert said[-1] == "You put the mug 2 in/on the coffeemachine 1." and env.succeeded
    env.reset(options={"task": 0})
    assert "help" not in env.actions() and env.step("help")[0] == "Nothing happens."


@pytest.mark.parametrize("text", ["GO to desk 1", "go  to desk 1", "go to desk 1.", "goto desk 1", "look around"])
def test_the_original_knows_no_synonyms(games: Path, text: str) -> None:
    """Only the exact command counts; blanks around it do not matter."""
    env = played(games)
    env.reset(options={"task": 0})
    assert env.step(text)[0] == "Nothing happens."
    assert env.step("  go to desk 1\n")[0].startswith("You arrive at desk 1.")
