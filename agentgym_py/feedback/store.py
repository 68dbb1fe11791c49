"""The file of feedback: JSON lines beside the trajectories, written block by block and resumed after the last block.

The first line is the header, which names the source and the data. Then each line is one feedback, whose key `kind` says
which. A line of the kind `judged` ends a block and counts its episodes. Lines after the last one of these belong to a
block that was interrupted: resuming removes them. A file without a header, from another program, is read too.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym_py.env.actions import json_object
from agentgym_py.errors import DataError, RunError
from agentgym_py.feedback.types import (
    ComparisonFeedback,
    CorrectionFeedback,
    EpisodeRef,
    Feedback,
    NoFeedback,
    ScoreFeedback,
)
from agentgym_py.files import MOST_BYTES, append_line, numbered_lines, open_to_change, require_replaceable, write_atomic
from agentgym_py.trajectory.json_values import plain_values, quote, read_record

KINDS: Mapping[str, type] = {
    "score": ScoreFeedback, "comparison": ComparisonFeedback, "correction": CorrectionFeedback, "none": NoFeedback,
}  # fmt: skip
"""The records of a file, by the key `kind` of their lines."""
_HEADER, _JUDGED = "header", "judged"
_FREE = ("base_url", "concurrency", "timeout", "retries")
"""Settings of a source that may change when a file is resumed."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file is feedback on, and from where."""

    source: str
    """Name of the source."""
    settings: Mapping[str, Any]
    """Settings of the source."""
    episodes: int
    """Number of episodes to judge."""
    data: str
    """Digest of these episodes in their order."""
    version: int = 1
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Files that decide what the source says, by path, with their SHA-256."""


@dataclass(frozen=True, slots=True)
class JudgedBlock:
    """The end of a block."""

    episodes: int
    """Number of its episodes."""


def header_of(
    source: str, settings: Mapping[str, Any], refs: Sequence[EpisodeRef], inputs: Mapping[str, str] | None = None
) -> Header:
    """Return the header of a file."""
    digest = hashlib.sha256("".join(ref.digest for ref in refs).encode()).hexdigest()[:16]
    plain = json.loads(json.dumps(dict(settings), default=str))  # tuples become lists, as in a file
    return Header(source, plain, len(refs), digest, inputs=inputs or {})


def read_feedback(path: str | os.PathLike[str]) -> list[Feedback]:
    """Read a file of feedback. A file that is not finished, or whose last line is torn, is read with a warning.

    Raises:
        DataError: no such file, or a broken line; names the line.
    """
    target, judged, expected = Path(path), 0, 0
    feedback = list[Feedback]()
    for _, record in _records(target):
        if isinstance(record, Header):
            expected = record.episodes
        elif isinstance(record, JudgedBlock):
            judged += record.episodes
        else:
            feedback.append(record)
    if judged < expected:
        warnings.warn(
            f"{path}: {judged} of {expected} episodes are judged; the command that began the file continues it",
            stacklevel=2,
        )
    return feedback


def write_feedback(path: str | Path, header: Header, feedback: Iterable[Feedback]) -> None:
    """Write a finished file of feedback."""
    file = FeedbackFile(Path(path), header)
    file.append(list(feedback), header.episodes)


class FeedbackFile:
    """A file of feedback that is being written; an interrupted one is resumed. A header alone counts as no file.

    Raises:
        DataError: the file is no feedback, or broken.
        RunError: it was begun with another source, other settings, data or inputs.
        OSError: a pipe or device is in its place, or it has hard links, or cannot be written.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self.path, self.judged, self._header = path, 0, header
        """`judged` is the number of episodes in finished blocks."""
        first = _line(_HEADER, header)
        if not path.is_file() or _is_beginning(path, first):
            require_replaceable(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            append_line(path, first)
            return
        end, previous = 0, None
        for after, record in _records(path, warn=False):
            if isinstance(record, Header):
                previous, end = record, after
            elif isinstance(record, JudgedBlock):
                self.judged, end = self.judged + record.episodes, after
        _require_same(path, previous, header)
        with open_to_change(path) as file:
            file.truncate(end)

    def append(self, feedback: Sequence[Feedback], episodes: int) -> None:
        """Write a block: the feedback on `episodes` episodes."""
        append_line(self.path, _block(feedback, episodes))
        self.judged += episodes

    def replace(self, feedback: Sequence[Feedback]) -> None:
        """Write the file again: this feedback in place of that on the judged episodes, as one block."""
        write_atomic(self.path, (_line(_HEADER, self._header) + _block(feedback, self.judged)).decode())


def _block(feedback: Sequence[Feedback], episodes: int) -> bytes:
    lines = [_line(_kind_of(record), record) for record in feedback]
    return b"".join([*lines, _line(_JUDGED, JudgedBlock(episodes))])


def _is_beginning(path: Path, line: bytes) -> bool:
    """Return whether a file holds a header, or the beginning of `line` that was cut off, and nothing else."""
    with path.open("rb") as file:
        found = file.readline(MOST_BYTES)
        if file.read(1):
            return False
    return line.startswith(found) or (found.endswith(b"\n") and _is_header(found))


def _is_header(line: bytes) -> bool:
    try:
        return isinstance(_read_row(json_object(line.decode()) or {}), Header)
    except (DataError, UnicodeDecodeError):
        return False


def _require_same(path: Path, previous: Header | None, header: Header) -> None:
    if previous is None:
        raise RunError(f"{path} has no header, so nothing can be added to it; choose another file")
    if previous.source != header.source:
        raise RunError(f"{path} was begun with the source {previous.source}, not {header.source}; choose another file")
    if previous.data != header.data or previous.episodes != header.episodes:
        raise RunError(f"{path} was begun with other data; choose another file, or the data that it was begun with")
    for name in dict.fromkeys([*previous.settings, *header.settings]):
        before, now = previous.settings.get(name), header.settings.get(name)
        if name not in _FREE and before != now:
            raise RunError(f"{path} was begun with {name} {before!r}, not {now!r}; choose another file")
    for name, digest in previous.inputs.items():
        if header.inputs.get(name) != digest:
            raise RunError(f"{path} was begun with another content of {name}; choose another file")


def _kind_of(record: Feedback) -> str:
    return next(kind for kind, record_class in KINDS.items() if isinstance(record, record_class))


def _line(kind: str, record: Any) -> bytes:
    """Return a record's line.

    Raises:
        DataError: a value that a reader would refuse.
    """
    row = {"kind": kind, **plain_values(record)}
    _require_valid(_read_row(row))
    return json.dumps(row, allow_nan=False).encode() + b"\n"


def _records(path: Path, warn: bool = True) -> Iterator[tuple[int, Any]]:
    """Yield the records of a file, each with the offset after its line; a torn last line is left out."""
    if path.is_dir():
        raise DataError(f"{path}: a folder, not a file of feedback")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    end = 0
    with path.open("rb") as file:
        for number, raw in numbered_lines(file):
            end += len(raw)
            if len(raw) > MOST_BYTES:
                raise DataError(f"{path}:{number}: a line of more than {MOST_BYTES >> 20} MiB")
            if not raw.endswith(b"\n"):
                if warn:
                    warnings.warn(f"{path}:{number}: the last line is torn and left out", stacklevel=4)
                return
            if not raw.strip():
                continue
            try:
                row = json_object(raw.decode())
                if row is None:
                    raise DataError(f"expected a JSON object, found {quote(raw.decode())}")
                record = _read_row(row)
                _require_valid(record)
                if isinstance(record, Header) and number > 1:
                    raise DataError("a header is the first line")
            except (DataError, UnicodeDecodeError) as error:
                raise DataError(f"{path}:{number}: {error}{_hint(raw)}") from error
            yield end, record


def _read_row(row: Mapping[str, Any]) -> Any:
    kinds = {**KINDS, _HEADER: Header, _JUDGED: JudgedBlock}
    kind = row.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise DataError(f"kind: expected one of {', '.join(kinds)}, found {quote(kind)}")
    return read_record(kinds[kind], {name: value for name, value in row.items() if name != "kind"})


def _require_valid(record: Any) -> None:
    """Raise DataError for a value that a record's type alone does not exclude."""
    if isinstance(record, ScoreFeedback):
        for name, score in {"score": record.score, **record.dimensions}.items():
            if not 0 <= score <= 1:
                raise DataError(f"{name}: expected a number from 0 to 1, found {score!r}")
    if isinstance(record, CorrectionFeedback):
        if record.step < 0:
            raise DataError(f"step: expected a number of at least 0, found {record.step}")
        if not record.reply.strip():
            raise DataError("reply: a correction has a text")
    if isinstance(record, ComparisonFeedback) and record.better == record.worse:
        raise DataError("better and worse are the same episode")
    if isinstance(record, Header) and record.version != 1:
        raise DataError(f"version {record.version} of the format is not known here; update agentgym-py")
    if isinstance(record, Header | JudgedBlock) and record.episodes < 0:
        raise DataError(f"episodes: expected a number of at least 0, found {record.episodes}")


def _hint(raw: bytes) -> str:
    """Return what helps with a line of the viewer's verdicts, or with a trajectory."""
    if b'"provenance"' in raw:
        return "; the file holds trajectories, and agentgym judge writes feedback on them"
    is_verdict = b'"kind"' not in raw and any(key in raw for key in (b'"verdict"', b'"stars"', b'"reply"'))
    return "; the viewer's verdicts become feedback by agentgym judge with the source human" if is_verdict else ""
