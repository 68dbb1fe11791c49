"""The wordings of questions; each belongs to one split.

Those of training questions are in `agentgym_data/sql/training.txt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from agentgym_py.env.wording import read_wordings

_TRAINING = read_wordings(files("agentgym_data") / "sql" / "training.txt")

_HELD_OUT: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "count": {
        "valid": (
            "What is the number of {s}?",
            "Say with one number how many {s} the tables contain.",
            "The {s} are to be counted; what is the result?",
        ),
        "test": (
            "Give the count of the {s}.",
            "The question is the number of {s} in these tables.",
            "With one figure, answer how many entries are {s}.",
        ),
    },
    "names": {
        "valid": (
            "List the {s} by {label}.",
            "Each of the {s} has a {label}; list all of these.",
            "A column with the {label} of all {s} should come out.",
        ),
        "test": (
            "Give the {label} of each of the {s}.",
            "Provide the {label} for all of the {s}.",
            "Who or what are the {s}? Answer with the {label} in each case.",
        ),
    },
    "lookup": {
        "valid": (
            "For {one} {label}, what is the {noun}?",
            "Of {one} {label} we lack the {noun}; supply it.",
            "What do the tables say about the {noun} of {one} {label}?",
        ),
        "test": (
            "{label} is the {label_column} of one {one}. Find the {noun}.",
            "Among the {many} there is {label}; answer with the {noun}.",
            "One entry among the {many} is {label}. Give the {noun} in that entry.",
        ),
    },
    "extreme": {
        "valid": (
            "Find the {label} of the one with {most} among the {s}.",
            "The {s} are compared; find the {label} of the one that comes out with {most}.",
            "Looking only at the {s}, find the {label} of whichever has {most}.",
        ),
        "test": (
            "Among the {s}, name the one with {most}.",
            "Give the {label} of that one among the {s} whose entry shows {most}.",
            "If we compare just the {s}, who or what has {most}?",
        ),
    },
    "average": {
        "valid": (
            "Find the mean {noun} of the {s}.",
            "What is the mean of the {noun}, taken over the {s}?",
            "Find, from the {s} alone, the mean {noun}.",
        ),
        "test": (
            "Compute how high the {noun} of the {s} is on average.",
            "Averaging across the {s}, which {noun} results?",
            "This is about the {noun} of the {s}: give its average value.",
        ),
    },
    "per": {
        "valid": (
            "Count the {s} by {group}: {group} first, then the number.",
            "Which {group} values do the {s} have, and how often does each one occur?",
            "Find, next to the {group}, the number of those {s} that fall under it.",
        ),
        "test": (
            "List every {group} with its number of {s}.",
            "Answer with two columns, {group} and number of {s}.",
            "State for each separate {group} what number of {s} it has.",
        ),
    },
    "busiest": {
        "valid": (
            "Find the {parent} with the largest number of {s}.",
            "When the {parents} are ordered by their number of {s}, which one is first?",
            "The {s} are counted for every {parent}; find the {parent} with the largest count.",
        ),
        "test": (
            "Who or what among the {parents} leads in {s}?",
            "After sorting {parents} from many {s} to few, whom or what do you see first?",
            "Where quantity of {s} is concerned, who or what is ahead among these {parents}?",
        ),
    },
    "share": {
        "valid": (
            "Find the percentage of {part} among the {s}.",
            "Let the {s} be one hundred percent; find the percentage that {part} make up.",
            "The {s} may include {part}. Find the percentage that these form.",
        ),
        "test": (
            "Of the {s}, give the percentage that are {part}.",
            "Say which percentage of the whole set of {s} consists of {part}.",
            "A certain percentage of the {s} is formed by {part}; compute it.",
        ),
    },
    "above": {
        "valid": (
            "List the {s} that exceed the mean {noun} of all {many}.",
            "All {many} together have a mean {noun}; which {s} exceed it?",
            "The mean {noun} of all {many} is exceeded by which {s}?",
        ),
        "test": (
            "Find the {s} with a {noun} over the average of all {many}.",
            "Only {s} whose {noun} is over the average for all {many} should remain.",
            "Averaged over all {many}, the {noun} has a certain value; find the {s} with a greater one.",
        ),
    },
    "without": {
        "valid": (
            "List all {parents} without any {s}.",
            "List those {parents} to which not even one of the {s} belongs.",
            "The {s} leave some {parents} out entirely; list these {parents}.",
        ),
        "test": (
            "Find all {parents} whose number of {s} is zero.",
            "There are {parents} with no {s} at all; find them.",
            "When we count {s}, who or what among the {parents} ends up with zero?",
        ),
    },
    "several": {
        "valid": (
            "List all {parents} with no fewer than {k} {s}.",
            "List the {parents} whose number of {s} does not fall below {k}.",
            "Which {parents} pass if no fewer than {k} {s} are required?",
        ),
        "test": (
            "Find all {parents} whose number of {s} is {k} or higher.",
            "There are {parents} with {k} {s} or an even greater number; find them.",
            "When we count {s}, who or what among the {parents} ends up with at least {k}?",
        ),
    },
    "note": {
        "valid": (
            "{Term} {plural} are {plural} {over}.",
            "{Plural} qualify as {term} if they are {plural} {over}.",
            "To be {term} is to be among the {plural} {over}.",
        ),
        "test": (
            "Only {plural} {over} count as {term}.",
            "We regard {plural} {over} as {term}.",
            "The {term} ones are exactly the {plural} {over}.",
        ),
    },
}
WORDINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    kind: {"train": _TRAINING[kind], **wordings} for kind, wordings in _HELD_OUT.items()
}
"""Wordings of each kind of question, and of notes, by split; those of the train split are grammars."""
NOTES: Mapping[str, str] = {
    split: notes[0] if len(notes) == 1 else f"[{'|'.join(notes)}]" for split, notes in WORDINGS["note"].items()
}
"""Definitions of an adjective in the question by split, as grammars."""
