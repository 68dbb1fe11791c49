"""Evaluations of other programs, for `agentgym compare`: logs of Inspect, lm-eval and verifiers, and rows of one's own.

A sample is a task, its epochs are attempts. Compared is one score, which is right or wrong in every sample. Samples
that ended with an error or have no score are left out, as after an infrastructure failure.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentgym_py import files
from agentgym_py.checks import is_finite
from agentgym_py.errors import DataError, setting
from agentgym_py.files import canonical_json, inside
from agentgym_py.registry import install_advice
from agentgym_py.trajectory.formats.rows import Row, parse_json, parse_rows, read_rows
from agentgym_py.trajectory.json_values import quote

_MOST_DIRECTORY = 16 << 20
"""Most bytes of an archive's list of files, each of which takes 50 there and 1,000 in the memory."""
_END64, _LOCATOR, _END = struct.Struct("<4sQ2H2L4Q"), 20, struct.Struct("<4s4H2LH")
"""Records at the end of a zip archive: two of large archives, of which the second has 20 bytes, and the last one."""
MOST_MEMBER = 64 << 20
"""Largest file within an `.eval` log in bytes, unpacked."""
_HEADER = 30
"""Bytes before the name of a file in a zip archive."""
RESULTS, TRACES = "results.jsonl", "traces.jsonl"
"""The file of verifiers' results: before 0.4, beside `metadata.json`, and from 0.4 on."""
_ZSTD = 93
"""Number of zstd in a zip archive, which Python's zipfile reads from 3.14 on."""
_SAMPLES = re.compile(r"samples_(.+?)(?:_\d{4}-\d\d-\d\dT[\d.-]+)?\.jsonl")
_WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Texts among the values of Inspect's scorers."""
Env = tuple[str, str]
"""Name and arguments of a task of the other program, which stands for an environment."""
_OWN: Env = ("tasks", "{}")
"""That of rows which name no environment."""


class Sample(NamedTuple):
    """An attempt at a sample."""

    env: Env
    id: str
    scores: Mapping[str, float]
    """Its scores by name; empty if it ended with an error."""


class Log(NamedTuple):
    """An evaluation of another program."""

    agent: Mapping[str, Any]
    """As in the manifest of an evaluation."""
    versions: Mapping[Env, Any]
    """Versions of the tasks."""
    samples: Sequence[Sample]


def is_foreign(path: str | Path) -> bool:
    """Return whether a path is a file, or a folder with samples of lm-eval or results of verifiers."""
    target = Path(path)
    named = any((target / name).is_file() for name in (RESULTS, TRACES))
    return target.is_file() or named or any(target.glob("samples_*.jsonl"))


def load(path: str | Path, score: str | None = None) -> tuple[dict[str, Any], dict[tuple[str, str, str], list[bool]]]:
    """Load an `.eval` log of Inspect, or rows of another program: its manifest, and outcomes by task.

    Raises:
        DataError: another file, an unfinished evaluation, or no such score; without `score`, not exactly one is right
            or wrong in every sample.
    """
    target = Path(path)
    log = _inspect_log(target) if _is_zip(target) else _log_of_rows(target)
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
    return manifest | {"split": "", "prompt": "", "seed": 0}, {task: outcomes[task] for task in in_order}


def _place(task: str) -> bytes:
    """Return where a task stands: programs log tasks as they end, so the order of a log may depend on outcomes."""
    return hashlib.sha256(task.encode()).digest()


def _chosen_score(path: Path, samples: Sequence[Sample], score: str | None) -> str:
    """The name of the score to compare."""
    values: defaultdict[str, set[float]] = defaultdict(set)
    for sample in samples:
        for name, value in sample.scores.items():
            values[name].add(value)
    binary = sorted(name for name in values if values[name] <= {0, 1})
    if score is None:
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


def _no_score(values: Mapping[str, set[float]]) -> str:
    names = ", ".join(sorted(values))
    return f"no score is right or wrong in every sample; there are {names}" if names else "no sample has a score"


# ------------------------------------------------------------------------------------------------------------- Inspect


def _is_zip(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def _inspect_log(path: Path) -> Log:
    try:
        _require_few_files(path)
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if "header.json" not in names or "summaries.json" not in names:
                raise DataError("no finished evaluation of Inspect: header.json or summaries.json is missing")
            header, summaries = (_member(archive, name) for name in ("header.json", "summaries.json"))
        return _inspect_evaluation(header, summaries)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{path}: no log of Inspect: {error}") from error


def _require_few_files(path: Path) -> None:
    """Raise DataError if an archive's list of files would fill the memory."""
    with path.open("rb") as file:
        file.seek(-min(path.stat().st_size, _END64.size + _LOCATOR + _END.size + (1 << 16)), os.SEEK_END)
        tail = file.read()
    if (at := tail.rfind(b"PK\5\6")) < 0 or len(tail) - at < _END.size:
        return  # no archive, which zipfile says
    size, large = _END.unpack_from(tail, at)[5], at - _LOCATOR - _END64.size
    if large >= 0 and tail[at - _LOCATOR :].startswith(b"PK\6\7"):
        size = _END64.unpack_from(tail, large)[8]
    if size > _MOST_DIRECTORY:
        raise DataError(f"its list of files has more than {_MOST_DIRECTORY >> 20} MiB")


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    """Read a JSON file of an archive, within limits."""
    info = archive.getinfo(name)
    if max(info.file_size, info.compress_size) > MOST_MEMBER:
        raise DataError(f"{name} has more than {MOST_MEMBER >> 20} MiB")
    try:
        with archive.open(info) as file:
            data = file.read(MOST_MEMBER + 1)
    except NotImplementedError:  # a compression that this Python does not know
        data = _unpacked(archive, info)
    if len(data) > MOST_MEMBER:
        raise DataError(f"{name} has more than {MOST_MEMBER >> 20} MiB")
    return parse_json(data, name)


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Unpack a file that is compressed with zstd, by pyarrow, up to the limit."""
    if info.compress_type != _ZSTD:
        raise DataError(f"{info.filename} is compressed by method {info.compress_type}, which cannot be read")
    try:
        import pyarrow
    except ImportError as error:
        raise DataError(f"zstd needs pyarrow, part of the extra `train`: {install_advice('train')}") from error
    file = archive.fp
    assert file is not None
    file.seek(info.header_offset)
    header = file.read(_HEADER)
    name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    file.seek(info.header_offset + _HEADER + name + extra)
    packed = pyarrow.BufferReader(file.read(info.compress_size))
    with pyarrow.CompressedInputStream(packed, "zstd") as stream:
        data: bytes = stream.read(MOST_MEMBER + 1)
    if len(data) <= MOST_MEMBER and zlib.crc32(data) != info.CRC:
        raise DataError(f"{info.filename} is damaged: its checksum differs")
    return data


def _inspect_evaluation(header: Any, summaries: Any) -> Log:
    spec = _object(header, "eval", "header.json")
    if header.get("status") != "success":
        raise DataError(f"the evaluation did not finish: its status is {quote(header.get('status'))}")
    if not isinstance(summaries, list):
        raise DataError(f"summaries.json: expected a list, found {quote(summaries)}")
    arguments = {"arguments": spec.get("task_args"), "dataset": _object(spec, "dataset", "header.json").get("name")}
    env = str(spec.get("task")), canonical_json(arguments)
    samples = [_inspect_sample(env, summary, f"summaries.json[{i}]") for i, summary in enumerate(summaries)]
    config = _object(header, "plan", "header.json").get("config")
    config = config if isinstance(config, dict) else {}
    named = {"temperature": config.get("temperature"), "max_new_tokens": config.get("max_tokens")}
    sampling = {name: value for name, value in named.items() if is_finite(value)}
    agent = {"name": str(spec.get("model")), "policy_digest": None, "sampling": sampling}
    return Log(agent, {env: spec.get("task_version")}, samples)


def _object(value: Any, key: str, where: str) -> dict[str, Any]:
    inner = value.get(key) if isinstance(value, dict) else None
    if not isinstance(inner, dict):
        raise DataError(f"{where}: {key}: expected an object, found {quote(inner)}")
    return inner


def _inspect_sample(env: Env, summary: Any, where: str) -> Sample:
    id = summary.get("id") if isinstance(summary, dict) else None
    if not isinstance(id, str | int):
        raise DataError(f"{where}: id: expected text or a number, found {quote(id)}")
    given = summary.get("scores") or {}
    if not isinstance(given, dict):
        raise DataError(f"{where}: scores: expected an object, found {quote(given)}")
    scores: dict[str, float] = {}
    for name, score in given.items() if summary.get("error") is None else ():
        value = score.get("value") if isinstance(score, dict) else score
        several = {f"{name}/{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
        scores |= {key: number for key, one in several.items() if (number := _number(one)) is not None}
    return Sample(env, str(id), scores)


def _number(value: Any) -> float | None:
    """A score as a number; None if it is none."""
    if isinstance(value, str):
        value = _WORDS.get(value, _WORDS.get(value.lower()))
    return float(value) if isinstance(value, bool) or is_finite(value) else None


# ------------------------------------------------------------------------------------------------------------- lm-eval


def _lm_eval_log(path: Path) -> Log:
    files = [inside(path, file.name) for file in sorted(path.glob("samples_*.jsonl"))] if path.is_dir() else [path]
    samples, tasks = list[Sample](), dict[str, Path]()
    for file in files:
        named = _SAMPLES.fullmatch(file.name)
        task = named[1] if named else file.stem
        if (other := tasks.setdefault(task, file)) != file:
            raise DataError(f"{path} holds two evaluations of {task}: {other.name} and {file.name}; name one of them")
        samples += _lm_eval_samples(file, (task, "{}"))
    name = (path if path.is_dir() else path.parent).name or str(path)
    agent: dict[str, Any] = {"name": name, "policy_digest": None, "sampling": {}}
    return Log(agent, {(task, "{}"): None for task in tasks}, samples)


def _lm_eval_samples(path: Path, env: Env) -> list[Sample]:
    """The samples of a file, which has a line for each sample and filter."""
    scores: dict[str, dict[str, float]] = {}
    for id, values in parse_rows(path, read_rows(path), _lm_eval_scores):
        known = scores.setdefault(id, {})
        if repeated := next((name for name in values if name in known), None):
            raise DataError(f"{path}: sample {id} has two values of {repeated}")
        known |= values
    return [Sample(env, id, values) for id, values in scores.items()]


def _lm_eval_scores(row: Row) -> tuple[str, dict[str, float]]:
    """The id of a line's sample, with a digest of its document, and its scores, as `metric,filter`."""
    id, metrics = row.get("doc_id"), row.get("metrics")
    if not isinstance(id, str | int) or not isinstance(metrics, list):
        found = ", ".join(sorted(row)[:6])
        raise DataError(f"no sample of lm-eval: expected the keys doc_id and metrics, found {found}")
    numbers = {f"{name},{row.get('filter')}": _number(row.get(name)) for name in metrics if isinstance(name, str)}
    document = str(row.get("doc_hash", ""))[:8]
    return f"{id}/{document}", {name: number for name, number in numbers.items() if number is not None}


# --------------------------------------------------------------------------------------------- verifiers and own rows


def _log_of_rows(path: Path) -> Log:
    """Choose the reader of JSON lines by their first one."""
    file = path
    if path.is_dir():
        file = next((inside(path, name) for name in (TRACES, RESULTS) if (path / name).is_file()), path)
    if file.is_file():
        _, first = next(read_rows(file, warn=False), ("", {}))
        if "traces" in first:
            return _traces_log(file)
        if "example_id" in first:
            return _verifiers_log(file)
        if "task" in first and "doc_id" not in first:
            agent: dict[str, Any] = {"name": path.stem, "policy_digest": None, "sampling": {}}
            return Log(agent, {_OWN: None}, list(parse_rows(path, read_rows(path), _own_sample)))
    return _lm_eval_log(path)


def _traces_log(file: Path) -> Log:
    """Read the episodes of `vf-eval`; `reward` is the weighted sum of the rewards, as verifiers reports it."""
    models: dict[str, None] = {}
    versions: dict[Env, Any] = {}

    def sample(row: Row) -> Sample:
        traces = row.get("traces")
        trace = traces[0] if isinstance(traces, list) and len(traces) == 1 else None
        if not isinstance(trace, dict):
            raise DataError(f"traces: expected one trace, found {quote(traces)}")
        env = str(_nested(row, "env", "id") or "tasks"), "{}"
        versions[env] = None
        models[str(_nested(trace, "agent", "config", "model") or file.parent.name)] = None
        task = _nested(row, "task")
        id = _id_of(task if isinstance(task, dict) else {}, "key")
        if row.get("ok") is not True or row.get("errors"):
            return Sample(env, id, {})
        rewards, metrics = (
            found if isinstance(found := trace.get(key), dict) else {} for key in ("rewards", "metrics")
        )
        scores = _scores_of(row, {name: _nested(reward, "score") for name, reward in rewards.items()})
        weights = {name: _number(_nested(rewards[name], "weight")) or 0.0 for name in scores}
        total = {"reward": sum(weights[name] * score for name, score in scores.items())} if scores else {}
        return Sample(env, id, total | scores | _scores_of(row, metrics))

    samples = list(parse_rows(file, read_rows(file), sample))
    agent: dict[str, Any] = {"name": ", ".join(models), "policy_digest": None, "sampling": {}}
    return Log(agent, versions, samples)


def _nested(value: Any, *keys: str) -> Any:
    """Return what stands under the keys, one within the other; None if something else does."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _verifiers_log(file: Path) -> Log:
    """Read the results of `vf-eval`, which have a line per rollout; the environment's name is in the metadata."""
    described = inside(file.parent, "metadata.json")
    about = parse_json(files.read_bytes(described, MOST_MEMBER), described.name) if described.is_file() else {}
    about = about if isinstance(about, dict) else {}
    arguments = about.get("env_args")
    env = str(about.get("env_id", "tasks")), canonical_json(arguments) if isinstance(arguments, dict) else "{}"

    def sample(row: Row) -> Sample:
        metrics = row.get("metrics")
        values = {"reward": row.get("reward")} | (metrics if isinstance(metrics, dict) else {})
        return Sample(env, _id_of(row, "example_id"), _scores_of(row, values))

    name = str(about.get("model", file.parent.name))
    agent: dict[str, Any] = {"name": name, "policy_digest": None, "sampling": {}}
    return Log(agent, {env: None}, list(parse_rows(file, read_rows(file), sample)))


def _own_sample(row: Row) -> Sample:
    """Return the attempt of a line `{"task": …, "success": true}`; every number beside the task is a score."""
    return Sample(_OWN, _id_of(row, "task"), _scores_of(row, {key: row[key] for key in row if key != "task"}))


def _id_of(row: Row, key: str) -> str:
    if not isinstance(row.get(key), str | int):
        raise DataError(f"{key}: expected text or a number, found {quote(row.get(key))}")
    return str(row[key])


def _scores_of(row: Row, values: Mapping[str, Any]) -> dict[str, float]:
    """Return those values that are numbers; none of an attempt that ended with an error."""
    if row.get("error") is not None:
        return {}
    return {name: number for name, value in values.items() if (number := _number(value)) is not None}
