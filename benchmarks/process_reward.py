"""Step values against exact values: `python benchmarks/process_reward.py --checkpoint RUN/rounds/00/checkpoint`.

A checkpoint plays the shop, at temperature 1 and with random detours. Labels come from valid tasks, figures from test
tasks. The exact value of the state after a step is the discount to the power of the expert's remaining steps, and 0
after a wrong purchase or with too few steps left. It is compared with each labelling, a process reward model trained on
each labelling, the step's number, and the mean exact value of the training tasks (no correlation, and the Brier score
to beat). Each figure has a 95 % bootstrap interval over whole tasks, because the states of an episode and the two
attempts at a task are dependent. The last column is the mean standard error of labels that are estimates. With
`--labels judge --judge_model NAME --judge_base_url URL` a language model marks the steps
(`agentgym_py.rewards.llm_judge`).

The command is resumable: it reuses the files in --out, and stops if they belong to another checkpoint or other sizes.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym_py.agents import AgentReply, Episode, ModelAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.env.actions import format_reply
from agentgym_py.evaluation.stats import Estimate, bootstrap
from agentgym_py.files import write_atomic
from agentgym_py.policy import Policy
from agentgym_py.rewards.llm_judge import MARKS_FILE, OpenAIJudge
from agentgym_py.rewards.process_reward_model import Floats, ProcessRewardModel, label_steps
from agentgym_py.rewards.state_values import Values, exact_values, monte_carlo, outcome_values
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory, store
from agentgym_trainers.process_reward import ProcessReward

SHOP = EnvSpec("shop")
DISCOUNT = 0.9
CORRECTNESS, PROGRESS = 1, 2
LABELS = ("exact", "outcome", "monte_carlo", "judge")
ARGUMENTS = "arguments.json"
Continuations = list[list[tuple[float, float] | None]]
"""By episode and state, the mean return of the continuations and its standard error, or None."""
COLUMNS = ("Pearson", "Spearman", "Brier", "ECE", "Pearson, going on", "Pearson, progress", "Pearson, continuations")


class Detours:
    """A model's agent that takes a random action in one of five steps."""

    def __init__(self, agent: ModelAgent, share: float = 0.2) -> None:
        self.agent, self.share = agent, share
        self.name, self.sampling = f"{agent.name}, detours", {**agent.sampling, "detours": share}

    @property
    def policy_digest(self) -> str:
        """Return the model's digest."""
        return self.agent.policy_digest

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Return a reply per episode; after a detour the model encodes the episode again."""
        replies: list[AgentReply | None] = [self._detour(episode) for episode in episodes]
        rest = [i for i, reply in enumerate(replies) if reply is None]
        for i, reply in zip(rest, self.agent.act([episodes[i] for i in rest]) if rest else (), strict=True):
            replies[i] = reply
        return replies

    def _detour(self, episode: Episode) -> AgentReply | None:
        rng = Rng(episode.seed, "detour", len(episode.steps))
        if not episode.steps or rng.uniform() >= self.share:
            return None
        episode.ids = []
        return AgentReply(format_reply(rng.choice(episode.env.actions() or [""])))


def make_agent(policy: Policy) -> ModelAgent:
    """Make an agent of the policy at temperature 1."""
    return ModelAgent(policy, HFEngine(policy, slots=64), SamplingParams(temperature=1.0, max_new_tokens=64), "Agent")


def collect_episodes(policy: Policy, split: str, tasks: int, out: Path) -> list[Trajectory]:
    """Collect two attempts at each task, one with detours."""
    path = out / f"{split}.jsonl"
    if not path.is_file():
        jobs, agent = jobs_for([SHOP], split, range(tasks)), make_agent(policy)
        attempts = [Collector(a, PlayConfig(seed=1)).collect_batch(jobs) for a in (agent, Detours(agent))]
        store.write(path, [trajectory for pair in zip(*attempts, strict=True) for trajectory in pair])
    return list(store.read(path))


def require_same_arguments(out: Path, arguments: Mapping[str, Any]) -> None:
    """Record the arguments of the files in a folder; SystemExit if they were made with other ones.

    An argument that only one of the two calls names, such as a judge, is no contradiction.
    """
    path = out / ARGUMENTS
    if not path.is_file() and out.is_dir() and any(out.iterdir()):
        raise SystemExit(f"{out} holds files but no {ARGUMENTS} with their arguments: use another --out")
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for name, value in arguments.items():
        if before.get(name, value) != value:
            raise SystemExit(f"{out} was made with {name} {before[name]}, not {value}: use another --out")
    write_atomic(path, json.dumps({**before, **arguments}, indent=1) + "\n")


def cached(path: Path, make: Callable[[], Continuations]) -> Continuations:
    """Read cached values, or make them."""
    if not path.is_file():
        write_atomic(path, json.dumps(make()) + "\n")
    values: Continuations = json.loads(path.read_text(encoding="utf-8"))
    return values


def means(continuations: Continuations) -> list[Values]:
    """Return the means alone."""
    return [[None if value is None else value[0] for value in states] for states in continuations]


def error_of(continuations: Continuations) -> float:
    """Return the mean standard error; NaN if no state has several continuations."""
    errors = [value[1] for states in continuations for value in states if value and not math.isnan(value[1])]
    return fmean(errors) if errors else math.nan


def sample_continuations(
    policy: Policy, episodes: Sequence[Trajectory], tries: int, states: int, share: int
) -> Continuations:
    """Estimate Monte Carlo values of some states of every `share`-th episode."""
    chosen = list(episodes)[::share]
    collector = Collector(make_agent(policy), PlayConfig(slots=128, seed=2))
    estimates = monte_carlo(chosen, collector.collect_batch, attempts=tries, states=states, discount=DISCOUNT)
    values: Continuations = [[None] * (len(episode.steps) + 1) for episode in episodes]
    for number, episode_estimates in enumerate(estimates):  # the value of a final state is no estimate
        values[number * share] = [
            None if v is None or not v.attempts else (v.mean, v.stderr) for v in episode_estimates
        ]
    return values


def ranks(x: Floats) -> Floats:
    """Compute ranks, with ties at their mean."""
    order = np.argsort(x, kind="stable")
    _, inverse, counts = np.unique(x[order], return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts + 1) / 2
    result = np.empty(len(x))
    result[order] = mean_rank[inverse]
    return result


def pearson(predicted: Floats, target: Floats) -> float:
    """Compute the correlation; nan if one of them is constant."""
    varies = len(predicted) > 1 and min(predicted.std(), target.std()) > 1e-12
    return float(np.corrcoef(predicted, target)[0, 1]) if varies else math.nan


def calibration_error(predicted: Floats, target: Floats) -> float:
    """Compute the expected calibration error (ECE) over ten bins."""
    bins = np.minimum((predicted * 10).astype(int), 9)
    errors = [abs(float((predicted - target)[bins == b].sum())) for b in range(10)]
    return sum(errors) / max(len(predicted), 1)


class StepValues(NamedTuple):
    """Values of the M steps of the test tasks."""

    exact_MD: Floats
    continues_M: NDArray[np.bool_]
    """Whether the episode continues after the step."""
    sampled_M: Floats
    """The mean of the policy's own continuations; NaN for most steps."""
    task_M: list[str]

    def compare(self, predicted_MD: Floats) -> dict[str, Estimate]:
        """Compute the figures of predictions, over the steps that have one."""
        rows = np.flatnonzero(~np.isnan(predicted_MD[:, CORRECTNESS]) & ~np.isnan(self.exact_MD[:, CORRECTNESS]))
        predicted_M, target_M = predicted_MD[rows, CORRECTNESS], self.exact_MD[rows, CORRECTNESS]
        predicted_P, target_P = predicted_MD[rows, PROGRESS], self.exact_MD[rows, PROGRESS]
        continues_M, sampled_M, clipped_M = self.continues_M[rows], self.sampled_M[rows], predicted_M.clip(0, 1)
        has_progress_M, has_sample_M = ~np.isnan(predicted_P), ~np.isnan(sampled_M)

        def figures(m: NDArray[np.intp]) -> list[float]:
            on, p, c = m[continues_M[m]], m[has_progress_M[m]], m[has_sample_M[m]]
            return [
                pearson(predicted_M[m], target_M[m]), pearson(ranks(predicted_M[m]), ranks(target_M[m])),
                float(((clipped_M[m] - target_M[m]) ** 2).mean()), calibration_error(clipped_M[m], target_M[m]),
                pearson(predicted_M[on], target_M[on]), pearson(predicted_P[p], target_P[p]),
                pearson(predicted_M[c], sampled_M[c]),
            ]  # fmt: skip

        estimates = bootstrap(figures, [self.task_M[i] for i in rows])
        states = Estimate(len(rows), math.nan, math.nan, estimates[0].n)
        return dict(zip(COLUMNS, estimates, strict=True)) | {"states": states}


def steps_of(episodes: Sequence[Trajectory], values: Sequence[Values]) -> Floats:
    """Label all steps of all episodes, (M, 3)."""
    return np.concatenate([label_steps(episode, v) for episode, v in zip(episodes, values, strict=True)])


def load_or_train(
    name: str,
    trainer: ProcessReward,
    policy: Policy,
    episodes: Sequence[Trajectory],
    values: Sequence[Values],
    out: Path,
) -> ProcessRewardModel:
    """Load the process reward model of a labelling, or train it."""
    folder = out / name
    if not (folder / "process_reward.json").is_file():
        report = trainer.train_on(policy, episodes, values, seed=0, output_dir=folder)
        print(f"{name}: loss {report.loss[0]:.4f} to {report.loss[-1]:.4f} in {report.seconds:.0f} s", flush=True)
    return ProcessRewardModel.load(folder)


def parse_args(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/process_reward"))
    parser.add_argument("--tasks", type=int, default=250, help="valid tasks for labels")
    parser.add_argument("--test_tasks", type=int, default=150)
    parser.add_argument("--tries", type=int, default=4, help="continuations of a training state")
    parser.add_argument("--test_tries", type=int, default=8)
    parser.add_argument("--share", type=int, default=2, help="continue states of every SHARE-th episode")
    parser.add_argument("--epochs", type=float, default=4.0)
    parser.add_argument("--frozen", action="store_true", help="also train the heads alone")
    parser.add_argument("--labels", nargs="+", choices=LABELS, default=["exact", "outcome", "monte_carlo"])
    parser.add_argument("--judge_model", help="the judge of labels `judge`")
    parser.add_argument("--judge_base_url", default="https://api.openai.com/v1", help="its endpoint, up to /v1")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(words)
    if ("judge" in args.labels) != bool(args.judge_model):
        parser.error("--labels judge and --judge_model NAME belong together")
    return args


@dataclass
class Table:
    """The measured rows, each by steps whose values are known."""

    steps: StepValues
    rows: dict[str, dict[str, Estimate]] = field(default_factory=dict)

    def measure(self, name: str, predicted_MD: Floats, stderr: float = math.nan) -> None:
        """Measure predictions of the steps' values, and print their row."""
        self.rows[name] = self.steps.compare(predicted_MD) | {"stderr": Estimate(stderr, math.nan, math.nan, 0)}
        print(name, json.dumps({key: asdict(estimate) for key, estimate in self.rows[name].items()}), flush=True)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the table."""
        yield f"\n| steps' values | states | {' | '.join(COLUMNS)} | labels' standard error |"
        yield f"|---|--:|{'--:|' * (len(COLUMNS) + 1)}"
        for name, row in self.rows.items():
            cells = [cell(row[key]) for key in (*COLUMNS, "stderr")]
            yield f"| {name} | {row['states'].value:.0f} | {' | '.join(cells)} |"


def main(words: Sequence[str] | None = None) -> None:
    """Collect, label, train, measure, print a table."""
    args = parse_args(words)
    import torch

    torch.set_num_threads(args.threads)
    policy = Policy.load(args.checkpoint)
    sizes = ("tasks", "test_tasks", "tries", "test_tries", "share", "epochs")
    judge_arguments = {"judge_model": args.judge_model} if args.judge_model else {}
    require_same_arguments(
        args.out, {"checkpoint": policy.digest(), **{name: getattr(args, name) for name in sizes}, **judge_arguments}
    )
    train, test = (
        collect_episodes(policy, "valid", args.tasks, args.out),
        collect_episodes(policy, "test", args.test_tasks, args.out),
    )
    sampled = cached(
        args.out / "mc_test.json", lambda: sample_continuations(policy, test, args.test_tries, 2, args.share)
    )
    exact = [exact_values(t, DISCOUNT) for t in train]
    table = Table(step_values(test, sampled))
    measure_labels(table, args, test, sampled, float(np.nanmean(steps_of(train, exact)[:, CORRECTNESS])))
    for name, values, stderr, settings in training_labels(args, policy, train, exact):
        trainer = ProcessReward(**{"discount": DISCOUNT, "epochs": args.epochs, **settings})
        model = load_or_train(name, trainer, policy, train, values, args.out)
        table.measure(f"model: {name}", np.concatenate(model.by_dimension(test)), stderr)
    write_atomic(
        args.out / "process_reward.json",
        json.dumps({k: {n: asdict(e) for n, e in v.items()} for k, v in table.rows.items()}),
    )
    print(*table.lines(), sep="\n")


def step_values(test: Sequence[Trajectory], sampled: Continuations) -> StepValues:
    """Return the values of the test episodes' steps, exact and by continuations."""
    return StepValues(
        steps_of(test, [exact_values(t, DISCOUNT) for t in test]),
        np.concatenate([[True] * (len(t.steps) - 1) + [not t.terminated] for t in test]),
        steps_of(test, means(sampled))[:, CORRECTNESS], [t.task_id for t in test for _ in t.steps],
    )  # fmt: skip


def measure_labels(
    table: Table, args: argparse.Namespace, test: Sequence[Trajectory], sampled: Continuations, mean_value: float
) -> None:
    """Measure what needs no model: a constant, the step's number, and the labels themselves."""
    number_M = np.concatenate([np.arange(len(t.steps)) for t in test]).astype(np.float64)
    table.measure("the mean value", np.full((len(number_M), 3), mean_value))
    table.measure("the step's number", np.stack([number_M] * 3, -1))
    table.measure("label: outcome", steps_of(test, [outcome_values(t, DISCOUNT) for t in test]))
    table.measure(f"label: monte_carlo, {args.test_tries} tries", steps_of(test, means(sampled)), error_of(sampled))
    if "judge" in args.labels:
        judge = OpenAIJudge(args.judge_model, args.judge_base_url)
        table.measure("label: judge", steps_of(test, judge.values(test, args.out / MARKS_FILE)))


def training_labels(
    args: argparse.Namespace, policy: Policy, train: Sequence[Trajectory], exact: Sequence[Values]
) -> Iterator[tuple[str, Sequence[Values], float, dict[str, Any]]]:
    """Yield each model's name, the labels that it learns, their standard error, and its own settings."""
    if "exact" in args.labels:
        yield "exact", exact, math.nan, {}
    if args.frozen:
        yield "exact, heads alone", exact, math.nan, {"train_backbone": False, "epochs": 4 * args.epochs}
    if "outcome" in args.labels:
        yield "outcome", [outcome_values(t, DISCOUNT) for t in train], math.nan, {}
    if "monte_carlo" in args.labels:
        continuations = cached(
            args.out / "mc.json", lambda: sample_continuations(policy, train, args.tries, 3, args.share)
        )
        values = [[*v[:-1], float(t.success)] for v, t in zip(means(continuations), train, strict=True)]
        yield "monte_carlo", values, error_of(continuations), {}
    if "judge" in args.labels:
        judge = OpenAIJudge(args.judge_model, args.judge_base_url)
        yield "judge", judge.values(train, args.out / MARKS_FILE), math.nan, {}


def cell(estimate: Estimate) -> str:
    """Format a figure with its interval."""
    if math.isnan(estimate.value):
        return ""
    interval = "" if math.isnan(estimate.low) else f" [{estimate.low:.2f}, {estimate.high:.2f}]"
    return f"{estimate.value:.2f}{interval}"


if __name__ == "__main__":
    main()
