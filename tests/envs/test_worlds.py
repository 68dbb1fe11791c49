"""What the built-in worlds have in common."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from agentgym_envs.textcraft.env import TextCraftEnv
from agentgym_envs.todo.env import TodoEnv
from agentgym_envs.tools.env import ToolsEnv
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.registration import env_plugins
from agentgym_py.errors import UnknownNameError
from agentgym_py.rng import seed_of
from agentgym_py.trajectory.selectors import SelectConfig

HELD_OUT = {
    "shop": 14932141375714580761,
    "household": 11512489975272344163,
    "tools": 3640838386036627632,
    "calculator": 2267550005362220913,
    "todo": 5535511136609398230,
    "lab": 3034222486147742478,
    "maze": 18267522281593697621,
    "textcraft": 6211197073402695839,
    "wordle": 16249772860793438351,
    "service": 18336051151281752819,
    "grid": 16483659735989158075,
    "twentyquestions": 10610162668714922441,
    "errand": 14331505638801956767,
    "sheet": 8338634702769139505,
    "householdteam": 6708372620111203992,
    "sql": 10594994296299582930,
}
"""Digests of the first observations and the expert's plans of five valid and five test tasks of each difficulty."""
WORLDS = [each.name for each in env_plugins() if each.target.startswith("agentgym_envs.")]


@pytest.mark.parametrize("name", WORLDS)
def test_nothing_is_listed_after_the_end(name: str) -> None:
    """Also where the end was restored."""
    env = EnvSpec(name).make()
    env.reset(seed=1)
    assert env.actions()
    while not env.stop_reason:
        env.step(env.expert()[0])
    assert env.stop_reason == "terminated" and env.actions() == []
    again = EnvSpec(name).make()
    again.restore(env.snapshot())
    assert again.actions() == []


@pytest.mark.parametrize("name", WORLDS)
def test_held_out_tasks_never_change(name: str) -> None:
    """Figures of valid and test tasks stay comparable when the training split changes."""
    texts: list[str] = []
    for difficulty in ("easy", "medium", "hard"):
        env = EnvSpec(name, {"difficulty": difficulty}).make()
        for split, number in product(("valid", "test"), range(5)):
            texts += [env.reset(options={"task": number, "split": split})[0], *env.expert()]
    assert seed_of(*texts) == HELD_OUT[env.name]


@pytest.mark.parametrize("name", WORLDS)
def test_evolve_learns_from_the_demonstrations(name: str) -> None:
    """The selection that `agentgym evolve` starts with keeps the fair expert's successes, in every role."""
    kind: Any = type(EnvSpec(name).make())
    defaults = kind.evolve_defaults
    least = defaults.get("select.threshold", SelectConfig().threshold)
    for role in getattr(kind, "roles", (None,)):
        env = EnvSpec(name, defaults.get("env_kwargs", {}) | ({"role": role} if role else {})).make()
        for number in range(5):
            env.reset(options={"task": number})
            total = 0.0
            while not env.stop_reason:
                total += env.step(env.fair_expert() or env.expert()[0])[1]
            assert total >= least or not env.succeeded


@pytest.mark.parametrize("name", WORLDS)
def test_a_task_of_another_split_is_refused(name: str) -> None:
    """Its id says one split, the option another one; the same one, or none, is fine."""
    env = EnvSpec(name).make()
    env.reset(options={"split": "test"})
    assert env.current_task
    task = env.current_task.id
    for options in ({"task": task, "split": "test"}, {"task": task}):
        env.reset(options=options)
    with pytest.raises(UnknownNameError, match="is in split 'test', not 'valid'"):
        env.reset(options={"task": task, "split": "valid"})


def test_a_whole_number_may_have_a_point() -> None:
    """As JSON has but one kind of number; one that is not whole is refused."""
    craft, todo, tools = TextCraftEnv(), TodoEnv(), ToolsEnv(difficulty="hard")
    for world in (craft, todo, tools):
        world.reset(seed=1)
    task = next(tid for tid, row in todo.puzzle.start.tasks.items() if row.open and row.priority != 2)
    call = next(call for call in tools.expert() if '_id": ' in call)
    name, _, given = call.partition(" ")
    calls: list[tuple[TextEnv, str, dict[str, Any], str]] = [
        (craft, "get", {"count": 2, "item": craft.puzzle.raw[0]}, "count"),
        (todo, "set_priority", {"task": task, "priority": 2}, "priority"),
        (tools, name, json.loads(given), next(key for key in json.loads(given) if key.endswith("_id"))),
    ]
    for env, tool, arguments, key in calls:
        for more, valid in ((0.5, False), (0.0, True)):
            reply = json.dumps({"name": tool, "arguments": {**arguments, key: arguments[key] + more}})
            observation, _, _, _, info = env.step(reply)
            assert info["valid_action"] is valid, observation
