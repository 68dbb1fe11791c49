"""Which settings would fit, if the given ones do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from agentgym_py.errors import ConfigError
from agentgym_py.training.memory_plan.memory import GIB, MemoryPlan, Workload, kept_parts, plan_memory
from agentgym_py.training.memory_plan.models import ModelConfig

_RANK = 16
"""Rank of the adapters that are proposed."""


class Change(NamedTuple):
    """A setting of the trainer, or of the workload, and its proposed value."""

    name: str
    value: Any

    @property
    def is_trainers(self) -> bool:
        """Whether the trainer has the setting."""
        return self.name.startswith("trainer.")

    @property
    def option(self) -> str:
        """How it is typed."""
        value = str(self.value).lower() if isinstance(self.value, bool) else str(self.value)
        return f"--{self.name} {value}"


_CHECKPOINTING = Change("trainer.gradient_checkpointing", True)
_BF16, _FLOAT32 = Change("dtype", "bfloat16"), Change("dtype", "float32")
_LORA = Change("trainer.lora_rank", _RANK)
_4BIT = Change("quantize", "4bit")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a plan fits, and what would."""

    plan: MemoryPlan
    changes: tuple[Change, ...] = ()
    """Settings with which it fits; empty if it fits already, or if none were found."""
    changed: MemoryPlan | None = None
    """The plan with these changes."""

    @property
    def sentence(self) -> str:
        """The verdict."""
        work = self.plan.workload
        gpu = f"{work.gpus} GPU{'s' * (work.gpus > 1)} of {work.gpu_memory_gib:g} GiB"
        least = min(self.plan.phases, key=lambda phase: phase.spare_gib)
        if self.plan.fits:
            waiting = work.slots_per_gpu - self.plan.live_episodes
            some = f"; {waiting} of {work.slots_per_gpu} episodes wait for room in the KV cache" if waiting else ""
            return f"It fits {gpu}: {least.name} leaves {least.spare_gib:.1f} GiB{some}."
        if least.spare_gib < 0:
            problem = f"It does not fit {gpu}: {least.name} lacks {-least.spare_gib:.1f} GiB"
        else:
            problem = f"It does not fit {gpu}: the KV cache has no room for one episode"
        if self.changed is None:
            return f"{problem}, and no settings were found with which it would."
        least = min(self.changed.phases, key=lambda phase: phase.spare_gib)
        options = " ".join(change.option for change in self.changes)
        return f"{problem}. It would with {options} ({least.name} then leaves {least.spare_gib:.1f} GiB)."

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        return self.plan.as_dict() | {
            "verdict": self.sentence, "changes": {change.name: change.value for change in self.changes},
        }  # fmt: skip


def judge(model: ModelConfig, trainer: Any, workload: Workload) -> Verdict:
    """Plan a workload; if it does not fit, find the first settings that would.

    Each route changes more than the one before it: less memory for the same training, 8-bit states, FSDP, adapters,
    adapters on 4 bits, shorter episodes.

    Raises:
        ConfigError: see `plan_memory`.
    """
    plan = plan_memory(model, trainer, workload)
    if plan.fits:
        return Verdict(plan)
    for route in _routes(trainer, workload):
        changes = [change for change in route if _differs(change, trainer, workload)]
        if not changes or (changed := _planned(model, trainer, workload, changes)) is None or not changed.fits:
            continue
        for change in list(changes):  # leave out what it does not need
            fewer = [other for other in changes if other != change]
            if fewer and (smaller := _planned(model, trainer, workload, fewer)) is not None and smaller.fits:
                changes, changed = fewer, smaller
        return Verdict(plan, tuple(changes), changed)
    return Verdict(plan)


def _routes(trainer: Any, workload: Workload) -> Iterator[list[Change]]:
    small = [Change("trainer.microbatch_tokens", min(trainer.microbatch_tokens, workload.max_context)), _CHECKPOINTING]
    if not trainer.lora_rank:
        yield small
        yield [*small, _BF16]
        yield [*small, _BF16, Change("trainer.optim", "adamw_8bit")]
        if workload.gpus > 1:
            yield [*small, _FLOAT32, Change("sharding", "fsdp")]
    yield [*small, _BF16, Change("trainer.lora_rank", trainer.lora_rank or _RANK)]
    quantized = [*small, _BF16, Change("trainer.lora_rank", trainer.lora_rank or _RANK), _4BIT]
    yield quantized
    for context in (4096, 2048, 1024):
        if context < workload.max_context:
            shorter = [Change("max_context", context), Change("trainer.microbatch_tokens", context), _CHECKPOINTING]
            yield [*shorter, *quantized[2:]]


def _values(change: Change, trainer: Any, workload: Workload) -> tuple[Any, str]:
    return (trainer, change.name.removeprefix("trainer.")) if change.is_trainers else (workload, change.name)


def _differs(change: Change, trainer: Any, workload: Workload) -> bool:
    owner, name = _values(change, trainer, workload)
    return bool(getattr(owner, name) != change.value)


def _planned(model: ModelConfig, trainer: Any, workload: Workload, changes: list[Change]) -> MemoryPlan | None:
    """Plan with changes; None if they contradict each other, or if the weights alone do not fit."""
    ours: Mapping[str, Any] = {c.name.removeprefix("trainer."): c.value for c in changes if c.is_trainers}
    try:
        workload = replace(workload, **{c.name: c.value for c in changes if not c.is_trainers})
        trainer = replace(trainer, **ours)
        kept = sum(part.training for part in kept_parts(model, trainer, workload))
        return None if kept > workload.gpu_memory_gib * GIB else plan_memory(model, trainer, workload)
    except ConfigError:
        return None
