"""Things of four words, such as a small red wooden spoon, which the worlds of several roles talk about."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product

from agentgym_py.env.wording import sample_names
from agentgym_py.rng import Rng

ATTRIBUTES = ("size", "colour", "material", "kind")
Thing = tuple[str, str, str, str]
"""A word for each attribute."""
_MOST_NAMED = 4
"""Things that a thought names; of more it says the number."""
_MADE_UP = 0.3
"""Share of the kinds in training tasks that are made-up words."""
_POOLS: Mapping[str, tuple[str, str, str, str]] = {
    "train": (
        "small large tiny huge short long thin thick low high round square heavy light curved straight",
        "red blue green yellow black white brown pink purple golden amber cream olive maroon coral indigo",
        "wooden metal glass paper plastic woollen leather clay stone cotton wax felt steel copper cork wicker",
        "spoon cup plate bowl lamp chair table box basket bottle clock mirror pillow blanket ladder bucket candle "
        "brush comb hat scarf glove coat belt shoe kite drum flute ball doll pen ruler stamp bell rope chain",
    ),
    "valid": (
        "little big narrow wide", "grey violet crimson lime", "silver rubber linen bamboo",
        "fork vase stool jar curtain umbrella whistle puzzle",
    ),
    "test": (
        "mini giant slim broad", "turquoise scarlet beige navy", "bronze ceramic velvet marble",
        "kettle shelf carpet purse violin helmet pencil tray",
    ),
}  # fmt: skip
WORDS = {split: tuple(tuple(words.split()) for words in pools) for split, pools in _POOLS.items()}
"""The words of each attribute, by split; no word is in two splits."""
_ALL = frozenset(word for pools in WORDS.values() for words in pools for word in words)


def draw_things(rng: Rng, split: str, shape: tuple[int, int, int, int], number: int) -> tuple[Thing, ...]:
    """Draw different things whose attributes take as many values as `shape` says."""
    sizes, colours, materials = (rng.sample(WORDS[split][place], shape[place]) for place in range(3))
    made_up = _MADE_UP if split == "train" else 0.0
    kinds = sample_names(rng, WORDS[split][3], shape[3], made_up, _ALL)
    return tuple(rng.sample(list(product(sizes, colours, materials, kinds)), number))


def name_of(thing: Thing) -> str:
    """Return a thing's name: `small red wooden spoon`."""
    return " ".join(thing)


def name_or_count(things: Collection[Thing], noun: str) -> str:
    """Return the names of a few things, or the number of more: `7 products`."""
    if 1 <= len(things) <= _MOST_NAMED:
        return ", ".join(map(name_of, things))
    return f"{len(things)} {noun}{'s' * (len(things) != 1)}"


def list_things(things: tuple[Thing, ...]) -> str:
    """Return the names of things, one per line."""
    return "\n".join(f"- {name_of(thing)}" for thing in things)
