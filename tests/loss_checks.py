"""Checks of losses: slow formulas, finite differences, invariances; the fixture `loss_checks` loads it."""

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
    """Draw normal numbers in double precision."""
    return torch.randn(*size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def ragged(seed: int, rows: int = 5, width: int = 9) -> Tensor:
    """Draw a random mask, (B, S): later rows have more places, every row at least one."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(rows, width, generator=generator) < torch.linspace(0.2, 0.9, rows)[:, None]
    mask[:, seed % width] = True
    return mask


class _Norm(LlamaRMSNorm):  # type: ignore[misc]  # transformers is untyped here
    def forward(self, hidden_states: Tensor) -> Tensor:
        """Normalise in the precision of the states."""
        mean = hidden_states.pow(2).mean(-1, keepdim=True)
        normed: Tensor = self.weight * (hidden_states * torch.rsqrt(mean + self.variance_epsilon))
        return normed


def doubled(policy: Any) -> Any:
    """Convert a policy or model to double precision, including its norms, which transformers computes in float32.

    Losses and gradients of a whole model can then be compared with slow ones to 1e-9. Rotary angles stay in float32,
    but are the same for the same position.
    """
    model = policy if isinstance(policy, torch.nn.Module) else policy.model
    for module in model.double().modules():
        if isinstance(module, LlamaRMSNorm):
            module.__class__ = _Norm
    return policy


def wide(records: Sequence[Record]) -> list[Record]:
    """Convert the records to double precision."""
    for record in records:
        for field in fields(record):
            value = getattr(record, field.name)
            if isinstance(value, Tensor) and value.is_floating_point():
                setattr(record, field.name, value.double())
    return list(records)


def check_gradients(
    actual: Iterable[tuple[str, Tensor]], expected: Iterable[tuple[str, Tensor]], rel: float = 1e-8
) -> None:
    """Require equal double-precision gradients, to `rel` of the largest, that are not all 0."""
    pairs = list(zip(actual, expected, strict=True))
    largest = max(float(gradient.abs().max()) for _, (_, gradient) in pairs)
    assert largest > 1e-4, "else it is no test"
    for (name, one), (same, other) in pairs:
        assert name.endswith(same) and one.dtype == other.dtype == torch.float64
        torch.testing.assert_close(one, other, rtol=rel, atol=rel * largest, msg=name)


def gradients_of(module: Any) -> list[tuple[str, Tensor]]:
    """Copy the gradients of a module's weights, by name."""
    return [(name, p.grad.clone()) for name, p in module.named_parameters() if p.grad is not None]


def fitted(trainer: Any, policy: Any, rows: Sequence[Any], **more: Any) -> Fit[Any]:
    """Build an offline trainer's `Fit` on the rows, in training mode; `more` are arguments of `Fit`."""
    fit = Fit("test", policy, trainer, rows, **{"seed": 0, "output_dir": None} | more)
    fit.optimization.net.train()
    return fit


def share(trainer: Any, fit: Fit[Any], rows: Sequence[Any], total: float | None = None) -> Tensor:
    """Compute an offline trainer's loss of the rows in one forward pass; `total` is the rows of the whole step."""
    loss: Tensor = trainer.loss(fit, rows, len(rows) if total is None else total)[0]
    return loss


def share_gradients(
    trainer: Any, fit: Fit[Any], rows: Sequence[Any], total: float | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute the same loss, and the gradient of each weight by name."""
    fit.optimization.net.zero_grad()
    loss = share(trainer, fit, rows, total)
    torch.autograd.backward(loss)
    return loss.detach(), dict(gradients_of(fit.optimization.policy.model))


@contextmanager
def wider(padding: int) -> Iterator[None]:
    """Add padding at the right of each batch within the context."""

    def padded(*args: Any) -> tuple[Tensor, Tensor]:
        ids, labels = unchanged(*args)
        pad = torch.nn.functional.pad
        return pad(ids, (0, padding)), pad(labels, (0, padding), value=IGNORED)

    unchanged = logprobs.pad_samples
    with pytest.MonkeyPatch.context() as patch:
        for module in (fit_module, logprobs):
            patch.setattr(module, "pad_samples", padded)
        yield


@contextmanager
def batches() -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Yield a list to which each forward pass of `Fit` adds its token ids and labels, both (B, S)."""
    passes = list[tuple[Tensor, Tensor]]()

    def agent_logits(model: Any, ids: Tensor, labels: Tensor) -> Any:
        passes.append((ids, labels))
        return unchanged(model, ids, labels)

    unchanged = logprobs.agent_logits
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_module, "agent_logits", agent_logits)
        yield passes


@torch.no_grad()
def moved(policy: Any, by: float = 0.02, seed: int = 5) -> Any:
    """Perturb the policy's weights, so that it differs from its reference."""
    generator = torch.Generator().manual_seed(seed)
    for weight in policy.model.parameters():
        weight += by * torch.randn(weight.shape, generator=generator)
    return policy


def part(batch: dict[str, Any], rows: list[int], padding: int = 0) -> dict[str, Any]:
    """Take rows of a batch, in the given order, with more padding at the right."""

    def padded(name: str, tensor: Tensor) -> Tensor:
        fill = IGNORED if name.endswith("labels") else 0
        return torch.nn.functional.pad(tensor, (0, padding), value=fill) if tensor.dim() == 2 else tensor

    return {name: padded(name, value[rows]) if value.dim() else value for name, value in batch.items()}


def check_formula(fast: Callable[..., Tensor], slow: Callable[..., Any], *inputs: Tensor, checked: bool = True) -> None:
    """Require the slow reference's value and gradients, to 1e-9, and gradients equal to finite differences.

    Pass `checked=False` to skip the differences of a loss that treats a part of itself as a constant.
    """
    ours, theirs = ([x.detach().clone().requires_grad_() for x in inputs] for _ in range(2))
    value, expected = fast(*ours), slow(*theirs)
    assert value.dtype == torch.float64
    torch.testing.assert_close(value, expected, rtol=0, atol=1e-9)
    weights = drawn(value.numel(), seed=9).reshape(value.shape)
    gradients = (torch.autograd.grad((x * weights).sum(), of) for x, of in ((value, ours), (expected, theirs)))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
    assert not checked or torch.autograd.gradcheck(fast, ours)


def check_rows(
    loss_of: Callable[[list[int], int], Any], rows: int, *, padding: int = 9, summed: bool = False, rel: float = 1e-9
) -> None:
    """Require a loss that order and padding of the rows do not change and whose parts average (or `summed` add) up.

    `loss_of` takes the indices of rows and their additional padding.
    """
    total, every = float(loss_of(list(range(rows)), 0)), list(range(rows))
    near = pytest.approx(total, rel=rel)
    assert abs(total) > 1e-3, "else it is no test"
    assert float(loss_of(every[1:] + every[:1], 0)) == near and float(loss_of(every[::-1], 0)) == near
    assert float(loss_of(every, padding)) == near
    for cut in range(1, rows):
        parts = [(len(few), float(loss_of(few, 0))) for few in (every[:cut], every[cut:])]
        assert sum(loss * (1 if summed else many / rows) for many, loss in parts) == near


def state_gradients(model: Any, run: Callable[[], Any]) -> list[Tensor]:
    """Sum the gradient of the last states to (B, S), for each forward pass of `run`, which may return a loss."""
    states = list[Tensor]()

    def keep(module: Any, inputs: Any, output: Tensor) -> None:
        if output.requires_grad:
            output.retain_grad()
            states.append(output)

    hook = model.model.norm.register_forward_hook(keep)
    loss = run()
    hook.remove()
    if isinstance(loss, Tensor):
        torch.autograd.backward(loss.sum())
    return [state.grad.abs().sum(-1) for state in states if state.grad is not None]


def check_agents_alone(gradient: Tensor, agent: Tensor) -> None:
    """Require a gradient at exactly the states that predict an agent token; both arguments are (B, S)."""
    predicts_agent = torch.nn.functional.pad(agent[:, 1:].bool(), (0, 1))  # the state at t predicts the token at t + 1
    assert gradient[~predicts_agent].max() == 0 and gradient[predicts_agent].min() > 0


def check_observations(model: Any, agent: Tensor, run: Callable[[], Any]) -> Tensor:
    """Require the same of the one forward pass of `run`; return the gradients, (B, S)."""
    (gradient,) = state_gradients(model, run)
    check_agents_alone(gradient, agent)
    return gradient


def estimated_records(toy_envs: Any, policy: Any) -> list[Record]:
    """Make records with random values, returns and reference log-probabilities for each token."""
    records: list[Record] = toy_envs.records_of(policy)
    for number, record in enumerate(records):
        record.values_n, record.returns_n, ref_n = (
            drawn(record.n, seed=10 * number + seed).float() for seed in range(3)
        )
        record.ref_logps_n = ref_n - 2
        record.valued_n = record.first_of_turn_n.float()
    return records


def check_steps(
    toy_envs: Any, settings: OnPolicySettings, loss_of: Any, how: Weighting, constant: float = 1.0, **more: Any
) -> None:
    """Require the same logs (to 1e-9) and gradients (to 1e-8) for any order and any microbatches of the records.

    The policy is in double precision. Only states that predict an agent token may get a gradient. `more` are arguments
    of `Learner`.
    """

    def step(order: Sequence[int], microbatch_tokens: int) -> tuple[dict[str, float], list[tuple[str, Tensor]]]:
        policy = doubled(toy_envs.word_policy())
        records = wide(estimated_records(toy_envs, policy))
        unclipped = replace(settings, max_grad_norm=0.0, microbatch_tokens=microbatch_tokens)
        learner = Learner(policy, unclipped, seed=0, **more)
        if learner.module.value is not None:
            torch.nn.init.ones_(learner.module.value.weight)
        logged = dict[str, float]()
        ordered = [records[i] for i in order]
        states = state_gradients(
            policy.model, lambda: logged.update(toy_envs.step(learner, ordered, loss_of, how, constant))
        )
        if len(states) == 1:
            by_length = sorted(ordered, key=lambda record: len(record.input_ids))
            agent = collate(by_length, [r.old_logps_n for r in by_length], learner.device).labels != IGNORED
            check_agents_alone(states[0], agent)
        logged.pop("tokens_per_second")
        return logged, gradients_of(learner.module)

    logged, gradients = step(range(6), 10_000)
    assert gradients and logged["loss"]
    for order, microbatch_tokens in ((range(6), 1), (range(6), 40), ([3, 5, 0, 1, 4, 2], 10_000)):
        reordered, regradients = step(order, microbatch_tokens)
        assert reordered == pytest.approx(logged, rel=1e-9, abs=1e-9)
        check_gradients(regradients, gradients)
