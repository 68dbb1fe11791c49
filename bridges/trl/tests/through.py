"""The scripted agent through trl: GRPOTrainer's own loop, with a model whose replies are written in advance."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

from agentgym_trl import AgentGymSpec, ToolEnvironment
from scripted import SEED, Call, Played, Script, World, only_return

from agentgym_py.collection import PlayConfig
from agentgym_py.engine import Generation, SamplingParams
from agentgym_py.env import StopReason
from agentgym_py.policy import Policy
from agentgym_py.policy.tiny import build_tokenizer
from agentgym_py.testing.zoo import FAMILIES, build_model, trl_template
from agentgym_py.training.trl_rollout import episode_return, rollout_func

GROUP = 2
CONTEXT = 1280
"""Tokens of the context of `rollout_func`; a script that is given up fills it with its first reply."""


def spec_of(world: World, scripts: Sequence[Script]) -> AgentGymSpec:
    """The spec of the scripts' tasks, without rules."""
    return AgentGymSpec(world.spec, tasks=range(len(scripts)), tools=world.tools, prompt="none", seed=SEED)


def make_trainer(spec: AgentGymSpec, texts: Sequence[str], reward: Callable[..., Any], **more: Any) -> Any:
    """Make a GRPOTrainer of a random miniature of Qwen2.5 whose tokenizer is learnt from `texts`; it plays by tools."""
    rollouts = {"train_dataset": spec.train_dataset, "environment_factory": spec.environment_factory}
    return trainer_of(texts, rollouts | {"reward_funcs": reward}, max_tool_calling_iterations=spec.max_steps, **more)


def trainer_of(texts: Sequence[str], rollouts: dict[str, Any], **more: Any) -> Any:
    """Make a GRPOTrainer as `make_trainer`, which plays as `rollouts` say."""
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = build_tokenizer(texts, 2048)
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]})
    tokenizer.add_tokens(["<tool_call>", "</tool_call>"])
    tokenizer.chat_template = trl_template("qwen2_5")
    family = replace(FAMILIES["qwen2.5"], ends=(), settings={"max_position_embeddings": 1 << 15})
    usual: dict[str, Any] = {
        "output_dir": tempfile.mkdtemp(), "use_cpu": True, "bf16": False, "gradient_checkpointing": False,
        "report_to": "none", "disable_tqdm": True, "save_strategy": "no", "logging_steps": 1, "num_train_epochs": 1,
        "per_device_train_batch_size": 2 * GROUP, "num_generations": GROUP, "max_completion_length": 1 << 14,
        "dataloader_pin_memory": False,
    }  # fmt: skip
    args = GRPOConfig(**usual | more)
    return GRPOTrainer(model=build_model(family, tokenizer), args=args, processing_class=tokenizer, **rollouts)


def follow(trainer: Any, calls: Callable[[str], Sequence[Call]]) -> None:
    """Let the trainer's model make the calls that `calls` returns for a prompt, one a turn, and then reply in words."""
    tokenizer = trainer.processing_class

    def reply(prompt: str) -> str:
        turn, planned = prompt.count("<|im_start|>assistant\n") - 1, calls(prompt)
        if turn == len(planned):
            return "I stop."
        function = tokenizer.apply_chat_template(
            [{"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": dict(
                zip(("name", "arguments"), planned[turn], strict=True))}]}], tokenize=False,
        )  # fmt: skip
        return function.partition("<|im_start|>assistant\n")[2].removesuffix("<|im_end|>\n")

    def generate(prompts: list[list[int]], *_: Any, **__: Any) -> tuple[list[list[int]], None]:
        replies = [reply(tokenizer.decode(ids)) + "<|im_end|>" for ids in prompts]
        return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in replies], None

    trainer._generate_single_turn = generate


def texts_of(scripts: Sequence[Script]) -> list[str]:
    """What the tokenizer learns from."""
    return [text for script in scripts for text in script.episode.observations]


def play(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play each script in a group of `GROUP` by GRPOTrainer; return the episodes by task, each group's one by one."""
    spec, played = spec_of(world, scripts), list[Played]()
    by_opening = {script.episode.observations[0]: script.calls for script in scripts}
    assert len(by_opening) == len(scripts), "the scripted model knows a task by its opening"

    def reward(
        prompts: Any, completions: Any, environments: Sequence[ToolEnvironment], **more: Any
    ) -> list[float | None]:
        rewards = spec.reward_funcs[0](environments=environments, **more)
        for prompt, messages, environment, value in zip(prompts, completions, environments, rewards, strict=True):
            seen = [message["content"] for message in messages if message["role"] == "tool"]
            episode = environment.trajectory
            assert episode is not None and value == episode.reward
            steps = tuple(step.reward for step in episode.steps)
            played.append(
                Played(
                    episode.task_id, (prompt[-1]["content"], *seen), steps, episode.success,
                    episode.stop_reason,  # type: ignore[arg-type]  # a live episode always has one
                )
            )  # fmt: skip
        return rewards

    trainer = make_trainer(spec, texts_of(scripts), reward)
    openings = sorted(by_opening, key=len, reverse=True)
    follow(trainer, lambda prompt: by_opening[next(opening for opening in openings if opening in prompt)])
    trainer.train()
    order = {task: number for number, task in enumerate(spec.task_ids)}
    return sorted(played, key=lambda episode: order[episode.task])


def call_methods(world: World, scripts: Sequence[Script]) -> None:
    """Call the methods alone: what the trainer does between them depends on its model."""
    spec = spec_of(world, scripts)
    environment = spec.environment_factory()
    for script in scripts:
        environment.reset(task=script.episode.task)
        for name, arguments in script.calls:
            getattr(environment, name)(**arguments)


class ScriptedEngine:
    """Replies that are written in advance, in the place of `HFEngine`."""

    digest = ""

    def __init__(self, scripts: Sequence[Script], policy: Policy, *_: Any, **__: Any) -> None:
        self.policy, self.scripts = policy, sorted(scripts, key=lambda each: -len(each.episode.observations[0]))

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int] | None = None
    ) -> list[Generation]:
        """Follow the scripts whose openings stand in the prompts."""
        return [self._reply(self.policy.tokenizer.decode(list(prompt))) for prompt in prompts]

    def sync(self, policy: Policy, version: int) -> None:
        """Keep the scripts."""

    def _reply(self, prompt: str) -> Generation:
        script = next(each for each in self.scripts if f"user\n{each.episode.observations[0]}<|im_end|>" in prompt)
        text = script.actions[prompt.count("<|im_start|>assistant\n") - 1]
        if script.episode.stop_reason is StopReason.GAVE_UP:
            text = f"Thought:{' so' * (CONTEXT // len(self._encode(' so')))}\nAction: {text}"
        ids = self._encode(text + "<|im_end|>")
        return Generation(tuple(ids), (-0.5,) * len(ids), "stop")

    def _encode(self, text: str) -> list[int]:
        return self.policy.tokenizer(text, add_special_tokens=False)["input_ids"]


@contextmanager
def rollouts_of(world: World, scripts: Sequence[Script]) -> Iterator[Callable[[Sequence[str], Any], Any]]:
    """Make the `rollout_func` of the scripts' world; within the block its model follows the scripts."""
    play = rollout_func(world.spec, max_new_tokens=64, play=PlayConfig(prompt="none"), max_context=CONTEXT)
    with patch("agentgym_py.engine.HFEngine", partial(ScriptedEngine, scripts)):
        yield play


def trainer_in_text(scripts: Sequence[Script], play: Callable[[Sequence[str], Any], Any]) -> Any:
    """Make a GRPOTrainer that plays the scripts' tasks by a `rollout_func`."""
    from datasets import Dataset

    rows = Dataset.from_dict({"prompt": [script.episode.task for script in scripts]})
    rollouts = {"train_dataset": rows, "rollout_func": play, "reward_funcs": episode_return}
    return trainer_of(texts_of(scripts), rollouts, seed=SEED)


def play_rollouts(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play each script in a group of `GROUP` by GRPOTrainer and `rollout_func`; read the episodes from its rows."""
    played = list[Played]()
    with rollouts_of(world, scripts) as play:

        def noted(prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
            rows = play(prompts, trainer)
            for number, task in enumerate(prompts):
                text = trainer.processing_class.decode(rows["prompt_ids"][number] + rows["completion_ids"][number])
                seen = tuple(re.findall(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", text, re.DOTALL))
                reward, success = rows["reward"][number], rows["success"][number]
                played.append(Played(task, seen, (reward,), success, StopReason.GAVE_UP))
            return rows

        trainer_in_text(scripts, noted).train()
    order = {script.episode.task: number for number, script in enumerate(scripts)}
    return sorted(played, key=lambda episode: order[episode.task])


def in_rows(episode: Played) -> Played:
    """Take away what the rows of `rollout_func` have not: the observation after the last step, and the end's reason."""
    return replace(only_return(episode), observations=episode.observations[:-1], stop_reason=StopReason.GAVE_UP)


def play_rollouts_once(world: World, scripts: Sequence[Script]) -> None:
    """Play each script once by `rollout_func`, for its time; the trainer only lends its settings."""
    with rollouts_of(world, scripts) as play:
        play([script.episode.task for script in scripts], trainer_in_text(scripts, play))


TIMED = {
    "through a method of trl's environment": call_methods,
    "through rollout_func, tokenizer and rows included": play_rollouts_once,
}
