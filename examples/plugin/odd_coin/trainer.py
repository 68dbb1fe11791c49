"""`shortest`: maximum likelihood on the shortest success of each task.

    loss = - mean over agent tokens of log pi(a_t | everything before)

No paper: an example of a trainer that needs torch only. One trajectory a step, Adam, no schedule.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_py.errors import ConfigError
from agentgym_py.policy.tokens import Sample
from agentgym_py.policy.typing import Tensor
from agentgym_py.rng import Rng
from agentgym_py.training import TrainReport
from agentgym_py.training.data import no_data_error, prepare
from agentgym_py.training.progress import Progress
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from agentgym_py.policy import Policy


def loss_of(logprobs_N: Tensor) -> Tensor:
    """Negative mean log-probability of N agent tokens."""
    return -logprobs_N.mean()


@dataclass(frozen=True, slots=True)
class Shortest:
    """Settings of `shortest`."""

    epochs: int = 1
    """Passes over the trajectories."""
    learning_rate: float = 3e-4
    """Of Adam, constant."""

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.learning_rate <= 0:
            raise ConfigError("epochs must be at least 1, learning_rate above 0")

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Train `policy` in place.

        Raises:
            NothingToTrainOnError: no trajectory succeeded.
        """
        import torch

        del output_dir
        began = time.monotonic()
        chosen = shortest_successes(trajectories)
        kept = prepare(policy, chosen, policy.max_length)
        if others := len(trajectories) - len(chosen):
            kept.dropped["failed, or not the shortest of their task"] = others
        if not (samples := kept.samples):
            raise no_data_error("shortest", kept.dropped)
        optimizer = torch.optim.Adam(policy.model.parameters(), lr=self.learning_rate)
        losses: list[float] = []
        policy.model.train()
        for epoch in range(self.epochs):
            for sample in Rng("shortest", seed, epoch).sample(samples, len(samples)):
                losses.append(_step(policy, optimizer, sample))
                if progress:
                    progress(len(losses), self.epochs * len(samples))
        policy.model.eval()
        return TrainReport(
            trajectories=len(samples),
            dropped=dict(kept.dropped),
            tokens=self.epochs * sum(len(sample.input_ids) for sample in samples),
            agent_tokens=self.epochs * sum(sum(sample.mask) for sample in samples),
            seconds=time.monotonic() - began,
            loss=losses,
        )


def shortest_successes(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Of each task the success of fewest steps, the first of those that are alike."""
    best: dict[object, Trajectory] = {}
    for each in trajectories:
        key = each.provenance.task_key
        if each.success and each.is_evidence and (key not in best or len(each.steps) < len(best[key].steps)):
            best[key] = each
    return list(best.values())


def _step(policy: Policy, optimizer: Optimizer, sample: Sample) -> float:
    """One step of the optimizer; the loss before it."""
    import torch

    from agentgym_py.policy.logprobs import agent_logits, agent_logprobs

    ids, labels = (torch.tensor([each], device=policy.model.device) for each in (sample.input_ids, sample.labels))
    loss = loss_of(agent_logprobs(agent_logits(policy.model, ids, labels)))
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]  # torch has it so
    optimizer.step()
    return float(loss.detach())
