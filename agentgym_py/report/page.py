"""The page of a run: `report.html`, one file without scripts or network, written again after every round.

Its figures are in `figures`, which draws them by `charts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import yaml

from agentgym_py.errors import DataError
from agentgym_py.evaluation.failures import failure_kind
from agentgym_py.evaluation.stats import PairedComparison, compare_rates
from agentgym_py.evaluation.text import format_interval, format_mean, given_up_note, small_sample_note
from agentgym_py.evolution.run_folder import RunFolder, read_estimate
from agentgym_py.files import write_atomic
from agentgym_py.registry import install_advice
from agentgym_py.report import figures, svg
from agentgym_py.trajectory import Step, Trajectory, store

SMOKE = (
    "Success rates of the smoke preset mean nothing: a handful of tasks, and a model that is hardly trained, on failed "
    "episodes too. It checks that all runs, where there was something to learn from; without it an agent learns."
)
_EXAMPLES = 2
"""Successes shown of the first and the last round, and tasks that turned each way."""
_LOOKED_AT = 2_000
"""Trajectories of a file that are looked at for examples."""
_TURNED = 100
"""Tasks that changed that are named."""


# ---------------------------------------------------------------------------------------------------------- comparison


def comparison(folder: RunFolder) -> tuple[list[list[str]], str]:
    """Agent_v0, the best and the last round on the test split: rows of a table, and a line on their difference.

    Where several worlds are mixed, a row for each follows that of all.
    The line also says where the tasks are few.
    """
    from agentgym_py.report.terminal import several_worlds

    if not folder.finished:
        return [], ""
    result = folder.read_json("test.json")
    rows = []
    for number, each in sorted((int(number), each) for number, each in result["rounds"].items()):
        rows.append(_row(role(number, result["last"], result["best"]), each))
        rows += [_row(f"… in {world}", part) for world, part in several_worlds(each).items()]
    marks = {small_sample_note(read_estimate(each["success"])): None for each in result["rounds"].values()}
    marks[given_up_note(sum(each.get("given_up", 0) for each in result["rounds"].values()))] = None
    return rows, "; ".join(filter(None, [*marks, _verdict(folder, result["last"]) if rows else ""]))


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
    """What a round is in a run: `Agent_v0 (round 0)`, `last and best (round 3)` and so on."""
    names = ["Agent_v0"] * (number == 0) + ["last"] * (number == last > 0) + ["best"] * (number == best and last > 0)
    return f"{' and '.join(names) or 'agent'} (round {number})"


def _verdict(folder: RunFolder, last: int) -> str:
    """The paired comparison of the last agent with Agent_v0, where both played the same tasks once."""
    first, second = (_outcomes(folder.round(number) / "test.jsonl") for number in (last, 0))
    if last == 0 or not first or first.keys() != second.keys():
        return ""
    tasks = sorted(first)
    return verdict(compare_rates([first[task] for task in tasks], [second[task] for task in tasks]), len(tasks))


def verdict(paired: PairedComparison, tasks: int) -> str:
    """A paired comparison in a sentence."""
    points = paired.difference
    return (
        f"last − Agent_v0 on the same {tasks} tasks: {100 * points.value:+.1f} points "
        f"[{100 * points.low:+.0f}, {100 * points.high:+.0f}], McNemar p {_p_value(paired.p)}; "
        f"solved by the last only {paired.only_first}, by Agent_v0 only {paired.only_second}"
    )


def _p_value(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"= {p:.4f}"


def _outcomes(path: Path) -> dict[str, float]:
    """Success by task; empty where a task was played twice, or nothing is there."""
    found: dict[str, float] = {}
    for trajectory in _read(path):
        if trajectory.task_id in found:
            return {}
        if trajectory.is_evidence:
            found[trajectory.task_id] = float(trajectory.success)
    return found


def _read(path: Path) -> Iterator[Trajectory]:
    """A file's trajectories as far as they can be read; none where there is no file."""
    try:
        yield from store.read(path, warn=False)
    except DataError:
        return


# ---------------------------------------------------------------------------------------------------------------- page


def write_report(path: Path) -> Path:
    """Write `report.html` into a run folder; the run may be at any stage.

    Raises:
        RunError: no run there.
    """
    folder = RunFolder.open(path)
    page = render(page_of(folder))
    target = path / "report.html"
    write_atomic(target, page.encode("utf-8", "replace").decode())  # a model may write half of a surrogate pair
    return target


def render(page: Mapping[str, Any]) -> str:
    """The page's HTML; everything that stands in `page` is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from agentgym_py.report.terminal import duration, loss_text, number_text, selection_line

    env = Environment(
        loader=PackageLoader("agentgym_py.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    env.filters |= {"number": number_text, "loss": loss_text, "duration": duration, "selection_line": selection_line}
    env.filters["interval"] = lambda estimate: format_interval(read_estimate(estimate))
    return env.get_template("report.html").render(page)


def page_of(folder: RunFolder) -> dict[str, Any]:
    """What the template shows."""
    config = folder.config()
    rounds = [folder.metrics(number) for number in _done(folder)]
    test = folder.read_json("test.json") if folder.finished else None
    rows, sentence = comparison(folder)
    tested = {int(number): each for number, each in test["rounds"].items()} if test else {}
    planned = int(config.get("rounds", 0))
    numbers = [each["round"] for each in rounds]
    steps, changed = turned({number: _outcomes(folder.round(number) / "valid.jsonl") for number in numbers})
    examples = _examples(folder, numbers, changed)
    return {
        "title": folder.path.resolve().name,
        "warning": SMOKE if is_smoke(folder) else "",
        "summary": _summary(config, rounds, planned, test),
        "provenance": _flat(_provenance(folder)),
        "settings": yaml.safe_dump(config, sort_keys=False, allow_unicode=True),
        "expert": f"{config['expert']} expert" if "expert" in config else "expert",
        "cloned": bool(config.get("expert_tasks", True)),
        "charts": "" if svg.there() else f"Charts need matplotlib: {install_advice('report')}",
        "outcomes": list(figures.outcomes(rounds, tested)) if rounds else [],
        "rounds": rounds,
        "comparison": rows,
        "verdict": sentence,
        "selection": [figures.selection(rounds)] if rounds else [],
        "training": list(figures.training(rounds)),
        "behaviour": [*figures.behaviour(rounds), *figures.rewards(rounds)],
        "turned": steps,
        "changed": changed[:_TURNED],
        "unnamed": len(changed[_TURNED:]),
        "failing": [figures.failing(rounds)] if rounds else [],
        "examples": examples,
    }


def _done(folder: RunFolder) -> list[int]:
    names = sorted(int(each.name) for each in (folder.path / "rounds").glob("[0-9]*") if each.name.isdigit())
    return [number for number in names if folder.done(number)]


def _provenance(folder: RunFolder) -> dict[str, Any]:
    path = folder.path / "provenance.json"
    return folder.read_json(path.name) if path.is_file() else {}


def is_smoke(folder: RunFolder) -> bool:
    """Whether a run checks only the machinery."""
    return bool(_provenance(folder).get("preset") == "smoke")


def _flat(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Keys and values, the command as one would type it, the packages in a line."""
    rows = []
    for key, value in provenance.items():
        if isinstance(value, Mapping):
            value = ", ".join(f"{name} {each}" for name, each in value.items())
        if key == "resumed":
            value = ", ".join(f"{each['started']} (agentgym-py {each['packages']['agentgym-py']})" for each in value)
        rows.append((key, " ".join(map(str, value)) if isinstance(value, list) else str(value)))
    return rows


def _summary(
    config: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]], planned: int, test: Mapping[str, Any] | None
) -> list[tuple[str, str]]:
    """The run in a few words."""
    trainer = config.get("trainer")
    name = trainer.get("name") if isinstance(trainer, dict) else trainer
    state = "finished" if test else _so_far(len(rounds), planned)
    worlds = config.get("env", [])
    rows = [
        ("world", ", ".join(map(str, worlds)) if isinstance(worlds, list) else str(worlds)),
        ("trainer", str(name)), ("model", str(config.get("model"))), ("seed", str(config.get("seed"))),
        ("prompt", str(config.get("prompt"))), ("state", state),
        ("time", _total_time(rounds, test)),
    ]  # fmt: skip
    return [(key, value) for key, value in rows if value not in ("None", "")]


def _so_far(done: int, planned: int) -> str:
    """How far a run is, in the words of its first lines: Agent_v0, then the rounds."""
    if not done:
        return "begun"
    return f"Agent_v0 and {done - 1} of {planned} round{'s' * (planned != 1)} so far" if planned else "Agent_v0 so far"


def _total_time(rounds: Sequence[Mapping[str, Any]], test: Mapping[str, Any] | None) -> str:
    """All rounds' time and the test's, which runs of older versions did not note."""
    from agentgym_py.report.terminal import duration

    tested = test.get("seconds", 0) if test else 0
    return duration(sum(each["seconds"] for each in rounds) + tested) if rounds else ""


# ---------------------------------------------------------------------------------------------------- tasks that turned


@dataclass(frozen=True, slots=True)
class Changed:
    """A task that was solved in some rounds and failed in others."""

    task: str
    solved: Mapping[int, bool | None]
    """By round; None where no episode counts."""


def turned(outcomes: Mapping[int, Mapping[str, float]]) -> tuple[list[list[int]], list[Changed]]:
    """Which tasks turned from failed to solved and back, of their outcomes by round.

    Rows of round, solved, newly solved since the round before, and lost since then; and the tasks that changed.
    """
    rows = []
    for before, now in pairwise(outcomes):
        both = outcomes[before].keys() & outcomes[now].keys()
        won, lost = (sum(outcomes[now][t] == end != outcomes[before][t] for t in both) for end in (1, 0))
        rows.append([now, int(sum(outcomes[now].values())), won, lost])
    tasks = dict.fromkeys(task for each in outcomes.values() for task in each)
    found = [Changed(task, {n: bool(each[task]) if task in each else None for n, each in outcomes.items()})
             for task in tasks]  # fmt: skip
    return rows, [each for each in found if {True, False} <= set(each.solved.values())]


# ------------------------------------------------------------------------------------------------------------ examples


@dataclass(frozen=True, slots=True)
class Example:
    """A trajectory to read."""

    trajectory: Trajectory
    anchor: str
    """Its id on the page."""

    @property
    def kind(self) -> str:
        """How it ended."""
        return failure_kind(self.trajectory) or "success"

    @property
    def head(self) -> str:
        """The line that opens it."""
        outcome = "success" if self.trajectory.success else f"failure ({self.kind})"
        steps = len(self.trajectory.steps)
        return f"{outcome}, reward {self.trajectory.reward:.2f}, {steps} step{'' if steps == 1 else 's'}"

    @property
    def told(self) -> bool:
        """Whether what opens the episode says its instruction, so that it need not stand above it."""
        steps = self.trajectory.steps
        first = steps[0].observation if steps else self.trajectory.final_observation
        return self.trajectory.instruction in first

    @property
    def turns(self) -> list[tuple[int, Step, int]]:
        """Each step with its number and how many more times it follows itself: what a stuck agent repeats is one."""
        turns: list[tuple[int, Step, int]] = []
        for number, step in enumerate(self.trajectory.steps, 1):
            if turns and _shown_of(turns[-1][1]) == _shown_of(step):
                turns[-1] = (*turns[-1][:2], turns[-1][2] + 1)
            else:
                turns.append((number, step, 0))
        return turns


def _shown_of(step: Step) -> tuple[object, ...]:
    """What the page shows of a step."""
    return step.observation, step.thought, step.action, step.action_input, step.reward, step.valid


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a round's trajectories."""

    number: int
    examples: Sequence[Example]
    failures: Sequence[tuple[str, int, str]]
    """Each kind of failure, how often it came, and the anchor of an example, if it is shown."""

    def anchor(self, task: str) -> str:
        """Where a task's episode is shown; empty where it is not."""
        return next((each.anchor for each in self.examples if each.trajectory.task_id == task), "")


def _examples(folder: RunFolder, rounds: Sequence[int], changed: Sequence[Changed]) -> list[Shown]:
    """Of each round's validation each kind of failure; of the first and the last also successes, and what turned."""
    ends = sorted({rounds[0], rounds[-1]}) if rounds else []
    wanted = set[str]()
    for before, now in ((False, True), (True, False)):
        alike = (each.task for each in changed if [each.solved[number] for number in ends] == [before, now])
        wanted |= set(islice(alike, _EXAMPLES))
    return [_shown(folder, number, number in ends, wanted) for number in rounds]


def _shown(folder: RunFolder, number: int, end: bool, wanted: Set[str]) -> Shown:
    failed = folder.metrics(number)["valid"].get("failures", {})
    path = folder.round(number) / "valid.jsonl"
    examples = _pick(path, number, failed, _EXAMPLES, wanted) if end else _pick(path, number, failed)
    anchors = {each.kind: each.anchor for each in reversed(examples)}
    return Shown(number, examples, [(kind, each["count"], anchors.get(kind, "")) for kind, each in failed.items()])


def _pick(
    path: Path, number: int, kinds: Iterable[str], successes: int = 0, wanted: Set[str] = frozenset()
) -> list[Example]:
    """One example per kind of failure, preceded by some successes; the wanted tasks are among them."""
    found, seen = list[Trajectory](), Counter[str]()
    for trajectory in islice(_read(path), _LOOKED_AT):
        kind = failure_kind(trajectory) or "success"
        room = seen[kind] < (successes if trajectory.success else 1)
        if trajectory.is_evidence and (room or trajectory.task_id in wanted):
            found.append(trajectory)
            seen[kind] += 1
            if not successes and seen.keys() >= set(kinds):
                break
    found.sort(key=lambda each: not each.success)
    return [Example(each, f"round-{number}-{place}") for place, each in enumerate(found)]
