"""Random recipe trees, over words that each belong to one split."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_envs.textcraft.recipes import Recipe
from agentgym_py.rng import Rng

_RAW: Mapping[str, str] = {
    "train": "amber ash bark bone brass chalk clay coal copper cork cotton flax flint fur glass grain horn iron ivory "
    "leaf moss oil pitch quartz reed resin salt sand silk slate straw tin wax wool zinc",
    "valid": "bamboo basalt cane coral feather gold granite hemp honey jade lime nickel pearl tar willow",
    "test": "alum beeswax birch bronze cedar gravel gypsum hide lead marble oak pine pumice ruby silver",
}
_CRAFTED: Mapping[str, str] = {
    "train": "anvil axle basket beam bell belt blade board boiler bolt bottle bowl bracket brick bridle brush bucket "
    "buckle button cable candle cart chain chest chisel clamp cloth collar comb cord crate cup dial drum fan file "
    "flask frame funnel gate gear glove hammer handle harness hinge hook hoop jar kettle key ladder lamp lantern latch "
    "lens lever lid lock loom mallet",
    "valid": "nail needle nozzle oar oven paddle pan pedal peg pipe piston plank plate plough pot pulley pump quiver "
    "rail rake ring rivet rod roller rope",
    "test": "rudder saddle sail saw scale screen screw shaft shelf shield shovel sieve sled spindle spool spring staff "
    "stool strap string tile tongs torch trough tube wheel",
}
DEPTHS = {"easy": (1, 2), "medium": (3, 4), "hard": (5, 6)}
_DISTRACTORS = {"easy": 8, "medium": 6, "hard": 5}
_COUNTS = (1, 1, 1, 2, 2, 3, 4)


def draw_recipes(rng: Rng, split: str, difficulty: str) -> tuple[str, list[Recipe]]:
    """Draw a target, and its recipe tree among recipes that do not help."""
    low, high = DEPTHS[difficulty]
    names = iter(rng.sample(_CRAFTED[split].split(), 24))
    raw = rng.sample(_RAW[split].split(), 6)
    levels = [raw]
    recipes: list[Recipe] = []
    for _ in range(low + rng.below(high - low + 1) - 1):
        level = [_recipe(rng, next(names), levels) for _ in range(1 + (rng.below(3) == 0))]
        recipes += level
        levels.append([recipe.item for recipe in level])
    target = _recipe(rng, next(names), levels)
    items = [*raw, *(recipe.item for recipe in recipes)]
    distractors = [_recipe(rng, next(names), [items]) for _ in range(_DISTRACTORS[difficulty])]
    recipes += [target, *distractors]
    return target.item, rng.sample(recipes, len(recipes))


def _recipe(rng: Rng, item: str, levels: list[list[str]]) -> Recipe:
    """A recipe of one thing of the top level, and one or two of any level."""
    below = [thing for level in levels for thing in level]
    needs = {rng.choice(levels[-1]): 1 + rng.below(3)}
    for _ in range(1 + rng.below(2)):
        needs.setdefault(rng.choice(below), 1 + rng.below(3))
    return Recipe(item, rng.choice(_COUNTS), tuple(rng.sample(list(needs.items()), len(needs))))
