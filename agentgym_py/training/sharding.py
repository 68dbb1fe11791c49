"""The backend of an optimizer step: whole, or sharded over the processes by FSDP or DeepSpeed.

`accelerate launch --config_file` chooses it; see docs/scaling.md. A backend shards a copy of the model, with its
gradients and its optimizer. The policy stays whole in every process: it plays, is evaluated and saved without waiting
for the others, and gets the copy's weights after they change.
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
from agentgym_py.errors import ConfigError, RunError
from agentgym_py.policy.adapters import is_quantized

_TAG = "split"
"""DeepSpeed's name for a state."""


class Whole:
    """A module and its optimizer, whole in every process."""

    savable = True
    """Whether `save` can be called now."""

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer, max_grad_norm: float) -> None:
        from accelerate import Accelerator

        cpu = next(module.parameters()).device.type == "cpu"
        self._accelerator, self._max = Accelerator(cpu=cpu, device_placement=False), max_grad_norm
        # not DistributedDataParallel, whose processes need equally many forward passes: see `distributed`
        self.module: Any = self._accelerator.prepare_model(module, evaluation_mode=True)
        self.optimizer = self._accelerator.prepare(optimizer)

    def backward(self, loss: Tensor, last: bool) -> None:
        """Add the gradient of a part of the step's loss; `last`: the last part of this process."""
        self._accelerator.backward(loss)

    def step(self, sound: Callable[[float], None]) -> None:
        """Take the step, unless `sound` raises for the gradient's norm over all processes."""
        distributed.sum_gradients(self.module.parameters())
        sound(float(self._accelerator.clip_grad_norm_(self.module.parameters(), self._max or math.inf)))
        self.optimizer.step()

    def clear(self) -> None:
        """Forget the gradients."""
        self.optimizer.zero_grad()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The optimizer's groups."""
        return self.optimizer.param_groups  # type: ignore[no-any-return]  # accelerate is untyped here

    def save(self, folder: Path) -> None:
        """Write the trained weights and the optimizer."""
        if distributed.is_rank_zero():
            save_file({name: p.detach().contiguous() for name, p in self._trained()}, folder / "trained.safetensors")
            torch.save(self.optimizer.state_dict(), folder / "optimizer.pt")

    def load(self, folder: Path) -> None:
        """Take up the state that `save` wrote."""
        trained = dict(self._trained())
        device = str(next(iter(trained.values())).device)
        saved = load_file(folder / "trained.safetensors", device=device)
        with torch.no_grad():
            for name, parameter in trained.items():
                parameter.copy_(saved[name])
        self.optimizer.load_state_dict(torch.load(folder / "optimizer.pt", map_location=device, weights_only=True))

    def _trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, p) for name, p in self.module.named_parameters() if p.requires_grad)


class FSDP:
    """The same, sharded by torch's FSDP2; all processes must call `module` and everything here equally often."""

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer, max_grad_norm: float) -> None:
        from accelerate import Accelerator, PartialState

        fit_for_cpu(PartialState())
        self._accelerator, self._max = Accelerator(device_placement=False), max_grad_norm
        self.module, self.optimizer = self._accelerator.prepare(module, optimizer)

    def backward(self, loss: Tensor, last: bool) -> None:
        """See `Whole`; the losses of the processes add up, and FSDP takes the mean."""
        self._accelerator.backward(loss * distributed.world_size())

    def step(self, sound: Callable[[float], None]) -> None:
        """See `Whole`."""
        norm = self._accelerator.clip_grad_norm_(self.module.parameters(), self._max or math.inf)
        sound(full(norm).item())
        self.optimizer.step()

    def clear(self) -> None:
        """See `Whole`."""
        self.optimizer.zero_grad()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """See `Whole`."""
        return self.optimizer.param_groups  # type: ignore[no-any-return]  # accelerate is untyped here

    @property
    def savable(self) -> bool:
        """See `Whole`; otherwise torch would create missing optimizer states by a step that counts."""
        trained = [each for group in self.optimizer.param_groups for each in group["params"]]
        return len(self.optimizer.state) in (0, len(trained))

    def save(self, folder: Path) -> None:
        """See `Whole`; each process writes its part, and any number of processes can read it."""
        from accelerate.utils import save_fsdp_model, save_fsdp_optimizer

        what = self._accelerator.state.fsdp_plugin, self._accelerator
        save_fsdp_model(*what, self.module, str(folder))
        if self.optimizer.state:
            save_fsdp_optimizer(*what, self.optimizer, self.module, str(folder))

    def load(self, folder: Path) -> None:
        """See `Whole`."""
        from accelerate.utils import load_fsdp_model, load_fsdp_optimizer

        what = self._accelerator.state.fsdp_plugin, self._accelerator
        load_fsdp_model(*what, self.module, str(folder))
        if any(folder.glob("optimizer*")):
            load_fsdp_optimizer(*what, self.optimizer, self.module, str(folder))


class DeepSpeed:
    """The same, sharded by DeepSpeed's ZeRO."""

    savable = True

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer, max_grad_norm: float) -> None:
        from accelerate import Accelerator
        from transformers.integrations.deepspeed import unset_hf_deepspeed_config

        accelerator = Accelerator(device_placement=False)
        config = accelerator.deepspeed_plugin.deepspeed_config
        config |= {"gradient_clipping": max_grad_norm, "gradient_accumulation_steps": 1}
        config |= {
            "train_micro_batch_size_per_gpu": 1,
            "train_batch_size": distributed.world_size(),
        }  # it demands both, uses neither
        self.module, _ = accelerator.prepare(module, optimizer)
        unset_hf_deepspeed_config()  # or models loaded later would be sharded too

    def backward(self, loss: Tensor, last: bool) -> None:
        """See `FSDP`."""
        self.module.set_gradient_accumulation_boundary(last)
        self.module.backward(loss * distributed.world_size())

    def step(self, sound: Callable[[float], None]) -> None:
        """See `Whole`; only the step itself knows the norm, and DeepSpeed skips it if that is not finite."""
        sound(0.0)
        self.module.step()
        sound(float(self.module.get_global_grad_norm()))

    def clear(self) -> None:
        """The step does it."""

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """See `Whole`."""
        return self.module.optimizer.param_groups  # type: ignore[no-any-return]  # DeepSpeed is untyped here

    def save(self, folder: Path) -> None:
        """See `Whole`; each process writes its part, and only as many processes can read it."""
        self.module.save_checkpoint(str(folder), tag=_TAG)

    def load(self, folder: Path) -> None:
        """See `Whole`.

        Raises:
            RunError: DeepSpeed finds no state there, which it reports only by its return value.
        """
        if self.module.load_checkpoint(str(folder), tag=_TAG)[0] is None:
            raise RunError(f"DeepSpeed finds no state of its own in {folder}")


Work = Whole | FSDP | DeepSpeed


def work_on(module: nn.Module, optimizer: torch.optim.Optimizer, max_grad_norm: float) -> Work:
    """Make the backend that was chosen."""
    kinds: dict[str | None, type[Work]] = {None: Whole, "FSDP": FSDP, "DeepSpeed": DeepSpeed}
    return kinds[distributed.sharding_backend()](module, optimizer, max_grad_norm)


def to_train(model: Any) -> Any:
    """Return the module itself, or a copy of it if a backend will shard that.

    Raises:
        ConfigError: the backend cannot shard it.
    """
    name = distributed.sharding_backend()
    if name is None:
        return model
    if is_quantized(model):
        raise ConfigError(f"{name} does not split a quantized model: leave quantize or {name} out")
    if name == "DeepSpeed" and next(model.parameters()).dtype != torch.float32:
        raise ConfigError("DeepSpeed trains weights in float32 here: leave dtype out, or take FSDP")
    made = copy.deepcopy(model)
    for module in made.modules():
        vars(module).pop("forward", None)  # a method bound to the module that was copied
    return made


@torch.no_grad()
def give(trained: nn.Module, model: nn.Module) -> None:
    """Copy weights from a trained sharded copy to its original, if it is one; all processes call it."""
    if trained is model:
        return
    if distributed.sharding_backend() == "FSDP":
        _reshard(trained)
    found = {name.replace("_checkpoint_wrapped_module.", ""): p for name, p in trained.named_parameters()}
    for name, parameter in model.named_parameters():
        if found[name].requires_grad:
            with _gathered(found[name]) as tensor:
                parameter.copy_(tensor)


def _reshard(module: nn.Module) -> None:
    """Reshard weights that FSDP leaves gathered after a forward pass without a backward pass.

    Raises:
        ConfigError: FSDP sharded nothing; accelerate silently skips it for unknown devices.
    """
    from torch.distributed.fsdp import FSDPModule

    parts = [each for each in module.modules() if isinstance(each, FSDPModule)]
    if not parts:
        raise ConfigError("accelerate has left FSDP out: nothing is split")
    for each in parts:
        each.reshard()


@contextmanager
def _gathered(parameter: nn.Parameter) -> Iterator[Tensor]:
    if not hasattr(parameter, "ds_id"):  # the mark of ZeRO's third stage
        yield full(parameter)
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter]):
        yield parameter


def full(tensor: Tensor) -> Tensor:
    """Gather a tensor that FSDP sharded; all processes call it."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def fit_for_cpu(state: Any) -> None:
    """Enable FSDP on the CPU: torch supports it with gloo, but accelerate only knows it on accelerators."""
    from accelerate.utils import DistributedType

    if distributed.sharding_backend() == "FSDP" and state.distributed_type == DistributedType.MULTI_CPU:
        state.distributed_type = DistributedType.MULTI_GPU
