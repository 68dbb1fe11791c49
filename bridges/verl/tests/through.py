"""The scripted agent through verl: rows by its data set, episodes by its agent loop worker, with a scripted server."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import verl.trainer
from agentgym_verl import rows
from datasets import Dataset
from hydra import compose, initialize_config_dir
from scripted import SEED, Played, Script, World
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.protocol import DataProto
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from agentgym_py.env import StopReason
from agentgym_py.policy.tiny import build_tokenizer
from agentgym_py.testing.zoo import FAMILIES, build_model, trl_template

GROUP = 2
PROMPT_LENGTH, RESPONSE_LENGTH = 2048, 8192
LOOPS = "- name: agentgym\n  _target_: agentgym_verl.AgentGymLoop\n  retries: {retries}\n"
Reply = Callable[[str], str | None]
"""Returns the reply to a text of tokens; None is one that never ends."""


class ScriptedServer(LLMServerClient):
    """verl's client of model servers, whose replies are written in advance, a token a character."""

    def __init__(self, config: Any, tokenizer: Any, reply: Reply) -> None:
        super().__init__(config)
        self.tokenizer, self.reply = tokenizer, reply
        self.requests: list[tuple[list[int], list[int]]] = []
        """Prompts, and the tokens that were sampled."""

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """Reply to a prompt; the log-probabilities are minus the tokens."""
        text = self.reply(self.tokenizer.decode(prompt_ids))
        tokens = [id_ for char in text or "" for id_ in self.tokenizer.encode(char, add_special_tokens=False)]
        tokens = [*tokens, self.tokenizer.eos_token_id] if text is not None else tokens or [5] * (RESPONSE_LENGTH + 1)
        self.requests.append((list(prompt_ids), tokens))
        logprobs = [-float(token) for token in tokens] if sampling_params.pop("logprobs") else None
        return TokenOutput(token_ids=tokens, log_probs=logprobs, extra_fields={"global_steps": 0})


def worker_of(scripts: Sequence[Script], reply: Reply, retries: int = 0, *settings: str) -> AgentLoopWorker:
    """Make verl's worker with a miniature's tokenizer, from verl's own configuration."""
    folder = Path(tempfile.mkdtemp())
    tokenizer = build_tokenizer([text for script in scripts for text in script.episode.observations], 2048)
    tokenizer.add_special_tokens({
        "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "additional_special_tokens": ["<|im_start|>"],
    })  # fmt: skip
    tokenizer.chat_template = trl_template("qwen2_5")
    build_model(replace(FAMILIES["qwen2.5"], ends=()), tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "agent_loops.yaml").write_text(LOOPS.format(retries=retries))
    rollout = "actor_rollout_ref.rollout"
    with initialize_config_dir(str(Path(verl.trainer.__path__[0]) / "config"), version_base=None):
        config = compose("ppo_trainer", [
            f"actor_rollout_ref.model.path={folder}", f"{rollout}.name=vllm", f"{rollout}.calculate_log_probs=true",
            f"{rollout}.agent.agent_loop_config_path={folder / 'agent_loops.yaml'}",
            f"data.max_prompt_length={PROMPT_LENGTH}", f"data.max_response_length={RESPONSE_LENGTH}",
            "data.filter_overlong_prompts=false", *settings,
        ])  # fmt: skip
    return AgentLoopWorker(config, ScriptedServer(config, tokenizer, reply))


def batch_of(worker: AgentLoopWorker, table: Sequence[dict[str, Any]], attempts: int = GROUP) -> DataProto:
    """Read rows by verl's data set, and repeat each as its trainer does."""
    path = str(Path(tempfile.mkdtemp()) / "train.parquet")
    Dataset.from_list(list(table)).to_parquet(path)
    data = RLHFDataset(path, worker.tokenizer, worker.config.data)
    batch = DataProto.from_single_dict(collate_fn([data[number] for number in range(len(data))]))
    return batch.repeat(attempts, interleave=True)


def reply_of(scripts: Sequence[Script]) -> Reply:
    """Follow the script whose opening stands in the prompt, and then reply without end."""
    openings = sorted(scripts, key=lambda script: len(script.episode.observations[0]), reverse=True)

    def reply(prompt: str) -> str | None:
        script = next(script for script in openings if f"user\n{script.episode.observations[0]}<|im_end|>" in prompt)
        turn = prompt.count("<|im_start|>assistant\n") - 1
        return script.actions[turn] if turn < len(script.actions) else None

    return reply


def run(worker: AgentLoopWorker, table: Sequence[dict[str, Any]], attempts: int = GROUP) -> DataProto:
    """Play rows by verl's worker."""
    return asyncio.run(worker.generate_sequences(batch_of(worker, table, attempts)))


def rows_of(world: World, scripts: Sequence[Script]) -> list[dict[str, Any]]:
    """The rows of the scripts' tasks, without rules."""
    return rows(world.spec, range(len(scripts)), prompt="none", seed=SEED)


def read(worker: AgentLoopWorker, output: DataProto) -> list[Played]:
    """Read the episodes from the tokens of the users' turns, and from the columns."""
    episodes, columns = list[Played](), output.non_tensor_batch
    for number in range(len(output)):
        tokens = output.batch["input_ids"][number][output.batch["attention_mask"][number].bool()]
        text = worker.tokenizer.decode(tokens.tolist())
        seen = re.findall(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", text, re.DOTALL)
        reason = StopReason(columns["stop_reason"][number])
        # verl drops the observation after which nothing is said: that of a last step, but not of a last reply cut off
        seen += [columns["final_observation"][number]] * (reason is not StopReason.GAVE_UP)
        rewards = tuple(columns["turn_scores"][number])
        assert output.batch["rm_scores"][number].sum() == np.float32(sum(rewards))
        episodes.append(Played(columns["task"][number], tuple(seen), rewards, columns["success"][number] == 1, reason))
    return episodes


def play(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play each script in a group; return the episodes of each group one by one."""
    worker = worker_of(scripts, reply_of(scripts))
    return read(worker, run(worker, rows_of(world, scripts)))


def play_once(world: World, scripts: Sequence[Script]) -> None:
    """Play each script once, for its time."""
    run(worker_of(scripts, reply_of(scripts)), rows_of(world, scripts), attempts=1)


TIMED = {"through verl's agent loop worker, tokenizer and data set included": play_once}
