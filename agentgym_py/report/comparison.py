"""The tests of a run in a table and a sentence: Agent_v0 beside the best and the last agent, and what was forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym_py.env.registration import short_name
from agentgym_py.evaluation.stats import PairedComparison, compare_rates
from agentgym_py.evaluation.text import (
    env_summaries,
    format_interval,
    format_mean,
    given_up_note,
    p_value,
    small_sample_note,
)
from agentgym_py.evolution.run_folder import RunFolder, read_estimate
from agentgym_py.report.episodes import outcomes_of, read_episodes


def comparison(folder: RunFolder) -> tuple[list[list[str]], str]:
    """Compare Agent_v0, the best and the last round on the test split: table rows, and a line on their difference.

    With several envs a row for each follows that of all. The line also notes a small number of tasks.
    """
    if not folder.finished:
        return [], ""
    result = folder.read_json("test.json")
    rows = []
    for number, summary in sorted((int(number), summary) for number, summary in result["rounds"].items()):
        rows.append(_row(_role(folder, number, result), summary))
        parts = {} if "sequence" in result else env_summaries(summary)  # `matrix` has these
        rows += [_row(f"… in {env}", part) for env, part in parts.items()]
    summaries = result["rounds"].values()
    notes = dict.fromkeys(small_sample_note(read_estimate(summary["success"])) for summary in summaries)
    notes[given_up_note(sum(summary.get("given_up", 0) for summary in summaries))] = None
    sentence = forgetting_note(folder, result["sequence"]) if "sequence" in result else _verdict(folder, result["last"])
    return rows, "; ".join(filter(None, [*notes, sentence if rows or "sequence" in result else ""]))


def matrix(folder: RunFolder) -> list[list[str]]:
    """Return the success in each world after each stage of a sequence as a table, the header first; empty without."""
    result = folder.read_json("test.json").get("sequence") if folder.finished else None
    if not result:
        return []
    from agentgym_py.report.terminal import percent_text

    rows = [
        [f"after {world}", *map(percent_text, row)]
        for world, row in zip(result["worlds"], result["success"], strict=True)
    ]
    return [["success in", *result["worlds"]], *rows]


def forgetting_note(folder: RunFolder, result: Mapping[str, Any]) -> str:
    """Describe what a sequence of worlds ended with, and what it forgot, with paired intervals by world."""
    if result["average"] is None:
        return ""
    stages = [folder.last_round_of(stage) for stage in range(len(result["worlds"]))]
    texts = []
    for place, world in enumerate(result["worlds"][:-1]):
        if (loss := result["forgetting"]["by_world"][world]) is None:
            continue
        earlier = [row[place] if row[place] is not None else -1.0 for row in result["success"][:-1]]
        best = max(range(place, len(earlier)), key=lambda stage: earlier[stage])
        first, last = (_outcomes_in(world, folder.round(stages[s]) / f"{result['split']}.jsonl") for s in (best, -1))
        tasks = sorted(first.keys() & last.keys())
        interval = ""
        if tasks:
            paired = compare_rates([first[task] for task in tasks], [last[task] for task in tasks]).difference
            interval = f" [{100 * paired.low:+.0f}, {100 * paired.high:+.0f}]"
        texts.append(f"{world} {100 * loss:+.1f}{interval}")
    mean = result["forgetting"]["mean"]
    forgotten = f"; forgetting in points: {', '.join(texts)}, mean {100 * mean:+.1f}" if texts else ""
    return f"success in all worlds after the last: {100 * result['average']:.1f} % ({result['split']} tasks){forgotten}"


def _outcomes_in(world: str, path: Path) -> dict[str, float]:
    """Return success by task in one world."""
    return {
        t.task_id: float(t.success) for t in read_episodes(path)
        if t.is_evidence and short_name(t.provenance.env_id) == world
    }  # fmt: skip


def _role(folder: RunFolder, number: int, result: Mapping[str, Any]) -> str:
    """Return the role of a tested round; in a sequence the world that it ended."""
    for stage, world in enumerate(result.get("sequence", {}).get("worlds", ())):
        if folder.last_round_of(stage) == number:
            return f"after {world} (round {number})"
    return role(number, result["last"], result["best"])


def _row(name: str, summary: Mapping[str, Any]) -> list[str]:
    from agentgym_py.report.terminal import number_text, percent_text

    return [
        name,
        format_interval(read_estimate(summary["success"])),
        format_mean(read_estimate(summary["reward"])),
        number_text(summary["steps"], 1),
        percent_text(summary["invalid"]),
    ]


def role(number: int, last: int, best: int) -> str:
    """Return the role of a round: `Agent_v0 (round 0)`, `last and best (round 3)` and so on."""
    names = ["Agent_v0"] * (number == 0) + ["last"] * (number == last > 0) + ["best"] * (number == best and last > 0)
    return f"{' and '.join(names) or 'agent'} (round {number})"


def _verdict(folder: RunFolder, last: int) -> str:
    """Compare the last agent with Agent_v0 if both have one episode of the same tasks."""
    first, second = (outcomes_of(folder.round(number) / "test.jsonl") for number in (last, 0))
    if last == 0 or not first or first.keys() != second.keys():
        return ""
    tasks = sorted(first)
    return verdict(compare_rates([first[task] for task in tasks], [second[task] for task in tasks]), len(tasks))


def verdict(paired: PairedComparison, tasks: int) -> str:
    """Describe a paired comparison in a sentence."""
    points, p = paired.difference, p_value(paired.p)
    return (
        f"last − Agent_v0 on the same {tasks} tasks: {100 * points.value:+.1f} points "
        f"[{100 * points.low:+.0f}, {100 * points.high:+.0f}], McNemar p {p if p[0] == '<' else f'= {p}'}; "
        f"{paired.only_first} solved only by the last, {paired.only_second} only by Agent_v0"
    )
