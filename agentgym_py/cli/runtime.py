"""What commands need while they run: torch with quiet libraries, provenance, output and files."""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import distributed, registry
from agentgym_py.cli.parser import UsageError
from agentgym_py.collection import Executor
from agentgym_py.collection.processes import Workers
from agentgym_py.collection.ray import RayWorkers
from agentgym_py.collection.torchrun import Ranks
from agentgym_py.errors import ConfigError, DataError
from agentgym_py.files import json_safe
from agentgym_py.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym_py.policy import Policy
    from agentgym_py.trajectory import Trajectory

_SMALL = 10_000_000
"""Weights below which a forward pass costs more in calls than in arithmetic, so that a second thread does not help."""
_RECORDED = ("numpy", "gymnasium", "torch", "transformers", "trl", "peft", "accelerate", "datasets")
_HEAVY = ("torch", "transformers", "peft", "accelerate")


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
        "processes": distributed.world_size(), "packages": packages(),
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


def prepare_torch(name: str, threads: int | None = None) -> None:
    """Say how to install what models need, or that there is no such model; else load torch."""
    require_model_files(name)
    load_torch(threads)


def require_model_files(name: str) -> None:
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

    torch.set_num_threads(threads or (1 if distributed.world_size() > 1 else _default_threads(torch.get_num_threads())))


def executor_for(policy: Policy, actors: int | None = None) -> Executor:
    """As many processes as torch has threads, where the policy is small and on the CPU; else one, which is this one.

    Where several processes run the command these themselves; actors of Ray if they are asked for.
    """
    import torch

    if distributed.world_size() > 1:
        if actors:
            raise ConfigError(f"ray: the {distributed.world_size()} processes of this command play themselves")
        return Ranks()
    if actors:
        return RayWorkers(actors, gpus=float(policy.model.device.type == "cuda"))

    small = policy.num_parameters < _SMALL and policy.model.device.type == "cpu"
    return Workers(torch.get_num_threads() if small else 1)


def quiet() -> None:
    """No progress bars, notices or deprecation warnings of the libraries; ours say what happens."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.filterwarnings("ignore", module=r"(torch|transformers|trl|peft|datasets|accelerate|huggingface_hub)\b")
    warnings.filterwarnings("ignore", category=FutureWarning)
    # accelerate loads it wherever it is installed, and what it notices goes to stdout
    logging.getLogger("DeepSpeed").addFilter(_is_error)
    from transformers.utils import logging as transformers_logging

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


def console(json_output: bool = False) -> Console:
    """Where a command shows what it does: stdout, or stderr where stdout is for a program."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:  # rich's own ends the program with status 1; `main` knows better
            raise BrokenPipeError

    return Plain(stderr=json_output, highlight=False, markup=False)


def print_json(value: Any) -> None:
    """`value` on stdout as JSON; what is not a number is null."""
    print(json.dumps(json_safe(value), indent=1, ensure_ascii=False, allow_nan=False))


def read_trajectories(path: str) -> Iterator[Trajectory]:
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
