"""Read a trajectory file in any format: the format is recognized by content, or named."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from agentgym_py.errors import ConfigError, DataError, did_you_mean, setting
from agentgym_py.files import inside, numbered_lines
from agentgym_py.trajectory import store
from agentgym_py.trajectory.formats import agenttraj, atif, chat, parquet, rows
from agentgym_py.trajectory.formats.foreign import unique_ids
from agentgym_py.trajectory.types import Trajectory

STORE = "store"
_PARSERS: Mapping[str, Callable[[rows.Row, str], Sequence[Trajectory]]] = {
    "parquet": lambda row, _: [parquet.from_row(row)], "atif": lambda row, _: [atif.from_row(row)],
    "agenttraj": lambda row, _: [agenttraj.from_row(row)], **chat.PARSERS,
}  # fmt: skip
"""Parser of a row of each format but the store; the second argument is the id of a row that has none."""
FORMATS = (STORE, *_PARSERS)
"""Names of the formats that are read."""
_HEAD = 1 << 20
"""Bytes of an array, or of an object of several lines, that are searched for its keys."""
_UNREAD = (
    ({"prompt", "completions", "labels"}, "labels of steps, whose observations and replies are one text each"),
    ({"text"}, "texts without turns"),
)
"""Keys and names of rows that cannot be read."""


def episode_files(path: str) -> list[str]:
    """Return the files of the episodes that the rounds of a run played, if `path` is its folder; else `path` itself.

    Raises:
        RunError: a symbolic link leads out of the folder.
    """
    folder = Path(path)
    rounds = sorted(folder.glob("rounds/*/trajectories.jsonl"), key=lambda file: (len(str(file)), str(file)))
    return [str(inside(folder, file.relative_to(folder))) for file in rounds] or [path]


def read_any(path: str | Path, format: str | None = None) -> Iterator[Trajectory]:
    """Stream the episodes of a file; without `format`, a name in `FORMATS`, it is recognized by content.

    Rows of preferences with equal sides are left out, and a warning at the end says how many.

    Raises:
        ConfigError: no such format.
        DataError: no such file, or not in this format, or in none, or only rows with equal sides.
    """
    return _read(path, format)


def _read(path: str | Path, format: str | None) -> Iterator[Trajectory]:
    """Stream the episodes of a file."""
    name, is_detected = _require_format(path, format), format is None
    if name == STORE:
        return store.read(path)
    parsed = _parse_all(path, name, is_detected)
    return parsed if name == "parquet" else unique_ids(parsed)


def _parse_all(path: str | Path, name: str, is_detected: bool) -> Iterator[Trajectory]:
    """Parse the rows of a file; those with equal sides are left out and counted."""
    stem, number = Path(path).stem, count(1)
    equal, is_empty = 0, True

    def parse(row: rows.Row) -> Sequence[Trajectory]:
        nonlocal equal
        try:
            return _parse(row, name, f"{stem}-{next(number)}", is_detected)
        except chat.EqualSidesError:
            equal += 1
            return ()

    for episode in chain.from_iterable(rows.parse_rows(path, _rows(path), parse)):
        is_empty = False
        yield episode
    why = "because chosen and rejected are the same"
    if equal and is_empty:
        raise DataError(f"{path}: no row can be used, {why}")
    if equal:
        warnings.warn(f"{path}: {equal} row{'s' * (equal > 1)} left out, {why}", stacklevel=2)


def _rows(path: str | Path, broken: rows.Broken | None = None) -> Iterator[tuple[rows.Place, rows.Row]]:
    """Stream the rows of a file that is no store."""
    return parquet.read_rows(path) if _is_table(Path(path)) else rows.read_rows(path, broken=broken)


def _parse(row: rows.Row, name: str, id: str, is_detected: bool) -> Sequence[Trajectory]:
    """Parse a row of format `name`, named or detected; an error says if it is one of another format."""
    try:
        if is_detected and name == "sharegpt" and "item_id" in row:
            raise DataError("ShareGPT has no key 'item_id'")  # it would be read, with "Ok." as a reply
        return _PARSERS[name](row, id)
    except chat.EqualSidesError:
        raise
    except DataError as error:
        raise DataError(f"{error}{_other_format(row, name)}") from error


def _other_format(row: object, name: str) -> str:
    """Return what an error adds if a row that is read as one of format `name` looks like another; empty if not."""
    other = _format_of(row, is_array=False)
    if other in (None, name):
        return ""
    return f"; it looks like a row of {other} in a file of {name}, but all rows of a file have one format"


def _is_table(path: Path) -> bool:
    """Whether a path is a parquet file or a saved dataset."""
    if not path.is_file():
        return parquet.is_dataset(path)
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def verify_any(path: str | Path, format: str | None = None) -> store.VerifyReport:
    """Check a file in any format that `read_any` reads.

    Every row is checked, and in a store its digest; other formats have none. An array that is no JSON, and a damaged
    table, are read no further, and the report says so.

    Raises:
        ConfigError: no such format.
        DataError: no such file, or in none of these forms.
    """
    name = _require_format(path, format)
    if name == STORE:
        report = store.verify(path)
        return replace(report, bad=_with_formats(report)) if report.bad else report
    episodes, bad, torn, number = 0, dict[int, str](), None, 0

    def broken(place: rows.Place, error: DataError) -> None:
        nonlocal number
        number = int(place.removeprefix("row "))
        bad[number] = str(error).removeprefix(f"{path}:{place}: ")

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            for place, row in _rows(path, broken):
                number = int(place.removeprefix("row "))
                try:
                    episodes += len(_parse(row, name, "", format is None))
                except DataError as error:
                    broken(place, error)
        except DataError as error:
            bad[number + 1] = f"{str(error).removeprefix(f'{path}: ')}; what follows was not read"
        except UserWarning:  # of a torn last line
            torn = number + 1
    return store.VerifyReport(Path(path), episodes, episodes, bad, torn)


def _with_formats(report: store.VerifyReport) -> dict[int, str]:
    """Return what is wrong with each broken line of a store; of one in another format, which."""
    with report.path.open("rb") as file:
        heads = {
            number: _first_row(raw[:_HEAD].decode(errors="replace").lstrip())
            for number, raw in numbered_lines(file) if number in report.bad
        }  # fmt: skip
    return {number: why + _other_format(heads[number], STORE) for number, why in report.bad.items()}


def _require_format(path: str | Path, name: str | None) -> str:
    if name is None:
        return detect(path)
    if name not in FORMATS:
        raise ConfigError(f"{setting('format', name)}: no such format.{did_you_mean(name, FORMATS, 'There are')}")
    return name


def detect(path: str | Path) -> str:
    """Detect the format of a file by its first bytes; an empty file is an empty store.

    Raises:
        DataError: no such file, or in none of these forms.
    """
    target = Path(path)
    if _is_table(target):
        return _format_of_table(target)
    with store.require_file(target).open("rb") as file:
        head = file.read(_HEAD)
    text = head.decode(errors="replace").removeprefix("\ufeff").lstrip()
    first, second = ([line for line in text.splitlines() if line.strip()] + ["{", "{"])[:2]
    if first[:1] not in "[{" and second[:1] != "{":
        raise DataError(f"{target}: not a trajectory file: its lines are not JSON objects")
    is_array = text.startswith("[")
    row = _first_row(text[is_array:].lstrip())
    if row is None:  # torn, broken or long: the reader reports what is wrong
        row = {key: "" for key in _KEYS if f'"{key}"' in text}
        return _format_of(row, is_array) or ("agenttraj" if is_array else "store")
    if (name := _format_of(row, is_array)) is None:
        raise _unknown_format(target, row)
    return name


def _format_of_table(path: Path) -> str:
    """The format of a table by its first row; one without rows is an empty table of trajectories."""
    _, row = next(parquet.read_rows(path), ("", {"provenance": "", "steps": ""}))
    if {"provenance", "steps"} <= row.keys():
        return "parquet"
    if (name := _format_of(row, is_array=True)) is None:
        raise _unknown_format(path, row)
    return name


def _first_row(text: str) -> Any:
    """The JSON value that a text begins with; None if there is none."""
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _format_of(row: Any, is_array: bool) -> str | None:
    """The format of a row; some keys are enough, because the reader reports what is wrong with the others."""
    keys = {key for key in row if row[key] is not None} if isinstance(row, dict) else set()
    if "schema_version" in keys:
        return "atif"
    if not is_array and keys & {"provenance", "digest"}:
        return "store"
    if "item_id" in keys or (is_array and not isinstance(row, dict)):
        return "agenttraj"
    return chat.format_of(keys)


_KEYS = (
    "schema_version", "provenance", "item_id", "messages", "conversations", "conversation", "instruction", "output",
    "prompt", "completion", "label", "chosen", "rejected",
)  # fmt: skip
"""Keys that tell the format of a row that is no JSON."""


def _unknown_format(path: Path, row: object) -> DataError:
    """The error that says what the file looks like."""
    keys = set(row) if isinstance(row, dict) else set()
    for row_keys, name in _UNREAD:
        if row_keys <= keys:
            return DataError(f"{path}: not a trajectory file: looks like {name}, which cannot be read")
    found = f"has the keys {', '.join(sorted(map(str, keys))[:6])}" if keys else "is no JSON object with keys"
    return DataError(
        f"{path}: not a trajectory file: its first row {found}; docs/reference/formats.md lists what is read"
    )
