from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import ExpertAgent, ModelAgent
from agentgym_py.collection import Collector
from agentgym_py.collection.branching import snapshots_at
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.errors import DataError
from agentgym_py.policy.tokens import IGNORED
from agentgym_py.training.rl.actor_critic import ActorCritic
from agentgym_py.training.rl.batch import collate, encode_record, episode_stats
from agentgym_py.trajectory import Trajectory


@pytest.fixture(scope="module")
def policy(toy_envs: Any) -> Any:
    """A policy that nothing trains."""
    return toy_envs.word_policy(layers=2)


@pytest.fixture(scope="module")
def episodes(toy_envs: Any, policy: Any) -> list[Trajectory]:
    """Of the chain, sampled at a temperature of 0.7: replies of one to three tokens, some of them cut."""
    return [each for group in toy_envs.rollouts(policy, toy_envs.CHAIN, 32, tokens=3, temperature=0.7).groups(16, 2)
            for each in group]  # fmt: skip


@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_old_logps_are_those_of_a_teacher_forced_pass(toy_envs: Any, policy: Any, temperature: float) -> None:
    """At the sampling temperature, to 1e-4, padded among others: the first step's ratio is 1."""
    groups = toy_envs.rollouts(policy, toy_envs.CHAIN, 12, tokens=3, temperature=temperature).groups(6, 2)
    records = [record for group in groups for each in group if (record := encode_record(each, policy.chat))]
    batch = collate(records, [r.old_logps_n for r in records], torch.device("cpu"))
    with torch.no_grad():
        out = ActorCritic(policy.model, False, temperature)(batch.input_ids, batch.labels)
        other = ActorCritic(policy.model, False, 1.0)(batch.input_ids, batch.labels)
    assert len({len(r.input_ids) for r in records}) > 1 and len(out.logps_N) == sum(r.n for r in records)
    torch.testing.assert_close(out.logps_N, batch.old_logps_N, rtol=0, atol=1e-4)
    assert (other.logps_N - batch.old_logps_N).abs().max() > 1e-2, "else any temperature would do"


def test_a_record_holds_what_was_sampled_and_when(policy: Any, episodes: list[Trajectory]) -> None:
    """Ids as the engine saw them, labels on the agent's tokens, each with its turn, by a walk over the steps."""
    lengths = set()
    for episode in episodes:
        record = encode_record(episode, policy.chat)
        assert record is not None
        ids, labels, turns, logps = list[int](), list[int](), list[int](), list[float]()
        for turn, step in enumerate(episode.steps):
            assert step.tokens is not None
            ids += [*step.tokens.context, *step.tokens.ids]
            labels += [IGNORED] * len(step.tokens.context) + list(step.tokens.ids)
            turns += [turn] * len(step.tokens.ids)
            logps += step.tokens.logprobs
            lengths.add(len(step.tokens.ids))
        assert (record.input_ids.tolist(), record.labels.tolist()) == (ids, labels)
        assert record.turns_n.tolist() == turns and record.turns == list(range(len(episode.steps)))
        assert record.old_logps_n.tolist() == pytest.approx(logps) and record.n == len(turns)
        first = [n == 0 or turns[n] != turns[n - 1] for n in range(len(turns))]
        last = [n == len(turns) - 1 or turns[n] != turns[n + 1] for n in range(len(turns))]
        assert (record.first_of_turn_n.tolist(), record.last_of_turn_n.tolist()) == (first, last)
    assert lengths == {1, 2, 3}


def test_the_tail_is_where_the_next_reply_would_begin(policy: Any, episodes: list[Trajectory]) -> None:
    """A truncated record continues with the ids that the agent would be shown, and one place whose state is read.

    After a reply that was cut the end of its turn comes first.
    """
    ends = set()
    for truncated in (each for each in episodes if not each.terminated):
        record, last = encode_record(truncated, policy.chat, tail=True), truncated.steps[-1].tokens
        assert record is not None and record.tail is not None and last is not None
        ended = last.ids[-1] == policy.chat.end_of_turn
        forced = [] if ended else [policy.chat.end_of_turn]
        assert record.tail.tolist() == forced + policy.chat.turn(truncated.final_observation)
        longer = record.with_tail()
        assert longer.n == record.n + 1 and (longer.labels != IGNORED).sum() == longer.n
        assert longer.input_ids[:-1].tolist() == record.input_ids.tolist() + record.tail.tolist()
        assert longer.labels[-1] != IGNORED, "the state before this place is that after the tail"
        plain = encode_record(truncated, policy.chat)
        assert plain is not None and plain.tail is None and plain.with_tail() is plain
        ends.add(ended)
    assert ends == {True, False}


def test_after_an_experts_prefix_only_the_models_words_are_learnt(toy_envs: Any, policy: Any) -> None:
    """The prefix, which has no token record, is in the record without a label; turns are numbered from the start."""
    expert = Collector(ExpertAgent()).collect(toy_envs.rollouts(policy, toy_envs.CHAIN, 1).tasks[0])
    for at, fork in enumerate(snapshots_at(expert, range(5))):
        rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 2, tokens=2)
        for episode in rollouts.continue_from([rollouts.tasks[0]], [fork], 2)[0]:
            assert [step.trained for step in episode.steps] == [False] * at + [True] * (len(episode.steps) - at)
            record = encode_record(episode, policy.chat)
            assert record is not None and record.turns == list(range(at, len(episode.steps)))
            own = [token for step in episode.steps[at:] for token in step.tokens.ids]
            assert record.labels[record.labels != IGNORED].tolist() == own
            batch = collate([record], [record.old_logps_n], torch.device("cpu"))
            with torch.no_grad():
                out = ActorCritic(policy.model, False, 1.0)(batch.input_ids, batch.labels)
            torch.testing.assert_close(out.logps_N, record.old_logps_n, rtol=0, atol=1e-4)


def test_what_cannot_be_learnt_from_is_none_or_said(policy: Any, episodes: list[Trajectory]) -> None:
    """No trained reply: None. A reply to learn without a record of its tokens: nobody knows how likely it was."""
    first = episodes[0]
    untrained = tuple(replace(step, trained=False) for step in first.steps)
    assert encode_record(replace(first, steps=untrained), policy.chat) is None
    without = (replace(first.steps[0], tokens=None), *first.steps[1:])
    with pytest.raises(DataError, match="step 1 has no token record"):
        encode_record(replace(first, steps=without), policy.chat)


def test_what_the_episodes_came_to(episodes: list[Trajectory]) -> None:
    """Infrastructure failures are episodes, and nothing else; no replies at all are no division by nothing."""
    broken = replace(episodes[0], error="it hangs", reward=99.0)
    logged, alone = episode_stats([*episodes, broken]), episode_stats(episodes)
    assert logged == alone | {"episodes": 33.0}
    assert logged["return"] == pytest.approx(sum(each.reward for each in episodes) / 32)
    assert episode_stats([broken]) == {"episodes": 1.0} and episode_stats([]) == {"episodes": 0.0}


def test_greedy_replies_are_recorded_at_temperature_one(toy_envs: Any, policy: Any) -> None:
    """Which is why on-policy trainers refuse them; an offline reader gets what it is told."""
    agent = ModelAgent(policy, HFEngine(policy), SamplingParams(temperature=0.0, max_new_tokens=2))
    record = encode_record(Collector(agent).collect(toy_envs.rollouts(policy, toy_envs.CHAIN, 1).tasks[0]), policy.chat)
    assert record is not None
    batch = collate([record], [record.old_logps_n], torch.device("cpu"))
    with torch.no_grad():
        out = ActorCritic(policy.model, False, 1.0)(batch.input_ids, batch.labels)
    torch.testing.assert_close(out.logps_N, record.old_logps_n, rtol=0, atol=1e-4)
