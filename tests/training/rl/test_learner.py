from __future__ import annotations

import copy
from dataclasses import fields
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py import distributed
from agentgym_py.errors import ConfigError, TrainingError
from agentgym_py.policy.adapters import has_adapters
from agentgym_py.policy.tokens import RowSize
from agentgym_py.training.rl.actor_critic import Output
from agentgym_py.training.rl.batch import Record, TokenBatch, collate
from agentgym_py.training.rl.learner import Learner
from agentgym_py.training.rl.losses import Loss, Weighting
from agentgym_py.training.settings import OnPolicySettings
from agentgym_py.training.sharding import Unsharded

WEIGHTINGS: list[Weighting] = ["token", "sequence", "constant"]


def loss_of(out: Output, batch: TokenBatch) -> Loss:
    """Of logps, entropy and, where there are any, values and reference: none is left out."""
    assert batch.advantages_N is not None
    loss_N = -out.logps_N * batch.advantages_N + 0.3 * (out.logps_N - batch.old_logps_N) ** 2
    loss_N = loss_N - 0.1 * out.entropy_N
    if out.values_N is not None:
        loss_N = loss_N + (out.values_N - 1) ** 2
    return Loss(loss_N, {"surprise": -out.logps_N})


def critic_alone(out: Output, batch: TokenBatch) -> Loss:
    """Nothing but the critic's."""
    assert out.values_N is not None
    return Loss((out.values_N - 1) ** 2, {})


def gradients(learner: Learner) -> dict[str, Any]:
    """Of every weight, as the last step left them."""
    found = {name: p.grad.clone() for name, p in learner.module.named_parameters() if p.grad is not None}
    assert found
    return found


OPTIONAL = {field.name for field in fields(Record) if field.name.endswith("_n") and field.default is None}


def filled(record: Record) -> set[str]:
    """Which of the fields that an algorithm may fill a record has."""
    return {name for name in OPTIONAL if getattr(record, name) is not None}


def stepped(toy_envs: Any, how: Weighting, loss_checks: Any = None) -> Any:
    """What one step logs, and its gradients, unclipped; with `loss_checks` in double precision."""
    policy = toy_envs.word_policy()
    records = toy_envs.records_of(policy)
    if loss_checks:
        loss_checks.doubled(policy)
        loss_checks.wide(records)
    learner = Learner(policy, OnPolicySettings(max_grad_norm=0.0), seed=0, temperature=0.8)
    logged = toy_envs.step(learner, records, loss_of, how, constant=7.0)
    assert logged["tokens_per_second"] > 0
    return logged, gradients(learner)


@pytest.mark.parametrize("how", WEIGHTINGS)
def test_a_step_is_the_formula(toy_envs: Any, loss_checks: Any, how: Weighting) -> None:
    """Loss and gradient of ragged records equal those of a loop over tokens, each with a forward of its own prefix."""
    logged, found = stepped(toy_envs, how, loss_checks)
    policy = loss_checks.doubled(toy_envs.word_policy())
    records = loss_checks.wide(toy_envs.records_of(policy))
    tokens, total, surprise = sum(r.n for r in records), torch.zeros((), dtype=torch.float64), 0.0
    for record in records:
        share = {"token": tokens, "sequence": 6 * record.n, "constant": 6 * 7}[how]
        at = 0
        for t in range(1, len(record.input_ids)):
            if record.labels[t] == -100:
                continue
            logits = policy.model(input_ids=record.input_ids[None, :t], use_cache=False).logits[0, -1] / 0.8
            logprobs = torch.log_softmax(logits, -1)
            logp = logprobs[record.input_ids[t]]
            entropy = -sum(logprobs.exp() * logprobs)
            advantage, old = record.advantages_n[at], record.old_logps_n[at]
            total = total + (-logp * advantage + 0.3 * (logp - old) ** 2 - 0.1 * entropy) / share
            surprise -= float(logp.detach()) / tokens
            at += 1
        assert at == record.n
    total.backward()
    assert logged["loss"] == pytest.approx(total.item(), rel=0, abs=1e-9)
    assert logged["surprise"] == pytest.approx(surprise, rel=0, abs=1e-9)
    norm = torch.stack([p.grad.norm() for p in policy.model.parameters()]).norm()
    assert logged["grad_norm"] == pytest.approx(float(norm), rel=1e-8)
    loss_checks.check_gradients(found.items(), loss_checks.gradients_of(policy.model))


@pytest.mark.parametrize("how", WEIGHTINGS)
def test_observations_padding_order_and_passes_do_not_matter(toy_envs: Any, loss_checks: Any, how: Weighting) -> None:
    """One record a pass, some or all of them, in any order: the same loss, gradients and log.

    The states that predict an observation or padding get no gradient from any part of the loss; the others do.
    """
    loss_checks.check_steps(toy_envs, OnPolicySettings(), loss_of, how, 7.0, temperature=0.8, critic_rate=1e-3)


def test_a_pass_holds_no_more_tokens_than_it_may(toy_envs: Any) -> None:
    """Padding counted; a record that is longer alone goes alone; none is lost."""
    policy = toy_envs.word_policy()
    records = toy_envs.records_of(policy)
    for limit in (1, 20, 40, 1000):
        learner = Learner(policy, OnPolicySettings(microbatch_tokens=limit), seed=0)
        parts = list(learner.optimization.microbatches(records, RowSize.of))
        assert sorted(id(r) for part in parts for r in part) == sorted(map(id, records))
        assert all(len(p) == 1 or len(p) * max(len(r.input_ids) for r in p) <= limit for p in parts)


def test_what_is_split_is_gone_through_equally_often(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process has as many parts, with all records among them; the empty ones stand for nothing."""
    policy = toy_envs.word_policy()
    records = toy_envs.records_of(policy)
    learner = Learner(policy, OnPolicySettings(microbatch_tokens=1), seed=0)
    monkeypatch.setattr(distributed, "world_size", lambda: 4)
    shares = {}
    for split in (False, True):
        learner.optimization.sharded = split
        for rank in range(4):
            monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
            shares[split, rank] = list(learner.optimization.microbatches(records, RowSize.of))
    counts = [len(shares[False, rank]) for rank in range(4)]
    assert len(set(counts)) > 1 and {len(shares[True, rank]) for rank in range(4)} == {max(counts)}
    for rank in range(4):
        assert [part for part in shares[True, rank] if part] == shares[False, rank]
    assert sorted(id(r) for rank in range(4) for part in shares[True, rank] for r in part) == sorted(map(id, records))


def test_padding_changes_nothing(toy_envs: Any) -> None:
    """What a row says beside a longer one is what it says alone, values too."""
    policy = toy_envs.word_policy()
    records = toy_envs.records_of(policy)
    learner = Learner(policy, OnPolicySettings(), seed=0, critic_rate=1e-3)
    torch.nn.init.normal_(learner.module.value.weight, generator=torch.Generator().manual_seed(0))
    together = _said(learner, records)
    for record, said in zip(records, together, strict=True):
        for found, expected in zip(_said(learner, [record])[0], said, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def _said(learner: Learner, records: list[Record]) -> list[tuple[Any, Any, Any]]:
    batch = collate(records, [r.old_logps_n for r in records], learner.device)
    with torch.no_grad():
        out = learner.module(batch.input_ids, batch.labels)
    sizes = [r.n for r in records]
    return list(zip(*(each.split(sizes) for each in out if each is not None), strict=True))


def test_the_critic_reads_the_state_before_each_token(toy_envs: Any) -> None:
    """Values are the head on the last layer's state one place earlier; the bootstrap is that after the tail."""
    policy = toy_envs.word_policy()
    records = toy_envs.records_of(policy)
    records[1].tail = torch.tensor([5, 6, 2])
    learner = Learner(policy, OnPolicySettings(), seed=0, critic_rate=1e-3)
    head = learner.module.value
    torch.nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    learner.annotate(records)
    for number, record in enumerate(records):
        ids = record.input_ids if record.tail is None else torch.cat([record.input_ids, record.tail])
        with torch.no_grad():
            states = policy.model.model(input_ids=ids[None], use_cache=False).last_hidden_state[0]
            values = head(states)[:, 0]
        at = [t - 1 for t in range(1, len(record.labels)) if record.labels[t] != -100]
        torch.testing.assert_close(record.values_n, values[at], rtol=1e-4, atol=1e-5)
        assert record.bootstrap == pytest.approx(float(values[-1]) if number == 1 else 0.0, abs=1e-5)
    before = [record.values_n.clone() for record in records]
    learner.annotate(records)  # again, with what it has put there
    assert all(torch.equal(record.values_n, old) for record, old in zip(records, before, strict=True))


def test_a_tail_that_outgrows_the_context_is_not_read(toy_envs: Any) -> None:
    """The value is then that before the last token, and nothing fails: 0 would say that the episode terminated."""
    policy = toy_envs.word_policy()
    (record,) = toy_envs.records_of(policy, [[3]])
    record.tail = torch.zeros(policy.max_length, dtype=torch.long)
    learner = Learner(policy, OnPolicySettings(), seed=0, critic_rate=1e-3)
    torch.nn.init.ones_(learner.module.value.bias)
    learner.annotate([record])
    assert record.bootstrap == float(record.values_n[-1]) != 0.0 and len(record.values_n) == 3


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_trunk_gets_its_share_of_the_critics_gradient(toy_envs: Any, share: float) -> None:
    """And the value head all of it; a share of nothing leaves the trunk without any."""
    found = {}
    for each in (share, 1.0):
        policy = toy_envs.word_policy()
        records = toy_envs.records_of(policy)
        learner = Learner(policy, OnPolicySettings(max_grad_norm=0.0), seed=0, critic_rate=1e-3, critic_gradient=each)
        torch.nn.init.ones_(learner.module.value.weight)
        toy_envs.step(learner, records, critic_alone, "token")
        found[each] = gradients(learner)
    for name, gradient in found[1.0].items():
        factor = 1.0 if name.startswith("value.") else share
        torch.testing.assert_close(found[share].get(name, torch.zeros(())).expand_as(gradient), factor * gradient)


@pytest.mark.parametrize("rank", [0, 2])
def test_the_reference_is_the_policy_as_it_began(toy_envs: Any, rank: int) -> None:
    """A frozen copy, or the model without its adapters: the same numbers after the weights have moved."""
    policy = toy_envs.word_policy()
    records = toy_envs.records_of(policy)
    with torch.no_grad():
        expected = [torch.stack(toy_envs.slow_logps(policy.model, record, 0.8)) for record in records]
    settings = OnPolicySettings(lora_rank=rank, learning_rate=0.05)
    learner = Learner(policy, settings, seed=0, temperature=0.8, reference=True, critic_rate=1e-3)
    for _ in range(3):
        toy_envs.step(learner, records, loss_of, "token")
    learner.annotate(records)
    for record, own in zip(records, expected, strict=True):
        torch.testing.assert_close(record.ref_logps_n, own, rtol=1e-4, atol=1e-5)
    said = torch.cat([logps for logps, *_ in _said(learner, records)])
    assert (said - torch.cat(expected)).abs().max() > 1e-2, "the policy itself has moved"


def test_the_policy_stays_on_its_device(toy_envs: Any) -> None:
    """Accelerate's own is the first GPU, whichever the policy is on."""
    learner = Learner(toy_envs.word_policy(), OnPolicySettings(), seed=0)
    backend = learner.optimization.backend
    assert isinstance(backend, Unsharded) and not backend._accelerator.device_placement


def test_without_a_reference_none_is_kept(toy_envs: Any) -> None:
    """With LoRA neither: nobody reads it."""
    for rank in (0, 2):
        policy = toy_envs.word_policy()
        records = toy_envs.records_of(policy)
        Learner(policy, OnPolicySettings(lora_rank=rank), seed=0).annotate(records)
        read = {"sampler_logps_n"} if rank else set()
        assert all(filled(record) == {"advantages_n"} | read for record in records)


def test_lora_is_merged_when_all_weights_are_trained(toy_envs: Any) -> None:
    """Adapters alone are trained and stay; merged, the model says what it said, and then every weight is trained."""
    policy = toy_envs.word_policy()
    records, before = toy_envs.records_of(policy), policy.digest()
    with Learner(policy, OnPolicySettings(lora_rank=2, learning_rate=0.05), seed=0) as learner:
        for _ in range(3):
            toy_envs.step(learner, records, loss_of, "token")
        trained = {name for name, p in policy.model.named_parameters() if p.requires_grad}
        assert trained and all("lora_" in name for name in trained)
        said = torch.cat([each[0] for each in _said_of(policy.model, records)])
    assert has_adapters(policy.model) and policy.digest() != before
    policy = policy.merged()
    torch.testing.assert_close(torch.cat([e[0] for e in _said_of(policy.model, records)]), said, rtol=1e-4, atol=1e-4)
    merged = copy.deepcopy(policy.model.state_dict())
    toy_envs.step(Learner(policy, OnPolicySettings(learning_rate=0.05), seed=0), records, loss_of, "token")
    moved = [name for name, value in policy.model.state_dict().items() if not torch.equal(value, merged[name])]
    assert set(moved) == set(merged)


def _said_of(model: Any, records: list[Record]) -> list[tuple[Any, ...]]:
    from agentgym_py.training.rl.actor_critic import ActorCritic

    batch = collate(records, [r.old_logps_n for r in records], torch.device("cpu"))
    with torch.no_grad():
        return [(ActorCritic(model, False, 1.0)(batch.input_ids, batch.labels).logps_N,)]


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_changes_nothing(toy_envs: Any, wrong: float, rank: int) -> None:
    """It raises, the weights are as before the step, in its last pass too, and a sound step continues from there."""
    policy = toy_envs.word_policy()
    records = toy_envs.records_of(policy)
    settings = OnPolicySettings(learning_rate=0.01, microbatch_tokens=1, lora_rank=rank)
    learner = Learner(policy, settings, seed=0, critic_rate=1e-3)
    toy_envs.step(learner, records, loss_of, "token")
    before = copy.deepcopy(learner.module.state_dict())
    longest = max(records, key=lambda r: len(r.input_ids))
    kept, longest.advantages_n = longest.advantages_n, torch.full((longest.n,), wrong)
    with pytest.raises(TrainingError, match="the step was not taken"):
        toy_envs.step(learner, records, loss_of, "token")
    assert all(torch.equal(value, before[name]) for name, value in learner.module.state_dict().items())
    longest.advantages_n = kept
    assert torch.isfinite(torch.tensor(toy_envs.step(learner, records, loss_of, "token")["loss"]))


def test_the_same_seed_gives_the_same_weights(toy_envs: Any) -> None:
    """Bit for bit, adapters, critic and all; another seed another order of the records, and so other weights."""
    digests = []
    for seed in (1, 1, 2):
        policy = toy_envs.word_policy()
        settings = OnPolicySettings(minibatch_size=2, learning_rate=0.01, lora_rank=2)
        with Learner(policy, settings, seed=seed, critic_rate=1e-3) as learner:
            steps = list(toy_envs.epoch(learner, toy_envs.records_of(policy), loss_of, "token"))
        assert len(steps) == 3
        digests.append(policy.digest())
    assert digests[0] == digests[1] != digests[2]


def test_a_long_gradient_is_shortened(toy_envs: Any) -> None:
    """To `max_grad_norm`, and logged as it was; 0 shortens none."""
    logged, plain = stepped(toy_envs, "token")
    policy = toy_envs.word_policy()
    learner = Learner(policy, OnPolicySettings(max_grad_norm=0.01), seed=0, temperature=0.8)
    clipped = toy_envs.step(learner, toy_envs.records_of(policy), loss_of, "token")
    assert clipped["grad_norm"] == pytest.approx(logged["grad_norm"]) and logged["grad_norm"] > 0.1
    for name, gradient in gradients(learner).items():
        torch.testing.assert_close(gradient, plain[name] * 0.01 / logged["grad_norm"], rtol=1e-3, atol=1e-8)


def test_wrong_settings_are_refused() -> None:
    """Each by its name."""
    wrong: dict[str, Any] = {"learning_rate": 0.0, "weight_decay": -1.0, "max_grad_norm": float("nan")}
    wrong |= {"minibatch_size": 0, "microbatch_tokens": 0, "lora_rank": -1}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=name):
            OnPolicySettings(**{name: value})


def test_bfloat16_computes_in_it_and_keeps_the_weights(toy_envs: Any) -> None:
    """Loss and gradient are nearly those of float32; weights, values and the optimizer stay in float32.

    What the policy said before the first step is read in the same format, so that ratios begin at 1.
    """
    found: dict[bool, Any] = {}
    for bf16 in (False, True):
        policy = toy_envs.word_policy(spread=0.2)
        records = toy_envs.records_of(policy)
        learner = Learner(policy, OnPolicySettings(bf16=bf16, max_grad_norm=0.0), seed=0, critic_rate=1e-3)
        seen = list[Any]()
        policy.model.model.layers[0].mlp.register_forward_hook(lambda *x, seen=seen: seen.append(x[2].dtype))
        learner.annotate(records)
        assert set(seen) == {torch.bfloat16 if bf16 else torch.float32}
        logged = toy_envs.step(learner, records, loss_of, "token")
        assert all(p.dtype == torch.float32 for p in learner.module.parameters())
        assert isinstance(backend := learner.optimization.backend, Unsharded)
        assert all(s["exp_avg"].dtype == torch.float32 for s in backend.optimizer.state.values())
        assert all(record.values_n.dtype == torch.float32 for record in records)
        found[bf16] = logged, gradients(learner)
    (plain, exact), (logged, near) = found[False], found[True]
    assert logged["surprise"] == pytest.approx(plain["surprise"], rel=0.02) and logged["surprise"] != plain["surprise"]
    assert logged["ratio"] == pytest.approx(1, abs=1e-6) and abs(plain["ratio"] - 1) > 0.1, "records were never sampled"
    assert near.keys() == exact.keys()


@pytest.mark.parametrize("rank", [0, 2])
def test_checkpointing_computes_layers_again_and_changes_nothing(toy_envs: Any, rank: int) -> None:
    """Loss and gradient are equal; each layer runs twice a step, and once where nothing is learnt."""
    found = []
    for checkpointed in (False, True):
        policy = toy_envs.word_policy(layers=2)
        records = toy_envs.records_of(policy)
        settings = OnPolicySettings(gradient_checkpointing=checkpointed, max_grad_norm=0.0, lora_rank=rank)
        with Learner(policy, settings, seed=0) as learner:
            runs = list[int]()
            layers = [m for m in learner.module.modules() if type(m).__name__ == "LlamaDecoderLayer"]
            hooks = [each.self_attn.register_forward_hook(lambda *_, runs=runs: runs.append(1)) for each in layers]
            learner.annotate(records)
            read = 2 if rank else 0  # the sampler may have merged the adapters
            assert len(layers) == 2 and len(runs) == read, "neither a critic nor a reference is read"
            runs.clear()
            found.append((toy_envs.step(learner, records, loss_of, "token"), gradients(learner)))
            assert len(runs) == (4 if checkpointed else 2)
            learner.policy.model(input_ids=records[0].input_ids[None])
            assert len(runs) == (6 if checkpointed else 4) and not any(layer.training for layer in layers)
            for hook in hooks:
                hook.remove()
        assert not any(getattr(each, "gradient_checkpointing", False) for each in policy.model.modules())
    (plain, exact), (logged, again) = found
    assert {k: v for k, v in logged.items() if k != "tokens_per_second"} == pytest.approx(
        {k: v for k, v in plain.items() if k != "tokens_per_second"}, abs=1e-6
    )
    for name, gradient in exact.items():
        torch.testing.assert_close(again[name], gradient, rtol=1e-5, atol=1e-7)
