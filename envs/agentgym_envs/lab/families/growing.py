"""Grow a plant or a fruit, and follow the stages of a life."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_envs.lab import kinds
from agentgym_envs.lab.families.family import Family, count_right
from agentgym_envs.lab.lab import Cell, Lab
from agentgym_envs.lab.planner import Planner
from agentgym_envs.lab.site import Goal, Site

PLANT, FRUIT = "grow a plant", "grow a fruit"
PLANT_LIFE, ANIMAL_LIFE = "life stages of a plant", "life stages of an animal"
_PLANT_STAGES = ("seed", "seedling", "plant", "flower", "fruit")
_ANIMAL_STAGES = (("egg", "hatchling", "youngster", "adult"), ("egg", "larva", "pupa", "imago"))


def draw(site: Site, kind: str) -> Goal:
    """Draw a species, its seeds or eggs, and what makes them grow."""
    rng, word = site.rng, site.word()
    animal = kind == ANIMAL_LIFE
    parts = rng.choice(_ANIMAL_STAGES) if animal else _PLANT_STAGES
    stages = tuple(f"{word} {part}" for part in parts)
    grows_in = "incubator" if animal else "planter"
    species = site.substance(stages[0], melts=500, stages=stages, grows_in=grows_in)
    site.supply(species, "nest" if animal else "packet")
    if animal:
        site.add("incubator", "incubator", site.inside())
    else:
        site.add("planter", site.pick(kinds.PLANTERS), site.inside())
        site.water()
    site.cups(1 if site.easy else 2)
    if kind == FRUIT:
        site.add("brush", "fine brush", site.somewhere())
    site.clutter()
    last = {PLANT: 2, FRUIT: 4}.get(kind, 3)
    return Goal(kind, (species,), number=last, slots={"s": word, "first": parts[0], "last": parts[last]})


def wanted(lab: Lab) -> tuple[str, ...]:
    """Return the names to focus on, in their order."""
    goal = lab.puzzle.goal
    stages = lab.puzzle.substances[goal.targets[0]].stages
    return stages[: goal.number + 1] if goal.kind in (PLANT_LIFE, ANIMAL_LIFE) else (stages[goal.number],)


def growing_place(lab: Lab) -> tuple[int, Cell] | None:
    """Return the planter or incubator in which the goal's species grows."""
    puzzle = lab.puzzle
    for i, cell in zip(puzzle.vessels, lab.cells, strict=True):
        if not puzzle.traits[i].portable and cell.contents == [puzzle.goal.targets[0]]:
            return i, cell
    return None


def progress(lab: Lab) -> Sequence[bool]:
    """Judge planting, care, growth and focus."""
    goal, growing = lab.puzzle.goal, growing_place(lab)
    right = count_right(lab, wanted(lab))
    cell = growing[1] if growing else None
    planted = cell is not None
    stage = lab.stage(cell) if cell else 0
    if goal.kind == PLANT:
        return planted, bool(cell and cell.water), stage >= 1, stage >= 2, right > 0
    if goal.kind == FRUIT:
        cared = bool(cell and cell.water)
        return planted, cared, stage >= 3, bool(cell and cell.pollinated), stage >= 4, right > 0
    return planted, *(right > number for number in range(goal.number + 1))


def accepts(lab: Lab, name: str) -> bool:
    """The next name is right."""
    names, number = wanted(lab), len(lab.focused) - 1
    return number < len(names) and names[number] == name


def advise(planner: Planner) -> str:
    """Plant, care for, wait and focus; start again if a stage was missed."""
    lab, goal, puzzle = planner.lab, planner.goal, planner.puzzle
    species = puzzle.substances[goal.targets[0]]
    name = wanted(lab)[len(lab.focused)]
    stage = species.stages.index(name)
    growing = growing_place(lab)
    if growing is None:
        return plant(planner, species.grows_in, goal.targets[0])
    i, cell = growing
    now = lab.stage(cell)
    if now == stage:
        return planner.reach(i) or planner.say(f"Here is the {name}.", f"focus on {name}")
    if now > stage:
        why = f"The {name} is no more: I start again."
        return planner.reach(i) or planner.say(why, f"pour {planner.name(i)} into drain")
    if stage == 4 and now == 3 and not cell.pollinated:
        brush = next(iter(planner.known("brush")), None)
        step = planner.hold(brush, "a brush") or planner.reach(i)
        return step or planner.say("A flower needs pollen.", f"use fine brush on {planner.name(i)}")
    return tend(planner, i, cell, name)


def tend(planner: Planner, i: int, cell: Cell, name: str) -> str:
    """Water a plant, or switch an incubator on, and wait."""
    is_planter = planner.puzzle.things[i].kind == "planter"
    care = _water(planner, i, cell) if is_planter else planner.switch_on(i)
    return care or planner.reach(i) or planner.wait(f"The {name} takes time.")


def plant(planner: Planner, kind: str, species: int) -> str:
    """Bring seeds or eggs to where they grow."""
    cup = planner.cup_for([species])
    target = next(iter(planner.known(kind)), None)
    supply = planner.supply(species)
    seed = planner.puzzle.substances[species].name
    if target is None:
        return planner.explore("an incubator" if kind == "incubator" else "a planter")
    if supply is None:
        return planner.explore(f"the {seed}")
    if planner.lab.room_of(supply) == planner.lab.room_of(target):
        return planner.pour_stock(species, target)
    if step := planner.fill(cup, [species]):
        return step
    assert cup is not None
    step = planner.reach(target)
    return step or planner.say("Here it can grow.", f"pour {planner.name(cup)} into {planner.name(target)}")


def _water(planner: Planner, i: int, cell: Cell) -> str | None:
    """Water a planter whose soil is dry."""
    if cell.water:
        return None
    water = next(s for s, substance in enumerate(planner.puzzle.substances) if substance.name == "water")
    cup = planner.cup_for([water])
    if step := planner.fill(cup, [water]):
        return step
    assert cup is not None
    step = planner.reach(i)
    return step or planner.say("Plants need water.", f"pour {planner.name(cup)} into {planner.name(i)}")


_LIFE_POINTS = {"planted": 20, "first stage": 20, "second stage": 20, "third stage": 20, "last stage": 20}
FAMILIES = (
    Family(
        {
            PLANT: {"planted": 20, "watered": 20, "seedling": 20, "plant": 20, "focus": 20},
            FRUIT: {"planted": 15, "watered": 15, "flower": 20, "pollinated": 20, "fruit": 10, "focus": 20},
            **dict.fromkeys((PLANT_LIFE, ANIMAL_LIFE), _LIFE_POINTS),
        },
        draw, progress, accepts, advise,
    ),
)  # fmt: skip
