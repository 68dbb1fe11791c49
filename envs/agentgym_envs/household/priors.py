"""Where things lie: what the generator draws by, and what one who searches a room may expect."""

from __future__ import annotations

from collections.abc import Mapping

LAMP = "desklamp"
LAMP_STANDS = frozenset({"desk", "sidetable", "dresser", "shelf", "diningtable", "coffeetable"})
_ROOMY = {
    "bed": 3, "cart": 2, "coffeetable": 4, "countertop": 6, "desk": 5, "diningtable": 6, "dresser": 4, "fridge": 2,
    "shelf": 2, "sidetable": 4, "sinkbasin": 3, "sofa": 3, "stoveburner": 2, "toilet": 2,
}  # fmt: skip
"""How much more lies on one receptacle of a type than in a cabinet or drawer; this project's guess."""
_FOOD = frozenset({"apple", "bread", "egg", "lettuce", "potato", "tomato"})
_FOOD_IN_FRIDGE = 8


def likely(thing: str, place: str) -> int:
    """How much more often a thing lies in a receptacle of one type than in one of another."""
    if place == "fridge" and thing in _FOOD:
        return _FOOD_IN_FRIDGE
    return _ROOMY.get(place, 1)


def stands(thing: str, place: str, fitting: Mapping[str, frozenset[str]]) -> bool:
    """Whether a thing can lie on a receptacle of a type at first."""
    return place in LAMP_STANDS if thing == LAMP else thing in fitting.get(place, ())
