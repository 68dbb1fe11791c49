"""Loads an evaluation of another program, whichever it is."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentgym_py.errors import DataError, setting
from agentgym_py.evaluation.folder import MANIFEST
from agentgym_py.evaluation.foreign.inspect import read_inspect
from agentgym_py.evaluation.foreign.lm_eval import read_lm_eval
from agentgym_py.evaluation.foreign.log import Env, Log, Sample, agent_named, id_of, scores_of
from agentgym_py.evaluation.foreign.verifiers import RESULTS, TRACES, read_results, read_traces
from agentgym_py.files import inside
from agentgym_py.trajectory.formats.rows import Row, parse_rows, read_rows

_OWN: Env = ("tasks", "{}")
"""That of rows which name no environment."""
_LOGS = "*.eval"
"""Names of Inspect's logs in a folder."""


def is_foreign(path: str | Path) -> bool:
    """Return whether a path is a file, or a folder with logs of Inspect, samples of lm-eval or results of verifiers."""
    target = Path(path)
    has_logs = not (target / MANIFEST).is_file() and any(target.glob(_LOGS))
    return target.is_file() or _has_rows(target) or has_logs


def _has_rows(folder: Path) -> bool:
    """Return whether a folder holds samples of lm-eval or results of verifiers."""
    return any((folder / name).is_file() for name in (RESULTS, TRACES)) or any(folder.glob("samples_*.jsonl"))


class Loaded(NamedTuple):
    """An evaluation of another program, as parts of an `Entrant`."""

    manifest: dict[str, Any]
    outcomes: dict[tuple[str, str, str], list[bool]]
    """Whether each attempt at a task has the score."""
    lost: int
    """Attempts without the score, such as those that ended with an error."""


def load(path: str | Path, score: str | None = None) -> Loaded:
    """Load an `.eval` log of Inspect, or rows of another program.

    Raises:
        DataError: another file, an unfinished evaluation, or no such score; without `score`, not exactly one is right
            or wrong in every sample, and none or several of those that are have the name `success`.
    """
    target = Path(path)
    target = _log_in(target) if target.is_dir() else target
    log = read_inspect(target) if _is_zip(target) else _log_of_rows(target)
    name = _chosen_score(target, log.samples, score)
    outcomes: defaultdict[tuple[str, str, str], list[bool]] = defaultdict(list)
    tasks: defaultdict[Env, set[str]] = defaultdict(set)
    for sample in log.samples:
        tasks[sample.env].add(sample.id)
        if name in sample.scores:
            outcomes[*sample.env, sample.id].append(sample.scores[name] == 1)
    worlds = [
        {"id": env[0], "version": log.versions[env], "kwargs": env[1], "tasks": sorted(tasks[env], key=_place)}
        for env in sorted(tasks)
    ]
    attempts = max(map(len, outcomes.values()), default=0)
    manifest = {"agent": log.agent, "worlds": worlds, "score": name, "attempts": attempts}
    in_order = sorted(outcomes, key=lambda task: _place("\n".join(task)))
    lost = sum(name not in sample.scores for sample in log.samples)
    return Loaded(manifest | {"split": "", "prompt": "", "seed": 0}, {task: outcomes[task] for task in in_order}, lost)


def _log_in(path: Path) -> Path:
    """Return the log of Inspect in a folder, or the path itself if it holds rows; raises DataError for several logs."""
    logs = [] if _has_rows(path) else [inside(path, file.name) for file in sorted(path.glob(_LOGS))]
    if len(logs) > 1:
        raise DataError(f"{path} holds {len(logs)} logs of Inspect; name one of them, such as {logs[-1]}")
    return logs[0] if logs else path


def _place(task: str) -> bytes:
    """Return where a task stands: programs log tasks as they end, so the order of a log may depend on outcomes."""
    return hashlib.sha256(task.encode()).digest()


def _chosen_score(path: Path, samples: Sequence[Sample], score: str | None) -> str:
    """Return the name of the score to compare."""
    values: defaultdict[str, set[float]] = defaultdict(set)
    for sample in samples:
        for name, value in sample.scores.items():
            values[name].add(value)
    binary = sorted(name for name in values if values[name] <= {0, 1})
    if score is None:
        binary = [name for name in binary if is_success(name)] or binary
        if len(binary) != 1:
            several = f"several scores; choose one with {setting('score')}: {', '.join(binary)}"
            raise DataError(f"{path}: {several if binary else _no_score(values)}")
        return binary[0]
    if score not in values:
        raise DataError(f"{path}: no {setting('score', score)}; there are {', '.join(sorted(values)) or 'none'}")
    if score not in binary:
        other = min(values[score] - {0, 1})
        raise DataError(f"{path}: {setting('score', score)} is not right or wrong in every sample; one has {other:g}")
    return score


def is_success(score: str) -> bool:
    """Return whether a score is called success, such as `outcome/success`; it is taken before others."""
    return score.rpartition("/")[2] == "success"


def _no_score(values: Mapping[str, set[float]]) -> str:
    names = ", ".join(sorted(values))
    return (
        f"no score is right or wrong in every sample; there are {names}"
        if names
        else "no sample has a score: a number, true or false"
    )


def _is_zip(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def _log_of_rows(path: Path) -> Log:
    """Choose the reader of JSON lines by their first one."""
    file = path
    if path.is_dir():
        file = next((inside(path, name) for name in (TRACES, RESULTS) if (path / name).is_file()), path)
    if file.is_file():
        _, first = next(read_rows(file, warn=False), ("", {}))
        if "traces" in first:
            return read_traces(file)
        if "example_id" in first:
            return read_results(file)
        if {"provenance", "steps"} <= first.keys():
            raise DataError(
                f"{path}: trajectories of agentgym; name the folder of the evaluation, or the run. Episodes of "
                "agentgym collect are no evaluation: use agentgym eval --out FOLDER"
            )
        if {"eval", "status"} <= first.keys():
            raise DataError(
                f"{path}: a log of Inspect as JSON, and .eval is what can be read; `inspect log convert` writes one "
                "from it"
            )
        if "task" in first and "doc_id" not in first:
            return Log(agent_named(path.stem), {_OWN: None}, list(parse_rows(path, read_rows(path), _own_sample)))
    return read_lm_eval(path)


def _own_sample(row: Row) -> Sample:
    """Return the attempt of a line `{"task": …, "success": true}`; every number beside the task is a score."""
    return Sample(_OWN, id_of(row, "task"), scores_of(row, {key: row[key] for key in row if key != "task"}))
