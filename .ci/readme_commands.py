"""Run every `agentgym …` line of the README in a small form, in an empty folder. Prints each command and its status."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SMALL = [
    (r"^agentgym evolve(?!.*--resume)", " --preset smoke --threads 1"),
    (r"^agentgym train", " --trainer.epochs 0.1 --threads 1"),
    (r"^agentgym eval.*--model runs", " --threads 1"),
    (r"^agentgym check", " --episodes 20 --memory_episodes 200"),
]
"""What is appended to a command that matches."""
FEWER = [
    (r"(--(?:\w+_)?tasks) \d+", r"\1 8"),
    (r"--model smollm2 --trainer.lora_rank 8", "--model tiny --trainer.lora_rank 2"),
]
"""Replacements: fewer tasks, and the tiny model for one that is another package."""
BEFORE = {"agentgym compare": "agentgym eval --env shop --agent random --tasks 8 --out evals/other"}
"""What a command needs that the README leaves to the reader."""
TYPED = {"agentgym play": "look\n:quit\n", "agentgym eval --env maze --agent person": ":quit\n"}
"""What a person types."""
SERVERS = ("agentgym serve", "agentgym view")
"""Commands that run until Ctrl-C."""
ELSEWHERE = ("--agent openai", "examples/")
"""Commands that need an endpoint, or files of the repository: run from there, or by the tests."""
SECONDS = 300


def commands(text: str) -> list[str]:
    """The lines of the README's shell blocks that begin with `agentgym`, without comments."""
    blocks = re.findall(r"^```(?:bash|sh|console)?\n(.*?)^```", text, re.M | re.S)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("agentgym ")]


def small(command: str) -> str:
    """The command in its small form."""
    for pattern, new in FEWER:
        command = re.sub(pattern, new, command)
    return command + "".join(added for pattern, added in SMALL if re.search(pattern, command))


def run(command: str, folder: Path) -> int:
    """Run a command; its exit status."""
    words = shlex.split(command)
    typed = next((text for start, text in TYPED.items() if command.startswith(start)), "")
    if command.startswith(SERVERS):
        process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True)  # noqa: S603  # the README's
        assert process.stdout
        print("   ", process.stdout.readline().strip())
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        return 0 if process.wait(30) in (0, 130) else process.returncode
    done = subprocess.run(  # noqa: S603  # the README's
        words, cwd=folder, input=typed, text=True, timeout=SECONDS, capture_output=True
    )
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], sep="\n")
    return done.returncode


def main(folder: Path) -> int:
    """Run them all in a folder; 1 if one fails."""
    failed = []
    for command in commands((ROOT / "README.md").read_text(encoding="utf-8")):
        if any(part in command for part in ELSEWHERE):
            command = command.replace("examples/", f"{ROOT}/examples/")
            if "--agent openai" in command:
                print(f"not run (needs an endpoint; tests/cli/test_players.py does): {command}")
                continue
        for each in [first for start, first in BEFORE.items() if command.startswith(start)] + [small(command)]:
            began = time.monotonic()
            status = run(each, folder)
            print(
                f"{'ok' if status == 0 else f'FAILED ({status})'} in {time.monotonic() - began:.0f} s: {each}",
                flush=True,
            )
            failed += [each] if status else []
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
