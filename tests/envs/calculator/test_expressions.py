"""The calculator is exact, knows its precedences, and refuses the rest at once."""

from __future__ import annotations

import re
import time
import tracemalloc
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.calculator.expressions import ExpressionError, evaluate, format_number, round_number

small = st.integers(0, 60).map(lambda n: (str(n), Fraction(n))) | st.integers(0, 999).map(
    lambda n: (f"{n / 100:.2f}", Fraction(n, 100))
)


def joined(pair: tuple[tuple[str, Fraction], tuple[str, Fraction], str]) -> tuple[str, Fraction]:
    """Two expressions with values, in brackets, as a third."""
    (a, x), (b, y), sign = pair
    if sign == "/":
        return (f"({a}) / ({b})", x / y) if y else (a, x)
    return f"({a}) {sign} ({b})", {"+": x + y, "-": x - y, "*": x * y}[sign]


trees = st.recursive(small, lambda inner: st.tuples(inner, inner, st.sampled_from("+-*/")).map(joined), max_leaves=8)


@given(trees)
def test_it_computes_exactly(tree: tuple[str, Fraction]) -> None:
    """As fractions do, and what is format_number is the value again."""
    text, value = tree
    assert evaluate(text) == value and evaluate(format_number(value)) == value


terms = st.tuples(st.sampled_from(["", "-"]), st.integers(1, 9), st.sampled_from(["", "**0", "**2", "**-1"]))


@given(st.lists(terms, min_size=1, max_size=6), st.lists(st.sampled_from("+-*/"), min_size=5, max_size=5))
def test_precedence_is_pythons(parts: list[tuple[str, int, str]], signs: list[str]) -> None:
    """Without brackets: powers bind strongest, also stronger than a minus before them; then products, then sums."""
    pairs = list(zip(parts, ["", *signs], strict=False))
    text = "".join(f"{sign}{minus}{number}{power}" for (minus, number, power), sign in pairs)
    exact = "".join(f"{sign}{minus}Fraction({number}){power}" for (minus, number, power), sign in pairs)
    assert evaluate(text) == eval(exact)  # noqa: S307  # built here, of digits and signs


@pytest.mark.parametrize(
    ("text", "value"),
    [("1/3 + 1/6", "0.5"), ("2 ^ 3 ^ 2", "512"), ("-2^2", "-4"), ("2^-2", "0.25"), ("5!", "120"), ("3!!", "720"),
     ("12 × 3 − 4 ÷ 2", "34"), (".5*4", "2"), ("22/7", "22/7"), ("-1/8", "-0.125"), ("sqrt(16/9)", "4/3"), ("--5", "5"),
     ("round(2.5)", "3"), ("round(-2.345, 2)", "-2.35"), ("max(1, 2, min(7, 5))", "5"), ("floor(-1/2)", "-1"),
     ("max(3)", "3"), ("max(1,200, 3)", "200"), ("min(1/2) * 2", "1"),
     ("ceil(7/2) + abs(-1)", "5"), ("factorial(0)", "1"), ("0^0", "1"), ("(-1)^-3", "-1"), ("1^999999999999", "1")],
)  # fmt: skip
def test_what_it_knows(text: str, value: str) -> None:
    """Signs, functions, and how results are format_number."""
    assert format_number(evaluate(text)) == value


REFUSED = {
    "9**9**9": "power is too large",
    "2^99999": "power is too large",
    "(1/2)^9999": "power is too large",
    "100!": "factorial",
    "5!!!": "factorial",
    "(1/2)!": "factorial",
    "(-1)!": "factorial",
    "9" * 200: "too large",
    "(" * 100 + "1" + ")" * 100: "nested too deep",
    "2^" * 100 + "2": "nested too deep",
    "1+" * 400 + "1": "too long",
    "x": "No name 'x'",
    "__import__('os').system('ls')": "nothing that the calculator knows",
    "(1).__class__": "nothing",
    "()": "missing",
    "abs.real": "nothing",
    "lambda: 1": "nothing",
    "[1]": "nothing",
    "1 if 1 else 2": "Nothing fits 'if'",
    "1e9": "fits",
    "": "missing",
    "1 +": "missing",
    "* 2": "missing before",
    "(1": "')' is missing",
    "1)": "Nothing fits",
    "1 2": "fits",
    "1/0": "zero",
    "0^-1": "zero",
    "2^(1/2)": "whole number",
    "sqrt(2)": "no exact",
    "sqrt(-4)": "no exact",
    "15%": "'%'",
    "round(1, 2, 3)": "takes 1 to 2",
    "abs()": "missing",
    "sqrt 4": "'(' is missing",
    "1,5": "Nothing fits ',' there; write 1000, not 1,000, and 1.5, not 1,5.",
    "1,000 + 5": "Nothing fits ',' there; write 1000, not 1,000",
    "(1,000 + 5) * 2": "')' is missing before ','; write 1000, not 1,000",
    "19 x 11": "Nothing fits 'x' there; write * to multiply.",
    "19 X 11": "Nothing fits 'X' there; write * to multiply.",
    "19x11": "Nothing fits 'x11' there; write * to multiply.",
    "(2 x 3) + 4": "')' is missing before 'x'; write * to multiply.",
    "max(2 x 3, 4)": "')' is missing before 'x'; write * to multiply.",
    "2 xs": "Nothing fits 'xs' there; is an operator or a bracket missing?",
    "sqrt x": "'(' is missing before 'x'.",
    "½": "nothing",
    "٣": "nothing",
    "2^511*2^511": "too large",
    "round(1, 99)": "decimals",
    "\ud800": "nothing",
    "10**5000*10**5000": "power is too large",
    "1/3^300/7^300": "too large",
    "0." + "1" * 290: "too large",
    "1\x00": "nothing",
    "1\xa0+ 1": "nothing",
    "１": "nothing",
    ".": "nothing",
    "1..2": "nothing",
    "_": "No name",
    "2 ** ** 2": "missing before",
    "a" * 10**6: "too long",
    "1" * 10**6: "too long",
    " " * 10**6 + "1": "too long",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:12].encode("ascii", "replace").decode())
def test_what_it_refuses(text: str) -> None:
    """In words, and within 10 ms."""
    with pytest.raises(ExpressionError, match=re.escape(REFUSED[text])):
        evaluate(text)
    assert quickest(text) < 0.010


def quickest(text: str) -> float:
    """Seconds of CPU that it takes, the least of five."""
    spent = []
    for _ in range(5):
        began = time.process_time()
        with suppress(ExpressionError):
            evaluate(text)
        spent.append(time.process_time() - began)
    return min(spent)


@pytest.mark.parametrize(
    "text",
    ["+".join(f"1/{99999989 - n}" for n in range(27)), "+90!" * 75, "*".join(["99999999/99999989"] * 16),
     "-" * 299 + "1", "max(" * 38 + "1" + ",2)" * 38, "+".join("2^511/3^99" for _ in range(27)), "5" + "!" * 299,
     "((((" * 9 + "7^170" + "))))" * 9, "/".join(["2^300", "3^300"] * 25), "+".join(["1/(2^511-1)"] * 25),
     "+".join(["floor(2^500/3^300)"] * 15), "+".join(["round(2^500/3^300,20)"] * 13), "(-1)^(-10^150)",
     "+".join(["90!*1/89!"] * 30), "sqrt(" * 39 + "2^510" + ")" * 39, "3" + "!" * 299],
    ids=range(16),
)  # fmt: skip
def test_the_worst_of_what_it_reads_is_quick_and_small(text: str) -> None:
    """Long sums of large fractions, deep brackets: at most 10 ms and little memory, whatever comes of it."""
    assert len(text) <= 300 and quickest(text) < 0.010
    tracemalloc.start()
    with suppress(ExpressionError):
        evaluate(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


pieces = st.sampled_from(
    ["1", "2.5", "90", "9" * 40, " ", "(", ")", ",", *"+-*/^!.", "**", "max(", "min(", "round(", "sqrt(", "factorial(",
     "abs(", "ceil(", "floor(", "x", "é"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.lists(pieces, max_size=12).map("".join)
    | st.text(st.sampled_from("0123456789.+-*/^!(), abceqrstx"), max_size=40)
    | st.text(max_size=20)
)
def test_any_text_has_a_value_or_a_reason(text: str) -> None:
    """No other error comes out."""
    try:
        assert isinstance(evaluate(text), Fraction)
    except ExpressionError as error:
        assert str(error).endswith((".", "?"))


@given(
    st.sampled_from(["abs", "ceil", "floor", "factorial", "max", "min", "round", "sqrt"]), st.lists(small, max_size=5)
)
def test_any_number_of_arguments_is_computed_or_refused(name: str, values: list[tuple[str, Fraction]]) -> None:
    """Also one number for `max`; what is computed is what Python's function says."""
    text = f"{name}({', '.join(text for text, _ in values)})"
    with suppress(ExpressionError):
        result = evaluate(text)
        assert name not in ("max", "min") or result == {"max": max, "min": min}[name](value for _, value in values)
    assert name not in ("max", "min") or not values or evaluate(text) is not None


@given(st.fractions(-1000, 1000, max_denominator=5000), st.integers(0, 6))
def test_rounding_is_to_the_nearest(value: Fraction, digits: int) -> None:
    """No other number of that many decimals is nearer."""
    result = round_number(value, digits)
    assert abs(result - value) <= Fraction(1, 2 * 10**digits) and (result * 10**digits).denominator == 1
