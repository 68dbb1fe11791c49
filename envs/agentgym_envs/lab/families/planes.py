"""Time a block on inclined planes: which is steepest, which has most friction."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentgym_envs.lab.families.family import Family
from agentgym_envs.lab.lab import Lab
from agentgym_envs.lab.planner import Planner
from agentgym_envs.lab.site import Goal, Site

ANGLE, FRICTION, UNKNOWN = "steepest plane", "most friction", "most friction, unknown surfaces"
_LENGTH, _GRAVITY = 4.0, 9.81
"""Metres, and metres per second squared."""


def seconds(degrees: int, friction: float) -> float:
    """Return the time in which a block slides down a plane: sqrt(2 L / (g (sin a - mu cos a)))."""
    angle = math.radians(degrees)
    return math.sqrt(2 * _LENGTH / (_GRAVITY * (math.sin(angle) - friction * math.cos(angle))))


def draw(site: Site, kind: str) -> Goal:
    """Draw planes that differ in their angle or in their friction."""
    rng = site.rng
    count = 2 if site.easy else 4
    if kind == ANGLE:
        surface, angles = rng.below(3) / 10, rng.sample(range(25, 65, 5), count)
        times = [seconds(angle, surface) for angle in angles]
        names = [f"{site.word()} plane" for _ in range(count)]
        best = angles.index(max(angles))
    else:
        angle, rough = 35 + 5 * rng.below(5), rng.sample(range(6), count)
        times = [seconds(angle, step / 10) for step in rough]
        labels = rng.sample("ABCDEFGHJK", count) if kind == UNKNOWN else [site.word() for _ in range(count)]
        names = [f"plane {label.lower()}" if kind == UNKNOWN else f"{label} plane" for label in labels]
        best = rough.index(max(rough))
    room = site.inside()
    together = site.easy or rng.below(2)
    planes = [
        site.add("plane", name, room if together else site.inside(), value=round(100 * time))
        for name, time in zip(names, times, strict=True)
    ]
    site.add("block", "wooden block", site.somewhere())
    site.add("stopwatch", "stopwatch", site.somewhere())
    site.clutter()
    slots = {"s": f"{', '.join(names[:-1])} and {names[-1]}"}
    return Goal(kind, (planes[best], *(plane for plane in planes if plane != planes[best])), slots=slots)


def timed(lab: Lab) -> int:
    """Return how many planes were timed."""
    return sum(f"seconds {i}" in lab.facts for i in lab.puzzle.goal.targets)


def progress(lab: Lab) -> Sequence[bool]:
    """Judge the timings and the answer."""
    count = timed(lab)
    return count > 0, count > 1, count == len(lab.puzzle.goal.targets), bool(lab.focused)


def accepts(lab: Lab, name: str) -> bool:
    """The right plane counts once all planes were timed."""
    targets = lab.puzzle.goal.targets
    return timed(lab) == len(targets) and lab.puzzle.things[targets[0]].name == name


def advise(planner: Planner) -> str:
    """Time each plane, then focus."""
    lab, puzzle, targets = planner.lab, planner.puzzle, planner.goal.targets
    missing = sorted(i for i in targets if f"seconds {i}" not in lab.facts)
    if not missing:
        name = planner.name(targets[0])
        why = f"Its time is the {'shortest' if planner.goal.kind == ANGLE else 'longest'}."
        return planner.reach(targets[0]) or planner.say(why, f"focus on {name}")
    for kind in ("stopwatch", "block"):
        tool = next(i for i, thing in enumerate(puzzle.things) if thing.kind == kind)
        if (kind == "stopwatch" or not planner.knows(tool)) and (step := planner.hold(tool)):
            return step
    block = next(i for i, thing in enumerate(puzzle.things) if thing.kind == "block")
    known = [i for i in missing if planner.knows(i)]
    if not known:
        return planner.hold(block) or planner.explore("the other planes")
    plane = next((i for i in known if lab.place[block] == i), None)
    if plane is None:
        plane = min(known, key=planner.distance)
    name = planner.name(plane)
    step = planner.put(block, plane) or planner.reach(plane)
    return step or planner.say("I time the block.", f"use stopwatch on {name}")


_POINTS = {"one timed": 20, "two timed": 20, "all timed": 20, "answered": 40}
FAMILIES = (Family(dict.fromkeys((ANGLE, FRICTION, UNKNOWN), _POINTS), draw, progress, accepts, advise),)
