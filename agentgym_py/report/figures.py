"""The figures of a run's page with their numbers as tables, from the metrics of its rounds."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from agentgym_py.evaluation.stats import Estimate
from agentgym_py.evaluation.text import env_summaries, format_cost, format_interval, format_mean
from agentgym_py.evolution.run_folder import read_estimate
from agentgym_py.report import svg
from agentgym_py.report.svg import Curve, finite

Rounds = Sequence[Mapping[str, Any]]
"""The metrics of the rounds that are over, in order."""
_MAX_ROWS = 40
"""Maximum number of rows of a table of steps; longer ones are sampled evenly."""
_MAX_HISTOGRAMS = 6
"""Maximum number of histograms; more rounds are sampled evenly."""
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
_SERIES = {"valid": 0, "valid split": 0, "test split": 1, "explored": 3, "expert": 5}
"""Colour numbers of curves and histograms by round, the same in every chart."""
_PARTS = {
    "success": 2, "out of steps": 0, "wrong goal": 1, "looped": 3, "no valid action": 4, "gave up": 5,
    "kept": 2, "below reward": 1, "duplicates": 3, "without success": 4,
    "ended by an infrastructure error": 5, "longer than": 6, "in a group with identical returns": 7,
}  # fmt: skip
"""Colour numbers of the parts of bars, by the beginning of their names; the same in every chart of every run."""
_RISE = 0.05
"""Smallest rise of the share of invalid actions that the page remarks."""
_PART = re.compile(r"rewards/(.+)/mean")
"""The name of a reward's part in a log."""
_CONSTRAINED = {"Costs of the training episodes": "cost/", "Lagrange multipliers": "multiplier/"}
"""The beginning of names in a log that a chart shows, by title."""
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


def outcomes(rounds: Rounds, test: Mapping[int, Mapping[str, Any]]) -> Iterator[Figure]:
    """Draw success and reward on held-out tasks by round, and the success in each of several worlds.

    `test` holds the summaries of tested rounds.
    """
    valid = {metrics["round"]: metrics["valid"] for metrics in rounds}
    yield from _outcome("Success", "success", valid, test)
    yield from _outcome("Reward", "reward", valid, test)
    for world in env_summaries(rounds[-1]["valid"]):
        by_round = {number: summary["worlds"][world] for number, summary in valid.items()}
        tested = {number: summary["worlds"][world] for number, summary in test.items()}
        yield from _outcome(f"Success in {world}", "success", by_round, tested)


def _outcome(
    title: str, name: str, valid: Mapping[int, Mapping[str, Any]], test: Mapping[int, Mapping[str, Any]]
) -> Iterator[Figure]:
    """Draw a figure of summaries by round; none if infrastructure failures ended every episode."""
    text = format_interval if name == "success" else format_mean
    by_round = {number: read_estimate(summary[name]) for number, summary in valid.items()}
    tested = {number: read_estimate(summary[name]) for number, summary in sorted(test.items())}
    both = _estimates("valid split", by_round), _estimates("test split", tested, 0.12, joined=False)
    if curves := [curve for curve in both if curve.x]:
        rows = [[str(r), text(e), text(tested[r]) if r in tested else "–"] for r, e in by_round.items()]
        header = ["round", "valid [95 %]", "test [95 %]"]
        yield line_chart(title, curves, header, rows, percent=name == "success", from_zero=True)


def selection(rounds: Rounds) -> Figure:
    """Draw how many of a round's episodes were trained on, or left out for which reason."""
    bars = [(f"round {metrics['round']}", _usage(metrics)) for metrics in rounds]
    return _stacked("Use of the explored episodes", bars, "kept")


def failing(rounds: Rounds) -> Figure:
    """Draw the kinds of failure on the valid split."""
    bars = []
    for metrics in rounds:
        kinds = {kind: int(failure["count"]) for kind, failure in metrics["valid"].get("failures", {}).items()}
        rate = metrics["valid"]["success"]
        bars.append((f"round {metrics['round']}", {"success": round((rate["value"] or 0) * rate["n"])} | kinds))
    return _stacked("Ends of episodes on the valid split", bars, "success")


def behaviour(rounds: Rounds) -> Iterator[Figure]:
    """Draw lengths, invalid actions, replies that were cut, and the entropy of exploration by round."""
    for name, title, scale in (("steps", "Steps per episode", 1), ("tokens", "Tokens per episode", 1),
                               ("invalid", "Invalid actions", 100), ("cut", "Replies cut off", 100)):  # fmt: skip
        yield from _by_round(rounds, name, title, ("explored", "valid"), scale)
    if not any("entropy" in row for metrics in rounds for row in _history(metrics)):
        yield from _by_round(rounds, "surprisal", "Entropy of exploration, nats per token", ("explored",), 1)


def invalid_remark(rounds: Rounds) -> str:
    """Remark that the last agent acts invalidly more often than an earlier one; empty if it does not.

    Counted on the valid split; the earlier round is the one with the smallest share.
    """
    shares = {m["round"]: m["valid"]["invalid"] for m in rounds if m["valid"]["success"]["n"]}
    if len(shares) < 2:
        return ""
    last, share = list(shares.items())[-1]
    best = min(shares, key=lambda number: shares[number])
    if share < shares[best] + _RISE:
        return ""
    return (
        f"Invalid actions on the valid split rose from {100 * shares[best]:.1f} % (round {best}) "
        f"to {100 * share:.1f} % (round {last})."
    )


def single_table(figures: Sequence[Figure]) -> tuple[list[str], list[list[str]]]:
    """Join the figures of one point each: a row per figure, a column per curve."""
    singles = [
        (figure.title, dict(zip(figure.header[figure.keys :], figure.rows[0][figure.keys :], strict=True)))
        for figure in figures if figure.is_single
    ]  # fmt: skip
    names = list(dict.fromkeys(name for _, values in singles for name, text in values.items() if text != "–"))
    if len(names) > 1 and all(len(values) == 1 for _, values in singles):
        return ["", "value"], [[title, *values.values()] for title, values in singles]
    return ["", *names], [[title, *(values.get(name, "–") for name in names)] for title, values in singles]


def rewards(rounds: Rounds) -> Iterator[Figure]:
    """Draw histograms of the returns of explored episodes; runs of older versions have none."""
    counts_by_round = {
        f"round {metrics['round']}": {float(value): int(count) for value, count in counts.items()}
        for metrics in rounds if (counts := metrics["explored"].get("rewards"))
    }  # fmt: skip
    sample = {name: counts_by_round[name] for name in sample_evenly(list(counts_by_round), _MAX_HISTOGRAMS)}
    if sample:
        rows = [[name, f"{value:g}", str(count)] for name, counts in sample.items() for value, count in counts.items()]
        image = svg.histograms(sample, "reward", _SERIES["explored"]) if svg.has_matplotlib() else ""
        means = {name: sum(v * n for v, n in counts.items()) / sum(counts.values()) for name, counts in sample.items()}
        description = "; ".join(f"{name}: mean {mean:.3g}" for name, mean in means.items())
        yield Figure("Rewards of the explored episodes", image, description, [], ["", "reward", "episodes"], rows,
                     "Bars are shares of a row's episodes; all rows have one scale.")  # fmt: skip


def curriculum(rounds: Rounds) -> Iterator[Figure]:
    """Draw the level of exploration, the success of exploration at each level, and the horizon, by round."""
    by_round = {metrics["round"]: metrics["curriculum"] for metrics in rounds if "curriculum" in metrics}
    levels = {number: row["levels"] for number, row in by_round.items() if "levels" in row}
    worlds = list(next(iter(levels.values()), {}))
    if worlds:
        curves = [
            Curve(world, list(levels), [_mean_level(row[world]) for row in levels.values()], colour=i % svg.COLOURS)
            for i, world in enumerate(worlds)
        ]
        rows = [[str(number), *(_tasks_by_level(row[world]) for world in worlds)] for number, row in levels.items()]
        yield line_chart("Level of exploration, from 1", curves, ["round", *worlds], rows)
    for world in worlds:
        of_world = f" in {world}" if len(worlds) > 1 else ""
        yield from _success_by_level(of_world, {number: row[world] for number, row in levels.items()})
    if horizons := {number: row["horizon"] for number, row in by_round.items() if "horizon" in row}:
        curve = Curve("horizon", list(horizons), list(map(float, horizons.values())))
        rows = [[str(number), str(steps)] for number, steps in horizons.items()]
        yield line_chart("Horizon of exploration, steps", [curve], ["round", "horizon"], rows)


def costs(rounds: Rounds, test: Mapping[int, Mapping[str, Any]], limits: Mapping[str, float]) -> Iterator[Figure]:
    """Draw the costs of episodes on held-out tasks and of exploration by round, each beside its limit if it has one.

    `test` holds the summaries of tested rounds. A cost that is 0 everywhere is drawn only if it has a limit.
    """
    splits = {
        "valid split": {metrics["round"]: metrics["valid"] for metrics in rounds},
        "explored": {metrics["round"]: metrics["explored"] for metrics in rounds},
        "test split": dict(sorted(test.items())),
    }
    names = dict.fromkeys(
        name for by_round in splits.values() for row in by_round.values() for name in row.get("costs", ())
    )
    for name in names:
        means = {
            split: {n: read_estimate(row["costs"][name]) for n, row in by_round.items() if name in row.get("costs", ())}
            for split, by_round in splits.items()
        }
        if name not in limits and not any(mean.value for of_split in means.values() for mean in of_split.values()):
            continue
        numbers = list(splits["valid split"])
        curves = [
            _estimates(split, of_split, 0.12 * (split == "test split"), joined=split != "test split")
            for split, of_split in means.items()
        ]
        if name in limits:
            curves.append(Curve("limit", numbers, [limits[name]] * len(numbers), colour=5))
        rows = [
            [
                str(number),
                *(format_cost(of_split[number]) if number in of_split else "–" for of_split in means.values()),
            ]
            for number in numbers
        ]
        limit = f", at most {limits[name]:g}" if name in limits else ""
        yield line_chart(f"Cost per episode: {name}{limit}", [curve for curve in curves if curve.x],
                     ["round", *means], rows, from_zero=True)  # fmt: skip


def self_improvement(rounds: Rounds) -> Iterator[Figure]:
    """Draw a critic's mean score beside the world's success of all it scored and of what was kept, and the retries."""
    critics = {metrics["round"]: metrics["critic"] for metrics in rounds if "critic" in metrics}
    if critics:
        numbers = list(critics)
        scores = Curve("mean score of the critic", numbers, finite([row["mean_score"] for row in critics.values()]))
        names = {"success_of_scored": "success in the world", "success_of_kept": "success of what was kept"}
        rates = {key: {n: read_estimate(row[key]) for n, row in critics.items()} for key in names}
        curves = [scores, *(_estimates(names[key], rates[key], colour=i) for i, key in enumerate(names, 1))]
        rows = [
            [str(n), _text(scores.y[i]), *(format_interval(rates[key][n]) for key in names)]
            for i, n in enumerate(numbers)
        ]
        yield line_chart("The critic and the world", curves, ["round", *(curve.name for curve in curves)], rows,
                     from_zero=True)  # fmt: skip
    if retries := {metrics["round"]: metrics["reflection"] for metrics in rounds if "reflection" in metrics}:
        turned = {number: read_estimate(row["success"]) for number, row in retries.items()}
        rows = [[str(n), str(row["retries"]), str(row["reflections"]), format_interval(turned[n])]
                for n, row in retries.items()]  # fmt: skip
        header = ["round", "retries", "with a reflection", "successes of them"]
        curve = _estimates("turned", turned, colour=0)
        if curve.x:
            title = "Failures that turn after a reflection"
            yield line_chart(title, [curve], header, rows, percent=True, from_zero=True)


def _success_by_level(of_world: str, levels: Mapping[int, Mapping[str, Any]]) -> Iterator[Figure]:
    """Draw the success at each level; `levels` holds the estimates of each round by level."""
    names = list(next(iter(levels.values())))
    rates = {name: {number: read_estimate(row[name]) for number, row in levels.items()} for name in names}
    curves = [_estimates(name, rates[name], colour=i % svg.COLOURS) for i, name in enumerate(names)]
    if curves := [curve for curve in curves if curve.x]:
        rows = [[str(number), *(format_interval(rates[name][number]) for name in names)] for number in levels]
        yield line_chart(f"Success of exploration by level{of_world}", curves, ["round", *names], rows, percent=True)


def _mean_level(levels: Mapping[str, Mapping[str, Any]]) -> float:
    """Return the mean number of the levels of a round's tasks."""
    tasks = sum(rate["n"] for rate in levels.values())
    return sum(number * rate["n"] for number, rate in enumerate(levels.values(), 1)) / tasks if tasks else math.nan


def _tasks_by_level(levels: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(f"{rate['n']} {name}" for name, rate in levels.items() if rate["n"]) or "–"


def reward_parts(rounds: Rounds) -> Iterator[Figure]:
    """Draw the mean parts of an offline trainer's reward function by round; `training` draws those that are logged."""
    by_round = {metrics["round"]: (metrics["training"] or {}).get("metrics", {}) for metrics in rounds}
    by_round = {number: row for number, row in by_round.items() if _part_names([row])}
    if any(_part_names(_history(metrics)) for metrics in rounds):
        return
    for title, names in _part_charts(list(by_round.values())).items():
        curves = [
            Curve(_name(name), list(by_round), finite([row.get(name) for row in by_round.values()]), colour=i)
            for i, name in enumerate(names)
        ]
        rows = [[str(number), *(_text(curve.y[i]) for curve in curves)] for i, number in enumerate(by_round)]
        yield line_chart(title, curves, ["round", *(curve.name for curve in curves)], rows)


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


def training(rounds: Rounds) -> Iterator[Figure]:
    """Draw what trainings logged, step by step through all rounds.

    The cloning that makes the Agent_v0 of an on-policy trainer has charts of its own, because its loss is another.
    """
    cloned = [metrics for metrics in rounds if not _is_on_policy(metrics)]
    improved = [metrics for metrics in rounds if _is_on_policy(metrics)]
    yield from _training(improved or cloned)
    if improved:
        for chart in _training(cloned):
            yield replace(chart, title=f"{chart.title}, cloning of the expert")


def _is_on_policy(metrics: Mapping[str, Any]) -> bool:
    """Whether a round's training logged the success of its own episodes."""
    return any("success" in row for row in _history(metrics))


def _training(rounds: Rounds) -> Iterator[Figure]:
    log, starts = list[Mapping[str, float]](), list[tuple[int, Any]]()
    for metrics in rounds:
        if history := _history(metrics):
            starts.append((len(log) + 1, metrics["round"]))
            log += history
    for title, names in {**_STEPS, **_part_charts(log), **_constraint_charts(log)}.items():
        curves = [
            Curve(_name(name), range(1, len(log) + 1), finite([row.get(name) for row in log]), colour=i)
            for i, name in enumerate(names) if any(row.get(name) is not None for row in log)
        ]  # fmt: skip
        if curves:
            percent = names == ("success",)
            scale, unit = (100, " %") if percent else (1, "")
            steps = sample_evenly(range(len(log)), _MAX_ROWS)
            rows = [
                [_round_at(i + 1, starts), str(i + 1), *(_text(scale * curve.y[i]) + unit for curve in curves)]
                for i in steps
            ]
            header = ["round", "step", *(curve.name for curve in curves)]
            marks = [start - 0.5 for start, _ in starts[1:]]
            yield line_chart(
                title, curves, header, rows, x="logged step", percent=percent, marks=marks, keys=2,
                from_zero=names != ("loss",),
            )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- helpers


def line_chart(
    title: str, curves: Sequence[Curve], header: Sequence[str], rows: Sequence[Sequence[str]], *, x: str = "round",
    percent: bool = False, marks: Sequence[float] = (), marks_note: str = "Vertical lines: a new round.", keys: int = 1,
    from_zero: bool = False,
) -> Figure:  # fmt: skip
    """Draw curves over integers with a table of `rows`, whose first `keys` columns name the row; see `svg.lines`."""
    drawn, outlier_notes = _without_outliers(curves)
    is_single = len(rows) == 1
    is_drawn = svg.has_matplotlib() and not is_single
    image = svg.lines(drawn, x, percent=percent, marks=marks, from_zero=from_zero) if is_drawn else ""
    texts = []
    for curve in curves:
        values = [value for value in curve.y if not math.isnan(value)]
        if values:
            first, last = (f"{100 * y:.1f} %" if percent else _text(y) for y in (values[0], values[-1]))
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
            texts = [f"{_text(y)} at {x:g}" for x, y in outliers[:_LISTED]] + ["…"] * (len(outliers) > _LISTED)
            notes.append(f"Beyond the chart, {curve.name}: {', '.join(texts)}.")
    return [replace(curve, y=[y if abs(y) <= limit else math.nan for y in curve.y]) for curve in curves], notes


def _stacked(title: str, bars: Sequence[tuple[str, Mapping[str, int]]], best: str) -> Figure:
    """Draw stacked bars; the part `best` always comes first."""
    names = list(dict.fromkeys([best, *(name for _, parts in bars for name in parts if parts[name])]))
    colours = _part_colours(names)
    series = [(colours[name], [parts.get(name, 0) for _, parts in bars]) for name in names]
    image = svg.stacked([label for label, _ in bars], series) if svg.has_matplotlib() else ""
    rows = [[label, *(str(parts.get(name, 0)) for name in names)] for label, parts in bars]
    texts = [f"{label}: " + ", ".join(f"{n} {name}" for name, n in parts.items()) for label, parts in bars]
    legend = [(colours[name], "■", name) for name in names]
    return Figure(title, image, "; ".join(texts), legend, ["", *names], rows)


def _part_colours(names: Sequence[str]) -> dict[str, int]:
    """Return the colour number of each part: its own, or one of those that no other part of the chart has."""
    fixed = {name: colour for name in names for part, colour in _PARTS.items() if name.startswith(part)}
    free = [colour for colour in range(svg.COLOURS) if colour not in fixed.values()] or [svg.COLOURS - 1]
    others = sorted(name for name in names if name not in fixed)
    return fixed | {name: free[i % len(free)] for i, name in enumerate(others)}


def _by_round(rounds: Rounds, name: str, title: str, phases: Iterable[str], scale: int) -> Iterator[Figure]:
    curves = []
    numbers = [metrics["round"] for metrics in rounds]
    for phase in phases:
        values = [metrics[phase].get(name) if metrics[phase]["success"]["n"] else None for metrics in rounds]
        for series, part in _players(phase, rounds, finite(values)):
            if not all(map(math.isnan, part)):
                curves.append(Curve(series, numbers, part, joined=series != "expert", colour=_SERIES[series]))
    if curves:
        unit = " %" if scale == 100 else ""
        rows = [
            [str(metrics["round"]), *(_text(scale * curve.y[i]) + unit for curve in curves)]
            for i, metrics in enumerate(rounds)
        ]
        header = ["round", *(curve.name for curve in curves)]
        yield line_chart(title, curves, header, rows, percent=scale == 100, from_zero=True)


def _players(phase: str, rounds: Rounds, values: Sequence[float]) -> list[tuple[str, list[float]]]:
    """Separate the expert of round 0, and of the first round of each world of a sequence, from the agents."""
    if phase != "explored":
        return [(phase, list(values))]
    by_expert = [m["round"] == 0 or ("stage" in m and m["player"].endswith(" expert")) for m in rounds]
    expert = [value if demonstrated else math.nan for demonstrated, value in zip(by_expert, values, strict=True)]
    agents = [math.nan if demonstrated else value for demonstrated, value in zip(by_expert, values, strict=True)]
    return [("expert", expert), (phase, agents)]


def _estimates(
    name: str, estimates: Mapping[int, Estimate], shift: float = 0, *, joined: bool = True, colour: int | None = None
) -> Curve:
    numbers = [number for number, estimate in estimates.items() if not math.isnan(estimate.value)]
    y, low, high = ([getattr(estimates[n], part) for n in numbers] for part in ("value", "low", "high"))
    colour = _SERIES[name] if colour is None else colour
    return Curve(name, [number + shift for number in numbers], y, low, high, joined, colour)


def _usage(metrics: Mapping[str, Any]) -> dict[str, int]:
    """Count the uses of a round's own episodes; what the trainer dropped is counted if it had no other episodes."""
    training, selected = metrics["training"] or {}, metrics["selection"]["kept"]
    dropped = Counter(training.get("dropped", {}))
    alone = bool(training) and training["trajectories"] + dropped.total() == selected
    used = {"kept": training["trajectories"]} | dropped if alone else {"kept": selected}
    return used | dict(metrics["selection"]["dropped"])


def _history(metrics: Mapping[str, Any]) -> list[Mapping[str, float]]:
    """Return what a round's training logged; older versions logged only the loss."""
    training = metrics["training"] or {}
    return list(training.get("history") or ({"loss": loss} for loss in training.get("loss", ())))


def _round_at(step: int, starts: Sequence[tuple[int, Any]]) -> str:
    return str([number for start, number in starts if start <= step][-1])


def sample_evenly(items: Sequence[Any], maximum: int) -> list[Any]:
    """Return all items, or `maximum` of them at even distances including the first and the last."""
    if len(items) <= maximum:
        return list(items)
    return [items[round(i * (len(items) - 1) / (maximum - 1))] for i in range(maximum)]


def _text(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4g}"
