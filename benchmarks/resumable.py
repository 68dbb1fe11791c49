"""The state file of a benchmark that is measured in pieces: a line of JSON for each piece."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from agentgym_py.files import append_line

T = TypeVar("T")


def read_state(kind: type[T], state: Path | None) -> list[T]:
    """Return the pieces of a state file, instances of a dataclass; a line that a killed benchmark cut short is none."""
    lines = state.read_text(encoding="utf-8").splitlines() if state and state.exists() else []
    return [kind(**json.loads(line)) for line in lines if line.endswith("}")]


def add_to_state(state: Path | None, piece: Any) -> None:
    """Append a piece to a state file, if there is one."""
    if state:
        append_line(state, json.dumps(asdict(piece)).encode() + b"\n")
