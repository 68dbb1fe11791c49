"""The tools with which an agent talks to the customer, and its own corrections."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from agentgym_envs.service.domain import Domain
from agentgym_envs.service.domains.flights import FLIGHTS
from agentgym_envs.service.domains.phone import PHONE
from agentgym_envs.service.domains.store import STORE
from agentgym_envs.service.tool import Tool, text

DOMAINS: Mapping[str, Domain] = {domain.name: domain for domain in (STORE, FLIGHTS, PHONE)}


@cache
def tools_of(name: str) -> Mapping[str, Tool]:
    """Return all tools of a domain: its own, and those for talking."""
    domain = DOMAINS[name]
    changes = [tool.name for tool in domain.tools.values() if tool.judge]
    steps = domain.steps or {}
    own = [
        Tool("ask", "Ask the customer for something.", {"about": text("What to ask about.", *domain.topics)}),
        Tool(
            "propose",
            "Ask the customer whether you may make a change.",
            {
                "change": text("The tool that makes it.", *changes),
                "details": {"type": "object", "description": "The arguments of that tool."},
            },
        ),
        Tool("tell", "Tell the customer something.", {"text": text("What to tell.")}),
        Tool("refuse", "Refuse a wish.", {"rule": text("The rule that forbids it.", *domain.refusals)}),
        Tool("undo_last_change", "Take back the last change that you have made.", {}),
        Tool("transfer", "Transfer the customer to a person, which ends the conversation.", {}),
        Tool("close", "Ask for further wishes; without any, the conversation ends.", {}),
    ]
    if steps:
        step = text("What to do.", *steps)
        purpose = "Ask the customer to do something on their phone; they leave after a second needless step."
        own.insert(4, Tool("instruct", purpose, {"step": step}))
    return {tool.name: tool for tool in (*domain.tools.values(), *own)}
