from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import pad_rows, pad_samples
from agentgym_py.policy.tokens import Sample, encode
from agentgym_py.training.data import Pair, pair_size
from agentgym_py.training.fit import Fit
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.orpo import ORPO, log1mexp, orpo_loss


def fit_of(loss_checks: Any, policy: Policy, played: list[Trajectory], **settings: Any) -> tuple[ORPO, Fit[Pair]]:
    """A training on the pairs of the three tasks, in one batch."""
    sides = [encode(each, policy.chat) for each in played]
    rows = [Pair(good, bad) for good, bad in zip(sides[:3], sides[3:], strict=True)]
    orpo = ORPO(**{"batch_size": 3, **settings})
    return orpo, loss_checks.fitted(orpo, policy, rows, size_of=pair_size)


def slow_mean(model: Any, sample: Sample) -> Any:
    """Mean over the agent's tokens of log pi(a_t | before), token by token."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    logits = model(input_ids=torch.tensor([sample.input_ids])).logits[0].double()
    for t in range(1, len(sample.input_ids)):
        if sample.mask[t]:
            total, count = total + torch.log_softmax(logits[t - 1], -1)[sample.input_ids[t]], count + 1
    return total / count


def slow_loss(chosen: Any, rejected: Any, weight: float) -> Any:
    """The formula as it is printed, pair by pair."""
    total = 0.0
    for good, bad in zip(chosen, rejected, strict=True):
        odds = [each.exp() / (1 - each.exp()) for each in (good, bad)]
        share = 1 / (1 + torch.exp(-torch.log(odds[0] / odds[1])))
        total = total - good - weight * torch.log(share)
    return total / len(chosen)


# --------------------------------------------------------------------------------------------------------- the formula


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_is_the_formula(loss_checks: Any, seed: int) -> None:
    """In double precision, and its gradient is right."""
    chosen, rejected = -(loss_checks.drawn(2, 6, seed=seed) ** 2) - 1e-3
    loss_checks.check_formula(
        lambda a, b: orpo_loss(a, b, 0.3).loss, lambda a, b: slow_loss(a, b, 0.3), chosen, rejected
    )  # fmt: skip
    odds = [each.exp() / (1 - each.exp()) for each in (chosen, rejected)]
    found = orpo_loss(chosen, rejected, 0.3).log_odds_B
    torch.testing.assert_close(found, (odds[0] / odds[1]).log(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_of_masked_rows_is_the_formula(loss_checks: Any, seed: int) -> None:
    """From log-probabilities token by token under ragged masks, the means over the agent's tokens included."""
    masks = [loss_checks.ragged(seed + n, 4) for n in (0, 60)]

    def fast(*sides: Any) -> Any:
        good, bad = ((-(x**2) * mask).sum(-1) / mask.sum(-1) for x, mask in zip(sides, masks, strict=True))
        return orpo_loss(good, bad, 0.3).loss

    def slow(*sides: Any) -> Any:
        means = []
        for x, mask in zip(sides, masks, strict=True):
            rows = [[-(x[row, t] ** 2) for t in range(9) if mask[row, t]] for row in range(4)]
            means.append([sum(each) / len(each) for each in rows])
        return slow_loss(means[0], means[1], 0.3)

    loss_checks.check_formula(fast, slow, *(loss_checks.drawn(4, 9, seed=seed + n) for n in (0, 20)))


def orpo_batch(rows: Sequence[Pair]) -> dict[str, Any]:
    """Pairs as trl's ORPOTrainer reads them, the two sides apart but of one width."""
    samples = [row.chosen for row in rows] + [row.rejected for row in rows]
    ids, labels = pad_samples(samples)
    seen = pad_rows([[1] * len(each.input_ids) for each in samples])
    parts = {"input_ids": ids, "labels": labels, "attention_mask": seen}
    halves = {name: each.chunk(2) for name, each in parts.items()}
    return {f"{side}_{name}": half[i] for name, half in halves.items() for i, side in enumerate(("chosen", "rejected"))}


def trls(trl_reference: Any, policy: Policy, rows: Sequence[Pair], folder: Path, weight: float) -> Any:
    """The trainer of trl for a copy of the policy."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "You are importing from 'trl.experimental'")
        from trl.experimental.orpo import ORPOConfig, ORPOTrainer

        args = trl_reference.arguments(ORPOConfig, folder, beta=weight, max_length=4096)
        return trl_reference.trainer_of(ORPOTrainer, args, policy, [{"row": 0}], lambda some: orpo_batch(rows))


def test_it_is_trls_odds_ratio(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any, trl_reference: Any
) -> None:
    """For all but certain tokens the second term and its gradient are those of trl's ORPOTrainer."""
    trainer = trls(trl_reference, fresh(tiny_policy), [], tmp_path, 0.4)
    both = -(10 ** torch.linspace(-3, 1.5, 12)).reshape(2, 6)
    found = []
    for ours in (True, False):
        inputs = both.clone().requires_grad_()
        loss: Any = -trainer.odds_ratio_loss(*inputs)[0].mean()
        if ours:
            loss = orpo_loss(inputs[0], inputs[1], 0.4).loss + inputs[0].mean()
        loss.backward()
        found.append((loss.detach(), inputs.grad))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_certain_tokens_have_a_finite_loss_and_gradient(dtype: Any) -> None:
    """From a probability of 1 to one that underflows; trl's own gradient is nan where exp(x) rounds to 1."""
    x = torch.tensor([0.0, -1e-12, -1e-9, -1e-6, -0.5, -0.7, -2.0, -300.0], dtype=dtype, requires_grad=True)
    total: Any = log1mexp(x).sum()
    total.backward()
    assert torch.isfinite(total) and torch.isfinite(x.grad).all()
    exact = [math.log(-math.expm1(each)) for each in (-1e-6, -0.5, -0.7, -2.0, -300.0)]
    torch.testing.assert_close(log1mexp(x)[3:].double(), torch.tensor(exact, dtype=torch.float64), rtol=1e-6, atol=1e-8)
    sure, other = torch.zeros(1, dtype=dtype, requires_grad=True), torch.full((1,), -2.0, dtype=dtype)
    for pair in ((sure, other), (other, sure), (sure, sure)):
        loss: Any = orpo_loss(*pair, 0.1).loss
        loss.backward()
        assert torch.isfinite(loss) and torch.isfinite(sure.grad).all()


# ---------------------------------------------------------------------------------------------------------- in batches


def test_the_loss_of_a_batch_and_its_gradient_are_the_formula(
    tiny_policy: Any, played: list[Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """From the model's whole logits, row by row without padding: the same number, the same gradient everywhere."""
    policy = loss_checks.doubled(fresh(tiny_policy))
    orpo, fit = fit_of(loss_checks, policy, played, odds_weight=0.7)
    slow = copy.deepcopy(policy.model)
    means = [[slow_mean(slow, sample) for sample in (row.chosen, row.rejected)] for row in fit.rows]
    chosen, rejected = zip(*means, strict=True)
    expected = slow_loss(chosen, rejected, 0.7)
    loss = loss_checks.share(orpo, fit, fit.rows)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-9)
    torch.autograd.backward(loss)
    expected.backward()
    loss_checks.check_gradients(loss_checks.gradients_of(policy.model), loss_checks.gradients_of(slow))


def test_the_loss_is_trls_where_all_is_learnt(
    tiny_policy: Any, tmp_path: Path, fresh: Any, loss_checks: Any, trl_reference: Any
) -> None:
    """Without prompts or observations, and the better ones as long as each other, so is the first term.

    Its gradient as well.
    """
    random = torch.Generator().manual_seed(2)
    ids = [torch.randint(4, 700, (length,), generator=random).tolist() for length in (9, 5, 9, 12)]
    policy = loss_checks.doubled(fresh(tiny_policy))
    samples = [Sample(each, [0] + [1] * (len(each) - 1)) for each in ids]
    rows = [Pair(samples[0], samples[1]), Pair(samples[2], samples[3])]
    orpo = ORPO(batch_size=2, odds_weight=0.5)
    trainer = trls(trl_reference, policy, rows, tmp_path, 0.5)
    theirs = trl_reference.loss_of(trainer, orpo_batch(rows))
    loss, logged = orpo.loss(loss_checks.fitted(orpo, policy, rows, size_of=pair_size), rows, 2)
    torch.autograd.backward(loss)
    torch.testing.assert_close(loss.detach(), theirs.loss, rtol=1e-8, atol=0)  # trl's weight is a float32
    loss_checks.check_gradients(loss_checks.gradients_of(policy.model), theirs.gradients.items(), rel=1e-6)
    for name in ("logps/chosen", "logps/rejected", "log_odds_chosen", "rewards/accuracies"):
        (value,) = trainer._stored_metrics["train"][name]
        assert float(logged[name].detach().double().mean()) == pytest.approx(value, rel=1e-4, abs=1e-6), name


def test_no_observation_row_of_the_hidden_states_gets_a_gradient(
    tiny_policy: Any, played: list[Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """Of the states that the loss reads, those that predict an observation or padding have gradient zero."""
    policy = fresh(tiny_policy)
    orpo, fit = fit_of(loss_checks, policy, played)
    agent = pad_rows([each.mask for each in [row.chosen for row in fit.rows] + [row.rejected for row in fit.rows]])
    loss_checks.check_observations(policy.model, agent, lambda: loss_checks.share(orpo, fit, fit.rows))


def test_padding_order_and_splits_change_nothing(
    tiny_policy: Any, played: list[Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """A batch in another order or with more padding has the same loss; the parts' shares add up to it."""
    orpo, fit = fit_of(loss_checks, loss_checks.doubled(fresh(tiny_policy)), played)

    def share(rows: list[int], padding: int) -> Any:
        with loss_checks.wider(padding):
            return loss_checks.share(orpo, fit, [fit.rows[i] for i in rows], 3).detach()

    loss_checks.check_rows(share, 3, summed=True)


# ------------------------------------------------------------------------------------------------------------ training


def test_it_prefers_the_better_one(tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any) -> None:
    """Trained long enough on three pairs the good ones are nearly certain, the bad ones far from it."""
    policy = fresh(tiny_policy)
    report = ORPO(epochs=80, batch_size=3, learning_rate=1e-2).train(policy, played, seed=0, output_dir=tmp_path)
    policy.model.eval()
    means = []
    for trajectory in played:
        sample = encode(trajectory, policy.chat)
        with torch.no_grad():
            means.append(float(slow_mean(policy.model, sample)))
    assert min(means[:3]) > -0.7 and all(good > bad + 0.3 for good, bad in zip(means[:3], means[3:], strict=True)), (
        means
    )
    assert report.trajectories == 6 and report.metrics["pairs"] == 3 and report.metrics["rewards/accuracies"] == 1
    assert report.loss[-1] < report.loss[0] / 3


@pytest.mark.parametrize("rank", [0, 2])
def test_no_library_warns_and_nothing_is_cut(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path, rank: int, fresh: Any
) -> None:
    """Neither of what trl calls experimental nor of lengths; the policy is an ordinary model again, and changed."""
    policy = fresh(tiny_policy)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        ORPO(epochs=1, lora_rank=rank).train(policy, played, seed=0, output_dir=tmp_path)
    assert not [str(each.message) for each in heard if "trl" in str(each.message) or "max_length" in str(each.message)]
    assert policy.digest() != tiny_policy.digest() and hasattr(policy.model, "peft_config") == (rank > 0)
    assert "forward" not in vars(policy.model)


def test_what_is_in_no_pair_is_counted(tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any) -> None:
    """A task of one trajectory has none, and equal returns are ties."""
    alone, tie = played[2], replace(played[4], reward=1.0)
    report = ORPO(epochs=1).train(
        fresh(tiny_policy), [played[0], played[3], alone, played[1], tie], seed=0, output_dir=tmp_path
    )
    assert report.trajectories == 2 and sum(report.dropped.values()) == 3 and report.metrics["ties"] == 1
    with pytest.raises(NothingToTrainOnError, match=r"orpo: nothing left of 3 .*1 alone at their task"):
        ORPO().train(fresh(tiny_policy), [alone, played[1], tie], seed=0, output_dir=tmp_path)


def test_wrong_settings_are_refused() -> None:
    """Settings that cannot be meant raise at once and are named."""
    wrong: dict[str, Any] = {"epochs": 0, "odds_weight": -0.1, "max_pairs": 0, "match": "best"}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=name):
            ORPO(**{name: value})
