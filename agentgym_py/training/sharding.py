"""The work of an optimizer's step: in whole, or split over the processes by FSDP or DeepSpeed.

`accelerate launch --config_file` says which; docs/scaling.md. What an engine splits is a copy of the model, with its
gradients and its optimizer. The policy stays whole in every process: it plays, is measured and is saved as ever,
without waiting for the others at each token, and is given the copy's weights where they have changed.
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
        # not DistributedDataParallel, whose processes must all go through the model equally often: see `ranks`
        self.module: Any = self._accelerator.prepare_model(module, evaluation_mode=True)
        self.optimizer = self._accelerator.prepare(optimizer)

    def backward(self, loss: Tensor, last: bool) -> None:
        """Add to the gradients those of a part of the step's loss; `last`: it is this process's last."""
        self._accelerator.backward(loss)

    def step(self, sound: Callable[[float], None]) -> None:
        """Take the step, unless `sound` raises for the norm of the gradient, over all processes."""
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
        if distributed.first():
            save_file({name: p.detach().contiguous() for name, p in self._trained()}, folder / "trained.safetensors")
            torch.save(self.optimizer.state_dict(), folder / "optimizer.pt")

    def load(self, folder: Path) -> None:
        """Be as when it was saved."""
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
    """The same, split by torch's FSDP2; all processes must call `module` and everything here equally often."""

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer, max_grad_norm: float) -> None:
        from accelerate import Accelerator, PartialState

        fit_for_cpu(PartialState())
        self._accelerator, self._max = Accelerator(device_placement=False), max_grad_norm
        self.module, self.optimizer = self._accelerator.prepare(module, optimizer)

    def backward(self, loss: Tensor, last: bool) -> None:
        """See `Whole`; the processes' losses are summed up, and FSDP takes the mean."""
        self._accelerator.backward(loss * distributed.world())

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
        """See `Whole`; torch would make what the optimizer lacks, by a step that counts."""
        trained = [each for group in self.optimizer.param_groups for each in group["params"]]
        return len(self.optimizer.state) in (0, len(trained))

    def save(self, folder: Path) -> None:
        """See `Whole`; each process writes its part, and any number of them can read it."""
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
    """The same, split by DeepSpeed's ZeRO."""

    savable = True

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer, max_grad_norm: float) -> None:
        from accelerate import Accelerator
        from transformers.integrations.deepspeed import unset_hf_deepspeed_config

        accelerator = Accelerator(device_placement=False)
        config = accelerator.deepspeed_plugin.deepspeed_config
        config |= {"gradient_clipping": max_grad_norm, "gradient_accumulation_steps": 1}
        config |= {"train_micro_batch_size_per_gpu": 1, "train_batch_size": distributed.world()}  # neither is looked at
        self.module, _ = accelerator.prepare(module, optimizer)
        unset_hf_deepspeed_config()  # or a model that is loaded from here on would be split, too

    def backward(self, loss: Tensor, last: bool) -> None:
        """See `FSDP`."""
        self.module.set_gradient_accumulation_boundary(last)
        self.module.backward(loss * distributed.world())

    def step(self, sound: Callable[[float], None]) -> None:
        """See `Whole`; only the step itself knows the norm, and DeepSpeed leaves it out where that is not finite."""
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
        """See `Whole`; each process writes its part, and only as many can read it."""
        self.module.save_checkpoint(str(folder), tag=_TAG)

    def load(self, folder: Path) -> None:
        """See `Whole`.

        Raises:
            RunError: DeepSpeed finds nothing there, which it says by its answer alone.
        """
        if self.module.load_checkpoint(str(folder), tag=_TAG)[0] is None:
            raise RunError(f"DeepSpeed finds no state of its own in {folder}")


Work = Whole | FSDP | DeepSpeed


def work_on(module: nn.Module, optimizer: torch.optim.Optimizer, max_grad_norm: float) -> Work:
    """The steps on a module, by the engine that was asked for."""
    kinds: dict[str | None, type[Work]] = {None: Whole, "FSDP": FSDP, "DeepSpeed": DeepSpeed}
    return kinds[distributed.engine()](module, optimizer, max_grad_norm)


def to_train(model: Any) -> Any:
    """The model itself, or a copy of it where an engine will split that.

    Raises:
        ConfigError: the engine cannot split it.
    """
    name = distributed.engine()
    if name is None:
        return model
    if is_quantized(model):
        raise ConfigError(f"{name} does not split a quantized model: leave quantize or {name} out")
    if name == "DeepSpeed" and next(model.parameters()).dtype != torch.float32:
        raise ConfigError("DeepSpeed trains weights in float32 here: leave dtype out, or take FSDP")
    made = copy.deepcopy(model)
    for module in made.modules():
        vars(module).pop("forward", None)  # trl's own, bound to the model that was copied
    return made


@torch.no_grad()
def give(trained: nn.Module, model: nn.Module) -> None:
    """Copy trained weights into the model that they are a split copy of, if they are; all processes call it."""
    if trained is model:
        return
    if distributed.engine() == "FSDP":
        _reshard(trained)
    found = {name.replace("_checkpoint_wrapped_module.", ""): p for name, p in trained.named_parameters()}
    for name, parameter in model.named_parameters():
        if found[name].requires_grad:
            with _gathered(found[name]) as tensor:
                parameter.copy_(tensor)


def _reshard(module: nn.Module) -> None:
    """FSDP leaves some weights together after a forward without a backward.

    Raises:
        ConfigError: it has split nothing; accelerate leaves it out where it does not know it, without a word.
    """
    from torch.distributed.fsdp import FSDPModule

    parts = [each for each in module.modules() if isinstance(each, FSDPModule)]
    if not parts:
        raise ConfigError("accelerate has left FSDP out: nothing is split")
    for each in parts:
        each.reshard()


@contextmanager
def _gathered(parameter: nn.Parameter) -> Iterator[Tensor]:
    if not hasattr(parameter, "ds_id"):  # as ZeRO's third stage marks them
        yield full(parameter)
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter]):
        yield parameter


def full(tensor: Tensor) -> Tensor:
    """A tensor of which FSDP has left a part in each process; all processes call it."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def fit_for_cpu(state: Any) -> None:
    """Have accelerate use FSDP on the CPU, too: it knows it of accelerators alone, and torch has it for gloo."""
    from accelerate.utils import DistributedType

    if distributed.engine() == "FSDP" and state.distributed_type == DistributedType.MULTI_CPU:
        state.distributed_type = DistributedType.MULTI_GPU
