"""Any world of agentgym-py as a task of Inspect, by tool calls or in text.

    inspect eval agentgym_inspect/agentgym -T env=shop -T tasks=100 --model PROVIDER/MODEL

A sample is a task of the world. Its scores are `success` (0 or 1) and `return`. After a failure of the world or of the
model's endpoint it has an error and no score. So has one that is cancelled while its world is in a call.
`agentgym compare A.eval B.eval --score outcome/success` compares two logs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import anyio
from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError  # no public module of the package has it
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessage, ChatMessageTool, ChatMessageUser, get_model
from inspect_ai.scorer import Score, Scorer, Target, ci_wilson, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolInfo, ToolParams
from inspect_ai.util import LimitExceededError
from rich.markup import escape

from agentgym_py.checks import require_arguments
from agentgym_py.env import EnvSpec, Prompt
from agentgym_py.errors import AgentGymError, ConfigError, InfrastructureError, did_you_mean
from agentgym_py.serving.async_episode import AsyncEpisode
from agentgym_py.serving.tool_episode import EpisodeSettings, ToolEpisode

_OUTCOME = "agentgym"
"""Key of an episode's outcome in the metadata of a sample's state."""


@task
def agentgym(
    env: str = "shop", env_kwargs: Mapping[str, Any] | None = None, split: str = "test",
    tasks: int | list[int | str] = 100, tools: bool = True, prompt: Prompt = "full", seed: int = 0, **unknown: Any,
) -> Task:  # fmt: skip
    """A world of agentgym-py.

    Args:
        env: Name of the world.
        env_kwargs: Its arguments, such as `{"difficulty": "easy"}`.
        split: Split of the tasks.
        tasks: Their number, or a list of their numbers, which Inspect's `-T tasks=0,5` gives as text.
        tools: Whether the model calls tools; False: its text is the reply, as in `agentgym eval`.
        prompt: Which rules text opens an episode: `full`, `brief` or `none`.
        seed: Seed of the worlds: the same seed and task start in the same state, in every epoch.
        **unknown: None; with any other argument there is an error, because Inspect would only warn.

    Raises:
        PrerequisiteError: an argument is wrong, or there is no such world or task. Inspect prints it as one line.
    """
    arguments = {
        "env": env, "env_kwargs": env_kwargs, "split": split, "tasks": tasks, "tools": tools, "prompt": prompt,
        "seed": seed,
    }  # fmt: skip
    try:
        if unknown:
            name = next(iter(unknown))
            raise ConfigError(f"there is no argument {name!r}." + did_you_mean(name, arguments, "There are"))
        require_arguments(agentgym, arguments)
        spec = EnvSpec(env, dict(env_kwargs or {}))
        return _make_task(EpisodeSettings(spec, split, seed, prompt, calls=tools), tasks)
    except AgentGymError as error:
        raise PrerequisiteError(escape(str(error))) from error


def _make_task(settings: EpisodeSettings, tasks: int | list[int | str]) -> Task:
    try:
        numbers = range(tasks) if isinstance(tasks, int) else [int(number) for number in tasks]
    except ValueError as error:
        raise ConfigError(f"tasks must be a number or a list of numbers, such as 0,5, got {tasks!r:.100}") from error
    if not numbers:
        raise ConfigError("tasks is empty: give a number above 0, or a list of numbers")
    with closing(settings.spec.make()) as world:
        samples = [_sample(world, settings, number) for number in numbers]
        version = world.version
    dataset = MemoryDataset(samples, name=f"{settings.spec.local_spec.name}/{settings.split}")
    return Task(dataset=dataset, solver=play(settings), scorer=outcome(), version=version)


def _sample(world: Any, settings: EpisodeSettings, number: int) -> Sample:
    row = world.task(number, settings.split)
    about = {"kind": row.kind, "difficulty": row.difficulty, "optimal_steps": row.optimal_steps}
    return Sample(input=settings.opening(world, row.id), id=row.id, metadata=about)


@solver
def play(settings: EpisodeSettings) -> Solver:
    """Let the model play the sample's task; each tool call, or each text without a call, is one step."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        del generate  # it would run the tools itself
        live = await AsyncEpisode.start(partial(ToolEpisode, settings, str(state.sample_id)))
        episode, is_evidence = live.episode, True
        try:
            await _play(state, live)
        except Exception as error:
            is_evidence = isinstance(error, LimitExceededError)  # Inspect may score other errors, too
            raise
        finally:  # also after a time limit; one that comes within a call of the world says nothing about the model
            if is_evidence and not live.is_in_world:
                state.metadata[_OUTCOME] = {
                    "success": float(episode.env.succeeded), "return": sum(step.reward for step in episode.steps),
                    "steps": len(episode.steps), "stop_reason": episode.stop_reason or "gave_up",
                }  # fmt: skip
            with anyio.CancelScope(shield=True):
                await live.close()
        return state

    return solve


async def _play(state: TaskState, live: AsyncEpisode) -> None:
    """Play until the world ends the episode, the context is full or a limit of Inspect is reached."""
    model, episode = get_model(), live.episode
    while episode.stop_reason is None and not state.completed:
        offered = [_tool_info(tool["function"]) for tool in episode.tools] if episode.settings.calls else []
        state.output = await model.generate(state.messages, offered)
        state.messages.append(state.output.message)
        if state.output.stop_reason == "model_length":
            return
        state.messages += await _steps(state, live)


async def _steps(state: TaskState, live: AsyncEpisode) -> Sequence[ChatMessage]:
    """Do what the model's last message says; return the observations."""
    message = state.output.message
    if not message.tool_calls:
        turn = await live.step(message.text)
        return [ChatMessageUser(content=turn.observation)]
    answers = []
    for call in message.tool_calls:
        if call.parse_error is None:
            turn = await live.call(call.function, call.arguments)
        else:  # Inspect leaves its arguments empty, which may be a valid call: this is an error in every world
            turn = await live.step(json.dumps({"name": call.function, "arguments": "broken JSON"}))
        answers.append(ChatMessageTool(content=turn.observation, tool_call_id=call.id, function=call.function))
    return answers


def _tool_info(function: Mapping[str, Any]) -> ToolInfo:
    parameters = ToolParams.model_validate(function["parameters"])
    return ToolInfo(name=function["name"], description=function.get("description") or "", parameters=parameters)


@scorer(metrics={"success": [mean(), ci_wilson()], "return": [mean(), stderr()]})
def outcome() -> Scorer:
    """Score success (0 or 1) and return; `steps` and `stop_reason` are metadata of the score."""

    async def score(state: TaskState, target: Target) -> Score:
        del target
        result = state.metadata.get(_OUTCOME)
        if result is None:
            raise InfrastructureError(
                "no outcome: the world or the model's endpoint failed, or the sample was cancelled in its world's call"
            )
        values = {"success": result["success"], "return": result["return"]}
        return Score(value=values, metadata={"steps": result["steps"], "stop_reason": result["stop_reason"]})

    return score
