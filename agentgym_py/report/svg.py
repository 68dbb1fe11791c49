"""Charts as inline SVG by matplotlib: no script, no network, in the colours of the page around them.

A chart is drawn in placeholder colours, which become the page's CSS variables `--c0` … `--c7`, `--soft` and `--line`,
so that it follows the page from light to dark. Its width is that of a phone.
"""

from __future__ import annotations

import logging
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, nullcontext
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

COLOURS = 8
MARKS = "●■▲◆▼★✚✕"
"""Markers of the curves of a chart, one per colour."""
_MARKERS, _DASHES = "os^Dv*PX", ("-", "--", ":", "-.", "-", "--", ":", "-.")
_WIDTH = 380
_VARIABLES = {f"#0101{i:02x}": f"var(--c{i})" for i in range(COLOURS)} | {
    "#0101f0": "var(--soft)", "#0101f1": "var(--line)", "#0101f2": "var(--back)",
}  # fmt: skip
*_, _SOFT, _LINE, _BACK = _VARIABLES
_STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "agentgym",
    "font.size": 12, "text.color": _SOFT, "axes.labelcolor": _SOFT, "axes.edgecolor": _LINE,
    "xtick.color": _SOFT, "ytick.color": _SOFT, "xtick.labelcolor": _SOFT, "ytick.labelcolor": _SOFT,
    "grid.color": _LINE, "axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False,
    "axes.spines.right": False, "axes.spines.left": False, "xtick.major.size": 0, "ytick.major.size": 0,
    "axes.formatter.useoffset": False, "axes.formatter.limits": (-3, 4), "text.usetex": False, "text.parse_math": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Curve:
    """A series of a chart; nan in `y` is no value."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    """Lower ends of intervals, as many as values, or none."""
    high: Sequence[float] = ()
    joined: bool = True
    """Whether a line connects the values."""
    colour: int = 0
    """Colour number, which also chooses the marker and the dashes."""


def has_matplotlib() -> bool:
    """Tell whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def lines(
    curves: Sequence[Curve], x: str, *, percent: bool = False, marks: Sequence[float] = (), from_zero: bool = False,
    top: float | None = None,
) -> str:  # fmt: skip
    """Draw curves over integers `x`; `marks` are places of vertical lines.

    `from_zero` begins the axis at 0, or at the smallest value if that is negative. `top` ends it there, or a little
    above the largest value if that is larger.
    """

    def draw(figure: Any) -> None:
        from matplotlib.ticker import MaxNLocator, PercentFormatter

        axes = figure.add_subplot()
        many = max(len(curve.x) for curve in curves) > 24
        for curve in curves:
            colour, marker = f"#0101{curve.colour:02x}", "" if many and curve.joined else _MARKERS[curve.colour]
            dashes = _DASHES[curve.colour] if curve.joined else ""
            axes.plot(curve.x, curve.y, marker=marker, color=colour, linestyle=dashes, markersize=5.5, clip_on=False)
            if curve.low and curve.joined:
                axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
            if curve.low and not (many and curve.joined):
                axes.vlines(curve.x, curve.low, curve.high, color=colour, linewidth=1.2, alpha=0.7)
        for mark in marks:
            axes.axvline(mark, color=_SOFT, linewidth=0.8, linestyle=":")
        if percent:
            axes.set_ylim(0, 1)
            axes.yaxis.set_major_formatter(PercentFormatter(1, 0))
        elif from_zero:
            ends = [value for curve in curves for part in (curve.y, curve.low, curve.high) for value in part]
            numbers = [0.0, *(value for value in ends if not math.isnan(value))]
            axes.set_ylim(bottom=min(numbers))
            if top is not None and min(numbers) < top >= max(numbers):
                axes.set_ylim(top=top)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        axes.set_xlabel(x)
        axes.grid(axis="x", visible=False)

    return _to_svg(draw, 220)


def stacked(rows: Sequence[str], parts: Sequence[tuple[int, Sequence[float]]]) -> str:
    """Draw a horizontal bar per row, from top to bottom; a part is its colour number and a value per row."""

    def draw(figure: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        lefts = [0.0] * len(rows)
        for colour, values in parts:
            axes.barh(rows, values, left=lefts, height=0.7, color=f"#0101{colour:02x}", edgecolor=_BACK)
            lefts = [left + value for left, value in zip(lefts, values, strict=True)]
        axes.invert_yaxis()
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlabel("episodes")
        axes.grid(axis="y", visible=False)

    return _to_svg(draw, 60 + 24 * len(rows))


def intervals(rows: Sequence[tuple[str, float, float, float]], x: str, colour: int = 0) -> str:
    """Draw a value with its interval per row, from top to bottom: name, value, lower and upper end (nan: none)."""

    def draw(figure: Any) -> None:
        axes, places = figure.add_subplot(), range(len(rows))
        names, values, lows, highs = zip(*rows, strict=True)
        axes.axvline(0, color=_SOFT, linewidth=0.8, linestyle=":")
        axes.hlines(places, lows, highs, color=f"#0101{colour:02x}", linewidth=1.6, alpha=0.7)
        axes.plot(values, places, marker=_MARKERS[0], color=f"#0101{colour:02x}", linestyle="", markersize=5.5)
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.set_xlabel(x)
        axes.grid(axis="y", visible=False)

    return _to_svg(draw, 60 + 24 * len(rows))


def histograms(
    rows: Mapping[str, Mapping[float, int]], x: str, colours: Mapping[str, int] | None = None, top: float = 1.0
) -> str:
    """Draw a histogram per row of values and their counts: shares of the row, with the same bins and scale in each.

    The axis begins at 0, or at the smallest value if that is negative, and ends at `top`, or at the largest value if
    that is larger. `colours` are the colour numbers of the rows.
    """

    def draw(figure: Any) -> None:
        from matplotlib.ticker import MaxNLocator, PercentFormatter

        values = [value for counts in rows.values() for value in counts]
        low, high = min(0.0, *values), max(top, *values)
        edges = [low + (high - low or 1) * i / 20 for i in range(21)]
        rows_of_axes = figure.subplots(len(rows), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, (name, counts) in zip(rows_of_axes, rows.items(), strict=True):
            total, colour = sum(counts.values()), f"#0101{(colours or {}).get(name, 0):02x}"
            axes.hist(list(counts), edges, weights=[n / total for n in counts.values()], color=colour)
            axes.set_ylim(0, 1)
            axes.set_ylabel(f"{name}\nn = {total}", rotation=0, ha="right", va="center")
            axes.yaxis.set_major_locator(MaxNLocator(2))
            axes.yaxis.set_major_formatter(PercentFormatter(1, 0))
            axes.grid(axis="x", visible=False)
        rows_of_axes[-1].set_xlabel(x)

    return _to_svg(draw, 50 + 55 * len(rows))


def _to_svg(draw: Callable[[Any], None], height: float) -> str:
    """Turn what `draw` puts on a figure into an SVG element."""
    mpl = _import_matplotlib()
    from matplotlib.figure import Figure

    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # matplotlib prints about its font cache
    out = StringIO()
    with mpl.rc_context(_STYLE):
        figure = Figure((_WIDTH / 72, height / 72), layout="constrained")
        draw(figure)
        figure.savefig(
            out, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
        )
    svg = out.getvalue()
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"|<metadata>.*?</metadata>|<!--.*?-->', "", svg[svg.index("<svg") :], flags=re.S)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true">', svg, count=1)
    return re.sub("|".join(_VARIABLES), lambda match: _VARIABLES[match[0]], svg)


def _import_matplotlib() -> Any:
    """Import matplotlib without a `matplotlibrc` of the current folder.

    The folder may come from a stranger, and matplotlib evaluates parts of that file and may run LaTeX for it. It finds
    its own one in its folder.
    """
    package = find_spec("matplotlib")
    assert package and package.origin
    with nullcontext() if "matplotlib" in sys.modules else chdir(Path(package.origin).with_name("mpl-data")):
        return import_module("matplotlib")


def finite(values: Sequence[float | None]) -> list[float]:
    """The values with nan for None, as curves need them."""
    return [math.nan if value is None else value for value in values]
