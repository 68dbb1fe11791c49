"""trl's GRPOTrainer on the policy's own episodes: every loss and option of its configuration.

    loss = - sum over agent tokens of min(r A, clip(r) A) / number of tokens      r = pi(a_t | ...) / pi_old(a_t | ...)
    A = (return - mean of its group) / (standard deviation of its group)

A group is several episodes of one task. An episode is one row, with a loss at the agent's tokens as they were sampled.
The rollouts play them by their own engine (`--engine server` for vLLM or SGLang), so that trl generates nothing and its
`use_vllm` is refused. An episode with an infrastructure error is left out of its group; one of several token sequences
has no loss. trl runs the loop: linear schedule, AdamW with beta2 0.999, if `args` says nothing else. Dropout is off, as
it is in the engine that samples: trl's default would make r random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from agentgym_py.checks import require_at_least
from agentgym_py.errors import ConfigError, setting
from agentgym_py.training import TrainReport
from agentgym_py.training.data import no_data_error
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import Rates, TrlSettings
from agentgym_py.training.trainer import PlanChecks, TrainerInfo

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.policy import Policy
    from agentgym_py.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class TrlGRPO(TrlSettings, PlanChecks):
    """Settings of trl's GRPOTrainer."""

    info: ClassVar = TrainerInfo(
        resumes=False,
        library="trl",
        arguments="trl:GRPOConfig",
        several_sequences=False,
        compares_attempts=True,
        warm_start="filtered_bc",
    )

    rates: ClassVar = Rates(3e-4, 1e-6)
    tasks_per_iteration: int = 8
    """Tasks per iteration."""
    group_size: int = 8
    """Episodes per task."""
    minibatch_size: int = 16
    """Episodes per optimizer step; it divides the episodes of an iteration."""
    epochs: int = 1
    """Passes over the episodes of an iteration."""
    mask_truncated_completions: bool = True
    """Leave replies that were cut at `max_new_tokens` out of the loss; their episode's return still counts. (trl's own
    flag of this name masks a whole episode if its last reply was cut.)"""

    def __post_init__(self) -> None:
        TrlSettings.__post_init__(self)
        require_at_least(self, {"tasks_per_iteration": 1, "group_size": 2, "minibatch_size": 1, "epochs": 1})
        if self.lora_dropout:
            raise ConfigError("lora_dropout must be 0: ratios to the sampling policy would change at random")
        if self.episodes % self.minibatch_size:
            raise ConfigError(f"minibatch_size must divide the {self.episodes} episodes of an iteration")
        if self.args.get("beta") and not self.lora_rank:
            raise ConfigError("args.beta needs lora_rank above 0: trl would load the reference model by its name")
        if self.args.get("use_vllm"):
            raise ConfigError(f"args.use_vllm: the rollouts play the episodes; choose {setting('engine', 'server')}")

    @property
    def episodes(self) -> int:
        """Episodes per iteration."""
        return self.tasks_per_iteration * self.group_size

    def check_round(self, episodes: int) -> None:
        """Refuse a round without room for one iteration."""
        if episodes < self.episodes:
            raise ConfigError(f"an iteration has {self.episodes} episodes, and a round has {episodes}")

    def improve(
        self, policy: Policy, rollouts: Rollouts, *, seed: int, output_dir: Path, progress: Progress | None = None
    ) -> TrainReport:
        """Train `policy` in place on groups of its own episodes until the budget is spent.

        Raises:
            NothingToTrainOnError: no episode had a reply to learn.
            ConfigError: `args` holds something that GRPOConfig does not take.
        """
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        from agentgym_py.policy.tokens import encode, mask_cut_replies
        from agentgym_py.training.trl_fit import TrlFit, trl_config
        from agentgym_py.training.trl_rollout import dropped_rows, episode_return, is_learnable, trl_rows

        self.check_round(rollouts.budget)
        args = trl_config(
            GRPOConfig, self, policy, seed, temperature=rollouts.temperature, num_train_epochs=1, top_p=1.0, top_k=0,
            per_device_train_batch_size=self.minibatch_size, num_generations=self.group_size, shuffle_dataset=False,
            generation_batch_size=self.episodes, num_iterations=self.epochs, disable_dropout=True,
        )  # fmt: skip
        jobs = rollouts.jobs(rollouts.budget // self.episodes * self.tasks_per_iteration, self.group_size)

        def for_loss(episodes: Sequence[Trajectory]) -> list[Trajectory]:
            return [mask_cut_replies(t) for t in episodes] if self.mask_truncated_completions else list(episodes)

        def play(prompts: Sequence[str], trainer: Any) -> Mapping[str, list[Any]]:
            """Play an attempt at the task of each prompt, with the current weights."""
            places = [(int(prompt), k % self.group_size) for k, prompt in enumerate(prompts)]  # a group's are in a row
            current = [replace(jobs[i], attempt=jobs[i].attempt + k) for i, k in places]
            policy.model.eval()
            rollouts.sync()
            episodes = for_loss(rollouts.play(current))
            rollouts.release_cache()
            policy.model.train()
            if not any(is_learnable(episode, policy.chat) for episode in episodes):
                raise no_data_error("trl_grpo", dropped_rows(for_loss(rollouts.episodes), policy.chat))
            return trl_rows(episodes, policy.chat)

        def tell(done: int, total: int) -> None:
            if progress:
                progress(len(rollouts.episodes), rollouts.budget)

        with TrlFit("trl_grpo", policy, self, seed, tell) as fit:
            prompts = Dataset.from_dict({"prompt": [str(number) for number in range(len(jobs))]})
            fit.train(GRPOTrainer(
                model=fit.model, reward_funcs=episode_return, rollout_func=play, args=args, train_dataset=prompts,
                processing_class=fit.tokenizer,
            ))  # fmt: skip
        episodes = for_loss(rollouts.episodes)
        samples = [encode(t, policy.chat) for t in episodes if is_learnable(t, policy.chat)]
        return fit.report(len(samples), dropped_rows(episodes, policy.chat), samples, self.epochs)
