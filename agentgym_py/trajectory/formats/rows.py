"""Rows for other programs: plain dicts, as `datasets.Dataset.from_list` takes them.

A conversation opens with the rules and the first observation as one user turn and ends with the agent's last reply. A
reply with `Step.trained` false is never the target of a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agentgym_py.files import replacing

Message = dict[str, Any]
Row = dict[str, Any]
Rows = Iterable[Mapping[str, Any]]


def write_rows(path: str | Path, rows: Rows) -> int:
    """Write rows, as JSON lines to a `.jsonl` file, else as an array; return how many."""
    target, written = Path(path), 0
    lines = target.suffix == ".jsonl"
    begin, separator, end = ("", "\n", "\n") if lines else ("[\n", ",\n", "\n]\n")
    with replacing(target) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write((separator if written else begin) + json.dumps(row, ensure_ascii=True))
            written += 1
        file.write(end if written else "" if lines else "[\n]\n")
    return written
