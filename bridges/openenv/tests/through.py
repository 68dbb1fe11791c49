"""The scripted agent through OpenEnv: its client at our server, and our `AgentOpenEnv-v0` at the same server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from agentgym_openenv import make_app
from agentgym_openenv_world import OpenEnvEnv
from checks import serving
from openenv.core import GenericEnvClient
from scripted import MAX_STEPS, SEED, Played, Script, World

from agentgym_py.env import StopReason
from agentgym_py.serving.tool_episode import EpisodeSettings, SessionLimits


@contextmanager
def server(world: World, sessions: int = 8, **settings: Any) -> Iterator[str]:
    """Serve a world without rules; the address is the value."""
    episodes = EpisodeSettings.of_world(
        world.name, {"max_steps": MAX_STEPS}, **({"prompt": "none", "seed": SEED} | settings)
    )
    with serving(make_app(episodes, tasks=60, limits=SessionLimits(sessions=sessions))) as url:
        yield url


@contextmanager
def client(url: str) -> Iterator[Any]:
    """Open a session by OpenEnv's client."""
    with GenericEnvClient(base_url=url).sync() as opened:
        yield opened


def follow(opened: Any, script: Script) -> Played:
    """Play a script by OpenEnv's client."""
    result = opened.reset(task=script.episode.task)
    seen, rewards = [result.observation["text"]], list[float]()
    for action in script.actions:
        assert not result.done
        result = opened.step({"message": action})
        seen.append(result.observation["text"])
        rewards.append(result.reward)
    about = result.metadata
    ended = StopReason.TRUNCATED if about["truncated"] else StopReason.TERMINATED
    reason = ended if result.done else StopReason.GAVE_UP
    return Played(about["task_id"], tuple(seen), tuple(rewards), about["success"], reason)


def follow_back(env: OpenEnvEnv, number: int, script: Script) -> Played:
    """Play a script in `AgentOpenEnv-v0`, as task `number` of the server's split."""
    observation, _ = env.reset(seed=0, options={"task": number})
    seen, rewards = [observation], list[float]()
    for action in script.actions:
        assert env.stop_reason is None
        observation, reward, *_ = env.step(action)
        seen.append(observation)
        rewards.append(reward)
    reason = env.stop_reason or StopReason.GAVE_UP
    return Played(script.episode.task, tuple(seen), tuple(rewards), env.succeeded, reason)


def play(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play the scripts by OpenEnv's client."""
    with server(world) as url, client(url) as opened:
        return [follow(opened, script) for script in scripts]


def play_back(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play the scripts in `AgentOpenEnv-v0`."""
    with server(world) as url, closing(OpenEnvEnv(url=url, max_steps=2 * MAX_STEPS)) as env:
        return [follow_back(env, number, script) for number, script in enumerate(scripts)]


TIMED = {
    "through OpenEnv's server and client on loopback, both of them in it": play,
    "through AgentOpenEnv-v0, its server included": play_back,
}
