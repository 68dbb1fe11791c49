"""Mix chemicals by a recipe, and paints by the laws of colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentgym_envs.lab.families.family import Family
from agentgym_envs.lab.lab import Lab
from agentgym_envs.lab.planner import Planner
from agentgym_envs.lab.site import Goal, Site

CHEMICALS, SECONDARY, TERTIARY = "mix chemicals", "mix a secondary paint", "mix a tertiary paint"
PRIMARY = ("red", "yellow", "blue")
SECONDARIES: Mapping[str, tuple[str, str]] = {
    "orange": ("red", "yellow"), "green": ("yellow", "blue"), "violet": ("blue", "red"),
}  # fmt: skip
TERTIARIES: Mapping[str, tuple[str, str]] = {
    f"{primary}-{secondary}": (secondary, primary)
    for secondary, primaries in SECONDARIES.items()
    for primary in primaries
}


def draw(site: Site, kind: str) -> Goal:
    """Draw supplies and what they mix to; chemicals come with a sheet of recipes."""
    site.cups(2)
    site.clutter()
    return _draw_chemicals(site) if kind == CHEMICALS else _draw_paints(site, kind)


def _draw_chemicals(site: Site) -> Goal:
    rng = site.rng
    raw = [site.substance(site.word()) for _ in range(4)]
    for substance in raw:
        site.supply(substance)
    lines = list[str]()
    sets: list[tuple[int, ...]] = []
    while len(sets) < 3:
        parts = tuple(rng.sample(raw, 2 if site.easy else 2 + rng.below(2)))
        if all(set(parts) != set(other) for other in sets):
            sets.append(parts)
    products = [site.substance(site.word()) for _ in sets]
    for product, parts in zip(products, sets, strict=True):
        site.reactions[frozenset(parts)] = product
        names = [site.substances[part].name for part in parts]
        lines.append(f"{' and '.join(names)} give {site.substances[product].name}")
    page = f"Recipes: {'; '.join(rng.sample(lines, len(lines)))}."
    sheet = site.add("book", "recipe sheet", site.somewhere(), page=page)
    return Goal(CHEMICALS, (products[0], sheet), slots={"s": site.substances[products[0]].name})


def _draw_paints(site: Site, kind: str) -> Goal:
    paints = {colour: site.substance(f"{colour} paint") for colour in (*PRIMARY, *SECONDARIES, *TERTIARIES)}
    for colour in PRIMARY:
        site.supply(paints[colour], "pot")
    for colour, parts in (*SECONDARIES.items(), *TERTIARIES.items()):
        site.reactions[frozenset(paints[part] for part in parts)] = paints[colour]
    colour = site.rng.choice(list(SECONDARIES if kind == SECONDARY else TERTIARIES))
    return Goal(kind, (paints[colour],), slots={"s": f"{colour} paint"})


def parts_of(lab: Lab, product: int) -> tuple[int, ...]:
    """Return what mixes to a product; empty if nothing does."""
    return next((tuple(sorted(parts)) for parts, made in lab.puzzle.reactions.items() if made == product), ())


def _cups(lab: Lab) -> list[list[int]]:
    return [cell.contents for cell in lab.cells]


def progress(lab: Lab) -> Sequence[bool]:
    """Judge what the cups hold."""
    goal, cups = lab.puzzle.goal, _cups(lab)
    product = goal.targets[0]
    parts = set(parts_of(lab, product))
    made = [product] in cups
    together = made or any(parts <= set(contents) for contents in cups)
    focused = bool(lab.focused)
    if goal.kind == CHEMICALS:
        return f"read {goal.targets[1]}" in lab.facts, together, made, focused
    if goal.kind == SECONDARY:
        return together or any(parts & set(contents) for contents in cups), together, made, focused
    middle = next(part for part in parts if parts_of(lab, part))
    half = together or any(middle in contents for contents in cups)
    return half, together, made, focused


def accepts(lab: Lab, name: str) -> bool:
    """Only the product is right, and it is here only once it is mixed."""
    return name == lab.puzzle.substances[lab.puzzle.goal.targets[0]].name


def advise(planner: Planner) -> str:
    """Read the recipe, mix, and focus on the product."""
    lab, goal = planner.lab, planner.goal
    product = goal.targets[0]
    name = planner.puzzle.substances[product].name
    done = next((i for i in planner.known("cup") if lab.contents(i) == [product]), None)
    if done is not None and (goal.kind != CHEMICALS or planner.fact("read", goal.targets[1])):
        return planner.reach(done) or planner.say(f"This is {name}.", f"focus on {name}")
    if goal.kind == CHEMICALS and not planner.fact("read", goal.targets[1]):
        step = planner.reach(goal.targets[1], "a recipe")
        return step or planner.say("It says what to mix.", "read recipe sheet")
    return _mix(planner, product)


def _mix(planner: Planner, product: int) -> str:
    """Mix a product in one cup, first what it is made of."""
    lab, parts = planner.lab, parts_of(planner.lab, product)
    middle = next((part for part in parts if parts_of(lab, part)), None)
    tools = [*parts, *(parts_of(lab, middle) if middle is not None else ())]
    cup = planner.cup_for(tools)
    contents = lab.contents(cup) if cup is not None else []
    if middle is not None and middle not in contents:
        return _mix(planner, middle)
    step = planner.fill(cup, parts)
    assert cup is not None or step
    return step or planner.say("Everything is in it.", f"mix {planner.name(cup)}")  # type: ignore[arg-type]  # a held cup


FAMILIES = (
    Family(
        {
            CHEMICALS: {"read": 20, "together": 30, "mixed": 30, "focus": 20},
            SECONDARY: {"one part": 20, "together": 30, "mixed": 30, "focus": 20},
            TERTIARY: {"secondary paint": 30, "together": 20, "mixed": 30, "focus": 20},
        },
        draw, progress, accepts, advise,
    ),
)  # fmt: skip
