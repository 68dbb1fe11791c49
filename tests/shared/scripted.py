"""The scripted agent: 50 tasks, played by `TextEnv.step`, and again through a protocol or another framework.

    plays_as_directly(SHOP, play)  # `play` lets the framework's model make `script.calls`, one a turn

The expert plays three of every five tasks to their end. One is left unfinished, and one is full of wrong calls until
the step limit, so that episodes end in every way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from agentgym_py.env import EnvSpec, StopReason, TextEnv
from agentgym_py.rng import seed_of

TASKS = 50
SEED = 3
"""Seed of the worlds; not 0, so that a bridge that forgets it fails."""
MAX_STEPS = 7
ENDS = {StopReason.TERMINATED, StopReason.TRUNCATED, StopReason.GAVE_UP}
Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class World:
    """A world of the tests and how its actions are offered."""

    name: str
    wrong: str
    """An action that is always invalid."""
    tools: bool = True
    """Whether its own tools are offered; False: only `act`."""

    @property
    def spec(self) -> EnvSpec:
        """The environment, with few steps."""
        return EnvSpec(self.name, {"max_steps": MAX_STEPS})


SHOP = World("shop", "click[nothing]")
TODO = World("todo", 'show_task\nAction Input: {"task": "nothing"}')
TOOLS = World("tools", "fly[high]", tools=False)
"""Half of its episodes have rewards before the last step."""
WORLDS = (SHOP, TODO, TOOLS)


@dataclass(frozen=True)
class Played:
    """What an agent and its user see of an episode."""

    task: str
    observations: tuple[str, ...]
    """The first observation, and one after each call."""
    rewards: tuple[float, ...]
    """One after each call; `only_return` leaves their sum."""
    success: bool
    stop_reason: StopReason

    @property
    def reward(self) -> float:
        """The return."""
        return sum(self.rewards)


@dataclass(frozen=True)
class Script:
    """One task as the scripted agent plays it."""

    episode: Played
    actions: tuple[str, ...]
    """Its actions, for `TextEnv.step`."""
    calls: tuple[Call, ...]
    """The tool calls that mean the same."""
    start: bytes
    """Snapshot after the reset."""


def scripts(world: World, tasks: int = TASKS, split: str = "train") -> list[Script]:
    """Play the first tasks of a split directly."""
    with closing(world.spec.make()) as env:
        return [_play(env, world, number, split) for number in range(tasks)]


def plays_as_directly(
    world: World,
    play: Callable[[World, Sequence[Script]], list[Played]],
    copies: int = 1,
    visible: Callable[[Played], Played] = lambda episode: episode,
) -> None:
    """Assert that observations, rewards, success and ends of 50 tasks are those of `TextEnv.step`.

    Args:
        world: The world.
        play: Plays scripts through the framework.
        copies: Number of episodes that `play` returns for each script.
        visible: Takes from a direct episode what the framework cannot see.
    """
    played = scripts(world)
    assert len(played) == TASKS and {script.episode.stop_reason for script in played} == ENDS
    assert play(world, played) == [visible(script.episode) for script in played for _ in range(copies)]


def only_return(episode: Played) -> Played:
    """Take away the rewards of the steps, for a framework that keeps only their sum."""
    return replace(episode, rewards=(episode.reward,))


def scores_so_far(episode: Played) -> Played:
    """Sum the rewards up to each step, as a framework does whose score grows."""
    return replace(episode, rewards=tuple(accumulate(episode.rewards)))


def _play(env: TextEnv, world: World, number: int, split: str) -> Script:
    task = env.task(number, split).id
    observation, _ = env.reset(seed=seed_of(SEED, "world", task), options={"task": task})
    start, observations, rewards = env.snapshot(), [observation], list[float]()
    actions, calls = list[str](), list[Call]()
    for action in _actions(env, world, number % 5):
        actions.append(action)
        calls.append(_as_call(env, world, action))
        observation, reward, *_ = env.step(action)
        observations.append(observation)
        rewards.append(reward)
        if env.stop_reason:
            break
    ended = env.stop_reason or StopReason.GAVE_UP
    episode = Played(task, tuple(observations), tuple(rewards), env.succeeded, ended)
    return Script(episode, tuple(actions), tuple(calls), start)


def _actions(env: TextEnv, world: World, kind: int) -> Iterator[str]:
    """Choose actions for `TextEnv.step`."""
    if kind == 3:
        yield env.expert()[0]
        return
    while kind == 4:
        yield world.wrong
    while plan := env.expert():
        yield plan[0]


def _as_call(env: TextEnv, world: World, action: str) -> Call:
    """Turn an action into the tool call that means the same."""
    if not world.tools:
        return "act", {"action": action}
    reply = env.parse(action)
    if reply.arguments is not None:
        return reply.action, dict(reply.arguments)
    if reply.argument is None:
        return reply.name, {}
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in env.tools() or ()}
    return reply.name, dict(zip(tools[reply.name]["properties"], [reply.argument], strict=True))
