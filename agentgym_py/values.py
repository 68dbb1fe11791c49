"""What the states of an episode are worth: by forks, by the expert, by what came of them, or as a judge says.

An episode of T steps has T + 1 states: number i is the one before step i, number T the one that it ended in. A value is
that of success in so many more steps: `discount` to the power of their number, 0 without success, so that with a
discount below 1 a state nearer to the goal is worth more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal, NamedTuple

from agentgym_py import ranks
from agentgym_py.collect import Collector, EnvSpec, Job
from agentgym_py.env import TextEnv
from agentgym_py.errors import AgentGymError, SnapshotError
from agentgym_py.fork import forks
from agentgym_py.pool import EnvPool
from agentgym_py.rng import Rng, seed_of
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

Values = Sequence[float | None]
"""Of the T + 1 states of a trajectory, None where nobody knows."""
Play = Callable[[Sequence[Job]], list[Trajectory]]
"""Plays jobs and gives their trajectories in order, as `Collector.collect_batch` and `Rollouts.play` do."""
Judge = Callable[[Trajectory, int], float | None]
"""The mark of a step, None where there is none: how good the state is that it led to. What a model or a person is shown
for that is its own; `judging.OpenAIJudge` is a model behind an endpoint."""
Of = Literal["success", "return"]


class Value(NamedTuple):
    """An estimate from several continuations of a state."""

    mean: float
    stderr: float
    """Standard error of the mean; 0 of one continuation, and where nothing is left to chance."""
    tries: int
    """Continuations that did not fail by infrastructure; 0 for a state in which the episode is over."""


def exact_value(env: TextEnv, discount: float = 1.0) -> float:
    """What the state of a live world is worth to the expert; the world is left as it was.

    The expert's plan is played to its end: 0 where it does not succeed within the steps that are left. It is the best
    that can be had where the world's expert says that its plans are shortest.
    """
    if env.ended:
        return float(env.succeeded)
    here, done = env.snapshot(), 0
    try:
        for action in env.expert():
            env.step(action)
            done += 1
            if env.ended:
                break
        return discount**done if env.ended and env.succeeded else 0.0
    finally:
        env.restore(here)


def exact_values(trajectory: Trajectory, discount: float = 1.0, pool: EnvPool | None = None) -> list[float]:
    """The exact value of each of the T + 1 states, found again by doing the replies again; worlds come from `pool`.

    Raises:
        SnapshotError: the world does not show what it showed then.
        AgentGymError: there is no such world here.
    """
    if pool is None:
        with closing(EnvPool()) as own:
            return exact_values(trajectory, discount, own)
    spec, found = EnvSpec.of(trajectory), list[float]()
    states = forks(trajectory, range(len(trajectory.steps)), pool)
    with pool.lent(spec) as env:
        for state in states:
            env.restore(state.snapshot)
            found.append(exact_value(env, discount))
        if trajectory.steps:
            shown = env.step(trajectory.steps[-1].reply)[0]
        else:
            shown = env.reset(seed=trajectory.provenance.env_seed, options={"task": trajectory.task_id})[0]
        if shown != trajectory.final_observation:
            raise SnapshotError(f"{trajectory.id}: its end showed something else than it shows now")
        return [*found, exact_value(env, discount)]


def exact_of_all(trajectories: Sequence[Trajectory], discount: float = 1.0) -> list[Values | None]:
    """The exact values of each trajectory; None for one that its world does not play again."""
    found = list[Values | None]()
    with closing(EnvPool()) as pool:
        for each in trajectories:
            try:
                found.append(exact_values(each, discount, pool))
            except AgentGymError:
                found.append(None)
    return found


def outcome_values(trajectory: Trajectory, discount: float = 1.0) -> list[float]:
    """The episode's success, traced back to each of its T + 1 states: a single continuation of each, the episode's."""
    last = len(trajectory.steps)
    return [float(trajectory.success) * discount ** (last - i) for i in range(last + 1)]


def marked(trajectory: Trajectory, judge: Judge) -> list[float | None]:
    """A judge's mark of each step as the value of the state that it led to; of the first state none."""
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
    """The mean of `tries` continuations of the states of each trajectory, all played as one batch; None where none.

    At most `states` of a trajectory (None: all), drawn by `seed`; the state in which an episode ended costs nothing.
    `of` `return` sums the discounted rewards that are still to come. Tries are numbered from `first_try`: who asks
    again for fresh ones of the same states wants another.

    Raises:
        SnapshotError: a world does not show what it showed then.
    """
    found: list[list[Value | None]] = []
    places: list[tuple[int, int]] = []
    jobs: list[Job] = []
    with closing(EnvPool()) as pool:
        for number, each in enumerate(trajectories):
            over = float(each.success) if of == "success" else 0.0
            found.append([*[None] * len(each.steps), Value(over, 0.0, 0)])
            drawn = Rng("states", seed, each.id).sample(range(len(each.steps)), len(each.steps))[:states]
            spec = EnvSpec.of(each)
            for fork in forks(each, drawn, pool) if drawn else ():
                places.append((number, len(fork.steps)))
                jobs += [Job(spec, each.task_id, each.split, first_try + k, fork) for k in range(tries)]
    played = play(jobs)
    for at, (number, state) in enumerate(places):
        found[number][state] = _mean(played[at * tries : (at + 1) * tries], state, discount, of)
    return found


def player(policy: Policy, temperature: float, max_new_tokens: int, seed: int) -> Play:
    """The policy itself goes on from states, in each process that trains with its share of the jobs."""

    def play(jobs: Sequence[Job]) -> list[Trajectory]:
        from agentgym_py.agents import ModelAgent
        from agentgym_py.engine import HFEngine, SamplingParams

        params = SamplingParams(temperature=temperature, max_new_tokens=max_new_tokens)
        agent = ModelAgent(policy, HFEngine(policy, slots=64), params)
        with ranks.Ranks() as workers:
            collector = Collector(agent, slots=64, seed=seed_of(seed, "continuations"), workers=workers)
            return collector.collect_batch(jobs)

    return play


def _mean(continued: Sequence[Trajectory], state: int, discount: float, of: Of) -> Value | None:
    """The value of a state by the episodes that went on from it."""
    gained = [_gained(each, state, discount, of) for each in continued if each.error is None]
    if not gained:
        return None
    return Value(fmean(gained), stdev(gained) / len(gained) ** 0.5 if len(gained) > 1 else 0.0, len(gained))


def _gained(went: Trajectory, state: int, discount: float, of: Of) -> float:
    if of == "success":
        return float(went.success) * discount ** (len(went.steps) - state)
    return sum(step.reward * discount**k for k, step in enumerate(went.steps[state:]))
