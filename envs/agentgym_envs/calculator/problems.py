"""Word problems: a tale in which every sentence changes one quantity, with the calculations that follow it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from agentgym_envs.calculator.expressions import evaluate, shown
from agentgym_envs.calculator.words import BESIDE, FOODS, GOODS, NAMES, ROUGHLY, SAY
from agentgym_py.env.generated import Draft
from agentgym_py.rng import Rng

TOLERANCE = Fraction(1, 100)
STEPS: Mapping[str, tuple[int, int]] = {"easy": (1, 2), "medium": (3, 5), "hard": (6, 8)}
"""Fewest and most calculations by difficulty."""
ASIDES: Mapping[str, tuple[int, int]] = {"easy": (0, 1), "medium": (1, 2), "hard": (2, 3)}
"""Fewest and most sentences that have nothing to do with the question."""
_TRIES = 20
_HUGE, _SHORT = 100_000, 1000
"""Quantities stay below the one and have no more decimals than the other has zeros."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What only the world knows of a task."""

    calculations: tuple[str, ...]
    """One a step; the last one's value is the answer."""
    values: tuple[Fraction, ...]
    """What each calculation gives."""
    reasons: tuple[str, ...]
    """The sentence of the problem that each calculation follows from."""
    tolerance: Fraction
    """0 where the answer must be exact."""
    unit: str
    """What the answer counts."""

    @property
    def answer(self) -> Fraction:
        """The right answer."""
        return self.values[-1]


@dataclass(frozen=True, slots=True)
class Move:
    """One sentence: its numbers are drawn by `_DRAWS`, its calculations use them, {x} and {_}.

    {x} is the quantity of the tale so far, {_} what the calculation before gave.
    """

    say: str
    calculations: tuple[str, ...] = ()
    unit: str = ""
    """Of the answer, where the sentence asks for it."""
    rough: bool = False
    """Whether the answer need not be a short decimal."""
    given: str = ""
    """The number that is the quantity at the start, where nothing has to be calculated."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Sentences that fit together."""

    starts: tuple[Move, ...]
    middles: tuple[Move, ...]
    ends: tuple[Move, ...]
    whole: bool = False
    """Whether its quantity is a number of things."""


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
"""Step, and least and greatest number of steps, of the numbers of a sentence; those under "" where it says nothing."""


@cache
def _numbers(say: str) -> Mapping[str, tuple[str, ...]]:
    """What each number of a sentence may be; all its wordings have the same numbers."""
    draws = {**_DRAWS[""], **_DRAWS.get(say, {})}
    told = {key: draw for key, draw in draws.items() if f"{{{key}}}" in SAY[say]["train"][0]}
    return {
        key: tuple(shown(Fraction(step) * number) for number in range(low, high + 1))
        for key, (step, low, high) in told.items()
    }


THEMES: Mapping[str, Theme] = {
    "stock": Theme(
        (Move("stock has", given="a"), Move("stock boxes", ("{a} * {b}",))),
        (Move("stock more", ("{x} + {a}",)), Move("stock packs", ("{a} * {b}", "{x} + {_}")),
         Move("stock give", ("{x} - {a}",)), Move("stock percent", ("{x} * (1 - {p} / 100)",)),
         Move("stock one in", ("{x} * (1 - 1 / {k})",)), Move("stock times", ("{x} * {k}",))),
        (Move("stock count", (), "goods"), Move("stock share", ("{x} / {k}",), "goods"),
         Move("stock price", ("{x} * {p}",), "euros"), Move("stock weight", ("{x} * {g}", "{_} / 1000"), "kilograms"),
         Move("stock time", ("{x} * {m}", "{_} / 60"), "hours", rough=True)),
        whole=True,
    ),
    "money": Theme(
        (Move("money has", given="a"), Move("money wage", ("{a} * {b}", "{_} * {p}"))),
        (Move("money earn", ("{x} + {p}",)), Move("money weeks", ("{a} * {p}", "{x} + {_}")),
         Move("money spend", ("{x} - {p}",)), Move("money buy", ("{a} * {p}", "{x} - {_}")),
         Move("money tax", ("{x} * (1 - {t} / 100)",)), Move("money interest", ("{x} * (1 + {t} / 100)",))),
        (Move("money left", (), "euros"), Move("money share", ("{x} / {k}",), "euros", rough=True),
         Move("money cents", ("{x} * 100",), "cents")),
    ),
    "trip": Theme(
        (Move("trip far", given="a"), Move("trip hours", ("{h} * {v}",))),
        (Move("trip leg", ("{m} / 60", "{_} * {v}", "{x} + {_}")), Move("trip more", ("{x} + {a}",)),
         Move("trip walk", ("{w} / 1000", "{x} + {_}")), Move("trip back", ("{x} * 2",)),
         Move("trip days", ("{x} * {k}",))),
        (Move("trip length", (), "kilometres"), Move("trip fuel", ("{x} / 100", "{_} * {l}"), "litres"),
         Move("trip cost", ("{x} / 100", "{_} * {l}", "{_} * {p}"), "euros"),
         Move("trip time", ("{x} / {v}",), "hours", rough=True)),
    ),
    "area": Theme(
        (Move("area wall", ("{a} * {b}",)), Move("area floor", ("{c} / 100", "{_} * {a}"))),
        (Move("area without", ("{d} * {e}", "{x} - {_}")), Move("area and", ("{d} * {e}", "{x} + {_}")),
         Move("area rooms", ("{x} * {k}",)), Move("area waste", ("{x} * (1 + {t} / 100)",))),
        (Move("area size", (), "square metres"), Move("area price", ("{x} * {p}",), "euros"),
         Move("area paint", ("{x} / {k}",), "litres", rough=True)),
    ),
    "food": Theme(
        (Move("food has", given="g"), Move("food recipe", ("{g} / {k}", "{_} * {b}"))),
        (Move("food more", ("{s} * 1000", "{x} + {_}")), Move("food spoons", ("{a} * {b}", "{x} + {_}")),
         Move("food less", ("{x} - {w}",)), Move("food percent", ("{x} * (1 - {t} / 100)",)),
         Move("food times", ("{x} * {k}",))),
        (Move("food grams", (), "grams"), Move("food kilograms", ("{x} / 1000",), "kilograms"),
         Move("food bowls", ("{x} / {k}",), "grams", rough=True),
         Move("food cost", ("{x} / 1000", "{_} * {p}"), "euros")),
    ),
}  # fmt: skip


class _UnfitError(Exception):
    """What was drawn makes no sensible tale; another draw may."""


class _Tale:
    """A tale as it is told."""

    def __init__(self, rng: Rng, split: str) -> None:
        self.rng, self.split = rng, split
        self.kind = rng.choice(tuple(THEMES))
        self.theme = THEMES[self.kind]
        pools = {"name": NAMES, "goods": GOODS, "food": FOODS}
        self.words = {key: rng.choice(pool[split]) for key, pool in pools.items()}
        self.sentences: list[str] = []
        self.calculations: list[str] = []
        self.values: list[Fraction] = []
        self.reasons: list[str] = []
        self.x = Fraction(0)

    def build(self, steps: int) -> Move:
        """Tell a story of this many calculations; returns its last sentence."""
        start, end = self.rng.choice(self.theme.starts), self.rng.choice(self.theme.ends)
        left = steps - len(start.calculations) - len(end.calculations)
        self.tell(start)
        last = start
        while left > 0:
            fit = [each for each in self.theme.middles if len(each.calculations) <= left and each is not last]
            last = self.tell_one(fit)
            left -= len(last.calculations)
        if left < 0 or (not self.values and not end.calculations):
            raise _UnfitError
        self.tell(end)
        return end

    def tell_one(self, moves: list[Move]) -> Move:
        """Tell one of them that makes sense here."""
        for _ in range(_TRIES):
            move = self.rng.choice(moves)
            try:
                self.tell(move)
            except _UnfitError:
                continue
            return move
        raise _UnfitError

    def tell(self, move: Move) -> None:
        """Add a sentence and its calculations; _UnfitError, with nothing added, where a number would make no sense."""
        wording = self.rng.choice(SAY[move.say][self.split])
        numbers = {key: self.rng.choice(options) for key, options in _numbers(move.say).items()}
        calculations: list[str] = []
        values = [Fraction(0)]
        for template in move.calculations:
            calculations.append(template.format(x=shown(self.x), _=shown(values[-1]), **numbers))
            values.append(evaluate(calculations[-1]))
        whole = self.theme.whole and move.unit in ("", "goods")
        if not all(_sensible(value, whole) for value in values[1 : -1 if move.rough else None]):
            raise _UnfitError
        self.sentences.append(wording.format(**self.words, **numbers))
        self.reasons += [self.sentences[-1]] * len(calculations)
        self.calculations += calculations
        self.values += values[1:]
        self.x = Fraction(numbers[move.given]) if move.given else self.values[-1]

    def asides(self, number: int) -> None:
        """Put in sentences that have nothing to do with the question, anywhere before that."""
        for wording in self.rng.sample(BESIDE[self.split], number):
            text = wording.format(n=2 + self.rng.below(58), **self.words)
            self.sentences.insert(self.rng.below(len(self.sentences)), text)


def _sensible(value: Fraction, whole: bool) -> bool:
    """Positive, not huge, with few decimals, and whole where things are counted."""
    above, below = value.numerator, value.denominator
    return 0 < above < _HUGE * below and (below == 1 if whole else _SHORT % below == 0)


def draft(rng: Rng, split: str, difficulty: str) -> Draft[Problem]:
    """A problem."""
    (low, high), asides = STEPS[difficulty], ASIDES[difficulty]
    steps = low + rng.below(high - low + 1)
    while True:
        tale = _Tale(rng, split)
        try:
            end = tale.build(steps)
        except _UnfitError:
            continue
        break
    tale.asides(asides[0] + rng.below(asides[1] - asides[0] + 1))
    exact = _SHORT % tale.values[-1].denominator == 0
    if not exact:
        tale.sentences.append(ROUGHLY[split])
    unit = tale.words["goods"] if end.unit == "goods" else end.unit
    tolerance = Fraction(0) if exact else TOLERANCE
    problem = Problem(tuple(tale.calculations), tuple(tale.values), tuple(tale.reasons), tolerance, unit)
    return Draft(" ".join(tale.sentences), problem, tale.kind)
