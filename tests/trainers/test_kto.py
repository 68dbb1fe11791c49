from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import pad_rows
from agentgym_py.policy.tokens import Sample, encode
from agentgym_py.training.data import prepare
from agentgym_py.training.fit import Fit
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.kto import KTO, KTORow, kto_loss, kto_size, mismatched_samples, reference_point


@pytest.fixture(scope="module")
def played(episode: Any) -> list[Trajectory]:
    """Three good and three bad trajectories, of different lengths."""
    good = [episode(*("search cup", "open it", "buy it")[: n + 1], task=f"task {n}") for n in range(3)]
    bad = [
        episode(*("search hat", "go back", "leave")[: n + 1], task=f"task {n}", reward=0.4, success=False)
        for n in range(3)
    ]
    return [*good, *bad]


def fit_of(loss_checks: Any, policy: Policy, played: list[Trajectory], **settings: Any) -> tuple[KTO, Fit[KTORow]]:
    """A training on one batch, of a policy that has moved away from its reference."""
    kto = KTO(**{"batch_size": 6, **settings})
    rows = kto.rows(policy, prepare(policy, played, kto.max_length), 0)
    loss_checks.moved(policy, 0.01, seed=1)
    return kto, loss_checks.fitted(kto, policy, rows, size_of=kto_size)


def loss_of(kto: KTO, fit: Fit[KTORow], z: Any = None) -> Any:
    """The loss of the whole batch, at its own reference point unless another is given."""
    return kto.loss(fit, fit.rows, kto.reference_point(fit, fit.rows) if z is None else z, len(fit.rows))[0]


# --------------------------------------------------------------------------------------------------------- the formula


def slow_logp(model: Any, sample: Sample) -> Any:
    """Sum over the agent's tokens of log pi(a_t | before), token by token."""
    total = torch.zeros((), dtype=torch.float64)
    logits = model(input_ids=torch.tensor([sample.input_ids])).logits[0].double()
    for t in range(1, len(sample.input_ids)):
        if sample.mask[t]:
            total = total + torch.log_softmax(logits[t - 1], -1)[sample.input_ids[t]]
    return total


def slow_loss(logps: Any, refs: Any, good: Any, z: Any, beta: float, weights: tuple[float, float]) -> Any:
    """The formula, one trajectory after another."""
    total = 0.0
    for logp, ref, is_good in zip(logps, refs, good, strict=True):
        if is_good:
            total = total + weights[0] * (1 - 1 / (1 + math.e ** -(beta * (logp - ref) - beta * z)))
        else:
            total = total + weights[1] * (1 - 1 / (1 + math.e ** -(beta * z - beta * (logp - ref))))
    return total / len(logps)


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_is_the_formula(loss_checks: Any, seed: int) -> None:
    """In double precision, for any weights and any share of good ones; and its gradient is right."""
    logps, refs, others, other_refs = 9 * loss_checks.drawn(4, 7, seed=seed)
    good = torch.rand(7, generator=torch.Generator().manual_seed(seed)) < seed / 4  # none at first, all at last
    z = reference_point(others, other_refs)
    assert float(z) == pytest.approx(max(0.0, sum((others - other_refs).tolist()) / 7), abs=1e-9)

    def fast(x: Any) -> Any:
        return kto_loss(x, refs, good, z, 0.3, 1.5, 0.7).loss

    loss_checks.check_formula(fast, lambda x: slow_loss(x, refs, good, z, 0.3, (1.5, 0.7)), logps)
    torch.testing.assert_close(
        kto_loss(logps, refs, good, z, 0.3, 1.5, 0.7).rewards_B, 0.3 * (logps - refs), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_of_masked_rows_is_the_formula(loss_checks: Any, seed: int) -> None:
    """From log-probabilities token by token under ragged masks, the sums over the agent's tokens included."""
    mask, refs = loss_checks.ragged(seed, 6), loss_checks.drawn(6, seed=seed + 20)
    good, z = torch.arange(6) % 3 > 0, torch.tensor(0.2, dtype=torch.float64)

    def slow(x: Any) -> Any:
        sums = [sum(x[row, t] for t in range(9) if mask[row, t]) for row in range(6)]
        return slow_loss(sums, refs, good, z, 0.3, (1.5, 0.7))

    loss_checks.check_formula(
        lambda x: kto_loss((x * mask).sum(-1), refs, good, z, 0.3, 1.5, 0.7).loss,
        slow,
        loss_checks.drawn(6, 9, seed=seed),
    )


def test_the_reference_point_carries_no_gradient_and_is_never_negative() -> None:
    """It is the mean of what the batch shows, not 0, unless the policy has become less likely on the whole."""
    moved = torch.tensor([1.0, 2.0, 6.0], requires_grad=True)
    assert reference_point(moved, torch.zeros(3)) == 3 and not reference_point(moved, torch.zeros(3)).requires_grad
    assert reference_point(-moved, torch.zeros(3)) == 0


# ---------------------------------------------------------------------------------------------------------- in batches


def test_a_mismatched_row_is_an_episode_after_anothers_opening() -> None:
    """In a batch each opening gets what follows the one before it; a batch of one takes the one before in all."""
    samples = [Sample([n, n, 10 + n, 20 + n, 30 + n], [0, 0, 1, 0, 1]) for n in range(3)]
    made = mismatched_samples(samples, batch_size=2, max_length=9)
    assert [each.input_ids for each in made] == [[0, 0, 11, 21, 31], [1, 1, 10, 20, 30], [2, 2, 11, 21, 31]]
    assert all(each.mask == [0, 0, 1, 0, 1] for each in made)
    cut = mismatched_samples(samples, batch_size=3, max_length=4)
    assert [each.input_ids for each in cut] == [[0, 0, 12, 22], [1, 1, 10, 20], [2, 2, 11, 21]]
    assert all(len(each.mask) == 4 for each in cut)


def test_a_batch_is_the_samples_their_masks_and_what_the_policy_said_before(
    tiny_policy: Any, played: list[Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """Masks are 1 on agent tokens only, mismatched rows' too; the reference is the policy before the training."""
    policy = fresh(tiny_policy)
    _, fit = fit_of(loss_checks, policy, played)
    known = {tuple(encode(each, policy.chat).input_ids): each for each in played}
    assert len(fit.rows) == 6
    assert [row.mismatched for row in fit.rows] == mismatched_samples([row.sample for row in fit.rows], 6, 4096)
    for row in fit.rows:
        trajectory = known[tuple(row.sample.input_ids)]
        assert row.sample == encode(trajectory, policy.chat)
        assert row.good == (trajectory.reward >= 0.5)
        for sample, ref in ((row.sample, row.ref), (row.mismatched, row.ref_mismatched)):
            assert ref == pytest.approx(slow_logp(tiny_policy.model, sample).item(), rel=1e-4)


def test_the_loss_of_a_batch_and_its_gradient_are_the_formula(
    tiny_policy: Any, played: list[Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """From the model's whole logits, row by row without padding: the same number, the same gradient everywhere."""
    policy = loss_checks.doubled(fresh(tiny_policy))
    kto, fit = fit_of(loss_checks, policy, played, desirable_weight=1.5)
    slow = copy.deepcopy(policy.model)
    moved = [slow_logp(slow, row.mismatched).item() - row.ref_mismatched for row in fit.rows]
    z = max(0.0, sum(moved) / len(moved))
    logps = [slow_logp(slow, row.sample) for row in fit.rows]
    expected = slow_loss(logps, [row.ref for row in fit.rows], [row.good for row in fit.rows], z, 0.1, (1.5, 1.0))
    loss = loss_of(kto, fit)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-9)
    torch.autograd.backward(loss)
    expected.backward()
    loss_checks.check_gradients(loss_checks.gradients_of(policy.model), loss_checks.gradients_of(slow))


def kto_batch(samples: Sequence[Sample], prefix: str = "") -> dict[str, Any]:
    """Samples as trl's KTOTrainer reads them."""
    ids = [sample.input_ids for sample in samples]
    return {
        f"{prefix}input_ids": pad_rows(ids), f"{prefix}attention_mask": pad_rows([[1] * len(row) for row in ids]),
        f"{prefix}completion_mask": pad_rows([sample.mask for sample in samples]),
    }  # fmt: skip


def test_the_loss_is_trls(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any, loss_checks: Any, trl_reference: Any
) -> None:
    """Taken at the agent's tokens only, the loss and its gradient are those of trl's KTOTrainer over whole rows."""
    from trl import KTOConfig, KTOTrainer

    policy = loss_checks.doubled(fresh(tiny_policy))
    reference = copy.deepcopy(policy.model)
    kto, fit = fit_of(loss_checks, policy, played, beta=0.2, undesirable_weight=2.0)
    batch = kto_batch([row.sample for row in fit.rows]) | kto_batch([row.mismatched for row in fit.rows], "KL_")
    batch["label"] = torch.tensor([row.good for row in fit.rows])
    args = trl_reference.arguments(KTOConfig, tmp_path, beta=0.2, undesirable_weight=2.0)
    rows = [{"label": row.good} for row in fit.rows]
    trainer = trl_reference.trainer_of(KTOTrainer, args, policy, rows, lambda rows: batch, ref_model=reference)
    theirs = trl_reference.loss_of(trainer, batch)

    z = kto.reference_point(fit, fit.rows)
    loss, logged = kto.loss(fit, fit.rows, z, 6)
    torch.autograd.backward(loss)
    assert z > 0
    torch.testing.assert_close(loss.detach().float(), theirs.loss.float(), rtol=1e-6, atol=0)  # trl ends in float32
    loss_checks.check_gradients(loss_checks.gradients_of(policy.model), theirs.gradients.items(), rel=1e-6)
    for name in ("kl", "rewards/chosen", "rewards/rejected", "logps/chosen", "logps/rejected"):
        assert float(logged[name].mean()) == pytest.approx(theirs.logged[name], rel=1e-4), name


def test_no_observation_row_of_the_hidden_states_gets_a_gradient(
    tiny_policy: Any, played: list[Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """Of the states that the loss reads, those that predict an observation or padding have gradient zero."""
    policy = fresh(tiny_policy)
    kto, fit = fit_of(loss_checks, policy, played)
    agent = pad_rows([row.sample.mask for row in fit.rows])
    loss_checks.check_observations(policy.model, agent, lambda: loss_of(kto, fit))


def test_padding_order_and_splits_change_nothing(
    tiny_policy: Any, played: list[Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """A batch in another order or with more padding has the same loss; the parts' shares add up to it."""
    kto, fit = fit_of(loss_checks, loss_checks.doubled(fresh(tiny_policy)), played, desirable_weight=1.5)
    whole = kto.reference_point(fit, fit.rows)
    assert whole > 0

    def share(rows: list[int], padding: int) -> Any:
        with loss_checks.wider(padding):
            if len(rows) == 6:  # the reference point is the batch's
                torch.testing.assert_close(kto.reference_point(fit, [fit.rows[i] for i in rows]), whole)
            return kto.loss(fit, [fit.rows[i] for i in rows], whole, 6)[0].detach()

    loss_checks.check_rows(share, 6, summed=True)


def test_the_reference_point_is_the_batchs_in_small_microbatches(
    tiny_policy: Any, played: list[Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """It is estimated over all rows of a batch, though each goes through the model alone."""
    points = []
    for microbatch_tokens in (100_000, 1):
        kto, fit = fit_of(
            loss_checks, loss_checks.doubled(fresh(tiny_policy)), played, microbatch_tokens=microbatch_tokens
        )
        assert len(list(fit.microbatches(fit.rows))) == (1 if microbatch_tokens > 1 else 6)
        points.append(float(kto.reference_point(fit, fit.rows)))
    assert points[0] == pytest.approx(points[1], rel=1e-12) and points[0] > 0


# ------------------------------------------------------------------------------------------------------------ training


def test_it_moves_good_and_bad_apart(tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any) -> None:
    """Trained long enough on six trajectories, the good ones become likelier and the bad ones less likely."""
    policy = fresh(tiny_policy)
    report = KTO(epochs=40, batch_size=6, learning_rate=3e-3).train(policy, played, seed=0, output_dir=tmp_path)
    policy.model.eval()
    moved = []
    for trajectory in played:
        sample = encode(trajectory, policy.chat)
        with torch.no_grad():
            moved.append(float(slow_logp(policy.model, sample) - slow_logp(tiny_policy.model, sample)))
    assert min(moved[:3]) > 5 and sum(moved[3:]) < -15, moved
    assert all(good > bad + 5 for good, bad in zip(moved[:3], moved[3:], strict=True)), "though they begin alike"
    assert report.loss[0] == pytest.approx(0.5, abs=0.05) and report.loss[-1] < 0.35
    assert report.trajectories == 6 and report.metrics["good"] == report.metrics["bad"] == 3
    assert report.metrics["rewards/chosen"] > 0 > report.metrics["rewards/rejected"]


@pytest.mark.parametrize("rank", [0, 2])
def test_a_copy_of_the_trained_policy_stands_alone(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path, rank: int, fresh: Any
) -> None:
    """It is an ordinary model: what later happens to the trained one does not change what a copy says."""
    policy = fresh(tiny_policy)
    KTO(epochs=1, lora_rank=rank).train(policy, played, seed=0, output_dir=tmp_path)
    assert policy.digest() != tiny_policy.digest() and hasattr(policy.model, "peft_config") == (rank > 0)
    twin, ids = copy.deepcopy(policy.model).eval(), torch.arange(4, 12)[None]
    with torch.no_grad():
        before = policy.model.eval()(input_ids=ids).logits
        for parameter in policy.model.parameters():
            parameter.zero_()
        torch.testing.assert_close(twin(input_ids=ids).logits, before)


def test_a_threshold_says_what_is_good(tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any) -> None:
    """Success does by default; else the return, whatever the world calls a success."""
    for threshold, good in ((None, 3), (0.4, 6), (0.5, 3), (2.0, 0)):
        with pytest.warns(UserWarning, match="all 6 trajectories are") if good in (0, 6) else nullcontext():
            report = KTO(epochs=1, threshold=threshold).train(fresh(tiny_policy), played, seed=0, output_dir=tmp_path)
        assert (report.metrics["good"], report.metrics["bad"]) == (good, 6 - good)
        assert any("there is no contrast" in note for note in report.notes) == (good in (0, 6))


def test_what_cannot_be_trained_on_is_counted(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """A failure of the machinery is left out; one trajectory alone has nothing to estimate z from."""
    broken = replace(played[0], error="timeout")
    report = KTO(epochs=1).train(fresh(tiny_policy), [broken, *played[1:5]], seed=0, output_dir=tmp_path)
    assert report.trajectories == 4 and report.dropped == {"ended by an infrastructure error": 1}
    with pytest.raises(NothingToTrainOnError, match=r"nothing left of 2 .*1 ended by .*, 1 without another one"):
        KTO().train(fresh(tiny_policy), [broken, played[1]], seed=0, output_dir=tmp_path)


def test_no_row_is_longer_than_the_policys_context(toy_envs: Any, tmp_path: Path) -> None:
    """A long opening before a long reply, which no trajectory has, is cut: learnt positions go no further."""
    from transformers import GPT2Config, GPT2LMHeadModel

    words = toy_envs.word_policy()
    size = words.model.config.vocab_size
    model = GPT2LMHeadModel(GPT2Config(vocab_size=size, n_positions=24, n_embd=16, n_layer=1, n_head=2)).eval()
    policy = Policy(model, words.tokenizer, "learnt positions")
    (long, *_), (short, *_) = toy_envs.rollouts(words, toy_envs.CHAIN, 2).groups(2, 1)
    data = [
        replace(each, steps=(replace(each.steps[0], observation="right " * seen, reply="right " * said, tokens=None),))
        for each, seen, said in ((long, 14, 2), (short, 1, 14))
    ]
    lengths = [len(encode(each, policy.chat).input_ids) for each in data]
    assert max(lengths) < 24 < sum(lengths) - 10
    assert KTO(epochs=1).train(policy, data, seed=0, output_dir=tmp_path).trajectories == 2


def test_wrong_settings_are_refused() -> None:
    """Settings that cannot be meant raise at once and are named."""
    wrong: dict[str, Any] = {"epochs": 0, "batch_size": 1, "threshold": math.nan, "beta": 0.0}
    wrong |= {"desirable_weight": -1.0, "undesirable_weight": math.inf}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=name):
            KTO(**{name: value})
    with pytest.raises(ConfigError, match="undesirable_weight must not both be 0"):
        KTO(desirable_weight=0.0, undesirable_weight=0.0)
