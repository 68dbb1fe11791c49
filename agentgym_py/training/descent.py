"""Gradient descent without trl, on what has no trainer there; it goes on to the bit where it was killed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agentgym_py import distributed
from agentgym_py.errors import TrainingError
from agentgym_py.rng import seed_of
from agentgym_py.training.checkpoints import Checkpoints
from agentgym_py.training.finetune import FineTuning
from agentgym_py.training.progress import Progress

T = TypeVar("T")


def descend(
    what: str, trained: Sequence[Any], batches: Sequence[T], backward: Callable[[T], dict[str, float]], how: FineTuning,
    seed: int, progress: Progress | None = None, states: Checkpoints | None = None,
) -> list[dict[str, float]]:  # fmt: skip
    """Without trl, a step a batch on the weights in `trained`; what was logged of each.

    `backward` adds this process's part of the gradient of a batch, and gives its part of what is logged. `seed` draws
    what dropout there is. It goes on from the last one of `states`, and leaves them.

    Raises:
        TrainingError: a gradient was not finite; `what` is as it was before that step.
        RunError: the state that is left is damaged, or another training's.
    """
    import torch
    from safetensors.torch import load_file, save_file

    optimizer = torch.optim.AdamW(trained, lr=how.learning_rate, weight_decay=how.weight_decay, betas=(0.9, 0.95))
    steps, history = len(batches), []
    warm = min(int(how.warmup_ratio * steps), steps - 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _cosine(step, warm, steps))
    if states and (last := states.last()):
        saved = load_file(last / "trained.safetensors")
        with torch.no_grad():
            for number, parameter in enumerate(trained):
                parameter.copy_(saved[str(number)])
        optimizer.load_state_dict(torch.load(last / "optimizer.pt", map_location="cpu", weights_only=True))
        schedule.load_state_dict(torch.load(last / "schedule.pt", weights_only=True))
        history += json.loads((last / "history.json").read_text(encoding="utf-8"))

    devices = [trained[0].device] if trained[0].is_cuda else []

    def write(folder: Path) -> None:
        if distributed.first():
            save_file({str(i): each.detach().contiguous() for i, each in enumerate(trained)},
                      folder / "trained.safetensors")  # fmt: skip
            torch.save(optimizer.state_dict(), folder / "optimizer.pt")
            torch.save(schedule.state_dict(), folder / "schedule.pt")
            (folder / "history.json").write_text(json.dumps(history), encoding="utf-8")

    for number, batch in enumerate(batches[len(history) :], len(history) + 1):
        optimizer.zero_grad()
        with torch.random.fork_rng(devices):
            torch.manual_seed(seed_of(seed, "step", number, distributed.rank()) % (1 << 63))
            history.append(distributed.summed(backward(batch)))
        distributed.sum_gradients(trained)
        norm = float(torch.nn.utils.clip_grad_norm_(trained, how.max_grad_norm or math.inf))
        if not math.isfinite(norm):
            raise TrainingError(
                f"{what}: gradient norm {norm} at step {number} of {steps}: the step was not taken, and the model is "
                "not written; a lower learning_rate may help"
            )
        optimizer.step()
        schedule.step()
        if progress:
            progress(number, steps)
        if states and number < steps and number % math.ceil(steps / 20) == 0 and states.due():
            states.keep(write)
    return history


def _cosine(step: int, warm: int, steps: int) -> float:
    """Share of the learning rate at a step."""
    if step < warm:
        return (step + 1) / (warm + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(steps - warm, 1)))
