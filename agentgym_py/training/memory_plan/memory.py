"""What one GPU holds while a policy plays and while it is trained, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from agentgym_py.checks import Basic, require_at_least, require_field_types, require_positive
from agentgym_py.errors import ConfigError
from agentgym_py.training.settings import OnPolicySettings, OptimizerSettings
from agentgym_py.training.trainer import info_of

if TYPE_CHECKING:
    from agentgym_py.training.memory_plan.models import ModelConfig
    from agentgym_py.training.memory_plan.tracing import Counts, Microbatch

GIB = 1 << 30
RESERVED_GIB = 1.5
"""What CUDA itself, the libraries' workspaces and fragmentation take of a GPU; an assumption, not a measurement."""
BYTES: Mapping[str, float] = {"float32": 4, "bfloat16": 2, "float16": 2, "8bit": 1, "4bit": 0.516}
"""Bytes a weight; 4 bits are nf4 with constants of 8 bits for each 64 weights."""
_SAMPLED = 1 << 20
_PREFILL = 1024
"""Prompt tokens of one forward pass, as in `HFEngine`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What is played and trained, and on which hardware."""

    dtype: Basic[Literal["float32", "bfloat16"]] = "float32"
    """Data type of the weights."""
    quantize: Basic[Literal["8bit", "4bit"] | None] = None
    """Linear layers of 8 or 4 bits; training then needs adapters, --trainer.lora_rank."""
    max_context: Basic[int] = 4096
    """Tokens of the longest episode; at most the model's context."""
    agent_share: float = 0.2
    """Share of an episode's tokens that the agent writes; logits are computed for these only."""
    slots: Basic[int] = 128
    """Simultaneous episodes, of all GPUs together."""
    kv_cache_gib: float | None = None
    """Memory for the keys and values of live episodes, in GiB a GPU; by default half of what is free."""
    gpus: Basic[int] = 1
    """GPUs, each with a process."""
    gpu_memory_gib: Basic[float] = 80.0
    """Memory of one GPU in GiB."""
    sharding: Basic[Literal["none", "fsdp"]] = "none"
    """How the GPUs share a training: each holds all of it, or FSDP shards it."""

    def __post_init__(self) -> None:
        require_field_types(self)
        require_at_least(self, {"max_context": 2, "slots": 1, "gpus": 1})
        require_positive(self, "gpu_memory_gib")
        if self.kv_cache_gib is not None:
            require_positive(self, "kv_cache_gib")
        if not 0 < self.agent_share <= 1:
            raise ConfigError(f"agent_share must be above 0 and at most 1, got {self.agent_share}")
        if self.sharding == "fsdp" and self.gpus < 2:
            raise ConfigError("sharding fsdp needs several GPUs: set gpus to 2 or more")

    @property
    def slots_per_gpu(self) -> int:
        """Simultaneous episodes of one GPU."""
        return -(-self.slots // self.gpus)


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of one GPU that a part of the run takes."""

    name: str
    playing: int
    training: int


@dataclass(frozen=True, slots=True)
class Phase:
    """The sum of a phase."""

    name: str
    gib: float
    spare_gib: float
    """What is left of the GPU; negative if the phase does not fit."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory of one GPU in both phases."""

    model: str
    weights: int
    trained: int
    """Weights that the optimizer changes."""
    workload: Workload
    parts: tuple[Part, ...]
    live_episodes: int
    """Episodes of one GPU for which the KV cache has memory at the same time."""

    @property
    def phases(self) -> tuple[Phase, Phase]:
        """Playing and training."""
        return self._phase("playing"), self._phase("training")

    def _phase(self, name: str) -> Phase:
        gib = sum(getattr(part, name) for part in self.parts) / GIB
        return Phase(name, gib, self.workload.gpu_memory_gib - RESERVED_GIB - gib)

    @property
    def fits(self) -> bool:
        """Whether both phases fit, with at least one live episode."""
        return self.live_episodes > 0 and all(phase.spare_gib >= 0 for phase in self.phases)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        parts = [{"name": p.name, "playing": p.playing, "training": p.training} for p in self.parts]
        return {
            "model": self.model, "weights": self.weights, "trained": self.trained, "workload": asdict(self.workload),
            "parts": parts, "phases": [asdict(phase) for phase in self.phases], "reserved_gib": RESERVED_GIB,
            "live_episodes": self.live_episodes, "fits": self.fits,
        }  # fmt: skip


def plan_memory(model: ModelConfig, trainer: Any, workload: Workload) -> MemoryPlan:
    """Compute what playing and training take of one GPU. Nothing is loaded or downloaded.

    Raises:
        ConfigError: the settings contradict each other, or the trainer is one of another library.
        PolicyError: the model's family cannot be planned.
    """
    from agentgym_py.training.memory_plan.tracing import count_weights

    settings = _require_plannable(model, trainer, workload)
    counts = count_weights(model, settings.lora_rank)
    parts = [*kept_parts(model, settings, workload), *_step_parts(model, settings, workload, counts)]
    played, episodes = _playing_parts(model, workload, sum(part.playing for part in parts))
    parts = [part for part in [*parts, *played] if part.playing or part.training]
    return MemoryPlan(model.name, counts.weights, _trained(settings, counts), workload, tuple(parts), episodes)


def kept_parts(model: ModelConfig, settings: OptimizerSettings, workload: Workload) -> list[Part]:
    """Return the parts that do not depend on the length of episodes: they take no pass through the model."""
    from agentgym_py.training.memory_plan.tracing import count_weights

    counts = count_weights(model, settings.lora_rank)
    return [*_weight_parts(settings, workload, counts), *_trained_parts(settings, workload, counts)]


def _require_plannable(model: ModelConfig, trainer: Any, workload: Workload) -> OptimizerSettings:
    if not isinstance(trainer, OptimizerSettings):
        library = info_of(trainer).library or "another library"
        raise ConfigError(f"the memory of a trainer of {library} is not planned: choose one of this project's")
    if workload.max_context > model.context_length:
        raise ConfigError(f"max_context must be at most the model's {model.context_length}, got {workload.max_context}")
    if workload.quantize and not trainer.lora_rank:
        raise ConfigError("a quantized model trains only through adapters: set lora_rank above 0")
    if workload.sharding == "fsdp" and workload.quantize:
        raise ConfigError("FSDP cannot shard a quantized model: leave quantize or sharding out")
    if workload.sharding == "fsdp" and workload.dtype != "float32" and not trainer.lora_rank:
        raise ConfigError("FSDP trains all weights in float32 here: leave dtype out, or set lora_rank")
    if workload.sharding == "fsdp" and trainer.bf16:
        raise ConfigError("bf16 is not tested with a training that FSDP shards: leave it out")
    return trainer


# ---- weights ---------------------------------------------------------------------------------------------------------


def _trained(settings: OptimizerSettings, counts: Counts) -> int:
    return counts.adapters or counts.weights


def _weight_bytes(workload: Workload, counts: Counts) -> int:
    packed = counts.linear if workload.quantize else 0
    plain = (counts.weights - packed) * BYTES[workload.dtype]
    return int(plain + packed * BYTES[workload.quantize or workload.dtype])


def _weight_parts(settings: OptimizerSettings, workload: Workload, counts: Counts) -> list[Part]:
    """The policy, its reference and its copies."""
    weights, adapters = _weight_bytes(workload, counts), 4 * counts.adapters
    parts = [Part("policy", weights, weights), Part("adapters", adapters, adapters)]
    if isinstance(settings, OnPolicySettings) and (getattr(settings, "kl_coef", 0) > 0 or settings.max_kl > 0):
        reference = adapters or weights
        parts.append(Part("reference", reference, reference))
    if getattr(settings, "teacher", ""):  # in the CPU's memory while episodes are played
        parts.append(Part("teacher, if it has the policy's size", 0, weights))
    if info_of(settings).output != "policy":  # it trains a copy of the policy
        parts.append(Part("trained copy", 0, weights + adapters))
    if hasattr(settings, "prm_settings"):
        parts.append(Part("process reward model", weights + adapters, weights + adapters))
    return parts


def _trained_parts(settings: OptimizerSettings, workload: Workload, counts: Counts) -> list[Part]:
    """What the optimizer trains and keeps; FSDP shards it."""
    trained, ranks = _trained(settings, counts), workload.gpus if workload.sharding == "fsdp" else 1
    stays = isinstance(settings, OnPolicySettings)  # a trainer on stored trajectories is over when episodes are played

    def part(name: str, number: float) -> Part:
        return Part(name, int(stays * number), int(number))

    masters = 4 * trained if workload.dtype == "bfloat16" and not settings.lora_rank else 0
    states = trained * (2 + 8 / 256 if settings.optim == "adamw_8bit" else 8)
    kept = [part("master weights", masters), part("AdamW states", states / ranks)]
    if hasattr(settings, "prm_settings"):
        kept.append(Part("its AdamW states", 0, int(states + masters)))
    if ranks > 1:
        shard = (_weight_bytes(workload, counts) + 4 * counts.adapters) / ranks
        kept.append(part("shard of the weights", shard))
    kept.append(part("sample of the weights", 4 * min(trained, _SAMPLED)))
    return [*kept, Part("gradients", 0, int(4 * trained / ranks))]


# ---- a training step -------------------------------------------------------------------------------------------------


def microbatch_of(settings: OptimizerSettings, workload: Workload) -> Microbatch:
    """Return the largest microbatch: full rows of the longest episodes."""
    from agentgym_py.training.memory_plan.tracing import Microbatch

    rows = max(1, settings.microbatch_tokens // workload.max_context)
    tokens = max(1, int(rows * workload.max_context * workload.agent_share))
    critic = isinstance(settings, OnPolicySettings) and getattr(settings, "critic_learning_rate", 0) > 0
    head = "offline"
    if info_of(settings).output != "policy":
        head = "none"
    elif isinstance(settings, OnPolicySettings):
        head = "entropy" if getattr(settings, "entropy_coef", 0) > 0 else "on_policy"
    return Microbatch(rows, workload.max_context, tokens, head, critic, workload.sharding == "none")


def _step_parts(model: ModelConfig, settings: OptimizerSettings, workload: Workload, counts: Counts) -> list[Part]:
    from agentgym_py.training.memory_plan.tracing import trace_step

    dtype = "bfloat16" if settings.bf16 else workload.dtype
    batch = microbatch_of(settings, workload)
    trace = trace_step(model, dtype, settings.lora_rank, settings.gradient_checkpointing, batch)
    parts = [
        Part("activations", 0, trace.activations),
        Part("logits and backward pass", 0, trace.peak - trace.activations),
    ]
    if workload.quantize:
        parts.append(Part("a layer without quantization", 0, int(counts.largest_linear * BYTES[workload.dtype])))
    if settings.bf16 and workload.dtype == "float32" and not settings.lora_rank:
        parts.append(Part("weights in bfloat16 (autocast)", 0, 2 * counts.weights))
    if workload.sharding == "fsdp":
        gathered = counts.unit * BYTES[workload.dtype] * (1 if settings.lora_rank else 2)
        parts.append(Part("gathered layers and their gradients", 0, int(gathered)))
    return parts


# ---- playing ---------------------------------------------------------------------------------------------------------


def _playing_parts(model: ModelConfig, workload: Workload, taken: int) -> tuple[list[Part], int]:
    """The engine: its cache, the logits of its replies, and its passes over prompts; `taken` is what is held beside."""
    import torch

    from agentgym_py.engine.hf.kvcache import count_tokens, sizes_of
    from agentgym_py.engine.hf.runner import kv_bytes_per_token
    from agentgym_py.training.memory_plan.tracing import trace_prefill, trace_sampling

    config, rows = model.load(), workload.slots_per_gpu
    token = kv_bytes_per_token(config, getattr(torch, workload.dtype))
    free = max(0.0, (workload.gpu_memory_gib - RESERVED_GIB) * GIB - taken)
    bound = free / 2 if workload.kv_cache_gib is None else workload.kv_cache_gib * GIB
    while rows and token * count_tokens(sizes_of([workload.max_context] * rows)) > bound:
        rows -= 1
    cache, live = token * count_tokens(sizes_of([workload.max_context] * rows)), max(rows, 1)
    prefill = min(_PREFILL, live * workload.max_context)
    one = trace_prefill(model, workload.dtype, prefill) + _repeated_heads(config, workload)
    parts = [
        Part("KV cache", cache, 0),
        Part("logits of replies", trace_sampling(config.vocab_size, workload.dtype, live), 0),
        Part("a pass over prompts", one, 0),
        Part("attention masks", _mask_bytes(config, workload, prefill, live), 0),
    ]
    return parts, rows


def _repeated_heads(config: Any, workload: Workload) -> int:
    """Keys and values of the longest episode in one layer, if a pass over prompts repeats them for each query head."""
    heads, few = config.num_attention_heads, getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return int(2 * heads * size * workload.max_context * BYTES[workload.dtype]) if 1 < few < heads else 0


def _mask_bytes(config: Any, workload: Workload, prefill: int, rows: int) -> int:
    """Masks of the new tokens of a pass over prompts, for each kind of layer, and of the rows being decoded."""
    from agentgym_py.engine.hf.kvcache import round_up

    kinds = len(set(getattr(config, "layer_types", None) or [None]))
    decoded = rows * round_up(workload.max_context)
    return int((kinds * prefill * workload.max_context + decoded) * BYTES[workload.dtype])
