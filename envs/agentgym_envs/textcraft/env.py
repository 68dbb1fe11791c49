"""AgentTextCraft-v0: get what is found ready, craft the rest by the recipes, make the thing that is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from agentgym_envs.textcraft.recipes import Book, Folder, Recipe, closure, depth, read_folder, shortest
from agentgym_envs.textcraft.trees import DEPTHS, grow
from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task, function_tool, text_parameter
from agentgym_py.env.generated import Draft
from agentgym_py.errors import CatalogueError, SnapshotError
from agentgym_py.rng import Rng, seed_of

_GET = re.compile(r"get\s+([0-9]{1,4})\s+(.+)")
_CRAFT = re.compile(r"craft\s+([0-9]{1,4})\s+(.+?)\s+using\s+(.+)")
_NEED = re.compile(r"([0-9]{1,4})\s+(.+)")
_MOST_AT_ONCE = 999
_LISTED_GETS = 9
_MOST_HELD = 10**6
_LONGEST = {"easy": 6, "medium": 14, "hard": 24}
_LONGEST_COMMAND = 1_000
_SPLIT_OF = ("train",) * 7 + ("valid",) + ("test",) * 2
_FOLDER_DISTRACTORS = 6
_WAYS = {
    "train": ("Craft 1 {thing}.", "Make 1 {thing}.", "1 {thing} is wanted."),
    "valid": ("Produce 1 {thing}.",),
    "test": ("You are done when you have crafted 1 {thing}.",),
}


@dataclass(frozen=True, slots=True)
class Puzzle:
    """What is to be made, and of what."""

    target: str
    book: Book
    """The recipes that are shown, in the order in which they are."""
    ready: tuple[str, ...]
    """What can be got."""
    actions: tuple[str, ...]


class TextCraftEnv(GeneratedEnv[Puzzle]):
    """AgentTextCraft-v0: craft a thing by recipes.

    After TextCraft (Prasad et al., ADaPT, 2023).

    Task: craft one of a thing, such as a lantern. Recipes are a tree below it, 1 or 2 deep (easy), 3 or 4 (medium), 5
    or 6 (hard), among five to eight that do not help. Things and ways to ask are divided among the splits, so that none
    stands in two. With `recipes=DIR` the recipes are those of a folder of Minecraft's recipe files (a data pack's
    `recipes`); things to craft are then divided by their names, and none takes more steps than there are. A tag in them
    is its first thing, by `tags/item` or `tags/items` in the folder or beside it; where these are not there it is a
    thing of its own that is found ready: `env.folder.unread_tags` lists those, and `env.folder.passed_over` counts the
    recipes of other kinds than crafting.

    Actions: `get 2 clay` takes what has no recipe, as much as wanted; `craft 4 bolt using 1 iron, 2 coal` uses
    a recipe once, exactly as it is written, in any order; `inventory` shows what one holds. As tools:
    `get(count, item)`, `craft(recipe)`, `inventory()`.

    Observation: at first the recipes and the goal; then what was got, crafted or is wrong, in a line.

    Reward: 1 for the thing that is asked for, else 0; `success` with it.

    End: when the thing is crafted; `max_steps` (10, 30, 50) truncates. Nothing done can spoil a task.

    The expert's plan is a shortest one: every thing has one recipe, so that how often each is used follows from what is
    missing. All of it is shown, so the fair expert is the same.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        recipes: a folder of Minecraft's recipe files, or None for invented recipes.
        max_steps: when an episode is cut; by default as above.
        split: where tasks come from if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentTextCraft-v0.
    """

    name: ClassVar[str] = "textcraft"
    max_return: ClassVar[float | None] = 1.0
    version: ClassVar[int] = 1
    limits: ClassVar[Mapping[str, int]] = {"easy": 10, "medium": 30, "hard": 50}
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "Craft the goal. Each turn you do one action:\n"
            "get N thing takes N of a thing that no recipe makes: get 2 clay. Take all that you need at once.\n"
            "craft ... uses a recipe once, written as it is shown: craft 4 bolt using 1 iron, 2 coal. You must hold "
            "the ingredients; craft again if you need more than it gives.\n"
            "inventory shows what you hold.\n"
            "Answer in this form:\nThought: why\nAction: get N thing or craft N thing using ..."
        ),
        "brief": "Craft the goal: get N thing for what no recipe makes, else write a recipe as it is shown.",
        "none": "",
    }

    def __init__(
        self,
        *,
        recipes: str | Path | None = None,
        difficulty: str = "medium",
        max_steps: int | None = None,
        split: str = "train",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(difficulty=difficulty, max_steps=max_steps, split=split, render_mode=render_mode)
        self.folder: Folder | None = None if recipes is None else read_folder(str(recipes))
        self._targets = {split: self._of_folder(split) for split in set(_SPLIT_OF)} if self.folder else {}
        self._held: dict[str, int] = {}
        self._done = False

    def _of_folder(self, split: str) -> list[str]:
        """The folder's things of this difficulty in a split, sorted."""
        depths = self.folder.depths if self.folder else {}
        low, high = DEPTHS[self.difficulty]
        here = (item for item in depths if _SPLIT_OF[seed_of("textcraft", item) % len(_SPLIT_OF)] == split)
        fit = (item for item in here if low <= depths[item] <= high)
        return sorted(item for item in fit if len(self._way(item)) <= self.limits[self.difficulty])

    def _way(self, item: str) -> list[str]:
        return shortest(self.folder.book, item, {}) if self.folder else []

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[Puzzle]:
        """Recipes and a thing to craft."""
        while True:
            target, recipes = self._from_folder(rng, split) if self.folder else grow(rng, split, self.difficulty)
            book = {recipe.item: recipe for recipe in recipes}
            plan = shortest(book, target, {})
            if self.folder or len(plan) <= _LONGEST[self.difficulty]:
                break
        ready = sorted({need for recipe in recipes for need, _ in recipe.needs if need not in book})
        listed = ["inventory", *(f"get {count} {item}" for item in ready for count in range(1, _LISTED_GETS + 1))]
        listed += [recipe.command for recipe in recipes]
        puzzle = Puzzle(target, book, tuple(ready), tuple(listed))
        words = rng.choice(_WAYS[split]).format(thing=target)
        return Draft(words, puzzle, f"depth {depth(book, target)}", len(plan))

    def _from_folder(self, rng: Rng, split: str) -> tuple[str, list[Recipe]]:
        assert self.folder is not None
        if not self._targets[split]:
            low, high = DEPTHS[self.difficulty]
            raise CatalogueError(f"{self.folder.path}: nothing of split {split} is {low} to {high} recipes deep")
        book, target = self.folder.book, rng.choice(self._targets[split])
        needed = [item for item in closure(book, target) if item in book]
        free = set(closure(book, target)) - set(needed)
        # Others that use the same things, and make nothing that this task takes to be found ready.
        near = [item for item in sorted(book) if item not in needed and item not in free]
        near = [item for item in near if all(need in free or need in needed for need, _ in book[item].needs)]
        shown = [*needed, *rng.sample(near, min(_FOLDER_DISTRACTORS, len(near)))]
        return target, [book[item] for item in rng.sample(shown, len(shown))]

    def begin(self, task: Task) -> str:
        """The recipes and the goal."""
        self._held, self._done = {}, False
        recipes = "\n".join(recipe.command for recipe in self.puzzle_of(task).book.values())
        return f"Crafting commands:\n{recipes}\nGoal: {task.instruction}"

    # ---- the episode ------------------------------------------------------------------------------------------------

    def act(self, reply: Reply) -> Outcome:
        """Get, craft or look."""
        command = _command(reply)
        said = " ".join(command.split()).lower() if len(command) <= _LONGEST_COMMAND else ""
        if said == "inventory":
            return Outcome(self._inventory())
        if found := _GET.fullmatch(said):
            return self._get(int(found[1]), found[2])
        if found := _CRAFT.fullmatch(said):
            return self._craft(int(found[1]), found[2], found[3])
        return _refused("Not an action. Write get N thing, craft N thing using N thing, ... or inventory.")

    def _inventory(self) -> str:
        held = " ".join(f"[{item}] ({count})" for item, count in sorted(self._held.items()))
        return f"Inventory: {held or 'nothing'}"

    def _get(self, count: int, item: str) -> Outcome:
        if item in self.puzzle.book:
            return _refused(f"{item} is not found ready, it has to be crafted.")
        if item not in self.puzzle.ready:
            return _refused(f"Could not find {item}.")
        if not 1 <= count <= _MOST_AT_ONCE or self._held.get(item, 0) + count > _MOST_HELD:
            return _refused(f"Get 1 to {_MOST_AT_ONCE} at once, and hold no more than {_MOST_HELD}.")
        self._held[item] = self._held.get(item, 0) + count
        return Outcome(f"Got {count} {item}.")

    def _craft(self, count: int, item: str, using: str) -> Outcome:
        recipe = self.puzzle.book.get(item)
        parts = [_NEED.fullmatch(part.strip()) for part in using.rstrip(".").split(",")]
        if recipe is None:
            return _refused(f"There is no recipe for {item}.")
        given = sorted((part[2], int(part[1])) for part in parts if part)
        if len(given) < len(parts) or (count, given) != (recipe.count, sorted(recipe.needs)):
            return _refused(f"That is not the recipe for {item}.")
        short = [f"{need} {what}" for what, need in recipe.needs if self._held.get(what, 0) < need]
        if short:
            return _refused(f"Not enough to craft {item}: it takes {', '.join(short)}.")
        for what, need in recipe.needs:
            self._held[what] -= need
            if not self._held[what]:
                del self._held[what]
        self._held[item] = self._held.get(item, 0) + count
        self._done = item == self.puzzle.target
        return Outcome(f"Crafted {count} {item}.", float(self._done), terminated=self._done, success=self._done)

    def actions(self) -> list[str]:
        """Every recipe, whether it can be used now or not, and up to nine of each thing that is found ready."""
        return [] if self._done else list(self.puzzle.actions)

    def tools(self) -> list[dict[str, Any]]:
        """`get(count, item)`, `craft(recipe)`, `inventory()`."""
        count = {"type": "integer", "description": "How many."}
        return [
            function_tool(
                "get", "Take a thing that no recipe makes.", {"count": count, "item": text_parameter("The thing.")}
            ),
            function_tool(
                "craft",
                "Use a recipe once.",
                {"recipe": text_parameter("What follows `craft`: 4 bolt using 1 iron, 2 coal")},
            ),
            function_tool("inventory", "See what you hold.", {}),
        ]

    # ---- forks and the expert ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What is held, and by which recipes."""
        return {"recipes": self.folder.version if self.folder else "own", "held": dict(self._held), "done": self._done}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Go on with an episode."""
        made_by = self.folder.version if self.folder else "own"
        if state["recipes"] != made_by:
            raise SnapshotError(f"A snapshot of recipes {state['recipes']!r}, wanted {made_by!r}")
        puzzle, held, done = self.puzzle_of(task), state["held"], state["done"]
        if type(held) is not dict or any(each not in puzzle.book and each not in puzzle.ready for each in held):
            raise ValueError("things that are not of this task")
        if any(type(count) is not int or not 1 <= count <= 2 * _MOST_HELD for count in held.values()):
            raise ValueError("counts that cannot be")
        if done is not (puzzle.target in held):
            raise ValueError(f"done={done!r} does not fit what is held")
        self._held, self._done = dict(held), done

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Whether the thing is crafted."""
        return state["done"] is True

    def secrets(self) -> list[str]:
        """None: whatever is to be known is shown at first."""
        return []

    def expert(self) -> list[str]:
        """A shortest plan from here."""
        return [] if self._done else shortest(self.puzzle.book, self.puzzle.target, self._held)


def _command(reply: Reply) -> str:
    """The action as a line of text, also from a tool call."""
    if reply.arguments is None:
        return reply.action if reply.action_input is None else f"{reply.action} {reply.action_input}"
    given = sorted(reply.arguments.items(), key=lambda each: each[0] != "count")  # an object of JSON has no order
    whole = (int(value) if isinstance(value, float) and value.is_integer() else value for _, value in given)
    return " ".join([reply.action, *map(str, whole)])


def _refused(why: str) -> Outcome:
    return Outcome(why, valid=False)
