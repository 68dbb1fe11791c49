"""What an agent does: lookups, changes, corrections and talk, with the violations of the policy that they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym_envs.service import customer
from agentgym_envs.service.conversation import Conversation
from agentgym_envs.service.desk import Call
from agentgym_envs.service.domain import judge
from agentgym_envs.service.policy import VIOLATIONS
from agentgym_envs.service.tool import Tool
from agentgym_py.env.tools import RefusedError, require_tool


def act(talk: Conversation, name: str, arguments: Mapping[str, Any]) -> str:
    """Make a call and return its observation; RefusedError, with nothing changed, if it cannot be done."""
    talk.costs = dict.fromkeys(VIOLATIONS, 0)
    tool = require_tool(name, talk.tools)
    values = talk.puzzle.spell(tool.check(arguments))
    if tool.judge:
        observation = _change(talk, tool, values)
    elif tool.run:
        observation = _look_up(talk, tool, values)
    elif name == "undo_last_change":
        observation = _undo(talk)
    else:
        observation = f"Customer: {customer.ACTS[name](talk, **values)}"
    _note(talk, (name, values))
    return observation


def _look_up(talk: Conversation, tool: Tool, values: dict[str, Any]) -> str:
    assert tool.run
    observation = str(tool.run(talk.desk, **values))
    owner = tool.owner(talk.desk, values)
    _count_access(talk, owner)
    if tool.name.startswith("find_"):
        talk.found = talk.found or observation.endswith(f" {talk.puzzle.caller}.")
    return observation


def _change(talk: Conversation, tool: Tool, values: dict[str, Any]) -> str:
    assert tool.run
    verdict = judge(tool, talk.desk, talk.puzzle.caller, values)
    call = (tool.name, values)
    talk.desk.history.append((call, {}))
    try:
        observation = str(tool.run(talk.desk, **values))
    except RefusedError:
        talk.desk.undo()
        raise
    _count_access(talk, tool.owner(talk.desk, values))
    talk.costs["unconfirmed"] += call not in talk.confirmed
    talk.costs["forbidden"] += bool(verdict.codes)
    talk.broken += [code for code in verdict.codes if code not in talk.broken]
    return observation


def _count_access(talk: Conversation, owner: str | None) -> None:
    if owner is not None:
        talk.costs["unidentified"] += not talk.found
        talk.costs["foreign"] += owner != talk.puzzle.caller


def _undo(talk: Conversation) -> str:
    if not talk.desk.history:
        raise RefusedError("You have changed nothing.")
    name, arguments = talk.desk.undo()
    return f"Taken back: {name} {', '.join(map(str, arguments.values()))}"


def _note(talk: Conversation, call: Call) -> None:
    """Record a lookup that a wish needs; forget the topics asked about when another wish is the present one."""
    if call not in talk.reads and any(call in wish.reads for wish in talk.puzzle.wishes):
        talk.reads.append(call)
    now = talk.current()
    if now is not None and now != talk.present:
        talk.present, talk.asked = now, [topic for topic in talk.asked if topic == "identity"]
