"""An adversary of a reward: a search for episodes that the reward overrates.

A policy that is trained on a learnt reward optimizes the reward (the proxy), not what it stands for (the truth). At
first both rise; from some point on the proxy rises and the truth falls (Gao et al., arXiv:2210.10760). `attack`
optimizes the proxy without training anything: for each task it keeps the episode of the largest proxy, and again and
again lets an agent continue that episode from a state drawn at random. It keeps what the proxy likes better and never
looks at the truth, which is what the world says of the same episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import fmean

from agentgym_py.agents import Agent, RandomAgent
from agentgym_py.collection import Collector, Job, PlayConfig
from agentgym_py.collection.branching import sample_states
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.errors import ConfigError, InfrastructureError
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.scores import Scorer, apply_scores

_FRESH = 4
"""One candidate of this number begins at the reset, so that the search leaves a bad beginning."""


@dataclass(frozen=True, slots=True)
class Generation:
    """The kept episodes after a generation of the search, one per task."""

    episodes: int
    """Episodes played so far, for all tasks together."""
    proxy: float
    """Mean score by the attacked reward."""
    truth: float
    """Mean return in the world."""
    success: float
    """Share of successes in the world."""


@dataclass(frozen=True, slots=True)
class Attack:
    """The result of a search."""

    generations: Sequence[Generation]
    """From the first episodes on."""
    kept: Sequence[Trajectory]
    """The episode of the largest score of each task, with the world's rewards."""
    scores: Sequence[float]
    """Their scores by the attacked reward."""

    @property
    def onset(self) -> int | None:
        """The generation from which the truth falls although the proxy does not; None if the truth ends at its peak."""
        truths = [generation.truth for generation in self.generations]
        peak = max(range(len(truths)), key=lambda number: (truths[number], number))
        return None if peak == len(truths) - 1 else peak

    @property
    def overrated(self) -> list[tuple[float, Trajectory]]:
        """The failures among the kept episodes with their scores, the largest score first."""
        pairs = zip(self.scores, self.kept, strict=True)
        return sorted(((score, t) for score, t in pairs if not t.success), key=lambda pair: -pair[0])


def attack(
    scorer: Scorer, jobs: Sequence[Job], *, generations: int = 16, agent: Agent | None = None,
    play: PlayConfig | None = None,
) -> Attack:  # fmt: skip
    """Search for the episodes of these tasks that `scorer` likes best.

    Args:
        scorer: The attacked reward, such as that of `build_reward`.
        jobs: The tasks, each once.
        generations: How often each task's episode is continued.
        agent: Begins and continues the episodes; by default it acts at random among the actions that the world lists.
        play: Settings of the episodes; its seed is that of the search.

    Raises:
        ConfigError: there is no task, or fewer than one generation.
        InfrastructureError: no first episode has a score.
    """
    if not jobs or generations < 1:
        raise ConfigError(f"attack needs tasks and generations, got {len(jobs)} and {generations}")
    play = play or PlayConfig()
    collector = Collector(agent or RandomAgent(), play)
    first = collector.collect_batch(jobs)
    scored = [(job, t, score) for job, t, score in zip(jobs, first, _scores(scorer, first), strict=True)
              if score is not None]  # fmt: skip
    if not scored:
        raise InfrastructureError(
            f"no first episode of {len(jobs)} has a score: {first[0].error or 'the reward failed'}"
        )
    tasks, kept, scores = map(list, zip(*scored, strict=True))
    played = len(first)
    rows = [_generation(played, kept, scores)]
    with closing(EnvPool()) as pool:
        for number in range(1, generations + 1):
            candidates = [_candidate(job, t, number, play.seed, pool) for job, t in zip(tasks, kept, strict=True)]
            episodes = collector.collect_batch(candidates)
            for i, score in enumerate(_scores(scorer, episodes)):
                if score is not None and score > scores[i]:
                    kept[i], scores[i] = episodes[i], score
            played += len(episodes)
            rows.append(_generation(played, kept, scores))
    return Attack(rows, kept, scores)


def _candidate(job: Job, kept: Trajectory, number: int, seed: int, pool: EnvPool) -> Job:
    """Return the job that continues the kept episode from one of its states, or now and then begins again."""
    rng = Rng("attack", seed, job.env.key, job.task, number)
    fresh = rng.below(_FRESH) == 0
    states = [] if fresh else sample_states([kept], 1, rng, pool, job.env)
    return replace(job, attempt=job.attempt + number, start=states[0] if states else None)


def _scores(scorer: Scorer, episodes: Sequence[Trajectory]) -> list[float | None]:
    """Return the scores; None for an episode without a step, or that failed, or that the reward failed for."""
    scored = apply_scores(episodes, scorer)
    return [t.reward if t.steps and t.is_evidence else None for t in scored]


def _generation(played: int, kept: Sequence[Trajectory], scores: Sequence[float]) -> Generation:
    return Generation(
        played, fmean(scores), fmean(trajectory.reward for trajectory in kept),
        fmean(trajectory.success for trajectory in kept),
    )  # fmt: skip
