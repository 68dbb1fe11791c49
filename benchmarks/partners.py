"""Episodes a second with a frozen partner, whose moves are sampled one by one or together.

The fair expert plays one role and a frozen model the other, so that the time is the partner's. In `one by one` each
world asks its partner itself, as in a loop of your own. In `together` a collection samples the moves of all live
episodes in one batch. Both take turns, so that the machine's load is the same for both; the partner's moves must be the
same. A model that has not learnt the game gives up after 20 moves in a row, so `--max_new_tokens` bounds the time.

    python benchmarks/partners.py --env errand --role client --partner tiny-worlds --max_new_tokens 12 --tasks 32
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import torch

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, Job, PlayConfig, jobs_for
from agentgym_py.env import EnvSpec, PartnerRecord
from agentgym_py.multiagent import MultiAgentEnv
from agentgym_py.multiagent.partners import PartnerSettings
from agentgym_py.policy import Policy


class Run(NamedTuple):
    """The episodes of all tasks."""

    seconds: float
    cpu: float
    """Seconds of CPU time."""
    records: list[PartnerRecord | None]
    """The moves of each episode."""


def play_together(jobs: Sequence[Job], play: PlayConfig) -> list[PartnerRecord | None]:
    """Collect the episodes."""
    return [trajectory.partner for trajectory in Collector(ExpertAgent(fair=True), play).collect_batch(jobs)]


def play_one_by_one(jobs: Sequence[Job], play: PlayConfig) -> list[PartnerRecord | None]:
    """Step a world through one episode after another."""
    records = []
    with closing(jobs[0].env.make()) as env:
        assert isinstance(env, MultiAgentEnv)
        env.partner_settings = play.partner
        for job in jobs:
            env.reset(options={"task": job.task, "split": job.split})
            while not env.stop_reason:
                env.step(env.fair_expert() or "")
            records.append(env.partner_record)
    return records


PLAY: dict[str, Callable[[Sequence[Job], PlayConfig], list[PartnerRecord | None]]] = {
    "together": play_together,
    "one by one": play_one_by_one,
}


def measure(name: str, jobs: Sequence[Job], play: PlayConfig) -> Run:
    """Play the episodes in one way."""
    begin, cpu = time.perf_counter(), time.process_time()
    records = PLAY[name](jobs, play)
    return Run(time.perf_counter() - begin, time.process_time() - cpu, records)


def rows(args: Any, folder: Path) -> Iterator[str]:
    """Yield a line for each run, and the ratio of the rates."""
    folder /= "partner"
    Policy.load(args.partner).save(folder)
    torch.set_num_threads(1)
    spec = EnvSpec(args.env, {"role": args.role, "difficulty": "easy", "partner_model": str(folder)})
    play = PlayConfig(args.slots, partner=PartnerSettings(device="cpu", max_new_tokens=args.max_new_tokens))
    play_together([Job(spec, 0)], play)  # loads the partner
    jobs = jobs_for(spec, "train", range(args.tasks))
    cpu, records = dict.fromkeys(PLAY, 0.0), list[list[PartnerRecord | None]]()
    for number in range(args.repeats):
        for name in list(PLAY)[:: 1 if number % 2 == 0 else -1]:
            run = measure(name, jobs, play)
            cpu[name] += run.cpu
            records.append(run.records)
            yield (
                f"{name:>10}: {args.tasks / run.cpu:6.2f} episodes per CPU second, "
                f"{args.tasks / run.seconds:6.2f} per second"
            )
    same = sum(all(of_task == first for of_task in others) for first, *others in zip(*records, strict=True))
    ratio = cpu["one by one"] / cpu["together"]
    yield f"together / one by one: {ratio:.1f} times the episodes; {same} of {args.tasks} the same"


def main() -> None:
    """Print the lines as they are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="errand")
    parser.add_argument("--role", default="client")
    parser.add_argument("--partner", default="tiny-worlds", help="a model by name or folder")
    parser.add_argument("--max_new_tokens", type=int, default=12, help="longest move of the partner")
    parser.add_argument("--tasks", type=int, default=32)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(args, Path(folder)):
            print(row, flush=True)


if __name__ == "__main__":
    main()
