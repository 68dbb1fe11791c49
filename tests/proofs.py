"""How losses are proven: against slow formulas, by differences, by what must not matter; `conftest.proofs` loads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from agentgym_py.policy import logprobs
from agentgym_py.policy.tokens import IGNORED
from agentgym_py.training import fit as fit_module
from agentgym_py.training.fit import Fit
from agentgym_py.training.rl.batch import Record, collate
from agentgym_py.training.rl.learner import Learner
from agentgym_py.training.rl.losses import Weighting
from agentgym_py.training.settings import OnPolicySettings


def drawn(*size: int, seed: int = 0) -> Tensor:
    """Normal numbers in double precision."""
    return torch.randn(*size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def ragged(seed: int, rows: int = 5, width: int = 9) -> Tensor:
    """A random mask, (B, S), of more places in the later rows; in each of one at the least."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(rows, width, generator=generator) < torch.linspace(0.2, 0.9, rows)[:, None]
    mask[:, seed % width] = True
    return mask


class _Norm(LlamaRMSNorm):  # type: ignore[misc]  # transformers is untyped here
    def forward(self, hidden_states: Tensor) -> Tensor:
        """The same in whatever format the states come."""
        mean = hidden_states.pow(2).mean(-1, keepdim=True)
        found: Tensor = self.weight * (hidden_states * torch.rsqrt(mean + self.variance_epsilon))
        return found


def doubled(policy: Any) -> Any:
    """The policy, or a model, in double precision, its norms as well, in which transformers always takes float32.

    So losses and gradients of a whole model can be told from slow ones to 1e-9; the angles of positions are still
    computed in float32, but to the same numbers wherever a position stands.
    """
    model = policy if isinstance(policy, torch.nn.Module) else policy.model
    for module in model.double().modules():
        if isinstance(module, LlamaRMSNorm):
            module.__class__ = _Norm
    return policy


def wide(records: Sequence[Record]) -> list[Record]:
    """The records with all their numbers in double precision."""
    for record in records:
        for field in fields(record):
            value = getattr(record, field.name)
            if isinstance(value, Tensor) and value.is_floating_point():
                setattr(record, field.name, value.double())
    return list(records)


def check_gradients(
    found: Iterable[tuple[str, Tensor]], expected: Iterable[tuple[str, Tensor]], rel: float = 1e-8
) -> None:
    """All of them are double and to `rel` of the largest the same; some are not 0."""
    pairs = list(zip(found, expected, strict=True))
    largest = max(float(each.abs().max()) for _, (_, each) in pairs)
    assert largest > 1e-4, "else it is no test"
    for (name, one), (same, other) in pairs:
        assert name.endswith(same) and one.dtype == other.dtype == torch.float64
        torch.testing.assert_close(one, other, rtol=rel, atol=rel * largest, msg=name)


def gradients_of(module: Any) -> list[tuple[str, Tensor]]:
    """Of each weight that has one, a copy, by its name."""
    return [(name, each.grad.clone()) for name, each in module.named_parameters() if each.grad is not None]


def fitted(trainer: Any, policy: Any, rows: Sequence[Any], **more: Any) -> Fit[Any]:
    """An offline trainer's `Fit` on the rows, its model in training mode; `more` are the arguments of `Fit`."""
    fit = Fit("test", policy, trainer, rows, **{"seed": 0, "output_dir": None} | more)
    fit.optimization.net.train()
    return fit


def share(trainer: Any, fit: Fit[Any], rows: Sequence[Any], total: float | None = None) -> Tensor:
    """An offline trainer's loss of the rows in one forward pass; `total` is of the whole step, by default the rows."""
    loss: Tensor = trainer.loss(fit, rows, len(rows) if total is None else total)[0]
    return loss


def share_gradients(
    trainer: Any, fit: Fit[Any], rows: Sequence[Any], total: float | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The same loss, and the gradient of each weight by its name."""
    fit.optimization.net.zero_grad()
    loss = share(trainer, fit, rows, total)
    torch.autograd.backward(loss)
    return loss.detach(), dict(gradients_of(fit.optimization.policy.model))


@contextmanager
def wider(padding: int) -> Iterator[None]:
    """Within, each batch that a trainer makes of samples has more padding at its right."""

    def padded(*given: Any) -> tuple[Tensor, Tensor]:
        ids, labels = unchanged(*given)
        pad = torch.nn.functional.pad
        return pad(ids, (0, padding)), pad(labels, (0, padding), value=IGNORED)

    unchanged = logprobs.padded
    with pytest.MonkeyPatch.context() as patch:
        for module in (fit_module, logprobs):
            patch.setattr(module, "padded", padded)
        yield


@contextmanager
def batches() -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Give a list, to which each forward pass of `Fit` on samples adds its token ids and labels, both (B, S)."""
    found = list[tuple[Tensor, Tensor]]()

    def agent_logits(model: Any, ids: Tensor, labels: Tensor) -> Any:
        found.append((ids, labels))
        return unchanged(model, ids, labels)

    unchanged = logprobs.agent_logits
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_module, "agent_logits", agent_logits)
        yield found


@torch.no_grad()
def moved(policy: Any, by: float = 0.02, seed: int = 5) -> Any:
    """The policy with other weights, so that it differs from its reference."""
    generator = torch.Generator().manual_seed(seed)
    for each in policy.model.parameters():
        each += by * torch.randn(each.shape, generator=generator)
    return policy


def part(batch: dict[str, Any], rows: list[int], padding: int = 0) -> dict[str, Any]:
    """Some rows of a batch, in their order, with more padding at the right."""

    def padded(name: str, each: Tensor) -> Tensor:
        fill = IGNORED if name.endswith("labels") else 0
        return torch.nn.functional.pad(each, (0, padding), value=fill) if each.dim() == 2 else each

    return {name: padded(name, each[rows]) if each.dim() else each for name, each in batch.items()}


def check_formula(fast: Callable[..., Tensor], slow: Callable[..., Any], *inputs: Tensor, checked: bool = True) -> None:
    """Value and gradients are the slow reference's, to 1e-9, and the gradients those of differences.

    The latter not where it is not `checked`, for a part of the loss is on purpose taken as a constant.
    """
    ours, theirs = ([each.detach().clone().requires_grad_() for each in inputs] for _ in range(2))
    found, expected = fast(*ours), slow(*theirs)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    weights = drawn(found.numel(), seed=9).reshape(found.shape)
    gradients = (torch.autograd.grad((x * weights).sum(), of) for x, of in ((found, ours), (expected, theirs)))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
    assert not checked or torch.autograd.gradcheck(fast, ours)


def check_rows(
    loss_of: Callable[[list[int], int], Any], rows: int, *, padding: int = 9, summed: bool = False, rel: float = 1e-9
) -> None:
    """Rows in another order, or with more padding, have the same loss; parts of them the mean, or `summed` the sum.

    `loss_of` is given the places of rows and how much more padding they get.
    """
    whole, every = float(loss_of(list(range(rows)), 0)), list(range(rows))
    near = pytest.approx(whole, rel=rel)
    assert abs(whole) > 1e-3, "else it is no test"
    assert float(loss_of(every[1:] + every[:1], 0)) == near and float(loss_of(every[::-1], 0)) == near
    assert float(loss_of(every, padding)) == near
    for cut in range(1, rows):
        parts = [(len(few), float(loss_of(few, 0))) for few in (every[:cut], every[cut:])]
        assert sum(loss * (1 if summed else many / rows) for many, loss in parts) == near


def state_gradients(model: Any, run: Callable[[], Any]) -> list[Tensor]:
    """What gradient the last states get, summed to (B, S), a forward each; `run` gives a loss, or goes back itself."""
    kept = list[Tensor]()

    def keep(module: Any, inputs: Any, output: Tensor) -> None:
        if output.requires_grad:
            output.retain_grad()
            kept.append(output)

    hook = model.model.norm.register_forward_hook(keep)
    loss = run()
    hook.remove()
    if isinstance(loss, Tensor):
        torch.autograd.backward(loss.sum())
    return [each.grad.abs().sum(-1) for each in kept if each.grad is not None]


def check_agents_alone(gradient: Tensor, agent: Tensor) -> None:
    """Of states, (B, S), only those that predict a token of the agent's, which are 1 in (B, S), have a gradient."""
    own = torch.nn.functional.pad(agent[:, 1:].bool(), (0, 1))  # the state at t predicts the token at t + 1
    assert gradient[~own].max() == 0 and gradient[own].min() > 0


def check_observations(model: Any, agent: Tensor, run: Callable[[], Any]) -> Tensor:
    """The same of the last states of the one forward that `run` makes; their gradients, (B, S)."""
    (gradient,) = state_gradients(model, run)
    check_agents_alone(gradient, agent)
    return gradient


def estimated_records(toys: Any, policy: Any) -> list[Record]:
    """The toys' records, with what a critic and a reference say of each token, and what the critic is to learn."""
    records: list[Record] = toys.records_of(policy)
    for number, record in enumerate(records):
        record.values_n, record.returns_n, ref_n = (
            drawn(record.n, seed=10 * number + seed).float() for seed in range(3)
        )
        record.ref_logps_n = ref_n - 2
        record.valued_n = record.first_of_turn_n.float()
    return records


def check_steps(
    toys: Any, settings: OnPolicySettings, loss_of: Any, how: Weighting, constant: float = 1.0, **more: Any
) -> None:
    """A learner's step is the same in whatever order and passes its records go: what it logs, and all gradients.

    To 1e-9, the gradients to 1e-8, for a policy in double precision. Of the last states only those that predict a token
    of the agent's get one. `more` is the learner's.
    """

    def step(order: Sequence[int], microbatch_tokens: int) -> tuple[dict[str, float], list[tuple[str, Tensor]]]:
        policy = doubled(toys.word_policy())
        records = wide(estimated_records(toys, policy))
        unclipped = replace(settings, max_grad_norm=0.0, microbatch_tokens=microbatch_tokens)
        made = Learner(policy, unclipped, seed=0, **more)
        if made.module.value is not None:
            torch.nn.init.ones_(made.module.value.weight)
        logged = dict[str, float]()
        given = [records[i] for i in order]
        kept = state_gradients(policy.model, lambda: logged.update(toys.step(made, given, loss_of, how, constant)))
        if len(kept) == 1:
            by_length = sorted(given, key=lambda record: len(record.input_ids))
            agent = collate(by_length, [r.old_logps_n for r in by_length], made.device).labels != IGNORED
            check_agents_alone(kept[0], agent)
        logged.pop("tokens_per_second")
        return logged, gradients_of(made.module)

    logged, gradients = step(range(6), 10_000)
    assert gradients and logged["loss"]
    for order, microbatch_tokens in ((range(6), 1), (range(6), 40), ([3, 5, 0, 1, 4, 2], 10_000)):
        others, found = step(order, microbatch_tokens)
        assert others == pytest.approx(logged, rel=1e-9, abs=1e-9)
        check_gradients(found, gradients)
