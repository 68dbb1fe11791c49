"""MCP: a world's tools, played by the official client."""

from __future__ import annotations

import gc
import json
import math
import socket
import sys
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("mcp")

import anyio
import httpx2
import uvicorn
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from scripted import SEED, WORLDS, Played, Script, World, plays_as_directly
from scripts import load_script

import agentgym_py as ag
from agentgym_py import registry
from agentgym_py.agents.chat import call_text, offered_tools
from agentgym_py.cli import whole_requests
from agentgym_py.cli.server_options import LOOPBACK, listen, server_config
from agentgym_py.collection.replay import replay_all
from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.rng import Rng, seed_of
from agentgym_py.serving.mcp_server import ENDED_NOTE, PATH, EpisodeServer, _Session, make_app
from agentgym_py.serving.tool_episode import EpisodeSettings, SessionLimits
from agentgym_py.serving.world_threads import NoFreeThreadError, WorldThreads
from agentgym_py.trajectory import Step, Trajectory
from agentgym_py.trajectory.store import read
from agentgym_py.trajectory.types import BY_TOOLS, opening_text, tool_rules

COMMAND = "import sys; from agentgym_py.cli import main; sys.exit(main())"


def texts(result: Any) -> list[str]:
    """The texts of a tool's result."""
    return [block.text for block in result.content]


async def play(client: Client, steps: Iterator[tuple[str, dict[str, Any]]]) -> list[str]:
    """Make calls until the episode ends; return its observations."""
    seen = []
    for name, arguments in steps:
        result = await client.call_tool(name, arguments)
        seen.append(texts(result)[0])
        if ENDED_NOTE in texts(result):
            break
    return seen


# ---- the same episodes through the protocol and directly ------------------------------------------------------------


def test_fifty_tasks_are_the_same_through_the_protocol_and_directly() -> None:
    """The expert's calls lead to equal observations, rewards, ends and states at the start; no answer has a reward."""
    direct = ag.collect("tools", tasks=50, split="test", play=ag.PlayConfig(seed=7, prompt="full"))
    assert len({step.action for trajectory in direct for step in trajectory.steps}) > 20
    played = list[Trajectory]()
    server = EpisodeServer(EpisodeSettings(EnvSpec("tools"), "test", seed=7), played.append)
    answers = list[str]()

    async def all_tasks() -> None:
        for number, trajectory in enumerate(direct):
            async with Client(server.single(), mode=("auto", "legacy")[number % 2]) as client:
                opening = opening_text(tool_rules(trajectory.rules), trajectory.steps[0].observation)
                assert client.instructions == opening and opening.count(BY_TOOLS) == 1
                if number < 5:
                    prompt: Any = (await client.get_prompt("task")).messages[0].content
                    assert prompt.text == opening
                    tools = (await client.list_tools()).tools
                    assert {step.action for step in trajectory.steps} <= {tool.name for tool in tools}
                for step in trajectory.steps:
                    result = await client.call_tool(step.action, json.loads(step.action_input or "{}"))
                    answers.append(result.model_dump_json())
                assert texts(result) == [trajectory.final_observation, ENDED_NOTE]

    anyio.run(all_tasks)
    assert [comparable(trajectory) for trajectory in played] == [comparable(trajectory) for trajectory in direct]
    assert sum(trajectory.success for trajectory in played) == 50 and all(result.holds for result in replay_all(played))
    assert not any("reward" in answer for answer in answers)


def comparable(trajectory: Trajectory) -> Trajectory:
    """Without the agent's name and words."""
    steps = tuple(replace(step, reply="", thought="") for step in trajectory.steps)
    provenance = replace(trajectory.provenance, agent="", sampling={}, seed=0)
    return replace(trajectory, id="", provenance=provenance, steps=steps)


def random_call(tool: dict[str, Any], observation: str, rng: Rng) -> tuple[str, dict[str, Any]]:
    """A call with a tool's parameters, or some of them; texts are words of the observation."""
    words = [word.strip(".,:") for word in observation.split()] or ["it"]
    properties = tool["function"]["parameters"]["properties"]
    values = {
        name: rng.choice(schema["enum"]) if "enum" in schema
        else rng.below(9) if schema.get("type") in ("integer", "number")
        else rng.choice(words)
        for name, schema in properties.items()
    }  # fmt: skip
    return tool["function"]["name"], {name: value for name, value in values.items() if rng.below(20)}


@pytest.mark.parametrize("world", registry.names("agentgym.envs"))
def test_every_world_answers_as_it_does_directly(world: str) -> None:
    """Random calls of its tools: the same observations, tools, validity, rewards and ends."""
    spec, played = EnvSpec(world, {"max_steps": 8}), list[Trajectory]()
    server = EpisodeServer(EpisodeSettings(spec, "test"), played.append)
    env, rng = spec.make(), Rng(f"calls of {world}")

    async def one_task() -> list[Step]:
        task = env.task(0, "test")
        observation, _ = env.reset(seed=seed_of(0, "world", task.id), options={"task": task.id})
        steps = list[Step]()
        async with Client(server.single()) as client:
            assert client.instructions == f"{tool_rules(env.rules['full'])}\n\n{observation}"
            while env.stop_reason is None:
                tools = offered_tools(env)
                if len(steps) < 2:
                    offered = (await client.list_tools()).tools
                    assert [(tool.name, tool.input_schema) for tool in offered] == [
                        (tool["function"]["name"], tool["function"]["parameters"]) for tool in tools
                    ]
                name, arguments = random_call(rng.choice(tools), observation, rng)
                result = await client.call_tool(name, arguments)
                text = call_text(env, tools, name, json.dumps(arguments, ensure_ascii=False))
                before, (observation, reward, _, _, info) = observation, env.step(text)
                assert (texts(result)[0], result.is_error) == (observation, not info["valid_action"])
                reply = env.last_reply
                assert reply is not None
                steps.append(
                    Step(before, text, reply.thought, reply.action, reply.action_input, reward, info["valid_action"],
                         info["reward_parts"], costs=info.get("costs", {}))
                )  # fmt: skip
            assert texts(await client.call_tool(name, {})) == ["The episode has ended."]
        return steps

    steps = anyio.run(one_task)
    (trajectory,) = played
    assert (list(trajectory.steps), trajectory.stop_reason) == (steps, env.stop_reason)
    assert (trajectory.success, trajectory.final_observation) == (env.succeeded, env._last)


# ---- failures are no rewards -----------------------------------------------------------------------------------------


def odd(record: Callable[[Trajectory], None], **limits: Any) -> EpisodeServer:
    """A server of the world of `conftest`, which fails or hangs on demand."""
    return EpisodeServer(EpisodeSettings(EnvSpec("OddForTests-v0")), record, SessionLimits(**limits))


@pytest.mark.parametrize(
    ("action", "message"),
    [("fail", "RuntimeError"), ("nan", "nan"), ("hang", "did not answer in 2 s")],
)
def test_a_world_that_fails_is_an_error_of_the_protocol(action: str, message: str, woken: threading.Event) -> None:
    """It is no answer of the tool and no reward 0: the trajectory has an error, and further calls repeat it."""
    played = list[Trajectory]()

    async def fail() -> None:
        async with Client(odd(played.append, longest=2 if action == "hang" else 30).single()) as client:
            assert texts(await client.call_tool("act", {"action": "x"})) == ["1"]
            for _ in range(2):
                with pytest.raises(MCPError, match=message):
                    await client.call_tool("act", {"action": action})
        woken.set()

    anyio.run(fail)
    (trajectory,) = played
    assert (trajectory.stop_reason, len(trajectory.steps), trajectory.is_evidence) == (StopReason.ERROR, 1, False)
    assert message in str(trajectory.error)


def test_a_client_that_leaves_gives_up_unless_the_server_stops() -> None:
    """The first is evidence about the agent, the last an infrastructure failure. No client of a pipe is closed."""
    played = list[Trajectory]()

    async def leave(server: EpisodeServer, before: Callable[[], Awaitable[None]]) -> None:
        async with Client(server.single()) as client:
            await client.list_tools()
            await before()

    async def each() -> None:
        await leave(odd(played.append), anyio.lowlevel.checkpoint)
        await leave(odd(played.append, idle=0.01), lambda: anyio.sleep(0.05))
        await leave(stopped := odd(played.append), lambda: stopped.stop())

    anyio.run(each)
    assert [(trajectory.stop_reason, trajectory.error) for trajectory in played] == [
        (StopReason.GAVE_UP, None),
        (StopReason.GAVE_UP, None),
        (StopReason.ERROR, "the server was stopped"),
    ]


def test_a_call_that_its_client_cancels_is_done_before_the_next(woken: threading.Event) -> None:
    """A world is in one thread at a time; the step is part of the episode."""
    played, seen = list[Trajectory](), list[str]()

    async def next_call(client: Client) -> None:
        seen.extend(texts(await client.call_tool("act", {"action": "x"})))

    async def cancel() -> None:
        async with Client(odd(played.append).single(), mode="legacy") as client:
            await client.list_tools()
            with anyio.move_on_after(0.3) as scope:
                await client.call_tool("act", {"action": "hang"})
            assert scope.cancelled_caught
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(next_call, client)
                await anyio.sleep(0.3)
                woken.set()

    anyio.run(cancel)
    assert (seen, [step.action for step in played[0].steps]) == (["2"], ["hang", "x"])


def test_waiting_for_a_thread_is_no_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that a call may take begins with the call."""
    played, answers = list[Trajectory](), list[str]()
    monkeypatch.setattr(type(EnvSpec("OddForTests-v0").make()), "woken", Sleeper(1.3))

    async def play(server: EpisodeServer) -> None:
        async with Client(server.single()) as client:
            answers.extend(texts(await client.call_tool("act", {"action": "hang"})))

    async def both() -> None:
        server = odd(played.append, threads=1, longest=2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play, server)
            tasks.start_soon(play, server)

    anyio.run(both)
    assert answers == ["1", "1"] and all(trajectory.is_evidence for trajectory in played)


class Sleeper:
    """An event that comes after some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def wait(self, _: float) -> None:
        """Sleep until then."""
        time.sleep(self.seconds)


def test_a_thread_that_returns_serves_again(woken: threading.Event) -> None:
    """A world that was too slow once does not end the server."""
    server, answers = odd(lambda _: None, threads=1, longest=0.5), list[str]()

    async def play() -> None:
        async with Client(server.single()) as client:
            with pytest.raises(MCPError, match="did not answer"):
                await client.call_tool("act", {"action": "hang"})
        assert not server.threads.is_healthy
        woken.set()
        with anyio.fail_after(30):
            while not server.threads.is_healthy:
                await anyio.sleep(0.01)
        async with Client(server.single()) as client:
            answers.extend(texts(await client.call_tool("act", {"action": "x"})))

    anyio.run(play)
    assert answers == ["1"]


@pytest.mark.parametrize("method", ["begin", "act", "close"])
def test_a_world_that_returns_late_is_closed(
    method: str, monkeypatch: pytest.MonkeyPatch, woken: threading.Event
) -> None:
    """Once, and only then, whether it hangs at its start, in a step or as it is closed: it may hold processes."""
    world: Any = type(EnvSpec("OddForTests-v0").make())
    real, closed = getattr(world, method), list[Any]()

    def hangs(self: Any, *args: Any) -> Any:
        woken.wait(60)
        return real(self, *args)

    def close(self: Any) -> None:
        closed.append(woken.is_set())
        if method == "close":
            woken.wait(60)

    monkeypatch.setattr(world, method, hangs)
    monkeypatch.setattr(world, "close", close)

    async def play() -> None:
        server = odd(lambda _: None, longest=0.5)
        session = _Session(server, 0, math.inf)
        server.sessions.add(session)
        with suppress(MCPError):
            await session.call("act", {"action": "x"}, "test")
        await session.close()
        assert closed == ([False] if method == "close" else [])
        woken.set()
        with anyio.fail_after(30):
            while server.threads.busy or not closed:
                await anyio.sleep(0.01)
        await anyio.sleep(0.1)

    anyio.run(play)
    assert closed == [method != "close"]


def test_a_busy_server_leaves_the_episode_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client may call again."""
    played, answers = list[Trajectory](), list[str]()

    async def busy(_: WorldThreads, work: Callable[[], Any]) -> Any:
        raise NoFreeThreadError("no thread was free for 30 s")

    async def play() -> None:
        async with Client(odd(played.append).single()) as client:
            await client.list_tools()
            with monkeypatch.context() as patch:
                patch.setattr(WorldThreads, "run", busy)
                with pytest.raises(MCPError, match="no thread was free for 30 s; try again"):
                    await client.call_tool("act", {"action": "x"})
            answers.extend(texts(await client.call_tool("act", {"action": "x"})))

    anyio.run(play)
    assert answers == ["1"] and played[0].is_evidence


def test_others_are_served_while_a_trajectory_waits_for_its_file() -> None:
    """Another server may hold the file for seconds."""
    served, was_served = threading.Event(), list[bool]()
    server = odd(lambda _: was_served.append(served.wait(10)))

    async def leave() -> None:
        async with Client(server.single()) as client:
            await client.list_tools()

    async def play() -> None:
        async with Client(server.single()) as client:
            await client.list_tools()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leave)
                await anyio.sleep(0.2)
                await client.call_tool("act", {"action": "x"})
                served.set()

    anyio.run(play)
    assert was_served[0]


def test_a_trajectory_that_cannot_be_written_is_an_error() -> None:
    """Of the call that ended the episode: no reward is lost in silence."""

    def full(_: Trajectory) -> None:
        raise OSError("No space left on device")

    async def end() -> None:
        server = EpisodeServer(EpisodeSettings(EnvSpec("OddForTests-v0", {"max_steps": 1})), full)
        async with Client(server.single()) as client:
            with pytest.raises(MCPError, match="cannot be written: No space left"):
                await client.call_tool("act", {"action": "x"})

    anyio.run(end)


# ---- stdio and HTTP --------------------------------------------------------------------------------------------------


def test_a_client_starts_the_command(tmp_path: Path) -> None:
    """Over stdio: what the world prints is not in the protocol, and two episodes are in one file."""
    text = (Path(__file__).parents[2] / "examples" / "my_world.py").read_text(encoding="utf-8")
    head = "    def act(self, reply: Reply) -> Outcome:\n"
    assert head in text
    top = "from __future__ import annotations\n"
    text = text.replace(top, f"{top}print('at import')\n").replace(head, f"{head}        print(reply)\n")
    (tmp_path / "printing.py").write_text(text)
    file = tmp_path / "record.jsonl"
    words = ["-c", COMMAND, "mcp", "--env", str(tmp_path / "printing.py"), "--record", str(file)]

    async def start() -> None:
        for _ in range(2):
            program = StdioServerParameters(command=sys.executable, args=[*words, "--task", "3"])
            with open(tmp_path / "err", "w") as err:  # noqa: PTH123
                async with Client(stdio_client(program, err)) as client:
                    assert client.instructions
                    await client.call_tool("act", {"action": "1"})

    anyio.run(start)
    first, second = read(file)
    assert first.id != second.id and comparable(first) == comparable(second)
    assert (first.stop_reason, len(first.steps), first.task_id.endswith("/3")) == (StopReason.GAVE_UP, 1, True)


@contextmanager
def serving(episodes: EpisodeServer, token: str | None = None) -> Iterator[str]:
    """Serve in a thread; the address."""
    with listen(LOOPBACK, 0) as at:
        config = server_config(make_app(episodes, LOOPBACK, token))
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, args=([at],), daemon=True)
        thread.start()
        yield f"http://{LOOPBACK}:{at.getsockname()[1]}/mcp"
        running.should_exit = True
        thread.join(20)


async def failure(client: Client) -> str:
    """Connect and make a call; the message of the error, which the client wraps in groups."""
    try:
        async with client:
            await client.call_tool("look", {})
    except Exception as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        assert isinstance(error, MCPError), error
        return str(error)
    raise AssertionError("there was no error")


def play_scripts(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play each script in a session over HTTP, all at once; rewards and ends are those of the record."""
    seen, record = dict[str, tuple[str, ...]](), list[Trajectory]()
    settings = EpisodeSettings(world.spec, seed=SEED, prompt="none", tools=world.tools)
    server = EpisodeServer(settings, record.append)

    async def session(url: str, script: Script) -> None:
        task = script.episode.task
        async with Client(f"{url}?task={task}") as client:
            results = [await client.call_tool(name, arguments) for name, arguments in script.calls]
            seen[task] = (str(client.instructions), *(texts(result)[0] for result in results))
            ends = script.episode.stop_reason is not StopReason.GAVE_UP
            assert [ENDED_NOTE in texts(result) for result in results] == [False] * (len(results) - 1) + [ends]
            assert not any("reward" in result.model_dump_json() for result in results)

    async def sessions(url: str) -> None:
        async with anyio.create_task_group() as group:
            for script in scripts:
                group.start_soon(session, url, script)

    with serving(server) as url:
        anyio.run(sessions, url)
    episodes = {trajectory.task_id: trajectory for trajectory in record}
    assert len(record) == len(episodes)
    return [
        Played(
            task, seen[task], tuple(step.reward for step in episodes[task].steps), episodes[task].success,
            StopReason(str(episodes[task].stop_reason)),
        )
        for task in (script.episode.task for script in scripts)
    ]  # fmt: skip


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_the_scripted_agent_plays_as_directly(world: World) -> None:
    """50 tasks, each in a session of its own: also episodes that are given up, or full of wrong calls."""
    plays_as_directly(world, play_scripts)


def test_each_connection_is_an_episode_with_a_task_of_its_own() -> None:
    """Over HTTP: tasks 0 and 1, or the one in the address; as many sessions as allowed."""
    played = list[Trajectory]()
    limits = SessionLimits(sessions=3)
    server = EpisodeServer(EpisodeSettings(EnvSpec("maze"), "test"), played.append, limits)

    async def connect(url: str) -> None:
        async with Client(url) as one, Client(url) as other, Client(f"{url}?task=maze/valid/medium/5") as named:
            for client in (one, named, other, one):
                await client.call_tool("look", {})
            assert "Too many open sessions" in await failure(Client(url))
        assert "maze/valid/medium/x" in await failure(Client(f"{url}?task=maze/valid/medium/x"))
        assert "an episode needs a session" in await failure(Client(url, mode="2026-07-28"))

    with serving(server) as url:
        anyio.run(connect, url)
    steps = {trajectory.task_id: len(trajectory.steps) for trajectory in played}
    assert steps == {"maze/test/medium/0": 2, "maze/test/medium/1": 1, "maze/valid/medium/5": 1}
    assert {trajectory.stop_reason for trajectory in played} == {StopReason.GAVE_UP}


def test_a_session_without_requests_is_closed() -> None:
    """Its episode is an infrastructure failure, and its client must open another session."""
    played = list[Trajectory]()
    server = EpisodeServer(EpisodeSettings(EnvSpec("maze")), played.append, SessionLimits(idle=2))

    async def wait(url: str) -> None:
        async with Client(url) as client:
            while not played:
                await anyio.sleep(0.05)
            with pytest.raises(MCPError):
                await client.call_tool("look", {})

    with serving(server) as url:
        anyio.run(wait, url)
    assert [trajectory.error for trajectory in played] == ["the client was silent for 2 s"]


def test_a_client_that_pings_is_not_silent() -> None:
    """It gives up when it leaves, also if its last call is longer ago than a session may be silent."""
    played = list[Trajectory]()
    server = EpisodeServer(EpisodeSettings(EnvSpec("maze")), played.append, SessionLimits(idle=2))

    async def ping(url: str) -> None:
        async with Client(url, mode="legacy") as client:
            await client.call_tool("look", {})
            for _ in range(3):
                await anyio.sleep(0.8)
                await client.send_ping()

    with serving(server) as url:
        anyio.run(ping, url)
    assert [(trajectory.stop_reason, trajectory.error) for trajectory in played] == [(StopReason.GAVE_UP, None)]


def test_the_world_of_a_closed_session_is_freed() -> None:
    """At once, although mcp keeps the session until Python collects cycles."""
    server = EpisodeServer(EpisodeSettings(EnvSpec("maze")), lambda _: None)
    episodes = list[weakref.ref[Any]]()

    async def connect(url: str) -> None:
        async with Client(url) as client:
            await client.call_tool("look", {})
            episodes.extend(weakref.ref(session._episode) for session in server.sessions if session._episode)

    with serving(server) as url:
        gc.disable()
        try:
            anyio.run(connect, url)
            ends = time.monotonic() + 20
            while episodes[0]() is not None and time.monotonic() < ends:
                time.sleep(0.05)
            assert episodes[0]() is None and not server.sessions
        finally:
            gc.enable()


def test_nothing_stays_of_clients_that_behave_badly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No session and no line in the log; a good client is served. `benchmarks/soak_mcp.py` does it for longer."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    soak_mcp = load_script("benchmarks/soak_mcp.py")
    monkeypatch.setattr(soak_mcp, "_PAUSE", 0.1)
    monkeypatch.setattr(sys.modules[soak_mcp.Target.__module__], "_GLANCE", 0.1)
    monkeypatch.setattr(whole_requests, "_REQUEST_SECONDS", 0.3)
    server = EpisodeServer(EpisodeSettings(EnvSpec("tools")), lambda _: None, SessionLimits(idle=1), 0)
    with serving(server, "a-token-for-tests") as url:
        target = soak_mcp.Target(url, "a-token-for-tests")
        for number in range(3 * len(soak_mcp.BEHAVIOURS)):
            behave = soak_mcp.BEHAVIOURS[number % len(soak_mcp.BEHAVIOURS)]
            try:
                behave(target, Rng("bad clients", number))
            except OSError:
                assert behave is not soak_mcp.plays
        soak_mcp.good_episode(target)
        ends = time.monotonic() + 20
        while server.sessions and time.monotonic() < ends:
            time.sleep(0.05)
        assert not server.sessions
    assert [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_a_client_that_vanishes_within_its_request_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Many could fill the log; the next one is served."""
    server = EpisodeServer(EpisodeSettings(EnvSpec("maze")), lambda _: None)
    head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"

    async def look(url: str) -> None:
        async with Client(url) as client:
            assert not (await client.call_tool("look", {})).is_error

    with serving(server) as url:
        for _ in range(3):
            with socket.create_connection((LOOPBACK, urlsplit(url).port or 0), timeout=10) as connection:
                connection.sendall(f'{head}Accept: application/json, text/event-stream\r\n\r\n{{"jsonrpc'.encode())
                time.sleep(0.2)
        anyio.run(look, url)
    assert "ClientDisconnect" not in caplog.text


def test_strangers_are_refused() -> None:
    """A foreign `Host` or `Origin` (DNS rebinding), a request without the token, a stream, a long request."""
    server = EpisodeServer(EpisodeSettings(EnvSpec("maze")), lambda _: None, SessionLimits(request_bytes=2000))
    opening = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    }  # fmt: skip
    token = {"Authorization": "Bearer a-token-for-tests", "Accept": "application/json, text/event-stream"}

    async def with_token(url: str) -> None:
        http_client = httpx2.AsyncClient(headers=token)
        async with http_client, Client(streamable_http_client(url, http_client=http_client)) as client:
            assert "go" in [tool.name for tool in (await client.list_tools()).tools]

    with serving(server, "a-token-for-tests") as url:
        anyio.run(with_token, url)
        with httpx2.Client(headers=token) as client:
            assert client.post(url, json=opening).status_code == 200
            assert client.post(url, json=opening, headers={"Host": "evil.example"}).status_code == 421
            assert client.post(url, json=opening, headers={"Origin": "http://evil.example"}).status_code == 403
            assert client.post(url, json={**opening, "x": "x" * 3000}).status_code == 413
            assert client.get(url).status_code == 405
        assert httpx2.post(url, json=opening).status_code == 401
