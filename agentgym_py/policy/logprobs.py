"""The differentiable forward pass that trainers share: log-probabilities of the agent's tokens.

Logits are the largest tensor of a training: N agent tokens times V words. Above `_LOGITS` of them the language-model
head runs in pieces, and the backward pass computes each piece again, so that one piece is in memory at a time.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from agentgym_py.policy.head import head_of
from agentgym_py.policy.tokens import IGNORED, RowSize, Sample, pack_rows
from agentgym_py.policy.vocabulary import token_logits

_LOGITS = 1 << 26
"""Logits in one piece (256 MiB in float32) of a model with up to 65,536 words; with more, a piece has `_TOKENS`."""
_TOKENS = 1024


class AgentLogits(NamedTuple):
    """The predictions of the N agent tokens of a batch, row after row."""

    logits_NV: Tensor | None
    """Float32, or the wider format that the model computes in. Row n is the prediction of token n. None: there are too
    many for one piece."""
    targets_N: Tensor
    """The tokens themselves."""
    hidden_NH: Tensor
    """The hidden state from which the head computes each row of logits."""
    head: Callable[[Tensor], Tensor] | None = None
    """The head, if it runs in pieces: hidden states (n, H) to logits (n, V)."""

    def map_logits(self, function: Callable[..., tuple[Tensor, ...]], *rows: Tensor) -> tuple[Tensor, ...]:
        """Apply a function of logits (n, V) and targets (n,) piece by piece; each of its tensors is (n,), then (N,).

        `rows` are further arguments with one row per token, cut into the same pieces.
        """
        if self.logits_NV is not None:
            return function(self.logits_NV, self.targets_N, *rows)
        head = self.head
        assert head is not None

        def piece(hidden_nH: Tensor, targets_n: Tensor, *rows: Tensor) -> tuple[Tensor, ...]:
            return function(at_least_float32(head(hidden_nH)), targets_n, *rows)

        inputs = [torch.split(tensor, _TOKENS) for tensor in (self.hidden_NH, self.targets_N, *rows)]
        pieces = [
            checkpoint(piece, *of_piece, use_reentrant=False, preserve_rng_state=False)
            for of_piece in zip(*inputs, strict=True)
        ]
        return tuple(torch.cat(values) for values in zip(*pieces, strict=True))

    @property
    def rows(self) -> Tensor:
        """One row per token from which `logits_of` computes its logits: the logits, or the hidden state, (N, ...)."""
        return self.hidden_NH if self.logits_NV is None else self.logits_NV

    def logits_of(self, rows: Tensor) -> Tensor:
        """Return the logits of some of `rows`, (n, V)."""
        return rows if self.head is None else at_least_float32(self.head(rows))


def at_least_float32(x: Tensor) -> Tensor:
    """Convert to float32; float64 stays."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def agent_logprobs(agent: AgentLogits, temperature: float = 1.0) -> Tensor:
    """Return the log-probabilities of the tokens given everything before them, (N,)."""

    def logprobs_of(logits_nV: Tensor, targets_n: Tensor) -> tuple[Tensor]:
        return (_logprobs(logits_nV if temperature == 1 else logits_nV / temperature, targets_n),)

    return agent.map_logits(logprobs_of)[0]


def agent_logprobs_and_hits(agent: AgentLogits) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of the tokens, and 1 where the likeliest token is the agent's own, both (N,)."""
    logprobs_N, hits_N = agent.map_logits(
        lambda logits, targets: (_logprobs(logits, targets), (logits.detach().argmax(-1) == targets).float())
    )
    return logprobs_N, hits_N


def _logprobs(logits: Tensor, targets: Tensor) -> Tensor:
    return -torch.nn.functional.cross_entropy(logits, targets, reduction="none")


def runs_in_pieces(agent_tokens: int, words: int) -> bool:
    """Whether the head of a model with this many words runs in pieces on this many agent tokens."""
    return agent_tokens > max(_TOKENS, _LOGITS // words)


def agent_logits(model: Any, input_ids: Tensor, labels: Tensor) -> AgentLogits:
    """Run `model` on rows padded at their right end, (B, S); `labels` are `IGNORED` except at the agent's tokens.

    The head is applied to the agent's tokens only, often a fifth of all; the rows that only pad it are left out,
    as in sampling. No attention mask is passed, because a causal model's row attends to nothing on its right.
    """
    mask = labels[:, 1:] != IGNORED  # (B, S - 1): the state at t predicts the token at t + 1
    targets_N = labels[:, 1:][mask]
    inner = getattr(model, "module", model)  # the module inside DistributedDataParallel and the like
    module = inner.get_output_embeddings()
    words = module.weight.shape[0]
    head = head_of(inner) if runs_in_pieces(len(targets_N), words) else None
    hidden: list[Tensor] = []

    def select_agent_states(_: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:
        hidden.append(inputs[0][:, :-1][mask])
        return ((hidden[0] if head is None else hidden[0][:1])[None],)

    hook = module.register_forward_pre_hook(select_agent_states)
    try:
        logits = token_logits(inner, model(input_ids=input_ids, use_cache=False).logits[0])
    finally:
        hook.remove()
    if head is None:
        return AgentLogits(at_least_float32(logits), targets_N, hidden[0])
    if head.agrees(hidden[0][:1], logits):
        return AgentLogits(None, targets_N, hidden[0], head)
    warnings.warn(
        f"the logits of {type(inner).__name__} do not follow from its head alone, so that it cannot run in pieces: "
        f"{len(targets_N):,} x {words:,} logits are in memory at a time; microbatch_tokens bounds them",
        stacklevel=2,
    )
    return agent_logits(model, input_ids, labels)


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


def sample_logprobs(
    model: Any, samples: Sequence[Sample], batch_size: int, bf16: bool = False, *, max_tokens: float = math.inf
) -> list[float]:
    """Compute each sample's log-probability, summed over the agent's tokens, without gradient.

    With `bf16`, under autocast, as training computes it. A forward pass has at most `batch_size` samples, and at most
    `max_tokens` tokens, padding included, unless one sample has more.
    """
    model.eval()
    sums = [0.0] * len(samples)
    for rows in pack_rows([RowSize.of(sample) for sample in samples], max_tokens, batch_size):
        with torch.no_grad(), torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
            logprobs_R = row_logprobs(model, *pad_samples([samples[i] for i in rows], model.device))
            logprobs_B = sum_sequences(logprobs_R, [samples[i] for i in rows])
        for i, logprob in zip(rows, logprobs_B.tolist(), strict=True):
            sums[i] = logprob
    return sums
