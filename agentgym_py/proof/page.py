"""The page of a proof: its learning curve in the band of its seeds beside a reference's, and what each check found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentgym_py.proof.proof import CurvePoint, Proof
from agentgym_py.report.charts import line_chart
from agentgym_py.report.sheet import write_sheet
from agentgym_py.report.svg import Curve


def write_proof(path: Path, proof: Proof) -> Path:
    """Write a proof as one HTML file; returns its path.

    Raises:
        WriteError: the file cannot be written.
    """
    summary = [("trainer", proof.trainer), ("verdict", proof.verdict), ("seed", str(proof.seed))]
    checks = [[result.check, result.status, result.about, result.text] for result in proof.results]
    header, rows = proof.curve_rows()
    curves = [_curve(proof.trainer, proof.curve, 0)]
    if proof.reference_curve:
        curves.append(_curve(proof.reference, proof.reference_curve, 1))
    chart = line_chart("Exact expected return", curves, header, rows, x="training, %", from_zero=True)
    notes = [f"Lines: the mean of {proof.seeds} trainings of {proof.episodes} episodes. Bands: lowest to highest seed."]
    return write_sheet(
        path, f"Proof of {proof.trainer}", summary, [chart] if proof.curve else [],
        [("Checks", ["check", "status", "what must hold", "what was found"], checks)], notes if proof.curve else [],
        sentences=True,
    )  # fmt: skip


def _curve(name: str, points: Sequence[CurvePoint], colour: int) -> Curve:
    """Return the means as a curve with the range of the seeds."""
    means, lows, highs = ([getattr(point, part) for point in points] for part in ("mean", "low", "high"))
    return Curve(name, [round(100 * point.share) for point in points], means, lows, highs, colour=colour)
