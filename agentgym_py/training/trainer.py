"""The contract of a trainer plugin: a dataclass whose fields are its settings, with `train` or `improve`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agentgym_py import distributed
from agentgym_py.errors import ConfigError, TrainingError, setting
from agentgym_py.training.progress import Progress
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.policy import Policy


KEEP_FAILURES: Mapping[str, Any] = {
    "select.threshold": -math.inf, "select.success_only": False, "select.mask_invalid": False,
}  # fmt: skip
"""`TrainerInfo.evolve_defaults` of a trainer that learns from failed trajectories and refused replies too."""
KEEP_FAILURES_AND_RETRY: Mapping[str, Any] = {**KEEP_FAILURES, "attempts": 4, "explore_tasks": 250}
"""`TrainerInfo.evolve_defaults` of a trainer that compares trajectories of one task: failed ones are selected too, and
each task is attempted several times. The number of episodes per round stays the same."""


@dataclass(frozen=True, slots=True)
class TrainerInfo:
    """What a trainer produces and needs, declared as `info: ClassVar = TrainerInfo(...)`."""

    output: str = "policy"
    """What it produces: a better `policy`, or something else, such as a `reward_model`, which it writes to `output_dir`
    without changing the policy."""
    several_processes: bool = False
    """Whether several processes (torchrun, accelerate) can run one training together; see docs/guides/scaling.md."""
    resumes: bool = True
    """Whether a killed training resumes from its last saved state; otherwise it starts again."""
    library: str | None = None
    """Library whose training loop runs, such as `trl`; None for this project's. It logs by its own names."""
    arguments: str | None = None
    """Dataclass of the library as `module:Class`, such as `trl:DPOConfig`, whose fields the setting `args` takes."""
    several_sequences: bool = True
    """Whether it trains episodes of several token sequences, which outgrew the context (`--context`)."""
    compares_attempts: bool = False
    """Whether it learns from differences between the attempts at a task, which a coreset would break up and a relative
    judge needs."""
    warm_start: str | None = None
    """Trainer that makes Agent_v0 from the expert's successes in place of this one."""
    evolve_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Other defaults of `agentgym evolve`, by the option's name."""
    feedback: tuple[str, ...] = ("scores",)
    """What it learns from of a file of feedback, the first that the file has: `scores` as rewards, `comparisons` as
    pairs, `corrections` as demonstrations of single steps."""


LEARNS_FROM_COMPARISONS = TrainerInfo(
    several_processes=True, compares_attempts=True, warm_start="filtered_bc", evolve_defaults=KEEP_FAILURES_AND_RETRY,
    feedback=("comparisons", "scores"),
)  # fmt: skip
"""What a trainer declares that learns which trajectories of one task are better."""


def info_of(trainer: object) -> TrainerInfo:
    """Return what a trainer, or its class, declares; the defaults if it declares nothing.

    Raises:
        ConfigError: its `info` is not a TrainerInfo.
    """
    info = getattr(trainer, "info", None) or TrainerInfo()
    if not isinstance(info, TrainerInfo):
        raise ConfigError(f"the trainer {trainer!r:.80} must declare a TrainerInfo as its info, got {info!r:.80}")
    return info


def is_on_policy(trainer: object) -> bool:
    """Whether a trainer, or its class, plays its own episodes: it has `improve` in place of `train`."""
    return hasattr(trainer, "improve")


class PlanChecks:
    """Checks of an on-policy trainer before a run starts. Inherit them and override what you need."""

    __slots__ = ()

    @property
    def uses_reward(self) -> bool:
        """Whether the trainer learns from returns; if not, a reward function or model is refused."""
        return True

    def check_round(self, episodes: int) -> None:
        """Raise ConfigError if a round of this many episodes is too small, or a file is missing."""

    def check_policy(self, policy: Policy) -> None:
        """Raise ConfigError if the trainer cannot train this policy."""


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What a training did."""

    trajectories: int
    """Trajectories that were trained on, or held out to measure `eval_loss`."""
    dropped: Mapping[str, int]
    """Number of trajectories left out, by reason; never 0."""
    tokens: int
    """Tokens that were trained on, over all epochs; an estimate if `val_size` holds some out."""
    agent_tokens: int
    """Those of them with a loss."""
    seconds: float
    loss: list[float] = field(default_factory=list)
    """Loss at each logged step."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Last value of everything else that the trainer logs."""
    history: Sequence[Mapping[str, float]] = ()
    """What was logged, by step; an on-policy trainer logs by iteration."""
    notes: Sequence[str] = ()
    """What the trainer warned of, with numbers."""

    def __str__(self) -> str:
        """Return a line such as `25 trajectories, 3 dropped, loss 0.11 to 0.05, 9.8 s`, and the notes."""
        from agentgym_py.escapes import visible

        dropped = f", {sum(self.dropped.values())} dropped" if self.dropped else ""
        loss = f", loss {self.loss[0]:.3g} to {self.loss[-1]:.3g}" if self.loss else ""
        return visible(
            "\n".join([f"{self.trajectories} trajectories{dropped}{loss}, {self.seconds:.1f} s", *self.notes])
        )

    def with_note(self, note: str) -> TrainReport:
        """Warn of something, and return the report with it among its notes."""
        warnings.warn(note, stacklevel=3)
        return replace(self, notes=(*self.notes, note))


@runtime_checkable
class Trainer(Protocol):
    """A plugin of the group `agentgym.trainers`: a dataclass, instantiated with its settings.

    It may declare a class attribute `info`; see `TrainerInfo`.
    """

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Train `policy` in place on `trajectories`.

        The trainer does not save the policy; the caller does, with `policy.save`. `output_dir` is for everything else
        that the trainer writes; one that writes nothing does not create it.

        Raises:
            NothingToTrainOnError: no trajectory has a token to learn from.
            TrainingError: the gradient was not finite; the weights are those before that step.
        """
        ...


def select_defaults(trainer: object) -> dict[str, Any]:
    """Return a trainer's default selection of stored trajectories, as `select.FIELD`: that of its AgentEvol rounds.

    A trainer that produces no policy, such as a reward model, learns from every episode.
    """
    info = info_of(trainer)
    if info.output != "policy":
        return {**KEEP_FAILURES, "select.dedupe": False}
    return {key: value for key, value in info.evolve_defaults.items() if key.startswith("select.")}


def validate_report(report: object, trainer: Trainer | OnPolicyTrainer, policy: Policy) -> TrainReport:
    """Return what a trainer returned.

    Raises:
        ConfigError: it is not a TrainReport.
        TrainingError: the trainer left weights that are not finite.
    """
    if not policy.is_finite():
        raise TrainingError(f"the trainer {type(trainer).__name__} left weights that are nan or infinite")
    if not isinstance(report, TrainReport):
        raise ConfigError(
            f"the trainer {type(trainer).__name__} must return a TrainReport, and returned {report!r:.80}"
        )
    return report


def require_policy_trainer(trainer: object) -> None:
    """Raise ConfigError for a trainer that produces something other than a policy."""
    if (output := info_of(trainer).output) != "policy":
        raise ConfigError(
            f"{setting('trainer')} must train a policy, and {type(trainer).__name__} makes a {output}: run it with "
            "`agentgym train`"
        )


def require_single_trajectories(trainer: object, key: str) -> None:
    """Raise ConfigError for a trainer that does not learn from trajectories one by one; a setting `key` needs that."""
    name, info = type(trainer).__name__, info_of(trainer)
    if not hasattr(trainer, "train"):
        reason = "learns from its own episodes"
    elif info.compares_attempts:
        reason = "compares the attempts at a task"
    elif info.output != "policy":
        reason = f"makes a {info.output}"
    else:
        return
    raise ConfigError(f"{setting(key)} needs an offline trainer of single trajectories; {name} {reason}")


def require_several_processes(trainer: object) -> None:
    """Raise ConfigError for a trainer that runs in one process if there are several."""
    if distributed.world_size() > 1 and not info_of(trainer).several_processes:
        name = type(trainer).__name__
        raise ConfigError(
            f"{name} trains in one process, and here are {distributed.world_size()}; see docs/guides/scaling.md"
        )


@contextmanager
def saving_last_good(policy: Policy, folder: Path) -> Iterator[None]:
    """Save the weights that a failing training leaves to `folder`, if they are finite, and name it in the error."""
    try:
        yield
    except TrainingError as error:
        if not policy.is_finite():
            raise
        if distributed.is_rank_zero():
            policy.save(folder)
        raise TrainingError(f"{error}; the last good weights: {folder}") from error


@runtime_checkable
class OnPolicyTrainer(Protocol):
    """A plugin of the same group that learns from episodes of the current policy.

    It may declare `info`, as `Trainer`, and inherit `PlanChecks` to refuse a run before it starts.
    """

    def improve(
        self, policy: Policy, rollouts: Rollouts, *, seed: int, output_dir: Path, progress: Progress | None = None
    ) -> TrainReport:
        """Train `policy` in place on `rollouts`, iteration by iteration, until their budget is spent.

        Raises:
            NothingToTrainOnError: no iteration had anything to learn from.
            TrainingError: a step failed (see `rl.learner.Learner`); the policy has the last good weights.
        """
        ...
