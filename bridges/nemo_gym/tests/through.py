"""The scripted agent through NeMo Gym: its gymnasium agent, our resources server, and a scripted model server."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import requests
from agentgym_nemo_gym import AgentGymServer, rows
from checks import play_rows, serving
from fastapi import FastAPI
from nemo_gym import server_utils
from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf
from responses_api_agents.gymnasium_agent.app import GymnasiumAgent, GymnasiumAgentConfig
from scripted import MAX_STEPS, SEED, Played, Script, World

from agentgym_py.env import StopReason

os.environ["NEMO_GYM_CONFIG_DICT"] = "{}"  # no head server
LONG = 2 * MAX_STEPS
Reply = Callable[[list[dict[str, Any]]], str]
"""Returns the model's text after the messages until now."""


def model_app(reply: Reply) -> FastAPI:
    """A server of the Responses API whose replies are written in advance."""
    app = FastAPI()

    @app.post("/v1/responses")
    def respond(body: dict[str, Any]) -> dict[str, Any]:
        text = {"type": "output_text", "text": reply(body["input"]), "annotations": []}
        message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
        return {
            "id": "r", "created_at": 1, "model": "scripted", "object": "response", "output": [message],
            "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
        }  # fmt: skip

    return app


def reply_of(scripts: Sequence[Script]) -> Reply:
    """Follow the scripts."""
    by_opening = {script.episode.observations[0]: script.actions for script in scripts}

    def reply(messages: list[dict[str, Any]]) -> str:
        turn = sum(message["role"] == "assistant" for message in messages)
        return by_opening[messages[0]["content"]][turn]

    return reply


def address(url: str) -> dict[str, Any]:
    """The entry of a server in NeMo Gym's configuration."""
    host, port = url.removeprefix("http://").split(":")
    return {"host": host, "port": int(port), "entrypoint": "app.py"}


@contextmanager
def nemo_gym(reply: Reply, max_steps: int = LONG) -> Iterator[tuple[str, str]]:
    """Start the three servers; the addresses of the agent and of the world are the value."""
    server_utils._GLOBAL_AIOHTTP_CLIENT = None  # one before belongs to the event loop of another agent
    common = {"host": "127.0.0.1", "port": 0, "entrypoint": "app.py"}
    head = BaseServerConfig(host="127.0.0.1", port=1)
    alone = ServerClient(head_server_config=head, global_config_dict=OmegaConf.create({}))
    world = AgentGymServer(
        config=BaseResourcesServerConfig(**common, name="agentgym", domain="games"), server_client=alone
    )
    with serving(world.setup_webserver()) as world_url, serving(model_app(reply)) as model_url:
        servers = OmegaConf.create({
            "agentgym": {"resources_servers": {"agentgym": address(world_url)}},
            "policy_model": {"responses_api_models": {"scripted": address(model_url)}},
        })  # fmt: skip
        agent = GymnasiumAgent(
            config=GymnasiumAgentConfig(
                **common, name="agentgym_agent", max_steps=max_steps,
                resources_server={"type": "resources_servers", "name": "agentgym"},
                model_server={"type": "responses_api_models", "name": "policy_model"},
            ),
            server_client=ServerClient(head_server_config=head, global_config_dict=servers),
        )  # fmt: skip
        with serving(agent.setup_webserver()) as agent_url:
            yield agent_url, world_url


def read(row: dict[str, Any], result: dict[str, Any]) -> Played:
    """Read the result of a rollout."""
    messages = result["responses_create_params"]["input"] + result["response"]["output"]
    seen = [message["content"] for message in messages if message["role"] == "user"]
    info = result["info"]
    reason = StopReason(info["stop_reason"] or "gave_up")
    assert result["terminated"] is (reason is StopReason.TERMINATED)
    assert result["truncated"] is (reason is not StopReason.TERMINATED)
    if info["stop_reason"]:
        seen.append(info["observation"])
    return Played(row["task"], tuple(seen), (result["reward"],), info["success"], reason)


def rows_of(world: World, scripts: Sequence[Script]) -> list[dict[str, Any]]:
    """The rows of the scripts' tasks, without rules, as they come from a file."""
    table = rows(world.spec, range(len(scripts)), prompt="none", seed=SEED)
    return [json.loads(json.dumps(row)) for row in table]


def play(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play the scripts; those that are given up end at a limit of one step."""

    def play_some(table: Sequence[dict[str, Any]], limit: int | None) -> Iterator[Played]:
        with nemo_gym(reply_of(scripts), limit or LONG) as (agent, _):
            for row in table:
                answer = requests.post(f"{agent}/run", json=row, timeout=60)
                answer.raise_for_status()
                yield read(row, answer.json())

    return play_rows(rows_of(world, scripts), scripts, play_some)


TIMED = {"through NeMo Gym's agent and two servers on loopback, all of them in it": play}
