"""The kinds of things in the laboratory, as a table, and their usual names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be done with a thing."""

    portable: bool = False
    """It can be picked up and moved."""
    holds: bool = False
    """Things can be put on or into it."""
    door: bool = False
    """It can be opened and closed."""
    switch: bool = False
    """It can be activated and deactivated."""
    vessel: bool = False
    """Substances can be poured into it."""
    sealed: bool = False
    """Nothing can be poured into or out of it."""
    gated: bool = False
    """It gives its stock only while it is on."""
    tempers: bool = False
    """While it is on, what it holds takes its temperature."""
    steady: bool = False
    """Its temperature is not shown, and it stays on."""
    part: str = ""
    """Its part in a circuit: source, lamp, wire or sample."""
    alive: str = ""
    """`animal` or `plant`, if it lives."""


KINDS: Mapping[str, Kind] = {
    "surface": Kind(holds=True),
    "cupboard": Kind(holds=True, door=True),
    "box": Kind(holds=True),
    "heater": Kind(holds=True, switch=True, tempers=True),
    "keeper": Kind(holds=True, switch=True, tempers=True, steady=True),
    "cooler": Kind(holds=True, switch=True, tempers=True, door=True),
    "tap": Kind(switch=True, gated=True),
    "parent": Kind(),
    "pod": Kind(gated=True),
    "supply": Kind(),
    "cup": Kind(portable=True, vessel=True),
    "ampoule": Kind(vessel=True, sealed=True),
    "planter": Kind(vessel=True),
    "incubator": Kind(vessel=True, switch=True),
    "thermometer": Kind(portable=True),
    "stopwatch": Kind(portable=True),
    "brush": Kind(portable=True),
    "book": Kind(portable=True),
    "block": Kind(portable=True),
    "plane": Kind(holds=True),
    "battery": Kind(portable=True, part="source"),
    "panel": Kind(portable=True, part="source"),
    "lamp": Kind(portable=True, part="lamp"),
    "wire": Kind(portable=True, part="wire"),
    "sample": Kind(portable=True, part="sample"),
    "animal": Kind(portable=True, alive="animal"),
    "plant": Kind(portable=True, alive="plant"),
    "object": Kind(portable=True),
    "food": Kind(portable=True),
}

ROOMS: Mapping[str, tuple[str, str]] = {
    "kitchen": ("counter", "cupboard"),
    "workshop": ("workbench", "tool cabinet"),
    "studio": ("desk", "drawer"),
    "greenhouse": ("potting bench", "crate"),
    "foundry": ("anvil", "locker"),
    "store room": ("shelf", "chest"),
    "bathroom": ("washstand", "bathroom cabinet"),
    "living room": ("sofa", "sideboard"),
    "cellar": ("barrel", "trunk"),
    "attic": ("plank", "suitcase"),
}
"""Rooms, each with a surface and a piece of furniture with a door."""
OUTDOORS = "garden"
OUTDOOR_SURFACE = "garden table"

HEATERS = ("stove", "hot plate", "furnace", "burner", "fire pit", "kiln")
COOLERS = ("fridge", "freezer", "ice chest", "cold box")
CUPS = ("tin cup", "glass beaker", "steel pot", "clay bowl", "iron mug", "white flask")
PLANTERS = ("round planter", "square planter", "long planter")
CONTAINERS = ("jar", "bottle", "can", "drum", "tub", "sack")
LAMPS = ("light bulb", "electric motor", "electric buzzer", "neon tube")
COLOURS = ("red", "blue", "green", "yellow", "orange", "purple", "white", "black", "grey", "pink", "brown", "silver")
CLUTTER = ("wooden spoon", "old towel", "paper clip", "picture frame", "rubber duck", "tea towel", "candle stub")
FOODS = ("apple", "bread roll", "banana")
