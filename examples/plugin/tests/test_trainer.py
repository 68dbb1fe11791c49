from __future__ import annotations

import pytest

from agentgym_py import registry
from agentgym_py.agents import RandomAgent
from agentgym_py.collect import Collector, EnvSpec, jobs_for

Clumsy = registry.load("agentgym.agents", "clumsy")
shortest_successes = pytest.importorskip("odd_coin.trainer").shortest_successes


def test_it_keeps_the_shortest_success_of_each_task() -> None:
    """One a task that was solved; failures count for nothing."""
    jobs = jobs_for([EnvSpec("oddcoin")], "train", range(20), attempts=4)
    played = Collector(Clumsy(0.2)).collect_batch(jobs) + Collector(RandomAgent()).collect_batch(jobs)
    kept = shortest_successes(played)
    solved = {each.task_id for each in played if each.success}
    assert {each.task_id for each in kept} == solved and len(kept) == len(solved) < len(played)
    for each in kept:
        assert len(each.steps) == min(len(one.steps) for one in played if one.success and one.task_id == each.task_id)
