"""Agents: what replies to observations. The expert, a random agent and a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from agentgym_py.actions import format_reply
from agentgym_py.env import Task, TextEnv
from agentgym_py.errors import ConfigError
from agentgym_py.rng import Rng, seed_of
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
    trained: bool = True
    """False for a reply that nobody should learn."""


class Agent(Protocol):
    """Replies to a batch of live episodes; None gives an episode up (out of context, nothing left to do)."""

    name: str
    policy_digest: str | None
    sampling: dict[str, Any]

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """One reply an episode, in order."""
        ...


class ExpertAgent:
    """Does what the world's expert says, asked anew before each step, with the teacher's thought before each action.

    With `detours` it does, with that probability, something else instead where there is something else: an admissible
    action, drawn uniformly among those that do not end the episode. Nobody is to learn these (`Step.trained` is false),
    but how the expert gets back on its way. The idea is DART's (Laskey et al., arXiv:1703.09327), which fits its noise
    to the learner's errors and labels noisy steps too.
    """

    name = "expert"
    policy_digest: str | None = None

    def __init__(self, *, thoughts: bool = True, detours: float = 0.0) -> None:
        if not 0.0 <= detours < 1.0:
            raise ConfigError(f"detours must be at least 0 and below 1, got {detours}")
        self.thoughts, self.detours = thoughts, detours
        self.sampling: dict[str, Any] = {"thoughts": thoughts, "detours": detours}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """The first action of a plan from where each episode stands."""
        return [self._reply(episode) for episode in episodes]

    def _reply(self, episode: Episode) -> AgentReply | None:
        plan = episode.env.expert()
        if not plan:
            return None
        detour = self._detour(episode, plan[0])
        if detour is not None:
            return AgentReply(_framed(episode.env, detour), trained=False)
        return AgentReply(_framed(episode.env, plan[0], episode.env.think(plan[0]) if self.thoughts else ""))

    def _detour(self, episode: Episode, planned: str) -> str | None:
        rng = Rng(episode.seed, "detour", len(episode.steps))
        if rng.uniform() >= self.detours:
            return None
        others = [action for action in _listed(episode.env) if action != planned]
        return next((action for action in rng.sample(others, len(others)) if not _ends(episode.env, action)), None)


def _framed(env: TextEnv, action: str, thought: str = "") -> str:
    """The ReAct text of a reply; the bare action in a world that reads no frames."""
    text = format_reply(action, thought)
    return action if env.read(text).action == text else text


def _ends(env: TextEnv, action: str) -> bool:
    """Whether an action would end the episode; it is tried in the world, which is then put back."""
    before = env.snapshot()
    try:
        *_, terminated, truncated, _ = env.step(action)
    except Exception:  # a stranger's world may fail anyhow; nobody goes there, then
        terminated = truncated = True
    env.restore(before)
    return terminated or truncated


def _listed(env: TextEnv) -> list[str]:
    actions = env.actions()
    if actions is None:
        raise ConfigError(f"{type(env).__name__} does not list its actions: no random agent and no detours there")
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
        self.name = name or policy.name
        self.policy_digest: str | None = policy.digest()
        self.params = params
        self.sampling: dict[str, Any] = params.as_dict()
        self._policy, self._engine = policy, engine

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """One sampled reply an episode; an episode that would outgrow the context is given up."""
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


def opening_text(rules: str, observation: str) -> str:
    """The first user turn: the rules, if any, and the first observation."""
    return f"{rules}\n\n{observation}" if rules else observation
