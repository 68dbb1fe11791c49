"""Values of the states of an episode: by the expert, by continuations, by the outcome, or by a judge.

An episode of T steps has T + 1 states: state i is the one before step i, state T the final one. The value of a state is
`discount` to the power of the number of steps to success, and 0 without success. With a discount below 1, states nearer
to the goal are worth more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal, NamedTuple

from agentgym_py import distributed
from agentgym_py.collection import Collector, Job, PlayConfig, torchrun
from agentgym_py.collection.branching import or_none, snapshots_at, warn_env_failure
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.job import StateSnapshot
from agentgym_py.env import TextEnv
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

What the judge is shown is its own choice. `llm_judge.OpenAIJudge` is a model behind an endpoint.
"""
Of = Literal["success", "return"]
CHANGED, NO_PLAN = "whose world does not play it again", "whose expert gave no plan"
FAILED = "whose world failed as it was to play it again"
"""Reason why a trajectory has no values."""


class Value(NamedTuple):
    """An estimate from several continuations of a state."""

    mean: float
    stderr: float
    """Standard error of the mean; NaN for one continuation, 0 if the episode is over.

    Of success it is Agresti and Coull's: computed with one more attempt that half succeeds, because eight failures do
    not prove that no attempt succeeds.
    """
    tries: int
    """Continuations without infrastructure failure; 0 for a state in which the episode is over."""


def exact_value(env: TextEnv, discount: float = 1.0) -> float:
    """Value of the state of a live environment for the expert; the environment is left as it was.

    The expert's plan is played to its end: 0 if it does not succeed within the steps that are left. This is the optimal
    value if the environment's expert claims shortest plans.

    Raises:
        ExpertError: the expert failed.
    """
    if env.stop_reason:
        return float(env.succeeded)
    here, done = env.snapshot(), 0
    try:
        for action in _plan(env):
            env.step(action)
            done += 1
            if env.stop_reason:
                break
        return discount**done if env.stop_reason and env.succeeded else 0.0
    finally:
        env.restore(here)


def _plan(env: TextEnv) -> list[str]:
    try:
        return env.expert()
    except InfrastructureError:
        raise
    except Exception as error:  # whatever a foreign expert raises
        raise ExpertError(f"{type(env).__name__}'s expert gave no plan: {error!r}") from error


def exact_values(trajectory: Trajectory, discount: float = 1.0, pool: EnvPool | None = None) -> list[float]:
    """Exact values of the T + 1 states, rebuilt by replaying the episode; environments come from `pool`.

    Raises:
        SnapshotError: the environment behaves differently on replay.
        ExpertError: its expert failed.
        AgentGymError: the environment is not installed.
    """
    if pool is None:
        with closing(EnvPool()) as own:
            return exact_values(trajectory, discount, own)
    found = list[float]()
    states = snapshots_at(trajectory, range(len(trajectory.steps)), pool)
    with pool.lent(trajectory.env_spec()) as env:
        _to_the_end(trajectory, states, env)  # whether the replay holds comes before what the expert says
        last = exact_value(env, discount)
        for state in states:
            env.restore(state.snapshot)
            found.append(exact_value(env, discount))
    return [*found, last]


def _to_the_end(trajectory: Trajectory, states: Sequence[StateSnapshot], env: TextEnv) -> None:
    """Bring an environment to the state in which the trajectory ended; SnapshotError if the replay differs."""
    if states:
        env.restore(states[-1].snapshot)
        shown = env.step(trajectory.steps[-1].reply)[0]
    else:
        shown = env.reset(seed=trajectory.provenance.env_seed, options={"task": trajectory.task_id})[0]
    if shown != trajectory.final_observation:
        raise SnapshotError(f"{trajectory.id}: its end showed something else than it shows now")


def exact_of_all(trajectories: Sequence[Trajectory], discount: float = 1.0) -> tuple[list[Values | None], Counter[str]]:
    """Exact values of each trajectory, None for one without, and the reasons with their counts."""
    found, without = list[Values | None](), Counter[str]()
    with closing(EnvPool()) as pool:
        for each in trajectories:
            try:
                found.append(exact_values(each, discount, pool))
            except Exception as error:
                found.append(None)
                without[_why(error)] += 1
    return found, without


def _why(error: Exception) -> str:
    """Reason for an error of a foreign environment, which may raise anything."""
    if isinstance(error, ExpertError):
        return NO_PLAN
    if isinstance(error, AgentGymError) and not isinstance(error, InfrastructureError):
        return CHANGED
    warn_env_failure(error)
    return FAILED


def played_again(trajectories: Sequence[Trajectory]) -> tuple[list[bool], Counter[str]]:
    """Whether each trajectory replays, step by step, and the reasons with their counts. No expert is asked."""
    found, without = list[bool](), Counter[str]()
    with closing(EnvPool()) as pool:
        for each in trajectories:
            try:
                states = snapshots_at(each, range(len(each.steps)), pool)
                with pool.lent(each.env_spec()) as env:
                    _to_the_end(each, states, env)
                found.append(True)
            except Exception as error:
                found.append(False)
                without[_why(error)] += 1
    return found, without


def outcome_values(trajectory: Trajectory, discount: float = 1.0) -> list[float]:
    """The episode's success, traced back to each of its T + 1 states: one continuation each, the episode's own."""
    last = len(trajectory.steps)
    return [float(trajectory.success) * discount ** (last - i) for i in range(last + 1)]


def marked(trajectory: Trajectory, judge: Judge) -> list[float | None]:
    """A judge's mark of each step as the value of the state that it led to; the first state has none."""
    return [None, *(judge(trajectory, i) for i in range(len(trajectory.steps)))]


def monte_carlo(
    trajectories: Sequence[Trajectory],
    play: Play,
    *,
    tries: int = 8,
    states: int | None = None,
    discount: float = 1.0,
    of: Of = "success",
    seed: int = 0,
    first_try: int = 0,
) -> list[list[Value | None]]:
    """Mean of `tries` continuations of each state, played as one batch; None for a state without.

    At most `states` states per trajectory (None: all), drawn by `seed`; the final state costs nothing. `of` `return`
    sums the discounted rewards to come. Attempts are numbered from `first_try`; ask again with another number for fresh
    ones. States at which an environment fails on replay have no value.

    Raises:
        SnapshotError: an environment behaves differently on replay.
    """
    found: list[list[Value | None]] = []
    places: list[tuple[int, int]] = []
    jobs: list[Job] = []
    drawn = distributed.on_rank_zero(
        _drawn, trajectories, states, seed
    )  # an environment that fails must fail for all processes
    for number, (each, some) in enumerate(zip(trajectories, drawn, strict=True)):
        over = float(each.success) if of == "success" else 0.0
        found.append([*[None] * len(each.steps), Value(over, 0.0, 0)])
        spec = each.env_spec()
        for fork in some:
            places.append((number, len(fork.steps)))
            jobs += [Job(spec, each.task_id, each.split, first_try + k, fork) for k in range(tries)]
    played = play(jobs)
    for at, (number, state) in enumerate(places):
        found[number][state] = _mean(played[at * tries : (at + 1) * tries], state, discount, of)
    return found


def _drawn(trajectories: Sequence[Trajectory], states: int | None, seed: int) -> list[list[StateSnapshot]]:
    """Some states of each trajectory; none if its environment fails."""
    found = []
    with closing(EnvPool()) as pool:
        for each in trajectories:
            places = Rng("states", seed, each.id).sample(range(len(each.steps)), len(each.steps))[:states]
            found.append((or_none(partial(snapshots_at, each, places, pool)) if places else None) or [])
    return found


def player(policy: Policy, temperature: float, max_new_tokens: int, seed: int) -> Play:
    """Play continuations by the policy itself; under several processes each plays its share."""

    def play(jobs: Sequence[Job]) -> list[Trajectory]:
        from agentgym_py.agents import ModelAgent
        from agentgym_py.engine import HFEngine, SamplingParams

        params = SamplingParams(temperature=temperature, max_new_tokens=max_new_tokens)
        agent = ModelAgent(policy, HFEngine(policy, slots=64), params)
        with torchrun.Ranks() as ranks:
            config = PlayConfig(seed=seed_of(seed, "continuations"), executor=ranks)
            return Collector(agent, config).collect_batch(jobs)

    return play


def _mean(continued: Sequence[Trajectory], state: int, discount: float, of: Of) -> Value | None:
    """Value of a state by the episodes that continued from it."""
    gained = [_gained(each, state, discount, of) for each in continued if each.is_evidence]
    if not gained:
        return None
    if len(gained) == 1:
        return Value(gained[0], math.nan, 1)
    return Value(fmean(gained), _stderr(gained, of), len(gained))


def _stderr(gained: Sequence[float], of: Of) -> float:
    """Standard error of a mean; see `Value`."""
    if of == "return":
        return stdev(gained) / math.sqrt(len(gained))
    tries = len(gained) + 1
    mean, square = (sum([*each, 0.5]) / tries for each in (gained, [value * value for value in gained]))
    return math.sqrt((square - mean * mean) / tries)


def _gained(went: Trajectory, state: int, discount: float, of: Of) -> float:
    if of == "success":
        return float(went.success) * discount ** (len(went.steps) - state)
    return sum(step.reward * discount**k for k, step in enumerate(went.steps[state:]))
