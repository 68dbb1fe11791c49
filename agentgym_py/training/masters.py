"""Float32 master weights of a model that computes in bfloat16, and how much a training changed.

A step of AdamW moves a weight by about its learning rate; bfloat16 has steps of 1/256 of a weight, so it would round
most of them away. The optimizer therefore trains a float32 copy, which is rounded into the model after each step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from agentgym_py.policy.head import give_head_gradient

_SAMPLED = 1 << 20
"""Weights at most whose change is measured, spread over all."""
_MOVING = 0.1
"""A weight is meant to move if its last step was at least this share of the learning rate."""
_HOOK = "_agentgym_master_hook"
"""Attribute of a weight with the handle of its newest hook."""


class MasterWeights:
    """The trained weights of a module: masters in float32 of those in bfloat16, and the others themselves.

    `stored` holds earlier masters by the id of their weight; one that does not round to its weight is not used.
    """

    def __init__(self, module: nn.Module, stored: Mapping[int, Tensor]) -> None:
        self._masters = dict[int, nn.Parameter]()
        self._weights = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self._hooks = []
        self._headed: Any = None
        for weight in self._weights.values():
            if weight.dtype == torch.bfloat16:
                master = nn.Parameter(_master_of(weight, stored.get(id(weight))))
                self._masters[id(weight)] = master
                self._hooks.append(_move_gradient_to(master, weight))

    def __len__(self) -> int:
        return len(self._masters)

    def of(self, weight: nn.Parameter) -> nn.Parameter:
        """Return a weight's master, or the weight itself if it has none."""
        return self._masters.get(id(weight), weight)

    def trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield what the optimizer trains, by the weights' names."""
        return ((name, self.of(weight)) for name, weight in self._weights.items())

    @torch.no_grad()
    def round_into_model(self) -> None:
        """Round the masters into the module's weights."""
        for weight in self._weights.values():
            if (master := self.of(weight)) is not weight:
                weight.copy_(master)

    def take_head_gradient(self, model: Any) -> None:
        """Add the gradients of the pieces of a model's head up in one tensor; not for a sharded module."""
        self._headed = model
        give_head_gradient(model, partial(self._add_gradient, model.get_output_embeddings().weight))

    def _add_gradient(self, weight: nn.Parameter, gradient: Tensor) -> None:
        trained = self.of(weight)
        if trained.grad is None:
            trained.grad = gradient.to(trained.dtype).contiguous()
        else:
            trained.grad.add_(gradient)

    def close(self) -> None:
        """Remove the hooks from the module."""
        for hook in self._hooks:
            hook.remove()
        for weight in self._weights.values():
            vars(weight).pop(_HOOK, None)
        if self._headed is not None:
            give_head_gradient(self._headed, None)


def _master_of(weight: Tensor, stored: Tensor | None) -> Tensor:
    if stored is not None and stored.shape == weight.shape:
        master = stored.detach().to(weight.device, torch.float32, copy=True)
        if torch.equal(master.to(weight.dtype), weight.detach()):
            return master
    return weight.detach().float()


def _move_gradient_to(master: nn.Parameter, weight: nn.Parameter) -> Any:
    """Move a weight's gradients to its master from now on; a training that failed to begin may have left a hook."""
    if stale := vars(weight).get(_HOOK):
        stale.remove()
    hook = weight.register_post_accumulate_grad_hook(partial(_move_gradient, master))  # type: ignore[no-untyped-call]
    setattr(weight, _HOOK, hook)
    return hook


def _move_gradient(master: nn.Parameter, weight: Tensor) -> None:
    """Add a weight's gradient to its master's, in float32; there is none if `take_head_gradient` had it."""
    if weight.grad is None:
        return
    gradient, weight.grad = weight.grad.float(), None
    master.grad = gradient if master.grad is None else master.grad.add_(gradient)


class Change:
    """How much a training changed its weights, measured at up to a million of them."""

    def __init__(self, masters: MasterWeights) -> None:
        self._trained = dict(masters.trained())
        total = sum(parameter.numel() for parameter in self._trained.values())
        self._stride = math.ceil(total / _SAMPLED) or 1
        self._before = {name: self._sample(p).clone() for name, p in self._trained.items()}

    def _sample(self, tensor: Tensor) -> Tensor:
        return tensor.detach().reshape(-1)[:: self._stride]

    def share(self, states: Mapping[Any, Any] | None = None) -> float:
        """Return the share of weights that changed; with an AdamW's `states` of those that it meant to move.

        NaN if there are none.
        """
        changed = total = 0
        for name, parameter in self._trained.items():
            moved = self._sample(parameter) != self._before[name]
            if states is not None:
                state = states.get(parameter, {})
                if not isinstance(state.get("exp_avg"), Tensor) or state["exp_avg"].dtype != parameter.dtype:
                    continue  # no step, or states of 8 bits
                scale = self._sample(state["exp_avg_sq"]).sqrt() + 1e-8
                moved = moved[self._sample(state["exp_avg"]).abs() > _MOVING * scale]
            changed, total = changed + int(moved.sum()), total + moved.numel()
        return changed / total if total else math.nan
