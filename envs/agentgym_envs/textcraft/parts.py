"""A plan need by need, as a tree of what is missing, and the thoughts that follow it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from agentgym_envs.textcraft.recipes import Book, Recipe


@dataclass(frozen=True, slots=True)
class Part:
    """What is missing of a thing."""

    item: str
    count: int
    """0 if nothing is missing."""
    held: int
    """How many are not missing because they are in the inventory."""
    spare: int
    """How many are not missing because recipes before it in the plan make more than is used."""
    recipe: Recipe | None
    """None for a raw thing."""
    times: int
    """How often the recipe is to be used."""
    parts: tuple[Part, ...]
    """Its ingredients, in the order of the recipe."""


def plan_part(book: Book, item: str, count: int, held: Counter[str], spare: Counter[str] | None = None) -> Part:
    """Return what is missing of a thing and its ingredients; what they use of `held` and `spare` is removed there.

    They use it in the order of the plan.
    """
    spare = Counter() if spare is None else spare
    have = min(count, held[item])
    over = min(count - have, spare[item])
    held[item] -= have
    spare[item] -= over
    count -= have + over
    recipe = book.get(item)
    if not recipe or not count:
        return Part(item, count, have, over, recipe, 0, ())
    times = -(-count // recipe.count)
    parts = tuple(plan_part(book, need, times * number, held, spare) for need, number in recipe.needs)
    spare[item] += times * recipe.count - count
    return Part(item, count, have, over, recipe, times, parts)


def list_commands(part: Part) -> list[str]:
    """List the plan need by need: what the first ingredient takes, then the second, at last the recipe itself."""
    if not part.count:
        return []
    if not part.recipe:
        return [f"get {part.count} {part.item}"]
    return [*(command for inner in part.parts for command in list_commands(inner)), *[part.recipe.command] * part.times]


def describe_rest(goal: Part, done: int) -> str:
    """Say what is left of a plan after `done` commands.

    A first part that is to be crafted is named alone, and replaced by what it takes. So each thought copies the list of
    the one before without its first element.
    """
    left: list[Part | Recipe] = [goal]
    for _ in range(done):
        left = _replace_first(left)[1:]
    sentences: list[str] = []
    while isinstance(part := left[0], Part) and part.recipe:
        named = "" if part is goal else f"{_name_list([part])}: "
        sentences.append(f"{named}{_describe_use(part, part.recipe)}.")
        left = _ingredients(part, part.recipe) + left[1:]
    return " ".join([*sentences, f"{_name_list(left)}."])


def _replace_first(left: list[Part | Recipe]) -> list[Part | Recipe]:
    """Replace the first part by what it takes, until it is no part to craft."""
    while isinstance(part := left[0], Part) and part.recipe:
        left = _ingredients(part, part.recipe) + left[1:]
    return left


def _ingredients(part: Part, recipe: Recipe) -> list[Part | Recipe]:
    """Return what a part takes: the parts that are missing, then its recipe as often as it is used."""
    return [*(inner for inner in part.parts if inner.count), *[recipe] * part.times]


def _name_list(left: list[Part | Recipe]) -> str:
    return f"Left: {', '.join(map(_name, left))}"


def _name(part: Part | Recipe) -> str:
    if isinstance(part, Recipe):
        return part.item
    return f"{part.count} {part.item}" + " to craft" * (part.recipe is not None)


def _describe_use(part: Part, recipe: Recipe) -> str:
    """Quote a recipe, say how often it is used if more than one thing is missing, and which ingredients are raw."""
    times = part.times
    clauses = [f"{recipe.item} makes {recipe.count}: {', '.join(f'{count} {need}' for need, count in recipe.needs)}"]
    if part.count > 1:
        products = ", ".join(f"{times} x {count} = {times * count} {need}" for need, count in recipe.needs)
        often = f"{times} times, {products}" if times > 1 else "once"
        clauses.append(f"{part.count} {part.item} by {recipe.count}: {often}")
    clauses += [f"{inner.item} {'to craft' if inner.recipe else 'raw'}" for inner in part.parts]
    clauses += [f"{inner.held} {inner.item} in the inventory" for inner in part.parts if inner.held]
    clauses += [f"{inner.spare} {inner.item} left over" for inner in part.parts if inner.spare]
    return "; ".join(clauses)
