"""Trajectories as a parquet file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py.errors import DataError
from agentgym_py.files import replacing
from agentgym_py.registry import install_advice
from agentgym_py.trajectory.formats.rows import Row
from agentgym_py.trajectory.json_values import from_json, to_json
from agentgym_py.trajectory.types import Trajectory

if TYPE_CHECKING:
    import pyarrow


_BLOCK_ROWS = 256
_AS_TEXT = ("env_kwargs", "sampling")
"""Keys of the provenance without a fixed type; a parquet file holds them as JSON text."""


def write_parquet(path: str | Path, trajectories: Iterable[Trajectory]) -> int:
    """Write a parquet file, a block of episodes at a time; return how many. `datasets` and pyarrow read it.

    Raises:
        DataError: a value that the columns cannot hold (a seed beyond 64 bits, text that is not UTF-8).
    """
    pyarrow, parquet = _pyarrow()

    schema, written = _schema(), 0
    rows = map(_parquet_row, trajectories)
    try:
        with replacing(Path(path)) as partial, parquet.ParquetWriter(partial, schema, compression="zstd") as writer:
            while block := list(islice(rows, _BLOCK_ROWS)):
                writer.write_table(pyarrow.Table.from_pylist(block, schema=schema))
                written += len(block)
    except (pyarrow.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise DataError(f"{path}: {error}") from error
    return written


def read_parquet(path: str | Path) -> Iterator[Trajectory]:
    """Stream the episodes of a file of `write_parquet`, a block at a time.

    Raises:
        DataError: no such file, not parquet, or other columns.
    """
    pyarrow, parquet = _pyarrow()

    try:
        with parquet.ParquetFile(path) as file:
            for block in file.iter_batches(_BLOCK_ROWS):
                for row in block.to_pylist():
                    yield from_json(_from_parquet_row(row))
    except (pyarrow.ArrowException, FileNotFoundError, KeyError, TypeError) as error:
        raise DataError(f"{path}: no trajectories in parquet: {error}") from error


def _pyarrow() -> tuple[Any, Any]:
    """Import pyarrow and its parquet module; DataError if it is not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(f"parquet needs pyarrow, part of the extra `train`: {install_advice('train')}") from error
    return pyarrow, parquet


def _schema() -> pyarrow.Schema:
    import pyarrow as pa

    text, integer, real, flag = pa.string(), pa.int64(), pa.float64(), pa.bool_()
    ids = pa.list_(integer)
    tokens = pa.struct({
        "context": ids, "ids": ids, "logprobs": pa.list_(real), "mask": ids, "starts_sequence": flag,
        "turns_dropped": integer, "cut": flag,
    })  # fmt: skip
    strings = ("observation", "reply", "thought", "action", "action_input", "reward_parts")
    usage = pa.struct(
        {"prompt_tokens": integer, "completion_tokens": integer, "cost": real, "model": text, "cut": flag}
    )
    step = dict.fromkeys(strings, text)
    step |= {"reward": real, "valid": flag, "trained": flag, "tokens": tokens, "usage": usage, "summary": tokens}
    origin = dict.fromkeys(
        ("env_id", "task_id", "agent", "policy_digest", "prompt", "prompt_template", *_AS_TEXT), text
    )
    origin |= {"package_version": text, "env_version": integer, "seed": pa.uint64(), "env_seed": pa.uint64()}
    columns = dict.fromkeys(("id", "split", "kind", "difficulty", "instruction", "rules", "final_observation"), text)
    columns |= {"success": flag, "stop_reason": text, "reward": real, "optimal_steps": integer, "error": text}
    columns |= {"provenance": pa.struct(origin), "steps": pa.list_(pa.struct(step))}
    return pa.schema(columns)


def _parquet_row(trajectory: Trajectory) -> Row:
    row = to_json(trajectory)
    for key in _AS_TEXT:
        row["provenance"][key] = json.dumps(row["provenance"][key], ensure_ascii=False)
    for step in row["steps"]:
        step["reward_parts"] = json.dumps(step["reward_parts"], ensure_ascii=False)
    return row


def _from_parquet_row(row: Row) -> Row:
    for key in _AS_TEXT:
        row["provenance"][key] = json.loads(row["provenance"][key])
    for step in row["steps"]:
        step["reward_parts"] = json.loads(step["reward_parts"])
        for name in ("tokens", "summary"):
            if tokens := step.get(name):
                step[name] = {key: value for key, value in tokens.items() if value is not None}
        if (usage := step["usage"]) and usage.get("cut") is None:
            usage.pop("cut", None)
    return row
