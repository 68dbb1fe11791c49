"""kill -9, and go on: `python benchmarks/resume.py [--moments 30] [--trainers filtered_bc grpo]`.

A small run of `agentgym evolve` in the shop, which keeps a state as often as it can, is killed at random moments, and
at operations on its files, each time from the beginning; then it goes on to its end. Operations are what opens a file
to write, writes an episode, weights or a state (killed when half of it is there), syncs, renames, makes or deletes
one. By default the run is killed once at each place of the code that does one, at a random time of those that the
place does it; with `--every N` at every Nth operation. Counted is how often weights, trajectories and results are
then, hash for hash, those of a run that was not killed. Times are left out of what is compared. At one moment, when a
training is over and its weights are not saved yet, a state of it must still be there.

Then the troubles of a disk: it is full from an operation on, files may not grow over a size (each that one of its
files has), a folder of a run that was killed is read-only (the states', the round's, the run's), a byte of its last
state is another one (in each of its files). There the command must end with status 2 and say last, in one line, which
file or folder it is, and go on as above when the trouble is over. Exit status 1 where one does not.
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
"""Events of Python's audit hooks; what C and Rust write raises none."""
LEAST = 8192
"""Bytes to which any file may grow: what a command prints goes to one."""
DEFECT = 70
STATES, ROUND, RUN = 0, 2, 4
"""Folders, by how far they are above that of the states of a training."""
WRITES = ("open", "os.write", "os.fsync", "os.mkdir", "torch.save", "safetensors")
"""Operations that a full disk refuses."""
Meets = Callable[[str], bool]
Fails = Callable[[str], None]
Trouble = Callable[[Path], None]
"""Makes trouble for a run in a folder. SystemExit: it was none, or the run does not end as it must."""
OURS = ("agentgym_py", "agentgym_trainers", "transformers")
"""Packages whose lines are places."""
TIMES = {"seconds", "tokens_per_second", "started", "resumed", "command"}


def command(trainer: str, out: Path) -> list[str]:
    """The arguments that begin a run or go on with it."""
    if (out / "run.yaml").is_file():
        return ["evolve", "--resume", str(out), "--threads", "1"]
    return ["evolve", "--env", "shop", "--trainer", trainer, *SIZES.split(), *OF_TRAINER[trainer].split(),
            "--out", str(out)]  # fmt: skip


def child(
    trainer: str, out: Path, meets: Meets = lambda _: False, *, fails: Fails | None = None,
    before: Callable[[], None] = lambda: None,
) -> int:  # fmt: skip
    """A process that runs it, and asks `meets` at the place of each operation on its files.

    Where that says so the process dies, or the operation `fails`.
    """
    if pid := os.fork():
        return pid
    said = os.open(out.with_name("said"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    before()
    sys.addaudithook(partial(audited, out, meets, fails or die))
    status = DEFECT
    try:
        with patched(out, meets, fails):
            status = agentgym(command(trainer, out))
    except BaseException:
        traceback.print_exc()
    os._exit(status)


def audited(out: Path, meets: Meets, acts: Fails, event: str, args: tuple[Any, ...]) -> None:
    """Python's audit hook."""
    if event not in CHANGES or (event == "open" and not (args[2] or 0) & (os.O_WRONLY | os.O_RDWR)):
        return
    path = str(args[0])
    if event in ("os.remove", "os.rmdir") and args[1] != -1:  # a name in an open folder
        path = f"{opened(args[1])}/{path}"
    if path.startswith(str(out)) and meets(place(event)):
        acts(path)


@contextmanager
def patched(out: Path, meets: Meets, fails: Fails | None) -> Iterator[None]:
    """Within, what writes lines, syncs, and writes weights and states is met, too."""
    import safetensors.torch
    import torch

    write, sync, save, serialize = os.write, os.fsync, torch.save, vars(safetensors.torch)["serialize_file"]

    def met(event: str, path: Any) -> bool:
        return str(path).startswith(str(out)) and meets(place(event, 3))

    def written(file: int, data: bytes) -> int:
        if met("os.write", opened(file)):
            if fails:
                fails("")
            write(file, data[: len(data) // 2])
            die()
        return write(file, data)

    def synced(file: int) -> None:
        if met("os.fsync", opened(file)):
            (fails or die)("")
        sync(file)

    def half(path: Any, whole: Callable[[], None], dies: bool) -> None:
        if dies and fails:
            fails(str(path))
        whole()
        if dies:
            os.truncate(path, Path(path).stat().st_size // 2)
            die()

    def saved(value: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        half(path, lambda: save(value, path, *args, **kwargs), met("torch.save", path))

    def serialized(tensors: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        half(path, lambda: serialize(tensors, path, *args, **kwargs), met("safetensors", path))

    with ExitStack() as stack:
        for module, name, new in (
            (os, "write", written), (os, "fsync", synced), (torch, "save", saved),
            (safetensors.torch, "serialize_file", serialized),
        ):  # fmt: skip
            stack.enter_context(mock.patch.object(module, name, new))
        yield


def opened(file: int) -> str:
    """The path of an open file or folder."""
    return str(Path(f"/proc/self/fd/{file}").readlink())


def place(event: str, above: int = 2) -> str:
    """The operation, and the line of the nearest caller that is ours, and of that one's caller."""
    frame, lines = sys._getframe(above), list[str]()
    while frame and len(lines) < 2:
        path = Path(frame.f_code.co_filename)
        if any(name in path.parts for name in OURS):
            lines.append(f"{path.name}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    return " < ".join((event, *lines))


def die(_: object = None) -> None:
    """As by kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


def no_space(path: str) -> None:
    """As on a disk that is full; what is already open has no name."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *[path] * bool(path))


def ended(pid: int) -> int:
    """Its exit status, or the negative number of the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def operations(trainer: str, out: Path) -> list[str]:
    """The places of the operations on files of a whole run, in their order."""
    read, write = os.pipe()

    def told(at: str) -> bool:
        os.write(write, f"{at}\n".encode())
        return False

    pid = child(trainer, out, told)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as file:
        places = file.read().splitlines()
    if status := ended(pid):
        raise SystemExit(f"a whole run of {trainer} ended with {status}")
    return places


def after_moment(trainer: str, seconds: float, out: Path) -> None:
    """Kill a run after so long, or a little earlier where it was over before."""
    while True:
        pid = child(trainer, out)
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        if ended(pid) == -signal.SIGKILL:
            return
        shutil.rmtree(out)
        seconds *= 0.9


def at_operation(trainer: str, number: int, out: Path) -> None:
    """Kill a run at its operation of this number, from 0."""
    numbers = count()
    status = ended(child(trainer, out, lambda _: next(numbers) == number))
    if status != -signal.SIGKILL:
        raise SystemExit(f"it was not killed, but ended with {status}")


def as_weights_are_saved(trainer: str, number: int, out: Path) -> None:
    """Kill a run at an operation at which its training is over, and its weights are not there yet."""
    at_operation(trainer, number, out)
    if not list(out.rglob("state-*")):
        raise SystemExit("the last state of the training is gone, and its weights are not there")


def too_large(trainer: str, size: int, out: Path) -> None:
    """A run whose files may not grow over so many bytes."""
    limits = (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    refused(child(trainer, out, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits)), out)


def full_disk(trainer: str, number: int, out: Path) -> None:
    """A run in which nothing can be written from its operation of this number on."""
    numbers = count()
    full = child(trainer, out, lambda at: next(numbers) >= number and at.startswith(WRITES), fails=no_space)
    refused(full, out)


def read_only(trainer: str, number: int, above: int, out: Path) -> None:
    """Go on with a run that was killed at an operation, while nothing may be written to one of its folders."""
    at_operation(trainer, number, out)
    (states,) = out.rglob("states")
    closed = (states, *states.parents)[above]
    closed.chmod(0o555)
    before = held(closed)
    refused(child(trainer, out, before=no_more_than_others), closed)
    if held(closed) != before:
        raise SystemExit("something changed there all the same")
    closed.chmod(0o755)


def held(folder: Path) -> dict[str, bytes]:
    """What a folder itself holds, its files with their contents."""
    return {each.name: each.read_bytes() if each.is_file() else b"" for each in folder.iterdir()}


def no_more_than_others() -> None:
    """Root may write anywhere, by capabilities: give them up; what root owns is read as ever."""
    version, thread, none = 0x20080522, 0, (ctypes.c_uint32 * 6)()
    if os.geteuid() == 0 and ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(version, thread), none):
        raise OSError("capset failed")


def other_byte(trainer: str, number: int, out: Path) -> None:
    """Kill a run at an operation, and go on while one byte, in turn in each file of its last state, is another."""
    at_operation(trainer, number, out)
    (state,) = out.rglob("state-*")
    for path in sorted(each for each in state.rglob("*") if each.is_file()):
        data = path.read_bytes()
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        refused(child(trainer, out), state)
        path.write_bytes(data)


def refused(pid: int, where: Path) -> None:
    """A process that must end with status 2, and last say one line that names a file there."""
    status = ended(pid)
    run = next(each for each in (where, *where.parents) if each.name == "run")
    said = run.with_name("said").read_text().strip().splitlines()
    if status != 2 or not said or not said[-1].startswith("agentgym: ") or str(where) not in said[-1]:
        raise SystemExit(f"it ended with {status}, and not with one line that names {where}: {said[-1:]}")


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


def tried(trainer: str, kills: Iterable[tuple[str, Trouble]], whole: dict[str, str]) -> list[str]:
    """Make trouble and go on, each from the beginning; what went wrong."""
    wrong = []
    for name, trouble in kills:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            try:
                trouble(out)
            except SystemExit as error:
                wrong.append(f"{name}: {error}")
                continue
            if (status := ended(child(trainer, out))) != 0:
                said = (out.with_name("said").read_text().strip().splitlines() or [""])[-1]
                wrong.append(f"{name}: going on ended with {status}: {said}")
                continue
            if (now := contents(out)) != whole:
                differ = sorted(each for each in {*now, *whole} if now.get(each) != whole.get(each))
                wrong.append(f"{name}: other {', '.join(differ)}")
    return wrong


def main() -> int:
    """Print a line a trainer and kind of moment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainers", nargs="+", choices=list(OF_TRAINER), default=["filtered_bc", "grpo"])
    parser.add_argument("--moments", type=int, default=30)
    parser.add_argument("--every", type=int, help="each so many-th operation, instead of one of each place; 0 for none")
    parser.add_argument("--full", type=int, default=10, help="operations from which on the disk is full")
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
            agentgym(command(trainer, Path(folder) / "run"))  # so that what it imports is there in every child
        with tempfile.TemporaryDirectory() as folder:
            out, began = Path(folder) / "run", time.monotonic()
            places = operations(trainer, out)
            seconds, whole = time.monotonic() - began, contents(out)
            sizes = {each.stat().st_size for each in out.rglob("*") if each.is_file()}
        for how, kills in troubles(trainer, places, seconds, sizes, args).items():
            wrong = tried(trainer, kills, whole)
            failed += len(wrong)
            print(
                f"| {trainer} | {how} | {len(kills)} | {len(kills) - len(wrong)} | {seconds:.1f} "
                f"| {len(places)} | {len(set(places))} |"
            )
            print("".join(f"  {line}\n" for line in wrong), end="", flush=True)
    return 1 if failed else 0


def troubles(
    trainer: str, places: Sequence[str], seconds: float, sizes: set[int], args: argparse.Namespace
) -> dict[str, list[tuple[str, Trouble]]]:
    """What is tried, by kind."""
    rng = Rng(args.seed, trainer)
    times = [0.95 * seconds * rng.uniform() for _ in range(args.moments)]
    numbers = list(range(0, len(places), args.every)) if args.every else []
    if args.every is None:
        numbers = [rng.choice([n for n, each in enumerate(places) if each == at]) for at in dict.fromkeys(places)]
    first = next(n for n, each in enumerate(places) if each.startswith("os.rename < checkpoints.py"))
    kept = first + 2  # after the first state is renamed and synced
    saved = next(n for n, each in enumerate(places) if n > kept and each.startswith("os.rename < saving.py"))
    full = [n for n, each in enumerate(places) if each.startswith(WRITES)]
    large = [each - 1 for each in sorted(sizes) if each > LEAST] + [max(sizes)]  # the last one for an optimizer's state

    def each(what: Callable[..., None], at: Sequence[Any], *more: Any) -> list[tuple[str, Trouble]]:
        return [(f"{n}, {places[n]}", partial(what, trainer, n, *more)) for n in at]

    return {
        "killed at random moments": [(f"after {at:.2f} s", partial(after_moment, trainer, at)) for at in times],
        "killed at operations": each(at_operation, numbers),
        "killed as weights are saved": each(as_weights_are_saved, [saved]),
        "disk full": each(full_disk, sorted(rng.sample(full, args.full))),
        "file too large": [(f"{size} bytes", partial(too_large, trainer, size)) for size in large],
        "read-only": [*each(read_only, [kept], STATES), *each(read_only, [kept], ROUND), *each(read_only, [kept], RUN)],
        "another byte": each(other_byte, [kept]),
    }


if __name__ == "__main__":
    sys.exit(main())
