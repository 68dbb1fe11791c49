"""The rules of a household: what can be done, what it does, and each quirk on and off."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym_envs.household.commands import ANY, NEW, admissible, read_command
from agentgym_envs.household.env import HouseholdEnv
from agentgym_envs.household.house import QUIRKS, VERBS, Command, House
from agentgym_envs.household.room import Goal, Receptacle, Room, Start, Thing
from agentgym_envs.household.sentences import AlfworldSentences, ReactSentences, listing
from agentgym_py.rng import Rng

FOOD = frozenset({"pickupable", "cleanable", "heatable", "coolable", "sliceable"})


def kitchen() -> Room:
    """A fridge and a microwave at one point, a sink and a shelf apart; an apple, a knife, a lamp, a bowl."""
    things = (
        Thing("apple 1", "apple", FOOD),
        Thing("bowl 1", "bowl", frozenset({"pickupable"}), vessel=True, inside=("egg 1",)),
        Thing("desklamp 1", "desklamp", frozenset({"toggleable"})),
        Thing("knife 1", "knife", frozenset({"pickupable"})),
    )
    places = (
        Receptacle("fridge 1", "fridge", 0, openable=True),
        Receptacle("microwave 1", "microwave", 0),
        Receptacle("shelf 1", "shelf", 1),
        Receptacle("sinkbasin 1", "sinkbasin", 2),
    )
    fitting = {kind: frozenset({"apple", "knife", "bowl"}) for kind in ("fridge", "microwave", "shelf")}
    start = Start(3, ((0,), (), (1, 2, 3), ()))
    goal = Goal("pick_and_place_simple", "apple", "sofa")
    return Room(places, things, fitting, start, goal, "put a apple in sofa.", ("loc 1", "loc 2", "loc 3", "loc 4"))


def live(*texts: str, without: str = "", voice: AlfworldSentences | None = None) -> tuple[House, list[str]]:
    """The kitchen after some commands, and what was told."""
    voice = voice or AlfworldSentences()
    house, told = House(kitchen(), frozenset(QUIRKS) - {without}), []
    for text in texts:
        command = voice.read(text)
        wrong = house.do(command) if command else ""
        told.append(voice.report(house, command) if command and not wrong else voice.refusal(wrong))
    return house, told


FETCH = ("go to fridge 1", "open fridge 1", "take apple 1 from fridge 1")


def test_shared_points_make_the_second_receptacle_unreachable_by_name() -> None:
    """At the fridge one is at the microwave too: everything works on it but going there."""
    house, told = live("go to fridge 1", "go to microwave 1", "examine microwave 1")
    assert told[1:] == ["Nothing happens.", "On the microwave 1, you see nothing."]
    assert "go to microwave 1" not in admissible(house)
    apart = House(kitchen().without_shared_points(), frozenset())
    apart.do(Command("go", "fridge 1"))
    assert "go to microwave 1" in admissible(apart) and "examine microwave 1" not in admissible(apart)


@pytest.mark.parametrize(("without", "answer"), [("", "Nothing happens."), ("examine_held_only", "a knife 1")])
def test_what_lies_somewhere_is_examined_only_without_the_quirk(without: str, answer: str) -> None:
    """And never what is behind a door."""
    house, told = live("go to shelf 1", "examine knife 1", without=without)
    assert told[1] == (answer if not without else "There's nothing special about knife 1.")
    assert ("examine knife 1" in admissible(house)) == bool(without)
    assert live("go to fridge 1", "examine apple 1", without=without)[1][1] == "Nothing happens."


def test_look_sees_what_was_put_down_here_from_elsewhere_here() -> None:
    """From the fridge into the microwave at the same point: then, and only then, it lies about."""
    _, told = live(*FETCH, "look", "move apple 1 to microwave 1", "look", "take apple 1 from microwave 1", "look")
    seen = [text for text in told if text.startswith("You are facing")]
    assert [text.partition("Next to it, you see ")[2] for text in seen] == ["nothing.", "a apple 1.", "nothing."]
    assert seen[0].startswith("You are facing the fridge 1, and microwave 1. ")


def test_look_shows_what_is_here_in_our_own_words() -> None:
    """In mode react it tells the receptacles in the middle of the room, and what is where one stands."""
    _, told = live("look", "go to shelf 1", "look", voice=ReactSentences(), without="blind_look")
    assert told[0].endswith("you see a fridge 1, a microwave 1, a shelf 1, and a sinkbasin 1.")
    assert told[2] == "You are at shelf 1. On the shelf 1, you see a bowl 1, a desklamp 1, and a knife 1."


@pytest.mark.parametrize(("without", "hot", "cool"), [("", False, True), ("one_temperature", True, True)])
def test_cooling_takes_the_heat(without: str, hot: bool, cool: bool) -> None:
    """Clean stays, and door or not does not matter."""
    house, told = live(
        *FETCH, "heat apple 1 with microwave 1", "close fridge 1", "cool apple 1 with fridge 1", "go to sinkbasin 1",
        "clean apple 1 with sinkbasin 1", "examine apple 1", without=without,
    )  # fmt: skip
    assert (0 in house.hot, 0 in house.cool, 0 in house.clean) == (hot, cool, True)
    assert told[-1] == f"This is a {'hot' if hot else 'cool'} and clean apple 1."


@pytest.mark.parametrize(("without", "second"), [("", "on"), ("lamps_stay_on", "off")])
def test_a_lamp_is_only_ever_switched_on(without: str, second: str) -> None:
    """Using it again changes nothing under the quirk, and puts it out without."""
    house, told = live("go to shelf 1", "use desklamp 1", "use desklamp 1", without=without)
    assert told[1:] == ["You turn on the desklamp 1.", f"You turn {second} the desklamp 1."]
    assert (2 in house.lit) == (second == "on")


def test_doors_that_a_room_does_not_mark_open_without_the_quirk() -> None:
    """The microwave here has none that opens, until every one of its type has."""
    assert live("go to microwave 1", "open microwave 1")[1][1] == "Nothing happens."
    house = House(kitchen().with_all_doors(), frozenset())
    house.do(Command("go", "microwave 1"))
    assert "open microwave 1" in admissible(house)


def test_slicing_wants_a_knife_and_something_put_down_here() -> None:
    """What lies there from the start cannot be sliced; what was sliced says so."""
    steps = ("move apple 1 to microwave 1", "go to shelf 1", "take knife 1 from shelf 1", "go to fridge 1")
    house, told = live(*FETCH, *steps, "slice apple 1 with knife 1")
    assert told[-1] == "You sliced the apple 1 with the knife 1." and house.sliced == {0}
    _, told = live("go to shelf 1", "take knife 1 from shelf 1", "go to fridge 1", "slice apple 1 with knife 1")
    assert told[-1] == "Nothing happens."


def test_vessels_show_what_is_in_them_and_never_lose_it() -> None:
    """In ALFWorld that hides their state; our own words tell it."""
    take = ("go to shelf 1", "take bowl 1 from shelf 1", "examine bowl 1")
    assert live(*take)[1][-1] == "This is a normal bowl 1. In it, you see a egg 1."
    assert live(*take, voice=ReactSentences())[1][-1] == "There's nothing special about bowl 1. In it, you see a egg 1."


def test_refusals_say_what_is_wrong() -> None:
    """In mode react; each is a sentence that a person could mend."""
    said = live(
        "go to sofa 1", "open fridge 1", "go to fridge 1", "go to fridge 1", "take apple 1 from fridge 1",
        "close fridge 1", "open fridge 1", "open fridge 1", "take mug 1 from fridge 1", "take apple 1 from fridge 1",
        "take apple 1 from fridge 1", "clean apple 1 with fridge 1", "go to sinkbasin 1", "put apple 1 in sinkbasin 1",
        "slice apple 1 with knife 1", "use apple 1", "fly", "open sinkbasin 1", "examine mug 3", voice=ReactSentences(),
    )[1]  # fmt: skip
    wrong = [text.removeprefix("Nothing happens: ") for text in said if text.startswith("Nothing happens: ")]
    assert wrong[:-3] == [
        "there is no sofa 1 in this room.", "you are not at the fridge 1.", "you are at the fridge 1 already.",
        "the fridge 1 is closed.", "the fridge 1 is not open.", "the fridge 1 is open already.",
        "there is no mug 1 in the fridge 1.", "there is no apple 1 in the fridge 1.",
        "you cannot clean the apple 1 with the fridge 1.", "a apple does not go there.",
        "you do not hold the knife 1.", "there is no apple 1 here.",
    ]  # fmt: skip
    assert wrong[-3].startswith("no such action. There are go to R, ") and wrong[-2:] == [
        "the sinkbasin 1 cannot be opened.", "you neither hold nor see a mug 3 here.",
    ]  # fmt: skip


@pytest.mark.parametrize("quirks", [frozenset(QUIRKS), frozenset()], ids=["all", "none"])
def test_what_is_listed_is_exactly_what_can_be_done(small: SimpleNamespace, quirks: frozenset[str]) -> None:
    """In random states of small rooms each command over all names is done if and only if it is listed."""
    for seed in range(24):
        rng = Rng("listed", seed)
        room = small.draw(rng, small.goals[seed % len(small.goals)])
        *_, house = small.wander(House(room, quirks), rng, 1 + rng.below(12))
        names = [each.name for each in (*room.receptacles, *room.things)]
        able = set()
        for verb in VERBS:
            count = 0 if verb in ("look", "inventory", "help") else 1
            count += verb in ("take", "move", "clean", "heat", "cool", "slice")
            for given in product(names, repeat=count):
                again = House.from_json(room, quirks, house.to_json())
                if not again.do(Command(verb, *given)):
                    able.add(Command(verb, *given))
        listed = admissible(house)
        assert listed == sorted(set(listed)) and {read_command(text, NEW) for text in listed} == able


def test_a_state_survives_json_and_nothing_else_does(small: SimpleNamespace) -> None:
    """What was saved comes back; things that came, went or were moved though they cannot be are refused."""
    room = small.draw(Rng("json", 5), small.goals[5])
    for house in small.wander(House(room, frozenset(QUIRKS)), Rng("walk"), 15):
        saved = house.to_json()
        assert House.from_json(room, house.quirks, saved).to_json() == saved
    changes: list[dict[str, Any]] = [
        {"contents": [[] for _ in room.receptacles]},
        {"contents": saved["contents"][:-1]},
        {"contents": [*saved["contents"][:-1], saved["contents"][-1] + [0, 0]]},
        {"contents": None}, {"at": -1}, {"at": True}, {"held": 99}, {"laid": [[0]]}, {"laid": [[0, 99]]},
        {"left": [[0, 1], [0, 0]]}, {"seen": [1, 0]}, {"hot": {}},
    ]  # fmt: skip
    for change in changes:
        with pytest.raises((TypeError, ValueError)):
            House.from_json(room, frozenset(QUIRKS), saved | change)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("Go  to Drawer 2.", Command("go", "drawer 2")),
        ("put apple 1 in/on fridge 1", Command("move", "apple 1", "fridge 1")),
        ("PUT apple 1 on shelf 2", Command("move", "apple 1", "shelf 2")),
        ("take the apple 1 from the fridge 1", Command("take", "apple 1", "fridge 1")),
        ("help", Command("help")),
        ("take apple 1", None),
        ("go drawer 2", None),
        ("look at me", None),
        ("", None),
    ],
)
def test_our_own_words_may_be_said_in_many_ways(text: str, command: Command | None) -> None:
    """Any case and spacing, and both dialects."""
    assert ReactSentences().read(text) == command


def test_lists_read_as_in_the_original() -> None:
    """Nothing, one, two and more."""
    assert [listing(["x 1", "y 1", "z 1"][:n]) for n in range(4)] == [
        "nothing", "a x 1", "a x 1, and a y 1", "a x 1, a y 1, and a z 1",
    ]  # fmt: skip
    assert ANY.keys() > NEW.keys()


def test_a_start_at_a_receptacle_faces_it(games: Path) -> None:
    """The first text then names it, and one is there."""
    env = HouseholdEnv(games=games)
    told, _ = env.reset(options={"task": "pick_and_place_simple-Bread-None-SideTable-28"})
    assert env.files_digest == env.house.room.digest
    assert told.startswith("You are at cabinet 9. The cabinet 9 is closed.") and "open cabinet 9" in env.actions()
