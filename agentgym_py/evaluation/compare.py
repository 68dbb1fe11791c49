"""Compare evaluations: which agent is better on the same tasks, and which training algorithm over seeds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from agentgym_py.agents.base import agent_title
from agentgym_py.env.spec import world_title
from agentgym_py.errors import ConfigError, setting
from agentgym_py.evaluation import foreign
from agentgym_py.evaluation.folder import RESULT, SAME_QUESTION, EvalFolder, differences
from agentgym_py.evaluation.stats import (
    MIN_BOOTSTRAP,
    MIN_SEEDS,
    Estimate,
    PairedComparison,
    compare_rates,
    holm,
    improvement_probability,
    runs_mean,
    success_rate,
)
from agentgym_py.evaluation.tables import Page, Table, latex, markdown
from agentgym_py.evaluation.text import (
    decoding_label,
    format_interval,
    format_mean,
    format_settings_apart,
    p_value,
    prompt_settings,
    small_sample_note,
)
from agentgym_py.trajectory import Trajectory, store

TaskKey = tuple[str, str, str]
_SIGNIFICANT = 0.05
"""Level of the p-values of a table."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What an evaluation's agent used; each None if it was not recorded."""

    tokens: float | None = None
    """Mean number of sampled (or completion) tokens per episode."""
    prompt_tokens: int | None = None
    """Prompt tokens that an endpoint counted in the whole evaluation."""
    cost: float | None = None
    """Cost of the whole evaluation."""
    latency_median: float | None = None
    """Median seconds from a request to an endpoint to its reply."""
    latency_p95: float | None = None
    """95th percentile of these seconds."""
    refused: int | None = None
    """Replies that the endpoint's provider refused; None without one."""

    @classmethod
    def of(cls, summary: Mapping[str, Any]) -> Resources:
        """Return those of an evaluation's summary."""
        spent = summary.get("spent") or {}
        values = {name: spent.get(name) for name in ("prompt_tokens", "cost", "latency_median", "latency_p95")}
        return cls(summary.get("tokens"), **values, refused=summary.get("refused") if spent else None)


def outcomes_by_task(trajectories: Iterable[Trajectory]) -> dict[TaskKey, list[bool]]:
    """Return the success of each attempt at each task, without those that an infrastructure failure ended."""
    outcomes: dict[TaskKey, list[bool]] = {}
    for trajectory in trajectories:
        if trajectory.is_evidence:
            outcomes.setdefault(trajectory.provenance.task_key, []).append(trajectory.success)
    return outcomes


class RoundOutcomes(NamedTuple):
    """How the agent of a run's round did."""

    policy_digest: str
    outcomes: Mapping[TaskKey, Sequence[bool]]


@dataclass(frozen=True, slots=True)
class Entrant:
    """A finished evaluation in a comparison, or the test of a run."""

    name: str
    """Its folder, as the user wrote it."""
    manifest: Mapping[str, Any]
    outcomes: Mapping[TaskKey, Sequence[bool]]
    """Success of each attempt at each task, without attempts that an infrastructure failure ended."""
    resources: Resources = Resources()
    rounds: Mapping[int, RoundOutcomes] = field(default_factory=dict)
    """Of a run, the outcomes of its valid tasks by round."""
    lost: int = 0
    """Episodes that infrastructure failures ended; the outcomes are without them."""

    @classmethod
    def load(cls, path: str | Path, score: str | None = None) -> Entrant:
        """Load an evaluation's folder, a log of Inspect or samples of lm-eval; `score` chooses one of their scores.

        Raises:
            RunError: the folder holds no finished evaluation, or its episodes have changed since.
            DataError: the log or the samples cannot be read; see `foreign.load`.
        """
        if foreign.is_foreign(path):
            loaded = foreign.load(path, score)
            return cls(str(path), loaded.manifest, loaded.outcomes, lost=loaded.lost)
        folder = EvalFolder.finished(path)
        result = folder.read_json(RESULT)
        folder.require_unchanged(result)
        resources = Resources.of(result)
        return cls.from_trajectories(str(path), folder.manifest(), store.read(folder.trajectories), resources)

    @classmethod
    def from_trajectories(
        cls,
        name: str,
        manifest: Mapping[str, Any],
        trajectories: Iterable[Trajectory],
        resources: Resources = Resources(),
    ) -> Entrant:
        """Make an entrant of the episodes of an evaluation."""
        episodes = list(trajectories)
        lost = sum(not trajectory.is_evidence for trajectory in episodes)
        return cls(name, manifest, outcomes_by_task(episodes), resources, lost=lost)

    @property
    def tasks_played(self) -> int:
        """Number of each world's first tasks that were played; an evaluation that was decided early has fewer."""
        played = {task for _, _, task in self.outcomes}
        return min(
            max((place for place, task in enumerate(world["tasks"], 1) if task in played), default=0)
            for world in self.manifest["worlds"]
        )

    @property
    def agent(self) -> str:
        """The agent and how it decodes."""
        agent = self.manifest["agent"]
        return f"{agent_title(agent['name'], agent['sampling'])}{decoding_label(agent['sampling'])}"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of its prompt and sampling that are not the default ones."""
        template = (self.manifest.get("options") or {}).get("prompt_template")
        return prompt_settings(self.manifest["agent"]["sampling"], template)

    @property
    def success(self) -> Estimate:
        """The success rate."""
        pairs = [(task, success) for task, attempts in self.outcomes.items() for success in attempts]
        return success_rate([success for _, success in pairs], [task for task, _ in pairs])

    @property
    def cost_per_success(self) -> float | None:
        """Cost of the whole evaluation divided by its successful episodes; None without a cost or a success."""
        successes = sum(map(sum, self.outcomes.values()))
        return None if self.resources.cost is None or not successes else self.resources.cost / successes


@dataclass(frozen=True, slots=True)
class Pair:
    """Two agents compared on the tasks that both have attempted."""

    first: str
    second: str
    paired: PairedComparison
    p_holm: float
    """p adjusted for the number of comparisons in its table."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Agents compared in pairs on the same tasks."""

    entrants: Sequence[Entrant]
    pairs: Sequence[Pair]
    tasks: int
    """Tasks with an attempt of every agent."""
    left_out: int
    """Tasks in which infrastructure failures ended every attempt of an agent."""

    def __str__(self) -> str:
        """Return the tables of `agentgym compare`."""
        return markdown(_page(self))

    def latex(self) -> str:
        """Return these tables in LaTeX, with the rules of booktabs."""
        return latex(_page(self))

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        agents = [{"name": e.name, "agent": e.manifest["agent"], "attempts": e.manifest["attempts"],
                   "success": asdict(e.success),
                   "resources": {**asdict(e.resources), "cost_per_success": e.cost_per_success},
                   **({"fork": fork} if (fork := e.manifest.get("fork")) else {})} for e in self.entrants]  # fmt: skip
        rounds = {n: asdict(pair.paired) | {"p_holm": pair.p_holm} for n, pair in self.by_round.items()}
        return {"agents": agents, "pairs": [asdict(pair) for pair in self.pairs], "tasks": self.tasks,
                "left_out": self.left_out, **({"rounds": rounds} if rounds else {}),
                **_question(self.entrants[0])}  # fmt: skip

    @property
    def better_than_first(self) -> list[str]:
        """The agents that are significantly better than the first one: p (Holm) is below 0.05."""
        of_first = [pair for pair in self.pairs if pair.first == self.entrants[0].name]
        return [pair.second for pair in of_first if pair.paired.difference.value < 0 and pair.p_holm < _SIGNIFICANT]

    @property
    def attempts_differ(self) -> bool:
        """Whether agents have different numbers of attempts at a task; the pairs leave the further ones out."""
        tasks = set.intersection(*(set(entrant.outcomes) for entrant in self.entrants))
        return any(len({len(entrant.outcomes[task]) for entrant in self.entrants}) > 1 for task in tasks)

    @property
    def by_round(self) -> dict[int, Pair]:
        """Compare two runs on their valid tasks after each round that both have; empty for other entrants.

        Rounds of the same weights are left out, such as those that a fork shares. Holm's p is adjusted for the number
        of the others.
        """
        if len(self.entrants) != 2:
            return {}
        first, second = (entrant.rounds for entrant in self.entrants)
        comparisons = {
            number: _paired(first[number].outcomes, second[number].outcomes)
            for number in sorted(first.keys() & second.keys())
            if first[number].policy_digest != second[number].policy_digest
            and first[number].outcomes.keys() & second[number].outcomes.keys()
        }
        adjusted = holm([paired.p for paired in comparisons.values()])
        one, other = (entrant.name for entrant in self.entrants)
        pairs = zip(comparisons.items(), adjusted, strict=True)
        return {number: Pair(one, other, paired, p) for (number, paired), p in pairs}


def compare(entrants: Sequence[Entrant]) -> Comparison:
    """Compare every two agents by success on the same tasks.

    Raises:
        ConfigError: fewer than two, one twice, or evaluations with different tasks or settings.
    """
    _require_distinct([entrant.name for entrant in entrants])
    _require_same_question(entrants)
    all_tasks = set.union(*(set(entrant.outcomes) for entrant in entrants))
    tasks = sorted(task for task in all_tasks if all(task in entrant.outcomes for entrant in entrants))
    outcomes = [{task: entrant.outcomes[task] for task in tasks} for entrant in entrants]
    comparisons = [_paired(first, second) for first, second in combinations(outcomes, 2)]
    names = combinations([entrant.name for entrant in entrants], 2)
    adjusted = holm([paired.p for paired in comparisons])
    pairs = [Pair(*both, paired, p) for both, paired, p in zip(names, comparisons, adjusted, strict=True)]
    return Comparison(entrants, pairs, len(tasks), len(all_tasks) - len(tasks))


def _paired(first: Mapping[TaskKey, Sequence[bool]], second: Mapping[TaskKey, Sequence[bool]]) -> PairedComparison:
    """Compare the success rates at the tasks that both have, over as many attempts at each as both have.

    With more attempts of one agent the difference of a task would not be symmetric if both are alike: at a low rate
    one of 1 and 16 attempts mostly fails, and the other mostly succeeds once.
    """
    tasks = sorted(first.keys() & second.keys())
    pairs = [list(zip(first[task], second[task], strict=False)) for task in tasks]
    return compare_rates(*([fmean(pair[agent] for pair in task) for task in pairs] for agent in (0, 1)))


def _require_same_question(entrants: Sequence[Entrant]) -> None:
    first = entrants[0]
    for entrant in entrants:
        if (entrant.manifest.get("options") or {}).get("until_decided"):
            raise ConfigError(
                f"{entrant.name} stopped by what it saw (until_decided), so these tables would not be valid; compare "
                "two evaluations by agentgym compare A B --anytime, or by ag.compare_anytime in Python"
            )
    refusals = [
        f"{first.name} and {other.name} cannot be compared: {why}"
        for other in entrants[1:]
        if (why := _why_not_comparable(first, other))
    ]
    if refusals:
        raise ConfigError(". ".join(refusals))


def _why_not_comparable(first: Entrant, other: Entrant) -> str:
    """Return in what two evaluations differ that must be equal, and what to do; empty if nothing."""
    if ("run" in first.manifest) != ("run" in other.manifest):
        run = first if "run" in first.manifest else other
        return f"{run.name} is a run; evaluate its checkpoint by agentgym eval, or compare two runs"
    if ("score" in first.manifest) != ("score" in other.manifest):
        log, own = (first, other) if "score" in first.manifest else (other, first)
        return (
            f"{log.name} is a log of another program, and {own.name} is an evaluation of agentgym, so their tasks "
            "differ; compare two of one kind"
        )
    different = differences(first.manifest, other.manifest, (*SAME_QUESTION, "score"))
    if len(different) == 1 and different[0].startswith("seed: "):
        advice = f"; to average over several episodes of a task, evaluate once with {setting('attempts', 5)}"
    else:
        advice = _tasks_advice(first.manifest, other.manifest)
    return "; ".join(different) + advice if different else ""


def _tasks_advice(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Say how to evaluate on the same tasks, if one evaluation has the first tasks of the other."""
    tasks = [[world["tasks"] for world in manifest["worlds"]] for manifest in (first, second)]
    fewer, more = sorted(tasks, key=lambda worlds: sum(map(len, worlds)))
    counts = {len(names) for names in fewer}
    begins = len(fewer) == len(more) and all(b[: len(a)] == a for a, b in zip(fewer, more, strict=True))
    if first.get("score") or not begins or len(counts) > 1 or fewer == more:
        return ""
    return f"; evaluate both with {setting('tasks', counts.pop())}"


# ---- training algorithms --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Algorithm:
    """The evaluations of one training algorithm's runs, which differ in their seed."""

    name: str
    runs: Sequence[Entrant]

    @property
    def scores(self) -> list[list[float]]:
        """Success rates by run and world."""
        return [_success_by_env(run) for run in self.runs]


@dataclass(frozen=True, slots=True)
class Improvement:
    """Two algorithms."""

    first: str
    second: str
    probability: Estimate
    """Chance that a run of the first beats one of the second."""


@dataclass(frozen=True, slots=True)
class AlgorithmComparison:
    """Algorithms compared with the training run as the unit."""

    algorithms: Sequence[Algorithm]
    means: Sequence[Estimate]
    """Each algorithm's interquartile mean of success over runs and worlds."""
    pairs: Sequence[Improvement]

    def __str__(self) -> str:
        """Return the tables of `agentgym compare`."""
        return markdown(_page(self))

    def latex(self) -> str:
        """Return these tables in LaTeX, with the rules of booktabs."""
        return latex(_page(self))

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        rows = [{"name": algorithm.name, "runs": [run.name for run in algorithm.runs], "scores": algorithm.scores,
                 "interquartile_mean": asdict(mean)}
                for algorithm, mean in zip(self.algorithms, self.means, strict=True)]  # fmt: skip
        pairs = [asdict(pair) for pair in self.pairs]
        return {"algorithms": rows, "pairs": pairs, **_question(self.algorithms[0].runs[0])}


def compare_algorithms(algorithms: Sequence[Algorithm]) -> AlgorithmComparison:
    """Compare every two algorithms by success over training seeds.

    Raises:
        ConfigError: as `compare`, or two runs of an algorithm have the same weights, so they are not two seeds.
    """
    runs = [run for algorithm in algorithms for run in algorithm.runs]
    _require_distinct([algorithm.name for algorithm in algorithms])
    _require_same_question(runs)
    _require_distinct([run.name for run in runs])
    for algorithm in algorithms:
        names: dict[str, str] = {}
        for run in algorithm.runs:
            digest = run.manifest["agent"]["policy_digest"]
            if digest is not None and names.setdefault(digest, run.name) != run.name:
                raise ConfigError(
                    f"{names[digest]} and {run.name} have the same weights, so they are not two training seeds"
                )
    scores = {algorithm.name: algorithm.scores for algorithm in algorithms}
    pairs = [
        Improvement(first, second, improvement_probability(scores[first], scores[second]))
        for first, second in combinations(scores, 2)
    ]
    return AlgorithmComparison(algorithms, [_mean_rate(rates) for rates in scores.values()], pairs)


def _mean_rate(rates: list[list[float]]) -> Estimate:
    """Estimate the mean of success rates over seeds; Student's interval of few seeds may exceed [0, 1]."""
    mean = runs_mean(rates)
    return mean if math.isnan(mean.low) else replace(mean, low=max(0.0, mean.low), high=min(1.0, mean.high))


def _success_by_env(run: Entrant) -> list[float]:
    rates: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for task, attempts in run.outcomes.items():
        rates[task[:2]].append(fmean(attempts))
    if len(rates) != len(run.manifest["worlds"]):
        raise ConfigError(f"{run.name} has no episode that counts in one of its worlds")
    return [fmean(rates[env]) for env in sorted(rates)]


def _require_distinct(names: Sequence[str]) -> None:
    if len(names) < 2:
        raise ConfigError("a comparison needs at least two evaluations")
    paths = [str(Path(name).absolute()) for name in names]
    if repeated := next((name for i, name in enumerate(names) if paths[i] in paths[:i]), None):
        raise ConfigError(f"{repeated} is given twice")


def _question(entrant: Entrant) -> dict[str, Any]:
    """Return the settings that all entrants share."""
    worlds = [{key: value for key, value in world.items() if key != "tasks"} for world in entrant.manifest["worlds"]]
    score = {"score": entrant.manifest["score"]} if "score" in entrant.manifest else {}
    return {key: entrant.manifest[key] for key in ("split", "prompt", "seed")} | {"worlds": worlds} | score


# ---- tables ---------------------------------------------------------------------------------------------------------


def _page(comparison: Comparison | AlgorithmComparison) -> Page:
    if isinstance(comparison, Comparison):
        return Page(
            _title(comparison.entrants[0]),
            [_agents(comparison), _pairs(comparison), *_rounds(comparison), *_resources(comparison)],
            _notes(comparison),
        )
    first = comparison.algorithms[0].runs[0]
    means_are_students = any(mean.n < MIN_BOOTSTRAP for mean in comparison.means)
    means = [
        (algorithm.name, str(mean.n), format_mean(mean))
        for algorithm, mean in zip(comparison.algorithms, comparison.means, strict=True)
    ]
    pairs = [(f"{pair.first} > {pair.second}", format_mean(pair.probability)) for pair in comparison.pairs]
    notes = [
        "The unit is the training run: interquartile mean and probability of improvement over runs and worlds, with "
        "stratified bootstrap intervals"
        + (", and Student's for the means of so few seeds." if means_are_students else ".")
    ]
    if any(mean.n < MIN_SEEDS for mean in comparison.means):
        notes.append(f"Fewer than {MIN_SEEDS} training seeds: too few for a claim about an algorithm.")
    return Page(_title(first), [
        (("algorithm", "seeds", f"{_rate_name(first)}, interquartile mean [95 %]"), means),
        (("a run of the one beats one of the other", "probability [95 %]"), pairs),
    ], notes)  # fmt: skip


def _title(entrant: Entrant) -> str:
    manifest = entrant.manifest
    worlds = ", ".join(f"{_world_title(world)} ({len(world['tasks'])} tasks)" for world in manifest["worlds"])
    if score := manifest.get("score"):
        return f"{worlds}; scored by {score}"
    seed = "" if manifest["seed"] is None else f", seed {manifest['seed']}"
    return f"{worlds}; {manifest['split']} split, {manifest['prompt']} prompt{seed}"


def _rate_name(entrant: Entrant) -> str:
    """Return what the rates of a table are: success, or another score of other programs' logs."""
    score = str(entrant.manifest.get("score", "success"))
    return "success" if foreign.is_success(score) else score


def _world_title(world: Mapping[str, Any]) -> str:
    """Return the id and the arguments of a world of a manifest; other programs' arguments are text."""
    kwargs = world["kwargs"]
    return world_title(world["id"], kwargs if isinstance(kwargs, Mapping) else {})


def _agents(comparison: Comparison) -> Table:
    entrants = comparison.entrants
    rows = [(e.name, e.agent, str(e.manifest["attempts"]), format_interval(e.success)) for e in entrants]
    header = ("evaluation", "agent", "attempts per task", f"{_rate_name(entrants[0])} [95 %]")
    settings = [entrant.settings for entrant in entrants]
    names = dict.fromkeys(name for of_agent in settings for name in of_agent)
    differ = [name for name in names if any(of_agent.get(name) != settings[0].get(name) for of_agent in settings)]
    if not differ:
        return header, rows
    columns = [format_settings_apart(name, [of_agent.get(name) for of_agent in settings]) for name in differ]
    texts = [", ".join(filter(None, cells)) for cells in zip(*columns, strict=True)]
    return (*header, "settings that differ"), [(*row, text or "–") for row, text in zip(rows, texts, strict=True)]


def _resources(comparison: Comparison) -> Iterator[Table]:
    """Yield the table of what the agents used, with the columns in which an agent has a value above 0, if any."""
    used = [entrant.resources for entrant in comparison.entrants]
    per_success = [entrant.cost_per_success for entrant in comparison.entrants]
    columns = {
        "tokens per episode": [_number(r.tokens, ",.1f") for r in used],
        "prompt tokens in all": [_number(r.prompt_tokens, ",") for r in used],
        "cost in all": [_number(r.cost, ".4g") for r in used],
        "cost per success": [_number(cost, ".4g") for cost in per_success],
        "seconds per reply, median": [_number(r.latency_median, ".2f") for r in used],
        "95th percentile": [_number(r.latency_p95, ".2f") for r in used],
        "refused": [_number(r.refused, ",") for r in used],
    }
    columns = {name: cells for name, cells in columns.items() if set(cells) - {"–", "0"}}
    if columns:
        names = [entrant.name for entrant in comparison.entrants]
        yield ("evaluation", *columns), list(zip(names, *columns.values(), strict=True))


def _rounds(comparison: Comparison) -> Iterator[Table]:
    """Yield the table of two runs' valid success by round; none for other entrants."""
    names = [entrant.name for entrant in comparison.entrants]
    header = ["round, valid tasks", *names, "difference in points [95 %]", "p", "p (Holm)", "better in"]
    rows = []
    for number, pair in comparison.by_round.items():
        paired = pair.paired
        first, second = (fmean(map(fmean, entrant.rounds[number].outcomes.values())) for entrant in comparison.entrants)
        rows.append([
            str(number), f"{100 * first:.1f} %", f"{100 * second:.1f} %", _points(paired), p_value(paired.p),
            p_value(pair.p_holm), f"{paired.only_first} : {paired.only_second}",
        ])  # fmt: skip
    if rows:
        yield _without_single_holm(header, rows)


def _points(paired: PairedComparison) -> str:
    points = paired.difference
    return f"{100 * points.value:+.1f} [{100 * points.low:+.1f}, {100 * points.high:+.1f}]"


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _pairs(comparison: Comparison) -> Table:
    header = ["first − second", "difference in points [95 %]", "p", "p (Holm)", "better in", "detectable"]
    rows = []
    for pair in comparison.pairs:
        paired = pair.paired
        rows.append([
            f"{pair.first} − {pair.second}",
            _points(paired), p_value(paired.p), p_value(pair.p_holm), f"{paired.only_first} : {paired.only_second}",
            "–" if math.isnan(paired.detectable) else f"{100 * paired.detectable:.1f}",
        ])  # fmt: skip
    return _without_single_holm(header, rows)


def _without_single_holm(header: list[str], rows: list[list[str]]) -> Table:
    """Return a table, without the adjusted p if there is a single one."""
    if len(rows) == 1:
        place = header.index("p (Holm)")
        for row in (header, *rows):
            del row[place]
    return header, rows


def _decoding_notes(comparison: Comparison) -> Iterator[str]:
    """Yield how the decoding of the models differs; other agents have no temperature."""
    samplings = [entrant.manifest["agent"]["sampling"] for entrant in comparison.entrants]
    models = [sampling for sampling in samplings if sampling.get("temperature") is not None]
    if len({sampling["temperature"] for sampling in models}) > 1:
        yield "The agents decode differently: greedy and sampled are different questions."
    if len({sampling.get("max_new_tokens") for sampling in models}) > 1:
        yield "The agents' replies have different maximum lengths."


def _notes(comparison: Comparison) -> list[str]:
    attempts = [entrant.manifest["attempts"] for entrant in comparison.entrants]
    once = sum(number > 1 for number in attempts) < 2  # pairs use as many attempts as both agents have
    notes = [f"{e.name}: {fork[0].lower()}{fork[1:]}" for e in comparison.entrants if (fork := e.manifest.get("fork"))]
    notes += [
        "p: McNemar's exact test; interval: Agresti and Min 2005." if once
        else "p: random signs of the tasks' differences (exact McNemar if no task has a rate between 0 and 1); "
        f"interval: paired bootstrap over tasks, or Agresti and Min 2005 if fewer than {MIN_BOOTSTRAP} tasks differ or "
        "all do alike.",
        "better in: tasks in which the first, and the second, did better; detectable: the smallest difference, in "
        "points, detectable with this many tasks in 80 % of comparisons.",
    ]  # fmt: skip
    notes += _decoding_notes(comparison)
    if note := small_sample_note(comparison.pairs[0].paired.difference):
        notes.append(f"{note[0].upper()}{note[1:]}.")
    if comparison.attempts_differ:
        notes.append(
            "Of each task the differences use the first attempts, as many as both agents have. The success of each "
            "evaluation is over all of its attempts."
        )
    if comparison.left_out:
        notes.append(
            f"{comparison.left_out} tasks are left out of the differences: infrastructure failed in them. The success "
            "of each evaluation is over its own tasks."
        )
    return notes
