"""Make worlds, play them, and measure what was played."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentgym_py.api.arguments import (
    agent_of,
    play_config_of,
    require_counts,
    specs_of,
    task_numbers,
    trajectories_of,
    warn_of_cuts,
)
from agentgym_py.checks import require_arguments
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.errors import ConfigError
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.api.arguments import Envs, Player
    from agentgym_py.collection import PlayConfig
    from agentgym_py.credit import CreditReport, Estimator
    from agentgym_py.evaluation import Evaluation
    from agentgym_py.evaluation.compare import Comparison
    from agentgym_py.evaluation.first_fault import Expert, FirstFaults


@dataclass(frozen=True, slots=True)
class Result:
    """An evaluation and its episodes."""

    name: str
    """The agent's name."""
    evaluation: Evaluation
    """Success rate with its interval, return, steps, failures by kind."""
    trajectories: list[Trajectory]
    manifest: Mapping[str, Any]
    """What determines the episodes: agent, envs, tasks, seed. `compare` needs results with the same tasks."""

    def __str__(self) -> str:
        """Return the success rate with its 95 % interval: `expert: success 97.0 % [94, 99], 300 episodes`."""
        from agentgym_py.evaluation.text import format_rate

        success = self.evaluation.success
        return f"{self.name}: success {format_rate(success)}, {len(self.trajectories)} episodes"


def make(env: str, **kwargs: Any) -> TextEnv:
    """Make an environment, without Gymnasium's wrappers, which hide `snapshot`, `restore` and `expert`.

    Args:
        env: Short name or Gymnasium id, such as `shop` or `AgentShop-v0`.
        kwargs: Its arguments, such as `difficulty`, `max_steps`, `split`.

    Raises:
        UnknownNameError: No such environment is installed.
        ConfigError: It cannot be made with these arguments.
    """
    if not isinstance(env, str):
        raise ConfigError(f"env must be a name, not {env!r:.60}")
    return EnvSpec(env, kwargs).make()


def collect(
    env: Envs,
    agent: Player = "expert",
    *,
    tasks: int | Iterable[int] = 100,
    split: str = "train",
    attempts: int = 1,
    temperature: float = 1.0,
    max_new_tokens: int | None = None,
    kv_cache_gib: float | None = None,
    play: PlayConfig | None = None,
    progress: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Collect episodes of an agent.

    Args:
        env: One environment or several, by name or as `EnvSpec(name, kwargs)`.
        agent: Name of an installed agent (`expert`, `random`), an agent such as `ExpertAgent(fair=True)`, or a policy.
        tasks: How many tasks of the split, or their numbers.
        split: `train`, `valid` or `test`.
        attempts: Episodes per task.
        temperature: Sampling temperature of a policy.
        max_new_tokens: Longest reply of a policy in tokens; by default that of `agentgym evolve` in the world.
        kv_cache_gib: Memory for the keys and values of a policy's live episodes, as for `HFEngine`.
        play: Seed, slots, executor, timeouts.
        progress: Called with each finished episode.

    Returns:
        Trajectories in the order of the tasks, with attempts at a task next to each other.

    Raises:
        UnknownNameError: No such environment, agent or split.
        ConfigError: An impossible number of tasks, or wrong arguments of an environment.
    """
    from agentgym_py.collection import Collector, jobs_for

    require_counts(attempts=attempts)
    play, specs = play_config_of(play), specs_of(env)
    jobs = jobs_for(specs, split, task_numbers(tasks), attempts)
    player = agent_of(agent, specs, temperature, max_new_tokens, play.slots, kv_cache_gib)
    trajectories = Collector(player, play).collect_batch(jobs, progress)
    warn_of_cuts(trajectories)
    return trajectories


def evaluate(
    agent: Player,
    env: Envs,
    *,
    tasks: int = 100,
    split: str = "test",
    attempts: int = 1,
    temperature: float = 0.0,
    max_new_tokens: int | None = None,
    kv_cache_gib: float | None = None,
    play: PlayConfig | None = None,
    progress: Callable[[Trajectory], None] | None = None,
) -> Result:
    """Evaluate an agent or a policy; arguments as for `collect`, and a policy replies greedily by default.

    Raises:
        ConfigError: No episode counts.
    """
    from agentgym_py.evaluation import evaluate as measure
    from agentgym_py.evaluation.folder import make_manifest

    require_counts(tasks=tasks, attempts=attempts)
    play, specs = play_config_of(play), specs_of(env)
    player = agent_of(agent, specs, temperature, max_new_tokens, play.slots, kv_cache_gib)
    manifest = make_manifest(player, specs, split, range(tasks), attempts, play.prompt, play.seed)
    evaluation, episodes = measure(player, specs, split, range(tasks), attempts=attempts, play=play, progress=progress)
    warn_of_cuts(episodes)
    return Result(player.name, evaluation, episodes, manifest)


def compare(**results: Result | str | os.PathLike[str]) -> Comparison:
    """Compare evaluations of the same tasks, paired: `compare(before=first, after=second)`.

    Args:
        results: For each name a `Result`, a folder of `agentgym eval --out`, or that of a run, whose last agent is
            compared by its test.

    Raises:
        ConfigError: There are fewer than two, or they evaluate different tasks.
    """
    from agentgym_py.evaluation.compare import Entrant, Resources
    from agentgym_py.evaluation.compare import compare as compare_entrants
    from agentgym_py.evolution.entrants import load_entrant

    def entrant(name: str, result: Result | str | os.PathLike[str]) -> Entrant:
        if isinstance(result, Result):
            resources = Resources.of(result.evaluation.as_dict())
            return Entrant.from_trajectories(name, result.manifest, result.trajectories, resources)
        if not isinstance(result, str | os.PathLike):
            raise ConfigError(f"{name} must be a Result or a folder of agentgym eval --out, not {result!r:.60}")
        return load_entrant(os.fspath(result))

    return compare_entrants([entrant(name, result) for name, result in results.items()])


def first_faults(
    trajectories: Iterable[Trajectory] | str | os.PathLike[str],
    agent: Player | None = None,
    *,
    by: Expert = "exact",
    min_regret: int = 2,
    attempts: int = 16,
    level: float = 0.05,
    temperature: float = 1.0,
    max_new_tokens: int | None = None,
    play: PlayConfig | None = None,
    progress: Callable[[Trajectory], None] | None = None,
) -> FirstFaults:
    """Locate the first step of each failed episode that lost something, by an expert or by forks of an agent.

    Args:
        trajectories: Episodes or their file; successes are left out.
        agent: The agent or policy that played them: each state is continued `attempts` times, and a fault is a fall of
            the share of successes. None: an expert's plans locate the fault.
        by: The expert: `exact` knows the whole state, `fair` only what the episode has shown.
        min_regret: Steps that a step must cost to be a fault, for an expert.
        attempts: Continuations of each state, for an agent.
        level: Chance of a false fault per episode, for an agent.
        temperature: Sampling temperature of a policy; a greedy one repeats its failure.
        max_new_tokens: Longest reply of a policy in tokens; by default that of `agentgym evolve` in the world.
        play: Seed, slots, executor, timeouts of the continuations.
        progress: Called with each finished continuation.

    Raises:
        ConfigError: A number is out of range, or `by` is no expert.
    """
    from agentgym_py.collection import Collector
    from agentgym_py.evaluation.first_fault import first_faults as by_expert
    from agentgym_py.evaluation.first_fault import first_faults_by_forks, worlds_of

    episodes = trajectories_of(trajectories)
    if agent is None:
        return by_expert(episodes, by=by, min_regret=min_regret)
    play = play_config_of(play)
    collector = Collector(agent_of(agent, worlds_of(episodes), temperature, max_new_tokens, play.slots), play)
    return first_faults_by_forks(
        episodes, lambda jobs: collector.collect_batch(jobs, progress), attempts=attempts, level=level
    )


def credit(
    agent: Player,
    env: Envs,
    estimators: Sequence[str] | Mapping[str, Estimator] = (),
    *,
    tasks: int = 20,
    split: str = "train",
    temperature: float = 1.0,
    max_new_tokens: int | None = None,
    play: PlayConfig | None = None,
    progress: Callable[[Trajectory], None] | None = None,
    **settings: Any,
) -> CreditReport:
    """Measure advantage estimators against the exact advantages of an agent or a policy.

    Args:
        agent: Name of an installed agent, an agent, or a policy.
        env: One environment or several.
        estimators: Names or sources such as `my.py:mine`, or functions by name; by default all installed ones.
        tasks: Number of tasks of each environment.
        split: Their split.
        temperature: Sampling temperature of a policy.
        max_new_tokens: Longest reply of a policy in tokens; by default that of `agentgym evolve` in the world.
        play: Seed, slots, executor, timeouts.
        progress: Called with each finished episode.
        settings: Fields of `CreditConfig`, such as `group_size` and `continuations`.

    Raises:
        ConfigError: A setting is wrong, no step could be credited, or an estimator returns no number.
        UnknownNameError: No such environment, agent or estimator.
    """
    from agentgym_py.collection import Collector
    from agentgym_py.credit import CreditConfig, measure_credit
    from agentgym_py.credit.estimators import load_estimators

    require_counts(tasks=tasks)
    require_arguments(CreditConfig, settings)
    play, specs = play_config_of(play), specs_of(env)
    player = agent_of(agent, specs, temperature, max_new_tokens, play.slots)
    collector = Collector(player, play)
    return measure_credit(
        player, lambda jobs: collector.collect_batch(jobs, progress), specs,
        estimators if isinstance(estimators, Mapping) else load_estimators(estimators), CreditConfig(**settings),
        tasks=range(tasks), split=split, seed=play.seed, policy=getattr(player, "policy", None),
    )  # fmt: skip
