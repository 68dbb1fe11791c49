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
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from agentgym_py import distributed
from agentgym_py.errors import NotANumberError, TrainingError
from agentgym_py.policy.adapters import input_hooks, merged, require_trainable, stop_recomputing, with_adapters
from agentgym_py.policy.logprobs import agent_logits, widened
from agentgym_py.policy.tokens import passes
from agentgym_py.rng import Rng
from agentgym_py.training.rl.batch import Batch, Record, collate, estimated
from agentgym_py.training.rl.guards import MOST_DRIFT, StoppedEarly, collapses
from agentgym_py.training.rl.losses import Weighting, k1, k3, token_weights
from agentgym_py.training.settings import OnPolicySettings
from agentgym_py.training.sharding import give, to_train, work_on

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


LossOf = Callable[[Output, Batch], Loss]


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
        return Output(logps_N, entropy_N, None if self.value is None else self._values(widened(agent.hidden_NH)))

    def _values(self, hidden_NH: Tensor) -> Tensor:
        assert self.value is not None
        share = self.critic_gradient
        mixed_NH = share * hidden_NH + (1 - share) * hidden_NH.detach() if share else hidden_NH.detach()
        with torch.autocast(hidden_NH.device.type, enabled=False):
            return self.value(mixed_NH)[:, 0]  # type: ignore[no-any-return]  # torch types a module's call as Any


class Learner:
    """Optimizer steps for one policy, on accelerate.

    Where an engine splits the training over processes a copy is trained, and `publish` gives the policy its weights.

    `reference` keeps the weights of now to measure KL against: a frozen copy, or with LoRA the model without adapters;
    `stop_kl` keeps it, too. A `critic_rate` above 0, its learning rate, makes a critic; `critic_gradient` of its
    gradient reaches the trunk. Without `entropy_gradient` the entropy is only logged, in less memory. `notes` are what
    its safety nets noticed.
    """

    def __init__(
        self, policy: Policy, settings: OnPolicySettings, *, seed: int, temperature: float = 1.0,
        reference: bool = False, critic_rate: float = 0.0, critic_gradient: float = 1.0, entropy_gradient: bool = True,
    ) -> None:  # fmt: skip
        self.policy, self.settings = policy, settings
        self._rng = Rng(seed, "order of the records")
        require_trainable(policy.model, settings.lora_rank)
        adapters = with_adapters(policy.model, settings.lora_rank, seed)
        reference = reference or settings.stop_kl > 0
        self._frozen, self._reference = None, reference
        self._noted, self._good, self._fell_back = dict[str, str](), dict[str, Tensor](), False
        if adapters is not None:
            policy.model = adapters
        else:
            policy.model.requires_grad_(True)  # merged adapters leave it frozen
        if reference and adapters is None:
            held = copy.deepcopy(policy.model).requires_grad_(False)
            self._frozen = ActorCritic(held, False, temperature, bf16=settings.bf16)
        model = to_train(policy.model)
        self.net = ActorCritic(model, critic_rate > 0, temperature, critic_gradient, settings.bf16, entropy_gradient)
        trained: list[dict[str, Any]] = [{"params": [p for p in model.parameters() if p.requires_grad]}]
        if self.net.value is not None:
            trained.append({"params": list(self.net.value.parameters()), "lr": critic_rate})
        optimizer = torch.optim.AdamW(
            trained, lr=settings.learning_rate, weight_decay=settings.weight_decay, betas=(0.9, 0.95)
        )
        self._hooks = input_hooks(policy.model)
        if settings.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        self._work = work_on(self.net, optimizer, settings.max_grad_norm)
        self.module = self._work.module

    # ---- reading -----------------------------------------------------------------------------------------------------

    def evaluate(self, records: Sequence[Record]) -> None:
        """Put `values` (with a critic) and `ref_logps` (with a reference) into the records.

        The weights of now, which played them, are what a step that goes wrong falls back on: with `stop_ratio` or
        `stop_kl` a copy of those that are trained stands in the CPU's memory, in every process. In bfloat16 the
        policy's own log-probabilities are read again, for they differ from the sampler's before any step was taken.
        """
        if self.settings.bf16:
            for record, logps in zip(records, self._read(records, self.module, lambda out: out.logps_N), strict=True):
                record.old_logps_n = logps
        if self.net.value is not None:
            room = self.policy.max_length
            tailed = [r.with_tail() if len(r.with_tail().input_ids) <= room else r for r in records]
            found = self._read(tailed, self.module, lambda out: out.values_N)
            for record, values in zip(records, found, strict=True):
                record.extra["values"] = values[: record.n]
                record.bootstrap = float(values[record.n]) if len(values) > record.n else 0.0
        if self._frozen is not None:
            self._refer(records, self._frozen)
        elif self._reference:
            with self.net.model.disable_adapter():
                self._refer(records, self.module)
        if self.settings.stop_kl or (self.settings.stop_ratio and not self._split):  # a split one's policy sampled
            self._good = {name: p.detach().to("cpu", copy=True) for name, p in self._kept()}

    def settle(self, records: Sequence[Record]) -> None:
        """Hold what an iteration left against `stop_kl`.

        Its own records are read once more; a token counts by how much likelier it is than when it was sampled.

        Raises:
            StoppedEarly: the policy diverges by more from what it was as the training began; it is again as it was
                before the iteration.
        """
        if not (limit := self.settings.stop_kl) or not records:
            return
        logps_N, old_N, ref_N = (torch.cat(list(each)) for each in (
            self._read(records, self.module, lambda out: out.logps_N),
            (r.old_logps_n for r in records), (r.extra["ref_logps"] for r in records),
        ))  # fmt: skip
        divergence = float(((logps_N - old_N).exp() * k3(logps_N, ref_N)).mean())
        if divergence > limit:
            self._fall_back()
            self.note(
                "kl", f"stopped early: {divergence:.3g} nats a token from the policy as the training began, more than "
                f"stop_kl {limit:g}; the weights of the iteration before are kept",
            )  # fmt: skip
            raise StoppedEarly

    @property
    def _split(self) -> bool:
        return self.net.model is not self.policy.model

    def _kept(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The trained weights; where those are split, the policy's, which it was given last."""
        module = self.policy.model if self._split else self.net
        return ((name, p) for name, p in module.named_parameters() if p.requires_grad)

    @torch.no_grad()
    def _fall_back(self) -> str:
        """To the weights that `evaluate` saw last, if they were kept; says which weights there are now."""
        self._fell_back = True
        for name, parameter in self._kept():
            parameter.copy_(self._good.get(name, parameter))
        if self._good or self._split:
            return "the weights are those that sampled"
        return "the weights are those of the step before, which may be spoilt too: stop_ratio keeps those that sampled"

    def publish(self) -> None:
        """Give the policy the weights that were trained, where those are a split copy's; all processes call it."""
        if self._split and not self._fell_back:
            give(self.net.model, self.policy.model)

    def _refer(self, records: Sequence[Record], module: Any) -> None:
        for record, logps in zip(records, self._read(records, module, lambda out: out.logps_N), strict=True):
            record.extra["ref_logps"] = logps

    @torch.no_grad()
    def _read(self, records: Sequence[Record], module: Any, what: Callable[[Output], Any]) -> list[Tensor]:
        """What a module says of each record's tokens."""
        place, found = {id(record): i for i, record in enumerate(records)}, dict[int, Tensor]()
        for part in self._passes(records):
            bare = [replace(record, extra={}) for record in part or records[:1]]
            batch = collate(bare, [record.old_logps_n for record in bare], self.device)
            out = module(batch.input_ids, batch.labels)
            if not part:
                continue
            said = what(out).cpu().split([record.n for record in part])
            found |= {place[id(record)]: each.clone() for record, each in zip(part, said, strict=True)}
        everywhere = {i: each for share in distributed.gather(found) for i, each in share.items()}
        return [everywhere[i] for i in range(len(records))]

    @property
    def device(self) -> torch.device:
        """Where the policy is."""
        return torch.device(self.policy.model.device)

    # ---- nets --------------------------------------------------------------------------------------------------------

    @property
    def notes(self) -> tuple[str, ...]:
        """What was noted, in order."""
        return tuple(self._noted.values())

    def note(self, what: str, text: str) -> None:
        """Warn of something, once a training."""
        if what not in self._noted:
            self._noted[what] = text
            warnings.warn(text, stacklevel=2)

    def watched(self, row: dict[str, float], records: Sequence[Record] = ()) -> dict[str, float]:
        """What was logged of an iteration, as it came; a collapse or a drift that it shows is noted.

        Some of its records are read once more, by the weights that its last step left.

        Raises:
            TrainingError: what those weights say is no number; they are as after a step that goes wrong.
        """
        for what, text in collapses(row, self.settings.min_entropy, self.settings.max_repeated).items():
            self.note(what, text)
        moved = [abs(row.get("kl_old_k1", 0.0)), row.get("kl_old_k3", 0.0)]
        if some := list(records[:_PROBED]):
            old, new = (torch.cat(each) for each in ([r.old_logps_n for r in some], self._probed(some)))
            moved.append(float(k1(old, new).mean().abs()))  # of so few tokens k3 may be that of a single one
        if max(moved) > MOST_DRIFT:
            self.note(
                "drift", f"drift: in one iteration {max(moved):.3g} nats a token from the policy that played it, more "
                f"than {MOST_DRIFT:g}: what it had learnt may be lost; a lower learning_rate or fewer epochs may help",
            )  # fmt: skip
        return row

    def _probed(self, records: Sequence[Record]) -> list[Tensor]:
        said = self._read(records, self.module, lambda out: out.logps_N)
        weights = [] if self._split else [p.detach().abs().max() for _, p in self._kept()]
        if not all(bool(each.isfinite().all()) for each in said) or not all(bool(each < _HUGE) for each in weights):
            raise TrainingError(f"the policy is spoilt after an iteration's last step; {self.spoilt()}")
        return said

    def spoilt(self) -> str:
        """Fall back, for what the weights of now say is no number; what there is to say of that."""
        return f"{self._fall_back()}; a lower learning_rate may help"

    # ---- writing -----------------------------------------------------------------------------------------------------

    def epoch(
        self, records: Sequence[Record], loss_of: LossOf, how: Weighting, constant: float = 1.0
    ) -> Iterator[dict[str, float]]:
        """One pass over the records in random order, a step a minibatch; what was logged of each step, and of all."""
        order, of_all = self._rng.sample(records, len(records)), estimated(records)
        if not any(record.extra["advantages"].any() for record in records):
            tokens = sum(record.n for record in records)
            self.note("signal", f"nothing to learn from: of an iteration's {tokens} tokens all have the advantage 0")
        for at in range(0, len(order), self.settings.minibatch):
            yield self.step(order[at : at + self.settings.minibatch], loss_of, how, constant) | of_all

    def step(
        self, records: Sequence[Record], loss_of: LossOf, how: Weighting, constant: float = 1.0
    ) -> dict[str, float]:
        """One step of the optimizer on the weighted sum of the records' token losses.

        What is logged are means over the records' tokens, and of the loss's parts sums that are weighted as it is; a
        divergence from `old` is that of the policy that sampled.

        Raises:
            TrainingError: the loss or the gradient is not finite, or tokens are on average `stop_ratio` times as likely
                as when they were sampled. The weights are those that sampled; where none were kept, see `evaluate`, as
                before the step.
        """
        began = time.monotonic()
        counts = token_weights([r.n for r in records], how, constant, records[0].old_logps_n.dtype)
        weights = dict(zip(map(id, records), counts, strict=True))
        logged: dict[str, float] = defaultdict(float)
        tokens = sum(record.n for record in records)
        self._work.clear()
        parts = list(self._passes(records))
        for number, part in enumerate(parts, 1):
            shown = part or records[:1]  # of weight 0
            batch = collate(shown, [weights[id(record)] * bool(part) for record in shown], self.device)
            with self._checkpointed():
                out = self.module(batch.input_ids, batch.labels)
                found = loss_of(out, batch)
                loss = (found.loss_N * batch.weights_N).sum()
            self._work.backward(loss, number == len(parts))
            if not part:
                continue
            logged["loss"] += loss.item()
            for name, values_N in {**found.logged_N, **_always(out, batch)}.items():
                weights_N = batch.weights_N if name.endswith("_loss") else 1 / tokens
                logged[name] += (values_N.detach() * weights_N).sum().item()
            likelier = (out.logps_N - batch.old_logps_N).detach().max().exp().item()
            logged["ratio_max"] = max(logged["ratio_max"], likelier)
        logged = distributed.summed(logged)
        self._work.step(partial(self._check, logged, tokens))
        seconds = max(time.monotonic() - began, 1e-9)
        return {**logged, "tokens_per_second": sum(len(record.input_ids) for record in records) / seconds}

    def _check(self, logged: dict[str, float], tokens: int, norm: float) -> None:
        """Log the norm of the gradient, and refuse a step that would do harm."""
        logged["grad_norm"] = norm
        limit = self.settings.stop_ratio
        if not (math.isfinite(logged["loss"]) and math.isfinite(norm)):  # a step before may have done it
            self._work.clear()
            raise TrainingError(
                f"loss {logged['loss']}, gradient norm {norm}: the step was not taken; {self._fall_back()}"
            )
        if limit and not logged["ratio"] <= limit:
            raise TrainingError(
                f"exploding ratio: {tokens} tokens are on average {logged['ratio']:.3g} times as likely as when they "
                f"were sampled (stop_ratio {limit:g}); the step was not taken; {self._fall_back()}; a lower "
                "learning_rate, fewer epochs or a smaller clip may help"
            )

    @contextmanager
    def _checkpointed(self) -> Iterator[None]:
        """Transformers computes again only in layers that are in training; dropout, below them, stays off."""
        layers = [each for each in self.module.modules() if getattr(each, "gradient_checkpointing", None)]
        for layer in layers:
            layer.training = True
        try:
            yield
        finally:
            for layer in layers:
                layer.training = False

    @property
    def savable(self) -> bool:
        """Whether `save` can be called now: FSDP's optimizer has to have begun with all weights or with none."""
        return self._work.savable

    def save(self, folder: Path) -> None:
        """Write weights, optimizer and whatever else steps depend on; all processes call it."""
        self._work.save(folder)
        if distributed.first():
            save_file(self._good, folder / "good.safetensors")
            about = {"order": self._rng.state, "noted": self._noted, "critic_gradient": self.net.critic_gradient}
            (folder / "learner.json").write_text(json.dumps(about), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Be as one of the same settings was when it was saved."""
        self._work.load(folder)
        self._good = load_file(folder / "good.safetensors")
        about = json.loads((folder / "learner.json").read_text(encoding="utf-8"))
        self._rng.state, self._noted = about["order"], about["noted"]
        self.net.critic_gradient = about["critic_gradient"]  # what is read is rounded otherwise with another one

    def finish(self) -> None:
        """Merge what adapters there are into the policy."""
        stop_recomputing(self.policy.model, self._hooks)
        if self.settings.lora_rank:
            self.policy.model = merged(self.policy.model)

    def _passes(self, records: Sequence[Record]) -> Iterator[list[Record]]:
        """This process's share of the records in parts of at most `pass_tokens` padded tokens, of similar length.

        Where an engine splits the model all processes go through it equally often: those with fewer parts get empty
        ones.
        """
        by_length = sorted(records, key=lambda record: len(record.input_ids))
        parts = [self._parts(by_length[k :: distributed.world()]) for k in range(distributed.world())]
        yield from (own := parts[distributed.rank()])
        if self._split:
            yield from [[]] * (max(map(len, parts)) - len(own))

    def _parts(self, records: Sequence[Record]) -> list[list[Record]]:
        found = passes([len(record.input_ids) for record in records], self.settings.pass_tokens)
        return [[records[i] for i in part] for part in found]


def _always(out: Output, batch: Batch) -> dict[str, Tensor]:
    """What is logged of every algorithm's tokens, which were drawn from the old policy."""
    logps_N, old_logps_N = out.logps_N.detach(), batch.old_logps_N
    found = {
        "entropy": out.entropy_N, "ratio": (logps_N - old_logps_N).exp(),
        "kl_old_k1": k1(old_logps_N, logps_N), "kl_old_k3": k3(old_logps_N, logps_N),
    }  # fmt: skip
    if "ref_logps" in batch.extra:
        ref_logps_N = batch.extra["ref_logps"]
        found |= {"kl_ref_k1": k1(logps_N, ref_logps_N), "kl_ref_k3": k3(logps_N, ref_logps_N)}
    return found


@contextmanager
def training(learner: Learner) -> Iterator[Learner]:
    """The learner's policy is whole again afterwards, however it ends; a net that ends it early ends the block."""
    try:
        yield learner
        learner.publish()
    except StoppedEarly:
        pass
    except NotANumberError as error:
        raise TrainingError(f"{error}; {learner.spoilt()}") from error
    except TrainingError:  # in all processes at once
        learner.publish()
        raise
    finally:
        learner.finish()
