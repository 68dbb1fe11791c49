"""The checks of a proof: what must hold of any trainer's gradients, and that it climbs.

Most compare numbers that are equal for a right trainer but for rounding, so chance has no part in them. `improves` is a
test with a stated level. A trainer's settings that blur gradients (KL, entropy, clipped norms, minibatches) are turned
off for the others, where it has them, whatever the user gave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from agentgym_py.proof.alterations import global_seeds, outcome, shifted, stretched, truncated
from agentgym_py.proof.bench import PLAIN, Bench
from agentgym_py.proof.measures import (
    ROUNDING,
    TOLERANCE,
    centred,
    correlation,
    difference,
    episode_coefficients,
    pulls,
    read,
    share_of_distance,
    unexplained_ratio,
    upper_bound,
)
from agentgym_py.proof.table import END_ID
from agentgym_py.proof.watch import Reading, by_turn, read_update
from agentgym_py.trajectory import Trajectory

Status = Literal["passed", "failed", "skipped"]
ALPHA = 0.005
"""Level of `improves`: the most with which a trainer fails whose mean gain is `MIN_GAIN` or more."""
MIN_GAIN = 0.02
"""Mean gain in exact return that a trainer must have, as a share of the distance to the optimum."""
_STEEPEST = -1.5
"""Exponent of an episode's length between 1 / length and 1 / length squared."""
_STRONG_KL, _STRONG_BETA = 100.0, 5.0
_LEAST_PULL = 0.3
"""Correlation of a turn's coefficient with how much less likely it has become; 1 for a penalty alone."""
_DROPOUT = 0.3


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found."""

    status: Status
    text: str
    measured: Mapping[str, float] = field(default_factory=dict)


def passed(text: str, **measured: float) -> Finding:
    """Return that the invariant holds."""
    return Finding("passed", text, measured)


def failed(text: str, **measured: float) -> Finding:
    """Return that the invariant is broken."""
    return Finding("failed", text, measured)


def skipped(text: str) -> Finding:
    """Return that the check does not apply."""
    return Finding("skipped", text)


Check = Callable[[Bench], Finding]


# ---- one gradient ----------------------------------------------------------------------------------------------------


def mask(bench: Bench) -> Finding:
    """Only predictions of the agent's own tokens are trained, not those of prompts, observations or padding."""
    run = bench.read()
    visits, tree = run.all_visits(), bench.policy.model.model.tree
    updates = [update for update in run.updates if len(update.rows)]
    if not updates:
        return failed("no step of an optimizer of torch had a gradient by the policy's weights")
    readings = [read_update(update, visits, tree, bench.temperature) for update in updates]
    context, unseen = max(r.context for r in readings), max(r.unseen for r in readings)
    if context > TOLERANCE:
        return failed(f"{context:.0%} of the gradient trains tokens of prompts and observations", share=context)
    if unseen > TOLERANCE and bench.uses_reward:
        return failed(
            f"{unseen:.0%} of the gradient is in prefixes that no episode has: rows are shifted, padded on the left "
            "without a mask, or cut", share=unseen,
        )  # fmt: skip
    return passed(f"no gradient outside replies in {len(updates)} steps", share=context)


def temperature(bench: Bench) -> Finding:
    """Log-probabilities are read at the temperature at which the tokens were sampled."""
    if not bench.uses_reward:
        return skipped("it does not learn from sampled tokens")
    misfits = list[float]()
    run = bench.read()
    for update in run.updates:
        misfits.append(read(bench, run, update).misfit)
    worst = max(misfits, default=0.0)
    if worst <= TOLERANCE:
        return passed(f"gradients fit temperature {bench.temperature:g}", misfit=worst)
    update, visits = run.updates[misfits.index(worst)], run.visits(run.updates[misfits.index(worst)])
    others = {
        t: read_update(update, visits, bench.policy.model.model.tree, t).misfit for t in (0.5, 0.8, 1.0, 1.25, 2.0)
    }
    best = min(others, key=others.__getitem__)
    why = (
        f"it fits temperature {best:g}" if others[best] <= TOLERANCE else "something else than these tokens is trained"
    )
    return failed(f"{worst:.1%} of the gradient is not that of temperature {bench.temperature:g}: {why}", misfit=worst)


def tokens(bench: Bench) -> Finding:
    """All tokens of a reply have one coefficient at the first step, the end of the reply included."""
    if reason := _no_turns(bench):
        return skipped(reason)
    run = bench.read()
    if (update := run.first) is None:
        return failed("there was no gradient")
    reading, visits = read(bench, run, update), run.visits(update)
    turns = by_turn(reading, visits)
    if turns.spread <= TOLERANCE:
        return passed(f"{len(reading.coefficients)} tokens agree", spread=turns.spread)
    return failed(_why_apart(reading), spread=turns.spread)


def _why_apart(reading: Reading) -> str:
    """Say why the tokens of turns have different coefficients."""
    largest = max(map(abs, reading.coefficients.values()), default=0.0)
    ends = [abs(c) for (_, token), c in reading.coefficients.items() if token == END_ID]
    if ends and max(ends) < 0.01 * largest:
        return "the end of a reply has no loss: the last token of each turn is left out"
    zero = sum(abs(c) < 1e-6 * largest for c in reading.coefficients.values()) / len(reading.coefficients)
    return (
        f"the tokens of one reply have different coefficients ({zero:.0%} have none): a part is masked, or the ratio "
        "to the sampling policy is not 1 before the first step"
    )


def sign(bench: Bench) -> Finding:
    """Better episodes of a task become likelier than worse ones."""
    if not bench.uses_reward:
        return skipped("it does not learn from returns")
    pairs = centred([(t.task_id, t.reward, c) for t, c in episode_coefficients(bench, bench.read())])
    r = correlation(pairs)
    if r is None:
        return skipped("no task has episodes of different returns and readable coefficients")
    if r > 0.1:
        return passed(f"coefficients rise with returns within tasks (correlation {r:+.2f})", correlation=r)
    return failed(f"coefficients do not rise with returns within tasks (correlation {r:+.2f})", correlation=r)


# ---- two gradients ---------------------------------------------------------------------------------------------------


def groups(bench: Bench) -> Finding:
    """Episodes are compared with others of their task alone: a constant added to a task's returns changes nothing."""
    if not bench.info.compares_attempts:
        return skipped("it does not declare that it compares the attempts at a task")
    distance = _distance(bench, shifted)
    if distance is None:
        return failed("there was no gradient")
    if distance > TOLERANCE:
        return failed(
            f"a constant added to all returns of a task turns the gradient by {distance:.2g}: tasks are mixed",
            distance=distance,
        )
    return passed("constants added to the returns of a task change nothing", distance=distance)


def returns(bench: Bench) -> Finding:
    """Returns are not clipped: one above 1 that rises further changes the gradient."""
    if not (bench.on_policy and bench.uses_reward):
        return skipped("it does not compare returns of its own episodes")
    run = bench.read()
    if run.first is None or not any(map(_shows_clipping, _compared(bench, run.data(run.first)))):
        return skipped("no returns above and below 1, three different ones, are compared")
    distance = _distance(bench, stretched)
    if not distance or distance < TOLERANCE:
        return failed("a return of 1.5 or 2 counts like one of 1: returns are clipped", distance=distance or 0.0)
    return passed("returns above 1 count", distance=distance)


def _compared(bench: Bench, episodes: Sequence[Trajectory]) -> list[list[float]]:
    """Return the returns of the episodes that a trainer compares: those of a task, or all."""
    groups: dict[str, list[float]] = {}
    for episode in episodes:
        groups.setdefault(episode.task_id if bench.info.compares_attempts else "", []).append(episode.reward)
    return list(groups.values())


def _shows_clipping(returns: Sequence[float]) -> bool:
    """Return whether tripling what returns have above 1 changes them when they are normalised."""
    return min(returns) < 1 < max(returns) and len(set(returns)) > 2


def length(bench: Bench) -> Finding:
    """The weight of a token falls at most as 1 / length of its episode."""
    if reason := _no_turns(bench):
        return skipped(reason)
    run = bench.read(iterations=4, alter=outcome, match="success", max_pairs=1000)
    if (update := run.first) is None:
        return failed("there was no gradient")
    data, visits, compared = run.data(update), run.visits(update), run.compared(update)
    last = dict[int, tuple[int, float]]()
    for (episode, turn), c in by_turn(read(bench, run, update), visits).by_turn.items():
        last[episode] = max(last.get(episode, (-1, 0.0)), (turn, c))
    largest = max((abs(c) for _, c in last.values()), default=0.0)
    counts = [0] * len(data)
    for visit in visits:
        counts[visit.episode] += 1
    points = centred([
        (f"{compared[i]} {data[i].reward} {len(data[i].steps)}", math.log(counts[i]), math.log(abs(c)))
        for i, (turn, c) in last.items() if abs(c) > 1e-3 * largest and turn == len(data[i].steps) - 1
    ])  # fmt: skip
    if sum(x * x for x, _ in points) < 0.1:
        return skipped("too few episodes of different lengths have a readable coefficient")
    exponent, r = sum(x * y for x, y in points) / sum(x * x for x, _ in points), correlation(points)
    measured = {"exponent": exponent}
    if exponent < _STEEPEST and r is not None and r < -0.7:
        return failed(f"a token's weight falls as length^{exponent:.1f}: the length divides twice", **measured)
    return passed(f"a token's weight goes as length^{exponent:+.1f}".replace("+-", "-"), **measured)


def ratio(bench: Bench) -> Finding:
    """Later steps weigh a token by pi / pi_old, with pi_old the policy that sampled it, and the first step by 1."""
    if not bench.on_policy or (reason := _no_turns(bench)):
        return skipped("it plays no episodes" if not bench.on_policy else reason)
    run = bench.read()
    for update in {update.iteration: update for update in reversed(run.updates)}.values():  # the first of each
        turns = by_turn(read(bench, run, update), run.visits(update))
        if turns.spread > TOLERANCE:
            return failed(
                f"in iteration {update.iteration} the first step's ratio to the sampling policy is not 1: stale "
                "log-probabilities, or another temperature", spread=turns.spread,
            )  # fmt: skip
    pairs = [
        (a, b) for a, b in zip(run.updates, run.updates[1:], strict=False) if a.iteration == b.iteration and len(b.rows)
    ]
    if not pairs:
        return skipped("it takes one step per iteration, at which every ratio is 1")
    left = [unexplained_ratio(bench, run, first, second) for first, second in pairs]
    known = [x for x in left if x is not None]
    if not known:
        return skipped("no token was trained in two steps of an iteration")
    if max(known) > 0.1:
        return failed(
            "the second step on the same tokens does not weigh them by pi / pi_old: log-probabilities of the sampling "
            f"policy are not kept ({max(known):.0%} unexplained)", unexplained=max(known),
        )  # fmt: skip
    return passed("second steps weigh tokens by pi / pi_old", unexplained=max(known))


def batching(bench: Bench) -> Finding:
    """The size of a forward pass does not change a step."""
    parts: Mapping[str, Any]
    if bench.has("microbatch_tokens"):
        how, parts = "microbatches of 40 tokens", {"microbatch_tokens": 40}
    elif bench.has("batch_size") and bench.has("gradient_accumulation"):
        how, parts = "accumulated batches of 1", {"batch_size": 1, "gradient_accumulation": PLAIN["batch_size"]}
    else:
        return skipped("it has no setting microbatch_tokens, or batch_size and gradient_accumulation")
    whole, several = bench.read().first, bench.read(**parts).first
    if whole is None or several is None:
        return failed("there was no gradient")
    distance = difference(whole, several, normalize=False)
    if distance > TOLERANCE:
        return failed(f"{how} change the gradient by {distance:.0%}", distance=distance)
    return passed(f"{how} give the same step", distance=distance)


# ---- whole trainings -------------------------------------------------------------------------------------------------


def reference(bench: Bench) -> Finding:
    """The reference model stays where training began: a penalty on leaving it holds the policy back."""
    if bench.on_policy and bench.has("kl_coef"):
        run = bench.read(iterations=3, kl_coef=_STRONG_KL)
        r = correlation(pulls(bench, run))
        if r is None:
            return skipped("the policy hardly moves, so nothing can pull it back")
        if r > _LEAST_PULL:
            return passed(f"kl_coef pulls back to the start (correlation {r:+.2f})", correlation=r)
        return failed(
            f"kl_coef {_STRONG_KL:g} does not pull the policy back to where it started (correlation {r:+.2f}): the "
            "reference moves along, or the penalty has the wrong sign", correlation=r,
        )  # fmt: skip
    if not bench.on_policy and bench.has("beta"):
        run = bench.read(epochs=8, beta=_STRONG_BETA, sft_weight=0.0, label_smoothing=0.0)
        sizes = [float(update.gradient.norm()) for update in run.updates if len(update.rows)]
        share = sizes[-1] / sizes[0] if len(sizes) > 1 else math.nan
        if not share < 0.99:
            return failed(
                f"with the check's beta {_STRONG_BETA:g} the gradient does not fall as the policy leaves the reference "
                f"({share:.0%} of the first step's is left): the reference moves along", share=share,
            )  # fmt: skip
        return passed(f"with beta {_STRONG_BETA:g} {share:.0%} of the gradient is left after 8 steps", share=share)
    return skipped("it has no setting kl_coef, or beta of an offline trainer")


def sampler(bench: Bench) -> Finding:
    """Episodes are sampled by the current weights without dropout, and log-probabilities are computed without it."""
    if not bench.on_policy:
        return skipped("it plays no episodes")
    run = bench.read(dropout=_DROPOUT)
    error = run.sampler_error
    if run.unsynced:
        return failed("it played after a step without rollouts.sync(): an engine would sample with older weights")
    if error > TOLERANCE:
        return failed(
            f"recorded log-probabilities differ from the policy's by up to {error:.2g} nats: the model was left in "
            "training mode, so dropout disturbs the sampler", error=error,
        )  # fmt: skip
    misfit = max((read(bench, run, update).misfit for update in run.updates), default=0.0) if bench.uses_reward else 0.0
    if misfit > TOLERANCE and temperature(bench).status == "passed":
        return failed("the training's forward passes have dropout, so ratios are random", misfit=misfit)
    return passed("log-probabilities are the policy's", error=error)


def truncation(bench: Bench) -> Finding:
    """An episode that reached the step limit is not worth what one is that ended: its last state still has a value."""
    if not (bench.on_policy and bench.uses_reward):
        return skipped("it does not compare returns of its own episodes")
    ended = bench.read(iterations=3)
    if not any(update.trains_more for update in ended.updates):
        return skipped("it trains no critic, so it knows no value of a last state")
    cut = bench.read(iterations=3, alter=truncated)
    distances = [difference(a, b) for a, b in zip(ended.updates, cut.updates, strict=False) if len(a.rows)]
    largest = max(distances, default=0.0)
    if largest < TOLERANCE:
        return failed("truncated and terminated episodes give the same gradients: one is taken for the other")
    return passed("truncated episodes have the value of their last state", distance=largest)


def repeatable(bench: Bench) -> Finding:
    """A seed gives the same weights, whatever the global generators of Python, numpy and torch hold."""
    tables = []
    for number in range(2):
        with global_seeds(number):
            tables.append(bench.train().policy.model.model.table.detach())
    worst = float((tables[0] - tables[1]).abs().max())
    if worst > 0:
        return failed("two trainings with one seed end with different weights", difference=worst)
    return passed("two trainings with one seed end with the same weights")


def improves(bench: Bench) -> Finding:
    """The exact expected return rises from the start towards the optimum."""
    gains = [share_of_distance(curve) for curve in bench.curves]
    mean, upper = fmean(gains), upper_bound(gains, 1 - ALPHA)
    measured = {"gain": mean, "upper": upper}
    listed = ", ".join(f"{100 * gain:.0f}" for gain in gains)
    if upper < MIN_GAIN:
        return failed(
            f"the gain is {mean:.0%} of the distance to the optimum (seeds: {listed} %), and below {upper:.1%} with "
            f"{1 - ALPHA:.1%} confidence", **measured,
        )  # fmt: skip
    unsure = "" if mean >= MIN_GAIN else f"; undecided, less than {MIN_GAIN:.0%}"
    return passed(f"gain {mean:.0%} of the distance to the optimum (seeds: {listed} %){unsure}", **measured)


CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        mask, temperature, tokens, sign, groups, returns, length, ratio, batching, reference, sampler, truncation,
        repeatable, improves,
    )
}  # fmt: skip
"""What a proof asks, by name; the docstring of each says what must hold."""


def _no_turns(bench: Bench) -> str:
    """Say why coefficients of turns cannot be read; empty if they can."""
    if not bench.uses_reward:
        return "it does not learn from sampled tokens"
    if getattr(bench.trainer, "credit_level", "turn") == "token":
        return "its tokens have advantages of their own (credit_level token)"
    for name in ("clip", "clip_low", "clip_high", "epsilon", "epsilon_high"):
        value = bench.setting(name)
        if value is not None and value < ROUNDING:
            return f"{name} is {value:g}, so a ratio that is 1 but for rounding is clipped"
    return ""


def _distance(bench: Bench, alter: Callable[[Trajectory], Trajectory]) -> float | None:
    plain, altered = bench.read().first, bench.read(alter=alter).first
    return None if plain is None or altered is None else difference(plain, altered)
