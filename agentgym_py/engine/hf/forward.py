"""One forward pass of a causal model over packed tokens and a slot cache.

Any transformers model works: its attention is replaced during the call, through transformers' attention interface, by
one that writes to the cache and follows the plan. So are the short convolutions of LFM2. `fused` has a faster forward
for small models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor

from agentgym_py.engine.hf.fused import FusedForward
from agentgym_py.engine.hf.kvcache import Attention, Plan, SlotCache, convolve
from agentgym_py.errors import PolicyError
from agentgym_py.policy.adapters import has_adapters, merged_copy
from agentgym_py.policy.vocabulary import token_logits

Forward = Callable[[Tensor, Tensor, Tensor, SlotCache, Plan], Tensor]
"""(ids (N,), positions (N,), wanted (B,) places in the pack, cache, plan) -> logits (B, V) of the tokens."""

_ATTENTION = "agentgym_slots"


def forward_of(model: Any) -> Forward:
    """Return the fastest forward for a model; raise PolicyError if its attention does not fit the slot cache."""
    _require_standard_attention(model)
    if not FusedForward.fits(model.get_base_model() if has_adapters(model) else model):
        return HuggingFaceForward(model)
    return FusedForward(merged_copy(model) if has_adapters(model) else model)


class HuggingFaceForward:
    """A model's own forward, with its attention over the slot cache. Not safe for two threads on one model."""

    def __init__(self, model: Any) -> None:
        from transformers import AttentionInterface

        AttentionInterface.register(_ATTENTION, _slot_attention)
        self._model = model
        self._configs = _configs(model)
        self._convolutions = [module for module in model.modules() if type(module).__name__ == "Lfm2ShortConv"]

    def __call__(self, ids_N: Tensor, positions_N: Tensor, wanted_B: Tensor, cache: SlotCache, plan: Plan) -> Tensor:
        """See `Forward`."""
        with self._replaced():
            output = self._model(
                input_ids=ids_N[None],
                position_ids=positions_N[None],
                use_cache=False,
                logits_to_keep=wanted_B,
                slots=(cache, plan),
            )
        return token_logits(self._model, output.logits[0])

    @contextmanager
    def _replaced(self) -> Iterator[None]:
        """Let attention and convolutions run over the slot cache."""
        before = [config._attn_implementation for config in self._configs]
        try:
            for config in self._configs:
                config._attn_implementation = _ATTENTION
            for module in self._convolutions:
                module.forward = partial(_slot_convolution, module)
            yield
        finally:
            for config, name in zip(self._configs, before, strict=True):
                config._attn_implementation = name
            for module in self._convolutions:
                del module.forward


def _slot_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    slots: tuple[SlotCache, Plan] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The attention that transformers calls instead of sdpa: shapes (1, heads, N, D) in, (1, N, heads, D) out."""
    if slots is None:
        raise PolicyError(f"HFEngine cannot run a model that keeps keywords from its layers ({type(module).__name__})")
    if kwargs.get("position_bias") is not None:
        raise PolicyError(f"HFEngine cannot run attention with position_bias ({type(module).__name__})")
    window, softcap, sinks = (kwargs.get(name) for name in ("sliding_window", "softcap", "s_aux"))
    if window is None and _is_windowed(module):
        raise PolicyError(f"HFEngine cannot run {type(module).__name__}: its sliding window is a mask of its own")
    cache, plan = slots
    cache.write(module.layer_idx, plan, key[0].transpose(0, 1), value[0].transpose(0, 1))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    how = Attention(scale, window, softcap, sinks)
    return plan.attend(cache, module.layer_idx, query[0].transpose(0, 1), how)[None], None


def _slot_convolution(
    module: Any, hidden_states: Tensor, slots: tuple[SlotCache, Plan] | None = None, **_: Any
) -> Tensor:
    """The short convolution of LFM2 over the slot cache, (1, N, D)."""
    if slots is None:
        raise PolicyError(f"HFEngine cannot run a model that keeps keywords from its layers ({type(module).__name__})")
    cache, plan = slots
    before, after, inputs = module.in_proj(hidden_states[0]).chunk(3, dim=-1)
    mixed = convolve(cache, module.layer_idx, plan, before * inputs, module.conv.weight[:, 0])
    if module.conv.bias is not None:
        mixed = mixed + module.conv.bias
    return module.out_proj(after * mixed)[None]  # type: ignore[no-any-return]


def _is_windowed(module: Any) -> bool:
    """Whether the configuration gives this layer a sliding window."""
    config = getattr(module, "config", None)
    kinds = getattr(config, "layer_types", None)
    if kinds:
        return bool(kinds[module.layer_idx] == "sliding_attention")
    return getattr(config, "sliding_window", None) is not None


def _configs(model: Any) -> list[Any]:
    """Return every configuration that determines the attention of a module."""
    configs = {id(config): config for module in model.modules() if (config := getattr(module, "config", None))}
    return [config for config in configs.values() if hasattr(config, "_attn_implementation")]


def _require_standard_attention(model: Any) -> None:
    config = model.config.get_text_config()
    base = model.get_base_model() if hasattr(model, "peft_config") else model
    name = type(base).__name__
    runs = {"full_attention", "sliding_attention", *(["conv"] if config.model_type == "lfm2" else [])}
    others = set(getattr(config, "layer_types", None) or []) - runs
    if others:
        raise PolicyError(
            f"HFEngine runs full and sliding-window attention; {name} has other layers: {', '.join(sorted(others))}"
        )
    if not getattr(base, "_supports_attention_backend", False):
        raise PolicyError(f"HFEngine needs a model with transformers' attention interface; {name} has none")
