"""Evaluations beside each other: which agent is better in the same tasks, and whether a training algorithm is."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from agentgym_py.agents.base import agent_title
from agentgym_py.errors import ConfigError
from agentgym_py.evaluation.folder import SAME_QUESTION, EvalFolder, differences
from agentgym_py.evaluation.stats import (
    LEAST_SEEDS,
    Estimate,
    Paired,
    compare_means,
    holm,
    improvement_probability,
    runs_mean,
    success_rate,
)
from agentgym_py.evaluation.text import decimal, decoding, few, interval
from agentgym_py.trajectory import Trajectory, store

TaskKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Entrant:
    """A finished evaluation that is compared."""

    name: str
    """Its folder, as it was given."""
    manifest: Mapping[str, Any]
    tries: Mapping[TaskKey, Sequence[bool]]
    """Success of each try at each task; those that infrastructure ended are left out."""

    @classmethod
    def read(cls, path: str | Path) -> Entrant:
        """What stands in a folder; RunError where it holds no finished evaluation."""
        folder = EvalFolder.finished(path)
        return cls.of(str(path), folder.manifest(), store.read(folder.rows))

    @classmethod
    def of(cls, name: str, manifest: Mapping[str, Any], trajectories: Iterable[Trajectory]) -> Entrant:
        """Make an entrant of the episodes of an evaluation."""
        tries: defaultdict[TaskKey, list[bool]] = defaultdict(list)
        for trajectory in trajectories:
            if trajectory.is_evidence:
                tries[trajectory.provenance.task_key].append(trajectory.success)
        return cls(name, manifest, tries)

    @property
    def who(self) -> str:
        """The agent and how it decodes."""
        agent = self.manifest["agent"]
        return f"{agent_title(agent['name'], agent['sampling'])}{decoding(agent['sampling'])}"

    @property
    def success(self) -> Estimate:
        """Its success rate."""
        pairs = [(task, won) for task, tries in self.tries.items() for won in tries]
        return success_rate([won for _, won in pairs], [task for task, _ in pairs])


@dataclass(frozen=True, slots=True)
class Pair:
    """Two agents in the tasks that both have played."""

    first: str
    second: str
    paired: Paired
    p_holm: float
    """p adjusted for the number of pairs."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Agents in the same tasks, two and two."""

    entrants: Sequence[Entrant]
    pairs: Sequence[Pair]
    tasks: int
    """Tasks that all have played."""
    left_out: int
    """Tasks that an infrastructure failure has left without a try of somebody's."""

    def __str__(self) -> str:
        """Return the tables of `agentgym compare`."""
        return markdown(self)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        rows = [{"name": e.name, "agent": e.manifest["agent"], "attempts": e.manifest["attempts"],
                 "success": asdict(e.success)} for e in self.entrants]  # fmt: skip
        return {"agents": rows, "pairs": [asdict(each) for each in self.pairs], "tasks": self.tasks,
                "left_out": self.left_out, **_question(self.entrants[0])}  # fmt: skip


def require_same(entrants: Sequence[Entrant]) -> None:
    """ConfigError unless all have answered the same question; names in what they differ."""
    first = entrants[0]
    for other in entrants[1:]:
        if found := differences(first.manifest, other.manifest, SAME_QUESTION):
            raise ConfigError(f"{first.name} and {other.name} cannot be compared: {'; '.join(found)}")


def compare(entrants: Sequence[Entrant]) -> Comparison:
    """Every two of these agents, by success in the same tasks.

    Raises:
        ConfigError: fewer than two, one twice, or evaluations that differ in what matters.
    """
    _need_two([each.name for each in entrants])
    require_same(entrants)
    every = set.union(*(set(each.tries) for each in entrants))
    tasks = sorted(task for task in every if all(task in each.tries for each in entrants))
    rates = [[fmean(each.tries[task]) for task in tasks] for each in entrants]
    found = [compare_means(rates[i], rates[j]) for i, j in combinations(range(len(entrants)), 2)]
    names = combinations([each.name for each in entrants], 2)
    adjusted = holm([each.p for each in found])
    pairs = [Pair(*both, paired, p) for both, paired, p in zip(names, found, adjusted, strict=True)]
    return Comparison(entrants, pairs, len(tasks), len(every) - len(tasks))


# ---- training algorithms --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Algorithm:
    """The evaluations of one training algorithm's runs, which differ in their seed."""

    name: str
    runs: Sequence[Entrant]

    @property
    def scores(self) -> list[list[float]]:
        """Success rate by run and world."""
        return [_by_world(run) for run in self.runs]


@dataclass(frozen=True, slots=True)
class Improvement:
    """Two algorithms."""

    first: str
    second: str
    probability: Estimate
    """Chance that a run of the first beats one of the second."""


@dataclass(frozen=True, slots=True)
class AlgorithmComparison:
    """Algorithms whose unit is the training run."""

    algorithms: Sequence[Algorithm]
    means: Sequence[Estimate]
    """Interquartile mean of success over runs and worlds of each."""
    pairs: Sequence[Improvement]

    def __str__(self) -> str:
        """Return the tables of `agentgym compare`."""
        return markdown(self)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        rows = [{"name": each.name, "runs": [run.name for run in each.runs], "scores": each.scores,
                 "interquartile_mean": asdict(mean)}
                for each, mean in zip(self.algorithms, self.means, strict=True)]  # fmt: skip
        pairs = [asdict(each) for each in self.pairs]
        return {"algorithms": rows, "pairs": pairs, **_question(self.algorithms[0].runs[0])}


def compare_algorithms(algorithms: Sequence[Algorithm]) -> AlgorithmComparison:
    """Every two of these algorithms, by success over training seeds.

    Raises:
        ConfigError: as `compare`, a run given twice, or two runs of the same weights, which are no two seeds.
    """
    runs = [run for each in algorithms for run in each.runs]
    _need_two([each.name for each in algorithms])
    require_same(runs)
    _need_two([run.name for run in runs])
    for each in algorithms:
        digests = [run.manifest["agent"]["policy_digest"] for run in each.runs]
        for number, digest in enumerate(digests):
            if digest is not None and digest in digests[:number]:
                same = each.runs[digests.index(digest)].name
                raise ConfigError(
                    f"{same} and {each.runs[number].name} are of the same weights: not two training seeds"
                )
    scores = {each.name: each.scores for each in algorithms}
    pairs = [
        Improvement(one.name, other.name, improvement_probability(scores[one.name], scores[other.name]))
        for one, other in combinations(algorithms, 2)
    ]
    return AlgorithmComparison(algorithms, [runs_mean(each) for each in scores.values()], pairs)


def _by_world(run: Entrant) -> list[float]:
    """Success rate in each world of the manifest."""
    rates: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for task, tries in run.tries.items():
        rates[task[:2]].append(fmean(tries))
    if len(rates) != len(run.manifest["worlds"]):
        raise ConfigError(f"{run.name} has no episode that counts in one of its worlds")
    return [fmean(rates[world]) for world in sorted(rates)]


def _need_two(names: Sequence[str]) -> None:
    if len(names) < 2:
        raise ConfigError("two evaluations at least are needed for a comparison")
    paths = [str(Path(name).absolute()) for name in names]
    if twice := next((name for i, name in enumerate(names) if paths[i] in paths[:i]), None):
        raise ConfigError(f"{twice} is given twice")


def _question(entrant: Entrant) -> dict[str, Any]:
    """What was asked of all."""
    return {key: entrant.manifest[key] for key in ("split", "prompt", "seed")} | {
        "worlds": [{key: value for key, value in each.items() if key != "tasks"} for each in entrant.manifest["worlds"]]
    }


# ---- tables ---------------------------------------------------------------------------------------------------------

Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def tables(found: Comparison | AlgorithmComparison) -> tuple[str, list[Table], list[str]]:
    """A title, tables of a header and rows, and notes on how to read them."""
    if isinstance(found, Comparison):
        return _title(found.entrants[0]), [_agents(found), _pairs(found)], _notes(found)
    title = _title(found.algorithms[0].runs[0])
    means = [(each.name, str(mean.n), decimal(mean)) for each, mean in zip(found.algorithms, found.means, strict=True)]
    pairs = [(f"{each.first} > {each.second}", decimal(each.probability)) for each in found.pairs]
    notes = [
        "The unit is the training run: interquartile mean and probability of improvement over runs and worlds, with "
        "stratified bootstrap intervals."
    ]
    if any(mean.n < LEAST_SEEDS for mean in found.means):
        notes.append(f"Fewer than {LEAST_SEEDS} training seeds: no ground for a claim about an algorithm.")
    return title, [
        (("algorithm", "seeds", "success, interquartile mean [95 %]"), means),
        (("a run of the one beats one of the other", "probability [95 %]"), pairs),
    ], notes  # fmt: skip


def _title(entrant: Entrant) -> str:
    question = entrant.manifest
    worlds = ", ".join(f"{each['id']} ({len(each['tasks'])} tasks)" for each in question["worlds"])
    return f"{worlds}; {question['split']} split, {question['prompt']} prompt, seed {question['seed']}"


def _agents(found: Comparison) -> Table:
    rows = [(e.name, e.who, str(e.manifest["attempts"]), interval(e.success)) for e in found.entrants]
    return ("evaluation", "agent", "tries a task", "success [95 %]"), rows


def _pairs(found: Comparison) -> Table:
    several = len(found.pairs) > 1
    head = ("first − second", "difference in points [95 %]", "p", "p (Holm)", "better in", "detectable")
    rows = []
    for each in found.pairs:
        paired, points = each.paired, each.paired.difference
        row = (
            f"{each.first} − {each.second}",
            f"{100 * points.value:+.1f} [{100 * points.low:+.1f}, {100 * points.high:+.1f}]",
            p_value(paired.p), p_value(each.p_holm), f"{paired.only_first} : {paired.only_second}",
            "–" if math.isnan(paired.detectable) else f"{100 * paired.detectable:.1f}",
        )  # fmt: skip
        rows.append(row if several else (*row[:3], *row[4:]))
    return (head if several else (*head[:3], *head[4:])), rows


def _notes(found: Comparison) -> list[str]:
    once = all(e.manifest["attempts"] == 1 for e in found.entrants)
    how = (
        "p: McNemar's exact test; interval: Agresti and Min 2005." if once
        else "p: random signs of the tasks' differences (exact McNemar where no task has a rate between 0 and 1); "
        "interval: paired bootstrap over tasks, or where they are few or all differ alike Agresti and Min 2005."
    )  # fmt: skip
    notes = [
        how,
        "better in: tasks in which the first, and the second, did better; detectable: the smallest difference, in "
        "points, detectable with this many tasks in 80 % of comparisons.",
    ]
    if len({e.who.partition(",")[2] for e in found.entrants}) > 1:
        notes.append("The agents decode differently: greedy and sampled are different questions.")
    if marks := few(found.pairs[0].paired.difference):
        notes.append(f"{marks[0].upper()}{marks[1:]}.")
    if found.left_out:
        notes.append(f"{found.left_out} tasks are left out: infrastructure failed in them.")
    return notes


def p_value(p: float) -> str:
    """`0.0312`, or `< 0.0001`."""
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def markdown(found: Comparison | AlgorithmComparison) -> str:
    """Title, tables and notes."""
    title, every, notes = tables(found)
    parts = [title]
    for head, rows in every:
        lines = [head, ["---"] * len(head), *rows]
        parts.append("\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines))
    return "\n\n".join([*parts, "\n".join(notes)])


_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$", "–": "--",
    "<": "$<$", ">": "$>$", **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip


def latex(found: Comparison | AlgorithmComparison) -> str:
    """The same as `tabular`s that need no package; title and notes are comments."""
    title, every, notes = tables(found)
    parts = [f"% {title}"]
    for head, rows in every:
        lines = [" & ".join("".join(_TEX.get(sign, sign) for sign in cell) for cell in row) + r" \\"
                 for row in (head, *rows)]  # fmt: skip
        lines.insert(1, r"\hline")
        form = "l" + "r" * (len(head) - 1)
        parts.append("\n".join([rf"\begin{{tabular}}{{{form}}}", *lines, r"\end{tabular}"]))
    return "\n\n".join([*parts, "\n".join(f"% {note}" for note in notes)])
