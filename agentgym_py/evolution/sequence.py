"""Worlds one after another: which round belongs to which, what is replayed, and what is forgotten."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Schedule:
    """The rounds of a run: in each stage one of demonstrations, and then those that explore.

    A run has one stage with all its worlds, or in a sequence a stage for each world. The rounds are numbered through.
    """

    stages: int
    explore_rounds: int
    """Rounds of a stage after that of demonstrations."""

    @property
    def rounds(self) -> int:
        """Number of all rounds."""
        return self.stages * (self.explore_rounds + 1)

    def stage(self, number: int) -> int:
        """Return the stage of a round, from 0."""
        return number // (self.explore_rounds + 1)

    def within(self, number: int) -> int:
        """Return the number of a round within its stage; 0 is that of demonstrations."""
        return number % (self.explore_rounds + 1)

    def first(self, stage: int) -> int:
        """Return the first round of a stage."""
        return stage * (self.explore_rounds + 1)

    def last(self, stage: int) -> int:
        """Return the last round of a stage."""
        return self.first(stage) + self.explore_rounds


# ---- replay ----------------------------------------------------------------------------------------------------------


def replay_buffer(by_stage: Sequence[Sequence[Trajectory]], size: int, seed: int) -> list[Trajectory]:
    """Return at most `size` trajectories of the earlier stages, as equally many of each as they have.

    A stage keeps the same trajectories while others come after it, only fewer of them: a prefix of one random order.
    """
    shares, left = dict.fromkeys(range(len(by_stage)), 0), size
    open_stages = [stage for stage, episodes in enumerate(by_stage) if episodes]
    while left and open_stages:
        share = max(left // len(open_stages), 1)
        for stage in open_stages[:left]:
            taken = min(share, len(by_stage[stage]) - shares[stage])
            shares[stage] += taken
            left -= taken
        open_stages = [stage for stage in open_stages if shares[stage] < len(by_stage[stage])]
    return [
        trajectory
        for stage, episodes in enumerate(by_stage)
        for trajectory in Rng(seed, "replay buffer", stage).sample(episodes, len(episodes))[: shares[stage]]
    ]


def draw_replay(buffer: Sequence[Trajectory], new: int, ratio: float, seed: int) -> list[Trajectory]:
    """Draw trajectories of the buffer, without replacement, so that they are the share `ratio` of the training.

    They are fewer if the buffer is smaller; `new` is the number of the other trajectories.
    """
    number = min(round(ratio / (1 - ratio) * new), len(buffer))
    return Rng(seed, "replay").sample(buffer, number)


# ---- what is forgotten -----------------------------------------------------------------------------------------------


def success_matrix(summaries: Sequence[Mapping[str, Any]], worlds: Sequence[str]) -> list[list[float | None]]:
    """Return the success in each world (columns) of the agent after each stage (rows), from summaries of episodes."""
    return [
        [summary.get("worlds", {}).get(world, summary)["success"]["value"] for world in worlds] for summary in summaries
    ]


def forgetting(matrix: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Return the forgetting of each world but the last: its best success after an earlier stage less that at the end.

    `matrix[k][j]` is the success in world j after stage k; the stages before world j's own do not count. This is
    f_j of Chaudhry et al. 2018 (arXiv:1801.10112, equation 3), from -1 to 1; None if no episode counted.
    """
    losses = list[float | None]()
    for world in range(len(matrix) - 1):
        earlier = [row[world] for row in matrix[world:-1]]
        known, end = [value for value in earlier if value is not None], matrix[-1][world]
        losses.append(None if end is None or not known else max(known) - end)
    return losses


def sequence_metrics(matrix: Sequence[Sequence[float | None]], worlds: Sequence[str]) -> dict[str, Any]:
    """Return the matrix with the mean success after the last stage and the forgetting, as JSON values."""
    losses = forgetting(matrix)
    return {
        "worlds": list(worlds),
        "success": [list(row) for row in matrix],
        "average": _mean(matrix[-1]),
        "forgetting": {"mean": _mean(losses), "by_world": dict(zip(worlds, losses, strict=False))},
    }


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None and not math.isnan(value)]
    return fmean(numbers) if numbers else None
