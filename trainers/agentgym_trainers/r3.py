"""R3: proximal policy optimization with rewards for single steps, by a process reward model that learns along.

    R = alpha R_task + beta sum over steps i of PRM(step i) - gamma KL(pi | pi_ref)

over whole episodes; gamma is the setting `kl_coef`. What the model says of a step stands at the last token of its
thought (of the reply, where it has none), the world's reward at the turn's last; the divergence costs at each token.
(With `credit_level` turn, the default, a turn's rewards are one sum, wherever in it they stand.) All else, loss, critic
and advantages, is `ppo`'s. It goes round in stages: play, label the steps with fresh values of their states, train the
process reward model on them, take PPO's steps with its rewards; again every `prm_every` iterations.
Process rewards are from arXiv:2305.20050, their labels by continuations from arXiv:2312.08935.

By default a step is paid for its `progress`: by how much the state after it is worth more than the one before. Over an
episode the labels come to the end's worth less the start's, so dawdling does not pay (potentials, Ng et al., ICML
1999), as far as the model says what they say; `correctness` and `relevance` pay for every step, so for long episodes.

Deviations: the model is trained on the first iteration's episodes, in which the critic warms up; from then on it judges
episodes before it is trained on them; the model is new in each round, from `prm` or the policy; by
default gamma is PPO's 0.02, and the model is trained every iteration, for a round of the tiny model has few of them.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from agentgym_py import distributed
from agentgym_py.checks import require_at_least
from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.policy.typing import Tensor
from agentgym_py.rewards.process_reward_model import (
    Floats,
    Labelled,
    ProcessRewardModel,
    check_weights,
    labelled,
    marked_sample,
    measured,
    require_process_reward,
)
from agentgym_py.rng import Rng, seed_of
from agentgym_py.training import TrainReport
from agentgym_py.training.checkpoints import clear
from agentgym_py.training.progress import Progress
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.ppo import PPO, PPOSettings, run_ppo, token_rewards
from agentgym_trainers.process_reward import Labels, ProcessReward

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.policy import Policy
    from agentgym_py.training.rl.batch import Record


@dataclass(frozen=True, slots=True)
class R3(PPOSettings):
    """PPO whose steps are also paid by a process reward model."""

    info: ClassVar = PPO.info

    alpha: float = 1.0
    """Weight of the world's reward."""
    beta: float = 0.5
    """Weight of the process rewards; 0 is PPO, without a process reward model."""
    prm: str | Path | None = None
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
        PPOSettings.__post_init__(self)
        require_at_least(self, {"alpha": 0.0, "beta": 0.0, "prm_every": 0, "prm_episodes": 1})
        if not self.alpha and not self.beta:
            raise ConfigError("alpha and beta must not both be 0: nothing would be paid")
        check_weights(self.prm_weights)
        self.modelling(self.prm_first_epochs)

    @property
    def uses_reward(self) -> bool:
        """Whether a reward model's scores would be learnt from."""
        return self.alpha > 0

    def check_round(self, episodes: int) -> None:
        """As PPO's; also where no episode could be continued for its labels, or `prm` holds no model."""
        PPOSettings.check_round(self, episodes)
        if not self.beta:
            return
        if self.prm is not None:
            require_process_reward(self.prm)
        continued = self.prm_labels == "monte_carlo" and (self.prm is None or self.prm_every > 0)
        batches = self.tasks_per_iteration * (1 + self.critic_warmup)
        if continued and episodes < batches + self.prm_tries * self.prm_states:
            raise ConfigError(
                f"of {episodes} episodes tasks_per_iteration {self.tasks_per_iteration} leaves less than prm_tries "
                f"{self.prm_tries} times prm_states {self.prm_states}, by which prm_labels monte_carlo labels one, "
                f"until the policy has been trained once, after critic_warmup {self.critic_warmup}"
            )

    def check_policy(self, policy: Policy) -> None:
        """ConfigError where `prm` cannot read what the policy writes."""
        if self.beta and self.prm is not None:
            require_process_reward(self.prm, policy)

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
            ConfigError, NothingToTrainOnError, TrainingError: as PPO; ConfigError also as `check_policy`.
            NothingToTrainOnError: no step got a label until the policy was to be trained, which is then as it was.
            PolicyError: `prm` holds a process reward model that does not open.
        """
        if not self.beta:
            return run_ppo(
                self, policy, rollouts, seed=seed, output_dir=output_dir, progress=progress, rewards_of=self.rewards
            )
        self.check_round(rollouts.remaining)
        process = ProcessRewards(self, policy, rollouts, seed, output_dir)
        try:
            report = run_ppo(
                self, policy, rollouts, seed=seed, output_dir=output_dir, progress=progress, rewards_of=self.rewards,
                extra=process,
            )  # fmt: skip
        except NothingToTrainOnError:
            clear(output_dir / "states")
            raise
        report = replace(report, notes=(*report.notes, *process.notes))
        if process.model:
            process.model.save(output_dir)
        if without := sum(row.get("prm_unmarked", 0) for row in report.history):
            note = f"the judge gave {without:.0f} steps no mark that can be read"
            warnings.warn(f"{note}: what they are worth is not learnt", stacklevel=2)
            report = replace(report, notes=(*report.notes, note))
        return report

    def rewards(self, episode: Trajectory, record: Record, kl_coef: float) -> Tensor:
        """The reward at each of the record's n agent tokens: the world's, the process rewards, less the divergence."""
        rewards_n = self.alpha * token_rewards(episode, record, 0.0)
        if record.process_rewards_n is not None:
            rewards_n = rewards_n + self.beta * record.process_rewards_n
        if record.ref_logps_n is not None:
            rewards_n = rewards_n - kl_coef * (record.old_logps_n - record.ref_logps_n)
        return rewards_n


class ProcessRewards:
    """A process reward model that pays the steps of each iteration's episodes, and learns from them."""

    def __init__(self, settings: R3, policy: Policy, rollouts: Rollouts, seed: int, folder: Path | None = None) -> None:
        self.settings, self.policy, self.rollouts, self.seed = settings, policy, rollouts, seed
        self.folder = folder
        """Where a language model's marks are kept."""
        self.model: ProcessRewardModel | None = None
        if settings.prm is not None:
            self._take(settings.prm)
        self.iteration = 0
        """How many were read."""
        self.learnt = 0
        """How many had been read when the model was trained last."""
        self.logged: Mapping[str, float] = {}
        self.notes: list[str] = []
        """Why steps got no labels, when that was first so; it is warned of."""

    def read(self, episodes: Sequence[Trajectory], records: Sequence[Record], dropped: Counter[str]) -> None:
        """Fill the records' process rewards, at the tokens where they are paid."""
        logged: dict[str, float] = {}
        fresh = self.model is None
        if fresh:
            logged = self._learn(episodes, dropped, [])
        if self.model is None and self.iteration >= self.settings.critic_warmup:
            raise NothingToTrainOnError(
                f"r3: there is no process reward model to pay for steps: {'; '.join(self.notes)}; other prm_labels, a "
                "prm, or beta 0 (which is ppo) would do"
            )
        said, paid = list[Floats](), [[0.0] * len(each.steps) for each in episodes]
        if self.model is not None:
            said = distributed.on_rank_zero(self.model.by_dimension, episodes)
            paid = [self.model.weigh(each).tolist() for each in said]
        for episode, record, paid_T in zip(episodes, records, paid, strict=True):
            record.process_rewards_n = placed(record, marked_sample(episode, self.policy).marks, paid_T)
        self.iteration += 1
        if not fresh and 0 < self.settings.prm_every <= self.iteration - self.learnt:
            logged = self._learn(episodes, dropped, said)
        if "prm_loss" in logged:
            self.learnt = self.iteration
        self.logged = {"process": fmean(map(sum, paid)), **logged}

    def save(self, folder: Path) -> None:
        """Write the model, and how many iterations it has read."""
        if distributed.is_rank_zero():
            about = {"iteration": self.iteration, "learnt": self.learnt, "notes": self.notes}
            (folder / "judge.json").write_text(json.dumps(about), encoding="utf-8")
        if self.model:
            self.model.save(folder / "judge")

    def load(self, folder: Path) -> None:
        """Be as `save` left it."""
        about = json.loads((folder / "judge.json").read_text(encoding="utf-8"))
        self.iteration, self.learnt, self.notes = about["iteration"], about["learnt"], about["notes"]
        if (folder / "judge").is_dir():
            self._take(folder / "judge")

    def _take(self, folder: str | Path) -> None:
        require_process_reward(folder, self.policy)
        held = self.policy.model
        model = ProcessRewardModel.load(folder, dtype=str(held.dtype).removeprefix("torch."), device=str(held.device))
        model.weights = self.settings.prm_weights
        self.model = model

    def _learn(self, episodes: Sequence[Trajectory], dropped: Counter[str], said: Sequence[Floats]) -> dict[str, float]:
        """Label these episodes' steps, say how far off the model was, and train it on them."""
        data, unmarked = self._labelled(episodes, dropped)
        logged = {"prm_episodes": float(len(data))} | ({"prm_unmarked": float(unmarked)} if unmarked else {})
        if not data:
            return logged
        how = self.settings.modelling(self.settings.prm_epochs if self.model else self.settings.prm_first_epochs)
        if self.model is None:
            self.model = how.untrained(self.policy, list(data.values()), self.seed)
        else:
            before = [said[i] for i in data]
            logged |= {f"prm_{k}": v for k, v in measured(before, [each.labels for each in data.values()]).items()}
        rows, seed = list(data.values()), seed_of(self.seed, "process", self.iteration) % (1 << 31)
        with how.fit(self.model, rows, seed=seed) as fit:
            how.run(fit, rows, seed)
        return logged | {"prm_loss": fit.history[-1]["loss"]}

    def _labelled(self, episodes: Sequence[Trajectory], dropped: Counter[str]) -> tuple[dict[int, Labelled], int]:
        """Episodes with labels, by their places among all, and how many of their steps a judge gave no mark."""
        how, places = self.settings.modelling(self.settings.prm_epochs), list(range(len(episodes)))
        if how.labels in ("monte_carlo", "judge"):
            few = min(self.settings.prm_episodes, len(episodes))
            if how.labels == "monte_carlo":
                free = max(self.rollouts.remaining - self._held_back(), 0)
                few = min(few, free // (how.tries * how.states))
                if not few and self.rollouts.remaining:  # at the end of the budget there is nothing more to judge
                    self._note(f"{free} episodes were left to label steps by, and an episode takes "
                               f"{how.tries * how.states}, prm_tries times prm_states")  # fmt: skip
            places = Rng(self.seed, "labelled", self.iteration).sample(places, few)
        place_of, before = {id(episodes[i]): i for i in places}, len(self.rollouts.episodes)
        lost = Counter[str]()  # not `dropped`: the policy learns from them all the same
        sound, values, _ = how.values(
            [episodes[i] for i in places], lost, partial(self.rollouts.play, scored=False), self.seed,
            self.iteration * how.tries, self.folder,
        )  # fmt: skip
        for why, number in lost.items():
            self._note(f"of {len(places)} episodes no step was labelled of {number} {why} (prm_labels {how.labels})")
        if spent := len(self.rollouts.episodes) - before:
            dropped["played on to value a state"] += spent
        return {
            place_of[id(each)]: labelled(each, known, self.policy) for each, known in zip(sound, values, strict=True)
        }, how.unmarked(values)

    def _held_back(self) -> int:
        """Episodes of the budget that are not for labels: with them the policy is trained for the first time."""
        read = self.iteration + (self.model is None)  # this iteration among them
        return max(self.settings.critic_warmup + 1 - read, 0) * self.settings.tasks_per_iteration

    def _note(self, text: str) -> None:
        if not self.notes:
            self.notes.append(text)
            warnings.warn(text, stacklevel=2)


def placed(record: Record, marks: Sequence[int], paid: Sequence[float]) -> Tensor:
    """What each step is paid, at its mark, (n,): the last of its agent tokens up to there, or else its last one."""
    import torch

    from agentgym_py.policy.tokens import IGNORED

    at_n = (record.labels != IGNORED).nonzero()[:, 0]  # where in the record its agent tokens stand
    rewards_n = torch.zeros_like(record.old_logps_n)
    for turn in record.turns:
        own = (record.turns_n == turn).nonzero()[:, 0]
        before = own[at_n[own] <= marks[turn]]
        rewards_n[(before if len(before) else own)[-1]] = paid[turn]
    return rewards_n
