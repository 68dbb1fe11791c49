"""The optimizer and the steps of the training of a base, shared by the processes of `torchrun`."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from agentgym_py.policy import Policy
from agentgym_py.policy.tokens import IGNORED

Batch = tuple[torch.Tensor, torch.Tensor]
"""Ids and labels, each (B, S)."""
PROCESSES = int(os.environ.get("WORLD_SIZE", "1"))


def _cosine(done: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


class Muon(torch.optim.Optimizer):
    """Muon (Jordan et al. 2024) with the learning rates of AdamW (arXiv:2502.16982), as `torch.optim.Muon`.

    It orthogonalizes in float32. PyTorch's own does so in bfloat16, which takes 16 times as long without AVX-512.
    """

    def __init__(self, parameters: Sequence[torch.nn.Parameter], lr: float, weight_decay: float) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take a step: Nesterov momentum of 0.95, made orthogonal, with a root mean square of 0.2."""
        for group in self.param_groups:
            for parameter in group["params"]:
                momentum = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
                momentum.lerp_(parameter.grad, 0.05)
                update = orthogonalize(parameter.grad.lerp(momentum, 0.95))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(update, alpha=-0.2 * math.sqrt(max(parameter.shape)) * group["lr"])


def orthogonalize(matrix: torch.Tensor) -> torch.Tensor:
    """Bring the singular values of a matrix near 1, by five Newton-Schulz iterations."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = wide @ wide.T
        gram = torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)
        wide = torch.addmm(wide, gram, wide, beta=3.4445)
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T


class Training:
    """Muon for the layers' matrices and AdamW for the rest, both with a cosine schedule from `peak` to `last`."""

    def __init__(self, policy: Policy, steps: int, peak: float, last: float) -> None:
        self.model: Any = policy.model.train()
        matrices = [parameter for parameter in self.model.model.layers.parameters() if parameter.ndim == 2]
        others = [parameter for parameter in self.model.parameters() if all(parameter is not m for m in matrices)]
        self.optimizers = [
            Muon(matrices, lr=peak, weight_decay=0.01),
            torch.optim.AdamW(others, lr=peak, betas=(0.9, 0.95), weight_decay=0.01, fused=True),
        ]

        def rate(step: int) -> float:
            return min(1.0, (step + 1) / 100) * (last + (peak - last) * _cosine(step / steps)) / peak

        self.schedules = [torch.optim.lr_scheduler.LambdaLR(optimizer, rate) for optimizer in self.optimizers]
        self.smoothed, self.done = 10.0, 0

    def step(self, batch: Sequence[Batch]) -> float:
        """Take a step on the batch of all processes; return the smoothed loss."""
        total, labelled = torch.zeros(()), torch.zeros(())
        for ids, labels in batch:
            loss = _loss(self.model, ids, labels)
            loss.backward()
            total += loss.detach()
            labelled += (labels[:, 1:] != IGNORED).sum()
        gradients = [parameter.grad for parameter in self.model.parameters()]
        _all_reduce([total, labelled, *gradients])
        for gradient in gradients:
            gradient /= labelled
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, schedule in zip(self.optimizers, self.schedules, strict=True):
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        self.smoothed = 0.95 * self.smoothed + 0.05 * (total / labelled).item()
        self.done += 1
        return self.smoothed

    def save(self, path: Path, stage: str) -> None:
        """Write all that a resumed training needs."""
        state: dict[str, Any] = {
            "processes": PROCESSES,
            "stage": stage,
            "done": self.done,
            "smoothed": self.smoothed,
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "schedules": [schedule.state_dict() for schedule in self.schedules],
        }
        temporary = path.with_suffix(".part")
        torch.save(state, temporary)
        temporary.replace(path)

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        for schedule, saved in zip(self.schedules, state["schedules"], strict=True):
            schedule.load_state_dict(saved)
        self.smoothed, self.done = state["smoothed"], state["done"]


def _loss(model: Any, ids: torch.Tensor, labels: torch.Tensor) -> Any:
    """Sum the cross-entropies of the labelled tokens; only their logits are computed, which saves a quarter."""
    labelled = labels[:, 1:] != IGNORED
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][labelled]
    return torch.nn.functional.cross_entropy(model.lm_head(hidden), labels[:, 1:][labelled], reduction="sum")


def _all_reduce(tensors: Sequence[torch.Tensor]) -> None:
    """Sum each tensor over the processes, in place."""
    for tensor in tensors if PROCESSES > 1 else ():
        dist.all_reduce(tensor)
