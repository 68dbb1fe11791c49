"""The figures of how a run's agents played, from the metrics of its rounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from agentgym_py.evaluation.stats import Estimate
from agentgym_py.evaluation.text import env_summaries, format_cost, format_interval, format_mean
from agentgym_py.evolution.run_folder import read_estimate
from agentgym_py.report import svg
from agentgym_py.report.charts import Figure, Rounds, line_chart, sample_evenly, stacked_chart, value_text
from agentgym_py.report.svg import Curve, finite
from agentgym_py.report.training_figures import history_of

_MAX_HISTOGRAMS = 6
"""Maximum number of histograms; more rounds are sampled evenly."""
_SERIES = {"valid": 0, "valid split": 0, "test split": 1, "explored": 3, "expert": 5}
"""Colour numbers of curves and histograms by round, the same in every chart."""
_RISE = 0.05
"""Smallest rise of the share of invalid actions that the page remarks."""


def outcomes(
    rounds: Rounds, test: Mapping[int, Mapping[str, Any]], max_return: float | None = None
) -> Iterator[Figure]:
    """Draw success and reward on held-out tasks by round, and the success in each of several worlds.

    `test` holds the summaries of tested rounds; the axis of rewards ends at `max_return`, if it is known.
    """
    valid = {metrics["round"]: metrics["valid"] for metrics in rounds}
    yield from _outcome("Success", "success", valid, test)
    yield from _outcome("Reward", "reward", valid, test, 1.0 if max_return is None else max_return)
    for world in env_summaries(rounds[-1]["valid"]):
        by_round = {number: summary["worlds"][world] for number, summary in valid.items()}
        tested = {number: summary["worlds"][world] for number, summary in test.items()}
        yield from _outcome(f"Success in {world}", "success", by_round, tested)


def _outcome(
    title: str, name: str, valid: Mapping[int, Mapping[str, Any]], test: Mapping[int, Mapping[str, Any]],
    top: float | None = None,
) -> Iterator[Figure]:  # fmt: skip
    """Draw a figure of summaries by round; none if infrastructure failures ended every episode."""
    text = format_interval if name == "success" else format_mean
    by_round = {number: read_estimate(summary[name]) for number, summary in valid.items()}
    tested = {number: read_estimate(summary[name]) for number, summary in sorted(test.items())}
    both = _estimates("valid split", by_round), _estimates("test split", tested, 0.12, joined=False)
    if curves := [curve for curve in both if curve.x]:
        rows = [[str(r), text(e), text(tested[r]) if r in tested else "–"] for r, e in by_round.items()]
        header = ["round", "valid [95 %]", "test [95 %]"]
        yield line_chart(title, curves, header, rows, percent=name == "success", from_zero=True, top=top)


def selection(rounds: Rounds) -> Figure:
    """Draw how many of a round's episodes were trained on, or left out for which reason."""
    bars = [(f"round {metrics['round']}", _usage(metrics)) for metrics in rounds]
    return stacked_chart("Use of the explored episodes", bars, "kept")


def failing(rounds: Rounds) -> Figure:
    """Draw the kinds of failure on the valid split."""
    bars = []
    for metrics in rounds:
        kinds = {kind: int(failure["count"]) for kind, failure in metrics["valid"].get("failures", {}).items()}
        rate = metrics["valid"]["success"]
        bars.append((f"round {metrics['round']}", {"success": round((rate["value"] or 0) * rate["n"])} | kinds))
    return stacked_chart("Ends of episodes on the valid split", bars, "success")


def behaviour(rounds: Rounds) -> Iterator[Figure]:
    """Draw lengths, invalid actions, replies that were cut, and the entropy of exploration by round."""
    for name, title, scale in (("steps", "Steps per episode", 1), ("tokens", "Tokens per episode", 1),
                               ("invalid", "Invalid actions", 100), ("cut", "Replies cut off", 100)):  # fmt: skip
        yield from _by_round(rounds, name, title, ("explored", "valid"), scale)
    if not any("entropy" in row for metrics in rounds for row in history_of(metrics)):
        yield from _by_round(rounds, "surprisal", "Entropy of exploration, nats per token", ("explored",), 1)


def invalid_remark(rounds: Rounds) -> str:
    """Remark that the last agent acts invalidly more often than an earlier one; empty if it does not.

    Counted on the valid split; the earlier round is the one with the smallest share.
    """
    shares = {m["round"]: m["valid"]["invalid"] for m in rounds if m["valid"]["invalid"] is not None}
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


def rewards(rounds: Rounds, max_return: float | None = None) -> Iterator[Figure]:
    """Draw histograms of the returns of explored episodes; runs of older versions have none.

    Their axis ends at `max_return`, if it is known.
    """
    counts_by_round = {
        f"round {metrics['round']}": {float(value): int(count) for value, count in counts.items()}
        for metrics in rounds if (counts := metrics["explored"].get("rewards"))
    }  # fmt: skip
    sample = {name: counts_by_round[name] for name in sample_evenly(list(counts_by_round), _MAX_HISTOGRAMS)}
    if sample:
        rows = [[name, f"{value:g}", str(count)] for name, counts in sample.items() for value, count in counts.items()]
        player_of = {f"round {m['round']}": "expert" if _is_by_expert(m) else "explored" for m in rounds}
        colours = {name: _SERIES[player_of[name]] for name in sample}
        players = list(dict.fromkeys(player_of[name] for name in sample))
        legend = [(_SERIES[player], "■", player) for player in players] if len(players) > 1 else []
        top = 1.0 if max_return is None else max_return
        image = svg.histograms(sample, "reward", colours, top) if svg.has_matplotlib() else ""
        means = {name: sum(v * n for v, n in counts.items()) / sum(counts.values()) for name, counts in sample.items()}
        description = "; ".join(f"{name}: mean {mean:.3g}" for name, mean in means.items())
        yield Figure("Rewards of the explored episodes", image, description, legend, ["", "reward", "episodes"], rows,
                     "Bars are shares of a row's episodes; all rows have one scale.")  # fmt: skip


def curriculum(rounds: Rounds) -> Iterator[Figure]:
    """Draw the level of exploration, the success of exploration at each level, and the horizon, by round."""
    by_round = {metrics["round"]: metrics["curriculum"] for metrics in rounds if "curriculum" in metrics}
    levels = {number: row["levels"] for number, row in by_round.items() if "levels" in row}
    worlds = list(dict.fromkeys(chain.from_iterable(levels.values())))
    if worlds:
        means = {world: [_mean_level(row.get(world, {})) for row in levels.values()] for world in worlds}
        curves = [Curve(world, list(levels), means[world], colour=i % svg.COLOURS) for i, world in enumerate(worlds)]
        rows = [[str(n), *(_tasks_by_level(row.get(world, {})) for world in worlds)] for n, row in levels.items()]
        yield line_chart("Level of exploration, from 1", curves, ["round", *worlds], rows)
    for world in worlds:
        of_world = f" in {world}" if len(worlds) > 1 else ""
        yield from _success_by_level(of_world, {n: row[world] for n, row in levels.items() if world in row})
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
            [str(n), value_text(scores.y[i]), *(format_interval(rates[key][n]) for key in names)]
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
            [str(metrics["round"]), *(value_text(scale * curve.y[i], unit) for curve in curves)]
            for i, metrics in enumerate(rounds)
        ]
        header = ["round", *(curve.name for curve in curves)]
        yield line_chart(title, curves, header, rows, percent=scale == 100, from_zero=True)


def _players(phase: str, rounds: Rounds, values: Sequence[float]) -> list[tuple[str, list[float]]]:
    """Separate the expert of round 0, and of the first round of each world of a sequence, from the agents."""
    if phase != "explored":
        return [(phase, list(values))]
    by_expert = [_is_by_expert(metrics) for metrics in rounds]
    expert = [value if demonstrated else math.nan for demonstrated, value in zip(by_expert, values, strict=True)]
    agents = [math.nan if demonstrated else value for demonstrated, value in zip(by_expert, values, strict=True)]
    return [("expert", expert), (phase, agents)]


def _is_by_expert(metrics: Mapping[str, Any]) -> bool:
    """Return whether the expert played a round's episodes: in round 0, and at the start of each world of a sequence."""
    return metrics["round"] == 0 or ("stage" in metrics and metrics["player"].endswith(" expert"))


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
