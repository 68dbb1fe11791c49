"""What several commands need: worlds and trainers by name, threads, quiet libraries, and output."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import math
import os
import platform
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any

from agentgym_py import distributed, registry
from agentgym_py.checks import is_path, parameters_of
from agentgym_py.cli.parser import Several, UsageError, add_options, as_plain, in_options, listed, read_options, scalar
from agentgym_py.cli.source import named
from agentgym_py.collection.executor import Executor
from agentgym_py.collection.processes import Workers
from agentgym_py.collection.ray import RayWorkers
from agentgym_py.collection.torchrun import Ranks
from agentgym_py.env import EnvSpec, registration
from agentgym_py.env.tracebacks import own_line
from agentgym_py.errors import AgentGymError, ConfigError, DataError
from agentgym_py.files import finite
from agentgym_py.version import __version__

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace
    from rich.console import Console

    from agentgym_py.policy import Policy
    from agentgym_py.trajectory import Trajectory

_SMALL = 10_000_000
"""Weights below which a forward costs more in calls than in sums, so that a second thread is no help."""
_NOT_SETTINGS = {"config", "print_config", "preset", "out", "resume", "manifest", "json", "threads", "ray"}
"""Options that are not part of what a command computes."""
_RECORDED = ("numpy", "gymnasium", "torch", "transformers", "trl", "peft", "accelerate", "datasets")
_HEAVY = ("torch", "transformers", "trl", "datasets", "accelerate")


# -------------------------------------------------------------------------------------------------------------- worlds

WORLD_RAISED = 1
WORLD = "A world, by short name or Gymnasium id, or by its source: FILE.py, FILE.py:Class or module:Class."
"""Help of a command's NAME."""


def add_env_options(parser: ArgumentParser) -> None:
    """`--env`, once or several times, and `--env_kwargs.NAME`."""
    parser.add_argument(
        "--env", action=Several, default=["shop"], metavar="NAME",
        help="A world, by short name or Gymnasium id; several times, or with commas, to mix worlds.",
    )  # fmt: skip
    parser.add_argument(
        "--env_kwargs", type=dict[str, Any], default={}, metavar="NAME VALUE",
        help="Arguments of the world, as --env_kwargs.difficulty hard; of one of several --env_kwargs.shop.difficulty.",
    )  # fmt: skip


def env_specs(given: Namespace | Mapping[str, Any]) -> list[EnvSpec]:
    """The worlds that were asked for, each made once to see that its arguments fit."""
    names = listed(given["env"])
    if not names:
        raise UsageError("--env needs the name of a world")
    kwargs = _rooted(as_plain(given["env_kwargs"]), {key for name in names for key in _path_arguments(name)})
    specs = [_checked(EnvSpec(name, _kwargs_of(name, names, kwargs))) for name in names]
    keys = [spec.key for spec in specs]
    for number, spec in enumerate(specs):
        if spec.key in keys[:number]:
            raise UsageError(f"--env has {spec.name} twice, with the same arguments: episodes would be played twice")
    return specs


def need_tasks(envs: Sequence[EnvSpec], wanted: Mapping[str, tuple[str, int]]) -> None:
    """Refuse more tasks than a world has, before anything is played; by split the option that asks, and how many."""
    few = []
    for split, (option, number) in wanted.items():
        for spec in envs:
            there = spec.count(split, number)
            if there < number:
                few.append(f"{option} asks for {number} {split} tasks, {spec.name} has {there}")
    if few:
        raise UsageError("; ".join(few))


def env_spec(name: str, kwargs: Any) -> EnvSpec:
    """One world, by its name or its source, made once to see that its arguments fit."""
    return env_specs({"env": [named(name)], "env_kwargs": kwargs})[0]


def complain_of_world(error: Exception, name: str, hint: str = "") -> int:
    """Say in one line what a world raised, and where in its source; returns the exit status for it.

    An error of ours, or one that did not come from a world, is raised again.
    """
    where = own_line(error)
    if not where or isinstance(error, AgentGymError):
        raise error
    said = " ".join("".join(format_exception_only(error)).split())
    print(f"agentgym: the world {name} raised {said} ({where}){hint}", file=sys.stderr)
    return WORLD_RAISED


def _kwargs_of(name: str, names: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """What is meant for all worlds, and over it what is meant for this one."""
    common = {key: value for key, value in given.items() if key not in names}
    own = given.get(name, {})
    if not isinstance(own, Mapping):
        raise UsageError(f"--env_kwargs.{name}: expected a mapping of that world's arguments, got {own!r}")
    taken = arguments_of(name)
    return {
        key: scalar(value, taken[key].annotation if key in taken else Any)
        for key, value in (common | dict(own)).items()
    }


def _path_arguments(name: str) -> set[str]:
    """The arguments of a world that are files or folders."""
    return {key for key, each in arguments_of(name).items() if is_path(each)}


def _path_settings(trainer: str) -> set[str]:
    """The settings of a trainer that are files or folders."""
    return {key for key, each in parameters_of(trainer_class(trainer)).items() if is_path(each)}


def arguments_of(name: str) -> dict[str, inspect.Parameter]:
    """The named arguments of an installed world's class."""
    found = _class_of(name)
    taken = parameters_of(found) if found else {}
    return {key: each for key, each in taken.items() if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}


def worlds_in(words: Sequence[str]) -> list[str]:
    """The installed worlds that a command line names, wherever: `--env=shop,maze`, `play shop`."""
    ids = registry.names("agentgym.envs")
    names = {*ids, *map(registration.short_name, ids)}
    return [part for word in words for part in re.split("[=,]", word) if part in names]


def _rooted(kwargs: Mapping[str, Any], paths: set[str]) -> dict[str, Any]:
    """Worlds' arguments with whole paths: they are read again later, maybe from another folder."""
    return {
        key: _rooted(value, paths) if isinstance(value, Mapping)
        else str(Path(value).absolute()) if key in paths and isinstance(value, str) and scalar(value) is not None
        else value
        for key, value in kwargs.items()
    }  # fmt: skip


def worlds_of(envs: Sequence[EnvSpec], split: str) -> dict[str, str]:
    """The worlds' versions by id, each with a digest of its first task, which a changed catalogue changes.

    A world that is made in several ways stands there with its arguments.
    """
    found, ids = {}, Counter(registration.env_id(spec.name) for spec in envs)
    for spec in envs:
        env = spec.make()
        env.reset(seed=0, options={"task": 0, "split": split})
        name = registration.env_id(spec.name)
        found[name if ids[name] == 1 else spec.key] = f"{env.version}-{hashlib.sha256(env.snapshot()).hexdigest()[:12]}"
        env.close()
    return found


def _checked(spec: EnvSpec) -> EnvSpec:
    try:
        spec.make().close()
    except ConfigError as error:
        raise in_options(error, spec.kwargs, "env_kwargs.") from error
    return spec


def _class_of(name: str) -> type | None:
    """The class of an installed world; None for what was registered with Gymnasium by hand."""
    env_id = registration.env_id(name)
    found = registry.load("agentgym.envs", env_id) if env_id in registry.names("agentgym.envs") else None
    return found if inspect.isclass(found) else None


def settings_of(given: Namespace, envs: Sequence[EnvSpec]) -> dict[str, Any]:
    """What was asked for, as a config file says it, with whole paths: it is read again, maybe from another folder."""
    settings = {key: value for key, value in as_plain(given).items() if key not in _NOT_SETTINGS}
    settings["env"] = [spec.name for spec in envs]
    paths = {key for spec in envs for key in _path_arguments(spec.name)}
    settings["env_kwargs"] = _rooted(settings["env_kwargs"], paths)
    if settings.get("agent") in (None, "model"):
        settings["model"] = whole_path(settings["model"])
    if settings.get("reward_model"):
        settings["reward_model"] = str(Path(settings["reward_model"]).absolute())
    if "trainer" in settings:
        settings["trainer"] = _rooted(settings["trainer"], _path_settings(settings["trainer"]["name"]))
    return settings


def whole_path(model: str) -> str:
    """A model's name; of a folder its whole path."""
    from agentgym_py.policy.loading import BUILT_IN

    return str(Path(model).absolute()) if model not in (*BUILT_IN, "") and Path(model).is_dir() else model


def packages() -> dict[str, str]:
    """The versions of this package and of those that its figures depend on."""
    found = {"agentgym-py": __version__}
    for name in _RECORDED:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def provenance() -> dict[str, Any]:
    """What a run or a training is made with, when and where."""
    import torch

    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"), "command": ["agentgym", *sys.argv[1:]],
        "python": platform.python_version(), "platform": platform.platform(), "threads": torch.get_num_threads(),
        "processes": distributed.world(), "packages": packages(),
    }  # fmt: skip


def commit() -> str | None:
    """The commit of the checkout that this package lies in, `-dirty` where files were changed; None without one."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"],  # noqa: S607  # git as it is found
            cwd=root, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return said.stdout.strip()


# ------------------------------------------------------------------------------------------------------------ trainers


def trainer_class(name: str) -> type:
    """The dataclass of an installed trainer."""
    found = registry.load("agentgym.trainers", name)
    if not (inspect.isclass(found) and is_dataclass(found) and {"train", "improve"} & set(dir(found))):
        raise ConfigError(f"the trainer {name!r} is no dataclass with a method train, or improve: {found!r}")
    return found


def add_trainer_options(parser: ArgumentParser, name: str) -> None:
    """`--trainer NAME` and `--trainer.FIELD` for the fields of that trainer's dataclass."""
    names = registry.names("agentgym.trainers")
    group = parser.add_argument_group(f"The trainer {name}")
    group.add_argument(
        "--trainer.name", type=str, default=name, metavar="NAME",
        help=f"--trainer NAME for short; with --help it shows that one's settings. Installed: {', '.join(names)}.",
    )  # fmt: skip
    add_options(group, trainer_class(name), "trainer")


def read_trainer(given: Namespace) -> Any:
    """The trainer that `add_trainer_options` described, with its settings; its states know it by whole paths."""
    name, settings = given["trainer.name"], given["trainer"]
    paths = {key: str(Path(settings[key]).absolute()) for key in _path_settings(name) if settings[key]}
    return read_options(trainer_class(name), settings, "trainer.", **paths)


def add_cloner_options(parser: ArgumentParser, name: str) -> None:
    """`--cloner.FIELD`, where the trainer `name` has another one make Agent_v0."""
    if cloner := getattr(trainer_class(name), "cloner", None):
        group = parser.add_argument_group(f"The trainer {cloner}, which makes Agent_v0")
        add_options(group, trainer_class(cloner), "cloner")


def read_cloner(given: Namespace) -> Any:
    """The trainer that `add_cloner_options` described, with its settings, or None."""
    cloner = getattr(trainer_class(given["trainer.name"]), "cloner", None)
    return read_options(trainer_class(cloner), given["cloner"], "cloner.") if cloner else None


# ------------------------------------------------------------------------------------------------- torch and its noise


def need_model(name: str, threads: int | None = None) -> None:
    """Say how to install what models need, or that there is no such model; else load torch."""
    known_model(name)
    load_torch(threads)


def known_model(name: str) -> None:
    """Say how to install what models need, or that there is no such model, before torch is loaded: it takes seconds."""
    missing = [name for name in _HEAVY if find_spec(name) is None]
    if missing:
        advice = registry.install_advice("train")
        raise ConfigError(f"models need {' and '.join(missing[:2])}, of the extra `train`: {advice}")
    from agentgym_py.policy.loading import require_model

    require_model(name)


def load_torch(threads: int | None = None) -> None:
    """Load it, with its libraries quiet, and set its threads."""
    quiet()
    import torch

    torch.set_num_threads(threads or (1 if distributed.world() > 1 else _default_threads(torch.get_num_threads())))


def workers_for(policy: Policy, actors: int | None = None) -> Executor:
    """As many processes as torch has threads, where the policy is small and on the CPU; else one, which is this one.

    Where several processes run the command these themselves; so many actors of Ray where they are wanted.
    """
    import torch

    if distributed.world() > 1:
        if actors:
            raise ConfigError(f"ray: the {distributed.world()} processes of this command play themselves")
        return Ranks()
    if actors:
        return RayWorkers(actors, gpus=float(policy.model.device.type == "cuda"))

    small = policy.num_parameters < _SMALL and policy.model.device.type == "cpu"
    return Workers(torch.get_num_threads() if small else 1)


def quiet() -> None:
    """No progress bars, notices or deprecation warnings of the libraries; ours say what happens."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.filterwarnings("ignore", module=r"(torch|transformers|trl|peft|datasets|accelerate|huggingface_hub)\b")
    warnings.filterwarnings("ignore", category=FutureWarning)
    # accelerate loads it wherever it is installed, and what it notices goes to stdout
    logging.getLogger("DeepSpeed").addFilter(_is_error)
    import datasets
    from transformers.utils import logging as transformers_logging

    datasets.disable_progress_bars()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


def _is_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


def _default_threads(torch_default: int) -> int:
    """Torch's own choice (physical cores), but no more than this process may use; 1 in CI."""
    if os.environ.get("CI") and "OMP_NUM_THREADS" not in os.environ:
        return 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else torch_default
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        allowed = min(allowed, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or no limit ("max")
        pass
    return max(1, min(torch_default, allowed))


# -------------------------------------------------------------------------------------------------------------- output


def console(json_output: bool = False) -> Console:
    """Where a command shows what it does: stdout, or stderr where stdout is for a program."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:  # rich's own ends the program with status 1; `main` knows better
            raise BrokenPipeError

    return Plain(stderr=json_output, highlight=False, markup=False)


def print_json(value: Any) -> None:
    """`value` on stdout as JSON; what is not a number is null."""
    print(json.dumps(finite(value), indent=1, ensure_ascii=False, allow_nan=False))


def played_in(path: str) -> Iterator[Trajectory]:
    """The trajectories of a file in any form that can be read; DataError where it holds none that is whole."""
    from agentgym_py.trajectory.dataset import read_any

    found = read_any(path)
    with warnings.catch_warnings(record=True) as said:  # the torn line is all that there is: the error says it
        warnings.simplefilter("always")
        first = next(found, None)
    if first is None:
        raise DataError(f"{path} holds no trajectory" + ": its only line is torn" * bool(said))
    return chain([first], found)


def new_file(path: str, what: str) -> Path:
    """`path`, if nothing is there yet but an empty file, such as a killed process leaves."""
    target = Path(path)
    if target.exists() and not (target.is_file() and target.stat().st_size == 0):
        raise UsageError(f"{what} {path} exists already; nothing is ever overwritten")
    return target
