"""agentgym_rllm against the real rLLM."""

from __future__ import annotations

from typing import Any

import pytest
from agentgym_rllm import AgentGymFlow, rows
from chat_server import reply_of
from checks import FAILURE, fail, note_starts
from rllm.data import Dataset
from rllm.types import AgentConfig, AgentFlow, Task
from rllm.workflows.workflow import TerminationReason
from scripted import SHOP, WORLDS, World, plays_as_directly, scripts
from through import chat_server, play, read, rows_of, run

from agentgym_py.errors import ConfigError, InfrastructureError, UnknownNameError


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_rllm_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks, by rLLM's engine."""
    plays_as_directly(world, play)


def test_a_group_starts_in_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """In that of a direct episode, to the byte; its episodes share an id up to the number of the attempt."""
    played, starts = scripts(SHOP, 3), note_starts(monkeypatch)
    table = list(Dataset(rows_of(SHOP, played)))
    episodes = run(table, reply_of(played), attempts=4)
    assert starts == {script.episode.task: [script.start] * 4 for script in played}
    assert [read(episode) for episode in episodes] == [script.episode for script in played for _ in range(4)]
    assert [episode.id for episode in episodes[:4]] == [f"{played[0].episode.task}:{number}" for number in range(4)]


def test_an_infrastructure_failure_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the world at its start or in a step, and of the model's endpoint: no trajectory, or rLLM's error."""
    played = scripts(SHOP, 3)
    first, second = (script.episode.task for script in played[:2])
    fail(monkeypatch, start=first, step=second)
    reply, lost = reply_of(played), played[2].episode.observations[1]

    def reply_or_fail(messages: list[dict[str, Any]]) -> Any:
        return None if messages[-1]["content"] == lost else reply(messages)

    table = rows_of(SHOP, played)
    episodes = run(table, reply_or_fail, retry_limit=2, raise_on_error=False)
    assert [episode.trajectories for episode in episodes] == [[], [], []]
    assert {episode.termination_reason for episode in episodes} == {TerminationReason.ERROR}
    assert all(FAILURE in episode.metadata["error"]["message"] for episode in episodes[:2])
    with pytest.raises(InfrastructureError, match=FAILURE):
        run(table[:1], reply, retry_limit=1)


def test_the_flow_runs_without_an_event_loop_and_wrong_rows_are_errors() -> None:
    """As rLLM's protocol has it."""
    (script,) = scripts(SHOP, 1)
    (row,) = rows_of(SHOP, [script])
    flow = AgentGymFlow()
    assert isinstance(flow, AgentFlow)
    with chat_server(reply_of([script])) as url:
        config = AgentConfig(base_url=url, model="scripted", session_uid="a")
        assert flow.run(Task("a", "", row), config).artifacts["return"] == script.episode.reward
        with pytest.raises(ConfigError, match="world"):
            flow.run(Task("a", "", {}), config)
    with pytest.raises(UnknownNameError, match="train"):
        rows("shop", range(1), split="trian")
    with pytest.raises(UnknownNameError, match="shop"):
        rows("shopp", range(1))
