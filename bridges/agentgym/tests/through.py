"""The scripted agent through AgentGym: its rollout loop and clients at our server, and our world at a server."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from agentenv import envs
from agentenv.controller import APIAgent, BaseTask
from agentgym_agentenv import make_app
from agentgym_agentenv_client import WorldClient
from agentgym_agentenv_world import GymServerEnv
from checks import serving
from scripted import MAX_STEPS, SEED, Played, Script, World, scores_so_far

from agentgym_py.env import StopReason
from agentgym_py.serving.tool_episode import EpisodeSettings, SessionLimits

CLIENTS: Mapping[str, Any] = {
    "textcraft": envs.TextCraftEnvClient,
    "babyai": envs.BabyAIEnvClient,
    "sciworld": envs.SciworldEnvClient,
    "alfworld": envs.AlfWorldEnvClient,
    "webshop": envs.WebshopEnvClient,
    "sqlgym": envs.SqlGymEnvClient,
    "tools": WorldClient,
}
"""AgentGym's client by dialect."""


class ScriptedAgent(APIAgent):
    """An agent that follows a script in AgentGym's rollout loop."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def generate(self, conversation: list[Any]) -> tuple[str, None]:
        """Reply with the next action; AgentGym's first three messages are its own and the first observation."""
        turn = sum(message["role"] == "assistant" for message in conversation[3:])
        return f"Thought:\nI act.\n\nAction:\n{self.script.actions[turn]}", None


@contextmanager
def server(world: World, dialect: str | None, sessions: int = 8, **settings: Any) -> Iterator[str]:
    """Serve a world without rules; the address is the value."""
    episodes = EpisodeSettings.of_world(
        world.name, {"max_steps": MAX_STEPS}, **({"prompt": "none", "seed": SEED} | settings)
    )
    with serving(make_app(episodes, dialect, SessionLimits(sessions=sessions))) as url:
        yield url


def task_of(url: str, dialect: str) -> Any:
    """Return AgentGym's task of a server."""

    class Task(BaseTask):
        env_client_cls, env_name = CLIENTS[dialect], dialect

    return Task({"env_server_base": url, "data_len": 1000})


def follow(task: Any, number: int, script: Script) -> Played:
    """Play a script by AgentGym's rollout loop. It keeps the last reward, and its evaluator counts 1 as success."""
    (client,) = task.clients
    rewards, done, step = list[float](), [False], type(client).step

    def note(action: str) -> Any:
        output = step(client, action)
        rewards.append(output.reward)
        done.append(output.done)
        return output

    client.step = note
    (episode,) = task.generate_experience(ScriptedAgent(script), number, max_rounds=len(script.actions))
    seen = [message["content"] for message in episode.conversation[2:] if message["role"] == "user"]
    assert episode.reward == script.episode.reward
    reason = StopReason.TERMINATED if done[-1] else StopReason.GAVE_UP
    return Played(script.episode.task, tuple(seen), tuple(rewards), episode.reward == 1, reason)


def visible(episode: Played) -> Played:
    """Sum the rewards, and take away how an episode has ended: AgentGym knows only that it has."""
    ended = episode.stop_reason is not StopReason.GAVE_UP
    return replace(scores_so_far(episode), stop_reason=StopReason.TERMINATED if ended else StopReason.GAVE_UP)


def rises(episode: Played) -> Played:
    """Turn the rewards into rises of the return so far, which differ from them by rounding."""
    so_far = (0.0, *scores_so_far(episode).rewards)
    return replace(episode, rewards=tuple(after - before for before, after in pairwise(so_far)))


def follow_back(env: GymServerEnv, number: int, script: Script) -> Played:
    """Play a script in `AgentGymServer-v0`."""
    observation, _ = env.reset(seed=0, options={"task": number})
    seen, rewards = [observation], list[float]()
    for action in script.actions:
        assert env.stop_reason is None
        observation, reward, *_ = env.step(f"Thought: I act.\nAction: {action}")
        seen.append(observation)
        rewards.append(reward)
    reason = env.stop_reason or StopReason.GAVE_UP
    return Played(script.episode.task, tuple(seen), tuple(rewards), env.succeeded, reason)


def play(world: World, scripts: Sequence[Script], dialect: str = "tools") -> list[Played]:
    """Play the scripts by AgentGym."""
    with server(world, dialect) as url:
        task = task_of(url, dialect)
        return [follow(task, number, script) for number, script in enumerate(scripts)]


def play_back(world: World, scripts: Sequence[Script], dialect: str = "tools") -> list[Played]:
    """Play the scripts in `AgentGymServer-v0` at our server."""
    ranges = {"train": [0, 1000]}
    with (
        server(world, dialect) as url,
        closing(GymServerEnv(url=url, dialect=dialect, ranges=ranges, max_steps=2 * MAX_STEPS)) as env,
    ):
        return [follow_back(env, number, script) for number, script in enumerate(scripts)]


TIMED = {
    "through a server and AgentGym's rollout loop on loopback, both of them in it": play,
    "through AgentGymServer-v0, its server included": play_back,
}


# ---- AgentGym's own TextCraft ---------------------------------------------------------------------------------------


@cache
def textcraft() -> Any:
    """Import AgentGym's TextCraft server, which reads its recipes from the working directory."""
    here, package = Path.cwd(), find_spec("agentenv_textcraft")
    assert package is not None and package.origin is not None
    os.chdir(Path(package.origin).parents[1])
    try:
        return import_module("agentenv_textcraft.server")
    finally:
        os.chdir(here)


def textcraft_scripts(tasks: int) -> list[Script]:
    """Play tasks of AgentGym's TextCraft directly, in its class: by recipes, by nonsense, or not to the end."""
    return [_textcraft_script(number) for number in range(tasks)]


def _textcraft_script(number: int) -> Script:
    worlds = textcraft().server
    env = import_module("agentenv_textcraft.environment").TextCraftEnv(worlds.crafting_tree, None, None)
    opening, _ = env.reset(data_idx=number)
    plan = ["fly", "get 1 nothing", "inventory"] if number % 5 == 4 else _plan(opening)
    observations, rewards, done, actions = [opening], list[float](), False, list[str]()
    for action in plan[: 1 if number % 5 == 3 else MAX_STEPS]:
        observation, reward, done, _, _ = env.step(action)
        actions.append(action)
        observations.append(observation)
        rewards.append(reward)
        if done:
            break
    reason = StopReason.TERMINATED if done else StopReason.GAVE_UP
    episode = Played(f"gymserver/train/any/{number}", tuple(observations), tuple(rewards), done, reason)
    return Script(episode, tuple(actions), (), b"")


def _plan(opening: str) -> list[str]:
    """Get what the goal's recipe needs, craft what has a recipe itself, and craft the goal."""
    recipes = {match[2]: match for match in re.finditer(r"craft (\d+) (.+?) using (.+)", opening)}

    def make(item: str, depth: int) -> list[str]:
        actions = list[str]()
        for need in recipes[item][3].split(", "):
            count, name = need.split(" ", 1)
            if name in recipes and depth < 4:
                actions += make(name, depth + 1) * -(-int(count) // int(recipes[name][1]))
            else:
                actions.append(f"get {count} {name}")
        return [*actions, recipes[item][0]]

    return make(opening.rpartition("Goal: craft ")[2].rstrip("."), 0)
