"""Trajectory ranking: DPO on every ordered pair of a task's trajectories, each of which goes through the model once.

    s_i = beta (logp_i - ref_i)                    logp: sum over a trajectory's agent tokens; ref: by the policy before
    loss = mean over tasks of  mean over the task's pairs i, j with R_i > R_j of  - log sigma(s_i - s_j)
           and sft_weight times the mean of -logp_b / |b| over the task's best b      |b|: its agent tokens

No paper of its own: it is RankNet's loss (Burges et al., "Learning to rank using gradient descent", ICML 2005) of DPO's
implicit reward s (arXiv:2305.18290), so that the returns of a task only have to be ordered; that the best one is
imitated beside it is RRHF's (arXiv:2304.05302; there a sum over its tokens, here their mean). With two
trajectories a task it is `dpo` with the sigmoid. Every task counts alike, however many pairs it has. Where DPO takes 2
rows a pair, N trajectories take N rows for up to N (N - 1) / 2 pairs. The work is done by trl's DPOTrainer, with
deviations as in `dpo`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from agentgym_py.checks import check_least, check_positive
from agentgym_py.policy.adapters import lora
from agentgym_py.policy.tokens import IGNORED, Sample
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.finetune import FineTuning, Kept, arguments, dealt, nothing_left, trained, usable
from agentgym_py.training.progress import Progress
from agentgym_py.training.trainer import CONTRASTS
from agentgym_py.trajectory import Trajectory, preferences
from agentgym_py.trajectory.selectors import best_first

if TYPE_CHECKING:
    from agentgym_py.policy import Policy


class RankingLoss(NamedTuple):
    """The loss of a batch, and how the pairs stand."""

    loss: Tensor
    """A scalar."""
    margins_P: Tensor
    """s_i - s_j of each of P pairs, without gradient."""


def ranking_loss(ratios_R: Tensor, returns_R: Tensor, tasks_R: Tensor, beta: float) -> RankingLoss:
    """The loss of R trajectories: logp - ref, return, and a number that is the same for the same task.

    A task without two different returns counts for nothing.
    """
    from torch.nn.functional import logsigmoid

    same_RR = tasks_R[:, None] == tasks_R
    pairs_RR = same_RR & (returns_R[:, None] > returns_R)
    of_task_R = same_RR.to(ratios_R.dtype) @ pairs_RR.sum(-1).to(ratios_R.dtype)  # pairs of each row's task
    shares_P = 1 / of_task_R[:, None].expand_as(pairs_RR)[pairs_RR]  # they add up to the number of tasks
    margins_P = beta * (ratios_R[:, None] - ratios_R)[pairs_RR]
    loss = -(shares_P * logsigmoid(margins_P)).sum() / shares_P.sum().clamp(min=1)
    return RankingLoss(loss, margins_P.detach())


def best_loss(logps_R: Tensor, tokens_R: Tensor, returns_R: Tensor, tasks_R: Tensor) -> Tensor:
    """The negative mean log-probability of the tokens of each task's best trajectories, the mean over the tasks.

    Of R trajectories: the sum over agent tokens and their number, return, and a number that is the same for the same
    task.
    """
    same_RR = tasks_R[:, None] == tasks_R
    best_R = (~(same_RR & (returns_R > returns_R[:, None])).any(-1)).to(logps_R.dtype)
    shares_R = best_R / (same_RR.to(logps_R.dtype) @ best_R)  # they add up to the number of tasks
    return -(shares_R * logps_R / tokens_R).sum() / shares_R.sum()


@dataclass(frozen=True, slots=True)
class Ranking(FineTuning):
    """Settings of trajectory ranking."""

    shared: ClassVar = True
    evolve_defaults: ClassVar = CONTRASTS
    cloner: ClassVar = "filtered_bc"

    learning_rate: float = 1e-4
    """Peak of the cosine schedule; 1e-4 suits the tiny model, 5e-7 to 5e-6 a pretrained one."""
    batch_size: int = 2
    """Tasks a batch, each with all its trajectories."""
    beta: float = 0.1
    """How dear it is to move away from the reference, the policy as it was before."""
    sft_weight: float = 1.0
    """Weight of the best ones' own negative log-probability, a token: with 1 they cannot become less likely while the
    worse ones fall faster."""
    max_per_task: int = 8
    """Of more trajectories of a task so many are taken, from the best to the worst."""

    def __post_init__(self) -> None:
        FineTuning.__post_init__(self)
        check_positive(self, "beta")
        check_least(self, {"max_per_task": 2, "sft_weight": 0.0})

    def train(
        self,
        policy: Policy,
        trajectories: Sequence[Trajectory],
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Train `policy` in place to rank the trajectories of each task by their returns.

        Nothing stays in `output_dir`; who wants to keep the policy calls its `save`.

        Raises:
            NothingToTrainOnError: no task has a better and a worse trajectory.
        """
        kept = usable(policy, trajectories, self.max_length)
        groups, counts = self._groups(kept)
        if not groups:
            raise nothing_left("ranking", kept.dropped)
        rest = [i for group in groups for i in group]
        used = Kept([kept.trajectories[i] for i in rest], [kept.samples[i] for i in rest], kept.dropped)
        make = partial(self._ranking, policy, kept, groups, seed)
        done = trained(make, policy, used, self.epochs, output_dir, progress)
        return replace(done, metrics={**done.metrics, **counts})

    def _groups(self, kept: Kept) -> tuple[list[list[int]], dict[str, float]]:
        """Positions of the trajectories of each task that are ranked, and counts; who is not goes to `dropped`."""
        found = preferences.build(kept.trajectories, match="all", max_pairs=None)
        tasks: dict[object, set[int]] = {}
        for pair in found.pairs:
            tasks.setdefault(preferences.opening(kept.trajectories[pair.chosen]), set()).update(pair[:2])
        groups = [spread(best_first(kept.trajectories, task), self.max_per_task) for task in tasks.values()]
        kept.dropped.update(found.dropped)
        beyond = sum(map(len, tasks.values())) - sum(map(len, groups))
        kept.dropped.update(Counter({f"beyond {self.max_per_task} of their task": beyond} if beyond else {}))
        return groups, {"tasks": len(groups), "ties": found.ties}

    def _ranking(self, policy: Policy, kept: Kept, groups: list[list[int]], seed: int, output_dir: Path) -> Any:
        import datasets
        from trl import DPOConfig

        from agentgym_py.policy.logprobs import sample_logprobs

        samples: list[Sample] = [kept.samples[i] for group in groups for i in group]
        refs = iter(sample_logprobs(policy.model, samples, 4 * self.batch_size, self.bf16))
        rows = [
            {
                "input_ids": [kept.samples[i].input_ids for i in group],
                "labels": [kept.samples[i].labels for i in group],
                "returns": [kept.trajectories[i].reward for i in group],
                "ref_logps": [next(refs) for _ in group],
                "length": max(len(kept.samples[i].input_ids) for i in group),
            }
            for group in groups
        ]
        args = arguments(
            DPOConfig, self, policy, seed, output_dir, beta=self.beta,
            precompute_ref_log_probs=True, remove_unused_columns=False, train_sampling_strategy="group_by_length",
        )  # fmt: skip
        return _ranking_trainer(self.sft_weight)(
            model=policy.model, args=args, processing_class=policy.tokenizer, peft_config=lora(self.lora_rank),
            train_dataset=datasets.Dataset.from_list(rows), data_collator=_collate,
        )  # fmt: skip


def spread(ranked: Sequence[int], most: int) -> list[int]:
    """At most `most` of them, at equal distances, the first and the last included."""
    if len(ranked) <= most:
        return list(ranked)
    return [ranked[i * (len(ranked) - 1) // (most - 1)] for i in range(most)]


def _collate(rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """The trajectories of all the rows' tasks, one below the other."""
    import torch

    from agentgym_py.policy.logprobs import padded_rows

    def flat(name: str) -> list[Any]:
        return [each for row in rows for each in row[name]]

    return {
        "input_ids": padded_rows(flat("input_ids")),
        "labels": padded_rows(flat("labels"), IGNORED),
        "ref_logps": torch.tensor(flat("ref_logps")),
        "returns": torch.tensor(flat("returns"), dtype=torch.float64),
        "tasks": torch.tensor([number for number, row in enumerate(rows) for _ in row["returns"]]),
    }


def _ranking_trainer(sft_weight: float) -> Any:
    """The DPOTrainer whose loss is `ranking_loss`, and `sft_weight` times `best_loss`."""
    from trl import DPOTrainer

    from agentgym_py.policy.logprobs import row_logprobs

    class RankingTrainer(dealt(DPOTrainer)):  # type: ignore[misc]  # trl is untyped here
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            logps_R = row_logprobs(model, inputs["input_ids"], inputs["labels"])
            found = ranking_loss(logps_R - inputs["ref_logps"], inputs["returns"], inputs["tasks"], self.beta)
            told = {"rewards/margins": found.margins_P, "rewards/accuracies": found.margins_P > 0}
            loss = found.loss
            if sft_weight:
                tokens_R = (inputs["labels"][:, 1:] != IGNORED).sum(-1)
                best = best_loss(logps_R, tokens_R, inputs["returns"], inputs["tasks"])
                told |= {"loss/ranking": found.loss.detach()[None], "loss/best": best.detach()[None]}
                loss = loss + sft_weight * best
            self.tell(told, inputs["share"])
            return loss * inputs["share"]

    return RankingTrainer
