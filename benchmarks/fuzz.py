"""Every reader of foreign bytes, by hypothesis: `python benchmarks/fuzz.py [reader …] [--seconds 60]`.

A reader gets arbitrary text and valid files of which a value or some bytes have changed. It must return, or refuse with
an error of its own. The script prints executions, seconds and findings of each reader, and fails if there is a finding.
`tests/test_fuzz.py` runs some examples of each. `benchmarks/fuzz_folders.py` damages whole folders.

With `--state FILE.jsonl` each block of executions is a line of that file. The same command continues there with the
readers that have the fewest blocks, so that `--seconds` can bound one call.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
from fuzz_files import folder_readers, trajectory_readers
from fuzz_reader import Reader
from fuzz_texts import answer_readers, text_readers, world_readers
from resumable import add_to_state, print_findings, read_state

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, jobs_for

BLOCK = 100
"""Executions of a line of the state file."""


def make_readers() -> dict[str, Reader]:
    """Return every reader by its name."""
    episode = Collector(ExpertAgent()).collect(jobs_for("maze", "train", [0])[0])
    return {
        **text_readers(),
        **trajectory_readers(episode),
        **folder_readers(episode),
        **answer_readers(episode),
        **world_readers(),
    }


# ---- all of them -----------------------------------------------------------------------------------------------------


def run(reader: Reader, examples: int, seed: int) -> int:
    """Read some examples and return their number; the first error that is no refusal is raised."""
    count = 0

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(reader.inputs)
    def read(value: Any) -> None:
        nonlocal count
        count += 1
        reader.accepts(value)

    read()
    return count


@dataclass(slots=True)
class Block:
    """Executions of a reader, as a line of the state file."""

    reader: str
    number: int
    executions: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


def run_block(name: str, reader: Reader, number: int, seed: int) -> Block:
    """Read a block of examples."""
    block, began = Block(name, number), time.monotonic()
    try:
        block.executions = run(reader, BLOCK, seed + number)
    except Exception as error:
        block.findings.append(f"{error!r:.500} {' '.join(getattr(error, '__notes__', []))[:1000]}")
        print(traceback.format_exc()[:3000], file=sys.stderr)
    block.seconds = time.monotonic() - began
    return block


def main() -> int:
    """Print a row for each reader; return 1 if there is a finding."""
    readers = make_readers()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"some of {', '.join(readers)}")
    parser.add_argument("--seconds", type=float, default=600.0, help="for all readers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, help="file of the blocks, where this command continues")
    args = parser.parse_args()
    blocks, ends = read_state(Block, args.state), time.monotonic() + args.seconds
    done = Counter(dict.fromkeys(args.readers or readers, 0))
    done.update(block.reader for block in blocks if block.reader in done)
    while time.monotonic() < ends:
        name = min(done, key=done.__getitem__)
        blocks.append(run_block(name, readers[name], done[name], args.seed))
        done[name] += 1
        add_to_state(args.state, blocks[-1])
    return print_findings(blocks, list(done), "reader", "executions")


if __name__ == "__main__":
    sys.exit(main())
