"""Several tries a task by several agents."""

from __future__ import annotations

from agentgym_py.agents import Agent, ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.collection.collector import collect_with_diversity
from agentgym_py.env import EnvSpec


def test_tries_stand_side_by_side_and_differ() -> None:
    """Each agent plays each try of each task; ids and seeds are all different."""
    jobs = jobs_for([EnvSpec("shop")], "train", range(3), attempts=2)
    heard: list[object] = []
    played = collect_with_diversity([RandomAgent(), RandomAgent()], jobs, seed=1, progress=heard.append)
    assert len(played) == len(heard) == 12
    assert [each.task_id for each in played] == sorted(each.task_id for each in played)
    assert len({each.id for each in played}) == len({each.provenance.seed for each in played}) == 12
    assert len({tuple(step.reply for step in each.steps) for each in played if each.task_id == played[0].task_id}) > 1


def test_it_does_not_depend_on_slots() -> None:
    """Slots are speed only."""
    jobs = jobs_for([EnvSpec("shop")], "train", range(4))
    agents: list[Agent] = [ExpertAgent(), RandomAgent()]
    assert collect_with_diversity(agents, jobs, slots=1) == collect_with_diversity(agents, jobs, slots=7)


def test_in_order_gives_the_order_of_the_jobs() -> None:
    """As `collect_batch`, one by one."""
    jobs = jobs_for([EnvSpec("shop")], "train", range(6))
    collector = Collector(RandomAgent(), slots=3)
    assert list(collector.in_order(jobs)) == collector.collect_batch(jobs)
