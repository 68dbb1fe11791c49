"""What the trainers that stand on trl share: their common settings, its arguments, its loop, and what it reports."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from agentgym_py import pairs
from agentgym_py.arguments import check_fields
from agentgym_py.errors import ConfigError, NothingToTrainOnError, TrainingError
from agentgym_py.pairs import Level, Match
from agentgym_py.policy import merged, require_trainable
from agentgym_py.samples import Sample, encode
from agentgym_py.trainer import Progress, TrainReport
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.rl.settings import LearnerSettings


@dataclass(frozen=True, slots=True)
class FineTuning:
    """Settings of a training on stored trajectories."""

    epochs: float = 2.0
    """Passes over the data."""
    learning_rate: float = 7e-4
    """Peak of the cosine schedule; 7e-4 suits the tiny model, 1e-5 to 5e-5 a pretrained one."""
    batch_size: int = 4
    """Trajectories (or pairs of them) a batch."""
    gradient_accumulation: int = 1
    """Batches a step of the optimizer."""
    warmup_ratio: float = 0.05
    """Share of the steps in which the learning rate rises; below 1."""
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    max_length: int = 4096
    """Longer trajectories (in tokens) are left out, never cut."""
    lora_rank: int = 0
    """Rank of LoRA adapters on all linear layers; 0 trains every weight. The adapters are merged afterwards."""

    def __post_init__(self) -> None:
        check_fields(self)
        least = {"epochs": 0.0, "learning_rate": 0.0, "batch_size": 1, "gradient_accumulation": 1, "warmup_ratio": 0.0}
        least |= {"weight_decay": 0.0, "max_grad_norm": 0.0, "max_length": 1, "lora_rank": 0}
        for name, bound in least.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= bound):
                raise ConfigError(f"{name} must be a number of at least {bound:g}, got {value}")
        for name in ("epochs", "learning_rate"):
            if not getattr(self, name):
                raise ConfigError(f"{name} must not be 0")
        if self.warmup_ratio >= 1:
            raise ConfigError(f"warmup_ratio must be below 1, got {self.warmup_ratio}")


@dataclass(frozen=True, slots=True)
class PairTuning(FineTuning):
    """Settings of a training on pairs of a better and a worse trajectory of one task."""

    match: Match = "best_worst"
    """Who is compared: `best_worst` by return, `success` every success with every failure, `all` with all by return."""
    level: Level = "episode"
    """What is compared: whole episodes; what follows the `fork`, the state in which two that began alike part; or only
    the `turn` there."""
    max_pairs: int = 4
    """At most so many pairs of a task."""

    def __post_init__(self) -> None:
        FineTuning.__post_init__(self)
        if self.match not in get_args(Match) or self.level not in get_args(Level):
            raise ConfigError(f"no match {self.match!r} at level {self.level!r}: {get_args(Match)}, {get_args(Level)}")
        if self.max_pairs < 1:
            raise ConfigError(f"max_pairs must be at least 1, got {self.max_pairs}")


class Kept(NamedTuple):
    """Trajectories that can be trained on, in tokens, and why the others cannot."""

    trajectories: list[Trajectory]
    samples: list[Sample]
    """One a trajectory; of `usable_pairs` two a pair, the better and the worse one."""
    dropped: Counter[str]
    """How many were left out, by reason."""


def usable(policy: Policy, trajectories: Sequence[Trajectory], max_length: int, threshold: float = -math.inf) -> Kept:
    """What of `trajectories` has a reply to learn, ended by itself, returned `threshold` and fits into `max_length`."""
    kept = Kept([], [], Counter())
    for trajectory in trajectories:
        sample = encode(trajectory, policy.chat)
        if trajectory.error is not None:
            kept.dropped["ended by an infrastructure error"] += 1
        elif trajectory.reward < threshold:
            kept.dropped[f"below the trainer's threshold {threshold:g}"] += 1
        elif not any(sample.mask):
            kept.dropped["without a reply to learn"] += 1
        elif len(sample.input_ids) > max_length:
            kept.dropped[f"longer than {max_length} tokens"] += 1
        else:
            kept.trajectories.append(trajectory)
            kept.samples.append(sample)
    return kept


def usable_pairs(
    policy: Policy, trajectories: Sequence[Trajectory], settings: PairTuning, seed: int
) -> tuple[Kept, int]:
    """The pairs of `trajectories`, in tokens, and how many were none because both did equally well."""
    kept = usable(policy, trajectories, settings.max_length)
    found = pairs.build(
        kept.trajectories, match=settings.match, level=settings.level, max_pairs=settings.max_pairs, seed=seed
    )
    samples, used, in_pairs = list[Sample](), set[int](), {i for pair in found.pairs for i in pair[:2]}
    for pair in found.pairs:
        two = [encode(each, policy.chat) for each in pairs.sides(kept.trajectories, pair, settings.level)]
        if all(any(each.mask) for each in two):
            samples += two
            used |= {pair.chosen, pair.rejected}
    dropped = kept.dropped + found.dropped
    dropped += Counter({"without a reply to learn after the fork": len(in_pairs - used)})  # + leaves a 0 out
    return Kept([kept.trajectories[i] for i in sorted(used)], samples, dropped), found.ties


def nothing_left(name: str, dropped: Counter[str]) -> NothingToTrainOnError:
    """The error of a trainer that has left every trajectory out."""
    reasons = ", ".join(f"{number} {reason}" for reason, number in dropped.items())
    return NothingToTrainOnError(
        f"{name}: nothing left of {dropped.total()} trajectories{': ' * bool(reasons)}{reasons}"
    )


def arguments(kind: Any, settings: FineTuning, policy: Policy, seed: int, output_dir: Path, **more: Any) -> Any:
    """The settings as trl's `kind` (SFTConfig, DPOConfig, ...), on the policy's device; `more` are that kind's own."""
    require_trainable(policy.model, settings.lora_rank)
    device = policy.model.device
    return _on_device(kind, device)(
        output_dir=str(output_dir), num_train_epochs=settings.epochs, learning_rate=settings.learning_rate,
        per_device_train_batch_size=settings.batch_size, gradient_accumulation_steps=settings.gradient_accumulation,
        warmup_steps=settings.warmup_ratio, weight_decay=settings.weight_decay, max_grad_norm=settings.max_grad_norm,
        lr_scheduler_type="cosine", seed=seed, data_seed=seed, max_length=None, bf16=False,
        gradient_checkpointing=False, use_cpu=device.type == "cpu", save_strategy="no", report_to="none",
        logging_steps=0.05, disable_tqdm=True, dataloader_pin_memory=False, adam_beta2=0.95, **more,
    )  # fmt: skip


def lora(settings: FineTuning | LearnerSettings) -> Any:
    """The adapters that the settings ask for, or None."""
    if not settings.lora_rank:
        return None
    from peft import LoraConfig

    return LoraConfig(r=settings.lora_rank, lora_alpha=2 * settings.lora_rank, target_modules="all-linear")


def fit(trainer: Any, policy: Policy, progress: Progress | None) -> None:
    """Run a trl trainer of the policy's model to its end, in silence; adapters are merged into the policy.

    Raises:
        TrainingError: a gradient was not finite; the policy is as it was before that step.
    """
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)  # disable_tqdm puts it there: it prints every logged step
    trainer.add_callback(_finite_callback())
    if progress:
        trainer.add_callback(_progress_callback(progress))
    try:
        trainer.train()
    finally:
        if hasattr(trainer.model, "merge_and_unload"):
            policy.model = merged(trainer.model)
        vars(policy.model).pop("forward", None)  # trl's own, bound to this model: a copy's would run this one's weights


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of trl's novelties, and of a name that transformers gave up, and trl and peft still use."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "You are importing from 'trl.experimental'")
        warnings.filterwarnings("ignore", "`(is_)?gradient_checkpointing` is deprecated", FutureWarning)
        yield


def report(trainer: Any, kept: Kept, epochs: float, began: float) -> TrainReport:
    """What a trl trainer did with what was kept; `began` is by `time.monotonic`."""
    history = trainer.state.log_history
    return TrainReport(
        trajectories=len(kept.trajectories),
        dropped=dict(kept.dropped),
        tokens=int(epochs * sum(len(s.input_ids) for s in kept.samples)),
        agent_tokens=int(epochs * sum(sum(s.mask) for s in kept.samples)),
        seconds=time.monotonic() - began,
        loss=[float(row["loss"]) for row in history if "loss" in row],
        metrics={k: float(v) for row in history for k, v in row.items() if k not in _NO_METRICS},
    )


_NO_METRICS = {
    "loss", "epoch", "step", "learning_rate", "total_flos", "train_loss", "train_runtime", "train_samples_per_second",
    "train_steps_per_second", "num_tokens",
}  # fmt: skip
"""Of what a Trainer logs: bookkeeping, and what the report has elsewhere."""


def _progress_callback(progress: Progress) -> Any:
    from transformers import TrainerCallback

    class Tell(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            progress(state.global_step, state.max_steps)

    return Tell()


def _finite_callback() -> Any:
    """Transformers itself would take the step, and log the mean of the losses that were numbers."""
    import torch
    from transformers import TrainerCallback

    class Finite(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            gradients = [p.grad for p in kwargs["model"].parameters() if p.grad is not None]
            norm = torch.nn.utils.get_total_norm(gradients)
            if not torch.isfinite(norm):
                raise TrainingError(
                    f"gradient norm {float(norm)} at step {state.global_step + 1} of {state.max_steps}: the step was "
                    "not taken, the weights are those before it"
                )

    return Finite()


def _on_device(kind: Any, device: Any) -> Any:
    """The `kind` of a process that trains on `device` alone: trl's takes all GPUs it sees, the first one first.

    Where several processes train together each keeps the device that it was given.
    """
    import torch

    class OnDevice(kind):  # type: ignore[misc]  # trl is untyped here
        @property
        def _setup_devices(self) -> Any:
            found = super()._setup_devices
            if self.distributed_state.num_processes > 1:
                return found
            self._n_gpu: int = min(self._n_gpu, 1)
            if device.type == "cuda":
                torch.cuda.set_device(device)  # accelerate's "cuda" is the current one
            return device

        def get_warmup_steps(self, num_training_steps: int) -> int:
            """Never all the steps: the learning rate of the first is 0."""
            warmup: int = super().get_warmup_steps(num_training_steps)
            return min(warmup, num_training_steps - 1)

    return OnDevice
