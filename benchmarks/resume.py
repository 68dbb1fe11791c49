"""Resuming after kill -9 and disk errors: `python benchmarks/resume.py [--moments 30] [--trainers filtered_bc grpo]`.

A small run of `agentgym evolve` in the shop, with as many training states as possible, is killed at random moments and
at operations on its files, each time from the start. Then it is resumed to its end. Operations open a file for writing,
write an episode, weights or a state (killed halfway), sync, rename, make or delete a file. By default the run is killed
once at each place in the code with an operation, at a random visit of the place; with `--every N` at every Nth
operation. The benchmark counts how often weights, trajectories and results then equal, hash for hash, those of a run
without a kill; times are not compared. When a training is over and its weights are not saved yet, a training state must
still exist.

Disk errors follow: the disk is full from an operation on; files may not grow beyond a size (that of each file of the
run); a folder of a killed run is read-only (the states', the round's, the run's); a byte of the last state is wrong (in
each of its files). The command must end with status 2, and its last line must name the file or folder. After the error
is gone, it must resume as above. The exit status is 1 if any case fails.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

from agentgym_py.cli import main as agentgym
from agentgym_py.rng import Rng

SIZES = (
    "--rounds 1 --expert_tasks 3 --explore_tasks 6 --valid_tasks 1 --test_tasks 2 --max_new_tokens 12 --slots 8 "
    "--temperature 1 --save_episodes 4 --threads 1 --trainer.checkpoint_minutes 0 --allow_empty "
    "--env_kwargs.max_steps 4"
)
OF_TRAINER = {
    "filtered_bc": "--select.threshold -1 --select.success_only false --trainer.threshold -1 --trainer.batch_size 2",
    "dpo": "--attempts 2 --trainer.batch_size 2",
    "grpo": "--expert_tasks 0 --trainer.tasks_per_iteration 1 --trainer.group_size 2 --trainer.learning_rate 1e-3",
    "ppo": "--expert_tasks 0 --trainer.tasks_per_iteration 2 --trainer.learning_rate 1e-3",
    "r3": "--expert_tasks 0 --trainer.tasks_per_iteration 2 --trainer.learning_rate 1e-3",
}
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree", "open"}
"""Events of Python's audit hooks; writes in C and Rust raise none."""
MIN_SIZE = 8192
"""Bytes to which any file may grow, because the command's output goes to a file."""
DEFECT = 70
STATES, ROUND, RUN = 0, 2, 4
"""Folders by their distance above the folder of training states."""
WRITES = ("open", "os.write", "os.fsync", "os.mkdir", "torch.save", "safetensors")
"""Operations that fail on a full disk."""
Hits = Callable[[str], bool]
"""Takes the place of an operation; tells whether to fail there."""
Failure = Callable[[str], None]
"""Takes a path; kills the process or raises the error of an operation."""
Fault = Callable[[Path], None]
"""Runs with a fault in a folder. SystemExit: the fault did not happen, or the run ended in the wrong way."""
OURS = ("agentgym_py", "agentgym_trainers", "transformers")
"""Packages whose lines count as places."""
TIMES = {"seconds", "tokens_per_second", "started", "resumed", "command"}


def command(trainer: str, out: Path) -> list[str]:
    """Return the arguments that start a run or resume it."""
    if (out / "run.yaml").is_file():
        return ["evolve", "--resume", str(out), "--threads", "1"]
    return ["evolve", "--env", "shop", "--trainer", trainer, *SIZES.split(), *OF_TRAINER[trainer].split(),
            "--out", str(out)]  # fmt: skip


def child(
    trainer: str, out: Path, hits: Hits = lambda _: False, *, failure: Failure | None = None,
    before: Callable[[], None] = lambda: None,
) -> int:  # fmt: skip
    """Fork a process that runs the command; return its pid.

    At each operation on its files for which `hits` is true, the process is killed or calls `failure`.
    """
    if pid := os.fork():
        return pid
    output = os.open(out.with_name("output"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    before()
    sys.addaudithook(partial(audit_hook, out, hits, failure or die))
    status = DEFECT
    try:
        with patched(out, hits, failure):
            status = agentgym(command(trainer, out))
    except BaseException:
        traceback.print_exc()
    os._exit(status)


def audit_hook(out: Path, hits: Hits, failure: Failure, event: str, args: tuple[Any, ...]) -> None:
    """Fail at audited operations; a hook of `sys.addaudithook`."""
    if event not in CHANGES or (event == "open" and not (args[2] or 0) & (os.O_WRONLY | os.O_RDWR)):
        return
    path = str(args[0])
    if event in ("os.remove", "os.rmdir") and args[1] != -1:  # a name in an open folder
        path = f"{path_of(args[1])}/{path}"
    if path.startswith(str(out)) and hits(place(event)):
        failure(path)


@contextmanager
def patched(out: Path, hits: Hits, failure: Failure | None) -> Iterator[None]:
    """Fail also at operations without audit events: writes of lines, weights and states, and syncs."""
    import safetensors.torch
    import torch

    write, sync, save, serialize = os.write, os.fsync, torch.save, vars(safetensors.torch)["serialize_file"]

    def is_hit(event: str, path: Any) -> bool:
        return str(path).startswith(str(out)) and hits(place(event, 3))

    def failing_write(file: int, data: bytes) -> int:
        if is_hit("os.write", path_of(file)):
            if failure:
                failure("")
            write(file, data[: len(data) // 2])
            die()
        return write(file, data)

    def failing_sync(file: int) -> None:
        if is_hit("os.fsync", path_of(file)):
            (failure or die)("")
        sync(file)

    def write_half(path: Any, write_all: Callable[[], None], hit: bool) -> None:
        if hit and failure:
            failure(str(path))
        write_all()
        if hit:
            os.truncate(path, Path(path).stat().st_size // 2)
            die()

    def failing_save(value: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        write_half(path, lambda: save(value, path, *args, **kwargs), is_hit("torch.save", path))

    def failing_serialize(tensors: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        write_half(path, lambda: serialize(tensors, path, *args, **kwargs), is_hit("safetensors", path))

    with ExitStack() as stack:
        for module, name, new in (
            (os, "write", failing_write), (os, "fsync", failing_sync), (torch, "save", failing_save),
            (safetensors.torch, "serialize_file", failing_serialize),
        ):  # fmt: skip
            stack.enter_context(mock.patch.object(module, name, new))
        yield


def path_of(file: int) -> str:
    """Return the path of an open file or folder."""
    return str(Path(f"/proc/self/fd/{file}").readlink())


def place(event: str, above: int = 2) -> str:
    """Name an operation and the lines of its two nearest callers in `OURS`."""
    frame, lines = sys._getframe(above), list[str]()
    while frame and len(lines) < 2:
        path = Path(frame.f_code.co_filename)
        if any(name in path.parts for name in OURS):
            lines.append(f"{path.name}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    return " < ".join((event, *lines))


def die(_: object = None) -> None:
    """Kill this process with SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)


def no_space(path: str) -> None:
    """Raise the error of a full disk; an already open file has no path."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *[path] * bool(path))


def exit_status(pid: int) -> int:
    """Wait for a process; return its exit status or the negative signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def operations(trainer: str, out: Path) -> list[str]:
    """List the places of the file operations of a whole run, in order."""
    read, write = os.pipe()

    def record(at: str) -> bool:
        os.write(write, f"{at}\n".encode())
        return False

    pid = child(trainer, out, record)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as file:
        places = file.read().splitlines()
    if status := exit_status(pid):
        raise SystemExit(f"a whole run of {trainer} ended with {status}")
    return places


def after_moment(trainer: str, seconds: float, out: Path) -> None:
    """Kill a run after some seconds, or a little earlier if it ends before."""
    while True:
        pid = child(trainer, out)
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        if exit_status(pid) == -signal.SIGKILL:
            return
        shutil.rmtree(out)
        seconds *= 0.9


def at_operation(trainer: str, number: int, out: Path) -> None:
    """Kill a run at an operation, numbered from 0."""
    numbers = count()
    status = exit_status(child(trainer, out, lambda _: next(numbers) == number))
    if status != -signal.SIGKILL:
        raise SystemExit(f"the run was not killed but ended with {status}")


def as_weights_are_saved(trainer: str, number: int, out: Path) -> None:
    """Kill a run at an operation between the end of training and the saved weights."""
    at_operation(trainer, number, out)
    if not list(out.rglob("state-*")):
        raise SystemExit("both the last training state and the weights are missing")


def too_large(trainer: str, size: int, out: Path) -> None:
    """Run with a maximum file size in bytes."""
    limits = (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    require_error(child(trainer, out, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits)), out)


def full_disk(trainer: str, number: int, out: Path) -> None:
    """Run with a disk that is full from an operation on."""
    numbers = count()
    full = child(trainer, out, lambda at: next(numbers) >= number and at.startswith(WRITES), failure=no_space)
    require_error(full, out)


def read_only(trainer: str, number: int, above: int, out: Path) -> None:
    """Kill a run at an operation and resume it with a read-only folder."""
    at_operation(trainer, number, out)
    (states,) = out.rglob("states")
    closed = (states, *states.parents)[above]
    closed.chmod(0o555)
    before = folder_contents(closed)
    require_error(child(trainer, out, before=drop_capabilities), closed)
    if folder_contents(closed) != before:
        raise SystemExit("the read-only folder changed")
    closed.chmod(0o755)


def folder_contents(folder: Path) -> dict[str, bytes]:
    """Read the files of a folder, without those of its subfolders."""
    return {path.name: path.read_bytes() if path.is_file() else b"" for path in folder.iterdir()}


def drop_capabilities() -> None:
    """Drop the capabilities by which root may write anywhere."""
    version, thread, none = 0x20080522, 0, (ctypes.c_uint32 * 6)()
    if os.geteuid() == 0 and ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(version, thread), none):
        raise OSError("capset failed")


def other_byte(trainer: str, number: int, out: Path) -> None:
    """Kill a run at an operation and resume it with a wrong byte, in turn in each file of its last state."""
    at_operation(trainer, number, out)
    (state,) = out.rglob("state-*")
    for path in sorted(path for path in state.rglob("*") if path.is_file()):
        data = path.read_bytes()
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        require_error(child(trainer, out), state)
        path.write_bytes(data)


def require_error(pid: int, where: Path) -> None:
    """Require exit status 2 and a last line that names a file there; else SystemExit."""
    status = exit_status(pid)
    run = next(path for path in (where, *where.parents) if path.name == "run")
    lines = run.with_name("output").read_text().strip().splitlines()
    if status != 2 or not lines or not lines[-1].startswith("agentgym: ") or str(where) not in lines[-1]:
        raise SystemExit(f"the command ended with {status}, without a last line that names {where}: {lines[-1:]}")


def without_times(value: Any) -> Any:
    """Remove from JSON the values that differ between runs."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def digests(out: Path) -> dict[str, str]:
    """Compute the digests of a run's files, by name."""
    result = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        name, data = path.relative_to(out).as_posix(), path.read_bytes()
        if name in ("provenance.json", "report.html", "run.yaml"):  # these hold times, commands and paths
            continue
        if path.suffix == ".json":
            data = json.dumps(without_times(json.loads(data))).encode()
        result[name] = hashlib.sha256(data).hexdigest()
    return result


def failures(trainer: str, faults: Iterable[tuple[str, Fault]], expected: dict[str, str]) -> list[str]:
    """Run with each fault, then resume; list the failures."""
    errors = []
    for name, fault in faults:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            try:
                fault(out)
            except SystemExit as error:
                errors.append(f"{name}: {error}")
                continue
            if (status := exit_status(child(trainer, out))) != 0:
                line = (out.with_name("output").read_text().strip().splitlines() or [""])[-1]
                errors.append(f"{name}: resuming ended with {status}: {line}")
                continue
            if (now := digests(out)) != expected:
                different = sorted(file for file in {*now, *expected} if now.get(file) != expected.get(file))
                errors.append(f"{name}: different {', '.join(different)}")
    return errors


def main() -> int:
    """Print a row per trainer and kind of fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainers", nargs="+", choices=list(OF_TRAINER), default=["filtered_bc", "grpo"])
    parser.add_argument("--moments", type=int, default=30)
    parser.add_argument("--every", type=int, help="kill at every Nth operation instead of once per place; 0 for none")
    parser.add_argument("--full", type=int, default=10, help="number of operations from which the disk is full")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    failed = 0
    print("| trainer | trouble | times | ended equal | seconds of a run | operations of a run | places |")
    print("|---|---|--:|--:|--:|--:|--:|", flush=True)
    for trainer in args.trainers:
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            agentgym(command(trainer, Path(folder) / "run"))  # so that the children have its imports
        with tempfile.TemporaryDirectory() as folder:
            out, began = Path(folder) / "run", time.monotonic()
            places = operations(trainer, out)
            seconds, expected = time.monotonic() - began, digests(out)
            sizes = {path.stat().st_size for path in out.rglob("*") if path.is_file()}
        for kind, faults in faults_by_kind(trainer, places, seconds, sizes, args).items():
            errors = failures(trainer, faults, expected)
            failed += len(errors)
            print(
                f"| {trainer} | {kind} | {len(faults)} | {len(faults) - len(errors)} | {seconds:.1f} "
                f"| {len(places)} | {len(set(places))} |"
            )
            print("".join(f"  {line}\n" for line in errors), end="", flush=True)
    return 1 if failed else 0


def faults_by_kind(
    trainer: str, places: Sequence[str], seconds: float, sizes: set[int], args: argparse.Namespace
) -> dict[str, list[tuple[str, Fault]]]:
    """Draw the faults of a trainer, by kind."""
    rng = Rng(args.seed, trainer)
    times = [0.95 * seconds * rng.uniform() for _ in range(args.moments)]
    numbers = list(range(0, len(places), args.every)) if args.every else []
    if args.every is None:
        numbers = [rng.choice([n for n, other in enumerate(places) if other == at]) for at in dict.fromkeys(places)]
    first = next(n for n, at in enumerate(places) if at.startswith("os.rename < checkpoints.py"))
    has_state = first + 2  # after the first state is renamed and synced
    saving = next(n for n, at in enumerate(places) if n > has_state and at.startswith("os.rename < saving.py"))
    full = [n for n, at in enumerate(places) if at.startswith(WRITES)]
    large = [size - 1 for size in sorted(sizes) if size > MIN_SIZE] + [
        max(sizes)
    ]  # the last one for an optimizer's state

    def at_each(fault: Callable[..., None], at: Sequence[Any], *more: Any) -> list[tuple[str, Fault]]:
        return [(f"{n}, {places[n]}", partial(fault, trainer, n, *more)) for n in at]

    return {
        "killed at random moments": [(f"after {at:.2f} s", partial(after_moment, trainer, at)) for at in times],
        "killed at operations": at_each(at_operation, numbers),
        "killed as weights are saved": at_each(as_weights_are_saved, [saving]),
        "disk full": at_each(full_disk, sorted(rng.sample(full, args.full))),
        "file too large": [(f"{size} bytes", partial(too_large, trainer, size)) for size in large],
        "read-only": [
            *at_each(read_only, [has_state], STATES),
            *at_each(read_only, [has_state], ROUND),
            *at_each(read_only, [has_state], RUN),
        ],
        "another byte": at_each(other_byte, [has_state]),
    }


if __name__ == "__main__":
    sys.exit(main())
