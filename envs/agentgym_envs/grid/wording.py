"""How missions are worded: test tasks in BabyAI's own grammar, training tasks in many others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentgym_envs.grid.mission import Description, Mission, Verb, join
from agentgym_py.env.wording import expand
from agentgym_py.rng import Rng

_GO_TO, _PICK_UP, _OPEN, _PUT = Verb.GO_TO, Verb.PICK_UP, Verb.OPEN, Verb.PUT

COLORS = ("red", "blue", "green", "purple", "yellow", "grey")
"""BabyAI's, in valid and test tasks."""
_MORE_COLORS = (
    "amber aqua azure beige black bronze brown burgundy coral cream crimson cyan emerald gold gray indigo ivory jade "
    "khaki lavender lemon lilac lime magenta maroon mauve mint navy ochre olive orange peach pearl pink plum rose ruby "
    "rust salmon sand scarlet silver tan teal turquoise umber vanilla violet white"
)
TRAINING_COLORS = (*COLORS, *_MORE_COLORS.split())

CLAUSES: Mapping[str, Mapping[Verb, Sequence[str]]] = {
    "train": {
        _GO_TO: (
            "[go|walk|move|head|run|step|come] over to {a}",
            "[go|walk|step|move] [up to|right up to|close to|towards] {a}[ and face it|]",
            "[find|locate|look for|search for|seek out|hunt for|track down] {a}[ and stand before it| and face it|]",
            "[get|make your way|find your way|take yourself|bring yourself|travel|navigate|proceed] to {a}",
            "[visit|approach|arrive at|come to] {a}",
            "[stand|stop|be|wait|place yourself|position yourself] [before|right before|facing|face to face with] {a}",
            "[turn to|face|look straight at] {a} [from the next cell|from one step away|close by|from right beside it]",
            "[be found|end up|finish up] [before|facing] {a}",
        ),
        _PICK_UP: (
            "[take|get|fetch|collect|grab|seize|gather|obtain|acquire|secure|retrieve] {a}",
            "[take|get|have|hold] {a} [in your hands|in hand|into your hands]",
            "[pick|snatch|scoop|gather|take] {a} up",
            "[get|lay|take] hold of {a}",
            "[carry|hold on to|take along|take with you] {a}",
            "[go and get|go and take|find and take|look for and take|come by] {a}",
            "[take|pick|raise] {a} from the [floor|ground]",
        ),
        _OPEN: (
            "[open up|throw open|push open|pull open|swing open|force open|draw open] {a}",
            "[push|pull|swing|slide|throw|draw] {a} open",
            "[make sure that|see to it that|see that] {a} [is|stands|gets] [opened|opened up]",
            "[have|find and have|leave] {a} [opened|standing open]",
            "[undo|unbolt|unlatch] {a}",
            "[go and|find and|go over and] open up {a}",
        ),
        _PUT: (
            "[place|lay|drop|leave|deposit|stand|position] {a} [next to|beside|right next to|alongside] {b}",
            "[move|bring|carry|take|deliver|transport] {a} to [the side of|a place beside|a place next to] {b}",
            "[bring|put] {a} and {b} [together|side by side], by moving the [first|first one]",
            "[make|let] {a} [a neighbour of|lie beside|lie next to|stand beside|touch] {b}",
            "[drop|put down|lay down] {a} [at the side of|by|close beside|directly beside|touching] {b}",
            "[take|pick] {a} [up |][and|then] [drop|leave|place] it [next to|beside|alongside] {b}",
        ),
    },
    "valid": {
        _GO_TO: ("reach {a}",),
        _PICK_UP: ("lift {a}",),
        _OPEN: ("get {a} open",),
        _PUT: ("set {a} down by the side of {b}",),
    },
    "test": {
        _GO_TO: ("go to {a}",),
        _PICK_UP: ("pick up {a}",),
        _OPEN: ("open {a}",),
        _PUT: ("put {a} next to {b}",),
    },
}
"""Wordings of a clause by split; `{a}` and `{b}` are things."""

FORMS: Mapping[str, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
    "train": (
        (
            "{a}[ and also| and as well| and besides| as well as|, and likewise] {b}",
            "both {a} and {b}[ in any order|, in whatever order|]",
            "{a}; {b}[; in any order| too| as well]",
            "{a} [plus|along with this] {b}",
        ),
        (
            "[first|initially|first of all][,|] {a}[;|,] [then|after that|afterwards|next|later][,|] {b}",
            "{a}[.|;] [When that is done|After that|Afterwards|Next|Thereafter|Having done so][,|] {b}",
            "{a} [before you|and only then|and when you are done|and thereafter] {b}",
            "1. {a} 2. {b}",
        ),
        (
            "{a}[, but first|, but before that|; before that[,|]|, yet first of all] {b}",
            "[before you|before you may] {a}, {b}",
            "{a} [when|as soon as|once] you have managed to {b}",
            "{a}[;|,] [that comes second|as the second task|last]; [begin with this:|start thus:|first] {b}",
        ),
    ),
    "valid": (("{a}, and do this too: {b}",), ("{a}, next {b}",), ("{a}, only once you {b}",)),
    "test": (("{a} and {b}",), ("{a}, then {b}",), ("{a} after you {b}",)),
}
"""Wordings of `and`, `then` and `after you` by split; `{a}` and `{b}` are as in `join`."""

WHOLE: Mapping[str, Sequence[str]] = {
    "train": (
        "[|Please |Now |Kindly |Now please ]{m}.",
        "{m}[, please|, will you|, if you can|][.|!]",
        "[Your task|Your mission|Your job|The goal|The mission|The order|Your goal|The task|The plan] is to {m}.",
        "[Goal|Task|Mission|Order|To do|Instruction|Wanted]: {m}[.|]",
        "[You must|You have to|You should|You need to|You are to|You are asked to|I want you to|I ask you to|Try to|We "
        "need you to|Be so kind as to] {m}.",
        "[Can|Could|Will|Would] you [please |]{m}?",
        "[The owner|Somebody|A friend|The guide|A voice|Your boss] [tells|asks|begs|orders|wants] you to {m}.",
    ),
    "valid": ("Mission for you: {m}.",),
    "test": ("{m}",),
}

PLACES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "train": {
        "left": ("[that is |]to your left", "to the left[ of you|]", "on the left[ side|-hand side]", "left of you"),
        "right": ("[that is |]to your right", "to the right[ of you|]", "on the right[ side|-hand side]"),
        "front": ("ahead of you", "[that is |]ahead", "before you", "that you face[ now|]", "at your front"),
        "behind": ("at your back", "to your rear", "behind your back", "in back of you", "[that is |]at the rear"),
    },
    "valid": {
        "left": ("at your left hand",),
        "right": ("at your right hand",),
        "front": ("straight before your eyes",),
        "behind": ("that lies behind",),
    },
    "test": {
        "left": ("on your left",),
        "right": ("on your right",),
        "front": ("in front of you",),
        "behind": ("behind you",),
    },
}
"""Wordings of a location by split."""

OBJECTS = {"train": "[thing|item|article]", "valid": "object", "test": "object"}
"""Wordings of a thing of any kind."""


def word(rng: Rng, split: str, mission: Mission) -> str:
    """Word a mission in the manner of a split."""

    def thing(description: Description, count: int) -> str:
        words = [description.color, description.kind or expand(rng, OBJECTS[split])]
        if description.location:
            words.append(expand(rng, rng.choice(PLACES[split][description.location])))
        text = " ".join(word for word in words if word)
        return f"the {text}" if count == 1 else f"{'an' if text[0] in 'aeiou' and split != 'test' else 'a'} {text}"

    def clause(index: int) -> str:
        demand = mission.clauses[index]
        text = expand(rng, rng.choice(CLAUSES[split][demand.verb]))
        first = thing(demand.thing, len(demand.things))
        return text.format(a=first, b=thing(demand.other, len(demand.others)) if demand.other else "")

    forms = _forms(rng, split, mission)
    text = expand(rng, rng.choice(WHOLE[split])).format(m=join(mission, clause, forms))
    return text if split == "test" else text[0].upper() + text[1:]


def _forms(rng: Rng, split: str, mission: Mission) -> tuple[str, str, str]:
    """Draw the forms of `and`, `then` and `after you`."""
    both, then, after = FORMS[split]
    if len(mission.parts) > 1:  # a semicolon within a part would seem to end it
        both = [form for form in both if ";" not in form]
    return expand(rng, rng.choice(both)), expand(rng, rng.choice(then)), expand(rng, rng.choice(after))


def colors(rng: Rng, split: str) -> tuple[str, ...]:
    """Draw six colours for a task: BabyAI's, or any of many in training."""
    return tuple(rng.sample(TRAINING_COLORS, len(COLORS))) if split == "train" else COLORS
