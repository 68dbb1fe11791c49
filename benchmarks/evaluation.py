"""What the evaluator's figures are worth: `python benchmarks/evaluation.py [--repeats 100] [--model tiny]`.

Coverage of each interval by simulation; how often `agentgym compare` finds a difference between two agents that differ
by construction, and between two that do not; with `--model` the seconds of a whole evaluation of 300 tasks, four tries
each (`--tasks`).
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
from agentgym_py.evaluation.folder import EvalFolder, make_manifest
from agentgym_py.rng import Rng
from agentgym_py.trajectory.store import append

DRAWS = 2_000
"""Resamples of a bootstrap here; the evaluator takes 10,000."""

# ---- coverage -------------------------------------------------------------------------------------------------------

Interval = Callable[[np.random.Generator], tuple[stats.Estimate, float]]
"""Draws an evaluation and gives its interval, and the truth that it should hold."""


def wilson(n: int, rate: float) -> Interval:
    return lambda rng: (stats.wilson(int(rng.binomial(n, rate)), n), rate)


def clustered(tasks: int, a: float, b: float) -> Interval:
    """Four tries at tasks whose success rates are Beta(a, b)."""
    names = np.repeat(np.arange(tasks), 4).tolist()

    def draw(rng: np.random.Generator) -> tuple[stats.Estimate, float]:
        won = rng.random((tasks, 4)) < rng.beta(a, b, tasks)[:, None]
        return stats.success_rate(won.ravel(), names), a / (a + b)

    return draw


def reward(tasks: int) -> Interval:
    """Rewards that are 0 in six of ten tasks and anything up to 1 in the others: mean 0.2."""

    def draw(rng: np.random.Generator) -> tuple[stats.Estimate, float]:
        found = np.where(rng.random(tasks) < 0.6, 0, rng.random(tasks))
        return stats.bootstrap_mean(found, resamples=DRAWS, seed=int(rng.integers(1 << 31))), 0.2

    return draw


def paired(tasks: int, tries: int, gain: float, a: float) -> Interval:
    """Two agents in tasks of rates Beta(a, a) that are squeezed, so that a constant `gain` fits above them."""

    def draw(rng: np.random.Generator) -> tuple[stats.Estimate, float]:
        rates = (1 - gain) * rng.beta(a, a, tasks)
        first, second = (rng.binomial(tries, rates + more) / tries for more in (gain, 0.0))
        return stats.compare_rates(first, second, resamples=DRAWS, seed=int(rng.integers(1 << 31))).difference, gain

    return draw


def seeds(number: int) -> Interval:
    """Interquartile mean of runs with normal success rates."""
    return lambda rng: (
        stats.runs_mean(rng.normal(0.5, 0.1, (number, 1)), resamples=DRAWS, seed=int(rng.integers(1 << 31))), 0.5
    )  # fmt: skip


def beaten(number: int) -> Interval:
    """Probability of improvement between normal runs, half a standard deviation apart."""

    def draw(rng: np.random.Generator) -> tuple[stats.Estimate, float]:
        first, second = rng.normal(0.55, 0.1, (number, 1)), rng.normal(0.5, 0.1, (number, 1))
        found = stats.improvement_probability(first, second, resamples=DRAWS, seed=int(rng.integers(1 << 31)))
        return found, 0.5 * (1 + math.erf(0.25))

    return draw


def improved(number: int, spread: float) -> Interval:
    """Runs that gain 20 points, give or take `spread`, each measured before and after in 300 tasks."""

    def draw(rng: np.random.Generator) -> tuple[stats.Estimate, float]:
        pairs = []
        for gain in rng.normal(0.2, spread, number):
            rates = 0.1 + 0.3 * rng.random(300)
            pairs.append((rng.random(300) < rates, rng.random(300) < rates + gain))
        return stats.improvement(pairs, resamples=DRAWS, seed=int(rng.integers(1 << 31))), 0.2

    return draw


INTERVALS: dict[str, Interval] = {
    "success, 1 try, Wilson: 30 tasks at 50 %": wilson(30, 0.5),
    "success, 1 try, Wilson: 300 tasks at 5 %": wilson(300, 0.05),
    "success, 4 tries, clustered: 30 tasks at 50 %": clustered(30, 0.5, 0.5),
    "success, 4 tries, clustered: 300 tasks at 50 %": clustered(300, 0.5, 0.5),
    "success, 4 tries, clustered: 300 tasks at 5 %": clustered(300, 0.25, 4.75),
    "success, 4 tries, clustered: 300 tasks at 1 %": clustered(300, 0.1, 9.9),
    "reward, bootstrap: 10 tasks": reward(10),
    "reward, bootstrap: 30 tasks": reward(30),
    "reward, bootstrap: 300 tasks": reward(300),
    "difference, 1 try, Agresti and Min: 30 tasks, 10 points": paired(30, 1, 0.1, 0.8),
    "difference, 1 try, Agresti and Min: 300 tasks, 10 points": paired(300, 1, 0.1, 0.8),
    "difference, 4 tries, paired bootstrap: 30 tasks, 10 points": paired(30, 4, 0.1, 0.8),
    "difference, 4 tries, paired bootstrap: 300 tasks, 10 points": paired(300, 4, 0.1, 0.8),
    "interquartile mean over 5 training seeds": seeds(5),
    "interquartile mean over 10 training seeds": seeds(10),
    "probability of improvement, 5 seeds each": beaten(5),
    "probability of improvement, 10 seeds each": beaten(10),
    "improvement, 3 seeds that differ by 10 points": improved(3, 0.1),
    "improvement, 5 seeds that differ by 4 points": improved(5, 0.04),
    "improvement, 5 seeds that differ by 10 points": improved(5, 0.1),
}


def coverage(repeats: int) -> Iterator[tuple[str, str]]:
    """How often each interval holds the truth, with Wilson's interval of that share."""
    for number, (name, draw) in enumerate(INTERVALS.items()):
        rng = np.random.default_rng(number)
        held = 0
        for _ in range(repeats):
            found, truth = draw(rng)
            held += found.low <= truth <= found.high
        share = stats.wilson(held, repeats)
        yield name, f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"


# ---- compare --------------------------------------------------------------------------------------------------------


class Erring(ExpertAgent):
    """The exact expert, but wrong in `errs` of its episodes: in twice as many of every second task, else in none."""

    def __init__(self, errs: float, seed: int) -> None:
        super().__init__(thoughts=False)
        self.name, self.sampling = f"errs in {100 * errs:.0f} %", {"errs": errs, "seed": seed}
        self._errs, self._seed = errs, seed

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """As the expert; a wrong answer at once in an episode in which it errs."""
        said = zip(episodes, super().act(episodes), strict=True)
        return [AgentReply("finish[-0.5]") if self._wrong(each) else reply for each, reply in said]

    def _wrong(self, episode: Episode) -> bool:
        hard = int(episode.task.id.rpartition("/")[2]) % 2
        return Rng(self._seed, episode.seed).below(1000) < 2000 * self._errs * hard


WORLD = EnvSpec("calculator", {"difficulty": "easy"})


def evaluated(folder: Path, agent: Erring, tasks: int, tries: int) -> Entrant:
    """An agent's evaluation, written to a folder and read again as `agentgym compare` does."""
    out = EvalFolder.unfinished(folder)
    manifest = make_manifest(agent, [WORLD], "test", range(tasks), tries, "none", 0) | {"options": {}}
    with out.recording(manifest):
        append(
            out.trajectories,
            evaluate(agent, WORLD, "test", range(tasks), attempts=tries, play=PlayConfig(prompt="none"))[1],
        )
        out.finish({})
    return Entrant.load(folder)


def claims(errs: tuple[float, float], tasks: int, tries: int, repeats: int) -> str:
    """How often `compare` says at p <= 0.05 that two agents differ, and how often the interval holds the truth."""
    said = held = 0
    size = list[float]()
    for repeat in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            agents = [Erring(rate, 2 * repeat + i) for i, rate in enumerate(errs)]
            both = [evaluated(Path(folder) / str(i), agent, tasks, tries) for i, agent in enumerate(agents)]
            found = compare(both).pairs[0].paired
        said += found.p <= 0.05
        held += found.difference.low <= errs[1] - errs[0] <= found.difference.high
        size.append(found.detectable)
    return f"{said} of {repeats} | {held} of {repeats} | {100 * sum(size) / repeats:.1f} points"


def timed(model: str, env: str, tasks: int) -> str:
    """The command of the README for a model, and its seconds from start to end."""
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
    parser.add_argument("--repeats", type=int, default=100, help="of each comparison")
    parser.add_argument("--simulations", type=int, default=2000, help="of each interval")
    parser.add_argument("--model", help="time a whole evaluation of this one too")
    parser.add_argument("--env", default="shop", help="the world of --model")
    parser.add_argument("--tasks", type=int, default=300, help="of the world, each played four times")
    args = parser.parse_args()
    if args.simulations:
        print("| interval of 95 % | holds the truth [95 %] |\n|---|---|")
        for row in coverage(args.simulations):
            print(f"| {row[0]} | {row[1]} |", flush=True)
    if args.repeats:
        print("\n| agents | tasks × tries | says that they differ | interval holds the truth | detectable |")
        print("|---|---|---|---|---|")
        for tasks, tries in ((100, 1), (50, 4)):
            for errs in ((0.3, 0.3), (0.3, 0.45)):
                name = " and ".join(f"errs in {100 * each:.0f} %" for each in errs)
                print(f"| {name} | {tasks} × {tries} | {claims(errs, tasks, tries, args.repeats)} |", flush=True)
    if args.model:
        print(f"\n{timed(args.model, args.env, args.tasks)}")


if __name__ == "__main__":
    main()
