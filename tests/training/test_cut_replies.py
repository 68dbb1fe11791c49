"""Replies that were cut at the maximum length are counted, and left out of the loss if the trainer says so."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py import registry
from agentgym_py.agents import ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.engine import HFEngine
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.policy.tokens import IGNORED
from agentgym_py.testing.zoo_checks import with_teacher
from agentgym_py.training.data import prepare
from agentgym_py.training.rl.batch import encode_record, episode_stats, rewards_by_turn
from agentgym_py.training.settings import OfflineSettings
from agentgym_py.training.trainer import info_of
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.types import Usage
from agentgym_trainers.grpo import GRPO, encode_group
from agentgym_trainers.ppo import token_rewards

OPTION = "mask_truncated_completions"
TRAINERS = {name: registry.load("agentgym.trainers", name) for name in registry.names("agentgym.trainers")}
PLAYERS = [name for name, kind in TRAINERS.items() if hasattr(kind, "improve")]
ON_POLICY = [name for name in PLAYERS if not issubclass(TRAINERS[name], OfflineSettings)]
"""Trainers that learn from the replies that they sample; the others learn what an expert says."""
OFFLINE = [name for name, kind in TRAINERS.items() if name not in PLAYERS and info_of(kind).output == "policy"]


def with_cuts(trajectory: Trajectory) -> Trajectory:
    """The trajectory with every reply cut, as an endpoint reports it."""
    usage = Usage(None, None, cut=True)
    return replace(trajectory, steps=tuple(replace(step, usage=usage) for step in trajectory.steps))


@pytest.fixture(scope="module")
def policy(toy_envs: Any) -> Any:
    """A policy that nothing trains."""
    return toy_envs.word_policy(layers=2)


@pytest.fixture(scope="module")
def group(toy_envs: Any, policy: Any) -> list[Trajectory]:
    """Attempts at one task with whole and cut replies."""
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 8, tokens=2)
    rollouts.engine = HFEngine(policy)
    episodes: list[Trajectory] = rollouts.groups(1, 8)[0]
    return episodes


@pytest.mark.parametrize("name", TRAINERS)
def test_the_option_is_on_for_on_policy_trainers_only(name: str) -> None:
    """Every trainer of replies has it; one that trains a judge refuses it."""
    kind = TRAINERS[name]
    (field,) = (field for field in fields(kind) if field.name == OPTION)
    assert field.default == (name in ON_POLICY)
    if info_of(kind).output != "policy" or name in {*PLAYERS} - {*ON_POLICY}:
        with pytest.raises(ConfigError, match=OPTION):
            kind(**{OPTION: True})


@pytest.mark.parametrize("name", OFFLINE)
def test_offline_trainers_leave_them_out(name: str, tiny_policy: Any, tmp_path: Path) -> None:
    """Where every reply was cut nothing is left to learn, and the error says why."""
    jobs = jobs_for([EnvSpec("maze", {"max_steps": 3})], "train", range(1))
    episodes = [*Collector(ExpertAgent()).collect_batch(jobs), *Collector(RandomAgent()).collect_batch(jobs)]
    trainer = TRAINERS[name](**{OPTION: True})
    with pytest.raises(NothingToTrainOnError, match="without a reply to learn that was not cut at max_new_tokens"):
        data = [replace(with_cuts(t), reward=1.0 - n, success=not n) for n, t in enumerate(episodes)]
        trainer.train(tiny_policy, data, seed=0, output_dir=tmp_path)


@pytest.mark.parametrize("name", ON_POLICY)
def test_on_policy_trainers_leave_them_out(name: str, toy_envs: Any, tmp_path: Path) -> None:
    """Where every reply was cut nothing is left to learn, and the error says why."""
    policy = toy_envs.word_policy()
    names = {field.name for field in fields(TRAINERS[name])}
    few = {"tasks_per_iteration": 4, "group_size": 4, "minibatch_size": 4, "critic_warmup": 0, "prm_labels": "outcome"}
    trainer = TRAINERS[name](**{key: value for key, value in few.items() if key in names})
    trainer = with_teacher(trainer, policy, tmp_path / "teacher")
    rollouts = toy_envs.rollouts(policy, toy_envs.BANDIT, 16)
    rollouts.engine.finish_reason = "length"
    with pytest.raises(NothingToTrainOnError, match="without a reply to learn that was not cut at max_new_tokens"):
        trainer.improve(policy, rollouts, seed=0, output_dir=tmp_path)


def test_prepared_data_says_the_share(tiny_policy: Any) -> None:
    """Masked tokens as a share of the agent's; no figure if the option is off."""
    whole = Collector(ExpertAgent()).collect_batch(jobs_for([EnvSpec("maze")], "train", range(2)))
    half = [replace(t, steps=(*with_cuts(t).steps[:2], *t.steps[2:])) for t in whole]
    plain, masked = (prepare(tiny_policy, half, 4096, mask_cut=on) for on in (False, True))
    tokens = [sum(sum(sample.mask) for sample in data.samples) for data in (plain, masked)]
    assert plain.metrics == {} and masked.metrics == {"masked": pytest.approx(1 - tokens[1] / tokens[0])}
    assert 0 < masked.metrics["masked"] < 1


def test_a_groups_advantages_are_those_of_all_its_replies(policy: Any, group: list[Trajectory]) -> None:
    """The loss is on whole replies only; returns and advantages are the same with and without the mask."""
    returns = [replace(t, reward=float(number)) for number, t in enumerate(group)]
    all_of_them, trained = (
        encode_group(GRPO(mask_truncated_completions=on), returns, "std", policy, Counter()) for on in (False, True)
    )
    by_first_ids = {tuple(record.input_ids.tolist()): record for record in all_of_them}
    assert trained
    for record in trained:
        other = by_first_ids[tuple(record.input_ids.tolist())]
        assert record.n <= other.n and record.advantages_n is not None and other.advantages_n is not None
        assert float(record.advantages_n[0]) in {float(r.advantages_n[0]) for r in all_of_them}  # type: ignore[index]
    assert sum(record.n for record in trained) < sum(record.n for record in all_of_them)


def test_a_record_holds_the_whole_replies(policy: Any, group: list[Trajectory]) -> None:
    """Labels, turns and log-probabilities are those of whole replies; cut ones stay in the sequence as context."""
    for episode in group:
        record = encode_record(episode, policy.chat, mask_cut=True)
        kept = [step.tokens for step in episode.steps if step.tokens and not step.cut]
        if record is None:
            assert not kept
            continue
        assert record.labels[record.labels != IGNORED].tolist() == [i for tokens in kept for i in tokens.ids]
        assert record.old_logps_n.tolist() == pytest.approx([x for tokens in kept for x in tokens.logprobs])
        assert record.turns == [number for number, step in enumerate(episode.steps) if not step.cut]
        plain = encode_record(episode, policy.chat)
        assert plain is not None and plain.input_ids.tolist() == record.input_ids.tolist()


def test_the_reward_after_a_cut_reply_is_paid_to_the_reply_before(policy: Any, group: list[Trajectory]) -> None:
    """The sum from the first trained turn on is the episode's; PPO sees the cut reply as part of the environment."""
    paid = 0
    for episode in group:
        steps = tuple(replace(step, reward=float(number + 1)) for number, step in enumerate(episode.steps))
        record = encode_record(episode, policy.chat, mask_cut=True)
        if record is None:
            continue
        rewards = [step.reward for step in steps]
        assert sum(rewards_by_turn(record, rewards)) == sum(rewards[record.turns[0] :])
        assert float(token_rewards(replace(episode, steps=steps), record, 0.0).sum()) == sum(rewards[record.turns[0] :])
        paid += len(record.turns) < len(steps) - record.turns[0]
    assert paid, "no trained reply was followed by a cut one"


def test_the_share_is_logged(group: list[Trajectory]) -> None:
    """Cut replies always, masked tokens if they are masked."""
    replies = [step for episode in group for step in episode.steps]
    plain, masked = episode_stats(group), episode_stats(group, True)
    assert plain["cut"] == masked["cut"] == pytest.approx(sum(step.cut for step in replies) / len(replies))
    assert plain["masked"] == 0 < masked["masked"] < 1
