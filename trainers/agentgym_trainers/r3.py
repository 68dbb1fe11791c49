"""R3: proximal policy optimization with rewards for single steps, by a process reward model that learns along.

    R = alpha R_task + beta sum over steps i of PRM(step i) - gamma KL(pi | pi_ref)

over whole episodes; gamma is the setting `kl`. What the model says of a step stands at the last token of its thought
(of the reply, where it has none), the world's reward at the turn's last; the divergence costs at each token. (With
`level` turn, the default, a turn's rewards are one sum, wherever in it they stand.) All else,
loss, critic and advantages, is `ppo`'s. It goes round in stages: play, label the steps with fresh values of their
states, train the process reward model on them, take PPO's steps with its rewards; again every `prm_every` iterations.
Process rewards are from arXiv:2305.20050, their labels by continuations from arXiv:2312.08935.

By default a step is paid for its `progress`: by how much the state after it is worth more than the one before. Over an
episode that comes to the end's worth less the start's, so dawdling does not pay (potentials, Ng et al., ICML 1999);
`correctness` and `relevance` pay for every step, and so for long episodes.

Deviations: the model is trained on the first iteration's episodes, in which the critic warms up; from then on it judges
episodes before it is trained on them; the learning of the model starts anew each round, from `prm` or the policy; by
default gamma is PPO's 0.02, and the model is trained every iteration, for a round of the tiny model has few of them.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from agentgym_py import ranks
from agentgym_py.arguments import check_least
from agentgym_py.errors import ConfigError
from agentgym_py.process import (
    Floats,
    Labelled,
    ProcessRewardModel,
    check_weights,
    labelled,
    marked_sample,
    measured,
)
from agentgym_py.rng import Rng, seed_of
from agentgym_py.trainer import Progress, Tensor, TrainReport
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.ppo import PPO
from agentgym_trainers.process_reward import Labels, ProcessReward

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.rl.records import Record
    from agentgym_py.rollouts import Rollouts


@dataclass(frozen=True, slots=True)
class R3(PPO):
    """Settings of R3; those of PPO among them."""

    alpha: float = 1.0
    """Weight of the world's reward."""
    beta: float = 0.5
    """Weight of the process rewards; 0 is PPO, without a process reward model."""
    prm: str | None = None
    """Folder of a process reward model to begin with, as `process_reward` writes it; none: a new one, on a copy of the
    policy."""
    prm_every: int = 1
    """Iterations from one training of the process reward model to the next; 0 leaves it as it is once it is there."""
    prm_labels: Labels = "exact"
    """Where the values of steps come from: the expert (`exact`), continuations (`monte_carlo`, which are episodes of
    the budget), what became of the episode (`outcome`), or a language model's marks (`judge`)."""
    prm_judge: dict[str, Any] = field(default_factory=dict)
    """Of prm_labels `judge`, the model that marks: --trainer.prm_judge.model NAME, --trainer.prm_judge.base_url the
    address of its endpoint, as --trainer.judge of `process_reward`."""
    prm_weights: dict[str, float] = field(default_factory=lambda: {"progress": 1.0})
    """What relevance, correctness and progress count in a process reward."""
    prm_discount: float = 0.9
    """What a state is worth less for each step that success is away."""
    prm_first_epochs: float = 6.0
    """Passes of the first training of a new process reward model."""
    prm_epochs: float = 2.0
    """Passes of each later one."""
    prm_learning_rate: float = 7e-4
    """Of the process reward model's trainings; 7e-4 suits the tiny model."""
    prm_backbone: bool = True
    """Whether the process reward model's own copy of the policy learns, too, or only the heads."""
    prm_episodes: int = 16
    """Episodes of an iteration that `monte_carlo` or `judge` labels."""
    prm_tries: int = 4
    """Continuations of a state, of `monte_carlo`."""
    prm_states: int = 4
    """States of an episode, of `monte_carlo`."""

    def __post_init__(self) -> None:
        PPO.__post_init__(self)
        check_least(self, {"alpha": 0.0, "beta": 0.0, "prm_every": 0, "prm_episodes": 1})
        check_weights(self.prm_weights)
        self.modelling(self.prm_first_epochs)
        blind = self.prm_labels == "outcome" and self.prm_discount == 1
        if self.beta and blind and set(self.prm_weights) == {"progress"}:
            raise ConfigError("prm_labels outcome makes no progress at prm_discount 1: no step would be paid")

    def modelling(self, epochs: float) -> ProcessReward:
        """The settings of a training of the process reward model; ConfigError where they cannot be."""
        try:
            return ProcessReward(
                epochs=epochs, learning_rate=self.prm_learning_rate, labels=self.prm_labels,
                discount=self.prm_discount, weights=self.prm_weights, train_backbone=self.prm_backbone,
                tries=self.prm_tries, states=self.prm_states, judge=self.prm_judge, bf16=self.bf16,
                gradient_checkpointing=self.gradient_checkpointing,
            )  # fmt: skip
        except ConfigError as error:
            raise ConfigError(f"of the prm_ settings: {error}") from error

    def improve(
        self,
        policy: Policy,
        rollouts: Rollouts,
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """As PPO does, with process rewards; the process reward model is left in `output_dir`.

        Raises:
            ConfigError, NothingToTrainOnError, TrainingError: as PPO.
            PolicyError: `prm` holds no process reward model.
        """
        if not self.beta:
            return self._improve(policy, rollouts, seed, output_dir, progress)
        judge = ProcessJudge(self, policy, rollouts, seed, output_dir)
        report = self._improve(policy, rollouts, seed, output_dir, progress, judge)
        if judge.model:
            judge.model.save(output_dir)
        if without := sum(row.get("prm_unmarked", 0) for row in report.history):
            note = f"the judge gave {without:.0f} steps no mark that can be read"
            warnings.warn(f"{note}: what they are worth is not learnt", stacklevel=2)
            report = replace(report, notes=(*report.notes, note))
        return report

    def rewards(self, episode: Trajectory, record: Record, kl: float) -> Tensor:
        """The reward at each of the record's n agent tokens: the sum of the three."""
        rewards_n = self.alpha * PPO.rewards(self, episode, record, 0.0)
        if "process" in record.extra:
            rewards_n = rewards_n + self.beta * record.extra["process"]
        if "ref_logps" in record.extra:
            rewards_n = rewards_n - kl * (record.old_logps_n - record.extra["ref_logps"])
        return rewards_n


class ProcessJudge:
    """A process reward model that pays the steps of each iteration's episodes, and learns from them."""

    def __init__(self, settings: R3, policy: Policy, rollouts: Rollouts, seed: int, folder: Path | None = None) -> None:
        self.settings, self.policy, self.rollouts, self.seed = settings, policy, rollouts, seed
        self.folder = folder
        """Where a language model's marks are kept."""
        self.model: ProcessRewardModel | None = None
        if settings.prm is not None:
            self._take(settings.prm)
        self.iteration = 0
        self.logged: Mapping[str, float] = {}

    def read(self, episodes: Sequence[Trajectory], records: Sequence[Record], dropped: Counter[str]) -> None:
        """Put `process`, the process rewards at the places where they are paid, into the records."""
        logged: dict[str, float] = {}
        if fresh := self.model is None:
            logged = self._learn(episodes, dropped, [])
        said, paid = list[Floats](), [[0.0] * len(each.steps) for each in episodes]
        if self.model is not None:
            said = ranks.once(self.model.by_dimension, episodes)
            paid = [self.model.weigh(each).tolist() for each in said]
        for episode, record, paid_T in zip(episodes, records, paid, strict=True):
            record.extra["process"] = placed(record, marked_sample(episode, self.policy).marks, paid_T)
        self.iteration += 1
        every = self.settings.prm_every
        if not fresh and every and self.iteration % every == 0:
            logged = self._learn(episodes, dropped, said)
        self.logged = {"process": fmean(map(sum, paid)), **logged}

    def save(self, folder: Path) -> None:
        """Write the model, and how many iterations it has read."""
        if ranks.first():
            (folder / "judge.json").write_text(json.dumps({"iteration": self.iteration}), encoding="utf-8")
        if self.model:
            self.model.save(folder / "judge")

    def load(self, folder: Path) -> None:
        """Be as `save` left it."""
        self.iteration = json.loads((folder / "judge.json").read_text(encoding="utf-8"))["iteration"]
        if (folder / "judge").is_dir():
            self._take(folder / "judge")

    def _take(self, folder: str | Path) -> None:
        self.model = ProcessRewardModel.load(folder, device=str(self.policy.model.device))
        self.model.weights = self.settings.prm_weights

    def _learn(self, episodes: Sequence[Trajectory], dropped: Counter[str], said: Sequence[Floats]) -> dict[str, float]:
        """Label these episodes' steps, say how far off the model was, and train it on them."""
        data, unmarked = self._labelled(episodes, dropped)
        if not data:
            return {}
        how = self.settings.modelling(self.settings.prm_epochs if self.model else self.settings.prm_first_epochs)
        logged = {"prm_episodes": float(len(data))} | ({"prm_unmarked": float(unmarked)} if unmarked else {})
        if self.model is None:
            self.model = how.untrained(self.policy, list(data.values()), self.seed)
        else:
            before = [said[i] for i in data]
            logged |= {f"prm_{k}": v for k, v in measured(before, [each.labels for each in data.values()]).items()}
        steps = how.fit(self.model, list(data.values()), seed=seed_of(self.seed, "process", self.iteration) % (1 << 31))
        return logged | {"prm_loss": steps[-1]["loss"]}

    def _labelled(self, episodes: Sequence[Trajectory], dropped: Counter[str]) -> tuple[dict[int, Labelled], int]:
        """Episodes with labels, by their places among all, and how many of their steps a judge gave no mark."""
        how, places = self.settings.modelling(self.settings.prm_epochs), list(range(len(episodes)))
        if how.labels in ("monte_carlo", "judge"):
            few = min(self.settings.prm_episodes, len(episodes))
            if how.labels == "monte_carlo":
                few = min(few, self.rollouts.left // (how.tries * how.states))
            places = Rng(self.seed, "labelled", self.iteration).sample(places, few)
        place_of, before = {id(episodes[i]): i for i in places}, len(self.rollouts.played)
        sound, values = how.values(
            [episodes[i] for i in places], Counter(), self.rollouts.play, self.seed, self.iteration * how.tries,
            self.folder,
        )  # fmt: skip
        if spent := len(self.rollouts.played) - before:
            dropped["played on to value a state"] += spent
        return {
            place_of[id(each)]: labelled(each, known, self.policy) for each, known in zip(sound, values, strict=True)
        }, how.unmarked(values)


def placed(record: Record, marks: Sequence[int], paid: Sequence[float]) -> Tensor:
    """What each step is paid, at its mark, (n,): the last of its agent tokens up to there, or else its last one."""
    import torch

    from agentgym_py.samples import IGNORED

    at_n = (record.labels != IGNORED).nonzero()[:, 0]  # where in the record its agent tokens stand
    rewards_n = torch.zeros_like(record.old_logps_n)
    for turn in record.turns:
        own = (record.turns_n == turn).nonzero()[:, 0]
        before = own[at_n[own] <= marks[turn]]
        rewards_n[(before if len(before) else own)[-1]] = paid[turn]
    return rewards_n
