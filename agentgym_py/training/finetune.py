"""What trainers on stored data share: settings, trl's arguments and loop, and what it reports."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agentgym_py import distributed
from agentgym_py.checks import check_fields, check_least, check_positive
from agentgym_py.errors import ConfigError, NothingToTrainOnError, TrainingError
from agentgym_py.files import writing
from agentgym_py.policy.adapters import input_hooks, merged, require_trainable, stop_recomputing
from agentgym_py.policy.quiet import quiet, without_progress_bars
from agentgym_py.policy.tokens import IGNORED, Sample, encode, foreign
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport, tracking
from agentgym_py.training.checkpoints import Checkpoints, clear, digest_of
from agentgym_py.training.progress import Progress
from agentgym_py.trajectory import Trajectory, preferences
from agentgym_py.trajectory.preferences import Level, Match

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

T = TypeVar("T")
FOREIGN = "in another tokenizer's tokens (agentgym data convert FILE OUT.json keeps the text alone)"
"""A reason to leave a trajectory out."""


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
    """Of AdamW: what every weight is lessened by, times the learning rate, each step."""
    max_grad_norm: float = 1.0
    """A longer gradient is shortened to it; 0 shortens none."""
    max_length: int = 4096
    """Longer trajectories (in tokens) are left out, never cut."""
    lora_rank: int = 0
    """Rank of LoRA adapters on all linear layers; 0 trains every weight. The adapters are merged afterwards."""
    bf16: bool = False
    """Compute in bfloat16 what loses little by it; the weights and the optimizer keep their own format."""
    gradient_checkpointing: bool = False
    """Compute each layer again for its gradient instead of keeping what it made: less memory, more time."""
    checkpoint_minutes: float = 5.0
    """A training that is killed goes on from a state that was kept at most so long before (to the next of its twenty
    logged steps); 0 keeps one at each of those."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_positive(self, "epochs", "learning_rate")
        least = {"batch_size": 1, "gradient_accumulation": 1, "warmup_ratio": 0.0, "weight_decay": 0.0, "lora_rank": 0}
        check_least(self, least | {"max_grad_norm": 0.0, "max_length": 1, "checkpoint_minutes": 0.0})
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
        check_least(self, {"max_pairs": 1})


class Kept(NamedTuple):
    """Trajectories that can be trained on, in tokens, and why the others cannot."""

    trajectories: list[Trajectory]
    samples: list[Sample]
    """One a trajectory; of `usable_pairs` two a pair, the better and the worse one."""
    dropped: Counter[str]
    """How many were left out, by reason."""


def usable(policy: Policy, trajectories: Sequence[Trajectory], max_length: int, threshold: float = -math.inf) -> Kept:
    """What of `trajectories` has a reply to learn, ended by itself, returned `threshold` and is not too long.

    That is for `max_length`, or for the policy's context, in tokens; these must be of the policy's own tokenizer.
    """
    kept, longest = Kept([], [], Counter()), min(max_length, policy.max_length)
    for trajectory in trajectories:
        sample = encode(trajectory, policy.chat)
        if not trajectory.is_evidence:
            kept.dropped["ended by an infrastructure error"] += 1
        elif foreign(trajectory, policy.chat):
            kept.dropped[FOREIGN] += 1
        elif trajectory.reward < threshold:
            kept.dropped[f"below the trainer's threshold {threshold:g}"] += 1
        elif not any(sample.mask):
            kept.dropped["without a reply to learn"] += 1
        elif len(sample.input_ids) > longest:
            kept.dropped[f"longer than {longest} tokens"] += 1
        else:
            kept.trajectories.append(trajectory)
            kept.samples.append(sample)
    return kept


def usable_pairs(
    policy: Policy, trajectories: Sequence[Trajectory], settings: PairTuning, seed: int
) -> tuple[Kept, int]:
    """The pairs of `trajectories`, in tokens, and how many were none because both did equally well."""
    kept = usable(policy, trajectories, settings.max_length)
    found = preferences.build(
        kept.trajectories, match=settings.match, level=settings.level, max_pairs=settings.max_pairs, seed=seed
    )
    samples, used, in_pairs = list[Sample](), set[int](), {i for pair in found.pairs for i in pair[:2]}
    for pair in found.pairs:
        two = [encode(each, policy.chat) for each in preferences.sides(kept.trajectories, pair, settings.level)]
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
    if settings.bf16 and (engine := distributed.engine()):
        raise ConfigError(f"bf16 was not tried where {engine} splits the training: leave it out")
    device = policy.model.device
    args = _on_device(kind, device)(
        output_dir=str(output_dir), num_train_epochs=settings.epochs, learning_rate=settings.learning_rate,
        per_device_train_batch_size=settings.batch_size, gradient_accumulation_steps=settings.gradient_accumulation,
        warmup_steps=settings.warmup_ratio, weight_decay=settings.weight_decay, max_grad_norm=settings.max_grad_norm,
        lr_scheduler_type="cosine", seed=seed, data_seed=seed, max_length=None, bf16=settings.bf16,
        gradient_checkpointing=settings.gradient_checkpointing,
        use_cpu=device.type == "cpu", save_strategy="no", report_to="none",
        logging_steps=1 if tracking.wanted() else 0.05, disable_tqdm=True, dataloader_pin_memory=False,
        adam_beta2=0.95, **more,
    )  # fmt: skip
    args.made_of = digest_of(settings, seed, policy.digest())
    args.checkpoint_minutes = settings.checkpoint_minutes
    return args


def fit(trainer: Any, policy: Policy, progress: Progress | None, *, keep: bool = True) -> None:
    """Run a trl trainer of the policy's model to its end, in silence; adapters are merged into the policy.

    With `keep` it goes on from the state that the same training left in its folder, to the same end. Where an engine
    splits the training a copy is trained, and the policy gets its weights in the end.

    Raises:
        TrainingError: a gradient was not finite; the policy is as it was before that step.
        RunError: the state that is left is damaged, or another training's.
    """
    from transformers import PrinterCallback
    from transformers.integrations.deepspeed import unset_hf_deepspeed_config

    from agentgym_py.training.callbacks import Finite, Keep, Tell, Track
    from agentgym_py.training.sharding import give, to_train

    model = trainer.model  # with its adapters
    trainer.model = trainer.model_wrapped = to_train(model)
    made_of = digest_of(trainer.args.made_of, trainer.train_dataset[:])
    minutes = trainer.args.checkpoint_minutes if keep else math.inf
    checkpoints = Checkpoints(Path(trainer.args.output_dir), made_of, minutes)
    trainer.remove_callback(PrinterCallback)  # disable_tqdm puts it there: it prints every logged step
    trainer.add_callback(Finite(trainer))
    last, save = checkpoints.last(), trainer._save_checkpoint

    def saved(*given: Any) -> None:
        with writing(checkpoints.folder):
            save(*given)

    trainer._save_checkpoint = saved
    trainer.add_callback(Keep(checkpoints, last))
    trainer.add_callback(Track(keep))
    if progress:
        trainer.add_callback(Tell(progress))
    try:
        with without_progress_bars(), _without_warnings(last is not None):
            trainer.train(resume_from_checkpoint=last)
        give(trainer.model, model)
    except TrainingError:  # in all processes at once
        give(trainer.model, model)
        raise
    finally:
        unset_hf_deepspeed_config()  # or a model that is loaded now would be split, too
        if hasattr(model, "merge_and_unload"):
            policy.model = merged(model)
        for name in ("forward", "_original_forward", "_is_accelerate_prepared"):
            vars(policy.model).pop(name, None)  # bound to this model: a copy would run its weights, in its precision


def agent_trainer(loss_of: Callable[[Any, Any, Any], Any], columns: Sequence[str] = ()) -> Any:
    """The SFTTrainer whose loss is `loss_of(logprobs_N, batch, tokens)`, at the agent's tokens only.

    `tokens` is N over all the batches, in all processes, that one step sums up. Every process draws the whole batch
    that one alone would draw, and computes its rows of it; `columns` are columns of the data that a batch needs beside
    trl's own.
    """
    import torch
    from trl import SFTTrainer

    from agentgym_py.policy.logprobs import agent_logits, agent_logprobs

    class AgentTokenTrainer(_whole_batches(SFTTrainer)):  # type: ignore[misc]  # trl is untyped here
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            collate = self.data_collator
            self.data_collator: Any = lambda rows: collate(own_rows(rows))

        def _set_signature_columns_if_needed(self) -> None:
            super()._set_signature_columns_if_needed()
            self._signature_columns += [name for name in columns if name not in self._signature_columns]

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            agent = agent_logits(model, inputs["input_ids"], inputs["labels"])
            hits_N = (agent.logits_NV.argmax(-1) == agent.targets_N).float()
            hits, tokens = self.accelerator.reduce(torch.tensor([hits_N.sum(), len(hits_N)], device=hits_N.device))
            self._metrics["train"]["mean_token_accuracy"].append((hits / tokens).item())
            loss = loss_of(agent_logprobs(agent), inputs, num_items_in_batch)
            if num_items_in_batch is not None and self.args.average_tokens_across_devices:
                loss = loss * self.accelerator.num_processes  # the count is of all processes, gradients are averaged
            return loss

    return AgentTokenTrainer


def _whole_batches(kind: Any) -> Any:
    """The trl trainer `kind`, of which every process draws the whole batches that one alone would draw."""

    class WholeBatches(kind):  # type: ignore[misc]  # trl is untyped here
        def get_train_dataloader(self) -> Any:
            loader = super().get_train_dataloader()
            if distributed.world() > 1:  # as transformers itself has accelerate's shards give whole batches
                shards = loader.batch_sampler
                shards.num_processes, shards.process_index, shards.even_batches = 1, 0, False
            return loader

    return WholeBatches


def dealt(kind: Any) -> Any:
    """The trl trainer `kind` for data in tokens, with the reference's log-probabilities where it has a reference.

    Its processes each compute their rows of the batches that one alone would draw. Beside what its collator makes, a
    batch has `share`: by it the mean loss of a process's rows is to be multiplied, so that the mean over the processes
    is that of the whole batch. It is 0 where a process has none of the rows, and goes through the model with another's,
    for all compute together.
    """
    import torch

    class Dealt(_whole_batches(kind)):  # type: ignore[misc]  # trl is untyped here
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            collate, world = self.data_collator, distributed.world()

            def own(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
                mine = rows[distributed.rank() :: world]
                return {**collate(mine or rows[:1]), "share": torch.tensor(len(mine) * world / len(rows))}

            self.data_collator: Any = own

        def _prepare_dataset(self, dataset: Any, *args: Any) -> Any:
            return dataset  # is token ids already

        def _precompute_ref_logps(self, dataset: Any, *args: Any) -> Any:
            return dataset  # has them

        def tell(self, values: Mapping[str, Tensor], share: Tensor) -> None:
            """Log the means of these values, of which each process has its part, over all; none where there is none."""
            parts = [torch.stack([each.float().sum(), torch.tensor(len(each)).to(share)]) for each in values.values()]
            sums = self.accelerator.reduce(torch.stack(parts) * (share > 0))
            for name, (total, number) in zip(values, sums.tolist(), strict=True):
                if number:
                    self.log_mean(name, total / number)

        def log_mean(self, name: str, mean: float) -> None:
            """Keep a mean for the next log."""
            self._metrics["train"][name].append(mean)

    return Dealt


def own_rows(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """This process's share of a batch; where it has none a row without anything to learn, for all compute together."""
    return rows[distributed.rank() :: distributed.world()] or [
        {**rows[0], "labels": [IGNORED] * len(rows[0]["labels"])}
    ]


def trained(
    make: Callable[[Path], Any], policy: Policy, kept: Kept, epochs: float, output_dir: Path, progress: Progress | None
) -> TrainReport:
    """Run the trl trainer that `make` makes for a folder, and tell what it did with what was kept.

    In the folder it keeps the states of the training, which are cleared away when that is over, and left when it fails.
    """
    began, folder = time.monotonic(), output_dir / "states"
    with recomputed(policy):
        with quiet():
            trainer = make(folder)
        fit(trainer, policy, progress)
    clear(folder)
    return report(trainer, kept, epochs, began)


@contextmanager
def recomputed(policy: Policy) -> Iterator[None]:
    """A training within may compute layers again for their gradient; afterwards nothing of that is left."""
    before = input_hooks(policy.model)
    try:
        yield
    finally:
        stop_recomputing(policy.model, before)


def report(trainer: Any, kept: Kept, epochs: float, began: float) -> TrainReport:
    """What a trl trainer did with what was kept; `began` is by `time.monotonic`."""
    from agentgym_py.training.callbacks import logged

    history = trainer.state.log_history
    return TrainReport(
        trajectories=len(kept.trajectories),
        dropped=dict(kept.dropped),
        tokens=int(epochs * sum(len(s.input_ids) for s in kept.samples)),
        agent_tokens=int(epochs * sum(sum(s.mask) for s in kept.samples)),
        seconds=time.monotonic() - began,
        loss=[float(row["loss"]) for row in history if "loss" in row],
        metrics={k: v for row in history for k, v in logged(row).items() if k not in ("loss", "step", "learning_rate")},
        history=[logged(row) for row in history if "loss" in row],
    )


@contextmanager
def _without_warnings(silent: bool) -> Iterator[None]:
    """Without what transformers says of a state: that tied weights are not there twice, and how often it logs."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    if silent:
        logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _on_device(kind: Any, device: Any) -> Any:
    """The `kind` of a process that trains on `device` alone: trl's takes all GPUs it sees, the first one first.

    Where several processes train together each keeps the device that it was given.
    """
    import torch

    from agentgym_py.training.sharding import fit_for_cpu

    class OnDevice(kind):  # type: ignore[misc]  # trl is untyped here
        @property
        def _setup_devices(self) -> Any:
            found = super()._setup_devices
            if self.distributed_state.num_processes > 1:
                fit_for_cpu(self.distributed_state)
                return found
            self._n_gpu: int = min(self._n_gpu, 1)
            if device.type == "cuda":
                torch.cuda.set_device(device)  # accelerate's "cuda" is the current one
            return device

        def __reduce__(self) -> Any:
            """As plain data, for the state of a training, in which transformers keeps a copy that nobody reads."""
            return dict, (self.to_dict(),)

        def get_warmup_steps(self, num_training_steps: int) -> int:
            """Never all the steps: the learning rate of the first is 0."""
            warmup: int = super().get_warmup_steps(num_training_steps)
            return min(warmup, num_training_steps - 1)

    return OnDevice
