"""A laboratory at the start of a task: rooms, things, substances and the goal; and their random construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentgym_envs.lab import kinds
from agentgym_envs.lab.kinds import KINDS, Kind
from agentgym_envs.lab.matter import ROOM, Substance
from agentgym_envs.lab.words import draw_words
from agentgym_py.rng import Rng

HAND = -1
"""The place of what the agent holds."""
SIZES = {"easy": 3, "medium": 5, "hard": 7}
"""Rooms, the garden among them."""
_HIDDEN = {"easy": 0.0, "medium": 0.3, "hard": 0.5}
"""Share of things behind doors."""


def floor(room: int) -> int:
    """Return the place of what stands in a room."""
    return -2 - room


@dataclass(frozen=True, slots=True)
class Thing:
    """A thing as it is at the start of a task."""

    name: str
    kind: str
    """A key of `KINDS`."""
    place: int
    """Index of the thing that holds it, or `floor(room)`."""
    value: int = 0
    """A device's temperature, a sample's conductivity (0 or 1), a plane's time in hundredths of a second."""
    works: bool = True
    """Whether a device works."""
    on: bool = False
    stock: int = -1
    """The substance that a supply never runs out of."""
    contents: tuple[int, ...] = ()
    temperature: int = ROOM
    sign: str = ""
    """What `look at` finds."""
    page: str = ""
    """What `read` finds."""

    @property
    def traits(self) -> Kind:
        """What can be done with it."""
        return KINDS[self.kind]


@dataclass(frozen=True, slots=True)
class Goal:
    """What a task asks for; each family of tasks says which fields it uses."""

    kind: str
    """A task kind, such as `boil`."""
    targets: tuple[int, ...]
    """Substances or things, the wanted one first."""
    boxes: tuple[int, ...] = ()
    """Boxes to answer by or to put something into."""
    number: int = 0
    """A threshold or a stage."""
    slots: Mapping[str, str] = field(default_factory=dict)
    """Words of the request."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A laboratory and a goal. Nothing changes it; `lab.Lab` is its state in an episode."""

    rooms: tuple[str, ...]
    doors: tuple[tuple[int, int], ...]
    """Pairs of rooms, which form a tree."""
    locked: bool
    """Whether doors between rooms are closed at the start."""
    start: int
    things: tuple[Thing, ...]
    substances: tuple[Substance, ...]
    reactions: Mapping[frozenset[int], int]
    """Sets of substances, and what they mix to."""
    goal: Goal
    by_name: Mapping[str, int]
    """Index of each thing by its name."""
    traits: tuple[Kind, ...]
    vessels: tuple[int, ...]
    cell_of: Mapping[int, int]
    """Position in `vessels`, by thing."""

    @property
    def outdoors(self) -> int:
        """The room under the sun: the first one."""
        return 0

    def next_rooms(self, room: int) -> list[tuple[int, int]]:
        """Return the doors of a room and where they lead."""
        return [(number, b if a == room else a) for number, (a, b) in enumerate(self.doors) if room in (a, b)]


class Site:
    """Builds a puzzle from random draws."""

    def __init__(self, rng: Rng, split: str, difficulty: str) -> None:
        self.rng, self.split, self.difficulty = rng, split, difficulty
        self.hard, self.easy = difficulty == "hard", difficulty == "easy"
        size = SIZES[difficulty]
        self.rooms = [kinds.OUTDOORS, *rng.sample(list(kinds.ROOMS), size - 1)]
        self.doors = [(rng.below(room), room) for room in range(1, size)]
        self.things: list[Thing] = []
        self.substances: list[Substance] = []
        self.reactions: dict[frozenset[int], int] = {}
        self._words = iter(draw_words(rng, split, 16))
        self._lists: dict[Sequence[str], list[str]] = {}
        self.surfaces: list[int] = []
        self.cupboards: list[int] = []
        for room, name in enumerate(self.rooms):
            surface, cupboard = kinds.ROOMS.get(name, (kinds.OUTDOOR_SURFACE, ""))
            self.surfaces.append(self.add("surface", surface, floor(room)))
            if cupboard and not self.easy:
                self.cupboards.append(self.add("cupboard", cupboard, floor(room)))

    def word(self) -> str:
        """Draw an invented name that this task has not used."""
        return next(self._words)

    def pick(self, names: Sequence[str]) -> str:
        """Draw a name of a list that this task has not used."""
        if names not in self._lists:
            self._lists[names] = self.rng.sample(names, len(names))
        return self._lists[names].pop()

    def add(self, kind: str, name: str, place: int, **fields: object) -> int:
        """Add a thing and return its index."""
        self.things.append(Thing(name, kind, place, **fields))  # type: ignore[arg-type]  # fields of Thing
        return len(self.things) - 1

    def somewhere(self) -> int:
        """Draw a place for a portable thing: a surface, or a cupboard if the difficulty has them."""
        hidden = self.cupboards and self.rng.uniform() < _HIDDEN[self.difficulty]
        return self.rng.choice(self.cupboards if hidden else self.surfaces)

    def inside(self) -> int:
        """Draw the floor of a room that is not outdoors."""
        return floor(1 + self.rng.below(len(self.rooms) - 1))

    def substance(self, name: str, **fields: object) -> int:
        """Add a substance and return its index."""
        self.substances.append(Substance(name, **fields))  # type: ignore[arg-type]  # fields of Substance
        return len(self.substances) - 1

    def supply(self, substance: int, container: str = "") -> int:
        """Add a supply that never runs out."""
        name = f"{container or self.rng.choice(kinds.CONTAINERS)} of {self.substances[substance].name}"
        return self.add("supply", name, self.inside(), stock=substance)

    def cups(self, count: int) -> None:
        """Add empty cups."""
        for _ in range(count):
            self.add("cup", self.pick(kinds.CUPS), self.somewhere())

    def boxes(self, count: int = 2) -> tuple[int, ...]:
        """Add boxes of different colours."""
        return tuple(self.add("box", f"{self.pick(kinds.COLOURS)} box", self.inside()) for _ in range(count))

    def water(self) -> None:
        """Add a sink with water."""
        self.add("tap", "sink", self.inside(), stock=self.substance("water", melts=0, boils=100))

    def clutter(self) -> None:
        """Add things that do not help."""
        self.add("object", self.pick(kinds.CLUTTER), self.somewhere())
        self.add("food", self.pick(kinds.FOODS), self.somewhere())

    def build(self, goal: Goal) -> Puzzle:
        """Return the puzzle."""
        traits = tuple(KINDS[thing.kind] for thing in self.things)
        vessels = tuple(i for i, kind in enumerate(traits) if kind.vessel)
        return Puzzle(
            rooms=tuple(self.rooms),
            doors=tuple(self.doors),
            locked=self.hard,
            start=self.rng.below(len(self.rooms)),
            things=tuple(self.things),
            substances=tuple(self.substances),
            reactions=self.reactions,
            goal=goal,
            by_name={thing.name: i for i, thing in enumerate(self.things)},
            traits=traits,
            vessels=vessels,
            cell_of={i: number for number, i in enumerate(vessels)},
        )
