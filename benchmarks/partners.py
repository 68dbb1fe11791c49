"""Episodes a second of `agentgym collect` with a frozen partner, whose moves are sampled one by one or together.

The fair expert plays one role and a frozen model the other, so that the time is the partner's. In `one by one` each
world asks its partner itself, as a world does outside a collection. In `together` the collection samples the moves of
all live episodes in one batch. Both take turns, so that the machine's load is the same for both; the episodes must be
the same. A model that has not learnt the game writes long replies, and gives up after `--moves` of them in a row.

    python benchmarks/partners.py --env errand --role client --partner tiny-worlds --moves 2 --tasks 32
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

from agentgym_py.cli import main as agentgym
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.multiagent import MultiAgentEnv
from agentgym_py.policy import Policy
from agentgym_py.trajectory import store

_make = EnvSpec.make


class Run(NamedTuple):
    """One collection."""

    seconds: float
    cpu: float
    """Seconds of CPU time."""
    replies: list[list[str]]
    """The replies of each episode."""


def make_without_batches(spec: EnvSpec) -> TextEnv:
    """Make a world that asks its partner itself."""
    env = _make(spec)
    env.has_model_partner = False
    return env


def collect(words: Sequence[str], out: Path, together: bool) -> Run:
    """Run the command once."""
    out.unlink(missing_ok=True)
    begin, cpu = time.perf_counter(), time.process_time()
    make = _make if together else make_without_batches
    with patch.object(EnvSpec, "make", make), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        if agentgym(["collect", *words, "--out", str(out)]):
            raise SystemExit("agentgym collect failed")
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    return Run(seconds, cpu, [[step.reply for step in t.steps] for t in store.read(out)])


def rows(args: Any, folder: Path) -> Iterator[str]:
    """Yield a line for each collection, and the ratio of the rates."""
    MultiAgentEnv.partner_moves = args.moves
    Policy.load(args.partner).save(folder / "partner")
    words = [
        "--env", args.env, "--roles", args.role, "--agent", "expert", "--expert", "fair",
        "--env_kwargs.difficulty", "easy", "--env_kwargs.partner_model", str(folder / "partner"),
        "--slots", str(args.slots),
    ]  # fmt: skip
    torch.set_num_threads(1)
    collect([*words, "--tasks", "1"], folder / "warm.jsonl", together=True)
    words += ["--tasks", str(args.tasks)]
    cpu = {True: 0.0, False: 0.0}
    replies: list[list[list[str]]] = []
    for number in range(args.repeats):
        for together in (number % 2 == 0, number % 2 == 1):
            run = collect(words, folder / "episodes.jsonl", together)
            cpu[together] += run.cpu
            replies.append(run.replies)
            yield (
                f"{'together' if together else 'one by one':>10}: {args.tasks / run.cpu:6.2f} episodes per CPU second, "
                f"{args.tasks / run.seconds:6.2f} per second"
            )
    same = sum(all(of_task == first for of_task in others) for first, *others in zip(*replies, strict=True))
    yield f"together / one by one: {cpu[False] / cpu[True]:.1f} times the episodes; {same} of {args.tasks} the same"


def main() -> None:
    """Print the lines as they are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="errand")
    parser.add_argument("--role", default="client")
    parser.add_argument("--partner", default="tiny-worlds", help="a model by name or folder")
    parser.add_argument("--moves", type=int, default=2, help="most moves of the partner in a row")
    parser.add_argument("--tasks", type=int, default=32)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(args, Path(folder)):
            print(row, flush=True)


if __name__ == "__main__":
    main()
