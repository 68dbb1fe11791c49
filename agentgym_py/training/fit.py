"""The training loop of offline trainers.

A trainer reads as the paper does:

    with Fit("filtered_bc", policy, self, samples, seed=seed, output_dir=output_dir, progress=progress) as fit:
        for batch in fit.steps():
            tokens = sum(sum(sample.mask) for sample in batch)
            for part in fit.microbatches(batch):
                fit.backward(bc_loss(agent_logprobs(fit.agent_logits(part)), tokens))
            fit.step()
    return fit.report(data)

`Fit` does the rest: adapters, sharding, the shares of several processes, the schedule, clipping, precision, states to
resume from, progress, tracking, and refusing a step whose gradient is not finite.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from agentgym_py import distributed
from agentgym_py.errors import TrainingError
from agentgym_py.policy.logprobs import AgentLogits, agent_logits, pad_samples, sum_rows
from agentgym_py.policy.tokens import Sample
from agentgym_py.rng import seed_of
from agentgym_py.training import tracking
from agentgym_py.training.checkpoints import Checkpoints, digest_of
from agentgym_py.training.data import TrainingData, length_grouped
from agentgym_py.training.optimization import Optimization
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import OfflineSettings
from agentgym_py.training.trainer import TrainReport

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

Row = TypeVar("Row")
Unit = TypeVar("Unit")
"""What a microbatch is made of: a row, or rows that must stay together."""
_LOGS = 20
"""Rows of the history, if nothing tracks every step."""


def sample_tokens(sample: Sample) -> int:
    """Tokens of a sample; how `Fit` measures rows unless it is told otherwise."""
    return len(sample.input_ids)


class Fit(Generic[Row]):
    """One offline training of a policy's model, to be used as a context.

    Args:
        name: What errors call it.
        policy: Trained in place.
        settings: The trainer's.
        rows: What is trained on; a state is resumed only by a training on the same rows.
        seed: Draws adapters and dropout.
        output_dir: States are kept in its folder `states`; None keeps none.
        progress: Called after each step.
        track: Whether `--track` hears of it.
        tokens_of: Tokens of a row, the padding within it included.
        sequences_of: Sequences of a row, if rows differ in that.
        optimization: Keyword arguments of `Optimization` for a model with heads.

    Raises:
        RunError: the saved state is damaged, or of another training.
    """

    def __init__(
        self,
        name: str,
        policy: Policy,
        settings: OfflineSettings,
        rows: Sequence[Row],
        *,
        seed: int,
        output_dir: Path | None,
        progress: Progress | None = None,
        track: bool = True,
        tokens_of: Callable[[Any], int] = sample_tokens,
        sequences_of: Callable[[Any], int] | None = None,
        **optimization: Any,
    ) -> None:
        self.name, self.settings, self.rows, self.seed = name, settings, rows, seed
        self.history: list[dict[str, float]] = []
        self._progress, self._track = progress, track
        self._tokens_of, self._sequences_of = tokens_of, sequences_of
        self._began, self._step, self._steps = time.monotonic(), 0, 0
        self._sums: dict[str, list[float]] = {}
        self._norm = 0.0
        made_of = digest_of(settings, seed, policy.digest(), list(rows))
        self._checkpoints = (
            Checkpoints(output_dir / "states", made_of, settings.checkpoint_minutes) if output_dir else None
        )
        self._last = self._checkpoints.last() if self._checkpoints else None
        self.optimization = Optimization(policy, settings, seed=seed, **optimization)
        self.module = self.optimization.module
        if self._last:
            self.optimization.load(self._last)
            state = json.loads((self._last / "fit.json").read_text(encoding="utf-8"))
            self._step, self.history = state["step"], state["history"]
        self._within = ExitStack()

    def __enter__(self) -> Self:
        device = self.optimization.device
        self._within.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        self.optimization.net.train()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._within.close()
        if kind is None or issubclass(kind, TrainingError):  # raised in all processes at once
            self.optimization.publish()
        self.optimization.close()
        if kind is None and self._checkpoints:
            self._checkpoints.clear()

    # ---- the loop ----------------------------------------------------------------------------------------------------

    def steps(self, batches: Sequence[Sequence[int]] | None = None) -> Iterator[list[Row]]:
        """Yield the rows of each optimizer step; a resumed training begins after its last step.

        `batches` holds the rows' positions, by default of rows of similar length (`data.length_grouped`).
        """
        if batches is None:
            batches = length_grouped([self._tokens_of(row) for row in self.rows], self.settings, self.seed)
        self._steps = len(batches)
        for batch in batches[self._step :]:
            torch.manual_seed(seed_of(self.seed, "step", self._step + 1, distributed.rank()) % (1 << 63))
            self.optimization.clear()
            self.optimization.scale_learning_rate(self._schedule())
            self._part: dict[str, float] = defaultdict(float)
            yield [self.rows[i] for i in batch]

    def microbatches(self, rows: Sequence[Unit], last: bool = True) -> Iterator[list[Unit]]:
        """Yield this process's share of the rows in parts; `last`: the step has no rows after these.

        The losses of all parts, in all processes, add up: divide by what the whole step holds. Where a sharded model
        needs one more forward pass than there are parts, a row is given that counts nothing.
        """
        parts = list(self.optimization.microbatches(rows, self._tokens_of, self._sequences_of))
        for number, part in enumerate(parts, 1):
            self._counts, self._last_part = bool(part), last and number == len(parts)
            yield part or [rows[0]]
        if not parts and last:
            self._last_part = True

    def backward(self, loss: Tensor, logged: Mapping[str, Tensor] | None = None) -> None:
        """Add the gradient of this part's loss, and log `logged`.

        A scalar there is a share of the step's value, as the loss is: the shares of all parts add up. A tensor of
        values per row or token is logged as their mean.
        """
        self.optimization.backward(loss * self._counts, self._last_part)
        if not self._counts:
            return
        self._part["share loss"] += loss.item()
        for name, values in (logged or {}).items():
            if values.dim() == 0:
                self._part[f"share {name}"] += values.item()
            else:
                self._part[f"sum {name}"] += float(values.detach().double().sum())
                self._part[f"number {name}"] += values.numel()

    def step(self) -> None:
        """Take the optimizer step of the gradients so far, and log it.

        Raises:
            TrainingError: the gradient is not finite. The step is not taken: the weights are those before it.
        """
        parts = distributed.reduce_logs(self._part)
        self.optimization.step(self._require_finite)
        self._step += 1
        for key, value in parts.items():
            kind, name = key.split(" ", 1)
            if kind != "number":
                total = self._sums.setdefault(name, [0.0, 0.0])
                total[0] += value
                total[1] += parts[f"number {name}"] if kind == "sum" else 1.0
        if self._progress:
            self._progress(self._step, self._steps)
        if self._logs_now():
            self._log()
            if self._step < self._steps and self._checkpoints and self.optimization.savable and self._checkpoints.due():
                self._checkpoints.keep(self._save)

    def _require_finite(self, norm: float) -> None:
        self._norm = norm
        if not math.isfinite(norm):
            raise TrainingError(
                f"{self.name}: gradient norm {norm} at step {self._step + 1} of {self._steps}: the step was not taken, "
                "the weights are those before it; a lower learning_rate may help"
            )

    def _schedule(self) -> float:
        """Share of the peak learning rate in the next step: a linear rise, then half a cosine."""
        warm = min(int(self.settings.warmup_ratio * self._steps), self._steps - 1)
        if self._step < warm:
            return (self._step + 1) / (warm + 1)
        return 0.5 * (1 + math.cos(math.pi * (self._step - warm) / max(self._steps - warm, 1)))

    # ---- forward passes ----------------------------------------------------------------------------------------------

    def agent_logits(self, samples: Sequence[Sample]) -> AgentLogits:
        """Run the model on samples; logits at their N agent tokens."""
        with self.optimization.autocast():
            return agent_logits(self.module, *pad_samples(samples, self.optimization.device))

    def row_logprobs(self, samples: Sequence[Sample]) -> Tensor:
        """Sums of the log-probabilities of each sample's agent tokens, (B,)."""
        ids, labels = pad_samples(samples, self.optimization.device)
        with self.optimization.autocast():
            return sum_rows(agent_logits(self.module, ids, labels), labels)

    @torch.no_grad()
    def read(self, rows: Sequence[Row], values_of: Callable[[list[Row]], Tensor]) -> Tensor:
        """Values of rows without gradient, in their order and in every process, (B,).

        `values_of` maps B rows to B values; it is called with parts of this process's share.
        """
        place, found = {id(row): i for i, row in enumerate(rows)}, dict[int, float]()
        for part in self.optimization.microbatches(rows, self._tokens_of, self._sequences_of):
            values = values_of(part or [rows[0]])
            found |= dict(zip((place[id(row)] for row in part), values.tolist(), strict=False))
        everywhere = {i: value for share in distributed.gather(found) for i, value in share.items()}
        dtype = torch.promote_types(self.optimization.policy.model.dtype, torch.float32)
        return torch.tensor([everywhere[i] for i in range(len(rows))], dtype=dtype, device=self.optimization.device)

    # ---- what is logged ----------------------------------------------------------------------------------------------

    def _logs_now(self) -> bool:
        every = 1 if self._track and tracking.wanted() else math.ceil(self._steps / _LOGS)
        return self._step % every == 0 or self._step == self._steps

    def _log(self) -> None:
        """Add the means since the last row to the history."""
        means = {name: total / number for name, (total, number) in self._sums.items() if number}
        row = {
            "loss": means.pop("loss"),
            "grad_norm": self._norm,
            "learning_rate": self._schedule_of_last() * self.settings.learning_rate,
            **means,
        }
        self._sums = {}
        self.history.append(row)
        if self._track:
            tracking.log(row, self._step if self._checkpoints else None)

    def _schedule_of_last(self) -> float:
        self._step -= 1
        factor = self._schedule()
        self._step += 1
        return factor

    def _save(self, folder: Path) -> None:
        self.optimization.save(folder)
        if distributed.is_rank_zero():
            state = {"step": self._step, "history": self.history}
            (folder / "fit.json").write_text(json.dumps(state), encoding="utf-8")

    def report(self, data: TrainingData, **metrics: float) -> TrainReport:
        """Say what the training did with its data; `metrics` are the trainer's own."""
        epochs = self.settings.epochs
        last = {name: value for row in self.history for name, value in row.items()}
        return TrainReport(
            trajectories=len(data.trajectories),
            dropped=dict(data.dropped),
            tokens=int(epochs * sum(len(sample.input_ids) for sample in data.samples)),
            agent_tokens=int(epochs * sum(sum(sample.mask) for sample in data.samples)),
            seconds=time.monotonic() - self._began,
            loss=[row["loss"] for row in self.history],
            metrics={name: value for name, value in last.items() if name not in ("loss", "learning_rate")} | metrics,
            history=self.history,
        )
