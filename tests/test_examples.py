"""The examples that tutorials show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripts import load_script

from agentgym_py.agents import RandomAgent
from agentgym_py.agents.openai import OpenAIAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.trajectory.dataset import AgentTrajDataset

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str) -> Any:
    """Import a module of `examples/`."""
    return load_script(f"examples/{name}.py")


def test_own_chats_become_trajectories() -> None:
    """Turns alternate, only the assistant is trained on, and equal openings are one task."""
    data = AgentTrajDataset.load(EXAMPLES / "chats" / "support.jsonl")
    assert [chat.id for chat in data] == ["c1", "c2", "c3", "c4"]
    assert [chat.reward for chat in data] == [1.0, 0.8, 0.2, 1.0]
    assert [chat.success for chat in data] == [True, True, False, True]
    assert data[1].rules.startswith("You answer") and data[2].rules == ""
    assert [step.observation for step in data[1].steps] == ["Hello\n\nWhen do you close today?"]
    assert [step.trained for chat in data for step in chat.steps] == [True] * 5
    assert data[3].final_observation == "Thanks!"
    (pair,) = data.preferences()
    assert (pair.chosen.id, pair.rejected.id) == ("c4", "c3")


def test_the_reward_of_the_example_prefers_short_successes() -> None:
    """Its parts add up to a success less prices, which are settings."""
    score = example("my_reward").score
    episodes = Collector(RandomAgent()).collect_batch(jobs_for(EnvSpec("maze", {"max_steps": 4}), "train", range(1)))
    (failure,) = episodes
    success = replace(failure, success=True, steps=failure.steps[:2])
    assert sum(score(success).values()) == pytest.approx(0.96) and sum(score(failure).values()) == pytest.approx(-0.08)
    invalid = replace(failure, steps=(replace(failure.steps[0], valid=False),))
    assert score(invalid, step_price=0.5, invalid_price=1.0) == {"success": 0.0, "steps": -0.5, "invalid": -1.0}


def test_the_on_policy_trainer_of_the_example_is_proven() -> None:
    """Its baseline and loss by hand; its gradients and its learning by exact truth, without a check that failed."""
    torch = pytest.importorskip("torch")
    from agentgym_py.proof import prove

    mine = example("my_reinforce")
    assert mine.leave_one_out([1.0, 0.0, 0.5]) == [0.75, -0.75, 0.0] and mine.leave_one_out([1.0]) == [0.0]
    assert float(mine.reinforce_loss(torch.tensor([-1.0, -3.0]), 0.5)) == 1.0
    proof = prove(str(EXAMPLES / "my_reinforce.py") + ":Reinforce", seeds=2, reference="none")
    assert not [result for result in proof.results if result.status == "failed"]
    assert {"mask", "temperature", "sign", "improves"} <= {r.check for r in proof.results if r.status == "passed"}


@pytest.mark.parametrize(("model", "solved"), [("large", 10), ("small", 8)])
def test_the_stand_in_for_an_api_plays_the_example_world(model: str, solved: int) -> None:
    """Its models answer over HTTP, count tokens, and differ in success."""
    pytest.importorskip("httpx2")
    with example("guess_server").serving() as address:
        jobs = jobs_for(EnvSpec(str(EXAMPLES / "my_world.py")), "test", range(10))
        episodes = Collector(OpenAIAgent(model, address)).collect_batch(jobs)
    assert sum(episode.success for episode in episodes) == solved
    assert all(step.usage and step.usage.prompt_tokens and step.valid for e in episodes for step in e.steps)
