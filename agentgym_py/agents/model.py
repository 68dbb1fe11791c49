"""A language model as an agent."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from agentgym_py.agents.base import AgentReply, Episode, ReplyStream, reply_seed
from agentgym_py.engine.base import BatchEngine, RemoteEngine
from agentgym_py.errors import ConfigError
from agentgym_py.policy.tokens import encode_steps
from agentgym_py.trajectory import Tokens
from agentgym_py.trajectory.types import opening_text

if TYPE_CHECKING:
    from agentgym_py.engine import Engine, Generation, SamplingParams
    from agentgym_py.policy import Policy


class ModelAgent:
    """A policy with an engine: token ids in, token ids out; sampled text is never re-encoded."""

    def __init__(self, policy: Policy, engine: Engine, params: SamplingParams, name: str | None = None) -> None:
        require_room(policy, params.max_new_tokens)
        self.name = name or policy.name
        self.params = params
        self.sampling: dict[str, Any] = params.as_dict()
        self._policy, self._engine = policy, engine
        self.is_async = isinstance(engine, RemoteEngine)
        """Whether a server generates the replies."""
        if isinstance(engine, RemoteEngine):
            self.sampling["engine"] = engine.kind

    @property
    def policy_digest(self) -> str:
        """SHA-256 of the weights in the engine."""
        return self._engine.digest

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Sample a reply for each episode; give up an episode that would outgrow the context."""
        prompts = [self._prompt(episode) for episode in episodes]
        live = [(episode, prompt) for episode, prompt in zip(episodes, prompts, strict=True) if prompt]
        seeds = [reply_seed(episode) for episode, _ in live]
        outs = self._engine.generate([prompt for _, prompt in live], self.params, seeds)
        replies = iter([self._record(episode, prompt, out) for (episode, prompt), out in zip(live, outs, strict=True)])
        return [next(replies) if prompt else None for prompt in prompts]

    async def areply(self, episode: Episode) -> AgentReply | None:
        """Sample one reply from a server's engine."""
        prompt = self._prompt(episode)
        if not prompt:
            return None
        engine = cast("RemoteEngine", self._engine)
        return self._record(episode, prompt, await engine.answer(prompt, self.params, reply_seed(episode)))

    def reply_stream(self) -> ReplyStream | None:
        """Stream replies, if episodes can join the engine's batch while it generates."""
        if not isinstance(self._engine, BatchEngine):
            return None
        batch, prompts = self._engine.batch(self.params), dict[Hashable, list[int]]()

        def next_replies(live: Mapping[int, Episode]) -> list[tuple[int, AgentReply | None]]:
            given_up = list[tuple[int, AgentReply | None]]()
            for number, episode in live.items():
                if number in prompts:
                    continue
                if prompt := self._prompt(episode):
                    prompts[number] = prompt
                    batch.add(number, prompt, reply_seed(episode))
                else:
                    given_up.append((number, None))
            if given_up:
                return given_up
            ended = [(cast("int", number), out) for number, out in batch.take_ended()]
            return [(number, self._record(live[number], prompts.pop(number), out)) for number, out in ended]

        return next_replies

    def _prompt(self, episode: Episode) -> list[int]:
        """The episode's ids and those of its observation; empty if no reply fits behind them."""
        if episode.steps and not episode.ids:  # it continues the steps of another episode
            episode.ids = encode_steps(episode.rules, episode.steps, self._policy.chat).input_ids
        prompt = episode.ids + self._context(episode)
        return prompt if len(prompt) + self.params.max_new_tokens <= self._policy.max_length else []

    def _record(self, episode: Episode, prompt: list[int], out: Generation) -> AgentReply:
        if out.error is not None:
            return AgentReply("", error=out.error)
        context, ids = prompt[len(episode.ids) :], tuple(out.ids)
        episode.ids = prompt + list(ids)
        tokens = Tokens(tuple(context), ids, tuple(out.logprobs), (1,) * len(ids))
        return AgentReply(self._policy.decode(ids), tokens)

    def _context(self, episode: Episode) -> list[int]:
        chat = self._policy.chat
        if not episode.steps:
            return chat.opening(opening_text(episode.rules, episode.observation))
        end_of_cut_reply = [] if episode.ids[-1] == chat.end_of_turn else [chat.end_of_turn]
        return end_of_cut_reply + chat.turn(episode.observation)


def require_room(policy: Policy, max_new_tokens: int) -> None:
    """ConfigError if an empty prompt and a reply of `max_new_tokens` already outgrow the policy's context."""
    if len(policy.chat.opening("")) + max_new_tokens > policy.max_length:
        raise ConfigError(
            f"max_new_tokens {max_new_tokens} leaves no room for a prompt in the {policy.max_length} tokens of "
            f"{policy.name!r}"
        )
