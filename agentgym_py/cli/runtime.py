"""What commands need at run time: torch with silenced libraries, provenance, output and files."""

from __future__ import annotations

import gc
import json
import logging
import math
import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import distributed, registry
from agentgym_py.cli.json_output import results_stream
from agentgym_py.cli.parser import UsageError
from agentgym_py.collection import Executor
from agentgym_py.collection.processes import Workers
from agentgym_py.collection.ray import RayWorkers
from agentgym_py.collection.torchrun import Ranks
from agentgym_py.errors import ConfigError, DataError, setting
from agentgym_py.escapes import UNSAFE, raw_stream, visible
from agentgym_py.files import claimed, json_safe
from agentgym_py.policy.memory import without_collections
from agentgym_py.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym_py.policy import Policy
    from agentgym_py.trajectory import Trajectory

_SMALL = 10_000_000
"""Number of weights below which a second thread does not help, because calls cost more than arithmetic."""
_RECORDED = ("numpy", "gymnasium", "torch", "transformers", "trl", "peft", "accelerate", "datasets", "litellm")
_HEAVY = ("torch", "transformers", "peft", "accelerate")


def package_versions() -> dict[str, str]:
    """Return the versions of this package and of those that influence its results."""
    return {"agentgym-py": __version__, **_installed_versions()}


@cache
def _installed_versions() -> dict[str, str]:
    """Return the versions of the recorded packages, whose metadata takes 15 ms to read."""
    versions = {}
    for name in _RECORDED:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def provenance() -> dict[str, Any]:
    """Return the software, machine and time of a run or a training."""
    import torch

    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"), "command": ["agentgym", *sys.argv[1:]],
        "python": platform.python_version(), "platform": platform.platform(), "threads": torch.get_num_threads(),
        "processes": distributed.world_size(), "packages": package_versions(),
    }  # fmt: skip


def git_commit() -> str | None:
    """Return the commit of this package's checkout, `-dirty` after changes; None without a checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        result = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"],  # noqa: S607  # git from PATH
            cwd=root, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return result.stdout.strip()


def prepare_torch(name: str, threads: int | None = None) -> None:
    """Check that the model exists and its packages are installed, then load torch."""
    require_model_files(name)
    load_torch(threads)


def require_model_files(name: str) -> None:
    """Raise an error before torch is loaded, which takes seconds.

    Raises:
        ConfigError: packages are missing.
        UnknownNameError, PolicyError: there is no such model.
    """
    missing = [name for name in _HEAVY if find_spec(name) is None]
    if missing:
        advice = registry.install_advice("train")
        raise ConfigError(f"models need {' and '.join(missing[:2])}, of the extra `train`: {advice}")
    from agentgym_py.policy.loading import require_model

    require_model(name)


def load_torch(threads: int | None = None) -> None:
    """Load torch, silence its libraries and set its threads. A terminal is told, because it takes seconds.

    What is loaded stays out of later garbage collections, which would take a quarter of a second each. A command that
    Python code runs undoes this at its end (`run_command`).
    """
    may_freeze = "torch" not in sys.modules and not gc.get_freeze_count()
    if distributed.is_rank_zero():
        announce_torch(console(json_output=True))
    with without_collections():
        silence_libraries()
        import torch
        import transformers.modeling_utils  # noqa: F401  # every model needs it, and it imports most of the library

    if may_freeze:
        gc.freeze()
    torch.set_num_threads(threads or (1 if distributed.world_size() > 1 else _default_threads(torch.get_num_threads())))


def announce_torch(out: Console) -> None:
    """Tell a user at a terminal what takes the next seconds, unless torch is loaded."""
    if out.is_terminal and "torch" not in sys.modules:
        out.print("Loading torch and transformers …", style="dim")


def executor_for(policy: Policy, actors: int | None = None) -> Executor:
    """Choose where episodes run.

    They run in the processes of the command if there are several, else in Ray actors if `actors` is set. A small policy
    on the CPU uses as many worker processes as torch has threads; others use this process.
    """
    import torch

    if distributed.world_size() > 1:
        if actors:
            raise ConfigError(f"{setting('ray')} cannot be used with several processes ({distributed.world_size()})")
        return Ranks()
    if actors:
        return RayWorkers(actors, gpus=float(policy.model.device.type == "cuda"))

    small = policy.num_parameters < _SMALL and policy.model.device.type == "cpu"
    return Workers(torch.get_num_threads() if small else 1)


def silence_libraries() -> None:
    """Silence progress bars, notices and deprecation warnings of the libraries."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.filterwarnings("ignore", module=r"(torch|transformers|trl|peft|datasets|accelerate|huggingface_hub)\b")
    warnings.filterwarnings("ignore", category=FutureWarning)
    # accelerate loads DeepSpeed if it is installed, and its notices go to stdout
    logging.getLogger("DeepSpeed").addFilter(_is_error)
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


def _is_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


def _default_threads(torch_default: int) -> int:
    """Return torch's default (physical cores), limited to the cores of this process; 1 in CI."""
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
    """Return the console for progress and results: stdout, or stderr if stdout is for JSON."""
    from rich.console import Console
    from rich.segment import Segment

    class Plain(Console):
        def on_broken_pipe(self) -> None:  # rich would exit with status 1
            raise BrokenPipeError

        def _render_buffer(self, buffer: Iterable[Segment]) -> str:  # the last place that knows text from colours
            return super()._render_buffer(part if part[2] else Segment(visible(part[0]), part[1]) for part in buffer)

    return Plain(file=raw_stream(sys.stderr if json_output else sys.stdout), highlight=False, markup=False)


def print_json(value: Any) -> None:
    """Print a value as JSON, with null for non-finite numbers."""
    text = json.dumps(json_safe(value), indent=1, ensure_ascii=False, allow_nan=False)
    print(UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], text), file=results_stream())


def read_trajectories(path: str, format: str | None = None) -> Iterator[Trajectory]:
    """Read the trajectories of a file, in any readable format or the named one; raise DataError if there are none."""
    from agentgym_py.trajectory.reading import read_any

    trajectories = read_any(path, format)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = next(trajectories, None)
    if first is None:
        raise DataError(f"{path} holds no trajectory" + (": its only line is torn" if caught else ""))
    return chain([first], trajectories)


def require_new_file(path: str, what: str) -> Path:
    """Return `path`; raise UsageError if it exists, unless it is an empty file of a killed process."""
    target = Path(path)
    if target.exists() and not (target.is_file() and target.stat().st_size == 0):
        raise UsageError(f"{what} {path} exists already; choose another name")
    return target


@contextmanager
def new_file(path: str, what: str) -> Iterator[Path]:
    """Yield the path of a new file, claimed for this process while the block writes it.

    Raises:
        UsageError: as `require_new_file`.
        RunError: another process is writing it.
    """
    require_new_file(path, what)
    with claimed(Path(path)):
        yield require_new_file(path, what)  # again: another process may have written it meanwhile


@contextmanager
def new_file_if_named(path: str | None, what: str) -> Iterator[Path | None]:
    """Do as `new_file`; yield None without a path."""
    with new_file(path, what) if path else nullcontext() as target:
        yield target
