"""The loop of an on-policy training: iterations until the budget is spent, states to resume from, its report."""

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
from agentgym_py.training import TrainReport, tracking
from agentgym_py.training.checkpoints import Checkpoints, digest_of
from agentgym_py.training.progress import Progress
from agentgym_py.trajectory import store

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.training.rl.batch import Record
    from agentgym_py.training.rl.learner import Learner


class Checkpointable(Protocol):
    """A part of a training with a state of its own."""

    def save(self, folder: Path) -> None:
        """Write it into this folder; all processes call it."""
        ...

    def load(self, folder: Path) -> None:
        """Be as `save` left it."""
        ...


@dataclass(slots=True)
class Totals:
    """What a training has done so far."""

    trained: int = 0
    """Trajectories."""
    tokens: int = 0
    """Tokens that went through the model, all epochs."""
    agent_tokens: int = 0
    """Those of them that carried a loss."""
    seconds: float = 0.0
    """That it took before it was taken up again."""
    history: list[dict[str, float]] = field(default_factory=list)
    """What was logged of each iteration."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Trajectories that were left out, by reason."""
    kl_coef: float = 0.0
    """Coefficient of the KL, where a trainer steers it."""


class Loop:
    """The iterations of an on-policy training, to be used as a context; its state is saved between two iterations.

    Args:
        learner: Trained; left whole at the end of the context.
        rollouts: Whose budget is spent.
        output_dir: States are kept in its folder `states`.
        progress: Called after each iteration with the episodes played and the budget.
        fingerprint: What the training depends on beside the learner's settings and the rollouts: a state is resumed
            only by an equal training.
        parts: Saved and loaded with the learner.
    """

    def __init__(
        self, learner: Learner, rollouts: Rollouts, output_dir: Path, progress: Progress | None,
        fingerprint: Sequence[object] = (), parts: Sequence[Checkpointable] = (),
    ) -> None:  # fmt: skip
        self.learner, self.rollouts, self.progress = learner, rollouts, progress
        self.totals, self.parts, self._began = Totals(), (learner, *parts), time.monotonic()
        digest = digest_of(
            learner.settings, rollouts.policy.digest(), rollouts.seed, rollouts.budget, rollouts.params,
            [(job.env, job.task, job.split) for job in rollouts.tasks], *fingerprint,
        )  # fmt: skip
        self._checkpoints = Checkpoints(output_dir / "states", digest, learner.settings.checkpoint_minutes)
        if (last := self._checkpoints.last()) is not None:
            self._load(last)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> bool:
        return self.learner.__exit__(*raised)

    @property
    def dropped(self) -> Counter[str]:
        """Trajectories that are left out, by reason; the trainer counts them."""
        return self.totals.dropped

    @property
    def finished(self) -> int:
        """Number of iterations that were finished."""
        return len(self.totals.history)

    def iterations(self, least: int = 1) -> Iterator[None]:
        """Yield while `least` episodes may still be played; each iteration plays with the weights of then."""
        while self.rollouts.remaining >= least:
            if self.rollouts.episodes and self.learner.savable and self._checkpoints.due():
                self._checkpoints.keep(self._save)
            self.learner.publish()
            self.rollouts.sync()
            yield
            if self.progress:
                self.progress(self.rollouts.budget - self.rollouts.remaining, self.rollouts.budget)

    def finish_iteration(self, records: Sequence[Record], epochs: int, row: dict[str, float]) -> None:
        """Count the records that an iteration trained on, log `row`, and ask the guards.

        Raises:
            TrainingError: its last step went wrong; see `Learner.check_collapse`.
            StoppedEarly: it went too far; see `Learner.check_kl`.
        """
        self.totals.history.append(row)
        self.learner.check_collapse(row, records)
        rate = {"learning_rate": self.learner.settings.learning_rate}
        tracking.log(row | rate, self.finished)
        self.learner.check_kl(records)
        self.totals.trained += len(records)
        self.totals.tokens += epochs * sum(len(record.input_ids) for record in records)
        self.totals.agent_tokens += epochs * sum(record.n for record in records)

    def report(self, enough: bool) -> TrainReport:
        """Say what the training did; its states are removed.

        Raises:
            NothingToTrainOnError: it was not `enough`.
        """
        totals, played = self.totals, len(self.rollouts.episodes)
        self._checkpoints.clear()
        if unused := played - totals.trained - totals.dropped.total():
            totals.dropped["played when the training was stopped"] = unused
        if not enough:
            reasons = ", ".join(f"{number} {reason}" for reason, number in totals.dropped.items())
            raise NothingToTrainOnError(f"nothing to learn from {played} trajectories: {reasons}")
        losses = [row["loss"] for row in totals.history if "loss" in row]
        last = {name: value for row in totals.history for name, value in row.items()}
        return TrainReport(totals.trained, dict(totals.dropped), totals.tokens, totals.agent_tokens, self._seconds(),
                           losses, last, totals.history, self.learner.notes)  # fmt: skip

    def _seconds(self) -> float:
        return self.totals.seconds + time.monotonic() - self._began

    def _save(self, folder: Path) -> None:
        totals = {each.name: getattr(self.totals, each.name) for each in fields(Totals)}
        state: dict[str, Any] = totals | {"seconds": self._seconds(), "rollouts": self.rollouts.state_dict()}
        if distributed.is_rank_zero():
            (folder / "loop.json").write_text(json.dumps(state), encoding="utf-8")
            store.write(folder / "played.jsonl", self.rollouts.episodes)
        for part in self.parts:
            part.save(folder)

    def _load(self, folder: Path) -> None:
        state = json.loads((folder / "loop.json").read_text(encoding="utf-8"))
        self.rollouts.load_state_dict(state.pop("rollouts"), list(store.read(folder / "played.jsonl")))
        self.totals = Totals(**(state | {"dropped": Counter(state["dropped"])}))
        for part in self.parts:
            part.load(folder)
