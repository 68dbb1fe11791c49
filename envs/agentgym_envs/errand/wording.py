"""How a request for a product is worded; each split has wordings of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

from agentgym_py.env.wording import read_wordings

REQUESTS: Mapping[str, Sequence[str]] = {
    "train": read_wordings(files("agentgym_data") / "errand" / "training.txt")["request"],
    "valid": (
        "Have somebody purchase {} for the house.",
        "Somebody will purchase {} on your behalf.",
        "Your task today is the purchase of {}.",
    ),
    "test": (
        "What you require is {}, nothing else.",
        "You require a single article, namely {}.",
        "Of all articles, only {} will satisfy you.",
    ),
}
