"""Samples of lm-eval: a file for each task, with a line for each sample and filter."""

from __future__ import annotations

import re
from pathlib import Path

from agentgym_py.errors import DataError
from agentgym_py.evaluation.foreign.log import Env, Log, Sample, agent_named, to_number
from agentgym_py.files import inside
from agentgym_py.trajectory.formats.rows import Row, parse_rows, read_rows

_SAMPLES = re.compile(r"samples_(.+?)(?:_\d{4}-\d\d-\d\dT[\d.-]+)?\.jsonl")


def read_lm_eval(path: Path) -> Log:
    """Read a file of samples, or all of a folder, in which each task may occur once."""
    files = [inside(path, file.name) for file in sorted(path.glob("samples_*.jsonl"))] if path.is_dir() else [path]
    samples, tasks = list[Sample](), dict[str, Path]()
    for file in files:
        named = _SAMPLES.fullmatch(file.name)
        task = named[1] if named else file.stem
        if (other := tasks.setdefault(task, file)) != file:
            raise DataError(f"{path} holds two evaluations of {task}: {other.name} and {file.name}; name one of them")
        samples += _lm_eval_samples(file, (task, "{}"))
    name = (path if path.is_dir() else path.parent).name or str(path)
    return Log(agent_named(name), {(task, "{}"): None for task in tasks}, samples)


def _lm_eval_samples(path: Path, env: Env) -> list[Sample]:
    """Return the samples of a file."""
    scores: dict[str, dict[str, float]] = {}
    for id, values in parse_rows(path, read_rows(path), _lm_eval_scores):
        metrics = scores.setdefault(id, {})
        if repeated := next((name for name in values if name in metrics), None):
            raise DataError(f"{path}: sample {id} has two values of {repeated}")
        metrics |= values
    return [Sample(env, id, values) for id, values in scores.items()]


def _lm_eval_scores(row: Row) -> tuple[str, dict[str, float]]:
    """Return the id of a line's sample, with a digest of its document, and its scores, as `metric,filter`."""
    id, metrics = row.get("doc_id"), row.get("metrics")
    if not isinstance(id, str | int) or not isinstance(metrics, list):
        found = ", ".join(sorted(row)[:6])
        raise DataError(
            f"no sample of lm-eval: expected the keys doc_id and metrics, found {found}; lines of your own have the "
            "keys task and success"
        )
    numbers = {f"{name},{row.get('filter')}": to_number(row.get(name)) for name in metrics if isinstance(name, str)}
    document = str(row.get("doc_hash", ""))[:8]
    return f"{id}/{document}", {name: number for name, number in numbers.items() if number is not None}
