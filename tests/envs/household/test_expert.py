"""Both experts: the one who knows everything is as short as a blind search; the one who must look does not peek."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from agentgym_envs.household.env import HouseholdEnv
from agentgym_envs.household.expert import plan
from agentgym_envs.household.fair_expert import find_known_things, next_command
from agentgym_envs.household.house import QUIRKS, House
from agentgym_envs.household.sentences import AlfworldSentences
from agentgym_py.env import SPLITS
from agentgym_py.rng import Rng

LEVELS = ("easy", "medium", "hard")


@pytest.mark.parametrize("states", [4, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", range(6))
@pytest.mark.parametrize("quirks", [frozenset(QUIRKS), frozenset()], ids=["all", "none"])
def test_no_way_is_shorter_than_the_experts(
    small: SimpleNamespace, quirks: frozenset[str], kind: int, states: int
) -> None:
    """From random states of small rooms, hands full or empty, its plan is as short as what trying everything finds."""
    tried = 0
    for seed in range(60):
        if tried == states:
            break
        rng = Rng("shortest", seed)
        room = small.draw(rng, small.goals[kind])
        house = House(room, quirks)
        if house.won():
            continue
        *_, house = small.wander(house, rng, 1 + rng.below(25))
        if not house.won():
            found = plan(house)
            assert (len(found) if found else None) == small.shortest(house), (seed, found)
            tried += 1
    assert tried == states


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_a_thing_may_lie_in_two_places(small: SimpleNamespace, kind: int) -> None:
    """Where it is wanted and elsewhere: to treat it is enough then, but it is no second thing beside itself."""
    tried = 0
    for seed in range(60):
        room = small.draw(Rng("twice", seed), small.goals[kind])
        contents = list(map(set, room.start.contents))
        contents[room.goal_receptacles[0]].add(1)
        start = replace(room.start, contents=tuple(tuple(sorted(found)) for found in contents))
        house = House(replace(room, start=start), frozenset(QUIRKS))
        if not house.won() and len(house.places(1)) > 1 and tried < 8:
            found = plan(house)
            assert (len(found) if found else None) == small.shortest(house), (seed, found)
            tried += 1
    assert tried == 8


@pytest.mark.parametrize("difficulty", LEVELS)
@pytest.mark.parametrize("mode", ["react", "alfworld"])
def test_every_generated_task_is_solved(difficulty: str, mode: str) -> None:
    """In the promised number of commands, each of them admissible; two hundred tasks of each split."""
    env = HouseholdEnv(difficulty=difficulty, observation_mode=mode)  # type: ignore[arg-type]  # one of two
    for split in SPLITS:
        for number in range(200):
            env.reset(options={"task": number, "split": split})
            found = env.expert()
            assert env.current_task and len(found) == env.current_task.optimal_steps
            for command in found:
                assert command in env.actions() and not env.stop_reason
                env.step(command)
            assert env.succeeded and env.stop_reason == "terminated", env.current_task


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_expert_solves_from_wherever_one_strayed(difficulty: str) -> None:
    """After random admissible commands the plan still succeeds, and each command of it makes the rest one shorter."""
    env = HouseholdEnv(difficulty=difficulty, max_steps=200)
    for seed in range(120):
        rng = Rng("stray", seed)
        env.reset(seed=seed)
        for _ in range(rng.below(40)):
            if not env.stop_reason:
                env.step(rng.choice(env.actions()))
        while not env.stop_reason:
            left = len(env.expert())
            env.step(env.expert()[0])
            assert len(env.expert()) == left - 1
        assert env.succeeded


def test_a_thing_that_fits_nowhere_leaves_no_plan(small: SimpleNamespace) -> None:
    """A hand that cannot be emptied, as in no generated room: there is no way, and the expert says so."""
    room = small.draw(Rng("shortest", 0), small.goals[0])
    object.__setattr__(room, "fitting", {})
    assert plan(House(room, frozenset(QUIRKS))) is None


def test_a_goal_that_is_reached_before_the_first_command_needs_one(small: SimpleNamespace) -> None:
    """An episode ends only at a command, and any will do."""
    for seed in range(40):
        house = House(small.draw(Rng("won", seed), small.goals[0]), frozenset(QUIRKS))
        if house.won():
            assert plan(house) == ["look"]
            return
    raise AssertionError("no such room")


# ---- the one who must look -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("difficulty", "least"), [("easy", 100), ("medium", 98), ("hard", 95)])
def test_searching_finds_it_nearly_always(difficulty: str, least: int) -> None:
    """Of a hundred test tasks the expected number is solved within the limit, and each command is admissible."""
    env, solved = HouseholdEnv(difficulty=difficulty, split="test"), 0
    for number in range(100):
        env.reset(options={"task": number})
        while not env.stop_reason:
            command = env.fair_expert()
            assert command in env.actions()
            env.step(command)
        solved += env.succeeded
    assert solved >= least


@pytest.mark.parametrize("mode", ["react", "alfworld"])
def test_the_searcher_knows_only_what_was_told(mode: str) -> None:
    """Whatever lies in receptacles that were not seen may change places: the next command stays the same."""
    env = HouseholdEnv(observation_mode=mode, difficulty="medium")  # type: ignore[arg-type]  # one of two
    compared = 0
    for seed in range(40):
        env.reset(seed=seed)
        rng = Rng("peek", seed)
        while not env.stop_reason:
            command, house = env.fair_expert(), env.house
            unseen = [r for r in range(len(house.contents)) if r not in house.seen]
            before = [list(found) for found in house.contents]
            known = find_known_things(house)
            movable = [o for r in unseen for o in before[r] if o not in known]
            for r in unseen:
                house.contents[r] = sorted(o for o in before[r] if o in known)
            for o in movable:
                house.contents[rng.choice(unseen)].append(o)
            for r in unseen:
                house.contents[r].sort()
            if not house.won():
                assert next_command(house) == command
                compared += bool(movable)
            house.contents = before
            env.step(command or "")
    assert compared > 100


def test_the_searcher_sees_what_is_told(small: SimpleNamespace) -> None:
    """A thing is known once its receptacle's contents were told, or once it was held, and not before."""
    env = HouseholdEnv(difficulty="hard")
    for seed in range(30):
        env.reset(seed=seed)
        told = ""
        while not env.stop_reason:
            names = {env.house.room.things[o].name for o in find_known_things(env.house)}
            assert all(f"a {name}" in told or f"the {name}" in told for name in names)
            told += env.step(env.fair_expert() or "")[0]


def test_the_searcher_says_why() -> None:
    """What it looks for while it searches, what it will do once it knows, and nothing where that is plain."""
    env = HouseholdEnv(split="test")
    env.reset(options={"task": 2})
    said = {}
    while not env.stop_reason:
        command = env.fair_expert() or ""
        said[command] = env.expert_thought(command)
        env.step(command)
    searched = [why for why in said.values() if "I have not found a " in why]
    assert searched and all(why.endswith(" may hold one.") for why in searched)
    assert any(f"I want to {command}." in said.values() for command in said)
    assert all(said[command] == "" for command in said if command.split()[0] in ("take", "move", "put", "clean"))


@pytest.mark.parametrize(
    ("number", "told", "aim"),
    [
        (0, "put two spraybottle in countertop.", "two spraybottle in a countertop"),
        (1, "look at laptop under the desklamp.", "a laptop by a desklamp"),
        (4, "put a hot bread in fridge.", "a hot bread in a fridge"),
        (6, "cool some bread and put it in diningtable.", "a cool bread in a diningtable"),
    ],
)
def test_the_searcher_says_its_aim_until_it_sees_something(number: int, told: str, aim: str) -> None:
    """In the same words however the task is worded."""
    env = HouseholdEnv(split="test", difficulty="hard")
    first = env.reset(options={"task": number})[0]
    assert first.endswith(told)
    assert env.expert_thought(env.fair_expert() or "").startswith(f"I am after {aim}. I have not found a ")
    assert env.expert_thought("look") == f"I am after {aim}."
    while not env.house.seen:
        env.step(env.fair_expert() or "")
    assert "I am after" not in env.expert_thought(env.fair_expert() or "")


def test_the_searcher_gives_up_when_everything_was_seen(small: SimpleNamespace) -> None:
    """Where the wanted thing is not in the room there is no next command in the end."""
    room = small.draw(Rng("shortest", 3), small.goals[0])
    object.__setattr__(room.start, "contents", tuple(() for _ in room.receptacles))
    house, voice = House(room, frozenset()), AlfworldSentences()
    for _ in range(2 * len(room.receptacles) + 1):
        text = next_command(house)
        if text is None:
            break
        command = voice.read(text)
        assert command and not house.do(command)
    assert text is None and house.seen == set(range(len(room.receptacles)))
