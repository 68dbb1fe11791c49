"""Damaged folders in every command that reads them: `python benchmarks/fuzz_folders.py [COMMAND …]`.

A file of a sample (a run, an evaluation, a store, …) is damaged: some of its bytes or values change, or it becomes
deeply nested, endless, a pipe, a device, a link, a hard link, a folder, or vanishes. Then a command reads the sample,
in this process. It must end within `--patience` seconds, with status 0, 1 or 2 and, if 2, with one line; it must change
nothing outside its folder, and take less than 8 GiB. Everything else is a finding.

With `--state FILE.jsonl` each execution is a line of that file. The same command continues there, so that `--seconds`
can bound one call; a crash ends it at the execution that crashed. `--samples FOLDER` keeps the samples, which take a
minute to make. `--number N` repeats one execution, and keeps its folder in the current one.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import io
import json
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import yaml
from fuzz_samples import AWKWARD, places
from resumable import add_to_state, read_state

from agentgym_py.cli import main as agentgym
from agentgym_py.files import write_atomic
from agentgym_py.retrieval import ToolIndex
from agentgym_py.rng import Rng

WORLD = ["--env", "maze", "--env_kwargs.difficulty", "easy"]
TRAIN = ["train", "--model", "tiny-random", "--threads", "1", "--data"]
STATES = [*TRAIN, "s.jsonl", "--trainer.epochs", "2", "--trainer.checkpoint_minutes", "0", "--out", "interrupted"]
PLAY = [*WORLD, "--agent", "random", "--tasks", "4"]
ONE = [*WORLD, "--tasks", "1", "--env_kwargs.max_steps", "1", "--max_new_tokens", "4"]
PIPELINE = {"out": "pipe", "stages": [{"stage": "collect", "agent": "expert", "env": "maze", "tasks": 4}]}
SAMPLES_IN_COLUMNS = {"doc_id": 1, "filter": "none", "metrics": ["acc"], "acc": 1.0, "doc_hash": "x"}
COMMANDS: dict[str, list[list[str]]] = {
    "run": [
        ["report", "run"], ["view", "run", "--export", "x.html"], ["evolve", "--resume", "run"],
        ["evolve", "--resume", "run", "--rounds", "2"], ["fork", "run@0", "--set", "rounds=2", "--out", "f"],
        ["export", "run", "--out", "x"], ["compare", "run", "run"], ["plan", "--model", "run/rounds/00/checkpoint"],
        ["eval", "--model", "run/rounds/00/checkpoint", *ONE], ["replay", "run/rounds/00/trajectories.jsonl"],
        ["faults", "run"], ["data", "verify", "run"],
    ],
    "e": [
        ["compare", "e", "e2"], ["compare", "e", "e2", "--anytime"], ["eval", "--manifest", "e", "--out", "x"],
        ["eval", *PLAY, "--out", "e"], ["eval", "--until_decided", "e", *PLAY, "--out", "x"], ["faults", "e"],
        ["view", "e", "--export", "x.html"], [*TRAIN, "e/trajectories.jsonl", "--out", "x"],
    ],
    "pipe": [["pipeline", "p.yaml", "--list"], ["pipeline", "p.yaml"], ["view", "pipe", "--export", "x.html"]],
    "p.yaml": [["pipeline", "p.yaml", "--list"], ["pipeline", "p.yaml"]],
    "c.yaml": [["collect", "--config", "c.yaml", "--out", "x.jsonl"], ["eval", "--config", "c.yaml", "--out", "x"]],
    "t": [["export", "t", "--out", "x"], ["plan", "--model", "t/checkpoint"],
          ["eval", "--model", "t/checkpoint", *ONE]],
    "interrupted": [STATES],
    "s.jsonl": [
        ["replay", "s.jsonl"], ["data", "verify", "s.jsonl"], ["data", "convert", "s.jsonl", "x.json"],
        ["data", "salvage", "s.jsonl", "x.jsonl"], ["view", "s.jsonl", "--export", "x.html"], ["faults", "s.jsonl"],
        ["judge", "--data", "s.jsonl", "--source", "environment", "--out", "x.jsonl"],
        [*TRAIN, "s.jsonl", "--out", "x"],
    ],
    "s.json": [["data", "verify", "s.json"], ["data", "convert", "s.json", "x.jsonl"],
               [*TRAIN, "s.json", "--out", "x"]],
    "s.parquet": [["data", "verify", "s.parquet"], ["data", "convert", "s.parquet", "x.jsonl"]],
    "dataset": [["data", "verify", "dataset"], ["data", "convert", "dataset", "x.jsonl"]],
    "j.jsonl": [
        [*TRAIN, "s.jsonl", "--feedback", "j.jsonl", "--out", "x"],
        ["judge", "--data", "s.jsonl", "--source", "environment", "--out", "j.jsonl"],
    ],
    "index": [["tools", "search", "the weather", "--index", "index"]],
    "samples_x.jsonl": [["compare", "samples_x.jsonl", "samples_x.jsonl"]],
}  # fmt: skip
"""The commands that read each sample."""
HOSTILE = (
    *AWKWARD, [1], [[1, 2], [3]], "/etc/passwd", "evil.py", "http://stranger.invalid", -(10**400), {"name": 5},
    "\x1b]0;x\x07",
)  # fmt: skip
"""Values that stand where others belong."""
CONTENTS = (
    b"", b"[]", b"{}", b"null", b"5", b'"x"', b"[null]", b"[{}]", b"{}\n{}\n", b"NaN", b"[" * 100_000,
    b'{"a":' * 50_000, b"1" * 5000, b"\xff\xfe", b"\x00" * 100, b"&a {x: *a}", b"&a [*a]", b"PAR1", b"PK\x03\x04",
)  # fmt: skip
"""Whole files."""
MOST_MEMORY = 8 << 30
PRECIOUS = "precious"
"""Name and content of the file beside the folder that nothing may change."""
LARGEST = 1 << 19
"""Larger files are damaged as a whole, because their values take long to change."""
IDLE = 5
"""Times as long as `--patience` that an execution may take while the machine does other work."""
TIMERS = ((signal.SIGPROF, signal.ITIMER_PROF, 1), (signal.SIGALRM, signal.ITIMER_REAL, IDLE))
MOST_LINES = 3
"""Lines of an error, with its warnings."""


class Waited(BaseException):
    """A command did not end in time."""


@dataclass(frozen=True, slots=True)
class Execution:
    """A command on a damaged sample, as a line of the state file."""

    number: int
    command: str
    words: str
    damage: str
    finding: str
    """Empty if there is none."""
    seconds: float


# ---- samples ---------------------------------------------------------------------------------------------------------


def make_samples(folder: Path) -> None:
    """Make every sample in an empty folder."""
    small = "--rounds 1 --expert_tasks 4 --explore_tasks 4 --valid_tasks 2 --test_tasks 2 --max_new_tokens 4"
    with chdir(folder):
        _run(["collect", *WORLD, "--agent", "expert", "--tasks", "6", "--out", "s.jsonl"])
        _run(["evolve", *WORLD, "--model", "tiny-random", *small.split(), "--allow_empty", "--threads", "1",
              "--out", "run"])  # fmt: skip
        for name, seed in (("e", "0"), ("e2", "1")):
            _run(["eval", *PLAY, "--seed", seed, "--out", name])
        _run([*TRAIN, "s.jsonl", "--out", "t"])
        with mock.patch("agentgym_py.training.checkpoints.remove_states"):  # as if it had been killed at its end
            _run(STATES)
        shutil.rmtree("interrupted/checkpoint")
        Path("interrupted/train.json").unlink()
        Path("p.yaml").write_text(yaml.safe_dump(PIPELINE))
        _run(["pipeline", "p.yaml"])
        Path("c.yaml").write_text("env: maze\nenv_kwargs: {difficulty: easy}\nagent: random\ntasks: 2\n")
        for target in ("s.json", "s.parquet", "dataset/"):
            _run(["data", "convert", "s.jsonl", target])
        _run(["judge", "--data", "s.jsonl", "--source", "environment", "--out", "j.jsonl"])
        ToolIndex.of({"get_weather": "the weather"}, np.ones((8, 4), np.float32)).save("index")
        Path("samples_x.jsonl").write_text(json.dumps(SAMPLES_IN_COLUMNS) + "\n")


def _run(words: Sequence[str]) -> None:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
        status = agentgym(words)
    if status:
        raise SystemExit(f"{' '.join(words)}: status {status}\n{said.getvalue()}")


@contextmanager
def samples_in(name: str | None) -> Iterator[Path]:
    """Give a folder with the samples, which is kept if it has a name."""
    with tempfile.TemporaryDirectory(prefix="agentgym-samples") as scratch:
        folder = Path(name or scratch).absolute()
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make_samples(folder)
            (folder / "complete").touch()
        yield folder


# ---- damage ----------------------------------------------------------------------------------------------------------


def damage(root: Path, rng: Rng) -> str:
    """Damage a file of a sample and say how."""
    files = sorted(path for path in (root, *root.rglob("*")) if path.is_file() and path.name != ".lock")
    path = rng.choice(files)
    kind = rng.choice((_bytes, _content, _special, _hard_link, *[_values] * 4))
    return f"{path.relative_to(root.parent)}: {kind(path, rng)}"


def _bytes(path: Path, rng: Rng) -> str:
    """Change some bytes."""
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 5, 50))):
        at = rng.below(len(data) + 1)
        data[at : at + rng.below(5)] = bytes(rng.below(256) for _ in range(rng.below(4)))
    path.write_bytes(data)
    return "other bytes"


def _content(path: Path, rng: Rng) -> str:
    """Replace the content, cut it, or double it."""
    data = path.read_bytes()
    content = rng.choice((*CONTENTS, data[: len(data) // 2], data * 2))
    path.write_bytes(content)
    return f"{content[:20]!r}"


def _special(path: Path, rng: Rng) -> str:
    """Put something else in place of a file."""
    kinds: dict[str, Callable[[], object]] = {
        "gone": lambda: None, "a folder": path.mkdir, "a pipe": lambda: os.mkfifo(path),
        "a device": lambda: path.symlink_to("/dev/zero"), "a link to itself": lambda: path.symlink_to(path.name),
        "a link out": lambda: path.symlink_to(Path.cwd().parent / PRECIOUS),
        "a sparse file": lambda: _make_sparse(path),
    }  # fmt: skip
    name = rng.choice(list(kinds))
    path.unlink()
    kinds[name]()
    return name


def _make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _hard_link(path: Path, _: Rng) -> str:
    """Let the file beside the folder be the same file."""
    outside = Path.cwd().parent / PRECIOUS
    outside.unlink()
    outside.hardlink_to(path)
    return "a hard link"


def _values(path: Path, rng: Rng) -> str:
    """Replace or remove some values of YAML, JSON or a line of JSON."""
    is_yaml, is_lines = path.suffix == ".yaml", path.suffix == ".jsonl"
    data = path.read_bytes()
    if len(data) > LARGEST:
        return _bytes(path, rng)
    try:
        lines = data.decode().splitlines() if is_lines else [data.decode()]
        at = rng.below(len(lines))
        value = yaml.safe_load(lines[at]) if is_yaml else json.loads(lines[at])
    except (ValueError, IndexError):
        return _bytes(path, rng)
    changes = [_change(value, rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    if is_lines and isinstance(value, dict) and rng.below(2):
        value.pop("digest", None)  # else the digest alone is what is wrong
    lines[at] = json.dumps(value)  # which is YAML, too
    path.write_text("\n".join(lines) + "\n")
    return f"{'; '.join(changes)}"


def _change(value: Any, rng: Rng) -> str:
    found = list(places(value))
    if not found:
        return "nothing"
    *above, last = rng.choice(found)
    parent = value
    for key in above:
        parent = parent[key]
    name = ".".join(map(str, (*above, last)))
    if isinstance(parent, dict) and rng.below(10) < 3:
        del parent[last]
        return f"no {name}"
    parent[last] = copy.deepcopy(rng.choice(HOSTILE))
    return f"{name} = {parent[last]!r:.40}"


# ---- one execution ---------------------------------------------------------------------------------------------------


def execute(samples: Path, commands: Sequence[str], seed: int, number: int, patience: float, place: Path) -> Execution:
    """Damage a sample in the folder `place`, and run a command on it."""
    rng = Rng("damaged folders", seed, number)
    chosen = [(name, words) for name, all_words in COMMANDS.items() for words in all_words if words[0] in commands]
    sample, words = rng.choice(chosen)
    folder = place / "folder"
    shutil.copytree(samples, folder, symlinks=True)
    write_atomic(place / PRECIOUS, PRECIOUS)
    began = time.monotonic()
    with chdir(folder):
        what = damage(Path(sample).absolute(), rng)
        before = (place / PRECIOUS).read_bytes()
        finding = _finding(words, patience)
    if not finding and (seconds := time.monotonic() - began) > IDLE * patience:  # a library swallowed `Waited`
        finding = f"it took {seconds:.0f} s"
    changed = {path.name for path in place.iterdir()} != {"folder", PRECIOUS}
    if changed or (place / PRECIOUS).read_bytes() != before:
        finding += "; something outside the folder has changed"
    return Execution(number, words[0], " ".join(words), what, finding, time.monotonic() - began)


def _finding(words: Sequence[str], patience: float) -> str:
    """Run a command and return what is wrong with how it ended; empty if nothing is."""
    out, err = io.StringIO(), io.StringIO()
    for number, timer, seconds in TIMERS:
        signal.signal(number, _end_waiting)
        signal.setitimer(timer, seconds * patience)
    faulthandler.dump_traceback_later(2 * IDLE * patience, exit=True, file=sys.__stderr__ or sys.stderr)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            status = agentgym(words)
    except Waited:
        return f"it did not end in {patience:.0f} s\n{traceback.format_exc()[-1500:]}"
    except BaseException:
        return traceback.format_exc()[-1500:]
    finally:
        for _, timer, _ in TIMERS:
            signal.setitimer(timer, 0)
        faulthandler.cancel_dump_traceback_later()
    said = err.getvalue()
    if status not in (0, 1, 2):
        return f"status {status}\n{said[-500:]}"
    if "Traceback" in said or "\x1b" in said + out.getvalue():
        return f"a traceback, or a control character\n{said[-500:]}"
    return f"many lines\n{said[-500:]}" if status == 2 and said.strip().count("\n") >= MOST_LINES else ""


def _end_waiting(*_: object) -> None:
    raise Waited


# ---- all of them -----------------------------------------------------------------------------------------------------


def table(executions: Sequence[Execution]) -> str:
    """Return the executions, findings and longest time of each command."""
    rows = ["| command | executions | findings | longest, s |", "|---|--:|--:|--:|"]
    for command in (*sorted({execution.command for execution in executions}), "all"):
        chosen = [execution for execution in executions if command in (execution.command, "all")]
        findings = sum(bool(execution.finding) for execution in chosen)
        longest = max((execution.seconds for execution in chosen), default=math.nan)
        rows.append(f"| {command} | {len(chosen)} | {findings} | {longest:.0f} |")
    return "\n".join(rows)


def main() -> int:
    """Print a table; return 1 if there is a finding."""
    names = sorted({words[0] for all_words in COMMANDS.values() for words in all_words})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=f"some of {', '.join(names)}")
    parser.add_argument("--executions", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="for all executions")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds of the processor for one execution")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, help="repeat this execution alone, and keep its folder")
    parser.add_argument("--state", type=Path, help="file of the executions, where this command continues")
    parser.add_argument("--samples", help="folder of the samples")
    args = parser.parse_args()
    commands, executions = args.commands or names, read_state(Execution, args.state)
    known = {execution.number for execution in executions}
    missing = [args.number] if args.number is not None else [n for n in range(args.executions) if n not in known]
    with samples_in(args.samples) as samples:
        ends = time.monotonic() + args.seconds
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        while missing and time.monotonic() < ends:
            place = Path(tempfile.mkdtemp(prefix="agentgym-damaged", dir="." if args.number is not None else None))
            done = execute(samples, commands, args.seed, missing.pop(0), args.patience, place.absolute())
            executions.append(done)
            if args.number is None:
                shutil.rmtree(place)
            add_to_state(args.state, done)
            if done.finding:
                print(
                    f"{done.number}: agentgym {done.words}\n{done.damage}\n{done.finding}\n",
                    file=sys.stderr,
                    flush=True,
                )
    print(table(executions))
    return int(any(execution.finding for execution in executions))


if __name__ == "__main__":
    sys.exit(main())
