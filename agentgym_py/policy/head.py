"""A causal model's language-model head as a function, for trainings that run it in pieces."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from agentgym_py.errors import PolicyError
from agentgym_py.policy.vocabulary import vocab_size_of


class Head:
    """Maps hidden states (n, H) to logits (n, V), as the model's own forward pass does after its last layer.

    transformers writes what follows the head into each model's `forward`; the known cases are the soft cap of Gemma 2
    and 3 and the factors of Granite and Cohere. `require_equal` finds an unknown one.
    """

    def __init__(self, model: Any) -> None:
        config = model.config.get_text_config()
        self._model, self._module = type(model).__name__, model.get_output_embeddings()
        self._vocab_size = vocab_size_of(model)
        self._factor = float(getattr(config, "logit_scale", None) or 1)
        self._factor /= float(getattr(config, "logits_scaling", None) or 1)
        self._cap = getattr(config, "final_logit_softcapping", None)
        device = self._module.weight.device.type
        self._autocast = device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)

    def __call__(self, hidden_nH: Tensor) -> Tensor:
        """Compute logits in the precision that was in force when the head was made."""
        device, dtype, enabled = self._autocast
        with torch.autocast(device, dtype, enabled=enabled):
            logits: Tensor = self._module(hidden_nH)[..., : self._vocab_size]
            if self._factor != 1:
                logits = logits * self._factor
            return torch.tanh(logits / self._cap) * self._cap if self._cap else logits

    def require_equal(self, hidden_nH: Tensor, logits_nV: Tensor) -> None:
        """Raise PolicyError if the model's own forward pass gave other logits for these states."""
        with torch.no_grad():
            own, other = self(hidden_nH).float(), logits_nV.detach().float()
        if not torch.allclose(own, other, rtol=1e-2, atol=1e-2 * float(other.abs().max())):
            raise PolicyError(
                f"the logits of {self._model} are not those of its head, which runs in pieces on a batch of this size: "
                "set microbatch_tokens lower"
            )


def head_of(model: Any) -> Head | None:
    """Return the model's head; None if its weights are sharded over processes, because only `forward` gathers them."""
    from torch.distributed.tensor import DTensor

    weight = model.get_output_embeddings().weight
    return None if isinstance(weight, DTensor) or hasattr(weight, "ds_id") else Head(model)
