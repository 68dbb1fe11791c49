"""Held-out data of an offline training: its loss, the best weights and early stopping.

Rows are held out by prompt, the tokens before the first reply: attempts at one task stay on one side.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from agentgym_py import distributed
from agentgym_py.errors import ConfigError
from agentgym_py.files import load_json
from agentgym_py.policy.tokens import Sample
from agentgym_py.rng import Rng
from agentgym_py.training.optimization import Optimization
from agentgym_py.training.settings import OfflineSettings

_STATE, _BEST = "validation.json", "best.safetensors"


def hold_out(rows: Sequence[Any], settings: OfflineSettings, seed: int) -> tuple[list[int], list[int]]:
    """Draw the positions of the rows to train on and of those that are held out.

    Raises:
        ConfigError: there are fewer than two prompts.
    """
    positions = list(range(len(rows)))
    if not settings.val_size:
        return positions, []
    prompts = dict[Hashable, list[int]]()
    for position, row in enumerate(rows):
        prompts.setdefault(_prompt_of(row), []).append(position)
    if len(prompts) < 2:
        raise ConfigError(f"val_size {settings.val_size:g} needs at least two prompts, and the data has {len(prompts)}")
    number = min(max(round(settings.val_size * len(prompts)), 1), len(prompts) - 1)
    chosen = Rng(seed, "held out").sample(list(prompts), number)
    held_out = {position for prompt in chosen for position in prompts[prompt]}
    return [i for i in positions if i not in held_out], sorted(held_out)


def _prompt_of(row: Any) -> Hashable:
    """Return the tokens before the first reply of a row's first sample."""
    sample = _first_sample(row)
    if sample is None:
        raise ConfigError("val_size must be 0: this trainer's rows have no prompt by which they could be held out")
    end = sample.prompt
    if end is None:
        end = sample.mask.index(1) if 1 in sample.mask else len(sample.mask)
    return tuple(sample.input_ids[:end])


def _first_sample(row: Any) -> Sample | None:
    """Return the first sample in a row, which is a sample or holds some; None without one."""
    if isinstance(row, Sample):
        return row
    parts = [getattr(row, field.name) for field in fields(row)] if is_dataclass(row) else row
    if not isinstance(parts, list | tuple):
        return None
    return next((sample for part in parts if (sample := _first_sample(part)) is not None), None)


class Validation:
    """The measurements of `eval_loss` so far.

    Raises:
        ConfigError: the best weights of a sharded training would be kept.
    """

    def __init__(self, settings: OfflineSettings, optimization: Optimization) -> None:
        self.patience, self._optimization = settings.early_stopping_patience, optimization
        if self.patience and optimization.sharded:
            raise ConfigError("early_stopping_patience must be 0 in a sharded training, which keeps no best weights")
        self.step = 0
        """Step of the last measurement."""
        self._lowest, self._worse = math.inf, 0
        self._best: dict[str, Tensor] = {}

    @property
    def stops(self) -> bool:
        """Whether the training stops early."""
        return bool(self.patience) and self._worse >= self.patience

    def add(self, step: int, loss: float) -> None:
        """Note a measurement, and keep the weights if it is the lowest."""
        self.step = step
        if loss < self._lowest:
            self._lowest, self._worse = loss, 0
            if self.patience:
                self._best = {name: p.detach().to("cpu", copy=True) for name, p in self._optimization.trained()}
        else:
            self._worse += 1

    @torch.no_grad()
    def restore_best(self) -> None:
        """Give the model the weights with the lowest loss, if they were kept."""
        if self._best:
            for name, parameter in self._optimization.trained():
                parameter.copy_(self._best[name])
            self._optimization.round_into_model()

    def save(self, folder: Path) -> None:
        """Write the measurements and the best weights into a state."""
        if distributed.is_rank_zero():
            state = {"step": self.step, "lowest": self._lowest, "worse": self._worse}
            (folder / _STATE).write_text(json.dumps(state), encoding="utf-8")
            if self._best:
                save_file({name: tensor.contiguous() for name, tensor in self._best.items()}, folder / _BEST)

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        state = load_json(folder / _STATE)
        self.step, self._lowest, self._worse = state["step"], state["lowest"], state["worse"]
        if (folder / _BEST).is_file():
            self._best = load_file(folder / _BEST)
