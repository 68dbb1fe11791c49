"""The scripted agent through verifiers, in this process or by `vf-eval`, with a local server of chat completions."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import verifiers.v1 as vf
from agentgym_verifiers import AgentGymConfig, AgentGymEnv, AgentGymEnvConfig
from agentgym_verifiers_tools import AgentGymTools, AgentGymToolTaskset, EpisodeState
from chat_server import Reply, chat_server, reply_of
from checks import play_rows
from scripted import MAX_STEPS, SEED, Call, Played, Script, World
from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.envs.single_agent import SingleAgentEnv, SingleAgentEnvConfig

from agentgym_py.env import StopReason


def calls_of(scripts: Sequence[Script]) -> Reply:
    """Follow the scripts by tool calls, and then stop."""
    by_opening = {script.episode.observations[0]: script.calls for script in scripts}

    def reply(messages: list[dict[str, Any]]) -> str | Call:
        turn = sum(message["role"] == "assistant" for message in messages)
        calls = by_opening[next(message["content"] for message in messages if message["role"] == "user")]
        return calls[turn] if turn < len(calls) else "I stop."

    return reply


def settings_of(world: World) -> dict[str, Any]:
    """Settings of the taskset."""
    return {
        "env": world.name, "env_kwargs": {"max_steps": MAX_STEPS}, "prompt": "none", "seed": SEED,
        "id": "agentgym-verifiers",
    }  # fmt: skip


def run(world: World, reply: Reply, tasks: Sequence[int], attempts: int = 1, max_turns: int | None = None) -> list[Any]:
    """Run `AgentGymEnv` on tasks by number, in this process; return its episodes, by task and attempt."""
    player = vf.AgentConfig(runtime=vf.SubprocessConfig(), max_turns=max_turns)
    env = AgentGymEnv(AgentGymEnvConfig(taskset=AgentGymConfig(**settings_of(world)), player=player))
    return run_env(env, reply, tasks, attempts)


def run_tools(world: World, reply: Reply, tasks: Sequence[int], harness: str = "null") -> list[Any]:
    """Run the tool form, as `run`."""
    agent = vf.AgentConfig.model_validate({"harness": {"id": harness}, "runtime": {"type": "subprocess"}})
    taskset = AgentGymConfig(**settings_of(world) | {"id": "agentgym-verifiers-tools"})
    env = SingleAgentEnv(SingleAgentEnvConfig(taskset=taskset, agent=agent))
    return run_env(env, reply, tasks, at_once=2)  # each starts two programs


def run_env(env: Any, reply: Reply, tasks: Sequence[int], attempts: int = 1, at_once: int = 8) -> list[Any]:
    """Run an environment on tasks by number; return its episodes, by task and attempt."""

    async def episodes(url: str) -> list[Any]:
        client = EvalClientConfig(base_url=url, api_key_var="NO_KEY")
        context = ModelContext(model="scripted", client=client, sampling=vf.SamplingConfig())
        chosen = env.taskset.include(idx=[str(number) for number in tasks])
        async with env.serving():
            slots = [slot for task in chosen for slot in env.slots(task, attempts)]
            limit = asyncio.Semaphore(at_once)
            return await asyncio.gather(*(env.run_slot(slot, context, limit) for slot in slots))

    os.environ["NO_KEY"] = "none"
    with chat_server(reply) as url:
        return asyncio.run(episodes(url))


def run_command(
    world: World, reply: Reply, tasks: int, attempts: int = 1, package: str = "agentgym-verifiers", *options: str
) -> list[dict[str, Any]]:
    """Run `vf-eval` on the first tasks; return its episodes as it stored them, by task."""
    folder = Path(tempfile.mkdtemp())
    settings = settings_of(world)
    del settings["id"]
    with chat_server(reply) as url:
        words = [
            str(Path(sys.executable).with_name("vf-eval")), package, *options,
            *(word for name, value in settings.items()
              for word in (f"--env.taskset.{name.replace('_', '-')}", value if name == "env" else json.dumps(value))),
            "-n", str(tasks), "-r", str(attempts), "-m", "scripted",
            "--client.base-url", url, "--client.api-key-var", "NO_KEY", "--no-push", "--no-rich", "-o", str(folder),
            "--run.dir", "run",
        ]  # fmt: skip
        words[words.index("--env.taskset.prompt") + 1] = settings["prompt"]
        env = os.environ | {"NO_KEY": "none"}
        done = subprocess.run(words, capture_output=True, text=True, timeout=1200, env=env)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    episodes = [json.loads(line) for line in (folder / "run" / "traces.jsonl").read_text().splitlines()]
    return sorted(episodes, key=lambda episode: episode["task"]["data"]["idx"])


def read(episode: Mapping[str, Any]) -> Played:
    """Read an episode as verifiers stores it."""
    (trace,) = episode["traces"]
    messages = [node["message"] for node in trace["nodes"]]
    turns = sum(message["role"] == "assistant" for message in messages)
    seen = [message["content"] for message in messages if message["role"] == "user"][:turns]
    assert trace["rewards"]["return"]["weight"] == 1 and trace["metrics"]["steps"] == turns
    return Played(
        trace["task"]["data"]["id"], (*seen, trace["info"]["final_observation"]),
        (trace["rewards"]["return"]["score"],), trace["metrics"]["success"] == 1,
        StopReason(trace["info"]["stop_reason"]),
    )  # fmt: skip


def read_tools(episode: Mapping[str, Any]) -> Played:
    """Read an episode of the tool form."""
    (trace,) = episode["traces"]
    assert episode["ok"], trace["errors"]
    messages = [node["message"] for node in trace["nodes"]]
    seen = [message["content"] for message in messages if message["role"] in ("user", "tool")]
    assert trace["rewards"]["return"]["weight"] == 1
    return Played(
        trace["task"]["data"]["id"], (*seen[: int(trace["metrics"]["steps"])], trace["info"]["final_observation"]),
        (trace["rewards"]["return"]["score"],), trace["metrics"]["success"] == 1,
        StopReason(trace["info"]["stop_reason"]),
    )  # fmt: skip


def play(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play the scripts; those that are given up end at a limit of one turn."""

    def play_some(numbers: Sequence[int], limit: int | None) -> list[Played]:
        episodes = run(world, reply_of(scripts), numbers, max_turns=limit)
        return [read(episode.model_dump(mode="json")) for episode in episodes]

    return play_rows(range(len(scripts)), scripts, play_some)


def play_tools(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play the scripts by the functions of the tool server, in this process: `run_tools` starts two programs a task."""
    config = AgentGymConfig(**settings_of(world) | {"id": "agentgym-verifiers-tools"})
    tasks = itertools.islice(AgentGymToolTaskset(config), len(scripts))
    return [asyncio.run(follow_tools(task, script)) for task, script in zip(tasks, scripts, strict=True)]


async def follow_tools(task: Any, script: Script) -> Played:
    """Play a script by the tool server's functions, and score it as verifiers does."""
    server, state = AgentGymTools(vf.ToolsetConfig()), EpisodeState()
    await server.setup_task(task.data)
    seen, scores = [task.data.prompt], list[float]()
    for name, arguments in script.calls:
        seen.append(server._call(state, name, arguments))
        scores.append(state.reward)
    trace = SimpleNamespace(state=state, info={})
    assert await task.outcome(trace) == {"return": scores[-1]}
    assert await task.steps(trace) == len(script.calls) and trace.info["final_observation"] == seen[-1]
    success, reason = await task.success(trace) == 1, StopReason(trace.info["stop_reason"])
    return Played(task.data.id, tuple(seen), tuple(scores), success, reason)


TIMED = {
    "through verifiers with a local server, which is in it": play,
    "through the functions of the tool server, without its process": play_tools,
}
