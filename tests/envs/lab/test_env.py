"""Experiments succeed by measuring, fail by guessing, and can be mended from any state."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.lab import experts, verbs
from agentgym_envs.lab.commands import parse
from agentgym_envs.lab.env import KINDS, LabEnv
from agentgym_envs.lab.families import FAMILIES, electricity, finding
from agentgym_envs.lab.lab import Lab
from agentgym_envs.lab.site import HAND, Puzzle, Site, floor
from agentgym_envs.lab.verbs import VERBS
from agentgym_envs.lab.wording import WORDINGS, request
from agentgym_envs.lab.words import WORDS
from agentgym_py.env import SPLITS
from agentgym_py.env.wording import count_expansions, is_expansion
from agentgym_py.rng import Rng

LEVELS = ("easy", "medium", "hard")


def do(env: LabEnv, *commands: str) -> str:
    """Do commands that can be done; return the last observation."""
    observation = ""
    for command in commands:
        observation, *_, info = env.step(command)
        assert info["valid_action"], (command, observation)
    return observation


def find_task(kind: str, difficulty: str = "medium", fits: Callable[[Puzzle], bool] = lambda puzzle: True) -> LabEnv:
    """Return an environment at the start of the first test task of a kind whose puzzle fits."""
    env = LabEnv(difficulty=difficulty, split="test", max_steps=500)
    for number in range(2_000):
        task = env.task(number)
        if task.kind == kind and fits(env.puzzle_of(task)):
            env.reset(options={"task": number})
            return env
    raise AssertionError(f"no task of kind {kind}")


def follow(env: LabEnv, until: Callable[[str], bool] = lambda command: False) -> str:
    """Follow the expert; stop before a command that fits, and return it."""
    for command in env.expert():
        if until(command):
            return command
        do(env, command)
    return ""


# ---- experts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("difficulty", LEVELS)
def test_both_experts_solve_every_task(difficulty: str, split: str) -> None:
    """Within the limit, by valid commands, with rewards that add up to 1."""
    env = LabEnv(difficulty=difficulty, split=split)
    for number in range(30):
        env.reset(options={"task": number})
        turns = [env.step(command) for command in env.expert()]
        assert env.succeeded and turns[-1][2], env.current_task
        env.reset(options={"task": number})
        fair = list[tuple[str, float, bool, bool, dict[str, object]]]()
        while not env.stop_reason:
            command = env.fair_expert()
            assert command is not None
            assert env.expert_thought(command), (env.current_task, command)
            fair.append(env.step(command))
        assert env.succeeded, env.current_task
        for episode in (turns, fair):
            assert all(turn[4]["valid_action"] for turn in episode), env.current_task
            assert sum(turn[1] for turn in episode) == pytest.approx(1)
            assert episode[-1][4]["score"] == 100
        assert env.expert() == [] and env.fair_expert() is None


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_experts_mend_whatever_was_done(kind: str) -> None:
    """After random commands other than a focus, both still solve the task."""
    env, rng = LabEnv(difficulty="medium", max_steps=1_000), Rng("mend", kind)
    numbers = [number for number in range(150) if env.task(number).kind == kind][:4]
    assert numbers
    for number in numbers:
        env.reset(options={"task": number})
        for _ in range(60):
            env.step(rng.choice([command for command in env.actions() if not command.startswith("focus")]))
        if env.stop_reason:
            continue  # luck has put the last piece into its place
        here = env.snapshot()
        do(env, *env.expert())
        assert env.succeeded, env.current_task
        env.restore(here)
        while not env.stop_reason:
            do(env, env.fair_expert() or "lost")
        assert env.succeeded, env.current_task


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_fair_expert_names_only_what_was_shown(difficulty: str) -> None:
    """Every portable thing in its commands stands in an earlier observation."""
    env = LabEnv(difficulty=difficulty, split="test")
    for number in range(40):
        shown, _ = env.reset(options={"task": number})
        while not env.stop_reason:
            command = env.fair_expert() or ""
            for thing in env.puzzle.things:
                if thing.traits.portable and thing.name in command:
                    assert thing.name in shown, (env.current_task, command)
            shown += env.step(command)[0]


def test_every_kind_occurs_and_its_points_are_100() -> None:
    """All of ScienceWorld's 30 kinds in medium and hard, 16 in easy."""
    assert len(FAMILIES) == 30 and len(KINDS["easy"]) == 16
    assert all(sum(family.points[kind].values()) == 100 for kind, family in FAMILIES.items())
    for difficulty in LEVELS:
        env = LabEnv(difficulty=difficulty)
        kinds = Counter(env.task(number).kind for number in range(400))
        assert set(kinds) == set(KINDS[difficulty])


# ---- measuring, not guessing ----------------------------------------------------------------------------------------

ANSWERS = {
    "measure temperature": "use thermometer",
    "measure melting point": "use thermometer",
    "measure unknown melting point": "use thermometer",
    "test conductivity": "connect",
    "test unknown conductivity": "connect",
    "steepest plane": "use stopwatch",
    "most friction": "use stopwatch",
    "most friction, unknown surfaces": "use stopwatch",
    "dominant trait": "use fine brush",
    "dominant trait of an unknown plant": "use fine brush",
    "longest-lived animal": "read",
    "shortest-lived animal": "read",
    "longest- then shortest-lived animal": "read",
    "find a living thing": "look at",
    "find a non-living thing": "look at",
    "find a plant": "look at",
    "find an animal": "look at",
}
"""Kinds with an answer, and the command that measures it."""


@pytest.mark.parametrize("kind", ANSWERS)
def test_the_right_answer_without_a_measurement_fails(kind: str) -> None:
    """The same focus that solves the task at the end of the plan loses it before the measurement."""
    env = find_task(kind)
    plan = env.expert()
    answers = [command for command in plan if command.startswith("focus on")]
    measuring = next(number for number, command in enumerate(plan) if command.startswith(ANSWERS[kind]))
    do(env, *plan[:measuring])
    lab = env.lab
    target = lab.puzzle.by_name[answers[0].removeprefix("focus on ")]
    if lab.place[target] >= 0:  # open what it may lie in, then go there
        lab.opened.add(lab.place[target])
    lab.room = lab.room_of(target)
    before = env.score
    _, reward, terminated, _, info = env.step(answers[0])
    assert terminated and not info["success"] and info["score"] == 0
    assert reward == pytest.approx(-before / 100)


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_wrong_focus_ends_the_task(kind: str) -> None:
    """Whatever was not asked for, at the start and after everything but the last step."""
    env = find_task(kind)
    follow(env, lambda command: command == env.expert()[-1])
    wrong = next(name for name, i in env.puzzle.by_name.items() if env.puzzle.things[i].kind == "surface")
    env.lab.room = env.lab.room_of(env.puzzle.by_name[wrong])
    _, _, terminated, _, info = env.step(f"focus on {wrong}")
    assert terminated and not info["success"] and info["score"] == 0 and env.actions() == []


@pytest.mark.parametrize("kind", finding.FIND)
def test_a_find_counts_after_a_look_at_it(kind: str) -> None:
    """A look at another thing of the class does not do; the exact expert looks, too."""
    env = find_task(kind)
    one, other, *_ = (i for i in range(len(env.puzzle.things)) if finding.fits(env.lab, i))
    start = env.snapshot()
    for looked, success in ((other, False), (one, True)):
        env.restore(start)
        env.lab.place[one] = env.lab.place[other] = HAND
        do(env, f"look at {env.puzzle.things[looked].name}")
        observation = do(env, f"focus on {env.puzzle.things[one].name}")
        assert ("That is wrong: the task has failed." in observation) is not success
        assert env.score == (60 if success else 0)
    env.restore(start)
    answer = follow(env, lambda command: command.startswith("focus"))
    assert f"looked {env.puzzle.by_name[answer.removeprefix('focus on ')]}" in env.lab.facts


@pytest.mark.parametrize("kind", ["boil", "melt", "freeze", "change state"])
def test_a_supply_or_a_cup_stands_for_its_substance(kind: str) -> None:
    """An empty cup stands for nothing and is wrong."""
    env = find_task(kind, "hard")
    (supply,) = (thing for thing in env.puzzle.things if thing.kind == "supply")
    cups = [i for i, thing in enumerate(env.puzzle.things) if thing.kind == "cup"]
    substance = env.puzzle.substances[supply.stock].name
    follow(env, lambda command: command.startswith("focus on"))
    for cup in cups:
        env.lab.place[cup] = HAND
    full, empty = (env.puzzle.things[cup].name for cup in cups)
    do(env, f"pour {supply.name} into {full}")
    here = env.snapshot()
    for name in (supply.name, full, substance):
        env.restore(here)
        assert do(env, f"focus on {name}").startswith(f"You focus on the {substance}.")
        assert env.lab.focused == [substance] and not env.stop_reason
    env.restore(here)
    assert env.step(f"focus on {empty}")[2] and not env.succeeded


def test_what_the_room_shows_may_be_focused_on() -> None:
    """The room shows `can of coral (solid)`, and the task is about coral."""
    env = LabEnv(difficulty="hard")
    env.reset(options={"task": "lab/train/hard/0"})
    follow(env, lambda command: command.startswith("focus on"))
    assert "can of coral (solid)" in do(env, "look around")
    assert do(env, "focus on can of coral") == "You focus on the coral."


@pytest.mark.parametrize("kind", ["mix chemicals", "mix a secondary paint", "mix a tertiary paint"])
def test_a_cup_stands_for_the_product_once_it_is_mixed(kind: str) -> None:
    """A cup with another substance in it stands for nothing."""
    env = find_task(kind)
    product = follow(env, lambda command: command.startswith("focus on")).removeprefix("focus on ")
    cup = next(i for i in env.puzzle.vessels if env.lab.contents(i) == [env.puzzle.goal.targets[0]])
    here, name = env.snapshot(), env.puzzle.things[cup].name
    do(env, f"focus on {name}")
    assert env.succeeded and env.lab.focused == [product]
    env.restore(here)
    env.lab.contents(cup).append(next(thing.stock for thing in env.puzzle.things if thing.stock >= 0))
    do(env, f"focus on {name}")
    assert env.stop_reason and not env.succeeded


@pytest.mark.parametrize("kind", ["grow a plant", "grow a fruit", "life stages of a plant", "life stages of an animal"])
def test_a_planter_stands_for_what_grows_in_it(kind: str) -> None:
    """At the stage that is asked for; at another one it is wrong, unless it was asked for before."""
    env = find_task(kind)
    follow(env, lambda command: command == env.expert()[-1])
    last = env.expert()[-1]
    place = next(i for i in env.puzzle.vessels if env.puzzle.things[i].kind in ("planter", "incubator"))
    here, name = env.snapshot(), env.puzzle.things[place].name
    do(env, f"focus on {name}")
    assert env.succeeded and last == f"focus on {env.lab.focused[-1]}"
    env.restore(here)
    env.lab.cells[env.puzzle.cell_of[place]].growth -= 10
    do(env, f"focus on {name}")
    assert not env.succeeded and bool(env.stop_reason) is not kind.startswith("life stages")


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_right_focus_may_be_repeated(kind: str) -> None:
    """It changes nothing but the time."""
    env = find_task(kind)
    while (answer := follow(env, lambda command: command.startswith("focus"))) and len(env.expert()) > 1:
        do(env, answer)
        focused, score = list(env.lab.focused), env.score
        do(env, answer)
        assert not env.stop_reason and (env.lab.focused, env.score) == (focused, score)
    follow(env)
    assert env.succeeded


def test_the_label_of_a_device_does_not_tell_a_temperature_that_is_asked_for() -> None:
    """Nothing but the thermometer does; a device that only heats shows what it can do."""
    env = find_task("measure temperature")
    target = next(thing for thing in env.puzzle.things if thing.kind == "ampoule")
    env.lab.room = env.lab.room_of(target.place)
    holder = env.puzzle.things[target.place].name
    for text in (do(env, "look around"), do(env, f"look at {holder}")):
        assert f"{holder} (on) with sealed ampoule" in text.lower() and "degrees" not in text
    env = find_task("measure melting point")
    device = next(i for i, thing in enumerate(env.puzzle.things) if thing.kind == "heater")
    env.lab.room = env.lab.room_of(device)
    assert f"({env.puzzle.things[device].value} degrees, off)" in do(env, "look around")


@pytest.mark.parametrize("kind", FAMILIES)
def test_no_vessel_and_no_supply_is_an_answer_itself(kind: str) -> None:
    """So a focus on one may always mean what it holds."""
    env = find_task(kind)
    for command in env.expert():
        i = env.puzzle.by_name.get(command.removeprefix("focus on ")) if command.startswith("focus on") else None
        assert i is None or (not env.puzzle.traits[i].vessel and env.puzzle.things[i].stock < 0)


BOXES = tuple(kind for kind in ANSWERS if kind.startswith(("measure", "test", "dominant")))
"""Kinds that are answered by one of two boxes."""
LISTED = {"plane": "plane", "friction": "plane", "lived": "animal"}
"""Parts of other kinds' names, and the things among which the answer is."""


def answers_of(puzzle: Puzzle) -> tuple[list[int], set[int]]:
    """Return what a focus may answer, as a room lists it, and which of it is right in truth."""
    goal, things = puzzle.goal, puzzle.things
    if goal.kind in BOXES:
        return list(goal.boxes), {goal.boxes[0 if is_first_box(puzzle) else 1]}
    if goal.kind in finding.FIND:
        named = [i for i, thing in enumerate(things) if thing.sign]
        return named, {i for i in named if things[i].kind in finding.FIND[goal.kind]}
    kind = next(kind for part, kind in LISTED.items() if part in goal.kind)
    return [i for i, thing in enumerate(things) if thing.kind == kind], {goal.targets[kind == "animal"]}


def is_first_box(puzzle: Puzzle) -> bool:
    """Tell whether the drawn properties make the first box right."""
    goal = puzzle.goal
    if goal.kind == "measure temperature":
        return next(thing.value for thing in puzzle.things if thing.kind == "keeper") > goal.number
    if goal.kind.startswith("measure"):
        return puzzle.substances[goal.targets[0]].melts > goal.number
    if goal.kind.startswith("test"):
        return puzzle.things[goal.targets[0]].value == 1
    return puzzle.substances[goal.targets[0]].stages[2].startswith(f"{goal.slots['t']} ")


def guesses_of(puzzle: Puzzle, answers: list[int]) -> dict[object, int]:
    """Return answers that need no measurement: by their place in a list, by the threshold, by a device's label."""
    guesses: dict[object, int] = dict(enumerate(answers))
    if puzzle.goal.kind.startswith("measure"):
        guesses["low threshold"] = answers[puzzle.goal.number > 120]
        labels = [thing.value - puzzle.goal.number for thing in puzzle.things if thing.kind == "heater"]
        if labels:
            guesses["hot device"] = answers[max(labels) < 120]
            guesses["cool device"] = answers[min(labels) < 80]
    return guesses


@pytest.mark.parametrize("difficulty", LEVELS)
@pytest.mark.parametrize("kind", ANSWERS)
def test_a_guess_wins_no_more_than_its_share(kind: str, difficulty: str) -> None:
    """Under 60 % with two answers and under 30 % with more; it is the same place in every list, or a hint's answer."""
    if kind not in KINDS[difficulty]:
        return
    wins, tasks, most = Counter[object](), list(product(SPLITS, range(400))), 0.3
    for split, number in tasks:
        site = Site(Rng("guess", kind, difficulty, split, number), split, difficulty)
        puzzle = site.build(FAMILIES[kind].draw(site, kind))
        answers, truth = answers_of(puzzle)
        most = 0.6 if len(answers) == 2 else 0.3
        wins.update(guess for guess, answer in guesses_of(puzzle, answers).items() if answer in truth)
    assert max(wins.values()) < most * len(tasks), wins


@pytest.mark.parametrize("kind", ANSWERS)
def test_nothing_that_an_agent_does_changes_the_answer(kind: str) -> None:
    """Whatever it moves, heats and cools before: only the drawn truth is ever accepted, and it is after the plan."""
    for difficulty in (level for level in LEVELS if kind in KINDS[level]):
        env = LabEnv(difficulty=difficulty, split="test", max_steps=2_000)
        for task in [number for number in range(300) if env.task(number).kind == kind][:4]:
            env.reset(options={"task": task})
            rng = Rng("meddle", kind, task)
            answers, truth = answers_of(env.puzzle)
            lab = env.lab
            for i, traits in enumerate(env.puzzle.traits):
                lab.place[i] = HAND if traits.portable else lab.place[i]
            holder = next((i for i, thing in enumerate(env.puzzle.things) if thing.contents), answers[0])
            lab.room = lab.room_of(holder)
            for _ in range(80):
                commands = [command for command in env.actions() if not command.startswith(("focus", "go to"))]
                do(env, rng.choice(commands))
                assert accepted(env, answers) <= truth, env.current_task
            follow(env, lambda command: command.startswith("focus"))
            assert accepted(env, answers) and accepted(env, answers) <= truth


def accepted(env: LabEnv, answers: list[int]) -> set[int]:
    """Return the answers that a focus would now be right on."""
    found = set[int]()
    for i in answers:
        lab, name = env.lab.copy(), env.puzzle.things[i].name
        lab.focused.append(name)
        if FAMILIES[env.puzzle.goal.kind].accepts(lab, name):
            found.add(i)
    return found


@pytest.mark.parametrize("difficulty", LEVELS)
def test_no_fixed_mixture_is_often_the_product(difficulty: str) -> None:
    """The first two chemicals, and any other two, make it in under 30 % of the tasks."""
    wins, count = Counter[tuple[int, int]](), 600
    for number in range(count):
        site = Site(Rng("mixture", difficulty, number), "test", difficulty)
        puzzle = site.build(FAMILIES["mix chemicals"].draw(site, "mix chemicals"))
        stocks = [thing.stock for thing in puzzle.things if thing.stock >= 0]
        for pair in combinations(range(len(stocks)), 2):
            wins[pair] += puzzle.reactions.get(frozenset(stocks[i] for i in pair)) == puzzle.goal.targets[0]
    assert max(wins.values()) < 0.3 * count


def test_a_temperature_can_only_be_read() -> None:
    """The ampoule cannot be taken off its device, and the device stays on."""
    env = find_task("measure temperature", "easy")
    (ampoule,) = (i for i, thing in enumerate(env.puzzle.things) if thing.kind == "ampoule")
    keeper = env.lab.place[ampoule]
    env.lab.room = env.lab.room_of(ampoule)
    name = env.puzzle.things[keeper].name
    for command in ("pick up sealed ampoule", "move sealed ampoule to red box", f"deactivate {name}"):
        assert not env.step(command)[4]["valid_action"] and command not in env.actions()
    env.lab.place[next(i for i, thing in enumerate(env.puzzle.things) if thing.kind == "thermometer")] = HAND
    do(env, "wait", "wait")
    reading = do(env, "use thermometer on sealed ampoule")
    assert reading.startswith(f"The thermometer reads {env.puzzle.things[keeper].value} degrees.")
    env.restore(env.snapshot())
    assert env.lab.contents(ampoule) == [env.puzzle.goal.targets[0]]


def test_properties_differ_by_task() -> None:
    """Melting points, conductivity, life spans and times cannot be learnt by heart."""
    env = LabEnv(difficulty="medium", split="test")
    points, conducts, answers = set[int](), Counter[int](), Counter[bool]()
    for number in range(600):
        task = env.task(number)
        puzzle = env.puzzle_of(task)
        if task.kind == "measure melting point":
            points.add(puzzle.substances[0].melts)
            answers[puzzle.substances[0].melts > puzzle.goal.number] += 1
        if task.kind in ("test conductivity", "test unknown conductivity"):
            conducts[puzzle.things[puzzle.goal.targets[0]].value] += 1
    assert len(points) > 10 and min(answers.values()) > 3 and len(answers) == 2
    assert min(conducts.values()) > 2 and len(conducts) == 2


# ---- the world ------------------------------------------------------------------------------------------------------


def test_a_broken_device_is_found_out() -> None:
    """It stays off; the fair expert then takes another one."""
    env = find_task("boil", "hard", lambda puzzle: sum(thing.kind == "heater" for thing in puzzle.things) == 3)
    broken = next(i for i, thing in enumerate(env.puzzle.things) if not thing.works)
    env.lab.room = env.lab.room_of(broken)
    name = env.puzzle.things[broken].name
    assert "broken" in do(env, f"activate {name}") and broken not in env.lab.on


def test_a_melting_substance_stays_at_its_melting_point() -> None:
    """So that it can be read from a thermometer, on the way up."""
    env = find_task("measure melting point")
    melts = env.puzzle.substances[0].melts
    follow(env, lambda command: command.startswith("use thermometer"))
    observation = do(env, env.expert()[0])
    assert f"reads {melts} degrees" in observation and "is melting" in observation


def test_a_solar_panel_works_only_in_the_garden() -> None:
    """A ring anywhere else gives no power."""
    env = find_task("power by a source", fits=lambda puzzle: puzzle.things[puzzle.goal.targets[1]].kind == "panel")
    follow(env)
    assert env.succeeded and env.lab.room == env.puzzle.outdoors
    lab = env.lab.copy()
    for wire in lab.wires:
        for i in wire:
            lab.place[i] = -2 - 1
    assert [flows for _, flows in lab.powered()] == [False]


@pytest.mark.parametrize("wanted", ["battery", "panel"])
def test_another_source_in_the_ring_does_not_do(wanted: str) -> None:
    """A battery does not light the lamp for a solar panel, indoors or in the garden; a dark panel does no harm."""
    env = find_task("power by a source", fits=lambda puzzle: puzzle.things[puzzle.goal.targets[1]].kind == wanted)
    kinds = [thing.kind for thing in env.puzzle.things]
    lamp, _ = env.puzzle.goal.targets
    wires = [i for i, kind in enumerate(kinds) if kind == "wire"]
    ring = [lamp, wires[0], kinds.index("battery"), wires[1], kinds.index("panel"), wires[2]]
    for room in (env.puzzle.outdoors, 1):
        lab = env.lab.copy()
        for i in ring:
            lab.place[i] = -2 - room
        lab.wires = {(min(pair), max(pair)) for pair in zip(ring, [*ring[1:], ring[0]], strict=True)}
        assert [flows for _, flows in lab.powered()] == [True]
        assert electricity.is_lit(lab) is (wanted == "battery" and room == 1)


@pytest.mark.parametrize("difficulty", ["medium", "hard"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_unseen_things_do_not_guide_the_fair_expert(kind: str, difficulty: str) -> None:
    """Its next command stays the same when what it has not seen lies elsewhere."""
    rng, moved = Rng("unseen"), 0
    for number in (0, 1, 36, 768):
        site = Site(Rng("unseen", kind, difficulty, number), "train", difficulty)
        lab = Lab(site.build(FAMILIES[kind].draw(site, kind)))
        while not FAMILIES[kind].progress(lab)[-1]:
            command, other = experts.fair_command(lab), lab.copy()
            floors = [floor(room) for room in range(len(lab.puzzle.rooms)) if room not in lab.visited]
            closed = [i for i, traits in enumerate(lab.puzzle.traits) if traits.door and i not in lab.opened]
            for i, traits in enumerate(lab.puzzle.traits):
                places = [*floors, *closed] if traits.portable else floors
                if i not in lab.seen and (traits.portable or lab.place[i] in floors) and places:
                    other.place[i] = rng.choice(places)
                    moved += 1
            assert experts.fair_command(other) == command, (lab.puzzle.goal, number)
            parsed = parse(command or "")
            assert parsed
            verbs.do(lab, parsed)
    assert moved


@pytest.mark.parametrize("kind", finding.FIND)
def test_the_fair_expert_takes_what_it_found_along(kind: str) -> None:
    """It goes to no other room between the focus and the box with empty hands."""
    env = LabEnv(difficulty="easy")
    tasks = [number for number in range(300) if env.task(number).kind == kind]
    assert len(tasks) > 10
    for number in tasks:
        env.reset(options={"task": number})
        while not env.stop_reason:
            command = env.fair_expert() or "lost"
            if env.lab.focused and command.startswith("go to"):
                assert env.lab.place[env.puzzle.by_name[env.lab.focused[0]]] == HAND, env.current_task
            do(env, command)


def test_the_fair_expert_finds_the_garden() -> None:
    """It must explore if it has all parts before it has seen a way there."""
    env = LabEnv(difficulty="hard")
    env.reset(options={"task": "lab/train/hard/857"})
    while not env.stop_reason:
        do(env, env.fair_expert() or "lost")
    assert env.succeeded


def test_a_flower_bears_no_fruit_without_pollen() -> None:
    """However long one waits; moist soil is needed, too."""
    env = find_task("grow a fruit")
    follow(env, lambda command: command.startswith("use fine brush"))
    (planter,) = (i for i, thing in enumerate(env.puzzle.things) if thing.kind == "planter")
    cell = env.lab.cell(planter)
    assert cell
    do(env, *["wait"] * 5)
    assert env.lab.stage(cell) == 3 and not cell.water
    follow(env)
    assert env.succeeded


def test_a_crossed_plant_shows_the_dominant_trait() -> None:
    """Pollen of the same plant crosses nothing, and the answer differs by task."""
    env = find_task("dominant trait")
    answers = {env.puzzle_of(env.task(n)).goal.number for n in range(300) if env.task(n).kind == "dominant trait"}
    assert answers == {0, 1}
    brushing = follow(env, lambda command: command.startswith("use fine brush"))
    pod = next(i for i, thing in enumerate(env.puzzle.things) if thing.kind == "pod")
    assert "pollen" in do(env, brushing, brushing) and pod not in env.lab.on
    answer = follow(env, lambda command: command.startswith("focus"))
    trait = env.puzzle.substances[0].stages[2].split()[0]
    asked = env.puzzle.goal.slots["t"]
    assert answer == f"focus on {env.puzzle.goal.slots['a' if trait == asked else 'b']}"
    do(env, answer)
    assert env.succeeded


def test_what_was_poured_by_mistake_goes_down_the_drain() -> None:
    """Supplies never run out, so a wrong mixture costs only steps."""
    env = find_task("mix a secondary paint", "easy")
    follow(env, lambda command: command.startswith("mix"))
    cup = next(i for i in env.puzzle.vessels if len(env.lab.contents(i)) == 2)
    name = env.puzzle.things[cup].name
    assert do(env, f"pour {name} into drain") == f"The {name} is empty."
    follow(env)
    assert env.succeeded


@pytest.mark.parametrize(
    ("text", "verb", "first", "second"),
    [
        ("Look around.", "look around", "", ""),
        ("look", "look around", "", ""),
        ("take the tin cup", "pick up", "tin cup", ""),
        ("pour jar of adder into tin cup", "pour", "jar of adder", "tin cup"),
        ("pour jar of adder in the tin cup", "pour", "jar of adder", "tin cup"),
        ("use thermometer on tin cup", "use", "thermometer", "tin cup"),
        ("use stove", "use", "stove", ""),
        ("wait1", "wait1", "", ""),
        ("wait 10", "wait", "", ""),
        ("wait 1", "wait1", "", ""),
        ("put the tin cup on the stove", "move", "tin cup", "stove"),
        ("place apple in red box", "move", "apple", "red box"),
        ("put tin cup down", "put down", "tin cup", ""),
        ("drop tin cup", "put down", "tin cup", ""),
        ("pick the tin cup up", "pick up", "tin cup", ""),
        ("grab tin cup", "pick up", "tin cup", ""),
        ("turn on stove", "activate", "stove", ""),
        ("turn the stove off", "deactivate", "stove", ""),
        ("switch on sink", "activate", "sink", ""),
        ("fill tin cup from sink", "pour", "sink", "tin cup"),
        ("fill tin cup with water", "pour", "water", "tin cup"),
        ("fill tin cup with water from sink", "pour", "sink", "tin cup"),
        ("walk to the kitchen", "go to", "kitchen", ""),
        ("enter kitchen", "go to", "kitchen", ""),
    ],
)
def test_commands_are_read(text: str, verb: str, first: str, second: str) -> None:
    """In any case, with articles, and in other words."""
    assert parse(text) == (verb, first, second)


def test_what_a_thing_is_taken_from_may_be_named() -> None:
    """`take apple from plank`, if it lies there; of what is not here the answer tells nothing."""
    env = find_task("mix a secondary paint", "hard")
    things = env.puzzle.things
    food = next(i for i, thing in enumerate(things) if thing.kind == "food")
    surface, shut = (
        next(i for i, thing in enumerate(things) if thing.kind == kind) for kind in ("surface", "cupboard")
    )
    name, place = things[food].name, things[surface].name
    env.lab.place[food], env.lab.room = surface, env.lab.room_of(surface)
    here = env.snapshot()
    for verb in ("take", "pick up"):
        env.restore(here)
        assert do(env, f"{verb} the {name} from the {place}") == f"You hold the {name}."
    assert not env.step(f"take {name} from {place}")[4]["valid_action"]
    do(env, f"put down {name}", f"take {name} from floor")
    assert env.lab.place[food] == HAND
    env.restore(here)
    env.lab.room = env.lab.room_of(shut)
    for at in (surface, shut):
        env.lab.place[food] = at
        assert (
            env.step(f"take {name} from {things[shut].name}")[0] == f"There is no {name} from {things[shut].name} here."
        )


def test_what_is_poured_may_be_named_with_what_holds_it() -> None:
    """`pour red paint from pot of red paint into iron mug`; so may a move, but not from what holds something else."""
    env = find_task("mix a secondary paint", "easy")
    pour = follow(env, lambda command: command.startswith("pour"))
    source, _, cup = pour.removeprefix("pour ").partition(" into ")
    paint = source.removeprefix("pot of ")
    here, expected = env.snapshot(), env.step(pour)[0]
    for command in (f"pour {paint} from {source} into {cup}", f"move {paint} from {source} to {cup}"):
        env.restore(here)
        assert do(env, command) == expected
    assert not env.step(f"pour water from {source} into {cup}")[4]["valid_action"]
    assert not env.step(f"pick up {paint} from {cup}")[4]["valid_action"]


def test_a_refusal_says_what_is_so() -> None:
    """The agent is there already, the cup holds it already, or is poured into itself."""
    env = find_task("grow a plant", "easy")
    i = next(i for i, thing in enumerate(env.puzzle.things) if thing.kind == "cup")
    env.lab.place[i] = HAND
    env.lab.contents(i).append(next(s for s, each in enumerate(env.puzzle.substances) if each.name == "water"))
    cup, room = env.puzzle.things[i].name, env.puzzle.rooms[env.lab.room]
    assert env.step(f"go to the {room.capitalize()}")[0] == f"You are in the {room} already."
    assert env.step(f"pour water into {cup}")[0] == f"The {cup} holds water already."
    assert env.step(f"pour {cup} into {cup}")[0] == f"The {cup} cannot be poured into itself."


def test_a_door_is_named_by_its_room() -> None:
    """`open door` says so."""
    env = find_task("boil", "hard")
    assert env.step("open door")[0].startswith("Name the room: open door to ROOM.")
    assert env.step("close the door")[0].startswith("Name the room: close door to ROOM.")


@pytest.mark.parametrize(
    "text", ["", "dance", "move cup", "put cup", "fill cup", "pick up", "wait long", "look around the room", "x" * 300]
)
def test_other_texts_are_no_commands(text: str) -> None:
    """They cost a step and change nothing."""
    assert parse(text) is None


def test_a_tool_call_is_the_same_command() -> None:
    """Each verb is a tool; its arguments are the names."""
    env = find_task("boil", "easy")
    before = env.snapshot()
    for command in env.expert():
        parsed = parse(command)
        assert parsed
        tool = parsed.verb.replace(" ", "_")
        arguments = {key: name for key, name in zip(("name", "target"), parsed[1:], strict=True) if name}
        do(env, json.dumps({"name": tool, "arguments": arguments}))
    assert env.succeeded
    env.restore(before)
    names = {tool["function"]["name"] for tool in env.tools()}
    assert names == {verb.replace(" ", "_") for verb in VERBS}


@settings(max_examples=100, deadline=None)
@given(verb=st.sampled_from(sorted(VERBS)), seed=st.integers(0, 300), number=st.integers(0, 40))
def test_any_command_with_real_names_is_answered(verb: str, seed: int, number: int) -> None:
    """Sensible or not; what cannot be done changes nothing but the step count."""
    env = LabEnv(difficulty="medium")
    env.reset(options={"task": number})
    rng = Rng("any", seed)
    names = [*env.puzzle.by_name, *env.puzzle.rooms, *(substance.name for substance in env.puzzle.substances)]
    between = {"move": " to ", "pour": " into ", "dunk": " into ", "connect": " to ", "use": " on "}.get(verb)
    text = f"{verb} {rng.choice(names)}" + (f"{between}{rng.choice(names)}" if between else "")
    before = env.state()
    observation, *_, info = env.step(text)
    assert observation and (info["valid_action"] or env.state() == before)
    if not env.stop_reason:
        assert experts.plan(env.lab)


def test_a_copy_is_independent() -> None:
    """Plans are tried out in copies, which must leave the laboratory alone."""
    env = find_task("grow a fruit", "hard")
    lab, state = env.lab, env.state()
    copy: Lab = lab.copy()
    for command in env.expert():
        parsed = parse(command)
        assert parsed
        verbs.do(copy, parsed)
    assert env.state() == state


# ---- wordings -------------------------------------------------------------------------------------------------------


def test_splits_share_no_wording_and_no_name() -> None:
    """Three held-out wordings of each kind in each split are no expansion of a training grammar."""
    for key, by_split in WORDINGS.items():
        assert min(len(by_split["valid"]), len(by_split["test"])) >= 3, key
        held_out = (*by_split["valid"], *by_split["test"])
        assert len(set(held_out)) == len(held_out), key
        for text in held_out:
            assert not any(is_expansion(text, grammar) for grammar in by_split["train"]), (key, text)
        assert sum(map(count_expansions, by_split["train"])) >= 20, key
    named = [word for names in WORDS.values() for word in names]
    assert len(named) == len(set(named))
    env = LabEnv(difficulty="hard")
    for number in range(200):
        task = env.task(number)
        for split in SPLITS:
            assert "{" not in request(Rng(number), split, env.puzzle_of(task).goal)


def test_requests_have_the_right_article() -> None:
    """`an osprey plant`, `a heron plant`, in every split."""
    count = Counter[str]()
    for split in SPLITS:
        env = LabEnv(difficulty="hard", split=split)
        for number in range(600):
            task = env.task(number)
            name = env.puzzle_of(task).goal.slots.get("s", "")
            for article in re.findall(rf"\b(an?) {re.escape(name)}\b", task.instruction, re.IGNORECASE) if name else ():
                assert article.lower() == ("an" if name[0] in "aeiou" else "a"), task.instruction
                count[split] += article.lower() == "an"
    assert all(count[split] for split in SPLITS)


def test_held_out_requests_are_as_they_were() -> None:
    """An id means the same request as long as the version of the world is the same."""
    texts = [
        task.instruction
        for difficulty in LEVELS for split in ("valid", "test") for number in range(200)
        for task in [LabEnv(difficulty=difficulty).task(number, split)]
    ]  # fmt: skip
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] == "94c38c5da532599d"
