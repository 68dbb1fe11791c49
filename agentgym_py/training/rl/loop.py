"""The loop of an on-policy training: iterations until the budget is spent, states that it goes on from, its report."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

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


class Kept(Protocol):
    """A part of a training with a state of its own."""

    def save(self, folder: Path) -> None:
        """Write it into this folder; all processes call it."""
        ...

    def load(self, folder: Path) -> None:
        """Be as `save` left it."""
        ...


@dataclass(slots=True)
class Tally:
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
    kl: float = 0.0
    """Coefficient of the KL, where a trainer steers it."""


class Loop:
    """Iterates a learner on rollouts; its state is kept between two iterations.

    `made_of` is what the training is made of, beside the learner's settings; `parts` are kept with it.
    """

    def __init__(
        self, learner: Learner, rollouts: Rollouts, output_dir: Path, progress: Progress | None,
        made_of: Sequence[object] = (), parts: Sequence[Kept] = (),
    ) -> None:  # fmt: skip
        self.learner, self.rollouts, self.progress = learner, rollouts, progress
        self.tally, self.parts, self._began = Tally(), (learner, *parts), time.monotonic()
        digest = digest_of(
            learner.settings, rollouts.policy.digest(), rollouts.seed, rollouts.budget, rollouts.params,
            [(job.env, job.task, job.split) for job in rollouts.tasks], *made_of,
        )  # fmt: skip
        self._checkpoints = Checkpoints(output_dir / "states", digest, learner.settings.checkpoint_minutes)
        if (last := self._checkpoints.last()) is not None:
            self._load(last)

    def iterations(self, least: int = 1) -> Iterator[None]:
        """One for each time that `least` episodes may still be played; each plays with the weights of then."""
        while self.rollouts.remaining >= least:
            if self.rollouts.episodes and self.learner.savable and self._checkpoints.due():
                self._checkpoints.keep(self._save)
            self.learner.publish()
            self.rollouts.sync()
            yield
            if self.progress:
                self.progress(self.rollouts.budget - self.rollouts.remaining, self.rollouts.budget)

    def count(self, records: Sequence[Record], epochs: int, row: dict[str, float]) -> None:
        """An iteration's records were trained on, and `row` is to be logged of it.

        Raises:
            TrainingError: its last step went wrong; see `Learner.watched`.
            StoppedEarly: it went too far; see `Learner.settle`.
        """
        self.tally.history.append(self.learner.watched(row, records))
        rate = {"learning_rate": self.learner.settings.learning_rate}
        tracking.log(row | rate, len(self.tally.history))
        self.learner.settle(records)
        self.tally.trained += len(records)
        self.tally.tokens += epochs * sum(len(record.input_ids) for record in records)
        self.tally.agent_tokens += epochs * sum(record.n for record in records)

    def report(self, enough: bool) -> TrainReport:
        """What the training did, which is over: its states are of no more use.

        Raises:
            NothingToTrainOnError: it was not `enough`.
        """
        tally, played = self.tally, len(self.rollouts.episodes)
        self._checkpoints.clear()
        if unused := played - tally.trained - tally.dropped.total():
            tally.dropped["played when the training was stopped"] = unused
        if not enough:
            reasons = ", ".join(f"{number} {reason}" for reason, number in tally.dropped.items())
            raise NothingToTrainOnError(f"nothing to learn from {played} trajectories: {reasons}")
        losses = [row["loss"] for row in tally.history if "loss" in row]
        last = {name: value for row in tally.history for name, value in row.items()}
        return TrainReport(tally.trained, dict(tally.dropped), tally.tokens, tally.agent_tokens, self._seconds(),
                           losses, last, tally.history, self.learner.notes)  # fmt: skip

    def _seconds(self) -> float:
        return self.tally.seconds + time.monotonic() - self._began

    def _save(self, folder: Path) -> None:
        tally = {each.name: getattr(self.tally, each.name) for each in fields(Tally)}
        state: dict[str, Any] = tally | {"seconds": self._seconds(), "rollouts": self.rollouts.state_dict()}
        if distributed.first():
            (folder / "loop.json").write_text(json.dumps(state), encoding="utf-8")
            store.write(folder / "played.jsonl", self.rollouts.episodes)
        for part in self.parts:
            part.save(folder)

    def _load(self, folder: Path) -> None:
        state = json.loads((folder / "loop.json").read_text(encoding="utf-8"))
        self.rollouts.load_state_dict(state.pop("rollouts"), list(store.read(folder / "played.jsonl")))
        self.tally = Tally(**(state | {"dropped": Counter(state["dropped"])}))
        for part in self.parts:
            part.load(folder)
