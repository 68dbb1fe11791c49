"""The forward pass of small Llamas and LFM2s in float32 on a CPU, written out with fewer and larger operations.

They spend most of a forward in module calls. With fused weights the logits are equal, and decoding is about twice as
fast.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from agentgym_py.engine.hf.kvcache import Attention, Plan, SlotCache, convolve
from agentgym_py.policy.adapters import is_quantized
from agentgym_py.policy.vocabulary import vocab_size_of

_SMALL = 32_000_000
"""Fused weights are a copy; larger models gain little and would pay with memory."""


class _Heads(NamedTuple):
    """The weights of attention. A norm before a projection is folded into it."""

    qkv: Tensor
    norms: tuple[Tensor, Tensor] | None
    """Scales of the norms of each query and each key, (D,), if there are norms."""
    out: Tensor


class _Convolution(NamedTuple):
    """The weights of a gated short convolution."""

    inputs: Tensor
    kernel_DW: Tensor
    out: Tensor


class _Layer(NamedTuple):
    """One layer's weights; those after an activation are transposed for (N, in) @ (in, out)."""

    mixer: _Heads | _Convolution
    gate_up: Tensor
    down: Tensor


class FusedForward:
    """`LlamaForCausalLM` or `Lfm2ForCausalLM` with fewer and larger operations: the same logits."""

    def __init__(self, model: Any) -> None:
        config, body = model.config, model.model
        is_llama = config.model_type == "llama"
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._size: int = getattr(config, "head_dim", None) or config.hidden_size // self._heads
        self._eps: float = config.rms_norm_eps if is_llama else config.norm_eps
        self._frequencies = body.rotary_emb.inv_freq.detach().float()
        self._rotations = torch.empty(0, dtype=torch.complex64)
        with torch.no_grad():
            self._embedding = body.embed_tokens.weight.detach()
            self._layers = [self._llama(layer) if is_llama else self._lfm2(layer) for layer in body.layers]
            norm = body.norm if is_llama else body.embedding_norm
            self._head = _folded(norm, model.lm_head.weight[: vocab_size_of(model)])

    @staticmethod
    def fits(model: Any) -> bool:
        """Whether this is a small, plain Llama or LFM2 in float32 on a CPU."""
        from transformers import Lfm2ForCausalLM, LlamaForCausalLM

        if model.device.type != "cpu" or model.dtype != torch.float32 or is_quantized(model):
            return False
        config = model.config
        if type(model) is LlamaForCausalLM:
            plain = not config.attention_bias and not config.mlp_bias and config.hidden_act == "silu"
        else:
            plain = type(model) is Lfm2ForCausalLM and not config.conv_bias
        return (
            plain
            and config.rope_parameters["rope_type"] == "default"
            and sum(parameter.numel() for parameter in model.parameters()) <= _SMALL
        )

    def _llama(self, layer: Any) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
        return _Layer(
            _Heads(self._qkv(layer.input_layernorm, attention), None, _transposed(attention.o_proj)),
            _folded(layer.post_attention_layernorm, gate_up),
            _transposed(mlp.down_proj),
        )

    def _lfm2(self, layer: Any) -> _Layer:
        mixer: _Heads | _Convolution
        if layer.is_attention_layer:
            attention = layer.self_attn
            queries, keys = (self._interleaved(norm.weight[:, None])[:, 0].detach() for norm in (
                attention.q_layernorm, attention.k_layernorm
            ))  # fmt: skip
            qkv = self._qkv(layer.operator_norm, attention)
            mixer = _Heads(qkv, (queries, keys), _transposed(attention.out_proj))
        else:
            convolution = layer.conv
            inputs = _folded(layer.operator_norm, convolution.in_proj.weight)
            mixer = _Convolution(inputs, convolution.conv.weight[:, 0].detach(), _transposed(convolution.out_proj))
        mlp = layer.feed_forward
        gate_up = _folded(layer.ffn_norm, torch.cat([mlp.w1.weight, mlp.w3.weight]))
        return _Layer(mixer, gate_up, _transposed(mlp.w2))

    def _qkv(self, norm: Any, attention: Any) -> Tensor:
        queries, keys = (self._interleaved(w.weight) for w in (attention.q_proj, attention.k_proj))
        return _folded(norm, torch.cat([queries, keys, attention.v_proj.weight]))

    def _interleaved(self, weight: Tensor) -> Tensor:
        """Put the two coordinates that a rotation mixes side by side, so that a pair is one complex number."""
        halves = weight.view(-1, 2, self._size // 2, weight.shape[1])
        return halves.transpose(1, 2).reshape(weight.shape)

    def __call__(self, ids_N: Tensor, positions_N: Tensor, wanted_B: Tensor, cache: SlotCache, plan: Plan) -> Tensor:
        """See `Forward`."""
        rotation = self._rotation(positions_N)
        x = self._embedding[ids_N]
        for number, (mixer, gate_up, down) in enumerate(self._layers):
            if isinstance(mixer, _Heads):
                mixed = self._attend(self._normed(x), mixer, rotation, number, cache, plan)
            else:
                before, after, inputs = linear(self._normed(x), mixer.inputs).chunk(3, dim=-1)
                mixed = after * convolve(cache, number, plan, before * inputs, mixer.kernel_DW)
            x = torch.addmm(x, mixed, mixer.out)
            gate, up = linear(self._normed(x), gate_up).chunk(2, dim=-1)
            x = torch.addmm(x, silu(gate).mul_(up), down)
        return linear(self._normed(x[wanted_B]), self._head)

    def _attend(self, x: Tensor, mixer: _Heads, rotation: Tensor, number: int, cache: SlotCache, plan: Plan) -> Tensor:
        heads_NHD = linear(x, mixer.qkv).view(len(x), -1, self._size)
        turning = self._heads + self._kv_heads
        to_turn = heads_NHD[:, :turning]
        if mixer.norms is not None:
            scales = zip(torch.split(to_turn, [self._heads, self._kv_heads], dim=1), mixer.norms, strict=True)
            to_turn = torch.cat([self._normed(part) * scale for part, scale in scales], dim=1)
        pairs = torch.view_as_complex(to_turn.view(len(x), turning, -1, 2))
        turned = torch.view_as_real(pairs * rotation).flatten(-2)
        cache.write(number, plan, turned[:, self._heads :], heads_NHD[:, turning:])
        how = Attention(self._size**-0.5)
        return plan.attend(cache, number, turned[:, : self._heads], how).reshape(len(x), -1)

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


def _transposed(projection: Any) -> Tensor:
    weight: Tensor = projection.weight
    return weight.detach().t()
