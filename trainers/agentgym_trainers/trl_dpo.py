"""trl's DPOTrainer on pairs of trajectories of one task: every loss and option of its configuration.

    loss = - log sigma(beta ((logp_w - ref_w) - (logp_l - ref_l)))     by default; `args.loss_type` chooses another

logp is a sum over a trajectory's agent tokens, as they were sampled: no text is encoded again, and observations have no
loss. The reference is the policy before: a copy, or its adapters before. Episodes of several token sequences are left
out, because trl's pairs have one each. trl runs the loop: linear schedule without warm-up, AdamW with beta2 0.999,
pairs in random order, if `args` says nothing else.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from agentgym_py.checks import require_positive
from agentgym_py.errors import ConfigError
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.data import no_data_error, prepare_pairs
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import PairData, Rates, TrlOfflineSettings
from agentgym_py.training.trainer import KEEP_FAILURES_AND_RETRY, TrainerInfo
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy


@dataclass(frozen=True, slots=True)
class TrlDPO(PairData, TrlOfflineSettings):
    """Settings of trl's DPOTrainer."""

    info: ClassVar = TrainerInfo(
        resumes=False,
        library="trl",
        arguments="trl:DPOConfig",
        several_sequences=False,
        compares_attempts=True,
        warm_start="filtered_bc",
        evolve_defaults=KEEP_FAILURES_AND_RETRY,
        feedback=("comparisons", "scores"),
    )

    rates: ClassVar = Rates(3e-4, 1e-6)
    beta: float = 0.1
    """Penalty on moving away from the reference, the policy before training."""

    def __post_init__(self) -> None:
        TrlOfflineSettings.__post_init__(self)
        PairData.__post_init__(self)
        require_positive(self, "beta")
        if self.args.get("precompute_ref_log_probs"):
            raise ConfigError("args.precompute_ref_log_probs reads text; with lora_rank the reference needs no copy")
        if self.lora_dropout and self.args.get("disable_dropout", True):
            raise ConfigError("lora_dropout needs args.disable_dropout false: trl switches all dropout off by default")

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Train `policy` in place on pairs of trajectories of one task.

        Raises:
            NothingToTrainOnError: no task has a better and a worse trajectory.
            ConfigError: `args` holds something that DPOConfig does not take.
        """
        from trl import DPOConfig, DPOTrainer

        from agentgym_py.training.trl_fit import TrlFit, trl_config

        more = {"beta": self.beta, "remove_unused_columns": False}
        args = trl_config(DPOConfig, self, policy, seed, **more, **self.trl_arguments)
        single = [t for t in trajectories if not t.outgrew_context]
        data, ties = prepare_pairs(policy, single, self, seed)
        if several := len(trajectories) - len(single):
            data.dropped["in several token sequences, of which trl's pairs have one each"] += several
        if not data.samples:
            raise no_data_error("trl_dpo", data.dropped)
        sides = [{"ids": sample.input_ids, "mask": sample.mask} for sample in data.samples]
        rows = [{"chosen": good, "rejected": bad} for good, bad in zip(sides[::2], sides[1::2], strict=True)]
        with TrlFit("trl_dpo", policy, self, seed, progress) as fit:
            reference = None if self.lora_rank else copy.deepcopy(policy.model)
            fit.train(DPOTrainer(
                model=fit.model, ref_model=reference, args=args, processing_class=fit.tokenizer,
                train_dataset=token_rows(rows), data_collator=pad_pairs,
            ))  # fmt: skip
        metrics = {"pairs": len(rows), "ties": ties, **data.metrics}
        return fit.report(len(data.trajectories), data.dropped, data.samples, self.epochs, **metrics)


def token_rows(rows: list[dict[str, Any]]) -> Any:
    """Return a dataset of token ids; trl's `map` over it, which would take them for text, leaves it as it is."""
    import datasets

    kind: Any = type("TokenRows", (datasets.Dataset,), {"map": lambda self, *_, **__: self})
    return kind.from_list(rows)


def pad_pairs(rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """Make trl's batch of pairs, the better ones first; `completion_mask` is 1 on the agent's tokens."""
    from agentgym_py.policy.logprobs import pad_rows

    ids, masks = ([row[side][name] for side in ("chosen", "rejected") for row in rows] for name in ("ids", "mask"))
    attended = [[1] * len(row) for row in ids]
    return {"input_ids": pad_rows(ids), "attention_mask": pad_rows(attended), "completion_mask": pad_rows(masks)}
