"""Pages of single measurements, each with figures and numbers: the credit lab, comparisons that stop themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentgym_py.credit.lab import CreditReport
from agentgym_py.evaluation.anytime import SequentialComparison
from agentgym_py.files import clear_write_errors
from agentgym_py.report.charts import Figure, interval_chart, line_chart, sample_evenly
from agentgym_py.report.html import advice_on_charts, write_html
from agentgym_py.report.svg import Curve
from agentgym_py.version import __version__

_MAX_POINTS = 120
"""Maximum number of tasks at which a sequence is drawn."""
Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""Title, header and rows."""


def write_sheet(
    path: Path, title: str, summary: Sequence[tuple[str, str]], figures: Sequence[Figure],
    tables: Sequence[Table] = (), notes: Sequence[str] = (), *, sentences: bool = False,
) -> Path:  # fmt: skip
    """Write a page of figures, tables and sentences as one HTML file; returns its path.

    `sentences` says that cells of the tables hold sentences, which are broken into lines.

    Raises:
        WriteError: the file cannot be written.
    """
    values = {
        "title": title, "summary": [*summary, ("agentgym-py", __version__)], "charts": advice_on_charts(),
        "figures": figures, "tables": tables, "table_class": "prose" if sentences else "", "notes": notes,
    }  # fmt: skip
    with clear_write_errors(path):
        return write_html(path, "sheet.html", values)


def write_credit(path: Path, report: CreditReport) -> Path:
    """Write the credit lab's ranking of estimators with its intervals; see `write_sheet`."""
    summary = [
        ("agent", report.agent),
        ("world", "; ".join(report.worlds)),
        ("tasks", str(report.tasks)),
        ("steps", str(report.steps)),
        ("truth", report.truth),
    ]
    figures = [
        interval_chart(f"Cosine of {report.cosine_of} with the true ones", {s.name: s.cosine for s in report.scores},
                       "cosine", ".2f"),
        interval_chart("Rank correlation with the true advantages",
                       {s.name: s.rank_correlation for s in report.scores}, "Spearman's correlation", ".2f"),
        interval_chart("Bias, mean over steps", {s.name: s.bias for s in report.scores}, "return", "+.3f"),
        interval_chart("Bias, root mean square", {s.name: s.rms_bias for s in report.scores}, "return", ".3f"),
    ]  # fmt: skip
    return write_sheet(path, "Advantage estimators", summary, figures, [("All scores", *report.rows())], report.notes())


def write_comparison(path: Path, comparison: SequentialComparison) -> Path:
    """Write the confidence sequence of a comparison after each of its tasks; see `write_sheet`."""
    found, trace = comparison.result, sample_evenly(comparison.trace, _MAX_POINTS)
    points = {state.n: [100 * x for x in (state.value, state.low, state.high)] for state in trace}
    values, lows, highs = (list(column) for column in zip(*points.values(), strict=True)) if points else ([], [], [])
    chart = line_chart(
        "Difference in points of success, after each task", [Curve("difference", list(points), values, lows, highs)],
        ["tasks", "difference", "lower end", "upper end"],
        [[str(n), *(f"{x:+.1f}" for x in row)] for n, row in points.items()], x="tasks",
        marks=[] if found.decided_at is None else [found.decided_at], marks_note="Vertical line: the decision.",
    )  # fmt: skip
    summary = [("first", comparison.first), ("second", comparison.second), ("verdict", found.verdict)]
    notes = [*str(comparison).splitlines(), "The band holds the true difference after every task with 95 % confidence."]
    return write_sheet(path, f"{comparison.first} − {comparison.second}", summary, [chart] if points else [], (), notes)
