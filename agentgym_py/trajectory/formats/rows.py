"""Exporters: trajectories as rows for other programs. Rows are plain dicts, `datasets.Dataset.from_list` takes them.

A conversation opens with the rules and the first observation as one user turn and ends on the agent's last reply. A
reply that must not be learned from (`Step.trained` false) is never what a row asks a trainer to learn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py.env.actions import format_reply
from agentgym_py.trajectory.types import Trajectory

if TYPE_CHECKING:
    pass

Message = dict[str, Any]
Row = dict[str, Any]
Rows = Iterable[Mapping[str, Any]]


def write_rows(path: str | Path, rows: Rows) -> int:
    """Write rows, as JSON lines to a `.jsonl` file, else as an array; returns how many. The file appears when whole."""
    target, written = Path(path), 0
    lines, partial = target.suffix == ".jsonl", target.with_name(f"{target.name}.partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            file.write("" if lines else "[")
            for row in rows:
                file.write("" if lines else ",\n" if written else "\n")
                file.write(json.dumps(row, ensure_ascii=True) + ("\n" if lines else ""))
                written += 1
            file.write("" if lines else "\n]\n")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return written


# ----------------------------------------------------------------------------------------------------------------- TRL


# -------------------------------------------------------------------------------------------------------------- OpenAI


# ---------------------------------------------------------------------------------------------------------------- text


def react_text(trajectory: Trajectory) -> str:
    """The episode as plain ReAct text: rules, then Observation, Thought and Action by turns, the last observation."""
    parts = [trajectory.rules] if trajectory.rules else []
    for step in trajectory.steps:
        parts.append(f"Observation: {step.observation}")
        parts.append(format_reply(step.action, step.thought, step.action_input))
    return "\n".join([*parts, f"Observation: {trajectory.final_observation}"]) + "\n"


# ------------------------------------------------------------------------------------------------------------- parquet
