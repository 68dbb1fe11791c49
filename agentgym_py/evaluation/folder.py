"""Evaluation folders: a manifest that repeats the evaluation, its episodes, and what came of them.

`manifest.json` is written first, `trajectories.jsonl` grows in the order of the jobs, `result.json` is written last: a
folder that has no result is an evaluation that was interrupted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_py.agents import Agent
from agentgym_py.env import EnvSpec, Prompt
from agentgym_py.errors import RunError
from agentgym_py.files import JsonFolder, canonical_json, json_safe, new_folder, with_current_names
from agentgym_py.trajectory import Trajectory, store

MANIFEST, ROWS, RESULT = "manifest.json", "trajectories.jsonl", "result.json"
SAME_QUESTION = ("worlds", "split", "prompt", "seed")
"""What two evaluations must share for their agents to be compared."""
SAME_ROWS = (*SAME_QUESTION, "attempts", "agent", "options")
"""What two evaluations share that give the same episodes."""
_FORMAT = 1


def manifest_of(
    agent: Agent, envs: Sequence[EnvSpec], split: str, tasks: Sequence[int], attempts: int, prompt: Prompt, seed: int
) -> dict[str, Any]:
    """Everything that decides an evaluation's episodes, as JSON values."""
    who = {"name": agent.name, "policy_digest": agent.policy_digest, "sampling": dict(agent.sampling)}
    found = {
        "format": _FORMAT, "agent": who, "split": split, "attempts": attempts, "prompt": prompt, "seed": seed,
        "worlds": [_world(spec, split, tasks, prompt) for spec in envs],
    }  # fmt: skip
    return dict(json_safe(found))


def _world(spec: EnvSpec, split: str, tasks: Sequence[int], prompt: Prompt) -> dict[str, Any]:
    """A world as it is made, its tasks, and digests of its rules and of its first state, which a catalogue changes."""
    world = spec.local_spec
    with closing(spec.make()) as env:
        ids = [env.task(number, split).id for number in tasks]
        env.reset(seed=0, options={"task": ids[0]})
        return {
            "id": world.name, "version": env.version, "kwargs": dict(world.kwargs), "max_steps": env.max_steps,
            "rules": _digest(env.rules[prompt].encode()), "first_state": _digest(env.snapshot()), "tasks": ids,
        }  # fmt: skip


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


# ---- in what two manifests differ -----------------------------------------------------------------------------------


def differences(first: Mapping[str, Any], second: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    """In what of `keys` the second manifest differs from the first, each in a few words.

    A model is its weights: agents of one digest are the same agent, whatever the name or the path of their model.
    """
    if same_weights(first, second):
        first, second = _nameless(first), _nameless(second)
    found = []
    for key in keys:
        if key == "worlds":
            found += _of_worlds(first[key], second[key])
        elif isinstance(first.get(key), Mapping) and isinstance(second.get(key), Mapping):
            found += _of_mappings(f"{key}'s ", first[key], second[key])
        else:
            found += _of_mappings("", {key: first.get(key)}, {key: second.get(key)})
    return found


def same_weights(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether the agents of both manifests are models of the same weights."""
    digests = [(each.get("agent") or {}).get("policy_digest") for each in (first, second)]
    return digests[0] is not None and digests[0] == digests[1]


def _nameless(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest without the name of its model and without where that lies."""
    without = {"agent": "name", "options": "model"}
    return {
        key: {each: of for each, of in value.items() if each != without[key]} if key in without else value
        for key, value in manifest.items()
    }


def _of_mappings(what: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    keys = [key for key in dict.fromkeys([*first, *second]) if first.get(key) != second.get(key)]
    return [f"{what}{key}: {_said(first.get(key))}, not {_said(second.get(key))}" for key in keys]


def _said(value: Any) -> str:
    return canonical_json(value) if isinstance(value, Mapping) else str(value)


def _of_worlds(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [[world["id"] for world in each] for each in (first, second)]
    if names[0] != names[1]:
        return [f"worlds: {', '.join(names[0])}, not {', '.join(names[1])}"]
    found = []
    for one, other in zip(first, second, strict=True):
        rest = [{key: value for key, value in each.items() if key != "tasks"} for each in (one, other)]
        found += _of_mappings(f"{one['id']}'s ", *rest)
        if one["tasks"] != other["tasks"]:
            shared = len({*one["tasks"]} & {*other["tasks"]})
            found.append(f"{one['id']}'s tasks: {len(one['tasks'])}, not {len(other['tasks'])}, with {shared} in both")
    return found


# ---- the folder -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EvalFolder:
    """The folder of an evaluation."""

    folder: JsonFolder

    @classmethod
    def free(cls, path: str | Path) -> EvalFolder:
        """A folder that is new, or that holds an evaluation which was interrupted.

        Raises:
            RunError: it holds a finished evaluation, or other files.
        """
        target = Path(path)
        if (target / RESULT).is_file() and (target / MANIFEST).is_file():
            raise RunError(f"{path} already holds a finished evaluation")
        if not (target / MANIFEST).is_file():
            new_folder(target)
        return cls(JsonFolder(target))

    @classmethod
    def finished(cls, path: str | Path) -> EvalFolder:
        """A folder that holds a finished evaluation; RunError where it does not."""
        target = Path(path)
        if missing := next((name for name in (MANIFEST, ROWS, RESULT) if not (target / name).is_file()), None):
            there = "" if target.is_dir() else " (there is no such folder)"
            raise RunError(f"{path} holds no finished evaluation: it has no {missing}{there}")
        return cls(JsonFolder(target))

    @contextmanager
    def begun(self, manifest: Mapping[str, Any]) -> Iterator[list[Trajectory]]:
        """Begin, or go on with what was interrupted: the episodes that are there; others are kept out meanwhile.

        The last ones, as far as an infrastructure failure ended them, are played again.

        Raises:
            RunError: the folder holds another evaluation; the message says in what it differs.
        """
        self.folder.path.mkdir(parents=True, exist_ok=True)
        with self.folder.locked():
            EvalFolder.free(self.folder.path)  # again: who had the lock before may have written one
            if self.has_begun:
                if other := differences(self.manifest(), manifest, SAME_ROWS):
                    raise RunError(f"{self.folder.path} holds another evaluation: {'; '.join(other)}")
            else:
                self.folder.write_json(MANIFEST, manifest)
            before = list(store.read(self.rows, warn=False)) if self.rows.is_file() else []
            if before and not before[-1].is_evidence:
                while before and not before[-1].is_evidence:
                    before.pop()
                store.write(self.rows, before)
            yield before

    def forget(self) -> None:
        """Leave nothing of an evaluation that stopped before its first episode was over."""
        for name in (ROWS, MANIFEST):
            (self.folder.path / name).unlink(missing_ok=True)

    @property
    def rows(self) -> Path:
        """The file of the episodes."""
        return self.folder.path / ROWS

    def manifest(self) -> dict[str, Any]:
        """What `begun` wrote; RunError where it cannot be read."""
        return read_manifest(self.folder.path / MANIFEST)

    @property
    def has_begun(self) -> bool:
        """Whether an evaluation has begun here."""
        return (self.folder.path / MANIFEST).is_file()

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write what came of it: the evaluation is over. What an endpoint was paid for it stands in both files."""
        if result.get("spent"):
            self.folder.write_json(MANIFEST, self.manifest() | {"spent": result["spent"]})
        self.folder.write_json(RESULT, result)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest in a file, or of an evaluation's folder.

    Raises:
        RunError: it cannot be read, or is no manifest of this format.
    """
    path = path / MANIFEST if path.is_dir() else path
    found = JsonFolder(path.parent).read_json(path.name)
    if missing := [key for key in SAME_ROWS if key not in found]:
        raise RunError(f"{path} is no manifest of an evaluation: it has no {missing[0]!r}")
    if found.get("format") != _FORMAT:
        raise RunError(f"{path} has format {found.get('format')}, and {_FORMAT} is what can be read")
    return found | {"options": with_current_names(found["options"] or {})}
