"""The page of a run: `report.html`, one file without scripts or network, rewritten after every round.

`figures` makes its figures, `svg` draws them, and `episodes` chooses the episodes that it shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agentgym_py.env.registration import short_name
from agentgym_py.evaluation.compare import p_value
from agentgym_py.evaluation.stats import PairedComparison, compare_rates
from agentgym_py.evaluation.text import (
    cut_remark,
    env_summaries,
    format_cost,
    format_interval,
    format_mean,
    given_up_note,
    small_sample_note,
)
from agentgym_py.evolution.fork import FORK, fork_lines
from agentgym_py.evolution.run_folder import RunFolder, read_estimate
from agentgym_py.report import figures
from agentgym_py.report.episodes import (
    choose_examples,
    ends_of,
    fault_table,
    invalid_example,
    outcomes_of,
    read_episodes,
    round_faults,
    task_changes,
)
from agentgym_py.report.html import advice_on_charts, write_html
from agentgym_py.training.rl.constraints import parse_constraints

SMOKE = (
    "Success rates of the smoke preset mean nothing: a handful of tasks, and a model that is hardly trained, on failed "
    "episodes too. The preset only checks that every part runs; without it an agent learns."
)
_LONGEST_PATH = 40
"""Characters of a model's path that the top of the page shows in full."""
_MAX_CHANGED = 100
"""Changed tasks that the page names."""

# ---------------------------------------------------------------------------------------------------------- comparison


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
    rows = [
        [f"after {world}", *("–" if value is None else f"{100 * value:.1f} %" for value in row)]
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


def remarks(folder: RunFolder) -> list[str]:
    """Return lines on a rise of invalid actions, test replies that were cut and constraints, where there is reason."""
    rounds = [folder.metrics(number) for number in folder.finished_rounds()]
    lines = figures.invalid_remark(rounds), _cut_remark(folder), _constraint_remark(folder)
    return [line for line in lines if line]


def _cut_remark(folder: RunFolder) -> str:
    tested = folder.read_json("test.json")["rounds"].values() if folder.finished else ()
    share = max((summary.get("cut") or 0.0 for summary in tested), default=0.0)
    return cut_remark(share, int(folder.config().get("max_new_tokens", 0)), "the test replies")


def _row(name: str, summary: Mapping[str, Any]) -> list[str]:
    from agentgym_py.report.terminal import number_text

    return [
        name,
        format_interval(read_estimate(summary["success"])),
        format_mean(read_estimate(summary["reward"])),
        number_text(summary["steps"], 1),
        number_text(summary["invalid"], 1, 100) + " %",
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
        f"solved by the last only {paired.only_first}, by Agent_v0 only {paired.only_second}"
    )


# ---------------------------------------------------------------------------------------------------------------- page


def write_report(path: Path) -> Path:
    """Write `report.html` into a run folder; the run may be at any stage.

    Raises:
        RunError: no run there.
    """
    folder = RunFolder.open(path)
    return write_html(path / "report.html", "report.html", page_of(folder))


def page_of(folder: RunFolder) -> dict[str, Any]:
    """Return the values of the template."""
    config = folder.config()
    rounds = [folder.metrics(number) for number in folder.finished_rounds()]
    test = folder.read_json("test.json") if folder.finished else None
    rows, sentence = comparison(folder)
    tested = {int(number): summary for number, summary in test["rounds"].items()} if test else {}
    planned = folder.planned_rounds()
    numbers = [metrics["round"] for metrics in rounds]
    turns, changed = task_changes({number: outcomes_of(folder.round(number) / "valid.jsonl") for number in numbers})
    examples = choose_examples(folder, numbers, changed, _worlds(config))
    total = _total_seconds(rounds, test)
    unit = TimeUnit.for_run(total)
    return {
        "title": folder.path.resolve().name,
        "warning": SMOKE if is_smoke(folder) else "",
        "summary": [
            *_summary(config, rounds, planned, test, unit.text(total) if rounds else ""),
            *(("fork", line) for line in fork_lines(folder)),
        ],
        "unit": unit,
        "provenance": _flat(_provenance(folder)),
        "settings": yaml.safe_dump(config, sort_keys=False, allow_unicode=True),
        "expert": f"{config['expert']} expert" if "expert" in config else "expert",
        "cloned": bool(config.get("expert_tasks", True)),
        "charts": advice_on_charts(),
        "outcomes": list(figures.outcomes(rounds, tested)) if rounds else [],
        "rounds": rounds,
        "remark": figures.invalid_remark(rounds),
        "invalid_example": invalid_example(examples),
        "cut": _cut_remark(folder),
        "constraint": _constraint_remark(folder),
        "comparison": rows,
        "verdict": sentence,
        "matrix": matrix(folder),
        "selection": [figures.selection(rounds)] if rounds else [],
        "training": list(figures.training(rounds)),
        "behaviour": [
            *figures.costs(rounds, tested, _limits(config)),
            *figures.curriculum(rounds),
            *figures.self_improvement(rounds),
            *figures.behaviour(rounds),
            *figures.rewards(rounds),
            *figures.reward_parts(rounds),
        ],
        "turned": turns,
        "changed": changed[:_MAX_CHANGED],
        "unnamed": len(changed[_MAX_CHANGED:]),
        "failing": [figures.failing(rounds)] if rounds else [],
        "faults": fault_table({number: round_faults(folder, number) for number in ends_of(numbers)}),
        "examples": examples,
    }


def _provenance(folder: RunFolder) -> dict[str, Any]:
    path = folder.path / "provenance.json"
    return folder.read_json(path.name) if path.is_file() else {}


def is_smoke(folder: RunFolder) -> bool:
    """Tell whether a run has the smoke preset, which only checks that every part runs."""
    return bool(_provenance(folder).get("preset") == "smoke")


def _flat(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return keys and values as text: the command as typed, the packages in a line."""
    rows = []
    for key, value in provenance.items():
        if key == FORK:  # the summary describes it
            continue
        if isinstance(value, Mapping):
            value = ", ".join(f"{name} {version}" for name, version in value.items())
        if key == "resumed":
            value = ", ".join(f"{run['started']} (agentgym-py {run['packages']['agentgym-py']})" for run in value)
        rows.append((key, " ".join(map(str, value)) if isinstance(value, list) else str(value)))
    return rows


def _summary(
    config: Mapping[str, Any],
    rounds: Sequence[Mapping[str, Any]],
    planned: int,
    test: Mapping[str, Any] | None,
    time: str,
) -> list[tuple[str, str]]:
    """Summarise the run."""
    trainer = config.get("trainer")
    name = trainer.get("name") if isinstance(trainer, dict) else trainer
    state = "finished" if test else _progress(len(rounds), planned)
    rows = [
        ("world", ", ".join(_worlds(config))),
        ("trainer", str(name)), ("model", _short_path(str(config.get("model")))), ("seed", str(config.get("seed"))),
        ("prompt", str(config.get("prompt"))), ("state", state),
        ("constraint", _constraint(config)), ("curriculum", _curriculum(config, rounds)), ("coreset", _coreset(config)),
        ("critic", _plugin(config, "critic")), ("reflection", _plugin(config, "reflection")), ("time", time),
        ("success on test tasks", _test_success(test) if test else ""),
    ]  # fmt: skip
    return [(key, value) for key, value in rows if value not in ("None", "")]


def _short_path(model: str) -> str:
    """Return the end of a long path; run.yaml has all of it."""
    parts = model.split("/")
    return f"…/{'/'.join(parts[-4:])}" if len(model) > _LONGEST_PATH and len(parts) > 4 else model


def _test_success(test: Mapping[str, Any]) -> str:
    """Return the success of Agent_v0 and of the last agent, as `27.5 % [16, 43] → 62.5 % [47, 76]`."""
    summaries = [test["rounds"][key] for key in dict.fromkeys(("0", str(test["last"]))) if key in test["rounds"]]
    rates = [read_estimate(summary["success"]) for summary in summaries]
    return " → ".join(format_interval(rate) for rate in rates if rate.n)


def _curriculum(config: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]]) -> str:
    """Name the curriculum and the difficulties of evaluation; empty without one."""
    name = (config.get("curriculum") or {}).get("name")
    evaluated = ", ".join(rounds[-1]["valid"].get("by_difficulty", ())) if rounds else ""
    return f"{name}{f', evaluated at {evaluated}' if evaluated else ''}" if name else ""


def _constraint(config: Mapping[str, Any]) -> str:
    """Return the constraints of a run's trainer; empty without one."""
    trainer = config.get("trainer")
    return str(trainer.get("constraint") or "") if isinstance(trainer, dict) else ""


def _limits(config: Mapping[str, Any]) -> dict[str, float]:
    return dict(parse_constraints(_constraint(config)))


def _constraint_remark(folder: RunFolder) -> str:
    """Say whether the constraints of a finished run hold on the test tasks of its last agent; empty without any."""
    if not folder.finished:
        return ""
    test, verdicts = folder.read_json("test.json"), list[str]()
    costs = test["rounds"].get(str(test["last"]), {}).get("costs", {})
    for name, limit in _limits(folder.config()).items():
        if name in costs and (mean := read_estimate(costs[name])).n:
            verdict = "holds" if mean.value <= limit else "is violated"
            verdicts.append(f"{name} <= {limit:g} {verdict}: {format_cost(mean)} per episode")
    return f"constraints on test tasks, round {test['last']}: {'; '.join(verdicts)}" if verdicts else ""


def _plugin(config: Mapping[str, Any], key: str) -> str:
    """Name a plugin of a run; empty without it."""
    return str((config.get(key) or {}).get("name") or "")


def _coreset(config: Mapping[str, Any]) -> str:
    """Name the coreset and its share; empty without one."""
    coreset = config.get("coreset") or {}
    return f"{coreset['name']}, {100 * coreset['ratio']:.0f} % of the {coreset['unit']}" if coreset.get("name") else ""


def _worlds(config: Mapping[str, Any]) -> list[str]:
    """Return the names or sources of a run's worlds."""
    worlds = config.get("env", [])
    return list(map(str, worlds)) if isinstance(worlds, list) else [str(worlds)]


def _progress(done: int, planned: int) -> str:
    """Describe the rounds that are over."""
    if not done:
        return "begun"
    return f"Agent_v0 and {done - 1} of {planned} round{'s' * (planned != 1)} so far" if planned else "Agent_v0 so far"


def _total_seconds(rounds: Sequence[Mapping[str, Any]], test: Mapping[str, Any] | None) -> float:
    """Return the time of all rounds and the test; older versions did not record the test's."""
    return float(sum(metrics["seconds"] for metrics in rounds) + (test.get("seconds", 0) if test else 0))


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """The unit of every time on a page, so that times can be compared."""

    name: str
    seconds: int
    digits: int
    """Digits after the point."""

    @classmethod
    def for_run(cls, seconds: float) -> TimeUnit:
        """Choose seconds, minutes or hours for a run of this length."""
        if seconds < 180:
            return cls("s", 1, 0)
        return cls("min", 60, 1) if seconds < 180 * 60 else cls("h", 3600, 2)

    def number(self, seconds: float) -> str:
        """Return a time without the unit."""
        return f"{seconds / self.seconds:.{self.digits}f}"

    def text(self, seconds: float) -> str:
        """Return a time with the unit."""
        return f"{self.number(seconds)} {self.name}"
