"""Signals at random moments: `python benchmarks/signals.py [evolve train …] [--moments 200] [--rerun]`.

Each command runs once to its end, which gives its duration and its result. Then it is interrupted at random moments,
from the first line of `agentgym` on: Ctrl-C as a terminal sends it, to every process of the command, or SIGTERM to the
command alone. It must end with status 130 or 143 within `--patience` seconds, with a line and without a traceback. With
`--rerun` the command then continues to its end, and its files must equal those of the first run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentgym_py.rng import Rng

START = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
START += "from agentgym_start import main; main()"
PLAY = ["--env", "maze", "--env_kwargs.difficulty", "easy", "--agent", "random", "--tasks"]
SMOKE = ["--env", "maze", "--env_kwargs.difficulty", "easy", "--preset", "smoke", "--threads", "1"]
COMMANDS = {
    "collect": ["collect", *PLAY, "2000", "--out", "out.jsonl"],
    "eval": ["eval", *PLAY, "500", "--out", "out"],
    "train": ["train", "--model", "tiny-random", "--data", "data.jsonl", "--out", "out", "--threads", "1"],
    "evolve": ["evolve", *SMOKE, "--out", "out"],
    "serve": ["serve", "--env", "maze"],
}
RESUMED = {"evolve": ["evolve", "--resume", "out"]}
"""How a command continues, if not by itself."""
RESULTS = ("*.jsonl", "*.safetensors")
"""Files that an interrupted command and its continuation must write as an uninterrupted one does."""
SERVE_SECONDS = 5.0
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


def interrupt(words: Sequence[str], folder: Path, after: float, sent: signal.Signals, patience: float) -> Ended | None:
    """Interrupt a command after some seconds; None if it had ended."""
    with start(words, folder) as process:
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(after)
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


def row(command: str, moments: int, patience: float, rerun: bool, rng: Rng) -> str:
    """Interrupt a command at random moments and return a row of the table."""
    words, faults, ended, equal = COMMANDS[command], list[str](), list[float](), 0
    with tempfile.TemporaryDirectory() as place:
        data = Path(place, "data.jsonl")
        if command == "train":
            complete(["collect", *PLAY[:-1], "--tasks", "20", "--agent", "expert", "--out", data.name], Path(place))
        duration = SERVE_SECONDS if command == "serve" else complete(words, Path(place))
        whole = results(Path(place))
        while len(ended) < moments:
            sent, after = (signal.SIGINT, signal.SIGTERM)[len(ended) % 2], duration * rng.uniform()
            folder = Path(place, "cut")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            if data.exists():
                shutil.copy(data, folder)
            result = interrupt(words, folder, after, sent, patience)
            if result is None:
                continue
            ended.append(result.seconds)
            if fault := result.fault(sent):
                faults.append(fault)
                print(f"{command}, {sent.name} after {after:.3f} s: {fault}\n{result.error}", file=sys.stderr)
            elif rerun and whole:
                equal += continued(command, folder) == whole
    again = f"{equal} of {len(ended) - len(faults)}" if rerun and whole else "-"
    return f"| {command} | {duration:.1f} | {len(ended) - len(faults)} of {len(ended)} | {max(ended):.1f} | {again} |"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=f"some of {', '.join(COMMANDS)}")
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--patience", type=float, default=60.0)
    parser.add_argument("--rerun", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print("| command | seconds | ended as promised | longest, s | equal after the rerun |\n|---|--:|--:|--:|--:|")
    for command in args.commands or COMMANDS:
        rng = Rng("signals", command, args.seed)
        print(row(command, args.moments, args.patience, args.rerun, rng), flush=True)


if __name__ == "__main__":
    main()
