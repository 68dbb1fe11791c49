"""Any world of agentgym-py as a task of Inspect, by tool calls or in text.

    inspect eval agentgym_inspect/agentgym -T env=shop -T tasks=100 --model PROVIDER/MODEL

A sample is a task of the world. Its scores are `success` (0 or 1) and `return`. After an infrastructure failure it has
an error and no score. `agentgym compare A.eval B.eval --score outcome/success` compares two logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import anyio.to_thread
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessage, ChatMessageTool, ChatMessageUser, get_model
from inspect_ai.scorer import Score, Scorer, Target, ci_wilson, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolInfo, ToolParams

from agentgym_py.collection.env_turn import EnvTurn
from agentgym_py.env import EnvSpec, Prompt
from agentgym_py.errors import ConfigError, InfrastructureError
from agentgym_py.serving.tool_episode import EpisodeSettings, ToolEpisode

_OUTCOME = "agentgym"
"""Key of an episode's outcome in the metadata of a sample's state."""


@task
def agentgym(
    env: str = "shop", env_kwargs: Mapping[str, Any] | None = None, split: str = "test", tasks: int | list[int] = 100,
    tools: bool = True, prompt: Prompt = "full", seed: int = 0,
) -> Task:  # fmt: skip
    """A world of agentgym-py.

    Args:
        env: Name of the world.
        env_kwargs: Its arguments, such as `{"difficulty": "easy"}`.
        split: Split of the tasks.
        tasks: Their number, or a list of their numbers.
        tools: Whether the model calls tools; False: its text is the reply, as in `agentgym eval`.
        prompt: Which rules text opens an episode: `full`, `brief` or `none`.
        seed: Seed of the worlds: the same seed and task start in the same state, in every epoch.

    Raises:
        ConfigError, UnknownNameError: an argument is wrong, or there is no such world or task.
    """
    spec = EnvSpec(env, dict(env_kwargs or {}))
    settings = EpisodeSettings(spec, split, seed, prompt)
    numbers = range(tasks) if isinstance(tasks, int) else tasks
    if not numbers:
        raise ConfigError("tasks is empty: give a number above 0, or a list of numbers")
    with closing(spec.make()) as world:
        samples = [_sample(world, settings, number) for number in numbers]
        version = world.version
    dataset = MemoryDataset(samples, name=f"{spec.local_spec.name}/{split}")
    return Task(dataset=dataset, solver=play(settings, tools), scorer=outcome(), version=version)


def _sample(world: Any, settings: EpisodeSettings, number: int) -> Sample:
    found = world.task(number, settings.split)
    about = {"kind": found.kind, "difficulty": found.difficulty, "optimal_steps": found.optimal_steps}
    return Sample(input=settings.opening(world, found.id), id=found.id, metadata=about)


@solver
def play(settings: EpisodeSettings, tools: bool) -> Solver:
    """Let the model play the sample's task; each tool call, or each text without a call, is one step."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        del generate  # it would run the tools itself
        episode = await _in_thread(ToolEpisode, settings, str(state.sample_id))
        is_evidence = True
        try:
            await _play(state, episode, tools)
        except InfrastructureError:
            is_evidence = False  # Inspect scores such a sample, too, with `score_on_error`
            raise
        finally:  # also after a limit of Inspect
            if is_evidence:
                state.metadata[_OUTCOME] = {
                    "success": float(episode.env.succeeded), "return": sum(step.reward for step in episode.steps),
                    "steps": len(episode.steps), "stop_reason": episode.stop_reason or "gave_up",
                }  # fmt: skip
            with anyio.CancelScope(shield=True):
                await _in_thread(episode.close)
        return state

    return solve


async def _play(state: TaskState, episode: ToolEpisode, tools: bool) -> None:
    """Play until the world ends the episode, the context is full or a limit of Inspect is reached."""
    model = get_model()
    while episode.stop_reason is None and not state.completed:
        offered = [_tool_info(tool["function"]) for tool in episode.tools] if tools else []
        state.output = await model.generate(state.messages, offered)
        state.messages.append(state.output.message)
        if state.output.stop_reason == "model_length":
            return
        state.messages += await _steps(state, episode)


async def _steps(state: TaskState, episode: ToolEpisode) -> Sequence[ChatMessage]:
    """Do what the model's last message says; return the observations."""
    message = state.output.message
    if not message.tool_calls:
        turn: EnvTurn = await _in_thread(episode.step, message.text)
        return [ChatMessageUser(content=turn.observation)]
    answers = []
    for call in message.tool_calls:
        turn = await _in_thread(episode.call, call.function, call.arguments)
        answers.append(ChatMessageTool(content=turn.observation, tool_call_id=call.id, function=call.function))
    return answers


def _tool_info(function: Mapping[str, Any]) -> ToolInfo:
    parameters = ToolParams.model_validate(function["parameters"])
    return ToolInfo(name=function["name"], description=function.get("description") or "", parameters=parameters)


async def _in_thread(work: Any, *args: Any) -> Any:
    """Run a world outside the event loop, so that other samples and Inspect's time limits go on."""
    return await anyio.to_thread.run_sync(partial(work, *args), abandon_on_cancel=True)


@scorer(metrics={"success": [mean(), ci_wilson()], "return": [mean(), stderr()]})
def outcome() -> Scorer:
    """Score success (0 or 1) and return; `steps` and `stop_reason` are metadata of the score."""

    async def score(state: TaskState, target: Target) -> Score:
        del target
        found = state.metadata.get(_OUTCOME)
        if found is None:
            raise InfrastructureError(
                "no outcome: the world failed, or a limit of Inspect came before the episode began"
            )
        values = {"success": found["success"], "return": found["return"]}
        return Score(value=values, metadata={"steps": found["steps"], "stop_reason": found["stop_reason"]})

    return score
