from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_py import trust
from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.collection.replay import replay
from agentgym_py.errors import SnapshotError, UnknownNameError
from agentgym_py.policy import Policy
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.viewer.live import LiveEpisode, Models, TypedAgent, evaluated_model, plans


@pytest.fixture(scope="module")
def played() -> Trajectory:
    """An expert's episode of the shop, of several steps."""
    return Collector(ExpertAgent(thoughts=False), PlayConfig(prompt="brief")).collect_batch(
        jobs_for("shop", "train", [3])
    )[0]


def test_the_plan_is_what_the_expert_did(played: Trajectory) -> None:
    """From each state along its own episode the expert plans what it then does."""
    found = plans(played)
    assert [plan[0] for plan in found] == [step.action for step in played.steps]
    assert [len(plan) for plan in found] == [len(played.steps) - i for i in range(len(played.steps))]


def test_a_person_goes_on_where_the_episode_was(played: Trajectory) -> None:
    """The steps before are kept, the state is the same, and the whole episode can be replayed."""
    live = LiveEpisode(played, 1)
    assert live.trajectory.final_observation == played.steps[1].observation
    assert live.actions is not None
    assert played.steps[1].action in live.actions
    for step in played.steps[1:]:
        assert not live.over
        live.act(TypedAgent(step.action))
    assert live.over
    assert live.actions is None
    made = live.trajectory
    assert (made.success, made.reward, made.terminated, made.given_up) == (True, played.reward, True, False)
    assert made.provenance.agent == "person"
    assert [step.trained for step in made.steps] == [False] + [True] * (len(made.steps) - 1)
    assert made.id != played.id
    assert replay(made).holds


def test_whoever_acts_is_named(played: Trajectory) -> None:
    """A person and then the expert; an action that is not valid is a step as any."""
    live = LiveEpisode(played, 0)
    live.act(TypedAgent("fly away"))
    assert [step.valid for step in live.trajectory.steps] == [False]
    live.act(ExpertAgent(), 100)
    assert live.trajectory.success
    assert live.trajectory.provenance.agent == "person and expert"
    assert replay(live.trajectory).holds
    before = live.trajectory
    assert live.act(TypedAgent("once more")) == before  # it is over


def test_going_on_plays_the_episode_once(played: Trajectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many steps an agent continues for, what was is done again once."""
    times = list[int]()
    collect = Collector.collect

    def counted(self: Collector, job: Any) -> Trajectory:
        times.append(1)
        return collect(self, job)

    live = LiveEpisode(played, 0)
    monkeypatch.setattr(Collector, "collect", counted)
    live.act(TypedAgent("fly away"), 3)
    assert [step.action for step in live.trajectory.steps] == ["fly away"] * 3
    live.act(ExpertAgent(), 100)
    assert live.over
    assert len(times) == 2


def test_a_call_of_a_tool_may_stand_in_one_line() -> None:
    """As in `agentgym play`."""
    t = Collector(ExpertAgent(), PlayConfig(prompt="brief")).collect_batch(jobs_for("todo", "train", [0]))[0]
    live = LiveEpisode(t, 0)
    first = t.steps[0]
    assert first.action_input is not None
    live.act(TypedAgent(f"{first.action} {first.action_input}"))
    assert live.trajectory.steps[0].valid
    assert live.trajectory.final_observation == (t.steps[1].observation if len(t.steps) > 1 else t.final_observation)


def test_a_world_that_shows_something_else_is_said(played: Trajectory) -> None:
    """No agent continues from a state that was not there; nor from a step that is not there."""
    other = replace(played, steps=(replace(played.steps[0], observation="another page"), *played.steps[1:]))
    with pytest.raises(SnapshotError, match="the observation of step 1 differs on replay"):
        LiveEpisode(other, 1)
    with pytest.raises(SnapshotError, match="the observation of step 1 differs on replay"):
        plans(other)
    with pytest.raises(SnapshotError, match="no state before"):
        LiveEpisode(played, len(played.steps))


def test_a_model_of_the_run_goes_on(made_run: Path) -> None:
    """From its checkpoint, once loaded; its tokens are in the record, and what it replies to is what was said."""
    loaded = []

    def load(folder: str) -> Policy:
        loaded.append(Path(folder).relative_to(made_run).as_posix())
        return Policy.load(folder)

    models = Models(made_run, load)
    assert list(models.names()) == ["rounds/01/checkpoint"]
    live = LiveEpisode(next(store.read(made_run / "rounds" / "01" / "trajectories.jsonl")), 1)
    for _ in range(2):
        models.act(live, "rounds/01/checkpoint", 1, 0.0)
    assert loaded == ["rounds/01/checkpoint"]
    steps = live.trajectory.steps
    assert len(steps) == 3
    assert all(step.tokens for step in steps)
    assert live.trajectory.provenance.agent == "rounds/01/checkpoint"
    assert live.trajectory.provenance.policy_digest == Policy.load(made_run / "rounds" / "01" / "checkpoint").digest()
    with pytest.raises(UnknownNameError, match="No model '/etc'"):
        models.act(live, "/etc", 1, 0.0)


def test_an_agent_without_a_reply_gives_up(played: Trajectory) -> None:
    """It is said, and the episode can still go on."""

    class Silent(TypedAgent):
        def act(self, episodes: Any) -> Any:
            return [None]

    live = LiveEpisode(played, 1)
    live.act(Silent(""), 5)
    assert live.gave_up
    assert not live.over
    live.act(ExpertAgent(), 100)
    assert live.over
    assert not live.gave_up


def test_the_model_of_an_evaluation_may_act(tmp_path: Path) -> None:
    """Where its folder is still there, or it is built in, and no other agent played; else there is none."""
    assert evaluated_model(tmp_path) is None
    for model, found in (("tiny", "tiny"), (str(tmp_path), str(tmp_path)), ("/no/such", None), ("", None), (3, None)):
        (tmp_path / "result.json").write_text(f'{{"options": {{"model": {model!r}}}}}'.replace("'", '"'))
        assert evaluated_model(tmp_path) == found
    (tmp_path / "result.json").write_text(f'{{"options": {{"model": "{tmp_path}"}}}}')
    with trust.naming([]):
        assert evaluated_model(tmp_path) is None, "a folder elsewhere, which only the evaluation names"
    with trust.naming(["--trust", str(tmp_path)]):
        assert evaluated_model(tmp_path) == str(tmp_path)
    for agent, found in (("null", "tiny"), ('"model"', "tiny"), ('"openai"', None), ('"expert"', None)):
        (tmp_path / "result.json").write_text(f'{{"options": {{"agent": {agent}, "model": "tiny"}}}}')
        assert evaluated_model(tmp_path) == found
