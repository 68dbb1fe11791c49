"""Settings of the learner; this module imports no torch, for `--help` reads them."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_py.checks import check_fields, check_least, check_positive


@dataclass(frozen=True, slots=True)
class LearnerSettings:
    """How a policy is optimized."""

    learning_rate: float = 3e-4
    """Of AdamW, constant; 3e-4 suits the tiny model, 1e-6 to 1e-5 a pretrained one."""
    weight_decay: float = 0.0
    """Of AdamW: what every weight is lessened by, times the learning rate, each step."""
    max_grad_norm: float = 1.0
    """A longer gradient is shortened to it; 0 shortens none."""
    minibatch: int = 16
    """Trajectories a step of the optimizer."""
    pass_tokens: int = 4096
    """At most so many tokens, padding included, go through the model at once; memory and time depend on it, the result
    does not."""
    lora_rank: int = 0
    """Rank of LoRA adapters on all linear layers; 0 trains every weight. The adapters are merged afterwards."""
    bf16: bool = False
    """Compute in bfloat16 what loses little by it; the weights and the optimizer keep their own format."""
    gradient_checkpointing: bool = False
    """Compute each layer again for its gradient instead of keeping what it made: less memory, more time."""
    stop_ratio: float = 10.0
    """A step before which a token is on average so many times as likely as when it was sampled stops the training, with
    the weights that played; 0 never does."""
    stop_kl: float = 0.0
    """Divergence a token from the policy as the training began above which it ends, with the last weights below it; 0
    never does."""
    min_entropy: float = 0.01
    """Entropy a token, in nats, below which a collapse is warned of."""
    max_repeated: float = 0.5
    """Share of replies that repeat themselves, or an earlier one to the same observation, above which it is."""
    checkpoint_minutes: float = 5.0
    """A training that is killed goes on from a state that was kept at most so long before (to the next iteration); 0
    keeps one after each iteration."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_positive(self, "learning_rate")
        least = {"weight_decay": 0.0, "max_grad_norm": 0.0, "minibatch": 1, "pass_tokens": 1, "lora_rank": 0}
        nets = ("stop_ratio", "stop_kl", "min_entropy", "max_repeated", "checkpoint_minutes")
        check_least(self, least | dict.fromkeys(nets, 0.0))
