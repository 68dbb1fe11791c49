"""A causal model's language-model head as a function, for trainings that run it in pieces."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPast

from agentgym_py.policy.adapters import without_lm_head
from agentgym_py.policy.vocabulary import token_logits

_IN_ONE_PIECE = weakref.WeakSet[Any]()
"""Models whose own forward pass alone computes their logits."""
AddGradient = Callable[[Tensor], None]
_ADD_GRADIENT = weakref.WeakKeyDictionary[nn.Module, AddGradient]()
"""What is called with the gradient of a head's weight, piece by piece."""


def give_head_gradient(model: Any, add: AddGradient | None) -> None:
    """Call `add` with each piece's gradient of the head's weight; None leaves the gradient to autograd again.

    Autograd sums the pieces' gradients beside that of earlier batches, and with tied embeddings keeps both until the
    embedding's is computed: three tensors of the weight's size.
    """
    head = model.get_output_embeddings()
    if add is None:
        _ADD_GRADIENT.pop(head, None)
    elif head.weight.requires_grad:
        _ADD_GRADIENT[head] = add


class Head:
    """Maps hidden states (n, H) to logits (n, V): the model's own forward pass without its layers.

    transformers writes what follows the head into each model's `forward`, such as the soft cap of Gemma 2 and the
    factors of Granite and Cohere. So `forward` runs as it is, on layers that return the given states.
    """

    def __init__(self, model: Any) -> None:
        self._model, self._layers = model, without_lm_head(model)
        self._module = model.get_output_embeddings()
        self._precision = _precision_of_now(self._module.weight.device.type)

    def __call__(self, hidden_nH: Tensor) -> Tensor:
        """Compute logits in the precision that was in force when the head was made."""
        states_1nH = hidden_nH[None]
        with self._returning(states_1nH), self._precision():
            return token_logits(self._model, self._model(inputs_embeds=states_1nH, use_cache=False).logits[0])

    @contextmanager
    def _returning(self, states_1nH: Tensor) -> Iterator[None]:
        """Let the layers return these states, and the head read them."""
        own, parameters = vars(self._layers).get("forward"), self._module._parameters
        weight, add = parameters.get("weight"), _ADD_GRADIENT.get(self._module)
        if add is not None:
            parameters["weight"] = _GivenGradient.apply(weight, add)  # type: ignore[no-untyped-call]  # torch's
        self._layers.forward = lambda *args, **kwargs: _LayersOutput(last_hidden_state=states_1nH)
        hook = self._module.register_forward_pre_hook(lambda _, inputs: (states_1nH,))
        try:
            yield
        finally:
            hook.remove()
            if add is not None:
                parameters["weight"] = weight
            del self._layers.forward
            if own is not None:
                self._layers.forward = own

    def agrees(self, hidden_nH: Tensor, logits_nV: Tensor) -> bool:
        """Whether the model's forward pass over whole rows gave the same logits for these states.

        If not, `head_of` returns None for this model from now on.
        """
        with torch.no_grad():
            own, other = self(hidden_nH).float(), logits_nV.detach().float()
        agrees = torch.allclose(own, other, rtol=1e-2, atol=1e-2 * float(other.abs().max()))
        if not agrees:
            _IN_ONE_PIECE.add(self._model)
        return agrees


class _GivenGradient(torch.autograd.Function):
    """A weight whose gradient is given to a function, not to autograd."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, add: AddGradient) -> Tensor:
        """Return the weight itself."""
        ctx.add = add
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        """Give the gradient away."""
        ctx.add(*gradients)
        return None, None


class _LayersOutput(BaseModelOutputWithPast):  # type: ignore[misc]  # transformers is untyped
    """The output of any model's layers; fields other than the states are None."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(name)


def _precision_of_now(device: str) -> Callable[[], AbstractContextManager[Any]]:
    if not torch.amp.is_autocast_available(device):
        return nullcontext
    dtype, enabled = torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
    return lambda: torch.autocast(device, dtype, enabled=enabled)


def head_of(model: Any) -> Head | None:
    """Return the model's head; None if only its own forward pass computes its logits.

    So it is if they depend on more than the states (see `Head.agrees`), or if its weights are sharded over processes,
    because only `forward` gathers them.
    """
    from torch.distributed.tensor import DTensor

    weight = model.get_output_embeddings().weight
    whole = model in _IN_ONE_PIECE or without_lm_head(model) is model
    return None if whole or isinstance(weight, DTensor) or hasattr(weight, "ds_id") else Head(model)
