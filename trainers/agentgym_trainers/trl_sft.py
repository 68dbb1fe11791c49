"""trl's SFTTrainer on trajectories: the loss of `filtered_bc`, with everything that trl's configuration offers.

    loss = - sum over agent tokens of log pi(a_t | everything before) / number of agent tokens

Rows hold the token ids as they were sampled and labels at the agent's tokens only; no text is encoded again. An episode
of several token sequences is several rows. trl runs the loop: linear schedule without warm-up, AdamW with beta2 0.999,
rows in random order, if `args` says nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from agentgym_py.training import TrainReport
from agentgym_py.training.data import no_data_error, prepare
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import ReturnThreshold, TrlOfflineSettings
from agentgym_py.training.trainer import TrainerInfo
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy


@dataclass(frozen=True, slots=True)
class TrlSFT(TrlOfflineSettings, ReturnThreshold):
    """Settings of trl's SFTTrainer."""

    info: ClassVar = TrainerInfo(resumes=False, library="trl", arguments="trl:SFTConfig", feedback=("corrections",))

    def __post_init__(self) -> None:
        TrlOfflineSettings.__post_init__(self)
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
            ConfigError: `args` holds something that SFTConfig does not take.
        """
        from datasets import Dataset
        from trl import SFTConfig, SFTTrainer

        from agentgym_py.training.trl_fit import TrlFit, trl_config

        args = trl_config(SFTConfig, self, policy, seed, **self.trl_arguments)
        data = prepare(policy, trajectories, self.max_length, self.threshold, mask_cut=self.mask_truncated_completions)
        if not data.samples:
            raise no_data_error("trl_sft", data.dropped)
        parts = [sample.sequence(k) for sample in data.samples for k in range(len(sample.starts))]
        rows = [{"input_ids": part.input_ids, "labels": part.labels} for part in parts if any(part.mask)]
        with TrlFit("trl_sft", policy, self, seed, progress) as fit:
            fit.train(
                SFTTrainer(
                    model=fit.model, args=args, processing_class=fit.tokenizer, train_dataset=Dataset.from_list(rows)
                )
            )
        return fit.report(len(data.samples), data.dropped, data.samples, self.epochs, **data.metrics)
