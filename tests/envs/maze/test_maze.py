"""AgentMaze: its houses, plans against a blind search, and a fair expert that sees a room at a time."""

from __future__ import annotations

import json
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.maze import house as houses
from agentgym_envs.maze.env import REQUESTS, MazeEnv
from agentgym_py.env import SPLITS
from agentgym_py.errors import SnapshotError
from agentgym_py.rng import Rng

LEVELS = ("easy", "medium", "hard")


def searched(env: MazeEnv) -> int:
    """Steps of a shortest plan from here, found by forking the world at every action."""
    other = MazeEnv(difficulty=env.difficulty, max_steps=1000)
    queue, seen = deque([(env.snapshot(), 0)]), set()
    while queue:
        snapshot, steps = queue.popleft()
        other.restore(snapshot)
        for action in other.actions():
            other.restore(snapshot)
            *_, info = other.step(action)
            if info["success"]:
                return steps + 1
            state = other.state()
            state.pop("visited")
            key = json.dumps(state, sort_keys=True)
            if not other.stop_reason and key not in seen:
                seen.add(key)
                queue.append((other.snapshot(), steps + 1))
    raise AssertionError("no plan")


def test_plans_are_as_short_as_a_blind_search_finds() -> None:
    """In small houses, from the start and with another key in hand."""
    env = MazeEnv(difficulty="easy", max_steps=1000)
    for number in range(6):
        env.reset(options={"task": number})
        rng = Rng("walk", number)
        for _ in range(rng.below(8)):
            if not env.stop_reason:
                env.step(rng.choice([action for action in env.actions() if not action.startswith("open")]))
        assert len(env.expert()) == searched(env)


@pytest.mark.parametrize("difficulty", LEVELS)
def test_both_experts_get_out(difficulty: str) -> None:
    """The exact one as the task says and after a walk, the fair one within the limit of steps."""
    env, walked = MazeEnv(difficulty=difficulty), MazeEnv(difficulty=difficulty, max_steps=500)
    for number in range(150):
        env.reset(options={"task": number, "split": SPLITS[number % 3]})
        assert env.current_task and env.current_task.optimal_steps == len(env.expert())
        while not env.stop_reason:
            assert env.step(env.fair_expert() or "")[4]["valid_action"]
        assert env.succeeded, env.current_task
        walked.reset(options={"task": number, "split": SPLITS[number % 3]})
        rng = Rng("walk", number)
        for _ in range(rng.below(60)):
            if not walked.stop_reason:
                walked.step(rng.choice(walked.actions()))
        if not walked.stop_reason:
            assert [walked.step(action) for action in walked.expert()][-1][4]["success"]


def test_the_fair_expert_knows_only_what_it_saw() -> None:
    """It never speaks of a room, key or gate before it stood there, and moves what it has not seen without a change."""
    env = MazeEnv(difficulty="medium")
    for number in range(30):
        env.reset(options={"task": number})
        while (action := env.fair_expert()) is not None and not env.stop_reason:
            metal = env.puzzle.metal
            hidden = env._keys.get(metal)
            if hidden is not None and hidden not in env._visited:
                unseen = [room for room in range(16) if room not in env._visited]
                for room in unseen:
                    env._keys[metal] = room
                    assert env.fair_expert() == action
                env._keys[metal] = hidden
            env.step(action)
        assert env.succeeded


@pytest.mark.parametrize(("difficulty", "most"), [("easy", 10), ("medium", 8), ("hard", 2)])
def test_chance_does_not_get_out(difficulty: str, most: int) -> None:
    """Of 200 episodes."""
    env, rng, out = MazeEnv(difficulty=difficulty), Rng("chance"), 0
    for number in range(200):
        env.reset(options={"task": number})
        while not env.stop_reason:
            env.step(rng.choice(env.actions()))
        out += env.succeeded
    assert out <= most


@pytest.mark.parametrize("difficulty", LEVELS)
def test_houses_hang_together(difficulty: str) -> None:
    """Doors lead back, every room can be reached, gates and keys pair, and what is wanted lies apart."""
    for number in range(60):
        house = houses.draw_house(Rng("house", number), SPLITS[number % 3], difficulty)
        size = houses.SIZES[difficulty]
        back = {"north": "south", "south": "north", "east": "west", "west": "east"}
        for room, doors in enumerate(house.doors):
            assert all(house.doors[other][back[where]] == room for where, other in doors.items())
            assert room == house.start or houses.path(house, house.start, room)
        assert len(set(house.rooms)) == size * size
        assert set(house.gates.values()) == set(house.keys) and house.metal in house.keys
        assert len({house.start, *house.gates, *house.keys.values()}) == 1 + 2 * houses.KEYS[difficulty]


def test_splits_share_no_word() -> None:
    """Neither rooms nor metals."""
    for words in (houses.ROOMS, houses.METALS):
        sets = [set(words[split].split()) for split in SPLITS]
        assert not sets[0] & sets[1] and not sets[0] & sets[2] and not sets[1] & sets[2]


def to(env: MazeEnv, room: int) -> None:
    """Walk there."""
    for where in houses.path(env.puzzle, env._room, room):
        env.step(f"go {where}")


@pytest.fixture
def env() -> MazeEnv:
    """A small house."""
    made = MazeEnv(difficulty="easy", max_steps=100)
    made.reset(options={"task": 1})
    return made


def test_one_key_is_carried(env: MazeEnv) -> None:
    """Taking another leaves the first, which can be taken again."""
    house = env.puzzle
    first, second = list(house.keys)[:2]
    to(env, house.keys[first])
    assert env.step(f"take the {first} key")[0] == f"You take the {first} key."
    assert env.step(f"take {first} key")[0] == f"You carry the {first} key already."
    to(env, house.keys[second])
    assert env.step(f"Take {second.upper()} key.")[0] == f"You take the {second} key. You leave the {first} key here."
    assert f"{first} key" in env.step("look")[0].partition("Here: ")[2]
    assert env.step(f"take {first} key")[4]["valid_action"]


def test_another_gate_ends_without_success(env: MazeEnv) -> None:
    """With its own key; without it, it is locked."""
    house = env.puzzle
    room, metal = next((room, metal) for room, metal in house.gates.items() if metal != house.metal)
    to(env, room)
    assert env.step(f"open {metal} gate")[0] == f"The {metal} gate is locked, it takes the {metal} key."
    to(env, house.keys[metal])
    env.step(f"take {metal} key")
    to(env, room)
    _, reward, terminated, _, info = env.step(f"open {metal} gate")
    assert (reward, terminated, info["success"]) == (0.0, True, False)
    assert env.expert() == [] and env.fair_expert() is None and env.actions() == []


@pytest.mark.parametrize(
    "action",
    ["go up", "go to", "take unicorn key", "open unicorn", "sing", "", "go", "take", "take key", "x" * 1000],
)
def test_what_cannot_be_done_changes_nothing(env: MazeEnv, action: str) -> None:
    """And is not valid."""
    before = env.state()
    assert not env.step(action)[4]["valid_action"] and env.state() == before


def test_tool_calls_are_read(env: MazeEnv) -> None:
    """As the words are."""
    where = next(iter(env.puzzle.doors[env._room]))
    assert env.step(f'{{"name": "go", "arguments": {{"direction": "{where}"}}}}')[4]["valid_action"]
    assert env.step(
        f"Thought: back\nAction: {({'north': 'south', 'south': 'north', 'east': 'west', 'west': 'east'})[where]}"
    )[4]["valid_action"]


def test_key_and_gate_may_be_missing(env: MazeEnv) -> None:
    """In tool calls, whose arguments have these names, and in words."""
    metal, house = env.puzzle.metal, env.puzzle
    for text in ('{"name": "take", "arguments": {"key": "@"}}', "Take the @."):
        to(env, house.keys[metal])
        before = env.snapshot()
        assert env.step(text.replace("@", metal))[0] == f"You take the {metal} key."
        to(env, house.gate)
        for opening in ('Action: open\nAction Input: {"gate": "@"}', "open @"):
            other = MazeEnv(difficulty="easy", max_steps=100)
            other.restore(env.snapshot())
            assert other.step(opening.replace("@", metal))[4]["success"]
        env.restore(before)


def test_directions_may_have_more_words(env: MazeEnv) -> None:
    """`go to the north` is `go north`."""
    where = next(iter(env.puzzle.doors[env._room]))
    assert env.step(f"Go to the {where}.")[4]["valid_action"]


def test_the_view_shows_this_room_alone(env: MazeEnv) -> None:
    """Its name, doors, keys and gate."""
    house = env.puzzle
    for room in range(9):
        to(env, room)
        view = env.step("look")[0]
        assert house.rooms[room] in view and not any(
            f"the {name}." in view for name in house.rooms if name != house.rooms[room]
        )
        assert view.count("key") == sum(place == room for place in house.keys.values())
        assert view.count("gate") == (room in house.gates)


def test_rooms_are_secret_until_one_is_there(env: MazeEnv) -> None:
    """Every name but the first at first, one less with each new room."""
    house = env.puzzle
    assert set(env.secrets()) == set(house.rooms) - {house.rooms[house.start]}
    for room in range(9):
        to(env, room)
        assert house.rooms[room] not in env.secrets()
    assert env.secrets() == []


@pytest.mark.parametrize(
    "change",
    [{"room": 99}, {"room": True}, {"visited": [0, 0]}, {"visited": []}, {"held": "unicorn"}, {"keys": {}},
     {"opened": "unicorn"}, {"keys": {"brass": -1}}, {"visited": ["a"]}],
)  # fmt: skip
def test_a_snapshot_that_cannot_be_is_refused(env: MazeEnv, change: dict[str, object]) -> None:
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
    env = MazeEnv(difficulty="easy")
    env.reset(options={"task": 1})
    for verb in ("", "go ", "take ", "open "):
        assert isinstance(env.step(verb + text)[0], str)


def test_training_texts_are_rich() -> None:
    """Training tasks differ in wordings and names, many of which are made up; none is a held-out one."""
    env = MazeEnv(difficulty="easy")
    tasks = [env.task(number, "train") for number in range(200)]
    drafts = [(task.instruction.lower(), env.puzzle_of(task)) for task in tasks]
    wordings = {instruction.replace(house.metal, "M") for instruction, house in drafts}
    held_out = {text.format(m="M").lower() for split in ("valid", "test") for text in REQUESTS[split]}
    assert len(wordings) > 100
    assert not held_out & {wording.lower() for wording in wordings}
    rooms = {name for _, house in drafts for name in house.rooms}
    metals = {metal for _, house in drafts for metal in house.keys}
    for names, words in ((rooms, houses.ROOMS), (metals, houses.METALS)):
        whole = {split: {name.replace("_", " ") for name in words[split].split()} for split in SPLITS}
        assert len(names - whole["train"]) > 100
        assert not names & (whole["valid"] | whole["test"])


def test_no_room_is_named_within_another() -> None:
    """So that the view of one room never names another."""
    for names in houses.ROOMS.values():
        single = {name for name in names.split() if "_" not in name}
        assert not [name for name in names.split() if "_" in name and single & set(name.split("_"))]
