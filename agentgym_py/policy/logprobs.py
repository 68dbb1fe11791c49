"""The differentiable forward pass that trainers share: log-probabilities of the agent's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from agentgym_py.policy.tokens import IGNORED, Sample


class AgentLogits(NamedTuple):
    """Logits at the N agent tokens of a batch, row after row."""

    logits_NV: Tensor
    """Float32, or the wider format that the model computes in. Row n is the prediction of token n."""
    targets_N: Tensor
    """The tokens themselves."""
    hidden_NH: Tensor
    """The hidden state from which the head computed each row of logits."""

    @property
    def hits_N(self) -> Tensor:  # noqa: N802  # shapes stand in names
        """1 where the likeliest token is the agent's own."""
        return (self.logits_NV.detach().argmax(-1) == self.targets_N).float()


def at_least_float32(x: Tensor) -> Tensor:
    """Convert to float32; float64 stays."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def agent_logprobs(agent: AgentLogits) -> Tensor:
    """Return the log-probabilities of the tokens given everything before them, (N,)."""
    return -torch.nn.functional.cross_entropy(agent.logits_NV, agent.targets_N, reduction="none")


def agent_logits(model: Any, input_ids: Tensor, labels: Tensor) -> AgentLogits:
    """Run `model` on rows padded at their right end, (B, S); `labels` are `IGNORED` except at the agent's tokens.

    The head is applied to the agent's tokens only, often a fifth of all. No attention mask is passed, because a causal
    model's row attends to nothing on its right.
    """
    mask = labels[:, 1:] != IGNORED  # (B, S - 1): the state at t predicts the token at t + 1
    hidden: list[Tensor] = []

    def select_agent_states(head: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:
        hidden.append(inputs[0][:, :-1][mask])
        return (hidden[0][None],)

    inner = getattr(model, "module", model)  # the module inside DistributedDataParallel and the like
    hook = inner.get_output_embeddings().register_forward_pre_hook(select_agent_states)
    try:
        logits = model(input_ids=input_ids, use_cache=False).logits[0]
    finally:
        hook.remove()
    return AgentLogits(at_least_float32(logits), labels[:, 1:][mask], hidden[0])


def row_logprobs(model: Any, input_ids: Tensor, labels: Tensor) -> Tensor:
    """Sum the log-probabilities of each row's agent tokens, (B,); arguments as for `agent_logits`."""
    return sum_rows(agent_logits(model, input_ids, labels), labels)


def sum_rows(agent: AgentLogits, labels: Tensor) -> Tensor:
    """Sum the log-probabilities of the agent tokens of each of B rows, (B,)."""
    mask = labels[:, 1:] != IGNORED
    logprobs_N = agent_logprobs(agent)
    return logprobs_N.new_zeros(mask.shape).masked_scatter(mask, logprobs_N).sum(-1)


def sum_sequences(values_R: Tensor, samples: Sequence[Sample]) -> Tensor:
    """Add up the values of each sample's sequences, (R,) to (B,)."""
    if len(values_R) == len(samples):
        return values_R
    counts_B = torch.tensor([len(sample.starts) for sample in samples], device=values_R.device)
    sample_R = torch.arange(len(samples), device=values_R.device).repeat_interleave(counts_B)
    return values_R.new_zeros(len(samples)).index_add(0, sample_R, values_R)


def pad_rows(rows: Sequence[Sequence[int]], padding: int = 0, device: Any = None) -> Tensor:
    """Pad B rows of numbers at their right end, (B, S)."""
    tensors = [torch.tensor(row, device=device) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=padding)


def pad_samples(samples: Sequence[Sample], device: Any = None) -> tuple[Tensor, Tensor]:
    """Return the token ids and labels of the samples' R sequences, padded at their right end, both (R, S)."""
    ids, labels = list[list[int]](), list[list[int]]()
    for sample in samples:
        labels_S = sample.labels
        ids += [sample.input_ids[place] for place in sample.sequences]
        labels += [labels_S[place] for place in sample.sequences]
    return pad_rows(ids, 0, device), pad_rows(labels, IGNORED, device)


def sample_logprobs(model: Any, samples: Sequence[Sample], batch_size: int, bf16: bool = False) -> list[float]:
    """Compute each sample's log-probability, summed over the agent's tokens, without gradient.

    With `bf16`, under autocast, as training computes it.
    """
    model.eval()
    sums = [0.0] * len(samples)
    by_length = sorted(range(len(samples)), key=lambda i: -len(samples[i].input_ids))
    for start in range(0, len(samples), batch_size):
        rows = by_length[start : start + batch_size]
        with torch.no_grad(), torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
            logprobs_R = row_logprobs(model, *pad_samples([samples[i] for i in rows], model.device))
            logprobs_B = sum_sequences(logprobs_R, [samples[i] for i in rows])
        for i, logprob in zip(rows, logprobs_B.tolist(), strict=True):
            sums[i] = logprob
    return sums
