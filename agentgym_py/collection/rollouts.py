"""Rollouts: where an on-policy trainer plays, with the policy as it is now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agentgym_py import distributed
from agentgym_py.agents import Agent
from agentgym_py.collection import Collector, Job
from agentgym_py.collection.branching import midway, unless_it_fails
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.executor import Executor
from agentgym_py.collection.job import Fork
from agentgym_py.env import Prompt
from agentgym_py.errors import ConfigError, SnapshotError
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.engine import Engine, SamplingParams
    from agentgym_py.policy import Policy


Scorer = Callable[[Sequence[Trajectory]], Sequence[float]]
"""Scores episodes, one number each."""


def rewarded(trajectory: Trajectory, score: float) -> Trajectory:
    """The trajectory with a score, given after its last step, in place of the world's rewards."""
    *steps, last = (replace(step, reward=0.0, reward_parts={}) for step in trajectory.steps)
    return replace(trajectory, steps=(*steps, replace(last, reward=score)), reward=score)


@dataclass(slots=True)
class Rollouts:
    """The training tasks of a round, in their order, and a budget of episodes to spend on them."""

    policy: Policy
    engine: Engine
    params: SamplingParams
    tasks: Sequence[Job]
    budget: int
    """Episodes that may be played, those that go on from a fork among them."""
    name: str = "policy"
    slots: int = 64
    prompt: Prompt = "brief"
    seed: int = 0
    progress: Callable[[Trajectory], None] | None = None
    workers: Executor | None = None
    step_timeout: float | None = None
    """As in `Collector`; the state that a group begins in is made in this process."""
    scorer: Scorer | None = None
    """Scores what a trainer gets in place of the world; what is stored keeps the world's rewards."""
    played: list[Trajectory] = field(default_factory=list)
    """Every trajectory so far."""
    version: int = 0
    """How often the policy's weights changed."""
    _next: int = 0

    @property
    def left(self) -> int:
        """Episodes that may still be played."""
        return self.budget - len(self.played)

    @property
    def temperature(self) -> float:
        """What the replies are sampled at.

        Raises:
            ConfigError: replies are not drawn from all tokens, so that a ratio of probabilities means nothing.
        """
        if self.params.greedy or self.params.top_p < 1 or self.params.top_k:
            raise ConfigError(
                "an on-policy trainer samples from the whole distribution: temperature above 0, top_p 1, top_k 0; got "
                f"{self.params.temperature:g}, {self.params.top_p:g}, {self.params.top_k}"
            )
        return self.params.temperature

    def state(self) -> dict[str, int]:
        """Where it stands, beside what was played."""
        return {"version": self.version, "next": self._next}

    def go_on_from(self, state: Mapping[str, int], played: Sequence[Trajectory]) -> None:
        """Stand where another one stood that had played this."""
        self.version, self._next, self.played = state["version"], state["next"], list(played)
        if self.progress:
            for each in played:
                self.progress(each)

    def sync(self) -> None:
        """Play with the policy's weights of now from here on."""
        self.version += 1
        self.engine.sync(self.policy, self.version)

    def groups(self, tasks: int, size: int) -> list[list[Trajectory]]:
        """`size` episodes of each of the next `tasks` tasks, all of a task from one and the same state.

        Tasks come again, with fresh tries, when all have been met. Fewer than `tasks` groups where the budget ends, and
        none where it has no room for one: `left` need not come to 0.
        """
        jobs = self.jobs(min(tasks, self.left // size), size)
        starts = [self.start(job) for job in jobs] if size > 1 else [None] * len(jobs)
        return self.go_on(jobs, starts, size)

    def trees(self, tasks: int, size: int, branches: int) -> list[list[Trajectory]]:
        """As `groups`, and then of each of these tasks up to `branches` groups more, each from one state of a try.

        Which states is drawn by the seed from all that the task's tries went through, their starts left out; fewer
        where there are fewer. A tree is begun only where the budget has room for all of its episodes.

        Raises:
            SnapshotError: a world does not show what it showed in the try.
        """
        whole, before = size * (1 + branches), len(self.played)
        jobs = self.jobs(min(tasks, self.left // whole), whole)
        trunks = self.go_on(jobs, [self.start(job) for job in jobs], size)
        tries = self.played[before:]  # with the world's own rewards
        found = distributed.once(self._branches, jobs, tries, size, branches)  # a world that fails must fail for all
        later = [replace(job, attempt=job.attempt + k * size)
                 for job, forks in zip(jobs, found, strict=True) for k in range(1, len(forks) + 1)]  # fmt: skip
        return trunks + self.go_on(later, [fork for forks in found for fork in forks], size)

    def _branches(self, jobs: Sequence[Job], tries: Sequence[Trajectory], size: int, branches: int) -> list[list[Fork]]:
        """Of each job up to so many states in which its `size` tries were."""
        found = []
        with closing(EnvPool()) as pool:
            for number, job in enumerate(jobs):
                rng = Rng(self.seed, "branches", job.env.key, job.task, job.attempt)
                found.append(midway(tries[number * size : (number + 1) * size], branches, rng, pool, job.env))
        return found

    def jobs(self, tasks: int, size: int) -> list[Job]:
        """The next tasks, each as the first of `size` tries."""
        found = []
        for _ in range(tasks):
            round_trip, place = divmod(self._next, len(self.tasks))
            found.append(replace(self.tasks[place], attempt=round_trip * size))
            self._next += 1
        return found

    def start(self, job: Job) -> Fork | None:
        """The state that a job begins in; None where the world does not begin: each try says so for itself."""
        return unless_it_fails(lambda: self.collector(self._agent()).start(job))

    def go_on(self, jobs: Sequence[Job], forks: Sequence[Fork | None], size: int) -> list[list[Trajectory]]:
        """`size` continuations of each job's task, from its fork; from a reset where that is None.

        They are tries `job.attempt` and on: a second call with a fork wants a job of a later attempt, or it plays the
        same again.

        Raises:
            SnapshotError: tries that began by themselves, for there is no fork, did not begin alike.
        """
        tries = [
            replace(job, fork=fork, attempt=job.attempt + k)
            for job, fork in zip(jobs, forks, strict=True)
            for k in range(size)
        ]
        played = self.play(tries)
        groups = [played[at : at + size] for at in range(0, len(played), size)]
        for job, fork, group in zip(jobs, forks, groups, strict=True):
            if fork is None and len({(each.rules, each.steps[0].observation) for each in group if each.steps}) > 1:
                raise SnapshotError(f"{job.env.name}: two tries at {job.task!r} did not begin alike")
        return groups

    def play(self, jobs: Sequence[Job], scored: bool = True) -> list[Trajectory]:
        """Play these jobs as they are; they count. Where they are not to be `scored` the world's rewards stay."""
        played = self.collector(self._agent()).collect_batch(jobs, self.progress)
        self.played += played
        return self._scored(played) if scored else played

    def _scored(self, played: list[Trajectory]) -> list[Trajectory]:
        sound = [each for each in played if each.steps and each.error is None]
        if self.scorer is None or not sound:
            return played
        scores = dict(zip(map(id, sound), distributed.once(self.scorer, sound), strict=True))
        return [rewarded(each, scores[id(each)]) if id(each) in scores else each for each in played]

    def collector(self, agent: Agent) -> Collector:
        """Who plays with this agent as the policy plays; what it plays counts for nothing here."""
        return Collector(agent, self.slots, self.prompt, self.seed, self.workers, self.step_timeout)

    def _agent(self) -> Agent:
        from agentgym_py.agents import ModelAgent

        return ModelAgent(self.policy, self.engine, self.params, name=self.name)
