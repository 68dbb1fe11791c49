"""A model as an agent: token ids in, token ids out, over whole episodes whose replies are cut or end by themselves."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import ModelAgent
from agentgym_py.agents.context import SUMMARY_REQUEST
from agentgym_py.collection import Collector, Job, PlayConfig, jobs_for
from agentgym_py.engine import Generation, HFEngine, SamplingParams
from agentgym_py.engine.hf import HFBatch
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import agent_logits, agent_logprobs
from agentgym_py.policy.tokens import encode
from agentgym_py.trajectory import Tokens, Trajectory
from agentgym_py.trajectory.types import opening_text


class Played(NamedTuple):
    """Episodes, the policy that played them, and what its engine was asked."""

    policy: Policy
    trajectories: list[Trajectory]
    prompts: list[list[int]]


class Listening(HFEngine):
    """Writes down the prompts."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.prompts: list[list[int]] = []

    def batch(self, params: SamplingParams) -> HFBatch:
        """Return a batch that writes them down."""
        prompts = self.prompts

        class ListeningBatch(HFBatch):
            def add(self, key: Hashable, prompt: Sequence[int], seed: int) -> None:
                prompts.append(list(prompt))
                super().add(key, prompt, seed)

        return ListeningBatch(self.runner, params)


@pytest.fixture(scope="module")
def played(tiny_policy: Any) -> Played:
    """Six episodes of five turns; some replies end by themselves, some are cut."""
    policy = Policy(copy.deepcopy(tiny_policy.model), tiny_policy.tokenizer, "test")
    with torch.no_grad():  # surer of itself, so that it ends its turns now and then
        for parameter in policy.model.parameters():
            parameter.mul_(4.0)
        policy.model.get_input_embeddings().weight[policy.chat.end_of_turn] *= 3
    engine = Listening(policy)
    agent = ModelAgent(policy, engine, SamplingParams(max_new_tokens=12))
    jobs = jobs_for([EnvSpec("shop", {"max_steps": 5})], "train", range(6))
    return Played(policy, Collector(agent, PlayConfig(seed=1)).collect_batch(jobs), engine.prompts)


def records(trajectory: Trajectory) -> list[Tokens]:
    """The token record of every turn."""
    return [step.tokens for step in trajectory.steps if step.tokens is not None]


def sampled(trajectory: Trajectory) -> list[Tokens]:
    """The token record of every reply and summary, in order."""
    return [record for step in trajectory.steps for record in step.token_records]


def test_some_replies_were_cut_and_some_were_not(played: Played) -> None:
    """Without both kinds the tests below would say little; a cut reply has all its tokens, none of them the end."""
    end = played.policy.chat.end_of_turn
    replies = [record.ids for t in played.trajectories for record in records(t)]
    cut = [ids for ids in replies if ids[-1] != end]
    assert 5 < len(cut) < len(replies) - 5 and {len(ids) for ids in cut} == {12}
    assert not any(end in ids[:-1] for ids in replies)
    steps = [step for t in played.trajectories for step in t.steps]
    assert [step.cut for step in steps] == [step.tokens is not None and step.tokens.ids[-1] != end for step in steps]


def test_a_sample_is_what_the_engine_saw_and_said(played: Played) -> None:
    """Trained is on the last prompt and the last reply, which the record of each turn adds up to."""
    for trajectory in played.trajectories:
        ids = encode(trajectory, played.policy.chat).input_ids
        assert trajectory.has_tokens and ids == [i for each in records(trajectory) for i in (*each.context, *each.ids)]
        assert ids[: -len(records(trajectory)[-1].ids)] in played.prompts


def test_an_episode_is_written_as_the_chat_format_has_it(played: Played) -> None:
    """Opening, reply, a forced end of turn where it was cut, observation, …: the ids one by one, and the whole text."""
    chat, tokenizer = played.policy.chat, played.policy.tokenizer
    for trajectory in played.trajectories:
        ids, messages = list[int](), list[dict[str, str]]()
        for number, (step, record) in enumerate(zip(trajectory.steps, records(trajectory), strict=True)):
            seen = step.observation if number else opening_text(trajectory.rules, step.observation)
            ids += chat.turn(seen) if number else chat.opening(seen)
            ids += record.ids if record.ids[-1] == chat.end_of_turn else (*record.ids, chat.end_of_turn)
            reply = tokenizer.decode([i for i in record.ids if i != chat.end_of_turn])
            messages += [{"role": "user", "content": seen}, {"role": "assistant", "content": reply}]
        assert trajectory.rules and encode(trajectory, chat).input_ids in (ids, ids[:-1])
        assert tokenizer.decode(ids) == tokenizer.apply_chat_template(messages, tokenize=False)


def test_only_sampled_tokens_are_trained_on(played: Played) -> None:
    """The mask is 1 on the replies as they were sampled, and 0 on what was put in: observations, forced ends."""
    for trajectory in played.trajectories:
        sample = encode(trajectory, played.policy.chat)
        kept = [i for i, bit in zip(sample.input_ids, sample.mask, strict=True) if bit]
        assert kept == [i for record in records(trajectory) for i in record.ids]
        for before, record in pairwise(records(trajectory)):
            forced = before.ids[-1] != played.policy.chat.end_of_turn
            assert (record.context[0] == played.policy.chat.end_of_turn) == forced


def test_the_trainers_logprobs_are_the_samplers(played: Played) -> None:
    """One forward over a whole episode gives every reply the log-probabilities that it was drawn with."""
    for trajectory in played.trajectories:
        sample = encode(trajectory, played.policy.chat)
        with torch.no_grad():
            logits = agent_logits(played.policy.model, torch.tensor([sample.input_ids]), torch.tensor([sample.labels]))
        stored = torch.tensor([each for record in records(trajectory) for each in record.logprobs])
        torch.testing.assert_close(agent_logprobs(logits), stored, rtol=0, atol=1e-4)


def test_each_prompt_goes_on_where_the_last_turn_ended(played: Played) -> None:
    """An engine may keep what it computed: nothing of an earlier turn is ever written otherwise."""
    for trajectory in played.trajectories:
        ids: list[int] = []
        for record in records(trajectory):
            prompt = [*ids, *record.context]
            assert prompt in [list(p) for p in played.prompts]
            ids = [*prompt, *record.ids]


def test_a_model_gives_up_where_its_context_is_full(tiny_policy: Any) -> None:
    """An episode that leaves no room for a whole reply ends there; where no opening could leave it, nothing begins."""
    policy = Policy(copy.deepcopy(tiny_policy.model), tiny_policy.tokenizer, "test")
    limit = policy.max_length - len(policy.chat.opening(""))
    with pytest.raises(ConfigError, match=f"max_new_tokens {limit + 1} leaves no room for a prompt in the 4096 tokens"):
        ModelAgent(policy, HFEngine(policy), SamplingParams(max_new_tokens=limit + 1))
    ModelAgent(policy, HFEngine(policy), SamplingParams(max_new_tokens=limit))
    policy.model.config.max_position_embeddings = 500
    params = SamplingParams(max_new_tokens=12)
    (trajectory,) = Collector(ModelAgent(policy, HFEngine(policy), params)).collect_batch([Job(EnvSpec("shop"), 0)])
    written = len(encode(trajectory, policy.chat).input_ids)
    asked = 1 + len(policy.chat.turn(trajectory.final_observation))  # with the forced end of turn
    assert trajectory.given_up and trajectory.steps and written <= 500 < written + asked + 12


# ---- episodes that outgrow the context -------------------------------------------------------------------------------


def played_in(policy: Policy, length: int, overflow: Any, engine: type[HFEngine] = HFEngine) -> list[Trajectory]:
    """Four episodes of up to eight turns with this much context."""
    small = copy.copy(policy)
    small.max_context, small.context = length, overflow
    agent = ModelAgent(small, engine(small), SamplingParams(max_new_tokens=8))
    return Collector(agent, PlayConfig(seed=2)).collect_batch(
        jobs_for([EnvSpec("maze", {"max_steps": 8})], "train", range(4))
    )


@pytest.mark.parametrize("overflow", ["drop_oldest", "summarise"])
def test_where_all_turns_fit_nothing_changes(tiny_policy: Any, overflow: Any) -> None:
    """With room for all turns, the episodes are those of an agent that gives up, but for their provenance."""
    whole, other = (played_in(tiny_policy, 2048, kind) for kind in ("error", overflow))
    assert [t.steps for t in whole] == [t.steps for t in other]
    assert {**whole[0].provenance.sampling, "context": overflow} == other[0].provenance.sampling


@pytest.mark.parametrize("overflow", ["drop_oldest", "summarise"])
def test_an_episode_outgrows_the_context(tiny_policy: Any, overflow: Any) -> None:
    """The episode is played to its end in several sequences, none longer than the context, which hold every reply."""
    room = max(len(encode(t, tiny_policy.chat).input_ids) for t in played_in(tiny_policy, 2048, "error")) * 2 // 3
    given_up, episodes = played_in(tiny_policy, room, "error"), played_in(tiny_policy, room, overflow)
    assert all(t.given_up for t in given_up) and not any(t.given_up for t in episodes)
    for trajectory in episodes:
        sample = encode(trajectory, tiny_policy.chat)
        assert len(sample.starts) > 1 and sample.longest <= room
        assert sum(sample.mask) == sum(len(record.ids) for record in sampled(trajectory))
        for place in sample.sequences[1:]:
            text = tiny_policy.tokenizer.decode(sample.input_ids[place])
            has_summary = overflow == "summarise" and SUMMARY_REQUEST not in text
            note = "Summary of the earlier turns:" if has_summary else "[earlier turns left out:"
            assert trajectory.rules in text and trajectory.steps[0].observation in text and note in text
        dropped = [record.turns_dropped for record in sampled(trajectory) if record.starts_sequence]
        assert dropped == sorted(dropped) and dropped[0] > 0 and trajectory.turns_dropped == dropped[-1] < 8
        assert (trajectory.summary_tokens > 0) == (overflow == "summarise")


@pytest.mark.parametrize("overflow", ["drop_oldest", "summarise"])
def test_the_replies_of_all_sequences_are_the_models(tiny_policy: Any, overflow: Any) -> None:
    """The recorded log-probabilities of replies and summaries are those of a plain forward pass over each sequence."""
    room = max(len(encode(t, tiny_policy.chat).input_ids) for t in played_in(tiny_policy, 2048, "error")) * 2 // 3
    for trajectory in played_in(tiny_policy, room, overflow):
        sample = encode(trajectory, tiny_policy.chat)
        recorded = [logp for record in sampled(trajectory) for logp in record.logprobs]
        computed: list[float] = []
        for place in sample.sequences:
            ids, labels = torch.tensor([sample.input_ids[place]]), torch.tensor([sample.labels[place]])
            with torch.no_grad():
                computed += agent_logprobs(agent_logits(tiny_policy.model, ids, labels)).tolist()
        assert computed == pytest.approx(recorded, abs=1e-5)


class Repeating:
    """An engine that always samples the same reply."""

    digest = "0"

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids, self.prompts = tuple(ids), list[list[int]]()

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Any = None) -> list[Generation]:
        """Return the reply to each prompt."""
        self.prompts += map(list, prompts)
        return [Generation(self.ids, (0.0,) * len(self.ids), "stop") for _ in prompts]

    def sync(self, policy: Policy, version: int) -> None:
        """Keep the reply."""


def test_a_summary_has_no_thought_of_a_thinking_model(zoo: Any) -> None:
    """The thought stays in the tokens of the summary, and does not enter the next prompt."""
    policy = zoo.miniature("r1-distill", context="summarise", max_context=450)
    engine = Repeating(policy.chat.reply("<think>\nHidden.\n</think>\n\nAction: go north"))
    agent = ModelAgent(policy, engine, SamplingParams(max_new_tokens=len(engine.ids)))
    jobs = jobs_for([EnvSpec("maze", {"max_steps": 8})], "train", range(1))
    [trajectory] = Collector(agent, PlayConfig(prompt="none")).collect_batch(jobs)
    note = "Summary of the earlier turns:"
    texts = [text for text in map(policy.tokenizer.decode, engine.prompts) if note in text]
    assert trajectory.summary_tokens > 0 and texts
    assert all(text.split(note)[1].split("\n")[0] == " Action: go north" for text in texts)
