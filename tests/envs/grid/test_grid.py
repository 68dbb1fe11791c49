"""AgentGrid: its rooms and missions, plans against a blind search, walks, and a fair expert that knows what it saw."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections import deque
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.grid import wording
from agentgym_envs.grid.actions import moves_of
from agentgym_envs.grid.env import GridEnv
from agentgym_envs.grid.levels import LEVELS, draw, names_of
from agentgym_envs.grid.mission import Clause, Description, Mission, Verb, join
from agentgym_envs.grid.planner import fair_plan, plan
from agentgym_envs.grid.view import seen_cells, sights
from agentgym_envs.grid.world import BORDER, FREE, LEFT, LOCKED, OPEN, RIGHT, WALL, World
from agentgym_py.env import SPLITS
from agentgym_py.errors import ConfigError, SnapshotError
from agentgym_py.rng import Rng

DIFFICULTIES = ("easy", "medium", "hard")
MIDDLE_ONLY = (
    "GoToDoor", "GoToObjDoor", "OpenDoor", "ActionObjDoor", "OpenTwoDoors", "OpenDoorsOrderN4", "UnlockLocal",
    "UnlockLocalDist", "KeyInBox",
)  # fmt: skip
"""Levels whose doors all lie around the middle room."""
SMALL = ("OpenRedDoor", "GoToObj", "PickupDist", "OneRoomS8", "GoToRedBall", "OpenDoor", "GoToLocal", "PutNextLocal")


def world_of(level: str, number: int, split: str = "test") -> World:
    """The start of a task of a level."""
    return World(draw(Rng("grid test", level, number), level, wording.colors(Rng(number), split)))


def searched(world: World) -> int:
    """Moves of a shortest solution, found by trying every move in every state."""
    queue, seen = deque([(world, 0)]), set()
    while queue:
        here, moves = queue.popleft()
        for move in range(6):
            there = here.copy()
            there.do(move)
            if there.is_done:
                return moves + 1
            key = (there.at, there.facing, *there.places, *there.doors, *there.marks, there.carried, there.done)
            if key not in seen and not there.is_lost:
                seen.add(key)
                queue.append((there, moves + 1))
    raise AssertionError("no plan")


@pytest.mark.parametrize("level", SMALL)
def test_plans_are_as_short_as_a_blind_search_finds(level: str) -> None:
    """In one room, from the start and after a few moves."""
    tried = 0
    for number in range(40):
        world, rng = world_of(level, number), Rng("walk", number)
        for _ in range(rng.below(4)):
            world.do(rng.below(3))
        moves = plan(world)
        if not world.is_done and len(moves) <= 7:  # a blind search of more moves takes too long
            assert len(moves) == searched(world), (level, number)
            tried += 1
            if tried == 4:
                break
    assert tried


@pytest.mark.parametrize("level", LEVELS)
def test_both_experts_do_every_level(level: str) -> None:
    """The exact one after a walk too; the fair one if it has time. Each of its actions is valid."""
    env, walked = GridEnv(level=level, max_steps=300), GridEnv(level=level, max_steps=1000)
    for number, split in enumerate(SPLITS):
        env.reset(options={"task": number, "split": split})
        assert env.current_task and env.current_task.kind == level
        while not env.stop_reason:
            assert env.step(env.fair_expert() or "")[4]["valid_action"]
        assert env.succeeded, env.current_task
        walked.reset(options={"task": number, "split": split})
        rng = Rng("walk", number)
        for _ in range(rng.below(20)):
            before = walked.snapshot()
            walked.step(rng.choice(walked.actions()))
            if walked.stop_reason:
                walked.restore(before)
        assert [walked.step(action) for action in walked.expert()][-1][4]["success"]


def test_levels_are_taken_in_turn() -> None:
    """By an argument, one of them alone, under the same ids."""
    for difficulty in DIFFICULTIES:
        env = GridEnv(difficulty=difficulty)
        names = names_of(difficulty)
        assert tuple(env.task(number, "test").kind for number in range(len(names))) == names
        one = GridEnv(level=names[3])
        assert one.task(2, "test") == env.task(2 * len(names) + 3, "test")
        assert one.difficulty == difficulty
    with pytest.raises(ConfigError, match="BossLevel"):
        GridEnv(level="BossLevl")
    one = GridEnv(level="BossLevel")
    assert {one.reset(seed=seed)[1]["task_id"] and one.current_task and one.current_task.kind for seed in range(5)} == {
        "BossLevel"
    }


@pytest.mark.parametrize("level", LEVELS)
def test_rooms_are_as_babyai_has_them(level: str) -> None:
    """Doors lie in walls and other things in rooms, every room can be reached, and locked doors have a key."""
    for number in range(10):
        layout = draw(Rng(level, number), level, wording.COLORS)
        for thing, cell in zip(layout.things, layout.places, strict=True):
            in_walls = [(place - BORDER) % (layout.size - 1) == 0 for place in divmod(cell, layout.stride)]
            assert not cell or sum(in_walls) == (thing.kind == "door"), thing
        reached = [layout.at]
        for cell in reached:
            around = (cell + step for step in layout.steps)
            reached += [other for other in around if layout.cells[other] != WALL and other not in reached]
        inside = sum(content != WALL for content in layout.cells)
        assert len(reached) == inside or (level in MIDDLE_ONLY and len(reached) > (layout.size - 2) ** 2)
        colors = {thing.color for thing in layout.things if thing.kind == "key"}
        needs_all = level not in ("GoToDoor", "GoToObjDoor")  # their doors are locked by chance
        for door, state in enumerate(layout.doors):
            assert state != LOCKED or not needs_all or layout.things[door].color in colors
        assert all(layout.places[index] or thing.inside >= 0 for index, thing in enumerate(layout.things))
        assert layout.cells[layout.at] == FREE
        usual = layout.mission.navigations * layout.size**2 * layout.rows * layout.columns
        assert layout.limit == (LEVELS[level].limit or usual)


def test_the_view_stops_at_walls_and_closed_doors() -> None:
    """What lies behind a door is seen when it opens."""
    world = world_of("OpenRedDoor", 1)
    door = next(index for index, thing in enumerate(world.layout.things) if thing.kind == "door")
    for move in plan(world)[:-1]:
        world.do(move)
    beyond = world.front + world.layout.steps[world.facing]
    assert beyond not in seen_cells(world) and world.front in seen_cells(world)
    world.do(5)
    assert world.doors[door] == OPEN and beyond in seen_cells(world)


def test_unseen_things_do_not_guide_the_fair_expert() -> None:
    """Its next moves stay the same when what it has not seen is moved."""
    for number in range(30):
        env = GridEnv(difficulty="hard")
        env.reset(options={"task": number, "split": "test"})
        for _ in range(4):
            if env.stop_reason:
                break
            moves = fair_plan(env._world, env._seen)
            other = env._world.copy()
            hidden = [index for index, cell in enumerate(other.places) if cell and not env._seen >> cell & 1]
            movable = [index for index in hidden if other.layout.things[index].kind != "door"]
            cells = [other.places[index] for index in movable]
            for index, cell in zip(movable, cells[1:] + cells[:1], strict=True):
                other.places[index] = other.marks[index] = cell
                other.cells[cell] = index + 1
            assert fair_plan(other, env._seen) == moves
            env.step(env.fair_expert() or "")


@pytest.mark.parametrize(("number", "difficulty"), list(enumerate(DIFFICULTIES)))
def test_the_card_tells_what_luck_is_worth(number: int, difficulty: str) -> None:
    """Success and mean reward of random listed actions, and a baseline not far above."""
    luck = re.search(
        r"Its success is (.+?), its mean reward (.+?)\. So", inspect.cleandoc(GridEnv.__doc__ or ""), re.DOTALL
    )
    assert luck
    success = int(re.findall(r"(\d+) %", luck[1])[number]) / 100
    reward = float(re.findall(r"0\.\d+", luck[2])[number])
    env, rng, wins, total, tasks = GridEnv(difficulty=difficulty), Rng("luck"), 0, 0.0, 200
    for task in range(tasks):
        env.reset(options={"task": task, "split": "test"})
        while not env.stop_reason:
            total += env.step(rng.choice(env.actions()))[1]
        wins += env.succeeded
    assert abs(wins / tasks - success) < 0.1 and abs(total / tasks - reward) < 0.1
    assert success < env.random_baseline < success + 0.1


def test_a_way_that_several_things_block_is_found() -> None:
    """For which one search finds no plan."""
    env = GridEnv(difficulty="hard", max_steps=400)
    env.reset(options={"task": 306, "split": "test"})
    assert not plan(env._world)
    for action in env.expert():
        env.step(action)
    assert env.succeeded


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_fair_expert_has_time_enough(difficulty: str) -> None:
    """For nearly all tasks; of 1,000 in test and train it solves 97 % and more."""
    env, solved, tasks = GridEnv(difficulty=difficulty), 0, 20
    for task in range(tasks):
        env.reset(options={"task": task, "split": "test"})
        while not env.stop_reason:
            env.step(env.fair_expert() or "")
        solved += env.succeeded
    assert solved >= 0.9 * tasks


def test_a_reward_falls_with_each_move() -> None:
    """1 - 0.9 t / T, where a walk has several moves."""
    env = GridEnv(level="GoToObj")
    env.reset(options={"task": 0, "split": "test"})
    moves = plan(env._world)
    reward = [env.step(action) for action in env.expert()][-1][1]
    assert reward == pytest.approx(1 - 0.9 * len(moves) / 64) and env._world.moves == len(moves)


def test_a_needed_box_that_is_opened_ends_the_episode() -> None:
    """Without success; another box only opens."""
    env = GridEnv(level="UnlockPickup", max_steps=200)
    env.reset(options={"task": 0, "split": "test"})
    while not ((action := env.expert()[0]).startswith("pick up") and "box" in action):
        env.step(action)
    env.step(action.replace("pick up", "go to"))
    _, reward, terminated, _, info = env.step("toggle")
    assert (reward, terminated, info["success"]) == (0.0, True, False)
    assert env.expert() == [] and env.fair_expert() is None and env.actions() == []


@pytest.fixture
def env() -> GridEnv:
    """A room with things."""
    env = GridEnv(level="PutNextLocal", max_steps=100)
    env.reset(options={"task": 1, "split": "test"})
    return env


def test_walks_end_before_their_thing(env: GridEnv) -> None:
    """`go to` faces it, `pick up` carries it, `drop next to` leaves it beside another."""
    sight = env._sights[0]
    env.step(f"go to {sight.name}")
    assert env._world.front == sight.cell
    env.step(f"Thought: it is here\nAction: pick up the {sight.name}")
    assert env._world.carried == sight.thing
    for _ in range(4):
        other = next((other for other in env._sights if other.thing != sight.thing), None)
        if other:
            break
        env.step("turn left")
    assert other
    assert env.step(f"drop next to {other.name}")[4]["valid_action"]
    assert env._world.is_beside(env._world.places[sight.thing], other.cell)


@pytest.mark.parametrize(
    "action",
    [
        "go up",
        "go to",
        "go to red unicorn 1",
        "go to red ball 99",
        "drop",
        "toggle and go through",
        "sing",
        "",
        "x" * 999,
    ],
)
def test_what_cannot_be_done_changes_nothing(env: GridEnv, action: str) -> None:
    """And is not valid."""
    before = {key: value for key, value in env.state().items() if key not in ("moves", "marks")}
    assert not env.step(action)[4]["valid_action"]
    assert {key: value for key, value in env.state().items() if key not in ("moves", "marks")} == before


def in_front_of_a_door() -> GridEnv:
    """An environment whose mission is to open a door in view."""
    env = GridEnv(level="OpenDoor", max_steps=100)
    env.reset(options={"task": 0, "split": "test"})
    while not any(env.puzzle.things[sight.thing].kind == "door" for sight in env._sights):
        env.step("turn left")
    return env


@pytest.mark.parametrize(
    ("text", "move"),
    [("left", "turn left"), ("right", "turn right"), ("forward", "move forward"), ("pickup", "pick up")],
)
def test_moves_have_babyais_names(env: GridEnv, text: str, move: str) -> None:
    """As in BabyAI's list of actions."""
    start = env.snapshot()
    expected = env.step(move)[:4]
    env.restore(start)
    assert env.step(text)[:4] == expected


def test_a_door_is_opened_by_the_words_of_the_mission() -> None:
    """`open the green door` walks to it and toggles it; an open one is not closed by it, and a wall is no door."""
    env = in_front_of_a_door()
    sight = next(sight for sight in env._sights if env.puzzle.things[sight.thing].kind == "door")
    start = env.snapshot()
    assert env.step(f"open the {env.puzzle.things[sight.thing].name}")[2] and env.succeeded
    env.restore(start)
    assert env.step(f"toggle {sight.name}")[2] and env.succeeded
    env.restore(start)
    env._world.doors[sight.thing] = OPEN
    assert env.step(f"open {sight.name}")[0].startswith(f"The {sight.name} is open. In view: ")


def test_a_thing_is_put_next_to_another_by_the_words_of_the_mission(env: GridEnv) -> None:
    """What is carried may be named, by its kind alone, too; what is not carried cannot be put anywhere."""
    sight = env._sights[0]
    thing = env.puzzle.things[sight.thing]
    assert env.step(f"put the {thing.name} next to the box")[0].startswith("You carry nothing. ")
    env.step(f"pickup {thing.name}")
    assert env._world.carried == sight.thing
    while not (others := [other for other in env._sights if env.puzzle.things[other.thing].kind != "door"]):
        env.step("left")
    carried, other = env.snapshot(), others[0].name
    for text in (
        f"put the {thing.name} next to the {other}",
        f"put {thing.kind} next to {other}",
        f"drop it next to {other}",
    ):
        env.restore(carried)
        assert env.step(text)[4]["valid_action"] and env._world.is_beside(
            env._world.places[sight.thing], others[0].cell
        )
    env.restore(carried)
    assert env.step(f"put the unicorn next to {other}")[0].startswith("You do not carry the unicorn. ")


def test_a_name_without_a_colour_is_understood_if_it_means_one_thing() -> None:
    """Else the answer says which ones it may mean."""
    env = GridEnv(level="PutNextLocal", max_steps=100)
    tried = set[bool]()
    for number in range(20):
        env.reset(options={"task": number, "split": "test"})
        start = env.snapshot()
        for kind in ("ball", "box", "key"):
            names = [sight.name for sight in env._sights if env.puzzle.things[sight.thing].kind == kind]
            if not names or env._sights[0].ahead + abs(env._sights[0].right) == 1:
                continue
            env.restore(start)
            observation, *_, info = env.step(f"go to the {kind}")
            if len(names) > 1:
                assert observation.startswith(f"Say which {kind}: {', '.join(names)}. In view: ")
            else:
                expected = env.snapshot() if info["valid_action"] else b""
                env.restore(start)
                assert env.step(f"go to {names[0]}")[4]["valid_action"] is info["valid_action"]
                assert not expected or env.state() == json.loads(expected)["state"]
            tried.add(len(names) > 1)
    assert tried == {True, False}
    env.restore(start)
    assert env.step("go to the unicorn")[0].startswith("Nothing in view is called unicorn. In view: ")


def test_a_thing_is_dropped_next_to_what_the_mission_names() -> None:
    """Where several things lie beside the cell; both experts choose among equally short walks so."""
    for kind in ("expert", "fair_expert"):
        count = 0
        for number in range(60):
            env = GridEnv(level="PutNextLocal")
            env.reset(options={"task": number, "split": "test"})
            while not env.stop_reason:
                action = env.expert()[0] if kind == "expert" else env.fair_expert() or ""
                world, (clause,) = env._world.copy(), env._world.pending
                listed = {f"drop next to {sight.name}": sight.thing for sight in env._sights}
                env.step(action)
                if env.succeeded and action in listed and clause.others & {*listed.values()}:
                    named = [text for text, thing in listed.items() if thing in clause.others]
                    assert listed[action] in clause.others or not any(_ends_alike(world, env, text) for text in named)
                    count += 1
        assert count > 10


def _ends_alike(world: World, env: GridEnv, text: str) -> bool:
    """Whether an action in an earlier state takes as many moves as the episode did, and fulfils the mission."""
    listed = sights(world, seen_cells(world))
    moves = moves_of(world, seen_cells(world), listed, text)
    return isinstance(moves, list) and world.moves + len(moves) == env._world.moves


def test_a_turn_is_undone_only_after_it_showed_something() -> None:
    """Plans have no turns that cancel; the fair expert looks aside, and comes back."""
    for difficulty in DIFFICULTIES:
        env = GridEnv(difficulty=difficulty)
        for number in range(8):
            env.reset(options={"task": number, "split": "test"})
            assert not cancels(plan(env._world))
            action, showed = "", True
            while not env.stop_reason:
                assert not cancels(fair_plan(env._world, env._seen)), env.current_task
                before, action, seen = action, env.fair_expert() or "", env._seen
                assert showed or {before, action} != {"turn left", "turn right"}, env.current_task
                env.step(action)
                showed = env._seen != seen


def cancels(moves: list[int]) -> bool:
    """Whether two turns in a row undo each other."""
    return any({*pair} == {LEFT, RIGHT} for pair in pairwise(moves))


def test_a_thought_says_where_a_thing_is() -> None:
    """`Open door in front`, not `Open door front`."""
    env, places = GridEnv(level="PickupLoc"), set[str]()
    for number in range(60):
        env.reset(options={"task": number, "split": "test"})
        location = env.puzzle.mission.clauses[0].thing.location
        if location:
            thought = env.expert_thought(env.fair_expert() or "")
            place = {"left": "on the left", "right": "on the right", "front": "in front"}.get(location, location)
            assert f" {place}. In view: " in thought
            places.add(location)
    assert len(places) == 4


def test_tool_calls_are_read(env: GridEnv) -> None:
    """As the words are."""
    name = env._sights[0].name
    assert env.step(f'{{"name": "go_to", "arguments": {{"thing": "{name}"}}}}')[4]["valid_action"]
    assert env.step('{"name": "turn_left", "arguments": {}}')[4]["valid_action"]


@pytest.mark.parametrize(
    "change",
    [{"at": 0}, {"at": True}, {"facing": 4}, {"carried": 99}, {"places": []}, {"places": [7] * 8}, {"doors": "x"},
     {"done": 2}, {"gone": 1}, {"moves": -1}, {"seen": "0x1"}, {"seen": "-1"}, {"seen": 1}, {"more": 1}],
)  # fmt: skip
def test_a_snapshot_that_cannot_be_is_refused(env: GridEnv, change: dict[str, object]) -> None:
    """Nothing changes then."""
    whole = json.loads(env.snapshot())
    before = env.snapshot()
    with pytest.raises(SnapshotError):
        env.restore(json.dumps(whole | {"state": whole["state"] | change}).encode())
    assert env.snapshot() == before


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_a_step(text: str) -> None:
    """After every verb."""
    env = GridEnv(level="GoToLocal")
    env.reset(options={"task": 1})
    for verb in ("", "go to ", "pick up ", "drop next to ", "toggle and go through "):
        assert isinstance(env.step(verb + text)[0], str)


def test_secrets_are_unseen_names(env: GridEnv) -> None:
    """No observation contains one, and a thing that comes into view is none any more."""
    for _ in range(4):
        observation = env.step("turn left")[0]
        assert not [name for name in env.secrets() if name in observation]
    assert len(env.secrets()) < len(env.puzzle.things)


def test_training_texts_are_rich() -> None:
    """No training mission is worded as BabyAI words it, and hardly two alike."""
    env = GridEnv(difficulty="medium")
    tasks = [env.task(number, "train") for number in range(200)]
    assert len({task.instruction for task in tasks}) > 190
    assert len({thing.color for task in tasks for thing in env.puzzle_of(task).things}) > 40
    held_out = {env.task(number, split).instruction.lower() for split in ("valid", "test") for number in range(200)}
    assert not held_out & {task.instruction.lower().rstrip(".!?") for task in tasks}


B_IS_EARLIER = (
    r"before you (may )?A, B",
    r"A[,;] (but|yet) (first|before)\b.*B",
    r"A; before that\b.*B",
    r"A (when|as soon as|once) you have managed to B",
    r"A[,;] (that comes second|as the second task|last); (begin with this:|start thus:|first) B",
)
A_IS_EARLIER = (
    r"(prior to that: )?A, B",
    r"(first|initially|first of all),? A[,;] (then|after that|afterwards|next|later),? B",
    r"A[.;] (When that is done|After that|Afterwards|Next|Thereafter|Having done so),? B",
    r"A (before you|and only then|and when you are done|and thereafter) B",
    r"1\. A 2\. B",
)
"""How a reader understands which of two clauses comes earlier."""


@pytest.mark.parametrize("after", [False, True])
def test_training_words_say_the_order(after: bool) -> None:
    """In all expansions of the forms, the clause that comes first in time is the one of the first part."""
    clause = Clause(Verb.OPEN, Description("door"), frozenset())
    mission = Mission((clause, clause), ((0,), (1,)), after)
    texts = set()
    for number in range(2_000):
        forms = wording._forms(Rng("order", number), "train", mission)
        texts.add(join(mission, ("B" if after else "A", "A" if after else "B").__getitem__, forms))
    assert len(texts) > 10
    for text in texts:
        readings = [any(re.fullmatch(way, text) for way in ways) for ways in (A_IS_EARLIER, B_IS_EARLIER)]
        assert readings == [not after, after], text


def test_a_part_of_two_clauses_has_no_semicolon() -> None:
    """`Before you go; open it, pick it up` would be read as three parts."""
    clause = Clause(Verb.OPEN, Description("door"), frozenset())
    parts: tuple[tuple[int, ...], ...]
    for parts, has_it in ((((0, 1),), True), (((0, 1), (2,)), False)):
        mission = Mission((clause,) * 3, parts)
        assert any(";" in wording._forms(Rng("and", number), "train", mission)[0] for number in range(100)) is has_it


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_no_word_is_doubled(difficulty: str) -> None:
    """As in `Please please take the ball`."""
    env = GridEnv(difficulty=difficulty)
    for number in range(400):
        text = env.task(number, "train").instruction
        assert not re.search(r"\b(\w+) \1\b|kindly please", text, re.IGNORECASE), text


def test_held_out_missions_are_as_they_were() -> None:
    """An id means the same mission as long as the version of the world is the same."""
    texts = [
        task.instruction
        for difficulty in DIFFICULTIES for split in ("valid", "test") for number in range(200)
        for task in [GridEnv(difficulty=difficulty).task(number, split)]
    ]  # fmt: skip
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] == "7aa5eb9c3841b33e"


def test_walls_stay() -> None:
    """Whatever is done."""
    world, rng = world_of("MiniBossLevel", 3), Rng("walls")
    walls = [cell for cell, content in enumerate(world.cells) if content == WALL]
    for _ in range(500):
        world.do(rng.below(6))
    assert [cell for cell, content in enumerate(world.cells) if content == WALL] == walls
