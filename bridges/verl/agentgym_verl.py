"""Any world of agentgym-py as an agent loop of verl, in text and token by token.

    datasets.Dataset.from_list(rows("shop", range(1000))).to_parquet("train.parquet")

    # agent_loops.yaml, the value of actor_rollout_ref.rollout.agent.agent_loop_config_path
    - name: agentgym
      _target_: agentgym_verl.AgentGymLoop

A row is a task, so all episodes of a group start in the same state. The tokens of a reply are those that the server
sampled, with the mask 1 and their log-probabilities; verl's template tokens and the observations have the mask 0.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.utils.profiler import simple_timer

from agentgym_py.env import EnvSpec
from agentgym_py.errors import InfrastructureError
from agentgym_py.serving.async_episode import AsyncEpisode
from agentgym_py.serving.task_rows import RowOptions, require_opening, rows_with, start_row

NAME = "agentgym"
"""The agent loop of the rows."""
logger = logging.getLogger(__name__)


def rows(env: EnvSpec | str, tasks: Iterable[int], **options: Unpack[RowOptions]) -> list[dict[str, Any]]:
    """Return rows of a data set, whose prompt is the opening of a task; arguments and errors are as in `task_rows`."""
    return rows_with(_columns, env, tasks, **options)


def _columns(number: int, opening: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "prompt": [{"role": "user", "content": opening}], "agent_name": NAME,
        "data_source": row["world"], "extra_info": {"index": number},
        "reward_model": {"style": "environment", "ground_truth": ""},  # verl's trainer reads the column
    }  # fmt: skip


class AgentGymLoop(AgentLoopBase):
    """An episode of a world; a reply of the model is a step, and the observation is the next user turn.

    The episode ends as given up after `multi_turn.max_assistant_turns` replies, or when `response_length` is full. A
    reply that exceeds `response_length` is not played, because verl trains only its beginning. The score is the return;
    `success` and `steps` are in `reward_extra_info`, and the rewards of the steps are `turn_scores`.

    Args:
        retries: How often an episode is repeated after an infrastructure failure.
        *args, **kwargs: What verl passes.
    """

    def __init__(self, *args: Any, retries: int = 2, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._retries = retries
        self._limit = self.rollout_config.response_length
        self._max_turns = self.rollout_config.multi_turn.max_assistant_turns

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Play the task of a row.

        Raises:
            ConfigError, UnknownNameError: a column of the row is missing or wrong.
            InfrastructureError: the world failed, or hung, in all attempts. There is no score, and verl stops.
        """
        for attempt in range(self._retries + 1):
            try:
                live = await AsyncEpisode.start(partial(start_row, row))
                try:
                    return await self._play(live, sampling_params, **row)
                finally:
                    await live.close()
            except InfrastructureError as error:
                if attempt == self._retries:
                    raise
                logger.warning("%s: the episode is repeated after: %s", row["task"], error)
        raise AssertionError("retries is negative")

    async def _play(
        self, live: AsyncEpisode, sampling_params: Mapping[str, Any], *, raw_prompt: Sequence[dict[str, Any]],
        priority: int = 0, **row: Any,
    ) -> AgentLoopOutput:  # fmt: skip
        messages, episode = list(raw_prompt), live.episode
        require_opening(row, messages, episode)
        tokens = await self.ct_build_initial_tokens(messages)
        mask, logprobs, rewards = list[int](), list[float](), list[float]()
        metrics, fields = dict[str, float](), dict[str, Any]()
        request = f"det-{int(priority)}" if self.rollout_config.full_determinism else uuid4().hex
        while True:
            with simple_timer("generate_sequences", metrics):
                reply = await self.server_manager.generate(
                    request_id=request, prompt_ids=tokens, sampling_params=dict(sampling_params)
                )
            fields = reply.extra_fields | {key: fields[key] for key in ("min_global_steps",) if key in fields}
            has_logprobs = reply.log_probs is not None
            merged, mask, aligned = await self.ct_merge_assistant_token(
                tokens, reply.token_ids, mask, logprobs if has_logprobs else None, reply.log_probs
            )
            tokens, logprobs = merged.token_ids, aligned or []
            text = self.tokenizer.decode(reply.token_ids, skip_special_tokens=True)
            messages.append({"role": "assistant", "content": text})
            if len(mask) > self._limit:
                break
            with simple_timer("tool_calls", metrics):
                turn = await live.step(text)
            rewards.append(turn.reward)
            if turn.stop_reason or len(rewards) == self._max_turns:
                break
            observed = [*messages, {"role": "user", "content": turn.observation}]
            merged, longer, aligned = await self.ct_merge_context_msg(
                messages, observed, tokens, mask, logprobs if has_logprobs else None
            )
            if len(longer) >= self._limit:
                break
            messages, tokens, mask, logprobs = observed, merged.token_ids, longer, aligned or []
        start, result = len(tokens) - len(mask), episode.trajectory("verl")
        return AgentLoopOutput(
            prompt_ids=tokens[:start],
            response_ids=tokens[start : start + self._limit],
            response_mask=mask[: self._limit],
            response_logprobs=logprobs[: self._limit] if has_logprobs else None,
            reward_score=result.reward,
            num_turns=len(messages),
            metrics=metrics,
            extra_fields=fields | {
                "turn_scores": rewards, "tool_rewards": [], "stop_reason": str(result.stop_reason),
                "final_observation": result.final_observation,
                "reward_extra_info": {"success": float(result.success), "steps": len(result.steps)},
            },
        )  # fmt: skip
