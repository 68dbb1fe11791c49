"""Cross two plants and see which trait is dominant (Mendel's first law)."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_envs.lab import kinds
from agentgym_envs.lab.families.family import Family
from agentgym_envs.lab.families.growing import growing_place, plant, tend
from agentgym_envs.lab.lab import Lab
from agentgym_envs.lab.planner import Planner
from agentgym_envs.lab.site import Goal, Site, floor
from agentgym_envs.lab.words import with_article

KNOWN, UNKNOWN = "dominant trait", "dominant trait of an unknown plant"
TRAITS = (
    ("tall", "short"), ("hairy", "smooth"), ("striped", "plain"), ("thorny", "thornless"), ("early", "late"),
    ("broad-leaved", "narrow-leaved"), ("fragrant", "scentless"), ("upright", "creeping"),
)  # fmt: skip
_POINTS = {"pollen": 15, "crossed": 20, "sown": 15, "grown": 25, "answered": 25}


def draw(site: Site, kind: str) -> Goal:
    """Draw two pure-bred parents, the dominant trait, and a question about one of the traits."""
    rng = site.rng
    word = f"unknown plant {rng.choice('abcdefghjk')}" if kind == UNKNOWN else site.word()
    traits = rng.choice(TRAITS)
    dominant, asked = rng.below(2), rng.below(2)
    stages = (f"crossed {word} seed", f"{word} seedling", f"{traits[dominant]} {word} plant")
    species = site.substance(stages[0], melts=500, stages=stages, grows_in="planter")
    room = site.inside()
    for trait in traits:
        site.add("parent", f"{trait} {word}", room if site.easy else site.inside())
    site.add("pod", f"{word} pod", floor(1 + rng.below(len(site.rooms) - 1)), stock=species)
    site.add("planter", site.pick(kinds.PLANTERS), site.inside())
    site.water()
    site.cups(2)
    site.add("brush", "fine brush", site.somewhere())
    yes, no = site.boxes()
    slots = {"s": word, "t": traits[asked], "a": site.things[yes].name, "b": site.things[no].name}
    return Goal(kind, (species,), (yes, no), int(asked == dominant), slots=slots)


def _grown(lab: Lab) -> bool:
    place = growing_place(lab)
    return place is not None and lab.stage(place[1]) == 2


def progress(lab: Lab) -> Sequence[bool]:
    """Judge pollen, pod, seed and plant."""
    pod = next(i for i, thing in enumerate(lab.puzzle.things) if thing.kind == "pod")
    return "pollen" in lab.facts, pod in lab.on, growing_place(lab) is not None, _grown(lab), bool(lab.focused)


def accepts(lab: Lab, name: str) -> bool:
    """The right box counts once a crossed plant has grown."""
    goal = lab.puzzle.goal
    return _grown(lab) and name == lab.puzzle.things[goal.boxes[1 - goal.number]].name


def advise(planner: Planner) -> str:
    """Cross the parents, sow the seed, tend the plant, and answer by its trait."""
    lab, goal, puzzle = planner.lab, planner.goal, planner.puzzle
    species = puzzle.substances[goal.targets[0]]
    if _grown(lab):
        box = goal.boxes[1 - goal.number]
        answer = "dominant" if goal.number else "recessive"
        why = f"There is {with_article(species.stages[2])}, so {goal.slots['t']} is {answer}."
        return planner.reach(box) or planner.say(why, f"focus on {planner.name(box)}")
    place = growing_place(lab)
    if place is not None:
        return tend(planner, *place, species.stages[1])
    pod = next(i for i, thing in enumerate(puzzle.things) if thing.kind == "pod")
    return _cross(planner) if pod not in lab.on else plant(planner, "planter", goal.targets[0])


def _cross(planner: Planner) -> str:
    """Brush one parent, then the other."""
    brush = next(iter(planner.known("brush")), None)
    if step := planner.hold(brush, "a brush"):
        return step
    parents = [i for i in planner.known("parent") if i != planner.lab.facts.get("pollen")]
    if not parents:
        return planner.explore("the other plant")
    parent = min(parents, key=planner.distance)
    step = planner.reach(parent)
    return step or planner.say("I cross the two plants.", f"use fine brush on {planner.name(parent)}")


FAMILIES = (Family(dict.fromkeys((KNOWN, UNKNOWN), _POINTS), draw, progress, accepts, advise),)
