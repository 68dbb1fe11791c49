"""Elastic weight consolidation (EWC): a penalty on moving the weights that earlier tasks need.

    penalty = lambda / 2 * sum over earlier tasks k, weights i of F_ki (theta_i - theta*_ki)^2
    F_ki    = sum over trajectories of (d log pi(agent tokens) / d theta_i)^2 / number of agent tokens

Kirkpatrick et al. 2017 (arXiv:1612.00796, equation 3): theta*_k are the weights after task k, and F_k is the diagonal
of their Fisher information there. All tasks are one quadratic with as many numbers as one task has, because

    sum over k of F_ki (theta_i - theta*_ki)^2 = F_i (theta_i - c_i)^2 + a constant
    F_i = sum over k of F_ki,  c_i = sum over k of F_ki theta*_ki / F_i

Deviations: the gradients are those of the trajectories that the training learnt from, not of fresh samples (the
"empirical" Fisher information); and F is per agent token, as the loss of the trainers is, so that lambda does not
depend on the length of episodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from agentgym_py.errors import ConfigError, RunError, setting
from agentgym_py.files import replacing
from agentgym_py.policy.adapters import has_adapters, is_quantized
from agentgym_py.policy.logprobs import agent_logits, agent_logprobs, pad_samples
from agentgym_py.policy.tokens import Sample
from agentgym_py.training.data import prepare
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.training.settings import OfflineSettings

_FISHER, _CENTER = "fisher.", "center."
"""Beginnings of the names of the tensors in a file."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The quadratic of the earlier tasks, by the names of the weights, in float32."""

    fisher: Mapping[str, Tensor]
    """F, at least 0."""
    center: Mapping[str, Tensor]
    """c: the weights at which the penalty is 0."""

    def merge(self, other: Anchor) -> Anchor:
        """Return the quadratic of the tasks of both."""
        fisher, center = dict[str, Tensor](), dict[str, Tensor]()
        for name, mine in self.fisher.items():
            total = mine + other.fisher[name]
            mean = (mine * self.center[name] + other.fisher[name] * other.center[name]) / total
            fisher[name], center[name] = total, torch.where(total > 0, mean, other.center[name])
        return Anchor(fisher, center)

    @torch.no_grad()
    def add_gradient(self, weights: Mapping[str, nn.Parameter], strength: float, *, adds: bool = True) -> float:
        """Return the penalty, and add its gradient to that of the weights if `adds`; `strength` is lambda."""
        penalty = 0.0
        for name, weight in weights.items():
            change = weight.detach().float() - self.center[name]
            slope = self.fisher[name] * change
            penalty += float((slope * change).sum())
            if adds:
                gradient = (strength * slope).to(weight.dtype)
                weight.grad = gradient if weight.grad is None else weight.grad.add_(gradient)
        return strength / 2 * penalty

    def to(self, weights: Mapping[str, nn.Parameter]) -> Anchor:
        """Return the quadratic on the devices of the weights.

        Raises:
            ConfigError: it is of other weights.
        """
        shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
        if shapes != {name: tuple(tensor.shape) for name, tensor in self.fisher.items()}:
            raise ConfigError("ewc_anchor is of another model: its weights have other names or shapes")
        return Anchor(*(
            {name: part[name].to(weight.device, torch.float32) for name, weight in weights.items()}
            for part in (self.fisher, self.center)
        ))  # fmt: skip

    def save(self, path: Path) -> None:
        """Write the quadratic to a file; a kill leaves no half of it."""
        tensors = {f"{_FISHER}{name}": tensor.contiguous().cpu() for name, tensor in self.fisher.items()}
        tensors |= {f"{_CENTER}{name}": tensor.contiguous().cpu() for name, tensor in self.center.items()}
        with replacing(path) as partial:
            save_file(tensors, partial)

    @classmethod
    def load(cls, path: str | Path) -> Anchor:
        """Read what `save` wrote; raises RunError if it is missing or damaged."""
        try:
            tensors = load_file(path)
        except (OSError, SafetensorError) as error:
            raise RunError(f"{path} holds no anchor of EWC: {error}") from error
        parts = [
            {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
            for prefix in (_FISHER, _CENTER)
        ]
        if not parts[0] or parts[0].keys() != parts[1].keys() or len(tensors) != 2 * len(parts[0]):
            raise RunError(f"{path} holds no anchor of EWC: it has other tensors")
        return cls(*parts)


def load_anchor(settings: OfflineSettings) -> Anchor | None:
    """Return the anchor of a training; None without EWC.

    Raises:
        ConfigError: there is no anchor.
    """
    if not settings.ewc_lambda:
        return None
    if settings.ewc_anchor is None:
        raise ConfigError(f"ewc_lambda needs {setting('trainer.ewc_anchor', 'FILE')}: what earlier tasks need")
    if not (path := Path(settings.ewc_anchor)).is_file():
        raise RunError(f"ewc_anchor: {path}: no such file")
    return Anchor.load(path)


def require_trainable_with_ewc(model: Any) -> None:
    """Raise ConfigError for a model of which only adapters, or quantized weights, are trained."""
    if has_adapters(model) or is_quantized(model):
        raise ConfigError("ewc_lambda needs a model that trains all weights: no adapters, and not quantized")


def fisher_information(policy: Policy, samples: Sequence[Sample]) -> dict[str, Tensor]:
    """Estimate the diagonal of the Fisher information per agent token, by weight, in float32.

    It is the mean over agent tokens of squared gradients, those of the tokens of a trajectory added up before they are
    squared: their products have the expectation 0 if the policy itself sampled them.

    Args:
        policy: Its weights are not changed.
        samples: Trajectories in tokens, each with an agent token; without any all is 0, so no weight matters.
    """
    model = policy.model
    require_trainable_with_ewc(model)
    trainable = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    model.eval()
    model.requires_grad_(True)
    weights = dict(model.named_parameters())
    sums = {name: torch.zeros_like(weight, dtype=torch.float32) for name, weight in weights.items()}
    tokens = 0
    for sample in samples:
        model.zero_grad()
        with torch.enable_grad():
            logprobs_N = agent_logprobs(agent_logits(model, *pad_samples([sample], model.device)))
            logprobs_N.sum().backward()  # type: ignore[no-untyped-call]  # torch's
        tokens += logprobs_N.numel()
        for name, weight in weights.items():
            if weight.grad is not None:
                sums[name] += weight.grad.float() ** 2
    model.zero_grad()
    for name, weight in weights.items():
        weight.requires_grad_(trainable[name])
    return {name: total / max(tokens, 1) for name, total in sums.items()}


def anchor_of(
    policy: Policy, trajectories: Sequence[Trajectory], earlier: Iterable[Anchor] = (), *, most: int | None = None
) -> Anchor:
    """Make the quadratic of a policy after a task, and of the tasks before.

    Args:
        policy: Its weights are not changed.
        trajectories: Episodes of the task; those that cannot be trained on are left out.
        earlier: The quadratics of earlier tasks.
        most: Number of episodes to use at most, the first ones; None uses all.
    """
    center = {name: weight.detach().float().cpu().clone() for name, weight in policy.model.named_parameters()}
    samples = prepare(policy, trajectories, policy.max_length).samples[:most]
    anchor = Anchor({name: tensor.cpu() for name, tensor in fisher_information(policy, samples).items()}, center)
    for before in earlier:
        anchor = before.merge(anchor)
    return anchor
