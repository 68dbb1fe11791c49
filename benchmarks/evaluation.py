"""Coverage of the evaluator's intervals: `python benchmarks/evaluation.py [--repeats 100] [--model tiny]`.

Prints the simulated coverage of each interval, and how often `agentgym compare` finds a difference between two agents
that differ by construction and between two that do not. With `--model` it times a whole evaluation of 300 tasks
(`--tasks`) with four attempts each.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from agentgym_py.agents import AgentReply, Episode, ExpertAgent
from agentgym_py.cli import main as agentgym
from agentgym_py.collection import PlayConfig
from agentgym_py.env import EnvSpec
from agentgym_py.evaluation import evaluate, stats
from agentgym_py.evaluation.compare import Entrant, compare
from agentgym_py.evaluation.evaluate import PassFormula
from agentgym_py.evaluation.evaluate import pass_rate as evaluation_pass_rate
from agentgym_py.evaluation.folder import EvalFolder, make_manifest
from agentgym_py.rng import Rng
from agentgym_py.trajectory.store import append

DRAWS = 2_000
"""Bootstrap resamples here; the evaluator uses 10,000."""

# ---- coverage -------------------------------------------------------------------------------------------------------

Interval = Callable[[np.random.Generator], tuple[stats.Estimate, float]]
"""Simulates an evaluation; returns its interval and the true value."""


def wilson_rate(n: int, rate: float) -> Interval:
    return lambda rng: (stats.wilson(int(rng.binomial(n, rate)), n), rate)


def clustered_rate(tasks: int, a: float, b: float) -> Interval:
    """Simulate four attempts at tasks with success rates from Beta(a, b)."""
    names = np.repeat(np.arange(tasks), 4).tolist()

    def draw(rng: np.random.Generator) -> tuple[stats.Estimate, float]:
        successes = rng.random((tasks, 4)) < rng.beta(a, b, tasks)[:, None]
        return stats.success_rate(successes.ravel(), names), a / (a + b)

    return draw


def pass_rate(formula: PassFormula, a: float, b: float, tasks: int) -> Interval:
    """Simulate pass@4 or pass^4 from eight attempts at tasks with success rates from Beta(a, b)."""
    # of four attempts at such a task all succeed, or all fail, with this chance
    successes, failures = (math.prod((c + i) / (a + b + i) for i in range(4)) for c in (a, b))
    truth = 1 - failures if formula is stats.pass_at else successes

    def draw(rng: np.random.Generator) -> tuple[stats.Estimate, float]:
        outcomes = rng.random((tasks, 8)) < rng.beta(a, b, tasks)[:, None]
        return evaluation_pass_rate(formula, 4, outcomes.tolist()), truth

    return draw


def few_differences(tasks: int, first: float, second: float) -> Interval:
    """Simulate four attempts of two agents at tasks that all have their success rates."""

    def draw(rng: np.random.Generator) -> tuple[stats.Estimate, float]:
        rates = (rng.binomial(4, rate, tasks) / 4 for rate in (first, second))
        found = stats.compare_rates(*rates, resamples=DRAWS, seed=int(rng.integers(1 << 31)))
        return found.difference, first - second

    return draw


def mean_reward(tasks: int) -> Interval:
    """Simulate rewards that are 0 in six of ten tasks and uniform up to 1 in the others: mean 0.2."""

    def draw(rng: np.random.Generator) -> tuple[stats.Estimate, float]:
        rewards = np.where(rng.random(tasks) < 0.6, 0, rng.random(tasks))
        return stats.bootstrap_mean(rewards, resamples=DRAWS, seed=int(rng.integers(1 << 31))), 0.2

    return draw


def paired_difference(tasks: int, tries: int, gain: float, a: float) -> Interval:
    """Simulate two agents on tasks with rates from a scaled Beta(a, a), one better by a constant `gain`."""

    def draw(rng: np.random.Generator) -> tuple[stats.Estimate, float]:
        rates = (1 - gain) * rng.beta(a, a, tasks)
        first, second = (rng.binomial(tries, rates + more) / tries for more in (gain, 0.0))
        return stats.compare_rates(first, second, resamples=DRAWS, seed=int(rng.integers(1 << 31))).difference, gain

    return draw


def interquartile_mean(number: int) -> Interval:
    """Simulate the interquartile mean of runs with normal success rates."""
    return lambda rng: (
        stats.runs_mean(rng.normal(0.5, 0.1, (number, 1)), resamples=DRAWS, seed=int(rng.integers(1 << 31))), 0.5
    )  # fmt: skip


def improvement_probability(number: int, deviations: float = 0.5) -> Interval:
    """Simulate the probability of improvement between normal runs, some standard deviations apart."""

    def draw(rng: np.random.Generator) -> tuple[stats.Estimate, float]:
        first, second = rng.normal(0.5 + 0.1 * deviations, 0.1, (number, 1)), rng.normal(0.5, 0.1, (number, 1))
        estimate = stats.improvement_probability(first, second, resamples=DRAWS, seed=int(rng.integers(1 << 31)))
        return estimate, 0.5 * (1 + math.erf(deviations / 2))

    return draw


def improvement_over_seeds(number: int, spread: float) -> Interval:
    """Simulate runs that gain 20 points with standard deviation `spread`, measured before and after on 300 tasks."""

    def draw(rng: np.random.Generator) -> tuple[stats.Estimate, float]:
        pairs = []
        for gain in rng.normal(0.2, spread, number):
            rates = 0.1 + 0.3 * rng.random(300)
            pairs.append((rng.random(300) < rates, rng.random(300) < rates + gain))
        return stats.improvement(pairs, resamples=DRAWS, seed=int(rng.integers(1 << 31))), 0.2

    return draw


INTERVALS: dict[str, Interval] = {
    "success, 1 try, Wilson: 30 tasks at 50 %": wilson_rate(30, 0.5),
    "success, 1 try, Wilson: 300 tasks at 5 %": wilson_rate(300, 0.05),
    "success, 4 tries, clustered: 30 tasks at 50 %": clustered_rate(30, 0.5, 0.5),
    "success, 4 tries, clustered: 300 tasks at 50 %": clustered_rate(300, 0.5, 0.5),
    "success, 4 tries, clustered: 300 tasks at 5 %": clustered_rate(300, 0.25, 4.75),
    "success, 4 tries, clustered: 300 tasks at 1 %": clustered_rate(300, 0.1, 9.9),
    "reward, bootstrap: 10 tasks": mean_reward(10),
    "reward, bootstrap: 30 tasks": mean_reward(30),
    "reward, bootstrap: 300 tasks": mean_reward(300),
    "difference, 1 try, Agresti and Min: 30 tasks, 10 points": paired_difference(30, 1, 0.1, 0.8),
    "difference, 1 try, Agresti and Min: 300 tasks, 10 points": paired_difference(300, 1, 0.1, 0.8),
    "difference, 4 tries, paired bootstrap: 30 tasks, 10 points": paired_difference(30, 4, 0.1, 0.8),
    "difference, 4 tries, paired bootstrap: 300 tasks, 10 points": paired_difference(300, 4, 0.1, 0.8),
    "interquartile mean over 5 training seeds": interquartile_mean(5),
    "interquartile mean over 10 training seeds": interquartile_mean(10),
    "probability of improvement, 5 seeds each": improvement_probability(5),
    "probability of improvement, 10 seeds each": improvement_probability(10),
    "improvement, 3 seeds that differ by 10 points": improvement_over_seeds(3, 0.1),
    "improvement, 5 seeds that differ by 4 points": improvement_over_seeds(5, 0.04),
    "improvement, 5 seeds that differ by 10 points": improvement_over_seeds(5, 0.1),
    "pass@4, 8 tries: 30 tasks, 99.3 %": pass_rate(stats.pass_at, 8, 2, 30),
    "pass@4, 8 tries: 100 tasks, 72.7 %": pass_rate(stats.pass_at, 0.5, 0.5, 100),
    "pass^4, 8 tries: 100 tasks, 0.7 %": pass_rate(stats.pass_all, 2, 8, 100),
    "difference, 4 tries, few tasks differ: 30 tasks, 3 % and 0 %": few_differences(30, 0.03, 0.0),
    "difference, 4 tries, few tasks differ: 50 tasks, 97 % and 99 %": few_differences(50, 0.97, 0.99),
    "probability of improvement, 5 seeds each, 2 deviations": improvement_probability(5, 2.0),
}


def coverage(repeats: int) -> Iterator[tuple[str, str]]:
    """Yield how often each interval contains the true value, with Wilson's interval of that share."""
    for number, (name, draw) in enumerate(INTERVALS.items()):
        rng = np.random.default_rng(number)
        covered = 0
        for _ in range(repeats):
            estimate, truth = draw(rng)
            covered += estimate.low <= truth <= estimate.high
        share = stats.wilson(covered, repeats)
        yield name, f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"


# ---- compare --------------------------------------------------------------------------------------------------------


class NoisyExpert(ExpertAgent):
    """The exact expert, but wrong in a share `error_rate` of its episodes, all of them in every second task."""

    def __init__(self, error_rate: float, seed: int) -> None:
        super().__init__(thoughts=False)
        self.name, self.sampling = f"errs in {100 * error_rate:.0f} %", {"errs": error_rate, "seed": seed}
        self._errs, self._seed = error_rate, seed

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Reply as the expert, or with a wrong answer."""
        replies = zip(episodes, super().act(episodes), strict=True)
        return [AgentReply("finish[-0.5]") if self._is_wrong(episode) else reply for episode, reply in replies]

    def _is_wrong(self, episode: Episode) -> bool:
        hard = int(episode.task.id.rpartition("/")[2]) % 2
        return Rng(self._seed, episode.seed).below(1000) < 2000 * self._errs * hard


WORLD = EnvSpec("calculator", {"difficulty": "easy"})


def evaluate_to_folder(folder: Path, agent: NoisyExpert, tasks: int, tries: int) -> Entrant:
    """Evaluate an agent to a folder, and load that as `agentgym compare` does."""
    out = EvalFolder.unfinished(folder)
    manifest = make_manifest(agent, [WORLD], "test", range(tasks), tries, "none", 0) | {"options": {}}
    with out.recording(manifest):
        append(
            out.trajectories,
            evaluate(agent, WORLD, "test", range(tasks), attempts=tries, play=PlayConfig(prompt="none"))[1],
        )
        out.finish({})
    return Entrant.load(folder)


def compare_agents(error_rate: tuple[float, float], tasks: int, tries: int, repeats: int) -> str:
    """Count how often `compare` finds a difference at p <= 0.05 and how often its interval contains the true one."""
    significant = covered = 0
    detectable = list[float]()
    for repeat in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            agents = [NoisyExpert(rate, 2 * repeat + i) for i, rate in enumerate(error_rate)]
            both = [evaluate_to_folder(Path(folder) / str(i), agent, tasks, tries) for i, agent in enumerate(agents)]
            result = compare(both).pairs[0].paired
        significant += result.p <= 0.05
        covered += result.difference.low <= error_rate[1] - error_rate[0] <= result.difference.high
        detectable.append(result.detectable)
    return f"{significant} of {repeats} | {covered} of {repeats} | {100 * sum(detectable) / repeats:.1f} points"


def time_evaluation(model: str, env: str, tasks: int) -> str:
    """Time the README's evaluation command for a model."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["eval", "--env", env, "--model", model, "--tasks", str(tasks), "--attempts", "4"]
        words += ["--temperature", "0.7"]
        began = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            status = agentgym([*words, "--out", f"{folder}/a", "--json"])
        seconds = time.perf_counter() - began
        steps = json.loads(out.getvalue())["steps"] if status == 0 else math.nan
        return f"`agentgym {' '.join(words)}`: {seconds:.0f} s, {steps:.1f} steps an episode"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=100, help="simulated comparisons of each pair of agents")
    parser.add_argument("--simulations", type=int, default=2000, help="simulations of each interval")
    parser.add_argument("--model", help="also time a whole evaluation of this model")
    parser.add_argument("--env", default="shop", help="the env for --model")
    parser.add_argument("--tasks", type=int, default=300, help="tasks for --model, with four attempts each")
    args = parser.parse_args()
    if args.simulations:
        print("| interval of 95 % | holds the truth [95 %] |\n|---|---|")
        for row in coverage(args.simulations):
            print(f"| {row[0]} | {row[1]} |", flush=True)
    if args.repeats:
        print("\n| agents | tasks × tries | says that they differ | interval holds the truth | detectable |")
        print("|---|---|---|---|---|")
        for tasks, tries in ((100, 1), (50, 4)):
            for error_rate in ((0.3, 0.3), (0.3, 0.45)):
                name = " and ".join(f"errs in {100 * rate:.0f} %" for rate in error_rate)
                print(
                    f"| {name} | {tasks} × {tries} | {compare_agents(error_rate, tasks, tries, args.repeats)} |",
                    flush=True,
                )
    if args.model:
        print(f"\n{time_evaluation(args.model, args.env, args.tasks)}")


if __name__ == "__main__":
    main()
