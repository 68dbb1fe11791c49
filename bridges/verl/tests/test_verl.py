"""agentgym_verl against the real verl."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agentgym_verl import rows
from checks import FAILURE, fail, note_starts
from scripted import SHOP, WORLDS, World, plays_as_directly, scripts
from through import GROUP, RESPONSE_LENGTH, batch_of, play, read, reply_of, rows_of, run, worker_of

from agentgym_py.env import StopReason
from agentgym_py.errors import ConfigError, InfrastructureError, UnknownNameError
from agentgym_py.serving.tool_episode import ToolEpisode


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_verl_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks in groups of two, by verl's data set and its agent loop worker."""
    plays_as_directly(world, play, copies=GROUP)


def test_a_group_starts_in_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """In that of a direct episode, to the byte."""
    played, starts = scripts(SHOP, 3), note_starts(monkeypatch)
    run(worker_of(played, reply_of(played)), rows_of(SHOP, played), attempts=4)
    assert starts == {script.episode.task: [script.start] * 4 for script in played}


def test_every_sampled_token_is_kept_as_it_is() -> None:
    """With mask 1 and its log-probability, though the replies are spelt in characters; all other tokens have 0."""
    played = scripts(SHOP, 3)
    worker = worker_of(played, reply_of(played))
    output = run(worker, rows_of(SHOP, played), attempts=1)
    sampled = {script.episode.task: list[list[int]]() for script in played}
    for prompt, tokens in worker.llm_client.requests:
        text = worker.tokenizer.decode(prompt)
        sampled[next(s.episode.task for s in played if s.episode.observations[0] in text)].append(tokens)
    for number, script in enumerate(played):
        assert len(sampled[script.episode.task]) == len(script.actions)
        wanted = [token for reply in sampled[script.episode.task] for token in reply]
        mask = output.batch["response_mask"][number].bool()
        assert output.batch["responses"][number][mask].tolist() == wanted
        logprobs = output.batch["rollout_log_probs"][number]
        assert logprobs[mask].tolist() == [-float(token) for token in wanted] and not logprobs[~mask].any()
        tokens = output.batch["input_ids"][number][output.batch["attention_mask"][number].bool()]
        seen = script.episode.observations
        turns = [{"role": "user", "content": seen[0]}]
        for action, observation in zip(script.actions, seen[1:], strict=True):
            turns += [{"role": "assistant", "content": action}, {"role": "user", "content": observation}]
        rendered = worker.tokenizer.apply_chat_template(turns[:-1], tokenize=False)
        assert worker.tokenizer.decode(tokens.tolist()) + "\n" == rendered
        assert output.non_tensor_batch["__num_turns__"][number] == len(turns) - 1
        assert len(output.non_tensor_batch["turn_scores"][number]) == len(script.actions)


def test_limits_end_an_episode_as_given_up() -> None:
    """Of replies, and of tokens: a reply that does not fit is not played, and the response has the limit's length."""
    played = scripts(SHOP, 5)
    script = next(script for script in played if len(script.actions) > 2)
    table = [row for row in rows_of(SHOP, played) if row["task"] == script.episode.task]
    turns = worker_of([script], reply_of([script]), 0, "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=2")
    (episode,) = read(turns, run(turns, table, attempts=1))
    assert episode.stop_reason is StopReason.GAVE_UP and episode.observations == script.episode.observations[:2]
    endless = worker_of([script], lambda prompt: None)
    output = run(endless, table, attempts=1)
    assert output.batch["response_mask"].sum() == RESPONSE_LENGTH and output.non_tensor_batch["steps"][0] == 0


def test_an_infrastructure_failure_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start or in a step verl stops with an error; with `retries` the episode is repeated and is whole."""
    played = scripts(SHOP, 2)
    first, second = played
    table = rows_of(SHOP, played)
    for moment in ({"start": first.episode.task}, {"step": second.episode.task}):
        with monkeypatch.context() as patch:
            fail(patch, **moment)
            with pytest.raises(InfrastructureError, match=FAILURE):
                run(worker_of(played, reply_of(played), 1), table)
    failed, step = set[str](), ToolEpisode.step

    def fails_once(self: ToolEpisode, text: str) -> Any:
        if self.steps and self.task.id not in failed:
            failed.add(self.task.id)
            raise InfrastructureError(FAILURE)
        return step(self, text)

    monkeypatch.setattr(ToolEpisode, "step", fails_once)
    worker = worker_of(played, reply_of(played), 1)
    assert read(worker, run(worker, table, attempts=1)) == [script.episode for script in played]
    assert failed == {script.episode.task for script in played}


def test_wrong_rows_are_errors() -> None:
    """A prompt that is not that of the world, and wrong arguments of `rows`."""
    played = scripts(SHOP, 1)
    (row,) = rows_of(SHOP, played)
    worker = worker_of(played, reply_of(played))
    for changed in ({"seed": 7, "prompt": [{"role": "user", "content": "Buy!"}]}, {"world_kwargs": "no JSON"}):
        with pytest.raises(ConfigError, match=r"data set again|world_kwargs"):
            asyncio.run(worker.generate_sequences(batch_of(worker, [row | changed])))
    with pytest.raises(UnknownNameError, match="train"):
        rows("shop", range(1), split="trian")
    with pytest.raises(UnknownNameError, match="shop"):
        rows("shopp", range(1))
