"""The format of snapshots: JSON in bytes, and what every snapshot must have, whatever its world."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentgym_py.env.types import StopReason
from agentgym_py.errors import SnapshotError

SNAPSHOT_FORMAT = 1
_ENDS = ("", StopReason.TERMINATED, StopReason.TRUNCATED)
"""Values of `ended`; empty while the episode runs."""
_KINDS = {"task": str, "steps": int, "ended": str, "success": bool, "rng": int, "last": str, "state": dict}
_KEYS = dict.fromkeys(("format", "env", "version", *_KINDS)).keys()
_RNG_STATES = range(1 << 64)
_WRITER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def write_snapshot(data: Mapping[str, Any]) -> bytes:
    """Return the bytes of a snapshot."""
    return _WRITER.encode(data).encode("utf-8", "surrogatepass")


def read_snapshot(snapshot: bytes, env: str) -> dict[str, Any]:
    """Return the content of a snapshot of a world, whose values have the right types.

    Raises:
        SnapshotError: it is no snapshot, or one of another format or world.
    """
    try:
        # json.loads would first guess the encoding of bytes
        data = json.loads(snapshot.decode("utf-8", "surrogatepass") if type(snapshot) is bytes else snapshot)
    except (ValueError, TypeError, RecursionError) as error:
        raise SnapshotError(f"The bytes are not a snapshot: no JSON: {error}") from error
    if not isinstance(data, dict):
        raise SnapshotError(f"The bytes are not a snapshot: {data!r:.60} is not a JSON object")
    if not data.keys() >= _KEYS:
        raise SnapshotError(f"The bytes are not a snapshot: they lack {', '.join(k for k in _KEYS if k not in data)}")
    for key, value in (("format", SNAPSHOT_FORMAT), ("env", env)):
        if data[key] != value:
            raise SnapshotError(f"The snapshot does not fit: its {key} is {data[key]!r:.100}, not {value!r}")
    for key, kind in _KINDS.items():
        if type(data[key]) is not kind:
            raise SnapshotError(f"A snapshot's {key!r} must be of type {kind.__name__}, got {data[key]!r:.60}")
    if data["steps"] < 0 or data["ended"] not in _ENDS or data["rng"] not in _RNG_STATES:
        raise SnapshotError("The snapshot has an impossible 'steps', 'ended' or 'rng'")
    return data


def require_end(data: Mapping[str, Any], max_steps: int) -> None:
    """Raise SnapshotError unless steps, end and success of a snapshot agree, in a world that stops at the end."""
    steps, ended = data["steps"], data["ended"]
    if steps > max_steps or (not ended and steps == max_steps) or (ended == "truncated" and steps < max_steps):
        raise SnapshotError(f"A snapshot of {steps} steps that is {ended or 'not ended'}; max_steps is {max_steps}")
    if ended and not steps:
        raise SnapshotError(f"A snapshot that is {ended} before the first step")
    if data["success"] and not ended:
        raise SnapshotError("A snapshot of success whose episode has not ended")
