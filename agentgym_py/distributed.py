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
from typing import TYPE_CHECKING, Any, TypeVar

from agentgym_py.errors import AgentGymError, ConfigError, WorkerError
from agentgym_py.registry import install_advice

if TYPE_CHECKING:
    pass

T = TypeVar("T")

_PATIENCE = timedelta(hours=1)
"""Longest wait for the other processes' share of a phase."""
_HEARD = timedelta(seconds=3)
"""Time that a failing process waits for rank 0 to end with an error too."""
_ENGINES = {"ACCELERATE_USE_FSDP": "FSDP", "ACCELERATE_USE_DEEPSPEED": "DeepSpeed"}
_WHOLE = {
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "fsdp_cpu_ram_efficient_loading",
    "ACCELERATE_DEEPSPEED_ZERO3_INIT": "zero3_init_flag",
}
"""Settings of accelerate by which a process would load only a part of the model."""


def world() -> int:
    """Number of processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def rank() -> int:
    """Number of this process, from 0."""
    return int(os.environ["RANK"]) if world() > 1 else 0


def first() -> bool:
    """Whether this is the process that writes and prints."""
    return rank() == 0


def engine() -> str | None:
    """`FSDP` or `DeepSpeed` if `accelerate launch` shards the training over the processes, else None."""
    return _asked_for() if world() > 1 else None


def _asked_for() -> str | None:
    return next((name for variable, name in _ENGINES.items() if _on(variable)), None)


def _on(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "true")


def join(device: str | None = None) -> None:
    """Meet the other processes: on the CPU, or by default each on the GPU of its own number if there are any.

    Raises:
        ConfigError: one device for all processes, or a sharding backend that cannot be used this way.
    """
    _require_engine()
    if world() == 1:
        return
    if device not in (None, "cpu", "cuda"):
        raise ConfigError(f"device {device!r} would be every process's: leave it out, and each takes its own")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # silences torch's notice about unused parameters
    import torch
    from accelerate import PartialState

    state = PartialState(cpu=device == "cpu" or not torch.cuda.is_available())
    if state.num_processes != world():
        raise ConfigError(f"WORLD_SIZE is {world()}, and accelerate finds {state.num_processes} processes")
    _group()


def _require_engine() -> None:
    """Refuse what the sharding backend cannot do, or ignores silently."""
    if (name := _asked_for()) is None:
        return
    if world() == 1:
        raise ConfigError(f"{name} splits a training over several processes, and here is one: start it without {name}")
    if name == "FSDP" and os.environ.get("FSDP_VERSION", "1") != "2":
        raise ConfigError("FSDP is used in its second version: fsdp_version: 2 in the file of accelerate's settings")
    if name == "DeepSpeed" and find_spec("deepspeed") is None:
        raise ConfigError(f"DeepSpeed is not installed: {install_advice('train,deepspeed')}")
    for variable, setting in _WHOLE.items():
        if _on(variable):
            raise ConfigError(f"{setting} must be false: every process loads the whole model, and plays with it")


def gather(value: T) -> list[T]:
    """Gather a value from every process, by rank; each waits until all have called.

    Raises:
        WorkerError: another process is gone, or has not called for an hour.
    """
    if world() == 1:
        return [value]
    from torch import distributed

    found: list[Any] = [None] * world()
    try:
        distributed.all_gather_object(found, value, group=_group())
    except RuntimeError as error:
        raise WorkerError(f"rank {rank()} lost the others: {str(error).splitlines()[0]}") from error
    return found


def once(call: Callable[..., T], *given: Any) -> T:
    """Call a function in the process of rank 0 once all processes are here; returns its result in every process."""
    gather(None)
    return gather(call(*given) if first() else None)[0]  # type: ignore[return-value]  # [0] is what `call` returned


def same(name: str, value: str) -> str:
    """Return `value`, which must be equal in all processes; WorkerError if it is not."""
    if len(found := set(gather(value))) > 1:
        raise WorkerError(f"the {name} of {world()} processes should be one and is {len(found)}: they went apart")
    return value


def sum_gradients(parameters: Iterable[Any]) -> None:
    """Replace every parameter's gradient by its sum over all processes; None stays if no process has one."""
    if world() == 1:
        return
    import torch
    from torch import distributed

    trained = [each for each in parameters if each.requires_grad]
    given = torch.tensor([each.grad is not None for each in trained], dtype=torch.uint8, device=trained[0].device)
    distributed.all_reduce(given, distributed.ReduceOp.MAX)
    sums = []
    for parameter, anywhere in zip(trained, given.tolist(), strict=True):
        if anywhere:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            sums.append(distributed.all_reduce(parameter.grad, async_op=True))
    for each in sums:
        each.wait()


def summed(logged: Mapping[str, float]) -> dict[str, float]:
    """Sum what all processes logged of a step; of names that end in `_max` take the maximum."""
    parts = gather(dict(logged))
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        name: (max if name.endswith("_max") else sum)([part.get(name, 0.0) for part in parts])
        for name in names
    }  # fmt: skip


@contextmanager
def together() -> Iterator[None]:
    """Let only rank 0 print, and end all processes if one fails.

    Raises:
        WorkerError: another process ended with an error; says which.
        SystemExit: in the other processes, if rank 0 prints the error.
    """
    if world() == 1:
        yield
        return
    try:
        with _silence():
            yield
    except KeyboardInterrupt:
        if first():
            raise
        raise SystemExit(130) from None
    except Exception as error:
        cause = _told() if not isinstance(error, AgentGymError) or isinstance(error, WorkerError) else None
        if _tell(cause or f"rank {rank()}: {error}"):
            raise SystemExit(2) from error
        if cause:
            raise WorkerError(cause) from error
        raise


def leave(status: int | str | None) -> None:
    """End one of several processes; gloo's threads may otherwise abort it while Python shuts down.

    Functions registered with `atexit` still run. A single process continues.
    """
    if world() > 1:
        if isinstance(status, str):
            print(status, file=sys.stderr)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0 if status is None else 1)


@contextmanager
def _silence() -> Iterator[None]:
    if first():
        yield
        return
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def _tell(error: str) -> bool:
    """Leave an error where the others find it; returns whether this process may be silent because rank 0 ends too."""
    if (store := _store()) is None:
        return False
    with suppress(RuntimeError):  # the process that keeps the store may be gone
        store.set(f"agentgym error {rank()}", error)
        if not first():
            store.wait(["agentgym error 0"], _HEARD)
            return True
    return False


def _told() -> str | None:
    """The error that another process left."""
    with suppress(RuntimeError):
        for other in range(world()):
            key = f"agentgym error {other}"
            if other != rank() and (store := _store()) is not None and store.check([key]):
                return str(store.get(key).decode())
    return None


@cache
def _group() -> Any:
    """The group of all processes for Python objects: over the network, with the patience for a phase of episodes."""
    from torch import distributed

    atexit.register(distributed.destroy_process_group)  # NCCL warns if it is left to the end
    return distributed.new_group(backend="gloo", timeout=_PATIENCE)


def _store() -> Any:
    """The store where processes leave notes for each other; None before they have met."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_initialized():
        return None
    return distributed.distributed_c10d._get_default_store()
