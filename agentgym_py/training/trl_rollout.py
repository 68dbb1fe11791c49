"""Any environment for trl's GRPOTrainer: a `rollout_func` that plays episodes, and a reward function.

    GRPOTrainer(
        model, reward_funcs=episode_return, rollout_func=rollout_func("shop"), args=args, processing_class=tokenizer,
        train_dataset=Dataset.from_dict({"prompt": EnvSpec("shop").task_ids("train", range(1000))}),
    )

An episode is one row: its prompt is everything before the first reply, its completion the rest, with an `env_mask` that
is 1 at the agent's tokens, to which trl's loss is restricted. `max_completion_length` cuts no row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentgym_py.agents import ModelAgent
from agentgym_py.checks import require_arguments
from agentgym_py.collection import Collector, Job, PlayConfig
from agentgym_py.env import EnvSpec, reply_tokens
from agentgym_py.errors import ConfigError
from agentgym_py.policy import Policy
from agentgym_py.policy.tokens import encode, why_nothing_to_learn
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.policy.chat_format import ChatFormat

Row = dict[str, Any]


def rollout_func(
    env: EnvSpec | str, *, max_new_tokens: int | None = None, kv_cache_gib: float | None = None,
    play: PlayConfig | None = None, **settings: Any,
) -> Callable[[Sequence[str], Any], dict[str, list[Any]]]:  # fmt: skip
    """Make the `rollout_func` of a GRPOTrainer: prompts are task ids, one per attempt.

    The trainer's current model samples replies of at most `max_new_tokens` tokens, by default as many as `agentgym
    evolve` in this world, at the trainer's temperature.
    `kv_cache_gib` is that of `HFEngine`; `settings` are those of `Policy`, such as `max_context` and `thinking`.
    Attempts are numbered from 0, again after a resume, and seeded by the trainer's `seed`, not that of `play`. An
    episode without a reply to learn is a row without a loss. So is one that ended with an infrastructure error; its
    reward is None, and trl leaves it out of its group's mean.

    Raises:
        ConfigError: `Policy` has no such setting; or, when it plays, the trainer samples from a part of the
            distribution (`top_p`, `top_k`, `min_p`) or from another one (`repetition_penalty`, `generation_kwargs`).
    """
    require_arguments(Policy, settings)
    spec, attempts = EnvSpec(env) if isinstance(env, str) else env, Counter[str]()
    config, longest = play or PlayConfig(), max_new_tokens or reply_tokens([spec])

    def play_prompts(prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
        from agentgym_py.engine import HFEngine, SamplingParams

        args, ranks = trainer.args, trainer.accelerator
        if args.top_p < 1 or args.top_k or args.min_p:
            raise ConfigError(f"top_p must be 1, top_k and min_p 0, got {args.top_p}, {args.top_k}, {args.min_p}")
        if args.repetition_penalty != 1 or args.generation_kwargs:
            raise ConfigError(
                "repetition_penalty must be 1 and generation_kwargs empty, got "
                f"{args.repetition_penalty}, {args.generation_kwargs}"
            )
        jobs = []
        for task in prompts:
            jobs.append(Job(spec, task, attempt=attempts[task] * ranks.num_processes + ranks.process_index))
            attempts[task] += 1
        model = ranks.unwrap_model(trainer.model)
        training = model.training
        policy = Policy(model.eval(), trainer.processing_class, "policy", **settings)
        params = SamplingParams(temperature=args.temperature, max_new_tokens=longest)
        agent = ModelAgent(policy, HFEngine(policy, config.slots, kv_cache_gib=kv_cache_gib), params)
        try:
            episodes = Collector(agent, replace(config, seed=args.seed)).collect_batch(jobs)
        finally:
            model.train(training)
        return trl_rows(episodes, policy.chat)

    return play_prompts


def episode_return(reward: Sequence[float | None], **_: Any) -> list[float | None]:
    """Return the episodes' returns: a reward function for GRPOTrainer, whose rows also have `success`.

    None is the return of an episode that ended with an infrastructure error.
    """
    return list(reward)


def trl_rows(episodes: Sequence[Trajectory], chat: ChatFormat) -> dict[str, list[Any]]:
    """Convert episodes to what a `rollout_func` returns."""
    rows = [trl_row(episode, chat) for episode in episodes]
    return {name: [row[name] for row in rows] for name in rows[0]}


def is_learnable(trajectory: Trajectory, chat: ChatFormat) -> bool:
    """Return whether an episode's row has a loss."""
    return not _why_no_loss(trajectory, chat)


def dropped_rows(episodes: Iterable[Trajectory], chat: ChatFormat) -> Counter[str]:
    """Count the episodes whose rows have no loss, by reason."""
    return Counter(reason for episode in episodes if (reason := _why_no_loss(episode, chat)))


def _why_no_loss(trajectory: Trajectory, chat: ChatFormat) -> str:
    if not trajectory.is_evidence:
        return "ended by an infrastructure error"
    sample = encode(trajectory, chat)
    if not any(sample.mask):
        return why_nothing_to_learn(trajectory)
    return "in several token sequences, of which trl's rows have one each" if len(sample.starts) > 1 else ""


def trl_row(trajectory: Trajectory, chat: ChatFormat) -> Row:
    """Convert an episode to trl's row: ids, log-probabilities as sampled (0 at other tokens), mask.

    The row of an episode that is not `is_learnable` has no loss.
    """
    about: Row = {"reward": trajectory.reward, "success": trajectory.success}
    if not trajectory.is_evidence:
        about = dict.fromkeys(about)
    sample = encode(trajectory, chat)
    if not is_learnable(trajectory, chat):
        end = chat.end_of_turn
        opening = sample.sequence(0).input_ids or [end]
        return {"prompt_ids": opening, "completion_ids": [end], "logprobs": [0.0], "env_mask": [0], **about}
    cut = sample.mask.index(1)
    sampled = [
        logp
        for step in trajectory.steps
        if step.tokens
        for logp in [0.0] * len(step.tokens.context) + list(step.tokens.logprobs)
    ]
    return {
        "prompt_ids": sample.input_ids[:cut], "completion_ids": sample.input_ids[cut:], "logprobs": sampled[cut:],
        "env_mask": sample.mask[cut:], **about,
    }  # fmt: skip
