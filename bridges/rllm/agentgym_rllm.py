"""Any world of agentgym-py as an agent flow and an evaluator of rLLM, in text.

    trainer = AgentTrainer(
        ..., agent_flow=AgentGymFlow(), evaluator=outcome, train_dataset=rllm.data.Dataset(rows("shop", range(1000)))
    )

A row is a task, so all episodes of a group start in the same state. rLLM's gateway takes the tokens of each reply.
After an infrastructure failure the flow raises an error: rLLM repeats the rollout, and then stops or leaves it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, Unpack

from openai import AsyncOpenAI
from rllm.eval.rollout_decorator import evaluator
from rllm.eval.types import EvalOutput, Signal
from rllm.types import AgentConfig, Episode, Step, Task, Trajectory
from rllm.workflows.workflow import TerminationReason

from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.serving.chat_play import play_chat
from agentgym_py.serving.task_rows import RowOptions, rows_with, start_row


def rows(env: EnvSpec | str, tasks: Iterable[int], **options: Unpack[RowOptions]) -> list[dict[str, Any]]:
    """Return rows of a data set, whose `id` is the task and whose `question` is its opening, as in `task_rows`."""
    return rows_with(lambda number, opening, row: {"id": row["task"], "question": opening}, env, tasks, **options)


class AgentGymFlow:
    """Episodes of a world; a reply of the model is a step of the one trajectory, with the step's reward.

    Args:
        max_turns: Number of replies after which the model gives up; None: the world's own limit.
        **request: More arguments of a chat completion, such as `max_completion_tokens`.
    """

    name = "agentgym"
    needs_env = False  # no sandbox

    def __init__(self, max_turns: int | None = None, **request: Any) -> None:
        self._max_turns = max_turns
        self._request = request

    def run(self, task: Task, config: AgentConfig) -> Episode:
        """Play a task, as `arun`."""
        return asyncio.run(self.arun(task, config))

    async def arun(self, task: Task, config: AgentConfig) -> Episode:
        """Play a task. The artifacts are `return`, `success`, `stop_reason` and `final_observation`.

        Raises:
            ConfigError, UnknownNameError: a column of the row is missing or wrong.
            InfrastructureError: the world failed.
            openai.OpenAIError: the model's endpoint failed.
        """
        async with AsyncOpenAI(base_url=config.base_url, api_key="none") as client:

            async def reply(messages: list[Any]) -> str:
                completion = await client.chat.completions.create(
                    model=config.model, messages=messages, **self._request
                )
                return completion.choices[0].message.content or ""

            episode = await play_chat(partial(start_row, task.metadata), reply, config.model, self._max_turns)
        last = len(episode.steps) - 1
        steps = [
            Step(input=step.observation, output=step.reply, action=step.action, reward=step.reward, done=number == last)
            for number, step in enumerate(episode.steps)
        ]
        gave_up = episode.stop_reason is StopReason.GAVE_UP
        return Episode(
            task=task.metadata, is_correct=episode.success, trajectories=[Trajectory(name=self.name, steps=steps)],
            termination_reason=TerminationReason.MAX_TURNS_EXCEEDED if gave_up else TerminationReason.ENV_DONE,
            artifacts={
                "return": episode.reward, "success": episode.success, "stop_reason": str(episode.stop_reason),
                "final_observation": episode.final_observation,
            },
        )  # fmt: skip


@evaluator
def outcome(task: Task, episode: Episode) -> EvalOutput:
    """Return the episode's return and success."""
    del task
    steps = Signal("steps", float(len(episode.trajectories[0].steps)))
    artifacts = episode.artifacts
    return EvalOutput(reward=artifacts["return"], is_correct=artifacts["success"], signals=[steps])
