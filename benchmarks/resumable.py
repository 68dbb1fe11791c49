"""The file of a benchmark that is measured in pieces, such as its rows: a line of JSON for each piece."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from agentgym_py.files import append_line, write_atomic

T = TypeVar("T")


def read_state(kind: type[T], state: Path | None) -> list[T]:
    """Return the pieces of a state file, instances of a dataclass; a line that a killed benchmark cut short is none."""
    lines = state.read_text(encoding="utf-8").splitlines() if state and state.exists() else []
    return [kind(**json.loads(line)) for line in lines if line.endswith("}")]


def add_to_state(state: Path | None, piece: Any) -> None:
    """Append a piece to a state file, if there is one."""
    if state:
        append_line(state, json.dumps(asdict(piece)).encode() + b"\n")


def keep_row(path: Path, row: Any) -> None:
    """Write a row, an instance of a dataclass, into its file, in place of the one with the same `key`."""
    rows = {row.key: row for row in [*read_state(type(row), path), row]}
    write_atomic(path, "".join(json.dumps(asdict(row)) + "\n" for row in rows.values()))


def print_findings(blocks: Sequence[Any], names: Sequence[str], what: str, counted: str) -> int:
    """Print a row for each name and for all, and the findings on stderr; return 1 if there is one.

    Args:
        blocks: Pieces with `findings`, `seconds` and the two attributes below.
        names: What was tried.
        what: The attribute that names it, such as `reader`.
        counted: The attribute that counts what was tried with it.
    """
    print(f"| {what} | {counted} | findings | seconds |\n|---|--:|--:|--:|")
    for name in (*names, "all"):
        chosen = [block for block in blocks if name in (getattr(block, what), "all")]
        count, seconds = sum(getattr(block, counted) for block in chosen), sum(block.seconds for block in chosen)
        print(f"| {name} | {count:,} | {sum(len(block.findings) for block in chosen)} | {seconds:.0f} |")
    found = [f"{getattr(block, what)}: {finding}" for block in blocks for finding in block.findings]
    print(*found, sep="\n", end="\n" * bool(found), file=sys.stderr)
    return int(bool(found))
