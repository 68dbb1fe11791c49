"""What the public functions accept, and what becomes of it: names, numbers, files and objects.

Each function raises ConfigError for a value of another kind; the message names the argument.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from agentgym_py import registry
from agentgym_py.checks import require_arguments
from agentgym_py.env import EnvSpec, reply_tokens
from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.agents import Agent
    from agentgym_py.collection import PlayConfig
    from agentgym_py.feedback import Feedback, FeedbackSource
    from agentgym_py.policy import Policy
    from agentgym_py.rewards.functions import RewardFunction
    from agentgym_py.training import OnPolicyTrainer, Trainer
    from agentgym_py.trajectory.scores import Scorer

    Player: TypeAlias = str | Agent | Policy
    Envs: TypeAlias = str | EnvSpec | Sequence[str | EnvSpec]


def env_settings(specs: Sequence[EnvSpec]) -> dict[str, Any]:
    """Return the options `env` and `env_kwargs` of a command; one of several environments has its arguments by name."""
    kwargs = {spec.name: dict(spec.kwargs) for spec in specs if spec.kwargs}
    settings: dict[str, Any] = {"env": [spec.name for spec in specs]}
    return settings | ({"env_kwargs": kwargs if len(specs) > 1 else dict(specs[0].kwargs)} if kwargs else {})


def require_names(argument: str, names: object) -> None:
    """Raise ConfigError for a single text in place of a list of names."""
    if isinstance(names, str):
        raise ConfigError(f"{argument} must be a list of names, such as [{names!r}]")


def require_counts(**counts: object) -> None:
    """Require whole numbers of at least 1."""
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise ConfigError(f"{name} must be a whole number, 1 or more, got {count!r:.60}")


def task_numbers(tasks: int | Iterable[int]) -> Sequence[int]:
    """Return the numbers of tasks, or those of the first tasks of a split."""
    if isinstance(tasks, Iterable) and not isinstance(tasks, str):
        numbers = list(tasks)
        if not all(isinstance(number, int) for number in numbers):
            raise ConfigError(f"tasks must be a number of tasks, or their numbers in the split, not {numbers!r:.60}")
        if repeated := [number for number, times in Counter(numbers).items() if times > 1]:
            raise ConfigError(f"tasks has {repeated[0]} more than once; for several episodes of a task, set attempts")
        return numbers
    require_counts(tasks=tasks)
    return range(tasks)


def play_config_of(play: PlayConfig | None) -> PlayConfig:
    """Return the settings of episodes, by default the usual ones."""
    from agentgym_py.collection import PlayConfig

    if not isinstance(play, PlayConfig | None):
        raise ConfigError(f"play must be a PlayConfig, not {play!r:.60}")
    return play or PlayConfig()


def trajectories_of(source: Iterable[Trajectory] | str | os.PathLike[str]) -> list[Trajectory]:
    """Return trajectories, or those of a file or of a run's folder."""
    from agentgym_py.cli.runtime import read_trajectories
    from agentgym_py.trajectory.reading import episode_files

    if isinstance(source, str | os.PathLike):
        return [trajectory for file in episode_files(os.fspath(source)) for trajectory in read_trajectories(file)]
    trajectories = list(source) if isinstance(source, Iterable) else [source]
    if not isinstance(source, Iterable) or not all(isinstance(item, Trajectory) for item in trajectories):
        raise ConfigError(f"trajectories must be a list of Trajectory, a file or a run's folder, not {source!r:.60}")
    return trajectories


def training_data(
    trainer: Trainer, source: Iterable[Trajectory] | str | os.PathLike[str], select: Mapping[str, Any],
    scorer: Scorer | None, feedback: str | os.PathLike[str] | Sequence[Feedback] | None,
) -> list[Trajectory]:  # fmt: skip
    """Return what the trainer's selection or `select` keeps, with the rewards that it learns from, and corrections."""
    from agentgym_py.feedback.store import read_feedback
    from agentgym_py.training.offline import select_training_data
    from agentgym_py.training.trainer import select_defaults
    from agentgym_py.trajectory.selectors import SelectConfig

    defaults = {name.removeprefix("select."): value for name, value in select_defaults(trainer).items()}
    settings = {**defaults, **select}
    require_arguments(SelectConfig, settings)
    if not (trajectories := trajectories_of(source)):
        raise NothingToTrainOnError("there are no trajectories to train on")
    if isinstance(feedback, str | os.PathLike):
        feedback = read_feedback(feedback)
    config = SelectConfig(**settings)
    return select_training_data(trajectories, trainer, config, scorer=scorer, feedback=feedback).trajectories


def policy_of(policy: str | os.PathLike[str] | Policy, max_context: int | None) -> Policy:
    """Return a policy, or load the one of a name or a folder."""
    from agentgym_py.policy import Policy

    if not isinstance(policy, Policy | str | os.PathLike):
        raise ConfigError(f"policy must be a name, a folder or a Policy, not {policy!r:.60}")
    if not isinstance(policy, Policy):
        return Policy.load(str(policy), max_context=max_context)
    if max_context is not None:
        raise ConfigError("max_context needs the name of a policy: give it to Policy.load")
    return policy


def specs_of(env: Envs) -> list[EnvSpec]:
    """Return the specs of one environment or several."""
    envs = [env] if isinstance(env, str | EnvSpec) else list(env) if isinstance(env, list | tuple) else []
    if not envs or not all(isinstance(spec, str | EnvSpec) for spec in envs):
        raise ConfigError(f"env must be a name, an EnvSpec or a list of these, not {env!r:.60}")
    return [EnvSpec(spec) if isinstance(spec, str) else spec for spec in envs]


def different_specs_of(env: Envs) -> list[EnvSpec]:
    """Return the specs of environments to play, each once; a source is loaded."""
    specs = specs_of(env)
    keys = Counter(spec.key for spec in specs)
    if repeated := [spec.name for spec in specs if keys[spec.key] > 1]:
        raise ConfigError(f"env has {repeated[0]} twice with the same arguments")
    return specs


def warn_of_cuts(trajectories: Sequence[Trajectory]) -> None:
    """Warn, in the caller's caller, if many replies were cut at their maximum length."""
    from agentgym_py.evaluation.text import cut_warning

    if text := cut_warning(trajectories):
        warnings.warn(text, stacklevel=3)


def agent_of(
    player: Player, worlds: Iterable[EnvSpec], temperature: float, max_new_tokens: int | None, slots: int,
    kv_cache_gib: float | None = None,
) -> Agent:  # fmt: skip
    """Return an agent from a name, an agent or a policy, which plays these worlds."""
    from agentgym_py.agents import ModelAgent
    from agentgym_py.agents.base import require_agent
    from agentgym_py.policy import Policy

    if max_new_tokens is not None:
        require_counts(max_new_tokens=max_new_tokens)
    if kv_cache_gib is not None and not isinstance(player, Policy):
        raise ConfigError("kv_cache_gib needs a policy as the agent: other agents have no KV cache here")
    if isinstance(player, str):
        agent: Agent = registry.load("agentgym.agents", player)()
        return agent
    if not isinstance(player, Policy):
        return require_agent(player)
    from agentgym_py.engine import HFEngine, SamplingParams

    engine = HFEngine(player, slots, kv_cache_gib=kv_cache_gib)
    longest = reply_tokens(worlds) if max_new_tokens is None else max_new_tokens
    return ModelAgent(player, engine, SamplingParams(temperature=temperature, max_new_tokens=longest))


def scorer_of(reward: str | RewardFunction | None, settings: Mapping[str, Any]) -> Scorer | None:
    """Return the scorer of a reward's name, of a weighted sum or of a function; None for the world's own return."""
    from agentgym_py.rewards.functions import build_reward, function_scorer

    if not isinstance(reward, str | None) and callable(reward):
        return function_scorer(reward, settings)
    if not isinstance(reward, str | None):
        raise ConfigError(f"reward must be a name or a function, not {reward!r:.60}")
    return build_reward(reward, settings)


def trainer_of(trainer: str | Trainer | OnPolicyTrainer, settings: Mapping[str, Any]) -> Trainer | OnPolicyTrainer:
    """Return a trainer, or make the one of a name with its settings."""
    made: Trainer | OnPolicyTrainer = _plugin_of(
        trainer, settings, "trainer", ("train", "improve"), "a trainer such as DPO(beta=1.0)"
    )
    return made


def source_of(source: str | FeedbackSource, settings: Mapping[str, Any]) -> FeedbackSource:
    """Return a source of feedback, or make the one of a name with its settings."""
    made: FeedbackSource = _plugin_of(source, settings, "source", ("feedback",), "a source such as LLMJudge(...)")
    return made


_GROUPS: Mapping[str, registry.Group] = {"trainer": "agentgym.trainers", "source": "agentgym.feedback"}


def _plugin_of(plugin: Any, settings: Mapping[str, Any], noun: str, methods: Sequence[str], example: str) -> Any:
    """Return a plugin with one of the methods, or make the one of a name; settings need the name."""
    if isinstance(plugin, str):
        plugin_class = registry.load(_GROUPS[noun], plugin)
        require_arguments(plugin_class, settings)
        return plugin_class(**settings)
    if isinstance(plugin, type) or not any(hasattr(plugin, method) for method in methods):
        raise ConfigError(f"{noun} must be a {noun}'s name, or {example}, not {plugin!r:.60}")
    if settings:
        raise ConfigError(f"settings {', '.join(settings)} need the {noun}'s name; set them in the {noun} itself")
    return plugin


def offline_trainer(
    trainer: str | Trainer, settings: Mapping[str, Any], output_dir: str | os.PathLike[str] | None
) -> Trainer:
    """Return a trainer of stored trajectories; one that makes no policy needs a folder for its output."""
    from agentgym_py.training import Trainer
    from agentgym_py.training.trainer import info_of

    instance = trainer_of(trainer, settings)
    if not isinstance(instance, Trainer):
        raise ConfigError(f"{trainer} is on-policy and does not train on stored trajectories: use evolve")
    if output_dir is None and (output := info_of(instance).output) != "policy":
        raise ConfigError(f"output_dir is needed, because {type(instance).__name__} writes a {output} there")
    return instance


def command_words(options: Mapping[str, Any], prefix: str = "--") -> list[str]:
    """Return command-line options for keyword arguments; a mapping is a group, its `name` the option itself.

    None and an empty list or mapping are words too, because the option's default may be another value. None of `config`
    and `preset` is none.
    """
    from agentgym_py.cli.values import PLUGINS

    words: list[str] = []
    for key, value in options.items():
        if value is None and key in ("config", "preset"):
            continue
        if isinstance(value, Mapping) and not value and key not in PLUGINS:
            words += [f"{prefix}{key}", "{}"]
        elif isinstance(value, Mapping):
            rest = {name: item for name, item in value.items() if name != "name"}
            words += [f"{prefix}{key}", command_text(value["name"])] if "name" in value else []
            words += command_words(rest, f"{prefix}{key}.")
        elif isinstance(value, list | tuple) and "_kwargs." in prefix:  # an entry of a mapping is read as YAML
            words += [f"{prefix}{key}", json.dumps(value)]
        elif isinstance(value, list | tuple):
            words += [word for item in value or [""] for word in (f"{prefix}{key}", str(item))]
        else:
            words += [f"{prefix}{key}", command_text(value)]
    return words


def command_text(value: Any) -> str:
    """Return a value as on the command line."""
    if isinstance(value, list | tuple):
        return ",".join(map(command_text, value))
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
