"""DAgger: the expert says what it would have done in every state that the agent reached; the agent learns that.

    for i = 1 ... N (Ross et al. 2011, arXiv:1011.0686, algorithm 3.1):
        play episodes with pi_i = beta_i expert + (1 - beta_i) agent,   beta_i = beta * beta_decay^(i - 1)
        D_i = {(s, expert(s))} over all states s of these episodes
        D = D + D_i;  train the agent on D
    loss = - sum over label tokens of w(s) log pi(a_t | s, a_<t) / number of label tokens

A label is the expert's whole reply, thought and action. Its context is the history as the agent's tokens were sampled,
which has no loss. Where the agent replied just as the expert does, the label stands in the episode itself; where it
did not, the history and the label are one more sequence. So each state has its label once.

With `cost_weight` a label weighs 1 + cost_weight r(s), divided by the mean: r is the regret of the action that was
taken, the difference in the exact expert's cost to go (steps left),

    r(s) = max(0, 1 + steps left after the action - steps left before),

all the steps left if the task can no longer be solved, and 0 if that is unknown because the episode was truncated. This
is AggreVaTe's cost-sensitive data (arXiv:1406.5979) with one sampled action per state. Deviations: the agent continues
from its weights in each iteration, instead of a new training; a label is learnt as text, by maximum likelihood, because
the paper's 0-1 loss has no gradient; the last policy is kept, and AgentEvol's rounds choose the best on valid tasks;
AggreVaTe learns costs alone, here they weigh DAgger's labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar, Literal

from agentgym_py import distributed
from agentgym_py.agents import ExpertAgent
from agentgym_py.agents.mixed import MixedAgent
from agentgym_py.checks import require_at_least
from agentgym_py.collection import Job
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.policy.tokens import RowSize, Sample, encode_turns
from agentgym_py.policy.typing import Tensor
from agentgym_py.rewards.expert_labels import Label, labels_or_reason
from agentgym_py.rng import seed_of
from agentgym_py.training import TrainReport, tracking
from agentgym_py.training.data import TrainingData
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import OfflineSettings, require_no_validation
from agentgym_py.training.trainer import PlanChecks, TrainerInfo
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.filtered_bc import bc_loss

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.policy import Policy
    from agentgym_py.policy.chat_format import ChatFormat
    from agentgym_py.training.fit import Fit


@dataclass(frozen=True, slots=True)
class LabelSequence:
    """A history with labels: all that agree with it, or one at its end."""

    sample: Sample
    """The mask is 1 on the labels' tokens."""
    weights: list[float]
    """Weight of each of these tokens in the loss."""


@dataclass(frozen=True, slots=True)
class LabelledEpisode:
    """The labels of one episode, each once."""

    sequences: tuple[LabelSequence, ...]

    @property
    def label_tokens(self) -> int:
        """Number of tokens with a loss."""
        return sum(len(sequence.weights) for sequence in self.sequences)


@dataclass(slots=True)
class Aggregate:
    """DAgger's data: the labelled episodes of all iterations so far, and why others are left out."""

    trajectories: list[Trajectory] = field(default_factory=list)
    episodes: list[LabelledEpisode] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    def rows(self) -> list[LabelledEpisode]:
        """Return the episodes with weights whose mean over all label tokens is 1."""
        weights = [w for episode in self.episodes for sequence in episode.sequences for w in sequence.weights]
        mean = fmean(weights) if weights else 1.0
        return [
            LabelledEpisode(tuple(replace(s, weights=[w / mean for w in s.weights]) for s in episode.sequences))
            for episode in self.episodes
        ]


@dataclass(frozen=True, slots=True)
class Dagger(OfflineSettings, PlanChecks):
    """Settings of DAgger."""

    info: ClassVar = TrainerInfo(several_processes=True, resumes=False, warm_start="filtered_bc")

    tasks_per_iteration: int = 128
    """Episodes per iteration, one per task."""
    beta: float = 0.5
    """Probability that the expert acts in a step of the first iteration."""
    beta_decay: float = 0.5
    """Factor of that probability from one iteration to the next."""
    expert: Literal["fair", "exact"] = "fair"
    """Expert that labels and acts; an agent can learn the fair expert's actions from its observations."""
    expert_thoughts: bool = True
    """Whether a label has the expert's thought, if there is one, before the action."""
    cost_weight: float = 0.0
    """How much a step of regret by the exact expert's plan adds to a label's weight; 0 weighs all labels alike."""

    def __post_init__(self) -> None:
        OfflineSettings.__post_init__(self)
        require_no_validation(self)
        require_at_least(self, {"tasks_per_iteration": 1, "beta": 0.0, "beta_decay": 0.0, "cost_weight": 0.0})
        if self.beta > 1 or self.beta_decay > 1:
            raise ConfigError(f"beta and beta_decay must be at most 1, got {self.beta:g} and {self.beta_decay:g}")
        if self.mask_truncated_completions:
            raise ConfigError("mask_truncated_completions must be false: dagger learns none of the sampled replies")

    @property
    def uses_reward(self) -> bool:
        """Whether the policy learns from returns: the expert's labels alone are learnt."""
        return False

    def improve(
        self, policy: Policy, rollouts: Rollouts, *, seed: int, output_dir: Path, progress: Progress | None = None
    ) -> TrainReport:
        """Train `policy` in place until the budget of episodes is spent.

        Raises:
            NothingToTrainOnError: no state had a label.
            TrainingError: the loss was not finite.
        """
        from agentgym_py.training.fit import Fit
        from agentgym_py.training.rl.batch import episode_stats

        data, reports, history = Aggregate(), list[TrainReport](), list[dict[str, float]]()
        expert = ExpertAgent(fair=self.expert == "fair", thoughts=self.expert_thoughts)
        for iteration in range(-(-rollouts.remaining // self.tasks_per_iteration)):
            rollouts.sync()
            share = self.beta * self.beta_decay**iteration
            agent = MixedAgent(
                policy, rollouts.engine, rollouts.params, rollouts.name, expert=expert, expert_share=share
            )
            jobs = rollouts.jobs(min(self.tasks_per_iteration, rollouts.remaining), 1)
            episodes = rollouts.play(jobs, scored=False, agent=agent)
            rollouts.release_cache()
            labels = distributed.on_rank_zero(label_episodes, jobs, episodes, expert, self.cost_weight > 0)
            self.aggregate(data, policy, episodes, labels)
            row = {"expert_share": share, **label_stats(labels), **episode_stats(episodes)}
            if rows := data.rows():
                with Fit("dagger", policy, self, rows, seed=seed_of(seed, iteration), output_dir=None, track=False,
                         size_of=label_size) as fit:  # fmt: skip
                    for batch in fit.steps():
                        tokens = sum(episode.label_tokens for episode in batch)
                        for part in fit.microbatches([s for episode in batch for s in episode.sequences]):
                            fit.backward(*self.loss(fit, part, tokens))
                        fit.step()
                samples = [sequence.sample for episode in rows for sequence in episode.sequences]
                reports.append(fit.report(TrainingData(data.trajectories, samples, data.dropped)))
                row |= {"loss": fmean(reports[-1].loss), **reports[-1].metrics}
            history.append(row)
            tracking.log(row, len(history))
            if progress:
                progress(rollouts.budget - rollouts.remaining, rollouts.budget)
        return report_of(data, reports, history)

    def loss(
        self, fit: Fit[LabelledEpisode], part: Sequence[LabelSequence], tokens: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the part's share of the loss of a step of `tokens` label tokens, and its logs."""
        from agentgym_py.policy.logprobs import agent_logprobs_and_hits

        logprobs_N, hits_N = agent_logprobs_and_hits(fit.agent_logits([sequence.sample for sequence in part]))
        weights_N = logprobs_N.new_tensor([weight for sequence in part for weight in sequence.weights])
        return bc_loss(weights_N * logprobs_N, tokens), {"mean_token_accuracy": hits_N}

    def aggregate(
        self, data: Aggregate, policy: Policy, episodes: Sequence[Trajectory],
        labels: Sequence[list[Label | None] | str],
    ) -> None:  # fmt: skip
        """Add an iteration's labelled episodes to the data."""
        longest = min(self.max_length, policy.max_length)
        for trajectory, of_episode in zip(episodes, labels, strict=True):
            if isinstance(of_episode, str):
                data.dropped[of_episode] += 1
            elif not any(of_episode):
                data.dropped["without a label of the expert"] += 1
            elif sequences := encode_labels(trajectory, of_episode, policy.chat, longest, self.cost_weight):
                data.trajectories.append(trajectory)
                data.episodes.append(LabelledEpisode(tuple(sequences)))
            else:
                data.dropped[f"longer than {longest} tokens"] += 1


# ---- labels ----------------------------------------------------------------------------------------------------------


def label_episodes(
    jobs: Sequence[Job], episodes: Sequence[Trajectory], expert: ExpertAgent, costs: bool
) -> list[list[Label | None] | str]:
    """Label every state of the episodes, by replaying them; a reason in place of an episode without labels."""
    with closing(EnvPool()) as pool:
        return [
            labels_or_reason(trajectory, expert, pool, job.env, costs=costs)
            for job, trajectory in zip(jobs, episodes, strict=True)
        ]


def label_size(row: LabelledEpisode | LabelSequence) -> RowSize:
    """Return the size of an episode's sequences, or of one of them."""
    sequences = row.sequences if isinstance(row, LabelledEpisode) else (row,)
    return RowSize.of(*(sequence.sample for sequence in sequences))


def label_stats(labels: Sequence[list[Label | None] | str]) -> dict[str, float]:
    """Summarize an iteration's labels: how many there are, and how often the agent did what the expert would have."""
    known = [label for of_episode in labels if not isinstance(of_episode, str) for label in of_episode if label]
    if not known:
        return {"labels": 0.0}
    return {"labels": float(len(known)), "agreement": fmean(label.agrees for label in known),
            "regret": fmean(label.regret for label in known)}  # fmt: skip


def encode_labels(
    trajectory: Trajectory, labels: Sequence[Label | None], chat: ChatFormat, longest: int, cost_weight: float = 0.0
) -> list[LabelSequence]:
    """Return the sequences that hold each label once; labels behind more than `longest` tokens are left out."""
    episode, corrections = _Episode(longest), list[LabelSequence]()
    remaining = iter(labels)
    for turn in encode_turns(trajectory.rules, trajectory.steps, chat):
        if turn.starts_sequence:
            episode.cut()
        episode.add(turn.context)
        label = None if turn.is_summary else next(remaining)
        if label is None:
            episode.add(turn.reply)
            continue
        reply, weight = chat.reply(label.reply), 1 + cost_weight * label.regret
        if reply == turn.reply:
            episode.add(reply, weight)
            continue
        ids = [*episode.ids, *reply]
        if len(ids) <= longest:
            mask = [0] * len(episode.ids) + [1] * len(reply)
            corrections.append(LabelSequence(Sample(ids, mask), [weight] * len(reply)))
        episode.add(turn.reply)
    episode.cut()
    return episode.sequences + corrections


class _Episode:
    """The episode's own sequences up to the last label in each."""

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.sequences = list[LabelSequence]()
        self.ids, self._mask, self._weights = list[int](), list[int](), list[float]()

    def add(self, ids: Sequence[int], weight: float | None = None) -> None:
        """Add tokens, with a weight if they are a label's."""
        is_label = weight is not None and len(self.ids) + len(ids) <= self.longest
        self.ids += ids
        self._mask += [int(is_label)] * len(ids)
        self._weights += [weight] * len(ids) if is_label and weight is not None else []

    def cut(self) -> None:
        """End the sequence; the tokens behind its last label are dropped."""
        if any(self._mask):
            end = len(self._mask) - self._mask[::-1].index(1)
            self.sequences.append(LabelSequence(Sample(self.ids[:end], self._mask[:end]), self._weights))
        self.ids, self._mask, self._weights = [], [], []


def report_of(data: Aggregate, reports: Sequence[TrainReport], history: list[dict[str, float]]) -> TrainReport:
    """Sum the trainings of the iterations up.

    Raises:
        NothingToTrainOnError: there was none.
    """
    if not reports:
        reasons = ", ".join(f"{number} {reason}" for reason, number in data.dropped.items())
        raise NothingToTrainOnError(f"nothing to learn from {data.dropped.total()} trajectories: {reasons}")
    return TrainReport(
        trajectories=len(data.trajectories), dropped=dict(data.dropped),
        tokens=sum(report.tokens for report in reports), agent_tokens=sum(report.agent_tokens for report in reports),
        seconds=sum(report.seconds for report in reports),
        loss=[row["loss"] for row in history if "loss" in row],
        metrics={name: value for row in history for name, value in row.items()},
        history=history,
    )  # fmt: skip
