"""AgentTextCraft-v0: get raw things and craft a goal from them by recipes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from agentgym_envs.textcraft.parts import Part, describe_rest, list_commands, plan_part
from agentgym_envs.textcraft.recipes import Book, Folder, Recipe, closure, depth, read_folder, shortest_plan
from agentgym_envs.textcraft.trees import DEPTHS, draw_recipes
from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task, function_tool, text_parameter
from agentgym_py.env.generated import Draft
from agentgym_py.env.types import TINY_WORLDS_DEFAULTS
from agentgym_py.env.wording import expand
from agentgym_py.errors import CatalogueError, SnapshotError
from agentgym_py.rng import Rng, seed_of

_GET = re.compile(r"get\s+([0-9]{1,4})\s+(.+)")
_CRAFT = re.compile(r"craft\s+([0-9]{1,4})\s+(.+?)\s+using\s+(.+)")
_NEED = re.compile(r"([0-9]{1,4})\s+(.+)")
_AND = re.compile(r",(?: and )?| and (?=[0-9])")
"""What may stand between two ingredients."""
_SEVERAL = re.compile(r",| and [0-9]")
_MAX_GET = 999
_LISTED_COUNTS = 9
_MAX_HELD = 10**6
_MAX_PLAN = {"easy": 6, "medium": 14, "hard": 24}
_MAX_COMMAND_LENGTH = 1_000
_SPLIT_OF = ("train",) * 7 + ("valid",) + ("test",) * 2
_FOLDER_DISTRACTORS = 6
REQUESTS = {
    "train": (
        "[Craft|Make|Build|Assemble|Fashion|Put together|Forge|Prepare|Construct|Create|Manufacture|Form|Shape|Work "
        "up|Fabricate|Knock together] 1 {thing}[ now| please| for me| for us|].",
        "1 {thing} is [wanted|needed|asked for|to be made|what we need|missing|required|on order|due|called for].",
        "[You need|We need|I need|Somebody needs|You want|I want|A friend needs|The village needs|My neighbour "
        "wants|We could use|They ask for|A customer wants] 1 {thing}.",
        "[Bring|Give|Hand|Get|Fetch|Make|Build] [me|us] 1 {thing}[ that you made| of your own making| made by "
        "yourself|].",
        "[Stop|You may stop|You have finished|The work is over|The job is done] [when|as soon as|once] [you hold|"
        "you own|there is|you have] 1 {thing}.",
        "[In the end|At last|Finally] [you hold|you own|there must be|you should have|you must have] 1 {thing}.",
        "[Your task|Your order|The order|The job|The target|Your goal|Your aim|Today's work|The mission|The plan|"
        "The assignment] is 1 {thing}.",
        "[How about|What about|Could you make|Can you build|Would you craft|Will you make|Can we have|May I have] 1 "
        "{thing}?",
        "Nothing but 1 {thing}[ is wanted| counts| will do|].",
        "1 {thing}[, please|, no more|, nothing else|, that is all|].",
        "[I would like|I'd like|We would like|I wish for|I am after|We are short of|I lack|I dream of] 1 {thing}.",
        "[See to it|Make sure|Take care] that [you have|you hold|there is|we get] 1 {thing}.",
        "[Use|Take|Combine] what [you find|is there|the recipes offer|you can get] and [make|craft|build|end up "
        "with] 1 {thing}.",
        "[With|By] the recipes [above|given|shown|you know], [make|craft|build|get to] 1 {thing}.",
        "[My aunt|The smith|The boss|A traveller|The king|Our teacher] [asks for|wants|needs|has ordered|is waiting "
        "for|would like] 1 {thing}.",
        "[Work towards|Aim at|Go for|Try for|Head for] 1 {thing}.",
        "[Turn|Change] [raw things|what you gather|the materials] into 1 {thing}.",
        "Let there be 1 {thing}.",
        "[The shelf|The workshop|The house|The shop] [lacks|needs|is short of] 1 {thing}.",
        "[You are to|You have to|You must|You should|It is your job to|Please|Try to] [make|craft|build|put "
        "together|create] 1 {thing}.",
        "A [recipe|plan|way] for 1 {thing} exists: [follow it|use it|carry it out].",
        "What we [need|want|are missing|ask for] is 1 {thing}.",
        "To [make|craft|build] 1 {thing} is [the task|your task|the job|what counts].",
    ),
    "valid": ("Produce 1 {thing}.",),
    "test": ("You are done when you have crafted 1 {thing}.",),
}


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A thing to craft, and the recipes."""

    target: str
    book: Book
    """The recipes, in the order in which they are listed."""
    raw: tuple[str, ...]
    """Things without a recipe, which `get` takes."""
    actions: tuple[str, ...]


class TextCraftEnv(GeneratedEnv[Puzzle]):
    """AgentTextCraft-v0: craft a thing by recipes.

    After TextCraft (Prasad et al., ADaPT, 2023).

    Task: craft one of a thing, such as a lantern. Its recipes form a tree, 1 or 2 deep (easy), 3 or 4 (medium), 5 or 6
    (hard), among five to ten recipes that do not help. Things and wordings are divided among the splits. The train
    split has hundreds of both, and two of five things have made-up names; valid and test have one wording each. With
    `recipes=DIR` the recipes come from a folder of Minecraft's recipe files (a data pack's `recipes`); the things to
    craft are then divided by their names, and none needs more steps than the limit. A tag in a recipe means its first
    thing, by `tags/item` or `tags/items` in the folder or beside it. A tag without a file is a raw thing of its own:
    `env.folder.unread_tags` lists those, and `env.folder.skipped` counts recipes of other kinds than crafting.

    Actions: `get 2 clay` takes any number of a raw thing (one without a recipe); `craft 4 bolt using 1 iron, 2 coal`
    uses a recipe once, with its ingredients in any order; `inventory` lists what the agent holds. Ingredients may also
    have "and" between them. As tools: `get(count, item)`, `craft(recipe)`, `inventory()`.

    Observation: first the recipes and the goal; then one line with the result of the action.

    Reward: 1 for the goal, else 0; `success` likewise.

    End: crafting the goal terminates; `max_steps` (10, 30, 50) truncates. No action can make a task unsolvable.

    The expert's plan is a shortest one: every thing has one recipe, so the number of uses follows from what is missing.
    The fair expert crafts need by need, and takes a raw thing once for each recipe that uses it.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        recipes: Folder of Minecraft's recipe files, or None for invented recipes.
        max_steps: Step limit; by default as above.
        split: Where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    Registered ids: AgentTextCraft-v0.
    """

    name: ClassVar[str] = "textcraft"
    reading_actions: ClassVar[tuple[str, ...]] = ("inventory",)
    max_return: ClassVar[float | None] = 1.0
    version: ClassVar[int] = 4
    held_out_version: ClassVar[int | None] = 1
    evolve_defaults: ClassVar[Mapping[str, Any]] = {**TINY_WORLDS_DEFAULTS, "max_new_tokens": 192}
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
        self._targets = self._targets_by_split(self.folder) if self.folder else {}
        self._inventory: dict[str, int] = {}
        self._done = False

    @property
    def files_digest(self) -> str | None:
        """Return the version of a folder of recipes."""
        return self.folder.version if self.folder else None

    def _targets_by_split(self, folder: Folder) -> dict[str, list[str]]:
        """The folder's things of this difficulty, sorted."""
        low, high = DEPTHS[self.difficulty]
        targets: dict[str, list[str]] = {split: [] for split in _SPLIT_OF}
        for item in sorted(item for item, levels in folder.depths.items() if low <= levels <= high):
            if len(shortest_plan(folder.book, item, {})) <= self.limits[self.difficulty]:
                targets[_SPLIT_OF[seed_of("textcraft", item) % len(_SPLIT_OF)]].append(item)
        return targets

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[Puzzle]:
        """Draw recipes and a thing to craft."""
        while True:
            if self.folder:
                target, recipes = self._draw_from_folder(self.folder, rng, split)
            else:
                target, recipes = draw_recipes(rng, split, self.difficulty)
            book = {recipe.item: recipe for recipe in recipes}
            plan = shortest_plan(book, target, {})
            if self.folder or len(plan) <= _MAX_PLAN[self.difficulty]:
                break
        raw = sorted({need for recipe in recipes for need, _ in recipe.needs if need not in book})
        actions = ["inventory", *(f"get {count} {item}" for item in raw for count in range(1, _LISTED_COUNTS + 1))]
        actions += [recipe.command for recipe in recipes]
        puzzle = Puzzle(target, book, tuple(raw), tuple(actions))
        request = expand(rng, rng.choice(REQUESTS[split])).format(thing=target)
        return Draft(request, puzzle, f"depth {depth(book, target)}", len(plan))

    def _draw_from_folder(self, folder: Folder, rng: Rng, split: str) -> tuple[str, list[Recipe]]:
        if not self._targets[split]:
            low, high = DEPTHS[self.difficulty]
            raise CatalogueError(f"{folder.path}: nothing of split {split} is {low} to {high} recipes deep")
        book, target = folder.book, rng.choice(self._targets[split])
        items = closure(book, target)
        needed = [item for item in items if item in book]
        # Distractors use the same things, and do not make a raw thing of this task.
        others = [item for item in sorted(book) if item not in items]
        others = [item for item in others if all(need in items for need, _ in book[item].needs)]
        chosen = [*needed, *rng.sample(others, min(_FOLDER_DISTRACTORS, len(others)))]
        return target, [book[item] for item in rng.sample(chosen, len(chosen))]

    def begin(self, task: Task) -> str:
        """Return the recipes and the goal."""
        self._inventory, self._done = {}, False
        recipes = "\n".join(recipe.command for recipe in self.puzzle_of(task).book.values())
        return f"Crafting commands:\n{recipes}\nGoal: {task.instruction}"

    # ---- the episode ------------------------------------------------------------------------------------------------

    def act(self, reply: Reply) -> Outcome:
        """Do `get`, `craft` or `inventory`."""
        command = _command(reply)
        command = " ".join(command.split()).lower().rstrip(" .") if len(command) <= _MAX_COMMAND_LENGTH else ""
        verb, _, rest = command.partition(" ")
        command = rest if rest.startswith(f"{verb} ") else command  # a tool call whose argument has the verb, too
        if command == "inventory":
            things = " ".join(f"[{item}] ({count})" for item, count in sorted(self._inventory.items()))
            return Outcome(f"Inventory: {things or 'nothing'}")
        if match := _GET.fullmatch(command):
            return self._get(int(match[1]), match[2])
        if match := _CRAFT.fullmatch(command):
            return self._craft(int(match[1]), match[2], match[3])
        return self.invalid("Not an action. Write get N thing, craft N thing using N thing, ... or inventory.")

    def _get(self, count: int, item: str) -> Outcome:
        if item in self.puzzle.book:
            return self.invalid(f"{item} is not found ready, it has to be crafted.")
        if item not in self.puzzle.raw:
            several = _SEVERAL.search(item)
            return self.invalid("Get one thing at a time: get N thing." if several else f"Could not find {item}.")
        if not 1 <= count <= _MAX_GET or self._inventory.get(item, 0) + count > _MAX_HELD:
            return self.invalid(f"Get 1 to {_MAX_GET} at once, and hold no more than {_MAX_HELD}.")
        self._inventory[item] = self._inventory.get(item, 0) + count
        return Outcome(f"Got {count} {item}.")

    def _craft(self, count: int, item: str, using: str) -> Outcome:
        recipe = self.puzzle.book.get(item)
        if recipe is None:
            return self.invalid(f"There is no recipe for {item}.")
        readings = (_needs(using.split(",")), _needs(_AND.split(using)))  # a name may contain "and"
        if count != recipe.count or sorted(recipe.needs) not in readings:
            return self.invalid(f"That is not the recipe for {item}.")
        missing = [f"{number} {need}" for need, number in recipe.needs if self._inventory.get(need, 0) < number]
        if missing:
            return self.invalid(f"Not enough to craft {item}: it takes {', '.join(missing)}.")
        for need, number in recipe.needs:
            self._inventory[need] -= number
            if not self._inventory[need]:
                del self._inventory[need]
        self._inventory[item] = self._inventory.get(item, 0) + count
        self._done = item == self.puzzle.target
        return Outcome(f"Crafted {count} {item}.", float(self._done), terminated=self._done, success=self._done)

    def actions(self) -> list[str]:
        """List every recipe, usable now or not, and getting up to nine of each raw thing."""
        return [] if self._done else list(self.puzzle.actions)

    def tools(self) -> list[dict[str, Any]]:
        """Return `get(count, item)`, `craft(recipe)`, `inventory()`."""
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

    def call_forms(self) -> Mapping[str, str]:
        """See `TextEnv.call_forms`."""
        return {"get": "get {count} {item}", "craft": "craft {recipe}", "inventory": "inventory"}

    # ---- forks and the expert ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the inventory and the version of the recipes."""
        return {"recipes": self._recipes_version, "held": dict(self._inventory), "done": self._done}

    @property
    def _recipes_version(self) -> str:
        return self.folder.version if self.folder else "own"

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Continue an episode."""
        if state["recipes"] != self._recipes_version:
            raise SnapshotError(f"A snapshot of recipes {state['recipes']!r}, not {self._recipes_version!r}")
        puzzle, inventory, done = self.puzzle_of(task), state["held"], state["done"]
        if type(inventory) is not dict or not {*puzzle.book, *puzzle.raw}.issuperset(inventory):
            raise ValueError("held things that are not in this task")
        if any(type(count) is not int or not 1 <= count <= 2 * _MAX_HELD for count in inventory.values()):
            raise ValueError("impossible counts of held things")
        if done is not (puzzle.target in inventory):
            raise ValueError(f"done={done!r} does not fit what is held")
        self._inventory, self._done = dict(inventory), done

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Return whether the goal is crafted."""
        return state["done"] is True

    def secrets(self) -> list[str]:
        """Return nothing: the first observation shows everything."""
        return []

    def expert(self) -> list[str]:
        """Return a shortest plan."""
        return [] if self._done else shortest_plan(self.puzzle.book, self.puzzle.target, self._inventory)

    def fair_expert(self) -> str | None:
        """Return the next action of a plan need by need, or of a shortest one if that has more steps than are left.

        Need by need, a raw thing is taken once for each recipe that uses it, so nothing has to be added up.
        """
        plan = self._plan()
        return list_commands(plan[0])[plan[1]] if plan else next(iter(self.expert()), None)

    def expert_thought(self, action: str) -> str:
        """Return what is left, and what its first part takes; nothing before another action than the fair expert's."""
        plan = self._plan()
        return describe_rest(*plan) if plan and list_commands(plan[0])[plan[1]] == action else ""

    def _plan(self) -> tuple[Part, int] | None:
        """The plan need by need, and how many of its commands are done.

        It begins again where the plan from the start does not lead to the inventory. None if the goal is crafted, or if
        there are too few steps left.
        """
        if self._done:
            return None
        book, target = self.puzzle.book, self.puzzle.target
        whole, rest = (plan_part(book, target, 1, Counter(held)) for held in ({}, self._inventory))
        commands, left = list_commands(whole), list_commands(rest)
        if len(left) > self.max_steps - self.steps:
            return None
        done = max(0, len(commands) - len(left))
        return (whole, done) if commands[done:] == left else (rest, 0)


def _needs(parts: list[str]) -> list[tuple[str, int]] | None:
    """The ingredients and their counts, sorted; None if a part is no ingredient."""
    needs = [_NEED.fullmatch(part.strip()) for part in parts]
    return sorted((need[2], int(need[1])) for need in needs if need) if all(needs) else None


def _command(reply: Reply) -> str:
    """The action as one line of text, also of a tool call."""
    if reply.arguments is None:
        return reply.action if reply.action_input is None else f"{reply.action} {reply.action_input}"
    arguments = sorted(reply.arguments.items(), key=lambda item: item[0] != "count")  # JSON objects have no order
    values = (int(value) if isinstance(value, float) and value.is_integer() else value for _, value in arguments)
    return " ".join([reply.action, *map(str, values)])
