"""Word problems: stories in which every sentence changes one quantity by some calculations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from agentgym_envs.calculator.expressions import evaluate, format_number
from agentgym_envs.calculator.words import FOODS, GOODS, IRRELEVANT, NAMES, TOLERANCE_NOTES, WORDINGS
from agentgym_py.env.generated import Draft
from agentgym_py.env.wording import expand, made_up_name
from agentgym_py.rng import Rng

TOLERANCE = Fraction(1, 100)
STEPS: Mapping[str, tuple[int, int]] = {"easy": (1, 2), "medium": (3, 5), "hard": (6, 8)}
"""Minimum and maximum number of calculations, by difficulty."""
ASIDES: Mapping[str, tuple[int, int]] = {"easy": (0, 1), "medium": (1, 2), "hard": (2, 3)}
"""Minimum and maximum number of irrelevant sentences, by difficulty."""
_TRIES = 20
_MADE_UP = 0.4
"""Share of made-up words in training problems, so that words must be read."""
_POOLS = {"name": NAMES, "goods": GOODS, "food": FOODS}
_USED = {"stock": ("name", "goods"), "food": ("name", "food"), "money": ("name",), "trip": ("name",), "area": ("name",)}
"""Words that a theme needs."""
_HELD_OUT_WORDS = frozenset(
    word.lower().removesuffix("s") for pool in _POOLS.values() for split in ("valid", "test") for word in pool[split]
)
REFERS_BACK = re.compile(
    r"\b(?:this|these|they|them|it|same|(?:after|all|is|does) that|that (?:far|distance|amount))\b", re.IGNORECASE
)
"""Words that mean the sentence before."""
_MAX_VALUE, _MAX_DENOMINATOR = 100_000, 1000
"""Quantities stay below the first, with at most three decimals."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The hidden solution of a task."""

    calculations: tuple[str, ...]
    """One per step; the value of the last is the answer."""
    values: tuple[Fraction, ...]
    """The value of each calculation."""
    reasons: tuple[str, ...]
    """The quantity so far, and what each calculation does: `So far 144; 4 times as many.`"""
    tolerance: Fraction
    """0 if the answer must be exact."""
    unit: str
    """Unit of the answer."""

    @property
    def answer(self) -> Fraction:
        """The right answer."""
        return self.values[-1]


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a story: its calculations use its numbers (from `_DRAWS`), {x} and {_}.

    {x} is the quantity so far, {_} the value of the previous calculation.
    """

    key: str
    """Key in `WORDINGS`."""
    calculations: tuple[str, ...] = ()
    unit: str = ""
    """Unit of the answer, if the sentence is the question."""
    rough: bool = False
    """Whether the answer may be a long decimal."""
    start_number: str = ""
    """The number that is the initial quantity, if nothing has to be calculated."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Sentences that fit together."""

    starts: tuple[Sentence, ...]
    middles: tuple[Sentence, ...]
    ends: tuple[Sentence, ...]
    whole: bool = False
    """Whether the quantity is an integer, a number of things."""


_DRAWS: Mapping[str, Mapping[str, tuple[str, int, int]]] = {
    "": {
        "a": ("1", 3, 24), "b": ("1", 3, 24), "k": ("1", 2, 6), "p": ("0.25", 5, 48), "t": ("5", 1, 8),
        "g": ("5", 4, 60),
        "m": ("3", 4, 30), "h": ("0.5", 3, 12), "v": ("10", 3, 12), "l": ("0.5", 8, 18), "w": ("50", 3, 30),
        "c": ("10", 15, 60), "d": ("0.5", 1, 4), "e": ("0.5", 1, 4), "s": ("0.25", 5, 12),
    },
    "stock has": {"a": ("1", 30, 200)}, "stock more": {"a": ("1", 3, 90)}, "stock give": {"a": ("1", 3, 60)},
    "stock percent": {"p": ("5", 1, 16)}, "stock one in": {"k": ("1", 3, 10)}, "stock share": {"k": ("1", 3, 12)},
    "money has": {"a": ("5", 20, 200)}, "money wage": {"a": ("1", 3, 8), "p": ("0.5", 20, 40)},
    "money earn": {"p": ("0.5", 10, 160)}, "money weeks": {"a": ("1", 3, 8)}, "money spend": {"p": ("0.25", 10, 160)},
    "money buy": {"a": ("1", 2, 6)}, "money share": {"k": ("1", 3, 9)}, "trip far": {"a": ("1", 12, 160)},
    "trip more": {"a": ("1", 3, 60)}, "trip cost": {"p": ("0.05", 30, 42)}, "food recipe": {"g": ("10", 12, 90)},
    "food has": {"g": ("50", 10, 60)}, "food percent": {"t": ("5", 1, 14)},
}  # fmt: skip
"""For each number of a sentence its unit, and the minimum and maximum multiple of it; defaults under ""."""


@cache
def _numbers(key: str) -> Mapping[str, tuple[str, ...]]:
    """The possible values of each number of a sentence; all its wordings have the same numbers."""
    draws = {**_DRAWS[""], **_DRAWS.get(key, {})}
    return {
        name: tuple(format_number(Fraction(step) * number) for number in range(low, high + 1))
        for name, (step, low, high) in draws.items()
        if f"{{{name}}}" in WORDINGS[key]["train"][0]
    }


THEMES: Mapping[str, Theme] = {
    "stock": Theme(
        (Sentence("stock has", start_number="a"), Sentence("stock boxes", ("{a} * {b}",))),
        (Sentence("stock more", ("{x} + {a}",)), Sentence("stock packs", ("{a} * {b}", "{x} + {_}")),
         Sentence("stock give", ("{x} - {a}",)), Sentence("stock percent", ("{x} * (1 - {p} / 100)",)),
         Sentence("stock one in", ("{x} * (1 - 1 / {k})",)), Sentence("stock times", ("{x} * {k}",))),
        (Sentence("stock count", (), "goods"), Sentence("stock share", ("{x} / {k}",), "goods"),
         Sentence("stock price", ("{x} * {p}",), "euros"),
         Sentence("stock weight", ("{x} * {g}", "{_} / 1000"), "kilograms"),
         Sentence("stock time", ("{x} * {m}", "{_} / 60"), "hours", rough=True)),
        whole=True,
    ),
    "money": Theme(
        (Sentence("money has", start_number="a"), Sentence("money wage", ("{a} * {b}", "{_} * {p}"))),
        (Sentence("money earn", ("{x} + {p}",)), Sentence("money weeks", ("{a} * {p}", "{x} + {_}")),
         Sentence("money spend", ("{x} - {p}",)), Sentence("money buy", ("{a} * {p}", "{x} - {_}")),
         Sentence("money tax", ("{x} * (1 - {t} / 100)",)), Sentence("money interest", ("{x} * (1 + {t} / 100)",))),
        (Sentence("money left", (), "euros"), Sentence("money share", ("{x} / {k}",), "euros", rough=True),
         Sentence("money cents", ("{x} * 100",), "cents")),
    ),
    "trip": Theme(
        (Sentence("trip far", start_number="a"), Sentence("trip hours", ("{h} * {v}",))),
        (Sentence("trip leg", ("{m} / 60", "{_} * {v}", "{x} + {_}")), Sentence("trip more", ("{x} + {a}",)),
         Sentence("trip walk", ("{w} / 1000", "{x} + {_}")), Sentence("trip back", ("{x} * 2",)),
         Sentence("trip days", ("{x} * {k}",))),
        (Sentence("trip length", (), "kilometres"), Sentence("trip fuel", ("{x} / 100", "{_} * {l}"), "litres"),
         Sentence("trip cost", ("{x} / 100", "{_} * {l}", "{_} * {p}"), "euros"),
         Sentence("trip time", ("{x} / {v}",), "hours", rough=True)),
    ),
    "area": Theme(
        (Sentence("area wall", ("{a} * {b}",)), Sentence("area floor", ("{c} / 100", "{_} * {a}"))),
        (Sentence("area without", ("{d} * {e}", "{x} - {_}")), Sentence("area and", ("{d} * {e}", "{x} + {_}")),
         Sentence("area rooms", ("{x} * {k}",)), Sentence("area waste", ("{x} * (1 + {t} / 100)",))),
        (Sentence("area size", (), "square metres"), Sentence("area price", ("{x} * {p}",), "euros"),
         Sentence("area paint", ("{x} / {k}",), "litres", rough=True)),
    ),
    "food": Theme(
        (Sentence("food has", start_number="g"), Sentence("food recipe", ("{g} / {k}", "{_} * {b}"))),
        (Sentence("food more", ("{s} * 1000", "{x} + {_}")), Sentence("food spoons", ("{a} * {b}", "{x} + {_}")),
         Sentence("food less", ("{x} - {w}",)), Sentence("food percent", ("{x} * (1 - {t} / 100)",)),
         Sentence("food times", ("{x} * {k}",))),
        (Sentence("food grams", (), "grams"), Sentence("food kilograms", ("{x} / 1000",), "kilograms"),
         Sentence("food bowls", ("{x} / {k}",), "grams", rough=True),
         Sentence("food cost", ("{x} / 1000", "{_} * {p}"), "euros")),
    ),
}  # fmt: skip


GISTS: Mapping[str, tuple[str, ...]] = {
    "stock boxes": ("{a} lots of {b}",),
    "stock more": ("{a} more",),
    "stock packs": ("{a} lots of {b}", "so many more",),
    "stock give": ("{a} fewer",),
    "stock percent": ("{p} percent less",),
    "stock one in": ("1 in {k} is gone",),
    "stock times": ("{k} times as many",),
    "stock share": ("shared by {k}",),
    "stock price": ("{p} euros each",),
    "stock weight": ("{g} grams each", "in kilograms",),
    "stock time": ("{m} minutes each", "in hours",),
    "money wage": ("{a} hours on {b} days", "{p} euros an hour",),
    "money earn": ("{p} more",),
    "money weeks": ("{a} times {p}", "so much more",),
    "money spend": ("{p} less",),
    "money buy": ("{a} times {p}", "so much less",),
    "money tax": ("{t} percent less",),
    "money interest": ("{t} percent more",),
    "money share": ("shared by {k}",),
    "money cents": ("in cents",),
    "trip hours": ("{h} hours at {v}",),
    "trip leg": ("{m} minutes in hours", "at {v} an hour", "so much more",),
    "trip more": ("{a} more",),
    "trip walk": ("{w} metres in kilometres", "so much more",),
    "trip back": ("there and back",),
    "trip days": ("{k} times",),
    "trip fuel": ("hundreds of kilometres", "{l} litres each",),
    "trip cost": ("hundreds of kilometres", "{l} litres each", "{p} euros a litre",),
    "trip time": ("at {v} an hour",),
    "area wall": ("{a} by {b}",),
    "area floor": ("{c} centimetres in metres", "by {a}",),
    "area without": ("{d} by {e}", "so much less",),
    "area and": ("{d} by {e}", "so much more",),
    "area rooms": ("{k} times",),
    "area waste": ("{t} percent more",),
    "area price": ("{p} euros each",),
    "area paint": ("{k} to a litre",),
    "food recipe": ("{g} grams for {k}, so for one", "for {b}",),
    "food more": ("{s} kilograms in grams", "so much more",),
    "food spoons": ("{a} times {b}", "so much more",),
    "food less": ("{w} less",),
    "food percent": ("{t} percent less",),
    "food times": ("{k} times as much",),
    "food kilograms": ("in kilograms",),
    "food bowls": ("shared by {k}",),
    "food cost": ("in kilograms", "{p} euros each",),
}  # fmt: skip
"""What each calculation of a sentence does, in all splits."""


class _UnfitError(Exception):
    """The draw makes no sensible story; another one may."""


class _Story:
    """A story that grows by sentences."""

    def __init__(self, rng: Rng, split: str) -> None:
        self.rng, self.split = rng, split
        self.kind = rng.choice(tuple(THEMES))
        self.theme = THEMES[self.kind]
        self.words = {key: _draw_word(rng, key, split) for key in (_USED[self.kind] if split == "train" else _POOLS)}
        self.sentences: list[str] = []
        self.calculations: list[str] = []
        self.values: list[Fraction] = []
        self.reasons: list[str] = []
        self.x = Fraction(0)

    def build(self, steps: int) -> Sentence:
        """Add sentences with this many calculations; return the last one, the question."""
        start, end = self.rng.choice(self.theme.starts), self.rng.choice(self.theme.ends)
        remaining = steps - len(start.calculations) - len(end.calculations)
        self.add(start)
        last = start
        while remaining > 0:
            options = [s for s in self.theme.middles if len(s.calculations) <= remaining and s is not last]
            last = self.add_one_of(options)
            remaining -= len(last.calculations)
        if remaining < 0 or (not self.values and not end.calculations):
            raise _UnfitError
        self.add(end)
        return end

    def add_one_of(self, sentences: list[Sentence]) -> Sentence:
        """Add one of the sentences that makes sense here."""
        for _ in range(_TRIES):
            sentence = self.rng.choice(sentences)
            try:
                self.add(sentence)
            except _UnfitError:
                continue
            return sentence
        raise _UnfitError

    def add(self, sentence: Sentence) -> None:
        """Add a sentence and its calculations; _UnfitError, with nothing added, if a number would make no sense."""
        wording = self.rng.choice(WORDINGS[sentence.key][self.split])
        numbers = {name: self.rng.choice(options) for name, options in _numbers(sentence.key).items()}
        calculations: list[str] = []
        values = [Fraction(0)]
        x = format_number(self.x)
        for template in sentence.calculations:
            calculations.append(template.format(x=x, _=format_number(values[-1]), **numbers))
            values.append(evaluate(calculations[-1]))
        whole = self.theme.whole and sentence.unit in ("", "goods")
        if not all(_is_sensible(value, whole) for value in values[1 : -1 if sentence.rough else None]):
            raise _UnfitError
        self.sentences.append(_capital(expand(self.rng, wording).format(**self.words, **numbers)))
        for template, gist in zip(sentence.calculations, GISTS.get(sentence.key, ()), strict=True):
            so_far = f"So far {x}; " if "{x}" in template else ""
            thought = f"{so_far}{gist.format(**numbers)}."
            self.reasons.append(_capital(thought))
        self.calculations += calculations
        self.values += values[1:]
        self.x = Fraction(numbers[sentence.start_number]) if sentence.start_number else self.values[-1]

    def add_asides(self, number: int) -> None:
        """Insert irrelevant sentences at random places before the question, none before a sentence that refers back."""
        for wording in self.rng.sample(IRRELEVANT[self.split], number):
            text = expand(self.rng, wording).format(n=2 + self.rng.below(58), **self.words)
            places = [i for i, sentence in enumerate(self.sentences) if not i or not REFERS_BACK.search(sentence)]
            self.sentences.insert(self.rng.choice(places), _capital(text))


def _capital(text: str) -> str:
    """A text with a capital first letter."""
    return f"{text[0].upper()}{text[1:]}"


def _draw_word(rng: Rng, key: str, split: str) -> str:
    """Draw a name, a kind of goods or a food; in training problems some are made up."""
    pool = _POOLS[key]
    if split != "train" or rng.uniform() >= _MADE_UP:
        return rng.choice(pool[split])
    word = made_up_name(rng, _HELD_OUT_WORDS)
    return word.capitalize() if key == "name" else f"{word.rstrip('s')}s" if key == "goods" else word


def _is_sensible(value: Fraction, whole: bool) -> bool:
    """Whether a quantity is positive, not huge, has few decimals, and is an integer if it counts things."""
    above, below = value.numerator, value.denominator
    return 0 < above < _MAX_VALUE * below and (below == 1 if whole else _MAX_DENOMINATOR % below == 0)


def draft(rng: Rng, split: str, difficulty: str) -> Draft[Problem]:
    """Draw a problem."""
    (low, high), asides = STEPS[difficulty], ASIDES[difficulty]
    steps = low + rng.below(high - low + 1)
    while True:
        story = _Story(rng, split)
        try:
            end = story.build(steps)
        except _UnfitError:
            continue
        break
    story.add_asides(asides[0] + rng.below(asides[1] - asides[0] + 1))
    exact = _MAX_DENOMINATOR % story.values[-1].denominator == 0
    if not exact:
        story.sentences.append(expand(rng, TOLERANCE_NOTES[split]))
    unit = story.words["goods"] if end.unit == "goods" else end.unit
    tolerance = Fraction(0) if exact else TOLERANCE
    problem = Problem(tuple(story.calculations), tuple(story.values), tuple(story.reasons), tolerance, unit)
    return Draft(" ".join(story.sentences), problem, story.kind)
