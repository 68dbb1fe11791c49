"""agentgym_agentlightning against the real Agent Lightning."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import httpx
import pytest
from agentgym_agentlightning import AgentGymAgent, _hide_until_success, local_runner, rows
from agentlightning.schemas import RolloutState
from agentlightning.server.app import create_app
from chat_server import chat_server, reply_of
from checks import FAILURE, fail, note_starts, serving
from scripted import SHOP, WORLDS, World, only_return, plays_as_directly, scripts
from through import KEY, PROXY, ask, controller, play, read, rows_of, run

from agentgym_py.env import SPLITS
from agentgym_py.errors import ConfigError, InfrastructureError, UnknownNameError


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_agent_lightning_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks, by its server, gateway, local controller and rollout manager."""
    plays_as_directly(world, play, visible=only_return)


def test_a_group_starts_in_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """In that of a direct episode, to the byte; each prompt extends the tokens of the turn before."""
    played, starts = scripts(SHOP, 3), note_starts(monkeypatch)
    rollouts = run(rows_of(SHOP, played), reply_of(played), attempts=4)
    assert starts == {script.episode.task: [script.start] * 4 for script in played}
    assert [read(rollout) for rollout in rollouts] == [
        only_return(script.episode) for script in played for _ in range(4)
    ]
    assert len({rollout.data_id for rollout in rollouts}) == 3
    for rollout in rollouts:
        for turn, following in zip(rollout.triplets, rollout.triplets[1:], strict=False):
            context = turn.prompt["token_ids"] + turn.response["token_ids"]
            assert following.prompt["token_ids"][: len(context)] == context
            assert len(turn.response["log_probs"]) == len(turn.response["token_ids"])


def test_an_infrastructure_failure_has_no_reward(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of the world at its start or in a step, and of the model's server: no reward, and no tokens to train."""
    played = scripts(SHOP, 3)
    first, second = (script.episode.task for script in played[:2])
    fail(monkeypatch, start=first, step=second)
    reply, lost = reply_of(played), played[2].episode.observations[1]

    def reply_or_fail(messages: list[dict[str, Any]]) -> Any:
        return None if messages[-1]["content"] == lost else reply(messages)

    rollouts = run(rows_of(SHOP, played), reply_or_fail)
    assert {rollout.rollout_state for rollout in rollouts} == {RolloutState.FAILED}
    assert [(rollout.final_reward, rollout.triplets, rollout.events) for rollout in rollouts] == [(None, [], [])] * 3
    assert capfd.readouterr().err.count(FAILURE) >= 2


def test_real_processes_play_and_a_killed_one_has_no_reward() -> None:
    """The controller starts them; one is killed when it has a reply already."""
    played = scripts(SHOP, 2)
    table, reply, lost = rows_of(SHOP, played), reply_of(played), played[1].episode.observations[1]
    with serving(create_app({"key": KEY, "default_proxy": PROXY})) as url, controller(url, size=2) as running:

        def reply_or_kill(messages: list[dict[str, Any]]) -> str:
            if messages[-1]["content"] == lost:
                waiting = [item.proc.pid for item in running._rid_to_proc.values() if item.proc.returncode is None]
                os.kill(waiting[-1], signal.SIGKILL)
            return reply(messages)

        with chat_server(reply_or_kill) as model:
            whole, killed = (ask(url, model, [row], local_runner(), is_train=False)[0] for row in table)
    assert read(whole) == only_return(played[0].episode) and whole.rollout_state is RolloutState.SUCCEEDED
    assert killed.rollout_state is RolloutState.FAILED and "code -9" in killed.error_message
    assert (killed.final_reward, killed.triplets, killed.events) == (None, [], [])


@pytest.mark.parametrize("state", [RolloutState.FAILED, RolloutState.SUCCEEDED, RolloutState.QUEUING])
def test_a_process_whose_rollout_does_not_run_ends(state: RolloutState, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once if the rollout has ended, and after a deadline if it never starts."""
    monkeypatch.setattr("agentgym_agentlightning.START", 0.2)
    answer = httpx.Response(
        200, json={"rollout": {"status": {"state": state}}}, request=httpx.Request("GET", "http://a")
    )

    class Client:
        """Agent Lightning's client."""

        async def get(self, path: str) -> httpx.Response:
            """Answer with the rollout."""
            return answer

    with pytest.raises(InfrastructureError, match=f"state of it is '{state}'"):
        asyncio.run(asyncio.wait_for(_hide_until_success(Client(), "rollout"), 20))


def test_the_model_is_asked_as_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request reaches the gateway, which sets model and temperature."""
    (script,) = played = scripts(SHOP, 1)
    monkeypatch.setattr("through.local_runner", lambda turns: local_runner(turns, max_completion_tokens=9))
    for train, temperature in ((True, 1), (False, 0.7)):
        (rollout,) = run(rows_of(SHOP, played), reply_of(played), is_train=train)
        request = next(event["data"]["request"] for event in rollout.events if event["event_type"] == "model_request")
        assert read(rollout) == only_return(script.episode)
        assert (request["model"], request["temperature"], request["max_completion_tokens"]) == (
            "scripted", temperature, 9
        )  # fmt: skip


def test_splits_are_apart() -> None:
    """No task is in two of them, and a row says no opening, which the world tells."""
    tables = {split: rows("shop", range(20), split=split) for split in SPLITS}
    tasks = [row["task"] for table in tables.values() for row in table]
    assert len(set(tasks)) == len(tasks) == 20 * len(SPLITS)
    assert all(f"/{split}/" in row["task"] for split, table in tables.items() for row in table)
    assert all("opening" not in row and row["data_source"] == row["world"] for row in tables["train"])


def test_wrong_arguments_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `rows`, and of a trainer without `local_runner`."""
    monkeypatch.delenv("AGENTGYM_ROW", raising=False)
    with pytest.raises(ConfigError, match="AGENTGYM_ROW must be JSON"):
        asyncio.run(AgentGymAgent().run())
    monkeypatch.setenv("AGENTGYM_ROW", "7")
    with pytest.raises(ConfigError, match="AGENTGYM_ROW must be a JSON object"):
        asyncio.run(AgentGymAgent().run())
    with pytest.raises(UnknownNameError, match="train"):
        rows("shop", range(1), split="trian")
    with pytest.raises(UnknownNameError, match="shop"):
        rows("shopp", range(1))
