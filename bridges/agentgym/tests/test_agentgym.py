"""agentgym_agentenv and AgentGymServer-v0 against the real AgentGym."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest
import requests
from agentenv import envs
from agentgym_agentenv import JsonBody, make_app
from agentgym_agentenv_client import WorldTask
from agentgym_agentenv_dialects import DIALECTS
from agentgym_agentenv_world import GymServerEnv
from checks import FAILURE, fail, note_starts, serving
from fastapi import FastAPI
from scripted import SHOP, TASKS, WORLDS, World, plays_as_directly, scripts
from through import (
    CLIENTS,
    ScriptedAgent,
    follow,
    follow_back,
    play,
    play_back,
    rises,
    server,
    task_of,
    textcraft,
    textcraft_scripts,
    visible,
)

from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.errors import ConfigError, InfrastructureError, UnknownNameError
from agentgym_py.serving.tool_episode import EpisodeSettings, SessionLimits

CRAFT = World("textcraft", "get 1 nothing")
HOUSE = World("household", "fly")
OF_CLIENTS = [("textcraft", CRAFT), ("babyai", CRAFT), ("sciworld", CRAFT), ("alfworld", HOUSE), ("webshop", SHOP)]
"""Dialects whose client parses the action, with a world whose actions it lets through."""


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_agentgym_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks, by AgentGym's rollout loop and whole replies."""
    plays_as_directly(world, play, visible=visible)


@pytest.mark.parametrize(("dialect", "world"), OF_CLIENTS, ids=lambda value: getattr(value, "name", value))
def test_each_client_plays_its_dialect(dialect: str, world: World) -> None:
    """Ten tasks by AgentGym's own client class; the first observation of two clients has additions."""
    for number, script in enumerate(played := scripts(world, 10)):
        assert script.actions, number
    with server(world, dialect) as url:
        task = task_of(url, dialect)
        for number, script in enumerate(played):
            episode, wanted = follow(task, number, script), visible(script.episode)
            assert episode.observations[0].startswith(wanted.observations[0])
            assert episode.observations[1:] == wanted.observations[1:]
            assert (episode.rewards, episode.stop_reason) == (wanted.rewards, wanted.stop_reason)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_a_server_as_a_world_plays_as_the_world_itself(world: World) -> None:
    """The same tasks in `AgentGymServer-v0`, at our server."""
    plays_as_directly(world, play_back, visible=rises)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_world_speaks_every_dialect(dialect: str) -> None:
    """Ten tasks; only alfworld adds the admissible actions to the first observation."""
    played = scripts(HOUSE, 10)
    for episode, script in zip(play_back(HOUSE, played, dialect), played, strict=True):
        assert episode.observations[0].startswith(script.episode.observations[0])
        assert episode.observations[1:] == script.episode.observations[1:]
        assert (episode.rewards, episode.stop_reason) == (script.episode.rewards, script.episode.stop_reason)
        assert episode.success == script.episode.success


REPORTS = {
    "todo": [0.0, 0.5, 0.5, 1.0, 1.0],
    "todo, whose end state is wrong": [0.5, 1.0, 0.0],
    "weather": [1.0, 1.0, 1.0],
    "searchqa": [0.0, 0.0, 1.0],
}
"""The rewards that AgentGym's tool servers report in the steps of an episode: progress so far, plateaus included."""


@pytest.mark.parametrize("reports", REPORTS.values(), ids=REPORTS)
def test_the_progress_of_a_tool_server_counts_once(reports: list[float]) -> None:
    """The rewards sum to the last report, which AgentGym takes as the return."""
    app, steps = FastAPI(), list[str]()
    app.post("/create")(lambda: 0)
    app.post("/reset")(steps.clear)
    app.get("/observation")(lambda: "Now new trial starts.")

    @app.post("/step")
    def step(body: JsonBody) -> dict[str, Any]:
        steps.append(body["action"])
        done = len(steps) == len(reports)
        return {"observation": "Give me one action.", "reward": reports[len(steps) - 1], "done": done}

    with serving(app) as url, closing(GymServerEnv(url=url, dialect="tools")) as env:
        for _ in range(2):
            env.reset(options={"task": 0})
            rewards = [env.step("Action: finish\nAction Input: {}")[1] for _ in reports]
            assert rewards == [after - before for before, after in pairwise([0.0, *reports])]
            assert (env.succeeded, env.stop_reason) == (reports[-1] == 1, StopReason.TERMINATED)


def test_a_group_starts_in_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """In that of a direct episode, to the byte, for every client."""
    (script,), starts = scripts(SHOP, 1), note_starts(monkeypatch)
    with server(SHOP, "webshop") as url:
        for task in (task_of(url, "webshop"), task_of(url, "webshop")):
            task.clients[0].reset(0)
            task.clients[0].reset(0)
    assert starts == {script.episode.task: [script.start] * 4}


def test_an_infrastructure_failure_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status is 500: AgentGym's client raises an error, and so does our world; the next episode is whole."""
    _, second, third = scripts(SHOP, 3)
    fail(monkeypatch, step=second.episode.task)
    with server(SHOP, "tools") as url:
        task = WorldTask({"env_server_base": url, "data_len": 3})
        (client,) = task.clients
        client.reset(1)
        answers = [
            requests.post(f"{url}/step", json={"env_idx": client.env_id, "action": action}, timeout=30)
            for action in (*second.actions[:2], "search[cup]")
        ]
        assert [answer.status_code for answer in answers] == [200, 500, 400]
        assert FAILURE in answers[1].json()["error"] and "POST /reset" in answers[2].json()["error"]
        with pytest.raises(AssertionError) as raised:
            task.generate_experience(ScriptedAgent(second), 1)
        assert raised.traceback[-1].name == "_post", "AgentGym's client asserts that the status is 200"
        assert follow(task, 2, third) == visible(third.episode)
        assert client.close() is True
        with closing(GymServerEnv(url=url, dialect="tools", ranges={"train": [0, 3]})) as env:
            env.reset(options={"task": 1})
            env.step(second.actions[0])
            with pytest.raises(InfrastructureError, match=FAILURE):
                env.step(second.actions[1])
            with pytest.raises(InfrastructureError, match="reset"):
                env.step(second.actions[1])
            assert env.reset(options={"task": 2})[0] == third.episode.observations[0]
    with pytest.raises(InfrastructureError, match="no answer"):
        env.reset(options={"task": 2})


def test_wrong_requests_are_refused_and_silent_sessions_make_room() -> None:
    """By a status that is not 200, and an error that says what to do."""
    settings = EpisodeSettings.of_world("shop")
    with serving(make_app(settings, "textcraft", SessionLimits(sessions=1, idle=0.2))) as url:

        def post(path: str, body: Any) -> tuple[int, Any]:
            answer = requests.post(f"{url}/{path}", json=body, timeout=30)
            return answer.status_code, answer.json()

        status, answer = post("create", {"commands": None})
        assert (status, answer["id"]) == (200, 0) and post("create", {})[0] == 503
        for path, body, words in [
            ("step", {"id": 0, "action": "search[cup]"}, "POST /reset first"),
            ("step", {"id": 0}, "action must be a text"),
            ("reset", {"id": 0, "data_idx": "first"}, "data_idx must be a number"),
            ("reset", {"id": 0, "session_id": 5}, "data_idx must be a number"),
            ("reset", {"id": 7, "data_idx": 0}, "POST /create"),
            ("reset", {"id": 0, "data_idx": -1}, "No task"),
        ]:
            status, answer = post(path, body)
            assert status == 400 and words in answer["error"], answer
        assert post("reset", [])[0] == 422
        time.sleep(0.3)
        assert post("create", {})[1]["id"] == 1 and post("step", {"id": 0, "action": "x"})[0] == 400
        assert post("close", {"id": 1}) == (200, True) and post("close", {"id": 1}) == (200, False)


# ---- AgentGym's own TextCraft ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def craft_url() -> Iterator[str]:
    """AgentGym's TextCraft server."""
    with serving(textcraft().app) as url:
        yield url


def craft_env(url: str, **more: Any) -> GymServerEnv:
    """That server as a world of ours."""
    kwargs = {"url": url, "dialect": "textcraft", "ranges": {"train": [0, 400], "test": [400, 544]}} | more
    env = EnvSpec("gymserver", kwargs).make()
    assert isinstance(env, GymServerEnv)
    return env


def test_agentgyms_textcraft_plays_here_as_there(craft_url: str) -> None:
    """50 tasks by its own class, by its own client, and in `AgentGymServer-v0`: all are equal."""
    played = textcraft_scripts(TASKS)
    assert {script.episode.stop_reason for script in played} == {StopReason.TERMINATED, StopReason.GAVE_UP}
    task = task_of(craft_url, "textcraft")
    assert [follow(task, number, script) for number, script in enumerate(played)] == [s.episode for s in played]
    with closing(craft_env(craft_url)) as env:
        assert [follow_back(env, number, script) for number, script in enumerate(played)] == [s.episode for s in played]


def test_agentgyms_textcraft_is_restored(craft_url: str) -> None:
    """By repeating the replies in a second session."""
    script = next(script for script in textcraft_scripts(20) if len(script.actions) > 2)
    with closing(craft_env(craft_url)) as one, closing(craft_env(craft_url)) as other:
        one.reset(options={"task": script.episode.task})
        one.step(script.actions[0])
        other.restore(one.snapshot())
        assert other.snapshot() == one.snapshot()
        assert other.step(script.actions[1]) == one.step(script.actions[1])


def test_agentgyms_errors_are_infrastructure_failures(craft_url: str) -> None:
    """Its server answers 200 with an error, here after the session was closed by another."""
    with closing(craft_env(craft_url)) as env:
        env.reset(options={"task": 0})
        assert env._session is not None
        env._session._ask("POST", "close", env._session._who)  # type: ignore[attr-defined]
        with pytest.raises(InfrastructureError, match="not valid"):
            env.step("inventory")


def test_tasks_are_divided_among_the_splits(craft_url: str) -> None:
    """By ranges, which must not overlap, or by threes."""
    with closing(craft_env(craft_url)) as env:
        assert env.number_of("test", 3) == 403 and env.task(143, "test")
        with pytest.raises(UnknownNameError, match="144 tasks"):
            env.task(144, "test")
        with pytest.raises(UnknownNameError, match="0 tasks"):
            env.task(0, "valid")
    with closing(craft_env(craft_url, ranges=None)) as env:
        assert [env.number_of(split, 2) for split in ("train", "valid", "test")] == [6, 7, 8]
    with closing(craft_env(craft_url, ranges={"train": [0, 9], "test": [5, 5]})) as env:
        assert [env.task_count(split) for split in ("train", "test")] == [9, 0]
    wrong: list[Any] = [[0], 5, [10, 0], [-1, 5], [0, 1.5], "05"]
    with pytest.raises(ConfigError, match="in common"):
        craft_env(craft_url, ranges={"train": [0, 9], "test": [8, 9]})
    for limits in wrong:
        with pytest.raises(ConfigError, match="must be like"):
            craft_env(craft_url, ranges={"train": limits})
    with pytest.raises(UnknownNameError, match="textcraft"):
        craft_env(craft_url, dialect="textcrafts")
    with pytest.raises(ConfigError, match="url"):
        craft_env("localhost:1")
    with pytest.raises(ConfigError, match="timeout"):
        craft_env(craft_url, timeout=0)
    assert set(CLIENTS) == set(DIALECTS) and issubclass(CLIENTS["tools"], envs.TodoEnvClient)
