from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import ModelAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.errors import ConfigError, NothingToTrainOnError, PolicyError, TrainingError
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import agent_logprobs, pad_samples
from agentgym_py.policy.tokens import Sample, encode
from agentgym_py.training.data import OTHER_TOKENIZER
from agentgym_py.training.optimization import Optimization
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.filtered_bc import FilteredBC, bc_loss


@pytest.fixture(scope="module")
def demos(episode: Any) -> list[Trajectory]:
    """Six successful trajectories of different lengths."""
    words = ("search red cup", "open the first", "choose red", "buy it", "wait", "leave the shop")
    return [episode(*words[n:], task=f"task {n}", id=f"demo {n}") for n in range(6)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tokens", [None, 40])
def test_the_loss_is_the_formula(loss_checks: Any, seed: int, tokens: int | None) -> None:
    """In float64, against loops over rows and tokens; `tokens` stand in the place of their number."""
    mask = loss_checks.ragged(seed)

    def slow(logprobs: Any) -> Any:
        total, count = torch.zeros((), dtype=torch.float64), 0
        for row in range(5):
            for t in range(9):
                if mask[row, t]:
                    total, count = total - logprobs[row, t], count + 1
        return total / (count if tokens is None else tokens)

    loss_checks.check_formula(lambda x: bc_loss(x[mask], tokens), slow, loss_checks.drawn(5, 9, seed=seed))


def tokens_of(samples: list[Sample]) -> int:
    """Number of agent tokens of the samples."""
    return sum(sum(sample.mask) for sample in samples)


def test_padding_order_and_splits_change_nothing(
    tiny_policy: Any, demos: list[Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """A batch in another order or with more padding has the same loss; its parts add up where the step's tokens count.

    Alone, a batch is the mean of its own tokens.
    """
    policy, trainer = loss_checks.doubled(fresh(tiny_policy)), FilteredBC()
    samples = [encode(demo, policy.chat) for demo in demos]
    fit = loss_checks.fitted(trainer, policy, samples)

    def loss_of(rows: list[int], padding: int) -> Any:
        with loss_checks.wider(padding), loss_checks.batches() as batches:
            loss = loss_checks.share(trainer, fit, [samples[i] for i in rows], tokens_of(samples)).detach()
        assert batches[0][0].shape[1] == padding + max(len(samples[i].input_ids) for i in rows)
        return loss

    loss_checks.check_rows(loss_of, 6, summed=True)
    alone = bc_loss(agent_logprobs(fit.agent_logits(samples))).item()
    assert alone == pytest.approx(float(loss_of([*range(6)], 0)), rel=1e-9)


def slow_loss(model: Any, samples: list[Sample]) -> Any:
    """The formula, row by row and token by token: -sum log pi(a_t | before) / number of agent tokens."""
    total, count = torch.zeros(()), 0
    for sample in samples:
        ids = torch.tensor(sample.input_ids)
        logits = model(input_ids=ids[None]).logits[0]
        for t in range(1, len(ids)):
            if sample.mask[t]:
                total = total - torch.log_softmax(logits[t - 1], -1)[ids[t]]
                count += 1
    return total / count


def test_the_loss_and_its_gradient_are_the_formula(
    tiny_policy: Any, demos: list[Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """On a ragged batch the loss and every parameter's gradient equal those of the slow reference."""
    policy, trainer = fresh(tiny_policy), FilteredBC()
    samples = [encode(demo, policy.chat) for demo in demos]
    loss, grads = loss_checks.share_gradients(
        trainer, loss_checks.fitted(trainer, policy, samples), samples, tokens_of(samples)
    )
    reference = fresh(tiny_policy).model.train()
    expected = slow_loss(reference, samples)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-6)
    for name, parameter in reference.named_parameters():
        torch.testing.assert_close(grads[name], parameter.grad, rtol=1e-3, atol=1e-6)


def test_batches_are_padded_at_the_right(
    tiny_policy: Any,
    demos: list[Trajectory],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh: Any,
    loss_checks: Any,
) -> None:
    """As `agent_logits` needs them, even where the tokenizer pads at the left."""
    monkeypatch.setattr(tiny_policy.tokenizer, "padding_side", "left")
    policy = fresh(tiny_policy)
    samples, seen = [encode(demo, policy.chat) for demo in demos], list[list[int]]()
    policy.model.register_forward_pre_hook(
        lambda model, given, named: seen.extend(named["input_ids"].tolist()), with_kwargs=True
    )
    FilteredBC(batch_size=6, epochs=1, microbatch_tokens=10_000).train(policy, demos, seed=0, output_dir=tmp_path)
    width = max(len(sample.input_ids) for sample in samples)
    rows = [sample.input_ids + [0] * (width - len(sample.input_ids)) for sample in samples]
    assert sorted(seen) == sorted(rows) and min(len(sample.input_ids) for sample in samples) < width


def test_it_trains_on_the_policys_device_alone(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: Any
) -> None:
    """With two GPUs beside it, the policy stays where it is: nothing is spread, or moved to the first GPU."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr("accelerate.state.check_cuda_p2p_ib_support", lambda: True)
    AcceleratorState._reset_state(reset_partial_state=True)
    try:
        assert Accelerator().device.type == "cuda", "else there were nothing to mend"
        elsewhere = fresh(tiny_policy)
        elsewhere.model.to("meta")
        optimization = Optimization(elsewhere, FilteredBC(), seed=0)
        assert {each.device.type for each in optimization.module.parameters()} == {"meta"}
        assert optimization.device == torch.device("meta")
        AcceleratorState._reset_state(reset_partial_state=True)
        policy, seen = fresh(tiny_policy), list[str]()
        policy.model.register_forward_hook(lambda model, given, output: seen.append(output.logits.device.type))
        FilteredBC(epochs=1).train(policy, demos, seed=0, output_dir=tmp_path)
        assert set(seen) == {"cpu"} == {each.device.type for each in policy.model.parameters()}
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)


def test_every_step_is_told(tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any) -> None:
    """So that a bar moves with each step of the optimizer."""
    told: list[tuple[int, int]] = []
    FilteredBC(epochs=1, batch_size=4, gradient_accumulation=1).train(
        fresh(tiny_policy), demos, seed=0, output_dir=tmp_path, progress=lambda *step: told.append(step)
    )
    assert told == [(1, 2), (2, 2)]


def test_a_training_of_one_step_changes_the_policy(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """The warm-up, in which the learning rate rises, leaves at least one step."""
    policy = fresh(tiny_policy)
    FilteredBC(epochs=1, batch_size=6).train(policy, demos, seed=0, output_dir=tmp_path)
    assert policy.digest() != tiny_policy.digest()


@pytest.mark.parametrize("recomputing", [False, True])
@pytest.mark.parametrize("rank", [0, 4])
def test_no_library_warns_of_our_settings(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, rank: int, recomputing: bool, fresh: Any
) -> None:
    """Whoever trains from Python reads of no deprecated argument, with LoRA or without; other warnings stay."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        FilteredBC(epochs=1, lora_rank=rank, gradient_checkpointing=recomputing).train(
            fresh(tiny_policy), demos, seed=0, output_dir=tmp_path
        )
        warnings.warn("`something` is deprecated", FutureWarning, stacklevel=1)
    said = [str(each.message) for each in heard]
    assert "`something` is deprecated" in said and not [each for each in said if "checkpointing" in each]


@pytest.mark.parametrize("rank", [0, 2])
def test_recomputed_activations_change_nothing(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, rank: int, fresh: Any
) -> None:
    """Losses and weights are bit-identical, each layer runs twice, and nothing of it is left on the model."""
    ended, runs = [], []
    for recomputing in (False, True):
        policy, calls = fresh(tiny_policy), list[int]()
        mlp = policy.model.model.layers[0].mlp
        hook = mlp.register_forward_pre_hook(lambda *given, calls=calls: calls.append(1))
        settings = FilteredBC(epochs=1, batch_size=2, lora_rank=rank, gradient_checkpointing=recomputing)
        report = settings.train(policy, demos, seed=0, output_dir=tmp_path)
        hook.remove()
        ended.append((policy.digest(), report.loss))
        runs.append(len(calls))
        assert not any(getattr(each, "gradient_checkpointing", False) for each in policy.model.modules())
        assert not policy.model.get_input_embeddings()._forward_hooks
    assert ended[0] == ended[1] and runs == [3, 6]


@pytest.mark.parametrize("rank", [0, 2])
def test_bf16_computes_so_and_keeps_the_weights_format(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, rank: int, fresh: Any
) -> None:
    """Layers compute in bfloat16, losses are near those of float32, and weights stay in float32."""
    losses, seen = [], []
    for bf16 in (False, True):
        policy, formats = fresh(tiny_policy), set[Any]()
        hook = policy.model.model.layers[0].mlp.register_forward_hook(
            lambda layer, given, output, formats=formats: formats.add(output.dtype)
        )
        report = FilteredBC(epochs=3, lora_rank=rank, bf16=bf16).train(policy, demos, seed=0, output_dir=tmp_path)
        hook.remove()
        losses.append(report.loss)
        seen.append(formats)
        assert {each.dtype for each in policy.model.parameters()} == {torch.float32}
    assert seen == [{torch.float32}, {torch.bfloat16}]
    assert losses[0] != losses[1] and losses[1] == pytest.approx(losses[0], rel=2e-2)


def test_the_loss_is_trls(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any, loss_checks: Any, trl_reference: Any
) -> None:
    """Taken at the agent's tokens only, loss and gradients are those of trl's SFTTrainer over whole rows."""
    policy, trainer = fresh(tiny_policy), FilteredBC()
    FilteredBC(epochs=4, learning_rate=3e-3).train(policy, demos, seed=0, output_dir=tmp_path)  # it predicts a part
    samples = [encode(demo, policy.chat) for demo in demos]
    fit = loss_checks.fitted(trainer, policy, samples)
    for tokens in (None, 1000):
        loss, grads = loss_checks.share_gradients(trainer, fit, samples, tokens or tokens_of(samples))
        expected = trl_reference.sft_loss_of(policy, samples, tokens)
        torch.testing.assert_close(loss, expected.loss, rtol=1e-5, atol=1e-6)
        assert grads.keys() == expected.gradients.keys()
        for name, gradient in expected.gradients.items():
            torch.testing.assert_close(grads[name], gradient, rtol=1e-3, atol=1e-5)
    accuracy = trainer.loss(fit, samples, 1)[1]["mean_token_accuracy"].mean().item()
    assert accuracy == pytest.approx(expected.logged["mean_token_accuracy"], rel=1e-6) and accuracy > 0


def test_labels_stand_on_agent_tokens_only(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any, loss_checks: Any
) -> None:
    """In the batches as in the samples: a row of ids is a sample, and its labels the sample's mask, then padding."""
    policy = fresh(tiny_policy)
    samples = {tuple(sample.input_ids): sample for sample in (encode(demo, policy.chat) for demo in demos)}
    with loss_checks.batches() as batches:
        FilteredBC(batch_size=3, epochs=1).train(policy, demos, seed=0, output_dir=tmp_path)
    rows = [row for ids, labels in batches for row in zip(ids, labels, strict=True)]
    assert len(rows) == len(samples) == 6
    for ids, labels in rows:
        (sample,) = (each for key, each in samples.items() if ids[: len(key)].tolist() == list(key))
        assert (labels != -100).int().tolist()[: len(sample.mask)] == sample.mask
        kept = labels != -100
        assert bool((labels[len(sample.mask) :] == -100).all()) and torch.equal(labels[kept], ids[kept])


def test_no_observation_row_of_the_hidden_states_gets_a_gradient(
    tiny_policy: Any, demos: list[Trajectory], fresh: Any, loss_checks: Any
) -> None:
    """Of the last states, those that predict an observation or padding have gradient zero."""
    policy, trainer = fresh(tiny_policy), FilteredBC()
    samples = [encode(demo, policy.chat) for demo in demos]
    fit = loss_checks.fitted(trainer, policy, samples)
    agent = pad_samples(samples)[1] != -100
    loss_checks.check_observations(
        policy.model, agent, lambda: loss_checks.share(trainer, fit, samples, tokens_of(samples))
    )  # fmt: skip


def test_it_learns_a_batch_by_heart(tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any) -> None:
    """Trained long enough on two trajectories, their replies become nearly certain."""
    policy = fresh(tiny_policy)
    report = FilteredBC(epochs=120, batch_size=2, learning_rate=1e-2).train(
        policy, demos[:2], seed=0, output_dir=tmp_path
    )
    assert report.trajectories == 2 and report.loss[0] > 2 and report.loss[-1] < 0.2
    assert report.agent_tokens == 120 * sum(sum(encode(demo, policy.chat).mask) for demo in demos[:2])


def test_the_same_seed_gives_the_same_weights(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """Two trainings from one policy and seed end in equal digests, another seed in another."""
    digests = []
    for seed in (1, 1, 2):
        policy = fresh(tiny_policy)
        FilteredBC(epochs=1, batch_size=2).train(policy, demos, seed=seed, output_dir=tmp_path)
        digests.append(policy.digest())
    assert digests[0] == digests[1] != digests[2]


def test_only_good_trajectories_count(tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any) -> None:
    """Low returns and infrastructure failures are left out, and nothing left is an error that says so."""
    bad = [replace(demos[0], reward=0.4), replace(demos[1], error="timeout")]
    report = FilteredBC(epochs=1).train(fresh(tiny_policy), [*bad, demos[2]], seed=0, output_dir=tmp_path)
    assert report.trajectories == 1 and sum(report.dropped.values()) == 2
    with pytest.raises(
        NothingToTrainOnError, match=r"nothing left of 2 .*1 below the trainer's threshold 0\.5, 1 ended by"
    ):
        FilteredBC().train(fresh(tiny_policy), bad, seed=0, output_dir=tmp_path)


def test_what_another_tokenizer_wrote_is_left_out(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any, toy_envs: Any
) -> None:
    """It is counted; where nothing else is there it is the error."""
    other = toy_envs.word_policy()
    agent = ModelAgent(other, HFEngine(other), SamplingParams(max_new_tokens=3))
    played = Collector(agent).collect_batch(jobs_for([toy_envs.CHAIN], "train", range(2)))
    report = FilteredBC(epochs=1, threshold=-1.0).train(
        fresh(tiny_policy), [*played, *demos], seed=0, output_dir=tmp_path
    )
    assert report.dropped == {OTHER_TOKENIZER: 2} and report.trajectories == len(demos)
    assert FilteredBC(epochs=1, threshold=-1.0).train(other, played, seed=0, output_dir=tmp_path).dropped == {}
    with pytest.raises(NothingToTrainOnError, match=re.escape(f"nothing left of 2 trajectories: 2 {OTHER_TOKENIZER}")):
        FilteredBC().train(fresh(tiny_policy), played, seed=0, output_dir=tmp_path)


def test_what_the_policy_cannot_read_is_left_out(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """It is counted, as what is longer than `max_length`: a model of learnt positions would fail at it."""
    policy, lengths = fresh(tiny_policy), sorted(len(encode(each, tiny_policy.chat).input_ids) for each in demos)
    policy.model.config.max_position_embeddings = room = lengths[len(lengths) // 2]
    report = FilteredBC(epochs=1.0).train(policy, demos, seed=0, output_dir=tmp_path)
    assert report.dropped == {f"longer than {room} tokens": sum(length > room for length in lengths)}
    assert report.trajectories == sum(length <= room for length in lengths) < len(demos)


@pytest.mark.parametrize("rank", [0, 2])
def test_an_engine_notices_that_its_policy_was_trained(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, rank: int, fresh: Any
) -> None:
    """After a training, with LoRA or without, it answers only once it is synced, then as a new one, with new digest."""
    policy, params = fresh(tiny_policy), SamplingParams(max_new_tokens=6)
    engine = HFEngine(policy, slots=2)
    agent = ModelAgent(policy, engine, params)
    prompt, before = policy.chat.opening(demos[0].steps[0].observation), agent.policy_digest
    engine.generate([prompt], params, [1])
    FilteredBC(epochs=1, lora_rank=rank).train(policy, demos, seed=0, output_dir=tmp_path)
    with pytest.raises(PolicyError, match="changed since the engine's last sync"):
        engine.generate([prompt], params, [1])
    assert agent.policy_digest == before, "the weights that acted"
    engine.sync(policy, 1)
    assert engine.generate([prompt], params, [1]) == HFEngine(policy).generate([prompt], params, [1])
    assert agent.policy_digest == policy.digest() != before


def test_lora_trains_adapters_and_keeps_them(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """After LoRA the policy has adapters on an unchanged base, and saves and loads."""
    policy = fresh(tiny_policy)
    before = policy.digest()
    FilteredBC(epochs=2, lora_rank=2, batch_size=2).train(policy, demos, seed=0, output_dir=tmp_path)
    assert policy.digest() != before and hasattr(policy.model, "peft_config")
    policy.save(tmp_path / "saved")
    assert Policy.load(tmp_path / "saved").digest() == policy.digest()


def test_wrong_settings_are_refused() -> None:
    """Settings that cannot be meant raise at once and are named."""
    wrong: dict[str, Any] = {"epochs": 0, "learning_rate": -1.0, "batch_size": 0, "gradient_accumulation": 0}
    wrong |= {"warmup_ratio": 1.0, "max_grad_norm": float("inf"), "threshold": float("nan"), "max_length": 0}
    wrong |= {"lora_rank": -1}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=name):
            FilteredBC(**{name: value})
    with pytest.raises(ConfigError, match=r"^epochs must be a number above 0, got 0"):
        FilteredBC(epochs=0)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_gradient_that_is_not_finite_stops_it(
    tiny_policy: Any, demos: list[Trajectory], tmp_path: Path, rank: int, fresh: Any
) -> None:
    """It is an error instead of a step, and the policy is what the steps before made of it."""
    policy, calls = fresh(tiny_policy), list[int]()

    def spoil(module: Any, inputs: Any, output: Any) -> Any:
        calls.append(1)
        return output * float("nan") if len(calls) == 3 else output

    hook = policy.model.get_input_embeddings().register_forward_hook(spoil)
    trainer = FilteredBC(batch_size=2, epochs=1.0, lora_rank=rank, learning_rate=1e-2)
    with pytest.raises(TrainingError, match="gradient norm nan at step 3 of 3: the step was not taken"):
        trainer.train(policy, demos, seed=0, output_dir=tmp_path)
    hook.remove()
    assert hasattr(policy.model, "peft_config") == (rank > 0) and policy.digest() != tiny_policy.digest()
    assert all(torch.isfinite(p).all() for p in policy.model.parameters())
