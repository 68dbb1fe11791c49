"""Tables: parquet files, and folders that Hugging Face's datasets save. Trajectories have columns of their own."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py.errors import DataError, RunError
from agentgym_py.files import JsonFolder, inside, new_folder, replacing
from agentgym_py.registry import install_advice
from agentgym_py.trajectory.formats.rows import MOST_DOCUMENT, MOST_LINE, Place, Row, Rows, parse_rows
from agentgym_py.trajectory.json_values import from_json, quote, to_json
from agentgym_py.trajectory.types import Trajectory

if TYPE_CHECKING:
    import pyarrow


_BLOCK_ROWS = 256
_STATE, _SPLITS = "state.json", "dataset_dict.json"
"""Files of a saved dataset, and of one with several splits."""
_SPLIT = re.compile(r"(?:^|/)(?=[^/]+-\d{5}-of-|(?:train|valid|validation|dev|test)\b)([^/.-]+)[^/]*\.parquet$")
"""Name of a file of a split in a data set of a hub: `train-00000-of-00002.parquet`, or `train.parquet`."""
_DATA = "data-00000-of-00001.arrow"
_AS_SAVED: Row = {
    "_format_columns": None, "_format_kwargs": {}, "_format_type": None, "_output_all_columns": False, "_split": None,
}  # fmt: skip
"""Keys of `state.json` of a dataset without settings."""
_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair; a JSON text may hold one, UTF-8 may not."""
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What columns of other types, and values that Python has not, such as the year 20000, make of reading them."""
_AS_TEXT = ("env_kwargs", "sampling")
"""Keys of the provenance without a fixed type; a parquet file holds them as JSON text."""
_AS_TEXT_OF_STEP = {"reward_parts", "costs"}
"""The same of a step."""


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
                writer.write_table(_table(path, block, schema))
                written += len(block)
    except (pyarrow.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise DataError(f"{path}: {error}") from error
    return written


def read_parquet(path: str | Path) -> Iterator[Trajectory]:
    """Stream the episodes of a file of `write_parquet`, or of a folder of `write_dataset`, a block at a time.

    Raises:
        DataError: no such file, not parquet, or other columns; names the row.
    """
    return parse_rows(path, read_rows(path), from_row)


def from_row(row: Row) -> Trajectory:
    """Return the episode of a row.

    Raises:
        DataError: other columns, or a value that is none of an episode's.
    """
    try:
        return from_json(_from_parquet_row(row))
    except DataError:
        raise
    except _UNREADABLE as error:
        raise DataError(f"no trajectory: {error!r}") from error


# ---- rows of any kind -----------------------------------------------------------------------------------------------


def is_dataset(path: str | Path) -> bool:
    """Return whether a path is a folder of parquet files, or one that `datasets` wrote by `save_to_disk`."""
    target = Path(path)
    return any((target / name).is_file() for name in (_STATE, _SPLITS)) or bool(_parquet_names(target))


def _parquet_names(folder: Path) -> list[str]:
    """The parquet files in a folder, or those in its folder `data`, as data sets of a hub have them."""
    for part in (folder, folder / "data"):
        if names := sorted(str(path.relative_to(folder)) for path in part.glob("*.parquet")):
            return names
    return []


def read_rows(path: str | Path) -> Iterator[tuple[Place, Row]]:
    """Stream the rows of a parquet file or of a saved dataset, each with its place; nothing of them is unpickled.

    Raises:
        DataError: no such file, neither of these, several splits, or a row or block of rows that is too large.
    """
    pyarrow, _ = _pyarrow()
    target = Path(path)
    number = count(1)
    try:
        for block in _folder_blocks(target) if target.is_dir() else _parquet_blocks(target):
            for row in _rows_of(block):
                yield f"row {next(number)}", row
    except DataError:
        raise
    except (pyarrow.ArrowException, OSError, *_UNREADABLE) as error:
        raise DataError(f"{path}: no table: {error}") from error


def _parquet_blocks(path: Path) -> Iterator[Any]:
    pyarrow, parquet = _pyarrow()
    try:
        yield from _batches(path, parquet)
    except (pyarrow.ArrowException, OSError, *_UNREADABLE) as error:
        raise DataError(f"{path}: no table: {error}") from error


def _batches(path: Path, parquet: Any) -> Iterator[Any]:
    with parquet.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).total_byte_size
            if size > MOST_DOCUMENT:
                raise DataError(f"{path}: a group of rows of more than {MOST_DOCUMENT >> 20} MiB")
            rows = MOST_DOCUMENT // max(size, 1)  # a value that the file holds once may stand in every row
            yield from file.iter_batches(max(1, min(rows, _BLOCK_ROWS)), row_groups=[group])


def _folder_blocks(folder: Path) -> Iterator[Any]:
    """The blocks of a saved dataset, or of all parquet files of a folder, which must be of one split."""
    is_saved = any((folder / name).is_file() for name in (_STATE, _SPLITS))
    if is_saved or not (names := _parquet_names(folder)):
        yield from _dataset_blocks(folder)
        return
    splits = sorted({found[1] for name in names if (found := _SPLIT.search(name))})
    if len(splits) > 1:
        raise DataError(f"{folder}: parquet files of the splits {', '.join(splits)}; name the files of one of them")
    for name in names:
        try:
            path = inside(folder, name)
        except RunError as error:
            raise DataError(str(error)) from error
        yield from _parquet_blocks(path)


def _dataset_blocks(folder: Path) -> Iterator[Any]:
    """The blocks of the files that a saved dataset names, which must be in its folder."""
    pyarrow, _ = _pyarrow()
    try:
        if (folder / _SPLITS).is_file():
            splits = JsonFolder(folder).read_json(_SPLITS).get("splits")
            raise DataError(f"{folder}: a dataset with the splits {quote(splits)}; name the folder of one of them")
        files = [str(item["filename"]) for item in JsonFolder(folder).read_json(_STATE)["_data_files"]]
        paths = [inside(folder, name) for name in files]
    except RunError as error:
        raise DataError(str(error)) from error
    for path in paths:
        with pyarrow.memory_map(str(path)) as file, pyarrow.ipc.open_stream(file) as reader:
            for block in reader:
                block.validate(full=True)  # a prepared file may point outside its buffers
                yield block


def _rows_of(block: Any) -> Iterator[Row]:
    """The rows of a block, all at once if they are small."""
    if block.nbytes <= MOST_LINE:
        yield from block.to_pylist()
        return
    for i in range(block.num_rows):
        row = block.slice(i, 1)
        if row.nbytes > MOST_LINE:
            raise DataError(f"a row of more than {MOST_LINE >> 20} MiB")
        yield from row.to_pylist()


def write_table(path: str | Path, rows: Rows) -> int:
    """Write rows to a parquet file, or to a folder as a saved dataset; return how many. They are loaded into memory.

    A key that any row has becomes a column; rows that lack it have null there.

    Raises:
        DataError: values of one key differ in type.
        RunError: the folder holds other files.
    """
    pyarrow, parquet = _pyarrow()
    try:
        values = [_with_text_tools(row) for row in rows]
        keys = dict.fromkeys(key for row in values for key in row)  # pyarrow takes the columns of the first row only
        table = pyarrow.Table.from_pylist([{key: row.get(key) for key in keys} for row in values])
        if Path(path).suffix == ".parquet":
            with replacing(Path(path)) as partial:
                parquet.write_table(table, partial, compression="zstd")
        else:
            _save_dataset(table, Path(path))
    except (pyarrow.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise DataError(f"{path}: {error}") from error
    return int(table.num_rows)


def write_dataset(path: str | Path, trajectories: Iterable[Trajectory]) -> int:
    """Write episodes to a folder as a saved dataset, and return how many; `datasets.load_from_disk` opens it.

    Raises:
        DataError: as `write_parquet`.
        RunError: the folder holds other files.
    """
    pyarrow, _ = _pyarrow()
    try:
        table = _table(path, list(map(_parquet_row, trajectories)), _schema())
        _save_dataset(table, Path(path))
    except (pyarrow.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise DataError(f"{path}: {error}") from error
    return int(table.num_rows)


def _with_text_tools(row: Mapping[str, Any]) -> Row:
    """The row with its schemas of tools as JSON text, because columns have no place for free keys; trl reads both."""
    return {**row, "tools": json.dumps(row["tools"], ensure_ascii=False)} if "tools" in row else dict(row)


def _save_dataset(table: Any, folder: Path) -> None:
    """Write what `datasets.load_from_disk` opens: a stream of Arrow, its name, and an empty description."""
    pyarrow, _ = _pyarrow()
    new_folder(folder)
    partial = folder.absolute().with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        with pyarrow.OSFile(str(partial / _DATA), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=_BLOCK_ROWS)
        with (partial / _DATA).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        state = {**_AS_SAVED, "_data_files": [{"filename": _DATA}], "_fingerprint": digest}
        JsonFolder(partial).write_json(_STATE, state)
        JsonFolder(partial).write_json("dataset_info.json", {})
        if folder.is_dir():
            folder.rmdir()
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


# ---- our own columns ------------------------------------------------------------------------------------------------


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
    strings = ("observation", "reply", "thought", "action", "action_input", "reward_parts", "costs")
    usage = pa.struct({
        "prompt_tokens": integer, "completion_tokens": integer, "cost": real, "model": text, "cut": flag,
        "refused": text, "extra_calls": integer,
    })  # fmt: skip
    step = dict.fromkeys(strings, text)
    step |= {"reward": real, "valid": flag, "trained": flag, "tokens": tokens, "usage": usage, "summary": tokens}
    about = ("env_id", "task_id", "agent", "policy_digest", "prompt", "prompt_template", "note", "files_digest")
    origin = dict.fromkeys((*about, *_AS_TEXT), text)
    origin |= {"package_version": text, "env_version": integer, "seed": pa.uint64(), "env_seed": pa.uint64()}
    columns = dict.fromkeys(("id", "split", "kind", "difficulty", "instruction", "rules", "final_observation"), text)
    columns |= {"success": flag, "stop_reason": text, "reward": real, "optimal_steps": integer, "error": text}
    columns |= {"partner": pa.struct({"digest": text, "moves": pa.list_(text)})}
    columns |= {"provenance": pa.struct(origin), "steps": pa.list_(pa.struct(step))}
    return pa.schema(columns)


def without_half_pairs(trajectory: Trajectory) -> Trajectory:
    """Return an episode whose texts have U+FFFD in the place of half a surrogate pair, which no column holds."""
    text = json.dumps(to_json(trajectory), ensure_ascii=False)
    if not _HALF.search(text):
        return trajectory
    warnings.warn(f"{trajectory.id!r}: half of a surrogate pair is replaced by U+FFFD", stacklevel=2)
    return from_json(json.loads(_HALF.sub("\ufffd", text)))


def _table(path: str | Path, rows: list[Row], schema: pyarrow.Schema) -> Any:
    """Return the table of rows of episodes; DataError for one that its columns cannot hold, which names it."""
    pyarrow, _ = _pyarrow()
    errors = (pyarrow.ArrowException, OverflowError, UnicodeEncodeError)
    try:
        return pyarrow.Table.from_pylist(rows, schema=schema)
    except errors:
        for row in rows:
            try:
                pyarrow.Table.from_pylist([row], schema=schema)
            except errors as error:
                raise DataError(f"{path}: episode {row['id']!r:.200}: {error}") from error
        raise


def _parquet_row(trajectory: Trajectory) -> Row:
    row = to_json(trajectory)
    for key in _AS_TEXT:
        row["provenance"][key] = json.dumps(row["provenance"][key], ensure_ascii=False)
    for step in row["steps"]:
        for name in _AS_TEXT_OF_STEP & step.keys():
            step[name] = json.dumps(step[name], ensure_ascii=False)
    return row


def _from_parquet_row(row: Row) -> Row:
    for key in _AS_TEXT:
        row["provenance"][key] = json.loads(row["provenance"][key])
    for step in row["steps"]:
        step["reward_parts"] = json.loads(step["reward_parts"])
        if (costs := step.pop("costs", None)) is not None:
            step["costs"] = json.loads(costs)
        for name in ("tokens", "summary"):
            if tokens := step.get(name):
                step[name] = {key: value for key, value in tokens.items() if value is not None}
        for name in ("cut", "refused", "extra_calls"):
            if (usage := step["usage"]) and usage.get(name) is None:
                usage.pop(name, None)
    return row
