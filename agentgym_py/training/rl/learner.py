"""The learner: a policy, a critic if wanted, a reference if wanted, and optimizer steps on records of trajectories."""

from __future__ import annotations

import copy
import json
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from agentgym_py import distributed
from agentgym_py.errors import NonFiniteError, TrainingError
from agentgym_py.policy.logprobs import agent_logits, at_least_float32
from agentgym_py.rng import Rng
from agentgym_py.training.optimization import Optimization
from agentgym_py.training.rl.batch import Record, TokenBatch, advantage_stats, collate, joined, mean_logs
from agentgym_py.training.rl.guards import MAX_DRIFT, StoppedEarly, collapses
from agentgym_py.training.rl.losses import Weighting, k1, k3, token_weights
from agentgym_py.training.settings import OnPolicySettings

if TYPE_CHECKING:
    from agentgym_py.policy import Policy


_PROBED = 4
"""Records of an iteration that are read once more when it is over."""
_HUGE = 1e9
"""A weight of this size is spoilt: squares of what is made of it are no numbers any more, in some layer or other."""


class Output(NamedTuple):
    """What the model says of N agent tokens."""

    logps_N: Tensor
    entropy_N: Tensor
    values_N: Tensor | None
    """The critic's, of the state before each token."""


class Loss(NamedTuple):
    """The loss of a batch, token by token, and what is to be logged of it: its parts by names that end in _loss."""

    loss_N: Tensor
    logged_N: Mapping[str, Tensor]


class ActorCritic(nn.Module):
    """A causal model and, with `critic`, a linear value head on the state before each agent token."""

    def __init__(
        self, model: Any, critic: bool, temperature: float, critic_gradient: float = 1.0, bf16: bool = False,
        entropy_gradient: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.model, self.temperature, self.critic_gradient, self.bf16 = model, temperature, critic_gradient, bf16
        self.entropy_gradient = entropy_gradient
        self._no_split_modules = getattr(model, "_no_split_modules", None)  # FSDP's units
        size = model.get_input_embeddings().embedding_dim
        wide = torch.promote_types(model.dtype, torch.float32)
        self.value: nn.Linear | None = nn.Linear(size, 1, device=model.device, dtype=wide) if critic else None
        if self.value is not None:
            nn.init.zeros_(self.value.weight)
            nn.init.zeros_(self.value.bias)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Output:
        """The agent tokens of (B, S) rows, at the temperature that they were sampled at."""
        with torch.autocast(input_ids.device.type, torch.bfloat16, enabled=self.bf16):
            return self._output(input_ids, labels)

    def _output(self, input_ids: Tensor, labels: Tensor) -> Output:
        agent = agent_logits(self.model, input_ids, labels)
        logprobs_NV = torch.log_softmax(agent.logits_NV / self.temperature, -1)
        logps_N = logprobs_NV.gather(-1, agent.targets_N[:, None])[:, 0]
        seen_NV = logprobs_NV if self.entropy_gradient else logprobs_NV.detach()
        entropy_N = -(seen_NV.exp() * seen_NV).sum(-1)
        return Output(
            logps_N, entropy_N, None if self.value is None else self._values(at_least_float32(agent.hidden_NH))
        )

    def _values(self, hidden_NH: Tensor) -> Tensor:
        assert self.value is not None
        share = self.critic_gradient
        mixed_NH = share * hidden_NH + (1 - share) * hidden_NH.detach() if share else hidden_NH.detach()
        with torch.autocast(hidden_NH.device.type, enabled=False):
            return self.value(mixed_NH)[:, 0]  # type: ignore[no-any-return]  # torch types a module's call as Any


class Learner:
    """Optimizer steps for one policy.

    An iteration reads: `annotate` the records; for each of `minibatches`: for each of its `microbatches` `forward` and
    `backward`, then `step`.

    Args:
        policy: Trained in place; under FSDP or DeepSpeed `publish` gives it the weights of the trained copy.
        settings: The trainer's.
        seed: Draws adapters and the order of the records.
        temperature: The replies were sampled at.
        reference: Keep the weights of now to measure KL against: a frozen copy, or with LoRA the model without
            adapters. The guard `max_kl` keeps it too.
        critic_rate: Learning rate of a value head; 0 makes none.
        critic_gradient: Share of the critic's gradient that reaches the trunk.
        entropy_gradient: Whether the entropy is part of the loss; without it, it is logged only, in less memory.
    """

    def __init__(
        self, policy: Policy, settings: OnPolicySettings, *, seed: int, temperature: float = 1.0,
        reference: bool = False, critic_rate: float = 0.0, critic_gradient: float = 1.0, entropy_gradient: bool = True,
    ) -> None:  # fmt: skip
        self.policy, self.settings = policy, settings
        self._rng = Rng(seed, "order of the records")
        self._frozen, self._reference = None, reference or settings.max_kl > 0
        self._noted, self._last_good, self._rolled_back = dict[str, str](), dict[str, Tensor](), False
        if self._reference and not settings.lora_rank:
            held = copy.deepcopy(policy.model).requires_grad_(False)
            self._frozen = ActorCritic(held, False, temperature, bf16=settings.bf16)
        self.optimization = Optimization(
            policy, settings, seed=seed,
            wrap=lambda model: ActorCritic(
                model, critic_rate > 0, temperature, critic_gradient, settings.bf16, entropy_gradient
            ),
            heads=lambda net: critic_groups(net, critic_rate),
        )  # fmt: skip
        self.net: ActorCritic = self.optimization.net
        self.module: Any = self.optimization.module
        self._weights = dict[int, Tensor]()
        self.logs: list[dict[str, float]] = []

    @property
    def device(self) -> torch.device:
        """Where the policy is."""
        return self.optimization.device

    # ---- reading -----------------------------------------------------------------------------------------------------

    def annotate(self, records: Sequence[Record]) -> None:
        """Fill the records' `values_n` (with a critic) and `ref_logps_n` (with a reference).

        The weights of now, which sampled the records, are what a step that goes wrong falls back on: with `max_ratio`
        or `max_kl` a copy of the trained ones stands in the CPU's memory, in every process. In bfloat16 the policy's
        own log-probabilities are read again, because they differ from the sampler's before any step was taken.
        """
        self.logs = []
        if self.settings.bf16:
            for record, logps in zip(records, self._forward_all(records, self.module, logps_of), strict=True):
                record.old_logps_n = logps
        if self.net.value is not None:
            room = self.policy.max_length
            tailed = [r.with_tail() if len(r.with_tail().input_ids) <= room else r for r in records]
            found = self._forward_all(tailed, self.module, lambda out: out.values_N)
            for record, values in zip(records, found, strict=True):
                record.values_n = values[: record.n]
                record.bootstrap = float(values[record.n]) if len(values) > record.n else 0.0
        if self._reference:
            for record, logps in zip(records, self._reference_logps(records), strict=True):
                record.ref_logps_n = logps
        if self.settings.max_kl or (self.settings.max_ratio and not self.optimization.sharded):
            self._last_good = {name: p.detach().to("cpu", copy=True) for name, p in self._kept()}

    def _reference_logps(self, records: Sequence[Record]) -> list[Tensor]:
        if self._frozen is not None:
            return self._forward_all(records, self._frozen, logps_of)
        with self.net.model.disable_adapter():
            return self._forward_all(records, self.module, logps_of)

    @torch.no_grad()
    def _forward_all(self, records: Sequence[Record], module: Any, what: Callable[[Output], Any]) -> list[Tensor]:
        """What a module says of each record's tokens, in every process."""
        place, found = {id(record): i for i, record in enumerate(records)}, dict[int, Tensor]()
        for part in self.optimization.microbatches(records, record_tokens):
            rows = part or records[:1]
            batch = collate(rows, [record.old_logps_n for record in rows], self.device)
            out = module(batch.input_ids, batch.labels)
            if not part:
                continue
            values = what(out).cpu().split([record.n for record in part])
            found |= {place[id(record)]: each.clone() for record, each in zip(part, values, strict=True)}
        everywhere = {i: each for share in distributed.gather(found) for i, each in share.items()}
        return [everywhere[i] for i in range(len(records))]

    # ---- one iteration -----------------------------------------------------------------------------------------------

    def minibatches(
        self, records: Sequence[Record], weighting: Weighting, *, epochs: int = 1, constant: float = 1.0
    ) -> Iterator[list[Record]]:
        """Yield the records of each optimizer step: `epochs` passes in random order.

        `weighting` and `constant` say how much a token counts in the step's loss (`losses.token_weights`).
        """
        stats = advantage_stats(records) if records else {}
        if records and not any(
            bool(record.advantages_n.any()) for record in records if record.advantages_n is not None
        ):
            tokens = sum(record.n for record in records)
            self.note("signal", f"nothing to learn from: of an iteration's {tokens} tokens all have the advantage 0")
        for _ in range(epochs):
            order = self._rng.sample(records, len(records))
            for at in range(0, len(order), self.settings.minibatch_size):
                minibatch = order[at : at + self.settings.minibatch_size]
                self.begin(minibatch, weighting, constant, stats)
                yield minibatch

    def begin(
        self, minibatch: Sequence[Record], weighting: Weighting, constant: float = 1.0,
        stats: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """Begin an optimizer step on these records; `stats` are logged with it."""
        counts = token_weights([r.n for r in minibatch], weighting, constant, minibatch[0].old_logps_n.dtype)
        self._weights = dict(zip(map(id, minibatch), counts, strict=True))
        self._minibatch, self._stats = minibatch, stats or {}
        self._tokens = sum(record.n for record in minibatch)
        self._logged: dict[str, float] = defaultdict(float)
        self._began = time.monotonic()
        self.optimization.clear()

    def microbatches(self, minibatch: Sequence[Record]) -> Iterator[TokenBatch]:
        """Yield this process's share of the minibatch in padded batches of at most `microbatch_tokens`.

        A sharded model needs equally many forward passes in every process: a batch whose tokens count nothing is given
        where a process has fewer.
        """
        parts = list(self.optimization.microbatches(minibatch, record_tokens))
        for number, part in enumerate(parts, 1):
            self._counts, self._last = bool(part), number == len(parts)
            rows = part or minibatch[:1]
            yield collate(rows, [self._weights[id(record)] * self._counts for record in rows], self.device)

    def forward(self, batch: TokenBatch) -> Output:
        """What the model says of the batch's N agent tokens, at the temperature that they were sampled at."""
        with self._checkpointed():
            out: Output = self.module(batch.input_ids, batch.labels)
        return out

    def backward(self, loss: Loss, out: Output, batch: TokenBatch) -> None:
        """Add the gradient of the batch's weighted sum of token losses, and log it."""
        total = (loss.loss_N * batch.weights_N).sum()
        self.optimization.backward(total, self._last)
        if not self._counts:
            return
        logged = self._logged
        logged["loss"] += total.item()
        for name, values_N in {**loss.logged_N, **_always(out, batch)}.items():
            weights_N = batch.weights_N if name.endswith("_loss") else 1 / self._tokens
            logged[name] += (values_N.detach() * weights_N).sum().item()
        likelier = (out.logps_N - batch.old_logps_N).detach().max().exp().item()
        logged["ratio_max"] = max(logged["ratio_max"], likelier)

    def step(self) -> dict[str, float]:
        """Clip and take the optimizer step; returns what is logged of it.

        Logged are means over the records' tokens, and of the loss's parts sums that are weighted as it is; a divergence
        from `old` is that of the policy that sampled.

        Raises:
            TrainingError: the loss or the gradient is not finite, or tokens are on average `max_ratio` times as likely
                as when they were sampled. The weights are those that sampled; where none were kept (see `annotate`),
                those before the step.
        """
        logged = distributed.reduce_logs(self._logged)
        self.optimization.step(partial(self._check, logged))
        seconds = max(time.monotonic() - self._began, 1e-9)
        read = sum(len(record.input_ids) for record in self._minibatch)
        self.logs.append({**logged, "tokens_per_second": read / seconds, **self._stats})
        return self.logs[-1]

    @property
    def logged(self) -> dict[str, float]:
        """Means over the steps since `annotate`."""
        return mean_logs(self.logs)

    def _check(self, logged: dict[str, float], norm: float) -> None:
        """Log the norm of the gradient, and refuse a step that would do harm."""
        logged["grad_norm"] = norm
        limit = self.settings.max_ratio
        if not (math.isfinite(logged["loss"]) and math.isfinite(norm)):  # a step before may have done it
            self.optimization.clear()
            raise TrainingError(
                f"loss {logged['loss']}, gradient norm {norm}: the step was not taken; {self._rollback()}"
            )
        if limit and not logged["ratio"] <= limit:
            raise TrainingError(
                f"exploding ratio: {self._tokens} tokens are on average {logged['ratio']:.3g} times as likely as when "
                f"they were sampled (max_ratio {limit:g}); the step was not taken; {self._rollback()}; a lower "
                "learning_rate, fewer epochs or a smaller clip may help"
            )

    @contextmanager
    def _checkpointed(self) -> Iterator[None]:
        """Transformers recomputes only layers that are in training; dropout, below them, stays off."""
        layers = [each for each in self.module.modules() if getattr(each, "gradient_checkpointing", None)]
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
        """What the guards noticed, in order."""
        return tuple(self._noted.values())

    def note(self, what: str, text: str) -> None:
        """Warn of something, once per training."""
        if what not in self._noted:
            self._noted[what] = text
            warnings.warn(text, stacklevel=2)

    def check_collapse(self, row: dict[str, float], records: Sequence[Record] = ()) -> None:
        """Note a collapse or a drift that an iteration's logs show; some of its records are read once more.

        Raises:
            TrainingError: the weights that the last step left are not finite; they are as after a step that goes wrong.
        """
        for what, text in collapses(row, self.settings.min_entropy, self.settings.max_repeated).items():
            self.note(what, text)
        moved = [abs(row.get("kl_old_k1", 0.0)), row.get("kl_old_k3", 0.0)]
        if some := list(records[:_PROBED]):
            old, new = (torch.cat(each) for each in ([r.old_logps_n for r in some], self._probed(some)))
            moved.append(float(k1(old, new).mean().abs()))  # of so few tokens k3 may be that of a single one
        if max(moved) > MAX_DRIFT:
            self.note(
                "drift", f"drift: in one iteration {max(moved):.3g} nats a token from the policy that played it, more "
                f"than {MAX_DRIFT:g}: what it had learnt may be lost; a lower learning_rate or fewer epochs may help",
            )  # fmt: skip

    def check_kl(self, records: Sequence[Record]) -> None:
        """Hold the weights that an iteration left against `max_kl`.

        Its own records are read once more; a token counts by how much likelier it is than when it was sampled.

        Raises:
            StoppedEarly: the policy diverges further from its start; it is again as it was before the iteration.
        """
        if not (limit := self.settings.max_kl) or not records:
            return
        logps_N = torch.cat(self._forward_all(records, self.module, logps_of))
        old_N, ref_N = torch.cat([r.old_logps_n for r in records]), joined(records, "ref_logps")
        assert ref_N is not None
        divergence = float(((logps_N - old_N).exp() * k3(logps_N, ref_N)).mean())
        if divergence > limit:
            self._rollback()
            self.note(
                "kl", f"stopped early: {divergence:.3g} nats a token from the policy as the training began, more than "
                f"max_kl {limit:g}; the weights of the iteration before are kept",
            )  # fmt: skip
            raise StoppedEarly

    def _probed(self, records: Sequence[Record]) -> list[Tensor]:
        found = self._forward_all(records, self.module, logps_of)
        weights = [] if self.optimization.sharded else [p.detach().abs().max() for _, p in self._kept()]
        if not all(bool(each.isfinite().all()) for each in found) or not all(bool(each < _HUGE) for each in weights):
            raise TrainingError(f"the policy is spoilt after an iteration's last step; {self.rollback_message()}")
        return found

    def rollback_message(self) -> str:
        """Roll back because the weights are not finite; returns what to say of it."""
        return f"{self._rollback()}; a lower learning_rate may help"

    def _kept(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The trained weights; of a sharded copy the policy's, which were published last."""
        module = self.policy.model if self.optimization.sharded else self.net
        return ((name, p) for name, p in module.named_parameters() if p.requires_grad)

    @torch.no_grad()
    def _rollback(self) -> str:
        """Go back to the weights that `annotate` saw last, if they were kept; says which weights there are now."""
        self._rolled_back = True
        for name, parameter in self._kept():
            parameter.copy_(self._last_good.get(name, parameter))
        if self._last_good or self.optimization.sharded:
            return "the weights are those that sampled"
        return "the weights are those of the step before, which may be spoilt too: max_ratio keeps those that sampled"

    # ---- states and the end ------------------------------------------------------------------------------------------

    @property
    def savable(self) -> bool:
        """Whether `save` can be called now."""
        return self.optimization.savable

    def save(self, folder: Path) -> None:
        """Write weights, optimizer and whatever else steps depend on; all processes call it."""
        self.optimization.save(folder)
        if distributed.is_rank_zero():
            save_file(self._last_good, folder / "good.safetensors")
            about = {"order": self._rng.state, "noted": self._noted, "critic_gradient": self.net.critic_gradient}
            (folder / "learner.json").write_text(json.dumps(about), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Take up the state that `save` wrote."""
        self.optimization.load(folder)
        self._last_good = load_file(folder / "good.safetensors")
        about = json.loads((folder / "learner.json").read_text(encoding="utf-8"))
        self._rng.state, self._noted = about["order"], about["noted"]
        self.net.critic_gradient = about["critic_gradient"]  # reading rounds differently with another one

    def publish(self) -> None:
        """Give the policy the trained weights if they are a sharded copy's; all processes call it."""
        if not self._rolled_back:
            self.optimization.publish()

    def close(self) -> None:
        """Merge what adapters there are into the policy."""
        self.optimization.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """Leave the policy whole, however the training ends; a guard that ends it early ends the block well."""
        try:
            if isinstance(error, NonFiniteError):
                raise TrainingError(f"{error}; {self.rollback_message()}") from error
            if error is None or isinstance(error, TrainingError):  # raised in all processes at once
                self.publish()
        finally:
            self.close()
        return isinstance(error, StoppedEarly)


def critic_groups(net: Any, rate: float) -> list[dict[str, Any]]:
    """The parameter group of the value head, if there is one."""
    return [] if net.value is None else [{"params": list(net.value.parameters()), "lr": rate}]


def record_tokens(record: Record) -> int:
    """Tokens of a record."""
    return len(record.input_ids)


def logps_of(out: Output) -> Tensor:
    """The log-probabilities."""
    return out.logps_N


def _always(out: Output, batch: TokenBatch) -> dict[str, Tensor]:
    """What is logged of every algorithm's tokens, which were drawn from the old policy."""
    logps_N, old_logps_N = out.logps_N.detach(), batch.old_logps_N
    found = {
        "entropy": out.entropy_N, "ratio": (logps_N - old_logps_N).exp(),
        "kl_old_k1": k1(old_logps_N, logps_N), "kl_old_k3": k3(old_logps_N, logps_N),
    }  # fmt: skip
    if (ref_logps_N := batch.ref_logps_N) is not None:
        found |= {"kl_ref_k1": k1(logps_N, ref_logps_N), "kl_ref_k3": k3(logps_N, ref_logps_N)}
    return found
