"""Find a thing of a class, or the animal that lives longest or shortest."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_envs.lab.families.family import Family, count_right
from agentgym_envs.lab.lab import Lab
from agentgym_envs.lab.planner import Planner
from agentgym_envs.lab.site import HAND, Goal, Site
from agentgym_envs.lab.words import with_article

FIND = {
    "find a living thing": ("animal", "plant"),
    "find a non-living thing": ("object",),
    "find a plant": ("plant",),
    "find an animal": ("animal",),
}
"""Task kinds and the kinds of things that fit."""
LONGEST, SHORTEST, BOTH = "longest-lived animal", "shortest-lived animal", "longest- then shortest-lived animal"
SIGNS = {
    "animal": ("It breathes.", "It blinks.", "It has four legs.", "It sniffs.", "It scratches its ear.", "It sleeps."),
    "plant": (
        "It has roots.",
        "It has green leaves.",
        "It grows in a clod of earth.",
        "It has buds.",
        "It has petals.",
    ),
    "object": ("It is made of stone.", "It is made of glass.", "It is carved from bone.", "It is cast from bronze."),
}
"""What `look at` finds on things whose names say nothing."""


def draw_find(site: Site, kind: str) -> Goal:
    """Draw two things that fit and six others, with names that say nothing, and a box."""
    rng, fitting = site.rng, FIND[kind]
    others = [thing for thing in SIGNS if thing not in fitting]
    things = [*fitting * (2 // len(fitting)), *others * (6 // len(others))]
    for thing in rng.sample(things, len(things)):  # in any order, because a room lists them in this one
        site.add(thing, site.word(), site.somewhere(), sign=rng.choice(SIGNS[thing]))
    (box,) = site.boxes(1)
    return Goal(kind, (), (box,), slots={"a": site.things[box].name})


def fits(lab: Lab, i: int) -> bool:
    """Tell whether a thing is of the class that is asked for and has a name that says nothing."""
    thing = lab.puzzle.things[i]
    return bool(thing.sign) and thing.kind in FIND[lab.puzzle.goal.kind]


def progress_find(lab: Lab) -> Sequence[bool]:
    """Judge the thing in focus."""
    i = lab.puzzle.by_name.get(lab.focused[0]) if lab.focused else None
    if i is None:
        return False, False, False
    boxed = lab.place[i] == lab.puzzle.goal.boxes[0]
    return True, boxed or lab.place[i] == HAND, boxed


def accepts_find(lab: Lab, name: str) -> bool:
    """Any thing of the class is right once it was looked at, but only one."""
    i = lab.puzzle.by_name.get(name)
    return i is not None and len(lab.focused) == 1 and fits(lab, i) and f"looked {i}" in lab.facts


def advise_find(planner: Planner) -> str:
    """Look at things until one fits, focus on it and put it into the box."""
    lab = planner.lab
    if lab.focused:
        step = planner.put(planner.puzzle.by_name[lab.focused[0]], planner.goal.boxes[0])
        return step or planner.wait("It is done.")
    named = [i for i in planner.known("animal", "plant", "object") if planner.puzzle.things[i].sign]
    named.sort(key=lambda i: (planner.distance(i), not planner.fact("looked", i)))
    i = next((i for i in named if fits(lab, i) and (not planner.fair or planner.fact("looked", i))), None)
    if i is None:
        i = next((i for i in named if not planner.fact("looked", i)), None)
    if i is None:
        return planner.explore("what I look for")
    name = planner.name(i)
    if step := planner.reach(i):
        return step
    if planner.fact("looked", i):
        return planner.say(f"The {name} fits.", f"focus on {name}")
    return planner.say(f"What is {with_article(name)}?", f"look at {name}")


def draw_lives(site: Site, kind: str) -> Goal:
    """Draw animals and a guide with their life spans."""
    rng = site.rng
    count = 5 if site.hard else 4
    animals = [
        site.add("animal", site.word(), site.somewhere(), sign=rng.choice(SIGNS["animal"])) for _ in range(count)
    ]
    spans = rng.sample(range(1, 40), count)
    lines = [f"{site.things[i].name} {span} years" for i, span in zip(animals, spans, strict=True)]
    page = f"Life spans: {', '.join(rng.sample(lines, count))}."
    guide = site.add("book", "animal guide", site.somewhere(), page=page)
    ordered = sorted(zip(spans, animals, strict=True))
    longest, shortest = ordered[-1][1], ordered[0][1]
    targets = {LONGEST: (longest,), SHORTEST: (shortest,), BOTH: (longest, shortest)}[kind]
    site.clutter()
    return Goal(kind, (guide, *targets))


def progress_lives(lab: Lab) -> Sequence[bool]:
    """Judge the guide and the animals in focus."""
    guide, *animals = lab.puzzle.goal.targets
    right = count_right(lab, [lab.puzzle.things[i].name for i in animals])
    near = f"read {guide}" in lab.facts and lab.reachable(animals[0])
    return f"read {guide}" in lab.facts, near, *(right > number for number in range(len(animals)))


def accepts_lives(lab: Lab, name: str) -> bool:
    """The next animal is right once the guide was read."""
    guide, *animals = lab.puzzle.goal.targets
    names = [lab.puzzle.things[i].name for i in animals]
    number = len(lab.focused) - 1
    return f"read {guide}" in lab.facts and number < len(names) and names[number] == name


def advise_lives(planner: Planner) -> str:
    """Read the guide, then focus on the animals."""
    guide, *animals = planner.goal.targets
    if planner.fact("read", guide) is None:
        step = planner.reach(guide, "the animal guide")
        return step or planner.say("It says how long animals live.", "read animal guide")
    number = len(planner.lab.focused)
    name = planner.name(animals[number])
    shortest = planner.goal.kind == SHORTEST or number == 1
    why = f"The {name} lives {'shortest' if shortest else 'longest'}."
    return planner.reach(animals[number]) or planner.say(why, f"focus on {name}")


_FIND_POINTS = {"focus": 40, "in hand": 20, "in the box": 40}
_ONE_POINTS = {"read": 30, "near": 20, "focus": 50}
_BOTH_POINTS = {"read": 30, "near": 10, "first": 30, "second": 30}
FAMILIES = (
    Family(dict.fromkeys(FIND, _FIND_POINTS), draw_find, progress_find, accepts_find, advise_find),
    Family(
        {LONGEST: _ONE_POINTS, SHORTEST: _ONE_POINTS, BOTH: _BOTH_POINTS},
        draw_lives, progress_lives, accepts_lives, advise_lives,
    ),
)  # fmt: skip
