"""Agents: what replies to observations. The expert, a random agent and a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from agentgym_py.actions import format_reply
from agentgym_py.chat import opening_text
from agentgym_py.env import Task, TextEnv
from agentgym_py.errors import ConfigError
from agentgym_py.rng import Rng, seed_of
from agentgym_py.samples import encode_steps
from agentgym_py.trajectory import Step, Tokens

if TYPE_CHECKING:
    from agentgym_py.engine import Engine, SamplingParams
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
    """One reply; `tokens` where a model gave it."""

    text: str
    tokens: Tokens | None = None


class Agent(Protocol):
    """Replies to a batch of live episodes; None gives an episode up (out of context, nothing left to do)."""

    name: str
    sampling: dict[str, Any]

    @property
    def policy_digest(self) -> str | None:
        """SHA-256 of the weights that act now, where there are any."""
        ...

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """One reply an episode, in order."""
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
        return None if action is None else AgentReply(_framed(env, action, env.think(action) if self.thoughts else ""))


def title_of(agent: Agent) -> str:
    """Its name, and of an expert which one it is: `the exact expert` or `the fair expert`."""
    if isinstance(agent, ExpertAgent):
        return f"the {'fair' if agent.fair else 'exact'} expert"
    return agent.name


def _framed(env: TextEnv, action: str, thought: str = "") -> str:
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

    @property
    def policy_digest(self) -> str:
        """SHA-256 of the weights that the engine was last given."""
        return self._engine.digest

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """One sampled reply an episode; an episode that would outgrow the context is given up."""
        for episode in episodes:
            if episode.steps and not episode.ids:  # it goes on from another's steps
                episode.ids = encode_steps(episode.rules, episode.steps, self._policy.chat).input_ids
        contexts = [self._context(episode) for episode in episodes]
        limit = self._policy.max_length - self.params.max_new_tokens
        live = [i for i, context in enumerate(contexts) if len(episodes[i].ids) + len(context) <= limit]
        prompts = [episodes[i].ids + contexts[i] for i in live]
        seeds = [seed_of(episodes[i].seed, len(episodes[i].steps)) for i in live]
        replies: list[AgentReply | None] = [None] * len(episodes)
        for i, prompt, out in zip(live, prompts, self._engine.generate(prompts, self.params, seeds), strict=True):
            ids = tuple(out.ids)
            tokens = Tokens(tuple(contexts[i]), ids, tuple(out.logprobs), (1,) * len(ids))
            episodes[i].ids = prompt + list(ids)
            replies[i] = AgentReply(self._policy.decode(ids), tokens)
        return replies

    def _context(self, episode: Episode) -> list[int]:
        chat = self._policy.chat
        if not episode.steps:
            return chat.opening(opening_text(episode.rules, episode.observation))
        forced = [] if episode.ids[-1] == chat.end_of_turn else [chat.end_of_turn]
        return forced + chat.turn(episode.observation)


def require_room(policy: Policy, max_new_tokens: int) -> None:
    """ConfigError where even an empty opening and a reply of `max_new_tokens` outgrow the policy's context."""
    if len(policy.chat.opening("")) + max_new_tokens > policy.max_length:
        raise ConfigError(
            f"max_new_tokens {max_new_tokens} leaves no room for a prompt in {policy.name!r}'s {policy.max_length}"
        )
