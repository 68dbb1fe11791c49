"""Optimizer steps on a policy's model: what offline and on-policy training share.

It puts adapters on the model, splits a batch into microbatches over the processes, and hands the step to one of the
backends of `training.sharding`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from agentgym_py import distributed
from agentgym_py.policy.adapters import add_adapters, input_hooks, merge_adapters, require_trainable, stop_recomputing
from agentgym_py.policy.quiet import ignore_checkpointing_warnings
from agentgym_py.policy.tokens import pack_rows
from agentgym_py.training.settings import OptimizerSettings
from agentgym_py.training.sharding import give, to_train, work_on

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

Row = TypeVar("Row")


class Optimization:
    """AdamW on a policy's model and, if there are any, the heads on it.

    Under FSDP or DeepSpeed a copy of the model is trained; `publish` copies its weights back to the policy.

    Args:
        policy: Its model is trained in place.
        settings: Learning rate, clipping, adapters, precision, microbatches.
        seed: Draws the adapters' first weights.
        wrap: Makes the module whose forward the training calls; it holds the model as `model`.
        heads: Parameter groups beside the model's, as `torch.optim` takes them.
        train_backbone: Whether the model's own weights learn, or only the heads.

    Raises:
        ConfigError: the model is quantized and all its weights are to be trained, or cannot be sharded.
    """

    def __init__(
        self,
        policy: Policy,
        settings: OptimizerSettings,
        *,
        seed: int,
        wrap: Callable[[Any], nn.Module] = lambda model: model,
        heads: Callable[[nn.Module], Sequence[dict[str, Any]]] = lambda module: (),
        train_backbone: bool = True,
    ) -> None:
        self.policy, self.settings = policy, settings
        if train_backbone:
            require_trainable(policy.model, settings.lora_rank)
        adapters = add_adapters(policy.model, settings.lora_rank, seed)
        if adapters is None:
            policy.model.requires_grad_(train_backbone)  # merging adapters leaves it frozen
        else:
            policy.model = adapters
        self._hooks = input_hooks(policy.model)
        self._own = wrap(policy.model)
        self.net = to_train(self._own)
        self.sharded = self.net is not self._own
        head_groups = list(heads(self.net))
        of_heads = {id(p) for group in head_groups for p in group["params"]}
        backbone = [p for p in self.net.parameters() if p.requires_grad and id(p) not in of_heads]
        groups = [{"params": backbone}, *head_groups]
        optimizer = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=settings.learning_rate, weight_decay=settings.weight_decay, betas=(0.9, 0.95),
        )  # fmt: skip
        if settings.gradient_checkpointing:
            wrapped = getattr(self.net, "model", self.net)
            if wrapped is not None:  # a module of heads alone has no layers to recompute
                with ignore_checkpointing_warnings():
                    wrapped.gradient_checkpointing_enable({"use_reentrant": False})
        self._rates = [group["lr"] for group in optimizer.param_groups]  # a loaded state has scaled ones
        self._backend = work_on(self.net, optimizer, settings.max_grad_norm)
        self.module: Any = self._backend.module

    @property
    def device(self) -> torch.device:
        """Where the policy is."""
        return torch.device(self.policy.model.device)

    def autocast(self) -> AbstractContextManager[Any]:
        """Run a forward pass in bfloat16 if the settings say so."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.bf16)

    # ---- one step ----------------------------------------------------------------------------------------------------

    def microbatches(
        self, rows: Sequence[Row], tokens_of: Callable[[Row], int], sequences_of: Callable[[Row], int] | None = None
    ) -> Iterator[list[Row]]:
        """Yield this process's share of the rows, in parts of similar length of at most `microbatch_tokens`.

        `tokens_of` says how many tokens a row has, padding within it included; `sequences_of` into how many sequences
        they are divided, if rows differ in that. A sharded model needs equally many forward passes in every process: a
        process with fewer parts gets empty ones.
        """
        by_length = sorted(rows, key=tokens_of)
        shares = [by_length[k :: distributed.world_size()] for k in range(distributed.world_size())]
        parts = [self._parts(share, tokens_of, sequences_of) for share in shares]
        own = parts[distributed.rank()]
        yield from own
        if self.sharded:
            yield from ([] for _ in range(max(map(len, parts)) - len(own)))

    def _parts(
        self, rows: Sequence[Row], tokens_of: Callable[[Row], int], sequences_of: Callable[[Row], int] | None
    ) -> list[list[Row]]:
        sequences = [sequences_of(row) if sequences_of else 1 for row in rows]
        lengths = [tokens_of(row) // number for row, number in zip(rows, sequences, strict=True)]
        found = pack_rows(lengths, self.settings.microbatch_tokens, sequences)
        return [[rows[i] for i in part] for part in found]

    def backward(self, loss: Tensor, last: bool) -> None:
        """Add the gradient of a part of the step's loss; the parts of all processes add up. `last`: of this process."""
        self._backend.backward(loss, last)

    def step(self, check: Callable[[float], None]) -> None:
        """Clip and take the step, unless `check`, called with the gradient's norm over all processes, raises."""
        self._backend.step(check)

    def clear(self) -> None:
        """Forget the gradients."""
        self._backend.clear()

    def scale_learning_rate(self, factor: float) -> None:
        """Set every group's learning rate to `factor` times the one that it was made with."""
        for group, rate in zip(self._backend.param_groups, self._rates, strict=True):
            group["lr"] = factor * rate

    # ---- states and the end ------------------------------------------------------------------------------------------

    @property
    def savable(self) -> bool:
        """Whether `save` can be called now: FSDP's optimizer must have begun with all weights or with none."""
        return self._backend.savable

    def save(self, folder: Path) -> None:
        """Write the trained weights and the optimizer; all processes call it."""
        self._backend.save(folder)

    def load(self, folder: Path) -> None:
        """Take up the state that `save` wrote."""
        self._backend.load(folder)

    def publish(self) -> None:
        """Give the policy the trained weights if they are a sharded copy's; all processes call it."""
        if self.sharded:
            give(self.net, self._own)

    def close(self) -> None:
        """Merge adapters into the policy and leave nothing else of the training on it."""
        stop_recomputing(self.policy.model, self._hooks)
        if self.settings.lora_rank:
            self.policy.model = merge_adapters(self.policy.model)
        for name in ("forward", "_original_forward", "_is_accelerate_prepared"):
            vars(self.policy.model).pop(name, None)  # bound to this model: a copy would run its weights
        self.policy.model.eval()
