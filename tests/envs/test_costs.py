"""Costs: what worlds count beside the reward, what episodes store of it, and what evaluations say of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentgym_envs.shop.env import ShopEnv
from agentgym_envs.todo.env import TodoEnv
from agentgym_envs.tools.env import ToolsEnv
from agentgym_py.agents import ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, Job, PlayConfig
from agentgym_py.collection.env_turn import read_turn
from agentgym_py.collection.replay import replay_all
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.evaluation import summarise
from agentgym_py.trajectory import store
from agentgym_py.trajectory.json_values import to_json

WORLDS = ("shop", "todo", "tools", "service", "sheet")


@pytest.mark.parametrize("name", WORLDS)
def test_experts_cause_no_costs_and_every_step_names_all(name: str) -> None:
    """Neither the exact nor the fair expert; the costs of each step are those that the world names."""
    for spec, agent in ((EnvSpec(name), ExpertAgent()), (EnvSpec(name), ExpertAgent(fair=True))):
        for episode in Collector(agent, PlayConfig()).collect_batch([Job(spec, n) for n in range(6)]):
            assert episode.costs.keys() == set(spec.make().costs) and not any(episode.costs.values()), episode.id
            assert all(step.costs.keys() == episode.costs.keys() for step in episode.steps)


def costs(env: TextEnv, action: str) -> dict[str, float]:
    """Do an action that can be done; return the costs that are not 0."""
    *_, info = env.step(action)
    assert info["valid_action"], action
    return {name: cost for name, cost in info["costs"].items() if cost}


def test_a_wrong_purchase_costs_one_and_the_right_one_nothing() -> None:
    """Buying the first product found without its options is wrong; the expert's last click is right."""
    env = ShopEnv()
    env.reset(options={"task": 3})
    plan = env.expert()
    assert [costs(env, action) for action in plan] == [{}] * len(plan) and env.succeeded
    env.reset(options={"task": 3})
    bought = [costs(env, action) for action in (plan[0], plan[1], "click[buy now]")]
    assert not env.succeeded and bought == [{}, {}, {"wrong_purchase": 1.0}]


def test_a_deletion_that_nobody_asked_for_costs_one_each_time() -> None:
    """Of a task, a comment, a label, a section, a project; not of what the request deletes or the agent has added."""
    env = TodoEnv(difficulty="easy")
    seen = set[str]()
    for number in range(300):
        env.reset(options={"task": number})
        plan = env.expert()
        if not any(action.startswith("delete_task") for action in plan):
            continue
        (asked,) = [
            json.loads(action.partition("Action Input:")[2])["task"] for action in plan if "delete_task" in action
        ]
        board = env._app.board
        other = next(tid for tid, row in board.tasks.items() if not row.deleted and tid != asked)
        assert costs(env, f'delete_task {{"task": "{other}"}}') == {"deletions": 1.0}
        assert costs(env, f'restore_task {{"task": "{other}"}}') == {}
        assert costs(env, f'delete_task {{"task": "{other}"}}') == {"deletions": 1.0}
        assert costs(env, f'delete_task {{"task": "{asked}"}}') == {}
        assert costs(env, f'add_task {{"title": "mine"}}') == {}  # noqa: F541
        assert costs(env, f'delete_task {{"task": "t{len(board.tasks)}"}}') == {}
        assert costs(env, f'delete_label {{"label": "{board.labels[0]}"}}') == {"deletions": 1.0}
        seen.add(asked)
        break
    assert seen, "no task of the first 300 asks for a deletion"


def test_a_change_that_the_request_does_not_name_costs_one() -> None:
    """Undoing it is free, and the needed change is free; a deletion has both costs."""
    env = ToolsEnv(difficulty="hard")
    found = set[str]()
    for number in range(200):
        env.reset(options={"task": number})
        offered = env.session.tools
        for action in env.actions():
            name = action.split()[0].removesuffix("()").partition("\n")[0]
            if name in offered and offered[name].changes and name not in found:
                start = env.snapshot()
                if not env.step(action)[4]["valid_action"]:
                    continue
                env.restore(start)
                cost = costs(env, action)
                needed = env.session.active_changes[-1] in env.session.puzzle.changes
                deletes = name in ("delete_event", "remove_attendee", "cancel_order")
                assert cost == ({} if needed else {"unasked_changes": 1.0} | ({"deletions": 1.0} if deletes else {}))
                assert costs(env, "undo_last_change()") == {}
                env.restore(start)
                found |= {name} if not needed else set()
    assert len(found) >= 3, found


# ------------------------------------------------------------------------------------ stored, replayed, summarised


def test_costs_are_stored_replayed_and_summarised(tmp_path: Path) -> None:
    """Lines and tables hold them, a replay compares them, and an episode without costs has no key for them."""
    jobs = [Job(EnvSpec("shop"), n) for n in range(12)]
    episodes = Collector(RandomAgent(), PlayConfig()).collect_batch(jobs)
    store.write(tmp_path / "a.jsonl", episodes)
    assert list(store.read(tmp_path / "a.jsonl")) == episodes
    parquet = pytest.importorskip("agentgym_py.trajectory.formats.parquet")
    parquet.write_parquet(tmp_path / "a.parquet", episodes)
    assert list(parquet.read_parquet(tmp_path / "a.parquet")) == episodes
    assert all(result.difference is None for result in replay_all(episodes))
    summary = summarise(episodes)
    total = sum(t.costs["wrong_purchase"] for t in episodes)
    assert total > 0 and summary.costs["wrong_purchase"].value == pytest.approx(total / 12)
    assert summary.as_dict()["costs"]["wrong_purchase"]["n"] == 12
    maze = Collector(ExpertAgent(), PlayConfig()).collect_batch([Job(EnvSpec("maze"), 0)])
    assert "costs" not in to_json(maze[0])["steps"][0] and summarise(maze).costs == {}
    parquet.write_parquet(tmp_path / "b.parquet", maze)
    assert list(parquet.read_parquet(tmp_path / "b.parquet")) == maze


@pytest.mark.parametrize(
    ("value", "message"), [({"a": -1}, "below 0"), ({"a": float("nan")}, "not a finite number"), ([1], "not a mapping")]
)
def test_other_costs_are_an_error_of_the_world(value: Any, message: str) -> None:
    """The collector refuses them as it refuses a reward that is no number."""
    info = {"success": False, "valid_action": True, "costs": value}
    with pytest.raises((TypeError, ValueError), match=message):
        read_turn(("seen", 0.0, False, False, info))
