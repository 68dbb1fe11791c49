"""Names for the rows of a database, with separate lists for each split."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

FIRST: Mapping[str, str] = {
    "train": "Ada Bruno Clara Dario Elena Felix Greta Hugo Ines Jonas Karin Luca Mara Nils Olga Pavel Rosa Stefan "
    "Tilda Viktor",
    "valid": "Anton Berta Cecil Doris Emil Flora Georg Hanna Ivan Judith",
    "test": "Agnes Boris Cora David Edith Frank Gloria Henry Irene Jakob",
}
LAST: Mapping[str, str] = {
    "train": "Lund Marek Novak Olsen Prieto Quint Rossi Silva Torres Ulrich Vogel Weiss Young Zeller Abbot Brandt "
    "Castro Duval",
    "valid": "Eklund Ferrer Gruber Holm Ivers Jansen Keller Lorenz",
    "test": "Moser Nyberg Orlov Peters Ramos Sander Toledo Varga",
}
FRONT: Mapping[str, str] = {
    "train": "Amber Broken Copper Distant Empty Frozen Golden Hidden Iron Jolly Lonely Misty Narrow Open Painted Quiet "
    "Rising Silver Tall Upper",
    "valid": "Ancient Bright Crooked Dusty Early Fallen Gentle Hollow",
    "test": "Bitter Clever Double Endless Final Green Happy Inner",
}
BACK: Mapping[str, str] = {
    "train": "Anchor Bridge Canyon Door Echo Forest Garden Harbour Island Journey Kingdom Lantern Meadow Night Orchard "
    "Palace River Shadow Tower Valley",
    "valid": "Arrow Beacon Castle Desert Engine Feather Glacier Hill",
    "test": "Bell Cliff Dream Ember Field Gate Horizon Lake",
}


@cache
def people(split: str) -> tuple[str, ...]:
    """Return every first name with every last name."""
    return tuple(f"{first} {last}" for first in FIRST[split].split() for last in LAST[split].split())


@cache
def titles(split: str) -> tuple[str, ...]:
    """Return two-word names of books, farms, trains."""
    return tuple(f"{front} {back}" for front in FRONT[split].split() for back in BACK[split].split())
