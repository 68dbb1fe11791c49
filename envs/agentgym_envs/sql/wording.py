"""The wordings of questions; each belongs to one split.

Those of training questions are in `agentgym_data/sql/training.txt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from agentgym_py.env.wording import read_wordings

_TRAINING = read_wordings(files("agentgym_data") / "sql" / "training.txt")

_HELD_OUT: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "count": {"valid": ("What is the number of {s}?",), "test": ("Give the count of the {s}.",)},
    "names": {"valid": ("List the {s} by {label}.",), "test": ("Give the {label} of each of the {s}.",)},
    "lookup": {
        "valid": ("For {one} {label}, what is the {noun}?",),
        "test": ("{label} is the {label_column} of a {one}. Find its {noun}.",),
    },
    "extreme": {
        "valid": ("Find the {label} of the one with {most} among the {s}.",),
        "test": ("Among the {s}, name the one with {most}.",),
    },
    "average": {
        "valid": ("Find the mean {noun} of the {s}.",),
        "test": ("Compute how high the {noun} of the {s} is on average.",),
    },
    "per": {
        "valid": ("Count the {s} by {group}: {group} first, then the number.",),
        "test": ("List every {group} with its number of {s}.",),
    },
    "busiest": {
        "valid": ("Find the {parent} with the largest number of {s}.",),
        "test": ("Who or what among the {parents} leads in {s}?",),
    },
    "share": {
        "valid": ("Find the percentage of {part} among the {s}.",),
        "test": ("Of the {s}, give the percentage that are {part}.",),
    },
    "above": {
        "valid": ("List the {s} that exceed the mean {noun} of all {many}.",),
        "test": ("Find the {s} with a {noun} over the average of all {many}.",),
    },
    "without": {
        "valid": ("List all {parents} without any {s}.",),
        "test": ("Find the {parents} for which there are no {s}.",),
    },
    "several": {
        "valid": ("List all {parents} with no fewer than {k} {s}.",),
        "test": ("Find the {parents} for which at least {k} {s} exist.",),
    },
}
WORDINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    kind: {"train": _TRAINING[kind], **wordings} for kind, wordings in _HELD_OUT.items()
}
"""Wordings of each kind of question by split; those of the train split are grammars."""
NOTES: Mapping[str, str] = {
    "train": _TRAINING["note"][0],
    "valid": "{Term} {plural} are {plural} {over}.",
    "test": "{Term} {plural} are {plural} {over}.",
}
"""Definitions of an adjective in the question by split."""
