"""The words of requests; each split has wordings of its own.

Those of training requests are in `agentgym_data/sheet/training.txt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from agentgym_py.env.wording import expand, read_wordings
from agentgym_py.rng import Rng

_TRAINING = read_wordings(files("agentgym_data") / "sheet" / "training.txt")
_HELD_OUT: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # parts of sentences
    "sum": (
        ("the cumulative {c}", "the {c} of every line summed"),
        ("the aggregate of {c}", "what {c} amounts to in all"),
    ),
    "average": (
        ("the typical {c} (arithmetic average)", "the {c} that falls to one line on average"),
        ("the mean taken of {c}", "the average figure for {c}"),
    ),
    "max": (
        ("the ceiling of {c}", "the single biggest {c} on record"),
        ("the utmost {c}", "the maximal figure for {c}"),
    ),
    "min": (
        ("the floor of {c}", "the single smallest {c} on record"),
        ("the very least {c}", "the minimal figure for {c}"),
    ),
    "counting": (
        ("a head count of rows {w}", "how numerous are rows {w}"),
        ("the frequency of rows {w}", "the quantity of lines among rows {w}"),
    ),
    "only": (
        ("{x} as far as rows {w} are concerned", "{x}, disregarding all but rows {w}"),
        ("{x}, confined to rows {w}", "{x} solely across rows {w}"),
    ),
    "eq": (
        ("bearing {v} as their {c}", "listed with {v} for {c}"),
        ("featuring {v} under {c}", "assigned to {c} {v}"),
    ),
    "more": (
        ("having {c} strictly above {n}", "beating {n} in {c}"),
        ("featuring {c} that exceeds {n}", "in excess of {n} under {c}"),
    ),
    "less": (
        ("having {c} strictly below {n}", "failing to reach {n} in {c}"),
        ("featuring {c} short of {n}", "inferior to {n} under {c}"),
    ),
    "least": (
        ("having {c} that is {n} at the minimum", "reaching {n} in {c}"),
        ("featuring {c} of {n} upward", "no smaller than {n} under {c}"),
    ),
    "most": (
        ("having {c} that is {n} at the maximum", "staying within {n} in {c}"),
        ("featuring {c} of {n} downward", "no greater than {n} under {c}"),
    ),
    "product": (
        ("{a} scaled by {b}", "the multiple {a} by {b}"),
        ("the multiplied values {a} and {b}", "{a} and {b} as a product"),
    ),
    "plus": (
        ("{a} combined with {b} by addition", "{a} and on top of it {b}"),
        ("{a} augmented by {b}", "the joint amount of {a} and {b}"),
    ),
    "minus": (
        ("{a} diminished by {b}", "the rest of {a} once {b} is gone"),
        ("{a} net of {b}", "the surplus of {a} over {b}"),
    ),
    "percent": (
        ("a quota of {n} percent on {a}", "{n} percent, taken from {a}"),
        ("a rate of {n} percent applied to {a}", "{n} percent levied on {a}"),
    ),
    "flag": (
        ("{y} against rows {w} and {z} against every other", "{y} on rows {w}, {z} on whatever remains"),
        ("the tag {y} on rows {w}, the tag {z} on the remaining ones", "{y} as to rows {w}, contrasting {z} elsewhere"),
    ),
    "lookup": (
        ("the {e} assigned to its {k} on page {s}", "the {e} that page {s} records against its {k}"),
        ("the corresponding {e} per {k} out of tab {s}", "the {e} which tab {s} quotes for the given {k}"),
    ),
    "group": (
        ("the cumulative {c} that page {s} records for its {k}", "what page {s} sums up to in {c} for its {k}"),
        ("the aggregate {c} of that {k} across tab {s}", "the {k} subtotal for {c} out of tab {s}"),
    ),
    "up number": (
        ("starting with the tiniest", "climbing step by step"),
        ("lowest figures leading", "from minimal to maximal"),
    ),
    "down number": (
        ("starting with the hugest", "sinking step by step"),
        ("highest figures leading", "from maximal to minimal"),
    ),
    "up text": (
        ("as the alphabet goes", "lexically, A to Z"),
        ("in lexicographic order", "initial letters leading"),
    ),
    "down text": (
        ("as the alphabet goes, upside down", "lexically, Z to A"),
        ("in inverse lexicographic order", "final letters leading"),
    ),
    # sentences
    "write": (
        ("Have {cell} display {x}.", "Into {cell} belongs {x}."),
        ("Populate {cell} using {x}.", "Present {x}, using {cell}."),
    ),
    "ask": (
        ("Kindly quote {x}, nothing else.", "A reader wishes to learn {x}."),
        ("Ascertain {x} for me.", "Respond by quoting {x}."),
    ),
    "ask_cell": (
        ("Kindly quote the {c} noted for {v}.", "A reader wishes to learn the {c} of {v}."),
        ("Ascertain which {c} goes with {v}.", "Respond by quoting {c} as held by {v}."),
    ),
    "sort": (
        ("Let the lines follow one another by {c}, {o}.", "Sequence the lines using {c}, {o}."),
        ("Grade the records according to {c}, {o}.", "Restack the records on the basis of {c}, {o}."),
    ),
    "delete_row": (
        ("Purge the line dealing with {v}.", "No line about {v} may remain."),
        ("Expunge the {v} record.", "Strip out the record held for {v}."),
    ),
    "delete_rows": (
        ("Purge every one of the rows {w}.", "No rows may remain {w}."),
        ("Expunge whichever rows exist {w}.", "Strip out each of the rows {w}."),
    ),
    "keep_rows": (
        ("Purge whatever is not among rows {w}.", "No rows may remain, save rows {w}."),
        ("Expunge every record outside the rows {w}.", "Strip down the records, preserving rows {w}."),
    ),
    "add_row": (
        ("Let a closing line read: {r}.", "Tack on a line at the foot: {r}."),
        ("Supplement a final record: {r}.", "Subjoin at the foot the record {r}."),
    ),
    "correct": (
        ("Amend {v}: its {c} comes to {n}.", "For {v}, {n} is what {c} has to say."),
        ("Revise the {c} entry of {v}, making it {n}.", "Rectify {c} on the {v} record: {n}."),
    ),
    "fill": (
        ("Let {d} carry, line by line, {x}.", "Column {d} waits for {x}."),
        ("Populate {d} throughout using {x}.", "Supply {d} on every record: {x}."),
    ),
    "add": (
        ("Let a further column at the far right, {d}, carry {x}.", "Tack on at the right a column {d} carrying {x}."),
        ("Supplement a rightmost column {d} presenting {x}.", "Subjoin to the right {d}, a column presenting {x}."),
    ),
    "rename": (
        ("Let {c} go by the heading {d}.", "The heading {c} turns into {d}."),
        ("Retitle heading {c}, making it {d}.", "Substitute heading {d} in place of {c}."),
    ),
    "drop": (
        ("Purge the column headed {c}.", "No column headed {c} may remain."),
        ("Expunge {c} along with its whole column.", "Strip out whatever stands beneath {c}, heading included."),
    ),
    "place": (
        ("Concerning page {s}. {a}", "Page {s} is meant here. {a}"),
        ("Regarding tab {s}. {a}", "Within tab {s}, proceed as follows. {a}"),
    ),
    "two": (
        ("{a} Thereafter this. {b}", "To start: {a} To finish: {b}"),
        ("{a} Subsequently: {b}", "Stage one. {a} Stage two. {b}"),
    ),
    "three": (
        ("{a} Thereafter this. {b} To finish: {c}", "To start: {a} In the middle: {b} To finish: {c}"),
        ("{a} Subsequently: {b} Ultimately: {c}", "Stage one. {a} Stage two. {b} Stage three. {c}"),
    ),
    "either": (
        ("{a} Thereafter, whichever applied: {b}", "To start: {a} To finish, regardless of that outcome: {b}"),
        ("{a} In either case, subsequently: {b}", "Stage one. {a} Stage two, on either outcome. {b}"),
    ),
    "if": (
        ("Suppose {x} tops {n}: {a} Failing that: {b}", "Weigh {x} against {n}. On more: {a} On anything else: {b}"),
        (
            "Provided {x} turns out beyond {n}: {a} Conversely: {b}",
            "Assess whether {x} outstrips {n}. Confirmed: {a} Denied: {b}",
        ),
    ),
}
WORDINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    meaning: {"train": _TRAINING[meaning], "valid": valid, "test": test} for meaning, (valid, test) in _HELD_OUT.items()
}
"""Meaning to split to wordings."""


def say(rng: Rng, split: str, meaning: str, **slots: str) -> str:
    """Draw the words of a part of a sentence."""
    return expand(rng, rng.choice(WORDINGS[meaning][split])).format(**slots)


def sentence(rng: Rng, split: str, meaning: str, **slots: str) -> str:
    """Draw a sentence."""
    text = say(rng, split, meaning, **slots)
    return text[:1].upper() + text[1:]
