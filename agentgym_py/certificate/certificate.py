"""The certificate of a world: the kit's checks and the criteria, as JSON and as a badge."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentgym_py.certificate import criteria, gameable, learnable
from agentgym_py.certificate.badge import badge
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.registration import env_id
from agentgym_py.files import canonical_json, write_atomic
from agentgym_py.testing.harness import Settings, Subject
from agentgym_py.testing.report import Report, Result
from agentgym_py.testing.runner import CHECKS, Check, run_checks, spec_of
from agentgym_py.version import __version__

FORMAT = 1
CRITERIA: Mapping[str, Check] = {
    "solvable": criteria.solvable,
    "floor_and_ceiling": criteria.floor_and_ceiling,
    "difficulty": criteria.difficulty,
    "splits": criteria.splits,
    "gameable": gameable.gameable,
    "learnable": learnable.learnable,
}
"""What a certificate asks beyond the kit; the docstring of each says what it means."""
ALL_CHECKS: Mapping[str, Check] = {**CHECKS, **CRITERIA}
OPENENV_IDS: Mapping[str, tuple[str, ...]] = {
    "interface": ("runtime.observation_schema", "runtime.reward_well_formed"),
    "reproducible": ("runtime.seed_control", "runtime.episode_determinism", "semantic.verifier_determinism"),
    "futures": ("semantic.replayability",),
    "forks": ("runtime.episode_isolation",),
    "leaks": ("semantic.no_solution_leakage",),
    "solvable": ("semantic.oracle_max",),
    "floor_and_ceiling": ("semantic.floor_gap",),
    "difficulty": ("statistical.difficulty_separation",),
    "gameable": ("statistical.gameability_gap",),
    "learnable": ("statistical.training_signal",),
}
"""The checks of OpenEnv's severity policy (RFC 008) that ask the same question; its `statistical` ids are reserved."""
_OPENENV_STATUS = {"passed": "pass", "failed": "fail", "skipped": "skip", "stopped": "error"}
_MAX_ARGUMENTS = 80
"""Characters of arguments in a file's name; longer ones are named by a digest."""
Verdict = Literal["passed", "failed", "incomplete"]


@dataclass(frozen=True, slots=True)
class CertificateSettings(Settings):
    """How much the checks of a certificate try."""

    episodes: int = 50
    """Episodes of a check. Expensive checks play a fifth, checks with several agents play as many with each."""
    memory_episodes: int = 2000
    """Episodes over which memory must stay flat."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the checks found, and whether the world passed."""

    report: Report
    version: int
    """Version of the world."""
    predicted_seconds: float

    @property
    def verdict(self) -> Verdict:
        """`passed` if every check of the certificate passed or does not apply; `incomplete` if one was not done."""
        return "failed" if self.report.failed else "incomplete" if self.missing else "passed"

    @property
    def missing(self) -> list[str]:
        """The checks of a whole certificate that were not done."""
        done = {result.check for result in self.report.results if result.status != "stopped"}
        return [name for name in ALL_CHECKS if name not in done]

    @property
    def seconds(self) -> float:
        """Wall time of all checks."""
        return sum(result.seconds for result in self.report.results)

    @property
    def badge(self) -> str:
        """The badge as SVG: the verdict, with the number of checks that passed or the first that failed."""
        passed = sum(result.status == "passed" for result in self.report.results)
        value = f"{self.verdict}, {passed} checks"
        if self.report.failed:
            more = len(self.report.failed) - 1
            value = f"failed: {self.report.failed[0].check}{f' and {more} more' if more else ''}"
        return badge(f"{env_id(self.report.spec.name)} certificate", value, self.verdict)

    def as_dict(self) -> dict[str, Any]:
        """Return the certificate as JSON values."""
        body = self.report.as_dict()
        for row in body["checks"]:
            row["kind"] = "criterion" if row["check"] in CRITERIA else "kit"
            row["openenv"] = list(OPENENV_IDS.get(row["check"], ()))
        return {
            "certificate": FORMAT, "verdict": self.verdict, "version": self.version, "agentgym": __version__,
            "predicted_seconds": round(self.predicted_seconds), "seconds": round(self.seconds, 1), **body,
            "openenv": [row for result in self.report.results for row in _openenv_rows(result)],
        }  # fmt: skip

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write the certificate and the badge; return their paths.

        They are `ID.json` and `ID.svg`, with the world's arguments after its id. Those of an incomplete certificate are
        `ID.incomplete.json` and `ID.incomplete.svg`, so that they replace no whole one; a whole one removes them.
        """
        import json

        folder.mkdir(parents=True, exist_ok=True)
        stem = file_stem(self.report.spec) + ".incomplete" * bool(self.missing)
        paths = folder / f"{stem}.json", folder / f"{stem}.svg"
        write_atomic(paths[0], json.dumps(self.as_dict(), indent=1) + "\n")
        write_atomic(paths[1], self.badge)
        if not self.missing:
            for path in paths:
                path.with_name(path.name.replace(stem, f"{stem}.incomplete", 1)).unlink(missing_ok=True)
        return paths


def file_stem(spec: EnvSpec) -> str:
    """Return the name of a certificate's files: the id of the world and its arguments, if it has any.

    Arguments with other characters than letters and digits, and long ones, are named by a digest.
    """
    local = spec.local_spec
    words = [f"-{name}-{value}" for name, value in sorted(local.kwargs.items())]
    if any(not re.fullmatch(r"-\w+-[A-Za-z0-9]+", word) for word in words) or len("".join(words)) > _MAX_ARGUMENTS:
        words = [f"-{hashlib.sha256(canonical_json(local.kwargs).encode()).hexdigest()[:8]}"]
    return env_id(local.name) + "".join(words)


def _openenv_rows(result: Result) -> list[dict[str, Any]]:
    """Return a check's result as OpenEnv's report has it, once for each of its ids."""
    evidence = [result.failure.message] if result.failure else list(result.notes)
    row = {"status": _OPENENV_STATUS[result.status], "measured": dict(result.measured), "evidence": evidence}
    return [{"check_id": name, **row} for name in OPENENV_IDS.get(result.check, ())]


def certify(
    world: str | type[TextEnv] | EnvSpec,
    checks: Sequence[str] = (),
    settings: Settings | None = None,
    on_result: Callable[[Result], object] = lambda _: None,
) -> Certificate:
    """Run the kit and the criteria on a world.

    Args:
        world: Its class, its short name or Gymnasium id, or a spec with arguments.
        checks: Names of `ALL_CHECKS` to run; by default all, without which no certificate is `passed`.
        settings: How much the checks try; by default `CertificateSettings()`.
        on_result: Called after each check.

    Raises:
        ConfigError: the world cannot be made.
        UnknownNameError: no such world or check.
    """
    spec, names, settings = spec_of(world), list(checks or ALL_CHECKS), settings or CertificateSettings()
    seconds = predict_seconds(spec, names, settings)
    return certificate_of(run_checks(spec, names, settings, on_result, ALL_CHECKS), seconds)


def certificate_of(report: Report, predicted_seconds: float) -> Certificate:
    """Make the certificate of a finished report."""
    env = report.spec.make()
    try:
        return Certificate(report, env.version, predicted_seconds)
    finally:
        env.close()


# ---- how long it takes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Work:
    """What a check does, in units that `predict_seconds` measures."""

    processes: float = 0.0
    """Fresh Python processes, or other work that takes as long."""
    plans: float = 0.0
    """Episodes of the expert, per episode of the settings."""
    plays: float = 0.0
    """Random episodes, per episode of the settings."""


_WORK: Mapping[str, Work] = {
    "isolation": Work(1, 0.2, 0.2), "vectors": Work(8), "tasks": Work(1), "reproducible": Work(2, 0.2, 0.4),
    "futures": Work(0, 0.2, 2.0), "corrupt": Work(1), "expert": Work(0, 9.0), "random_baseline": Work(0, 0, 5.0),
    "strings": Work(5), "leaks": Work(0, 1.0, 1.0), "wanderer": Work(0, 2.0, 1.0), "speed": Work(1),
    "solvable": Work(0, 1.8), "floor_and_ceiling": Work(0, 1.0, 5.0), "difficulty": Work(0, 6.0, 3.0),
    "splits": Work(0, 9.0), "gameable": Work(0, 1.0, 5.0), "learnable": Work(4, 12.0, 6.0),
}  # fmt: skip
"""Rough: it tells one minute from ten."""
_SAMPLES = 3


def predict_seconds(spec: EnvSpec, checks: Sequence[str], settings: Settings) -> float:
    """Predict the wall time of checks from a fresh process and a few episodes of the expert and of random actions."""
    subject = Subject(spec, settings)
    try:
        plan, play = (_mean_seconds(subject, expert) for expert in (True, False))
    except Exception:  # the checks say what is wrong
        return 0.0
    finally:
        subject.close()
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import agentgym_py"], check=False, capture_output=True)  # this Python
    process = time.perf_counter() - began
    works = [_WORK.get(check, Work()) for check in checks]
    seconds = sum(
        work.processes * process + settings.episodes * (work.plans * plan + work.plays * play) for work in works
    )
    return seconds + (settings.memory_episodes * play / 2 if "memory" in checks else 0.0)


def _mean_seconds(subject: Subject, expert: bool) -> float:
    began = time.perf_counter()
    for number in range(_SAMPLES):
        episode = subject.episode(subject.shared)
        episode.reset(number)
        if expert:
            episode.follow(episode.expert())
        else:
            episode.wander(subject.rng("predict", number), subject.shared.max_steps)
    return (time.perf_counter() - began) / _SAMPLES
