"""The scripted agent through tinker-cookbook: its group rollouts, with a policy whose tokens are written in advance."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from agentgym_tinker import WorldDataset
from scripted import SEED, Played, Script, World
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl.rollouts import do_group_rollout

from agentgym_py.env import StopReason
from agentgym_py.policy.tiny import build_tokenizer

GROUP = 2


class ScriptedPolicy(TokenCompleter):
    """Follows the script whose opening it reads, and then runs out of tokens."""

    def __init__(self, scripts: Sequence[Script], tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.scripts = {script.episode.observations[0]: script for script in scripts}

    async def __call__(self, model_input: Any, stop: Any, *, max_tokens: int | None = None) -> TokensWithLogprobs:
        """Reply with the next action, and tinker-cookbook's stop sequence."""
        text = self.tokenizer.decode(model_input.to_ints())
        script = next(script for opening, script in self.scripts.items() if text.startswith(f"User: {opening}\n\n"))
        turn = text.count("Assistant:") - 1
        ends = turn == len(script.actions)
        tokens = self.tokenizer.encode(
            " ..." if ends else f" {script.actions[turn]}{stop[0]}", add_special_tokens=False
        )
        return TokensWithLogprobs(tokens, [0.0] * len(tokens), "length" if ends else "stop")


def dataset_of(world: World, scripts: Sequence[Script], group_size: int = GROUP) -> tuple[WorldDataset, ScriptedPolicy]:
    """The data set of the scripts' tasks, without rules, and a policy that follows them."""
    tokenizer = build_tokenizer([text for script in scripts for text in script.episode.observations], 2048)
    dataset = WorldDataset(
        world.spec, get_renderer("role_colon", tokenizer), tasks=range(len(scripts)), group_size=group_size,
        batch_size=8, prompt="none", seed=SEED,
    )  # fmt: skip
    return dataset, ScriptedPolicy(scripts, tokenizer)


def read(task: str, opening: str, trajectory: Any) -> Played:
    """Read an episode; a last transition without a step of the world is the policy's end."""
    steps = [step for step in trajectory.transitions if "observation" in step.logs]
    assert all(step.logs["task"] == task for step in steps)
    last = steps[-1].metrics
    reasons = [StopReason(name.removeprefix("stop/")) for name in last if name.startswith("stop/")]
    return Played(
        task, (opening, *(step.logs["observation"] for step in steps)), tuple(step.reward for step in steps),
        last.get("success") == 1, reasons[0] if reasons else StopReason.GAVE_UP,
    )  # fmt: skip


def run(world: World, scripts: Sequence[Script], group_size: int = GROUP) -> list[Any]:
    """Roll out the groups of the scripts' tasks."""
    dataset, policy = dataset_of(world, scripts, group_size)

    async def groups() -> list[Any]:
        builders = [builder for number in range(len(dataset)) for builder in dataset.get_batch(number)]
        return [await do_group_rollout(builder, policy) for builder in builders]

    return asyncio.run(groups())


def play(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play each script in a group; return the episodes of each group one by one."""
    return [
        read(script.episode.task, script.episode.observations[0], trajectory)
        for script, group in zip(scripts, run(world, scripts), strict=True)
        for trajectory in group.trajectories_G
    ]


TIMED = {"through tinker-cookbook's rollouts, tokenizer included": partial(run, group_size=1)}
