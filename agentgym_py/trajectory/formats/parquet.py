"""Trajectories as a parquet file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py.errors import DataError
from agentgym_py.registry import install_advice
from agentgym_py.trajectory.formats.rows import Row
from agentgym_py.trajectory.store import from_json, to_json
from agentgym_py.trajectory.types import Trajectory

if TYPE_CHECKING:
    import pyarrow


_ROWS_AT_ONCE = 256


_AS_TEXT = ("env_kwargs", "sampling")
"""Keys of the provenance whose values have no fixed type; a parquet file holds them as JSON text."""


def write_parquet(path: str | Path, trajectories: Iterable[Trajectory]) -> int:
    """Write a parquet file, a block of episodes at a time; returns how many. `datasets` and pyarrow open it.

    Raises:
        DataError: a value that the columns cannot hold (a seed outside 64 bits, text that is no UTF-8).
    """
    pyarrow, parquet = _pyarrow()

    target, schema, written = Path(path), _schema(), 0
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.partial")
    rows = map(_parquet_row, trajectories)
    try:
        with parquet.ParquetWriter(partial, schema, compression="zstd") as writer:
            while block := list(islice(rows, _ROWS_AT_ONCE)):
                writer.write_table(pyarrow.Table.from_pylist(block, schema=schema))
                written += len(block)
        partial.replace(target)
    except (pyarrow.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise DataError(f"{target}: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return written


def read_parquet(path: str | Path) -> Iterator[Trajectory]:
    """Stream the episodes of a file that `write_parquet` wrote, a block at a time.

    Raises:
        DataError: no such file, no parquet, or other columns.
    """
    pyarrow, parquet = _pyarrow()

    try:
        with parquet.ParquetFile(path) as file:
            for block in file.iter_batches(_ROWS_AT_ONCE):
                for row in block.to_pylist():
                    yield from_json(_from_parquet_row(row))
    except (pyarrow.ArrowException, FileNotFoundError, KeyError, TypeError) as error:
        raise DataError(f"{path}: no trajectories in parquet: {error}") from error


def _pyarrow() -> tuple[Any, Any]:
    """Pyarrow and its module for parquet; a DataError where they are not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(f"parquet needs pyarrow, of the extra `train`: {install_advice('train')}") from error
    return pyarrow, parquet


def _schema() -> pyarrow.Schema:
    import pyarrow as pa

    text, whole, real, yes = pa.string(), pa.int64(), pa.float64(), pa.bool_()
    ids = pa.list_(whole)
    tokens = pa.struct({"context": ids, "ids": ids, "logprobs": pa.list_(real), "mask": ids})
    strings = ("observation", "reply", "thought", "action", "action_input", "reward_parts")
    usage = pa.struct({"prompt_tokens": whole, "completion_tokens": whole, "cost": real, "model": text})
    step = dict.fromkeys(strings, text)
    step |= {"reward": real, "valid": yes, "trained": yes, "tokens": tokens, "usage": usage}
    origin = dict.fromkeys(("env_id", "task_id", "agent", "policy_digest", "prompt", *_AS_TEXT), text)
    origin |= {"package_version": text, "env_version": whole, "seed": pa.uint64(), "env_seed": pa.uint64()}
    columns = dict.fromkeys(("id", "split", "kind", "difficulty", "instruction", "rules", "final_observation"), text)
    columns |= {"success": yes, "stop_reason": text, "reward": real, "optimal_steps": whole, "error": text}
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
    return row
