"""What people say in the viewer: thumbs, ratings, preferences and better replies, and training data from them.

`verdicts.jsonl` in the viewer's folder has one verdict per line and is only appended to; of several verdicts on the
same episode, pair or step the last one counts. An episode is named by its file within the folder and its id. Verdicts
of earlier versions, in `feedback.jsonl`, are read before them.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from agentgym_py.errors import DataError, RunError
from agentgym_py.files import append_line, inside, numbered_lines, parse_json
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.preferences import opening_key
from agentgym_py.trajectory.scores import Score, paid_at_end, with_score
from agentgym_py.trajectory.types import Preference

FILE = "verdicts.jsonl"
_OLD_FILE = "feedback.jsonl"
_PEEKED = 1 << 16
"""Bytes of a file's first line that tell whether it holds feedback."""
MAX_STARS = 5


class Ref(NamedTuple):
    """The name of an episode."""

    file: str
    """Path of its store within the folder, with slashes."""
    id: str


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The current verdicts on the episodes of a folder."""

    thumbs: Mapping[Ref, int]
    """1 for a good episode, -1 for a bad one."""
    preferences: tuple[tuple[Ref, Ref], ...]
    """The better and the worse one of each pair."""
    stars: Mapping[Ref, int] = field(default_factory=dict)
    """Ratings from 1, the worst, to 5."""
    replies: Mapping[tuple[Ref, int], str] = field(default_factory=dict)
    """Better replies, by episode and number of the step from 0."""


def rate(folder: Path, episode: Ref, verdict: int) -> None:
    """Rate an episode as good (1) or bad (-1), or withdraw the verdict (0)."""
    if verdict not in (1, 0, -1):
        raise DataError(f"a verdict is 1, 0 or -1, not {verdict!r}")
    _append(folder, {"episode": episode._asdict(), "verdict": verdict})


def prefer(folder: Path, first: Ref, second: Ref, verdict: int) -> None:
    """Prefer the first (1) or the second (-1) of two episodes, or withdraw the verdict (0)."""
    if verdict not in (1, 0, -1) or first == second:
        raise DataError("a preference needs two episodes and a verdict of 1, 0 or -1")
    _append(folder, {"first": first._asdict(), "second": second._asdict(), "verdict": verdict})


def give_stars(folder: Path, episode: Ref, stars: int) -> None:
    """Rate an episode from 1 (worst) to 5, or withdraw the rating (0)."""
    if stars not in range(MAX_STARS + 1):
        raise DataError(f"a rating is a number from 1 to {MAX_STARS}, or 0 to withdraw it, not {stars!r}")
    _append(folder, {"episode": episode._asdict(), "stars": stars})


def correct(folder: Path, episode: Ref, step: int, reply: str) -> None:
    """Write the better reply at a step (from 0) of an episode, or withdraw it (an empty text)."""
    if step < 0:
        raise DataError(f"a step is a number of at least 0, not {step!r}")
    _append(folder, {"episode": episode._asdict(), "step": step, "reply": reply})


def files_of(folder: Path) -> list[Path]:
    """Return the files with a folder's verdicts, the older one first; files of `agentgym judge` are left out."""
    paths = [inside(folder, name) for name in (_OLD_FILE, FILE)]
    return [path for path in paths if path.is_file() and not _is_feedback(path)]


def _is_feedback(path: Path) -> bool:
    """Return whether a file is feedback, whose lines name their kind, and holds no verdicts."""
    with path.open("rb") as file:
        return b'"kind":' in file.readline(_PEEKED)


def read(folder: Path, *, warn: bool = True) -> Verdicts:
    """Read a folder's verdicts, if it has any; a line that was cut off is left out, with a warning.

    Raises:
        DataError: a line is no verdict; the message names it.
    """
    thumbs, pairs = dict[Ref, int](), dict[frozenset[Ref], tuple[Ref, Ref, int]]()
    stars, replies = dict[Ref, int](), dict[tuple[Ref, int], str]()
    for row in chain.from_iterable(_rows(path, warn) for path in files_of(folder)):
        if "stars" in row:
            stars[_ref(row["episode"])] = row["stars"]
        elif "step" in row:
            replies[_ref(row["episode"]), row["step"]] = row["reply"]
        elif "episode" in row:
            thumbs[_ref(row["episode"])] = row["verdict"]
        else:
            first, second = _ref(row["first"]), _ref(row["second"])
            pairs[frozenset((first, second))] = (first, second, row["verdict"])
    return Verdicts(
        {ref: verdict for ref, verdict in thumbs.items() if verdict},
        tuple((a, b) if verdict > 0 else (b, a) for a, b, verdict in pairs.values() if verdict),
        {ref: number for ref, number in stars.items() if number},
        {place: reply for place, reply in replies.items() if reply.strip()},
    )


def judged(folder: str | Path, files: Collection[str] = ()) -> list[Trajectory]:
    """Return the judged episodes of a folder with human rewards instead of the env's, for any offline trainer.

    An episode's reward is its thumb, plus (stars - 3) / 2, plus the preferences it won minus those it lost; it is a
    success above 0. So KTO takes thumbs and stars as good and bad, and DPO, ORPO and the reward model pair episodes of
    a task with different rewards. The reward is at the last step, as the part `human`. Episodes that no longer exist
    are left out with a warning. With `files`, paths of stores within the folder, only their episodes are returned.

    Raises:
        DataError: broken feedback, or a store that cannot be read.
    """
    verdicts = read(Path(folder))
    scores = defaultdict[Ref, float](float, verdicts.thumbs)
    for ref, stars in verdicts.stars.items():
        scores[ref] += (stars - 3) / 2
    for better, worse in verdicts.preferences:
        scores[better] += 1
        scores[worse] -= 1
    refs = {ref for ref in scores if not files or ref.file in files}
    return [_with_reward(t, scores[ref]) for ref, t in episodes_of(Path(folder), refs).items()]


def preferences(folder: str | Path) -> list[Preference]:
    """Return the human preferences as pairs, for `agenttraj.write_pairs` and `export.preference`.

    Raises:
        DataError: as for `judged`.
    """
    pairs = read(Path(folder)).preferences
    episodes = episodes_of(Path(folder), {ref for pair in pairs for ref in pair})
    return [
        Preference(f"{better.id} > {worse.id}", episodes[better], episodes[worse])
        for better, worse in pairs
        if better in episodes and worse in episodes
    ]


def comparable(first: Trajectory, second: Trajectory) -> bool:
    """Tell whether two episodes open alike, so that a preference makes sense."""
    return bool(first.steps and second.steps) and opening_key(first) == opening_key(second)


def episodes_of(folder: Path, refs: set[Ref]) -> dict[Ref, Trajectory]:
    """Read episodes by name, file by file in the order of the stores."""
    episodes: dict[Ref, Trajectory] = {}
    for name in sorted({ref.file for ref in refs}):
        try:
            is_file = inside(folder, name).is_file()
        except RunError:  # it leads out of the folder
            continue
        if is_file:
            episodes |= {Ref(name, t.id): t for t in store.read(folder / name, warn=False) if Ref(name, t.id) in refs}
    if missing := len(refs) - len(episodes):
        warnings.warn(f"{missing} judged episode{'s' * (missing > 1)} no longer in {folder}: left out", stacklevel=3)
    return episodes


def _with_reward(trajectory: Trajectory, score: float) -> Trajectory:
    paid = with_score(trajectory, Score({"human": paid_at_end(score, len(trajectory.steps))}))
    return replace(paid, success=score > 0)


def _append(folder: Path, row: Mapping[str, Any]) -> None:
    stamped = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **row}
    path = inside(folder, FILE)
    if path.is_file() and _is_feedback(path):
        raise DataError(f"{path} holds feedback of agentgym judge and takes no verdicts: rename it")
    line = b"\n" * _is_torn(path) + json.dumps(stamped).encode() + b"\n"
    append_line(path, line)


def _is_torn(path: Path) -> bool:
    """Return whether a file's last line has no end."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


def _rows(path: Path, warn: bool) -> Iterator[dict[str, Any]]:
    """Yield the verdicts of a file; a line that was cut off is no JSON and may be anywhere by now."""
    with path.open("rb") as file:
        for number, line in numbered_lines(file):
            if not line.strip():
                continue
            try:
                row = parse_json(line)
            except ValueError:
                if warn:
                    warnings.warn(f"{path}:{number}: a line that was cut off is left out", stacklevel=4)
                continue
            if not _is_verdict(row):
                raise DataError(f"{path}:{number}: no verdict: {line[:60]!r}")
            yield row


def _is_verdict(row: Any) -> bool:
    """Return whether a row is a thumb, a preference, a rating or a better reply."""
    if not isinstance(row, dict):
        return False
    if "stars" in row:
        is_one = _is_int_in(row["stars"], 0, MAX_STARS)
    elif "step" in row:
        is_one = _is_int_in(row["step"], 0, 1 << 31) and isinstance(row.get("reply"), str)
    else:
        is_one = _is_int_in(row.get("verdict"), -1, 1)
    refs = [row.get("episode")] if "episode" in row or "stars" in row or "step" in row else _pair(row)
    return is_one and all(
        isinstance(r, dict) and isinstance(r.get("file"), str) and isinstance(r.get("id"), str) for r in refs
    )


def _pair(row: Mapping[str, Any]) -> list[Any]:
    return [row.get("first"), row.get("second")]


def _is_int_in(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _ref(value: Mapping[str, str]) -> Ref:
    return Ref(value["file"], value["id"])
