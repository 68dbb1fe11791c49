"""Worlds by Gymnasium's own functions; the conformance tests have its checker and `make_vec` for every world."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import gymnasium
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics
from scripted import MAX_STEPS, SEED, TOOLS, WORLDS, Played, Script, World, plays_as_directly, scripts

from agentgym_py.env import StopReason
from agentgym_py.env.registration import env_id
from agentgym_py.rng import seed_of

COPIES = 2


def ended(terminated: bool, truncated: bool) -> StopReason:
    """How an episode has ended."""
    assert not (terminated and truncated)
    return StopReason.TERMINATED if terminated else StopReason.TRUNCATED if truncated else StopReason.GAVE_UP


def start_of(script: Script) -> dict[str, Any]:
    """Arguments of `reset`."""
    task = script.episode.task
    return {"seed": seed_of(SEED, "world", task), "options": {"task": task}}


def play(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play the scripts by `gymnasium.make`, with its usual wrappers and a further one."""
    episodes = list[Played]()
    name = f"agentgym_py:{env_id(world.name)}"
    with closing(RecordEpisodeStatistics(gymnasium.make(name, max_steps=MAX_STEPS))) as env:
        for script in scripts:
            observation, info = env.reset(**start_of(script))
            seen, rewards = [observation], list[float]()
            for action in script.actions:
                observation, reward, terminated, truncated, info = env.step(action)
                seen.append(observation)
                rewards.append(float(reward))
            reason = ended(terminated, truncated)
            if reason is not StopReason.GAVE_UP:
                assert (info["episode"]["r"], info["episode"]["l"]) == (sum(rewards), len(rewards))
            episodes.append(Played(info["task_id"], tuple(seen), tuple(rewards), info["success"], reason))
    return episodes


def play_vector(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play each script in all copies of `gymnasium.make_vec`; return their episodes one by one."""
    episodes = list[Played]()
    vector: Any = gymnasium.make_vec(
        env_id(world.name), num_envs=COPIES, vectorization_mode="async", max_steps=MAX_STEPS,
        vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED},
    )  # fmt: skip
    with closing(vector):
        for script in scripts:
            start = start_of(script)
            turns = [vector.reset(seed=[start["seed"]] * COPIES, options=start["options"])]
            turns += [vector.step([action] * COPIES) for action in script.actions]
            _, _, terminated, truncated, info = turns[-1]
            episodes += [
                Played(
                    info["task_id"][copy], tuple(turn[0][copy] for turn in turns),
                    tuple(float(turn[1][copy]) for turn in turns[1:]), bool(info["success"][copy]),
                    ended(terminated[copy], truncated[copy]),
                )
                for copy in range(COPIES)
            ]  # fmt: skip
    return episodes


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_gymnasium_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks, by `gymnasium.make` and `RecordEpisodeStatistics`."""
    plays_as_directly(world, play)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_copies_play_as_one_plays_directly(world: World) -> None:
    """50 tasks, by `gymnasium.make_vec` in processes of their own; all copies have one task."""
    plays_as_directly(world, play_vector, copies=COPIES)


def test_the_scripts_have_rewards_within_an_episode() -> None:
    """Without them, equal returns would prove as much as equal rewards."""
    assert sum(any(script.episode.rewards[:-1]) for script in scripts(TOOLS)) >= 20
