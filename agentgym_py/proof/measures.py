"""What the checks of a proof measure: coefficients of tokens and episodes, distances of gradients, gains."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, stdev

import torch

from agentgym_py.evaluation.stats import t_quantile
from agentgym_py.proof.bench import Bench, Run
from agentgym_py.proof.watch import Reading, Update, Visit, by_turn, read_update
from agentgym_py.proof.world import BEST_RETURN
from agentgym_py.trajectory import Trajectory

TOLERANCE = 1e-3
"""Largest relative difference of numbers that must be equal; rounding in float32 makes less than `ROUNDING`."""
ROUNDING = 1e-5


def read(bench: Bench, run: Run, update: Update) -> Reading:
    """Read an update on the tokens of its iteration's episodes."""
    return read_update(update, run.visits(update), bench.policy.model.model.tree, bench.temperature)


def log_probabilities(bench: Bench, visits: Sequence[Visit], table: torch.Tensor) -> torch.Tensor:
    """Return the exact log-probability of each visited token by a table, (N,)."""
    rows, tokens = (torch.tensor([[getattr(visit, name)] for visit in visits]) for name in ("row", "token"))
    logits = bench.policy.model.model.logits_of(rows[:, 0], table=table).detach().double()
    logps: torch.Tensor = (logits / bench.temperature).log_softmax(-1).gather(-1, tokens)[:, 0]
    return logps


def episode_coefficients(bench: Bench, run: Run) -> list[tuple[Trajectory, float]]:
    """Return each episode with the sum of its coefficients over the updates of its iteration, mean over its turns."""
    sums = dict.fromkeys(range(len(run.episodes)), 0.0)
    for update in run.updates:
        numbers = [n for n, iteration in enumerate(run.iterations) if iteration == update.iteration]
        values = defaultdict[int, list[float]](list)
        for (episode, _), c in by_turn(read(bench, run, update), run.visits(update)).by_turn.items():
            values[numbers[episode]].append(c)
        for number, several in values.items():
            sums[number] += fmean(several)
    return [(run.episodes[number], c) for number, c in sums.items()]


def pulls(bench: Bench, run: Run) -> list[tuple[float, float]]:
    """Return, centred, how much likelier each turn was at the start of training, per token, and its coefficient.

    Both at the first step of the last iteration.
    """
    last = max((update.iteration for update in run.updates if len(update.rows)), default=0)
    update = next((update for update in run.updates if update.iteration == last and len(update.rows)), None)
    if update is None or last < 2:
        return []
    visits, layers = run.visits(update), bench.policy.model.model
    gained = log_probabilities(bench, visits, layers.table) - log_probabilities(bench, visits, update.table)
    if not len(gained) or float(gained.abs().max()) < TOLERANCE:
        return []
    by_key = defaultdict[tuple[int, int], list[float]](list)
    for visit, x in zip(visits, gained.tolist(), strict=True):
        by_key[visit.episode, visit.turn].append(x)
    turns = by_turn(read(bench, run, update), visits).by_turn
    return centred([("", fmean(by_key[key]), c) for key, c in turns.items()])


def unexplained_ratio(bench: Bench, run: Run, first: Update, second: Update) -> float | None:
    """Return the share of the second step's changes of coefficients that pi / pi_old does not explain.

    The ratio may be a token's, or the mean or the product of its episode's. Clipped tokens do not count. None: no token
    was trained in both steps, or none moved.
    """
    visits = run.visits(first)
    before, after = read(bench, run, first).coefficients, read(bench, run, second).coefficients
    now = log_probabilities(bench, visits, second.table)
    log_ratio = (now - torch.tensor([visit.logprob for visit in visits], dtype=torch.float64)).tolist()
    by_episode, owners = defaultdict[int, list[float]](list), defaultdict[tuple[int, int], list[int]](list)
    for number, visit in enumerate(visits):
        by_episode[visit.episode].append(log_ratio[number])
        owners[visit.row, visit.token].append(number)
    changes, explained = list[float](), list[tuple[float, float, float]]()
    largest = max(map(abs, before.values()), default=0.0)
    for key, numbers in owners.items():
        c, later = before.get(key, 0.0), after.get(key, 0.0)
        if len(numbers) > 1 or not c or abs(c) < 1e-3 * largest or later / c <= 1e-6:
            continue
        of_episode = by_episode[visits[numbers[0]].episode]
        changes.append(math.log(later / c))
        explained.append((log_ratio[numbers[0]], fmean(of_episode), math.fsum(of_episode)))
    if len(changes) < 8 or max(abs(x) for x, _, _ in explained) < 1e-3:
        return None
    shares = []
    for kind in zip(*explained, strict=True):
        left = [y - x for x, y in zip(kind, changes, strict=True)]
        scale = math.fsum((x - fmean(kind)) ** 2 for x in kind)
        middle = sorted(left)[len(left) // 2]
        shares.append(math.fsum((x - middle) ** 2 for x in left) / scale if scale else math.inf)
    return min(shares)


def difference(a: Update, b: Update, normalize: bool = True) -> float:
    """Return the distance of two gradients, relative to their length; `normalize` compares directions alone."""
    rows = sorted({*a.rows.tolist(), *b.rows.tolist()})
    place = {row: k for k, row in enumerate(rows)}
    dense = []
    for update in (a, b):
        whole = torch.zeros(len(rows), update.gradient.shape[-1], dtype=torch.float64)
        whole[[place[row] for row in update.rows.tolist()]] = update.gradient
        size = float(whole.norm())
        dense.append(whole / size if normalize and size else whole)
    scale = max(float(x.norm()) for x in dense)
    return float((dense[0] - dense[1]).norm()) / scale if scale else 0.0


def centred(rows: Sequence[tuple[str, float, float]]) -> list[tuple[float, float]]:
    """Subtract the means of each group from its pairs of numbers; groups of one are left out."""
    by_group = defaultdict[str, list[tuple[float, float]]](list)
    for name, x, y in rows:
        by_group[name].append((x, y))
    return [
        (x - fmean(x for x, _ in several), y - fmean(y for _, y in several))
        for several in by_group.values() if len(several) > 1
        for x, y in several
    ]  # fmt: skip


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the correlation of centred pairs; None if one of the two does not vary."""
    xx, yy = (math.fsum(pair[k] ** 2 for pair in pairs) for k in (0, 1))
    if xx < 1e-12 or yy < 1e-24:
        return None
    return math.fsum(x * y for x, y in pairs) / math.sqrt(xx * yy)


def share_of_distance(curve: Sequence[tuple[float, float]]) -> float:
    """Return a learning curve's gain as a share of the distance from its start to the optimum."""
    start, end = curve[0][1], curve[-1][1]
    return (end - start) / (BEST_RETURN - start)


def upper_bound(values: Sequence[float], confidence: float) -> float:
    """Return Student's one-sided upper confidence bound of the mean of at least two values."""
    return fmean(values) + t_quantile(confidence, len(values) - 1) * stdev(values) / math.sqrt(len(values))
