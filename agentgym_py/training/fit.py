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
resume from, progress, tracking, and the check that gradients are finite.
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
from agentgym_py.errors import ConfigError, TrainingError
from agentgym_py.files import load_json
from agentgym_py.policy.logprobs import AgentLogits, agent_logits, pad_samples, sum_rows, sum_sequences
from agentgym_py.policy.tokens import RowSize, Sample
from agentgym_py.rng import seed_of
from agentgym_py.training import tracking
from agentgym_py.training.checkpoints import Checkpoints, fingerprint
from agentgym_py.training.data import TrainingData, length_grouped, row_key
from agentgym_py.training.ewc import load_anchor
from agentgym_py.training.optimization import Optimization, set_training_mode
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import OfflineSettings
from agentgym_py.training.trainer import TrainReport
from agentgym_py.training.validation import Validation, hold_out

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

Row = TypeVar("Row")
Unit = TypeVar("Unit")
"""What a microbatch consists of: rows, or groups of rows that must stay together."""
_HISTORY_ROWS = 20
"""Rows of the history, if no tracker logs every step."""


def _add_up(parts: Mapping[str, float], sums: dict[str, list[float]]) -> None:
    """Add a step's logs to the sums by name, each with the number that it is to be divided by."""
    for key, value in parts.items():
        kind, name = key.split(" ", 1)
        if kind != "number":
            total = sums.setdefault(name, [0.0, 0.0])
            total[0] += value
            total[1] += parts[f"number {name}"] if kind == "sum" else 1.0


class Fit(Generic[Row]):
    """One offline training of a policy's model, used as a context.

    Args:
        name: The training's name in errors.
        policy: Trained in place.
        settings: The trainer's.
        rows: The data; only a training on the same rows resumes a state.
        seed: Draws adapters, dropout and the order of the rows.
        output_dir: States are saved in its folder `states`; None saves none.
        progress: Called after each step.
        track: Whether the tracker of `--track` logs it.
        size_of: Returns what a row takes in a forward pass; by default rows are samples.
        dropout: Whether the model's own dropout is on; that of adapters is on in any case.
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
        size_of: Callable[[Any], RowSize] = RowSize.of,
        dropout: bool = True,
        **optimization: Any,
    ) -> None:
        self.name, self.settings, self.rows, self.seed = name, settings, rows, seed
        self.history: list[dict[str, float]] = []
        self._progress, self._track = progress, track
        self._size_of, self._dropout = size_of, dropout
        self._began, self._step, self._steps = time.monotonic(), 0, 0
        self._sums: dict[str, list[float]] = {}
        self._norm, self._changed = 0.0, dict[str, float]()
        self._training, self._held_out = hold_out(rows, settings, seed)
        self._is_evaluating = False
        self._checkpoints = None
        self._anchor = load_anchor(settings)
        if output_dir:
            training = fingerprint(settings, seed, policy.digest(), list(rows))
            self._checkpoints = Checkpoints(output_dir / "states", training, settings.checkpoint_minutes)
        latest = self._checkpoints.latest() if self._checkpoints else None
        self.optimization = Optimization(policy, settings, seed=seed, **optimization)
        self.module = self.optimization.module
        if self._anchor:
            if self.optimization.sharded:
                raise ConfigError("ewc_lambda is not for a training that is sharded")
            self._anchor = self._anchor.to(dict(self.optimization.trained()))
        self._validation = Validation(settings, self.optimization) if self._held_out else None
        if self._checkpoints and latest:
            with self._checkpoints.reading(latest):
                self._load(latest)
        self._scope = ExitStack()

    def __enter__(self) -> Self:
        device = self.optimization.device
        self._scope.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        self._scope.enter_context(torch.enable_grad())  # also ends the no_grad of a measurement that fails
        set_training_mode(self.optimization.net, dropout=self._dropout)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._scope.close()
        if kind is None or issubclass(kind, TrainingError):  # raised in all processes at once
            self.optimization.sync_to_policy()
        self.optimization.close()
        if kind is None:
            self._changed = self.optimization.require_change()
        if kind is None and self._checkpoints:
            self._checkpoints.remove()

    # ---- the loop ----------------------------------------------------------------------------------------------------

    def steps(self, batches: Sequence[Sequence[int]] | None = None) -> Iterator[list[Row]]:
        """Yield the rows of each optimizer step; a resumed training begins after its last step.

        `batches` holds the rows' positions, by default of rows of similar length (`data.length_grouped`). The rows that
        `val_size` holds out are yielded, too, as a step that measures their loss and changes no weights.
        """
        if batches is None:
            rows = [self.rows[i] for i in self._training]
            lengths, keys = [self._size_of(row).tokens for row in rows], [row_key(row) for row in rows]
            grouped = length_grouped(lengths, keys, self.settings, self.seed)
            batches = [[self._training[i] for i in batch] for batch in grouped]
        elif self._validation:
            raise ConfigError("val_size must be 0: this trainer orders its rows itself")
        self._steps = len(batches)
        yield from self._evaluation()  # a state is saved before the measurement that follows its step
        for batch in batches[self._step :]:
            if self._validation and self._validation.stops:
                break
            self._seed_step()
            self.optimization.backend.zero_grad()
            self.optimization.scale_learning_rate(self._schedule(self._step))
            self._part: dict[str, float] = defaultdict(float)
            yield [self.rows[i] for i in batch]
            yield from self._evaluation()
        if self._validation:
            self._validation.restore_best()

    def _seed_step(self) -> None:
        """Seed the step's dropout: on a CPU its generator alone, because the others take a millisecond of traces."""
        seed = seed_of(self.seed, "step", self._step + 1, distributed.rank()) % (1 << 63)
        on_cpu = self.optimization.device.type == "cpu"
        (torch.default_generator.manual_seed if on_cpu else torch.manual_seed)(seed)

    def _evaluation(self) -> Iterator[list[Row]]:
        """Yield the held-out rows if their loss is due."""
        if self._validation is None or not self._evaluates_now() or self._validation.step == self._step:
            return
        self._part, self._is_evaluating = defaultdict(float), True
        self.optimization.net.eval()
        with torch.no_grad():
            yield [self.rows[i] for i in self._held_out]
        set_training_mode(self.optimization.net, dropout=self._dropout)
        self._is_evaluating = False

    def _evaluates_now(self) -> bool:
        per_epoch = math.ceil(len(self._training) / self.settings.step_size)
        every = self.settings.eval_steps or per_epoch
        return self._step > 0 and (self._step % every == 0 or self._step == self._steps)

    def microbatches(self, rows: Sequence[Unit], last: bool = True) -> Iterator[list[Unit]]:
        """Yield this process's share of the rows in parts; `last`: these are the step's last rows.

        The losses of all parts, in all processes, add up: divide by a number of the whole step. If a sharded model
        needs one more forward pass than there are parts, a row is repeated whose loss does not count.
        """
        parts = list(self.optimization.microbatches(rows, self._size_of))
        for number, part in enumerate(parts, 1):
            self._counts, self._last_part = bool(part), last and number == len(parts)
            yield part or [rows[0]]

    def backward(self, loss: Tensor, logged: Mapping[str, Tensor] | None = None) -> None:
        """Add the gradient of this part's loss, and log `logged`.

        A scalar in it is a share of the step's value, as the loss is; a tensor of values per row or token is logged as
        their mean over the step.
        """
        if not self._is_evaluating:
            self.optimization.backend.backward(loss * self._counts, self._last_part)
        if not self._counts:
            return
        self._part["share loss"] += loss.item()
        for name, values in (logged or {}).items():
            if values.dim() == 0:
                self._part[f"share {name}"] += values.item()
            else:
                self._part[f"sum {name}"] += float(values.detach().cpu().double().sum())
                self._part[f"number {name}"] += values.numel()

    def step(self) -> None:
        """Take the optimizer step of the gradients so far, and log it.

        Raises:
            TrainingError: the gradient is not finite; the step is not taken, and the weights are those before it.
        """
        parts = distributed.reduce_logs(self._part)
        if self._is_evaluating:
            self._log_evaluation(parts)
            return
        self._add_ewc()
        self.optimization.backend.step(self._require_finite)
        self._step += 1
        _add_up(parts, self._sums)
        if self._progress:
            self._progress(self._step, self._steps)
        if self._logs_now():
            self._log()
            if (
                self._step < self._steps
                and self._checkpoints
                and self.optimization.backend.savable
                and self._checkpoints.is_due()
            ):
                self._checkpoints.save(self._save)

    def _add_ewc(self) -> None:
        """Add the gradient of EWC's penalty, which the backend sums over the processes, and log the penalty."""
        if self._anchor:
            weights = dict(self.optimization.trained())
            penalty = self._anchor.add_gradient(weights, self.settings.ewc_lambda, adds=distributed.is_rank_zero())
            _add_up({"share ewc_penalty": penalty}, self._sums)

    def _require_finite(self, norm: float) -> None:
        self._norm = norm
        if not math.isfinite(norm):
            raise TrainingError(
                f"{self.name}: gradient norm {norm} at step {self._step + 1} of {self._steps}: the step was not taken, "
                "the weights are those before it; a lower learning_rate may help"
            )

    def _schedule(self, step: int) -> float:
        """Return the share of the peak learning rate in a step, from 0: a linear rise, then half a cosine."""
        warmup = min(int(self.settings.warmup_ratio * self._steps), self._steps - 1)
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(self._steps - warmup, 1)))

    # ---- forward passes ----------------------------------------------------------------------------------------------

    def agent_logits(self, samples: Sequence[Sample]) -> AgentLogits:
        """Run the model on samples; returns the logits at their N agent tokens."""
        with self.optimization.autocast():
            return agent_logits(self.module, *pad_samples(samples, self.optimization.device))

    def row_logprobs(self, samples: Sequence[Sample]) -> Tensor:
        """Sum the log-probabilities of each sample's agent tokens, (B,)."""
        ids, labels = pad_samples(samples, self.optimization.device)
        with self.optimization.autocast():
            return sum_sequences(sum_rows(agent_logits(self.module, ids, labels), labels), samples)

    @torch.no_grad()
    def compute(self, rows: Sequence[Row], values_of: Callable[[list[Row]], Tensor]) -> Tensor:
        """Compute the values of B rows without gradient, in every process, (B,).

        `values_of` maps rows to their values; it is called with parts of this process's share.
        """
        position, computed = {id(row): i for i, row in enumerate(rows)}, dict[int, float]()
        for part in self.optimization.microbatches(rows, self._size_of):
            values = values_of(part or [rows[0]])
            computed |= dict(zip((position[id(row)] for row in part), values.tolist(), strict=False))
        gathered = {i: value for share in distributed.gather(computed) for i, value in share.items()}
        dtype = torch.promote_types(self.optimization.policy.model.dtype, torch.float32)
        return torch.tensor([gathered[i] for i in range(len(rows))], dtype=dtype, device=self.optimization.device)

    # ---- what is logged ----------------------------------------------------------------------------------------------

    def _logs_now(self) -> bool:
        every = 1 if self._track and tracking.is_tracking() else math.ceil(self._steps / _HISTORY_ROWS)
        evaluates = self._validation is not None and self._evaluates_now()
        return evaluates or self._step % every == 0 or self._step == self._steps

    def _log_evaluation(self, parts: Mapping[str, float]) -> None:
        """Add the means over the held-out rows to the last row of the history."""
        assert self._validation is not None
        sums = dict[str, list[float]]()
        _add_up(parts, sums)
        row = {f"eval_{name}": total / number for name, (total, number) in sums.items() if number}
        self._validation.add(self._step, row["eval_loss"])
        self.history[-1] |= row
        self._log_to_tracker()

    def _log(self) -> None:
        """Add the means since the last row to the history."""
        means = {name: total / number for name, (total, number) in self._sums.items() if number}
        row = {
            "loss": means.pop("loss"),
            "grad_norm": self._norm,
            "learning_rate": self._schedule(self._step - 1) * self.optimization.learning_rate,
            **means,
        }
        self._sums = {}
        self.history.append(row)
        if not (self._validation and self._evaluates_now()):  # the measurement that follows is of the same row
            self._log_to_tracker()

    def _log_to_tracker(self) -> None:
        if self._track:
            tracking.log(self.history[-1], self._step if self._checkpoints else None)

    def _save(self, folder: Path) -> None:
        self.optimization.backend.save(folder)
        if distributed.is_rank_zero():
            state = {"step": self._step, "history": self.history, "seconds": time.monotonic() - self._began}
            (folder / "fit.json").write_text(json.dumps(state), encoding="utf-8")
        if self._validation:
            self._validation.save(folder)

    def _load(self, folder: Path) -> None:
        self.optimization.backend.load(folder)
        state = load_json(folder / "fit.json")
        self._step, self.history = state["step"], state["history"]
        self._began -= state.get("seconds", 0.0)  # states of earlier versions have no time
        if self._validation:
            self._validation.load(folder)

    def _trained_share(self) -> float:
        """Return the share of the tokens of all epochs that was trained on."""
        if not self._validation:
            return 1.0
        lengths = [self._size_of(row).tokens for row in self.rows]
        return sum(lengths[i] for i in self._training) / sum(lengths) * self._step / self._steps

    def report(self, data: TrainingData, **metrics: float) -> TrainReport:
        """Make the report of the training; `metrics` are the trainer's own."""
        epochs = self.settings.epochs * self._trained_share()
        last = {name: value for row in self.history for name, value in row.items()}
        return TrainReport(
            trajectories=len(data.trajectories),
            dropped=dict(data.dropped),
            tokens=int(epochs * sum(len(sample.input_ids) for sample in data.samples)),
            agent_tokens=int(epochs * sum(sum(sample.mask) for sample in data.samples)),
            seconds=time.monotonic() - self._began,
            loss=[row["loss"] for row in self.history],
            metrics={name: value for name, value in last.items() if name not in ("loss", "learning_rate")}
            | self._changed
            | data.metrics
            | metrics,
            history=self.history,
        )
