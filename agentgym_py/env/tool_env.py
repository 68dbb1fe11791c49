"""Worlds whose actions are calls of tools."""

from __future__ import annotations

from agentgym_py.env.actions import Reply, parse_tool_call
from agentgym_py.env.generated import GeneratedEnv, P


class ToolEnv(GeneratedEnv[P]):
    """A `GeneratedEnv` whose actions are calls of tools (`agentgym_py.env.tools`)."""

    def read(self, text: str) -> Reply:
        """Parse a reply in any form; the arguments may follow the tool's name in its line."""
        return parse_tool_call(text)
