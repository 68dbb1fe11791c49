"""The calculator's language: a tokenizer, a precedence parser, and exact bounded fractions.

    sum     = product {("+" | "-") product}
    product = factor {("*" | "/") factor}
    factor  = ("+" | "-") factor | power
    power   = postfix [("^" | "**") factor]
    postfix = atom {"!"}
    atom    = number | name "(" sum {"," sum} ")" | "(" sum ")"

Nothing is evaluated as code. Lengths, nesting and the size of every number are bounded before the computation, so that
no text takes long.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Mapping
from fractions import Fraction

Number = int | Fraction
"""Intermediate values stay integers as long as possible, because those are faster."""
MAX_LENGTH, MAX_DEPTH = 300, 40
"""Characters and nesting of an expression."""
MAX_BITS = 512
"""Size of a numerator or a denominator; about 150 digits."""
LARGEST_FACTORIAL = 90
_TOKEN = re.compile(r"\d+(?:\.\d+)?|\.\d+|[^\W\d]\w*|\*\*|\S", re.ASCII)
_TIMES = re.compile(r"x\d*", re.ASCII | re.IGNORECASE)
"""A letter for "times", also with the digits after it."""
_SIGNS = frozenset(("+", "-", "*", "/", "**", "^", "!", "(", ")", ","))
_SINGLE = _SIGNS | frozenset(f"{string.ascii_letters}{string.digits}_")
"""Characters that may be a token of their own."""
_SIGN_VARIANTS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-"})


class ExpressionError(ValueError):
    """A text is not an expression, or a number is out of bounds; the message is an observation."""


def evaluate(text: str) -> Fraction:
    """Return the exact value of an expression; ExpressionError otherwise."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"The expression is too long: {len(text)} characters, at most {MAX_LENGTH} are read.")
    parser = _Parser(_tokens(text.translate(_SIGN_VARIANTS)))
    value = parser.sum()
    if parser.here:
        advice = _advice(parser.here) or "is an operator or a bracket missing?"
        raise ExpressionError(f"Nothing fits {parser.here!r} there; {advice}")
    return value if type(value) is Fraction else Fraction(value)


def format_number(value: Fraction) -> str:
    """Return a number as text: an integer, a decimal if that is exact and short, else a fraction."""
    if value.denominator == 1:
        return str(value.numerator)
    decimals = _decimals(value.denominator)
    if decimals is None or decimals > 12:
        return f"{value.numerator}/{value.denominator}"
    digits = str(abs(value.numerator) * 10**decimals // value.denominator).rjust(decimals + 1, "0")
    return f"{'-' * (value < 0)}{digits[:-decimals]}.{digits[-decimals:]}"


def _decimals(denominator: int) -> int | None:
    """The number of decimals of a fraction; None if they do not end."""
    counts = []
    for prime in (2, 5):
        count = 0
        while denominator % prime == 0:
            denominator, count = denominator // prime, count + 1
        counts.append(count)
    return max(counts) if denominator == 1 else None


def _tokens(text: str) -> list[str]:
    """The tokens, and an empty one at the end."""
    tokens: list[str] = _TOKEN.findall(text.rstrip())
    for token in tokens:
        if len(token) == 1 and token not in _SINGLE:
            raise ExpressionError(f"{token!r} is nothing that the calculator knows. {_LANGUAGE}")
    return [*tokens, ""]


class _Parser:
    """Parses tokens from left to right and computes on the way; a method per rule of the grammar."""

    __slots__ = ("_rest", "depth", "here")

    def __init__(self, tokens: list[str]) -> None:
        self._rest = iter(tokens)
        self.depth = 0
        self.here = next(self._rest)

    def next(self) -> str:
        token = self.here
        self.here = next(self._rest)
        return token

    def expect(self, sign: str) -> None:
        here = self.here
        if here != sign:
            advice = _advice(here) if sign == ")" else ""
            where = f" before {here!r}" if here else ""
            raise ExpressionError(f"{sign!r} is missing{where}{f'; {advice}' if advice else '.'}")
        self.next()

    def enter(self, what: str) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ExpressionError(f"{what} are nested too deep; at most {MAX_DEPTH} are read.")

    def sum(self) -> Number:
        self.enter("Brackets")
        value = self.product()
        while self.here in ("+", "-"):
            sign, other = self.next(), self.product()
            value = _bounded(value + other if sign == "+" else value - other)
        self.depth -= 1
        return value

    def product(self) -> Number:
        value = self.factor()
        while self.here in ("*", "/"):
            sign, other = self.next(), self.factor()
            if sign == "/" and not other:
                raise ExpressionError("Division by zero.")
            value = _bounded(value * other if sign == "*" else Fraction(value, other))
        return value

    def factor(self) -> Number:
        negative = False
        while self.here in ("+", "-"):
            negative ^= self.next() == "-"
        value = self.atom()
        while self.here == "!":
            self.next()
            value = _factorial(value)
        if self.here in ("^", "**"):
            self.next()
            self.enter("Powers")
            value = _power(value, self.factor())
            self.depth -= 1
        return -value if negative else value

    def atom(self) -> Number:
        here = self.here
        if not here or (here in _SIGNS and here != "("):
            raise ExpressionError(f"A number is missing before {here!r}." if here else "A number is missing.")
        self.next()
        if here[0] in ".0123456789":
            return _number(here)
        if here != "(":
            return self.call(here)
        value = self.sum()
        self.expect(")")
        return value

    def call(self, name: str) -> Number:
        function = _FUNCTIONS.get(name)
        if function is None:
            raise ExpressionError(f"No name {name[:20]!r}. {_LANGUAGE}")
        self.expect("(")
        values = [self.sum()]
        while self.here == ",":
            self.next()
            values.append(self.sum())
        self.expect(")")
        low, high, run = function
        if not low <= len(values) <= high:
            raise ExpressionError(
                f"{name} takes {low if low == high else f'{low} to {high}'} numbers, not {len(values)}."
            )
        return _bounded(run(*values))


def _advice(here: str) -> str:
    """What to write instead of a token that cannot follow a number; empty if nothing is known."""
    if here == ",":
        return "write 1000, not 1,000, and 1.5, not 1,5."
    return "write * to multiply." if _TIMES.fullmatch(here) else ""


def _bounded(value: Number) -> Number:
    if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
        raise ExpressionError("A number has become too large: more than about 150 digits.")
    return value


def _number(text: str) -> Number:
    if len(text) > 150:
        raise ExpressionError("A number is too large: more than about 150 digits.")
    integer, _, decimals = text.partition(".")
    return _bounded(Fraction(int(f"{integer}{decimals}"), 10 ** len(decimals)) if decimals else int(text))


def _power(base: Number, exponent: Number) -> Number:
    if exponent.denominator != 1:
        raise ExpressionError("An exponent must be a whole number; sqrt(x) takes a root.")
    if not base and exponent < 0:
        raise ExpressionError("Division by zero.")
    if abs(base) in (0, 1):
        return base ** (exponent.numerator % 2 + 2 * (exponent != 0))
    bits = max(base.numerator.bit_length(), base.denominator.bit_length()) - 1
    if bits * abs(exponent.numerator) > MAX_BITS:
        raise ExpressionError("The power is too large: more than about 150 digits.")
    return _bounded(Fraction(base) ** exponent.numerator)


def _factorial(value: Number) -> Number:
    if value.denominator != 1 or not 0 <= value <= LARGEST_FACTORIAL:
        raise ExpressionError(f"A factorial needs a whole number from 0 to {LARGEST_FACTORIAL}.")
    return math.factorial(value.numerator)


def _sqrt(value: Number) -> Number:
    roots = [math.isqrt(max(part, 0)) for part in (value.numerator, value.denominator)]
    if [root * root for root in roots] != [value.numerator, value.denominator]:
        raise ExpressionError("That root is no exact number; the calculator is exact.")
    return Fraction(*roots)


def round_number(value: Number, digits: Number = 0) -> Fraction:
    """Round to the nearest, halves away from zero."""
    if digits.denominator != 1 or not 0 <= digits <= 20:
        raise ExpressionError("round takes a number of decimals from 0 to 20.")
    scale, above, below = 10**digits.numerator, value.numerator, value.denominator
    size = (2 * abs(above) * scale + below) // (2 * below)
    return Fraction(-size if above < 0 else size, scale)


_ANY_NUMBER = MAX_LENGTH
_FUNCTIONS: Mapping[str, tuple[int, int, Callable[..., Number]]] = {
    "abs": (1, 1, abs),
    "ceil": (1, 1, math.ceil),
    "floor": (1, 1, math.floor),
    "factorial": (1, 1, _factorial),
    "max": (1, _ANY_NUMBER, lambda *values: max(values)),  # max(x) of one number would iterate over it
    "min": (1, _ANY_NUMBER, lambda *values: min(values)),
    "round": (1, 2, round_number),
    "sqrt": (1, 1, _sqrt),
}
"""Minimum and maximum number of arguments, and the function."""
_LANGUAGE = f"It knows numbers, + - * / ^ ! ( ) and {', '.join(_FUNCTIONS)}."
