"""`call_of_text`: an action's text is the call of a tool that does the same."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from agentgym_py import registry
from agentgym_py.agents.chat import call_text, offered_tools
from agentgym_py.env import EnvSpec, TextEnv, function_tool, text_parameter
from agentgym_py.env.call_forms import call_of_text
from agentgym_py.rng import Rng

TOOLS = [
    function_tool("go", "Go.", {"direction": {"type": "string", "enum": ["north", "south"]}}),
    function_tool("get", "Get.", {"count": {"type": "integer"}, "item": text_parameter("It.")}),
    function_tool("say", "Say.", {"text": text_parameter("It.")}),
    function_tool("look", "Look.", {}),
    function_tool("look_at", "Look closely.", {"name": text_parameter("It.")}),
]
FORMS = {
    "do": "do {it}", "say": "{text}", "go": "go {direction}", "get": "get {count} {item}", "look": "look",
    "look_at": "look at {name}",
}  # fmt: skip

WITHOUT_A_TOOL = {"AgentGrid-v0": {"pick up"}}
"""A move that is no tool: what lies ahead is picked up, and the tool `pick_up` names a thing."""


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("go north", ("go", {"direction": "north"})), ("go west", ("say", {"text": "go west"})),
        ("get 3 oak log", ("get", {"count": 3, "item": "oak log"})), ("get 03 log", ("say", {"text": "get 03 log"})),
        (f"get {'9' * 5000} log", ("say", {"text": f"get {'9' * 5000} log"})),
        ("look", ("look", {})), ("look at {x}\nb", ("look_at", {"name": "{x}\nb"})), ("", None),
        ("do it", ("say", {"text": "do it"})),
    ],
)  # fmt: skip
def test_the_form_with_the_most_fixed_characters_counts(text: str, call: object) -> None:
    """Values fit their schemas, and a tool that is not offered is not called."""
    assert call_of_text(text, FORMS, TOOLS) == call


def players() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield every world in each of its roles, and the household in ALFWorld's words."""
    yield from (("household", {"observation_mode": "alfworld", "dialect": dialect}) for dialect in ("new", "old"))
    for name in registry.names("agentgym.envs"):
        roles = getattr(EnvSpec(name).make(), "roles", ())
        yield from ((name, {"role": role} if role else {}) for role in roles or ("",))


@pytest.mark.parametrize(("name", "kwargs"), list(players()), ids=str)
def test_calls_of_every_world_do_what_their_texts_do(name: str, kwargs: dict[str, str]) -> None:
    """Actions of experts and random ones: the call gives the same observation, reward, end and state."""
    env, other = EnvSpec(name, kwargs).make(), EnvSpec(name, kwargs).make()
    checked, unlisted = 0, set()
    for task in range(4):
        for player in ("expert", "fair", "random", "random"):
            rng = Rng(name, task, player, checked)
            env.reset(seed=task, options={"task": env.task(task, "train").id})
            other.reset(seed=task)
            for _ in range(12):
                action = choose(env, player, rng)
                if action is None:
                    break
                checked += is_text(env, action)
                call = call_of_text(action, env.call_forms(), offered_tools(env))
                if call is None:
                    unlisted |= {action} if is_text(env, action) else set()
                    observed = env.step(action)
                else:
                    other.restore(env.snapshot())
                    text = call_text(env, offered_tools(env), call[0], json.dumps(call[1], ensure_ascii=False))
                    observed = env.step(action)
                    assert other.step(text) == observed, action
                    assert state_of(other) == state_of(env), action
                if observed[2] or observed[3]:
                    break
    assert unlisted <= WITHOUT_A_TOOL.get(name, set())
    assert checked or not env.call_forms()


def choose(env: TextEnv, player: str, rng: Rng) -> str | None:
    """Return the next action of a player; None if there is none."""
    if player == "fair":
        return env.fair_expert()
    listed = env.expert()[:1] if player == "expert" else env.actions()
    return rng.choice(listed) if listed else None


def state_of(env: TextEnv) -> object:
    """Return the state, without the words of a team's moves."""
    snapshot = json.loads(env.snapshot())
    if getattr(env, "roles", ()):
        moves = snapshot["state"].pop("moves")
        snapshot |= {"moves": len(moves), "actions": env.actions()}
    return snapshot


def is_text(env: TextEnv, action: str) -> bool:
    """Whether an action is neither a call nor the name of a tool in a world of calls."""
    return bool(env.call_forms()) and env.parse(action).action_input is None


def test_a_strict_world_offers_no_tool_that_a_text_could_call() -> None:
    """Such as the shop of WebShop, whose parser reads no calls: `act` is all that is offered."""
    env = EnvSpec("shop", {"strict_compat": True}).make()
    env.reset(seed=0)
    assert call_of_text("search[chair]", env.call_forms(), offered_tools(env)) is None
