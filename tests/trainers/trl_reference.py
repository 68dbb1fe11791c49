"""trl's own trainers, unmodified, on token ids: their losses, gradients and trainings; the fixture `trl_reference`.

Each trainer gets a copy of the policy's model, because trl replaces the `forward` of the model that it trains.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import datasets
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PrinterCallback
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import pad_rows
from agentgym_py.policy.quiet import ignore_checkpointing_warnings
from agentgym_py.policy.tokens import IGNORED, Sample

Rows = Sequence[Mapping[str, Any]]


class Reference(NamedTuple):
    """What trl's trainer makes of one batch."""

    loss: Tensor
    gradients: dict[str, Tensor]
    """By the names of the policy's parameters."""
    logged: dict[str, float]
    """What it logs of the batch, for trainers that keep it in `_metrics`."""


class _Tokenized(datasets.Dataset):  # type: ignore[misc]  # untyped here
    """Rows of token ids, which trl's `map` would take for text."""

    def map(self, *args: Any, **kwargs: Any) -> Any:
        """Leave the rows as they are."""
        return self


def arguments(kind: Any, folder: Path | str, **more: Any) -> Any:
    """Return a configuration of trl's `kind` for the CPU that saves, reports and shortens nothing."""
    usual = {
        "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "max_length": None, "save_strategy": "no",
        "report_to": "none", "disable_tqdm": True, "dataloader_pin_memory": False, "remove_unused_columns": False,
        "logging_steps": 1, "adam_beta2": 0.95,
    }  # fmt: skip
    with ignore_checkpointing_warnings():
        return kind(output_dir=str(folder), **(usual | more))


def trainer_of(
    kind: Any, args: Any, policy: Policy, rows: Rows, collate: Callable[[Any], dict[str, Any]], **more: Any
) -> Any:
    """Make trl's trainer `kind` of a copy of the policy's model, in training mode; `more` are its arguments.

    `collate` makes a batch of rows, padded at the right. Pass `model` to train another model than the policy's.
    """
    model = more.pop("model", policy.model)
    with ignore_checkpointing_warnings():
        trainer = kind(
            model=copy.deepcopy(model), args=args, processing_class=policy.tokenizer,
            train_dataset=_Tokenized.from_list([dict(row) for row in rows]), data_collator=collate, **more,
        )  # fmt: skip
    trainer.model.train(model.training)
    return trainer


def loss_of(trainer: Any, batch: Mapping[str, Any], **more: Any) -> Reference:
    """Run `compute_loss` of trl's trainer on one batch, and backward; `more` are arguments of `compute_loss`."""
    trainer.model.zero_grad()
    loss = trainer.compute_loss(trainer.model, dict(batch), **more)
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in trainer.model.named_parameters() if p.grad is not None}
    metrics = getattr(trainer, "_metrics", {}).get("train" if trainer.model.training else "eval", {})
    return Reference(loss.detach(), gradients, {name: values[-1] for name, values in metrics.items()})


def settings_of(trainer: Any, steps: int) -> dict[str, Any]:
    """Fields of trl's configuration for what an offline trainer of ours does in that many steps, without warm-up."""
    assert not int(trainer.warmup_ratio * steps), "the first step of a warm-up has rate 0 in trl"
    return {
        "num_train_epochs": 1, "lr_scheduler_type": "cosine", "learning_rate": trainer.rate_for(0),
        "weight_decay": trainer.weight_decay, "max_grad_norm": trainer.max_grad_norm,
    }  # fmt: skip


def trained(trainer: Any, batches: Sequence[Sequence[int]]) -> list[float]:
    """Train by trl on these batches of its rows, one a step, and return the loss of each step."""
    loader = DataLoader(trainer.train_dataset, batch_sampler=list(map(list, batches)), collate_fn=trainer.data_collator)
    trainer.get_train_dataloader = lambda: trainer.accelerator.prepare(loader)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


# ---- SFT -------------------------------------------------------------------------------------------------------------


def sft_rows(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return the samples as rows for `sft_batch`."""
    return [{"input_ids": sample.input_ids, "labels": sample.labels} for sample in samples]


def sft_batch(rows: Rows) -> dict[str, Tensor]:
    """Make a batch for trl's SFTTrainer."""
    ids = [row["input_ids"] for row in rows]
    return {
        "input_ids": pad_rows(ids), "labels": pad_rows([row["labels"] for row in rows], IGNORED),
        "attention_mask": pad_rows([[1] * len(each) for each in ids]),
    }  # fmt: skip


def sft_trainer(policy: Policy, samples: Sequence[Sample], folder: Path | str, **more: Any) -> Any:
    """Make trl's SFTTrainer on the samples; `more` are fields of its configuration."""
    args = arguments(SFTConfig, folder, dataset_kwargs={"skip_prepare_dataset": True}, **more)
    return trainer_of(SFTTrainer, args, policy, sft_rows(samples), sft_batch)


def sft_loss_of(policy: Policy, samples: Sequence[Sample], tokens: int | None = None) -> Reference:
    """Loss and gradients of trl's SFTTrainer on one batch; `tokens` is the number of tokens of the whole step."""
    with TemporaryDirectory() as folder:
        trainer = sft_trainer(policy, samples, folder)
        return loss_of(trainer, sft_batch(sft_rows(samples)), num_items_in_batch=tokens)


# ---- DPO -------------------------------------------------------------------------------------------------------------


def pair_rows(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return pairs of samples, the better one first, as rows for `dpo_batch`."""
    return [
        {
            "chosen_ids": good.input_ids, "chosen_mask": good.mask,
            "rejected_ids": bad.input_ids, "rejected_mask": bad.mask,
        }
        for good, bad in zip(samples[::2], samples[1::2], strict=True)
    ]  # fmt: skip


def dpo_batch(rows: Rows) -> dict[str, Tensor]:
    """Make a batch for trl's DPOTrainer, the better ones first; `completion_mask` is 1 on agent tokens."""
    ids, mask = ([row[f"{side}_{name}"] for side in ("chosen", "rejected") for row in rows] for name in ("ids", "mask"))
    return {
        "input_ids": pad_rows(ids), "attention_mask": pad_rows([[1] * len(each) for each in ids]),
        "completion_mask": pad_rows(mask),
    }  # fmt: skip


def dpo_trainer(policy: Policy, reference: Policy, samples: Sequence[Sample], folder: Path | str, **more: Any) -> Any:
    """Make trl's DPOTrainer on pairs of samples; `more` are fields of its configuration."""
    args = arguments(DPOConfig, folder, **more)
    return trainer_of(
        DPOTrainer, args, policy, pair_rows(samples), dpo_batch, ref_model=copy.deepcopy(reference.model)
    )  # fmt: skip


def dpo_loss_of(
    policy: Policy, reference: Policy, samples: Sequence[Sample], weights: Mapping[str, float], **more: Any
) -> Reference:
    """Loss and gradients of trl's DPOTrainer on one batch of pairs, the better one first in `samples`.

    `weights` are the weights of trl's losses by name; `more` are fields of its configuration, such as `beta`.
    """
    with TemporaryDirectory() as folder:
        more |= {"loss_type": list(weights), "loss_weights": list(weights.values())}
        trainer = dpo_trainer(policy, reference, samples, folder, **more)
        return loss_of(trainer, dpo_batch(pair_rows(samples)))
