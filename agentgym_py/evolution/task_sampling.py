"""Which training tasks the rounds of a run explore: of which worlds how many, and in what order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import accumulate, pairwise, zip_longest
from typing import TYPE_CHECKING

from agentgym_py.collection import Job
from agentgym_py.env import EnvSpec
from agentgym_py.env.registration import short_name
from agentgym_py.errors import ConfigError, did_you_mean
from agentgym_py.files import canonical_json
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.evolution.config import EvolveConfig

_TASKS = 1_000_000
"""Number of training tasks that a run samples from, in an env of endlessly many."""


def shares(envs: Sequence[EnvSpec], weights: Mapping[str, float], tasks: int) -> list[int]:
    """How many tasks of each world a round explores, by weights (1 where none is given); `tasks` of each on average.

    Raises:
        ConfigError: a weight of no such world, one that is negative or not finite, or all of them 0.
    """
    names = [short_name(spec.local_spec.name) for spec in envs]
    for name in weights:
        if name not in names:
            raise ConfigError(f"explore_weights: no world {name!r}." + did_you_mean(name, names, "There are"))
    each = [weights.get(name, 1.0) for name in names]
    if not all(math.isfinite(weight) and weight >= 0 for weight in each) or not any(each):
        raise ConfigError(f"explore_weights must be numbers of at least 0, not all of them 0, got {dict(weights)}")
    bounds = [round(len(envs) * tasks * upto / sum(each)) for upto in accumulate(each, initial=0.0)]
    return [after - before for before, after in pairwise(bounds)]


def order(spec: EnvSpec, tasks: int, seed: int) -> list[int]:
    """The first `tasks` training tasks of a world in the order of a run: runs of other seeds meet other tasks."""
    there = spec.count("train", max(tasks, _TASKS))
    return Rng(seed, "tasks", spec.key).sample(range(there), tasks)


def hard(spec: EnvSpec, pool: Sequence[int], wanted: int, played: Iterable[Trajectory], rng: Rng) -> list[int]:
    """`wanted` of the training tasks `pool`, drawn by weight, without putting back: who failed more comes more often.

    The weight is (failures + 1) / (tries + 1), by the episodes that began at their tasks' beginnings: 1 of a task that
    is new or always failed, less the more often it was done.
    """
    tries, failures = Counter[Hashable](), Counter[Hashable]()
    for each in played:
        if each.is_evidence and all(step.trained for step in each.steps[:1]):
            tries[each.provenance.task_key] += 1
            failures[each.provenance.task_key] += not each.success
    world, drawn = spec.local_spec, dict[int, float]()
    with closing(spec.make()) as env:
        for number in pool:
            key = world.name, canonical_json(world.kwargs), env.task(number, "train").id
            drawn[number] = rng.uniform() ** ((tries[key] + 1) / (failures[key] + 1))  # Efraimidis and Spirakis, 2006
    return sorted(pool, key=lambda number: -drawn[number])[:wanted]


def jobs_of(
    config: EvolveConfig,
    envs: Sequence[EnvSpec],
    number: int,
    stored: Callable[[int], Iterable[Trajectory]],
    tries: int,
) -> list[Job]:
    """A round's training tasks of each world, one of each in turn, `tries` times; the tries at one stand side by side.

    `stored` gives the episodes of a round that is over.
    """
    experts, chosen = config.expert_tasks, list[list[tuple[EnvSpec, int]]]()
    again = number > 1 and config.explore_order == "hard"
    played = [each for r in range(1, number) for each in stored(r)] if again else []
    for spec, share in zip(envs, shares(envs, config.explore_weights, config.explore_tasks), strict=True):
        every = order(spec, experts + config.rounds * share, config.seed)
        upto = experts + number * share
        tasks = every[upto - share : upto] if number else every[:experts]
        if again:
            tasks = hard(spec, every[experts:upto], share, played, Rng(config.seed, "hard", number, spec.key))
        chosen.append([(spec, task) for task in tasks])
    turns = zip_longest(*chosen)
    return [Job(each[0], each[1], "train", k) for turn in turns for each in turn if each for k in range(tries)]
