"""agentgym_openenv and AgentOpenEnv-v0 against the real OpenEnv."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import agentgym_openenv_world
import pytest
import requests
from agentgym_openenv import AgentGymAction, AgentGymEnvironment
from agentgym_openenv_world import OpenEnvEnv
from checks import FAILURE, fail, note_starts, serving
from fastapi import FastAPI
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from scripted import SHOP, TODO, WORLDS, World, plays_as_directly, scripts
from through import client, follow, play, play_back, server

from agentgym_py.agents.chat import call_text, offered_tools
from agentgym_py.env import EnvSpec
from agentgym_py.env.call_forms import call_of_text
from agentgym_py.errors import ConfigError, InfrastructureError, SnapshotError, UnknownNameError
from agentgym_py.serving.tool_episode import EpisodeSettings


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_openenv_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks, by OpenEnv's own server and client."""
    plays_as_directly(world, play)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_a_server_as_a_world_plays_as_the_world_itself(world: World) -> None:
    """The same tasks in `AgentOpenEnv-v0`, by the task API."""
    plays_as_directly(world, play_back)


def test_a_group_starts_in_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """In that of a direct episode, to the byte, in each session and however the task is named."""
    (script,), starts = scripts(SHOP, 1), note_starts(monkeypatch)
    with server(SHOP) as url, client(url) as one, client(url) as other:
        one.reset(task=script.episode.task)
        other.reset(split="train", index=0)
        one.reset(seed=0)
        other.reset(task=0)
        assert starts == {script.episode.task: [script.start] * 4}
        assert one.state()["snapshot"].encode() == script.start


def test_sessions_share_the_numbers_of_their_tasks() -> None:
    """A reset that names no task takes the server's next one, so that many sessions play many tasks."""
    ids = []
    with server(SHOP) as url:
        for _ in range(2):
            with client(url) as session:
                ids += [session.reset().metadata["task_id"] for _ in range(2)]
    assert ids == [f"shop/train/medium/{number}" for number in range(4)]


def test_an_infrastructure_failure_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenEnv's client raises an error, and so does `AgentOpenEnv-v0`; the next episode is whole."""
    first, second, third = scripts(SHOP, 3)
    fail(monkeypatch, start=first.episode.task, step=second.episode.task)
    with server(SHOP) as url, client(url) as opened, closing(OpenEnvEnv(url=url)) as env:
        with pytest.raises(RuntimeError, match=FAILURE):
            opened.reset(task=first.episode.task)
        with pytest.raises(RuntimeError, match="reset first"):
            opened.step({"message": "search[cup]"})
        with pytest.raises(RuntimeError, match=FAILURE):
            follow(opened, second)
        with pytest.raises(RuntimeError, match="reset first"):
            opened.step({"message": "search[cup]"})
        assert follow(opened, third) == third.episode
        with pytest.raises(InfrastructureError, match=FAILURE):
            env.reset(options={"task": 0})
        env.reset(options={"task": 1})
        env.step(second.actions[0])
        with pytest.raises(InfrastructureError, match=FAILURE):
            env.step(second.actions[1])
        with pytest.raises(InfrastructureError, match="reset"):
            env.step(second.actions[1])
        assert env.reset(options={"task": 2})[0] == third.episode.observations[0]


def test_a_lost_server_is_an_infrastructure_failure() -> None:
    """In a step, and no step reaches a session that another server opens at the address."""
    with server(SHOP) as url:
        env = OpenEnvEnv(url=url, timeout=5)
        env.reset(options={"task": 0})
    with pytest.raises(InfrastructureError, match="does not answer"):
        env.step("search[cup]")
    with pytest.raises(InfrastructureError, match="no session"):
        env.reset(options={"task": 0})
    with pytest.raises(InfrastructureError, match="no answer"):
        OpenEnvEnv(url=url, timeout=5)


def test_a_snapshot_continues_in_another_session() -> None:
    """`state` gives it and `reset` takes it; another world's is an error."""
    script = next(script for script in scripts(SHOP, 5) if len(script.actions) > 2)
    with server(SHOP) as url, client(url) as one, client(url) as other:
        one.reset(task=script.episode.task)
        one.step({"message": script.actions[0]})
        state = one.state()
        assert state["step_count"] == 1 and state["task_id"] == script.episode.task
        seen = other.reset(injected_state=state["snapshot"], episode_id="again")
        assert seen.observation["text"] == script.episode.observations[1]
        assert other.state() == {**state, "episode_id": "again"}
        assert other.step({"message": script.actions[1]}).observation["text"] == script.episode.observations[2]
        with pytest.raises(RuntimeError, match="not a snapshot"):
            one.reset(injected_state="{}")


def test_a_world_behind_a_server_is_restored_by_its_replies() -> None:
    """In another environment; a server that answers differently is refused, and nothing changes."""
    script = next(script for script in scripts(SHOP, 5) if len(script.actions) > 2)
    number = int(script.episode.task.rpartition("/")[2])
    with server(SHOP) as url, closing(OpenEnvEnv(url=url)) as one, closing(OpenEnvEnv(url=url)) as other:
        one.reset(options={"task": number})
        one.step(script.actions[0])
        other.restore(one.snapshot())
        assert other.snapshot() == one.snapshot()
        assert other.step(script.actions[1]) == one.step(script.actions[1])
        broken = json.loads(one.snapshot())
        broken["state"]["replies"][0] = "click[nothing]"
        before = other.snapshot()
        with pytest.raises(SnapshotError, match="differently"):
            other.restore(json.dumps(broken).encode())
        assert other.snapshot() == before


def test_a_text_is_a_call_of_act_that_does_the_same() -> None:
    """With the field of the server's action as argument, so that rows for tool-calling models have it."""
    script = next(script for script in scripts(SHOP, 5) if len(script.actions) > 2)
    number, text = int(script.episode.task.rpartition("/")[2]), "search[lamp]"
    with server(SHOP) as url, closing(OpenEnvEnv(url=url)) as env:
        env.reset(options={"task": number})
        call = call_of_text(text, env.call_forms(), offered_tools(env))
        assert call == ("act", {"message": text})
        seen = env.step(text)
        env.reset(options={"task": number})
        assert env.step(call_text(env, offered_tools(env), call[0], json.dumps(call[1]))) == seen


def test_the_task_api_lists_tasks() -> None:
    """Splits, numbers, tasks and ranges, over HTTP."""
    with server(SHOP) as url:
        (name,) = requests.get(f"{url}/list_environments", timeout=30).json()
        assert name == "shop"
        splits = requests.get(f"{url}/shop/splits", timeout=30).json()
        assert splits[1] == {"name": "valid", "type": "validation"}

        def ask(what: str, **body: Any) -> Any:
            return requests.post(f"{url}/shop/{what}", json=body, timeout=30)

        assert ask("num_tasks", split="test").json() == {"num_tasks": 60}
        assert ask("task", split="test", index=7).json()["task"]["id"] == "shop/test/medium/7"
        tasks = ask("task_range", split="train", start=3, stop=5).json()["tasks"]
        assert [task["index"] for task in tasks] == [3, 4] and tasks[0]["instruction"]
        assert ask("task", split="test", index=60).status_code == 400


class MoveAction(Action):
    """An action with two fields."""

    by: int
    why: str = ""


class CountObservation(Observation):
    """An observation with two fields."""

    total: int
    note: str = ""


class Counter(Environment[MoveAction, CountObservation, State]):
    """A world that knows nothing of ours: count from the seed to 10 or above."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> CountObservation:
        """Begin at the seed."""
        self.total = seed or 0
        return CountObservation(total=self.total)

    def step(self, action: MoveAction, timeout_s: float | None = None, **_: Any) -> CountObservation:
        """Add to the total."""
        if action.by == 99:
            raise OSError(FAILURE)
        self.total += action.by
        over = self.total >= 10
        return CountObservation(total=self.total, note=action.why, done=over, reward=1.0 if over else 0.25)

    @property
    def state(self) -> State:
        """Nothing."""
        return State()


@pytest.fixture
def counter() -> Iterator[OpenEnvEnv]:
    """Another package's server as our world."""
    app = create_app(Counter, MoveAction, CountObservation, env_name="counter", max_concurrent_envs=4)
    with serving(app) as url, closing(EnvSpec("openenv", {"url": url, "max_steps": 4}).make()) as env:
        assert isinstance(env, OpenEnvEnv)
        yield env


def test_a_foreign_server_plays(counter: OpenEnvEnv) -> None:
    """Without a task API a task is a seed. An action is a JSON object or a tool call; a wrong one is an observation."""
    counter.reset(options={"task": 1, "split": "test"})
    assert json.loads(counter._last)["total"] == 5, "3 * 1 + 2"
    (tool,) = counter.tools()
    assert counter.call_forms() == {}
    assert set(tool["function"]["parameters"]["properties"]) == {"by", "why"}
    for reply, words in [("go", "JSON object"), ('{"by": "much"}', "by"), ("{}", "by"), ('{"by": 1, "to": 2}', "to")]:
        counter.reset(options={"task": 1})
        observation, reward, *_, info = counter.step(reply)
        assert words in observation and reward == 0 and not info["valid_action"] and counter.stop_reason is None
    counter.reset(options={"task": 1})
    observation, reward, terminated, _, info = counter.step('{"by": 2, "why": "so"}')
    assert (observation, reward, terminated, info["success"]) == ("so", 0.25, False, False)
    call = 'Thought: on.\nAction: act\nAction Input: {"by": 5}'
    _, reward, terminated, _, info = counter.step(call)
    assert (reward, terminated, info["success"]) == (1.0, True, True)
    with pytest.raises(ConfigError, match="no expert"):
        counter.expert()


def test_a_foreign_error_is_an_infrastructure_failure(counter: OpenEnvEnv) -> None:
    """An exception of the server's world, whatever its cause."""
    counter.reset(options={"task": 0})
    with pytest.raises(InfrastructureError, match=FAILURE):
        counter.step('{"by": 99}')


class Blocking(Counter):
    """The same world, whose step blocks the event loop of its server, so that it answers no ping."""

    async def step_async(self, action: MoveAction, timeout_s: float | None = None, **_: Any) -> CountObservation:
        """Take as many seconds as are added."""
        time.sleep(action.by)
        return self.step(action)


def test_a_slow_step_has_until_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """After it the episode is an infrastructure failure; pings of the connection do not end it before."""
    impatient = partial(agentgym_openenv_world.connect, ping_interval=0.2, ping_timeout=0.2)
    monkeypatch.setattr(agentgym_openenv_world, "connect", impatient)
    app = create_app(Blocking, MoveAction, CountObservation, env_name="blocking", max_concurrent_envs=4)
    with serving(app) as url, closing(OpenEnvEnv(url=url, timeout=3)) as env:
        env.reset(options={"task": 0})
        assert env.step('{"by": 2}')[1] == 0.25
        with pytest.raises(InfrastructureError, match="does not answer: TimeoutError"):
            env.step('{"by": 5}')


def test_the_package_is_valid_and_its_oracle_has_the_reward(tmp_path: Path) -> None:
    """`agentgym-openenv init`, `openenv validate`, and the last step from the injected state."""
    folder, scripts_folder = tmp_path / "my_todo", Path(sys.executable).parent
    words = [str(scripts_folder / "agentgym-openenv"), "init", "todo", str(folder)]
    subprocess.run(words, check=True, capture_output=True)
    done = subprocess.run(
        [str(scripts_folder / "openenv"), "validate", str(folder), "--level", "static"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "PASS" in done.stdout, done.stdout + done.stderr
    code = "import server.app; print(server.app.app.title)"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)
    oracle = json.loads((folder / "oracle.json").read_text())
    environment = AgentGymEnvironment(EpisodeSettings.of_world("todo"))
    environment.reset(injected_state=oracle["injected_state"])
    last = environment.step(AgentGymAction(**oracle["action"]))
    assert last.done and last.metadata["success"] and last.reward == oracle["reward"] > 0
    again = subprocess.run(words, capture_output=True, text=True)
    assert again.returncode and "exists" in again.stderr and "Traceback" not in again.stderr


def test_wrong_arguments_are_errors_at_once() -> None:
    """Of the server and of the world."""
    with pytest.raises(UnknownNameError, match="shop"):
        EpisodeSettings.of_world("shopp")
    with pytest.raises(UnknownNameError, match="train"):
        EpisodeSettings.of_world("shop", split="trian")
    with pytest.raises(ConfigError, match="url"):
        OpenEnvEnv(url="localhost:8000")
    with pytest.raises(ConfigError, match="timeout"):
        OpenEnvEnv(url="http://localhost:8000", timeout=0)
    with serving(FastAPI()) as url, pytest.raises(InfrastructureError, match="no server of OpenEnv"):
        OpenEnvEnv(url=url)
    with server(TODO) as url, closing(OpenEnvEnv(url=url)) as env:
        with pytest.raises(UnknownNameError, match="60 tasks"):
            env.task(60)
        with pytest.raises(UnknownNameError, match="openenv/test/any/17"):
            env.task("shop/train/any/1")
