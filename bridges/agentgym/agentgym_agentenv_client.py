"""A client and a task of AgentGym for any world of agentgym-py that `agentgym-agentenv` serves in the dialect `tools`.

    task = WorldTask({"env_server_base": "http://127.0.0.1:36002", "data_len": 1000})
    BCTrainer(agent, [task]), or Evaluator(agent, [task])

The server's first observation begins with the world's rules, so that the conversation starts without any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentenv.controller import BaseTask
from agentenv.controller.types import ConversationMessage
from agentenv.envs import TodoEnvClient


class WorldClient(TodoEnvClient):
    """AgentGym's client of a server that takes whole replies, without the rules of its todo world."""

    conversation_start = (
        ConversationMessage({"from": "human", "loss": None, "value": "I give you a task. Do one action a turn."}),
        ConversationMessage({"from": "gpt", "loss": False, "value": "Ok."}),
    )

    def close(self) -> Any:
        """Close the session."""
        return self._post("close", {})


class WorldTask(BaseTask):
    """The tasks of a world, by number."""

    env_client_cls = WorldClient
    env_name = "agentgym-py"

    def __init__(self, client_args: Mapping[str, Any], n_clients: int = 1) -> None:
        super().__init__(client_args, n_clients)
