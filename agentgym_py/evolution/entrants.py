"""Runs in comparisons: the test of a run's agent stands beside other evaluations of the same tasks.

A run without test tasks (`--test_tasks 0`) is compared on its valid tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym_py.errors import ConfigError, RunError
from agentgym_py.evaluation import foreign
from agentgym_py.evaluation.compare import Entrant, Resources, RoundOutcomes, outcomes_by_task
from agentgym_py.evolution.fork import fork_lines
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.files import canonical_json, clear_read_errors
from agentgym_py.trajectory import Trajectory, store


def load_entrant(path: str | Path, score: str | None = None) -> Entrant:
    """Load what `Entrant.load` does, or a run: `RUN` is its last agent, `RUN@2` that of round 2.

    Raises:
        ConfigError: `score` is given, but the folder is no log of another program.
        RunError: the folder holds no finished evaluation and no run, or the round was not tested.
        DataError: a file cannot be read.
    """
    folder, at, number = str(path).rpartition("@")
    if at and number.isdecimal() and _is_run(folder):
        entrant = _of_run(str(path), RunFolder.open(Path(folder)), int(number))
    else:
        entrant = _of_run(str(path), RunFolder.open(Path(path)), None) if _is_run(path) else Entrant.load(path, score)
    if not foreign.is_foreign(path):
        require_no_score(str(path), score)
    return entrant


def require_no_score(name: str, score: str | None) -> None:
    """Raise ConfigError for a score of one of our own evaluations."""
    if score is not None:
        raise ConfigError(f"{name} has no score {score!r}: scores are of other programs' logs")


def _is_run(path: str | Path) -> bool:
    return Path(path, "run.yaml").is_file()


def _of_run(name: str, folder: RunFolder, number: int | None) -> Entrant:
    if not folder.finished:
        raise RunError(f"{name} is not finished; to resume it: {folder.resume_command()}")
    with clear_read_errors(folder.path):
        return _of_tested(name, folder, number, folder.read_json("test.json"))


def _of_tested(name: str, folder: RunFolder, number: int | None, tested: Mapping[str, Any]) -> Entrant:
    done = folder.finished_rounds()
    split = "test" if tested["rounds"] else "valid"
    summaries = tested["rounds"] or {str(at): folder.metrics(at)["valid"] for at in done}
    number = tested["last"] if number is None else number
    if str(number) not in summaries:
        raise RunError(
            f"{name}: round {number} of {folder.path} was not tested; tested were the rounds {', '.join(summaries)}"
        )
    episodes = list(store.read(folder.round(number) / f"{split}.jsonl"))
    resources = Resources.of(summaries[str(number)])
    rounds = {at: _round(folder, at) for at in done}
    entrant = Entrant.from_trajectories(name, _manifest(folder, episodes, split), episodes, resources)
    return replace(entrant, rounds=rounds)


def _round(folder: RunFolder, number: int) -> RoundOutcomes:
    valid = store.read(folder.round(number) / "valid.jsonl")
    return RoundOutcomes(folder.metrics(number)["policy_digest"], outcomes_by_task(valid))


def _manifest(folder: RunFolder, episodes: Sequence[Trajectory], split: str) -> dict[str, Any]:
    """Describe the evaluation of a run's agent; the run's seed is not part of it, because the agent is greedy.

    Tasks are named by their places, because an episode that failed before its first step has no task's id.
    """
    first = episodes[0].provenance
    worlds: dict[tuple[str, str], dict[str, Any]] = {}
    for episode in episodes:
        about = episode.provenance
        new = {"id": about.env_id, "version": about.env_version, "kwargs": dict(about.env_kwargs), "tasks": []}
        world = worlds.setdefault((about.env_id, canonical_json(about.env_kwargs)), new)
        world["tasks"].append(str(len(world["tasks"])))
        if episode.is_evidence:
            world["version"] = about.env_version
    trainer = Path((folder.config().get("trainer") or {}).get("name") or "").name  # a source without its folder
    by = f" of {trainer}" if trainer and first.agent != "Agent_v0" else ""  # demonstrations made Agent_v0
    agent = {"name": first.agent + by, "policy_digest": first.policy_digest, "sampling": dict(first.sampling)}
    return {
        "run": str(folder.path), "agent": agent, "split": split, "attempts": 1, "prompt": first.prompt, "seed": None,
        "worlds": list(worlds.values()), "fork": " ".join(fork_lines(folder)), "options": {},
    }  # fmt: skip
