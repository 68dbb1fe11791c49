"""Episodes of verifiers' `vf-eval`: traces from 0.4 on, results before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentgym_py import files
from agentgym_py.errors import DataError
from agentgym_py.evaluation.foreign.log import MOST_JSON, Log, Sample, agent_named, id_of, scores_of, to_number
from agentgym_py.files import canonical_json, inside
from agentgym_py.trajectory.formats.rows import Row, parse_json, parse_rows, read_rows
from agentgym_py.trajectory.json_values import quote

RESULTS, TRACES = "results.jsonl", "traces.jsonl"
"""The file of verifiers' results: before 0.4, beside `metadata.json`, and from 0.4 on."""


def read_traces(file: Path) -> Log:
    """Read the episodes of `vf-eval` since 0.4."""
    episodes = list(parse_rows(file, read_rows(file), _episode))
    models = dict.fromkeys(model or file.parent.name for model, _ in episodes)
    samples = [sample for _, sample in episodes]
    return Log(agent_named(", ".join(models)), {sample.env: None for sample in samples}, samples)


def _episode(row: Row) -> tuple[str, Sample]:
    """Return the model of an episode, and its sample."""
    traces = row.get("traces")
    trace = traces[0] if isinstance(traces, list) and len(traces) == 1 else None
    if not isinstance(trace, dict):
        raise DataError(f"traces: expected one trace, found {quote(traces)}")
    env = str(_nested(row, "env", "id") or "tasks"), "{}"
    id = id_of(_mapping(row, "task"), "key")
    failed = row.get("ok") is not True or row.get("errors")
    return str(_nested(trace, "agent", "config", "model") or ""), Sample(env, id, {} if failed else _scores(row, trace))


def _scores(row: Row, trace: Row) -> dict[str, float]:
    """Return rewards, metrics and `reward`, the weighted sum of the rewards, as verifiers reports it."""
    rewards = _mapping(trace, "rewards")
    scores = scores_of(row, {name: _nested(reward, "score") for name, reward in rewards.items()})
    weights = {name: to_number(_nested(rewards[name], "weight")) or 0.0 for name in scores}
    total = {"reward": sum(weights[name] * score for name, score in scores.items())} if scores else {}
    return total | scores | scores_of(row, _mapping(trace, "metrics"))


def _mapping(value: Row, key: str) -> dict[str, Any]:
    """Return what stands under a key; an empty mapping if something else does."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _nested(value: Any, *keys: str) -> Any:
    """Return what stands under the keys, one within the other; None if something else does."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def read_results(file: Path) -> Log:
    """Read the results of `vf-eval` before 0.4: a line per rollout; the environment's name is in the metadata."""
    described = inside(file.parent, "metadata.json")
    about = parse_json(files.read_bytes(described, MOST_JSON), described.name) if described.is_file() else {}
    about = about if isinstance(about, dict) else {}
    env = str(about.get("env_id", "tasks")), canonical_json(_mapping(about, "env_args"))

    def sample(row: Row) -> Sample:
        return Sample(
            env, id_of(row, "example_id"), scores_of(row, {"reward": row.get("reward")} | _mapping(row, "metrics"))
        )

    name = str(about.get("model", file.parent.name))
    return Log(agent_named(name), {env: None}, list(parse_rows(file, read_rows(file), sample)))
