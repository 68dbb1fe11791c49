"""What a causal model makes of an agent's tokens: the differentiable forward that trainers share."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from agentgym_py.samples import IGNORED


class AgentLogits(NamedTuple):
    """Logits at the N agent tokens of a batch, row after row."""

    logits_NV: Tensor
    """Float32; row n is what the model said before it saw token n."""
    targets_N: Tensor
    """The tokens themselves."""
    hidden_NH: Tensor
    """The state that the head made each row of logits from."""


def agent_logprobs(agent: AgentLogits) -> Tensor:
    """The tokens' log-probabilities, given everything before them; (N,)."""
    return -torch.nn.functional.cross_entropy(agent.logits_NV, agent.targets_N, reduction="none")


def agent_logits(model: Any, input_ids: Tensor, labels: Tensor) -> AgentLogits:
    """Run `model` on rows padded at their right end, (B, S); `labels` hold `IGNORED` wherever the agent did not write.

    The head is applied to the agent's tokens only, often a fifth of all. No attention mask is passed, for a causal
    model's row sees nothing to its right.
    """
    wanted = labels[:, 1:] != IGNORED  # (B, S - 1): the state at t predicts the token at t + 1
    kept: list[Tensor] = []

    def keep_wanted(head: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:
        kept.append(inputs[0][:, :-1][wanted])
        return (kept[0][None],)

    inner = getattr(model, "module", model)  # as DistributedDataParallel and the like hold it
    hook = inner.get_output_embeddings().register_forward_pre_hook(keep_wanted)
    try:
        logits = model(input_ids=input_ids, use_cache=False).logits[0]
    finally:
        hook.remove()
    return AgentLogits(logits.float(), labels[:, 1:][wanted], kept[0])
