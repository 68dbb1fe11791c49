"""The scripted agent through trl: GRPOTrainer's own loop, with a model whose replies are written in advance."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agentgym_trl import AgentGymSpec, ToolEnvironment
from scripted import SEED, Call, Played, Script, World

from agentgym_py.policy.tiny import build_tokenizer
from agentgym_py.testing.zoo import FAMILIES, build_model, trl_template

GROUP = 2


def spec_of(world: World, scripts: Sequence[Script]) -> AgentGymSpec:
    """The spec of the scripts' tasks, without rules."""
    return AgentGymSpec(world.spec, tasks=range(len(scripts)), tools=world.tools, prompt="none", seed=SEED)


def make_trainer(spec: AgentGymSpec, texts: Sequence[str], reward: Callable[..., Any], **more: Any) -> Any:
    """Make a GRPOTrainer of a random miniature of Qwen2.5 whose tokenizer is learnt from `texts`."""
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
        "max_tool_calling_iterations": spec.max_steps, "dataloader_pin_memory": False,
    }  # fmt: skip
    return GRPOTrainer(
        model=build_model(family, tokenizer), args=GRPOConfig(**usual | more), processing_class=tokenizer,
        train_dataset=spec.train_dataset, environment_factory=spec.environment_factory, reward_funcs=reward,
    )  # fmt: skip


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


TIMED = {"through a method of trl's environment": call_methods}
