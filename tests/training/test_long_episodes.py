"""Episodes that outgrew the context are several token sequences, and every trainer takes them as one trajectory."""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py import registry
from agentgym_py.agents import ExpertAgent, ModelAgent
from agentgym_py.collection import Collector, Job, PlayConfig, jobs_for
from agentgym_py.collection.rollouts import Rollouts
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError
from agentgym_py.evolution.config import EvolveConfig, require_compatible_policy
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import agent_logits, agent_logprobs, pad_samples, sample_logprobs
from agentgym_py.policy.tokens import IGNORED, Sample, encode
from agentgym_py.rewards.process_reward_model import encode_with_positions
from agentgym_py.testing.zoo_checks import with_teacher
from agentgym_py.training import OnPolicyTrainer
from agentgym_py.training.data import prepare
from agentgym_py.training.rl.actor_critic import ActorCritic
from agentgym_py.training.rl.batch import collate, encode_record
from agentgym_py.training.trainer import info_of
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.scores import with_score

MAZE = EnvSpec("maze", {"max_steps": 8})
LONGEST = 8
"""Tokens of a reply."""


@pytest.fixture(scope="module")
def small(tiny_policy: Any) -> Policy:
    """A policy whose context holds about two thirds of an episode, and which then leaves out the earliest turns."""
    policy: Policy = copy.copy(tiny_policy)
    whole = Collector(model_agent(policy)).collect_batch(jobs_for([MAZE], "train", range(4)))
    policy.max_context = max(encode(t, policy.chat).longest for t in whole) * 2 // 3
    policy.context = "drop_oldest"
    return policy


def model_agent(policy: Policy) -> ModelAgent:
    """An agent that samples short replies."""
    return ModelAgent(policy, HFEngine(policy), SamplingParams(max_new_tokens=LONGEST))


@pytest.fixture(scope="module")
def long_episodes(small: Policy) -> list[Trajectory]:
    """Episodes of several sequences."""
    episodes = Collector(model_agent(small)).collect_batch(jobs_for([MAZE], "train", range(4)))
    assert all(len(encode(t, small.chat).starts) > 1 for t in episodes)
    return episodes


@pytest.fixture
def samples(small: Policy, long_episodes: list[Trajectory]) -> list[Sample]:
    """The episodes in tokens."""
    return [encode(trajectory, small.chat) for trajectory in long_episodes]


def parts_of(sample: Sample) -> list[Sample]:
    """Each sequence as a sample of its own."""
    return [sample.sequence(number) for number in range(len(sample.starts))]


def test_each_sequence_is_a_row_and_the_trajectory_their_sum(small: Policy, samples: list[Sample]) -> None:
    """Log-probabilities and their sums are those of the sequences one by one; no row mixes two sequences."""
    parts = [parts_of(sample) for sample in samples]
    flat = [part for group in parts for part in group]
    assert all(torch.equal(a, b) for a, b in zip(pad_samples(samples), pad_samples(flat), strict=True))
    assert [sum(sample.mask) for sample in samples] == [sum(sum(part.mask) for part in group) for group in parts]
    sums, alone = sample_logprobs(small.model, samples, 3), iter(sample_logprobs(small.model, flat, 3))
    assert sums == pytest.approx([sum(next(alone) for _ in group) for group in parts], rel=1e-5)


def test_a_record_is_one_row_of_the_loss(small: Policy, long_episodes: list[Trajectory]) -> None:
    """The tokens of all sequences of a record belong to it, and the forward pass is that of the sequences."""
    records = [record for t in long_episodes if (record := encode_record(t, small.chat, tail=True))]
    net = ActorCritic(small.model, False, 1.0)
    batch = collate(records, [torch.ones(record.n) for record in records], torch.device("cpu"))
    assert batch.row_N.bincount().tolist() == [record.n for record in records]
    assert len(batch.input_ids) == sum(len(record.starts) for record in records)
    with torch.no_grad():
        logps_N = net(batch.input_ids, batch.labels).logps_N
    torch.testing.assert_close(logps_N, batch.old_logps_N, rtol=0, atol=1e-5)
    tailed = records[0].with_tail()
    assert tailed.starts == records[0].starts and tailed.n == records[0].n + 1


def test_gradients_add_up_over_the_sequences(small: Policy, samples: list[Sample]) -> None:
    """The gradient of a trajectory's loss is the sum of its sequences' gradients."""

    def gradient(rows: list[Sample]) -> Any:
        small.model.zero_grad()
        loss = agent_logprobs(agent_logits(small.model, *pad_samples(rows))).sum()
        torch.autograd.backward(loss)
        return torch.cat([p.grad.flatten().clone() for p in small.model.parameters()])

    together, parts = gradient(samples[:1]), [gradient([part]) for part in parts_of(samples[0])]
    torch.testing.assert_close(together, torch.stack(parts).sum(0), rtol=1e-4, atol=1e-5)


def test_only_a_sequence_that_is_too_long_leaves_an_episode_out(
    small: Policy, long_episodes: list[Trajectory], samples: list[Sample]
) -> None:
    """What counts against `max_length` is the longest sequence, not the whole episode."""
    longest = max(sample.longest for sample in samples)
    assert len(prepare(small, long_episodes, longest).samples) == len(long_episodes)
    assert any(len(sample.input_ids) > longest for sample in samples)
    assert len(prepare(small, long_episodes, longest - 1).samples) < len(long_episodes)


def test_a_summary_is_part_of_its_turn(small: Policy) -> None:
    """On-policy trainers learn it with the turn's advantage; without it, a record holds the replies alone."""
    policy = copy.copy(small)
    policy.context = "summarise"
    (episode,) = Collector(model_agent(policy)).collect_batch(jobs_for([MAZE], "train", range(1)))
    record = encode_record(episode, policy.chat)
    assert record is not None and episode.summary_tokens > 0
    sizes = [sum(len(tokens.ids) for tokens in step.token_records) for step in episode.steps]
    assert record.turns_n.bincount().tolist() == sizes
    ends = (record.turns_n[record.last_of_turn_n] + 1).tolist()
    assert ends == list(range(1, len(episode.steps) + 1)), "a turn's reward is paid after its reply"
    agent_tokens = (record.labels != IGNORED).nonzero()[:, 0].tolist()
    for turn, position in enumerate(encode_with_positions(episode, policy).positions):
        token = agent_tokens.index(position)
        assert record.turns_n[token] == turn and (record.turns_n[: token + 1] == turn).sum() > sizes[turn] - LONGEST
    without = replace(episode, steps=tuple(replace(step, summary=None) for step in episode.steps))
    replies = encode_record(without, policy.chat)
    assert replies is not None and record.n - replies.n == episode.summary_tokens


@pytest.mark.parametrize("name", registry.names("agentgym.trainers"))
def test_every_trainer_takes_them(
    name: str, small: Policy, long_episodes: list[Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """A training on long episodes, or one that plays them, counts each of them once and has a finite loss.

    A trainer that declares that it does not take them is refused before the run.
    """
    trainer, policy = registry.load("agentgym.trainers", name)(), fresh(small)
    policy.context, policy.max_context = small.context, small.max_context
    if not info_of(trainer).several_sequences:
        with pytest.raises(ConfigError, match="context must be error"):
            require_compatible_policy(EvolveConfig(), trainer, policy)
        return
    names = {field.name for field in fields(trainer)}
    few = {"tasks_per_iteration": 2, "group_size": 2, "minibatch_size": 2, "critic_warmup": 0}
    few |= {"mask_truncated_completions": False}  # replies of LONGEST tokens are all cut
    trainer = replace(trainer, **{name: value for name, value in few.items() if name in names})
    if isinstance(trainer, OnPolicyTrainer):
        trainer = with_teacher(trainer, policy, tmp_path / "teacher")
        sampling = SamplingParams(temperature=1.0, max_new_tokens=LONGEST)
        jobs = [Job(MAZE, number) for number in range(4)]
        rollouts = Rollouts(policy, HFEngine(policy), sampling, jobs, 8, play_config=PlayConfig(seed=1))
        rollouts.scorer = lambda trajectories: [float(number % 3) for number in range(len(trajectories))]
        report = trainer.improve(policy, rollouts, seed=0, output_dir=tmp_path)
        played = rollouts.episodes
        assert any(len(encode(t, policy.chat).starts) > 1 for t in played)
    else:
        other = Collector(ExpertAgent(thoughts=False)).collect_batch(jobs_for([MAZE], "train", range(4)))
        good = [with_score(t, 1.0) for t in [*long_episodes[:2], *other[2:]]]  # of each task a better and a worse one
        played = [replace(t, success=True) for t in good] + [*long_episodes[2:], *other[:2]]
        report = trainer.train(policy, played, seed=0, output_dir=tmp_path)
    assert report.trajectories + sum(report.dropped.values()) == len(played)
    assert report.trajectories > 0 and all(torch.isfinite(torch.tensor(value)) for value in report.loss)
