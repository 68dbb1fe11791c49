"""Values of the states of an episode: by the expert, by continuations, by the outcome, or by a judge.

An episode of T steps has T + 1 states: state i is the one before step i, state T the final one. The value of a state is
`discount` to the power of the number of steps to success, and 0 without success. With a discount below 1, states nearer
to the goal are worth more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from agentgym_py import distributed
from agentgym_py.collection import Collector, Job, PlayConfig, torchrun
from agentgym_py.collection.branching import or_none, snapshots_at, warn_env_failure
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.job import StateSnapshot
from agentgym_py.env import StopReason, TextEnv
from agentgym_py.errors import AgentGymError, ExpertError, InfrastructureError, SnapshotError
from agentgym_py.rng import Rng, seed_of
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

Values = Sequence[float | None]
"""Values of the T + 1 states of a trajectory; None if unknown."""
Play = Callable[[Sequence[Job]], list[Trajectory]]
"""Play jobs and return their trajectories in order, as `Collector.collect_batch` and `Rollouts.play` do."""
Judge = Callable[[Trajectory, int], float | None]
"""The mark of a step: how good the state is that it led to; None without a mark.

A judge chooses what it reads of the trajectory. `llm_judge.OpenAIJudge` is a model behind an endpoint.
"""
Target = Literal["success", "return"]
DISCOUNT = 0.9
"""Discount of the values that the viewer and the report show; the default of trainers and rewards, too."""
CHANGED, NO_PLAN = "whose world does not play it again", "whose expert gave no plan"
FAILED = "whose world failed as it was to play it again"
"""Reason why a trajectory has no values."""
T = TypeVar("T")


class Value(NamedTuple):
    """An estimate from several continuations of a state."""

    mean: float
    stderr: float
    """Standard error of the mean; NaN for one continuation, 0 if the episode is over.

    Of success it is Agresti and Coull's: computed with one more attempt that half succeeds, because eight failures do
    not prove that no attempt succeeds.
    """
    attempts: int
    """Continuations without infrastructure failure; 0 for a state in which the episode is over."""


class PlayedPlan(NamedTuple):
    """What an expert plays from a state to the end of the episode."""

    actions: Sequence[str]
    success: bool
    stop_reason: StopReason | None
    """How the episode ended; None if the plan was over before it."""


def play_plan(env: TextEnv, *, fair: bool = False) -> PlayedPlan:
    """Play an expert's plan from a live environment's state to its end; the environment is left as it was.

    The exact expert's plan is played as it stands. The fair expert is asked before each step.

    Raises:
        ExpertError: the expert failed.
    """
    if env.stop_reason:
        return PlayedPlan([], env.succeeded, env.stop_reason)
    state, played = env.snapshot(), list[str]()
    try:
        for action in _fair_actions(env) if fair else _plan(env):
            env.step(action)
            played.append(action)
            if env.stop_reason:
                break
        return PlayedPlan(played, bool(env.stop_reason) and env.succeeded, env.stop_reason)
    finally:
        env.restore(state)


def exact_value(env: TextEnv, discount: float = 1.0) -> float:
    """Return the value of a live environment's state for its expert; the environment is left as it was.

    The expert's plan is played to its end; the value is 0 if it does not succeed within the remaining steps. This is
    the optimal value if the environment's expert claims shortest plans.

    Raises:
        ExpertError: the expert failed.
    """
    plan = play_plan(env)
    return discount ** len(plan.actions) if plan.success else 0.0


def _plan(env: TextEnv) -> list[str]:
    with _expert_errors(env):
        return env.expert()


def _fair_actions(env: TextEnv) -> Iterator[str]:
    while True:
        with _expert_errors(env):
            action = env.fair_expert()
        if action is None:
            return
        yield action


@contextmanager
def _expert_errors(env: TextEnv) -> Iterator[None]:
    try:
        yield
    except InfrastructureError:
        raise
    except Exception as error:  # whatever a foreign expert raises
        raise ExpertError(f"{type(env).__name__}'s expert gave no plan: {error!r}") from error


def exact_values(trajectory: Trajectory, discount: float = 1.0, pool: EnvPool | None = None) -> list[float]:
    """Return the exact values of the T + 1 states, rebuilt by replaying the episode; environments come from `pool`.

    Raises:
        SnapshotError: the environment behaves differently on replay.
        ExpertError: its expert failed.
        AgentGymError: the environment is not installed.
    """
    if pool is None:
        with closing(EnvPool()) as new_pool:
            return exact_values(trajectory, discount, new_pool)
    with _replayed(trajectory, pool) as (env, states):  # a changed replay is an error before a failing expert is
        last, values = exact_value(env, discount), list[float]()
        for state in states:
            env.restore(state.snapshot)
            values.append(exact_value(env, discount))
    return [*values, last]


@contextmanager
def _replayed(trajectory: Trajectory, pool: EnvPool) -> Iterator[tuple[TextEnv, Sequence[StateSnapshot]]]:
    """Replay a trajectory; yields an environment in its final state, and its earlier states.

    Raises:
        SnapshotError: the environment behaves differently on replay.
    """
    states = snapshots_at(trajectory, range(len(trajectory.steps)), pool)
    with pool.lent(trajectory.replay_spec()) as env:
        if states:
            env.restore(states[-1].snapshot)
            observation = env.step(trajectory.steps[-1].reply)[0]
        else:
            observation = trajectory.restart(env)
        if observation != trajectory.final_observation:
            raise SnapshotError(f"{trajectory.id}: its last observation differs on replay")
        yield env, states


def exact_values_of_all(
    trajectories: Sequence[Trajectory], discount: float = 1.0
) -> tuple[list[list[float] | None], Counter[str]]:
    """Return the exact values of each trajectory, None if it has none, and the reasons with their counts."""
    return try_each(trajectories, lambda trajectory, pool: exact_values(trajectory, discount, pool))


def replayable(trajectories: Sequence[Trajectory]) -> tuple[list[bool], Counter[str]]:
    """Return whether each trajectory replays step by step, without its expert, and the reasons with their counts."""

    def replays(trajectory: Trajectory, pool: EnvPool) -> bool:
        with _replayed(trajectory, pool):
            return True

    results, reasons = try_each(trajectories, replays)
    return [bool(result) for result in results], reasons


def try_each(
    trajectories: Sequence[Trajectory], call: Callable[[Trajectory, EnvPool], T]
) -> tuple[list[T | None], Counter[str]]:
    """Call a function for each trajectory, with a pool; None where it raises, and the reasons with their counts."""
    results, reasons = list[T | None](), Counter[str]()
    with closing(EnvPool()) as pool:
        for trajectory in trajectories:
            try:
                results.append(call(trajectory, pool))
            except Exception as error:
                results.append(None)
                reasons[_reason(error)] += 1
    return results, reasons


def _reason(error: Exception) -> str:
    """Return the reason for an error of a foreign environment, which may raise anything."""
    if isinstance(error, ExpertError):
        return NO_PLAN
    if isinstance(error, AgentGymError) and not isinstance(error, InfrastructureError):
        return CHANGED
    warn_env_failure(error)
    return FAILED


def outcome_values(trajectory: Trajectory, discount: float = 1.0) -> list[float]:
    """Trace the episode's success back to each of its T + 1 states: one continuation each, the episode's own."""
    last = len(trajectory.steps)
    return [float(trajectory.success) * discount ** (last - i) for i in range(last + 1)]


def values_from_marks(trajectory: Trajectory, judge: Judge) -> list[float | None]:
    """Take a judge's mark of each step as the value of the state that it led to; the first state has none."""
    return [None, *(judge(trajectory, i) for i in range(len(trajectory.steps)))]


def monte_carlo(
    trajectories: Sequence[Trajectory],
    play: Play,
    *,
    attempts: int = 8,
    states: int | None = None,
    discount: float = 1.0,
    target: Target = "success",
    seed: int = 0,
    first_attempt: int = 0,
) -> list[list[Value | None]]:
    """Estimate each state by the mean of `attempts` continuations, all played as one batch; None for other states.

    At most `states` states per trajectory (None: all), drawn by `seed`; the final state costs nothing. The target
    `return` sums the discounted rewards to come. Attempts are numbered from `first_attempt`; another number gives fresh
    ones. A state at which an environment fails on replay has no value.

    Raises:
        SnapshotError: an environment behaves differently on replay.
    """
    values: list[list[Value | None]] = []
    places: list[tuple[int, int]] = []
    jobs: list[Job] = []
    drawn = distributed.on_rank_zero(
        _sample_states, trajectories, states, seed
    )  # an environment that fails must fail for all
    for number, (trajectory, snapshots) in enumerate(zip(trajectories, drawn, strict=True)):
        last = float(trajectory.success) if target == "success" else 0.0
        values.append([*[None] * len(trajectory.steps), Value(last, 0.0, 0)])
        spec, task, split = trajectory.env_spec(), trajectory.task_id, trajectory.split
        for snapshot in snapshots:
            places.append((number, len(snapshot.steps)))
            jobs += [Job(spec, task, split, first_attempt + k, snapshot) for k in range(attempts)]
    episodes = play(jobs)
    for at, (number, state) in enumerate(places):
        continuations = episodes[at * attempts : (at + 1) * attempts]
        values[number][state] = _estimate(continuations, state, discount, target)
    return values


def _sample_states(trajectories: Sequence[Trajectory], states: int | None, seed: int) -> list[list[StateSnapshot]]:
    """Sample states of each trajectory; none if its environment fails."""
    snapshots = []
    with closing(EnvPool()) as pool:
        for trajectory in trajectories:
            steps = len(trajectory.steps)
            places = Rng("states", seed, trajectory.id).sample(range(steps), steps)[:states]
            snapshots.append((or_none(partial(snapshots_at, trajectory, places, pool)) if places else None) or [])
    return snapshots


def policy_player(policy: Policy, temperature: float, max_new_tokens: int, seed: int) -> Play:
    """Make a `Play` in which the policy continues; of several processes each plays its share."""

    def play(jobs: Sequence[Job]) -> list[Trajectory]:
        from agentgym_py.agents import ModelAgent
        from agentgym_py.engine import HFEngine, SamplingParams

        params = SamplingParams(temperature=temperature, max_new_tokens=max_new_tokens)
        agent = ModelAgent(policy, HFEngine(policy, slots=64), params)
        with torchrun.Ranks() as ranks:
            config = PlayConfig(seed=seed_of(seed, "continuations"), executor=ranks)
            return Collector(agent, config).collect_batch(jobs)

    return play


def _estimate(continuations: Sequence[Trajectory], state: int, discount: float, target: Target) -> Value | None:
    """Estimate a state's value by the episodes that continued from it; None if all ended with an error."""
    return estimate([_value(t, state, discount, target) for t in continuations if t.is_evidence], target)


def estimate(values: Sequence[float], target: Target = "success") -> Value | None:
    """Estimate a state's value by what its continuations came to; None without any."""
    if not values:
        return None
    if len(values) == 1:
        return Value(values[0], math.nan, 1)
    return Value(fmean(values), _stderr(values, target), len(values))


def _stderr(values: Sequence[float], target: Target) -> float:
    """Return the standard error of a mean; see `Value`."""
    if target == "return":
        return stdev(values) / math.sqrt(len(values))
    attempts = len(values) + 1
    mean, square = (sum([*terms, 0.5]) / attempts for terms in (values, [value * value for value in values]))
    return math.sqrt((square - mean * mean) / attempts)


def _value(episode: Trajectory, state: int, discount: float, target: Target) -> float:
    """Return what one continuation from a state came to."""
    if target == "success":
        return float(episode.success) * discount ** (len(episode.steps) - state)
    return sum(step.reward * discount**k for k, step in enumerate(episode.steps[state:]))
