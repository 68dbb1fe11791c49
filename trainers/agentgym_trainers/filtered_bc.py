"""Filtered behaviour cloning: maximum likelihood on trajectories with high returns.

    loss = - sum over agent tokens of log pi(a_t | everything before) / number of agent tokens,
    over trajectories with return R(tau) >= threshold

With a `threshold` of -inf it is plain behaviour cloning. It is AgentGym's "BC" and, in rounds, its AgentEvol as in the
published code (arXiv:2406.04151). Observations and prompts have no loss. Deviations from trl's SFTTrainer, whose loss
it equals: the head is applied at the agent's tokens only (about twice as fast on a CPU); AdamW with beta2 0.95; a
mixture of experts gets no router loss. A step's loss is a mean over its tokens, so long trajectories weigh more than in
a mean of means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from agentgym_py.policy.tokens import Sample
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.data import no_data_error, prepare
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import OfflineSettings, ReturnThreshold
from agentgym_py.training.trainer import TrainerInfo
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.training.fit import Fit


def bc_loss(logprobs_N: Tensor, tokens: Tensor | int | None = None) -> Tensor:
    """Return the negative mean log-probability of N agent tokens; `tokens` is their number in the whole step."""
    return -logprobs_N.sum() / (logprobs_N.numel() if tokens is None else tokens)


@dataclass(frozen=True, slots=True)
class FilteredBC(OfflineSettings, ReturnThreshold):
    """Settings of filtered behaviour cloning."""

    info: ClassVar = TrainerInfo(several_processes=True, feedback=("corrections",))

    def __post_init__(self) -> None:
        OfflineSettings.__post_init__(self)
        ReturnThreshold.__post_init__(self)

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Train `policy` in place on the trajectories with return >= threshold.

        Raises:
            NothingToTrainOnError: there are none.
        """
        from agentgym_py.training.fit import Fit

        data = prepare(policy, trajectories, self.max_length, self.threshold, mask_cut=self.mask_truncated_completions)
        if not data.samples:
            raise no_data_error("filtered_bc", data.dropped)
        with Fit("filtered_bc", policy, self, data.samples, seed=seed, output_dir=output_dir, progress=progress) as fit:
            for batch in fit.steps():
                tokens = sum(sum(sample.mask) for sample in batch)
                for part in fit.microbatches(batch):
                    fit.backward(*self.loss(fit, part, tokens))
                fit.step()
        return fit.report(data)

    def loss(self, fit: Fit[Sample], part: Sequence[Sample], tokens: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the part's share of the loss of a step of `tokens` agent tokens, and its logs."""
        from agentgym_py.policy.logprobs import agent_logprobs_and_hits

        logprobs_N, hits_N = agent_logprobs_and_hits(fit.agent_logits(part))
        return bc_loss(logprobs_N, tokens), {"mean_token_accuracy": hits_N}
