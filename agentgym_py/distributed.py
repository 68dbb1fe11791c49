"""Processes that train together: their ranks, and what they exchange.

`torchrun` and `accelerate launch` start one command several times; RANK and WORLD_SIZE tell each process which one it
is. Each process holds the whole model and all trajectories, plays its share of the episodes and computes its share of
each gradient. Only rank 0 writes and prints. With one process everything here does nothing. A backend may shard what is
trained; see `agentgym_py.training.sharding`.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from datetime import timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from agentgym_py.errors import AgentGymError, ConfigError, WorkerError
from agentgym_py.registry import install_advice

T = TypeVar("T")

_PATIENCE = timedelta(hours=1)
"""Longest wait for the other processes in one phase."""
_ERROR_WAIT = timedelta(seconds=3)
"""Time that a failing process waits for rank 0 to fail, too. If rank 0 waits for this process, it fails only when this
process is gone."""
_BACKENDS = {"ACCELERATE_USE_FSDP": "FSDP", "ACCELERATE_USE_DEEPSPEED": "DeepSpeed"}
_PARTIAL_LOADING = {
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "fsdp_cpu_ram_efficient_loading",
    "ACCELERATE_DEEPSPEED_ZERO3_INIT": "zero3_init_flag",
}
"""Settings of accelerate with which a process loads only a part of the model."""


def world_size() -> int:
    """Return the number of processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def rank() -> int:
    """Return the number of this process, from 0."""
    return int(os.environ["RANK"]) if world_size() > 1 else 0


def is_rank_zero() -> bool:
    """Return whether this is the process that writes and prints."""
    return rank() == 0


def sharding_backend() -> str | None:
    """Return `FSDP` or `DeepSpeed` if `accelerate launch` shards the training over the processes, else None."""
    return _requested_backend() if world_size() > 1 else None


def _requested_backend() -> str | None:
    return next((name for variable, name in _BACKENDS.items() if _on(variable)), None)


def _on(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "true")


def init_process_group(device: str | None = None) -> None:
    """Connect to the other processes. By default each uses the GPU of its own number, or the CPU if there is no GPU.

    Raises:
        ConfigError: one device for all processes, or a sharding backend that cannot be used this way.
    """
    _require_backend()
    if world_size() == 1:
        return
    if device not in (None, "cpu", "cuda"):
        raise ConfigError(
            f"device {device!r} would be used by every process; omit it, and each process uses its own GPU"
        )
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # silences torch's notice about unused parameters
    import torch
    from accelerate import PartialState

    state = PartialState(cpu=device == "cpu" or not torch.cuda.is_available())
    if state.num_processes != world_size():
        raise ConfigError(f"WORLD_SIZE is {world_size()}, but accelerate finds {state.num_processes} processes")
    _group()


def _require_backend() -> None:
    """Raise ConfigError for settings that the sharding backend cannot use or ignores silently."""
    if (name := _requested_backend()) is None:
        return
    if world_size() == 1:
        raise ConfigError(f"{name} shards a training over several processes, but there is one: start it without {name}")
    if name == "FSDP" and os.environ.get("FSDP_VERSION", "1") != "2":
        raise ConfigError("FSDP needs version 2: set fsdp_version: 2 in the configuration file of accelerate")
    if name == "DeepSpeed" and find_spec("deepspeed") is None:
        raise ConfigError(f"DeepSpeed is not installed: {install_advice('train,deepspeed')}")
    for variable, setting in _PARTIAL_LOADING.items():
        if _on(variable):
            raise ConfigError(f"{setting} must be false: every process loads the whole model to generate replies")


def gather(value: T) -> list[T]:
    """Gather a value from every process, by rank; each waits until all have called.

    Raises:
        WorkerError: another process is gone, or has not called for an hour.
    """
    if world_size() == 1:
        return [value]
    from torch import distributed

    values: list[Any] = [None] * world_size()
    try:
        distributed.all_gather_object(values, value, group=_group())
    except RuntimeError as error:
        raise WorkerError(f"rank {rank()} lost the other processes: {str(error).splitlines()[0]}") from error
    return values


def on_rank_zero(call: Callable[..., T], *args: Any) -> T:
    """Call a function on rank 0 after all processes have arrived; return its result in every process."""
    gather(None)
    return gather(call(*args) if is_rank_zero() else None)[0]  # type: ignore[return-value]  # [0] is what `call` returned


def require_same(name: str, value: str) -> str:
    """Return `value`; raise WorkerError unless it is equal in all processes."""
    if (count := len(set(gather(value)))) > 1:
        raise WorkerError(f"the {name} must be equal in all {world_size()} processes, got {count} different values")
    return value


def sum_gradients(parameters: Iterable[Any]) -> None:
    """Replace every parameter's gradient by its sum over all processes; None stays if no process has one."""
    if world_size() == 1:
        return
    import torch
    from torch import distributed

    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    flags = [parameter.grad is not None for parameter in trainable]
    has_gradient = torch.tensor(flags, dtype=torch.uint8, device=trainable[0].device)
    distributed.all_reduce(has_gradient, distributed.ReduceOp.MAX)
    reductions = []
    for parameter, anywhere in zip(trainable, has_gradient.tolist(), strict=True):
        if anywhere:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            reductions.append(distributed.all_reduce(parameter.grad, async_op=True))
    for reduction in reductions:
        reduction.wait()


def reduce_logs(logged: Mapping[str, float]) -> dict[str, float]:
    """Sum the logs of a step over all processes; take the maximum of names that end in `_max`."""
    parts = gather(dict(logged))
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        name: (max if name.endswith("_max") else sum)([part.get(name, 0.0) for part in parts])
        for name in names
    }  # fmt: skip


@contextmanager
def rank_zero_output() -> Iterator[None]:
    """Let only rank 0 print; end all processes if one fails.

    Raises:
        WorkerError: a process other than rank 0 failed; the message names it and its error.
        SystemExit: another process prints the error.
    """
    if world_size() == 1:
        yield
        return
    try:
        with _silent_other_ranks():
            yield
    except KeyboardInterrupt:
        if is_rank_zero():
            raise
        raise SystemExit(130) from None
    except Exception as error:
        cause = _reported_error() if not isinstance(error, AgentGymError) or isinstance(error, WorkerError) else None
        message = cause or f"rank {rank()}: {error}"
        if not _report_error(message):
            raise SystemExit(2) from error
        if cause or not is_rank_zero():
            raise WorkerError(message) from error
        raise


def exit_process(status: int | str | None) -> None:
    """End one of several processes; gloo's threads may otherwise abort it while Python shuts down.

    Functions registered with `atexit` still run. A single process continues.
    """
    if world_size() > 1:
        if isinstance(status, str):
            print(status, file=sys.stderr)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0 if status is None else 1)


@contextmanager
def _silent_other_ranks() -> Iterator[None]:
    if is_rank_zero():
        yield
        return
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def _report_error(error: str) -> bool:
    """Report an error to the other processes; return whether this one prints it, because no other process does.

    Exactly one process prints. Rank 0 is preferred, but may be killed by the launcher as soon as this process ends.
    """
    if (store := _store()) is None:
        return True
    with suppress(RuntimeError):  # the process that keeps the store may be gone
        if is_rank_zero():
            is_first = _prints_first(store)
            store.set("agentgym error 0", error)
            return is_first
        store.set(f"agentgym error {rank()}", error)
        with suppress(RuntimeError):  # rank 0 does not fail in time
            store.wait(["agentgym error 0"], _ERROR_WAIT)
        return _prints_first(store)
    return True


def _prints_first(store: Any) -> bool:
    return int(store.add("agentgym error is printed", 1)) == 1


def _reported_error() -> str | None:
    """Return the error that another process reported."""
    with suppress(RuntimeError):
        for other in range(world_size()):
            key = f"agentgym error {other}"
            if other != rank() and (store := _store()) is not None and store.check([key]):
                return str(store.get(key).decode())
    return None


@cache
def _group() -> Any:
    """Return the group of all processes for Python objects, which waits long enough for a phase of episodes."""
    from torch import distributed

    atexit.register(distributed.destroy_process_group)  # otherwise NCCL warns at exit
    return distributed.new_group(backend="gloo", timeout=_PATIENCE)


def _store() -> Any:
    """Return the key-value store of the processes; None before `init_process_group`."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_initialized():
        return None
    return distributed.distributed_c10d._get_default_store()
