"""The reward of an agent's way with its tools."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import combinations

import pytest

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, Job
from agentgym_py.collection.expert_plans import ExpertPlan
from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.errors import ExpertError
from agentgym_py.rewards.agent_reward import AgentReward, called_tool, longest_common_subsequence
from agentgym_py.trajectory import Trajectory

PLAN = ExpertPlan(1.0, ("search", "click", "click", "buy"))


def test_parts_of_hand_computed_episodes(episode: Callable[..., Trajectory]) -> None:
    """A failure with every fault; the right calls in another order; the plan itself."""
    failed = episode(
        "search[cup]", "click[a]", "look around", "click[a]", "", success=False, stop_reason=StopReason.TRUNCATED
    )
    steps = [
        replace(step, observation="page" if step.action == "click[a]" else step.observation) for step in failed.steps
    ]
    parts = AgentReward().parts(replace(failed, steps=tuple(steps)), PLAN)
    assert parts == pytest.approx({
        "task": 0.0, "tools": 0.25 * 2 * 3 / (4 + 4), "efficiency": 0.0, "timing": 0.10, "format": 0.10 * 4 / 5,
        "wrong_tool": -0.3, "redundant": -0.2, "format_error": -0.1, "timeout": -0.5,
    })  # fmt: skip
    allowed = AgentReward().parts(replace(failed, steps=tuple(steps)), PLAN._replace(repeated=1))
    assert allowed == {**parts, "redundant": 0.0}
    swapped = AgentReward().parts(
        episode("click[a]", "search[cup]", optimal_steps=2), ExpertPlan(1.0, ("Search", "click"))
    )
    assert sum(swapped.values()) == pytest.approx(0.40 + 0.25 + 0.15 + 0.10 / 2 + 0.10)
    slow = AgentReward(redundant=0.0).parts(episode(*["click[a]"] * 4, optimal_steps=1), ExpertPlan(1.0, ("click",)))
    assert slow["tools"] == pytest.approx(0.25 * 2 / 5) and slow["efficiency"] == pytest.approx(0.15 / 4)
    assert sum(AgentReward().parts(episode(*PLAN.tools, optimal_steps=4), PLAN).values()) == pytest.approx(1.0)


def test_the_name_of_a_tool_is_its_first_word(episode: Callable[..., Trajectory]) -> None:
    """In brackets, in prose and as a call; without one the reply cannot be read."""
    actions = {"search[red cup]": "search", "Go to the fridge 1": "go", "add_task": "add_task", "": "", "…": ""}
    steps = episode(*actions).steps
    assert [called_tool(step) for step in steps] == list(actions.values())
    call = steps[2]
    read = {'{"name": "x"}': "add_task", '{"name": ': "", "plain": "add_task", None: "add_task"}
    assert [called_tool(replace(call, action_input=text)) for text in read] == list(read.values())


def test_the_longest_common_subsequence_is_the_longest(episode: Callable[..., Trajectory]) -> None:
    """As by trying every choice of positions."""
    for first, second in (("abcbdab", "bdcaba"), ("aab", "azb"), ("", "ab"), ("abc", "cba")):
        choices = (c for size in range(len(first) + 1) for c in combinations(first, size))
        best = max(len(c) for c in choices if c == () or _is_within(c, second))
        assert longest_common_subsequence(first, second) == longest_common_subsequence(second, first) == best


def _is_within(choice: tuple[str, ...], text: str) -> bool:
    letters = iter(text)
    return all(letter in letters for letter in choice)


@pytest.mark.parametrize("spec", [EnvSpec("maze", {"difficulty": "easy"}), EnvSpec("tools")], ids=lambda s: s.name)
def test_the_fair_expert_is_the_reference(spec: EnvSpec, worlds_made: list[EnvSpec]) -> None:
    """It gets all but what it lacks in efficiency; its plan is made once for all episodes from one start."""
    trajectory = Collector(ExpertAgent(thoughts=False, fair=True)).collect(Job(spec, 1))
    assert trajectory.success and trajectory.optimal_steps
    reward, before = AgentReward(), len(worlds_made)
    parts = reward(trajectory)
    assert sum(parts.values()) == pytest.approx(0.85 + 0.15 * trajectory.optimal_steps / len(trajectory.steps))
    assert reward(trajectory) == parts and len(worlds_made) == before + 1


def test_a_horizon_does_not_cut_the_plan() -> None:
    """A perfect episode within the horizon is not fined for the calls behind the fair expert's last ones."""
    horizon = EnvSpec("household", {"max_steps": 10})
    jobs = [Job(horizon, number) for number in range(40)]
    episodes = [t for t in Collector(ExpertAgent(thoughts=False)).collect_batch(jobs) if t.success]
    free = [replace(t, provenance=replace(t.provenance, env_kwargs={})) for t in episodes]
    reward = AgentReward()
    found, expected = [[reward(t) for t in trajectories] for trajectories in (episodes, free)]
    assert found == expected and not any(parts["wrong_tool"] for parts in found)


def test_the_exact_expert_is_the_reference_where_the_fair_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """If neither solves the task, the reward fails."""
    trajectory = Collector(ExpertAgent(thoughts=False)).collect(Job(EnvSpec("maze", {"difficulty": "easy"}), 1))
    with closing(EnvSpec("maze").make()) as env:
        world = type(env)
    monkeypatch.setattr(world, "fair_expert", lambda self: None)
    assert AgentReward()(trajectory)["timing"] == 0.10
    monkeypatch.setattr(world, "expert", lambda self: [])
    with pytest.raises(ExpertError, match="no expert of AgentMaze-v0 solves the task"):
        AgentReward()(trajectory)
