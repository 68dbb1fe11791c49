"""What the rounds of an offline trainer learn from: episodes with the rewards that count there, and those selected."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_py import distributed
from agentgym_py.errors import NothingToTrainOnError, RunError
from agentgym_py.evolution.episodes import RoundEpisodes, release_models
from agentgym_py.evolution.reflection import (
    AgentWriter,
    collect_reflections,
    failures_of,
    retry_jobs,
    with_bare_rules,
)
from agentgym_py.feedback import EpisodeRef, Feedback
from agentgym_py.feedback.judging import judge_into
from agentgym_py.feedback.learning import LearningData, by_scores
from agentgym_py.feedback.types import NoFeedback, scores_of
from agentgym_py.files import numbered_lines, parse_json, write_atomic
from agentgym_py.rewards.functions import build_reward, reads_several
from agentgym_py.rng import seed_of
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.json_values import plain_values, read_record
from agentgym_py.trajectory.scores import Score, Scorer, apply_scores, as_score
from agentgym_py.trajectory.selectors import SelectConfig, Selection, build_selector

if TYPE_CHECKING:
    from agentgym_py.evolution.config import EvolveConfig
    from agentgym_py.policy import Policy


@dataclass(slots=True)
class RoundSelection:
    """Rewards the episodes of a round by the world, a reward function or a critic, and selects what is learnt."""

    episodes: RoundEpisodes
    has_cloner: bool
    """Whether another trainer makes Agent_v0 of the demonstrations."""
    _reward: Scorer | None = field(default=None, init=False)
    _feedback: dict[Path, list[Feedback]] = field(default_factory=dict, init=False)
    """The critic's feedback by its file."""

    @property
    def config(self) -> EvolveConfig:
        """The run's settings."""
        return self.episodes.config

    def select(self, number: int, learnable: LearningData) -> Selection:
        """Choose what a round learns from; demonstrations for a cloner or beside a critic are chosen by the default."""
        demonstrates = self.episodes.schedule.within(number) == 0
        by_default = demonstrates and (self.has_cloner or self.config.critic is not None)
        selection = build_selector(SelectConfig() if by_default else self.config.select)(learnable.episodes)
        return Selection(selection.kept, dict(learnable.dropped + Counter(selection.dropped)))

    def selected(self, number: int) -> Sequence[Trajectory]:
        """Return the episodes of an earlier round that were selected."""
        return self.select(number, self.learnable(number, self.episodes.load_round(number))).kept

    def learnable(self, number: int, explored: Sequence[Trajectory]) -> LearningData:
        """Return what an offline trainer's round may learn from: its episodes, and the retries of its failures.

        They have the rewards that it learns from; demonstrations keep the env's.
        """
        if not self.episodes.schedule.within(number):
            return LearningData(list(explored))
        learnable = self._rewarded(number, "", explored)
        if self.config.reflection is None:
            return learnable
        failures = failures_of(learnable.episodes)
        retries = [with_bare_rules(trajectory) for trajectory in self._retries(number, explored, failures)]
        tasks = {trajectory.provenance.task_key for trajectory in retries}
        others = [trajectory for trajectory in explored if trajectory.provenance.task_key in tasks]
        retried = self._rewarded(number, "-retries", retries, others)
        return LearningData([*learnable.episodes, *retried.episodes], dropped=learnable.dropped + retried.dropped)

    def _rewarded(
        self, number: int, suffix: str, episodes: Sequence[Trajectory], others: Sequence[Trajectory] = ()
    ) -> LearningData:
        """Return episodes with the critic's scores, the reward function's or the env's rewards.

        A critic, or a reward of several episodes, sees the `others` at their tasks beside them. Scores are stored in
        the round's folder, in a file that ends in `suffix`, so that a later round or a resumed run does not ask again.
        """
        if self.config.critic:
            return by_scores(episodes, self.judge(number, f"critic{suffix}", [*others, *episodes]))
        scorer, path = self.reward_function(), self.episodes.path(number, f"rewards{suffix}")
        beside = others if self.config.reward and reads_several(self.config.reward) else ()
        stored = partial(_load_or_score, path, scorer) if scorer else None
        return LearningData(apply_scores([*beside, *episodes], stored)[len(beside) :])

    def judge(self, number: int, name: str, explored: Sequence[Trajectory]) -> list[Feedback]:
        """Return the critic's feedback on episodes of a round; a killed run resumes its file."""
        critic, path = self.config.critic, self.episodes.path(number, name)
        assert critic
        if path not in self._feedback:
            progress, source = None, type(critic).__name__
            if not self.episodes.folder.done(number):
                progress = _one_by_one(self.episodes.reporter.phase(number, name, len(explored)), explored)
            self._feedback[path] = distributed.on_rank_zero(judge_into, path, source, critic, explored, progress)
        return self._feedback[path]

    def require_scores(self, number: int, explored: Sequence[Trajectory]) -> None:
        """Raise NothingToTrainOnError if the critic scored no episode of a round, with its most frequent reason."""
        evidence = {EpisodeRef.of(trajectory).digest for trajectory in explored if trajectory.is_evidence}
        feedback = self.judge(number, "critic", explored) if self.config.critic else []
        if not (self.config.critic and evidence) or evidence & scores_of(feedback).keys():
            return
        reasons = Counter(item.reason for item in feedback if isinstance(item, NoFeedback))
        ((reason, times),) = reasons.most_common(1) or [("no reason given", len(evidence))]
        raise NothingToTrainOnError(
            f"round {number}: no trajectory was selected, because the critic {type(self.config.critic).__name__} "
            f"scored none of {len(evidence)} episodes, {times} of them by this reason: {reason}"
        )

    def _retries(self, number: int, explored: Sequence[Trajectory], failures: Sequence[Trajectory]) -> list[Trajectory]:
        """Return another try at the task of each failed episode, with the reflection on it in the prompt.

        A finished round keeps its own retries, because a fork's other reward may fail for other episodes.
        """
        folder, retry = self.episodes.folder, partial(self._retry, number, explored, failures)
        count = folder.metrics(number)["reflection"]["retries"] if folder.done(number) else len(failures)
        return self.episodes.load_or_play(number, "retries", retry, count) if count else []

    def _retry(self, number: int, explored: Sequence[Trajectory], failures: Sequence[Trajectory]) -> list[Trajectory]:
        release_models()
        policy = self.episodes.load_agent(number - 1)
        jobs = self.episodes.jobs(number, self.config.attempts)
        job_of = {trajectory.id: job for trajectory, job in zip(explored, jobs, strict=False)}  # forks follow
        texts = distributed.on_rank_zero(self._reflect, number, policy, failures)
        retries = retry_jobs([job_of[trajectory.id] for trajectory in failures], texts, self.config.attempts)
        return self.episodes.collect(
            number, "retries", self.episodes.explorers(number, policy), retries, seed_phase="explore"
        )

    def _reflect(self, number: int, policy: Policy, failures: Sequence[Trajectory]) -> list[str]:
        """Return a text on each failure."""
        assert self.config.reflection
        seed = seed_of(self.config.seed, "reflections", number)
        writer = AgentWriter(policy, self.episodes.engine_for, self.config.temperature, seed)
        return collect_reflections(self.episodes.path(number, "reflections"), self.config.reflection, failures, writer)

    def reward_function(self) -> Scorer | None:
        """Return the scorer of `reward`; there is one for all rounds, because it warns once."""
        if self._reward is None:
            self._reward = build_reward(self.config.reward, self.config.reward_kwargs)
        return self._reward


def _one_by_one(watch: Callable[[Trajectory], None], episodes: Sequence[Trajectory]) -> Callable[[int, int], None]:
    """Return a function of how many episodes are done, which calls `watch` with each of them once."""
    rest = iter(episodes)

    def progress(done: int, total: int) -> None:
        for trajectory in islice(rest, done - (len(episodes) - length_hint(rest))):
            watch(trajectory)

    return progress


# ---- stored scores ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredScore:
    """A line of a round's file of scores."""

    episode: EpisodeRef
    parts: Mapping[str, tuple[float, ...]]
    error: str | None


def _load_or_score(path: Path, scorer: Scorer, trajectories: Sequence[Trajectory]) -> list[Score]:
    """Return the scores that a file has of exactly these episodes, or else score them and write the file.

    Raises:
        RunError: the file is damaged.
    """
    refs = [EpisodeRef.of(trajectory) for trajectory in trajectories]
    rows = _read_scores(path) if path.is_file() else []
    if [row.episode for row in rows] != refs:
        scores = [as_score(score, t) for t, score in zip(trajectories, scorer(trajectories), strict=True)]
        rows = [StoredScore(ref, _floats(score.parts), score.error) for ref, score in zip(refs, scores, strict=True)]
        write_atomic(path, "".join(json.dumps(plain_values(row)) + "\n" for row in rows))
    return [Score(row.parts, row.error) for row in rows]


def _floats(parts: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    return {name: tuple(map(float, rewards)) for name, rewards in parts.items()}


def _read_scores(path: Path) -> list[StoredScore]:
    try:
        with path.open("rb") as file:
            return [read_record(StoredScore, parse_json(line)) for _, line in numbered_lines(file)]
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}; delete it to have its episodes scored again") from error
