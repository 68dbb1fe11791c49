"""Logs of Inspect: a zip archive with the evaluation's settings and a summary of each sample."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from agentgym_py.errors import DataError
from agentgym_py.evaluation.foreign.log import MOST_JSON, Env, Log, Sample, agent_named, to_number
from agentgym_py.files import canonical_json
from agentgym_py.registry import install_advice
from agentgym_py.trajectory.formats.rows import parse_json
from agentgym_py.trajectory.json_values import quote

_MOST_DIRECTORY = 16 << 20
"""Most bytes of an archive's list of files, each of which takes 50 there and 1,000 in the memory."""
_END64, _LOCATOR, _END = struct.Struct("<4sQ2H2L4Q"), 20, struct.Struct("<4s4H2LH")
"""Records at the end of a zip archive: two of large archives, of which the second has 20 bytes, and the last one."""
_HEADER = 30
"""Bytes before the name of a file in a zip archive."""
_ZSTD = 93
"""Number of zstd in a zip archive, which Python's zipfile reads from 3.14 on."""


def read_inspect(path: Path) -> Log:
    """Read a finished evaluation."""
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
    if max(info.file_size, info.compress_size) > MOST_JSON:
        raise DataError(f"{name} has more than {MOST_JSON >> 20} MiB")
    try:
        with archive.open(info) as file:
            data = file.read(MOST_JSON + 1)
    except NotImplementedError:  # a compression that this Python does not know
        data = _unpacked(archive, info)
    if len(data) > MOST_JSON:
        raise DataError(f"{name} has more than {MOST_JSON >> 20} MiB")
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
        data: bytes = stream.read(MOST_JSON + 1)
    if len(data) <= MOST_JSON and zlib.crc32(data) != info.CRC:
        raise DataError(f"{info.filename} is damaged: its checksum differs")
    return data


def _inspect_evaluation(header: Any, summaries: Any) -> Log:
    spec = _object(header, "eval", "header.json")
    if header.get("status") != "success":
        raise DataError(f"the evaluation did not finish: its status is {quote(header.get('status'))}")
    if not isinstance(summaries, list):
        raise DataError(f"summaries.json: expected a list, found {quote(summaries)}")
    arguments = {"arguments": spec.get("task_args"), "dataset": _object(spec, "dataset", "header.json").get("name")}
    if limits := _limits(spec.get("config")):
        arguments["limits"] = limits
    env = str(spec.get("task")), canonical_json(arguments)
    samples = [_inspect_sample(env, summary, f"summaries.json[{i}]") for i, summary in enumerate(summaries)]
    config = _object(header, "plan", "header.json").get("config")
    config = config if isinstance(config, dict) else {}
    agent = agent_named(
        str(spec.get("model")), temperature=config.get("temperature"), max_new_tokens=config.get("max_tokens")
    )
    return Log(agent, {env: spec.get("task_version")}, samples)


def _limits(config: Any) -> dict[str, Any]:
    """Return the limits of a sample, such as `message_limit`, because another limit is another question."""
    if not isinstance(config, dict):
        return {}
    return {name: value for name, value in config.items() if name.endswith("_limit") and value is not None}


def _object(value: Any, key: str, where: str) -> dict[str, Any]:
    inner = value.get(key) if isinstance(value, dict) else None
    if not isinstance(inner, dict):
        raise DataError(f"{where}: {key}: expected an object, found {quote(inner)}")
    return inner


def _inspect_sample(env: Env, summary: Any, where: str) -> Sample:
    id = summary.get("id") if isinstance(summary, dict) else None
    if not isinstance(id, str | int):
        raise DataError(f"{where}: id: expected text or a number, found {quote(id)}")
    by_scorer = summary.get("scores") or {}
    if not isinstance(by_scorer, dict):
        raise DataError(f"{where}: scores: expected an object, found {quote(by_scorer)}")
    scores: dict[str, float] = {}
    for name, score in by_scorer.items() if summary.get("error") is None else ():
        value = score.get("value") if isinstance(score, dict) else score
        several = {f"{name}/{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
        scores |= {key: number for key, one in several.items() if (number := to_number(one)) is not None}
    return Sample(env, str(id), scores)
