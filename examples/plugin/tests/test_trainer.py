from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from agentgym_py import registry
from agentgym_py.agents import RandomAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec

Clumsy = registry.load("agentgym.agents", "clumsy")
Shortest = registry.load("agentgym.trainers", "shortest")
shortest_successes, loss_of = (
    getattr(import_module(Shortest.__module__), it) for it in ("shortest_successes", "loss_of")
)


def test_it_keeps_the_shortest_success_of_each_task() -> None:
    """One a task that was solved; failures count for nothing."""
    jobs = jobs_for([EnvSpec("oddcoin")], "train", range(20), attempts=4)
    played = Collector(Clumsy(0.2)).collect_batch(jobs) + Collector(RandomAgent()).collect_batch(jobs)
    kept = shortest_successes(played)
    solved = {each.task_id for each in played if each.success}
    assert {each.task_id for each in kept} == solved and len(kept) == len(solved) < len(played)
    for each in kept:
        assert len(each.steps) == min(len(one.steps) for one in played if one.success and one.task_id == each.task_id)


def test_the_loss_is_the_mean_of_the_surprise() -> None:
    """Of one agent token as of three, by hand."""
    torch = pytest.importorskip("torch")
    for logprobs in ([-2.0], [-1.0, -3.0, -0.5]):
        assert float(loss_of(torch.tensor(logprobs))) == pytest.approx(-sum(logprobs) / len(logprobs))


def test_training_makes_what_was_done_likelier(tmp_path: Path) -> None:
    """The same four episodes for three epochs; the same seed gives the same losses."""
    pytest.importorskip("torch")
    from agentgym_py.policy import Policy

    played = Collector(Clumsy(0.0)).collect_batch(jobs_for([EnvSpec("oddcoin")], "train", range(4)))
    reports = [Shortest(epochs=3).train(Policy.load("tiny"), played, seed=1, output_dir=tmp_path) for _ in range(2)]
    losses = reports[0].loss
    assert len(losses) == 12 and sum(losses[-4:]) < 0.9 * sum(losses[:4]) and losses == reports[1].loss


def test_nothing_to_learn_from_is_said(tmp_path: Path) -> None:
    """Where no trajectory is left."""
    pytest.importorskip("torch")
    from agentgym_py.errors import ConfigError, NothingToTrainOnError
    from agentgym_py.policy import Policy

    with pytest.raises(NothingToTrainOnError, match="shortest: nothing left of 0"):
        Shortest().train(Policy.load("tiny"), [], seed=0, output_dir=tmp_path)
    with pytest.raises(ConfigError, match="epochs"):
        Shortest(epochs=0)
