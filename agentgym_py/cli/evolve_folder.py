"""The folder of a run of `agentgym evolve`: its name, what it was begun with, and how it is resumed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import distributed
from agentgym_py.cli.env_options import env_versions
from agentgym_py.cli.parser import Values
from agentgym_py.cli.runtime import provenance
from agentgym_py.cli.saved_settings import saved_settings, source_digests
from agentgym_py.cli.trainer_options import trainer_class
from agentgym_py.env import registration
from agentgym_py.errors import RunError
from agentgym_py.evolution.fork import Fork
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.files import clear_read_errors
from agentgym_py.registry import is_source

if TYPE_CHECKING:
    from agentgym_py.env import EnvSpec
    from agentgym_py.policy import Policy


def start_folder(
    args: Values, envs: Sequence[EnvSpec], base: Policy, fork: Fork | None
) -> AbstractContextManager[RunFolder]:
    """Make the folder of a new run, in which its settings and provenance are written."""
    settings = saved_settings(args, envs)
    sources = source_digests(settings)
    run_provenance = provenance() | {"preset": args["preset"]} | _inputs(envs, base)
    run_provenance |= {"sources": sources} if sources else {}
    if fork:
        return fork.start(Path(args["out"]), settings, run_provenance)
    return RunFolder.start(Path(args["out"]) if args["out"] else _make_folder(settings), settings, run_provenance)


def _inputs(envs: Sequence[EnvSpec], base: Policy) -> dict[str, Any]:
    """Return what determines a run besides its settings: digests of the base policy and of the worlds."""
    return {"base_policy": base.digest(), "env_versions": env_versions(envs, "train")}


def require_same_inputs(folder: RunFolder, envs: Sequence[EnvSpec], base: Policy, what: str) -> None:
    """Raise RunError if the weights or the worlds have changed, so that a run cannot be `what`, such as resumed."""
    stored = folder.read_json("provenance.json")
    for name, value in _inputs(envs, base).items():
        if stored.get(name) != value:
            raise RunError(f"{folder.path} cannot be {what}: its {name} was {stored.get(name)}, and is {value} now")


def record_resumption(folder: RunFolder, envs: Sequence[EnvSpec], base: Policy) -> None:
    """Add this resumption to a run's provenance; raises RunError as `require_same_inputs`."""
    require_same_inputs(folder, envs, base, "resumed")
    stored = folder.read_json("provenance.json")
    with clear_read_errors(folder.path):
        resumed = [*stored.get("resumed", []), provenance()]
    folder.write_json("provenance.json", stored | {"resumed": resumed})


def _make_folder(settings: Mapping[str, Any]) -> Path:
    """Make the first free folder of this run's name, so that no other process takes it; name an interrupted run."""
    envs = "+".join(registration.short_name(registration.env_id(name)) if is_source(name) else name
                    for name in settings["env"])  # fmt: skip
    name = settings["trainer"]["name"]
    trainer = trainer_class(name).__name__.lower() if is_source(name) else name
    first = Path("runs") / f"{envs}-{trainer}-s{settings['seed']}"
    first.parent.mkdir(parents=True, exist_ok=True)
    interrupted: list[Path] = []
    for number in count(1):
        path = first if number == 1 else first.with_name(f"{first.name}-{number}")
        with suppress(FileExistsError):
            path.mkdir()
            break
        if _is_interrupted(RunFolder(path)):
            interrupted.append(path)
    if interrupted:
        warnings.warn(
            f"{interrupted[-1]} holds an interrupted run, and this command starts a new one in {path}; to resume the "
            f"interrupted run: {RunFolder(interrupted[-1]).resume_command()}",
            stacklevel=2,
        )
    return path


def _is_interrupted(folder: RunFolder) -> bool:
    """Return whether a folder holds an unfinished run that no process works on."""
    if folder.finished or not (folder.path / "run.yaml").is_file():
        return False
    try:
        with folder.locked():
            return True
    except RunError:
        return False


def threads_of(folder: RunFolder | None, threads: int | None) -> int | None:
    """Return the chosen number of threads, else that of the run, because another number changes rounding."""
    stored = folder.read_json("provenance.json") if folder else {}
    before, processes = stored.get("threads"), stored.get("processes", distributed.world_size())
    if folder and not isinstance(before, int | None):
        raise RunError(f"{folder.path} is damaged: its number of threads is {before!r:.60}")
    if folder and processes != distributed.world_size():
        warnings.warn(
            f"{folder.path} began with {processes} processes and resumes with {distributed.world_size()}: "
            "the result may not be bit-identical",
            stacklevel=2,
        )
        return threads
    if folder and threads and before and threads != before:
        warnings.warn(
            f"{folder.path} began with {before} threads and resumes with {threads}: the result may not be "
            "bit-identical",
            stacklevel=2,
        )
    return threads or before
