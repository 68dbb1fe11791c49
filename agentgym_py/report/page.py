"""The page of a run: `report.html`, one file without scripts or network, rewritten after every round.

`figures` makes its figures, `svg` draws them, and `episodes` chooses the episodes that it shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agentgym_py.env.registration import stored_env_class
from agentgym_py.errors import AgentGymError, setting
from agentgym_py.evaluation.text import cut_remark, format_cost, format_interval
from agentgym_py.evolution.fork import FORK, fork_lines
from agentgym_py.evolution.run_folder import RunFolder, read_estimate
from agentgym_py.report import figures, training_figures
from agentgym_py.report.comparison import comparison, matrix
from agentgym_py.report.episodes import (
    choose_examples,
    ends_of,
    fault_table,
    invalid_example,
    outcomes_of,
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
_SOME_CUT = 0.05
"""Share of test replies that were cut from which on the page advises longer ones."""
_NEARLY_ALL = 0.95
"""Share of invalid actions from which on an agent without success has not learnt their form."""
_SOME_SUCCESS = 0.05
"""Success in exploration from which on an agent has learnt its training tasks."""
_MAX_CHANGED = 100
"""Changed tasks that the page names."""


def remarks(folder: RunFolder) -> list[str]:
    """Return lines on success that stays 0, invalid actions, replies that were cut and constraints, if needed."""
    rounds = [folder.metrics(number) for number in folder.finished_rounds()]
    lines = (
        _no_success_remark(folder), figures.invalid_remark(rounds), _cut_remark(folder), _constraint_remark(folder),
    )  # fmt: skip
    return [line for line in lines if line]


def _no_success_remark(folder: RunFolder) -> str:
    """Say what to try if no tested agent has succeeded, or no agent so far and its actions are invalid."""
    if is_smoke(folder):
        return ""
    test = folder.read_json("test.json") if folder.finished else {}
    split = "test" if test else "valid"
    summaries = test["rounds"].values() if test else [folder.metrics(n)["valid"] for n in folder.finished_rounds()]
    rates = [read_estimate(summary["success"]) for summary in summaries]
    if not rates or any(rate.value > 0 for rate in rates):
        return ""
    watch = f"watch some episodes (agentgym view {folder.path})"
    invalid = min(summary["invalid"] or 0.0 for summary in summaries)
    if invalid >= _NEARLY_ALL:  # the actions are many, however few the tasks are
        share = "all" if invalid == 1 else f"{100 * invalid:.0f} % of the"
        return (
            f"no {split} task was solved, and {share} actions were invalid: the agent did not learn the form of "
            f"actions in this world; {watch}, then try more {setting('expert_tasks')}, or as {setting('model')} a base "
            "that knows the world"
        )
    if not test or any(rate.small for rate in rates):
        return ""
    number = int(test["last"])
    found = folder.metrics(number)["explored"] if number else None
    explored = read_estimate(found["success"]).value if found else 0.0
    if explored > _SOME_SUCCESS:
        return (
            f"no test task was solved, but {100 * explored:.0f} % of the training tasks of round {number}: what the "
            "agent learns does not carry over; give the training split more wordings and names (docs/guides/worlds.md)"
        )
    easier = (folder.config().get("env_kwargs") or {}).get("difficulty") != "easy"
    difficulty = f", or an easier {setting('env_kwargs.difficulty')} if the world has one" if easier else ""
    return f"no test task was solved: {watch}, then try more {setting('expert_tasks')}{difficulty}"


def _cut_remark(folder: RunFolder) -> str:
    tested = folder.read_json("test.json")["rounds"] if folder.finished else {}
    shares = {number: summary.get("cut") or 0.0 for number, summary in tested.items()}
    most = max(shares, key=shares.__getitem__, default="")
    if shares.get(most, 0.0) < _SOME_CUT:
        return ""
    limit, repetitive = int(folder.config().get("max_new_tokens", 0)), tested[most].get("cut_repetitive")
    return cut_remark(shares[most], repetitive, limit, f"the test replies of round {most}")


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
        "outcomes": list(figures.outcomes(rounds, tested, max_return(config))) if rounds else [],
        "rounds": rounds,
        "remark": figures.invalid_remark(rounds),
        "invalid_example": invalid_example(examples),
        "no_success": _no_success_remark(folder),
        "cut": _cut_remark(folder),
        "constraint": _constraint_remark(folder),
        "comparison": rows,
        "verdict": sentence,
        "matrix": matrix(folder),
        "selection": [figures.selection(rounds)] if rounds else [],
        "training": list(training_figures.training(rounds)),
        "other_logs": list(training_figures.other_logs(rounds)),
        "behaviour": [
            *figures.costs(rounds, tested, _limits(config)),
            *figures.curriculum(rounds),
            *figures.self_improvement(rounds),
            *figures.behaviour(rounds),
            *figures.rewards(rounds, max_return(config)),
            *training_figures.reward_parts(rounds),
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


def max_return(config: Mapping[str, Any]) -> float | None:
    """Return the largest return in a run's worlds; None if one does not declare it, or is not installed."""
    limits = list[float | None]()
    for world in _worlds(config):
        try:
            limits.append(getattr(stored_env_class(world), "max_return", None))
        except AgentGymError:
            return None
    known = [limit for limit in limits if limit is not None]
    return max(known) if known and len(known) == len(limits) else None


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
