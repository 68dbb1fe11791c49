from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import ExpertAgent, ModelAgent
from agentgym_py.agents.mixed import MixedAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.policy.tokens import encode

JOBS = jobs_for([EnvSpec("shop", {"max_steps": 6})], "train", range(3))
PARAMS = SamplingParams(temperature=1.0, max_new_tokens=12)


def mixed(policy: Any, share: float, agent: Any = MixedAgent, **more: Any) -> list[Any]:
    """Episodes of a mixture."""
    if agent is MixedAgent:
        more |= {"expert": ExpertAgent(fair=True), "expert_share": share}
    return Collector(agent(policy, HFEngine(policy), PARAMS, **more), PlayConfig(seed=1)).collect_batch(JOBS)


def test_with_share_1_the_expert_plays_in_the_policys_tokens(tiny_policy: Any) -> None:
    """Replies are the expert's, tokens those that its text is encoded to, and none counts as sampled."""
    plain = Collector(ExpertAgent(fair=True), PlayConfig(seed=1)).collect_batch(JOBS)
    for trajectory, expert in zip(mixed(tiny_policy, 1.0), plain, strict=True):
        assert [step.reply for step in trajectory.steps] == [step.reply for step in expert.steps]
        assert encode(trajectory, tiny_policy.chat).input_ids == encode(expert, tiny_policy.chat).input_ids
        assert trajectory.has_tokens and not any(encode(trajectory, tiny_policy.chat).mask)
        assert trajectory.provenance.sampling["expert_share"] == 1.0


def test_with_share_0_the_policy_plays(tiny_policy: Any) -> None:
    """As without an expert, byte by byte."""
    assert mixed(tiny_policy, 0.0) == mixed(tiny_policy, 0.0, ModelAgent)


def test_a_mixed_episode_continues_token_for_token(tiny_policy: Any) -> None:
    """Each context is what follows the reply before, whoever wrote it; a reply that was cut is ended first."""
    chat, whose = tiny_policy.chat, set[bool]()
    for trajectory in mixed(tiny_policy, 0.5):
        for before, step in zip(trajectory.steps, trajectory.steps[1:], strict=False):
            assert step.tokens and before.tokens
            ended = before.tokens.ids[-1] == chat.end_of_turn
            assert list(step.tokens.context) == [chat.end_of_turn] * (not ended) + chat.turn(step.observation)
            whose.add(any(step.tokens.mask))
            if not any(step.tokens.mask):
                text = replace(step, tokens=None)
                assert list(step.tokens.ids) == chat.reply(text.reply)
    assert whose == {True, False}
