from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.policy.logprobs import (
    AgentLogits,
    agent_logits,
    agent_logprobs,
    pad_samples,
    row_logprobs,
    sample_logprobs,
)
from agentgym_py.policy.tokens import IGNORED, Sample

ROWS = ((0, 12), (1, 7))
"""Number and length of the rows of `ragged`."""


def ragged(vocab: int) -> tuple[Any, Any]:
    """Two rows, the second padded at its end; agent tokens in the middle and at the end."""
    ids = torch.randint(4, vocab, (2, 12), generator=torch.Generator().manual_seed(1))
    labels = torch.full_like(ids, IGNORED)
    labels[0, 3:6], labels[0, 10:], labels[1, 4:7] = ids[0, 3:6], ids[0, 10:], ids[1, 4:7]
    ids[1, 7:] = 0
    return ids, labels


def test_they_are_the_models_own(tiny_policy: Any) -> None:
    """The log-probabilities of the agent's tokens are those of a whole forward, each row without its padding."""
    model = tiny_policy.model
    ids, labels = ragged(model.config.vocab_size)
    found = agent_logprobs(agent_logits(model, ids, labels))
    expected = []
    for row, length in ROWS:
        logprobs = torch.log_softmax(model(input_ids=ids[row : row + 1, :length]).logits[0], -1)
        expected += [logprobs[t - 1, ids[row, t]] for t in range(1, length) if labels[row, t] != IGNORED]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_log_probability_is_the_formula(loss_checks: Any, seed: int) -> None:
    """In float64, against a loop over tokens and words; its gradient is checked by differences."""
    targets_N = torch.randint(6, (5,), generator=torch.Generator().manual_seed(seed))

    def slow(logits_NV: Any) -> Any:
        found = []
        for n, target in enumerate(targets_N):
            found.append(logits_NV[n, target] - torch.log(sum(torch.exp(each) for each in logits_NV[n])))
        return torch.stack(found)

    def fast(logits_NV: Any) -> Any:
        return agent_logprobs(AgentLogits(logits_NV, targets_N, logits_NV))

    loss_checks.check_formula(fast, slow, 3 * loss_checks.drawn(5, 6, seed=seed))


def test_only_the_states_before_agent_tokens_get_a_gradient(tiny_policy: Any, fresh: Any, loss_checks: Any) -> None:
    """Neither those before observations nor those before padding, in whatever way rows are summed."""
    model = fresh(tiny_policy).model
    ids, labels = ragged(model.config.vocab_size)
    for of in (row_logprobs, lambda *given: agent_logprobs(agent_logits(*given))):
        loss_checks.check_observations(model, labels != IGNORED, lambda of=of: of(model, ids, labels).sum())


@pytest.mark.parametrize("padding", [0, 5])
def test_padding_at_the_right_changes_nothing(tiny_policy: Any, padding: int) -> None:
    """A padded row has the numbers of the row alone, whatever stands in the padding."""
    ids, labels = ragged(tiny_policy.model.config.vocab_size)
    ids[1, 7:] = padding
    pad_samples = agent_logprobs(agent_logits(tiny_policy.model, ids, labels))
    alone = [agent_logprobs(agent_logits(tiny_policy.model, ids[r, None, :n], labels[r, None, :n])) for r, n in ROWS]
    torch.testing.assert_close(pad_samples, torch.cat(alone), rtol=1e-4, atol=1e-5)


def test_the_head_computes_nothing_else(tiny_policy: Any) -> None:
    """The head sees as many states as there are agent tokens, and is as it was afterwards, in a wrapper too."""

    class Wrapper(torch.nn.Module):  # type: ignore[misc, name-defined]  # torch comes from importorskip
        def __init__(self, module: Any) -> None:
            super().__init__()
            self.module = module

        def forward(self, **kwargs: Any) -> Any:
            return self.module(**kwargs)

    model, seen = tiny_policy.model, []
    ids, labels = ragged(model.config.vocab_size)
    hook = model.lm_head.register_forward_hook(lambda module, inputs, output: seen.append(output.shape[:-1].numel()))
    plain, wrapped = agent_logits(model, ids, labels), agent_logits(Wrapper(model), ids, labels)
    assert model(input_ids=ids).logits.shape[:2] == (2, 12)
    hook.remove()
    assert seen == [8, 8, 24]
    assert torch.equal(plain.logits_NV, wrapped.logits_NV) and torch.equal(plain.targets_N, labels[labels != IGNORED])


def test_rows_are_summed(tiny_policy: Any) -> None:
    """A row's sum is that of its tokens' log-probabilities, 0 without a token, and has their gradient.

    In whatever order rows are.
    """
    model = tiny_policy.model
    ids, labels = ragged(model.config.vocab_size)
    ids, labels = torch.cat([ids, ids[:1]]), torch.cat([labels, torch.full_like(labels[:1], IGNORED)])
    found, tokens = row_logprobs(model, ids, labels), agent_logprobs(agent_logits(model, ids, labels))
    torch.testing.assert_close(found, torch.stack([tokens[:5].sum(), tokens[5:].sum(), torch.zeros(())]))
    assert found.requires_grad
    torch.testing.assert_close(row_logprobs(model, ids[[2, 0, 1]], labels[[2, 0, 1]]), found[[2, 0, 1]])


def test_samples_are_padded_and_scored(tiny_policy: Any) -> None:
    """Ids and labels end in padding; scores keep the samples' order, whatever the batches, and have no gradient."""
    samples = [Sample([5, 6, 7, 8], [0, 0, 1, 1]), Sample([9, 4], [0, 1]), Sample([7, 8, 9], [0, 1, 0])]
    ids, labels = pad_samples(samples)
    assert ids.tolist() == [[5, 6, 7, 8], [9, 4, 0, 0], [7, 8, 9, 0]]
    assert labels.tolist() == [[-100, -100, 7, 8], [-100, 4, -100, -100], [-100, 8, -100, -100]]
    alone = [float(row_logprobs(tiny_policy.model, *pad_samples([each]))[0].detach()) for each in samples]
    for size in (1, 2, 3):
        assert sample_logprobs(tiny_policy.model, samples, size) == pytest.approx(alone, rel=1e-5)
