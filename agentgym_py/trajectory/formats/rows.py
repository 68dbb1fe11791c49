"""Rows of files of other programs: written as plain dicts, and read from JSON within limits.

A conversation opens with the rules and the first observation as one user turn and ends with the agent's last reply. A
reply with `Step.trained` false is never the target of a row.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, TextIO, TypeVar

from agentgym_py import files
from agentgym_py.errors import DataError
from agentgym_py.trajectory.store import require_file

Message = dict[str, Any]
Row = dict[str, Any]
Rows = Iterable[Mapping[str, Any]]
Place = str
"""Place of a row in its file, for error messages: the number of its line, or `row 3`."""
Broken = Callable[[Place, DataError], None]
"""Gets the place and the error of a broken row."""
T = TypeVar("T")
_NO_UTF8 = re.compile("[\udc80-\udcff]")
"""A byte that is no UTF-8, as `surrogateescape` reads it."""
MOST_LINE = 64 << 20
"""Longest line, in characters."""
MOST_DOCUMENT = 1 << 30
"""Longest array or single object, in characters; it is loaded into memory."""


def write_rows(path: str | Path, rows: Rows) -> int:
    """Write rows, as JSON lines to a `.jsonl` file, else as an array; return how many."""
    target, written = Path(path), 0
    lines = target.suffix == ".jsonl"
    begin, separator, end = ("", "\n", "\n") if lines else ("[\n", ",\n", "\n]\n")
    with files.replacing(target) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write((separator if written else begin) + json.dumps(row, ensure_ascii=True))
            written += 1
        file.write(end if written else "" if lines else "[\n]\n")
    return written


def read_rows(path: str | Path, *, warn: bool = True, broken: Broken | None = None) -> Iterator[tuple[Place, Row]]:
    """Stream the objects of JSON lines, an array or a file that is one object, each with its place.

    Lines are read one at a time; a torn last line is dropped, with a warning unless `warn` is false. An array or an
    object of several lines is loaded into memory. `broken` gets the place and the error of each line and each value
    that is no object, and reading continues after it; None raises the error.

    Raises:
        DataError: no such file, not JSON, not UTF-8, too long, or a row is not an object.
    """
    return _read_rows(require_file(path), warn, broken)


def parse_rows(path: str | Path, rows: Iterable[tuple[Place, Row]], parse: Callable[[Row], T]) -> Iterator[T]:
    """Parse rows; an error gets the file and the place of its row."""
    for place, row in rows:
        try:
            value = parse(row)
        except DataError as error:
            raise DataError(f"{path}:{place}: {error}") from error
        yield value


def _read_rows(path: Path, warn: bool, broken: Broken | None) -> Iterator[tuple[Place, Row]]:
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
        for place, row in _values(file, path, warn, broken):
            if isinstance(row, dict):
                yield place, row
                continue
            error = DataError(f"{path}:{place}: expected an object, found {type(row).__name__}")
            if broken is None:
                raise error
            broken(place, error)


def _values(file: TextIO, path: Path, warn: bool, broken: Broken | None) -> Iterator[tuple[Place, Any]]:
    first = _first_character(file)
    if first == "[":
        values = parse_json(_read_document(file, path), str(path))
        return ((f"row {number}", value) for number, value in enumerate(values, 1))
    if first == "{" and _is_document(file):
        return iter([("row 1", parse_json(_read_document(file, path), str(path)))])
    return _line_values(file, path, warn, broken)


def _first_character(file: TextIO) -> str:
    """The first character that is not a space; the file is rewound."""
    while (character := file.read(1)).isspace():
        pass
    file.seek(0)
    return character


def _is_document(file: TextIO) -> bool:
    """Whether a file that begins with `{` is one object of several lines; the file is rewound."""
    while not (line := file.readline(MOST_LINE)).strip():
        pass
    file.seek(0)
    return line.rstrip() == "{" or (line.endswith("\n") and line.rstrip()[-1:] in ",[{:")


def _read_document(file: TextIO, path: Path) -> str:
    text = file.read(MOST_DOCUMENT + 1)
    if len(text) > MOST_DOCUMENT:
        raise DataError(f"{path}: an array or object of more than {MOST_DOCUMENT >> 20} MiB; write JSON lines")
    if wrong := _NO_UTF8.search(text):
        raise _no_utf8(f"{path}:{text.count(chr(10), 0, wrong.start()) + 1}", wrong)
    return text


def _no_utf8(where: str, wrong: re.Match[str]) -> DataError:
    return DataError(f"{where}: no UTF-8: byte 0x{ord(wrong[0]) - 0xDC00:02x}; save the file as UTF-8")


def _line_values(file: TextIO, path: Path, warn: bool, broken: Broken | None) -> Iterator[tuple[Place, Any]]:
    for number in count(1):
        line = file.readline(MOST_LINE + 1)
        if not line:
            return
        if len(line) > MOST_LINE:
            raise DataError(f"{path}:{number}: a line of more than {MOST_LINE >> 20} MiB")
        if not line.strip():
            continue
        where, text = f"{path}:{number}", line.rstrip("\r\n")  # else a text that was cut off "has a control character"
        try:
            row, error = parse_json(text, where), None
        except DataError as found:
            row, error = None, found
        if error and not line.endswith("\n"):
            if warn:
                warnings.warn(f"{where}: torn last line dropped ({error})", stacklevel=4)
            return
        if wrong := _NO_UTF8.search(text):
            error = _no_utf8(where, wrong)
        if error is None:
            yield str(number), row
        elif broken is None:
            raise error
        else:
            broken(str(number), error)


def parse_json(text: str | bytes, where: str) -> Any:
    """Parse JSON; DataError, which begins with `where`, if it is not, is nested too deeply or has too many values."""
    try:
        return files.parse_json(text)
    except ValueError as error:
        raise DataError(f"{where}: no JSON: {error}") from error
