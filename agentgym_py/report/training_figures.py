"""The figures of a run's trainings, from what they logged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentgym_py.report import svg
from agentgym_py.report.charts import Figure, Rounds, line_chart, sample_evenly, value_text
from agentgym_py.report.svg import Curve, finite

_MAX_ROWS = 40
"""Maximum number of rows of a table of steps; longer ones are sampled evenly."""
_MOST = 24
"""Maximum number of charts of what no other chart draws."""
_STEPS: Mapping[str, tuple[str, ...]] = {
    "Loss": ("loss",),
    "KL divergence, nats per token": ("kl_old_k3", "kl_ref_k3", "kl"),
    "Entropy, nats per token": ("entropy",),
    "Success of the training episodes": ("success",),
    "Return of the training episodes": ("return",),
    "Process rewards per episode": ("process",),
    "Process reward model: correlation with its next labels": (
        "prm_correlation_progress",
        "prm_correlation_correctness",
    ),
    "Tokens per reply": ("reply_tokens",),
    "Gradient norm": ("grad_norm",),
}
"""The keys of a training's log that a chart shows, by title."""
_NAMES = {
    "kl_old_k3": "from the policy that sampled (k3)", "kl_ref_k3": "from the policy as the training began (k3)",
}  # fmt: skip
_PART = re.compile(r"rewards/(.+)/mean")
"""The name of a reward's part in a log."""
_CONSTRAINED = {"Costs of the training episodes": "cost/", "Lagrange multipliers": "multiplier/"}
"""The beginning of names in a log that a chart shows, by title."""


def training(rounds: Rounds) -> Iterator[Figure]:
    """Draw what trainings logged, step by step through all rounds.

    The cloning that makes the Agent_v0 of an on-policy trainer has charts of its own, because its loss is another.
    """
    cloned = [metrics for metrics in rounds if not _is_on_policy(metrics)]
    improved = [metrics for metrics in rounds if _is_on_policy(metrics)]
    yield from _training(improved or cloned)
    if improved:
        for chart in _training(cloned):
            title = f"{chart.title}, cloning of the expert"
            yield replace(chart, title=title, description=chart.description.replace(chart.title, title, 1))


def other_logs(rounds: Rounds) -> Iterator[Figure]:
    """Draw what else an on-policy training logged, or an offline one; what never changes is left out."""
    log, starts = _joined([metrics for metrics in rounds if _is_on_policy(metrics)] or rounds)
    drawn = {name for names in _charts_of(log).values() for name in names}
    values: dict[str, set[float]] = {}
    for row in log:
        for name in row.keys() - drawn:
            values.setdefault(name, set()).update(finite([row[name]]))
    names = sorted(name for name, found in values.items() if len(found) > 1 or len(log) == 1)
    yield from _draw(log, starts, {name: (name,) for name in names[:_MOST]})


def reward_parts(rounds: Rounds) -> Iterator[Figure]:
    """Draw the mean parts of an offline trainer's reward function by round; `training` draws those that are logged."""
    by_round = {metrics["round"]: (metrics["training"] or {}).get("metrics", {}) for metrics in rounds}
    by_round = {number: row for number, row in by_round.items() if _part_names([row])}
    if any(_part_names(history_of(metrics)) for metrics in rounds):
        return
    for title, names in _part_charts(list(by_round.values())).items():
        curves = [
            Curve(_name(name), list(by_round), finite([row.get(name) for row in by_round.values()]), colour=i)
            for i, name in enumerate(names)
        ]
        rows = [[str(number), *(value_text(curve.y[i]) for curve in curves)] for i, number in enumerate(by_round)]
        yield line_chart(title, curves, ["round", *(curve.name for curve in curves)], rows)


def history_of(metrics: Mapping[str, Any]) -> list[Mapping[str, float]]:
    """Return what a round's training logged; older versions logged only the loss."""
    training = metrics["training"] or {}
    return list(training.get("history") or ({"loss": loss} for loss in training.get("loss", ())))


def _is_on_policy(metrics: Mapping[str, Any]) -> bool:
    """Whether a round's training logged the success of its own episodes."""
    return any("success" in row for row in history_of(metrics))


def _training(rounds: Rounds) -> Iterator[Figure]:
    log, starts = _joined(rounds)
    yield from _draw(log, starts, _charts_of(log))


def _joined(rounds: Rounds) -> tuple[list[Mapping[str, float]], list[tuple[int, Any]]]:
    """Return the logs of the rounds one after another, and where each begins: its first step and its round."""
    log, starts = list[Mapping[str, float]](), list[tuple[int, Any]]()
    for metrics in rounds:
        if history := history_of(metrics):
            starts.append((len(log) + 1, metrics["round"]))
            log += history
    return log, starts


def _charts_of(log: Sequence[Mapping[str, float]]) -> dict[str, Sequence[str]]:
    """Return the names that the charts of a log draw, by title."""
    return {**_STEPS, **_part_charts(log), **_constraint_charts(log)}


def _draw(
    log: Sequence[Mapping[str, float]], starts: Sequence[tuple[int, Any]], charts: Mapping[str, Sequence[str]]
) -> Iterator[Figure]:
    """Draw the charts of which the log has a value."""
    for title, names in charts.items():
        curves = [
            Curve(_name(name), range(1, len(log) + 1), finite([row.get(name) for row in log]), colour=i)
            for i, name in enumerate(names) if any(row.get(name) is not None for row in log)
        ]  # fmt: skip
        if curves:
            percent = tuple(names) == ("success",)
            scale, unit = (100, " %") if percent else (1, "")
            steps = sample_evenly(range(len(log)), _MAX_ROWS)
            rows = [
                [_round_at(i + 1, starts), str(i + 1), *(value_text(scale * curve.y[i], unit) for curve in curves)]
                for i in steps
            ]
            header = ["round", "step", *(curve.name for curve in curves)]
            marks = [start - 0.5 for start, _ in starts[1:]]
            yield line_chart(
                title, curves, header, rows, x="logged step", percent=percent, marks=marks, keys=2,
                from_zero=tuple(names) != ("loss",),
            )  # fmt: skip


def _part_names(log: Sequence[Mapping[str, float]]) -> list[str]:
    """Return the names in a log of a reward's parts, in order."""
    return [name for name in dict.fromkeys(name for row in log for name in row) if _PART.fullmatch(name)]


def _part_charts(log: Sequence[Mapping[str, float]]) -> dict[str, list[str]]:
    """Return the names in a log of a reward's parts, by the title of the chart that draws them."""
    names, size = _part_names(log), svg.COLOURS
    charts = [names[at : at + size] for at in range(0, len(names), size)]
    return {f"Parts of the reward{', continued' * (number > 0)}": chart for number, chart in enumerate(charts)}


def _constraint_charts(log: Sequence[Mapping[str, float]]) -> dict[str, list[str]]:
    """Return the names in a log of costs and multipliers, by the title of the chart that draws them."""
    logged = dict.fromkeys(name for row in log for name in row)
    charts = {title: [name for name in logged if name.startswith(start)] for title, start in _CONSTRAINED.items()}
    return {title: names[: svg.COLOURS] for title, names in charts.items() if names}


def _name(logged: str) -> str:
    """Return the name of a curve."""
    part = _PART.fullmatch(logged)
    for start in _CONSTRAINED.values():
        logged = logged.removeprefix(start)
    return part[1] if part else _NAMES.get(logged, logged)


def _round_at(step: int, starts: Sequence[tuple[int, Any]]) -> str:
    return str([number for start, number in starts if start <= step][-1])
