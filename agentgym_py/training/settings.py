"""Settings that trainers share. This module does not import torch, because `--help` reads trainers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from agentgym_py.checks import require_at_least, require_field_types, require_positive
from agentgym_py.errors import ConfigError
from agentgym_py.files import with_current_names
from agentgym_py.registry import install_advice
from agentgym_py.training.rl.constraints import ConstraintSettings
from agentgym_py.training.trainer import PlanChecks
from agentgym_py.trajectory.preferences import Level, Match
from agentgym_py.trajectory.types import OMIT_DEFAULT

ImportanceMode = Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]


SMALL_MODEL = 30_000_000
"""Largest number of weights of a model that takes the rates of `tiny`."""
LORA_FACTOR = 10
"""How much larger the default rate of adapters is than that of all weights, in a larger model."""


class Rates(NamedTuple):
    """A trainer's default learning rates."""

    small: float
    """For models like `tiny`."""
    pretrained: float
    """For all weights of a larger, pretrained model."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Settings of any training of a model, by this project's loop or by another library's."""

    learning_rate: float | None = None
    """Learning rate of AdamW; by default one that suits the model's size (docs/reference/trainers/README.md)."""
    rates: ClassVar[Rates] = Rates(7e-4, 1e-5)
    lora_rank: int = 0
    """Rank of LoRA adapters, which stay apart from the model's weights; 0 trains every weight."""
    lora_alpha: int | None = field(default=None, metadata=OMIT_DEFAULT)
    """Scale of the adapters, divided by the rank; by default twice the rank."""
    lora_dropout: float = field(default=0.0, metadata=OMIT_DEFAULT)
    """Dropout of the adapters' inputs, below 1; on-policy trainers take none."""
    lora_target_modules: str = field(default="all-linear", metadata=OMIT_DEFAULT)
    """Layers with adapters: `all-linear`, or names with commas, such as `q_proj,v_proj`."""
    bf16: bool = False
    """Run the forward pass in bfloat16 autocast. Weights and optimizer states keep their own format."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""

    def __post_init__(self) -> None:
        require_field_types(self)
        if self.learning_rate is not None:
            require_positive(self, "learning_rate")
        require_at_least(self, {"lora_rank": 0, "lora_dropout": 0.0})
        if self.lora_alpha is not None:
            require_at_least(self, {"lora_alpha": 1})
        if self.lora_dropout >= 1:
            raise ConfigError(f"lora_dropout must be below 1, got {self.lora_dropout}")
        if not self.lora_modules:
            raise ConfigError("lora_target_modules must be all-linear or names of layers")
        defaults = {"lora_alpha": None, "lora_dropout": 0.0, "lora_target_modules": "all-linear"}
        changed = next((name for name, default in defaults.items() if getattr(self, name) != default), None)
        if changed and not self.lora_rank:
            raise ConfigError(f"{changed} needs lora_rank above 0")

    @property
    def lora_modules(self) -> str | list[str]:
        """The layers with adapters, as PEFT takes them."""
        names = [name.strip() for name in self.lora_target_modules.split(",") if name.strip()]
        return "all-linear" if names == ["all-linear"] else names

    @property
    def lora(self) -> dict[str, Any]:
        """Further arguments of `add_adapters`."""
        return {"alpha": self.lora_alpha, "dropout": self.lora_dropout, "target_modules": self.lora_modules}

    def rate_for(self, weights: int, scale: float = 1.0) -> float:
        """Return the learning rate: the setting, or the default for a model's size times its own scale.

        Args:
            weights: Number of the model's weights.
            scale: `Policy.learning_rate_scale`.
        """
        if self.learning_rate is not None:
            return self.learning_rate
        if weights <= SMALL_MODEL:
            return self.rates.small * scale
        return self.rates.pretrained * scale * (LORA_FACTOR if self.lora_rank else 1)


@dataclass(frozen=True)  # without slots: a class has one base with slots
class DataSettings:
    """Settings of the passes over stored trajectories."""

    epochs: float = 2.0
    """Passes over the data."""
    batch_size: int = 4
    """Trajectories (or pairs of them) per batch."""
    gradient_accumulation: int = 1
    """Batches per optimizer step."""
    max_length: int = 4096
    """Longer trajectories, in tokens, are left out, never cut."""
    mask_truncated_completions: bool = False
    """Leave replies that were cut at `max_new_tokens` out of the loss; the rest of their episode is trained on."""

    def __post_init__(self) -> None:
        require_positive(self, "epochs")
        require_at_least(self, {"batch_size": 1, "gradient_accumulation": 1, "max_length": 1})


@dataclass(frozen=True)  # without slots: a class has one base with slots
class PairData(DataSettings):
    """Settings of the pairs of a better and a worse trajectory of one task."""

    match: Match = "best_worst"
    """Which trajectories are compared: `best_worst` by return, `success` every success with every failure, `all` all
    pairs with different returns."""
    level: Level = "episode"
    """What is compared: whole episodes; what follows the `fork`, the state in which two episodes diverge; or only the
    `turn` there."""
    max_pairs: int = 4
    """Largest number of pairs per task."""

    def __post_init__(self) -> None:
        DataSettings.__post_init__(self)
        require_at_least(self, {"max_pairs": 1})


@dataclass(frozen=True)  # without slots: a class has one base with slots
class ReturnThreshold:
    """The setting of a trainer that clones good trajectories."""

    threshold: float = 0.5
    """Minimum return of a trajectory that is trained on."""

    def __post_init__(self) -> None:
        if math.isnan(self.threshold):
            raise ConfigError("threshold must be a number, got nan")


@dataclass(frozen=True, slots=True)
class OptimizerSettings(ModelSettings):
    """Settings of an optimizer: AdamW with beta2 0.95, on all weights or on LoRA adapters."""

    rates: ClassVar[Rates] = Rates(3e-4, 1e-5)
    optim: Literal["adamw", "adamw_8bit"] = "adamw"
    """Optimizer: AdamW, or the one of bitsandbytes with states of 8 bits (on a GPU)."""
    weight_decay: float = 0.0
    """Decoupled weight decay of AdamW."""
    max_grad_norm: float = 1.0
    """Gradients with a larger norm are clipped to it; 0 turns clipping off."""
    microbatch_tokens: int = 4096
    """Largest number of tokens in one forward pass, padding included; a larger episode or pair has a pass of its own,
    with all its sequences. It affects memory and speed, not the result."""
    checkpoint_minutes: float = 5.0
    """Minimum minutes between saved states, from which a killed training resumes; 0 saves as often as possible."""

    def __post_init__(self) -> None:
        ModelSettings.__post_init__(self)
        require_at_least(self, {"weight_decay": 0.0, "max_grad_norm": 0.0, "microbatch_tokens": 1})
        require_at_least(self, {"checkpoint_minutes": 0.0})


@dataclass(frozen=True, slots=True)
class OfflineSettings(OptimizerSettings, DataSettings):
    """Settings of a training on stored trajectories."""

    learning_rate: float | None = None
    """Peak of the cosine schedule; by default one that suits the model's size (docs/reference/trainers/README.md)."""
    rates: ClassVar[Rates] = Rates(7e-4, 1e-5)
    warmup_ratio: float = 0.05
    """Share of the steps in which the learning rate rises, below 1."""
    val_size: float = field(default=0.0, metadata=OMIT_DEFAULT)
    """Share of the prompts that is held out to measure `eval_loss`, below 1; 0 trains on all."""
    eval_steps: int | None = field(default=None, metadata=OMIT_DEFAULT)
    """Optimizer steps between two measurements of `eval_loss`; by default once per epoch."""
    early_stopping_patience: int = field(default=0, metadata=OMIT_DEFAULT)
    """Measurements without a lower `eval_loss` after which the training stops; the weights are then those with the
    lowest, also without a stop. 0 never stops early and keeps the last weights."""

    ewc_lambda: float = field(default=0.0, metadata=OMIT_DEFAULT)
    """Strength of EWC's penalty on moving the weights that earlier tasks need (arXiv:1612.00796); 0 has none."""
    ewc_anchor: Path | None = field(default=None, metadata=OMIT_DEFAULT)
    """File of the earlier tasks' weights, such as runs/a/anchors/00.safetensors; `evolve --sequence` sets it."""

    def __post_init__(self) -> None:
        OptimizerSettings.__post_init__(self)
        DataSettings.__post_init__(self)
        require_at_least(self, {"warmup_ratio": 0.0, "val_size": 0.0, "early_stopping_patience": 0, "ewc_lambda": 0.0})
        if self.ewc_anchor is not None and not self.ewc_lambda:
            raise ConfigError("ewc_anchor needs ewc_lambda above 0")
        if self.ewc_lambda and self.lora_rank:
            raise ConfigError("ewc_lambda needs lora_rank 0, because it is a penalty on all weights")
        if self.val_size >= 1:
            raise ConfigError(f"val_size must be below 1, got {self.val_size}")
        if self.eval_steps is not None:
            require_at_least(self, {"eval_steps": 1})
        if not self.val_size and (self.early_stopping_patience or self.eval_steps is not None):
            name = "early_stopping_patience" if self.early_stopping_patience else "eval_steps"
            raise ConfigError(f"{name} needs val_size above 0, because nothing is held out")
        if self.warmup_ratio >= 1:
            raise ConfigError(f"warmup_ratio must be below 1, got {self.warmup_ratio}")

    @property
    def step_size(self) -> int:
        """Rows per optimizer step."""
        return self.batch_size * self.gradient_accumulation


@dataclass(frozen=True, slots=True)
class PairSettings(PairData, OfflineSettings):
    """Settings of a training on pairs of a better and a worse trajectory of one task."""

    def __post_init__(self) -> None:
        OfflineSettings.__post_init__(self)
        PairData.__post_init__(self)


def require_no_validation(settings: OfflineSettings) -> None:
    """Raise ConfigError for `val_size` of a trainer whose steps cannot be measured on held-out data."""
    if settings.val_size:
        raise ConfigError("val_size must be 0: this trainer has no loss on held-out data")


def require_no_mask(settings: OfflineSettings) -> None:
    """Raise ConfigError for `mask_truncated_completions` of a trainer that learns to judge, not to reply."""
    if settings.mask_truncated_completions:
        raise ConfigError(
            "mask_truncated_completions must be false: a reward model is not trained on the replies' tokens"
        )


@dataclass(frozen=True, slots=True)
class TrlSettings(ModelSettings):
    """Settings of a training by a trainer of trl."""

    learning_rate: float | None = None
    """Peak of trl's linear schedule; by default one that suits the model's size (docs/reference/trainers/README.md)."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """More arguments of trl's configuration by name, such as `use_liger_kernel` or `lr_scheduler_type`."""

    def __post_init__(self) -> None:
        ModelSettings.__post_init__(self)
        if find_spec("trl") is None or find_spec("datasets") is None:
            raise ConfigError(f"a trainer of trl needs trl and datasets: {install_advice('train,trl')}")


@dataclass(frozen=True, slots=True)
class TrlOfflineSettings(TrlSettings, DataSettings):
    """Settings of a training by trl on stored trajectories."""

    def __post_init__(self) -> None:
        TrlSettings.__post_init__(self)
        DataSettings.__post_init__(self)

    @property
    def trl_arguments(self) -> dict[str, Any]:
        """The settings by trl's names."""
        return {
            "num_train_epochs": self.epochs, "per_device_train_batch_size": self.batch_size,
            "gradient_accumulation_steps": self.gradient_accumulation, "max_length": None,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class OnPolicySettings(OptimizerSettings, PlanChecks):
    """Settings of a training on the policy's own episodes."""

    learning_rate: float | None = None
    """Constant learning rate of AdamW; by default one for the model's size (docs/reference/trainers/README.md)."""
    rates: ClassVar[Rates] = Rates(3e-4, 1e-6)
    minibatch_size: int = 16
    """Trajectories per optimizer step."""
    mask_truncated_completions: bool = True
    """Leave replies that were cut at `max_new_tokens` out of the loss (DAPO's overlong filtering); their episode's
    return still counts."""
    max_ratio: float = 10.0
    """Training stops before a step at which the mean ratio to the sampling policy exceeds this, with the weights that
    sampled; 0 turns the guard off."""
    max_kl: float = 0.0
    """Training stops after an iteration that moves the policy further than this from its start (nats per token), with
    the weights before it; 0 turns the guard off."""
    importance_sampling_correction: bool = False
    """Weigh the policy's loss by the ratio of the trainer's probabilities to the sampler's, bounded by the cap."""
    importance_sampling_mode: ImportanceMode = "token_truncate"
    """Whether the ratio is each token's or the product over the trajectory, and whether a ratio above the cap counts as
    the cap (`truncate`) or as 0 (`mask`)."""
    importance_sampling_cap: float = 3.0
    """Largest ratio of the trainer's probability to the sampler's."""
    max_sampler_difference: float = 0.0
    """Training stops with an error before an iteration whose sampled log-probabilities differ from the trainer's by
    more than this on average (nats per token); 0 turns the guard off."""
    min_entropy: float = 0.01
    """Entropy (nats per token) below which a collapse is reported."""
    max_repeated: float = 0.5
    """Share of replies that repeat themselves, or an earlier reply to the same observation, above which a collapse is
    reported."""

    def __post_init__(self) -> None:
        OptimizerSettings.__post_init__(self)
        if self.lora_dropout:
            raise ConfigError("lora_dropout must be 0: ratios to the sampling policy would change at random")
        guards = ("max_ratio", "max_kl", "max_sampler_difference", "min_entropy", "max_repeated")
        require_at_least(self, {"minibatch_size": 1, **dict.fromkeys(guards, 0.0)})
        require_positive(self, "importance_sampling_cap")


_ON_POLICY = {
    "batch_tasks": "tasks_per_iteration", "minibatch": "minibatch_size", "pass_tokens": "microbatch_tokens",
    "kl": "kl_coef", "stop_ratio": "max_ratio", "stop_kl": "max_kl",
}  # fmt: skip
_GRPO = _ON_POLICY | {"kind": "variant"}
_PPO = _ON_POLICY | {
    "lam": "gae_lambda", "value_weight": "vf_coef", "entropy_weight": "entropy_coef", "level": "credit_level",
}  # fmt: skip
RENAMED: Mapping[str, Mapping[str, str]] = {
    "grpo": _GRPO, "ppo": _PPO, "r3": _PPO | {"prm_tries": "prm_attempts"},
    "reverse_curriculum": _GRPO | {"enough": "success_threshold"}, "process_reward": {"tries": "attempts"},
}  # fmt: skip
"""Renamed settings by trainer: their names in a run.yaml of an earlier version, and their current names."""
_OWN_REWARD = ("grpo", "reverse_curriculum")
"""Trainers of earlier versions with a setting `reward` of their own, which is the run's now."""


def with_current_trainer_names(trainer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trainer's settings, which an earlier version may have written, by their current names."""
    renamed = RENAMED.get(str(trainer.get("name")), {})
    return {renamed.get(name, name): value for name, value in trainer.items()}


def current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's settings, which an earlier version may have written, by their current names."""
    current, trainer = with_current_names(settings), settings.get("trainer")
    if not isinstance(trainer, Mapping):
        return current
    trainer = with_current_trainer_names(trainer)
    if trainer.get("name") in _OWN_REWARD and "reward" in trainer:
        reward = trainer.pop("reward")
        current["reward"] = "reward_model" if current.get("reward_model") and reward == "return" else reward
    return current | {"trainer": trainer}


_SHARED = {*OfflineSettings.__mro__, *TrlOfflineSettings.__mro__, *OnPolicySettings.__mro__, ConstraintSettings}
"""Classes whose settings most trainers have."""


def ordered_fields(trainer: type) -> list[Field[Any]]:
    """Return the fields of a trainer as a reader wants them: first those that few other trainers have."""

    def is_shared(name: str) -> bool:
        return next((base in _SHARED for base in trainer.__mro__ if name in inspect.get_annotations(base)), False)

    return sorted(fields(trainer), key=lambda field: is_shared(field.name))
