"""What a trainer plugin is: a dataclass whose fields are its settings, with `train`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from torch import Tensor as Tensor

    from agentgym_py.policy import Policy
    from agentgym_py.rollouts import Rollouts
else:
    Tensor = Any
"""torch's, for a trainer's annotations: `--help` reads trainers, and must not load torch for it."""

Progress = Callable[[int, int], None]
"""Called with the optimizer steps that are done, and how many there will be."""


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
    """What an on-policy trainer logs, iteration by iteration."""


@runtime_checkable
class Trainer(Protocol):
    """A plugin of the group `agentgym.trainers`: a dataclass, instantiated with its settings."""

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
        """
        ...


@runtime_checkable
class OnPolicyTrainer(Protocol):
    """A plugin of the same group that plays itself: it learns from episodes of the policy as it is at that moment."""

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
            TrainingError: the loss was not finite; the policy is as it was before that step.
        """
        ...
