"""A language model beside an expert that acts now and then in its place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentgym_py.agents.base import AgentReply, Episode, env_failure, reply_seed
from agentgym_py.agents.expert import ExpertAgent
from agentgym_py.agents.model import ModelAgent
from agentgym_py.engine.base import Generation
from agentgym_py.rng import Rng

if TYPE_CHECKING:
    from agentgym_py.engine import Engine, SamplingParams
    from agentgym_py.policy import Policy


class MixedAgent(ModelAgent):
    """A policy in whose place the expert acts with a probability, drawn for each step (DAgger's mixture).

    The expert's replies are recorded in the policy's tokens with a mask of 0, because the policy did not sample them.
    """

    def __init__(
        self, policy: Policy, engine: Engine, params: SamplingParams, name: str | None = None, *,
        expert: ExpertAgent, expert_share: float,
    ) -> None:  # fmt: skip
        super().__init__(policy, engine, params, name)
        self.expert, self.expert_share = expert, expert_share
        if expert_share:
            self.sampling["expert_share"] = expert_share

    def _replying(self, episode: Episode) -> Any:
        if (reply := self._expert_reply(episode)) is not None:
            return reply
        return (yield from super()._replying(episode))

    def _expert_reply(self, episode: Episode) -> AgentReply | None:
        """Return the expert's reply; None if the policy is to act, or the expert's reply does not fit."""
        if Rng(reply_seed(episode), "who acts").uniform() >= self.expert_share:
            return None
        try:
            reply = self.expert.reply_in(episode)
        except BaseException as error:  # an env may raise anything
            return AgentReply("", error=repr(env_failure(error)))
        prompt = self._prompt(episode, "")
        if reply is None or prompt is None:
            return None
        ids = self._policy.chat.reply(reply.text)
        if len(prompt.ids) + len(ids) > self._policy.max_length:
            return None
        episode.ids = prompt.ids + ids
        tokens = prompt.record(Generation(tuple(ids), (0.0,) * len(ids), "stop"))
        return replace(reply, tokens=replace(tokens, mask=(0,) * len(ids)))
