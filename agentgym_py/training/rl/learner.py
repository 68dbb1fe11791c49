"""The learner: a policy, a critic and a reference if wanted, and optimizer steps on records of trajectories."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from agentgym_py import distributed
from agentgym_py.errors import NonFiniteError, TrainingError
from agentgym_py.files import load_json
from agentgym_py.policy.adapters import frozen_copy, has_adapters, is_quantized
from agentgym_py.policy.tokens import RowSize
from agentgym_py.rng import stable_order
from agentgym_py.training.data import row_key
from agentgym_py.training.masters import MasterWeights
from agentgym_py.training.optimization import Optimization, recomputed_layers
from agentgym_py.training.rl.actor_critic import ActorCritic, Output, Teacher
from agentgym_py.training.rl.backup import WeightBackup
from agentgym_py.training.rl.batch import (
    Record,
    TokenBatch,
    advantage_stats,
    collate,
    concat_field,
    even_parts,
    mean_logs,
    sampling_stats,
)
from agentgym_py.training.rl.guards import MAX_DRIFT, StoppedEarly, detect_collapse
from agentgym_py.training.rl.losses import Loss, Weighting, importance_weights, k1, k3, token_weights
from agentgym_py.training.settings import OnPolicySettings

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

_PROBES = 4
"""Records of an iteration that are read again at its end."""
_MAX_WEIGHT = 1e9
"""A larger weight is damaged: squares of its products overflow in some layer."""


class Learner:
    """Optimizer steps for one policy.

    An iteration reads: `annotate` the records; for each of `minibatches`: for each of its `microbatches` `forward` and
    `backward`, then `step`.

    Args:
        policy: Trained in place; under FSDP or DeepSpeed `sync_to_policy` gives it the weights of the trained copy.
        settings: The trainer's.
        seed: Draws adapters and the order of the records.
        temperature: Of the sampled replies.
        reference: Keep the weights of now to measure KL against: a frozen copy, which shares the base's weights with
            the policy if adapters are trained. The guard `max_kl` keeps it too.
        critic_rate: Learning rate of a value head; 0 makes none.
        critic_gradient: Share of the critic's gradient that reaches the trunk.
        remote_sampler: Whether a server sampled the records, which computes otherwise than this process.
        entropy_gradient: Whether the entropy is part of the loss; otherwise it is only logged, which takes less memory.
    """

    def __init__(
        self, policy: Policy, settings: OnPolicySettings, *, seed: int, temperature: float = 1.0,
        reference: bool = False, critic_rate: float = 0.0, critic_gradient: float = 1.0, entropy_gradient: bool = True,
        remote_sampler: bool = False,
    ) -> None:  # fmt: skip
        self.policy, self.settings = policy, settings
        self._seed, self._passes = seed, 0
        self._frozen, self._reference = None, reference or settings.max_kl > 0
        if self._reference:
            frozen = frozen_copy(policy.model, share_base=settings.lora_rank > 0)
            self._frozen = ActorCritic(frozen, False, temperature, bf16=settings.bf16)
        self.optimization = Optimization(
            policy, settings, seed=seed,
            wrap=lambda model: ActorCritic(
                model, critic_rate > 0, temperature, critic_gradient, settings.bf16, entropy_gradient
            ),
            heads=lambda net: (
                [{"params": list(net.value.parameters()), "lr": critic_rate, "clip_apart": True}]
                if critic_rate > 0 else []
            ),
        )  # fmt: skip
        self.net: ActorCritic = self.optimization.net
        self.module: Any = self.optimization.module
        sharded = self.optimization.sharded
        whole = MasterWeights(policy.model, {}) if sharded else self.optimization
        self._backup = WeightBackup(whole.trained, whole.round_into_model, sharded)
        model, sampling = policy.model, settings.importance_sampling_correction
        narrow = settings.bf16 or torch.finfo(model.dtype).bits < 32 or is_quantized(model)
        limited = settings.max_sampler_difference > 0
        self._reads_again = remote_sampler or sampling or narrow or limited or has_adapters(model)
        self._sampling = dict[str, float]()
        self._notes = dict[str, str]()
        self._token_weights = dict[int, Tensor]()
        self.logs: list[dict[str, float]] = []

    @property
    def device(self) -> torch.device:
        """Where the policy is."""
        return self.optimization.device

    # ---- one iteration -----------------------------------------------------------------------------------------------

    def annotate(self, records: Sequence[Record]) -> None:
        """Fill the records' `values_n` (with a critic) and `ref_logps_n` (with a reference).

        With `max_ratio` or `max_kl` it also backs up the weights of now, which sampled the records. Unless sampler and
        trainer compute the same in float32, the trainer reads `old_logps_n` again, and the sampler's are kept.

        Raises:
            TrainingError: the two differ by more than `max_sampler_difference`.
        """
        self.logs, self._sampling = [], {}
        if self._reads_again and records:
            for record, logps in zip(records, self._forward_all(records, self.module, _logps_of), strict=True):
                self._take_own(record, logps)
            self._sampling = sampling_stats(records)
            self._require_near_sampler()
        if self.net.value is not None:
            longest = self.policy.max_length
            tailed = [r.with_tail() if r.with_tail().longest <= longest else r for r in records]
            values_of_all = self._forward_all(tailed, self.module, lambda out: out.values_N)
            for record, values in zip(records, values_of_all, strict=True):
                record.values_n = values[: record.n]
                record.bootstrap = 0.0 if record.tail is None else float(values[-1])  # without the tail if it is long
        if self._reference:
            for record, logps in zip(records, self.logprobs(records, self._frozen), strict=True):
                record.ref_logps_n = logps
        if self.settings.max_kl or (self.settings.max_ratio and not self.optimization.sharded):
            self._backup.take()

    def _require_near_sampler(self) -> None:
        limit, difference = self.settings.max_sampler_difference, self._sampling["sampling_logp_difference/mean"]
        if limit and difference > limit:
            raise TrainingError(
                f"the sampler's log-probabilities differ from the trainer's by {difference:.2g} nats per token on "
                f"average, more than max_sampler_difference {limit:g}: another number format, or other weights"
            )

    def _take_own(self, record: Record, logps_n: Tensor) -> None:
        """Make the trainer's log-probabilities the old ones, and weigh their ratio to the sampler's."""
        settings = self.settings
        record.sampler_logps_n, record.old_logps_n = record.old_logps_n, logps_n
        if settings.importance_sampling_correction:
            record.importance_n = importance_weights(
                logps_n, record.sampler_logps_n, settings.importance_sampling_mode, settings.importance_sampling_cap
            )

    def minibatches(
        self, records: Sequence[Record], weighting: Weighting, *, epochs: int = 1, constant: float = 1.0
    ) -> Iterator[list[Record]]:
        """Yield the records of each optimizer step: `epochs` passes in random order.

        `weighting` and `constant` say how much a token counts in the step's loss (`losses.token_weights`).
        """
        with_advantages = bool(records) and records[0].advantages_n is not None
        stats = advantage_stats(records) if with_advantages else {}
        if with_advantages and not any(bool(r.advantages_n.any()) for r in records if r.advantages_n is not None):
            tokens = sum(record.n for record in records)
            self.warn_once("signal", f"nothing to learn from: all {tokens} tokens of an iteration have the advantage 0")
        for _ in range(epochs):
            order = stable_order([row_key(r) for r in records], self._seed, "order of the records", self._passes)
            self._passes += 1
            for minibatch in even_parts([records[i] for i in order], self.settings.minibatch_size):
                self.begin_step(minibatch, weighting, constant, stats)
                yield minibatch

    def begin_step(
        self, minibatch: Sequence[Record], weighting: Weighting, constant: float = 1.0,
        stats: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """Begin an optimizer step on these records; `stats` are logged with it."""
        weights = token_weights([r.n for r in minibatch], weighting, constant, minibatch[0].old_logps_n.dtype)
        self._token_weights = dict(zip(map(id, minibatch), weights, strict=True))
        self._minibatch, self._stats = minibatch, stats or {}
        self._tokens = sum(record.n for record in minibatch)
        self._logged: dict[str, float] = defaultdict(float)
        self._began = time.monotonic()
        self.optimization.backend.zero_grad()

    def microbatches(self, minibatch: Sequence[Record]) -> Iterator[TokenBatch]:
        """Yield this process's share of the minibatch in padded batches of at most `microbatch_tokens`.

        A sharded model needs equally many forward passes in every process: a process with fewer batches gets more,
        whose tokens have weight 0.
        """
        parts = list(self.optimization.microbatches(minibatch, RowSize.of))
        for number, part in enumerate(parts, 1):
            self._counts, self._is_last = bool(part), number == len(parts)
            rows = part or minibatch[:1]
            yield collate(rows, [self._token_weights[id(record)] * self._counts for record in rows], self.device)

    def forward(self, batch: TokenBatch, teacher: Teacher | None = None) -> Output:
        """Run the model on a batch with N agent tokens, at the temperature that they were sampled at."""
        with self._recomputing():
            out: Output = self.module(batch.input_ids, batch.labels, *([teacher] if teacher else []))
        return out

    def backward(self, loss: Loss, out: Output, batch: TokenBatch) -> None:
        """Add the gradient of the batch's weighted sum of token losses, and log it."""
        total = (loss.loss_N * batch.weights_N).sum()
        self.optimization.backend.backward(total, self._is_last)
        if not self._counts:
            return
        logged = self._logged
        logged["loss"] += total.item()
        for name, values_N in {**loss.logged_N, **_standard_logs(out, batch)}.items():
            weights_N = batch.weights_N if name.endswith("_loss") else 1 / self._tokens
            logged[name] += (values_N.detach() * weights_N).sum().item()
        max_ratio = (out.logps_N - batch.old_logps_N).detach().max().exp().item()
        logged["ratio_max"] = max(logged["ratio_max"], max_ratio)

    def step(self) -> dict[str, float]:
        """Clip and take the optimizer step; returns its logs.

        They are means over the records' tokens; parts of the loss are sums, weighted as the loss is. `kl_old_*` is the
        divergence from the policy that sampled.

        Raises:
            TrainingError: the loss or the gradient is not finite, or tokens are on average `max_ratio` times as likely
                as when they were sampled. The weights are those that sampled, or without a backup (see `annotate`)
                those before the step.
        """
        logged = distributed.reduce_logs(self._logged)
        self.optimization.backend.step(partial(self._check_step, logged))
        seconds = max(time.monotonic() - self._began, 1e-9)
        tokens = sum(RowSize.of(record).tokens for record in self._minibatch)
        self.logs.append({**logged, "tokens_per_second": tokens / seconds, **self._stats})
        return self.logs[-1]

    @property
    def logged(self) -> dict[str, float]:
        """Means over the steps since `annotate`, and what it measured."""
        return mean_logs(self.logs) | self._sampling

    # ---- forward passes ----------------------------------------------------------------------------------------------

    def logprobs(self, records: Sequence[Record], module: Any) -> list[Tensor]:
        """Return the log-probabilities of each record's agent tokens under another module, such as a teacher."""
        return self._forward_all(records, module, _logps_of)

    @torch.no_grad()
    def _forward_all(self, records: Sequence[Record], module: Any, pick: Callable[[Output], Any]) -> list[Tensor]:
        """Return what `pick` takes from a module's output at each record's tokens, in every process."""
        position, values = {id(record): i for i, record in enumerate(records)}, dict[int, Tensor]()
        for part in self.optimization.microbatches(records, RowSize.of):
            rows = part or records[:1]
            batch = collate(rows, [record.old_logps_n for record in rows], self.device)
            out = module(batch.input_ids, batch.labels)
            if not part:
                continue
            by_record = pick(out).cpu().split([record.n for record in part])
            values |= {position[id(record)]: x_n.clone() for record, x_n in zip(part, by_record, strict=True)}
        gathered = {i: x_n for share in distributed.gather(values) for i, x_n in share.items()}
        return [gathered[i] for i in range(len(records))]

    @contextmanager
    def _recomputing(self) -> Iterator[None]:
        """Put the `recomputed_layers` in training mode."""
        layers = recomputed_layers(self.module)
        for layer in layers:
            layer.training = True
        try:
            yield
        finally:
            for layer in layers:
                layer.training = False

    # ---- guards ------------------------------------------------------------------------------------------------------

    @property
    def notes(self) -> tuple[str, ...]:
        """What the guards warned of, in order."""
        return tuple(self._notes.values())

    def warn_once(self, topic: str, text: str) -> None:
        """Warn of a topic, once per training."""
        if topic not in self._notes:
            self._notes[topic] = text
            warnings.warn(text, stacklevel=2)

    def _check_step(self, logged: dict[str, float], norm: float) -> None:
        """Log the norm of the gradient, and refuse a step that would do harm."""
        logged["grad_norm"] = norm
        if (critic_norm := self.optimization.backend.apart_norm) is not None:
            logged["critic_grad_norm"] = critic_norm
        limit = self.settings.max_ratio
        if not (math.isfinite(logged["loss"]) and math.isfinite(norm)):  # an earlier step may be the cause
            self.optimization.backend.zero_grad()
            raise TrainingError(
                f"loss {logged['loss']}, gradient norm {norm}: the step was not taken; {self._backup.restore()}"
            )
        if limit and not logged["ratio"] <= limit:
            raise TrainingError(
                f"exploding ratio: {self._tokens} tokens are on average {logged['ratio']:.3g} times as likely as when "
                f"they were sampled (max_ratio {limit:g}); the step was not taken; {self._backup.restore()}; a lower "
                "learning_rate, fewer epochs or a smaller clip may help"
            )

    def check_collapse(self, row: dict[str, float], records: Sequence[Record] = ()) -> None:
        """Warn of a collapse or a drift that an iteration's logs show, or its first records, which are read again.

        Raises:
            TrainingError: the last step left weights that are not finite; they are rolled back.
        """
        for topic, text in detect_collapse(row, self.settings.min_entropy, self.settings.max_repeated).items():
            self.warn_once(topic, text)
        drifts = [abs(row.get("kl_old_k1", 0.0)), row.get("kl_old_k3", 0.0)]
        if probes := list(records[:_PROBES]):
            logps = self._forward_all(probes, self.module, _logps_of)
            self._require_finite(logps)
            old_N = torch.cat([record.old_logps_n for record in probes])
            drifts.append(float(k1(old_N, torch.cat(logps)).mean().abs()))  # k3 of few tokens may be a single one's
        if max(drifts) > MAX_DRIFT:
            self.warn_once(
                "drift", f"drift: an iteration moved the policy {max(drifts):.3g} nats per token from the one that "
                f"sampled, more than {MAX_DRIFT:g}: it may have lost what it had learnt; a lower learning_rate or "
                "fewer epochs may help",
            )  # fmt: skip

    def check_kl(self, records: Sequence[Record]) -> None:
        """Check `max_kl` with the weights that an iteration left, on its own records.

        A token counts by the ratio of its probability to that when it was sampled.

        Raises:
            StoppedEarly: the policy has moved further from its start; it is rolled back to before the iteration.
        """
        if not (limit := self.settings.max_kl) or not records:
            return
        logps_N = torch.cat(self._forward_all(records, self.module, _logps_of))
        old_N, ref_N = torch.cat([r.old_logps_n for r in records]), concat_field(records, "ref_logps")
        assert ref_N is not None
        divergence = float(((logps_N - old_N).exp() * k3(logps_N, ref_N)).mean())
        if divergence > limit:
            self._backup.restore()
            self.warn_once(
                "kl", f"stopped early: {divergence:.3g} nats per token from the policy at the start of training, more "
                f"than max_kl {limit:g}; the weights are those before the iteration",
            )  # fmt: skip
            raise StoppedEarly

    def _require_finite(self, logps: Sequence[Tensor]) -> None:
        """Raise TrainingError if a log-probability or, unless sharded, a weight is not finite."""
        weights = [] if self.optimization.sharded else [p.detach().abs().max() for _, p in self._backup.trained()]
        if not all(bool(x.isfinite().all()) for x in logps) or not all(bool(x < _MAX_WEIGHT) for x in weights):
            raise TrainingError(f"the policy is damaged after an iteration's last step; {self._rollback_message()}")

    def _rollback_message(self) -> str:
        """Roll back because the weights are not finite; returns the message."""
        return f"{self._backup.restore()}; a lower learning_rate may help"

    # ---- states and the end ------------------------------------------------------------------------------------------

    @property
    def savable(self) -> bool:
        """Whether `save` can be called now."""
        return self.optimization.backend.savable

    def save(self, folder: Path) -> None:
        """Write weights, optimizer and everything else that steps depend on; all processes call it."""
        self.optimization.backend.save(folder)
        if distributed.is_rank_zero():
            self._backup.save(folder)
            state = {"passes": self._passes, "noted": self._notes, "critic_gradient": self.net.critic_gradient}
            (folder / "learner.json").write_text(json.dumps(state), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Restore the state that `save` wrote."""
        self.optimization.backend.load(folder)
        self._backup.load(folder)
        state = load_json(folder / "learner.json")
        self._passes, self._notes = state["passes"], state["noted"]
        self.net.critic_gradient = state["critic_gradient"]  # another share rounds values differently

    def sync_to_policy(self) -> None:
        """Give the policy the weights of a sharded copy, if one is trained; all processes call it."""
        if not self._backup.restored:
            self.optimization.sync_to_policy()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """Leave the policy whole, however the training ends; a guard that ends it early ends the block well."""
        try:
            if isinstance(error, NonFiniteError):
                raise TrainingError(f"{error}; {self._rollback_message()}") from error
            if error is None or isinstance(error, TrainingError):  # raised in all processes at once
                self.sync_to_policy()
        finally:
            self.optimization.close()
        return isinstance(error, StoppedEarly)


def _logps_of(out: Output) -> Tensor:
    return out.logps_N


def _standard_logs(out: Output, batch: TokenBatch) -> dict[str, Tensor]:
    """Return what every algorithm logs of its tokens, which the old policy sampled."""
    logps_N, old_logps_N = out.logps_N.detach(), batch.old_logps_N
    logged = {
        "entropy": out.entropy_N, "ratio": (logps_N - old_logps_N).exp(),
        "kl_old_k1": k1(old_logps_N, logps_N), "kl_old_k3": k3(old_logps_N, logps_N),
    }  # fmt: skip
    if (ref_logps_N := batch.ref_logps_N) is not None:
        logged |= {"kl_ref_k1": k1(logps_N, ref_logps_N), "kl_ref_k3": k3(logps_N, ref_logps_N)}
    return logged
