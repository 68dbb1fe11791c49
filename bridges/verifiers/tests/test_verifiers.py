"""agentgym_verifiers against the real verifiers."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from shutil import which
from types import SimpleNamespace
from typing import Any

import pytest
import verifiers.v1 as vf
from agentgym_verifiers import AgentGymConfig, AgentGymTaskset, ChatHarness
from agentgym_verifiers_tools import AgentGymTools, AgentGymToolTaskset, EpisodeState
from chat_server import reply_of
from checks import FAILURE, fail, note_starts
from mcp.server.mcpserver import MCPServer
from scripted import SHOP, TODO, WORLDS, World, only_return, plays_as_directly, scores_so_far, scripts
from through import calls_of, play, play_tools, read, read_tools, run, run_command, run_tools, settings_of
from verifiers.v1.envs.single_agent import SingleAgentEnv
from verifiers.v1.utils.loaders import environment_class, harness_class, taskset_class

from agentgym_py.errors import InfrastructureError, UnknownNameError
from agentgym_py.serving.tool_episode import ToolEpisode
from agentgym_py.serving.tool_parameters import FAILED
from agentgym_py.trajectory.types import BY_TOOLS


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_verifiers_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks, in text."""
    plays_as_directly(world, play, visible=only_return)


def test_the_command_plays_as_one_plays_directly() -> None:
    """`vf-eval`, which stores the episodes: groups of two."""
    played = scripts(SHOP, 3)
    episodes = [read(episode) for episode in run_command(SHOP, reply_of(played), tasks=3, attempts=2)]
    assert episodes == [only_return(script.episode) for script in played for _ in range(2)]


@pytest.mark.skipif(which("uv") is None, reason="the harness `null` needs uv")
def test_the_command_plays_by_tool_calls() -> None:
    """`vf-eval` with the options of the README: two tasks."""
    played, options = scripts(SHOP, 2), ("--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess")
    stored = run_command(SHOP, calls_of(played), 2, 1, "agentgym-verifiers-tools", *options)
    assert [read_tools(episode) for episode in stored] == [only_return(script.episode) for script in played]


def test_a_group_starts_in_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """In that of a direct episode, to the byte."""
    played, starts = scripts(SHOP, 3), note_starts(monkeypatch)
    run(SHOP, reply_of(played), range(3), attempts=4)
    assert starts == {script.episode.task: [script.start] * 4 for script in played}


def test_an_infrastructure_failure_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the world at its start or in a step, and of the model's endpoint: an error, and no reward."""
    played = scripts(SHOP, 3)
    first, second, third = (script.episode.task for script in played)
    fail(monkeypatch, start=first, step=second)
    reply = reply_of(played)
    lost = played[2].episode.observations[1]
    episodes = run(SHOP, lambda messages: None if messages[-1]["content"] == lost else reply(messages), range(3))
    assert [episode.task.data.id for episode in episodes] == [first, second, third]
    assert not any(episode.ok for episode in episodes)
    assert not any(trace.rewards for episode in episodes for trace in episode.traces)
    assert all(FAILURE in episode.errors[0].message for episode in episodes[:2])
    assert episodes[2].traces[0].errors


@pytest.mark.parametrize("world", [SHOP, TODO], ids=lambda world: world.name)
def test_the_tool_server_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks, by its functions and the task's scores."""
    plays_as_directly(world, play_tools, visible=scores_so_far)


@pytest.mark.skipif(which("uv") is None, reason="the harness `null` needs uv")
def test_tool_calls_play_as_one_plays_directly() -> None:
    """Five tasks, which end in all ways, by the tool server and the harness `null`, in processes of their own."""
    played = scripts(SHOP, 5)
    episodes = [read_tools(e.model_dump(mode="json")) for e in run_tools(SHOP, calls_of(played), range(5))]
    assert episodes == [only_return(script.episode) for script in played]


def test_a_failure_behind_a_tool_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rollout stops, and its reward function raises an error, as verifiers wants it."""
    task = next(iter(AgentGymToolTaskset(AgentGymConfig(**settings_of(SHOP)))))
    server, state = AgentGymTools(vf.ToolsetConfig()), EpisodeState()

    def fails(*_: Any) -> Any:
        raise InfrastructureError(FAILURE)

    monkeypatch.setattr(ToolEpisode, "step", fails)
    asyncio.run(server.setup_task(task.data))
    assert server._call(state, "search", {"query": "cup"}) == server._call(state, "search", {"query": "cup"}) == FAILED
    assert state.error == FAILURE and state.reward == 0
    trace = SimpleNamespace(state=state, info={})
    assert asyncio.run(task.has_ended(trace))
    with pytest.raises(InfrastructureError, match=FAILURE):
        asyncio.run(task.outcome(trace))


HARNESSES = [
    pytest.param("null", marks=pytest.mark.skipif(which("uv") is None, reason="the harness `null` needs uv")),
    "patient-harness",
]


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_tool_server_that_dies_has_no_reward(harness: str) -> None:
    """Killed after the first call: an error, whether the harness fails too or tells the model. Alive, it plays."""
    (script,) = (script for script in scripts(SHOP, 1) if len(script.calls) > 1)
    reply = calls_of([script])

    def kill_and_reply(messages: list[dict[str, Any]]) -> Any:
        if sum(message["role"] == "assistant" for message in messages) == 1:
            os.kill(tool_server(), signal.SIGKILL)
        return reply(messages)

    (whole,) = run_tools(SHOP, reply, [0], harness)
    assert read_tools(whole.model_dump(mode="json")) == only_return(script.episode)
    (broken,) = run_tools(SHOP, kill_and_reply, [0], harness)
    (trace,) = broken.traces
    assert trace.errors and not trace.ok and "return" not in trace.rewards
    assert trace.state.steps == 1
    assert harness == "null" or "the tool server has died" in trace.errors[-1].message


def tool_server() -> int:
    """Return the process of the tool server that runs."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"agentgym_verifiers_tools" in (folder / "cmdline").read_bytes():
                return int(folder.name)
        except OSError:  # it has just ended
            continue
    raise AssertionError("no tool server runs")


@pytest.mark.parametrize("world", ["shop", "sheet", "service"])
def test_the_tool_server_lists_what_a_model_must_know(world: str) -> None:
    """Names, what is required, and the descriptions of all parameters."""
    task = next(iter(AgentGymToolTaskset(AgentGymConfig(env=world, id="agentgym-verifiers-tools"))))
    server, listed = AgentGymTools(vf.ToolsetConfig()), MCPServer("world")
    asyncio.run(server.setup_task(task.data))
    server.register(listed)
    schemas = {tool.name: (tool.description, tool.input_schema) for tool in asyncio.run(listed.list_tools())}
    assert list(schemas) == [tool["function"]["name"] for tool in server._episode.tools]
    for function in (tool["function"] for tool in server._episode.tools):
        description, schema = schemas[function["name"]]
        wanted = function["parameters"]
        assert description == function["description"]
        assert schema.get("required", []) == wanted.get("required", [])
        about = {key: value.get("description") for key, value in wanted["properties"].items()}
        assert {key: value.get("description") for key, value in schema["properties"].items()} == about


def test_the_rules_say_that_calls_replace_the_text() -> None:
    """In the prompt of a task and in the episode of its tool server, but not for a model that plays in text."""
    config = AgentGymConfig(env="shop", id="agentgym-verifiers-tools")
    (task,), (text,) = AgentGymToolTaskset(config).take(1), AgentGymTaskset(config).take(1)
    server = AgentGymTools(vf.ToolsetConfig())
    asyncio.run(server.setup_task(task.data))
    assert task.data.prompt == server._episode.opening and task.data.prompt.count(BY_TOOLS) == 1
    assert BY_TOOLS not in text.data.prompt


def test_a_null_of_a_required_parameter_reaches_the_world() -> None:
    """One of an optional parameter does not: it stands for a value that the model has not given."""
    server, calls = AgentGymTools(vf.ToolsetConfig()), list[Any]()
    kinds = {"type": ["string", "null"]}
    schema = {"properties": {"owner": kinds, "note": kinds}, "required": ["owner"]}
    server._call = lambda state, tool, arguments: calls.append(arguments) or ""
    asyncio.run(server._tool({"name": "assign", "parameters": schema})(owner=None, note=None))
    assert calls == [{"owner": None}]


def test_the_package_exports_one_of_each() -> None:
    """As verifiers looks plugins up; its harness is the taskset's default."""
    assert taskset_class("agentgym-verifiers") is AgentGymTaskset
    assert environment_class("agentgym-verifiers").__name__ == "AgentGymEnv"
    assert harness_class("agentgym-verifiers") is ChatHarness
    assert taskset_class("agentgym-verifiers-tools") is AgentGymToolTaskset
    assert environment_class("agentgym-verifiers-tools") is SingleAgentEnv


def test_tasks_are_read_without_end() -> None:
    """In the order of their numbers; a wrong setting is an error."""
    taskset = AgentGymTaskset(AgentGymConfig(**settings_of(SHOP)))
    assert not taskset.bounded
    assert [task.data.id for task in taskset.take(3)] == [f"shop/train/medium/{number}" for number in range(3)]
    with pytest.raises(UnknownNameError, match="train"):
        next(iter(AgentGymTaskset(AgentGymConfig(id="agentgym-verifiers", split="trian"))))
