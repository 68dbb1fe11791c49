"""The calculator's language: a tokenizer, a parser by precedence, and exact fractions within bounds.

    sum     = product {("+" | "-") product}
    product = factor {("*" | "/") factor}
    factor  = ("+" | "-") factor | power
    power   = postfix [("^" | "**") factor]
    postfix = atom {"!"}
    atom    = number | name "(" sum {"," sum} ")" | "(" sum ")"

Nothing else is read, nothing is evaluated as code. Texts, nesting and the size of every number are bounded before they
are computed with, so that no text takes long.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction

Number = int | Fraction
"""While it is computed a value stays an integer as long as it can: those are faster."""
LONGEST, DEEPEST = 300, 40
"""Characters of an expression, and how deep it may be nested."""
MOST_BITS = 512
"""Size of a numerator or a denominator: about 150 digits."""
LARGEST_FACTORIAL = 90
_TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d+)?|\.\d+)|(?P<name>[^\W\d]\w*)|(?P<sign>\*\*|[-+*/^!(),]))", re.ASCII)
_OTHER_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-"})


class ExpressionError(ValueError):
    """A text that is no expression or a number out of bounds; says what is wrong in words for who wrote it."""


def evaluate(text: str) -> Fraction:
    """The exact value of an expression; ExpressionError otherwise."""
    if len(text) > LONGEST:
        raise ExpressionError(f"The expression is too long: {len(text)} characters, at most {LONGEST} are read.")
    parser = _Parser(_tokens(text.translate(_OTHER_SIGNS)))
    value = parser.sum()
    if parser.kind:
        raise ExpressionError(f"Nothing fits {parser.token!r} there; is an operator or a bracket missing?")
    return Fraction(value)


def shown(value: Fraction) -> str:
    """A number as text: whole, as a decimal where that is exact and short, else as a fraction."""
    if value.denominator == 1:
        return str(value.numerator)
    decimals = _decimals(value.denominator)
    if decimals is None or decimals > 12:
        return f"{value.numerator}/{value.denominator}"
    digits = str(abs(value.numerator) * 10**decimals // value.denominator).rjust(decimals + 1, "0")
    return f"{'-' * (value < 0)}{digits[:-decimals]}.{digits[-decimals:]}"


def _decimals(denominator: int) -> int | None:
    """How many decimals a fraction has; None where they never end."""
    counts = []
    for prime in (2, 5):
        count = 0
        while denominator % prime == 0:
            denominator, count = denominator // prime, count + 1
        counts.append(count)
    return max(counts) if denominator == 1 else None


def _tokens(text: str) -> list[tuple[str, str]]:
    """Kind and text of each token; the last one is empty."""
    found: list[tuple[str, str]] = []
    text, at = text.rstrip(), 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(f"{text[at:].strip()[:1]!r} is nothing that the calculator knows. {_KNOWN}")
        found.append((match.lastgroup or "", match[match.lastgroup or 0]))
        at = match.end()
    return [*found, ("", "")]


class _Parser:
    """Reads tokens from left to right and computes as it reads."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._rest = iter(tokens)
        self.depth = 0
        self.kind, self.token = next(self._rest)

    def next(self) -> str:
        token = self.token
        self.kind, self.token = next(self._rest)
        return token

    def take(self, *signs: str) -> str:
        """The next token if it is one of the signs, else nothing."""
        return self.next() if self.kind == "sign" and self.token in signs else ""

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise ExpressionError(
                f"{sign!r} is missing before {self.token!r}." if self.kind else f"{sign!r} is missing."
            )

    def sum(self) -> Number:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ExpressionError(f"Brackets are nested too deep; at most {DEEPEST} are read.")
        value = self.product()
        while sign := self.take("+", "-"):
            value = _bounded(value + self.product() if sign == "+" else value - self.product())
        self.depth -= 1
        return value

    def product(self) -> Number:
        value = self.factor()
        while sign := self.take("*", "/"):
            other = self.factor()
            if sign == "/" and not other:
                raise ExpressionError("Division by zero.")
            value = _bounded(value * other if sign == "*" else Fraction(value, other))
        return value

    def factor(self) -> Number:
        signs = 0
        while sign := self.take("+", "-"):
            signs += sign == "-"
        value = self.power()
        return -value if signs % 2 else value

    def power(self) -> Number:
        base = self.postfix()
        if not self.take("^", "**"):
            return base
        self.depth += 1
        if self.depth > DEEPEST:
            raise ExpressionError(f"Powers are nested too deep; at most {DEEPEST} are read.")
        exponent = self.factor()
        self.depth -= 1
        return _power(base, exponent)

    def postfix(self) -> Number:
        value = self.atom()
        while self.take("!"):
            value = _factorial(value)
        return value

    def atom(self) -> Number:
        if self.kind == "number":
            return _number(self.next())
        if self.kind == "name":
            return self.call(self.next())
        if not self.take("("):
            raise ExpressionError(
                f"A number is missing before {self.token!r}." if self.kind else "A number is missing."
            )
        value = self.sum()
        self.expect(")")
        return value

    def call(self, name: str) -> Number:
        function = _FUNCTIONS.get(name)
        if function is None:
            raise ExpressionError(f"No name {name[:20]!r}. {_KNOWN}")
        self.expect("(")
        values = [self.sum()]
        while self.take(","):
            values.append(self.sum())
        self.expect(")")
        low, high, run = function
        if not low <= len(values) <= high:
            raise ExpressionError(
                f"{name} takes {low if low == high else f'{low} to {high}'} numbers, not {len(values)}."
            )
        return _bounded(run(*values))


def _bounded(value: Number) -> Number:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
        raise ExpressionError("A number has become too large: more than about 150 digits.")
    return value


def _number(text: str) -> Number:
    if len(text) > 150:
        raise ExpressionError("A number is too large: more than about 150 digits.")
    whole, _, decimals = text.partition(".")
    return _bounded(Fraction(int(f"{whole}{decimals}"), 10 ** len(decimals)) if decimals else int(text))


def _power(base: Number, exponent: Number) -> Number:
    if exponent.denominator != 1:
        raise ExpressionError("An exponent must be a whole number; sqrt(x) takes a root.")
    if not base and exponent < 0:
        raise ExpressionError("Division by zero.")
    if abs(base) in (0, 1):
        return base ** (exponent.numerator % 2 + 2 * (exponent != 0))
    bits = max(base.numerator.bit_length(), base.denominator.bit_length()) - 1
    if bits * abs(exponent.numerator) > MOST_BITS:
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


def rounded(value: Number, digits: Number = 0) -> Fraction:
    """To the nearest, halves away from zero."""
    if digits.denominator != 1 or not 0 <= digits <= 20:
        raise ExpressionError("round takes a number of decimals from 0 to 20.")
    scale = 10**digits.numerator
    size = math.floor(abs(value) * scale + Fraction(1, 2))
    return Fraction(-size if value < 0 else size, scale)


_MANY = LONGEST
_FUNCTIONS: Mapping[str, tuple[int, int, Callable[..., Number]]] = {
    "abs": (1, 1, abs),
    "ceil": (1, 1, math.ceil),
    "floor": (1, 1, math.floor),
    "factorial": (1, 1, _factorial),
    "max": (1, _MANY, max),
    "min": (1, _MANY, min),
    "round": (1, 2, rounded),
    "sqrt": (1, 1, _sqrt),
}
"""Least and most numbers of arguments, and what is done with them."""
_KNOWN = f"It knows numbers, + - * / ^ ! ( ) and {', '.join(_FUNCTIONS)}."
