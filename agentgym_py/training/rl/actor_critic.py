"""The module that on-policy trainers train: a causal model and, if wanted, a value head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from agentgym_py.policy.logprobs import AgentLogits, agent_logits, at_least_float32

_HEAD_SIZE = 128
"""Size of a hidden state above which the value head's input is scaled down, so that a step of `critic_learning_rate`
moves the value of a wide model as far as that of `tiny`."""


class Teacher(NamedTuple):
    """The predictions of another model at the same N agent tokens, and how far the policy is from them."""

    logits: AgentLogits
    divergence: Callable[[Tensor, Tensor], Tensor]
    """Maps the policy's and the teacher's logits, both (n, V), to a divergence per token, (n,)."""


class Output(NamedTuple):
    """What the model computes at N agent tokens."""

    logps_N: Tensor
    entropy_N: Tensor
    values_N: Tensor | None
    """The critic's values of the state before each token."""
    divergence_N: Tensor | None = None
    """The divergence from a teacher, if there is one."""


class ActorCritic(nn.Module):
    """A causal model and, with `critic`, a linear value head on the state before each agent token."""

    def __init__(
        self, model: Any, critic: bool, temperature: float, critic_gradient: float = 1.0, bf16: bool = False,
        entropy_gradient: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.model, self.temperature, self.critic_gradient, self.bf16 = model, temperature, critic_gradient, bf16
        self.entropy_gradient = entropy_gradient
        self._no_split_modules = getattr(model, "_no_split_modules", None)  # FSDP's units
        size = model.get_input_embeddings().embedding_dim
        wide = torch.promote_types(model.dtype, torch.float32)
        self._scale = min(1.0, _HEAD_SIZE / size)
        self.value: nn.Linear | None = nn.Linear(size, 1, device=model.device, dtype=wide) if critic else None
        if self.value is not None:
            nn.init.zeros_(self.value.weight)
            nn.init.zeros_(self.value.bias)

    def forward(self, input_ids: Tensor, labels: Tensor, teacher: Teacher | None = None) -> Output:
        """Run the model on (B, S) rows, at the temperature that their replies were sampled at."""
        with torch.autocast(input_ids.device.type, torch.bfloat16, enabled=self.bf16):
            return self.output_of(agent_logits(self.model, input_ids, labels), teacher)

    def output_of(self, agent: AgentLogits, teacher: Teacher | None = None) -> Output:
        """Compute the output from the predictions of N agent tokens; all heads run piece by piece."""
        divergence_N = None
        if teacher is None:
            logps_N, entropy_N = agent.map_logits(self._logps_and_entropy)
        else:
            logits_of, divergence = teacher.logits.logits_of, teacher.divergence
            logps_N, entropy_N, divergence_N = agent.map_logits(
                lambda logits_nV, targets_n, rows_n: (
                    *self._logps_and_entropy(logits_nV, targets_n), divergence(logits_nV, logits_of(rows_n))
                ),
                teacher.logits.rows,
            )  # fmt: skip
        values_N = None if self.value is None else self._values(at_least_float32(agent.hidden_NH))
        return Output(logps_N, entropy_N, values_N, divergence_N)

    def _logps_and_entropy(self, logits_NV: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
        logprobs_NV = torch.log_softmax(logits_NV / self.temperature, -1)
        logps_N = logprobs_NV.gather(-1, targets_N[:, None])[:, 0]
        entropy_NV = logprobs_NV if self.entropy_gradient else logprobs_NV.detach()
        return logps_N, -(entropy_NV.exp() * entropy_NV).sum(-1)

    def _values(self, hidden_NH: Tensor) -> Tensor:
        assert self.value is not None
        share = self.critic_gradient
        mixed_NH = share * hidden_NH + (1 - share) * hidden_NH.detach() if share else hidden_NH.detach()
        with torch.autocast(hidden_NH.device.type, enabled=False):
            return self.value(self._scale * mixed_NH)[:, 0]  # type: ignore[no-any-return]  # torch types a module's call as Any
