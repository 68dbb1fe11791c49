"""Optimizer steps on a policy's model: what offline and on-policy training share.

It adds adapters to the model and splits a batch into microbatches over the processes. Its `backend`, one of
`training.sharding`, takes the steps and saves the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from agentgym_py import distributed
from agentgym_py.errors import ConfigError, TrainingError
from agentgym_py.policy.adapters import (
    add_adapters,
    has_adapters,
    input_hooks,
    require_trainable,
    stop_recomputing,
)
from agentgym_py.policy.quiet import ignore_checkpointing_warnings
from agentgym_py.policy.tokens import RowSize, pack_rows
from agentgym_py.registry import install_advice
from agentgym_py.training.masters import Change, MasterWeights
from agentgym_py.training.settings import OptimizerSettings
from agentgym_py.training.sharding import Unsharded, copy_weights, make_backend, module_to_train

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

Row = TypeVar("Row")
_LEAST_KEPT = 0.5
"""Share of the weights that a training should have moved and must have."""


def make_optimizer(groups: Sequence[dict[str, Any]], settings: OptimizerSettings, rate: float) -> torch.optim.Optimizer:
    """Make AdamW, with one kernel for all weights on a GPU, or that of bitsandbytes with states of 8 bits.

    Raises:
        ConfigError: bitsandbytes is missing, or the weights are on a CPU.
    """
    on_gpu = all(parameter.device.type == "cuda" for group in groups for parameter in group["params"])
    same: dict[str, Any] = {"lr": rate, "weight_decay": settings.weight_decay, "betas": (0.9, 0.95)}
    if settings.optim == "adamw":
        return torch.optim.AdamW(groups, fused=on_gpu or None, **same)
    if find_spec("bitsandbytes") is None:
        raise ConfigError(f"optim adamw_8bit needs bitsandbytes: {install_advice('train,quantize')}")
    if not on_gpu:
        raise ConfigError("optim adamw_8bit runs on a CUDA GPU only: leave optim out")
    from bitsandbytes.optim import AdamW8bit  # type: ignore[import-not-found]  # an extra

    optimizer: torch.optim.Optimizer = AdamW8bit(groups, **same)
    return optimizer


def set_training_mode(net: nn.Module, *, dropout: bool) -> None:
    """Put a module into training mode; `dropout` is the model's own, that of adapters is on in any case.

    Without it only adapters' dropout and the `recomputed_layers` are in training mode.
    """
    net.train(dropout)
    if not dropout:
        adapters = [module for name, module in net.named_modules() if "lora_dropout" in name.split(".")]
        for module in [*adapters, *recomputed_layers(net)]:
            module.training = True


def recomputed_layers(net: nn.Module) -> list[nn.Module]:
    """Return the layers with gradient checkpointing, which transformers recomputes in training mode only.

    Modules of dropout within them keep their own mode. Layers that call dropout as a function, such as OPT's, use it.
    """
    return [module for module in net.modules() if getattr(module, "gradient_checkpointing", False)]


class Optimization:
    """AdamW on a policy's model and the heads on it, if there are any.

    Under FSDP or DeepSpeed a copy of the model is trained; `sync_to_policy` copies its weights to the policy.

    Args:
        policy: Its model is trained in place.
        settings: Learning rate, clipping, adapters, precision, microbatches.
        seed: Draws the adapters' first weights.
        wrap: Makes the module that the training calls; it holds the model as `model`.
        heads: Parameter groups in addition to the model's, as `torch.optim` takes them.
        train_backbone: Whether the model's own weights are trained, or only the heads.

    Raises:
        ConfigError: the model is quantized and would be trained without adapters, or cannot be sharded; or `bf16` is
            set and the training sharded.
    """

    def __init__(
        self,
        policy: Policy,
        settings: OptimizerSettings,
        *,
        seed: int,
        wrap: Callable[[Any], nn.Module] = lambda model: model,
        heads: Callable[[Any], Sequence[dict[str, Any]]] = lambda module: (),
        train_backbone: bool = True,
    ) -> None:
        self.policy, self.settings = policy, settings
        if settings.bf16 and (backend := distributed.sharding_backend()):
            raise ConfigError(f"bf16 is not tested with a training that {backend} shards: leave it out")
        if train_backbone:
            require_trainable(policy.model, settings.lora_rank)
        if settings.lora_rank:
            policy.model = add_adapters(policy.model, settings.lora_rank, seed, **settings.lora)
        else:
            if train_backbone and has_adapters(policy.model):
                policy.merge_adapters()
            policy.model.requires_grad_(train_backbone)
        self._hooks = input_hooks(policy.model)
        self._original = wrap(policy.model)
        self.net = module_to_train(self._original)
        self.sharded = self.net is not self._original
        head_groups = list(heads(self.net))
        head_ids = {id(p) for group in head_groups for p in group["params"]}
        self._masters = MasterWeights(self.net, {} if settings.lora_rank else policy.load_masters(train_backbone))
        if self.sharded and self._masters:
            raise ConfigError(
                f"{distributed.sharding_backend()} trains weights in float32 here: leave dtype out, or set lora_rank"
            )
        if not self.sharded:
            self._masters.take_head_gradient(policy.model)
        self._change = Change(MasterWeights(policy.model, {}) if self.sharded else self._masters)
        backbone = [self._masters.of(p) for p in self.net.parameters() if p.requires_grad and id(p) not in head_ids]
        groups = [{"params": backbone}, *head_groups]
        self.learning_rate = settings.rate_for(policy.num_parameters, policy.learning_rate_scale)
        optimizer = make_optimizer([group for group in groups if group["params"]], settings, self.learning_rate)
        if settings.gradient_checkpointing:
            wrapped = getattr(self.net, "model", self.net)
            if wrapped is not None:  # a module of heads alone has no layers to recompute
                with ignore_checkpointing_warnings():
                    wrapped.gradient_checkpointing_enable({"use_reentrant": False})
        self._rates = [group["lr"] for group in optimizer.param_groups]  # those of a loaded state are scaled
        self.backend = make_backend(self.net, optimizer, settings.max_grad_norm, self._masters)
        self.module: Any = self.backend.module

    @property
    def device(self) -> torch.device:
        """Where the policy is."""
        return torch.device(self.policy.model.device)

    def autocast(self) -> AbstractContextManager[Any]:
        """Run a forward pass in bfloat16 if the settings say so."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.bf16)

    # ---- microbatches ------------------------------------------------------------------------------------------------

    def microbatches(self, rows: Sequence[Row], size_of: Callable[[Row], RowSize]) -> Iterator[list[Row]]:
        """Yield this process's share of the rows, in parts of similar length of at most `microbatch_tokens`.

        A sharded model needs equally many forward passes in every process: a process with fewer parts gets empty ones.
        """
        by_length = sorted(rows, key=lambda row: size_of(row).tokens)
        shares = [by_length[k :: distributed.world_size()] for k in range(distributed.world_size())]
        parts = [self._parts(share, size_of) for share in shares]
        mine = parts[distributed.rank()]
        yield from mine
        if self.sharded:
            yield from ([] for _ in range(max(map(len, parts)) - len(mine)))

    def _parts(self, rows: Sequence[Row], size_of: Callable[[Row], RowSize]) -> list[list[Row]]:
        parts = pack_rows([size_of(row) for row in rows], self.settings.microbatch_tokens)
        return [[rows[i] for i in part] for part in parts]

    def scale_learning_rate(self, factor: float) -> None:
        """Set every group's learning rate to `factor` times its initial one."""
        for group, rate in zip(self.backend.param_groups, self._rates, strict=True):
            group["lr"] = factor * rate

    # ---- what it changed ---------------------------------------------------------------------------------------------

    def trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the trained weights by name, in the format that the optimizer trains them in."""
        return self._masters.trained()

    def round_into_model(self) -> None:
        """Give the model the trained weights after they were written to, rounded to its format."""
        self._masters.round_into_model()

    def require_change(self) -> dict[str, float]:
        """Return the learning rate and the share of the trained weights that changed.

        Raises:
            TrainingError: fewer than half of the weights that AdamW meant to move have changed.
        """
        states = self.backend.optimizer.state if isinstance(self.backend, Unsharded) and not self.sharded else {}
        if (kept := self._change.share(states)) < _LEAST_KEPT:
            raise TrainingError(
                f"the training was lost: {100 * kept:.2g} % of the weights that it should have moved have changed; a "
                f"step of learning_rate {self.learning_rate:g} is less than float32 can add to a weight"
            )
        return {"learning_rate": self.learning_rate, "weights_changed": self._change.share()}

    # ---- the end -----------------------------------------------------------------------------------------------------

    def sync_to_policy(self) -> None:
        """Give the policy the weights of a sharded copy, if one is trained; all processes call it."""
        if self.sharded:
            copy_weights(self.net, self._original)

    def close(self) -> None:
        """Remove what the training added to the policy, other than adapters."""
        self._masters.close()
        if self._masters and not self.sharded:
            self.policy.keep_masters({
                name: self._masters.of(p) for name, p in self.policy.model.named_parameters()
                if self._masters.of(p) is not p
            })  # fmt: skip
        stop_recomputing(self.policy.model, self._hooks)
        for name in ("forward", "_original_forward", "_is_accelerate_prepared"):
            vars(self.policy.model).pop(name, None)  # bound to this model: a copy would use its weights
        self.policy.model.zero_grad()
        self.policy.model.eval()
