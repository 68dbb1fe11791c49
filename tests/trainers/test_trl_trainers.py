"""trl's own trainers as plugins: what they are given, what they refuse, and what they leave behind."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.errors import ConfigError, TrainingError
from agentgym_py.policy.tokens import encode
from agentgym_py.training.settings import TrlSettings
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.trl_dpo import TrlDPO
from agentgym_trainers.trl_grpo import TrlGRPO
from agentgym_trainers.trl_sft import TrlSFT


@pytest.fixture(scope="module")
def episodes(toy_envs: Any) -> list[Trajectory]:
    """Sampled episodes and the expert's, of the same four tasks."""
    groups = toy_envs.rollouts(toy_envs.word_policy(), toy_envs.CHAIN, 16, tasks=4).groups(4, 4)
    experts = Collector(ExpertAgent()).collect_batch(jobs_for([toy_envs.CHAIN], "train", range(4)))
    return [*(episode for group in groups for episode in group), *experts]


def inputs_of(kind: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Collect what trl's trainer of this name gets for each step."""
    import trl

    trainer, seen = getattr(trl, kind), list[dict[str, Any]]()
    compute = trainer.compute_loss

    def noted(self: Any, model: Any, inputs: Any, *args: Any, **more: Any) -> Any:
        seen.append({name: value.clone() for name, value in inputs.items() if torch.is_tensor(value)})
        return compute(self, model, inputs, *args, **more)

    monkeypatch.setattr(trainer, "compute_loss", noted)
    return seen


def rows_of(inputs: Sequence[dict[str, Any]], mask: str) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the ids and masks of all rows, without padding."""
    rows = set()
    for step in inputs:
        for ids, attended, loss in zip(step["input_ids"], step["attention_mask"], step[mask], strict=True):
            keep = attended.bool()
            bits = loss[keep] != -100 if mask == "labels" else loss[keep]
            rows.add((tuple(ids[keep].tolist()), tuple(bits.int().tolist())))
    return rows


def test_trl_gets_the_sampled_tokens(
    episodes: list[Trajectory], toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SFT and DPO train exactly the ids and masks of `encode`: no text is encoded again, observations have no loss."""
    policy = toy_envs.word_policy()
    samples = {(tuple(s.input_ids), tuple(s.mask)) for s in (encode(t, policy.chat) for t in episodes)}
    sft = inputs_of("SFTTrainer", monkeypatch)
    TrlSFT(epochs=1, threshold=-9.0).train(policy, episodes, seed=0, output_dir=tmp_path)
    assert rows_of(sft, "labels") == samples
    dpo = inputs_of("DPOTrainer", monkeypatch)
    report = TrlDPO(epochs=1, match="all").train(policy, episodes, seed=0, output_dir=tmp_path)
    assert report.metrics["pairs"] > 0 and rows_of(dpo, "completion_mask") <= samples
    assert not list(tmp_path.iterdir())


def test_sft_learns_what_filtered_bc_learns(episodes: list[Trajectory], toy_envs: Any, tmp_path: Path) -> None:
    """One step of plain SGD on all episodes moves the weights as one step of the equal loss of filtered_bc."""
    policy = toy_envs.word_policy()
    start = [p.detach().clone() for p in policy.model.parameters()]
    more = {"optim": "sgd", "max_grad_norm": 0.0, "lr_scheduler_type": "constant"}
    trainer = TrlSFT(epochs=1, batch_size=len(episodes), threshold=-9.0, learning_rate=1.0, args=more)
    report = trainer.train(policy, episodes, seed=0, output_dir=tmp_path)
    other = toy_envs.word_policy()
    ours = FilteredBC(epochs=1, batch_size=len(episodes), threshold=-9.0, warmup_ratio=0.0)
    assert report.loss == pytest.approx(ours.train(other, episodes, seed=0, output_dir=tmp_path).loss, rel=1e-4)
    samples = [encode(t, other.chat) for t in episodes]
    from agentgym_py.policy.logprobs import sample_logprobs

    before = sum(sample_logprobs(toy_envs.word_policy().model, samples, 4)) / sum(sum(s.mask) for s in samples)
    assert report.loss[0] == pytest.approx(-before, rel=1e-4)
    assert any(not torch.equal(p, q) for p, q in zip(policy.model.parameters(), start, strict=True))


def test_adapters_of_a_round_are_the_next_ones_reference(
    episodes: list[Trajectory], toy_envs: Any, tmp_path: Path
) -> None:
    """With LoRA the margins of DPO's first step are 0 in a second training, too."""
    policy = toy_envs.word_policy(spread=0.2)
    for _ in range(2):
        trainer = TrlDPO(epochs=1, batch_size=2, lora_rank=2, learning_rate=0.01, match="all")
        report = trainer.train(policy, episodes, seed=0, output_dir=tmp_path)
        assert report.history[0]["rewards/margins"] == pytest.approx(0, abs=1e-4)
        assert abs(report.history[-1]["rewards/margins"]) > 1e-4
        assert set(getattr(policy.model, "peft_config", {})) <= {"default"}


def test_trl_leaves_no_trace(episodes: list[Trajectory], toy_envs: Any, tmp_path: Path) -> None:
    """Tokenizer, configuration, random numbers and the model's forward are as before."""
    import numpy as np

    policy = toy_envs.word_policy()
    policy.tokenizer.pad_token = policy.tokenizer.eos_token = None
    pads = policy.model.config.pad_token_id, policy.model.generation_config.pad_token_id
    torch.manual_seed(5)
    state, numbers = torch.random.get_rng_state(), repr(np.random.get_state())  # noqa: NPY002
    for trainer in (TrlSFT(epochs=1), TrlDPO(epochs=1, match="all")):
        trainer.train(policy, episodes, seed=0, output_dir=tmp_path)
    assert policy.tokenizer.pad_token is None
    assert (policy.model.config.pad_token_id, policy.model.generation_config.pad_token_id) == pads
    assert torch.equal(torch.random.get_rng_state(), state)
    assert repr(np.random.get_state()) == numbers  # noqa: NPY002
    assert "forward" not in vars(policy.model) and not policy.model.training


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        (TrlSFT(args={"packin": True}), "SFTConfig has no 'packin'. Did you mean 'packing'"),
        (TrlDPO(args={"num_train_epochs": 3}), "args.num_train_epochs is set by the trainer or by another setting"),
        (TrlSFT(args={"lr_scheduler_type": "nope"}), "args: SFTConfig refuses them"),
    ],
)
def test_arguments_that_trl_does_not_take_are_refused(
    trainer: Any, message: str, episodes: list[Trajectory], toy_envs: Any, tmp_path: Path
) -> None:
    """In one line, before anything is trained."""
    policy = toy_envs.word_policy()
    before = policy.digest()
    with pytest.raises(ConfigError, match=message):
        trainer.train(policy, episodes, seed=0, output_dir=tmp_path)
    assert policy.digest() == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"minibatch_size": 24}, "minibatch_size must divide the 64 episodes"),
        ({"args": {"beta": 0.1}}, "args.beta needs lora_rank"),
        ({"args": {"use_vllm": True}}, "choose engine=server"),
        ({"lora_rank": 2, "lora_dropout": 0.1}, "lora_dropout must be 0"),
    ],
)
def test_grpo_refuses_what_it_cannot_do(settings: dict[str, Any], message: str) -> None:
    """As soon as it is made."""
    with pytest.raises(ConfigError, match=message):
        TrlGRPO(**settings)


def test_dpo_refuses_a_precomputed_reference() -> None:
    """Trl computes it by mapping text."""
    with pytest.raises(ConfigError, match="precompute_ref_log_probs reads text"):
        TrlDPO(args={"precompute_ref_log_probs": True})


def test_dpo_refuses_a_dropout_that_trl_would_switch_off() -> None:
    """The adapters' dropout would have no effect."""
    with pytest.raises(ConfigError, match=r"lora_dropout needs args\.disable_dropout false"):
        TrlDPO(lora_rank=2, lora_dropout=0.1)
    assert TrlDPO(lora_rank=2, lora_dropout=0.1, args={"disable_dropout": False}).lora["dropout"] == 0.1


def test_a_round_too_small_for_an_iteration_is_refused() -> None:
    """Before the run."""
    with pytest.raises(ConfigError, match="an iteration has 64 episodes"):
        TrlGRPO().check_round(63)


def test_a_missing_trl_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""
    find = importlib.util.find_spec
    monkeypatch.setattr("agentgym_py.training.settings.find_spec", lambda name: None if name == "trl" else find(name))
    with pytest.raises(ConfigError, match=r"a trainer of trl needs trl and datasets: .*trl"):
        TrlSettings()


def test_a_gradient_that_is_not_finite_stops_the_training(
    episodes: list[Trajectory], toy_envs: Any, tmp_path: Path
) -> None:
    """The weights are those before the step."""
    policy = toy_envs.word_policy()
    with torch.no_grad():
        policy.model.model.layers[0].mlp.down_proj.weight[0, 0] = float("nan")
    before = policy.digest()
    with pytest.raises(TrainingError, match="trl_sft: a gradient is not finite at step 1"):
        TrlSFT(epochs=1).train(policy, episodes, seed=0, output_dir=tmp_path)
    assert policy.digest() == before


def test_weights_of_few_bits_are_trained_by_adapters_only(
    episodes: list[Trajectory], toy_envs: Any, tmp_path: Path
) -> None:
    """Trl's optimizer has no float32 copy of bfloat16 weights, and would lose small steps."""
    policy = toy_envs.word_policy()
    policy.model = policy.model.bfloat16()
    with pytest.raises(ConfigError, match="set lora_rank above 0"):
        TrlSFT(epochs=1).train(policy, episodes, seed=0, output_dir=tmp_path)
    assert TrlSFT(epochs=1, lora_rank=2).train(policy, episodes, seed=0, output_dir=tmp_path).loss


def test_dropout_is_off_while_trl_trains_and_back_afterwards(
    episodes: list[Trajectory], toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GRPO's and DPO's log-probabilities are those of the sampler; a later training still has dropout."""
    import trl

    policy, seen = toy_envs.word_policy(), set[float]()
    policy.model.model.drop = torch.nn.Dropout(0.3)
    for kind in (trl.GRPOTrainer, trl.DPOTrainer):
        compute = kind.compute_loss

        def noted(self: Any, *args: Any, compute: Any = compute, **more: Any) -> Any:
            seen.add(policy.model.model.drop.p)
            return compute(self, *args, **more)

        monkeypatch.setattr(kind, "compute_loss", noted)
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 8, tokens=2)
    trainer = TrlGRPO(tasks_per_iteration=2, group_size=4, minibatch_size=4)
    trainer.improve(policy, rollouts, seed=0, output_dir=tmp_path)
    TrlDPO(epochs=1, match="all").train(policy, episodes, seed=0, output_dir=tmp_path)
    assert seen == {0} and policy.model.model.drop.p == 0.3


def test_grpo_trains_with_the_reference_of_its_adapters(toy_envs: Any, tmp_path: Path) -> None:
    """With `beta` and adapters the first step's divergence is 0; an odd number of tasks fits into the budget."""
    policy = toy_envs.word_policy(spread=0.2)
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 20, tokens=2)
    trainer = TrlGRPO(tasks_per_iteration=2, group_size=4, minibatch_size=4, lora_rank=2, args={"beta": 0.1})
    report = trainer.improve(policy, rollouts, seed=0, output_dir=tmp_path)
    assert len(rollouts.episodes) == 16 and len(report.history) == 4
    assert report.history[0]["kl"] == pytest.approx(0, abs=1e-5)
    assert replace(trainer, lora_rank=4).args == {"beta": 0.1}
