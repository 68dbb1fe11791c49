"""agentgym_nemo_gym against the real NeMo Gym."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from agentgym_nemo_gym import rows
from checks import fail, note_starts
from scripted import SHOP, WORLDS, World, only_return, plays_as_directly, scripts
from through import nemo_gym, play, read, reply_of, rows_of

from agentgym_py.errors import UnknownNameError


def run(agent: str, row: dict[str, Any]) -> Any:
    """Ask NeMo Gym's agent for a rollout."""
    return requests.post(f"{agent}/run", json=row, timeout=60)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_nemo_gym_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks, by NeMo Gym's own agent and servers."""
    plays_as_directly(world, play, visible=only_return)


def test_a_group_starts_in_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """In that of a direct episode, to the byte."""
    (script,), starts = scripts(SHOP, 1), note_starts(monkeypatch)
    (row,) = rows_of(SHOP, [script])
    with nemo_gym(reply_of([script])) as (agent, _):
        assert [read(row, run(agent, row).json()) for _ in range(3)] == [only_return(script.episode)] * 3
    assert starts == {script.episode.task: [script.start] * 3}


def test_an_infrastructure_failure_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, in a step, and of the model's server: status 500, and the next episode is whole."""
    played = scripts(SHOP, 3)
    first, second, third = rows_of(SHOP, played)
    with nemo_gym(reply_of(played[:2])) as (agent, _):
        with monkeypatch.context() as patch:
            fail(patch, start=first["task"], step=second["task"])
            for row in (first, second, third):
                assert run(agent, row).status_code == 500
        assert read(second, run(agent, second).json()) == only_return(played[1].episode)


def test_a_session_is_closed_and_wrong_rows_are_refused() -> None:
    """By `/close`; a step without an episode and a row without a world have status 500."""
    (script,) = scripts(SHOP, 1)
    (row,) = rows_of(SHOP, [script])
    with nemo_gym(reply_of([script])) as (_, world), requests.Session() as session:
        reset = session.post(f"{world}/reset", json=row, timeout=60).json()
        assert reset["observation"] == script.episode.observations[0] and reset["info"]["supports_explicit_close"]
        assert session.post(f"{world}/close", json={}, timeout=60).json() == {"closed": True}
        response = {
            "id": "r", "created_at": 1, "model": "m", "object": "response", "output": [], "tools": [],
            "parallel_tool_calls": False, "tool_choice": "auto",
        }  # fmt: skip
        assert session.post(f"{world}/step", json=row | {"response": response}, timeout=60).status_code == 500
        empty = {"responses_create_params": {"input": []}}
        assert requests.post(f"{world}/reset", json=empty, timeout=60).status_code == 500
    with pytest.raises(UnknownNameError, match="train"):
        rows("shop", range(1), split="trian")
    with pytest.raises(UnknownNameError, match="shop"):
        rows("shopp", range(1))
