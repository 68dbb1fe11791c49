"""kill -9, and go on: `python benchmarks/kill.py [--moments 30] [--trainers filtered_bc grpo]`.

A small run of `agentgym evolve` in the shop, which keeps a state as often as it can, is killed at random moments, and
before operations on its files (`--every N`: every Nth of all that write, rename, make or delete one), each time from
the beginning; then it goes on to its end. Counted is how often weights, trajectories and results are then, hash for
hash, those of a run that was not killed. Times are left out of what is compared. Exit status 1 where one differs,
or every run was over before it was to be killed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from agentgym_py.cli import main as agentgym
from agentgym_py.rng import Rng

SIZES = (
    "--rounds 1 --expert_tasks 3 --explore_tasks 6 --valid_tasks 1 --test_tasks 2 --max_new_tokens 12 --slots 8 "
    "--temperature 1 --save_episodes 4 --threads 1 --trainer.checkpoint_minutes 0 --allow_empty "
    "--env_kwargs.max_steps 4"
)
OF_TRAINER = {
    "filtered_bc": "--select.threshold -1 --select.success_only false --trainer.threshold -1 --trainer.batch_size 1",
    "dpo": "--tries 2 --trainer.batch_size 2",
    "grpo": "--expert_tasks 0 --trainer.batch_tasks 1 --trainer.group_size 2 --trainer.learning_rate 1e-3",
    "ppo": "--expert_tasks 0 --trainer.batch_tasks 2 --trainer.learning_rate 1e-3",
    "r3": "--expert_tasks 0 --trainer.batch_tasks 2 --trainer.learning_rate 1e-3",
}
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree", "open"}
"""Events of Python's audit hooks."""
TIMES = {"seconds", "tokens_per_second", "started", "resumed", "command"}


def command(trainer: str, out: Path) -> list[str]:
    """The arguments that begin a run or go on with it."""
    if (out / "run.yaml").is_file():
        return ["evolve", "--resume", str(out), "--threads", "1"]
    return ["evolve", "--env", "shop", "--trainer", trainer, *SIZES.split(), *OF_TRAINER[trainer].split(),
            "--out", str(out)]  # fmt: skip


def child(trainer: str, out: Path, counted: Callable[[], None]) -> int:
    """A process that runs it, and calls `counted` before each operation that changes one of its files."""
    pid = os.fork()
    if pid:
        return pid
    said = os.open(out.with_name("said"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event not in CHANGES or not str(args[0]).startswith(str(out)):
            return
        if event != "open" or (args[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            counted()

    sys.addaudithook(hook)
    status = 1
    try:
        status = agentgym(command(trainer, out))
    finally:
        os._exit(status)
    raise AssertionError


def ended(pid: int) -> int:
    """Its exit status, or the negative number of the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def operations(trainer: str, out: Path) -> int:
    """How many operations change a file in a whole run."""
    read, write = os.pipe()

    def count_one() -> None:
        os.write(write, b".")

    pid = child(trainer, out, count_one)
    os.close(write)
    count = 0
    while some := os.read(read, 4096):
        count += len(some)
    os.close(read)
    if status := ended(pid):
        raise SystemExit(f"a whole run of {trainer} ended with {status}")
    return count


def after_moment(trainer: str, seconds: float, out: Path) -> bool:
    """Kill a run after so long; whether it was still running."""
    pid = child(trainer, out, lambda: None)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    return ended(pid) == -signal.SIGKILL


def before_operation(trainer: str, number: int, out: Path) -> bool:
    """Kill a run before its operation of this number; whether there was one."""
    left = [number]

    def count() -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    return ended(child(trainer, out, count)) == -signal.SIGKILL


def without_times(value: Any) -> Any:
    """JSON without what differs from one run to the next."""
    if isinstance(value, dict):
        return {key: without_times(each) for key, each in value.items() if key not in TIMES}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def contents(out: Path) -> dict[str, str]:
    """The digest of each file that a run leaves, by name."""
    found = {}
    for path in sorted(each for each in out.rglob("*") if each.is_file()):
        name, data = path.relative_to(out).as_posix(), path.read_bytes()
        if name in ("provenance.json", "report.html", "run.yaml"):  # when, by which command, where
            continue
        if path.suffix == ".json":
            data = json.dumps(without_times(json.loads(data))).encode()
        found[name] = hashlib.sha256(data).hexdigest()
    return found


def tried(
    trainer: str, kills: Iterable[tuple[str, Callable[[Path], bool]]], whole: dict[str, str]
) -> tuple[list[str], int]:
    """Kill and go on, each from the beginning; what went wrong, and how many were over before they were killed."""
    wrong, late = [], 0
    for name, kill in kills:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            if not kill(out):
                late += 1
                continue
            if (status := ended(child(trainer, out, lambda: None))) != 0:
                said = (out.with_name("said").read_text().strip().splitlines() or [""])[-1]
                wrong.append(f"{name}: going on ended with {status}: {said}")
                continue
            if (now := contents(out)) != whole:
                differ = sorted(each for each in {*now, *whole} if now.get(each) != whole.get(each))
                wrong.append(f"{name}: other {', '.join(differ)}")
    return wrong, late


def main() -> int:
    """Print a line a trainer and kind of moment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainers", nargs="+", choices=list(OF_TRAINER), default=["filtered_bc", "grpo"])
    parser.add_argument("--moments", type=int, default=30)
    parser.add_argument("--every", type=int, default=10, help="of the operations; 0 for none")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    rng, failed = Rng(args.seed, "moments"), 0
    print("| trainer | killed | times | ended equal | seconds of a run | file operations of a run |")
    print("|---|---|--:|--:|--:|--:|", flush=True)
    for trainer in args.trainers:
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            agentgym(command(trainer, Path(folder) / "run"))  # so that what it imports is there in every child
        with tempfile.TemporaryDirectory() as folder:
            out, began = Path(folder) / "run", time.monotonic()
            count = operations(trainer, out)
            seconds, whole = time.monotonic() - began, contents(out)
        moments = [0.95 * seconds * rng.uniform() for _ in range(args.moments)]
        numbers = range(1, count + 1, args.every) if args.every else range(0)
        for how, kills in (
            ("at random moments", [(f"after {at:.2f} s", partial(after_moment, trainer, at)) for at in moments]),
            (
                "before operations",
                [(f"before operation {at}", partial(before_operation, trainer, at)) for at in numbers],
            ),
        ):
            wrong, late = tried(trainer, kills, whole)
            times = len(kills) - late
            failed += len(wrong) + (bool(kills) and not times)
            print(f"| {trainer} | {how} | {times} | {times - len(wrong)} | {seconds:.1f} | {count} |")
            print("".join(f"  {line}\n" for line in wrong), end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
