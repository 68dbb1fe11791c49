"""Statistics of a set of trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from agentgym_py.evaluation.evaluate import Evaluation, summarise
from agentgym_py.trajectory.dataset import AgentTrajDataset, DatasetCounts
from agentgym_py.trajectory.types import Trajectory


@dataclass(frozen=True, slots=True)
class DatasetStats(DatasetCounts):
    """Counts and outcomes of a dataset."""

    outcome: Evaluation
    """Success, reward and behaviour of the episodes without an infrastructure failure."""


def describe(trajectories: Sequence[Trajectory]) -> DatasetStats:
    """Summarize a dataset; success and reward with their 95 % intervals."""
    return DatasetStats(**asdict(AgentTrajDataset(trajectories).stats()), outcome=summarise(trajectories))
