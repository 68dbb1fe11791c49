"""A language model as an agent."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from agentgym_py.agents.base import AgentReply, Episode, ReplyStream, reply_seed
from agentgym_py.agents.context import SUMMARY_REQUEST, forced_end, new_sequence
from agentgym_py.engine.base import BatchEngine, RemoteEngine
from agentgym_py.errors import ConfigError
from agentgym_py.policy.tokens import encode_steps
from agentgym_py.rng import seed_of
from agentgym_py.trajectory import Tokens
from agentgym_py.trajectory.types import opening_text

if TYPE_CHECKING:
    from agentgym_py.engine import Engine, Generation, SamplingParams
    from agentgym_py.policy import Policy


class _Request(NamedTuple):
    """A prompt for the engine."""

    prompt: list[int]
    seed: int


class _Prompt(NamedTuple):
    """The prompt of an episode's next reply."""

    ids: list[int]
    context: list[int]
    """What is recorded with the reply: the tokens since the last one, or the whole prompt of a new sequence."""
    turns_dropped: int = 0
    """Number of turns that the prompt of a new sequence leaves out."""

    def record(self, out: Generation) -> Tokens:
        """Return the tokens of the reply to this prompt."""
        return Tokens(
            tuple(self.context), tuple(out.ids), tuple(out.logprobs), (1,) * len(out.ids),
            starts_sequence=self.turns_dropped > 0, turns_dropped=self.turns_dropped, cut=out.finish_reason == "length",
        )  # fmt: skip


_Replying: TypeAlias = Generator[_Request, "Generation", AgentReply | None]
"""The way to one reply: yields requests, takes their answers, returns the reply."""


class ModelAgent:
    """A policy with an engine: token ids in, token ids out; sampled text is never re-encoded."""

    def __init__(self, policy: Policy, engine: Engine, params: SamplingParams, name: str | None = None) -> None:
        require_room(policy, params.max_new_tokens)
        self.name = name or policy.name
        self.params = params
        self.sampling: dict[str, Any] = params.as_dict() | policy.chat.prompting
        self._policy, self._engine = policy, engine
        self.is_async = isinstance(engine, RemoteEngine)
        """Whether a server generates the replies."""
        if isinstance(engine, RemoteEngine):
            self.sampling["engine"] = engine.kind
        if policy.context != "error":
            self.sampling["context"] = policy.context

    @property
    def policy(self) -> Policy:
        """The policy that replies."""
        return self._policy

    @property
    def policy_digest(self) -> str:
        """SHA-256 of the weights in the engine."""
        return self._engine.digest

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Sample a reply for each episode; None gives an episode up that outgrows the context."""
        replies = dict[int, AgentReply | None]()
        replying = [self._replying(episode) for episode in episodes]
        answers: dict[int, Generation | None] = dict.fromkeys(range(len(episodes)))
        while answers:
            requests = dict[int, _Request]()
            for i, answer in answers.items():
                _advance(replying[i], answer, i, requests, replies)
            prompts, seeds = [r.prompt for r in requests.values()], [r.seed for r in requests.values()]
            outs = self._engine.generate(prompts, self.params, seeds) if prompts else []
            answers = dict(zip(requests, outs, strict=True))
        return [replies[i] for i in range(len(episodes))]

    async def areply(self, episode: Episode) -> AgentReply | None:
        """Sample one reply from a server's engine."""
        engine, replying = cast("RemoteEngine", self._engine), self._replying(episode)
        requests, replies, answer = dict[int, _Request](), dict[int, AgentReply | None](), None
        while True:
            _advance(replying, answer, 0, requests, replies)
            if not requests:
                return replies[0]
            request = requests.pop(0)
            answer = await engine.answer(request.prompt, self.params, request.seed)

    def reply_stream(self) -> ReplyStream | None:
        """Stream replies, if episodes can join the engine's batch while it generates."""
        if not isinstance(self._engine, BatchEngine):
            return None
        batch, replying = self._engine.batch(self.params), dict[int, _Replying]()

        def next_replies(live: Mapping[int, Episode]) -> list[tuple[int, AgentReply | None]]:
            answers: dict[int, Generation | None] = dict.fromkeys(number for number in live if number not in replying)
            while True:
                requests, replies = dict[int, _Request](), dict[int, AgentReply | None]()
                for number, answer in answers.items():
                    if number not in replying:
                        replying[number] = self._replying(live[number])
                    _advance(replying[number], answer, number, requests, replies)
                for number, request in requests.items():
                    batch.add(number, request.prompt, request.seed)
                if replies:
                    for number in replies:
                        del replying[number]
                    return list(replies.items())
                answers = {cast("int", number): out for number, out in batch.take_ended()}

        return next_replies

    def _replying(self, episode: Episode) -> _Replying:
        """Yield the requests of one reply; returns None if no reply fits into the context."""
        summary = None
        if request := self._summary_prompt(episode):
            out = yield _Request(request.ids, seed_of(episode.seed, "summary", len(episode.steps)))
            if out.error is not None:
                return AgentReply("", error=out.error)
            summary = request.record(out)
        if (prompt := self._prompt(episode, self._policy.answer(summary.ids) if summary else "")) is None:
            return None
        out = yield _Request(prompt.ids, reply_seed(episode))
        if out.error is not None:
            return AgentReply("", error=out.error)
        episode.ids = prompt.ids + list(out.ids)
        text = self._policy.chat.opened + self._policy.decode(out.ids)
        return AgentReply(text, prompt.record(out), summary=summary)

    def _prompt(self, episode: Episode, summary: str) -> _Prompt | None:
        context = self._context(episode)
        ids = episode.ids + context
        if len(ids) <= self._limit:
            return _Prompt(ids, context)
        if self._policy.context == "error" or not episode.steps:
            return None
        return self._new_sequence(episode, episode.observation, summary)

    def _new_sequence(self, episode: Episode, last: str, summary: str = "") -> _Prompt | None:
        new = new_sequence(episode, self._policy.chat, self._limit, last=last, summary=summary)
        return _Prompt(new.ids, new.ids, new.turns_dropped) if new else None

    def _summary_prompt(self, episode: Episode) -> _Prompt | None:
        """Return the prompt of a summary, if one is due."""
        if self._policy.context != "summarise" or not episode.steps:
            return None
        if len(episode.ids) + len(self._context(episode)) <= self._limit:
            return None
        context = forced_end(episode.ids, self._policy.chat) + self._policy.chat.turn(SUMMARY_REQUEST)
        if len(ids := episode.ids + context) <= self._limit:
            return _Prompt(ids, context)
        return self._new_sequence(episode, SUMMARY_REQUEST)

    @property
    def _limit(self) -> int:
        """Largest number of tokens of a prompt behind which a reply fits."""
        return self._policy.max_length - self.params.max_new_tokens

    def _context(self, episode: Episode) -> list[int]:
        """Encode what follows the last reply."""
        chat = self._policy.chat
        if not episode.steps:
            return chat.opening(opening_text(episode.rules, episode.observation))
        if not episode.ids:  # it continues the steps of another episode
            episode.ids = encode_steps(episode.rules, episode.steps, chat).sequence(-1).input_ids
        return forced_end(episode.ids, chat) + chat.turn(episode.observation)


def _advance(
    replying: _Replying, answer: Generation | None, number: int, requests: dict[int, _Request],
    replies: dict[int, AgentReply | None],
) -> None:  # fmt: skip
    """Advance to the next request of a reply, or to the reply; `answer` is None at the beginning."""
    try:
        requests[number] = replying.send(answer)  # type: ignore[arg-type]  # a generator begins with None
    except StopIteration as stop:
        replies[number] = stop.value


def require_room(policy: Policy, max_new_tokens: int) -> None:
    """ConfigError if an empty prompt and a reply of `max_new_tokens` already outgrow the policy's context."""
    if len(policy.chat.opening("")) + max_new_tokens > policy.max_length:
        raise ConfigError(
            f"max_new_tokens {max_new_tokens} leaves no room for a prompt in the {policy.max_length} tokens of "
            f"{policy.name!r}"
        )
