"""First faults against planted mistakes: `python benchmarks/first_fault.py [--mistakes 200] [--worlds shop maze ...]`.

In each task the exact expert plays once without a mistake, and once with one: a random admissible action in a random
step, after which the expert continues. The mistake is costly if that episode fails, or is longer by `--min_regret`
steps or more. Then the first fault must be its step; otherwise, and without a mistake, there must be none. A third
episode makes the same mistake and acts at random to its end; if it fails, its first fault must be the same step.

The cost of a mistake is what came of the played episodes, so the truth does not come from the code that is measured.
The search sees trajectories only.

    python benchmarks/first_fault.py --simulations 2000    # forks: how often do values that never fall show a fault?
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from agentgym_py.agents import AgentReply, Episode, ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, Job, jobs_for
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.evaluation.first_fault import Fault, fault_of_values, fault_or_reason
from agentgym_py.evaluation.stats import wilson
from agentgym_py.evaluation.text import format_interval
from agentgym_py.rewards.state_values import estimate
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory

MOST_TASKS = 30
"""Tasks per mistake after which a world is given up: in Wordle, say, no wrong guess costs two steps."""
WORLDS = ("calculator", "household", "maze", "shop", "sql", "textcraft", "todo", "tools", "wordle")


class MistakenExpert(ExpertAgent):
    """The exact expert, which makes a mistake in one step of each episode; `recovers`: it continues after the mistake.

    `places` has the step of the mistake by task id, from 0. Without `recovers` random actions follow the mistake.
    """

    def __init__(self, places: Mapping[str, int], recovers: bool) -> None:
        super().__init__(thoughts=False)
        self.places, self.recovers = places, recovers

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Reply as the expert, except for the mistakes."""
        return [self._act(episode) for episode in episodes]

    def _act(self, episode: Episode) -> AgentReply | None:
        place, number = self.places[episode.task.id], len(episode.steps)
        if number == place:
            planned = episode.env.read(episode.env.expert()[0])
            others = [a for a in episode.env.actions() or () if episode.env.read(a) != planned]
            return AgentReply(Rng("mistake", episode.task.id).choice(others)) if others else None
        if number < place or self.recovers:
            return self.reply(episode.env)
        return RandomAgent().act([episode])[0]


@dataclass
class Counts:
    """What was found in a world."""

    costly: int = 0
    located: int = 0
    """Costly mistakes whose step is the first fault if the expert continues."""
    failed: int = 0
    """Costly mistakes after which random actions fail."""
    located_failed: int = 0
    harmless: int = 0
    """Clean episodes, and mistakes that are not costly."""
    false_alarms: int = 0
    episodes: int = 0
    cpu: float = 0.0
    wall: float = 0.0

    def add(self, other: Counts) -> None:
        """Add the counts of another world."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def row(self, world: str) -> str:
        """Return a row of the table."""
        parts = [f"{self.located} of {self.costly}", f"{self.located_failed} of {self.failed}",
                 f"{self.false_alarms} of {self.harmless}", f"{self.episodes / self.cpu:.0f}",
                 f"{self.episodes / self.wall:.0f}"]  # fmt: skip
        return f"| {world} | {' | '.join(parts)} |"


def measure(world: str, mistakes: int, min_regret: int) -> Counts:
    """Plant costly mistakes in a world's training tasks and search for them."""
    counts = Counts()
    with closing(EnvPool()) as pool:
        for first in range(0, MOST_TASKS * mistakes, mistakes):
            jobs = jobs_for(EnvSpec(world), "train", range(first, first + mistakes))
            for clean, repaired, random in zip(*_episodes(jobs), strict=True):
                if counts.costly == mistakes:
                    break
                if repaired.stop_reason is StopReason.GAVE_UP:  # no other action was admissible
                    continue
                place = next(n for n, (a, b) in enumerate(zip(clean.steps, repaired.steps, strict=False), 1)
                             if a.reply != b.reply)  # fmt: skip
                costly = not repaired.success or len(repaired.steps) >= len(clean.steps) + min_regret
                counts.costly += costly
                counts.harmless += 1 + (not costly)
                counts.false_alarms += _search(clean, min_regret, pool, counts) is not None
                step = _search(repaired, min_regret, pool, counts)
                counts.located += costly and step == place
                counts.false_alarms += not costly and step is not None
                if costly and not random.success:
                    counts.failed += 1
                    counts.located_failed += _search(random, min_regret, pool, counts) == place
    return counts


def _episodes(jobs: Sequence[Job]) -> tuple[list[Trajectory], list[Trajectory], list[Trajectory]]:
    """Return the episodes without a mistake, with one, and with random actions after it."""
    clean = Collector(ExpertAgent(thoughts=False)).collect_batch(jobs)
    places = {t.task_id: Rng("place", t.task_id).below(len(t.steps)) for t in clean}
    repaired, random = (Collector(MistakenExpert(places, recovers)).collect_batch(jobs) for recovers in (True, False))
    return clean, repaired, random


def _search(trajectory: Trajectory, min_regret: int, pool: EnvPool, counts: Counts) -> int | None:
    """Return the step of the first fault, and count the time."""
    cpu, wall = time.process_time(), time.perf_counter()
    with pool.lent(trajectory.replay_spec()) as env:
        found = fault_or_reason(trajectory, env, "exact", min_regret)
    counts.cpu += time.process_time() - cpu
    counts.wall += time.perf_counter() - wall
    counts.episodes += 1
    return found.step if isinstance(found, Fault) else None


def planted(worlds: Sequence[str], mistakes: int, min_regret: int) -> Iterator[str]:
    """Yield the table of planted mistakes."""
    yield (
        "| world | located, expert continues | located, random actions continue | false alarms | "
        "episodes a second of CPU | of time |\n|---|--:|--:|--:|--:|--:|"
    )
    total = Counts()
    for number, world in enumerate(worlds):
        counts = measure(world, mistakes // len(worlds) + (number < mistakes % len(worlds)), min_regret)
        total.add(counts)
        yield counts.row(world)
    yield total.row("all")


def false_faults(simulations: int, steps: int, attempts: int, rate: float) -> str:
    """Return the share of simulated episodes, whose value never falls before the end, that show a fault."""
    outcomes = np.random.default_rng(0).random((simulations, steps + 1, attempts)) < rate
    trajectory, found = Collector(RandomAgent()).collect(Job(EnvSpec("maze"), 0)), 0
    episode = replace(trajectory, steps=trajectory.steps[:1] * steps)
    for states in outcomes:
        found += isinstance(fault_of_values(episode, [estimate(state.tolist()) for state in states]), Fault)
    return f"| {steps} | {attempts} | {100 * rate:.0f} % | {format_interval(wilson(found, simulations))} |"


def forks(simulations: int) -> Iterator[str]:
    """Yield the table of false faults by forks."""
    yield "| steps | forks per state | success of a fork | episodes with a fault [95 %] |\n|--:|--:|--:|--:|"
    for steps in (5, 20, 50):
        for attempts in (8, 16, 32):
            for rate in (0.1, 0.5, 0.9):
                yield false_faults(simulations, steps, attempts, rate)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mistakes", type=int, default=200, help="costly mistakes, over all worlds")
    parser.add_argument("--worlds", nargs="+", default=WORLDS, metavar="WORLD")
    parser.add_argument("--min_regret", type=int, default=1, help="steps that a costly mistake costs at least")
    parser.add_argument("--simulations", type=int, default=0, help="episodes per row of the table of forks")
    args = parser.parse_args(argv)
    for line in forks(args.simulations) if args.simulations else planted(args.worlds, args.mistakes, args.min_regret):
        print(line, flush=True)


if __name__ == "__main__":
    main()
