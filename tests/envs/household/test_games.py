"""Folders of games and the PDDL in them: what is read, and what is refused in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_envs.household.env import HouseholdEnv
from agentgym_envs.household.games import read_game, read_goal, read_problem
from agentgym_envs.household.house import QUIRKS, House
from agentgym_envs.household.sentences import AlfworldSentences
from agentgym_envs.household.sexpr import read_sexpr
from agentgym_py.errors import CatalogueError, ConfigError, SnapshotError, UnknownNameError

MUG = "pick_and_place_simple-Mug-None-CoffeeMachine-10"
INIT = """(define (problem p) (:domain alfred) (:objects agent1 - agent Mug_bar_1 {objects} - object MugType - otype
Shelf_bar_1 Shelf_bar_2 Shelf_bar_3 - receptacle ShelfType CabinetType - rtype
loc_bar_1 loc_bar_2 loc_bar_8 loc_bar_9 - location)
(:init (receptacleType Shelf_bar_1 ShelfType) (receptacleType Shelf_bar_2 ShelfType)
(receptacleAtLocation Shelf_bar_1 loc_bar_1) (receptacleAtLocation Shelf_bar_2 loc_bar_2)
(objectType Mug_bar_1 MugType) (pickupable Mug_bar_1) (canContain ShelfType MugType)
(inReceptacle Mug_bar_1 Shelf_bar_2) (atLocation agent1 loc_bar_9) (= (total-cost) 0) {more}) {goal})"""
GOAL = """(:goal (and (exists (?r - receptacle) (exists (?o - object)
(and (inReceptacle ?o ?r) (objectType ?o MugType) (receptacleType ?r {kind}))))))"""


def problem(more: str = "", goal: str = "", objects: str = "") -> str:
    """Two shelves, a mug on one of them, and an agent in the middle."""
    return INIT.format(more=more, goal=goal or GOAL.format(kind="CabinetType"), objects=objects)


def test_a_problem_becomes_a_room() -> None:
    """Numbers of a type run down as ids go up, lists are in the order of ids, types are lower-case."""
    room = read_problem(problem("(opened Shelf_bar_1) (isHot Mug_bar_1)"), "put a mug in cabinet.")
    assert [(each.name, each.kind) for each in room.receptacles] == [("shelf 2", "shelf"), ("shelf 1", "shelf")]
    assert room.start.contents == ((), (0,)) and room.things[0].abilities == {"pickupable"}
    assert (room.goal.kind, room.goal.thing, room.goal.place) == ("pick_and_place_simple", "mug", "cabinet")
    assert room.start.opened == {0} and room.start.hot == {0} and room.at_point[room.start.at] == ()


def test_types_come_from_the_declarations() -> None:
    """What a fact says of a thing that is declared to be something else no command asks for, nor does ours."""
    more = """(receptacleAtLocation Shelf_bar_3 loc_bar_2) (isReceptacleObject Mug_bar_1) (openable Mug_bar_1)
    (opened Mug_bar_1) (inReceptacle Egg_bar_1 Mug_bar_1) (inReceptacleObject Egg_bar_1 Mug_bar_1)
    (inReceptacleObject Shelf_bar_1 Mug_bar_1) (isHot Shelf_bar_1) (wasInReceptacle Egg_bar_2 Shelf_bar_1)"""
    room = read_problem(problem(more, objects="Egg_bar_1 Egg_bar_2"), "put a mug in cabinet.")
    assert [(each.name, each.kind) for each in room.receptacles][2] == ("shelf 1", "")
    assert [each.name for each in room.things] == ["egg 2", "egg 1", "mug 1"]
    assert room.things[2].inside == ("egg 2",) and room.start.contents == ((), (2,), ())
    assert not room.start.opened and not room.start.hot


def test_what_lies_where_nobody_gets_counts() -> None:
    """The goal asks for no place to stand at; such an episode is won at its first command."""
    more = "(receptacleType Shelf_bar_3 CabinetType) (inReceptacle Mug_bar_1 Shelf_bar_3)"
    house = House(read_problem(problem(more), "put a mug in cabinet."), frozenset(QUIRKS))
    assert house.won() and "shelf 1" not in house.room.listed_names


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (problem("(isBroken Mug_bar_1)"), "unknown predicate 'isbroken' in :init"),
        (problem("(holds agent1 Mug_bar_1)"), "unknown predicate 'holds' in :init"),
        (problem("(opened)"), "wrong number of arguments"),
        (problem("(inReceptacle Mug_bar_1)"), "wrong number of arguments"),
        (problem("(opened (opened a))"), "wrong number of arguments"),
        (problem("(opened Shelf_bar_4)"), "shelf_bar_4 in :init is not in :objects"),
        (problem("(receptacleAtLocation Shelf_bar_1 loc_bar_8)"), "two of 'receptacleatlocation' for shelf_bar_1"),
        (problem("(objectType Mug_bar_1 ShelfType)"), "two of 'objecttype' for mug_bar_1"),
        (problem("(pickupable mug)", objects="Mug"), "mug has no '_bar_' after its type"),
        (problem(objects="(mug)"), "in :objects must be a name"),
        (problem("()"), "must be a fact"),
        (problem("(atLocation agent1 loc_bar_8)"), "agent must be at one location, is at 2"),
        (problem(goal="(:goal (isBroken ?o))"), "unknown predicate 'isbroken' in :goal"),
        (problem(goal="(:goal (forall (?o - object) (isClean ?o)))"), "must consist of 'and', 'exists' and facts"),
        (problem(goal="(:goal (and (objectType ?o MugType) (isSliced ?o)))"), "none of ALFWorld's six tasks"),
        (problem()[:-2], "never closed"),
        (problem() + " again", "after the end"),
        ("again", "outside of brackets"),
        ("", "the text is empty"),
    ],
)
def test_what_is_not_known_is_said(text: str, says: str) -> None:
    """An unknown predicate, goal or shape is named; nothing is guessed."""
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        read_problem(text, "put a mug in cabinet.")


GOOD = [
    "inReceptacle ?o ?r", "objectType ?o MugType", "receptacleType ?r ShelfType", "cleanable ?o", "isClean ?o",
]  # fmt: skip


@pytest.mark.parametrize("left_out", range(len(GOOD)))
def test_a_goal_that_lacks_a_part_is_refused(left_out: int) -> None:
    """Each fact of a cleaning goal is needed to know it for one."""
    atoms: list[Any] = [fact.lower().split() for i, fact in enumerate(GOOD) if i != left_out]
    with pytest.raises(ValueError, match="none of ALFWorld's six tasks"):
        read_goal([["and", *atoms]])
    whole: list[Any] = [fact.lower().split() for fact in GOOD]
    assert read_goal([["and", *whole]]).state == "clean"


@given(st.text(st.sampled_from("()abc ;\n?-_1"), max_size=60))
def test_any_brackets_are_read_or_refused(text: str) -> None:
    """The reader gives a list or a ValueError, whatever it is given; what it gives is as deep as the brackets."""
    try:
        found = read_sexpr(text)
    except ValueError:
        return
    assert isinstance(found, list) and str(found).count("[") == sum(
        line.split(";")[0].count("(") for line in text.split("\n")
    )


def written(folder: Path, name: str, games: Path, **changes: Any) -> Path:
    """A game of the recorded ones under another name, with changes."""
    data = json.loads((games / f"{MUG}.tw-pddl").read_text("utf-8")) | changes
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pddl_problem": problem("(isBroken Mug_bar_1)")}, "unknown predicate 'isbroken'"),
        ({"pddl_problem": "(define (:objects) (:init))"}, "key ':goal' is missing"),
        ({"grammar": "grammar"}, "names no task"),
        ({"grammar": 5}, "expected string"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, games: Path, changes: dict[str, Any], says: str) -> None:
    """The error names the file and what is wrong in it."""
    path = written(tmp_path, "broken.tw-pddl", games, **changes)
    with pytest.raises(CatalogueError, match=f"broken.tw-pddl: .*{says}"):
        read_game(path)


def test_a_folder_without_games_is_refused(tmp_path: Path) -> None:
    """So is one that is not there, and a difficulty that real games do not have."""
    with pytest.raises(CatalogueError, match=r"no \*.tw-pddl in it"):
        HouseholdEnv(games=tmp_path)
    with pytest.raises(CatalogueError, match="no such folder"):
        HouseholdEnv(games=tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="difficulty"):
        HouseholdEnv(games=tmp_path, difficulty="easy")


def test_folders_are_splits_and_names(tmp_path: Path, games: Path) -> None:
    """ALFWorld's folders are the splits, and a `game.tw-pddl` is called by its folder."""
    trials = ("train/mug-10/trial_1", "train/mug-10/trial_2", "valid_unseen/mug-10/trial_3")
    for name in (*trials, "train/appleSliced-1/trial_4", "train/pick_and_place_with_movable_recep-2/trial_5"):
        written(tmp_path, f"{name}/game.tw-pddl", games)
    env = HouseholdEnv(games=tmp_path)
    assert env.task(1).id == "train/mug-10/trial_2" and env.task(0, "test").id == "valid_unseen/mug-10/trial_3"
    assert env.task("valid_unseen/mug-10/trial_3", "train").split == "test"
    with pytest.raises(UnknownNameError, match="has 2"):
        env.task(2)
    with pytest.raises(UnknownNameError, match="Did you mean 'train/mug-10/trial_2'"):
        env.reset(options={"task": "train/mug-10/trial_22"})
    with pytest.raises(UnknownNameError, match="No game in split 'valid'"):
        env.reset(seed=1, options={"split": "valid"})
    assert {env.reset(seed=seed)[1]["task_id"][-1] for seed in range(20)} == {"1", "2"}


@pytest.mark.parametrize(
    ("name", "beside"), [("mug-10/trial_1/game", "mug-10/trial_1/traj_data.json"), (MUG, f"{MUG}.traj_data.json")]
)
def test_trajectory_data_may_lie_beside(tmp_path: Path, games: Path, name: str, beside: str) -> None:
    """In either of ALFWorld's layouts, or not at all: the game is the same, and is called by folder or file."""
    written(tmp_path, f"{name}.tw-pddl", games)
    first = HouseholdEnv(games=tmp_path).reset(options={"task": 0})[0]
    (tmp_path / beside).write_text('{"task_type": "pick_and_place_simple"}', encoding="utf-8")
    env = HouseholdEnv(games=tmp_path)
    assert env.reset(options={"task": name.removesuffix("/game")})[0] == first and env.task(0).id in (name[:-5], MUG)


def test_a_folder_of_what_alfworld_passes_over_says_so(tmp_path: Path, games: Path) -> None:
    """Its games are none that could be played."""
    written(tmp_path, "AppleSliced-1/game.tw-pddl", games)
    with pytest.raises(CatalogueError, match="but 1 that ALFWorld skips"):
        HouseholdEnv(games=tmp_path)


def test_games_that_no_folder_assigns_are_in_every_split(games: Path) -> None:
    """So that a folder of games can be played under any; a seed draws the same one again."""
    env = HouseholdEnv(games=games, split="test")
    assert env.task(3, "train").id == env.task(3, "valid").id == env.task(3).id == MUG
    assert [env.task(3, split).split for split in ("train", "test")] == ["train", "test"]
    assert env.reset(seed=4) == HouseholdEnv(games=games, split="test").reset(seed=4)


def test_a_grammar_says_its_dialect(tmp_path: Path, games: Path) -> None:
    """A game of ALFWorld before 0.4 is played in its own words, unless others are asked for."""
    grammar = json.loads((games / f"{MUG}.tw-pddl").read_text("utf-8"))["grammar"]
    written(tmp_path, "old.tw-pddl", games, grammar=grammar.replace("move {o} to {r}", "put {o} in/on {r}"))
    for dialect, verb in ((None, "put"), ("old", "put"), ("new", "move")):
        env = HouseholdEnv(games=tmp_path, observation_mode="alfworld", dialect=dialect)  # type: ignore[arg-type]  # one of three
        env.reset(options={"task": "old"})
        assert env.expert()[-1].startswith(verb)


def test_a_snapshot_of_another_version_of_a_game_is_refused(tmp_path: Path, games: Path) -> None:
    """So is one that was made under other rules, as names would mean other things."""
    written(tmp_path / "a", "mug.tw-pddl", games)
    written(tmp_path / "b", "mug.tw-pddl", games, walkthrough=["look"])
    here, there = HouseholdEnv(games=tmp_path / "a"), HouseholdEnv(games=tmp_path / "b")
    here.reset(options={"task": "mug"})
    with pytest.raises(SnapshotError, match="rules and room"):
        there.restore(here.snapshot())
    with pytest.raises(SnapshotError, match="made with no arguments"):
        HouseholdEnv(games=tmp_path / "a", observation_mode="alfworld").restore(here.snapshot())


def test_a_thing_that_lies_in_two_receptacles_can_be_taken_from_one() -> None:
    """Real games have such things; the other still seems to hold it, as it does in ALFWorld."""
    room = read_problem(problem("(inReceptacle Mug_bar_1 Shelf_bar_1)"), "put a mug in cabinet.")
    house = House(room, frozenset(QUIRKS))
    voice = AlfworldSentences()
    for text in ("go to shelf 1", "take mug 1 from shelf 1"):
        command = voice.read(text)
        assert command and not house.do(command)
    assert house.places(0) == [0] and house.held == 0


def test_two_games_of_one_name_are_refused(tmp_path: Path, games: Path) -> None:
    """A file and a folder may come to the same name; neither is lost in silence."""
    text = (games / f"{MUG}.tw-pddl").read_text(encoding="utf-8")
    (tmp_path / "mug").mkdir()
    (tmp_path / "mug" / "game.tw-pddl").write_text(text, encoding="utf-8")
    assert list(HouseholdEnv(games=tmp_path).games.games) == ["mug"]  # type: ignore[union-attr]  # there are games
    (tmp_path / "mug.tw-pddl").write_text(text, encoding="utf-8")
    with pytest.raises(CatalogueError, match=r"both called 'mug'"):
        HouseholdEnv(games=tmp_path)


def test_a_split_without_games_says_which_has_them(tmp_path: Path, games: Path) -> None:
    """Whoever names the folder of the unseen games alone is told that they are those of split test."""
    folder = tmp_path / "valid_unseen"
    folder.mkdir()
    (folder / f"{MUG}.tw-pddl").write_bytes((games / f"{MUG}.tw-pddl").read_bytes())
    for options in ({}, {"task": 0}):
        with pytest.raises(
            UnknownNameError, match=r"in split 'train' .*: it has 0 in 'train', 0 in 'valid', 1 in 'test'"
        ):
            HouseholdEnv(games=folder).reset(options=options)
    HouseholdEnv(games=folder, split="test").reset(options={"task": 0})
