"""Human feedback: thumbs and preferences in a file beside the store, and training data from them.

`feedback.jsonl` has one verdict per line and is only appended to; of several verdicts on the same episode or pair the
last one counts. An episode is named by its file within the folder and its id.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from agentgym_py.errors import DataError, RunError
from agentgym_py.files import append_line, inside
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.preferences import opening_key
from agentgym_py.trajectory.types import Preference

FILE = "feedback.jsonl"


class Ref(NamedTuple):
    """The name of an episode."""

    file: str
    """Path of its store within the folder, with slashes."""
    id: str


@dataclass(frozen=True, slots=True)
class Feedback:
    """The current verdicts on the episodes of a folder."""

    thumbs: Mapping[Ref, int]
    """1 for a good episode, -1 for a bad one."""
    preferences: tuple[tuple[Ref, Ref], ...]
    """The better and the worse one of each pair."""


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


def read(folder: Path, *, warn: bool = True) -> Feedback:
    """Read a folder's feedback, if it has any; a line that was cut off is left out, with a warning.

    Raises:
        DataError: a line is no feedback; the message names it.
    """
    thumbs, pairs = dict[Ref, int](), dict[frozenset[Ref], tuple[Ref, Ref, int]]()
    for row in _rows(inside(folder, FILE), warn):
        if "episode" in row:
            thumbs[_ref(row["episode"])] = row["verdict"]
        else:
            first, second = _ref(row["first"]), _ref(row["second"])
            pairs[frozenset((first, second))] = (first, second, row["verdict"])
    return Feedback(
        {ref: verdict for ref, verdict in thumbs.items() if verdict},
        tuple((a, b) if verdict > 0 else (b, a) for a, b, verdict in pairs.values() if verdict),
    )


def judged(folder: str | Path) -> list[Trajectory]:
    """Return the judged episodes of a folder with human rewards instead of the env's, for any offline trainer.

    An episode's reward is its thumb plus the preferences it won minus those it lost; it is a success above 0. So KTO
    takes thumbs as good and bad, and DPO, ORPO and the reward model pair episodes of a task with different rewards. The
    reward is at the last step, as the part `human`. Episodes that no longer exist are left out with a warning.

    Raises:
        DataError: broken feedback, or a store that cannot be read.
    """
    verdicts = read(Path(folder))
    scores = Counter(verdicts.thumbs)
    for better, worse in verdicts.preferences:
        scores[better] += 1
        scores[worse] -= 1
    return [_with_reward(t, scores[ref]) for ref, t in _episodes(Path(folder), set(scores)).items()]


def preferences(folder: str | Path) -> list[Preference]:
    """Return the human preferences as pairs, for `agenttraj.write_pairs` and `export.preference`.

    Raises:
        DataError: as for `judged`.
    """
    pairs = read(Path(folder)).preferences
    episodes = _episodes(Path(folder), {ref for pair in pairs for ref in pair})
    return [
        Preference(f"{better.id} > {worse.id}", episodes[better], episodes[worse])
        for better, worse in pairs
        if better in episodes and worse in episodes
    ]


def comparable(first: Trajectory, second: Trajectory) -> bool:
    """Tell whether two episodes open alike, so that a preference makes sense."""
    return bool(first.steps and second.steps) and opening_key(first) == opening_key(second)


def _episodes(folder: Path, refs: set[Ref]) -> dict[Ref, Trajectory]:
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


def _with_reward(trajectory: Trajectory, score: int) -> Trajectory:
    steps = [replace(step, reward=0.0, reward_parts={}) for step in trajectory.steps]
    if steps:
        steps[-1] = replace(steps[-1], reward=float(score), reward_parts={"human": float(score)})
    return replace(trajectory, steps=tuple(steps), reward=float(score), success=score > 0)


def _append(folder: Path, row: Mapping[str, Any]) -> None:
    stamped = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **row}
    path = inside(folder, FILE)
    torn = path.is_file() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    line = b"\n" * torn + json.dumps(stamped).encode() + b"\n"
    append_line(path, line)


def _rows(path: Path, warn: bool) -> Iterator[dict[str, Any]]:
    """Yield the lines of a feedback file; a line that was cut off is no JSON and may be anywhere by now."""
    if not path.is_file():
        return
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if warn:
                warnings.warn(f"{path}:{number}: a line that was cut off is left out", stacklevel=4)
            continue
        if not _is_verdict(row):
            raise DataError(f"{path}:{number}: no feedback: {line[:60]!r}")
        yield row


def _is_verdict(row: Any) -> bool:
    if not isinstance(row, dict) or type(row.get("verdict")) is not int or row["verdict"] not in (1, 0, -1):
        return False
    refs = [row.get("episode")] if "episode" in row else [row.get("first"), row.get("second")]
    return all(isinstance(r, dict) and isinstance(r.get("file"), str) and isinstance(r.get("id"), str) for r in refs)


def _ref(value: Mapping[str, str]) -> Ref:
    return Ref(value["file"], value["id"])
