"""What goes on beside the loop of the trainers that stand on trl; for `finetune.fit`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback

from agentgym_py import distributed
from agentgym_py.errors import TrainingError
from agentgym_py.files import writing
from agentgym_py.training import tracking
from agentgym_py.training.checkpoints import Checkpoints
from agentgym_py.training.progress import Progress
from agentgym_py.training.sharding import full

if TYPE_CHECKING:
    pass


class Track(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """Tells each logged step; those of a training that begins anew when it is killed are never told already."""

    def __init__(self, keep: bool) -> None:
        self._keep = keep

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any], **kwargs: Any) -> None:
        """Tell it."""
        if "loss" in logs:
            tracking.log(logged(logs), state.global_step if self._keep else None)


class Tell(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """Tells how far it is."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Tell the step."""
        self._progress(state.global_step, state.max_steps)


class Keep(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """Keeps states, only where it has just logged: what it sums up between two logs is in no state of transformers'.

    Nor is that of the generator at the beginning of the epoch, from which the order of the data is drawn.
    """

    def __init__(self, checkpoints: Checkpoints, last: Path | None) -> None:
        self._checkpoints, self._name, self._epoch = (
            checkpoints,
            f"epoch_{distributed.rank()}.pt",
            torch.get_rng_state(),
        )
        there = last and next(path for path in (last / self._name, last / "epoch_0.pt") if path.is_file())
        self._resumed: Any = there and torch.load(there, weights_only=True)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Draw the data in the order in which the epoch was begun."""
        if self._resumed is not None:
            torch.set_rng_state(self._resumed)
        self._epoch, self._resumed = torch.get_rng_state(), None

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Have it save."""
        control.should_save = control.should_log and state.global_step < state.max_steps and self._checkpoints.due()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Take what it saved, and the generator."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        over = state.epoch == int(state.epoch)  # the next epoch begins with the generator as it is now
        with writing(self._checkpoints.folder):
            torch.save(torch.get_rng_state() if over else self._epoch, folder / self._name)
        self._checkpoints.take(folder)


class Finite(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """Refuses a step of which transformers itself would log the mean of the losses that were numbers."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Look at the gradient's norm."""
        norm = self._norm(kwargs["model"])
        if not torch.isfinite(norm):
            raise TrainingError(
                f"gradient norm {float(norm)} at step {state.global_step + 1} of {state.max_steps}: the step was not "
                "taken, the weights are those before it"
            )

    def _norm(self, model: Any) -> Any:
        if self._trainer.is_deepspeed_enabled:  # it has taken the step, unless the norm is not finite
            return torch.tensor(self._trainer.accelerator.deepspeed_engine_wrapped.get_global_grad_norm())
        gradients = [each.grad for each in model.parameters() if each.grad is not None]
        return full(torch.nn.utils.get_total_norm(gradients))


_BOOKKEEPING = {
    "epoch", "total_flos", "train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second",
    "num_tokens",
}  # fmt: skip
"""Of what a Trainer logs."""


def logged(row: Mapping[str, Any]) -> dict[str, float]:
    """What a Trainer logs of a step, in the order in which its state would give it back."""
    return {name: float(value) for name, value in sorted(row.items()) if name not in _BOOKKEEPING}
