"""What a trainer plugin is: a dataclass whose fields are its settings, with `train`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agentgym_py import distributed
from agentgym_py.errors import ConfigError, TrainingError
from agentgym_py.training.progress import Progress
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.policy import Policy


CONTRASTS: Mapping[str, Any] = {
    "tries": 4, "explore_tasks": 250, "select.threshold": -math.inf, "select.success_only": False,
}  # fmt: skip
"""`evolve_defaults` of a trainer that compares trajectories of one task: failed ones are selected too, and a task is
played several times (in all as many episodes a round as without)."""
WEIGHS: Mapping[str, Any] = {"select.threshold": -math.inf, "select.success_only": False}
"""`evolve_defaults` of a trainer that makes something of failed trajectories, too."""


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What a training did."""

    trajectories: int
    """Trajectories that were trained on."""
    dropped: Mapping[str, int]
    """How many the trainer left out, by reason; no reason stands with 0."""
    tokens: int
    """Tokens that went through the model, all epochs."""
    agent_tokens: int
    """Those of them that carried a loss."""
    seconds: float
    loss: list[float] = field(default_factory=list)
    """Loss at each logged step."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Last value of whatever else the trainer logs."""
    history: Sequence[Mapping[str, float]] = ()
    """What was logged, step by step; of an on-policy trainer iteration by iteration."""
    notes: Sequence[str] = ()
    """What its safety nets noticed, with numbers; each was warned of once."""


@runtime_checkable
class Trainer(Protocol):
    """A plugin of the group `agentgym.trainers`: a dataclass, instantiated with its settings.

    It may say what it needs of the AgentEvol rounds, in two class attributes (a dataclass marks them `ClassVar`):
    `evolve_defaults`, a mapping, are other defaults of `agentgym evolve` by the option's name, such as `CONTRASTS`
    (those of `select` are `agentgym train`'s, too);
    `cloner` is the name of the trainer that makes Agent_v0 of the expert's successes in its place.

    One whose training can be shared by several processes says so by a class attribute `shared = True`; see `ranks`.

    One that makes something else than a better policy names it in a class attribute `produces`, such as
    `reward_model`: it writes that to `output_dir` and leaves the policy as it is. See `product`.
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
        """Change `policy` in place by `trajectories`.

        The trainer does not save the policy: the caller does, by `policy.save`. `output_dir` is for whatever else the
        trainer writes, and one that writes nothing does not make it.

        Raises:
            NothingToTrainOnError: no trajectory carries a token to learn from.
            TrainingError: the gradient was not finite; the policy is as it was before that step.
        """
        ...


def product(trainer: Trainer | OnPolicyTrainer | type) -> str:
    """What a trainer makes: `policy`, or what its class attribute `produces` names."""
    return str(getattr(trainer, "produces", "policy"))


def select_defaults(trainer: Trainer | type) -> dict[str, Any]:
    """Which stored trajectories a trainer learns from by default, as `select.FIELD`: those of its AgentEvol rounds.

    A trainer that makes no policy, such as a reward model, learns from every episode.
    """
    if product(trainer) != "policy":
        return {**WEIGHS, "select.dedupe": False}
    defaults = getattr(trainer, "evolve_defaults", {})
    return {key: value for key, value in defaults.items() if key.startswith("select.")}


def checked(report: object, trainer: Trainer | OnPolicyTrainer, policy: Policy) -> TrainReport:
    """What a trainer returned.

    Raises:
        ConfigError: that is no report.
        TrainingError: it left weights that are no numbers.
    """
    if not policy.finite():
        raise TrainingError(f"the trainer {type(trainer).__name__} left weights that are nan or infinite")
    if not isinstance(report, TrainReport):
        raise ConfigError(
            f"the trainer {type(trainer).__name__} must return a TrainReport, and returned {report!r:.80}"
        )
    return report


def need_policy(trainer: Trainer | OnPolicyTrainer | type) -> None:
    """Refuse a trainer that makes something else, where the policy that it leaves is wanted."""
    if (made := product(trainer)) != "policy":
        raise ConfigError(
            f"a trainer of a policy is wanted here, and this one makes a {made}: `agentgym train` runs it"
        )


def need_shared(trainer: Trainer | OnPolicyTrainer | type) -> None:
    """Refuse a trainer that does not share its work out, where several processes train together."""
    if distributed.world() > 1 and not getattr(trainer, "shared", False):
        name = type(trainer).__name__
        raise ConfigError(f"{name} trains in one process, and here are {distributed.world()}; see docs/scaling.md")


@contextmanager
def last_good_kept(policy: Policy, folder: Path) -> Iterator[None]:
    """Where a training goes wrong, the weights that it leaves are saved to `folder`, and the error names it.

    Weights that are no numbers are not.
    """
    try:
        yield
    except TrainingError as error:
        if not policy.finite():
            raise
        if distributed.first():
            policy.save(folder)
        raise TrainingError(f"{error}; what was last good: {folder}") from error


@runtime_checkable
class OnPolicyTrainer(Protocol):
    """A plugin of the same group that plays itself: it learns from episodes of the policy as it is at that moment.

    It may have `check_round(episodes)`, which raises ConfigError where a round of so many episodes cannot be, or a file
    is missing, and `check_policy(policy)`, which raises it where it cannot train that policy; `agentgym evolve` calls
    both before anything runs. One that may learn from something else than returns has
    `by_return`, whether it does: a reward model is refused where it does not.
    """

    def improve(
        self,
        policy: Policy,
        rollouts: Rollouts,
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Change `policy` in place by playing `rollouts`, iteration by iteration, until their budget is spent.

        Raises:
            NothingToTrainOnError: no iteration had anything to learn from.
            TrainingError: it went wrong, as `rl.learner.Learner` says; the policy is what was last good.
        """
        ...
