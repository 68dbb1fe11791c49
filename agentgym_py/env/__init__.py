"""Environments: the contract (`TextEnv`), tasks, actions, and making one by its name."""

from agentgym_py.env.actions import Reply
from agentgym_py.env.arguments import require_split, unknown_task_error
from agentgym_py.env.base import TextEnv
from agentgym_py.env.generated import GeneratedEnv
from agentgym_py.env.spec import EnvSpec, reply_tokens
from agentgym_py.env.tools import function_tool, text_parameter
from agentgym_py.env.types import SPLITS, Outcome, PartnerRecord, Prompt, StopReason, Task

__all__ = [
    "SPLITS",
    "EnvSpec",
    "GeneratedEnv",
    "Outcome",
    "PartnerRecord",
    "Prompt",
    "Reply",
    "StopReason",
    "Task",
    "TextEnv",
    "function_tool",
    "reply_tokens",
    "require_split",
    "text_parameter",
    "unknown_task_error",
]  # fmt: skip
