"""AgentHouseholdTeam: sub-goals, commands and reports."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from agentgym_envs.household.house import missing_treatment
from agentgym_envs.household.team import COMMANDS, DONE, HouseholdTeamEnv, Housework
from agentgym_py.env.actions import parse_reply

LEVELS = ("easy", "medium", "hard")


def world(role: str, difficulty: str = "medium", task: int = 0, partner: str = "fair") -> tuple[HouseholdTeamEnv, str]:
    """A world after a reset to a test task, and its first observation."""
    env = HouseholdTeamEnv(role=role, difficulty=difficulty, partner=partner)  # type: ignore[arg-type]
    return env, env.reset(options={"task": task, "split": "test"})[0]


def game_of(kind: str, task: int = 0) -> Housework:
    """The game of the first medium task of a kind, from a number on."""
    env = HouseholdTeamEnv()
    while (found := env.task(task, "test")).kind != kind:
        task += 1
    return Housework(env.puzzle_of(found), 50)


def say(game: Housework, *actions: str) -> None:
    """Let the role that has the turn do each action, which must be accepted."""
    for action in actions:
        assert game.play(parse_reply(action)) == "", action


def work(game: Housework, *, fair: bool = True) -> list[str]:
    """Let the expert executor act until it is done or the game ends; return its actions."""
    actions: list[str] = []
    while game.turn == "executor" and not game.ended:
        actions.append(game.fair_move("executor") if fair else game.expert_move("executor"))
        say(game, actions[-1])
    return actions


@pytest.mark.parametrize("partner", ["fair", "expert"])
@pytest.mark.parametrize(("role", "difficulty"), list(product(("planner", "executor"), LEVELS)))
def test_experts_succeed_together(role: str, difficulty: str, partner: str) -> None:
    """In all of 20 tasks, by the plan and move by move."""
    for task in range(20):
        env, _ = world(role, difficulty, task, partner)
        plan = env.expert()
        while not env.stop_reason:
            env.step(env.fair_expert() or "" if partner == "fair" else plan.pop(0))
        assert env.succeeded and env.stop_reason == "terminated"


def test_the_executor_does_not_see_the_task_and_the_planner_not_the_things() -> None:
    """Each reads its own half: the planner what is held, the executor what is asked."""
    for task in range(10):
        (executor, seen), (planner, task_text) = world("executor", task=task), world("planner", task=task)
        room = planner.puzzle
        assert room.instruction in task_text and task_text.endswith("50 commands left.")
        while not executor.stop_reason:
            assert room.instruction not in seen
            seen, *_ = executor.step(executor.fair_expert() or "")
        reports = ""
        while not planner.stop_reason:
            report, *_ = planner.step(planner.fair_expert() or "")
            reports += report
        assert "you see" not in reports and "The executor is done and holds a " in reports


@pytest.mark.parametrize("action", ["find[mug 1]", "find", "clean[mug]", "put[nowhere]", "use[mug]", DONE, "look"])
def test_what_is_no_sub_goal_is_refused(action: str) -> None:
    """It leaves the turn where it is."""
    env, _ = world("planner")
    observation, *_, info = env.step(action)
    assert "Not a sub-goal" in observation and not info["valid_action"] and env.state()["moves"] == []


def test_a_refused_command_is_not_counted() -> None:
    """Its answer is the household's; a command counts, and `done` does not."""
    env, _ = world("executor")
    game: Any = env._match.game
    observation, *_, info = env.step("open nothing 1")
    assert "Nothing happens: there is no nothing 1 in this room" in observation and not info["valid_action"]
    assert game.left == 50
    env.step("act[look]")
    env.step("inventory")
    env.step(DONE)
    assert game.left == 48


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_last_command_ends_the_game(difficulty: str) -> None:
    """Without a reward, and both read why."""
    env, _ = world("executor", difficulty)
    for _ in range(COMMANDS[difficulty]):
        observation, reward, terminated, *_ = env.step("look")
    assert terminated and reward == 0 and not env.succeeded and observation.endswith("No command is left.")


def test_a_treatment_and_a_place_are_reached_step_by_step() -> None:
    """The report says what was done to the thing, and the task ends the game."""
    game = game_of("pick_clean_then_place_in_recep")
    goal = game.house.room.goal
    assert game.fair_move("planner") == f"find[{goal.thing}]"
    say(game, f"find[{goal.thing}]")
    assert work(game)[-1] == DONE and game.house.held in game.house.room.goal_things
    report = game.read("planner")
    assert f"holds a {goal.thing}" in report and f"{game.left} commands left." in report
    assert missing_treatment(game.house, game.house.held) == game.fair_move("planner") == "clean"
    say(game, "clean")
    assert work(game)[-2].startswith("clean ") and f"holds a clean {goal.thing}" in game.read("planner")
    say(game, game.fair_move("planner"))
    work(game)
    assert game.success and game.payment("planner") == game.payment("executor") == 1


def test_two_things_lie_in_one_receptacle() -> None:
    """Both experts put the second where the first one is, and do not take that one again."""
    for task, fair in product(range(0, 60, 10), (True, False)):
        game = game_of("pick_two_obj_and_place", task)
        while not game.ended:
            say(game, game.fair_move("planner"))
            work(game, fair=fair)
        assert game.success and len(game.delivered) <= 2


def other_place(game: Housework) -> str:
    """A type of receptacle that takes the task's things and is not theirs."""
    room = game.house.room
    kinds = (kind for kind in room.of_kind if room.goal.thing in room.fitting.get(kind, ()))
    return next(kind for kind in kinds if kind != room.goal.place)


@pytest.mark.parametrize("fair", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_a_wrong_place_of_the_planner_is_mended(first: bool, fair: bool) -> None:
    """If one of two things is put elsewhere, the first or the second, it is fetched after the other one."""
    for task in range(0, 60, 10):
        game = game_of("pick_two_obj_and_place", task)
        goal = game.house.room.goal
        find, right, wrong = f"find[{goal.thing}]", f"put[{goal.place}]", f"put[{other_place(game)}]"
        for order in (find, wrong) if first else (find, right, find, wrong):
            if not game.ended:
                say(game, order)
                work(game, fair=fair)
        while not game.ended:
            say(game, game.fair_move("planner"))
            work(game, fair=fair)
        assert game.success


def test_a_wrong_place_of_the_executor_is_mended() -> None:
    """The rest of its plan fetches a thing that it put elsewhere."""
    env, _ = world("executor", task=11)
    game: Any = env._match.game
    while game.sub_goal.verb != "put":
        env.step(env.expert()[0])
    for action in ("go to cabinet 1", "open cabinet 1", "move spraybottle 1 to cabinet 1"):
        assert env.step(action)[4]["valid_action"]
    assert game.house.room.goal.place == "countertop" and len(env.expert()) < 20
    while not env.stop_reason:
        env.step(env.expert()[0])
    assert env.succeeded


def test_a_delivered_thing_that_is_taken_again_is_not_delivered() -> None:
    """So the next thing is not put where it lay."""
    game = game_of("pick_two_obj_and_place")
    goal = game.house.room.goal
    say(game, f"find[{goal.thing}]")
    work(game)
    say(game, f"put[{goal.place}]")
    work(game)
    (thing, place), room = *game.delivered.items(), game.house.room
    assert room.receptacles[place].kind == goal.place
    say(game, f"find[{goal.thing}]", f"take {room.things[thing].name} from {room.receptacles[place].name}")
    assert not game.delivered


@pytest.mark.parametrize("order", ["clean", "heat", "put[fridge]"])
def test_an_empty_hand_is_done_at_once(order: str) -> None:
    """So is a sub-goal that is reached already; a thing that is nowhere is looked for in every place."""
    game = game_of("pick_and_place_simple")
    say(game, order if order in game.actions("planner") else "clean")
    assert work(game) == [DONE]
    thing = game.house.room.goal.thing
    for held in (False, True):
        say(game, f"find[{thing}]")
        assert (work(game) == [DONE]) is held
    absent = next(kind for kind in game.kinds if all(t.kind != kind for t in game.house.room.things))
    say(game, f"find[{absent}]")
    actions = work(game)
    assert game.ended or (actions[-1] == DONE and len(game.house.seen) == len(game.house.room.reachable))


def test_thoughts_name_what_comes_next() -> None:
    """The executor says what it looks for or wants to do, the planner the goal and what is held."""
    env, _ = world("executor", "hard", 3)
    thoughts = set()
    while not env.stop_reason:
        action = env.fair_expert() or ""
        thought = env.expert_thought(action)
        if thought.startswith("I have not found a "):
            place = " ".join(action.split()[-2:])  # of `go to drawer 2`, `open drawer 2` and `examine drawer 2`
            assert f"{place} may hold one" in thought
        thoughts.add(thought.split()[1] if thought else "")
        assert env.expert_thought("inventory") == ""
        env.step(action)
    assert {"have", "hold"} <= thoughts
    env, _ = world("planner")
    thought = env.expert_thought(env.fair_expert() or "")
    assert thought.startswith(f"I am after a {env.puzzle.goal.state}".rstrip()) and thought.endswith("holds nothing.")


@pytest.mark.parametrize("role", ["planner", "executor"])
def test_a_fork_continues_as_the_original(role: str) -> None:
    """From every state of an episode."""
    env, _ = world(role, "medium", 1)
    while not env.stop_reason:
        fork = HouseholdTeamEnv(role=role)
        fork.restore(env.snapshot())
        action = env.fair_expert() or ""
        assert fork.fair_expert() == action and fork.expert() == env.expert() and fork.actions() == env.actions()
        assert fork.step(action) == env.step(action)
