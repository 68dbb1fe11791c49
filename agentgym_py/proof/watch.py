"""What a training does to a table, step by step: its gradients, and what they say of each token."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from agentgym_py.policy.tokens import encode_turns
from agentgym_py.proof.table import SCALE, PrefixTree, TableLayers
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

_READABLE = 0.02
"""Probability that the tokens which no episode chose in a row must have, so that its coefficients can be read."""


@dataclass(frozen=True, slots=True)
class Update:
    """One step of an optimizer on a table, before it is taken."""

    iteration: int
    """Number of times that episodes had been played."""
    rows: Tensor
    """Rows with a gradient, (R,)."""
    gradient: Tensor
    """Gradient of the loss by their logits, (R, V)."""
    logits: Tensor
    """Their logits, (R, V)."""
    table: Tensor
    """The weights of all rows."""
    trains_more: bool
    """Whether the optimizer trains other weights too, such as a critic's."""


@dataclass(slots=True)
class Watch:
    """The updates of one training."""

    layers: TableLayers
    updates: list[Update] = field(default_factory=list)
    iteration: int = 0
    updated: bool = True
    """Whether there was an update since episodes were last played."""

    def play(self) -> int:
        """Note that episodes are played; return the number of their iteration."""
        if self.updated:
            self.iteration, self.updated = self.iteration + 1, False
        return self.iteration

    def before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """Record the gradient of the table, if this optimizer trains it."""
        del args, kwargs
        table = self.layers.table
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        if not any(weight is table for weight in weights):
            return
        own = {id(weight) for weight in self.layers.parameters()}
        gradient = torch.zeros_like(table) if table.grad is None else table.grad.detach() / SCALE
        rows = gradient.abs().amax(-1).nonzero()[:, 0]
        with torch.no_grad():
            logits = self.layers.logits_of(rows).double()
        more = any(id(weight) not in own for weight in weights)
        self.updates.append(Update(self.iteration, rows, gradient[rows].double(), logits, table.detach().clone(), more))
        self.updated = True


@contextmanager
def watching(policy: Policy, record: bool = True) -> Iterator[Watch]:
    """Record every step of an optimizer of torch on a table, whoever makes it, while the block runs."""
    watch = Watch(policy.model.model)
    if not record:
        yield watch
        return
    handle = register_optimizer_step_pre_hook(watch.before_step)
    try:
        yield watch
    finally:
        handle.remove()


# ---- tokens ----------------------------------------------------------------------------------------------------------


class Visit(NamedTuple):
    """A token that an agent sampled."""

    row: int
    """Row of the prefix before it."""
    token: int
    episode: int
    turn: int
    logprob: float
    """As it was recorded."""


def visits_of(policy: Policy, episodes: Sequence[Trajectory]) -> list[Visit]:
    """Return the tokens of the episodes that an agent sampled and may be trained on."""
    tree, visits = policy.model.model.tree, list[Visit]()
    for number, episode in enumerate(episodes):
        row = 0
        recorded = [  # a step of an expert has no log-probabilities
            list(record.logprobs) if record else []
            for step in episode.steps
            for record in (*step.token_records, *([] if step.tokens else [None]))
        ]
        turns = zip(encode_turns(episode.rules, episode.steps, policy.chat), recorded, strict=True)
        for turn, (tokens, logprobs) in enumerate(turns):
            for token in tokens.context:
                row = tree.child(row, token)
            sampled = zip(tokens.mask, logprobs or [0.0] * len(tokens.reply), strict=True)
            for token, (bit, logprob) in zip(tokens.reply, sampled, strict=True):
                if bit and logprobs:
                    visits.append(Visit(row, token, number, turn, logprob))
                row = tree.child(row, token)
    return visits


class Reading(NamedTuple):
    """An update as coefficients of log-probabilities: gradient of the loss = - sum of c grad log pi(token | row)."""

    coefficients: Mapping[tuple[int, int], float]
    """c by row and token, summed over the episodes that have it; only of rows in which it can be read."""
    misfit: float
    """Share of the gradient that is no gradient of log-probabilities at this temperature."""
    context: float
    """Share of the gradient in rows of prompts and observations."""
    unseen: float
    """Share of it in rows of replies that no episode has."""


def read_update(update: Update, visits: Sequence[Visit], tree: PrefixTree, temperature: float) -> Reading:
    """Read an update on the tokens of some episodes.

    By the logits z of a row with probabilities p = softmax(z / T), sum_a c_a log p_a has the gradient
    (c - p sum(c)) / T. Tokens that no episode chose have c = 0, so sum(c) can be read from them.
    """
    chosen = defaultdict[int, set[int]](set)
    for visit in visits:
        chosen[visit.row].add(visit.token)
    place = {row: k for k, row in enumerate(update.rows.tolist())}
    squares = update.gradient.square().sum(-1)
    total = float(squares.sum()) or 1.0
    stray = [row for row in place if row not in chosen]
    context = sum(float(squares[place[row]]) for row in stray if not tree.is_reply(row))
    unseen = sum(float(squares[place[row]]) for row in stray if tree.is_reply(row))
    coefficients, misfit = dict[tuple[int, int], float](), 0.0
    for row, tokens in chosen.items():
        if row not in place:
            coefficients |= {(row, token): 0.0 for token in tokens}
            continue
        gradient, p = update.gradient[place[row]], (update.logits[place[row]] / temperature).softmax(-1)
        others = torch.ones_like(p, dtype=torch.bool)
        others[list(tokens)] = False
        if (mass := float(p[others].sum())) < _READABLE:
            continue
        total_c = temperature * float(gradient[others].sum()) / mass
        misfit += float((gradient[others] - p[others] * total_c / temperature).square().sum())
        coefficients |= {(row, t): float(p[t] * total_c - temperature * gradient[t]) for t in tokens}
    return Reading(coefficients, (misfit / total) ** 0.5, (context / total) ** 0.5, (unseen / total) ** 0.5)


class TurnCoefficients(NamedTuple):
    """Coefficients under the assumption that all tokens of a turn have the same."""

    by_turn: Mapping[tuple[int, int], float]
    """By episode and turn; only those that the update determines."""
    spread: float
    """Share of the coefficients that the assumption does not explain."""
    rest: Mapping[tuple[int, int], float]
    """What it leaves of each row's and token's coefficient."""


def by_turn(reading: Reading, visits: Sequence[Visit]) -> TurnCoefficients:
    """Distribute the coefficients over the episodes' turns by least squares."""
    owners = defaultdict[tuple[int, int], list[tuple[int, int]]](list)
    for visit in visits:
        if (visit.row, visit.token) in reading.coefficients:
            owners[visit.row, visit.token].append((visit.episode, visit.turn))
    keys = sorted({owner for several in owners.values() for owner in several})
    column = {key: k for k, key in enumerate(keys)}
    a = torch.zeros(len(owners), len(keys), dtype=torch.float64)
    for number, several in enumerate(owners.values()):
        for owner in several:
            a[number, column[owner]] += 1
    c = torch.tensor([reading.coefficients[key] for key in owners], dtype=torch.float64)
    u, s, vh = torch.linalg.svd(a, full_matrices=True)
    rank = int((s > 1e-9).sum())
    x = vh[:rank].T @ ((u[:, :rank].T @ c) / s[:rank])
    determined = vh[rank:].abs().amax(0) < 1e-9 if rank < len(keys) else torch.ones(len(keys), dtype=torch.bool)
    rest = c - a @ x
    return TurnCoefficients(
        {key: float(x[k]) for key, k in column.items() if determined[k]},
        float(rest.norm() / c.norm()) if c.any() else 0.0,
        dict(zip(owners, rest.tolist(), strict=True)),
    )
