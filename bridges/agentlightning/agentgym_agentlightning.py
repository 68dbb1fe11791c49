"""Any world of agentgym-py as an agent of Agent Lightning's local controller, in text.

    config.agentlightning.local = local_runner(max_turns=20, max_completion_tokens=256)
    run_ppo(config, train_dataset=rows("shop", range(1000)), val_dataset=rows("shop", range(100), split="valid"))

A row is a task, so all rollouts of a group start in the same state. Agent Lightning's gateway takes the tokens of each
reply. A rollout whose process fails has neither a reward nor tokens: the trainer skips it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Unpack

from agentlightning.client import AgentLightningAsyncClient
from openai import AsyncOpenAI

from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, InfrastructureError
from agentgym_py.files import parse_json
from agentgym_py.serving.chat_play import play_chat
from agentgym_py.serving.task_rows import RowOptions, rows_with, start_row

ROW, SETTINGS = "AGENTGYM_ROW", "AGENTGYM_SETTINGS"
"""Variables of a rollout's process: the row, and the arguments of `local_runner`."""
MODEL = "policy"
"""Name of the model in requests; the gateway puts that of its server in its place."""
RETRIES = 20
"""How often a request is repeated: the gateway refuses requests while the trainer updates the weights."""
START = 120.0
"""Seconds after which a rollout that the controller has not marked as running counts as failed."""
UNFINISHED = "unfinished"
"""Name of an attempt that has no events."""


def rows(env: EnvSpec | str, tasks: Iterable[int], **options: Unpack[RowOptions]) -> list[dict[str, Any]]:
    """Return rows of a data set for `run_ppo`; arguments and errors are as in `task_rows`.

    They lack the opening, because the agent reads it from the world.
    """
    return rows_with(_columns, env, tasks, **options)


def _columns(number: int, opening: str, row: Mapping[str, Any]) -> dict[str, Any]:
    del opening
    return {"data_source": row["world"], "extra_info": {"index": number}}


def local_runner(max_turns: int | None = None, **request: Any) -> dict[str, Any]:
    """Return the value of `agentlightning.local` in the trainer's configuration.

    Args:
        max_turns: Number of replies after which the model gives up; None: the world's own limit.
        **request: More arguments of a chat completion, such as `max_completion_tokens`; the gateway sets the
            temperature.
    """
    settings = json.dumps({"max_turns": max_turns, "request": request})
    agent = f"{AgentGymAgent.__module__}:{AgentGymAgent.__qualname__}"
    return {"agent_class": agent, "env_map": {ROW: "input", SETTINGS: settings}}


class AgentGymAgent:
    """An episode of a world in a process of the local controller; a reply of the model is a step."""

    async def run(self) -> None:
        """Play the task of the rollout, and post its reward, which is the return.

        The event also has `success`, `steps`, `stop_reason` and `final_observation`.

        Raises:
            ConfigError, UnknownNameError: the rollout's input is not one of `rows`, or a variable is missing.
            InfrastructureError: the world failed, or the rollout ended before its process began.
            httpx.HTTPError, openai.OpenAIError: Agent Lightning or the model's server failed.
        """
        row, settings = _variable(ROW), _variable(SETTINGS)
        events, url, key = os.environ["AGL_EVENT_URL"], os.environ["AGL_OPENAI_BASE_URL"], os.environ.get("AGL_KEY")
        async with (
            AgentLightningAsyncClient(key=key, timeout=60) as lightning,
            AsyncOpenAI(base_url=url, api_key=key or "none", max_retries=RETRIES) as model,
        ):

            async def reply(messages: list[Any]) -> str:
                completion = await model.chat.completions.create(model=MODEL, messages=messages, **settings["request"])
                return completion.choices[0].message.content or ""

            await _hide_until_success(lightning, events.partition("/attempt/")[0])
            episode = await play_chat(partial(start_row, row), reply, MODEL, settings["max_turns"])
            data = {
                "value": episode.reward, "source": "agentgym", "success": episode.success,
                "steps": len(episode.steps), "stop_reason": str(episode.stop_reason),
                "final_observation": episode.final_observation,
            }  # fmt: skip
            (await lightning.post(events, json={"event_type": "reward", "data": data})).raise_for_status()


async def _hide_until_success(lightning: AgentLightningAsyncClient, rollout: str) -> None:
    """Hide the rollout's events from the trainer unless its process succeeds.

    The trainer reads the events of the last attempt, and trains replies without a reward as if the reward were
    `reward_fillna_value`, which is 0. So this names a last attempt without events. The controller names the real one
    after the start, for which this waits, and again when the process has exited with 0.

    Raises:
        InfrastructureError: the rollout has ended, or still waits after `START` seconds.
    """
    ends = time.monotonic() + START
    while (state := await _state(lightning, rollout)) != "running":
        if state != "queuing" or time.monotonic() > ends:
            raise InfrastructureError(f"the rollout is not running: Agent Lightning's state of it is {state!r}")
        await asyncio.sleep(0.05)
    (await lightning.patch(rollout, json={"status": {"last_attempt_id": UNFINISHED}})).raise_for_status()


async def _state(lightning: AgentLightningAsyncClient, rollout: str) -> str:
    answer = (await lightning.get(rollout)).raise_for_status().json()
    return str(answer["rollout"]["status"]["state"])


def _variable(name: str) -> dict[str, Any]:
    """Read a JSON object from an environment variable."""
    try:
        value = parse_json(os.environ[name])
    except (KeyError, ValueError) as error:
        raise ConfigError(f"{name} must be JSON: set agentlightning.local to local_runner() in the trainer") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{name} must be a JSON object, got {value!r:.100}: a rollout's input is one of rows()")
    return value
