"""Forked runs: a new run begins with the rounds of another one, and continues with other settings.

A run is its folder, and each random draw has a seed of its own, derived from the run's seed, the phase and the round.
So a fork is a copy of the first rounds beside other settings, resumed as any run is. What comes after has the tasks and
the random numbers of the original (common random numbers), which makes the difference of the two runs the effect of the
changed settings with little noise. A fork without changes is bit-identical to the original.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from agentgym_py.errors import ConfigError, RunError
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.files import PROVENANCE, claimed, clear_read_errors, remove, sync_to_disk
from agentgym_py.policy.saving import relocate_adapters

FORK = "fork"
"""Key of a fork's origin in its provenance."""
_ALWAYS = frozenset((
    "trainer", "select", "coreset", "reward", "reward_kwargs", "reward_model", "temperature", "explore_temperatures",
    "horizon", "self_play", "merge", "restart", "rounds", "patience", "allow_empty", "slots", "save_episodes",
    "step_timeout", "step_threads", "track", "engine", "base_url", "server_kind", "sync_weights", "engine_kwargs",
    "kv_cache_gib", "device", "exact", "attn_implementation",
))  # fmt: skip
"""Settings, or groups of them, that shape only the rounds that are played and trained with them."""
_BEFORE_EXPLORATION = frozenset((
    "explore_tasks", "explore_weights", "explore_order", "attempts", "forks", "fork_attempts", "curriculum", "levels",
    "critic", "reflection",
))  # fmt: skip
"""Settings by which later rounds read what earlier rounds explored."""


class Change(NamedTuple):
    """A setting of the original, and that of the fork."""

    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork of a run, to be started."""

    run: RunFolder
    after: int
    """The last shared round."""
    changes: Mapping[str, Change] = field(default_factory=dict)
    """The changed settings by name."""

    @classmethod
    def parse(cls, text: str) -> Fork:
        """Read `RUN@2`, without changes.

        Raises:
            ConfigError: it has no number of a round.
            RunError: there is no such run, or the round is not over.
        """
        path, at, number = text.rpartition("@")
        if not at or not re.fullmatch(r"[0-9]{1,9}", number):
            raise ConfigError(f"{text} names no round to fork after: write RUN@2 to share the rounds 0 to 2")
        point = cls(RunFolder.open(Path(path)), int(number))
        done = point.run.finished_rounds()
        if (missing := next(name for name in count() if name not in done)) <= point.after:
            over = f"finished: {', '.join(map(str, done))}" if done else "no round is finished yet"
            raise RunError(
                f"{path} cannot be forked after round {number}, because round {missing} is not finished; {over}"
            )
        return point

    def require_changeable(self) -> None:
        """Raise ConfigError for a changed setting that shaped a shared round: it would have changed the past."""
        for name in self.changes:
            group = _group_of(name)
            if group in _ALWAYS or (group in _BEFORE_EXPLORATION and not self.after):
                continue
            if group in _BEFORE_EXPLORATION:
                first = f"{self.run.path}@0"
                raise ConfigError(
                    f"{name} cannot be changed after round {self.after}, because the shared rounds explored with it: "
                    f"fork {first}, or start a new run"
                )
            raise ConfigError(
                f"{name} cannot be changed in a fork, because the shared rounds were made with it: start a new run. "
                f"A fork can change {', '.join(sorted(_ALWAYS))}, and after round 0 also "
                f"{', '.join(sorted(_BEFORE_EXPLORATION))}"
            )

    def require_future(self, config: Mapping[str, Any], last_round: int) -> None:
        """Raise ConfigError if a run with these settings would end with the shared rounds.

        Args:
            config: The fork's settings, nested.
            last_round: Number of its last round.
        """
        if self.run.config().get("sequence") and config["rounds"] != self.run.config()["rounds"]:
            raise ConfigError("rounds cannot be changed in a fork of a sequence of worlds: start a new run")
        if last_round <= self.after:
            raise ConfigError(
                f"rounds must be more than {self.after}, the last shared round: set rounds={self.after + 1}"
            )
        for number in range(self.after + 1):
            if 0 < config["patience"] <= number - self.run.best_round(number):
                raise ConfigError(
                    f"patience {config['patience']} would have stopped {self.run.path} after round {number}, which the "
                    "fork shares: set patience=0, or fork an earlier round"
                )

    def _origin(self) -> dict[str, Any]:
        """Return what the provenance says of the original."""
        with clear_read_errors(self.run.path):
            digest = self.run.metrics(self.after)["policy_digest"]
        return {
            "run": str(self.run.path.absolute()), "after_round": self.after,
            "policy_digest": digest,
            "changes": {name: change._asdict() for name, change in self.changes.items()},
            "provenance": self.run.read_json(PROVENANCE),
        }  # fmt: skip

    @contextmanager
    def start(self, target: Path, config: Mapping[str, Any], provenance: Mapping[str, Any]) -> Iterator[RunFolder]:
        """Make the folder with the shared rounds and lock it; it appears whole or not at all.

        Weights are hard links where the file system has them, because no run changes them in place.

        Raises:
            RunError: the folder is not empty, or another process is making it.
        """
        with claimed(target):
            RunFolder.require_new(target)
            aside = RunFolder(target.with_name(f".{target.name}.partial"))
            remove(aside.path)
            try:
                self._copy_rounds(aside)
                aside.write_json(PROVENANCE, {**provenance, FORK: self._origin()})
                aside.write_config(config)
                for path in aside.path.rglob("*"):
                    sync_to_disk(path)
                remove(target)  # an empty folder, or one that a killed start left
                aside.path.replace(target)
            finally:
                remove(aside.path)
            sync_to_disk(target.parent)
        folder = RunFolder(target)
        with folder.locked():
            yield folder

    def _copy_rounds(self, target: RunFolder) -> None:
        """Copy the shared rounds, without the scores of a reward that changes: their episodes are scored again."""
        stale = ("rewards*.jsonl",) if {"reward", "reward_kwargs"} & set(map(_group_of, self.changes)) else ()
        for number in range(self.after + 1):
            source, copy = self.run.round(number), target.round(number)
            ignored = shutil.ignore_patterns(".*", "*.partial", *stale)
            shutil.copytree(source, copy, ignore=ignored, copy_function=_link_or_copy)
            relocate_adapters(copy / "checkpoint", source / "checkpoint", self.run.path)


def _group_of(name: str) -> str:
    return name.partition(".")[0]


def _link_or_copy(source: str, target: str) -> None:
    if source.endswith(".safetensors"):
        try:
            os.link(source, target)
        except OSError:  # another file system, or one without links
            pass
        else:
            return
    shutil.copy2(source, target)


def origin_of(folder: RunFolder) -> Mapping[str, Any] | None:
    """Return what a run's provenance says of the run that it is a fork of; None if it is none."""
    path = folder.path / PROVENANCE
    origin = folder.read_json(PROVENANCE).get(FORK) if path.is_file() else None
    return origin if isinstance(origin, Mapping) else None


def fork_lines(folder: RunFolder) -> list[str]:
    """Describe what a run is a fork of, and what that is a fork of, and so on; nothing if it is none."""
    lines, origin = list[str](), origin_of(folder)
    with clear_read_errors(folder.path / PROVENANCE):
        while isinstance(origin, Mapping):
            lines.append(f"{'A fork' if not lines else 'which is a fork'} of {_text_of(origin)}")
            origin = origin.get("provenance", {}).get(FORK)
    return [", ".join(lines) + "."] if lines else []


def _text_of(origin: Mapping[str, Any]) -> str:
    changes = [
        f"{name} {_short(change['after'])} (was {_short(change['before'])})"
        for name, change in origin["changes"].items()
    ]
    return f"{_near(origin['run'])} after round {origin['after_round']} with {', '.join(changes) or 'no change'}"


def _short(value: Any) -> str:
    return "not given" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _near(path: str) -> str:
    """Return a path relative to the current folder if it is below."""
    return path.removeprefix(f"{Path.cwd()}{os.sep}")
