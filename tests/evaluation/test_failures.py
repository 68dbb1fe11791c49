"""Kinds of failure, and figures compared with the experts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from agentgym_envs.calculator.env import CalculatorEnv
from agentgym_py.agents import AgentReply, Episode, ExpertAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.errors import ConfigError
from agentgym_py.evaluation.evaluate import summarise
from agentgym_py.evaluation.experts_comparison import compare_with_experts
from agentgym_py.evaluation.failures import FAILURES, count_failures, failure_kind
from agentgym_py.trajectory import Trajectory

CUT = {"success": False, "stop_reason": StopReason.TRUNCATED}
LEFT = {"success": False, "stop_reason": StopReason.GAVE_UP}


class Script:
    """Says what it was given, whatever it sees, and the last of it forever."""

    name, policy_digest = "script", None

    def __init__(self, *lines: str) -> None:
        self.lines, self.sampling = lines, dict[str, object]()

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """The line of the episode's step."""
        return [AgentReply(self.lines[min(len(each.steps), len(self.lines) - 1)]) for each in episodes]


def test_failures_have_kinds(episode: Callable[..., Trajectory]) -> None:
    """A success has none; an end of the agent's, of the world's and of the steps are told apart."""
    invalid = episode("x", **CUT)
    invalid = replace(invalid, steps=tuple(replace(step, valid=False) for step in invalid.steps))
    found = {
        None: [episode("look"), episode("look", **{**CUT, "error": "disk"})],
        "gave up": [episode("look", **LEFT), episode(**LEFT)],
        "no valid action": [invalid],
        "wrong goal": [episode("look", success=False)],
        "looped": [circling(episode("a", "a", "b", "b", **CUT))],
        "out of steps": [episode("a", "a", "b", **CUT), episode("a", "b", "c", **CUT)],
    }
    for kind, every in found.items():
        assert [failure_kind(each) for each in every] == [kind] * len(every)
    assert [kind for kind in found if kind] == list(FAILURES)
    counted = count_failures(each for every in found.values() for each in every)
    assert {kind: each.count for kind, each in counted.items()} == {
        "gave up": 2, "no valid action": 1, "wrong goal": 1, "looped": 1, "out of steps": 2,
    }  # fmt: skip


def circling(trajectory: Trajectory) -> Trajectory:
    """The same, with one observation in all steps."""
    return replace(trajectory, steps=tuple(replace(step, observation="a room") for step in trajectory.steps))


def test_an_example_is_the_first_of_its_kind(episode: Callable[..., Trajectory]) -> None:
    """Its id opens it in the store."""
    played = [replace(episode("look", success=False), id=f"t{i}") for i in (4, 5)]
    assert count_failures(played)["wrong goal"].example == "t4" and count_failures([]) == {}


@pytest.mark.parametrize("world", ["shop", "tools", "todo", "sql", "maze"])
def test_experts_are_perfect_beside_themselves(world: str) -> None:
    """The exact one has no regret and takes the shortest way; the fair one calls what it needs, when it needs it."""
    jobs = jobs_for(EnvSpec(world), "test", range(6))
    exact = compare_with_experts(Collector(ExpertAgent()).collect_batch(jobs))
    assert exact.regret.value == pytest.approx(0, abs=1e-9)
    assert exact.weighted_success.value == exact.efficiency.value == 1 and exact.efficiency.n == 6
    fair = compare_with_experts(Collector(ExpertAgent(fair=True)).collect_batch(jobs))
    tool_metrics = (fair.tool_f1, fair.plan_success, fair.timing)
    if world in ("shop", "maze"):  # without a tool that answers, tool metrics say nothing
        assert [metric.n for metric in tool_metrics] == [0, 0, 0]
    else:
        assert [(metric.n, metric.value) for metric in tool_metrics] == [(6, 1)] * 3


def test_figures_of_an_agent_known_by_heart() -> None:
    """Calculator: two detours and the right answer; then an answer at once, wrong; counted by hand."""
    spec = EnvSpec("calculator", {"difficulty": "easy"})
    jobs = jobs_for(spec, "test", [0])
    (best,) = Collector(ExpertAgent(thoughts=False)).collect_batch(jobs)
    plan = [step.reply.removeprefix("Action: ") for step in best.steps]
    (slow,) = Collector(Script("calculate[1 + 1]", "calculate[2 + 2]", *plan)).collect_batch(jobs)
    (rash,) = Collector(Script("finish[0.123456]")).collect_batch(jobs)
    assert slow.success and not rash.success and plan[-1].startswith("finish")
    n = len(plan)
    detour = compare_with_experts([slow])
    assert detour.weighted_success.value == detour.efficiency.value == pytest.approx(n / (n + 2))
    assert detour.tool_f1.value == detour.plan_success.value == 1
    at_once = compare_with_experts([rash])
    assert at_once.regret.value == pytest.approx(best.reward - rash.reward) and at_once.weighted_success.value == 0
    assert at_once.efficiency.n == 0 and at_once.timing.value == 0 and at_once.plan_success.value == 0
    assert at_once.tool_f1.value == pytest.approx(2 / 3)  # finish of calculate and finish
    both = compare_with_experts([slow, rash])
    assert both.weighted_success.value == pytest.approx(n / (n + 2) / 2) and both.weighted_success.n == 1


def test_a_call_where_none_was_needed_is_ill_timed() -> None:
    """One more calculation when the fair expert would answer."""
    jobs = jobs_for(EnvSpec("calculator", {"difficulty": "easy"}), "test", [0])
    (best,) = Collector(ExpertAgent(fair=True, thoughts=False)).collect_batch(jobs)
    *calls, answer = [step.reply.removeprefix("Action: ") for step in best.steps]
    (late,) = Collector(Script(*calls, calls[-1], answer)).collect_batch(jobs)
    assert late.success
    assert compare_with_experts([late]).timing.value == pytest.approx((len(calls) + 1) / (len(calls) + 2))


def test_a_world_without_an_expert_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its episodes are left out, and the evaluation ends with a result."""
    played = Collector(ExpertAgent()).collect_batch(jobs_for("calculator", "test", range(2)))

    def without(self: CalculatorEnv) -> list[str]:
        raise ConfigError("calculator has no expert")

    monkeypatch.setattr(CalculatorEnv, "expert", without)
    assert compare_with_experts(played).regret.n == 0


def test_no_evidence_no_figures(episode: Callable[..., Trajectory]) -> None:
    """Episodes that infrastructure ended are left out, and none at all is no error."""
    for played in ([], [episode("look", error="disk")]):
        found = compare_with_experts(played)
        assert all(metric["n"] == 0 for metric in found.as_dict().values())
        summary = summarise(played)
        assert math.isnan(summary.steps) and math.isnan(summary.invalid)
