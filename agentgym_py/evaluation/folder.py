"""Evaluation folders: a manifest from which the evaluation can be repeated, its episodes and their summary.

`manifest.json` is written first, `trajectories.jsonl` grows in the order of the jobs, `result.json` is written last. A
folder without a result is an interrupted evaluation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from agentgym_py.agents import Agent
from agentgym_py.env import EnvSpec, Prompt
from agentgym_py.env.tracebacks import contained
from agentgym_py.errors import RunError, setting
from agentgym_py.files import JsonFolder, json_safe, new_folder, parse_json, require_inside, with_current_names
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.types import BY_TOOLS

MANIFEST, TRAJECTORIES, RESULT = "manifest.json", "trajectories.jsonl", "result.json"
SAME_QUESTION = ("worlds", "split", "prompt", "seed")
"""What two evaluations must share for their agents to be compared."""
SAME_EPISODES = (*SAME_QUESTION, "attempts", "agent", "options")
"""What two evaluations with the same episodes share."""
_FORMAT = 1
_KINDS: Mapping[str, Any] = {
    "worlds": list, "split": str, "prompt": str, "seed": int, "attempts": int, "agent": dict | None,
    "options": dict | None,
}  # fmt: skip
"""Types of a manifest's values."""


def make_manifest(
    agent: Agent, envs: Sequence[EnvSpec], split: str, tasks: Sequence[int], attempts: int, prompt: Prompt, seed: int
) -> dict[str, Any]:
    """Return all settings that decide an evaluation's episodes, as JSON values."""
    about: dict[str, Any] = {
        "name": agent.name, "policy_digest": agent.policy_digest, "sampling": dict(agent.sampling),
    }  # fmt: skip
    if agent.sampling.get("tools"):
        about["tool_rules"] = _digest(BY_TOOLS.encode())  # not in a world's rules, which agents without tools share
    manifest = {
        "format": _FORMAT, "agent": about,
        "split": split, "attempts": attempts, "prompt": prompt, "seed": seed,
        "worlds": [_env_manifest(spec, split, tasks, prompt) for spec in envs],
    }  # fmt: skip
    return dict(json_safe(manifest))


def _env_manifest(spec: EnvSpec, split: str, tasks: Sequence[int], prompt: Prompt) -> dict[str, Any]:
    """Describe an env and its tasks, with digests of its rules and of its first state, which depends on its data."""
    local = spec.local_spec
    with contained(f"the world {local.name} fails at its first task"), closing(spec.make()) as env:
        ids = [env.task(number, split).id for number in tasks]
        env.reset(seed=0, options={"task": ids[0]})
        return {
            "id": local.name, "version": env.version, "kwargs": dict(local.kwargs), "max_steps": env.max_steps,
            "rules": _digest(env.rules[prompt].encode()), "first_state": _digest(env.snapshot()), "tasks": ids,
        }  # fmt: skip


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


# ---- differences of two manifests -----------------------------------------------------------------------------------


def differences(first: Mapping[str, Any], second: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    """Describe each difference of two manifests in `keys`.

    A model is identified by its weights: agents of one digest are the same, whatever the model's name or path.
    """
    if same_weights(first, second):
        first, second = _without_model_name(first), _without_model_name(second)
    texts = []
    for key in keys:
        one, other = first.get(key), second.get(key)
        if key == "worlds":
            texts += _env_differences(first[key], second[key])
        elif isinstance(one, Mapping) and isinstance(other, Mapping):
            texts += _mapping_differences(f"{key}'s ", one, other)
        else:
            texts += _mapping_differences("", {key: one}, {key: other})
    return texts


def same_weights(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Tell whether the agents of both manifests are models with the same weights."""
    digests = [(manifest.get("agent") or {}).get("policy_digest") for manifest in (first, second)]
    return digests[0] is not None and digests[0] == digests[1]


def _without_model_name(manifest: Mapping[str, Any]) -> dict[str, Any]:
    copy = dict(manifest)
    for key, name in (("agent", "name"), ("options", "model")):
        if key in copy:
            copy[key] = {field: value for field, value in copy[key].items() if field != name}
    return copy


def _mapping_differences(prefix: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Describe each difference of two mappings; those of nested ones are named by their path."""
    texts = []
    for key in dict.fromkeys([*first, *second]):
        values = first.get(key), second.get(key)
        if values[0] != values[1]:
            one, other = map(_as_mapping, values)
            nested = [] if one is None or other is None else _mapping_differences(f"{prefix}{key}.", one, other)
            texts += nested or [f"{prefix}{key}: {_format_difference(*values)}"]
    return texts


def _as_mapping(value: Any) -> Mapping[str, Any] | None:
    """Return a mapping, or the one in a JSON text, as other programs' arguments are; None of any other value."""
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError:
            return None
    return value if isinstance(value, Mapping) else None


def _format_difference(one: Any, other: Any) -> str:
    """Return `1, not 2`; a setting that one of the two lacks has its default there, and is `not given`."""
    if one is None or other is None:
        first, second = ("not given" if value is None else _format_value(value) for value in (one, other))
        return f"{first}, and {second} in the other"
    return f"{_format_value(one)}, not {_format_value(other)}"


def _format_value(value: Any) -> str:
    """Return text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _env_differences(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [", ".join(world["id"] for world in worlds) for worlds in (first, second)]
    if names[0] != names[1]:
        return [f"worlds: {names[0]}, not {names[1]}"]
    texts = []
    for one, other in zip(first, second, strict=True):
        begins = one["tasks"][:1] == other["tasks"][:1]
        left_out = {"tasks": None} | ({} if begins else {"first_state": None})  # that of another task
        texts += _mapping_differences(f"{one['id']}'s ", {**one, **left_out}, {**other, **left_out})
        if one["tasks"] != other["tasks"]:
            shared = len({*one["tasks"]} & {*other["tasks"]})
            text = f"{one['id']}'s tasks: {shared} in both, of {len(one['tasks'])} and {len(other['tasks'])}"
            firsts = " and ".join(next(iter(world["tasks"]), "none") for world in (one, other))
            in_order = "first_state" in one and not begins  # other programs' tasks have no order
            texts.append(f"{text}, which begin with {firsts}" if in_order else text)
    return texts


# ---- the folder -----------------------------------------------------------------------------------------------------


class EvalFolder(JsonFolder):
    """The folder of an evaluation."""

    @classmethod
    def unfinished(cls, path: str | Path) -> EvalFolder:
        """Return a folder that is new or holds an interrupted evaluation.

        Raises:
            RunError: it holds a finished evaluation, or other files.
        """
        target = Path(path)
        if (target / RESULT).is_file() and (target / MANIFEST).is_file():
            lost = cls(target).read_json(RESULT).get("errors")
            hint = f", or remove its {RESULT} to play the {lost} lost episodes again" if lost else ""
            raise RunError(f"{path} already holds a finished evaluation; choose another {setting('out')}{hint}")
        if not (target / MANIFEST).is_file():
            new_folder(target)
        return cls(target)

    @classmethod
    def finished(cls, path: str | Path) -> EvalFolder:
        """Return a folder that holds a finished evaluation; raises RunError if it does not, or leads out of itself."""
        target = Path(path)
        if not target.exists():
            raise RunError(f"{path}: no such folder")
        if missing := next((name for name in (MANIFEST, TRAJECTORIES, RESULT) if not (target / name).is_file()), None):
            raise RunError(f"{path} holds no finished evaluation: it has no {missing}")
        require_inside(target)
        return cls(target)

    def require_unchanged(self, result: Mapping[str, Any]) -> None:
        """Raise RunError if the episodes are not those that made this content of `result.json`."""
        if result.get("rows", digest := self.digest()) != digest:
            raise RunError(
                f"{self.trajectories} has changed since the evaluation ended; evaluate again into another folder"
            )

    def digest(self) -> str:
        """Return the digest of the stored episodes."""
        with self.trajectories.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @contextmanager
    def recording(self, manifest: Mapping[str, Any]) -> Iterator[list[Trajectory]]:
        """Lock the folder and start or resume the evaluation; gives the episodes that it holds.

        Final episodes that an infrastructure failure ended are dropped and collected again; for others there is
        `replace_lost`.

        Raises:
            RunError: the folder holds another evaluation; the message lists the differences.
        """
        with self.locked():
            EvalFolder.unfinished(self.path)  # again: another process may have finished it meanwhile
            if self.has_begun:
                if different := differences(self.manifest(), manifest, SAME_EPISODES):
                    raise RunError(f"{self.path} holds another evaluation: {'; '.join(different)}")
            else:
                self.write_json(MANIFEST, manifest)
            before = list(store.read(self.trajectories, warn=False)) if self.trajectories.is_file() else []
            if before and not before[-1].is_evidence:
                while before and not before[-1].is_evidence:
                    before.pop()
                store.write(self.trajectories, before)
            yield before

    def replace_lost(
        self, episodes: Sequence[Trajectory], play: Callable[[Sequence[int]], Iterable[Trajectory]]
    ) -> list[Trajectory]:
        """Play the stored episodes that an infrastructure failure ended once more, and store them in their places.

        `play` takes places and yields their episodes in order. A kill keeps those that ended.
        """
        lost = [place for place, trajectory in enumerate(episodes) if not trajectory.is_evidence]
        if not lost:
            return list(episodes)
        path = self.path / f"again-{self.digest()[:16]}.jsonl"  # a kill may leave it; of other episodes it is not read
        again = list(store.read(path, warn=False)) if path.is_file() else []
        with store.TrajectoryWriter(path) as writer:
            for trajectory in play(lost[len(again) :]):
                writer.append(trajectory)
                again.append(trajectory)
        replaced = dict(zip(lost, again, strict=True))
        whole = [replaced.get(place, trajectory) for place, trajectory in enumerate(episodes)]
        store.write(self.trajectories, whole)
        for stale in self.path.glob("again-*.jsonl"):
            stale.unlink()
        return whole

    def discard(self) -> None:
        """Remove an evaluation that stopped before its first episode ended."""
        for name in (TRAJECTORIES, MANIFEST):
            (self.path / name).unlink(missing_ok=True)

    @property
    def trajectories(self) -> Path:
        """The file of the episodes."""
        return self.path / TRAJECTORIES

    def manifest(self) -> dict[str, Any]:
        """Read the manifest; raises RunError if that fails."""
        return read_manifest(self.path / MANIFEST)

    @property
    def has_begun(self) -> bool:
        """Whether the folder holds a manifest."""
        return (self.path / MANIFEST).is_file()

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write the result, which ends the evaluation; API usage is written into the manifest, too."""
        if result.get("spent"):
            self.write_json(MANIFEST, self.manifest() | {"spent": result["spent"]})
        self.write_json(RESULT, result)


def read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest in a file or in an evaluation's folder.

    Raises:
        RunError: it cannot be read, or is not a manifest of this format.
    """
    path = path / MANIFEST if path.is_dir() else path
    manifest = JsonFolder(path.parent).read_json(path.name)
    if missing := [key for key in SAME_EPISODES if key not in manifest]:
        raise RunError(f"{path} is not a manifest of an evaluation: it has no {missing[0]!r}")
    if wrong := next((key for key, kind in _KINDS.items() if not isinstance(manifest[key], kind)), None):
        raise RunError(f"{path} is damaged: its {wrong!r} is {manifest[wrong]!r:.60}")
    if not all(isinstance(world, dict) and _is_world(world) for world in manifest["worlds"]):
        raise RunError(f"{path} is damaged: its 'worlds' are {manifest['worlds']!r:.60}")
    if manifest.get("format") != _FORMAT:
        raise RunError(f"{path} has format {manifest.get('format')}, and {_FORMAT} is what can be read")
    return manifest | {"options": with_current_names(manifest["options"] or {})}


def _is_world(world: Mapping[str, Any]) -> bool:
    tasks = world.get("tasks")
    return isinstance(world.get("id"), str) and isinstance(tasks, list) and all(isinstance(task, str) for task in tasks)
