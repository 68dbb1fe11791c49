"""Sample the training tasks that the rounds of a run explore."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import accumulate, chain, pairwise, zip_longest
from typing import TYPE_CHECKING

from agentgym_py.collection import Job
from agentgym_py.env import EnvSpec
from agentgym_py.env.tracebacks import contained
from agentgym_py.errors import ConfigError, did_you_mean
from agentgym_py.evolution.curricula import (
    Counts,
    Level,
    count_outcomes,
    counts_for_task,
    find_levels,
    learnability,
    level_weights,
    name_of_spec,
    outcomes_in,
)
from agentgym_py.files import canonical_json
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.evolution.config import EvolveConfig

_TASKS = 1_000_000
"""Number of training tasks that a run samples from, in an env with unlimited tasks."""
_PER_DEMONSTRATION = 20
"""Tasks whose kinds are looked at for each demonstration."""


def tasks_per_env(envs: Sequence[EnvSpec], weights: Mapping[str, float], tasks: int) -> list[int]:
    """Return how many tasks of each env a round explores, by weights (default 1); the mean is `tasks`.

    A weight is of a world in one role (`errand:client`), or of the world in every other role (`errand`).

    Raises:
        ConfigError: a weight of no such env, one that is negative or not finite, or all of them 0.
    """
    names = [name_of_spec(spec) for spec in envs]
    choices = list(dict.fromkeys([*names, *map(_without_role, names)]))
    for name in weights:
        if name not in choices:
            raise ConfigError(f"explore_weights: no world {name!r}." + did_you_mean(name, choices, "There are"))
    values = [_weight_of(name, weights) for name in names]
    if not all(math.isfinite(weight) and weight >= 0 for weight in values) or not any(values):
        raise ConfigError(f"explore_weights must be numbers of at least 0, not all of them 0, got {dict(weights)}")
    return _share(len(envs) * tasks, values)


def _weight_of(name: str, weights: Mapping[str, float]) -> float:
    return weights.get(name, weights.get(_without_role(name), 1.0))


def _without_role(name: str) -> str:
    return name.partition(":")[0]


def _share(total: int, weights: Sequence[float]) -> list[int]:
    """Divide a number by weights."""
    bounds = [round(total * weight / sum(weights)) for weight in accumulate(weights, initial=0.0)]
    return [end - start for start, end in pairwise(bounds)]


def task_order(spec: EnvSpec, tasks: int, seed: int) -> list[int]:
    """Return the first `tasks` training tasks of an env in the random order of a run's seed."""
    available = spec.count("train", max(tasks, _TASKS))
    return Rng(seed, "tasks", spec.key).sample(range(available), tasks)


def demonstrated_tasks(spec: EnvSpec, config: EvolveConfig) -> list[int]:
    """Return the training tasks of an env that the expert demonstrates in round 0."""
    number = config.expert_tasks
    candidates = task_order(spec, _count_candidates(spec, config, number), config.seed)
    return _take_in_order(spec, config, candidates, number)


def tasks_to_explore(spec: EnvSpec, config: EvolveConfig, number: int) -> list[int]:
    """Return the first `number` training tasks of an env that a run explores.

    They follow the candidates for demonstrations, so that kinds occur as often as in the world. If a finite world has
    no more, the candidates that were not demonstrated come last.
    """
    candidates = _count_candidates(spec, config, config.expert_tasks)
    every = task_order(spec, spec.count("train", candidates + number), config.seed)
    later = every[candidates:]
    if len(later) == number:
        return later
    demonstrated = set(demonstrated_tasks(spec, config))
    return [*later, *(task for task in every[:candidates] if task not in demonstrated)][:number]


def _count_candidates(spec: EnvSpec, config: EvolveConfig, number: int) -> int:
    """Return the number of tasks of which `number` are chosen to be demonstrated."""
    if config.expert_order == "uniform":
        return number
    return min(_PER_DEMONSTRATION * number, spec.count("train", _TASKS))


def _take_in_order(spec: EnvSpec, config: EvolveConfig, candidates: Sequence[int], number: int) -> list[int]:
    """Return `number` candidates: with the expert's order `kinds` the first of each kind, then the second of each."""
    if config.expert_order == "uniform":
        return list(candidates[:number])
    by_kind: dict[str, list[int]] = {}
    with closing(spec.make()) as env, contained(f"the kinds of the tasks of {spec.name} cannot be read"):
        for task in candidates:
            by_kind.setdefault(env.task(task, "train").kind, []).append(task)
    return [task for turn in zip_longest(*by_kind.values()) for task in turn if task is not None][:number]


def sample_hard(
    spec: EnvSpec, pool: Sequence[int], number: int, trajectories: Iterable[Trajectory], rng: Rng
) -> list[int]:
    """Draw `number` of the training tasks `pool` without replacement, failed tasks with a larger weight.

    The weight is (failures + 1) / (attempts + 1) over the episodes that began at their tasks' start: 1 for a task that
    is new or always failed.
    """
    attempts, failures = Counter[Hashable](), Counter[Hashable]()
    for trajectory in trajectories:
        if counts_for_task(trajectory):
            attempts[trajectory.provenance.task_key] += 1
            failures[trajectory.provenance.task_key] += not trajectory.success
    local, priorities = spec.local_spec, dict[int, float]()
    with closing(spec.make()) as env:
        for task in pool:
            key = local.name, canonical_json(local.kwargs), env.task(task, "train").id
            inverse_weight = (attempts[key] + 1) / (failures[key] + 1)
            priorities[task] = rng.uniform() ** inverse_weight  # Efraimidis and Spirakis, 2006
    return sorted(pool, key=lambda task: -priorities[task])[:number]


def round_shares(
    config: EvolveConfig,
    levels: Sequence[Sequence[Level]],
    number: int,
    load_round: Callable[[int], Iterable[Trajectory]],
) -> list[list[int]]:
    """Return how many tasks of each level of each env the rounds from 1 to `number` explore."""
    envs, history, shares = [first for first, *_ in levels], list[Counts](), list[list[int]]()
    reads_rounds = config.curriculum is not None or config.explore_order == "learnable"
    for earlier in range(number):
        if earlier and reads_rounds:
            history.append(count_outcomes(load_round(earlier)))
        weights = _env_weights(config, [level.world for level in envs], history)
        by_env = tasks_per_env([level.spec for level in envs], weights, config.explore_tasks)
        by_level = [
            _share(tasks, _level_weights(config, of_env, history)) for of_env, tasks in zip(levels, by_env, strict=True)
        ]
        shares.append(list(chain.from_iterable(by_level)))
    return shares


def _env_weights(config: EvolveConfig, names: Sequence[str], history: Sequence[Counts]) -> dict[str, float]:
    """Return the weights of a round's envs, from the outcomes of the rounds before."""
    weights = {name: _weight_of(name, config.explore_weights) for name in names}
    if history and config.explore_order == "learnable":
        return {name: weight * learnability(outcomes_in(name, history[-1])) for name, weight in weights.items()}
    return weights


def _level_weights(config: EvolveConfig, levels: Sequence[Level], history: Sequence[Counts]) -> list[float]:
    return level_weights(config.curriculum, levels, history) if config.curriculum else [1.0]


def explored_levels(config: EvolveConfig, spec: EnvSpec) -> list[Level]:
    """Return the levels of an env that a run explores; without a curriculum it is the env alone."""
    if config.curriculum:
        return find_levels(spec, config.levels)
    return [Level(name_of_spec(spec), "", spec)]


def exploration_spec(spec: EnvSpec, max_steps: int | None) -> EnvSpec:
    """Return the spec of an env whose episodes are truncated after `max_steps`, if its own limit is later."""
    if max_steps is None:
        return spec
    with closing(spec.make()) as env:
        later = env.max_steps > max_steps
    return EnvSpec(spec.name, {**spec.kwargs, "max_steps": max_steps}) if later else spec


def round_jobs(
    config: EvolveConfig,
    envs: Sequence[EnvSpec],
    number: int,
    load_round: Callable[[int], Iterable[Trajectory]],
    attempts: int,
) -> list[Job]:
    """Return the jobs of a round's training tasks, alternating between envs; the attempts at a task are adjacent.

    `load_round` returns the episodes of an earlier round.
    """
    if not number:
        by_env = [[(spec, task) for task in demonstrated_tasks(spec, config)] for spec in envs]
        return _alternate(by_env, attempts)
    hard = number > 1 and config.explore_order == "hard"
    explored = [trajectory for r in range(1, number) for trajectory in load_round(r)] if hard else []
    levels = [explored_levels(config, spec) for spec in envs]
    shares_by_level = zip(*round_shares(config, levels, number, load_round), strict=True)
    tasks_by_level = list[list[tuple[EnvSpec, int]]]()
    for level, shares in zip(chain.from_iterable(levels), shares_by_level, strict=True):
        new = tasks_to_explore(level.spec, config, sum(shares))
        tasks, explores = new[len(new) - shares[-1] :], exploration_spec(level.spec, config.horizon_of(number))
        if hard:
            rng = Rng(config.seed, "hard", number, level.spec.key)
            tasks = sample_hard(explores, new, shares[-1], explored, rng)
        tasks_by_level.append([(explores, task) for task in tasks])
    return _alternate(tasks_by_level, attempts)


def demonstration_jobs(config: EvolveConfig, envs: Sequence[EnvSpec], number: int) -> list[Job]:
    """Return the jobs of demonstrations for a round that has nothing to learn from, `expert_tasks` in each env."""
    tasks_by_env = []
    for spec in envs:
        every = range(spec.count("train", _TASKS))
        wanted, rng = min(config.expert_tasks, len(every)), Rng(config.seed, "demonstrations", number, spec.key)
        candidates = rng.sample(every, _count_candidates(spec, config, wanted))
        tasks_by_env.append([(spec, task) for task in _take_in_order(spec, config, candidates, wanted)])
    return _alternate(tasks_by_env, attempts=1)


def _alternate(tasks_by_env: Sequence[Sequence[tuple[EnvSpec, int]]], attempts: int) -> list[Job]:
    """Jobs that alternate between envs; the attempts at a task are adjacent."""
    turns = zip_longest(*tasks_by_env)
    return [Job(pair[0], pair[1], "train", k) for turn in turns for pair in turn if pair for k in range(attempts)]
