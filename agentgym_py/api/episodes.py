"""Make, certify and play worlds, and measure episodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py.api.arguments import (
    agent_of,
    different_specs_of,
    play_config_of,
    require_counts,
    require_names,
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
    from agentgym_py.certificate import Certificate
    from agentgym_py.collection import PlayConfig
    from agentgym_py.credit import CreditReport, Estimator
    from agentgym_py.evaluation import Evaluation
    from agentgym_py.evaluation.anytime import SequentialComparison
    from agentgym_py.evaluation.compare import Comparison, Entrant
    from agentgym_py.evaluation.first_fault import Expert, FirstFaults
    from agentgym_py.testing import Result as CheckResult


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

    Without a `difficulty` the world has its own default, as in `agentgym collect`. `evolve` has the easier one of some
    worlds' `evolve_defaults`: name it here as `EnvSpec("maze", {"difficulty": "easy"})` to play the same tasks.

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
    play, specs = play_config_of(play), different_specs_of(env)
    jobs = jobs_for(specs, split, task_numbers(tasks), attempts)
    player = agent_of(agent, specs, temperature, max_new_tokens, play.slots, kv_cache_gib)
    trajectories = Collector(player, play).collect_batch(jobs, progress)
    warn_of_cuts(trajectories)
    return trajectories


def evaluate(
    agent: Player,
    env: Envs,
    *,
    tasks: int | Iterable[int] = 100,
    split: str = "test",
    attempts: int = 1,
    temperature: float = 0.0,
    max_new_tokens: int | None = None,
    kv_cache_gib: float | None = None,
    play: PlayConfig | None = None,
    progress: Callable[[Trajectory], None] | None = None,
    until_decided: Result | str | os.PathLike[str] | None = None,
    margin: float | None = None,
    power: float | None = None,
) -> Result:
    """Evaluate an agent or a policy; arguments as for `collect`, and a policy replies greedily by default.

    To measure an agent of `evolve` on the tasks of its run, name the run's difficulty, as for `collect`.

    With `until_decided`, another evaluation of these tasks, this one stops after the block of 16 tasks in which the
    better agent is decided, and `compare_anytime` says which one it is. `margin` is the difference that matters, such
    as 0.1: the evaluation also stops if the agents differ by less. `power` is the chance that a difference of the
    margin is not taken for a smaller one, by default 0.95.

    Raises:
        ConfigError: No episode counts, or `until_decided` has other settings or fewer tasks.
    """
    from agentgym_py.evaluation import evaluate as measure
    from agentgym_py.evaluation.anytime import Opponent
    from agentgym_py.evaluation.folder import make_manifest

    require_counts(attempts=attempts)
    numbers = task_numbers(tasks)
    if not numbers:
        raise ConfigError("tasks names no task")
    play, specs = play_config_of(play), different_specs_of(env)
    player = agent_of(agent, specs, temperature, max_new_tokens, play.slots, kv_cache_gib)
    manifest = make_manifest(player, specs, split, numbers, attempts, play.prompt, play.seed)
    against = None
    if until_decided is not None:
        other = _entrant("until_decided", until_decided)
        against = Opponent(other, manifest, "this evaluation", margin, power)
        against.require_comparable(len(numbers))
        manifest |= {"options": {"until_decided": other.agent}}
    elif margin is not None or power is not None:
        raise ConfigError("margin and power need until_decided")
    evaluation, episodes = measure(
        player, specs, split, numbers, attempts=attempts, play=play, progress=progress,
        is_decided=against.is_decided if against else None,
    )  # fmt: skip
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
    from agentgym_py.evaluation.compare import compare as compare_entrants

    return compare_entrants([_entrant(name, result) for name, result in results.items()])


def compare_anytime(
    *, margin: float | None = None, power: float | None = None, score: str | None = None,
    **results: Result | str | os.PathLike[str],
) -> SequentialComparison:  # fmt: skip
    """Compare two evaluations task by task, so that the result is valid whenever you stop.

    The same as `agentgym compare --anytime`: `compare_anytime(after=second, before=first)` is the success rate of
    `after` minus that of `before`. One may have more tasks than the other.

    Args:
        margin: Two agents whose difference is smaller, such as 0.1, count as equal; None: none do.
        power: With `margin`, the chance that a difference of the margin is not taken for a smaller one; by default
            0.95.
        score: Score of other programs' logs, such as `exact_match,strict-match`.
        results: For two names a `Result`, a folder of `agentgym eval --out` or of a run, or a log of Inspect, lm-eval,
            verifiers or JSON lines.

    Returns:
        The difference with its confidence sequence, e-value, p and verdict, and the interval after each task.

    Raises:
        ConfigError: There are not two, they evaluate different tasks, or a number is not between 0 and 1.
        DataError: A log cannot be read.
    """
    from agentgym_py.evaluation.anytime import compare_in_order

    if len(results) != 2:
        raise ConfigError(f"compare_anytime takes two evaluations, got {len(results)}")
    first, second = (_entrant(name, result, score) for name, result in results.items())
    return compare_in_order(first, second, margin=margin, power=power)


def _entrant(name: str, result: Result | str | os.PathLike[str], score: str | None = None) -> Entrant:
    """Return an evaluation to compare, under this name."""
    from agentgym_py.evaluation.compare import Entrant, Resources
    from agentgym_py.evolution.entrants import load_entrant, require_no_score

    if isinstance(result, Result):
        require_no_score(name, score)
        resources = Resources.of(result.evaluation.as_dict())
        return Entrant.from_trajectories(name, result.manifest, result.trajectories, resources)
    if not isinstance(result, str | os.PathLike):
        raise ConfigError(f"{name} must be a Result or a folder of agentgym eval --out, not {result!r:.60}")
    return replace(load_entrant(os.fspath(result), score), name=name)


def certify(
    world: str | type[TextEnv] | EnvSpec,
    checks: Sequence[str] = (),
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[CheckResult], object] | None = None,
    **settings: Any,
) -> Certificate:
    """Certify that a world can be solved, learned and not gamed, as `agentgym certify` does; all checks take minutes.

    Args:
        world: Its name, its class, its source such as `my_world.py`, or `EnvSpec(name, kwargs)`.
        checks: Names of checks, such as `solvable`; by default all, without which no certificate is `passed`.
        out: Folder for the certificate and its badge, named as the command names them; None writes none.
        progress: Called with the result of each check.
        settings: How much the checks try, fields of `CertificateSettings`: `episodes=50`, `seed=0`.

    Returns:
        The certificate: its `verdict`, and in `report` what each check found.

    Raises:
        ConfigError: The world cannot be made, a setting is wrong, or the check `vectors` starts processes in a script
            without `if __name__ == "__main__":`.
        UnknownNameError: No such world or check.
    """
    from agentgym_py.certificate import certify as certify_world
    from agentgym_py.certificate.certificate import CertificateSettings

    require_arguments(CertificateSettings, settings)
    require_names("checks", checks)
    if out is not None and Path(out).exists() and not Path(out).is_dir():
        raise ConfigError(f"out must be a folder, and {out} is a file")
    certificate = certify_world(world, checks, CertificateSettings(**settings), progress or (lambda _: None))
    if out is not None:
        certificate.write(Path(out))
    return certificate


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


def measure_credit(
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
    from agentgym_py.credit import CreditConfig
    from agentgym_py.credit import measure_credit as measure
    from agentgym_py.credit.estimators import load_estimators

    require_counts(tasks=tasks)
    require_arguments(CreditConfig, settings)
    play, specs = play_config_of(play), different_specs_of(env)
    player = agent_of(agent, specs, temperature, max_new_tokens, play.slots)
    collector = Collector(player, play)
    return measure(
        player, lambda jobs: collector.collect_batch(jobs, progress), specs,
        estimators if isinstance(estimators, Mapping) else load_estimators(estimators), CreditConfig(**settings),
        tasks=range(tasks), split=split, seed=play.seed, policy=getattr(player, "policy", None),
    )  # fmt: skip
