"""Values of steps against the exact ones: `python benchmarks/process_reward.py --checkpoint RUN/rounds/00/checkpoint`.

A checkpoint plays the shop, at temperature 1 and with random detours; labels come from valid tasks, what is measured
from test tasks, which nothing was trained on. The exact value of the state that a step led to is the discount to the
power of the expert's remaining steps, 0 after a wrong purchase or where too few steps are left. Measured against it:
each labelling (that by exact values is the measure itself), a process reward model trained on each, the step's number
alone, and the mean of the exact values of the tasks that are learnt from, which has no correlation and the Brier score
to beat. Each figure has a 95 % bootstrap interval that draws whole tasks: the states of an episode, and the two tries
at a task, depend on each other. Of labels that are estimates the last column has the mean standard error. `--labels
judge --judge_model NAME --judge_base_url URL` has a language model mark the steps (`agentgym_py.rewards.llm_judge`).

Resumable: what is in --out is not done again, and refused for another checkpoint or other sizes.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
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
Continued = list[list[tuple[float, float] | None]]
"""Of the states of each episode the mean of its continuations and its standard error, or None."""
COLUMNS = ("Pearson", "Spearman", "Brier", "ECE", "Pearson, going on", "Pearson, progress", "Pearson, continuations")


class Detours:
    """A model's agent that does something at random instead, in one of five steps."""

    def __init__(self, agent: ModelAgent, share: float = 0.2) -> None:
        self.agent, self.share = agent, share
        self.name, self.sampling = f"{agent.name}, detours", {**agent.sampling, "detours": share}

    @property
    def policy_digest(self) -> str:
        """The model's."""
        return self.agent.policy_digest

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """One reply an episode; after a detour the model reads the episode anew."""
        replies: list[AgentReply | None] = [self._detour(episode) for episode in episodes]
        own = [i for i, reply in enumerate(replies) if reply is None]
        for i, reply in zip(own, self.agent.act([episodes[i] for i in own]) if own else (), strict=True):
            replies[i] = reply
        return replies

    def _detour(self, episode: Episode) -> AgentReply | None:
        rng = Rng(episode.seed, "detour", len(episode.steps))
        if not episode.steps or rng.uniform() >= self.share:
            return None
        episode.ids = []
        return AgentReply(format_reply(rng.choice(episode.env.actions() or [""])))


def agent_of(policy: Policy) -> ModelAgent:
    """The policy, at temperature 1."""
    return ModelAgent(policy, HFEngine(policy, slots=64), SamplingParams(temperature=1.0, max_new_tokens=64), "Agent")


def played(policy: Policy, split: str, tasks: int, out: Path) -> list[Trajectory]:
    """Two tries at each task, one with detours."""
    path = out / f"{split}.jsonl"
    if not path.is_file():
        jobs, agent = jobs_for([SHOP], split, range(tasks)), agent_of(policy)
        tries = [Collector(each, PlayConfig(seed=1)).collect_batch(jobs) for each in (agent, Detours(agent))]
        store.write(path, [each for pair in zip(*tries, strict=True) for each in pair])
    return list(store.read(path))


def keep_to(out: Path, arguments: Mapping[str, Any]) -> None:
    """Write down what the files of a folder are made with, or refuse one whose files were made with something else.

    What only one of the two calls names, such as a judge, is no contradiction.
    """
    path = out / ARGUMENTS
    if not path.is_file() and out.is_dir() and any(out.iterdir()):
        raise SystemExit(f"{out} holds files, and no {ARGUMENTS} that says how they were made: give another --out")
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for name, value in arguments.items():
        if before.get(name, value) != value:
            raise SystemExit(f"{out} was made with {name} {before[name]}, not {value}: give another --out")
    write_atomic(path, json.dumps({**before, **arguments}, indent=1) + "\n")


def cached(path: Path, make: Callable[[], Continued]) -> Continued:
    """What was made, or is made now."""
    if not path.is_file():
        write_atomic(path, json.dumps(make()) + "\n")
    found: Continued = json.loads(path.read_text(encoding="utf-8"))
    return found


def means(found: Continued) -> list[Values]:
    """The values alone."""
    return [[None if each is None else each[0] for each in states] for states in found]


def error_of(found: Continued) -> float:
    """The mean standard error of the values; NaN where each is of one continuation."""
    errors = [each[1] for states in found for each in states if each and not math.isnan(each[1])]
    return fmean(errors) if errors else math.nan


def continued(policy: Policy, episodes: Sequence[Trajectory], tries: int, states: int, share: int) -> Continued:
    """Monte Carlo values of some states of every `share`-th episode."""
    some = list(episodes)[::share]
    collector = Collector(agent_of(policy), PlayConfig(slots=128, seed=2))
    found = monte_carlo(some, collector.collect_batch, attempts=tries, states=states, discount=DISCOUNT)
    values: Continued = [[None] * (len(each.steps) + 1) for each in episodes]
    for number, known in enumerate(found):  # an end is no estimate
        values[number * share] = [None if v is None or not v.attempts else (v.mean, v.stderr) for v in known]
    return values


def ranks(x: Floats) -> Floats:
    """Ranks, ties at their mean."""
    order = np.argsort(x, kind="stable")
    _, inverse, counts = np.unique(x[order], return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts + 1) / 2
    found = np.empty(len(x))
    found[order] = mean_rank[inverse]
    return found


def pearson(said: Floats, true: Floats) -> float:
    """The correlation; nan where one of them does not differ."""
    differ = len(said) > 1 and min(said.std(), true.std()) > 1e-12
    return float(np.corrcoef(said, true)[0, 1]) if differ else math.nan


def calibration_error(said: Floats, true: Floats) -> float:
    """How far what is said is from what is so, in the mean of each of ten bins, by their sizes (ECE)."""
    bins = np.minimum((said * 10).astype(int), 9)
    off = [abs(float((said - true)[bins == b].sum())) for b in range(10)]
    return sum(off) / max(len(said), 1)


class Held(NamedTuple):
    """What is known of the M steps of the test tasks."""

    exact_MD: Floats
    goes_on_M: NDArray[np.bool_]
    """Whether the episode went on after the step."""
    played_M: Floats
    """The mean of the policy's own continuations from there; NaN of most."""
    task_M: list[str]

    def against(self, said_MD: Floats) -> dict[str, Estimate]:
        """Figures of what is said of the steps of which something is said."""
        known = np.flatnonzero(~np.isnan(said_MD[:, CORRECTNESS]) & ~np.isnan(self.exact_MD[:, CORRECTNESS]))
        said_M, true_M = said_MD[known, CORRECTNESS], self.exact_MD[known, CORRECTNESS]
        said_P, true_P = said_MD[known, PROGRESS], self.exact_MD[known, PROGRESS]
        on_M, played_M, clipped_M = self.goes_on_M[known], self.played_M[known], said_M.clip(0, 1)
        known_P, known_C = ~np.isnan(said_P), ~np.isnan(played_M)

        def figures(m: NDArray[np.intp]) -> list[float]:
            on, p, c = m[on_M[m]], m[known_P[m]], m[known_C[m]]
            return [
                pearson(said_M[m], true_M[m]), pearson(ranks(said_M[m]), ranks(true_M[m])),
                float(((clipped_M[m] - true_M[m]) ** 2).mean()), calibration_error(clipped_M[m], true_M[m]),
                pearson(said_M[on], true_M[on]), pearson(said_P[p], true_P[p]), pearson(said_M[c], played_M[c]),
            ]  # fmt: skip

        found = bootstrap(figures, [self.task_M[i] for i in known])
        return dict(zip(COLUMNS, found, strict=True)) | {"states": Estimate(len(known), math.nan, math.nan, found[0].n)}


def steps_of(episodes: Sequence[Trajectory], values: Sequence[Values]) -> Floats:
    """The labels of all steps of all episodes, (M, 3)."""
    return np.concatenate([label_steps(each, known) for each, known in zip(episodes, values, strict=True)])


def trained(
    name: str, how: ProcessReward, policy: Policy, episodes: Sequence[Trajectory], values: Sequence[Values], out: Path
) -> ProcessRewardModel:
    """The process reward model of a labelling."""
    folder = out / name
    if not (folder / "process_reward.json").is_file():
        report = how.train_on(policy, episodes, values, seed=0, output_dir=folder)
        print(f"{name}: loss {report.loss[0]:.4f} to {report.loss[-1]:.4f} in {report.seconds:.0f} s", flush=True)
    return ProcessRewardModel.load(folder)


def asked_for(words: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/process_reward"))
    parser.add_argument("--tasks", type=int, default=250, help="valid tasks that labels come from")
    parser.add_argument("--test_tasks", type=int, default=150)
    parser.add_argument("--tries", type=int, default=4, help="continuations of a state that a model learns from")
    parser.add_argument("--test_tries", type=int, default=8)
    parser.add_argument("--share", type=int, default=2, help="every so many episodes one is continued from")
    parser.add_argument("--epochs", type=float, default=4.0)
    parser.add_argument("--frozen", action="store_true", help="train the heads alone as well")
    parser.add_argument("--labels", nargs="+", choices=LABELS, default=["exact", "outcome", "monte_carlo"])
    parser.add_argument("--judge_model", help="the model that marks, of labels `judge`")
    parser.add_argument("--judge_base_url", default="https://api.openai.com/v1", help="its endpoint, up to /v1")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args(words)
    if ("judge" in asked.labels) != bool(asked.judge_model):
        parser.error("--labels judge and --judge_model NAME belong together")
    return asked


def main(words: Sequence[str] | None = None) -> None:
    """Play, label, train, measure, print a table."""
    asked = asked_for(words)
    import torch

    torch.set_num_threads(asked.threads)
    policy = Policy.load(asked.checkpoint)
    sizes = ("tasks", "test_tasks", "tries", "test_tries", "share", "epochs")
    judged = {"judge_model": asked.judge_model} if asked.judge_model else {}
    keep_to(asked.out, {"checkpoint": policy.digest(), **{name: getattr(asked, name) for name in sizes}, **judged})
    train, test = played(policy, "valid", asked.tasks, asked.out), played(policy, "test", asked.test_tasks, asked.out)
    exact = [exact_values(each, DISCOUNT) for each in train]
    sampled = cached(asked.out / "mc_test.json", lambda: continued(policy, test, asked.test_tries, 2, asked.share))
    held = Held(
        steps_of(test, [exact_values(each, DISCOUNT) for each in test]),
        np.concatenate([[True] * (len(each.steps) - 1) + [not each.terminated] for each in test]),
        steps_of(test, means(sampled))[:, CORRECTNESS], [each.task_id for each in test for _ in each.steps],
    )  # fmt: skip
    rows: dict[str, dict[str, Estimate]] = {}

    def measure(name: str, said_MD: Floats, stderr: float = math.nan) -> None:
        rows[name] = held.against(said_MD) | {"stderr": Estimate(stderr, math.nan, math.nan, 0)}
        print(name, json.dumps({key: asdict(each) for key, each in rows[name].items()}), flush=True)

    number_M = np.concatenate([np.arange(len(each.steps)) for each in test]).astype(np.float64)
    measure("the mean value", np.full((len(number_M), 3), np.nanmean(steps_of(train, exact)[:, CORRECTNESS])))
    measure("the step's number", np.stack([number_M] * 3, -1))
    measure("label: outcome", steps_of(test, [outcome_values(each, DISCOUNT) for each in test]))
    measure(f"label: monte_carlo, {asked.test_tries} tries", steps_of(test, means(sampled)), error_of(sampled))

    def learn(name: str, values: Sequence[Values], stderr: float = math.nan, **settings: Any) -> None:
        how = ProcessReward(**{"discount": DISCOUNT, "epochs": asked.epochs, **settings})
        model = trained(name, how, policy, train, values, asked.out)
        measure(f"model: {name}", np.concatenate(model.by_dimension(test)), stderr)

    if "exact" in asked.labels:
        learn("exact", exact)
    if asked.frozen:
        learn("exact, heads alone", exact, train_backbone=False, epochs=4 * asked.epochs)
    if "outcome" in asked.labels:
        learn("outcome", [outcome_values(each, DISCOUNT) for each in train])
    if "monte_carlo" in asked.labels:
        found = cached(asked.out / "mc.json", lambda: continued(policy, train, asked.tries, 3, asked.share))
        values = [[*v[:-1], float(each.success)] for v, each in zip(means(found), train, strict=True)]
        learn("monte_carlo", values, error_of(found))
    if "judge" in asked.labels:
        judge = OpenAIJudge(asked.judge_model, asked.judge_base_url)
        measure("label: judge", steps_of(test, judge.values(test, asked.out / MARKS_FILE)))
        learn("judge", judge.values(train, asked.out / MARKS_FILE))
    write_atomic(
        asked.out / "process_reward.json",
        json.dumps({k: {n: asdict(e) for n, e in v.items()} for k, v in rows.items()}),
    )
    print(f"\n| steps' values | states | {' | '.join(COLUMNS)} | labels' standard error |")
    print(f"|---|--:|{'--:|' * (len(COLUMNS) + 1)}")
    for name, row in rows.items():
        cells = [cell(row[key]) for key in (*COLUMNS, "stderr")]
        print(f"| {name} | {row['states'].value:.0f} | {' | '.join(cells)} |")


def cell(found: Estimate) -> str:
    """A figure and its interval."""
    if math.isnan(found.value):
        return ""
    return f"{found.value:.2f}" + ("" if math.isnan(found.low) else f" [{found.low:.2f}, {found.high:.2f}]")


if __name__ == "__main__":
    main()
