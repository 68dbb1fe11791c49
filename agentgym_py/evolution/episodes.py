"""The episodes of a run: those of a round are loaded from its folder, or else played and saved there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import distributed
from agentgym_py.agents import Agent, ExpertAgent, ModelAgent
from agentgym_py.collection import Collector, Executor, Job, PlayConfig
from agentgym_py.collection.branching import branch_jobs
from agentgym_py.engine import SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.errors import DataError, RunError
from agentgym_py.evaluation.evaluate import evaluate, summary_dict
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.evolution.sequence import Schedule
from agentgym_py.evolution.task_sampling import demonstration_jobs, round_jobs, tasks_per_env
from agentgym_py.multiagent.partners import PartnerSettings, release_partners
from agentgym_py.policy.memory import release_memory
from agentgym_py.rng import seed_of
from agentgym_py.training.progress import Reporter
from agentgym_py.trajectory import Trajectory, store

if TYPE_CHECKING:
    from agentgym_py.engine import Engine
    from agentgym_py.evolution.config import EvolveConfig
    from agentgym_py.policy import Policy


def release_models() -> None:
    """Free the models and caches of the phase before, also the checkpoints of partners."""
    release_partners()
    release_memory()


@dataclass(frozen=True, slots=True)
class RoundEpisodes:
    """Plays the episodes of a run, and loads those that its folder has. All ranks get the same episodes."""

    folder: RunFolder
    envs: Sequence[EnvSpec]
    config: EvolveConfig
    is_on_policy: bool
    """Whether the trainer plays the episodes of the rounds itself, and need not spend its whole budget."""
    reporter: Reporter
    executor: Executor | None
    load_agent: Callable[[int], Policy]
    """Returns the agent of a round."""
    engine_for: Callable[[Policy], Engine]
    """Makes the engine that samples from a policy."""
    on_save: Callable[[], None]
    """Called when episodes were saved."""
    partner: PartnerSettings = field(default_factory=PartnerSettings)
    """How a checkpoint plays that is the partner."""

    @property
    def schedule(self) -> Schedule:
        """Which stage and which of its rounds each round is."""
        return self.config.schedule(len(self.envs))

    def worlds(self, number: int) -> Sequence[EnvSpec]:
        """Return the worlds of a round's training tasks."""
        return [self.envs[self.schedule.stage(number)]] if self.config.sequence else self.envs

    def path(self, number: int, name: str) -> Path:
        """Return the store of a round's episodes of this name."""
        return self.folder.round(number) / f"{name}.jsonl"

    # ---- what a round needs -----------------------------------------------------------------------------------------

    def play_round(self, number: int) -> list[Trajectory]:
        """Return what an offline trainer's round learns from: demonstrations in a first round, else exploration."""
        play = partial(self.explore if self.schedule.within(number) else self._demonstrate, number)
        return self.load_or_play(number, "trajectories", play, *self._expected(number))

    def demonstrate_more(self, number: int) -> list[Trajectory]:
        """Return further demonstrations for a round that has nothing to learn from, `expert_tasks` in each world."""
        jobs = demonstration_jobs(self.config, self.worlds(number), number)
        return self.load_or_play(number, "demonstrations", partial(self._collect_expert, number, jobs), len(jobs))

    def evaluate(self, number: int, policy: Policy, split: str, tasks: int) -> dict[str, Any]:
        """Return the summary of a policy's episodes on the first tasks of a split of all worlds."""

        def play() -> list[Trajectory]:
            release_models()
            return evaluate(
                self._agent(number, policy, 0.0), self.envs, split, range(tasks), play=self.play_config(split, number),
                progress=self.reporter.phase(number, split, len(self.envs) * tasks),
            )[1]  # fmt: skip

        return summary_dict(self.load_or_play(number, split, play, len(self.envs) * tasks))

    def load_round(self, number: int) -> list[Trajectory]:
        """Load the episodes of an earlier round."""
        path = self.path(number, "trajectories")
        if self.schedule.within(number) and self.is_on_policy:
            return list(store.read(path))
        return _read_complete(path, *self._expected(number), self.config.fork_attempts)

    def load_or_play(
        self, number: int, name: str, play: Callable[[], list[Trajectory]], episodes: int, forks: int = 0
    ) -> list[Trajectory]:
        """Load episodes of a round from its folder, or else play and save them.

        Raises:
            RunError: the file is damaged, or has another number of episodes than these and those of `forks`.
        """
        path = self.path(number, name)
        if distributed.on_rank_zero(path.is_file):
            return _read_complete(path, episodes, forks, self.config.fork_attempts)
        trajectories = play()
        self.save(number, name, trajectories)
        self.on_save()
        return trajectories

    def save(self, number: int, name: str, trajectories: Sequence[Trajectory]) -> None:
        """Write a round's episodes; rank 0 does."""
        if distributed.is_rank_zero():
            store.write(self.path(number, name), trajectories)

    # ---- how they are played ----------------------------------------------------------------------------------------

    def jobs(self, number: int, attempts: int = 1) -> list[Job]:
        """Return the jobs of a round's training tasks; in self-play the agent of the round before is the partner."""
        first = self.schedule.first(self.schedule.stage(number))
        jobs = round_jobs(
            self.config, self.worlds(number), number - first, lambda r: self.load_round(first + r), attempts
        )
        if not (self.config.self_play and self.schedule.within(number)):
            return jobs
        partner = str((self.folder.round(number - 1) / "checkpoint").absolute())
        return [replace(job, env=EnvSpec(job.env.name, {**job.env.kwargs, "partner_model": partner})) for job in jobs]

    def play_config(self, phase: str, number: int) -> PlayConfig:
        """Return the settings of playing a round's phase, which has its own seed."""
        play_config = self.config.play_config(seed_of(self.config.seed, phase, number), self.executor)
        return replace(play_config, partner=self.partner)

    def explorers(self, number: int, policy: Policy) -> list[Callable[[], Agent]]:
        """Return what makes the agents that explore in a round, one for each temperature."""
        return [partial(self._agent, number - 1, policy, temperature) for temperature in self.config.temperatures]

    def explore(self, number: int) -> list[Trajectory]:
        """Play the training tasks of a round with the agent of the round before, and the forks of these episodes."""
        release_models()
        policy, config = self.load_agent(number - 1), self.config
        jobs, agents = self.jobs(number, config.attempts), self.explorers(number, policy)
        trajectories = self.collect(number, "explore", agents, jobs)
        branches = branch_jobs(
            jobs, trajectories, config.forks, config.fork_attempts, seed=seed_of(config.seed, "forks", number),
            first_attempt=config.attempts,
        )  # fmt: skip
        fork_jobs = [job for branch in branches for job in branch]
        return trajectories + (self.collect(number, "forks", agents, fork_jobs) if fork_jobs else [])

    def collect(
        self, number: int, phase: str, make_agents: Sequence[Callable[[], Agent]], jobs: Sequence[Job],
        label: str = "", seed_phase: str = "",
    ) -> list[Trajectory]:  # fmt: skip
        """Collect the episodes of a phase, whose attempts the agents play in turn.

        The name of the phase is part of their seed, or `seed_phase` is if they start as those of another one; `label`
        is its name for the reporter. Many episodes are collected in parts, and each part is saved. Each has a new
        agent, because an engine's cache changes the last digit of log-probabilities.
        """
        progress, size = self.reporter.phase(number, label or phase, len(jobs)), self.config.save_episodes
        play_config, agents = self.play_config(seed_phase or phase, number), len(make_agents)

        def play(part: Sequence[Job]) -> list[Trajectory]:
            played = dict[int, Trajectory]()
            for turn, make_agent in enumerate(make_agents):
                places = [place for place, job in enumerate(part) if job.attempt % agents == turn]
                if places:
                    collector = Collector(make_agent(), play_config)
                    played |= zip(places, collector.collect_batch([part[p] for p in places], progress), strict=True)
            return [played[place] for place in range(len(part))]

        if len(jobs) <= size:
            return play(jobs)
        trajectories = []
        for start in range(0, len(jobs), size):
            name, part = f"parts/{phase}-{start:06d}", jobs[start : start + size]
            saved = distributed.on_rank_zero(self.path(number, name).is_file)
            episodes = self.load_or_play(number, name, partial(play, part), len(part))
            for trajectory in episodes if saved else ():
                progress(trajectory)
            trajectories += episodes
        return trajectories

    def _demonstrate(self, number: int) -> list[Trajectory]:
        return self._collect_expert(number, self.jobs(number))

    def _collect_expert(self, number: int, jobs: Sequence[Job]) -> list[Trajectory]:
        expert = partial(ExpertAgent, fair=self.config.expert == "fair", thoughts=self.config.expert_thoughts)
        return self.collect(number, "expert", [expert], jobs, f"{self.config.expert} expert") if jobs else []

    def _agent(self, version: int, policy: Policy, temperature: float) -> ModelAgent:
        params = SamplingParams(temperature=temperature, max_new_tokens=self.config.max_new_tokens)
        return ModelAgent(policy, self.engine_for(policy), params, name=f"Agent_v{version}")

    def _expected(self, number: int) -> tuple[int, int]:
        """Return how many episodes a round of an offline trainer has, and the maximum of forked states in each."""
        worlds = self.worlds(number)
        if self.schedule.within(number):
            tasks = sum(tasks_per_env(worlds, self.config.explore_weights, self.config.explore_tasks))
            return tasks * self.config.attempts, self.config.forks
        return len(worlds) * self.config.expert_tasks, 0


def _read_complete(path: Path, episodes: int, forks: int = 0, fork_attempts: int = 0) -> list[Trajectory]:
    """Read a file that was complete when it got its name; raises RunError if episodes are missing now.

    The first `episodes` are followed by `fork_attempts` from each of up to `forks` states within each of them.
    """
    try:
        trajectories = list(store.read(path, warn=False))
        states = [len(t.steps) - 1 for t in trajectories[:episodes] if t.steps and t.is_evidence]
        episodes += sum(min(forks, number) for number in states) * fork_attempts
        reason = f"holds {len(trajectories)} of {episodes} episodes"
    except DataError as error:
        trajectories, reason = [], str(error)
    if len(trajectories) != episodes:
        raise RunError(f"{path} is damaged ({reason}); delete it to have its episodes played again")
    return trajectories
