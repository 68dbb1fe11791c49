"""Charts with their numbers as tables and in words: what every figure of a page is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from agentgym_py.evaluation.stats import Estimate
from agentgym_py.report import svg
from agentgym_py.report.svg import Curve

Rounds = Sequence[Mapping[str, Any]]
"""The metrics of the rounds of a run that are over, in order."""
_PARTS = {
    "success": 2, "out of steps": 0, "wrong goal": 1, "looped": 3, "no valid action": 4, "gave up": 5,
    "kept": 2, "below reward": 1, "duplicates": 3, "without success": 4,
    "ended by an infrastructure error": 5, "longer than": 6, "in a group with identical returns": 7,
}  # fmt: skip
"""Colour numbers of the parts of bars, by the beginning of their names; the same in every chart of every run."""
_OUTLIER, _RARE = 8.0, 0.05
"""Factor by which an outlier exceeds all other values of a chart, and the largest share of outliers."""
_FEWEST, _LISTED = 4, 5
"""Fewest values of a chart with outliers, and the number of outliers that a note lists."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its description and table."""

    title: str
    svg: str
    """Empty without matplotlib."""
    description: str
    """The chart in words, for screen readers."""
    legend: Sequence[tuple[int, str, str]]
    """Colour number, mark and name of each series."""
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    keys: int = 1
    """Number of first columns that name the row."""
    is_single: bool = False
    """Whether it has curves of one point only, which a table shows better than a chart."""


def line_chart(
    title: str, curves: Sequence[Curve], header: Sequence[str], rows: Sequence[Sequence[str]], *, x: str = "round",
    percent: bool = False, marks: Sequence[float] = (), marks_note: str = "Vertical lines: a new round.", keys: int = 1,
    from_zero: bool = False, top: float | None = None,
) -> Figure:  # fmt: skip
    """Draw curves over integers with a table of `rows`, whose first `keys` columns name the row; see `svg.lines`."""
    drawn, outlier_notes = _without_outliers(curves)
    points = [sum(not math.isnan(y) for y in curve.y) for curve in curves]
    is_single = len(rows) == 1 or (max(points) <= 1 and len(_rows_with_values(rows, keys)) == 1)
    is_drawn = svg.has_matplotlib() and not is_single
    image = svg.lines(drawn, x, percent=percent, marks=marks, from_zero=from_zero, top=top) if is_drawn else ""
    texts = []
    for curve in curves:
        values = [value for value in curve.y if not math.isnan(value)]
        if values:
            first, last = (f"{100 * y:.1f} %" if percent else value_text(y) for y in (values[0], values[-1]))
            texts.append(f"{curve.name}: {first} first, {last} last")
    notes = [*([marks_note] if marks else []), *outlier_notes]
    legend = [(curve.colour, svg.MARKS[curve.colour], curve.name) for curve in curves] if len(curves) > 1 else []
    description = f"{title} by {x}. {'; '.join(texts)}"
    return Figure(title, image, description, legend, header, rows, " ".join(notes), keys, is_single)


def interval_chart(title: str, estimates: Mapping[str, Estimate], x: str, form: str) -> Figure:
    """Draw a value with its interval per name; `form` formats the numbers of the table."""
    points = [(name, estimate.value, estimate.low, estimate.high) for name, estimate in estimates.items()]
    image = svg.intervals(points, x) if svg.has_matplotlib() else ""
    rows = [[name, *("–" if math.isnan(y) else format(y, form) for y in values)] for name, *values in points]
    texts = "; ".join(f"{name}: {value}, from {low} to {high}" for name, value, low, high in rows)
    return Figure(title, image, f"{title}. {texts}", [], ["", x, "lower end", "upper end"], rows)


def stacked_chart(title: str, bars: Sequence[tuple[str, Mapping[str, int]]], best: str) -> Figure:
    """Draw stacked bars; the part `best` always comes first."""
    names = list(dict.fromkeys([best, *(name for _, parts in bars for name in parts if parts[name])]))
    colours = _part_colours(names)
    series = [(colours[name], [parts.get(name, 0) for _, parts in bars]) for name in names]
    image = svg.stacked([label for label, _ in bars], series) if svg.has_matplotlib() else ""
    rows = [[label, *(str(parts.get(name, 0)) for name in names)] for label, parts in bars]
    texts = [f"{label}: " + ", ".join(f"{n} {name}" for name, n in parts.items()) for label, parts in bars]
    legend = [(colours[name], "■", name) for name in names]
    return Figure(title, image, "; ".join(texts), legend, ["", *names], rows)


def single_table(figures: Sequence[Figure]) -> tuple[list[str], list[list[str]]]:
    """Join the figures of one point each: a row per figure, a column per curve."""
    singles = list[tuple[str, dict[str, str]]]()
    for figure in figures:
        if figure.is_single:
            row = next(iter(_rows_with_values(figure.rows, figure.keys)), figure.rows[0])
            place = f" ({figure.header[0]} {row[0]})" * (len(figure.rows) > 1)
            values = dict(zip(figure.header[figure.keys :], row[figure.keys :], strict=True))
            singles.append((f"{figure.title}{place}", values))
    names = list(dict.fromkeys(name for _, values in singles for name, text in values.items() if text != "–"))
    if len(names) > 1 and all(len(values) == 1 for _, values in singles):
        return ["", "value"], [[title, *values.values()] for title, values in singles]
    return ["", *names], [[title, *(values.get(name, "–") for name in names)] for title, values in singles]


def sample_evenly(items: Sequence[Any], maximum: int) -> list[Any]:
    """Return all items, or `maximum` of them at even distances including the first and the last."""
    if len(items) <= maximum:
        return list(items)
    return [items[round(i * (len(items) - 1) / (maximum - 1))] for i in range(maximum)]


def value_text(value: float, unit: str = "") -> str:
    """Return a value with four significant digits and its unit; a dash for nan."""
    return "–" if math.isnan(value) else f"{value:.4g}{unit}"


def _rows_with_values(rows: Sequence[Sequence[str]], keys: int) -> list[Sequence[str]]:
    """Return the rows of a table that have a value beside their first `keys` columns."""
    return [row for row in rows if any(text != "–" for text in row[keys:])]


def _without_outliers(curves: Sequence[Curve]) -> tuple[list[Curve], list[str]]:
    """Remove the few values that would flatten all others, and return notes on them.

    Curves with intervals are never cut, because a rate is between 0 and 1.
    """
    sizes = sorted((abs(y) for curve in curves for y in curve.y if not math.isnan(y)), reverse=True)
    rare = max(1, int(_RARE * len(sizes)))
    limit = next((small for large, small in pairwise(sizes[: rare + 1]) if large > _OUTLIER * small > 0), None)
    if limit is None or len(sizes) < _FEWEST or any(curve.low for curve in curves):
        return list(curves), []
    notes = list[str]()
    for curve in curves:
        if outliers := [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if abs(y) > limit]:
            texts = [f"{value_text(y)} at {x:g}" for x, y in outliers[:_LISTED]] + ["…"] * (len(outliers) > _LISTED)
            notes.append(f"Beyond the chart, {curve.name}: {', '.join(texts)}.")
    return [replace(curve, y=[y if abs(y) <= limit else math.nan for y in curve.y]) for curve in curves], notes


def _part_colours(names: Sequence[str]) -> dict[str, int]:
    """Return the colour number of each part: its own, or one of those that no other part of the chart has."""
    fixed = {name: colour for name in names for part, colour in _PARTS.items() if name.startswith(part)}
    free = [colour for colour in range(svg.COLOURS) if colour not in fixed.values()] or [svg.COLOURS - 1]
    others = sorted(name for name in names if name not in fixed)
    return fixed | {name: free[i % len(free)] for i, name in enumerate(others)}
