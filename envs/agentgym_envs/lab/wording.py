"""Requests; each split has wordings of its own."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_envs.lab import training_wording
from agentgym_envs.lab.families import breeding, electricity, finding, growing, measuring, mixing, planes
from agentgym_envs.lab.site import Goal
from agentgym_envs.lab.words import with_article
from agentgym_py.env.wording import expand
from agentgym_py.rng import Rng

_HELD_OUT: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "boil": (
        ("Have the {s} reach its boiling point and become vapour; focus on it as well.",),
        ("Your experiment: {s}, boiled until nothing liquid is left. Do not forget to focus on the {s}.",),
    ),
    "melt": (
        ("Have the {s} reach its melting point and flow; focus on it as well.",),
        ("Your experiment: {s}, molten until nothing solid is left. Do not forget to focus on the {s}.",),
    ),
    "freeze": (
        ("Have the {s} fall to its freezing point and set; focus on it as well.",),
        ("Your experiment: {s}, frozen until nothing liquid is left. Do not forget to focus on the {s}.",),
    ),
    "change state": (
        ("Have the {s} leave its present state of matter for any other; focus on it as well.",),
        ("Your experiment: {s} in any state of matter but its present one. Do not forget to focus on the {s}.",),
    ),
    "temperature": (
        (
            "Report the temperature of the {s} by a focus: the {a} means greater than {n} degrees, the {b} anything "
            "else.",
        ),
        ("Hold a thermometer to the {s}. Beyond {n} degrees your focus belongs on the {a}, up to {n} on the {b}.",),
    ),
    "melting": (
        (
            "Report the melting point of the {s} by a focus: the {a} means greater than {n} degrees, the {b} "
            "anything else.",
        ),
        (
            "Watch the {s} melt, thermometer in hand. Beyond {n} degrees your focus belongs on the {a}, up to {n} on "
            "the {b}.",
        ),
    ),
    "power": (
        ("With the {s} in focus, complete a loop of wires so that it operates.",),
        ("Supply the {s} with electricity, and let your focus be on it.",),
    ),
    "source": (
        ("With the {s} in focus, complete a loop of wires so that a {w} supply operates it.",),
        ("Supply the {s} with electricity of {w} origin, and let your focus be on it.",),
    ),
    "conduct": (
        ("Is the {s} a path for electricity? Report by a focus: the {a} means yes, the {b} means no.",),
        (
            "Put the {s} into a circuit. As a conductor it calls for a focus on the {a}, as an insulator for one on "
            "the {b}.",
        ),
    ),
    "find": (
        ("Discover {c} small enough to carry, set your focus on it, and store it in the {a}.",),
        ("In the {a} there shall lie {c} on which you have focused before.",),
    ),
    "longest": (
        ("Set your focus on whichever animal reaches the greatest age.",),
        ("Of all animals here, one outlives the others: it deserves your focus.",),
    ),
    "shortest": (
        ("Set your focus on whichever animal reaches only the smallest age.",),
        ("Of all animals here, one is outlived by the others: it deserves your focus.",),
    ),
    "both": (
        ("Set your focus on whichever animal reaches the greatest age, next on that with the smallest age.",),
        ("One animal outlives all others, one is outlived by all: they deserve your focus, one after the other.",),
    ),
    "grow": (
        ("Be a gardener until {an_s} {last} stands before you, and set your focus on it.",),
        ("{An_s} {last} of your own growing deserves your focus.",),
    ),
    "life": (
        ("Set your focus on {s} at every age, in due order: {first} at the start, {last} at the end.",),
        (
            "Accompany {s} through its life. Each age deserves your focus, the {first} before all, the {last} at the "
            "end.",
        ),
    ),
    "trait": (
        (
            "Breed {s} and report by a focus what its offspring tells of the trait {t}: the {a} means dominant, the "
            "{b} recessive.",
        ),
        (
            "Mendel asks about {s}. Should the trait {t} prove dominant, your focus belongs on the {a}, should it "
            "prove recessive, on the {b}.",
        ),
    ),
    "chemicals": (
        ("A reaction yields {s}. Carry it out and set your focus on the product.",),
        ("Be a chemist until there is {s}, which deserves your focus.",),
    ),
    "paint": (
        ("Blend what is in the pots to {s} and set your focus on the blend.",),
        ("Be a painter who has run out of {s}: blend some, it deserves your focus.",),
    ),
    "steepest": (
        ("A block slides down {s}. Set your focus on whichever has the greatest angle, once all were timed.",),
        ("Compare {s} by block and stopwatch. The one with the greatest slope deserves your focus.",),
    ),
    "friction": (
        ("A block slides down {s}. Set your focus on whichever brakes it hardest, once all were timed.",),
        ("Compare {s} by block and stopwatch. The one that slows the block most deserves your focus.",),
    ),
}
WORDINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    key: {"train": training_wording.WORDINGS[key], "valid": valid, "test": test}
    for key, (valid, test) in _HELD_OUT.items()
}
"""Meaning to split to wordings."""
_MEANINGS: Mapping[str, str] = {
    measuring.TEMPERATURE: "temperature", measuring.MELTING: "melting", measuring.UNKNOWN: "melting",
    electricity.POWER: "power", electricity.SOURCE: "source",
    electricity.CONDUCTS: "conduct", electricity.UNKNOWN: "conduct",
    **dict.fromkeys(finding.FIND, "find"),
    finding.LONGEST: "longest", finding.SHORTEST: "shortest", finding.BOTH: "both",
    growing.PLANT: "grow", growing.FRUIT: "grow", growing.PLANT_LIFE: "life", growing.ANIMAL_LIFE: "life",
    breeding.KNOWN: "trait", breeding.UNKNOWN: "trait",
    mixing.CHEMICALS: "chemicals", mixing.SECONDARY: "paint", mixing.TERTIARY: "paint",
    planes.ANGLE: "steepest", planes.FRICTION: "friction", planes.UNKNOWN: "friction",
}  # fmt: skip
"""Task kind to meaning, if that is not its name."""


def request(rng: Rng, split: str, goal: Goal) -> str:
    """Draw the words in which a task asks for its goal."""
    meaning = _MEANINGS.get(goal.kind, goal.kind)
    slots = {"c": goal.kind.removeprefix("find "), **goal.slots}
    if "s" in slots:
        slots["an_s"] = with_article(slots["s"])
        slots["An_s"] = slots["an_s"].capitalize()
    return expand(rng, rng.choice(WORDINGS[meaning][split])).format(**slots)
