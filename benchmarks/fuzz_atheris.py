"""The readers of texts and bytes, guided by coverage: `python benchmarks/fuzz_atheris.py [reader …] [--seconds 60]`.

It needs atheris (`pip install atheris`, Linux and macOS), which no other part of this package uses, and instruments the
readers' code. Each reader runs in a process of its own for some seconds, and gets whatever atheris makes of bytes. It
must return, or refuse with an error of its own. With `--state FILE.jsonl` each process is a line of that file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from resumable import add_to_state, print_findings, read_state

TEXTS = (
    "action parser", "SQL guard", "expressions", "constraints", "rewards", "judge's answer", "chat template", "YAML",
)  # fmt: skip
BYTES = (
    "store line", "protocol Make", "protocol Step", "protocol Reset", "protocol Restore", "completion",
    "snapshot calculator", "snapshot maze", "snapshot todo", "snapshot wordle",
)  # fmt: skip
"""Readers that take any text, and any bytes."""
INSTRUMENTED = ("agentgym_py", "agentgym_envs")
LONGEST = 4096
"""Most bytes of an input."""
COUNT = "executions of"


def fuzz_one(name: str, seconds: float) -> None:
    """Run a reader until it raises, or the time is over; then the process ends."""
    import atheris

    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from fuzz import make_readers
    reader, count, ends = make_readers()[name], 0, time.monotonic() + seconds

    def read(data: bytes) -> None:
        nonlocal count
        count += 1
        reader.accepts(data.decode("utf-8", "surrogateescape") if name in TEXTS else data)
        if count % 100 == 0 and time.monotonic() > ends:
            print(json.dumps({COUNT: name, "number": count}), flush=True)
            os._exit(0)

    atheris.Setup([sys.argv[0], f"-max_len={LONGEST}", "-timeout=60", "-verbosity=0"], read)
    atheris.Fuzz()


def main() -> int:
    """Print a row for each reader; return 1 if there is a finding."""
    from fuzz import Block

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"some of {', '.join((*TEXTS, *BYTES))}")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each reader")
    parser.add_argument("--state", type=Path, help="file of the processes")
    args = parser.parse_args()
    if find_spec("atheris") is None:
        parser.error("atheris is missing: pip install atheris")
    blocks = read_state(Block, args.state)
    for name in args.readers or (*TEXTS, *BYTES):
        code = f"from fuzz_atheris import fuzz_one; fuzz_one({name!r}, {args.seconds})"
        began = time.monotonic()
        done = subprocess.run(  # noqa: S603  # this Python, and a constant program
            [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
        found = [json.loads(line)["number"] for line in done.stdout.splitlines() if COUNT in line]
        block = Block(name, len(blocks), sum(found), time.monotonic() - began, [] if found else [done.stderr[-2000:]])
        blocks.append(block)
        add_to_state(args.state, block)
    names = list(dict.fromkeys(block.reader for block in blocks))
    return print_findings(blocks, names, "reader", "executions")


if __name__ == "__main__":
    sys.exit(main())
