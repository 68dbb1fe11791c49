"""Build a circuit: light a lamp, by a certain source, or test whether something conducts."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_envs.lab import kinds
from agentgym_envs.lab.families.family import Family
from agentgym_envs.lab.lab import Lab
from agentgym_envs.lab.planner import Planner
from agentgym_envs.lab.site import HAND, Goal, Site, floor

POWER, SOURCE = "power a device", "power by a source"
CONDUCTS, UNKNOWN = "test conductivity", "test unknown conductivity"
_TESTS = (CONDUCTS, UNKNOWN)


def draw(site: Site, kind: str) -> Goal:
    """Draw sources, lamps, wires and what is tested."""
    rng = site.rng
    battery = site.add("battery", "battery", site.somewhere())
    panel = site.add("panel", "solar panel", site.somewhere()) if kind == SOURCE else -1
    lamps = [site.add("lamp", site.pick(kinds.LAMPS), site.somewhere()) for _ in range(1 if site.easy else 2)]
    colours = rng.sample(kinds.COLOURS, 3)
    for colour in colours:
        site.add("wire", f"{colour} wire", site.somewhere())
    if kind not in _TESTS:
        source = rng.choice((battery, panel)) if kind == SOURCE else battery
        site.clutter()
        slots = {"s": site.things[lamps[0]].name, "w": "renewable" if source == panel else "non-renewable"}
        return Goal(kind, (lamps[0], source), slots=slots)
    conducts = rng.below(2)
    name = f"unknown object {rng.choice('ABCDEFGHJK')}".lower() if kind == UNKNOWN else f"{site.word()} rod"
    sample = site.add("sample", name, site.somewhere(), value=conducts)
    yes, no = site.boxes()
    slots = {"s": name, "a": site.things[yes].name, "b": site.things[no].name}
    return Goal(kind, (sample, battery), (yes, no), slots=slots)


def is_lit(lab: Lab) -> bool:
    """Tell whether the wanted lamp is on by the wanted source, and by no other one."""
    lamp, source = lab.puzzle.goal.targets

    def live(ring: Sequence[int]) -> list[int]:
        return [i for i in ring if lab.puzzle.traits[i].part == "source" and lab.gives_power(i)]

    return any(flows and lamp in ring and live(ring) == [source] for ring, flows in lab.powered())


def progress(lab: Lab) -> Sequence[bool]:
    """Judge wires, lamps and tests."""
    goal = lab.puzzle.goal
    target, source = goal.targets
    wired = {i for wire in lab.wires for i in wire}
    if goal.kind in _TESTS:
        held = lab.place[target] == HAND
        return held, target in wired, f"conducts {target}" in lab.facts, bool(lab.focused)
    focused = bool(lab.focused)
    return focused, source in wired, target in wired, focused and is_lit(lab)


def accepts(lab: Lab, name: str) -> bool:
    """The lamp is right, or the box that the test says; without a test no box is."""
    goal, things = lab.puzzle.goal, lab.puzzle.things
    if goal.kind not in _TESTS:
        return name == things[goal.targets[0]].name
    value = lab.facts.get(f"conducts {goal.targets[0]}")
    return value is not None and name == things[goal.boxes[1 - value]].name


def advise(planner: Planner) -> str:
    """Gather the parts, connect them to a ring, and answer if something was tested."""
    lab, goal = planner.lab, planner.goal
    target, source = goal.targets
    if goal.kind in _TESTS:
        value = planner.fact("conducts", target)
        if value is not None:
            box = goal.boxes[1 - value]
            why = f"It {'conducts' if value else 'does not conduct'}."
            return planner.reach(box) or planner.say(why, f"focus on {planner.name(box)}")
        lamp = min(planner.known("lamp"), key=planner.distance, default=None)
        if lamp is None:
            return planner.explore("a lamp")
        ring = [source, lamp, target]
    else:
        if not lab.focused:
            name = planner.name(target)
            return planner.reach(target) or planner.say(f"This is the {name}.", f"focus on {name}")
        ring = [source, target]
    used = {i for wire in lab.wires for i in wire}
    wires = sorted(planner.known("wire"), key=lambda i: (i not in used, planner.distance(i)))
    if len(wires) < len(ring):
        return planner.explore("enough wires")
    parts = [part for pair in zip(ring, wires, strict=False) for part in pair]
    return _gather(planner, parts) or _connect(planner, parts)


def _gather(planner: Planner, parts: Sequence[int]) -> str | None:
    """Bring all parts to one room: outdoors for a solar panel, else where some are connected, or the first room."""
    lab, source = planner.lab, parts[0]
    if planner.puzzle.things[source].kind == "panel":
        room = planner.puzzle.outdoors
    else:
        room = lab.room_of(min(lab.wires)[0]) if lab.wires else planner.puzzle.start
    missing = [
        i for i in parts
        if not planner.knows(i) or lab.place[i] == HAND or lab.room_of(i) != room or not _is_open(lab, i)
    ]  # fmt: skip
    known = sorted((i for i in missing if planner.knows(i)), key=planner.distance)
    for i in (*known, *missing):
        if step := planner.hold(i):
            return step
    if missing and (step := planner.go(room)):
        planner.why = "I have all parts."
        return step
    if missing:
        return planner.say("The parts must lie here.", f"put down {planner.name(missing[0])}")
    return planner.go(room)


def _is_open(lab: Lab, i: int) -> bool:
    """Tell whether a thing is not behind a closed door of furniture."""
    place = lab.place[i]
    return place <= floor(0) or lab.accessible(place)


def _connect(planner: Planner, parts: Sequence[int]) -> str:
    """Connect neighbours of the ring; first remove other connections of its parts."""
    lab = planner.lab
    wanted = [tuple(sorted(pair)) for pair in zip(parts, [*parts[1:], parts[0]], strict=True)]
    for a, b in sorted(lab.wires):
        if (a, b) not in wanted and (a in parts or b in parts):
            wrong = a if a in parts else b
            return planner.say("It is connected wrongly.", f"disconnect {planner.name(wrong)}")
    for pair in wanted:
        if pair not in lab.wires:
            one, other = (planner.name(i) for i in pair)
            return planner.say("They must form a ring.", f"connect {one} to {other}")
    name = planner.name(parts[0])
    return planner.say("The ring must be closed again.", f"disconnect {name}")


_POWER_POINTS = {"focus": 20, "source wired": 20, "device wired": 20, "device on": 40}
_TEST_POINTS = {"sample in hand": 15, "sample wired": 20, "tested": 35, "answered": 30}
FAMILIES = (
    Family(
        {
            **dict.fromkeys((POWER, SOURCE), _POWER_POINTS),
            **dict.fromkeys(_TESTS, _TEST_POINTS),
        },
        draw, progress, accepts, advise,
    ),
)  # fmt: skip
