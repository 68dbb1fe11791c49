"""The loop of on-policy training: iterations until the budget is spent, states to resume from, the report."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from agentgym_py import distributed
from agentgym_py.errors import NothingToTrainOnError
from agentgym_py.files import load_json
from agentgym_py.training import TrainReport, tracking
from agentgym_py.training.checkpoints import Checkpoints, fingerprint
from agentgym_py.training.progress import Progress
from agentgym_py.trajectory import store

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.training.rl.batch import Record
    from agentgym_py.training.rl.learner import Learner


class Checkpointable(Protocol):
    """A part of a training with its own state."""

    def save(self, folder: Path) -> None:
        """Write the state into this folder; all processes call it."""
        ...

    def load(self, folder: Path) -> None:
        """Restore the state that `save` wrote."""
        ...


@dataclass(slots=True)
class Totals:
    """What a training has done so far."""

    trained: int = 0
    """Trajectories that were trained on."""
    tokens: int = 0
    """Tokens that went through the model, over all epochs."""
    agent_tokens: int = 0
    """Those of them with a loss."""
    seconds: float = 0.0
    """Time before the training was resumed."""
    history: list[dict[str, float]] = field(default_factory=list)
    """The logs of each iteration."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Number of trajectories left out, by reason."""
    kl_coef: float = 0.0
    """Coefficient of the KL, if the trainer adapts it."""


class Loop:
    """The iterations of an on-policy training, used as a context; states are saved between iterations.

    Args:
        learner: Trained; the context closes it.
        rollouts: Plays the episodes of its budget.
        output_dir: States are saved in its folder `states`.
        progress: Called after each iteration with the episodes played and the budget.
        depends_on: What the training depends on besides the learner's settings and the rollouts: only an equal training
            resumes its state.
        checkpointables: Saved and loaded with the learner.
    """

    def __init__(
        self, learner: Learner, rollouts: Rollouts, output_dir: Path, progress: Progress | None,
        depends_on: Sequence[object] = (), checkpointables: Sequence[Checkpointable] = (),
    ) -> None:  # fmt: skip
        self.learner, self.rollouts, self.progress = learner, rollouts, progress
        self.totals, self._began, self._changed = Totals(), time.monotonic(), dict[str, float]()
        self.checkpointables = (learner, *checkpointables)
        digest = fingerprint(
            learner.settings, rollouts.policy.digest(), rollouts.seed, rollouts.budget, rollouts.params,
            [(job.env, job.task, job.split) for job in rollouts.tasks], *depends_on,
        )  # fmt: skip
        self._checkpoints = Checkpoints(output_dir / "states", digest, learner.settings.checkpoint_minutes)
        if (state := self._checkpoints.latest()) is not None:
            with self._checkpoints.reading(state):
                self._load(state)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if self.learner.__exit__(kind, error, trace):
            return True
        if kind is None:
            self._changed = self.learner.optimization.require_change()
        return False

    @property
    def dropped(self) -> Counter[str]:
        """Number of trajectories left out, by reason; the trainer counts them."""
        return self.totals.dropped

    @property
    def finished(self) -> int:
        """Number of finished iterations."""
        return len(self.totals.history)

    def iterations(self, min_episodes: int = 1) -> Iterator[None]:
        """Yield while the budget has `min_episodes` left; each iteration plays with the weights of its start."""
        while self.rollouts.remaining >= min_episodes:
            if self.rollouts.episodes and self.learner.savable and self._checkpoints.is_due():
                self._checkpoints.save(self._save)
            self.learner.sync_to_policy()
            self.rollouts.sync()
            yield
            if self.progress:
                self.progress(self.rollouts.budget - self.rollouts.remaining, self.rollouts.budget)

    def finish_iteration(self, records: Sequence[Record], epochs: int, row: dict[str, float]) -> None:
        """Count the records that an iteration trained on, log `row`, and call the guards.

        Raises:
            TrainingError: the last step went wrong; see `Learner.check_collapse`.
            StoppedEarly: the policy moved too far; see `Learner.check_kl`.
        """
        self.totals.history.append(row)
        self.learner.optimization.backend.zero_grad()  # frees the gradients while episodes are played
        self.learner.check_collapse(row, records)
        tracking.log(row | {"learning_rate": self.learner.optimization.learning_rate}, self.finished)
        self.learner.check_kl(records)
        self.totals.trained += len(records)
        self.totals.tokens += epochs * sum(len(record.input_ids) for record in records)
        self.totals.agent_tokens += epochs * sum(record.n for record in records)

    def report(self, has_trained: bool) -> TrainReport:
        """Make the report, and remove the states.

        Raises:
            NothingToTrainOnError: unless the policy `has_trained`.
        """
        totals, played = self.totals, len(self.rollouts.episodes)
        self._checkpoints.remove()
        if unused := played - totals.trained - totals.dropped.total():
            totals.dropped["played when the training was stopped"] = unused
        if not has_trained:
            reasons = ", ".join(f"{number} {reason}" for reason, number in totals.dropped.items())
            raise NothingToTrainOnError(f"nothing to learn from {played} trajectories: {reasons}")
        return TrainReport(
            trajectories=totals.trained,
            dropped=dict(totals.dropped),
            tokens=totals.tokens,
            agent_tokens=totals.agent_tokens,
            seconds=self._seconds(),
            loss=[row["loss"] for row in totals.history if "loss" in row],
            metrics={name: value for row in totals.history for name, value in row.items()} | self._changed,
            history=totals.history,
            notes=self.learner.notes,
        )

    def _seconds(self) -> float:
        return self.totals.seconds + time.monotonic() - self._began

    def _save(self, folder: Path) -> None:
        totals = {entry.name: getattr(self.totals, entry.name) for entry in fields(Totals)}
        state: dict[str, Any] = totals | {"seconds": self._seconds(), "rollouts": self.rollouts.state_dict()}
        if distributed.is_rank_zero():
            (folder / "loop.json").write_text(json.dumps(state), encoding="utf-8")
            store.write(folder / "played.jsonl", self.rollouts.episodes)
        for part in self.checkpointables:
            part.save(folder)

    def _load(self, folder: Path) -> None:
        state = load_json(folder / "loop.json")
        self.rollouts.load_state_dict(state.pop("rollouts"), list(store.read(folder / "played.jsonl")))
        self.totals = Totals(**(state | {"dropped": Counter(state["dropped"])}))
        for part in self.checkpointables:
            part.load(folder)
