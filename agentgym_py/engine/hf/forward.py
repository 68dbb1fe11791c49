"""One forward pass of a causal model over packed tokens and a slot cache.

Any transformers model works: its attention is replaced during the call, through transformers' attention interface, by
one that writes to the cache and follows the plan. Small Llamas on a CPU spend most of a forward in module calls, so the
same forward is written out for them with fused weights: equal logits, about twice the decoding speed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from agentgym_py.engine.hf.kvcache import Attention, Plan, SlotCache
from agentgym_py.errors import PolicyError
from agentgym_py.policy.adapters import has_adapters, is_quantized, merged_copy
from agentgym_py.policy.vocabulary import token_logits, vocab_size_of

Forward = Callable[[Tensor, Tensor, Tensor, SlotCache, Plan], Tensor]
"""(ids (N,), positions (N,), wanted (B,) places in the pack, cache, plan) -> logits (B, V) of the tokens."""

_ATTENTION = "agentgym_slots"
_SMALL = 32_000_000
"""Fused weights are a copy; larger models gain little and would pay with memory."""


def forward_of(model: Any) -> Forward:
    """Return the fastest forward for a model; raise PolicyError if its attention does not fit the slot cache."""
    _require_standard_attention(model)
    if not FusedLlama.fits(model.get_base_model() if has_adapters(model) else model):
        return HuggingFaceForward(model)
    return FusedLlama(merged_copy(model) if has_adapters(model) else model)


# ---- any model -------------------------------------------------------------------------------------------------------


class HuggingFaceForward:
    """A model's own forward, with its attention over the slot cache. Not safe for two threads on one model."""

    def __init__(self, model: Any) -> None:
        from transformers import AttentionInterface

        AttentionInterface.register(_ATTENTION, _slot_attention)
        self._model = model
        self._configs = _configs(model)

    def __call__(self, ids_N: Tensor, positions_N: Tensor, wanted_B: Tensor, cache: SlotCache, plan: Plan) -> Tensor:
        """See `Forward`."""
        before = [config._attn_implementation for config in self._configs]
        try:
            for config in self._configs:
                config._attn_implementation = _ATTENTION
            output = self._model(
                input_ids=ids_N[None],
                position_ids=positions_N[None],
                use_cache=False,
                logits_to_keep=wanted_B,
                slots=(cache, plan),
            )
        finally:
            for config, name in zip(self._configs, before, strict=True):
                config._attn_implementation = name
        return token_logits(self._model, output.logits[0])


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
    others = set(getattr(config, "layer_types", None) or []) - {"full_attention", "sliding_attention"}
    if others:
        raise PolicyError(
            f"HFEngine runs full and sliding-window attention; {name} has other layers: {', '.join(sorted(others))}"
        )
    if not getattr(base, "_supports_attention_backend", False):
        raise PolicyError(f"HFEngine needs a model with transformers' attention interface; {name} has none")


# ---- small Llamas ----------------------------------------------------------------------------------------------------


class _Layer(NamedTuple):
    """One layer's weights, each transposed for (N, in) @ (in, out); norms are folded into the next projection."""

    qkv: Tensor
    out: Tensor
    gate_up: Tensor
    down: Tensor


class FusedLlama:
    """`LlamaForCausalLM` with fewer and larger operations: the same logits."""

    def __init__(self, model: Any) -> None:
        config, body = model.config, model.model
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._size: int = body.layers[0].self_attn.head_dim
        self._eps: float = config.rms_norm_eps
        self._frequencies = body.rotary_emb.inv_freq.detach().float()
        self._rotations = torch.empty(0, dtype=torch.complex64)
        with torch.no_grad():
            self._embedding = body.embed_tokens.weight.detach()
            self._layers = [self._fused(layer) for layer in body.layers]
            self._head = _folded(body.norm, model.lm_head.weight[: vocab_size_of(model)])

    @staticmethod
    def fits(model: Any) -> bool:
        """Whether this is a small, plain Llama in float32 on a CPU."""
        from transformers import LlamaForCausalLM

        if type(model) is not LlamaForCausalLM or model.device.type != "cpu" or model.dtype != torch.float32:
            return False
        config = model.config
        plain = not config.attention_bias and not config.mlp_bias and config.hidden_act == "silu"
        plain = plain and not is_quantized(model)
        return (
            plain
            and config.rope_parameters["rope_type"] == "default"
            and sum(parameter.numel() for parameter in model.parameters()) <= _SMALL
        )

    def _fused(self, layer: Any) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        queries, keys = (self._interleaved(w.weight) for w in (attention.q_proj, attention.k_proj))
        qkv = torch.cat([queries, keys, attention.v_proj.weight])
        gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
        return _Layer(
            qkv=_folded(layer.input_layernorm, qkv),
            out=attention.o_proj.weight.detach().t(),
            gate_up=_folded(layer.post_attention_layernorm, gate_up),
            down=mlp.down_proj.weight.detach().t(),
        )

    def _interleaved(self, weight: Tensor) -> Tensor:
        """Put the two coordinates that a rotation mixes side by side, so that a pair is one complex number."""
        halves = weight.view(-1, 2, self._size // 2, weight.shape[1])
        return halves.transpose(1, 2).reshape(weight.shape)

    def __call__(self, ids_N: Tensor, positions_N: Tensor, wanted_B: Tensor, cache: SlotCache, plan: Plan) -> Tensor:
        """See `Forward`."""
        rotation = self._rotation(positions_N)
        x = self._embedding[ids_N]
        for number, layer in enumerate(self._layers):
            attended = self._attend(linear(self._normed(x), layer.qkv), rotation, number, cache, plan)
            x = torch.addmm(x, attended, layer.out)
            gate, up = linear(self._normed(x), layer.gate_up).chunk(2, dim=-1)
            x = torch.addmm(x, silu(gate).mul_(up), layer.down)
        return linear(self._normed(x[wanted_B]), self._head)

    def _attend(self, qkv: Tensor, rotation: Tensor, number: int, cache: SlotCache, plan: Plan) -> Tensor:
        heads_NHD = qkv.view(len(qkv), -1, self._size)
        turning = self._heads + self._kv_heads
        pairs = torch.view_as_complex(heads_NHD[:, :turning].view(len(qkv), turning, -1, 2))
        turned = torch.view_as_real(pairs * rotation).flatten(-2)
        cache.write(number, plan, turned[:, self._heads :], heads_NHD[:, turning:])
        how = Attention(self._size**-0.5)
        return plan.attend(cache, number, turned[:, : self._heads], how).reshape(len(qkv), -1)

    def _rotation(self, positions_N: Tensor) -> Tensor:
        longest = int(positions_N.max()) + 1
        if longest > len(self._rotations):
            angles = torch.arange(2 * longest).float()[:, None] * self._frequencies
            self._rotations = torch.polar(torch.ones_like(angles), angles)[:, None]
        return self._rotations[positions_N]

    def _normed(self, x: Tensor) -> Tensor:
        return x * x.square().mean(-1, keepdim=True).add_(self._eps).rsqrt_()


def _folded(norm: Any, weight: Tensor) -> Tensor:
    scale: Tensor = norm.weight
    return (weight * scale).detach()
