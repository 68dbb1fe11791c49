"""Measure a temperature or a melting point, and answer by a box."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_envs.lab import kinds
from agentgym_envs.lab.families.family import Family
from agentgym_envs.lab.families.states import add_devices, treat
from agentgym_envs.lab.lab import Lab
from agentgym_envs.lab.matter import LIQUID, SOLID
from agentgym_envs.lab.planner import Planner
from agentgym_envs.lab.site import HAND, Goal, Site

TEMPERATURE, MELTING, UNKNOWN = "measure temperature", "measure melting point", "measure unknown melting point"


def draw(site: Site, kind: str) -> Goal:
    """Draw a substance whose temperature or melting point lies on one side of a threshold."""
    rng = site.rng
    limit = 75 + rng.below(120)
    truth = limit + rng.choice((-1, 1)) * (5 + rng.below(30))  # on either side equally often, whatever the limit is
    site.add("thermometer", "thermometer", site.somewhere())
    above, below = site.boxes()
    if kind == TEMPERATURE:
        substance = site.substance(site.word())
        keeper = site.add("keeper", site.pick(kinds.HEATERS), site.inside(), value=truth, on=True)
        site.add("ampoule", "sealed ampoule", keeper, contents=(substance,), temperature=truth)
    else:
        name = f"unknown substance {rng.choice('ABCDEFGHJK')}" if kind == UNKNOWN else site.word()
        substance = site.substance(name.lower(), melts=truth, boils=truth + 300)
        site.supply(substance)
        add_devices(site, cold=False, needed=limit + 35)
    site.cups(2)
    site.clutter()
    answers = {"a": site.things[above].name, "b": site.things[below].name}
    slots = {"s": site.substances[substance].name, "n": str(limit), **answers}
    return Goal(kind, (substance,), (above, below), limit, slots=slots)


def measured(lab: Lab) -> int | None:
    """Return the quantity that was asked for, if it was measured."""
    goal = lab.puzzle.goal
    return lab.facts.get(f"{'degrees' if goal.kind == TEMPERATURE else 'melts'} {goal.targets[0]}")


def right_box(lab: Lab) -> int | None:
    """Return the box that the measurement says."""
    value, goal = measured(lab), lab.puzzle.goal
    return None if value is None else goal.boxes[0 if value > goal.number else 1]


def accepts(lab: Lab, name: str) -> bool:
    """Only the box that the measurement says is right; without one no box is."""
    box = right_box(lab)
    return box is not None and lab.puzzle.things[box].name == name


def progress(lab: Lab) -> Sequence[bool]:
    """Judge thermometer, sample, heating and measurement."""
    puzzle = lab.puzzle
    target = puzzle.goal.targets[0]
    thermometer = next(i for i, thing in enumerate(puzzle.things) if thing.kind == "thermometer")
    held = lab.place[thermometer] == HAND
    answered = bool(lab.focused)
    if puzzle.goal.kind == TEMPERATURE:
        near = any(lab.contents(i) == [target] and lab.reachable(i) for i in puzzle.vessels)
        return held, near, measured(lab) is not None, answered
    filled = heated = melted = False
    for i, cell in zip(puzzle.vessels, lab.cells, strict=True):
        if cell.contents == [target]:
            filled = True
            place = lab.place[i]
            heated = heated or (place in lab.on and puzzle.traits[place].tempers)
            melted = melted or cell.phase > SOLID
    return held, filled, heated, melted, measured(lab) is not None, answered


def advise(planner: Planner) -> str:
    """Bring thermometer and sample together; heat the sample and measure until it melts; answer."""
    lab, goal, puzzle = planner.lab, planner.goal, planner.puzzle
    target = goal.targets[0]
    box = right_box(lab)
    if box is not None:
        relation = "above" if box == goal.boxes[0] else "not above"
        why = f"{measured(lab)} is {relation} {goal.number}."
        return planner.reach(box) or planner.say(why, f"focus on {planner.name(box)}")
    thermometer = next(i for i, thing in enumerate(puzzle.things) if thing.kind == "thermometer")
    if step := planner.hold(thermometer):
        return step
    name = puzzle.substances[target].name
    if goal.kind == TEMPERATURE:
        ampoule = next(iter(planner.known("ampoule")), None)
        return planner.reach(ampoule, f"the {name}") or _measure(planner, ampoule)
    cup = planner.cup_for([target])
    if cup is None or lab.contents(cup) != [target]:
        step = planner.fill(cup, [target])
        assert step is not None
        return step
    cell = lab.cell(cup)
    assert cell is not None
    if SOLID < cell.phase < LIQUID:
        return planner.reach(cup) or _measure(planner, cup)
    if cell.phase >= LIQUID:
        return planner.hold(cup) or planner.wait("It must become solid again.", short=True)
    return treat(planner, cup, cold=False, temperature=cell.temperature)


def _measure(planner: Planner, cup: int | None) -> str:
    assert cup is not None
    name = planner.name(cup)
    return planner.say(f"I measure what is in the {name}.", f"use thermometer on {name}")


_MELTING = {"thermometer": 15, "in a cup": 15, "heated": 15, "melting": 10, "measured": 20, "answered": 25}
FAMILIES = (
    Family(
        {
            TEMPERATURE: {"thermometer": 20, "near": 20, "measured": 30, "answered": 30},
            MELTING: _MELTING,
            UNKNOWN: _MELTING,
        },
        draw, progress, accepts, advise,
    ),
)  # fmt: skip
