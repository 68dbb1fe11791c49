"""What the page of a run draws: figures with their numbers as a table, from the metrics of its rounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from agentgym_py.evaluation.stats import Estimate
from agentgym_py.evaluation.text import format_interval, format_mean
from agentgym_py.evolution.run_folder import read_estimate
from agentgym_py.report import svg
from agentgym_py.report.svg import Curve, finite

Rounds = Sequence[Mapping[str, Any]]
"""The metrics of the rounds that are over, in order."""
_ROWS = 40
"""Rows of a table of steps; of more those at even distances are shown."""
_HISTOGRAMS = 6
"""Rounds of which rewards are shown; of more those at even distances."""
_STEPS: Mapping[str, tuple[str, ...]] = {
    "Loss": ("loss",),
    "KL divergence, nats a token": ("kl_old_k3", "kl_ref_k3", "kl"),
    "Entropy, nats a token": ("entropy",),
    "Success of the episodes that are learnt from": ("success",),
    "Return of the episodes that are learnt from": ("return",),
    "Process rewards of an episode": ("process",),
    "Process reward model: correlation with its next labels": (
        "prm_correlation_progress",
        "prm_correlation_correctness",
    ),
    "Tokens a reply": ("reply_tokens",),
    "Gradient norm": ("grad_norm",),
}
"""By title, what of a training's log a chart shows."""
_NAMES = {
    "kl_old_k3": "from the policy that sampled (k3)", "kl_ref_k3": "from the policy as the training began (k3)",
}  # fmt: skip
_OUTLIER, _RARE = 8.0, 0.05
"""How many times as large as all others a value must be to be left out of a chart, and the largest share of such."""
_FEWEST, _LISTED = 4, 5
"""Values of a chart below which none is left out, and how many a note lists."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, and the same in words and numbers."""

    title: str
    svg: str
    """Empty where there is no matplotlib."""
    said: str
    """For who does not see it."""
    legend: Sequence[tuple[int, str, str]]
    """Number of the colour, mark and name of each series."""
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def outcomes(rounds: Rounds, test: Mapping[int, Mapping[str, Any]]) -> Iterator[Figure]:
    """Success and reward on held-out tasks by round, where there are any; `test`: the summaries of tested rounds."""
    for name, title, text in (("success", "Success", format_interval), ("reward", "Reward", format_mean)):
        valid = {each["round"]: read_estimate(each["valid"][name]) for each in rounds}
        tested = {number: read_estimate(each[name]) for number, each in sorted(test.items())}
        both = _estimates("valid split", valid), _estimates("test split", tested, 0.12, joined=False)
        curves = [curve for curve in both if curve.x]
        if not curves:  # every episode was lost
            continue
        rows = [[str(r), text(e), text(tested[r]) if r in tested else "–"] for r, e in valid.items()]
        yield _lines(title, curves, ["round", "valid [95 %]", "test [95 %]"], rows,
                     percent=name == "success")  # fmt: skip


def selection(rounds: Rounds) -> Figure:
    """What became of a round's episodes: trained on, or left out by the selection or the trainer, and why."""
    found = [(f"round {each['round']}", _funnel(each)) for each in rounds]
    return _stacked("What became of the episodes", found, "trained on")


def failing(rounds: Rounds) -> Figure:
    """The kinds of failure on the valid split."""
    found = []
    for each in rounds:
        kinds = {kind: int(of["count"]) for kind, of in each["valid"].get("failures", {}).items()}
        rate = each["valid"]["success"]
        found.append((f"round {each['round']}", {"success": round((rate["value"] or 0) * rate["n"])} | kinds))
    return _stacked("How episodes of the valid split ended", found, "success")


def behaviour(rounds: Rounds) -> Iterator[Figure]:
    """Lengths, invalid actions, and the entropy of exploration by round."""
    for name, title, scale in (("steps", "Steps an episode", 1), ("tokens", "Tokens an episode", 1),
                               ("invalid", "Invalid actions", 100)):  # fmt: skip
        yield from _by_round(rounds, name, title, ("explored", "valid"), scale)
    if not any("entropy" in row for each in rounds for row in _history(each)):
        yield from _by_round(rounds, "surprisal", "Entropy of exploration, nats a token", ("explored",), 1)


def rewards(rounds: Rounds) -> Iterator[Figure]:
    """Histograms of the returns of explored episodes, none of runs of older versions."""
    held = {each["round"]: each["explored"].get("rewards") for each in rounds}
    found = {
        f"round {number}": {float(value): int(count) for value, count in counts.items()}
        for number, counts in held.items() if counts
    }  # fmt: skip
    shown = {name: found[name] for name in _even(list(found), _HISTOGRAMS)}
    if shown:
        rows = [[name, f"{value:g}", str(count)] for name, counts in shown.items() for value, count in counts.items()]
        image = svg.histograms(shown, "reward") if svg.there() else ""
        said = "; ".join(f"{name}: mean {_mean(counts):.3g}" for name, counts in shown.items())
        yield Figure("Rewards of the explored episodes", image, said, [], ["", "reward", "episodes"], rows,
                     "Bars of a row add up to the round's episodes.")  # fmt: skip


def training(rounds: Rounds) -> Iterator[Figure]:
    """What trainings logged, step by step through all rounds."""
    log, starts = list[Mapping[str, float]](), list[tuple[int, Any]]()
    for each in rounds:
        if history := _history(each):
            starts.append((len(log) + 1, each["round"]))
            log += history
    for title, names in _STEPS.items():
        curves = [
            Curve(_NAMES.get(name, name), range(1, len(log) + 1), finite([row.get(name) for row in log]))
            for name in names if any(row.get(name) is not None for row in log)
        ]  # fmt: skip
        if curves:
            shown = _even(range(len(log)), _ROWS)
            rows = [[_round_of(i + 1, starts), str(i + 1), *(_text(curve.y[i]) for curve in curves)] for i in shown]
            yield _lines(title, curves, ["round", "step", *(curve.name for curve in curves)], rows, x="logged step",
                         marks=[start - 0.5 for start, _ in starts[1:]])  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- their parts


def _lines(
    title: str, curves: Sequence[Curve], head: Sequence[str], rows: Sequence[Sequence[str]], *, x: str = "round",
    percent: bool = False, marks: Sequence[float] = (),
) -> Figure:  # fmt: skip
    shown, beyond = _without_outliers(curves)
    image = svg.lines(shown, x, percent=percent, marks=marks) if svg.there() else ""
    told = []
    for curve in curves:
        known = [value for value in curve.y if not math.isnan(value)]
        if known:
            first, last = (f"{100 * each:.1f} %" if percent else _text(each) for each in (known[0], known[-1]))
            told.append(f"{curve.name}: {first} first, {last} last")
    note = " ".join(["Dotted lines: a new round."] * bool(marks) + beyond)
    names = [(i, svg.MARKS[i], curve.name) for i, curve in enumerate(curves)]
    legend = names if len(names) > 1 else []
    return Figure(title, image, f"{title} by {x}. {'; '.join(told)}", legend, head, rows, note)


def _without_outliers(curves: Sequence[Curve]) -> tuple[list[Curve], list[str]]:
    """The curves without the few values beside which all others would be a flat line; and a note on what is missing.

    Without intervals only: a rate is between 0 and 1.
    """
    known = sorted((abs(y) for curve in curves for y in curve.y if not math.isnan(y)), reverse=True)
    few = max(1, int(_RARE * len(known)))
    most = next((small for large, small in pairwise(known[: few + 1]) if large > _OUTLIER * small > 0), None)
    if most is None or len(known) < _FEWEST or any(curve.low for curve in curves):
        return list(curves), []
    kept, notes = [], list[str]()
    for curve in curves:
        out = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if abs(y) > most]
        kept.append(replace(curve, y=[y if abs(y) <= most else math.nan for y in curve.y]))
        if out:
            where = ", ".join(f"{_text(y)} at {x:g}" for x, y in out[:_LISTED]) + ", …" * (len(out) > _LISTED)
            notes.append(f"Beyond the chart, {curve.name}: {where}.")
    return kept, notes


def _stacked(title: str, found: Sequence[tuple[str, Mapping[str, int]]], best: str) -> Figure:
    """The part `best` comes first, also where there is none of it, so that no other has its colour."""
    names = list(dict.fromkeys([best, *(name for _, parts in found for name in parts if parts[name])]))
    parts = {name: [each.get(name, 0) for _, each in found] for name in names}
    image = svg.stacked([row for row, _ in found], parts) if svg.there() else ""
    rows = [[row, *(str(each.get(name, 0)) for name in names)] for row, each in found]
    said = "; ".join(f"{row}: " + ", ".join(f"{n} {name}" for name, n in each.items()) for row, each in found)
    legend = [(svg.BARS[i % svg.COLOURS], "■", name) for i, name in enumerate(names)]
    return Figure(title, image, said, legend, ["", *names], rows)


def _by_round(rounds: Rounds, name: str, title: str, phases: Iterable[str], scale: int) -> Iterator[Figure]:
    curves = []
    for phase in phases:
        played = [each[phase] if each[phase]["success"]["n"] else {} for each in rounds]
        if any(each.get(name) is not None for each in played):
            curves.append(Curve(phase, [each["round"] for each in rounds], finite([each.get(name) for each in played])))
    if curves:
        unit = " %" * (scale == 100)
        rows = [
            [str(each["round"]), *(_text(scale * curve.y[i]) + unit for curve in curves)]
            for i, each in enumerate(rounds)
        ]
        yield _lines(title, curves, ["round", *(curve.name for curve in curves)], rows, percent=scale == 100)


def _estimates(name: str, found: Mapping[int, Estimate], shift: float = 0, *, joined: bool = True) -> Curve:
    known = {number: each for number, each in found.items() if not math.isnan(each.value)}
    low, high = ([getattr(each, end) for each in known.values()] for end in ("low", "high"))
    return Curve(name, [n + shift for n in known], [each.value for each in known.values()], low, high, joined)


def _funnel(metrics: Mapping[str, Any]) -> dict[str, int]:
    """Of a round's own episodes; what the trainer left out is known where it had no others."""
    training, kept = metrics["training"] or {}, metrics["selection"]["kept"]
    left_out = Counter(training.get("dropped", {}))
    alone = bool(training) and training["trajectories"] + left_out.total() == kept
    used = {"trained on": training["trajectories"]} | left_out if alone else {"kept": kept}
    return used | dict(metrics["selection"]["dropped"])


def _history(metrics: Mapping[str, Any]) -> list[Mapping[str, float]]:
    """What a round's training logged; of an older version at least its loss."""
    training = metrics["training"] or {}
    return list(training.get("history") or ({"loss": each} for each in training.get("loss", ())))


def _round_of(step: int, starts: Sequence[tuple[int, Any]]) -> str:
    return str([number for start, number in starts if start <= step][-1])


def _even(items: Sequence[Any], most: int) -> list[Any]:
    """All of them, or as many as may be at even distances, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def _mean(counts: Mapping[float, int]) -> float:
    return sum(value * count for value, count in counts.items()) / sum(counts.values())


def _text(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4g}"
