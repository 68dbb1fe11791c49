"""The collector: plays jobs with an agent, wherever they are best played."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

from agentgym_py.agents import Agent
from agentgym_py.collection.episode import EpisodeLoop
from agentgym_py.collection.executor import last_at_end
from agentgym_py.collection.job import Job
from agentgym_py.collection.play_config import PlayConfig
from agentgym_py.errors import ConfigError
from agentgym_py.trajectory import Trajectory

Progress = Callable[[Trajectory], None]
"""Is called with every episode that ends."""


@dataclass(slots=True)
class Collector:
    """Plays jobs with an agent: `Collector(ExpertAgent()).collect_batch(jobs_for("shop", "train", range(100)))`.

    The trajectories depend on the jobs, the agent, and the `prompt`, `prompt_template`, `partner` and `seed` of `play`
    alone. Other settings change at most floating-point rounding.
    """

    agent: Agent
    play: PlayConfig = field(default_factory=PlayConfig)

    def __post_init__(self) -> None:
        if not callable(getattr(self.agent, "act", None)):
            raise ConfigError(f"an agent such as ExpertAgent() is wanted, with a method act; got {self.agent!r:.100}")

    def collect(self, job: Job) -> Trajectory:
        """Play one episode."""
        return self.collect_batch([job])[0]

    def collect_batch(self, jobs: Sequence[Job], progress: Progress | None = None) -> list[Trajectory]:
        """Play every job; return the trajectories in the order of `jobs`."""
        done: dict[int, Trajectory] = {}
        for index, trajectory in self.stream(jobs):
            done[index] = trajectory
            if progress:
                progress(trajectory)
        return [done[index] for index in range(len(jobs))]

    def iter_ordered(self, jobs: Sequence[Job]) -> Generator[Trajectory]:
        """Play every job; yield the trajectories in the order of `jobs`, each as soon as all before it are over."""
        done: dict[int, Trajectory] = {}
        following = 0
        for index, trajectory in self.stream(jobs):
            done[index] = trajectory
            while following in done:
                yield done.pop(following)
                following += 1

    def stream(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Trajectory]]:
        """Play every job; yield (index of the job, trajectory) as episodes end."""
        executor = self.play.executor
        if executor and jobs and (self.play.step_timeout is not None or executor.is_worthwhile(jobs)):
            return last_at_end(executor.stream(self.agent, self.play, jobs), len(jobs))
        return EpisodeLoop(self.agent, self.play).stream(jobs)
