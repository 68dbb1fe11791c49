"""Charts as inline SVG."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from agentgym_py.report.svg import COLOURS, MARKS, Curve, histograms, intervals, lines, stacked

pytest.importorskip("matplotlib")
CURVES = [
    Curve("valid", [0, 1, 2], [0.1, math.nan, 0.5], [0.0, math.nan, 0.4], [0.2, math.nan, 0.6]),
    Curve("test", [0, 2], [0.1, 0.4], joined=False, colour=1),
]
DRAWN = {
    "lines": lambda: lines(CURVES, "round", percent=True, marks=[0.5]),
    "stacked": lambda: stacked(["round 0", "round 1"], [(0, [3, 1]), (7, [0, 7])]),
    "histograms": lambda: histograms({"round 0": {0.0: 5, 1.0: 2}, "round 1": {0.5: 1}}, "reward"),
    "intervals": lambda: intervals([("tree", 0.5, 0.2, 0.7), ("grpo", 0.1, math.nan, math.nan)], "cosine"),
    "one value": lambda: histograms({"round 0": {0.25: 5}}, "reward"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_chart_is_one_element_in_the_colours_of_its_page(name: str) -> None:
    """Whole XML, nothing from elsewhere, every colour a variable, its words as text, and the same each time."""
    svg = DRAWN[name]()
    element = ElementTree.fromstring(svg.replace("xlink:href", "href"))  # noqa: S314  # made here
    assert element.tag == "svg" and not re.search(r"https?:|url\((?!#)|<script|<image", svg)
    assert set(re.findall(r"(?:fill|stroke): ([^;\"]+)", svg)) <= {"none"} | set(re.findall(r"var\(--\w+\)", svg))
    assert "var(--c" in svg and svg == DRAWN[name]()
    words = {"".join(each.itertext()).strip() for each in element.iter("text")}
    assert words > {
        "lines": {"round", "0%", "100%"}, "stacked": {"episodes", "round 0", "round 1"},
        "histograms": {"reward", "round 0", "round 1"}, "one value": {"reward", "round 0"},
        "intervals": {"tree", "grpo", "cosine"},
    }[name]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "top", "first", "last"),
    [
        ([0.0, 0.0], 1.0, 0.0, 1.0),
        ([0.2, 0.5], 2.0, 0.0, 2.0),
        ([0.2, 30.0], 1.0, 0.0, 30.0),
        ([-2.0, 0.5], 1.0, -2.0, 1.0),
        ([0.0, 0.0], 0.0, 0.0, 0.05),
    ],
)
def test_an_axis_of_values_ends_at_its_top(values: list[float], top: float, first: float, last: float) -> None:
    """From 0, or the smallest value, to `top`, or the largest value; markers at the ends are whole."""
    svg = lines([Curve("a", [0, 1], values, values, values)], "x", from_zero=True, top=top)
    ticks = re.findall(r"<text[^>]*text-anchor: end[^>]*>([^<]+)</text>", svg)
    numbers = [float(tick.replace("\N{MINUS SIGN}", "-")) for tick in ticks]
    assert (numbers[0], numbers[-1]) == (first, last)
    assert re.search(r"<g>\s*<use[^>]*fill: var\(--c0\); stroke:", svg), "a clipped group of markers"


def test_settings_of_the_current_folder_are_not_read(tmp_path: Path) -> None:
    """A stranger's: matplotlib evaluates parts of them, and runs LaTeX, which reads files."""
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\nfigure.dpi: 7\n")
    code = (
        "import os; from agentgym_py.report.svg import lines, Curve\n"
        "print('<svg' in lines([Curve('a', [0, 1], [0.1, 0.2])], 'x'))\n"
        "from matplotlib import rcParams; print(rcParams['text.usetex'], rcParams['figure.dpi'], os.getcwd())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "100.0", str(tmp_path)]


def test_a_name_is_no_formula() -> None:
    """Such as that of a world."""
    assert "$\\frac{$" in histograms({"$\\frac{$": {0.0: 5, 1.0: 2}}, "$x^2$")


def test_every_colour_has_a_mark() -> None:
    """So that curves differ without their colours."""
    assert len(set(MARKS)) == len(MARKS) == COLOURS


def test_a_histogram_has_the_colour_of_its_data() -> None:
    """The colour number of each row, and no other."""
    svg = histograms({"round 0": {0.0: 5}, "round 1": {0.0: 5}}, "reward", {"round 0": 5, "round 1": 3})
    assert re.findall(r"fill: var\(--(c\d)\)", svg) == ["c5"] * 20 + ["c3"] * 20


@pytest.mark.parametrize(
    ("values", "top", "first", "last"),
    [([1.0], 1.0, 0.0, 1.0), ([0.0], 2.0, 0.0, 2.0), ([0.5, 3.0], 1.0, 0.0, 3.0), ([-1.0], 1.0, -1.0, 1.0)],
)
def test_the_axis_of_a_histogram_is_that_of_rewards(values: list[float], top: float, first: float, last: float) -> None:
    """From 0, or the smallest value, to `top`, or the largest value; shares go from 0 to 100 %."""
    svg = histograms({"round 0": dict.fromkeys(values, 2)}, "reward", top=top)
    texts = re.findall(r"<text[^>]*>([^<]+)</text>", svg)
    numbers = [float(text.replace("\N{MINUS SIGN}", "-")) for text in texts if re.fullmatch(r"\W?[\d.]+", text)]
    assert (numbers[0], numbers[-1]) == (first, last) and {"0%", "100%"} <= set(texts)


def test_rows_of_a_histogram_have_one_scale_and_their_number() -> None:
    """Equal shares are bars of equal height, whatever the number of episodes, which stands beside the row."""
    svg = histograms({"round 0": {0.0: 5, 1.0: 5}, "round 1": {0.0: 200, 1.0: 200}}, "reward")
    assert {"n = 10", "n = 400", "0%"} <= set(re.findall(r"<text[^>]*>([^<]+)</text>", svg))
    heights = set()
    for path in re.findall(r'<path d="([^"]*)"[^>]*style="fill: var\(--c0\)', svg):
        ys = [float(y) for y in re.findall(r"[ML] [\d.]+ ([\d.]+)", path)]
        heights.add(round(max(ys) - min(ys)))
    assert len(heights - {0}) == 1


@pytest.mark.parametrize(("low", "begins"), [(0.5, True), (-0.5, False)])
def test_an_axis_begins_at_zero(low: float, begins: bool) -> None:
    """On demand, unless there are negative values."""
    svg = lines([Curve("a", [0, 1], [low, 0.9])], "round", from_zero=True)
    ticks = [float(word.replace("−", "-")) for word in re.findall(r"<text[^>]*>([^<a-z]+)</text>", svg)]
    assert 0 in ticks and (min(ticks) == 0) == begins


def test_values_stand_where_they_belong() -> None:
    """0 % is at the bottom, 100 % at the top; a bar is as long as its share; a missing value is no point."""
    svg = lines([Curve("a", [0, 1, 2], [0.0, math.nan, 1.0])], "round", percent=True)
    places = [
        (float(x), float(y))
        for x, y in re.findall(r'<use xlink:href="#\w+" x="([\d.]+)" y="([\d.]+)" style="fill: var\(--c0\)', svg)
    ]
    assert len(places) == 2 and places[0][0] < places[1][0] and places[0][1] > places[1][1] + 100
    svg = stacked(["round 0"], [(2, [10]), (1, [30])])
    bars = re.findall(r'<path d="([^"]*)"[^>]*style="fill: var\(--c([12])\)', svg)
    widths = {}
    for path, series in bars:
        xs = [float(x) for x in re.findall(r"[ML] ([\d.]+) ", path)]
        widths[series] = max(xs) - min(xs)
    assert widths["1"] == pytest.approx(3 * widths["2"], rel=0.01)
