"""Backends of an optimizer step: unsharded, or sharded over the processes by FSDP or DeepSpeed.

`accelerate launch --config_file` chooses the backend; see docs/guides/scaling.md. A sharding backend works on a copy of
the model. The policy stays whole in every process, so that it plays, is evaluated and saved without waiting for the
others, and gets the copy's weights after they change.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from agentgym_py import distributed
from agentgym_py.errors import ConfigError, RunError, TrainingError
from agentgym_py.policy.adapters import is_quantized
from agentgym_py.training.masters import MasterWeights

_TAG = "split"
"""DeepSpeed's name for a state."""


class Unsharded:
    """A module and its optimizer, complete in every process."""

    apart_norm: float | None = None
    """Norm of the last gradient of the heads that are clipped by themselves; None without any."""

    def __init__(
        self, module: nn.Module, optimizer: torch.optim.Optimizer, max_grad_norm: float, masters: MasterWeights
    ) -> None:
        from accelerate import Accelerator

        self._masters = masters
        cpu = next(module.parameters()).device.type == "cpu"
        self._accelerator, self._max = Accelerator(cpu=cpu, device_placement=False), max_grad_norm
        # not DistributedDataParallel, whose processes need equally many forward passes: see `distributed`
        self.module: Any = self._accelerator.prepare_model(module, evaluation_mode=True)
        self.optimizer = self._accelerator.prepare(optimizer)

    def backward(self, loss: Tensor, last: bool) -> None:
        """Add the gradient of a part of the step's loss; `last`: the last part of this process."""
        self._accelerator.backward(loss)

    def step(self, check: Callable[[float], None]) -> None:
        """Take the step, unless `check` raises for the gradient's norm over all processes."""
        distributed.sum_gradients(parameter for _, parameter in self._masters.trained())
        if all(parameter.grad is None for group in self.param_groups for parameter in group["params"]):
            raise TrainingError("no trained weight has a gradient: the loss does not depend on them")
        self._clip_and_check(check)
        self.optimizer.step()
        self._masters.round_into_model()

    def _clip_and_check(self, check: Callable[[float], None]) -> None:
        """Clip the gradient, that of heads with `clip_apart` by itself, and call `check` with the norm of the rest."""
        apart = [group["params"] for group in self.param_groups if group.get("clip_apart")]
        ids = {id(parameter) for part in apart for parameter in part}
        together = [parameter for parameter in self._parameters() if id(parameter) not in ids]
        norms = [nn.utils.clip_grad_norm_(part, self._max or math.inf) for part in (together, *apart) if part]
        first, *others = [float(gather_tensor(norm)) for norm in norms]
        self.apart_norm = max(others, default=None)
        check(first if all(map(math.isfinite, others)) else math.inf)

    def _parameters(self) -> Iterator[nn.Parameter]:
        return (parameter for _, parameter in self._masters.trained())

    def zero_grad(self) -> None:
        """Clear the gradients."""
        self.optimizer.zero_grad()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The optimizer's parameter groups."""
        return self.optimizer.param_groups  # type: ignore[no-any-return]  # accelerate is untyped here

    @property
    def savable(self) -> bool:
        """Whether `save` can be called now."""
        return True

    def save(self, folder: Path) -> None:
        """Write the trained weights and the optimizer."""
        if distributed.is_rank_zero():
            save_file({name: p.detach().contiguous() for name, p in self._trained()}, folder / "trained.safetensors")
            torch.save(self.optimizer.state_dict(), folder / "optimizer.pt")

    def load(self, folder: Path) -> None:
        """Restore the state that `save` wrote."""
        trained = dict(self._trained())
        device = str(next(iter(trained.values())).device)
        saved = load_file(folder / "trained.safetensors", device=device)
        with torch.no_grad():
            for name, parameter in trained.items():
                parameter.copy_(saved[name])
        self._masters.round_into_model()
        self.optimizer.load_state_dict(torch.load(folder / "optimizer.pt", map_location=device, weights_only=True))

    def _trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        return self._masters.trained()


class FSDP(Unsharded):
    """As `Unsharded`, sharded by torch's FSDP2; all processes must call `module` and all methods equally often."""

    def __init__(
        self, module: nn.Module, optimizer: torch.optim.Optimizer, max_grad_norm: float, masters: MasterWeights
    ) -> None:
        from accelerate import Accelerator, PartialState

        enable_fsdp_on_cpu(PartialState())
        self._accelerator, self._max = Accelerator(device_placement=False), max_grad_norm
        self.module, self.optimizer = self._accelerator.prepare(module, optimizer)

    def backward(self, loss: Tensor, last: bool) -> None:
        """See `Unsharded`; the losses of the processes add up, and FSDP takes the mean."""
        self._accelerator.backward(loss * distributed.world_size())

    def step(self, check: Callable[[float], None]) -> None:
        """See `Unsharded`."""
        self._clip_and_check(check)
        self.optimizer.step()

    def _parameters(self) -> Iterator[nn.Parameter]:
        return (parameter for parameter in self.module.parameters() if parameter.requires_grad)

    @property
    def savable(self) -> bool:
        """See `Unsharded`; with some states only, torch would create the others by a step that counts."""
        trained = sum(len(group["params"]) for group in self.optimizer.param_groups)
        return len(self.optimizer.state) in (0, trained)

    def save(self, folder: Path) -> None:
        """See `Unsharded`; each process writes its part, and any number of processes can read it."""
        from accelerate.utils import save_fsdp_model, save_fsdp_optimizer

        what = self._accelerator.state.fsdp_plugin, self._accelerator
        save_fsdp_model(*what, self.module, str(folder))
        if self.optimizer.state:
            save_fsdp_optimizer(*what, self.optimizer, self.module, str(folder))

    def load(self, folder: Path) -> None:
        """See `Unsharded`."""
        from accelerate.utils import load_fsdp_model, load_fsdp_optimizer

        what = self._accelerator.state.fsdp_plugin, self._accelerator
        load_fsdp_model(*what, self.module, str(folder))
        if any(folder.glob("optimizer*")):
            load_fsdp_optimizer(*what, self.optimizer, self.module, str(folder))


class DeepSpeed:
    """As `Unsharded`, sharded by DeepSpeed's ZeRO."""

    savable = True
    apart_norm = None

    def __init__(
        self, module: nn.Module, optimizer: torch.optim.Optimizer, max_grad_norm: float, masters: MasterWeights
    ) -> None:
        from accelerate import Accelerator
        from transformers.integrations.deepspeed import unset_hf_deepspeed_config

        accelerator = Accelerator(device_placement=False)
        config = accelerator.deepspeed_plugin.deepspeed_config
        config |= {"gradient_clipping": max_grad_norm, "gradient_accumulation_steps": 1}
        # DeepSpeed demands both sizes and uses neither
        config |= {"train_micro_batch_size_per_gpu": 1, "train_batch_size": distributed.world_size()}
        self.module, _ = accelerator.prepare(module, optimizer)
        unset_hf_deepspeed_config()  # or models loaded later would be sharded too

    def backward(self, loss: Tensor, last: bool) -> None:
        """See `FSDP`."""
        self.module.set_gradient_accumulation_boundary(last)
        self.module.backward(loss * distributed.world_size())

    def step(self, check: Callable[[float], None]) -> None:
        """See `Unsharded`; the norm is known only after the step, which DeepSpeed skips if it is not finite."""
        check(0.0)
        self.module.step()
        check(float(self.module.get_global_grad_norm()))

    def zero_grad(self) -> None:
        """Do nothing: DeepSpeed's step clears the gradients."""

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """See `Unsharded`."""
        return self.module.optimizer.param_groups  # type: ignore[no-any-return]  # DeepSpeed is untyped here

    def save(self, folder: Path) -> None:
        """See `Unsharded`; each process writes its part, and only as many processes can read it."""
        self.module.save_checkpoint(str(folder), tag=_TAG)

    def load(self, folder: Path) -> None:
        """See `Unsharded`.

        Raises:
            RunError: DeepSpeed finds no state there, which it reports only by its return value.
        """
        if self.module.load_checkpoint(str(folder), tag=_TAG)[0] is None:
            raise RunError(f"DeepSpeed finds no state of its own in {folder}")


Backend = Unsharded | DeepSpeed


def make_backend(
    module: nn.Module, optimizer: torch.optim.Optimizer, max_grad_norm: float, masters: MasterWeights
) -> Backend:
    """Make the chosen backend."""
    kinds: dict[str | None, type[Backend]] = {None: Unsharded, "FSDP": FSDP, "DeepSpeed": DeepSpeed}
    return kinds[distributed.sharding_backend()](module, optimizer, max_grad_norm, masters)


def module_to_train(model: Any) -> Any:
    """Return the module itself, or a copy of it if a backend shards it.

    Raises:
        ConfigError: the backend cannot shard it.
    """
    name = distributed.sharding_backend()
    if name is None:
        return model
    if is_quantized(model):
        raise ConfigError(f"{name} cannot shard a quantized model: leave quantize or {name} out")
    if name == "DeepSpeed" and next(model.parameters()).dtype != torch.float32:
        raise ConfigError("DeepSpeed trains weights in float32 here: leave dtype out, or use FSDP")
    copied = copy.deepcopy(model)
    for module in copied.modules():
        vars(module).pop("forward", None)  # a method bound to the module that was copied
    return copied


@torch.no_grad()
def copy_weights(trained: nn.Module, model: nn.Module) -> None:
    """Copy weights from a trained sharded copy to its original; all processes call it."""
    if distributed.sharding_backend() == "FSDP":
        _reshard(trained)
    shards = {name.replace("_checkpoint_wrapped_module.", ""): p for name, p in trained.named_parameters()}
    for name, parameter in model.named_parameters():
        if shards[name].requires_grad:
            with _gathered(shards[name]) as tensor:
                parameter.copy_(tensor)


def _reshard(module: nn.Module) -> None:
    """Reshard weights that FSDP leaves gathered after a forward pass without a backward pass.

    Raises:
        ConfigError: FSDP sharded nothing; accelerate silently skips it for unknown devices.
    """
    from torch.distributed.fsdp import FSDPModule

    units = [unit for unit in module.modules() if isinstance(unit, FSDPModule)]
    if not units:
        raise ConfigError("accelerate did not apply FSDP: nothing is sharded")
    for unit in units:
        unit.reshard()


@contextmanager
def _gathered(parameter: nn.Parameter) -> Iterator[Tensor]:
    if not hasattr(parameter, "ds_id"):  # ZeRO-3 sets it
        yield gather_tensor(parameter)
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter]):
        yield parameter


def gather_tensor(tensor: Tensor) -> Tensor:
    """Gather a tensor that FSDP sharded; all processes call it."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def enable_fsdp_on_cpu(state: Any) -> None:
    """Enable FSDP on the CPU: torch supports it with gloo, but accelerate only knows it on accelerators."""
    from accelerate.utils import DistributedType

    if distributed.sharding_backend() == "FSDP" and state.distributed_type == DistributedType.MULTI_CPU:
        state.distributed_type = DistributedType.MULTI_GPU
