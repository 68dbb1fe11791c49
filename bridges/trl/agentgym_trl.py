"""Worlds of agentgym-py in trl's GRPOTrainer, whose own loop calls their tools.

    spec = AgentGymSpec("shop", tasks=range(1000))
    GRPOTrainer(
        model, args=GRPOConfig(max_tool_calling_iterations=spec.max_steps, ...), train_dataset=spec.train_dataset,
        environment_factory=spec.environment_factory, reward_funcs=spec.reward_funcs,
    )

A row of the data set is a task, so all completions of a group start in the same state. An episode that ends with an
infrastructure failure has the reward None: trl leaves it out of its group's mean and gives it the advantage 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from inspect import Parameter, Signature
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from agentgym_py.agents.chat import offered_tools
from agentgym_py.env import EnvSpec, Prompt, TextEnv
from agentgym_py.errors import AgentGymError, ConfigError, InfrastructureError, ResetNeededError
from agentgym_py.rewards.functions import build_reward
from agentgym_py.rng import seed_of
from agentgym_py.serving.tool_episode import EpisodeSettings, ToolEpisode
from agentgym_py.serving.tool_parameters import FAILED, tool_parameters
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.formats.openai import ACT_TOOL
from agentgym_py.trajectory.scores import Scorer, apply_scores

if TYPE_CHECKING:
    from datasets import Dataset

_RESERVED = ("reset", "get_reward", "trajectory")
"""Names that no tool can have: trl calls these methods itself, or the environment needs the name."""


class AgentGymSpec:
    """Tasks of a world for GRPOTrainer: its arguments `train_dataset`, `environment_factory` and `reward_funcs`.

    If all tasks have the same tools, each is a method. Otherwise there is one method, `act`, which takes an action's
    text.

    Args:
        env: The world.
        tasks: Numbers of the tasks.
        split: Their split.
        reward: A weighted sum of reward functions, as `agentgym train --reward`.
        tools: Whether to offer the world's tools; False: only `act`.
        prompt: Which rules text opens an episode.
        seed: Seed of the worlds, as in `agentgym collect`: the same seed and task start in the same state.

    Raises:
        ConfigError, UnknownNameError: an argument is wrong, or there is no such world or task.
    """

    def __init__(
        self, env: EnvSpec | str, *, tasks: Iterable[int], split: str = "train", reward: str = "return",
        tools: bool = True, prompt: Prompt = "full", seed: int = 0,
    ) -> None:  # fmt: skip
        spec = EnvSpec(env) if isinstance(env, str) else env
        self.settings = EpisodeSettings(spec, split, seed, prompt, calls=True)
        """How episodes start."""
        self.scorer = build_reward(reward)
        self.task_ids = self.settings.task_ids(tasks)
        """Ids of the tasks."""
        if not self.task_ids:
            raise ConfigError("tasks is empty: give at least one number, such as range(100)")
        with closing(spec.make()) as world:
            self.max_steps = world.max_steps
            """The world's step limit: a value for `max_tool_calling_iterations`."""
            shared = _shared_tools(world, self.task_ids, seed) if tools else None
        self.tools: Sequence[Mapping[str, Any]] = shared or [ACT_TOOL]
        """JSON schemas of the methods."""
        self.settings = replace(self.settings, tools=shared is not None)

    @cached_property
    def train_dataset(self) -> Dataset:
        """Rows with `prompt`, an empty user turn to which trl appends the opening text, and `task`, an id."""
        from datasets import Dataset

        prompts = [[{"role": "user", "content": ""}] for _ in self.task_ids]
        return Dataset.from_dict({"prompt": prompts, "task": self.task_ids})

    @property
    def environment_factory(self) -> Callable[[], ToolEnvironment]:
        """Makes environments; it can be pickled."""
        return partial(make_environment, self.settings, json.dumps(self.tools))

    @property
    def reward_funcs(self) -> list[Callable[..., list[float | None]]]:
        """The reward of the spec. It also logs `success`, `steps` and `infrastructure_failures`."""
        return [partial(episode_reward, scorer=self.scorer)]


class ToolEnvironment:
    """An environment of trl. A subclass has one method per tool, and no other public method but `reset`."""

    def __init__(self, settings: EpisodeSettings) -> None:
        self._settings = settings
        self._episode: ToolEpisode | None = None
        self._error: str | None = None

    def reset(self, *, task: str, **_row: Any) -> str:
        """Start the episode of a row's task; return the rules and the first observation."""
        env = self._episode.env if self._episode is not None else None
        if env is not None and self._error is not None:
            with suppress(Exception):  # it has failed already
                env.close()
            env = None
        self._episode = self._error = None
        try:
            self._episode = ToolEpisode(self._settings, task, env)
        except InfrastructureError as error:
            self._error = str(error)
            return FAILED
        return self._episode.opening

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Do one step and return the observation."""
        if self._error is None and self._episode is None:
            raise ResetNeededError("the environment needs reset(task=ID) before a tool is called")
        if self._error is None and self._episode is not None:
            try:
                return self._episode.call(tool, arguments).observation
            except InfrastructureError as error:
                self._error = str(error)  # trl would show the exception to the model, and continue
        return FAILED

    @property
    def trajectory(self) -> Trajectory | None:
        """The episode so far; None if it could not start."""
        return self._episode.trajectory("trl", self._error) if self._episode is not None else None


def make_environment(settings: EpisodeSettings, tools: str) -> ToolEnvironment:
    """Make an environment with methods for `tools`, a JSON list of schemas."""
    return _environment_class(tools)(settings)


def episode_reward(
    environments: Sequence[ToolEnvironment], *, scorer: Scorer | None = None,
    log_metric: Callable[[str, float], None] | None = None, **_columns: Any,
) -> list[float | None]:  # fmt: skip
    """Return the rewards of finished episodes, None after an infrastructure failure: a reward function of GRPOTrainer.

    Args:
        environments: The environments, one per completion.
        scorer: What scores the episodes; None: their return.
        log_metric: trl's function to log a number.
    """
    episodes = [environment.trajectory for environment in environments]
    started = [episode for episode in episodes if episode is not None]
    scored = dict(zip(map(id, started), apply_scores(started, scorer), strict=True))
    results = [scored[id(episode)] if episode is not None else None for episode in episodes]
    evidence = [result for result in results if result is not None and result.is_evidence]
    if log_metric:
        log_metric("infrastructure_failures", float(len(results) - len(evidence)))
        for episode in evidence:
            log_metric("success", float(episode.success))
            log_metric("steps", float(len(episode.steps)))
    return [result.reward if result is not None and result.is_evidence else None for result in results]


# ---- tools as methods ------------------------------------------------------------------------------------------------


def _shared_tools(world: TextEnv, tasks: Sequence[str], seed: int) -> list[dict[str, Any]] | None:
    """Return the tools that all tasks offer at their start, and the first one along its expert's way; else None."""
    first = None
    for number, task in enumerate(tasks):
        world.reset(seed=seed_of(seed, "world", task), options={"task": task})
        first = offered_tools(world) if first is None else first
        plan = [] if number else _plan(world)
        if not all(_can_be_method(tool) for tool in first) or offered_tools(world) != first:
            return None
        for action in plan:
            world.step(action)
            if offered_tools(world) != first:
                return None
    return first


def _plan(world: TextEnv) -> list[str]:
    try:
        return world.expert()
    except AgentGymError:  # a server may keep it to itself
        return []


def _can_be_method(tool: Mapping[str, Any]) -> bool:
    """Return whether Python and trl allow the names of a tool and its parameters."""
    name, parameters = tool["function"]["name"], tool["function"]["parameters"].get("properties", {})
    names = [name, *parameters]
    return name not in _RESERVED and all(
        word.isidentifier() and not iskeyword(word) and not word.startswith("_") for word in names
    )


@lru_cache(maxsize=64)
def _environment_class(tools: str) -> type[ToolEnvironment]:
    """Make the class of environments with these tools: always the same one, because trl compares classes."""
    methods = {tool["function"]["name"]: _method(tool["function"]) for tool in json.loads(tools)}
    return type("AgentGymEnvironment", (ToolEnvironment,), methods)


def _method(function: Mapping[str, Any]) -> Callable[..., str]:
    """Make the method of a tool, whose signature and docstring give its schema back to transformers."""
    name, schema = function["name"], function["parameters"]
    properties, parameters = schema.get("properties", {}), tool_parameters(name, schema)

    def call(self: ToolEnvironment, /, **arguments: Any) -> str:
        return self._call(name, arguments)

    this = Parameter("self", Parameter.POSITIONAL_ONLY)
    call.__signature__ = Signature([this, *parameters], return_annotation=str)  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = name
    call.__annotations__ = {**{parameter.name: parameter.annotation for parameter in parameters}, "return": str}
    about = [f"    {key}: {value.get('description') or f'The {key}.'}" for key, value in properties.items()]
    call.__doc__ = "\n".join([function.get("description") or name, *(["", "Args:", *about] if about else [])])
    return call
