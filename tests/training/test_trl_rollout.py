from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import Episode, ModelAgent
from agentgym_py.collection import Collector
from agentgym_py.errors import ConfigError, TemplateError
from agentgym_py.policy.tokens import encode
from agentgym_py.training.trl_rollout import episode_return, rollout_func, trl_row


def trainer_of(toy_envs: Any, folder: Path, play: dict[str, Any] | None = None, **more: Any) -> Any:
    """Trl's GRPOTrainer on the chain, whose policy knows twenty words; `play` are settings of `rollout_func`."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    policy = toy_envs.word_policy()
    settings: dict[str, Any] = {"learning_rate": 0.01, "max_steps": 2, "temperature": 0.8, "seed": 3} | more
    args = GRPOConfig(
        output_dir=str(folder), use_cpu=True, bf16=False, gradient_checkpointing=False, report_to="none",
        disable_tqdm=True, save_strategy="no", logging_steps=1, per_device_train_batch_size=8, num_generations=4,
        **settings,
    )  # fmt: skip
    prompts = toy_envs.CHAIN.task_ids("train", range(4))
    return GRPOTrainer(
        model=policy.model, reward_funcs=episode_return,
        rollout_func=rollout_func(toy_envs.CHAIN, max_new_tokens=2, **(play or {})),
        args=args, processing_class=policy.tokenizer, train_dataset=Dataset.from_dict({"prompt": prompts}),
    )  # fmt: skip


def test_trls_trainer_learns_from_episodes(toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loss reads just the agent's tokens of what was played by the weights of then; no two tries draw alike."""
    trainer, seeds, read = trainer_of(toy_envs, tmp_path), list[int](), list[Any]()
    replying, loss = ModelAgent._replying, type(trainer)._compute_loss

    def noted(self: ModelAgent, episode: Episode) -> Any:
        if not episode.ids:
            seeds.append(episode.seed)
        assert not trainer.model.training
        return replying(self, episode)

    def reads(self: Any, model: Any, inputs: Any) -> Any:
        assert model.training
        read.append({name: each.clone() for name, each in inputs.items() if torch.is_tensor(each)})
        return loss(self, model, inputs)

    monkeypatch.setattr(ModelAgent, "_replying", noted)
    monkeypatch.setattr(type(trainer), "_compute_loss", reads)
    before = {name: each.clone() for name, each in trainer.model.state_dict().items()}
    trainer.train()
    assert len(read) == 2 and len(set(seeds)) == 16 == len(seeds)
    assert all(each["completion_ids"].shape == each["tool_mask"].shape for each in read)
    assert all(0 < each["tool_mask"].sum() < each["completion_mask"].sum() for each in read)
    assert not torch.equal(read[0]["advantages"], torch.zeros(8))
    assert any(not torch.equal(each, before[name]) for name, each in trainer.model.state_dict().items())
    assert -0.6 <= trainer.state.log_history[0]["reward"] <= 0.75


def test_a_row_is_its_episode(toy_envs: Any) -> None:
    """Ids and mask are the sample's, cut before the first reply; log-probabilities those of its agent tokens."""
    policy = toy_envs.word_policy()
    ((episode,),) = toy_envs.rollouts(policy, toy_envs.CHAIN, 1, tokens=2).groups(1, 1)
    found, sample = trl_row(episode, policy.chat), encode(episode, policy.chat)
    cut = len(found["prompt_ids"])
    assert found["prompt_ids"] + found["completion_ids"] == sample.input_ids and found["env_mask"] == sample.mask[cut:]
    assert found["env_mask"][0] == 1 and not any(sample.mask[:cut])
    own = [logp for logp, bit in zip(found["logprobs"], found["env_mask"], strict=True) if bit]
    assert own == [logp for step in episode.steps for logp in step.tokens.logprobs]
    assert len(own) == sum(sample.mask) and found["reward"] == episode.reward
    lost = trl_row(replace(episode, error="it hangs"), policy.chat)
    assert lost["reward"] is None and lost["success"] is None and episode_return([0.5, None]) == [0.5, None]
    assert lost["env_mask"] == [0] and len(lost["completion_ids"]) == len(lost["logprobs"]) == 1 and lost["prompt_ids"]


def test_trl_leaves_an_infrastructure_failure_out_of_its_group(
    toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three equal episodes and a failed one in each group: all advantages are 0, and the mean return is the three's."""
    trainer, advantages = trainer_of(toy_envs, tmp_path, max_steps=1), list[Any]()
    collect, loss = Collector.collect_batch, type(trainer)._compute_loss

    def fails(self: Collector, jobs: Any) -> Any:
        played = [replace(episode, reward=1.0) for episode in collect(self, jobs)]
        return [replace(episode, reward=0.0, error="it hangs") if i % 4 == 3 else episode
                for i, episode in enumerate(played)]  # fmt: skip

    def noted(self: Any, model: Any, inputs: Any) -> Any:
        advantages.append(inputs["advantages"].clone())
        return loss(self, model, inputs)

    monkeypatch.setattr(Collector, "collect_batch", fails)
    monkeypatch.setattr(type(trainer), "_compute_loss", noted)
    trainer.train()
    assert torch.equal(advantages[0], torch.zeros(8))
    assert trainer.state.log_history[0]["reward"] == 1.0


def test_a_part_of_the_distribution_is_refused(toy_envs: Any, tmp_path: Path) -> None:
    """Its log-probabilities are not the model's."""
    with pytest.raises(ConfigError, match="top_k"):
        trainer_of(toy_envs, tmp_path, top_k=3).train()
    for other in ({"repetition_penalty": 1.1}, {"generation_kwargs": {"typical_p": 0.9}}):
        with pytest.raises(ConfigError, match="repetition_penalty must be 1"):
            trainer_of(toy_envs, tmp_path, **other).train()


@pytest.mark.parametrize(("setting", "value"), [("kv_cache_gib", 1e-9), ("max_context", 0)])
def test_the_memory_of_its_episodes_is_bounded(setting: str, value: float, toy_envs: Any, tmp_path: Path) -> None:
    """Episodes are played with the engine's bound and the policy's context that `rollout_func` is given."""
    with pytest.raises(ConfigError, match=setting):
        trainer_of(toy_envs, tmp_path, play={setting: value}).train()


def test_the_policy_of_the_episodes_has_settings(zoo: Any, toy_envs: Any) -> None:
    """Qwen3's template needs one, as with `--thinking`."""
    trainer = SimpleNamespace(
        args=SimpleNamespace(
            top_p=1.0, top_k=0, min_p=None, temperature=1.0, seed=0, repetition_penalty=1.0, generation_kwargs=None
        ),
        accelerator=SimpleNamespace(num_processes=1, process_index=0, unwrap_model=lambda model: model),
        model=zoo.miniature("qwen3").model, processing_class=zoo.build_tokenizer(zoo.FAMILIES["qwen3"]),
    )  # fmt: skip
    tasks = toy_envs.CHAIN.task_ids("train", [0])
    with pytest.raises(ConfigError, match=r"Policy takes no argument 'max_contxt'\. Did you mean 'max_context'"):
        rollout_func(toy_envs.CHAIN, max_contxt=100)
    with pytest.raises(TemplateError, match="thinking on or off keeps earlier thoughts"):
        rollout_func(toy_envs.CHAIN)(tasks, trainer)
    rows = rollout_func(toy_envs.CHAIN, max_new_tokens=2, thinking="off")(tasks, trainer)
    assert trainer.processing_class.decode(rows["prompt_ids"][0]).endswith("<think>\n\n</think>\n\n")
