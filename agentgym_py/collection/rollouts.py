"""Rollouts: the episodes of an on-policy trainer, played with the policy's current weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agentgym_py import distributed
from agentgym_py.agents import Agent
from agentgym_py.collection.branching import sample_states
from agentgym_py.collection.collector import Collector, Progress
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.job import Job, StateSnapshot
from agentgym_py.collection.play_config import PlayConfig
from agentgym_py.errors import ConfigError, SnapshotError
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.scores import Scorer, apply_scores

if TYPE_CHECKING:
    from agentgym_py.engine import Engine, SamplingParams
    from agentgym_py.policy import Policy


@dataclass(slots=True)
class Rollouts:
    """The training tasks of a round in their order, and a budget of episodes to spend on them."""

    policy: Policy
    engine: Engine
    params: SamplingParams
    tasks: Sequence[Job]
    budget: int
    """Episodes that may be played, including those that continue from a state."""
    name: str = "policy"
    play_config: PlayConfig = field(default_factory=PlayConfig)
    progress: Progress | None = None
    scorer: Scorer | None = None
    """Scores the trainer's episodes in place of the env; stored episodes keep the env's rewards."""
    episodes: list[Trajectory] = field(default_factory=list)
    """Every trajectory so far, with the env's rewards."""
    failed: list[Trajectory] = field(default_factory=list)
    """Those that ended by an error, also of the scorer, since the start or a resume."""
    version: int = 0
    """Number of weight updates so far."""
    _next: int = 0

    @property
    def seed(self) -> int:
        """Seed of the episodes, and of what is drawn for them."""
        return self.play_config.seed

    @property
    def remaining(self) -> int:
        """Episodes left in the budget."""
        return self.budget - len(self.episodes)

    @property
    def temperature(self) -> float:
        """Sampling temperature of the replies.

        Raises:
            ConfigError: replies are not sampled from the whole distribution, so probability ratios mean nothing.
        """
        if self.params.greedy or self.params.top_p < 1 or self.params.top_k:
            raise ConfigError(
                "an on-policy trainer samples from the whole distribution: temperature above 0, top_p 1, top_k 0; got "
                f"{self.params.temperature:g}, {self.params.top_p:g}, {self.params.top_k}"
            )
        return self.params.temperature

    @property
    def is_remote(self) -> bool:
        """Whether a server samples the replies."""
        from agentgym_py.engine.base import RemoteEngine

        return isinstance(self.engine, RemoteEngine)

    def state_dict(self) -> dict[str, int]:
        """Return the progress through the tasks, without the episodes."""
        return {"version": self.version, "next": self._next}

    def load_state_dict(self, state: Mapping[str, int], episodes: Sequence[Trajectory]) -> None:
        """Resume after these episodes."""
        self.version, self._next, self.episodes = state["version"], state["next"], list(episodes)
        if self.progress:
            for trajectory in episodes:
                self.progress(trajectory)

    def sync(self) -> None:
        """Use the policy's current weights from here on."""
        self.version += 1
        self.engine.sync(self.policy, self.version)

    def release_cache(self) -> None:
        """Drop the engine's cached keys and values; call it when an iteration's episodes are over, before training."""
        from agentgym_py.engine.base import CachingEngine

        if isinstance(self.engine, CachingEngine):
            self.engine.release()

    def groups(self, tasks: int, size: int) -> list[list[Trajectory]]:
        """Play `size` episodes of each of the next `tasks` tasks; all episodes of a task start in the same state.

        When every task has been played, tasks repeat with fresh attempts. The result has fewer than `tasks` groups when
        the budget ends, and none when the budget has no room for one: `remaining` need not reach 0.
        """
        jobs = self.jobs(min(tasks, self.remaining // size), size)
        return self.continue_from(jobs, [None] * len(jobs), size)

    def branching_groups(self, tasks: int, size: int, branches: int) -> list[list[Trajectory]]:
        """Play `groups`, then up to `branches` further groups per task, each from one state of the task's episodes.

        The seed draws the states from all states of the task's episodes except their starts; short episodes have fewer.
        A task is begun only when the budget has room for all of its episodes.

        Raises:
            SnapshotError: an env behaves differently on replay.
        """
        per_task, before = size * (1 + branches), len(self.episodes)
        jobs = self.jobs(min(tasks, self.remaining // per_task), per_task)
        trunks = self.continue_from(jobs, [None] * len(jobs), size)
        episodes = self.episodes[before:]  # with the env's own rewards
        starts = distributed.on_rank_zero(
            self._sample, jobs, episodes, size, branches
        )  # an env that fails must fail for all
        later = [replace(job, attempt=job.attempt + k * size)
                 for job, states in zip(jobs, starts, strict=True) for k in range(1, len(states) + 1)]  # fmt: skip
        return trunks + self.continue_from(later, [state for states in starts for state in states], size)

    def _sample(
        self, jobs: Sequence[Job], episodes: Sequence[Trajectory], size: int, branches: int
    ) -> list[list[StateSnapshot]]:
        """Sample up to `branches` states per job from its `size` episodes."""
        starts = []
        with closing(EnvPool()) as pool:
            for number, job in enumerate(jobs):
                rng = Rng(self.seed, "branches", job.env.key, job.task, job.attempt)
                group = episodes[number * size : (number + 1) * size]
                starts.append(sample_states(group, branches, rng, pool, job.env))
        return starts

    def jobs(self, tasks: int, size: int) -> list[Job]:
        """Return the next tasks, each as the first of `size` attempts."""
        jobs = []
        for _ in range(tasks):
            round_trip, place = divmod(self._next, len(self.tasks))
            jobs.append(replace(self.tasks[place], attempt=round_trip * size))
            self._next += 1
        return jobs

    def continue_from(
        self, jobs: Sequence[Job], starts: Sequence[StateSnapshot | None], size: int
    ) -> list[list[Trajectory]]:
        """Play `size` episodes of each job's task from its start state; None is a reset.

        Their attempts count from `job.attempt`. A second call with the same state needs a job with a later attempt;
        otherwise it plays the same episodes again.

        Raises:
            SnapshotError: episodes from a reset did not start alike.
        """
        attempts = [
            replace(job, start=start, attempt=job.attempt + k)
            for job, start in zip(jobs, starts, strict=True)
            for k in range(size)
        ]
        episodes = self.play(attempts)
        groups = [episodes[at : at + size] for at in range(0, len(episodes), size)]
        for job, start, group in zip(jobs, starts, groups, strict=True):
            if start is None and len({(t.rules, t.steps[0].observation) for t in group if t.steps}) > 1:
                raise SnapshotError(f"{job.env.name}: two attempts at {job.task!r} did not start alike")
        return groups

    def play(self, jobs: Sequence[Job], scored: bool = True, agent: Agent | None = None) -> list[Trajectory]:
        """Play these jobs as they are, by default with the policy; they count towards the budget.

        Unless `scored`, the env's rewards stay.
        """
        episodes = self.collector(agent or self._agent()).collect_batch(jobs, self.progress)
        self.episodes += episodes
        episodes = apply_scores(episodes, self.scorer) if scored else episodes
        self.failed += [trajectory for trajectory in episodes if not trajectory.is_evidence]
        return episodes

    def collector(self, agent: Agent) -> Collector:
        """Return a collector for another agent with the same settings; its episodes do not count."""
        return Collector(agent, self.play_config)

    def _agent(self) -> Agent:
        from agentgym_py.agents import ModelAgent

        return ModelAgent(self.policy, self.engine, self.params, name=self.name)
