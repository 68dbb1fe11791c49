"""The table "what fits where" of docs/guides/scaling.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentgym_py import registry
from agentgym_py.training.memory_plan.advice import judge
from agentgym_py.training.memory_plan.memory import Workload
from agentgym_py.training.memory_plan.models import open_config

MODELS = ("Qwen2.5-1.5B", "Qwen2.5-7B")
CARDS = (24.0, 80.0)
"""Memory of a GPU in GiB."""
TRAINERS = ("filtered_bc", "grpo")
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "all weights": ({}, {}),
    "LoRA 16": ({"lora_rank": 16}, {}),
    "QLoRA 16": ({"lora_rank": 16}, {"quantize": "4bit"}),
}
"""Settings of the trainer and of the workload."""


def what_fits_where() -> str:
    """Return a Markdown table: each model and method on one GPU in bfloat16, and what would fit where it does not."""
    head = "| model | trainer | method |" + "".join(f" {card:g} GiB |" for card in CARDS)
    return "\n".join(
        [head, "|---|---|---|" + "---|" * len(CARDS), *(line for model in MODELS for line in rows_of(model))]
    )


def rows_of(model: str) -> list[str]:
    """Return the table's rows of a model."""
    rows = []
    for name in TRAINERS:
        for method, (settings, changes) in METHODS.items():
            trainer = registry.load("agentgym.trainers", name)(gradient_checkpointing=True, **settings)
            work = Workload(dtype="bfloat16", **changes)
            cells = [_cell(model, trainer, replace(work, gpu_memory_gib=card)) for card in CARDS]
            rows.append(f"| {model} | `{name}` | {method} | {' | '.join(cells)} |")
    return rows


def _cell(model: str, trainer: Any, workload: Workload) -> str:
    """The training's memory if it fits, or else the first settings that would."""
    verdict = judge(open_config(model), trainer, workload)
    training = verdict.plan.phases[1].gib
    if verdict.plan.fits:
        return f"fits: {training:.1f} GiB"
    if not verdict.changes:
        return f"no: {training:.1f} GiB"
    return f"no: {training:.1f} GiB; `{' '.join(change.option for change in verdict.changes)}`"
