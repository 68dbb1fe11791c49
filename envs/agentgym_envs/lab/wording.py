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
        (
            "Have the {s} reach its boiling point and become vapour; focus on it as well.",
            "Raise the {s} past its boiling point, so that only vapour remains. It also belongs in your focus.",
            "The {s} leaves the cup as vapour in this experiment. Bring that about, with the {s} in focus.",
        ),
        (
            "Your experiment: {s}, boiled until nothing liquid is left. Do not forget to focus on the {s}.",
            "Nothing liquid of the {s} may be left over: drive it off as vapour. Give the {s} your focus as well.",
            "Let heat drive the {s} into the air. Without a focus on the {s} the experiment is void.",
        ),
    ),
    "melt": (
        (
            "Have the {s} reach its melting point and flow; focus on it as well.",
            "Raise the {s} past its melting point, so that nothing firm remains. It also belongs in your focus.",
            "The {s} loses its firm shape in this experiment. Bring that about, with the {s} in focus.",
        ),
        (
            "Your experiment: {s}, molten until nothing solid is left. Do not forget to focus on the {s}.",
            "Nothing solid of the {s} may be left over: bring it to a flow. Give the {s} your focus as well.",
            "Let heat take the {s} apart until it can be poured. Without a focus on the {s} the experiment is void.",
        ),
    ),
    "freeze": (
        (
            "Have the {s} fall to its freezing point and set; focus on it as well.",
            "Lower the {s} past its freezing point, so that nothing runny remains. It also belongs in your focus.",
            "The {s} becomes a firm block in this experiment. Bring that about, with the {s} in focus.",
        ),
        (
            "Your experiment: {s}, frozen until nothing liquid is left. Do not forget to focus on the {s}.",
            "Nothing liquid of the {s} may be left over: cold shall set it. Give the {s} your focus as well.",
            "Let cold hold the {s} fast until it cannot be poured. Without a focus on the {s} the experiment is void.",
        ),
    ),
    "change state": (
        (
            "Have the {s} leave its present state of matter for any other; focus on it as well.",
            "Pick any phase that the {s} is not in now, and bring it there. It also belongs in your focus.",
            "The {s} passes from one phase to the next in this experiment. Bring that about, with the {s} in focus.",
        ),
        (
            "Your experiment: {s} in any state of matter but its present one. Do not forget to focus on the {s}.",
            "The {s} may not stay the solid or liquid that it is. Give the {s} your focus as well.",
            "Let heat or cold take the {s} to another phase. Without a focus on the {s} the experiment is void.",
        ),
    ),
    "temperature": (
        (
            "Report the temperature of the {s} by a focus: the {a} means greater than {n} degrees, the {b} "
            "anything else.",
            "A reading of the {s} decides: more than {n} degrees sends your focus to the {a}, any other reading "
            "to the {b}.",
            "The {a} stands for the {s} being hotter than {n} degrees, the {b} for it being cooler or equal. "
            "Take a reading, then focus.",
        ),
        (
            "Hold a thermometer to the {s}. Beyond {n} degrees your focus belongs on the {a}, up to {n} on the {b}.",
            "Compare the warmth of the {s} with {n} degrees by thermometer. A focus on the {a} says greater, one "
            "on the {b} says not greater.",
            "Does the {s} exceed {n} degrees? Yes means a focus on the {a}, no means one on the {b}; a "
            "thermometer knows.",
        ),
    ),
    "melting": (
        (
            "Report the melting point of the {s} by a focus: the {a} means greater than {n} degrees, the {b} "
            "anything else.",
            "A reading of the melting {s} decides: more than {n} degrees sends your focus to the {a}, any other "
            "reading to the {b}.",
            "The {a} stands for a melting point of the {s} beyond {n} degrees, the {b} for a lower or equal one. "
            "Take a reading, then focus.",
        ),
        (
            "Watch the {s} melt, thermometer in hand. Beyond {n} degrees your focus belongs on the {a}, up to {n}"
            " on the {b}.",
            "Compare the melting point of the {s} with {n} degrees by thermometer. A focus on the {a} says "
            "greater, one on the {b} says not greater.",
            "Does the melting point of the {s} exceed {n} degrees? Yes means a focus on the {a}, no means one on "
            "the {b}.",
        ),
    ),
    "power": (
        (
            "With the {s} in focus, complete a loop of wires so that it operates.",
            "Close a loop of parts with the {s} among them until it operates, and keep your focus on it.",
            "Electricity shall reach the {s}. It takes your focus and a closed loop of parts.",
        ),
        (
            "Supply the {s} with electricity, and let your focus be on it.",
            "An electric loop shall bring the {s} into operation. Give the {s} your focus.",
            "Without electricity the {s} is idle: end that by wires, with your focus on the {s}.",
        ),
    ),
    "source": (
        (
            "With the {s} in focus, complete a loop of wires so that a {w} supply operates it.",
            "Close a loop of parts, the {s} and a {w} supply among them, until it operates, and keep your focus on it.",
            "Electricity of {w} origin shall reach the {s}. It takes your focus and a closed loop of parts.",
        ),
        (
            "Supply the {s} with electricity of {w} origin, and let your focus be on it.",
            "An electric loop with a {w} supply shall bring the {s} into operation. Give the {s} your focus.",
            "Without electricity the {s} is idle: end that by a {w} supply and wires, with your focus on the {s}.",
        ),
    ),
    "conduct": (
        (
            "Is the {s} a path for electricity? Report by a focus: the {a} means yes, the {b} means no.",
            "A closed loop with the {s} and a lamp decides: light sends your focus to the {a}, darkness to the {b}.",
            "The {a} stands for electricity passing the {s}, the {b} for its being stopped. Try it out, then focus.",
        ),
        (
            "Put the {s} into a circuit. As a conductor it calls for a focus on the {a}, as an insulator for one "
            "on the {b}.",
            "Compare the {s} with a wire: does it pass electricity on? A focus on the {a} says it does, one on "
            "the {b} says it does not.",
            "Would a lamp shine if the {s} were part of its loop? Yes means a focus on the {a}, no means one on "
            "the {b}.",
        ),
    ),
    "find": (
        (
            "Discover {c} small enough to carry, set your focus on it, and store it in the {a}.",
            "Somewhere here is {c} that fits into your hands. It takes your focus and ends in the {a}.",
            "Fill the {a} with {c}, which takes your focus before.",
        ),
        (
            "In the {a} there shall lie {c} on which you have focused before.",
            "Declare {c} by a focus and leave it in the {a}.",
            "Of the things around, {c} belongs in the {a}; declare which one by a focus before.",
        ),
    ),
    "longest": (
        (
            "Set your focus on whichever animal reaches the greatest age.",
            "Rank the animals by their life spans and put your focus on the top one.",
            "The oldest age that any animal here can reach: whose is it? Your focus tells.",
        ),
        (
            "Of all animals here, one outlives the others: it deserves your focus.",
            "A focus on the animal whose years are most numerous, please.",
            "Order the animals by age at death. The last one to die deserves your focus.",
        ),
    ),
    "shortest": (
        (
            "Set your focus on whichever animal reaches only the smallest age.",
            "Rank the animals by their life spans and put your focus on the bottom one.",
            "The earliest end that any animal here must expect: whose is it? Your focus tells.",
        ),
        (
            "Of all animals here, one is outlived by the others: it deserves your focus.",
            "A focus on the animal whose years are fewest, please.",
            "Order the animals by age at death. The first one to die deserves your focus.",
        ),
    ),
    "both": (
        (
            "Set your focus on whichever animal reaches the greatest age, next on that with the smallest age.",
            "Rank the animals by their life spans. The top one takes your focus, the bottom one follows.",
            "Whose life span here is greatest, and whose smallest? Your focus tells, the greatest before the smallest.",
        ),
        (
            "One animal outlives all others, one is outlived by all: they deserve your focus, one after the other.",
            "A focus on the animal whose years are most numerous, please, and another on that whose years are fewest.",
            "Order the animals by age at death. The last one to die deserves your focus, and next the first one "
            "to die.",
        ),
    ),
    "grow": (
        (
            "Be a gardener until {an_s} {last} stands before you, and set your focus on it.",
            "From seed and water comes {an_s} {last}, which takes your focus once it is there.",
            "Sow, water, be patient: {an_s} {last} is to appear and to take your focus.",
        ),
        (
            "{An_s} {last} of your own growing deserves your focus.",
            "Nature and you make {an_s} {last} together; declare it by a focus.",
            "A garden without {s} is poor: let a seed become {an_s} {last}, and declare it by a focus.",
        ),
    ),
    "life": (
        (
            "Set your focus on {s} at every age, in due order: {first} at the start, {last} at the end.",
            "One focus per age of {s}: begin with the {first}, finish with the {last}, skip none.",
            "As {s} ages from {first} to {last}, every age takes your focus in turn.",
        ),
        (
            "Accompany {s} through its life. Each age deserves your focus, the {first} before all, the {last} at "
            "the end.",
            "Be there at each age of {s}, {first}, {last} and all between, with a focus on every one as it comes.",
            "Declare by a focus what {s} is at present, again at each new age, {first} up to {last}.",
        ),
    ),
    "trait": (
        (
            "Breed {s} and report by a focus what its offspring tells of the trait {t}: the {a} means dominant, "
            "the {b} recessive.",
            "Breed {s} and look at the offspring. The trait {t} showing there sends your focus to the {a}, its "
            "absence to the {b}.",
            "The {a} stands for {t} being dominant in {s}, the {b} for it being recessive. Breed, then focus.",
        ),
        (
            "Mendel asks about {s}. Should the trait {t} prove dominant, your focus belongs on the {a}, should it"
            " prove recessive, on the {b}.",
            "Do the children of both kinds of {s} have the trait {t}? Yes means a focus on the {a}, no means one "
            "on the {b}.",
            "Compare {s} with its parents: a focus on the {a} says that the trait {t} wins, one on the {b} that "
            "it loses.",
        ),
    ),
    "chemicals": (
        (
            "A reaction yields {s}. Carry it out and set your focus on the product.",
            "Somewhere a sheet tells how {s} comes about. React the right substances and put your focus on the "
            "product.",
            "Some reaction of the supplies results in {s}. It takes your focus once it exists.",
        ),
        (
            "Be a chemist until there is {s}, which deserves your focus.",
            "The supplies hold no {s} yet. Let them react to it, and declare it by a focus.",
            "Read up on {s}, bring about the reaction, and declare the product by a focus.",
        ),
    ),
    "paint": (
        (
            "Blend what is in the pots to {s} and set your focus on the blend.",
            "Combine colours until {s} results, and put your focus on it.",
            "There are pots, but none of {s}. It takes your focus once it exists.",
        ),
        (
            "Be a painter who has run out of {s}: blend some, it deserves your focus.",
            "Two or more colours make {s}. Find them in the pots and declare the blend by a focus.",
            "The palette lacks {s}: add it, and declare it by a focus.",
        ),
    ),
    "steepest": (
        (
            "A block slides down {s}. Set your focus on whichever has the greatest angle, once all were timed.",
            "Rank {s} by their slope, with a block and a stopwatch. The greatest slope takes your focus.",
            "On {s} a block slides down at different speeds. Put your focus on whichever rises at the greatest angle.",
        ),
        (
            "Compare {s} by block and stopwatch. The one with the greatest slope deserves your focus.",
            "Time decides which of {s} comes closest to upright. Declare it by a focus.",
            "Where does a block race down fastest, on {s}? Their angles tell them apart: declare the greatest by "
            "a focus.",
        ),
    ),
    "friction": (
        (
            "A block slides down {s}. Set your focus on whichever brakes it hardest, once all were timed.",
            "Rank {s} by how they hold a block back, with a stopwatch. The strongest hold takes your focus.",
            "On {s} a block slides down at different speeds. Put your focus on whichever surface resists it most.",
        ),
        (
            "Compare {s} by block and stopwatch. The one that slows the block most deserves your focus.",
            "Time decides which of {s} lets a block go most reluctantly. Declare it by a focus.",
            "Where does a block creep down slowest, on {s}? Their surfaces tell them apart: declare the roughest "
            "by a focus.",
        ),
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
