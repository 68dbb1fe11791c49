"""Policy gradients with several advantages at once, by task, in a random projection that keeps their angles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym_py.policy.logprobs import agent_logits, agent_logprobs
from agentgym_py.training.rl.batch import collate, encode_record

if TYPE_CHECKING:
    from agentgym_py.credit.probes import Probe
    from agentgym_py.policy import Policy

DIMENSIONS = 4096
"""Dimensions of the projection: a cosine is off by about 1/64."""


def task_gradients(
    policy: Policy, probes: Sequence[Probe], columns_EN: NDArray[np.float64]
) -> tuple[list[Any], NDArray[np.float64]]:
    """Return the tasks, and for each of them the projected gradients (T, E, `DIMENSIONS`) of E sets of N advantages.

    The gradient of a set is that of the sum, over credited steps, of advantage times log-probability of the reply.
    """
    places: dict[Any, dict[str, list[int]]] = {}
    for number, probe in enumerate(probes):
        places.setdefault(probe.task, {}).setdefault(probe.trunk.id, []).append(number)
    project, model = _Projection(policy), policy.model.eval()
    gradients = []
    for by_episode in places.values():
        total = np.zeros((len(columns_EN), DIMENSIONS))
        for numbers in by_episode.values():
            trunk = probes[numbers[0]].trunk
            if (record := encode_record(trunk, policy.chat)) is None:
                continue
            batch = collate([record], [torch.ones(record.n)], model.device)
            logps_N = agent_logprobs(agent_logits(model, batch.input_ids, batch.labels))
            for row, column_N in enumerate(columns_EN):
                credit = torch.zeros(len(trunk.steps))
                for number in numbers:
                    credit[probes[number].step] = float(column_N[number])
                weights_N = credit[record.turns_n].to(logps_N.device)
                total[row] += project((weights_N * logps_N).sum(), last=row == len(columns_EN) - 1)
        gradients.append(total)
    return list(places), np.stack(gradients)


class _Projection:
    """A count sketch of gradients: each weight is added, with a random sign, to a random dimension."""

    def __init__(self, policy: Policy) -> None:
        self._weights = [weight for weight in policy.model.parameters() if weight.requires_grad]
        self._maps = list(_random_maps(self._weights))

    def __call__(self, loss: torch.Tensor, last: bool) -> NDArray[np.float64]:
        gradients = torch.autograd.grad(loss, self._weights, retain_graph=not last, allow_unused=True)
        sketch = torch.zeros(DIMENSIONS, dtype=torch.float64)
        for gradient, (places, signs) in zip(gradients, self._maps, strict=True):
            if gradient is not None:
                sketch.index_add_(0, places, gradient.detach().flatten().to("cpu", torch.float64) * signs)
        found: NDArray[np.float64] = sketch.numpy()
        return found


def _random_maps(weights: Sequence[torch.Tensor]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    for weight in weights:
        places = torch.randint(DIMENSIONS, (weight.numel(),), generator=generator)
        yield places, 2.0 * torch.randint(2, (weight.numel(),), generator=generator).to(torch.float64) - 1.0
