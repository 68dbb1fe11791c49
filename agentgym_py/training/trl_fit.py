"""trl's own trainers, unmodified, on a policy: configuration, adapters, progress, and what is put back afterwards.

A trainer makes its arguments and rows, and lets trl run the loop:

    args = trl_config(SFTConfig, self, policy, seed, num_train_epochs=self.epochs)
    with TrlFit("trl_sft", policy, self, seed, progress) as fit:
        fit.train(SFTTrainer(model=fit.model, args=args, processing_class=fit.tokenizer, train_dataset=rows))
    return fit.report(len(samples), dropped, samples, self.epochs)
"""

from __future__ import annotations

import copy
import math
import random  # noqa: TID251  # only to restore the state that trl sets
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from transformers import PrinterCallback, TrainerCallback

from agentgym_py.errors import ConfigError, TrainingError, did_you_mean
from agentgym_py.policy.adapters import (
    add_adapters,
    has_adapters,
    input_hooks,
    merged_copy,
    require_trainable,
    stop_recomputing,
)
from agentgym_py.policy.quiet import ignore_checkpointing_warnings
from agentgym_py.policy.tokens import Sample
from agentgym_py.training import tracking
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import TrlSettings
from agentgym_py.training.trainer import TrainReport

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

_TIMES = ("step", "step_time", "total_flos")
"""What trl logs of its own work; so is everything that begins with `train_`."""
_LEFT_BEHIND = ("forward", "_original_forward", "_is_accelerate_prepared", "warnings_issued", "model_tags")
"""Attributes that trl and accelerate set on a model."""


def trl_config(kind: Any, settings: TrlSettings, policy: Policy, seed: int, **more: Any) -> Any:
    """Make trl's configuration: the settings by trl's names (`more`), and `settings.args`.

    Raises:
        ConfigError: trl has no such argument, sets it by another setting, or refuses its value.
    """
    fixed = {
        "seed": seed, "output_dir": gettempdir(), "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
        "learning_rate": settings.rate_for(policy.num_parameters, policy.learning_rate_scale), "bf16": settings.bf16,
        "gradient_checkpointing": settings.gradient_checkpointing, "use_cpu": policy.model.device.type == "cpu", **more,
    }  # fmt: skip
    usual = {"logging_steps": 1, "dataloader_pin_memory": policy.model.device.type == "cuda"}
    known = {field.name for field in fields(kind)}
    for name in settings.args:
        if name in fixed:
            raise ConfigError(f"args.{name} is set by the trainer or by another setting")
        if name not in known:
            raise ConfigError(f"args: {kind.__name__} has no {name!r}." + did_you_mean(name, sorted(known), "It has"))
    try:
        with ignore_checkpointing_warnings():
            return kind(**usual | fixed | dict(settings.args))
    except (TypeError, ValueError, ImportError) as error:
        raise ConfigError(f"args: {kind.__name__} refuses them: {error}") from error


class TrlFit(TrainerCallback):  # type: ignore[misc]  # untyped here
    """One training of a policy by a trainer of trl, used as a context; the policy is as before but for its weights.

    `progress` is called after each step.
    """

    def __init__(
        self, name: str, policy: Policy, settings: TrlSettings, seed: int, progress: Progress | None = None
    ) -> None:
        require_trainable(policy.model, settings.lora_rank)
        if not settings.lora_rank and torch.finfo(policy.model.dtype).bits < 32:
            raise ConfigError(
                f"{name} would round its steps to {policy.model.dtype}: set lora_rank above 0, or dtype float32"
            )
        self.name, self._policy, self._progress, self._began = name, policy, progress, time.monotonic()
        self.history: list[dict[str, float]] = []
        self._scope = ExitStack()
        self._rank, self._seed, self._lora = settings.lora_rank, seed, settings.lora
        self._rate = settings.rate_for(policy.num_parameters, policy.learning_rate_scale)
        self.tokenizer = copy.deepcopy(policy.tokenizer)  # trl sets its pad token
        if self.tokenizer.pad_token is None and self.tokenizer.eos_token is None:
            self.tokenizer.pad_token = self.tokenizer.convert_ids_to_tokens(policy.chat.end_of_turn)

    @property
    def model(self) -> Any:
        """The policy's model, with adapters if there are any."""
        return self._policy.model

    def __enter__(self) -> Self:
        if self._rank:
            self._policy.model = add_adapters(self.model, self._rank, self._seed, **self._lora)
        else:
            self._policy.model = (merged_copy(self.model) if has_adapters(self.model) else self.model).requires_grad_()
        model = self.model
        states, hooks = (random.getstate(), np.random.get_state()), input_hooks(model)  # noqa: NPY002  # trl seeds them
        configs = [(config, config.pad_token_id) for config in _configs(model)]
        dropouts = [(module, module.p) for module in model.modules() if isinstance(module, torch.nn.Dropout)]

        def restore() -> None:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
            for config, pad in configs:
                config.pad_token_id = pad
            for module, p in dropouts:  # trl sets it to 0 for good
                module.p = p
            stop_recomputing(model, hooks)

        self._scope.enter_context(torch.random.fork_rng([model.device] if model.device.type == "cuda" else []))
        self._scope.enter_context(ignore_checkpointing_warnings())
        self._scope.callback(restore)
        self._scope.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "You are using 'rollout_func'", UserWarning)
        return self

    def __exit__(self, *_: object) -> None:
        self._scope.close()
        model = self.model
        if has_adapters(model) and "ref" in model.peft_config:  # trl's reference, a copy of the adapters
            model.delete_adapter("ref")
        for part in (model, model.get_base_model() if has_adapters(model) else model):
            for name in _LEFT_BEHIND:
                vars(part).pop(name, None)
        model.eval()

    def train(self, trainer: Any) -> None:
        """Run trl's training.

        Raises:
            TrainingError: the gradient is not finite; the weights are those before that step.
        """
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(self)
        trainer.train()
        self.history = [row for entry in trainer.state.log_history if (row := _logged(entry)) and "loss" in row]

    # ---- trl's callbacks ---------------------------------------------------------------------------------------------

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Refuse a gradient that is not finite."""
        gradients = [p.grad for p in more["model"].parameters() if p.grad is not None]
        if not all(bool(gradient.isfinite().all()) for gradient in gradients):
            raise TrainingError(
                f"{self.name}: a gradient is not finite at step {state.global_step + 1} of {state.max_steps}: the step "
                "was not taken, the weights are those before it; a lower learning_rate may help"
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Report the progress."""
        if self._progress:
            self._progress(state.global_step, state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        """Hand what trl logs to the tracker of `--track`."""
        if tracking.is_tracking() and (row := _logged(logs or {})):
            tracking.log(row, state.global_step)

    # ---- the end -----------------------------------------------------------------------------------------------------

    def report(
        self, trajectories: int, dropped: Mapping[str, int], samples: Sequence[Sample], epochs: float, **metrics: float
    ) -> TrainReport:
        """Make the report of a training on `samples`; `metrics` are the trainer's own."""
        tokens, agent_tokens = sum(len(s.input_ids) for s in samples), sum(sum(s.mask) for s in samples)
        last = {name: value for row in self.history for name, value in row.items()}
        return TrainReport(
            trajectories=trajectories, dropped=dict(dropped), tokens=int(epochs * tokens),
            agent_tokens=int(epochs * agent_tokens), seconds=time.monotonic() - self._began,
            loss=[row["loss"] for row in self.history],
            metrics=last | {"learning_rate": self._rate} | metrics, history=self.history,
        )  # fmt: skip


def _configs(model: Any) -> list[Any]:
    return [model.config.get_text_config(), model.generation_config]


def _logged(entry: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a log entry, without times."""
    return {
        name: float(value)
        for name, value in entry.items()
        if isinstance(value, int | float) and math.isfinite(value) and not (name in _TIMES or name.startswith("train_"))
    }
