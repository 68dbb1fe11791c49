"""Agents: what replies to observations. The expert, a random agent and a language model."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from agentgym_py.actions import format_reply
from agentgym_py.chat import opening_text
from agentgym_py.env import Task, TextEnv
from agentgym_py.errors import ConfigError
from agentgym_py.rng import Rng, seed_of
from agentgym_py.samples import encode_steps
from agentgym_py.trajectory import Step, Tokens, Usage

if TYPE_CHECKING:
    from agentgym_py.engine import BatchEngine, Engine, Generation, RemoteEngine, SamplingParams
    from agentgym_py.policy import Policy


@dataclass(slots=True)
class Episode:
    """A live episode: what an agent may look at."""

    env: TextEnv
    task: Task
    seed: int
    """Seed of everything that the agent draws in this episode."""
    rules: str
    observation: str
    steps: list[Step] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    """Token ids of the episode so far, for agents that are models."""


@dataclass(frozen=True, slots=True)
class AgentReply:
    """One reply; `tokens` where a model gave it, `usage` where an endpoint did."""

    text: str
    tokens: Tokens | None = None
    usage: Usage | None = None
    error: str | None = None
    """An infrastructure failure in place of a reply: the episode ends, and is no evidence."""


class Agent(Protocol):
    """Replies to a batch of live episodes; None gives an episode up (out of context, nothing left to do).

    One that cannot play so many at once has `slots`, the most that it can. That no episode waits for another's reply,
    one whose replies come from elsewhere may have `elsewhere = True` and a coroutine `reply(episode)`, which is awaited
    in the loop of `agentgym_py.asking`; one that computes them here may have `playing()`, of which each collection asks
    for a `Playing` of its own.
    """

    name: str
    sampling: dict[str, Any]

    @property
    def policy_digest(self) -> str | None:
        """SHA-256 of the weights that act now, where there are any."""
        ...

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """One reply an episode, in order."""
        ...


class Playing(Protocol):
    """Replies to episodes that are live, a few at a time."""

    def __call__(self, live: Mapping[int, Episode]) -> Sequence[tuple[int, AgentReply | None]]:
        """Some of their replies, by number, at least one; whose is not among them waits for it."""
        ...


class ExpertAgent:
    """Does what the world's expert says, asked anew before each step.

    The exact expert knows everything; with `fair` it is the one that knows only what the episode has shown
    (`TextEnv.fair_expert`). An agent that sees no more than that can learn all that the fair one does, but not what the
    exact one does for reasons that it cannot see (Weihs et al., arXiv:2007.12173, on the imitation gap). With
    `thoughts` the teacher's thought (`TextEnv.think`) stands before an action, where there is one.
    """

    name = "expert"
    policy_digest: str | None = None

    def __init__(self, *, fair: bool = False, thoughts: bool = True) -> None:
        self.fair, self.thoughts = fair, thoughts
        self.sampling: dict[str, Any] = {"fair": fair, "thoughts": thoughts}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """The expert's next action from where each episode stands."""
        return [self._reply(episode.env) for episode in episodes]

    def _reply(self, env: TextEnv) -> AgentReply | None:
        action = env.fair_expert() if self.fair else next(iter(env.expert()), None)
        return None if action is None else AgentReply(framed(env, action, env.think(action) if self.thoughts else ""))


def title_of(agent: Agent) -> str:
    """Its name, and of an expert which one it is: `the exact expert` or `the fair expert`."""
    return title(agent.name, agent.sampling)


def title(name: str, sampling: Mapping[str, Any]) -> str:
    """The same of an agent of which only this is known."""
    return f"the {'fair' if sampling.get('fair') else 'exact'} expert" if name == ExpertAgent.name else name


def framed(env: TextEnv, action: str, thought: str = "") -> str:
    """The ReAct text of a reply; the bare action in a world that reads no frames."""
    said = env.read(action)
    text = format_reply(said.action, thought, said.action_input)
    return action if env.read(text).action == text else text


def _listed(env: TextEnv) -> list[str]:
    actions = env.actions()
    if actions is None:
        raise ConfigError(f"{type(env).__name__} does not list its actions: no random agent there")
    return actions


class RandomAgent:
    """Draws from the admissible actions, uniformly."""

    name = "random"
    policy_digest: str | None = None

    def __init__(self) -> None:
        self.sampling: dict[str, Any] = {}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """A random admissible action an episode."""
        return [self._reply(episode) for episode in episodes]

    def _reply(self, episode: Episode) -> AgentReply | None:
        actions = _listed(episode.env)
        return AgentReply(Rng(episode.seed, len(episode.steps)).choice(actions)) if actions else None


class ModelAgent:
    """A policy behind an engine: token ids in, token ids out, nothing sampled is ever encoded again."""

    def __init__(self, policy: Policy, engine: Engine, params: SamplingParams, name: str | None = None) -> None:
        require_room(policy, params.max_new_tokens)
        self.name = name or policy.name
        self.params = params
        self.sampling: dict[str, Any] = params.as_dict()
        self._policy, self._engine = policy, engine
        self.elsewhere = hasattr(engine, "answer")
        """Whether `reply` takes the place of `act`."""
        if self.elsewhere:
            self.sampling["engine"] = cast("RemoteEngine", engine).kind

    @property
    def policy_digest(self) -> str:
        """SHA-256 of the weights that the engine was last given."""
        return self._engine.digest

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """One sampled reply an episode; an episode that would outgrow the context is given up."""
        prompts = [self._prompt(episode) for episode in episodes]
        live = [(episode, prompt) for episode, prompt in zip(episodes, prompts, strict=True) if prompt]
        seeds = [_seed(episode) for episode, _ in live]
        found = self._engine.generate([prompt for _, prompt in live], self.params, seeds)
        replies = iter([self._taken(episode, prompt, out) for (episode, prompt), out in zip(live, found, strict=True)])
        return [next(replies) if prompt else None for prompt in prompts]

    async def reply(self, episode: Episode) -> AgentReply | None:
        """The same for one episode, of an engine whose replies come from elsewhere."""
        prompt = self._prompt(episode)
        if not prompt:
            return None
        engine = cast("RemoteEngine", self._engine)
        return self._taken(episode, prompt, await engine.answer(prompt, self.params, _seed(episode)))

    def playing(self) -> Playing | None:
        """Replies as they end, where the engine gives them so."""
        if not hasattr(self._engine, "batch"):
            return None
        batch, asked = cast("BatchEngine", self._engine).batch(self.params), dict[Hashable, list[int]]()

        def some(live: Mapping[int, Episode]) -> list[tuple[int, AgentReply | None]]:
            given_up = list[tuple[int, AgentReply | None]]()
            for number, episode in live.items():
                if number in asked:
                    continue
                if prompt := self._prompt(episode):
                    asked[number] = prompt
                    batch.add(number, prompt, _seed(episode))
                else:
                    given_up.append((number, None))
            if given_up:
                return given_up
            ended = [(cast("int", number), out) for number, out in batch.ended()]
            return [(number, self._taken(live[number], asked.pop(number), out)) for number, out in ended]

        return some

    def _prompt(self, episode: Episode) -> list[int]:
        """The episode's ids and those of what it sees now; none where no reply has room behind them."""
        if episode.steps and not episode.ids:  # it goes on from another's steps
            episode.ids = encode_steps(episode.rules, episode.steps, self._policy.chat).input_ids
        prompt = episode.ids + self._context(episode)
        return prompt if len(prompt) + self.params.max_new_tokens <= self._policy.max_length else []

    def _taken(self, episode: Episode, prompt: list[int], out: Generation) -> AgentReply:
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
        forced = [] if episode.ids[-1] == chat.end_of_turn else [chat.end_of_turn]
        return forced + chat.turn(episode.observation)


def _seed(episode: Episode) -> int:
    return seed_of(episode.seed, len(episode.steps))


def require_room(policy: Policy, max_new_tokens: int) -> None:
    """ConfigError where even an empty opening and a reply of `max_new_tokens` outgrow the policy's context."""
    if len(policy.chat.opening("")) + max_new_tokens > policy.max_length:
        raise ConfigError(
            f"max_new_tokens {max_new_tokens} leaves no room for a prompt in {policy.name!r}'s {policy.max_length}"
        )
