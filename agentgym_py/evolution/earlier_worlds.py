"""What a training in a sequence of worlds gets of the worlds before: replayed episodes, and EWC's penalty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import distributed
from agentgym_py.evolution.reflection import forget_note
from agentgym_py.evolution.sequence import Schedule, draw_replay, replay_buffer
from agentgym_py.rng import Rng, seed_of
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.evolution.config import EvolveConfig
    from agentgym_py.policy import Policy


@dataclass(frozen=True, slots=True)
class EarlierWorlds:
    """The stages of a run that are over; it has no state but the files of its anchors."""

    config: EvolveConfig
    schedule: Schedule
    folder: Path
    """Where the anchors are, in a file for each stage."""
    ewc_lambda: float
    """Strength of EWC's penalty in all stages but the first; 0 has none."""
    load_agent: Callable[[int], Policy]
    """Returns the agent of a round."""
    selected: Callable[[int], Sequence[Trajectory]]
    """Returns the episodes of a round that were selected."""

    def replays(self, number: int) -> bool:
        """Return whether the training of a round replays episodes of earlier worlds."""
        return self.config.replay_ratio > 0 and self.schedule.stage(number) > 0

    def replay(self, number: int, new: int) -> list[Trajectory]:
        """Return selected episodes of the worlds before a round, to be trained on with `new` others."""
        if not self.replays(number):
            return []
        by_stage = [self._learnt_in(stage) for stage in range(self.schedule.stage(number))]
        buffer = replay_buffer(by_stage, self.config.replay_size, self.config.seed)
        return draw_replay(buffer, new, self.config.replay_ratio, seed_of(self.config.seed, "replay", number))

    def with_penalty(self, number: int, trainer: Any) -> Any:
        """Return a round's trainer with EWC's penalty for the stages before; in the first stage it has none."""
        if not self.ewc_lambda:
            return trainer
        if not (stage := self.schedule.stage(number)):
            return replace(trainer, ewc_lambda=0.0)
        return replace(trainer, ewc_lambda=self.ewc_lambda, ewc_anchor=self.anchor(stage - 1))

    def anchor(self, stage: int) -> Path:
        """Return the file of EWC's quadratic after a stage; make it, and those before, if they are missing."""
        path = self.folder / f"{stage:02d}.safetensors"
        earlier = [self.anchor(stage - 1)] if stage else []
        if not distributed.on_rank_zero(path.is_file):
            distributed.on_rank_zero(self._make_anchor, stage, self._learnt_in(stage), path, earlier)
        return path

    def _make_anchor(self, stage: int, episodes: Sequence[Trajectory], path: Path, earlier: Sequence[Path]) -> None:
        from agentgym_py.training.ewc import Anchor, anchor_of

        policy = self.load_agent(self.schedule.last(stage))
        order = Rng(self.config.seed, "fisher", stage).sample(episodes, len(episodes))
        drawn = [forget_note(trajectory, policy.chat) for trajectory in order]
        before = [Anchor.load(file) for file in earlier]
        anchor_of(policy, drawn, before, most=self.config.fisher_episodes).save(path)

    def _learnt_in(self, stage: int) -> list[Trajectory]:
        """Return the selected episodes of all rounds of a stage."""
        rounds = range(self.schedule.first(stage), self.schedule.last(stage) + 1)
        return [trajectory for number in rounds for trajectory in self.selected(number)]
