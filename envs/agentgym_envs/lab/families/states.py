"""Change the state of matter: boil, melt, freeze, or any change."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_envs.lab import kinds
from agentgym_envs.lab.families.family import Family
from agentgym_envs.lab.lab import Lab
from agentgym_envs.lab.matter import GAS, LIQUID, ROOM, SOLID, phase_at, state_name
from agentgym_envs.lab.planner import Planner
from agentgym_envs.lab.site import Goal, Site

_POINTS = {"focus": 15, "in a cup": 15, "at a device": 20, "device on": 15, "changing": 10, "changed": 25}
_WANTED = {"boil": GAS, "melt": LIQUID, "freeze": SOLID}


def draw(site: Site, kind: str) -> Goal:
    """Draw a substance and devices; some are too weak or broken."""
    rng = site.rng
    change = rng.choice(("melt", "freeze")) if kind == "change state" else kind
    solid = change == "melt"
    melts = 40 + rng.below(700) if solid else -60 + rng.below(70)
    boils = melts + 200 + rng.below(600) if solid else 60 + rng.below(600)
    substance = site.substance(site.word(), melts=melts, boils=boils)
    site.supply(substance)
    site.cups(2)
    add_devices(site, cold=change == "freeze", needed={"boil": boils, "melt": melts, "freeze": melts}[change])
    site.clutter()
    return Goal(kind, (substance,), slots={"s": site.substances[substance].name})


def add_devices(site: Site, cold: bool, needed: int) -> None:
    """Add a device that is strong enough, and in harder tasks a weak one and a broken one that promises more."""
    rng = site.rng
    kind, names = ("cooler", kinds.COOLERS) if cold else ("heater", kinds.HEATERS)
    sign = -1 if cold else 1

    def add(level: int, works: bool = True) -> None:
        site.add(kind, site.pick(names), site.inside(), value=level // 10 * 10, works=works)

    enough = needed + sign * (30 + rng.below(100))
    add(enough)
    if not site.easy and rng.below(2):
        add((needed + ROOM) // 2)
    if site.hard or (not site.easy and not rng.below(3)):
        add(enough + sign * 50, works=False)


def is_changed(lab: Lab, phase: int) -> bool:
    """Tell whether a phase is the wanted one."""
    goal = lab.puzzle.goal
    substance = lab.puzzle.substances[goal.targets[0]]
    if goal.kind == "boil":
        return phase == GAS
    if goal.kind == "melt":
        return phase >= LIQUID
    if goal.kind == "freeze":
        return phase == SOLID
    return phase % 4 == 0 and phase != phase_at(substance, ROOM)


def progress(lab: Lab) -> Sequence[bool]:
    """Judge the cups that hold the substance."""
    puzzle = lab.puzzle
    target = puzzle.goal.targets[0]
    resting = phase_at(puzzle.substances[target], ROOM)
    filled = at_device = on = changing = changed = False
    for i, cell in zip(puzzle.vessels, lab.cells, strict=True):
        if cell.contents == [target]:
            filled = True
            place = lab.place[i]
            if place >= 0 and puzzle.traits[place].tempers:
                at_device = True
                on = on or place in lab.on
            changing = changing or state_name(cell.phase) != state_name(resting)
            changed = changed or is_changed(lab, cell.phase)
    return bool(lab.focused), filled, at_device, on, changing, changed and bool(lab.focused)


def accepts(lab: Lab, name: str) -> bool:
    """Only the substance is right."""
    return name == lab.puzzle.substances[lab.puzzle.goal.targets[0]].name


def advise(planner: Planner) -> str:
    """Focus, fill a cup, and bring it to the strongest device; a weaker one if that is broken."""
    lab, target = planner.lab, planner.goal.targets[0]
    cup = planner.cup_for([target])
    full = cup is not None and lab.contents(cup) == [target]
    if not lab.focused:
        name = planner.puzzle.substances[target].name
        source = cup if full else planner.supply(target)
        return planner.reach(source, f"the {name}") or planner.say(f"This is the {name}.", f"focus on {name}")
    assert cup is not None or planner.fair
    if not full:
        step = planner.fill(cup, [target])
        assert step is not None
        return step
    assert cup is not None
    cell = lab.cell(cup)
    assert cell is not None
    if is_changed(lab, cell.phase):
        return planner.wait("It is done.", short=True)
    return treat(planner, cup, cold=_cold(planner), temperature=cell.temperature)


def _cold(planner: Planner) -> bool:
    goal, substance = planner.goal, planner.puzzle.substances[planner.goal.targets[0]]
    return goal.kind == "freeze" or (goal.kind == "change state" and phase_at(substance, ROOM) == LIQUID)


def treat(planner: Planner, cup: int, cold: bool, temperature: int) -> str:
    """Heat or cool a cup at the strongest device that is not known to be broken."""
    lab, puzzle = planner.lab, planner.puzzle
    kind = "cooler" if cold else "heater"
    fit = [
        i for i in planner.known(kind)
        if planner.fact("broken", i) is None and (planner.fair or puzzle.things[i].works)
    ]  # fmt: skip
    device = max(fit, key=lambda i: (-1 if cold else 1) * puzzle.things[i].value, default=None)
    if device is not None and lab.place[cup] == device and device in lab.on and planner.fair:
        level = puzzle.things[device].value
        if temperature == level:
            return planner.explore(f"a better {kind} than the {planner.name(device)}")
    if device is None:
        return planner.hold(cup) or planner.explore(f"a {kind}")
    step = planner.put(cup, device) or planner.switch_on(device)
    return step or planner.wait(f"It must {'cool' if cold else 'heat'}.", short=planner.goal.kind.startswith("measure"))


FAMILIES = (
    Family(dict.fromkeys((*_WANTED, "change state"), _POINTS), draw, progress, accepts, advise),
)  # fmt: skip
