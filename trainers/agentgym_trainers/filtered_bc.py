"""Filtered behaviour cloning: maximum likelihood on the trajectories that did well.

    loss = - sum over agent tokens of log pi(a_t | everything before) / number of agent tokens,
    over trajectories with return R(tau) >= threshold

With a `threshold` of -inf it is plain behaviour cloning. It is AgentGym's "BC" and, inside the rounds, its AgentEvol as
published code has it (arXiv:2406.04151). Observations and prompts carry no loss. The work is done by trl's SFTTrainer:
token ids and labels go straight in. Its loss is taken at the agent's tokens only (equal to trl's own, about twice as
fast on a CPU). Deviations: a batch's loss is a mean over its tokens, so long trajectories weigh more than in a sum of
means; AdamW with beta2 0.95; batches are made of trajectories of similar length; a mixture of experts gets no router
loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from agentgym_py.errors import ConfigError
from agentgym_py.policy.adapters import lora
from agentgym_py.policy.tokens import Sample
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.finetune import FineTuning, agent_trainer, arguments, nothing_left, trained, usable
from agentgym_py.training.progress import Progress
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy


def bc_loss(logprobs_N: Tensor, tokens: Tensor | int | None = None) -> Tensor:
    """Negative mean log-probability of N agent tokens; `tokens` is N over all the batches that one step sums up."""
    return -logprobs_N.sum() / (logprobs_N.numel() if tokens is None else tokens)


@dataclass(frozen=True, slots=True)
class FilteredBC(FineTuning):
    """Settings of filtered behaviour cloning."""

    shared: ClassVar = True

    threshold: float = 0.5
    """Least return of a trajectory that is trained on."""

    def __post_init__(self) -> None:
        FineTuning.__post_init__(self)
        if math.isnan(self.threshold):
            raise ConfigError("threshold must be a number, got nan")

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

        Nothing stays in `output_dir`; who wants to keep the policy calls its `save`.

        Raises:
            NothingToTrainOnError: there is none.
        """
        kept = usable(policy, trajectories, self.max_length, self.threshold)
        if not kept.samples:
            raise nothing_left("filtered_bc", kept.dropped)
        make = partial(self._sft, policy, kept.samples, seed)
        return trained(make, policy, kept, self.epochs, output_dir, progress)

    def _sft(self, policy: Policy, samples: list[Sample], seed: int, output_dir: Path) -> Any:
        import datasets
        from trl import SFTConfig

        args = arguments(
            SFTConfig, self, policy, seed, output_dir,
            dataset_kwargs={"skip_prepare_dataset": True}, train_sampling_strategy="group_by_length",
        )  # fmt: skip
        return agent_trainer(lambda logprobs_N, batch, tokens: bc_loss(logprobs_N, tokens))(
            model=policy.model, args=args, processing_class=policy.tokenizer, peft_config=lora(self.lora_rank),
            train_dataset=datasets.Dataset.from_list([{"input_ids": s.input_ids, "labels": s.labels} for s in samples]),
        )  # fmt: skip
