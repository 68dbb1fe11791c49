"""Trajectories: the record of an episode, token-exact for models, with its provenance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym_py import trust
from agentgym_py.checks import is_path, parameters_of
from agentgym_py.env import EnvSpec, PartnerRecord, StopReason, TextEnv
from agentgym_py.env.registration import stored_env_class
from agentgym_py.errors import ConfigError
from agentgym_py.files import canonical_json

NOT_STORED = {"not_stored": True}
"""Metadata of a field that no store holds."""
OMIT_DEFAULT = {"omit_default": True}
"""Metadata of a field that a store holds only if its value is not the default; older stores lack it."""
UNSIGNED = {"unsigned": True}
"""Metadata of an integer from 0 to 2**64 - 1; others have a sign, and 64 bits with it."""
_RULES, _MOST_RULES = "{rules}", 100
"""How a prompt template names the rules, and how often it may."""
BY_TOOLS = "The actions are your tools: a tool call replaces the Action line."
"""What an agent that is offered tools reads after the rules, which describe actions in text."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token ids of one turn, as the engine sampled them; training never re-encodes text."""

    context: tuple[int, ...]
    """Ids before the reply: the opening prompt, or the end of the last turn and the observation."""
    ids: tuple[int, ...]
    """Ids of the reply, including the end of turn."""
    logprobs: tuple[float, ...]
    """Log-probability of each reply id under the sampling distribution; 0.0 where `mask` is 0."""
    mask: tuple[int, ...]
    """1 for an id that the model sampled, 0 for an inserted one.

    `ModelAgent` inserts none: after a reply that was cut, the end of turn comes first in the next `context`.
    """
    starts_sequence: bool = field(default=False, metadata=OMIT_DEFAULT)
    """Whether `context` is a whole prompt, because the earliest turns no longer fitted into the context."""
    turns_dropped: int = field(default=0, metadata=OMIT_DEFAULT)
    """Number of the episode's turns that such a prompt leaves out."""
    cut: bool = field(default=False, metadata=OMIT_DEFAULT)
    """Whether the reply reached the maximum length before its end."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts and cost of one reply, reported by an endpoint."""

    prompt_tokens: int | None
    """None if not reported, as below."""
    completion_tokens: int | None
    cost: float | None = None
    """By the user's prices, or those that litellm knows; None without prices."""
    model: str = ""
    """The endpoint's name of the model that answered."""
    cut: bool = field(default=False, metadata=OMIT_DEFAULT)
    """Whether the reply reached the maximum length before its end."""
    refused: str = field(default="", metadata=OMIT_DEFAULT)
    """Why the provider refused to reply: its words, or `content_filter`; empty if it did not. The reply is empty."""
    extra_calls: int = field(default=0, metadata=OMIT_DEFAULT)
    """Number of tool calls after the first one of the reply, which were not done."""
    latency: float | None = field(default=None, compare=False, metadata=NOT_STORED)
    """Seconds from the request to the reply, without waits and earlier attempts. It is in no file of episodes, because
    it is never the same twice; nor is `retries`."""
    retries: int = field(default=0, compare=False, metadata=NOT_STORED)
    """Number of attempts that got no answer, before the one that did."""


@dataclass(frozen=True, slots=True)
class Step:
    """One turn: observation, reply and reward."""

    observation: str
    """The observation before the action."""
    reply: str
    """The agent's full text."""
    thought: str
    action: str
    action_input: str | None
    reward: float
    valid: bool
    """Whether the action was valid."""
    reward_parts: Mapping[str, float] = field(default_factory=dict)
    tokens: Tokens | None = None
    """Tokens of a model's reply; None for an expert, a random agent or a person."""
    trained: bool = True
    """False if the reply must not be trained on (AgentTraj's `"loss": false`)."""
    usage: Usage | None = None
    """What an endpoint reported for the reply; None for other agents."""
    summary: Tokens | None = field(default=None, metadata=OMIT_DEFAULT)
    """Tokens of the summary that the model wrote before this reply, because the episode outgrew its context."""
    costs: Mapping[str, float] = field(default_factory=dict, metadata=OMIT_DEFAULT)
    """What the world counted as costs, by name, zeros included; empty if it names none."""

    @property
    def cut(self) -> bool:
        """Whether the reply reached the maximum length before its end; False if unknown."""
        return bool((self.tokens and self.tokens.cut) or (self.usage and self.usage.cut))

    @property
    def token_records(self) -> tuple[Tokens, ...]:
        """What a local model sampled in this turn: the summary, if there is one, and the reply."""
        return tuple(record for record in (self.summary, self.tokens) if record is not None)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Everything that is needed to reproduce a trajectory."""

    env_id: str
    env_version: int
    env_kwargs: Mapping[str, Any]
    """Arguments of `gymnasium.make`."""
    task_id: str
    seed: int = field(metadata=UNSIGNED)
    """Seed of the reply sampling of this episode."""
    agent: str
    """`expert`, `random`, ... or the policy's name."""
    policy_digest: str | None = None
    """SHA-256 of the policy's weights."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Sampling parameters of the engine; `tools` is true if tool calls played the episode."""
    prompt: str = "full"
    """Which rules text opened the episode: `full`, `brief` or `none`."""
    package_version: str = ""
    env_seed: int = field(default=0, metadata=UNSIGNED)
    """Seed of the world's generator at the reset; equal for all attempts at a task, so that they start alike."""
    prompt_template: str | None = field(default=None, metadata=OMIT_DEFAULT)
    """Text in place of these rules, in which `{rules}` stands for them."""
    note: str | None = field(default=None, metadata=OMIT_DEFAULT)
    """Text after the rules of this episode alone, such as a reflection on an earlier try."""
    files_digest: str | None = field(default=None, metadata=OMIT_DEFAULT)
    """Digest of the files that the world read, such as an index of tools (`TextEnv.files_digest`)."""

    def __post_init__(self) -> None:
        require_template(self.prompt_template)

    @property
    def task_key(self) -> tuple[str, str, str]:
        """Identity of the task: its id in an environment with its arguments."""
        return self.env_id, canonical_json(self.env_kwargs), self.task_id


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode."""

    id: str
    """Unique within its store."""
    provenance: Provenance
    split: str
    kind: str
    difficulty: str
    instruction: str
    rules: str
    """The rules text that opened the episode, before the first observation; may be empty.

    It lacks the sentence that an agent with tools reads after it (`tool_rules`), so that text can be made of it.
    """
    steps: tuple[Step, ...]
    final_observation: str
    reward: float
    """The episode's return."""
    success: bool
    stop_reason: StopReason | None
    """How the episode ended; None if a foreign file does not say."""
    optimal_steps: int | None = None
    error: str | None = None
    """What failed; a trajectory with an error always has the stop reason `ERROR`."""
    partner: PartnerRecord | None = field(default=None, metadata=OMIT_DEFAULT)
    """The moves of an episode whose other roles a frozen model played, from which it is replayed without the model."""

    def __post_init__(self) -> None:
        if self.error is not None:
            object.__setattr__(self, "stop_reason", StopReason.ERROR)

    def __str__(self) -> str:
        """Return the episode as a text: each observation, the reply to it after `> `, and how it ended.

        Control characters are visible, as on the command line.
        """
        from agentgym_py.escapes import visible

        texts = [text for step in self.steps for text in (step.observation, "> " + step.reply.replace("\n", "\n> "))]
        reason = self.error or (self.stop_reason.value if self.stop_reason else "")
        end = "success" if self.success else f"no success ({reason})" if reason else "no success"
        last = f"{self.task_id}: {end}, reward {self.reward:.3g}"
        return visible("\n".join(filter(None, [*texts, self.final_observation, last])))

    @property
    def terminated(self) -> bool:
        """Whether the world ended the episode."""
        return self.stop_reason is StopReason.TERMINATED

    @property
    def truncated(self) -> bool:
        """Whether the episode reached the step limit; False if the agent gave up or the infrastructure failed."""
        return self.stop_reason is StopReason.TRUNCATED

    @property
    def given_up(self) -> bool:
        """Whether the agent ended the episode."""
        return self.stop_reason is StopReason.GAVE_UP

    @property
    def is_evidence(self) -> bool:
        """Whether the episode is evidence about its agent: False if an infrastructure failure ended it."""
        return self.stop_reason is not StopReason.ERROR

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self.provenance.task_id

    @property
    def has_tokens(self) -> bool:
        """Whether every reply has its tokens."""
        return bool(self.steps) and all(step.tokens is not None for step in self.steps)

    @property
    def outgrew_context(self) -> bool:
        """Whether it continued without its earliest turns."""
        return any(record.starts_sequence for step in self.steps for record in step.token_records)

    @property
    def turns_dropped(self) -> int:
        """Number of turns that its last prompt leaves out."""
        return max((record.turns_dropped for step in self.steps for record in step.token_records), default=0)

    @property
    def costs(self) -> dict[str, float]:
        """The sum of each cost over the steps; empty if the world names none."""
        names = dict.fromkeys(name for step in self.steps for name in step.costs)
        return {name: math.fsum(step.costs.get(name, 0.0) for step in self.steps) for name in names}

    @property
    def summary_tokens(self) -> int:
        """Number of tokens of its summaries."""
        return sum(len(step.summary.ids) for step in self.steps if step.summary)

    def env_spec(self) -> EnvSpec:
        """Return the spec of this episode's environment.

        Raises:
            ConfigError: the trajectory names something else than an installed or registered TextEnv, such as a server
                or Python source, or a path that the user has not named. A file must not choose what is run or read.
            UnknownNameError: there is no such environment.
        """
        return self._stored_spec(self.provenance.env_kwargs)

    def replay_spec(self) -> EnvSpec:
        """Return the spec of an environment that can replay this episode; call `restart` on it.

        It is `env_spec`, but without a frozen model in the other roles, if its moves are recorded. An environment that
        leaves the recorded moves has the exact expert in these roles.

        Raises:
            ConfigError, UnknownNameError: as `env_spec`.
        """
        kwargs = self.provenance.env_kwargs
        if self.partner is not None:
            others = {name: value for name, value in kwargs.items() if name != "partner_model"}
            kwargs = others | {"partner": "recorded"}
        return self._stored_spec(kwargs)

    def restart(self, env: TextEnv) -> str:
        """Reset an environment of `env_spec` or `replay_spec` to the start of this episode; return its observation.

        Raises:
            AgentGymError: the environment does not have the task, or takes no recorded moves.
        """
        options: dict[str, Any] = {"task": self.task_id}
        if self.partner is not None:
            options["partner"] = self.partner
        return env.reset(seed=self.provenance.env_seed, options=options)[0]

    def _stored_spec(self, kwargs: Mapping[str, Any]) -> EnvSpec:
        spec = EnvSpec(self.provenance.env_id, kwargs)
        try:
            world: Any = stored_env_class(spec.name)
            parameters = parameters_of(world)
        except ConfigError as error:
            raise ConfigError(f"{self.id}: {error}") from error
        for name, value in spec.kwargs.items():
            if name in parameters and is_path(parameters[name]) and value is not None:
                trust.require_path(value, f"{self.id}, argument {name}")
        return spec


@dataclass(frozen=True, slots=True)
class Preference:
    """A better and a worse episode that open with the same rules and observation."""

    id: str
    chosen: Trajectory
    rejected: Trajectory


def require_template(template: str | None) -> None:
    """Raise ConfigError if a prompt template names the rules so often that they would fill the memory."""
    if template is not None and template.count(_RULES) > _MOST_RULES:
        raise ConfigError(f"prompt_template may name {_RULES} at most {_MOST_RULES} times")


def with_template(template: str | None, rules: str) -> str:
    """Return a prompt template with the rules in it; the rules themselves without one."""
    return rules if template is None else template.replace(_RULES, rules)


def with_note(note: str | None, rules: str) -> str:
    """Return the rules with the note of an episode after them; the rules alone without one."""
    return "\n\n".join(filter(None, (rules, note)))


def tool_rules(rules: str) -> str:
    """Return the rules of an episode as an agent that is offered tools reads them; empty rules stay empty."""
    return rules if not rules or BY_TOOLS in rules else f"{rules}\n\n{BY_TOOLS}"


def opening_text(rules: str, observation: str) -> str:
    """Return the first user turn: the rules, if any, and the first observation."""
    return f"{rules}\n\n{observation}" if rules else observation
