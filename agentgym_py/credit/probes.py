"""Steps with known advantages: the policy plays, and its world forks around single steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym_py.agents import Agent
from agentgym_py.checks import Basic, require_at_least
from agentgym_py.collection import Job, jobs_for
from agentgym_py.collection.branching import snapshots_at
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.job import StateSnapshot
from agentgym_py.credit.estimators import return_to_go
from agentgym_py.credit.exact import FEW_STATES, MOST_STATES, Enumeration, KnownPolicy, TooManyStatesError
from agentgym_py.env import EnvSpec
from agentgym_py.errors import AgentGymError, ConfigError, InfrastructureError
from agentgym_py.rewards.state_values import CHANGED, FAILED, Play
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory

Truth = Literal["forks", "exact"]
HALVES = (0, 1)
"""Continuations and pool are divided by the parity of their number."""


@dataclass(frozen=True, slots=True)
class CreditConfig:
    """The measurement."""

    group_size: Basic[int] = 8
    """Episodes in a group, G. Each task is played 2 G times."""
    episodes: Basic[int] = 2
    """Episodes of each task whose steps are credited."""
    steps: Basic[int] = 8
    """Steps of each of them, drawn by the seed; 0: all."""
    continuations: Basic[int] = 16
    """Continuations of each state, K; even."""
    redraws: int = 32
    """Groups that are drawn again for each step; even. They cost no episodes."""
    truth: Literal["auto", "forks", "exact"] = "auto"
    """`forks`: advantages by continuations; `exact`: by enumeration, for an agent with known probabilities such as
    `random`; `auto`: the latter if it is possible and no task has more than 20,000 states."""

    def __post_init__(self) -> None:
        require_at_least(self, {"group_size": 2, "episodes": 1, "steps": 0, "continuations": 4, "redraws": 4})
        for name in ("continuations", "redraws"):
            if getattr(self, name) % 2:
                raise ConfigError(f"{name} must be even, because two halves are compared, got {getattr(self, name)}")
        if self.episodes > 2 * self.group_size:
            raise ConfigError(f"episodes must be at most {2 * self.group_size}, twice the group_size")


class Probe(NamedTuple):
    """A step whose advantage is known, and what the groups around it are drawn from."""

    task: tuple[str, str, str]
    trunk: Trajectory
    step: int
    others: Sequence[Trajectory]
    """The other episodes of its task."""
    forks: Sequence[Trajectory]
    """G - 1 continuations of the state before the step that nothing else uses, for tree rollouts."""
    before: Sequence[Trajectory]
    """K continuations of the state before the step."""
    after: Sequence[Trajectory]
    """Continuations of the state after it; the episode itself, several times, if it is over."""
    advantage: float
    halves: tuple[float, float]
    """The advantage by each half of the continuations; twice the exact one if it is exact."""


class Probes(NamedTuple):
    """The credited steps of a measurement."""

    probes: Sequence[Probe]
    pool: Sequence[Trajectory]
    """All episodes of the policy from the start of a task."""
    truth: Truth
    left_out: Mapping[str, int]

    @property
    def advantages_N(self) -> NDArray[np.float64]:  # noqa: N802  # shapes stand in names
        """The true advantages."""
        return np.array([probe.advantage for probe in self.probes])


def collect_probes(
    agent: Agent, play: Play, envs: Sequence[EnvSpec], config: CreditConfig, *,
    tasks: Sequence[int], split: str = "train", seed: int = 0,
) -> Probes:  # fmt: skip
    """Play the policy, and find the true advantages of steps; arguments as for `measure_credit`."""
    known = agent if config.truth != "forks" and isinstance(agent, KnownPolicy) else None
    if config.truth == "exact" and not known:
        raise ConfigError(f"truth cannot be exact for {agent.name}, whose action probabilities are unknown; use forks")
    jobs, left_out = jobs_for(envs, split, tasks, 2 * config.group_size), Counter[str]()
    pools = _pools(jobs, play(jobs), 2 * config.group_size, left_out)
    try:
        trunks, changed = _trunks(pools, config, seed, known)
    except TooManyStatesError:
        if config.truth == "exact":
            raise
        known = None
        trunks, changed = _trunks(pools, config, seed, None)
    left_out.update(changed)
    probes = _probes(trunks, play, config, left_out)
    if not probes:
        raise ConfigError(f"no step could be credited: {dict(left_out) or 'every episode ended before its first step'}")
    everything = [episode for pool in pools for episode in pool]
    return Probes(probes, everything, "exact" if known else "forks", left_out)


def _pools(
    jobs: Sequence[Job], episodes: Sequence[Trajectory], attempts: int, left_out: Counter[str]
) -> list[list[Trajectory]]:
    """Return the episodes of each task; tasks with an infrastructure failure are left out."""
    pools: dict[tuple[str, str], list[Trajectory]] = {}
    for job, episode in zip(jobs, episodes, strict=True):
        pools.setdefault((job.env.key, str(job.task)), []).append(episode)
    complete = [pool for pool in pools.values() if all(episode.is_evidence for episode in pool)]
    if missing := len(pools) - len(complete):
        left_out["episodes of tasks with an infrastructure failure"] = missing * attempts
    return complete


class _Trunk(NamedTuple):
    """An episode whose steps are credited."""

    episode: Trajectory
    steps: Sequence[int]
    states: Sequence[StateSnapshot]
    """Those before and after its steps, as far as the episode continues there."""
    values: Sequence[float]
    """Their exact values; empty if the truth comes from forks."""
    others: Sequence[Trajectory]


def _trunks(
    pools: Sequence[Sequence[Trajectory]], config: CreditConfig, seed: int, known: KnownPolicy | None
) -> tuple[list[_Trunk], Counter[str]]:
    """Draw the credited steps, and rebuild the states around them; count the episodes that cannot be rebuilt."""
    trunks, left_out = list[_Trunk](), Counter[str]()
    with closing(EnvPool()) as envs:
        for pool in pools:
            most = MOST_STATES if config.truth == "exact" else FEW_STATES
            enumeration = Enumeration(known, most) if known else None
            for episode in pool[: config.episodes]:
                drawn = Rng("credit", seed, episode.id).sample(range(len(episode.steps)), len(episode.steps))
                steps = sorted(drawn[: config.steps or None])
                around = {at for step in steps for at in (step, step + 1) if at < len(episode.steps)}
                try:
                    states = snapshots_at(episode, around, envs) if around else []
                    values = _exact_values(episode, states, enumeration, envs) if enumeration else []
                except AgentGymError as error:
                    if isinstance(error, ConfigError):
                        raise
                    left_out[f"episodes {FAILED if isinstance(error, InfrastructureError) else CHANGED}"] += 1
                    continue
                others = [other for other in pool if other is not episode]
                trunks.append(_Trunk(episode, steps, states, values, others))
    return trunks, left_out


def _exact_values(
    episode: Trajectory, states: Sequence[StateSnapshot], enumeration: Enumeration, envs: EnvPool
) -> list[float]:
    values = list[float]()
    with envs.lent(episode.replay_spec()) as env:
        for state in states:
            env.restore(state.snapshot)
            values.append(enumeration.value(env))
    return values


def _probes(trunks: Sequence[_Trunk], play: Play, config: CreditConfig, left_out: Counter[str]) -> list[Probe]:
    """Continue all states as one batch, and return the credited steps with their advantages."""
    per_state, first = config.continuations + config.group_size - 1, 2 * config.group_size
    jobs = [
        Job(trunk.episode.env_spec(), trunk.episode.task_id, trunk.episode.split, first + k, state)
        for trunk in trunks
        for state in trunk.states
        for k in range(per_state)
    ]
    played, probes = iter(play(jobs)), list[Probe]()
    for trunk in trunks:
        families = {len(state.steps): [next(played) for _ in range(per_state)] for state in trunk.states}
        families[len(trunk.episode.steps)] = [trunk.episode] * per_state  # by the number of steps before the state
        for step in trunk.steps:
            if all(episode.is_evidence for at in (step, step + 1) for episode in families[at]):
                probes.append(_probe(trunk, step, families, config.continuations))
            else:
                left_out["steps with a continuation that an infrastructure failure ended"] += 1
    return probes


def _probe(trunk: _Trunk, step: int, families: Mapping[int, Sequence[Trajectory]], continuations: int) -> Probe:
    """Return a credited step with its advantage."""
    before, after = families[step][:continuations], families[step + 1][:continuations]
    if trunk.values:
        exact = dict(zip(sorted(families), [*trunk.values, 0.0], strict=True))
        advantage = trunk.episode.steps[step].reward + exact[step + 1] - exact[step]
        halves = (advantage, advantage)
    else:
        first, second = (_mean(after[h::2], step) - _mean(before[h::2], step) for h in HALVES)
        advantage, halves = (first + second) / 2, (first, second)
    forks = families[step][continuations:]
    task = trunk.episode.provenance.task_key
    return Probe(task, trunk.episode, step, trunk.others, forks, before, after, advantage, halves)


def _mean(episodes: Sequence[Trajectory], step: int) -> float:
    return fmean(return_to_go(episode, step) for episode in episodes)
