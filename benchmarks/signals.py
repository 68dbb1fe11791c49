"""Signals at random moments: `python benchmarks/signals.py [evolve train …] [--moments 200] [--rerun]`.

Each command runs once to its end, which gives its duration and its result. Then it is interrupted at random moments,
from the first line of `agentgym` on: Ctrl-C as a terminal sends it, to every process of the command, or SIGTERM to the
command alone. It must end with status 130 or 143 within `--patience` seconds, with a line and without a traceback. With
`--rerun` the command then continues to its end, and its files must equal those of the first run.

With `--state FILE.jsonl` each moment is a line of that file. The same command continues there, so that `--seconds` can
bound one call: it is the time for each command.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from resumable import add_to_state, read_state

from agentgym_py.rng import Rng

START = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
START += "from agentgym_start import main; main()"
PLAY = ["--env", "maze", "--env_kwargs.difficulty", "easy", "--agent", "random", "--tasks"]
SMALL = (
    "--env maze --env_kwargs.difficulty easy --model tiny-random --rounds 1 --expert_tasks 4 "
    "--explore_tasks 4 --valid_tasks 2 --test_tasks 2 --max_new_tokens 8 --allow_empty --threads 1"
)
COMMANDS = {
    "collect": ["collect", *PLAY, "300", "--out", "out.jsonl"],
    "eval": ["eval", *PLAY, "100", "--out", "out"],
    "train": ["train", "--model", "tiny-random", "--data", "data.jsonl", "--out", "out", "--threads", "1"],
    "evolve": ["evolve", *SMALL.split(), "--out", "out"],
    "serve": ["serve", "--env", "maze"],
}
RESUMED = {"evolve": ["evolve", "--resume", "out"]}
"""How a command continues, if not by itself."""
RESULTS = ("*.jsonl", "*.safetensors")
"""Files that an interrupted command and its continuation must write as an uninterrupted one does."""
SERVE_SECONDS = 5.0
_EXITING = 0x4
"""Linux's flag of a process that has called `exit`."""
SAID = re.compile(r"interrupted|stopped|kept|resume|no episode", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ended:
    """An interrupted command."""

    status: int
    error: str
    seconds: float
    """From the signal to the end."""

    def fault(self, sent: signal.Signals) -> str:
        """Return what is wrong; empty if nothing is."""
        if self.status != 128 + sent:
            return f"status {self.status}"
        if "Traceback" in self.error or "ignored" in self.error:
            return "a traceback"
        return "" if SAID.search(self.error) else "no line"


def start(words: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    """Start a command in a process group of its own, and wait for its first line of code."""
    process = subprocess.Popen(  # noqa: S603  # fixed arguments
        [sys.executable, "-c", START, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    while process.poll() is None and not _handles(process.pid, signal.SIGTERM):
        time.sleep(0.001)
    return process


def _handles(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    with suppress(OSError):
        found = re.search(r"SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
        return bool(found and int(found[1], 16) >> (number - 1) & 1)
    return False


def has_ended(pid: int) -> bool:
    """Whether a process hears no signal any more: the system may free its memory for seconds before it is gone."""
    with suppress(OSError):
        flags = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[6]
        return bool(int(flags) & _EXITING)
    return True


def interrupt(words: Sequence[str], folder: Path, after: float, sent: signal.Signals, patience: float) -> Ended | None:
    """Interrupt a command after some seconds; None if it had ended."""
    with start(words, folder) as process:
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(after)
            if has_ended(process.pid):
                return None
            (os.killpg if sent == signal.SIGINT else os.kill)(process.pid, sent)
            began = time.monotonic()
            error = process.communicate(timeout=patience)[1]
            return Ended(process.returncode, error, time.monotonic() - began)
        except subprocess.TimeoutExpired:
            return Ended(-1, "it did not end", patience)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def results(folder: Path) -> dict[str, bytes]:
    """Return the files that a command has written, by their paths."""
    paths = [path for pattern in RESULTS for path in (folder / "out").rglob(pattern) if "state-" not in str(path)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def complete(words: Sequence[str], folder: Path) -> float:
    """Run a command to its end and return its seconds."""
    with start(words, folder) as process:
        began = time.monotonic()
        error = process.communicate()[1]
        if process.returncode:
            raise SystemExit(f"{words[0]}: status {process.returncode}\n{error}")
        return time.monotonic() - began


def continued(command: str, folder: Path) -> dict[str, bytes]:
    """Continue an interrupted command and return its results."""
    words = COMMANDS[command]
    complete(RESUMED.get(command, words) if (folder / "out" / "run.yaml").exists() else words, folder)
    return results(folder)


@dataclass(frozen=True, slots=True)
class Moment:
    """An interrupted command as a line of the state file."""

    command: str
    number: int
    signal: str
    after: float
    """Seconds from the start of the command."""
    fault: str
    """What was wrong; empty if nothing was."""
    seconds: float
    """From the signal to the end."""
    equal: bool | None
    """Whether the continued command wrote the files of an uninterrupted one; None without `--rerun`."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A command that is interrupted again and again in a folder."""

    command: str
    folder: Path
    patience: float
    rerun: bool
    duration: float
    """Seconds of the uninterrupted command."""
    whole: dict[str, bytes]
    """Its files."""

    @classmethod
    @contextmanager
    def started(cls, command: str, patience: float, rerun: bool) -> Iterator[Benchmark]:
        """Run the command without an interrupt."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if command == "train":
                complete(["collect", *PLAY, "6", "--agent", "expert", "--out", "data.jsonl"], folder)
            duration = SERVE_SECONDS if command == "serve" else complete(COMMANDS[command], folder)
            yield cls(command, folder, patience, rerun, duration, results(folder))

    def moment(self, number: int, seed: int) -> Moment:
        """Interrupt the command at a random moment before its end."""
        rng, sent = Rng("signals", self.command, seed, number), (signal.SIGINT, signal.SIGTERM)[number % 2]
        folder, data, result = self.folder / "cut", self.folder / "data.jsonl", None
        while result is None:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            if data.exists():
                shutil.copy(data, folder)
            after = self.duration * rng.uniform()
            result = interrupt(COMMANDS[self.command], folder, after, sent, self.patience)
        if fault := result.fault(sent):
            print(f"{self.command}, {sent.name} after {after:.3f} s: {fault}\n{result.error}", file=sys.stderr)
        equal = continued(self.command, folder) == self.whole if self.rerun and self.whole and not fault else None
        return Moment(self.command, number, sent.name, after, fault, result.seconds, equal)


def row(command: str, moments: Sequence[Moment]) -> str:
    """Return a command's row of the table."""
    kept = [moment for moment in moments if not moment.fault]
    again = [moment.equal for moment in kept if moment.equal is not None]
    equal = f"{sum(again)} of {len(again)}" if again else "-"
    longest = max((moment.seconds for moment in moments), default=math.nan)
    return f"| {command} | {len(kept)} of {len(moments)} | {longest:.1f} | {equal} |"


def main() -> int:
    """Print a table; return 1 if a command did not end as promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=f"some of {', '.join(COMMANDS)}")
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--patience", type=float, default=60.0)
    parser.add_argument("--rerun", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, help="file of the moments, where this command continues")
    parser.add_argument("--seconds", type=float, default=math.inf, help="for each command, beside its first run")
    args = parser.parse_args()
    moments = read_state(Moment, args.state)
    print("| command | ended as promised | longest, s | equal after the rerun |\n|---|--:|--:|--:|")
    for command in args.commands or COMMANDS:
        measured = [moment for moment in moments if moment.command == command]
        missing = sorted(set(range(args.moments)) - {moment.number for moment in measured})
        if missing:
            with Benchmark.started(command, args.patience, args.rerun) as benchmark:
                ends = time.monotonic() + args.seconds
                while missing and time.monotonic() < ends:
                    measured.append(benchmark.moment(missing.pop(0), args.seed))
                    add_to_state(args.state, measured[-1])
        print(row(command, measured), flush=True)
        moments += measured
    return int(any(moment.fault or moment.equal is False for moment in moments))


if __name__ == "__main__":
    sys.exit(main())
