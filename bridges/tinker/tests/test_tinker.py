"""agentgym_tinker against the real tinker-cookbook."""

from __future__ import annotations

import asyncio
import pickle

import pytest
from agentgym_tinker import WorldDataset
from checks import FAILURE, fail, note_starts
from scripted import SHOP, WORLDS, World, plays_as_directly, scripts
from through import GROUP, dataset_of, play, run
from tinker_cookbook.rl.rollout_strategy import RetryOnFailure
from tinker_cookbook.rl.rollouts import do_group_rollout

from agentgym_py.errors import ConfigError, InfrastructureError, UnknownNameError
from agentgym_py.serving.tool_episode import ToolEpisode


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_tinker_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks in groups of two, by tinker-cookbook's own rollouts and a renderer."""
    plays_as_directly(world, play, copies=GROUP)


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


def test_batches_hold_every_task_once() -> None:
    """In order; a builder can be pickled; a wrong argument is an error."""
    dataset, _ = dataset_of(SHOP, scripts(SHOP, 10))
    batches = [dataset.get_batch(number) for number in range(len(dataset))]
    assert [len(batch) for batch in batches] == [8, 2]
    assert [builder.task for batch in batches for builder in batch] == [f"shop/train/medium/{n}" for n in range(10)]
    given = dataset.builders[0]
    assert pickle.loads(pickle.dumps(given.settings)) == given.settings and given.logging_tags() == ["shop"]  # noqa: S301
    with pytest.raises(ConfigError, match="group_size"):
        WorldDataset("shop", given.renderer, tasks=[0], group_size=0, batch_size=1)
    with pytest.raises(UnknownNameError, match="train"):
        WorldDataset("shop", given.renderer, tasks=[0], group_size=1, batch_size=1, split="trian")
