"""Worlds whose actions are calls of tools."""

from __future__ import annotations

import re

from agentgym_py.env.actions import Reply, name_call, parse_tool_call
from agentgym_py.env.generated import GeneratedEnv, P

_NAME = re.compile(r"[a-z0-9_]*")


class ToolEnv(GeneratedEnv[P]):
    """A `GeneratedEnv` whose actions are calls of tools (`agentgym_py.env.tools`)."""

    def read(self, text: str) -> Reply:
        """Parse a reply in any form; the arguments may follow the tool's name in its line."""
        reply = parse_tool_call(text)
        if _NAME.fullmatch(reply.action) or self.current_task is None:
            return reply
        return name_call(reply, self.tools() or [])
