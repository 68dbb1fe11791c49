"""AgentTextCraft: shortest plans against a blind search, what can be said, and Minecraft's recipe files."""

from __future__ import annotations

import json
from collections import Counter, deque
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentgym_envs.textcraft import trees
from agentgym_envs.textcraft.env import REQUESTS, Puzzle, TextCraftEnv
from agentgym_envs.textcraft.parts import list_commands, plan_part
from agentgym_envs.textcraft.recipes import Book, Recipe, closure, depth, read_folder, shortest_plan, without_circles
from agentgym_py.env import SPLITS
from agentgym_py.errors import CatalogueError, ConfigError, SnapshotError
from agentgym_py.rng import Rng

LEVELS = ("easy", "medium", "hard")
Held = tuple[tuple[str, int], ...]


def searched(book: Book, target: str, have: dict[str, int], most: int) -> int:
    """Commands of a shortest plan, found by trying everything: gets up to `most`, each recipe that can be used."""
    ready = sorted({need for recipe in book.values() for need, _ in recipe.needs if need not in book})
    start: Held = tuple(sorted(have.items()))
    queue, seen = deque([(start, 0)]), {start}
    while queue:
        held, steps = queue.popleft()
        if target in dict(held):
            return steps
        for after in _after(dict(held), book, ready, most):
            state = tuple(sorted(after.items()))
            if state not in seen:
                seen.add(state)
                queue.append((state, steps + 1))
    raise AssertionError("no plan")


def _after(held: dict[str, int], book: Book, ready: list[str], most: int) -> list[dict[str, int]]:
    gets = [held | {item: count} for item in ready for count in range(held.get(item, 0) + 1, most + 1)]
    crafts = []
    for recipe in book.values():
        if all(held.get(item, 0) >= count for item, count in recipe.needs):
            left = held | {item: held[item] - count for item, count in recipe.needs}
            left[recipe.item] = left.get(recipe.item, 0) + recipe.count
            if left[recipe.item] <= 2 * most:
                crafts.append({item: count for item, count in left.items() if count})
    return gets + crafts


def small_book(rng: Rng) -> Book:
    """Two or three recipes over two raw things."""
    book: dict[str, Recipe] = {}
    below = ["r0", "r1"]
    for number in range(2 + rng.below(2)):
        needs = {rng.choice(below[-2:]): 1 + rng.below(2)}
        needs.setdefault(rng.choice(below), 1)
        book[f"m{number}"] = Recipe(f"m{number}", 1 + rng.below(2), tuple(needs.items()))
        below.append(f"m{number}")
    return book


def test_plans_are_as_short_as_a_blind_search_finds() -> None:
    """From nothing and from whatever may be held."""
    compared = 0
    for seed in range(80):
        rng = Rng("books", seed)
        book = small_book(rng)
        target = f"m{len(book) - 1}"
        things = [item for item in closure(book, target) if item != target]
        have = {item: 1 + rng.below(2) for item in things if rng.below(3) == 0}
        plan = shortest_plan(book, target, have)
        most = max([int(each.split()[1]) + have.get(each.split()[2], 0) for each in plan if each[0] == "g"], default=0)
        if most <= 4 and len(plan) <= 7:
            assert len(plan) == searched(book, target, have, 4), (book, have, plan)
            compared += 1
    assert compared >= 50


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_expert_succeeds_from_everywhere(difficulty: str) -> None:
    """From the start in as many steps as the task says, and after nonsense."""
    env = TextCraftEnv(difficulty=difficulty, max_steps=200)
    low, high = trees.DEPTHS[difficulty]
    for number in range(150):
        env.reset(options={"task": number, "split": SPLITS[number % 3]})
        assert env.current_task and low <= depth(env.puzzle.book, env.puzzle.target) <= high
        assert env.current_task.optimal_steps == len(env.expert()) <= TextCraftEnv.limits[difficulty] // 1.5
        rng = Rng("nonsense", number)
        for _ in range(rng.below(40)):
            if not env.stop_reason:
                env.step(rng.choice(env.actions()))
        for action in env.expert():
            assert env.step(action)[4]["valid_action"]
        assert env.succeeded


def test_chance_does_not_craft() -> None:
    """In easy at most one task of twenty, in the others none."""
    for difficulty, most in (("easy", 10), ("medium", 0), ("hard", 0)):
        env = TextCraftEnv(difficulty=difficulty)
        rng, crafted = Rng("chance", difficulty), 0
        for number in range(200 if difficulty == "easy" else 60):
            env.reset(options={"task": number})
            while not env.stop_reason:
                env.step(rng.choice(env.actions()))
            crafted += env.succeeded
        assert crafted <= most, difficulty


@pytest.fixture
def env() -> TextCraftEnv:
    """One whose recipes are known here."""
    made = TextCraftEnv(difficulty="easy", max_steps=20)
    made.reset(options={"task": 3})
    return made


def test_the_episode_opens_with_the_recipes_and_the_goal(env: TextCraftEnv) -> None:
    """The recipes in lines, each as it is to be written."""
    first, _ = env.reset(options={"task": 3})
    lines = first.split("\n")
    assert lines[0] == "Crafting commands:" and lines[-1].startswith("Goal: ")
    assert f"1 {env.puzzle.target}" in lines[-1]
    assert lines[1:-1] == [recipe.command for recipe in env.puzzle.book.values()]


def test_what_is_wrong_is_said(env: TextCraftEnv) -> None:
    """Each mistake has its own answer, which names what is missing, and nothing is taken."""
    recipe = next(each for each in env.puzzle.book.values() if len(each.needs) > 1)
    for action, message in {
        f"get 1 {recipe.item}": f"{recipe.item} is not found ready, it has to be crafted.",
        "get 1 unicorn": "Could not find unicorn.",
        "get 2 unicorn.": "Could not find unicorn.",
        f"get 2 {env.puzzle.raw[0]}, 3 {env.puzzle.raw[1]}": "Get one thing at a time: get N thing.",
        f"get 2 {env.puzzle.raw[0]} and 3 {env.puzzle.raw[1]}": "Get one thing at a time: get N thing.",
        "get 1 flint and steel": "Could not find flint and steel.",
        f"get 0 {env.puzzle.raw[0]}": "Get 1 to 999",
        f"get 1000 {env.puzzle.raw[0]}": "Get 1 to 999",
        "craft 1 unicorn using 1 horn": "There is no recipe for unicorn.",
        f"craft 9 {recipe.item} using 1 {recipe.needs[0][0]}": f"That is not the recipe for {recipe.item}.",
        recipe.command: f"Not enough to craft {recipe.item}: it takes",
        "sing": "Not an action.",
        "get " + "9" * 5000 + " clay": "Not an action.",
    }.items():
        observation, _, _, _, info = env.step(action)
        assert observation.startswith(message) and not info["valid_action"], action
        assert ".." not in observation.replace(", ... or", "")
    assert env.step("inventory")[0] == "Inventory: nothing"


def test_a_command_may_be_written_freely(env: TextCraftEnv) -> None:
    """Capitals, spaces, another order, tool calls."""
    item = env.puzzle.raw[0]
    for reply in (
        f"GET  2 {item}",
        f"Get 2 {item} .",
        f"Action: get 2 {item}",
        f"Action: get\nAction Input: get 2 {item}",
        f'{{"name": "get", "arguments": {{"count": 2, "item": "{item}"}}}}',
        f'{{"name": "get", "arguments": {{"item": "{item}", "count": 2}}}}',
    ):
        assert env.step(reply)[0] == f"Got 2 {item}."
    assert env.step('{"name": "inventory", "arguments": {}}')[0] == f"Inventory: [{item}] (12)"
    recipe = next(each for each in env.puzzle.book.values() if all(need in env.puzzle.raw for need, _ in each.needs))
    for need, count in recipe.needs:
        env.step(f"get {count} {need}")
    needs = [f"{count} {need}" for need, count in reversed(recipe.needs)]
    head, before = f"craft {recipe.count} {recipe.item} using", env.snapshot()
    last = f"{', '.join(needs[:-1])}, and {needs[-1]}" if len(needs) > 1 else needs[0]
    for command in (
        f"{head} {', '.join(needs)}",
        f"{head} {' and '.join(needs)}.",
        f"{head} {last}",
        json.dumps({"name": "craft", "arguments": {"recipe": recipe.command}}),
        json.dumps({"name": "craft", "arguments": {"recipe": recipe.command.removeprefix("craft ")}}),
        f"Action: craft\nAction Input: {recipe.command}",
    ):
        env.restore(before)
        assert env.step(command)[0] == f"Crafted {recipe.count} {recipe.item}.", command


def test_names_may_contain_and() -> None:
    """As Minecraft's flint and steel; also with a number behind it."""
    names = ("flint and steel", "a and 4 b", "stick")
    env = TextCraftEnv(difficulty="easy")
    env.reset(options={"task": 0})
    recipe = Recipe("bow and arrow", 1, tuple((name, 1 + number) for number, name in enumerate(names)))
    task = env.current_task
    assert task
    env._drafts[task.id] = (task, Puzzle(recipe.item, {recipe.item: recipe}, names, ()))
    for name, count in recipe.needs:
        assert env.step(f"get {count} {name}")[0] == f"Got {count} {name}."
    before = env.snapshot()
    assert env.step(recipe.command)[4]["success"]
    env.restore(before)
    assert not env.step("craft 1 bow and arrow using 1 flint and steel and 2 a")[4]["valid_action"]
    two = Recipe("bow and arrow", 1, (("flint and steel", 1), ("stick", 3)))
    env._drafts[task.id] = (task, Puzzle(two.item, {two.item: two}, names, ()))
    assert env.step("craft 1 bow and arrow using 1 flint and steel and 3 stick")[4]["success"]


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=50))
def test_any_text_after_a_verb_is_a_step(text: str) -> None:
    """It is refused or done."""
    env = TextCraftEnv(difficulty="easy")
    env.reset(options={"task": 3})
    for verb in ("get 1 ", "craft 1 ", "craft 1 x using 1 y, ", "get "):
        assert isinstance(env.step(verb + text)[0], str)


def test_splits_ask_in_other_words() -> None:
    """No way to ask for a thing stands in two splits."""
    ways = {
        split: {
            task.instruction.replace(env.puzzle_of(task).target, "")
            for env in [TextCraftEnv()]
            for task in (env.task(number, split) for number in range(40))
        }
        for split in SPLITS
    }
    assert len(ways["train"]) > 1
    assert sum(map(len, ways.values())) == len(set.union(*ways.values()))


def test_splits_share_no_thing() -> None:
    """Neither raw nor made, and there are enough for every tree."""
    for words in (trees.RAW, trees.CRAFTED):
        sets = [set(words[split].split()) for split in SPLITS]
        assert not sets[0] & sets[1] and not sets[0] & sets[2] and not sets[1] & sets[2]
    for split in SPLITS:
        assert len(trees.CRAFTED[split].split()) >= 24 and not set(trees.CRAFTED[split].split()) & set(
            trees.RAW[split].split()
        )


# ---- Minecraft's files ----------------------------------------------------------------------------------------------

FILES: dict[str, Any] = {
    "oak_planks": {"type": "minecraft:crafting_shapeless", "ingredients": ["#minecraft:oak_logs"],
                   "result": {"count": 4, "id": "minecraft:oak_planks"}},
    "stick": {"type": "minecraft:crafting_shaped", "pattern": ["#", "#"], "key": {"#": {"item": "oak_planks"}},
              "result": {"item": "minecraft:stick", "count": 4}},
    "wooden_sword": {"type": "crafting_shaped", "pattern": ["X", "X", "I"],
                     "key": {"X": [{"item": "minecraft:oak_planks"}, {"item": "stone"}], "I": "minecraft:stick"},
                     "result": {"item": "minecraft:wooden_sword"}},
    "block": {"type": "minecraft:crafting_shaped", "pattern": ["II", "II"], "key": {"I": {"item": "iron_ingot"}},
              "result": "minecraft:iron_block"},
    "ingot": {"type": "minecraft:crafting_shapeless", "ingredients": [{"item": "minecraft:iron_block"}],
              "result": {"item": "minecraft:iron_ingot", "count": 4}},
    "bars": {"type": "minecraft:crafting_shaped", "pattern": ["I I"], "key": {"I": {"item": "minecraft:iron_ingot"}},
             "result": {"item": "minecraft:iron_bars", "count": 16}},
    "stone": {"type": "minecraft:smelting", "ingredient": {"item": "minecraft:cobblestone"}, "result": "stone"},
}  # fmt: skip


def written(folder: Path, files: dict[str, Any]) -> str:
    """The files in a folder, one in a folder below it."""
    (folder / "wood").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / ("wood" if "oak" in name else ".") / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return str(folder)


def test_minecrafts_recipes_are_read(tmp_path: Path) -> None:
    """Shaped and shapeless ones in the forms of all versions, tags, alternatives; circles end at what is used most."""
    folder = read_folder(written(tmp_path, FILES))
    assert {recipe.command for recipe in folder.book.values()} == {
        "craft 4 oak planks using 1 oak logs",
        "craft 4 stick using 2 oak planks",
        "craft 1 wooden sword using 2 oak planks, 1 stick",
        "craft 1 iron block using 4 iron ingot",
        "craft 16 iron bars using 2 iron ingot",
    }
    assert folder.depths == {"oak planks": 1, "stick": 2, "wooden sword": 3, "iron block": 1, "iron bars": 1}


@pytest.mark.parametrize("place", ["recipes/tags/items", "tags/item"])
def test_a_tag_is_the_first_thing_of_it(tmp_path: Path, place: str) -> None:
    """As the files of tags say, in the folder or beside it, through other tags; without them it is a thing itself."""
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    files = {
        "planks": shapeless(ingredients=[{"tag": "minecraft:logs"}], result="oak_planks"),
        "stick": shapeless(ingredients=["#minecraft:planks"], result="stick"),
        "coal": {"type": "smelting", "result": "coal"},
    }
    path = written(recipes, files)
    before = read_folder(path)
    assert before.unread_tags == ("#minecraft:planks", "minecraft:logs") and before.skipped == 1
    assert before.depths == {"oak planks": 1, "stick": 1}
    read_folder.cache_clear()
    tags = tmp_path / place
    tags.mkdir(parents=True)
    for name, values in {
        "planks": ["#minecraft:some_planks"],
        "some_planks": [
            "#minecraft:planks",
            {"id": "minecraft:oak_planks", "required": False},
            "minecraft:birch_planks",
        ],
    }.items():
        (tags / f"{name}.json").write_text(json.dumps({"values": values}), encoding="utf-8")
    after = read_folder(path)
    assert after.depths == {"oak planks": 1, "stick": 2} and after.unread_tags == ("minecraft:logs",)
    assert after.version != before.version
    read_folder.cache_clear()
    (tags / "odd.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CatalogueError, match=r"odd\.json is not a tag of Minecraft: the file has no 'values'"):
        read_folder(path)


def test_a_folder_that_is_not_there_is_said() -> None:
    """In other words than one without recipes."""
    with pytest.raises(CatalogueError, match="/nope: no such folder"):
        TextCraftEnv(recipes="/nope")


def test_tasks_from_a_folder_are_solved(tmp_path: Path) -> None:
    """In every split that has some; its snapshots are for this folder alone."""
    path = written(tmp_path, FILES)
    episodes = 0
    for split in SPLITS:
        env = TextCraftEnv(recipes=path, difficulty="easy", split=split)
        assert env.files_digest == env.folder.version and TextCraftEnv().files_digest is None  # type: ignore[union-attr]
        try:
            env.reset(options={"task": 0})
        except CatalogueError as error:
            assert f"nothing of split {split}" in str(error)
            continue
        for action in env.expert():
            env.step(action)
        assert env.succeeded
        episodes += 1
    assert episodes
    made = TextCraftEnv(difficulty="easy")
    made.reset(seed=1)
    with pytest.raises((SnapshotError, CatalogueError)):
        TextCraftEnv(recipes=path, difficulty="easy").restore(made.snapshot())


def shapeless(**changed: Any) -> dict[str, Any]:
    """A recipe of `a` from `b`, changed."""
    return {"type": "crafting_shapeless", "ingredients": ["b"], "result": "a"} | changed


def shaped(**changed: Any) -> dict[str, Any]:
    """A recipe of `a` from `b` by a pattern, changed."""
    return {"type": "crafting_shaped", "pattern": ["X"], "key": {"X": "b"}, "result": "a"} | changed


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "line 1 column 2"), ("[]", "the file is not an object"), ("{}", "no 'type'"),
     (shapeless(type=3), "'type' is not a text: 3"),
     ({"type": "crafting_shaped"}, "no 'result'"),
     (shapeless(ingredients=[]), "0 ingredients"),
     (shapeless(ingredients=["b"] * 10), "10 ingredients, a grid has 9"),
     (shapeless(ingredients={"X": "b"}), "'ingredients' is not a list"),
     (shapeless(ingredients=["b", {"thing": "b"}]), r"'ingredients\[1\]' names no thing"),
     (shapeless(ingredients=[[]]), r"'ingredients\[0\]' names no thing"),
     (shapeless(ingredients=["b, c"]), r"'ingredients\[0\]' names no thing"),
     (shapeless(result={"item": "a", "count": 0}), r"'result\.count' is not a number from 1"),
     (shapeless(result={"id": "a", "count": True}), r"'result\.count' is not a number from 1"),
     (shapeless(result={"count": 2}), "'result' names no thing"),
     (shapeless(result=None), "'result' names no thing"),
     (shaped(key={}), "'key' has no 'X'"), (shaped(key=["b"]), "'key' is not an object"),
     (shaped(key={"X": {"item": 5}}), r"'key\.X' names no thing"),
     (shaped(pattern="X"), "'pattern' is not a list of texts"), (shaped(pattern=[" "]), "0 ingredients")],
)  # fmt: skip
def test_a_broken_file_is_named(content: Any, message: str, tmp_path: Path) -> None:
    """With the key that is wrong; as is a folder without recipes."""
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / "odd.json").write_text(text, encoding="utf-8")
    with pytest.raises(CatalogueError, match=rf"odd\.json is not a recipe of Minecraft: .*{message}"):
        TextCraftEnv(recipes=tmp_path)
    (tmp_path / "odd.json").unlink()
    with pytest.raises(CatalogueError, match="no crafting recipes"):
        read_folder(str(tmp_path))


def test_a_folder_by_the_name_of_a_file_is_named(tmp_path: Path) -> None:
    """As a file that cannot be read."""
    (tmp_path / "odd.json").mkdir()
    with pytest.raises(CatalogueError, match=r"odd\.json is not a recipe"):
        read_folder(str(tmp_path))


def test_what_is_copied_from_itself_is_found_ready(tmp_path: Path) -> None:
    """As Minecraft's smithing templates are; other recipes of the folder count."""
    copied = shapeless(ingredients=["template", "diamond"], result={"id": "minecraft:template", "count": 2})
    folder = read_folder(written(tmp_path, {"template": copied, "use": shapeless(ingredients=["template"])}))
    assert [recipe.command for recipe in folder.book.values()] == ["craft 1 a using 1 template"]


NAMES = st.from_regex(r"(minecraft:)?[a-z0-9_.-]{1,8}", fullmatch=True).filter(lambda name: "using" not in name)
GIVEN = st.one_of(
    NAMES,
    NAMES.map("#{}".format),
    *(st.builds(lambda name, key=key: {key: name}, NAMES) for key in ("item", "tag")),
    st.lists(NAMES.map(lambda name: {"item": name}), min_size=1, max_size=3),
)
RESULT = st.one_of(
    NAMES,
    st.fixed_dictionaries({"item": NAMES}, optional={"count": st.integers(1, 64)}),
    st.fixed_dictionaries({"id": NAMES}, optional={"count": st.integers(1, 64)}),
)
RECIPES = st.one_of(
    st.builds(lambda given, made: shapeless(ingredients=given, result=made), st.lists(GIVEN, min_size=1, max_size=9),
              RESULT),
    st.builds(lambda rows, x, y, made: shaped(pattern=["X", *rows], key={"X": x, "Y": y}, result=made),
              st.lists(st.text("XY ", max_size=3), max_size=2), GIVEN, GIVEN, RESULT),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(RECIPES, min_size=1, max_size=6))
def test_whatever_can_be_read_can_be_crafted(recipes: list[dict[str, Any]]) -> None:
    """In every form of names and results: a plan for each thing of the book is done command by command."""
    assume(all(name.strip("_. ") for name in _texts(recipes)))
    with TemporaryDirectory() as folder:
        for number, recipe in enumerate(recipes):
            (Path(folder) / f"{number}.json").write_text(json.dumps(recipe), encoding="utf-8")
        recipe_folder = read_folder(folder)
    env = TextCraftEnv(difficulty="easy", max_steps=10_000)
    for item in recipe_folder.book:
        env.reset(options={"task": 0})
        task = env.current_task
        assert task
        raw = tuple(sorted(set(closure(recipe_folder.book, item)) - set(recipe_folder.book)))
        env._drafts[task.id] = (task, Puzzle(item, recipe_folder.book, raw, ()))
        plan = shortest_plan(recipe_folder.book, item, {})
        if len(plan) < 200 and all(int(each.split()[1]) < 1000 for each in plan):
            assert all(env.step(action)[4]["valid_action"] for action in plan) and env.succeeded


def _texts(value: Any) -> list[str]:
    """The names in recipes, without what stands before them."""
    if isinstance(value, str):
        return [value.lstrip("#").rpartition(":")[2]]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in _texts(each) if text.strip("XY ")]


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
        max_leaves=6,
    ),
    st.sampled_from(["type", "pattern", "key", "ingredients", "result"]),
    st.sampled_from([shaped, shapeless]),
)
def test_any_value_anywhere_is_read_or_refused(value: Any, key: str, recipe: Any) -> None:
    """By the one error that names the file."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "odd.json").write_text(json.dumps(recipe(**{key: value})), encoding="utf-8")
        try:
            assert read_folder(folder).book
        except CatalogueError as error:
            assert folder in str(error)  # either is right


def test_of_several_recipes_the_first_without_a_circle_counts() -> None:
    """Whatever their order otherwise."""
    ways = [Recipe("a", 1, (("b", 1),)), Recipe("a", 2, (("c", 1),)), Recipe("b", 1, (("a", 1),))]
    assert without_circles(ways) == {"a": ways[1], "b": ways[2]}


def test_a_wrong_setting_is_named() -> None:
    """With what was meant."""
    with pytest.raises(ConfigError, match="Did you mean 'recipes'"):
        TextCraftEnv(recipe="x")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="easy"):
        TextCraftEnv(difficulty="esay")


def test_training_texts_are_rich() -> None:
    """Training tasks differ in wordings and names, many of which are made up; none is a held-out one."""
    env = TextCraftEnv(difficulty="easy")
    drafts = [(task.instruction.lower(), env.puzzle_of(task)) for task in (env.task(n, "train") for n in range(200))]
    wordings = {instruction.replace(f"1 {puzzle.target}", "1 THING") for instruction, puzzle in drafts}
    held_out = {text.format(thing="THING").lower() for split in ("valid", "test") for text in REQUESTS[split]}
    assert len(wordings) > 60
    assert not held_out & {wording.lower() for wording in wordings}
    names = {name for _, puzzle in drafts for name in (*puzzle.book, *puzzle.raw)}
    listed = {split: {*trees.RAW[split].split(), *trees.CRAFTED[split].split()} for split in SPLITS}
    assert len(names & listed["train"]) > 200 and len(names - listed["train"]) > 200
    assert not names & (listed["valid"] | listed["test"])


def test_each_thought_continues_the_last_one() -> None:
    """What is left is copied without its first element; a thing to craft is then replaced by what it takes."""
    env, replaced = TextCraftEnv(difficulty="easy"), 0
    for number in range(120):
        env.reset(options={"task": number, "split": SPLITS[number % 3]})
        book, target = env.puzzle.book, env.puzzle.target
        left = [f"1 {target} to craft"]
        while not env.stop_reason:
            action = env.fair_expert()
            assert action and env.expert_thought("inventory") == ""
            expected = ""
            while left[0].endswith(" to craft"):
                expected += f"Left: {left[0]}: " * (left != [f"1 {target} to craft"])
                count, item = left[0].removesuffix(" to craft").split(" ", 1)
                recipe = book[item]
                times = -(-int(count) // recipe.count)
                clauses = [f"{item} makes {recipe.count}: {recipe.command.partition(' using ')[2]}"]
                if times > 1:
                    products = [f"{times} x {number} = {times * number} {need}" for need, number in recipe.needs]
                    clauses.append(f"{count} {item} by {recipe.count}: {times} times, {', '.join(products)}")
                elif int(count) > 1:
                    clauses.append(f"{count} {item} by {recipe.count}: once")
                clauses += [f"{need} {'to craft' if need in book else 'raw'}" for need, _ in recipe.needs]
                expected += f"{'; '.join(clauses)}. "
                taken = [f"{times * number} {need}" + " to craft" * (need in book) for need, number in recipe.needs]
                left = [*taken, *[item] * times, *left[1:]]
                replaced += 1
            assert env.expert_thought(action) == f"{expected}Left: {', '.join(left)}."
            assert action == (book[left[0]].command if left[0] in book else f"get {left[0]}")
            env.step(action)
            left = left[1:]
        assert env.succeeded and not left
    assert replaced > 150


@pytest.mark.parametrize("difficulty", LEVELS)
def test_each_list_is_the_last_one_without_its_first_element(difficulty: str) -> None:
    """In every difficulty, also where recipes leave things over for later ones."""
    env, left_over = TextCraftEnv(difficulty=difficulty), 0
    for number in range(60):
        env.reset(options={"task": number, "split": "train"})
        before: list[str] = []
        while action := env.fair_expert():
            thought = env.expert_thought(action)
            first, *_, last = thought.split("Left: ")[1:] * 2
            left = last.removesuffix(".").split(", ")
            if before and " to craft: " in first:
                assert first.partition(":")[0] == before[1] and left[-len(before[2:]) or len(left) :] == before[2:]
            elif before:
                assert left == before[1:], (before, thought)
            left_over += " left over" in thought
            before = left
            env.step(action)
        assert env.succeeded and before == [env.puzzle.target]
    assert difficulty == "easy" or left_over


def test_after_a_detour_the_plan_begins_again_with_what_is_held() -> None:
    """A useful thing that was got too early is named beside the recipe that takes it."""
    env, held = TextCraftEnv(difficulty="easy"), 0
    for number in range(60):
        env.reset(options={"task": number, "split": "train"})
        target = env.puzzle.target
        plan = list_commands(plan_part(env.puzzle.book, target, 1, Counter()))
        early = next((action for action in plan[1:] if action.startswith("get ")), None)
        if early and early != plan[0]:
            env.step(early)
            action = env.fair_expert()
            assert action is not None
            thought = env.expert_thought(action)
            assert thought.startswith(f"{target} makes ")
            held += f"{early.removeprefix('get ')} in the inventory" in thought
    assert held > 20


def test_the_plan_of_the_fair_expert_stays() -> None:
    """From each of its states the plan is the rest of the plan; it crafts as often as a shortest plan."""
    for difficulty in LEVELS:
        env = TextCraftEnv(difficulty=difficulty)
        for number in range(60):
            env.reset(options={"task": number})
            book, target = env.puzzle.book, env.puzzle.target
            plan = list_commands(plan_part(book, target, 1, Counter()))
            crafts = [action for action in plan if action.startswith("craft")]
            assert sorted(crafts) == sorted(action for action in env.expert() if action.startswith("craft"))
            for place, action in enumerate(plan):
                assert list_commands(plan_part(book, target, 1, Counter(env._inventory))) == plan[place:]
                assert action == env.fair_expert()
                env.step(action)
            assert env.succeeded and env.fair_expert() is None


def test_the_fair_expert_finishes_from_anywhere() -> None:
    """Also when it holds things that it does not need, or not yet."""
    env = TextCraftEnv(difficulty="medium", max_steps=200)
    for number in range(60):
        env.reset(options={"task": number})
        rng = Rng("detours", number)
        while not env.stop_reason:
            if rng.below(4) == 0:
                env.step(rng.choice(env.actions()))
                continue
            action = env.fair_expert()
            assert action and env.expert_thought(action)
            assert env.step(action)[4]["valid_action"]
        assert env.succeeded


def test_a_plan_that_is_too_long_need_by_need_begins_as_a_shortest_one() -> None:
    """Three recipes of the same three raw things take six steps, and ten need by need; with nine it takes eight."""
    needs = (("r0", 1), ("r1", 1), ("r2", 1))
    book = {item: Recipe(item, 1, needs) for item in ("m0", "m1")}
    book["m2"] = Recipe("m2", 1, (("m0", 1), ("m1", 1), ("r0", 1)))
    for limit, actions in ((10, 10), (9, 8)):
        env = TextCraftEnv(difficulty="easy", max_steps=limit)
        env.reset(options={"task": 0})
        task = env.current_task
        assert task
        env._drafts[task.id] = (task, Puzzle("m2", book, ("r0", "r1", "r2"), ()))
        while not env.stop_reason:
            action = env.fair_expert()
            assert action and (limit == 9 or env.expert_thought(action))
            env.step(action)
        assert env.succeeded and env.steps == actions


@pytest.mark.parametrize("seed", [10858, 12146])
def test_no_made_up_name_is_raw_and_crafted(seed: int) -> None:
    """With these seeds a raw thing was given the name of a crafted one, and a recipe needed itself."""
    target, recipes = trees.draw_recipes(Rng(seed), "train", "hard")
    book = {recipe.item: recipe for recipe in recipes}
    assert len(book) == len(recipes) and 5 <= depth(book, target) <= 6
