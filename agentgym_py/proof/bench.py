"""Runs of a trainer on the world of proofs: what it is given, and what it does to the table."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from agentgym_py.collection import Job, PlayConfig
from agentgym_py.collection.rollouts import Rollouts
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.env.arguments import require_seed
from agentgym_py.errors import ConfigError, NonFiniteError
from agentgym_py.policy import Policy
from agentgym_py.proof.exact import ExactReturn
from agentgym_py.proof.table import MAX_REPLY, SCALE, TableEngine, table_policy
from agentgym_py.proof.watch import Update, Visit, Watch, visits_of, watching
from agentgym_py.proof.world import TASKS, proof_spec
from agentgym_py.training.trainer import TrainerInfo, info_of, is_on_policy
from agentgym_py.trajectory import Trajectory

Alter = Callable[[Trajectory], Trajectory]
ATTEMPTS = 8
"""Episodes of each task in an iteration, or in the data."""
EPISODES = TASKS * ATTEMPTS
TEMPERATURE = 0.8
"""At which episodes of an on-policy trainer are sampled, so that one that forgets the temperature is noticed."""
POINTS = 8
"""Parts of a training between which the exact return is measured."""
_TEACHER_LOGIT = 4.0
SIZES: Mapping[str, Any] = {"tasks_per_iteration": EPISODES, "checkpoint_minutes": 1e6}
"""Settings for all runs, where a trainer has them and the user has set no other."""
TABLE: Mapping[str, Any] = {"gradient_checkpointing": False}
"""Settings for all runs, also in place of the user's: a table has no layers to recompute."""
SMALL: Mapping[str, Any] = {**TABLE, **SIZES, "group_size": ATTEMPTS}
"""Settings for short runs, also in place of the user's."""
PLAIN: Mapping[str, Any] = {
    **SMALL, "minibatch_size": EPISODES, "batch_size": 4 * EPISODES, "gradient_accumulation": 1, "epochs": 2,
    "warmup_ratio": 0.0, "max_grad_norm": 0.0, "weight_decay": 0.0, "kl_coef": 0.0, "kl_target": 0.0,
    "entropy_coef": 0.0, "critic_gradient": 0.0, "critic_warmup": 0, "max_ratio": 0.0, "max_kl": 0.0,
    "learning_rate": 1e-4, "mask_truncated_completions": False, "bf16": False,
}  # fmt: skip
"""Settings of the runs whose gradients are read, also in place of the user's: all episodes in one step, no blur."""


@dataclass(slots=True)
class ProofRollouts(Rollouts):
    """Rollouts that tell a watch when they play, change the episodes, and compare their log-probabilities."""

    watch: Watch | None = None
    alter: Alter | None = None
    iterations: list[int] = field(default_factory=list)
    """The iteration of each episode."""
    group_numbers: list[int] = field(default_factory=list)
    """The group of each episode: attempts at one task that were played one after another."""
    sampler_error: float = 0.0
    """Largest difference of a recorded log-probability from the policy's, in nats."""
    unsynced: bool = False
    """Whether episodes were played after a step without `sync`."""
    _version: int = -1

    def play(self, jobs: Sequence[Job], scored: bool = True, agent: Any = None) -> list[Trajectory]:
        """Play, and change the episodes before the trainer sees them."""
        assert self.watch is not None
        before = len(self.episodes)
        self.unsynced |= self.watch.updated and bool(self.watch.updates) and self._version == self.version
        self._version = self.version
        episodes = Rollouts.play(self, jobs, scored, agent)
        self.iterations += [self.watch.play()] * len(episodes)
        group = self.group_numbers[-1] if self.group_numbers else 0
        for job, before_it in zip(jobs, [None, *jobs], strict=False):
            group += before_it is None or (job.task, job.start) != (before_it.task, before_it.start)
            self.group_numbers.append(group)
        self.sampler_error = max(self.sampler_error, logprob_error(self.policy, episodes, self.params.temperature))
        if self.alter:
            episodes = [self.alter(episode) for episode in episodes]
            self.episodes[before:] = episodes
        return episodes


@torch.no_grad()
def logprob_error(policy: Policy, episodes: Sequence[Trajectory], temperature: float) -> float:
    """Return the largest difference of a recorded log-probability from the exact one, in nats."""
    visits = visits_of(policy, episodes)
    if not visits:
        return 0.0
    logits = policy.model.model.logits_of(torch.tensor([visit.row for visit in visits]))
    exact = (logits / temperature).log_softmax(-1).gather(-1, torch.tensor([[visit.token] for visit in visits]))[:, 0]
    return float((exact - torch.tensor([visit.logprob for visit in visits])).abs().max())


@dataclass(frozen=True, slots=True)
class Run:
    """What one training did."""

    policy: Policy
    """After the training."""
    updates: Sequence[Update]
    episodes: Sequence[Trajectory]
    iterations: Sequence[int]
    """The iteration of each episode, as in `Update.iteration`."""
    groups: Sequence[int]
    """The group of each episode, as in `ProofRollouts.group_numbers`."""
    sampler_error: float
    unsynced: bool
    curve: Sequence[tuple[float, float]] = ()
    """Share of the training and exact expected return, if asked for."""

    def data(self, update: Update) -> list[Trajectory]:
        """Return the episodes of an update's iteration."""
        return [t for t, number in zip(self.episodes, self.iterations, strict=True) if number == update.iteration]

    def compared(self, update: Update) -> list[str]:
        """Return for each episode of an update what it is compared with: its group, or its task if it is alone."""
        found = [
            group for group, number in zip(self.groups, self.iterations, strict=True) if number == update.iteration
        ]
        return [
            f"group {group}" if found.count(group) > 1 else episode.task_id
            for group, episode in zip(found, self.data(update), strict=True)
        ]

    def visits(self, update: Update) -> list[Visit]:
        """Return the tokens of an update's episodes."""
        return visits_of(self.policy, self.data(update))

    def all_visits(self) -> list[Visit]:
        """Return the tokens of all episodes."""
        return visits_of(self.policy, self.episodes)

    @property
    def first(self) -> Update | None:
        """The first update with a gradient."""
        return next((update for update in self.updates if len(update.rows)), None)


class Bench:
    """A trainer and the runs that it was asked for; equal runs are done once.

    Args:
        trainer: The dataclass of a trainer, or an instance with its settings.
        seed: Seed of all that is drawn; trainings that are measured have the next ones.
        seeds: Trainings whose exact return is measured, at least 2.
        episodes: Episodes of each of them: an on-policy trainer's budget, or an offline trainer's data, of which it
            makes 10 epochs. By default 640, or 160 for a trainer that makes passes over data (`batch_size`).

    Raises:
        ConfigError: it makes something else than a policy, trains adapters, or cannot be made; or there are too few
            seeds, or episodes for its settings.
    """

    def __init__(self, trainer: Any, *, seed: int = 0, seeds: int = 5, episodes: int | None = None) -> None:
        try:
            self.trainer = trainer() if isinstance(trainer, type) else trainer
        except TypeError as error:
            raise ConfigError(f"the trainer {trainer.__name__} needs settings: {error}") from error
        self.info: TrainerInfo = info_of(self.trainer)
        if self.info.output != "policy":
            raise ConfigError(
                f"{self.name} makes a {self.info.output}, and only trainers of a policy can be proven: its loss is "
                "not in the table's gradient"
            )
        if getattr(self.trainer, "lora_rank", 0):
            raise ConfigError("lora_rank must be 0: a proof reads the gradient of a table, which has no adapters")
        self.seed, self.seeds = require_seed(seed), seeds
        passes = not self.on_policy or self.has("batch_size")  # over data, whose episodes are trained on many times
        self.episodes = episodes or (5 if passes else 20) * EPISODES
        if seeds < 2 or self.episodes < 4 * EPISODES:
            raise ConfigError(f"seeds must be at least 2 and episodes {4 * EPISODES}, got {seeds} and {self.episodes}")
        if hasattr(self.trainer, "check_round"):
            try:
                self.with_settings(SIZES).check_round(self.episodes)
            except ConfigError as error:
                raise ConfigError(f"episodes {self.episodes} are too few for these settings: {error}") from error
        self._runs = dict[tuple[Any, ...], Run]()

    @property
    def name(self) -> str:
        """Name of the trainer's class."""
        return type(self.trainer).__name__

    @property
    def on_policy(self) -> bool:
        """Whether the trainer plays episodes."""
        return is_on_policy(self.trainer)

    @property
    def uses_reward(self) -> bool:
        """Whether it learns from returns, and so from the tokens that were sampled."""
        return bool(getattr(self.trainer, "uses_reward", True))

    @property
    def temperature(self) -> float:
        """Temperature at which it should read log-probabilities, in runs whose gradients are read."""
        return TEMPERATURE if self.on_policy else 1.0

    @cached_property
    def policy(self) -> Policy:
        """The untrained table."""
        return table_policy()

    @cached_property
    def exact(self) -> ExactReturn:
        """The expected return of tables."""
        return ExactReturn(self.policy)

    def has(self, name: str) -> bool:
        """Whether the trainer has a setting."""
        return name in {entry.name for entry in fields(self.trainer)}

    def setting(self, name: str) -> Any:
        """Return the value of a setting, of the trainer or given to its library; None without one."""
        return getattr(self.trainer, name, None) if self.has(name) else getattr(self.trainer, "args", {}).get(name)

    @cached_property
    def arguments(self) -> set[str]:
        """Names of the library's settings that the trainer takes as `args`, but for those that it has itself."""
        module, _, name = (self.info.arguments or "").partition(":")
        if not module:
            return set()
        return {entry.name for entry in fields(getattr(import_module(module), name)) if not self.has(entry.name)}

    def with_settings(self, wanted: Mapping[str, Any], replaced: Mapping[str, Any] = TABLE) -> Any:
        """Return the trainer with these settings, where it or its library has them.

        Args:
            wanted: Values in place of defaults; a setting that the user gave is kept.
            replaced: Values in place of the user's too.
        """
        kept, wanted = dict[str, Any](), {**wanted, **replaced}
        if more := {name: wanted[name] for name in wanted if name in self.arguments}:
            kept["args"] = {**more, **{name: x for name, x in self.trainer.args.items() if name not in replaced}}
        for entry in fields(self.trainer):
            given = getattr(self.trainer, entry.name) != entry.default
            if entry.name in wanted and (entry.name in replaced or not given):
                value = wanted[entry.name]
                kept[entry.name] = float(value) if isinstance(entry.default, float) else value
        if self.has("group_size") and "tasks_per_iteration" in kept:
            kept["tasks_per_iteration"] = TASKS
        if "minibatch_size" in kept and self.has("branches"):  # whose groups are played in the same iteration
            kept["minibatch_size"] *= 1 + self.trainer.branches
        return replace(self.trainer, **kept)

    # ---- runs --------------------------------------------------------------------------------------------------------

    def read(
        self, *, iterations: int = 2, alter: Alter | None = None, dropout: float = 0.0, **wanted: Any
    ) -> Run:  # fmt: skip
        """Train with gradients that can be read: with the settings of `PLAIN` and those `wanted`."""
        key = (iterations, alter, dropout, *sorted(wanted.items()))
        if key not in self._runs:
            self._runs[key] = self._run(
                replaced={**PLAIN, **wanted}, seed=self.seed, budget=iterations * EPISODES, alter=alter,
                dropout=dropout, temperature=self.temperature, record=True,
            )  # fmt: skip
        return self._runs[key]

    def train(self, iterations: int = 3) -> Run:
        """Train for a short time with the trainer's own settings, after the iterations that only warm a critic up."""
        budget = (iterations - 1 + max(1, getattr(self.trainer, "critic_warmup", 0))) * EPISODES
        return self._run(replaced=SMALL, seed=self.seed, budget=budget, temperature=1.0)

    @cached_property
    def curves(self) -> list[Sequence[tuple[float, float]]]:
        """The learning curve of each seed with the trainer's own settings: share of the training, exact return."""
        settings = SIZES if self.on_policy else {**SIZES, "epochs": 10}
        runs = (
            self._run(settings, seed=seed, budget=self.episodes, temperature=1.0, points=POINTS)
            for seed in range(self.seed + 1, self.seed + 1 + self.seeds)
        )
        return [run.curve for run in runs]

    def _run(
        self, wanted: Mapping[str, Any] = SIZES, replaced: Mapping[str, Any] = TABLE, *, seed: int, budget: int,
        temperature: float, alter: Alter | None = None, dropout: float = 0.0, points: int = 0, record: bool = False,
    ) -> Run:  # fmt: skip
        policy = copy.deepcopy(self.policy)
        policy.model.model.dropout.p = dropout
        curve = Curve(self.exact, policy, points) if points else None
        with watching(policy, record) as watch, TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rollouts = ProofRollouts(
                policy, TableEngine(policy), SamplingParams(temperature=temperature, max_new_tokens=2 * MAX_REPLY),
                [Job(proof_spec(), number) for number in range(TASKS)], budget,
                play_config=PlayConfig(prompt="none", seed=seed), watch=watch, alter=alter,
            )  # fmt: skip
            trainer = self._with_teacher(self.with_settings(wanted, replaced), Path(folder))
            more = {"seed": seed, "output_dir": Path(folder) / "output", "progress": curve}
            if self.on_policy:
                trainer.improve(policy, rollouts, **more)
            else:
                data = [t for group in rollouts.groups(TASKS, budget // TASKS) for t in group]
                watch.iteration = 1
                trainer.train(policy, data, **more)
        if not all(bool(update.gradient.isfinite().all()) for update in watch.updates):
            raise NonFiniteError("the gradient is not finite")
        if not policy.model.model.table.isfinite().all():
            raise NonFiniteError("the weights are not finite after the training")
        if curve:
            curve.end()
        return Run(
            policy, watch.updates, rollouts.episodes, rollouts.iterations, rollouts.group_numbers,
            rollouts.sampler_error, rollouts.unsynced, curve.values if curve else (),
        )  # fmt: skip

    def _with_teacher(self, trainer: Any, folder: Path) -> Any:
        """Give the trainer a nearly optimal teacher, if it has such a setting and names none."""
        if not self.has("teacher") or trainer.teacher:
            return trainer
        teacher = copy.deepcopy(self.policy)
        with torch.no_grad():
            for row, token in self.exact.best.items():
                teacher.model.model.table[row, token] += _TEACHER_LOGIT / SCALE
        teacher.save(folder / "teacher")
        return replace(trainer, teacher=str(folder / "teacher"))


class Curve:
    """The exact expected return during a training; called as its progress."""

    def __init__(self, exact: ExactReturn, policy: Policy, points: int) -> None:
        self._exact, self._policy, self._points = exact, policy, points
        self.values: list[tuple[float, float]] = []
        self._measure(0.0)

    def __call__(self, done: int, total: int) -> None:
        """Measure, if the training has come to another of the points."""
        share = self._points * done // total / self._points
        if self.values[-1][0] < share < 1:
            self._measure(share)

    def end(self) -> None:
        """Measure at the end."""
        self._measure(1.0)

    @torch.no_grad()
    def _measure(self, share: float) -> None:
        self.values.append((share, float(self._exact(self._policy))))
