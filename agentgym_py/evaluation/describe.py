"""Statistics of a set of trajectories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym_py.evaluation.evaluate import Evaluation, summarise
from agentgym_py.trajectory.types import Trajectory


@dataclass(frozen=True, slots=True)
class DatasetStats:
    """Counts and outcomes of a dataset."""

    trajectories: int
    tasks: int
    kinds: Mapping[str, int]
    """Trajectories of each kind of task, the largest first."""
    agents: Mapping[str, int]
    outcome: Evaluation
    """Success, reward and behaviour of the episodes without an infrastructure failure."""
    tokens: int
    """Tokens that models sampled."""


def describe(trajectories: Sequence[Trajectory]) -> DatasetStats:
    """Summarize a dataset; success and reward with their 95 % intervals."""
    records = (record for t in trajectories for step in t.steps for record in step.token_records)
    return DatasetStats(
        trajectories=len(trajectories),
        tasks=len({trajectory.provenance.task_key for trajectory in trajectories}),
        kinds=dict(Counter(trajectory.kind for trajectory in trajectories).most_common()),
        agents=dict(Counter(trajectory.provenance.agent for trajectory in trajectories).most_common()),
        outcome=summarise(trajectories),
        tokens=sum(sum(record.mask) for record in records),
    )
