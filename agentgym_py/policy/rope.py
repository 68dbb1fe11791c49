"""Rotary embeddings whose factors depend on the longest sequence of a forward pass, fixed for a policy."""

from __future__ import annotations

from typing import Any

from agentgym_py.errors import PolicyError

_FIXED = "longrope_fixed"
"""The type of a fixed module: transformers recomputes the factors of `longrope`."""


def fix_rope(model: Any, max_length: int) -> None:
    """Give a model with longrope (Phi-3, Phi-4-mini) one set of factors, for contexts of up to `max_length` tokens.

    transformers takes the long factors if a batch holds a sequence beyond the model's original length, else the short
    ones. A token's keys would depend on the other rows of its batch, and cached keys would become wrong in the middle
    of an episode. The rule here is vLLM's: long factors if the context exceeds the original length.

    Raises:
        PolicyError: its layers have factors of several kinds.
    """
    for module in model.modules():
        kind = getattr(module, "rope_type", None)
        if isinstance(kind, dict) and "longrope" in kind.values():
            raise PolicyError("models with longrope in some of their layers only are not supported")
        if kind in ("longrope", _FIXED):
            _fix(module, max_length)


def _fix(module: Any, max_length: int) -> None:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    original = module.config.rope_parameters["original_max_position_embeddings"]
    length = original + 1 if max_length > original else original
    frequencies, _ = ROPE_INIT_FUNCTIONS["longrope"](module.config, module.inv_freq.device, seq_len=length)
    module.inv_freq.copy_(frequencies)
    module.rope_type = _FIXED
