"""R3: proximal policy optimization with rewards for single steps, by a process reward model that learns along.

    R = alpha R_task + beta sum over steps i of PRM(step i) - kl_coef KL(pi | pi_ref)

over whole episodes. A step's process reward is paid at the last token of its thought
(of the reply, if it has none), the world's reward at the turn's last token; the divergence costs at each token. (With
`credit_level` turn, the default, a turn's rewards are one sum.) Loss, critic and advantages are `ppo`'s. Each iteration
plays, labels the steps with fresh values of their states, trains the process reward model on them (every `prm_every`
iterations), and takes PPO's steps with its rewards. Process rewards are from arXiv:2305.20050, their labels by
continuations from arXiv:2312.08935.

By default a step is paid for its `progress`, the gain in its state's value. Over an episode the labels sum to the
end's value less the start's, so dawdling does not pay (potentials, Ng et al., ICML 1999), as far as the model predicts
the labels; `correctness` and `relevance` pay for every step, and so for long episodes. For the same reason `progress`
says nothing of a single step once it is summed up to the end. With `prm_credit` step a step's process reward is not
summed: beta times it is added to the advantage of that step alone, as in arXiv:2410.08146, whose step rewards are
advantages under another policy, the prover; here they are gains in the value that the labels have. (The R3 of
arXiv:2402.05808 is `reverse_curriculum` here.)

Deviations: the model is first trained on the first iteration's episodes, in which the critic warms up; from then on it
scores episodes before it is trained on them; each round begins with a new model, from `prm` or the policy; by default
kl_coef is PPO's 0.02, and the model is trained every iteration, because a round of the tiny model has few of them.
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
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from agentgym_py import distributed
from agentgym_py.checks import require_at_least, require_positive
from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.files import load_json
from agentgym_py.policy.adapters import quantization_of
from agentgym_py.policy.typing import Tensor
from agentgym_py.rewards.process_reward_model import (
    Floats,
    LabelledTrajectory,
    ProcessRewardModel,
    encode_with_positions,
    label_error,
    label_trajectory,
    require_process_reward,
    require_weights,
)
from agentgym_py.rng import Rng, seed_of
from agentgym_py.training import TrainReport
from agentgym_py.training.checkpoints import remove_states
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
    prm_credit: Literal["return", "step"] = "return"
    """What a step's process reward is part of: the `return` of its own and earlier steps, through PPO's advantages, or
    only the advantage of that `step`."""
    prm: str | Path | None = None
    """Folder of a process reward model to begin with, as `process_reward` writes it; none: a new one, on a copy of the
    policy."""
    prm_every: int = 1
    """Iterations between trainings of the process reward model; 0 trains only a new one, once."""
    prm_labels: Labels = "exact"
    """Where the values of states come from: the expert (`exact`), continuations (`monte_carlo`, which are episodes of
    the budget), the episode's `outcome`, or a language model's marks (`judge`)."""
    prm_judge: dict[str, Any] = field(default_factory=dict)
    """For prm_labels `judge`, the model that marks: --trainer.prm_judge.model NAME, --trainer.prm_judge.base_url the
    address of its endpoint, as --trainer.judge of `process_reward`."""
    prm_weights: dict[str, float] = field(default_factory=lambda: {"progress": 1.0})
    """Weights of relevance, correctness and progress in a process reward."""
    prm_discount: float = 0.9
    """Factor of a state's value for each step that success is away."""
    prm_first_epochs: float = 6.0
    """Epochs of the first training of a new process reward model."""
    prm_epochs: float = 2.0
    """Epochs of each later training."""
    prm_learning_rate: float | None = None
    """Learning rate of the process reward model; by default that of the trainer `process_reward`."""
    prm_backbone: bool = True
    """Whether the process reward model's copy of the policy is trained too, or only the heads."""
    prm_episodes: int = 16
    """Episodes per iteration that `monte_carlo` or `judge` labels."""
    prm_attempts: int = 4
    """Continuations per state, for `monte_carlo`."""
    prm_states: int = 4
    """States per episode, for `monte_carlo`."""

    def __post_init__(self) -> None:
        PPOSettings.__post_init__(self)
        require_at_least(self, {"alpha": 0.0, "beta": 0.0, "prm_every": 0, "prm_episodes": 1})
        if not self.alpha and not self.beta:
            raise ConfigError("alpha and beta must not both be 0: there would be no reward")
        if self.constraint and not self.alpha:
            raise ConfigError("constraint needs alpha above 0, which also weighs the costs")
        require_weights(self.prm_weights)
        self.prm_settings(self.prm_first_epochs)

    @property
    def uses_reward(self) -> bool:
        """Whether the policy learns from returns, and so from a reward model's scores."""
        return self.alpha > 0

    def check_round(self, episodes: int) -> None:
        """Raise ConfigError as PPO, and if no episode could be continued for its labels, or `prm` holds no model."""
        PPOSettings.check_round(self, episodes)
        if not self.beta:
            return
        if self.prm is not None:
            require_process_reward(self.prm)
        continued = self.prm_labels == "monte_carlo" and (self.prm is None or self.prm_every > 0)
        batches = self.tasks_per_iteration * (1 + self.critic_warmup)
        if continued and episodes < batches + self.prm_attempts * self.prm_states:
            raise ConfigError(
                f"{episodes} episodes are too few for prm_labels monte_carlo: labelling one takes prm_attempts "
                f"{self.prm_attempts} times prm_states {self.prm_states} episodes, on top of the {batches} of "
                f"tasks_per_iteration {self.tasks_per_iteration} times (1 + critic_warmup {self.critic_warmup})"
            )

    def check_policy(self, policy: Policy) -> None:
        """Raise ConfigError if `prm` cannot read the policy's tokens."""
        if self.beta and self.prm is not None:
            require_process_reward(self.prm, policy)

    def prm_settings(self, epochs: float) -> ProcessReward:
        """Return the settings of one training of the process reward model; ConfigError if they are invalid."""
        require_positive(self, "prm_epochs", "prm_first_epochs")
        try:
            return ProcessReward(
                epochs=epochs, learning_rate=self.prm_learning_rate, labels=self.prm_labels,
                discount=self.prm_discount, weights=self.prm_weights, train_backbone=self.prm_backbone,
                attempts=self.prm_attempts, states=self.prm_states, judge=self.prm_judge, bf16=self.bf16,
                lora_rank=self.lora_rank if self.prm_backbone else 0, optim=self.optim,
                gradient_checkpointing=self.gradient_checkpointing,
            )  # fmt: skip
        except ConfigError as error:
            raise ConfigError(f"prm_{error}") from error

    def improve(
        self, policy: Policy, rollouts: Rollouts, *, seed: int, output_dir: Path, progress: Progress | None = None
    ) -> TrainReport:
        """Change `policy` in place as PPO, with process rewards; the process reward model stays in `output_dir`.

        Raises:
            ConfigError, NothingToTrainOnError, TrainingError: as PPO; ConfigError also as `check_policy`.
            NothingToTrainOnError: no step had a label when the policy was to be trained; the policy is unchanged.
            PolicyError: `prm` holds a process reward model that does not open.
        """
        run = partial(
            run_ppo, self, policy, rollouts, seed=seed, output_dir=output_dir, progress=progress,
            rewards_of=self.rewards, step_weight=self.beta if self.prm_credit == "step" else 0.0,
        )  # fmt: skip
        if not self.beta:
            return run()
        self.check_round(rollouts.remaining)
        process = ProcessRewards(self, policy, rollouts, seed, output_dir)
        try:
            report = run(extra=process)
        except NothingToTrainOnError:
            remove_states(output_dir / "states")
            raise
        report = replace(report, notes=(*report.notes, *process.notes))
        if process.model:
            process.model.save(output_dir)
        if unmarked := sum(row.get("prm_unmarked", 0) for row in report.history):
            report = report.with_note(
                f"the judge gave {unmarked:.0f} steps no mark that can be read: they have no label"
            )
        return report

    def rewards(self, episode: Trajectory, record: Record, kl_coef: float) -> Tensor:
        """Return the reward at each of the record's n agent tokens: the world's, less the KL, with process rewards.

        Process rewards that count for one step alone are no part of it.
        """
        rewards_n = self.alpha * token_rewards(episode, record, 0.0)
        if record.process_rewards_n is not None and self.prm_credit == "return":
            rewards_n = rewards_n + self.beta * record.process_rewards_n
        if record.ref_logps_n is not None:
            rewards_n = rewards_n - kl_coef * (record.old_logps_n - record.ref_logps_n)
        return rewards_n


class ProcessRewards:
    """A process reward model that pays the steps of each iteration's episodes, and is trained on them."""

    def __init__(self, settings: R3, policy: Policy, rollouts: Rollouts, seed: int, folder: Path | None = None) -> None:
        self.settings, self.policy, self.rollouts, self.seed = settings, policy, rollouts, seed
        self.folder = folder
        """Where a language model's marks are kept."""
        self.model: ProcessRewardModel | None = None
        if settings.prm is not None:
            self._load_model(settings.prm)
        self.iteration = 0
        """Number of iterations that were scored."""
        self.last_trained = 0
        """Number of iterations that had been scored when the model was last trained."""
        self.logged: Mapping[str, float] = {}
        self.notes: list[str] = []
        """Why steps first got no labels; the user was warned of it."""

    def score(self, episodes: Sequence[Trajectory], records: Sequence[Record], dropped: Counter[str]) -> None:
        """Fill the records' process rewards, at the tokens where they are paid."""
        logged: dict[str, float] = {}
        is_new = self.model is None
        if is_new:
            logged = self._train(episodes, dropped, [])
        if self.model is None and self.iteration >= self.settings.critic_warmup:
            raise NothingToTrainOnError(
                f"r3: no process reward model to pay for steps: {'; '.join(self.notes)}; use other prm_labels, a prm, "
                "or beta 0 (plain ppo)"
            )
        predictions, paid = list[Floats](), [[0.0] * len(episode.steps) for episode in episodes]
        if self.model is not None:
            predictions = distributed.on_rank_zero(self.model.by_dimension, episodes)
            paid = [self.model.combine(predicted_TD).tolist() for predicted_TD in predictions]
        for episode, record, paid_T in zip(episodes, records, paid, strict=True):
            positions = encode_with_positions(episode, self.policy).positions
            record.process_rewards_n = scatter_step_rewards(record, positions, paid_T)
        self.iteration += 1
        if not is_new and 0 < self.settings.prm_every <= self.iteration - self.last_trained:
            logged = self._train(episodes, dropped, predictions)
        if "prm_loss" in logged:
            self.last_trained = self.iteration
        self.logged = {"process": fmean(map(sum, paid)), **logged}

    def save(self, folder: Path) -> None:
        """Write the model, and how many iterations it has scored."""
        if distributed.is_rank_zero():
            state = {"iteration": self.iteration, "learnt": self.last_trained, "notes": self.notes}
            (folder / "judge.json").write_text(json.dumps(state), encoding="utf-8")
        if self.model:
            self.model.save(folder / "judge", merged=False)

    def load(self, folder: Path) -> None:
        """Restore the state that `save` wrote."""
        state = load_json(folder / "judge.json")
        self.iteration, self.last_trained, self.notes = state["iteration"], state["learnt"], state["notes"]
        if (folder / "judge").is_dir():
            self._load_model(folder / "judge").policy.forget_files()  # the next state replaces this one

    def _load_model(self, folder: str | Path) -> ProcessRewardModel:
        require_process_reward(folder, self.policy)
        trained = self.policy.model
        dtype = str(trained.dtype).removeprefix("torch.")
        self.model = ProcessRewardModel.load(
            folder, dtype=dtype, device=str(trained.device), quantize=quantization_of(trained)
        )
        self.model.weights = self.settings.prm_weights
        return self.model

    def _train(
        self, episodes: Sequence[Trajectory], dropped: Counter[str], predictions: Sequence[Floats]
    ) -> dict[str, float]:
        """Label these episodes' steps, measure the error of the model's predictions, and train it on the labels."""
        data, unmarked = self._label(episodes, dropped)
        logged = {"prm_episodes": float(len(data))} | ({"prm_unmarked": float(unmarked)} if unmarked else {})
        if not data:
            return logged
        rows = list(data.values())
        trainer = self.settings.prm_settings(self.settings.prm_epochs if self.model else self.settings.prm_first_epochs)
        if self.model is None:
            self.model = trainer.init_model(self.policy, rows, self.seed)
        else:
            errors = label_error([predictions[i] for i in data], [row.labels for row in rows])
            logged |= {f"prm_{name}": error for name, error in errors.items()}
        seed = seed_of(self.seed, "process", self.iteration) % (1 << 31)
        with trainer.fit(self.model, rows, seed=seed) as fit:
            trainer.run(fit, rows, seed)
        return logged | {"prm_loss": fit.history[-1]["loss"]}

    def _label(
        self, episodes: Sequence[Trajectory], dropped: Counter[str]
    ) -> tuple[dict[int, LabelledTrajectory], int]:
        """Label episodes, by their positions among all; also returns the number of steps without a judge's mark."""
        trainer = self.settings.prm_settings(self.settings.prm_epochs)
        positions = self._sample(len(episodes), trainer)
        position_of, before = {id(episodes[i]): i for i in positions}, len(self.rollouts.episodes)
        reasons = Counter[str]()  # not `dropped`, because the policy still learns from these episodes
        valued, values, _ = trainer.values(
            [episodes[i] for i in positions], reasons, partial(self.rollouts.play, scored=False), self.seed,
            self.iteration * trainer.attempts, self.folder,
        )  # fmt: skip
        self.rollouts.release_cache()  # continuations filled it again
        for reason, number in reasons.items():
            self._note(
                f"prm_labels {trainer.labels}: {number} of {len(positions)} episodes have no labelled step ({reason})"
            )
        if continuations := len(self.rollouts.episodes) - before:
            dropped["played on to value a state"] += continuations
        rows = {
            position_of[id(trajectory)]: label_trajectory(trajectory, row, self.policy)
            for trajectory, row in zip(valued, values, strict=True)
        }
        return rows, trainer.unmarked(values)

    def _sample(self, episodes: int, trainer: ProcessReward) -> list[int]:
        """Draw the positions of the episodes to label; `exact` and `outcome` label all."""
        if trainer.labels not in ("monte_carlo", "judge"):
            return list(range(episodes))
        number = min(self.settings.prm_episodes, episodes)
        if trainer.labels == "monte_carlo":
            free, cost = max(self.rollouts.remaining - self._reserved(), 0), trainer.attempts * trainer.states
            number = min(number, free // cost)
            if not number and self.rollouts.remaining:  # at the end of the budget there is nothing left to score
                self._note(
                    f"prm_labels monte_carlo: {free} episodes of the budget are left, and labelling an episode takes "
                    f"{cost} (prm_attempts times prm_states)"
                )
        return Rng(self.seed, "labelled", self.iteration).sample(range(episodes), number)

    def _reserved(self) -> int:
        """Return the episodes of the budget that the policy's first training needs."""
        scored = self.iteration + (self.model is None)  # this iteration included
        return max(self.settings.critic_warmup + 1 - scored, 0) * self.settings.tasks_per_iteration

    def _note(self, text: str) -> None:
        if not self.notes:
            self.notes.append(text)
            warnings.warn(text, stacklevel=2)


def scatter_step_rewards(record: Record, positions: Sequence[int], paid: Sequence[float]) -> Tensor:
    """Place each step's reward at its position, (n,): at its last agent token up to there, or else its last one."""
    import torch

    from agentgym_py.policy.tokens import IGNORED
    from agentgym_py.training.rl.batch import rewards_by_turn

    at_n = (record.labels != IGNORED).nonzero()[:, 0]  # positions of the agent tokens in the record
    rewards_n = torch.zeros_like(record.old_logps_n)
    for turn, reward in zip(record.turns, rewards_by_turn(record, paid), strict=True):
        tokens = (record.turns_n == turn).nonzero()[:, 0]
        before = tokens[at_n[tokens] <= positions[turn]]
        rewards_n[(before if len(before) else tokens)[-1]] = reward
    return rewards_n
