"""Prior weights of where things lie, for the generator and the fair expert."""

from __future__ import annotations

from collections.abc import Mapping

LAMP = "desklamp"
LAMP_STANDS = frozenset({"desk", "sidetable", "dresser", "shelf", "diningtable", "coffeetable"})
_ROOMY = {
    "bed": 3, "cart": 2, "coffeetable": 4, "countertop": 6, "desk": 5, "diningtable": 6, "dresser": 4, "fridge": 2,
    "shelf": 2, "sidetable": 4, "sinkbasin": 3, "sofa": 3, "stoveburner": 2, "toilet": 2,
}  # fmt: skip
"""How much more lies on one receptacle of a type than in a cabinet or drawer; this project's estimate."""
_FOOD = frozenset({"apple", "bread", "egg", "lettuce", "potato", "tomato"})
_FOOD_IN_FRIDGE = 8


def frequency(thing: str, place: str) -> int:
    """Return the relative frequency of a thing in a receptacle of a type."""
    if place == "fridge" and thing in _FOOD:
        return _FOOD_IN_FRIDGE
    return _ROOMY.get(place, 1)


def can_start(thing: str, place: str, fitting: Mapping[str, frozenset[str]]) -> bool:
    """Tell whether a thing can start on a receptacle of a type."""
    return place in LAMP_STANDS if thing == LAMP else thing in fitting.get(place, ())
