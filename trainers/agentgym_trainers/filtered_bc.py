"""Filtered behaviour cloning: maximum likelihood on the trajectories that did well.

    loss = - sum over agent tokens of log pi(a_t | everything before) / number of agent tokens,
    over trajectories with return R(tau) >= threshold

It is AgentGym's "BC" and, inside the rounds, its AgentEvol as published code has it (arXiv:2406.04151). Observations
and prompts carry no loss. The work is done by trl's SFTTrainer: token ids and labels go straight in. Its loss is taken
at the agent's tokens only (equal to trl's own, about twice as fast on a CPU). Deviations: a batch's loss is a mean over
its tokens, so long trajectories weigh more than in a sum of means; AdamW with beta2 0.95; batches are made of
trajectories of similar length; a mixture of experts gets no router loss.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.samples import Sample, encode
from agentgym_py.trainer import Progress, Tensor, TrainReport
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy


def bc_loss(logprobs_N: Tensor, tokens: Tensor | int | None = None) -> Tensor:
    """Negative mean log-probability of N agent tokens; `tokens` is N over all the batches that one step sums up."""
    return -logprobs_N.sum() / (logprobs_N.numel() if tokens is None else tokens)


@dataclass(frozen=True, slots=True)
class FilteredBC:
    """Settings of filtered behaviour cloning."""

    threshold: float = 0.5
    """Least return of a trajectory that is trained on."""
    epochs: float = 2.0
    """Passes over the kept trajectories."""
    learning_rate: float = 7e-4
    """Peak of the cosine schedule; 7e-4 suits the tiny model, 1e-5 to 5e-5 a pretrained one."""
    batch_size: int = 4
    """Trajectories a step."""
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
        least = {"epochs": 0.0, "learning_rate": 0.0, "batch_size": 1, "gradient_accumulation": 1, "warmup_ratio": 0.0}
        least |= {"weight_decay": 0.0, "max_grad_norm": 0.0, "max_length": 1, "lora_rank": 0}
        for name, bound in least.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= bound):
                raise ConfigError(f"{name} must be a number of at least {bound:g}, got {value}")
        if not self.epochs or not self.learning_rate or self.warmup_ratio >= 1 or math.isnan(self.threshold):
            raise ConfigError("epochs and learning_rate must not be 0, warmup_ratio must be below 1, threshold not nan")

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Train `policy` in place on the trajectories with return >= threshold.

        Nothing is written to `output_dir`; who wants to keep the policy calls its `save`.

        Raises:
            NothingToTrainOnError: there is none.
        """
        samples, dropped = self._samples(policy, trajectories)
        if not samples:
            reasons = ", ".join(f"{number} {reason}" for reason, number in dropped.items())
            raise NothingToTrainOnError(
                f"filtered_bc: nothing left of {len(trajectories)} trajectories{': ' * bool(reasons)}{reasons}"
            )
        del output_dir
        began = time.monotonic()
        with TemporaryDirectory(prefix="agentgym") as scratch:  # trl makes a folder at once, and saves nothing there
            with warnings.catch_warnings():  # trl and peft still use a name that transformers gave up
                warnings.filterwarnings("ignore", "`(is_)?gradient_checkpointing` is deprecated", FutureWarning)
                trainer = self._sft(policy, samples, seed, Path(scratch))
            if progress:
                trainer.add_callback(_progress_callback(progress))
            trainer.train()
        if self.lora_rank:
            policy.model = trainer.model.merge_and_unload()
        return _report(trainer.state.log_history, samples, dropped, self.epochs, time.monotonic() - began)

    def _samples(self, policy: Policy, trajectories: Sequence[Trajectory]) -> tuple[list[Sample], dict[str, int]]:
        """What is trained on, and how many were left out for what reason."""
        kept: list[Sample] = []
        reasons: Counter[str] = Counter()
        for trajectory in trajectories:
            sample = encode(trajectory, policy.chat)
            if trajectory.error is not None:
                reasons["ended by an infrastructure error"] += 1
            elif trajectory.reward < self.threshold:
                reasons[f"below the trainer's threshold {self.threshold:g}"] += 1
            elif not any(sample.mask):
                reasons["without a reply to learn"] += 1
            elif len(sample.input_ids) > self.max_length:
                reasons[f"longer than {self.max_length} tokens"] += 1
            else:
                kept.append(sample)
        return kept, dict(reasons)

    def _sft(self, policy: Policy, samples: list[Sample], seed: int, output_dir: Path) -> Any:
        import datasets
        from transformers import PrinterCallback

        data = datasets.Dataset.from_list([{"input_ids": s.input_ids, "labels": s.labels} for s in samples])
        config = _config_on(policy.model.device)(
            output_dir=str(output_dir), num_train_epochs=self.epochs, learning_rate=self.learning_rate,
            per_device_train_batch_size=self.batch_size, gradient_accumulation_steps=self.gradient_accumulation,
            warmup_steps=self.warmup_ratio, weight_decay=self.weight_decay, max_grad_norm=self.max_grad_norm,
            lr_scheduler_type="cosine", train_sampling_strategy="group_by_length", seed=seed, data_seed=seed,
            dataset_kwargs={"skip_prepare_dataset": True}, max_length=None, bf16=False, gradient_checkpointing=False,
            use_cpu=policy.model.device.type == "cpu", save_strategy="no", report_to="none", logging_steps=0.05,
            disable_tqdm=True, dataloader_pin_memory=False, adam_beta2=0.95,
        )  # fmt: skip
        trainer = _agent_token_trainer()(
            model=policy.model, args=config, train_dataset=data, processing_class=policy.tokenizer,
            peft_config=self._lora() if self.lora_rank else None,
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)  # disable_tqdm puts it there: it prints every logged step
        return trainer

    def _lora(self) -> Any:
        from peft import LoraConfig

        return LoraConfig(r=self.lora_rank, lora_alpha=2 * self.lora_rank, target_modules="all-linear")


def _config_on(device: Any) -> Any:
    """The SFTConfig of a process that trains on `device` alone: trl's takes all GPUs it sees, the first one first.

    Where several processes train together each keeps the device that it was given.
    """
    import torch
    from trl import SFTConfig

    class OnDevice(SFTConfig):  # type: ignore[misc]  # trl is untyped here
        @property
        def _setup_devices(self) -> Any:
            found = super()._setup_devices
            if self.distributed_state.num_processes > 1:
                return found
            self._n_gpu: int = min(self._n_gpu, 1)
            if device.type == "cuda":
                torch.cuda.set_device(device)  # accelerate's "cuda" is the current one
            return device

    return OnDevice


def _agent_token_trainer() -> Any:
    """The SFTTrainer whose loss is `bc_loss`."""
    from trl import SFTTrainer

    from agentgym_py.logprobs import agent_logits, agent_logprobs

    class AgentTokenTrainer(SFTTrainer):  # type: ignore[misc]  # trl is untyped here
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            agent = agent_logits(model, inputs["input_ids"], inputs["labels"])
            hits = agent.logits_NV.argmax(-1) == agent.targets_N
            self._metrics["train"]["mean_token_accuracy"].append(hits.float().mean().item())
            loss = bc_loss(agent_logprobs(agent), num_items_in_batch)
            if num_items_in_batch is not None and self.args.average_tokens_across_devices:
                loss = (
                    loss * self.accelerator.num_processes
                )  # the count is of all processes, whose gradients are averaged
            return loss

    return AgentTokenTrainer


def _progress_callback(progress: Progress) -> Any:
    from transformers import TrainerCallback

    class Tell(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            progress(state.global_step, state.max_steps)

    return Tell()


def _report(
    history: list[dict[str, Any]], samples: list[Sample], dropped: dict[str, int], epochs: float, seconds: float
) -> TrainReport:
    losses = [float(row["loss"]) for row in history if "loss" in row]
    last = {k: float(v) for row in history for k, v in row.items() if k in ("mean_token_accuracy", "grad_norm")}
    return TrainReport(
        trajectories=len(samples),
        dropped=dropped,
        tokens=int(epochs * sum(len(s.input_ids) for s in samples)),
        agent_tokens=int(epochs * sum(sum(s.mask) for s in samples)),
        seconds=seconds,
        loss=losses,
        metrics=last,
    )
