"""The learner: a policy, a critic if wanted, a reference if wanted, and optimizer steps on records of trajectories."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from agentgym_py.errors import TrainingError
from agentgym_py.finetune import lora, quiet
from agentgym_py.logprobs import agent_logits
from agentgym_py.rl.losses import Weighting, token_weights
from agentgym_py.rl.records import Batch, Record, collate
from agentgym_py.rl.settings import LearnerSettings
from agentgym_py.rng import Rng

if TYPE_CHECKING:
    from agentgym_py.policy import Policy


class Output(NamedTuple):
    """What the model says of N agent tokens."""

    logps_N: Tensor
    entropy_N: Tensor
    values_N: Tensor | None
    """The critic's, of the state before each token."""


class Loss(NamedTuple):
    """The loss of a batch, token by token, and what is to be logged of it."""

    loss_N: Tensor
    logged_N: Mapping[str, Tensor]


LossOf = Callable[[Output, Batch], Loss]


class ActorCritic(nn.Module):
    """A causal model and, with `critic`, a linear value head on the state before each agent token."""

    def __init__(self, model: Any, critic: bool, temperature: float, critic_gradient: float = 1.0) -> None:
        super().__init__()
        self.model, self.temperature, self.critic_gradient = model, temperature, critic_gradient
        size = model.get_input_embeddings().embedding_dim
        self.value: nn.Linear | None = nn.Linear(size, 1, device=model.device) if critic else None
        if self.value is not None:
            nn.init.zeros_(self.value.weight)
            nn.init.zeros_(self.value.bias)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Output:
        """The agent tokens of (B, S) rows, at the temperature that they were sampled at."""
        agent = agent_logits(self.model, input_ids, labels)
        logprobs_NV = torch.log_softmax(agent.logits_NV / self.temperature, -1)
        logps_N = logprobs_NV.gather(-1, agent.targets_N[:, None])[:, 0]
        entropy_N = -(logprobs_NV.exp() * logprobs_NV).sum(-1)
        return Output(logps_N, entropy_N, None if self.value is None else self._values(agent.hidden_NH.float()))

    def _values(self, hidden_NH: Tensor) -> Tensor:
        assert self.value is not None
        share = self.critic_gradient
        if not share:
            return self.value(hidden_NH.detach())[:, 0]  # type: ignore[no-any-return]  # as below
        mixed_NH = share * hidden_NH + (1 - share) * hidden_NH.detach()
        return self.value(mixed_NH)[:, 0]  # type: ignore[no-any-return]  # torch types a module's call as Any


class Learner:
    """Optimizer steps for one policy, on accelerate.

    `reference` keeps the weights of now to measure KL against: a frozen copy, or with LoRA the model without adapters.
    A `critic_rate` above 0, its learning rate, makes a critic; `critic_gradient` of its gradient reaches the trunk.
    """

    def __init__(
        self, policy: Policy, settings: LearnerSettings, *, seed: int, temperature: float = 1.0,
        reference: bool = False, critic_rate: float = 0.0, critic_gradient: float = 1.0,
    ) -> None:  # fmt: skip
        from accelerate import Accelerator

        self.policy, self.settings = policy, settings
        self._rng = Rng(seed, "order of the records")
        adapters = lora(settings)
        self._frozen, self._reference = None, reference
        if adapters is not None:
            from peft import get_peft_model

            with quiet(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                policy.model = get_peft_model(policy.model, adapters)
        else:
            policy.model.requires_grad_(True)  # merged adapters leave it frozen
        if reference and adapters is None:
            self._frozen = ActorCritic(copy.deepcopy(policy.model).requires_grad_(False), False, temperature)
        self._accelerator = Accelerator(cpu=policy.model.device.type == "cpu", device_placement=False)
        module = ActorCritic(policy.model, critic_rate > 0, temperature, critic_gradient)
        trained: list[dict[str, Any]] = [{"params": [p for p in policy.model.parameters() if p.requires_grad]}]
        if module.value is not None:
            trained.append({"params": list(module.value.parameters()), "lr": critic_rate})
        optimizer = torch.optim.AdamW(
            trained, lr=settings.learning_rate, weight_decay=settings.weight_decay, betas=(0.9, 0.95)
        )
        self.module, self._optimizer = self._accelerator.prepare(module, optimizer)

    # ---- reading -----------------------------------------------------------------------------------------------------

    def evaluate(self, records: Sequence[Record]) -> None:
        """Put `values` (with a critic) and `ref_logps` (with a reference) into the records."""
        if self.module.value is not None:
            room = self.policy.max_length
            tailed = [r.with_tail() if len(r.with_tail().input_ids) <= room else r for r in records]
            found = self._read(tailed, self.module, lambda out: out.values_N)
            for record, values in zip(records, found, strict=True):
                record.extra["values"] = values[: record.n]
                record.bootstrap = float(values[record.n]) if len(values) > record.n else 0.0
        if self._frozen is not None:
            self._refer(records, self._frozen)
        elif self._reference:
            with self.policy.model.disable_adapter():
                self._refer(records, self.module)

    def _refer(self, records: Sequence[Record], module: Any) -> None:
        for record, logps in zip(records, self._read(records, module, lambda out: out.logps_N), strict=True):
            record.extra["ref_logps"] = logps

    @torch.no_grad()
    def _read(self, records: Sequence[Record], module: Any, what: Callable[[Output], Any]) -> list[Tensor]:
        """What a module says of each record's tokens."""
        found: dict[int, Tensor] = {}
        for part in self._passes(records):
            bare = [replace(record, extra={}) for record in part]
            batch = collate(bare, [record.old_logps_n for record in part], self.device)
            said = what(module(batch.input_ids, batch.labels)).cpu().split([record.n for record in part])
            found |= zip(map(id, part), said, strict=True)
        return [found[id(record)] for record in records]

    @property
    def device(self) -> torch.device:
        """Where the policy is."""
        return torch.device(self.policy.model.device)

    # ---- writing -----------------------------------------------------------------------------------------------------

    def epoch(
        self, records: Sequence[Record], loss_of: LossOf, how: Weighting, constant: float = 1.0
    ) -> Iterator[dict[str, float]]:
        """One pass over the records in random order, a step a minibatch; what was logged of each step."""
        order = self._rng.sample(records, len(records))
        for at in range(0, len(order), self.settings.minibatch):
            yield self.step(order[at : at + self.settings.minibatch], loss_of, how, constant)

    def step(
        self, records: Sequence[Record], loss_of: LossOf, how: Weighting, constant: float = 1.0
    ) -> dict[str, float]:
        """One step of the optimizer on the weighted sum of the records' token losses.

        Raises:
            TrainingError: the loss or the gradient is not finite; the weights are as before the step.
        """
        weights = dict(zip(map(id, records), token_weights([r.n for r in records], how, constant), strict=True))
        logged: dict[str, float] = defaultdict(float)
        tokens = sum(record.n for record in records)
        self._optimizer.zero_grad()
        for part in self._passes(records):
            batch = collate(part, [weights[id(record)] for record in part], self.device)
            out = self.module(batch.input_ids, batch.labels)
            found = loss_of(out, batch)
            loss = (found.loss_N * batch.weights_N).sum()
            self._accelerator.backward(loss)
            logged["loss"] += loss.item()
            for name, values_N in {**found.logged_N, "entropy": out.entropy_N}.items():
                logged[name] += values_N.detach().sum().item() / tokens
        norm = self._accelerator.clip_grad_norm_(self.module.parameters(), self.settings.max_grad_norm or math.inf)
        logged["grad_norm"] = float(norm)
        if not (torch.isfinite(torch.tensor(logged["loss"])) and torch.isfinite(torch.as_tensor(norm))):
            raise TrainingError(f"loss {logged['loss']}, gradient norm {float(norm)}: the step was not taken")
        self._optimizer.step()
        return dict(logged)

    def finish(self) -> None:
        """Merge what adapters there are into the policy."""
        if self.settings.lora_rank:
            self.policy.model = self.policy.model.merge_and_unload()

    def _passes(self, records: Sequence[Record]) -> Iterator[list[Record]]:
        """The records in parts of at most `pass_tokens` padded tokens, of similar length."""
        part: list[Record] = []
        for record in sorted(records, key=lambda record: len(record.input_ids)):
            if part and (len(part) + 1) * len(record.input_ids) > self.settings.pass_tokens:
                yield part
                part = []
            part.append(record)
        if part:
            yield part


@contextmanager
def training(learner: Learner) -> Iterator[Learner]:
    """The learner's policy is whole again afterwards, however it ends."""
    try:
        yield learner
    finally:
        learner.finish()
