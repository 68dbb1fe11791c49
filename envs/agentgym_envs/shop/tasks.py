"""The tasks of the shop, their ids and splits."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from typing import Literal

from agentgym_envs.shop.catalogue import PAGE_SIZE, Catalogue, Product
from agentgym_envs.shop.goals import generated_goal, human_goals, read_goals, synthetic_goals
from agentgym_envs.shop.reward import Goal, normalize_color
from agentgym_envs.shop.session import ITEM_BUTTONS, as_query, choices, normalize
from agentgym_py.env import SPLITS, Task, unknown_task_error
from agentgym_py.errors import ConfigError, UnknownNameError
from agentgym_py.rng import Rng, seed_of

Goals = Literal["synthetic", "human"]
Difficulty = Literal["easy", "medium", "hard"]
DIFFICULTIES: Mapping[Difficulty, tuple[int, tuple[int, ...]]] = {
    "easy": (1, (1,)),
    "medium": (2, (1, 2)),
    "hard": (3, (2, 3)),
}
"""The number of attributes in a generated request, and of option groups of its product."""
_ID = re.compile(rf"shop/(?P<split>{'|'.join(SPLITS)})/(?P<kind>\w+)/(?P<number>0|[1-9][0-9]{{0,18}})")
_BIG_LIST = 2000
_TRIES = 1000


@dataclass(frozen=True, slots=True, eq=False)
class ShopTask:
    """A task with its goal."""

    task: Task
    goal: Goal
    session_id: str
    """Its number in WebShop's addresses."""
    words: str
    """The request's own words: attributes, then the kind of thing."""


def _shop_task(task: Task, goal: Goal, number: int) -> ShopTask:
    return ShopTask(task, goal, str(number), as_query(f"{', '.join(goal.attributes)} {goal.query}"))


@cache
def split_of(product: Product) -> str:
    """Return the split of a target product of the embedded catalogue: 70 % train, 10 % valid, 20 % test."""
    return ("valid", "test", "test", *["train"] * 7)[seed_of("shop split", product.asin) % 10]


def found_by_title(catalogue: Catalogue, product: Product) -> bool:
    """Tell whether a search for a product's title shows it on the first page."""
    return product in catalogue.search(normalize(product.title))[:PAGE_SIZE]


class GeneratedTasks:
    """An endless supply of requests, each derived from catalogue, split, difficulty and number alone.

    Splits have disjoint target products and disjoint requests. A target of another split may still satisfy a request,
    such as one with more groups of options.
    """

    def __init__(self, catalogue: Catalogue, difficulty: Difficulty) -> None:
        self.catalogue = catalogue
        self.difficulty = difficulty
        self.pools: dict[str, list[Product]] = {split: [] for split in SPLITS}
        self.rivals: dict[tuple[str, str], list[tuple[frozenset[str], Product]]] = defaultdict(list)
        """Split and kind of thing to the products of the other splits, with their attributes."""
        count, groups = DIFFICULTIES[difficulty]
        for product in catalogue.products:
            rival = frozenset(product.attributes), product
            for split in set(SPLITS) - {split_of(product)}:
                self.rivals[split, product.query].append(rival)
            named, options = askable(product)
            if len(named) >= count and len(options) in groups and all(options.values()):
                self.pools[split_of(product)].append(product)
        self.by_number = lru_cache(maxsize=20_000)(self._by_number)

    def get(self, name: str | int, split: str) -> ShopTask:
        """Return the task of an id, or number `name` of a split."""
        if isinstance(name, int):
            return self.by_number(name, split)
        match = _ID.fullmatch(name)
        split_of_id, kind, number = match.groups() if match else ("", "", "")
        if kind == self.difficulty:
            return self.by_number(int(number), split_of_id)
        raise unknown_task_error(name, "shop", self.difficulty, list(DIFFICULTIES))

    def draw(self, rng: Rng, split: str) -> ShopTask:
        """Draw a random task of a split."""
        return self.by_number(rng.below(1 << 31), split)

    def _by_number(self, number: int, split: str) -> ShopTask:
        if number < 0:
            raise UnknownNameError(f"No task number {number}; numbers start at 0.")
        pool, rng = self.pools[split], Rng("shop", self.catalogue.version, split, self.difficulty, number)
        for _ in range(_TRIES if pool else 0):
            product = rng.choice(pool)
            named, options = askable(product)
            attributes = rng.sample(named, DIFFICULTIES[self.difficulty][0])
            chosen = {name: rng.choice(options[name]) for name in sorted(options)}
            if self._is_exclusive(product.query, attributes, chosen, split):
                return self._shop_task(product, generated_goal(product, attributes, chosen, rng), number, split)
        raise ConfigError(f"{self.catalogue.folder}: split {split!r} has no product for difficulty {self.difficulty!r}")

    def _is_exclusive(self, query: str, attributes: Sequence[str], options: Mapping[str, str], split: str) -> bool:
        """Tell whether no product of another split can be the target of the same request."""
        named = frozenset(attributes)
        for rival_attributes, product in self.rivals.get((split, query), ()):
            if named <= rival_attributes:
                has = product.options
                if len(has) == len(options) and all(value in has.get(name, ()) for name, value in options.items()):
                    return False
        return True

    def _shop_task(self, product: Product, goal: Goal, number: int, split: str) -> ShopTask:
        steps = 3 + len(goal.options) if found_by_title(self.catalogue, product) else None
        name = f"shop/{split}/{self.difficulty}/{number}"
        task = Task(name, split, product.category, self.difficulty, goal.instruction, steps)
        return _shop_task(task, goal, number)


@lru_cache(maxsize=50_000)
def askable(product: Product) -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]:
    """Return the attributes and options of a product that a request can name and a purchase can match.

    Skipped are ambiguous values, and values that WebShop's colour rule turns into another word (`redwood` counts as
    `red`, to which `redwood` is not similar).
    """
    attributes = tuple(dict.fromkeys(name for name in product.attributes if _words(name) and name != "DUMMY_ATTR"))
    ways = choices(product)
    options = {
        name: tuple(value for value in dict.fromkeys(values) if _askable(value) and len(ways[normalize(value)]) == 1)
        for name, values in product.options.items()
    }
    return attributes, options


@lru_cache(maxsize=50_000)
def _askable(value: str) -> bool:
    plain_click = "[" not in value and normalize(value) not in ITEM_BUTTONS
    return plain_click and bool(_words(value)) and _words(normalize_color(value)) <= _words(value)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9_]+", text.lower()))


class ListedTasks:
    """The goals of a list: WebShop's own for a user's folder, or human requests in the embedded catalogue.

    In a user's folder numbers count through the whole list, as WebShop's sessions do, unless a split is named; splits
    are ranges of the list. In the embedded catalogue the target product decides the split, as for generated tasks, and
    numbers count within a split.
    """

    def __init__(self, catalogue: Catalogue, kind: Goals, *, by_product: bool) -> None:
        self.catalogue = catalogue
        self.kind = kind
        self.by_product = by_product
        self.goals = listed_goals(catalogue, kind)
        if not self.goals:
            raise ConfigError(f"{catalogue.folder}: no {kind} goals")
        self.places: dict[str, list[int]] = {split: [] for split in SPLITS}
        for place, goal in enumerate(self.goals):
            self.places[self._split(place, goal)].append(place)
        self.at = lru_cache(maxsize=20_000)(self._at)

    def _split(self, place: int, goal: Goal) -> str:
        if self.by_product:
            return split_of(self.catalogue.by_asin[goal.asin])
        size = len(self.goals)
        test, valid = (500, 1500) if size >= _BIG_LIST else (-(-size // 5), -(-3 * size // 10))
        return "test" if place < test else "valid" if place < valid else "train"

    def get(self, name: str | int, split: str | None) -> ShopTask:
        """Return the task of an id, or number `name` of a split or of the whole list."""
        if isinstance(name, int):
            return self._numbered(name, split)
        match = _ID.fullmatch(name)
        if match and match["kind"] == self.kind:
            shop_task = self._numbered(int(match["number"]), match["split"] if self.by_product else None)
            if shop_task.task.id == name:
                return shop_task
        raise UnknownNameError(f"No task {name!r:.100}; ids here look like {self.at(0).task.id!r}.")

    def _numbered(self, number: int, split: str | None) -> ShopTask:
        places: Sequence[int] = range(len(self.goals)) if split is None else self.places[split]
        if not 0 <= number < len(places):
            where = f"split {split!r}" if split else "the list"
            raise UnknownNameError(f"No task number {number}: {where} has {len(places)}, from 0.")
        return self.at(places[number])

    def draw(self, rng: Rng, split: str) -> ShopTask:
        """Draw a random task of a split, by WebShop's weights."""
        places, sums = self.places[split], self._sums[split]
        if not places:
            raise ConfigError(f"{self.catalogue.folder}: no {self.kind} goal in split {split!r}")
        return self.at(places[min(bisect_right(sums, rng.uniform() * sums[-1]), len(places) - 1)])

    @cached_property
    def _sums(self) -> dict[str, list[float]]:
        goals = self.goals
        return {split: list(accumulate(goals[i].weight for i in places)) for split, places in self.places.items()}

    def _at(self, place: int) -> ShopTask:
        goal = self.goals[place]
        split = self._split(place, goal)
        number = self.places[split].index(place) if self.by_product else place
        name = f"shop/{split}/{self.kind}/{number}"
        category = self.catalogue.by_asin[goal.asin].category
        return _shop_task(Task(name, split, category, self.kind, goal.instruction), goal, number)


def listed_goals(catalogue: Catalogue, kind: Goals) -> list[Goal]:
    """Return the folder's `goals.json` in its order, else WebShop's goals in a fixed shuffled order."""
    if catalogue.goals is not None:
        return read_goals(catalogue)
    goals = human_goals(catalogue.products) if kind == "human" else synthetic_goals(catalogue.products)
    return Rng("shop goals", kind).sample(goals, len(goals))
