"""agentgym_tinker against the real tinker-cookbook."""

from __future__ import annotations

import asyncio
import json
import pickle

import pytest
from agentgym_tinker import WorldDataset
from checks import FAILURE, fail, note_closed, note_starts
from scripted import SEED, SHOP, TODO, WORLDS, World, plays_as_directly, scripts
from through import GROUP, dataset_of, play, run
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl.rollout_strategy import RetryOnFailure
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import StepResult

from agentgym_py.errors import ConfigError, InfrastructureError, UnknownNameError
from agentgym_py.policy.tiny import build_tokenizer
from agentgym_py.serving.tool_episode import ToolEpisode


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_tinker_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks in groups of two, by tinker-cookbook's own rollouts and a renderer."""
    plays_as_directly(world, play, copies=GROUP)


@pytest.mark.parametrize("renderer", ["qwen3", "qwen3_instruct"])
@pytest.mark.parametrize(
    ("reply", "is_valid"),
    [
        ("{call}", True),
        ("<think>\nI read.\n</think>\n\n{call}", True),
        ("I read.\n{call}", True),
        ("{call}\n{call}", False),
        ("I read.\n<tool_call>\n{{broken\n</tool_call>", False),
        ("<think>\nI read.\n</think>\n\nAction: {name}\nAction Input: {arguments}", True),
    ],
)
def test_a_reply_keeps_its_calls_and_may_think(renderer: str, reply: str, is_valid: bool) -> None:
    """A renderer that takes thinking and calls out of the text makes no other step of the reply."""
    (script,) = scripts(TODO, 1)
    name, arguments = script.calls[0][0], json.dumps(script.calls[0][1])
    call = f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
    tokenizer = build_tokenizer(script.episode.observations, 2048)
    tokenizer.add_tokens(["<|im_start|>", "<|im_end|>"], special_tokens=True)
    builder = WorldDataset(
        TODO.spec, get_renderer(renderer, tokenizer), tasks=[0], group_size=1, batch_size=1, prompt="none", seed=SEED
    ).builders[0]
    text = reply.format(call=call, name=name, arguments=arguments)

    async def first_step() -> StepResult:
        (env,) = await builder.make_envs()
        await env.initial_observation()
        step = await env.step(tokenizer.encode(f"{text}<|im_end|>", add_special_tokens=False))
        await builder.cleanup()
        return step

    step = asyncio.run(first_step())
    assert step.metrics["valid_action"] == is_valid
    assert (step.logs["observation"] == script.episode.observations[1]) is is_valid


def test_a_group_starts_in_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """In that of a direct episode, to the byte; its total rewards are returns."""
    played, starts = scripts(SHOP, 3), note_starts(monkeypatch)
    groups = run(SHOP, played, group_size=4)
    assert starts == {script.episode.task: [script.start] * 4 for script in played}
    assert [group.get_total_rewards() for group in groups] == [[script.episode.reward] * 4 for script in played]


def test_an_infrastructure_failure_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rollout raises, and tinker-cookbook's retry makes the group whole."""
    played = scripts(SHOP, 2)
    with monkeypatch.context() as patch:
        fail(patch, step=played[1].episode.task)
        with pytest.raises(InfrastructureError, match=FAILURE):
            run(SHOP, played)
    dataset, policy = dataset_of(SHOP, played)
    step, failures = ToolEpisode.step, [FAILURE]

    def fails_once(self: ToolEpisode, text: str) -> object:
        if failures and self.steps:
            raise InfrastructureError(failures.pop())
        return step(self, text)

    monkeypatch.setattr(ToolEpisode, "step", fails_once)
    group = asyncio.run(do_group_rollout(dataset.builders[1], policy, RetryOnFailure(max_retries=1)))
    assert not failures and group.get_total_rewards() == [played[1].episode.reward] * GROUP


def test_every_world_is_closed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of episodes that end in every way, of those that a failed sibling stops, and of a start that comes too late."""
    played, closed = scripts(SHOP, 5), note_closed(monkeypatch)
    run(SHOP, played)
    assert sorted(closed) == [script.episode.task for script in played for _ in range(GROUP)]
    closed.clear()
    builder = dataset_of(SHOP, played)[0].builders[0]

    async def stop_early() -> None:
        running, late = await builder.make_envs()
        await running.initial_observation()
        for _ in range(2):
            await builder.cleanup()
            assert closed == [builder.task]
        with pytest.raises(InfrastructureError, match="its group has ended"):
            await running.message_env.step({"role": "assistant", "content": "search[cup]"})
        with pytest.raises(InfrastructureError, match="its group has ended"):
            await late.initial_observation()
        assert closed == [builder.task] * 2

    asyncio.run(stop_early())


def test_batches_hold_every_task_once() -> None:
    """In order; a builder can be pickled; a wrong argument is an error."""
    dataset, _ = dataset_of(SHOP, scripts(SHOP, 10))
    batches = [dataset.get_batch(number) for number in range(len(dataset))]
    assert [len(batch) for batch in batches] == [8, 2]
    assert [group.task for batch in batches for group in batch] == [f"shop/train/medium/{n}" for n in range(10)]
    builder = dataset.builders[0]
    assert pickle.loads(pickle.dumps(builder.settings)) == builder.settings and builder.logging_tags() == ["shop"]  # noqa: S301
    with pytest.raises(ConfigError, match="group_size"):
        WorldDataset("shop", builder.renderer, tasks=[0], group_size=0, batch_size=1)
    with pytest.raises(UnknownNameError, match="train"):
        WorldDataset("shop", builder.renderer, tasks=[0], group_size=1, batch_size=1, split="trian")
