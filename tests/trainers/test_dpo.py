from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import lora_config
from agentgym_py.policy.logprobs import pad_samples, sample_logprobs
from agentgym_py.policy.tokens import IGNORED, Sample, encode
from agentgym_py.training.data import Pair, length_grouped, pair_size, prepare_pairs, row_key
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.dpo import DPO, LogRatios, LossType, dpo_loss, sft_loss

LOSSES: list[tuple[LossType, float]] = [("sigmoid", 0.0), ("sigmoid", 0.2), ("hinge", 0.0), ("ipo", 0.0)]


def samples_of(policy: Policy, trajectories: list[Trajectory], **settings: Any) -> list[Sample]:
    """The pairs in tokens, better and worse in turn."""
    return prepare_pairs(policy, trajectories, DPO(**settings), 0)[0].samples


def rows_of(policy: Policy, trajectories: list[Trajectory], **settings: Any) -> list[Pair]:
    """The pairs that are trained on, with the policy as it is now for their reference."""
    trainer = DPO(**settings)
    return trainer.rows(policy, prepare_pairs(policy, trajectories, trainer, 0)[0])


def sides_of(rows: list[Pair]) -> list[Sample]:
    """The samples of the pairs as a batch holds them: the better ones, then the worse ones."""
    return [row.chosen for row in rows] + [row.rejected for row in rows]


def ratios_of(logprobs: Any, ref: Any, mask: Any) -> LogRatios:
    """What `dpo_loss` takes of one side."""
    return LogRatios(((logprobs - ref) * mask).sum(-1), mask.sum(-1))


@pytest.mark.parametrize(("loss_type", "smoothing"), LOSSES)
@pytest.mark.parametrize("beta", [0.1, 0.7])
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_the_formula(loss_checks: Any, loss_type: Any, smoothing: float, beta: float, seed: int) -> None:
    """In float64, against loops over pairs and tokens; its gradient is checked by differences."""
    refs, masks = 2 * loss_checks.drawn(2, 4, 7, seed=seed + 50), [loss_checks.ragged(seed + n, 4, 7) for n in (0, 60)]

    def fast(*sides: Any) -> Any:
        chosen, rejected = (ratios_of(*side) for side in zip(sides, refs, masks, strict=True))
        return dpo_loss(chosen, rejected, beta, loss_type, smoothing)

    def slow(*sides: Any) -> Any:
        losses = []
        for row in range(4):
            sums, means = [], []
            for logprobs, ref, mask in zip(sides, refs, masks, strict=True):
                terms = [logprobs[row, t] - ref[row, t] for t in range(7) if mask[row, t]]
                sums.append(sum(terms))
                means.append(sum(terms) / len(terms))
            h = beta * (sums[0] - sums[1])
            good = 1 / (1 + torch.exp(-h))
            each: dict[str, Any] = {
                "sigmoid": -(1 - smoothing) * torch.log(good) - smoothing * torch.log(1 - good),
                "hinge": max(0 * h, 1 - h),
                "ipo": (means[0] - means[1] - 1 / (2 * beta)) ** 2,
            }
            losses.append(each[loss_type])
        return torch.stack(losses)

    loss_checks.check_formula(fast, slow, *(2 * loss_checks.drawn(4, 7, seed=seed + n) for n in (0, 20)))


@pytest.mark.parametrize("seed", range(5))
def test_the_better_ones_own_loss_is_the_formula(loss_checks: Any, seed: int) -> None:
    """In float64, against loops over rows and tokens: of each pair its own mean."""
    mask = loss_checks.ragged(seed)

    def slow(logprobs: Any) -> Any:
        said = [[logprobs[row, t] for t in range(9) if mask[row, t]] for row in range(5)]
        return torch.stack([-sum(each) / len(each) for each in said])

    loss_checks.check_formula(
        lambda x: sft_loss((x * mask).sum(-1), mask.sum(-1)), slow, loss_checks.drawn(5, 9, seed=seed)
    )


def test_the_loss_pushes_the_right_way() -> None:
    """Every loss pulls the better one up and the worse one down; it begins at log 2, 1 or 1 / 4 beta^2."""
    tokens = torch.tensor([3, 5])
    for (loss_type, smoothing), start in zip(LOSSES, (math.log(2), math.log(2), 1.0, 25.0), strict=True):
        w, l = (torch.zeros(2, requires_grad=True) for _ in range(2))  # noqa: E741  # better and worse
        losses = dpo_loss(LogRatios(w, tokens), LogRatios(l, tokens), 0.1, loss_type, smoothing)
        torch.autograd.backward(losses.sum())
        assert losses.tolist() == pytest.approx([start] * 2)
        assert w.grad is not None and l.grad is not None and w.grad.max() < 0 < l.grad.min()


def test_the_first_loss_is_trls_on_a_model_with_dropout(
    trl_reference: Any, played: list[Trajectory], tmp_path: Path
) -> None:
    """A GPT-2 with dropout 0.1 equals its reference at the first step: the loss is log 2, with and without adapters."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = Policy.load("tiny-random").tokenizer
    settings: dict[str, Any] = {"batch_size": 4, "sft_weight": 0.0, "epochs": 1}
    for lora_rank in (0, 2):
        model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=2))
        policy = Policy(model, tokenizer, "gpt2")
        expected = trl_reference.dpo_loss_of(policy, policy, samples_of(policy, played), {"sigmoid": 1.0})
        report = DPO(**settings, lora_rank=lora_rank).train(policy, played, seed=0, output_dir=tmp_path)
        assert report.loss[0] == pytest.approx(float(expected.loss), abs=1e-6) == pytest.approx(math.log(2), abs=1e-6)


def check_against_trl(
    loss_checks: Any, trl_reference: Any, policy: Policy, reference: Policy, trainer: DPO, rows: list[Pair],
    weights: dict[str, float], **more: Any,
) -> tuple[dict[str, Any], dict[str, float]]:  # fmt: skip
    """Loss and gradients of a policy are those of trl's losses with these weights on the same batch.

    `more` are fields of trl's configuration. The result is what each of both logs.
    """
    fit = loss_checks.fitted(trainer, policy, rows, size_of=pair_size)
    found, grads = loss_checks.share_gradients(trainer, fit, rows)
    samples = [side for row in rows for side in (row.chosen, row.rejected)]
    expected = trl_reference.dpo_loss_of(policy, reference, samples, weights, beta=trainer.beta, **more)
    torch.testing.assert_close(found, expected.loss, rtol=1e-5, atol=1e-6)
    assert grads.keys() == expected.gradients.keys()
    for name, gradient in expected.gradients.items():
        torch.testing.assert_close(grads[name], gradient, rtol=1e-3, atol=1e-5)
    return trainer.loss(fit, rows, len(rows))[1], expected.logged


@pytest.mark.parametrize(("loss_type", "smoothing"), LOSSES)
def test_the_loss_of_a_batch_is_trls(
    tiny_policy: Any, played: list[Trajectory], loss_type: Any, smoothing: float, fresh: Any, loss_checks: Any,
    trl_reference: Any,
) -> None:  # fmt: skip
    """Loss and gradient of a policy that has moved are those of trl's own loss on the same batch."""
    policy, trainer = fresh(tiny_policy), DPO(sft_weight=0, loss_type=loss_type, label_smoothing=smoothing)
    rows = rows_of(policy, played)[: 1 if smoothing else 3]
    # "aot" of a single pair is the smoothed sigmoid, for which trl has no other name
    weights = {"aot" if smoothing else loss_type: 1.0}
    ours, theirs = check_against_trl(
        loss_checks,
        trl_reference,
        loss_checks.moved(policy),
        tiny_policy,
        trainer,
        rows,
        weights,
        label_smoothing=smoothing,
    )
    shared = [name for name in ours if name.startswith(("rewards/", "logps/"))]
    assert len(shared) == 6
    for name in shared:
        assert ours[name].double().mean().item() == pytest.approx(theirs[name], rel=1e-4, abs=1e-4), name


def test_the_better_ones_own_loss_is_trls_sft(
    tiny_policy: Any, played: list[Trajectory], fresh: Any, loss_checks: Any, trl_reference: Any
) -> None:
    """Loss and gradient of a pair with `sft_weight` are those of trl's two losses with these weights."""
    policy = fresh(tiny_policy)
    rows = rows_of(policy, played)[:1]
    weights = {"sigmoid": 1.0, "sft": 0.7}
    check_against_trl(
        loss_checks, trl_reference, loss_checks.moved(policy), tiny_policy, DPO(sft_weight=0.7), rows, weights
    )


@pytest.mark.parametrize("loss_type", ["sigmoid", "hinge", "ipo"])
def test_a_training_is_trls(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path, loss_type: Any, fresh: Any, trl_reference: Any
) -> None:
    """With a frozen copy as its reference, trl's own trainer has the same losses and ends with the same weights.

    It has the same settings, and takes its steps on our batches.
    """
    settings, ours, theirs = (
        DPO(batch_size=2, sft_weight=0, loss_type=loss_type, epochs=2),
        fresh(tiny_policy),
        fresh(tiny_policy),
    )
    report = settings.train(ours, played, seed=1, output_dir=tmp_path)
    rows = rows_of(theirs, played)
    batches = length_grouped([pair_size(row).tokens for row in rows], [row_key(row) for row in rows], settings, 1)
    assert [len(batch) for batch in batches] == [2, 1] * 2
    samples = [side for row in rows for side in (row.chosen, row.rejected)]
    same = trl_reference.settings_of(settings, len(batches)) | {"beta": 0.1, "loss_type": [loss_type]}
    trainer = trl_reference.dpo_trainer(theirs, tiny_policy, samples, tmp_path, **same)
    losses = trl_reference.trained(trainer, batches)
    assert report.loss == pytest.approx(losses, rel=1e-3) and report.loss[0] != report.loss[-1]
    for mine, other in zip(ours.model.parameters(), trainer.model.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("rank", [0, 2])
def test_the_reference_is_the_policy_before(
    tiny_policy: Any,
    played: list[Trajectory],
    tmp_path: Path,
    rank: int,
    fresh: Any,
    loss_checks: Any,
    trl_reference: Any,
) -> None:
    """The numbers of a frozen copy, and with LoRA of the model whose adapters are off, whatever has been learnt."""
    policy, trainer = fresh(tiny_policy), DPO(lora_rank=rank, sft_weight=0)
    rows = rows_of(policy, played)
    fit = loss_checks.fitted(trainer, policy, rows, size_of=pair_size)
    expected = sample_logprobs(tiny_policy.model, sides_of(rows), 1)
    refs = [row.ref_chosen for row in rows] + [row.ref_rejected for row in rows]
    torch.testing.assert_close(refs, expected, rtol=1e-5, atol=1e-4)
    assert loss_checks.share(trainer, fit, rows).item() == pytest.approx(math.log(2), abs=1e-5)
    if rank:
        args = trl_reference.arguments(trl_reference.DPOConfig, tmp_path, beta=trainer.beta)
        samples = [side for row in rows for side in (row.chosen, row.rejected)]
        pairs = trl_reference.pair_rows(samples)
        theirs = trl_reference.trainer_of(
            trl_reference.DPOTrainer, args, tiny_policy, pairs, trl_reference.dpo_batch, peft_config=lora_config(rank)
        )
        with torch.no_grad():
            for name, each in policy.model.named_parameters():
                if "lora_B" in name:
                    each += 0.1
        theirs.model.load_state_dict(policy.model.state_dict())
        batch = trl_reference.dpo_batch(pairs)
        loss, gradients = loss_checks.share_gradients(trainer, fit, rows)
        found = trl_reference.loss_of(theirs, batch)
        assert loss.item() != pytest.approx(math.log(2), abs=1e-4)
        torch.testing.assert_close(loss, found.loss, rtol=1e-4, atol=1e-5)
        assert gradients.keys() == found.gradients.keys() and all("lora" in name for name in gradients)
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, found.gradients[name], rtol=1e-3, atol=1e-5)
        off = torch.cat(theirs.compute_ref_log_probs(theirs.model, batch))
        torch.testing.assert_close(torch.tensor(refs), off, rtol=1e-4, atol=1e-3)


def test_a_batch_holds_the_better_ones_first_and_agent_tokens_only(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any, loss_checks: Any
) -> None:
    """Row n is better than row n + B of the same task; the labels are the samples', then padding."""
    policy = fresh(tiny_policy)
    settings = DPO(batch_size=3, epochs=1, microbatch_tokens=100_000)
    with loss_checks.batches() as batches:
        settings.train(policy, played, seed=0, output_dir=tmp_path)
    ((batch, labels),) = batches
    by_ids = {tuple(sample.input_ids): (each, sample) for each in played for sample in [encode(each, policy.chat)]}
    rows = []
    for ids, label in zip(batch, labels, strict=True):
        (length,) = (len(key) for key in by_ids if tuple(ids[: len(key)].tolist()) == key and not ids[len(key) :].any())
        trajectory, sample = by_ids[tuple(ids[:length].tolist())]
        assert label[:length].tolist() == sample.labels and bool((label[length:] == IGNORED).all())
        rows.append(trajectory)
    assert len(rows) == 6
    for better, worse in zip(rows[:3], rows[3:], strict=True):
        assert better.task_id == worse.task_id and better.success and not worse.success


@pytest.mark.parametrize(("loss_type", "smoothing"), LOSSES)
@pytest.mark.parametrize("sft_weight", [0.0, 0.7])
def test_observations_padding_order_and_splits_do_not_matter(
    tiny_policy: Any, played: list[Trajectory], fresh: Any, loss_checks: Any, loss_type: Any, smoothing: float,
    sft_weight: float,
) -> None:  # fmt: skip
    """The last states that predict an observation or padding get no gradient, of either term.

    A batch in another order, with more padding, or in parts has the same loss.
    """
    policy = loss_checks.doubled(fresh(tiny_policy))
    trainer = DPO(loss_type=loss_type, label_smoothing=smoothing, sft_weight=sft_weight)
    rows = rows_of(policy, played)
    fit = loss_checks.fitted(trainer, loss_checks.moved(policy, 0.1), rows, size_of=pair_size)
    agent = pad_samples(sides_of(rows))[1] != IGNORED
    loss_checks.check_observations(policy.model, agent, lambda: loss_checks.share(trainer, fit, rows))

    def loss_of(places: list[int], padding: int) -> Any:
        with loss_checks.wider(padding):
            return loss_checks.share(trainer, fit, [rows[i] for i in places], 3).detach()

    loss_checks.check_rows(loss_of, 3, summed=True)


def test_it_prefers_what_did_better(tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any) -> None:
    """After the training every better one has gained more than its worse one; the report counts pairs and ties."""
    policy = fresh(tiny_policy)
    tie = replace(played[0], id="again")
    report = DPO(epochs=8, batch_size=3, learning_rate=1e-3, sft_weight=0).train(
        policy, [*played, tie], seed=0, output_dir=tmp_path
    )
    samples = samples_of(policy, played)
    before, after = (sample_logprobs(each.model, samples, 2) for each in (tiny_policy, policy))
    gained = [b - a for a, b in zip(before, after, strict=True)]
    assert all(good > bad + 1 for good, bad in zip(gained[::2], gained[1::2], strict=True))
    assert report.loss[0] == pytest.approx(math.log(2), abs=1e-3) and report.loss[-1] < 0.6
    assert report.metrics["pairs"] == 3 and report.metrics["rewards/accuracies"] == 1
    assert not any("loss/pairs" in row for row in report.history)
    both = DPO(epochs=2, batch_size=3, sft_weight=0.5).train(fresh(policy), played, seed=0, output_dir=tmp_path)
    for row in both.history:
        assert row["loss"] == pytest.approx(row["loss/pairs"] + 0.5 * row["loss/chosen"], abs=2e-3)
    assert report.trajectories == 6 and report.dropped == {"without a better or worse one of their task": 1}
    assert report.agent_tokens == 8 * sum(sum(sample.mask) for sample in samples)


def test_pairs_of_a_fork_learn_from_what_follows_it(
    tiny_policy: Any, episode: Callable[..., Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """Two that share their first turn: it is masked at level fork, all but the turn of the fork at level turn.

    With the sigmoid the shared turn counts for nothing anyhow: it is in both terms of the difference.
    """
    forked = [episode("look", "buy", "leave"), episode("look", "wait", "leave", reward=0.0)]
    policy, losses, masks = fresh(tiny_policy), {}, {}
    replies = [[policy.chat.reply(step.reply) for step in each.steps] for each in forked]
    for level in ("episode", "fork", "turn"):
        samples = samples_of(policy, forked, level=level)
        masks[level] = [[i for i, m in zip(s.input_ids, s.mask, strict=True) if m] for s in samples]
        trainer, other = DPO(level=level, sft_weight=0), fresh(tiny_policy)
        rows = rows_of(other, forked, level=level)
        fit = loss_checks.fitted(trainer, loss_checks.moved(other), rows, size_of=pair_size)
        losses[level] = loss_checks.share(trainer, fit, rows)
    assert masks["episode"] == [list(chain(*each)) for each in replies]
    assert masks["fork"] == [list(chain(*each[1:])) for each in replies]
    assert masks["turn"] == [each[1] for each in replies]
    torch.testing.assert_close(losses["episode"], losses["fork"], rtol=1e-5, atol=1e-5)
    assert abs(losses["turn"] - losses["fork"]) > 1e-4


def test_it_solves_a_bandit_and_a_chain(
    tiny_policy: Any, tmp_path: Path, episode: Callable[..., Trajectory], fresh: Any, choices: Any
) -> None:
    """The better arm, within 40 steps; and of all walks of five steps, within 48, at each the one that leads on.

    The policy, as it comes, would rather do the other.
    """
    policy = fresh(tiny_policy)
    arms = [episode("left", reward=1.0), episode("right", reward=0.0)]
    DPO(epochs=40, batch_size=1, learning_rate=3e-3, sft_weight=0).train(policy, arms, seed=0, output_dir=tmp_path)
    left, right = choices(policy, [], "left", "right")
    assert left - right > math.log(9)
    walks = [list(each) for each in product(("stop", "go"), repeat=5)]
    walked = [episode(*walk, reward=walk.index("go") / 5 if "go" in walk else 1.0) for walk in walks]
    policy = fresh(tiny_policy)
    settings = DPO(epochs=8, match="all", max_pairs=48, batch_size=8, learning_rate=3e-3, sft_weight=0)
    settings.train(policy, walked, seed=0, output_dir=tmp_path)
    for done in range(5):
        go, stop = choices(tiny_policy, ["stop"] * done, "go", "stop")
        assert stop < go, done
        go, stop = choices(policy, ["stop"] * done, "go", "stop")
        assert stop - go > math.log(9), done


def test_a_trained_policy_can_be_copied_and_trained_again(
    tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """Training leaves nothing on the model: a copy runs its own weights, and a second training is a new one."""
    policy = fresh(tiny_policy)
    DPO(epochs=1).train(policy, played, seed=0, output_dir=tmp_path)
    sample = samples_of(policy, played)[0]
    before = sample_logprobs(policy.model, [sample], 1)
    other = fresh(policy)
    report = DPO(epochs=1, lora_rank=2, sft_weight=0).train(other, played, seed=0, output_dir=tmp_path)
    assert report.loss[0] == pytest.approx(math.log(2), abs=1e-4), "the reference is the policy as it came"
    assert sample_logprobs(policy.model, [sample], 1) == before != sample_logprobs(other.model, [sample], 1)
    assert hasattr(other.model, "peft_config") and "forward" not in vars(other.model)


def test_no_pair_is_an_error(tiny_policy: Any, episode: Callable[..., Trajectory], tmp_path: Path, fresh: Any) -> None:
    """Tasks in which all did equally well, and single trajectories, are counted in the error."""
    lone = [episode("a"), episode("b"), episode("c", task="shop/train/easy/2")]
    with pytest.raises(
        NothingToTrainOnError, match=r"dpo: nothing left of 3 .*1 alone at their task, 2 without a better or worse"
    ):
        DPO().train(fresh(tiny_policy), lone, seed=0, output_dir=tmp_path)
    never = [replace(each, steps=(each.steps[0], replace(each.steps[1], trained=False))) for each in
             (episode("look", "buy"), episode("look", "wait", reward=0.0))]  # fmt: skip
    with pytest.raises(NothingToTrainOnError, match="2 without a reply to learn after the fork"):
        DPO(level="fork").train(fresh(tiny_policy), never, seed=0, output_dir=tmp_path)


def test_wrong_settings_are_refused() -> None:
    """Settings that cannot be meant raise at once and are named."""
    wrong: dict[str, Any] = {
        "beta": 0.0,
        "sft_weight": -1.0,
        "label_smoothing": 0.5,
        "loss_type": "exo",
        "max_pairs": 0,
        "match": "any",
    }
    for name, value in (wrong | {"level": "token", "epochs": 0}).items():
        with pytest.raises(ConfigError, match=name):
            DPO(**{name: value})
    with pytest.raises(ConfigError, match="label_smoothing needs the loss_type sigmoid"):
        DPO(loss_type="ipo", label_smoothing=0.1)


def test_a_batch_is_the_formula_token_by_token(
    tiny_policy: Any, played: list[Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """From the model's whole logits, row by row without padding, the loss comes out as by the trainer."""
    policy, trainer = loss_checks.doubled(fresh(tiny_policy)), DPO(sft_weight=0)
    rows = rows_of(policy, played)
    fit = loss_checks.fitted(trainer, loss_checks.moved(policy), rows, size_of=pair_size)

    def slow(sample: Sample) -> Any:
        ids = torch.tensor(sample.input_ids)
        logits = policy.model(input_ids=ids[None]).logits[0].double()
        said = [torch.log_softmax(logits[t - 1], -1)[ids[t]] for t in range(1, len(ids)) if sample.mask[t]]
        assert len(said) == sum(sample.mask)
        return torch.stack(said).sum()

    losses = []
    for row in rows:
        ratio_w, ratio_l = slow(row.chosen) - row.ref_chosen, slow(row.rejected) - row.ref_rejected
        losses.append(-torch.log(1 / (1 + torch.exp(-0.1 * (ratio_w - ratio_l)))))
    found, expected = loss_checks.share(trainer, fit, rows), torch.stack(losses).mean()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    gradients = []
    for loss in (found, expected):
        policy.model.zero_grad()
        loss.backward()
        gradients.append(loss_checks.gradients_of(policy.model))
    loss_checks.check_gradients(*gradients)
    assert fit.agent_logits(sides_of(rows)).targets_N.numel() == sum(sum(side.mask) for side in sides_of(rows))
