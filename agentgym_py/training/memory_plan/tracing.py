"""Count a model's weights, and the bytes of its forward and backward pass, without weights.

The model is built on torch's `meta` device, whose tensors have a shape and no memory, and runs this project's own
training pass there. So every family is counted as it computes, not by a formula.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from agentgym_py.engine.decoding import draw
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.errors import PolicyError
from agentgym_py.policy.adapters import add_adapters, without_lm_head
from agentgym_py.policy.head import Head
from agentgym_py.policy.loading import first_line
from agentgym_py.policy.logprobs import AgentLogits, agent_logprobs_and_hits, at_least_float32, runs_in_pieces
from agentgym_py.policy.quiet import ignore_checkpointing_warnings
from agentgym_py.training.masters import MasterWeights
from agentgym_py.training.memory_plan.models import ModelConfig
from agentgym_py.training.rl.actor_critic import ActorCritic

_ATTENTION = "agentgym_plan"


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    """Counts the bytes of the tensors that operations make, as long as they live, on any device.

    Tensors that were there before do not count. `peak` is the largest number since the last `restart`.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.live: int = 0
        self.peak: int = 0
        self._storages = set[int]()

    def __enter__(self) -> Self:
        super().__enter__()  # type: ignore[no-untyped-call]  # torch's
        return self

    def restart(self) -> None:
        """Begin to look for the peak."""
        self.peak = self.live

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count what it made."""
        before = {_key(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        out = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor) and _key(leaf) not in before | self._storages:
                self._add(leaf.untyped_storage())
        return out

    def _add(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        self._storages.add(key)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._remove, key, size)

    def _remove(self, key: int, size: int) -> None:
        self._storages.discard(key)
        self.live -= size


def _key(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


class Counts(NamedTuple):
    """Numbers of weights."""

    weights: int
    linear: int
    """In linear layers other than the head, which are those that `quantize` and adapters change."""
    largest_linear: int
    unit: int
    """In what FSDP gathers at a time: embeddings, head and two layers."""
    adapters: int


class Trace(NamedTuple):
    """Bytes of a microbatch's forward and backward pass, without weights and their gradients."""

    activations: int
    """What the layers keep for the backward pass."""
    in_layers: int
    """The largest number until the backward pass has left the first layer, logits included."""
    in_embeddings: int
    """The largest number after that, when all activations are free again."""

    @property
    def peak(self) -> int:
        """The largest number at any moment."""
        return max(self.in_layers, self.in_embeddings)


@dataclass(frozen=True, slots=True)
class Microbatch:
    """One forward and backward pass."""

    rows: int
    length: int
    agent_tokens: int
    head: str
    """`offline`: log-probabilities; `on_policy`: with the entropy; `entropy`: with its gradient; `none`: no head."""
    critic: bool = False
    in_pieces: bool = True
    """Whether many logits are computed in pieces."""


_BUILT = 2
"""Layers that are traced of a model whose layers are alike: each further one takes as many bytes as the last."""


@lru_cache(maxsize=64)
def count_weights(model: ModelConfig, lora_rank: int) -> Counts:
    """Count a model's weights, and those of adapters of this rank."""
    built = _build(model, torch.bfloat16)
    weights = sum(p.numel() for p in built.parameters())
    head, embeddings = built.get_output_embeddings(), built.get_input_embeddings()
    linear = [m.weight.numel() for m in built.modules() if isinstance(m, nn.Linear) and m is not head]
    ends = sum({id(m.weight): m.weight.numel() for m in (head, embeddings)}.values())
    unit = ends + 2 * (weights - ends) // model.layers
    return Counts(weights, sum(linear), max(linear, default=0), unit, _count_adapters(model, lora_rank))


def _count_adapters(model: ModelConfig, rank: int) -> int:
    """Count the weights of adapters; by the first layers if all are alike, because making adapters takes seconds."""
    if not rank:
        return 0
    few = _traced_layers(model)
    numbers: list[int] = [
        sum(p.numel() for p in add_adapters(_build(part, torch.bfloat16), rank, 0).parameters() if p.requires_grad)
        for part in (model.with_layers(max(few - 1, 1)), model.with_layers(few))
    ]
    return numbers[-1] + (model.layers - few) * (numbers[-1] - numbers[0])


@lru_cache(maxsize=64)
def _traced_layers(model: ModelConfig) -> int:
    """Number of first layers that stand for all: `_BUILT` if each further one has as many weights as the last of these.

    In a mixture of experts the first layers may have none: all are traced. Layers of equal size count as alike.
    """
    if model.layers <= _BUILT:
        return model.layers
    before, after = (count_weights(model.with_layers(n), 0).weights for n in (_BUILT - 1, _BUILT))
    alike = after + (model.layers - _BUILT) * (after - before) == count_weights(model, 0).weights
    return _BUILT if alike else model.layers


@lru_cache(maxsize=256)
def trace_step(model: ModelConfig, dtype: str, lora_rank: int, checkpointing: bool, batch: Microbatch) -> Trace:
    """Run a forward and a backward pass, with gradients of an earlier microbatch in place, and count their bytes."""
    few = model.with_layers(_traced_layers(model))
    if few.layers == model.layers:
        return _trace(model, dtype, lora_rank, checkpointing, batch)
    fewer = few.with_layers(max(few.layers - 1, 1))
    before, after = (_trace(each, dtype, lora_rank, checkpointing, batch) for each in (fewer, few))
    further = (model.layers - few.layers) * (after.activations - before.activations)
    return after._replace(activations=after.activations + further, in_layers=after.in_layers + further)


def _trace(model: ModelConfig, dtype: str, lora_rank: int, checkpointing: bool, batch: Microbatch) -> Trace:
    built = _build(model, getattr(torch, dtype))
    if lora_rank:
        built = add_adapters(built, lora_rank, 0)
    masters = MasterWeights(built, {})
    masters.take_head_gradient(built)
    if checkpointing:
        with ignore_checkpointing_warnings():
            built.train().gradient_checkpointing_enable({"use_reentrant": False})
    for _, parameter in masters.trained():
        parameter.grad = torch.empty_like(parameter)
    with LiveBytes() as counted:
        trace = _pass(built, batch, counted)
    masters.close()
    return trace


def _pass(model: Any, batch: Microbatch, counted: LiveBytes) -> Trace:
    """Run one microbatch."""
    in_layers = list[int]()

    def leave_layers(_: Tensor) -> None:
        in_layers.append(counted.peak)
        counted.restart()

    def watch(module: nn.Module, inputs: Any, embedded: Tensor) -> None:
        if embedded.requires_grad:
            embedded.register_hook(leave_layers)  # type: ignore[no-untyped-call]  # torch's

    model.get_input_embeddings().register_forward_hook(watch)
    with _family_errors(model), torch.enable_grad():
        ids = torch.zeros(batch.rows, batch.length, dtype=torch.long, device="meta")
        states = without_lm_head(model)(input_ids=ids, use_cache=False).last_hidden_state
        hidden_NH = states.flatten(0, 1)[: batch.agent_tokens].clone()
        del states
        activations = counted.live
        _loss(model, hidden_NH, batch).backward()  # type: ignore[no-untyped-call]  # torch's
    return Trace(activations, in_layers[0], counted.peak) if in_layers else Trace(activations, counted.peak, 0)


def _loss(model: Any, hidden_NH: Tensor, batch: Microbatch) -> Tensor:
    if batch.head == "none":
        return at_least_float32(hidden_NH).sum()
    head, targets_N = Head(model), torch.zeros(len(hidden_NH), dtype=torch.long, device="meta")
    words = model.get_output_embeddings().weight.shape[0]
    if batch.in_pieces and runs_in_pieces(len(hidden_NH), words):
        agent = AgentLogits(None, targets_N, hidden_NH, head)
    else:
        agent = AgentLogits(at_least_float32(head(hidden_NH)), targets_N, hidden_NH)
    if batch.head == "offline":
        return agent_logprobs_and_hits(agent)[0].sum()
    net = ActorCritic(model, batch.critic, 1.0, entropy_gradient=batch.head == "entropy")
    out = net.output_of(agent)
    total = out.logps_N.sum() + (out.entropy_N.sum() if batch.head == "entropy" else 0)
    return total if out.values_N is None else total + out.values_N.sum()


def trace_sampling(vocab_size: int, dtype: str, rows: int) -> int:
    """Count the bytes of drawing a token for each of B rows, (B, V) logits included."""
    with LiveBytes() as counted, torch.no_grad():
        logits = torch.empty(rows, vocab_size, dtype=getattr(torch, dtype), device="meta")
        draw(logits, torch.empty(rows, device="meta"), SamplingParams(temperature=0.7, max_new_tokens=1))
    return counted.peak


@lru_cache(maxsize=64)
def trace_prefill(model: ModelConfig, dtype: str, tokens: int) -> int:
    """Count the bytes of a forward pass without gradients."""
    built = _build(model.with_layers(_traced_layers(model)), getattr(torch, dtype))
    with LiveBytes() as counted, torch.no_grad(), _family_errors(built):
        built.base_model(input_ids=torch.zeros(1, tokens, dtype=torch.long, device="meta"), use_cache=False)
    return counted.peak


# ---- models without weights ------------------------------------------------------------------------------------------


def _build(model: ModelConfig, dtype: torch.dtype) -> Any:
    """Build a model on the `meta` device."""
    from transformers import AttentionInterface, AutoModelForCausalLM

    AttentionInterface.register(_ATTENTION, _attention)
    config = model.load()
    try:
        with torch.device("meta"):
            built = AutoModelForCausalLM.from_config(config, dtype=dtype)
    except Exception as error:  # transformers raises whatever the configuration makes it raise
        raise PolicyError(f"{model.name!r} is no causal language model: {first_line(error)}") from error
    built.config._attn_implementation = _ATTENTION
    return built.eval()


@contextmanager
def _family_errors(model: Any) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a layer whose shapes depend on the data
        name = json.dumps(model.config.model_type)
        raise PolicyError(f"the memory of models of type {name} cannot be planned: {first_line(error)}") from error


class _Attention(torch.autograd.Function):
    """The shapes of a fused attention: it keeps its inputs, its output and a number per head and token."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return the output, (B, heads, S, D)."""
        out = query.new_empty((*query.shape[:3], value.shape[-1]))
        ctx.save_for_backward(query, key, value, out, query.new_empty(query.shape[:3], dtype=torch.float32))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """Return gradients of the inputs."""
        return tuple(torch.empty_like(saved) for saved in ctx.saved_tensors[:3])


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, None]:
    """The attention that transformers calls: shapes (B, heads, S, D) in, (B, S, heads, D) out."""
    out: Tensor = _Attention.apply(query, key, value)  # type: ignore[no-untyped-call]  # torch's
    return out.transpose(1, 2).contiguous(), None
