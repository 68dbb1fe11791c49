"""What the rounds of AgentEvol are told, and which trainers can follow it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agentgym_py.checks import Basic, require_at_least, require_field_types
from agentgym_py.collection import Executor, PlayConfig
from agentgym_py.engine import SamplingParams
from agentgym_py.env import EnvSpec, Prompt
from agentgym_py.env.base import require_seed
from agentgym_py.errors import ConfigError
from agentgym_py.rewards.reward_model import require_reward_model
from agentgym_py.training import OnPolicyTrainer, Trainer
from agentgym_py.training.trainer import PlanChecks, require_several_processes
from agentgym_py.trajectory.selectors import SelectConfig

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
Order = Literal["uniform", "hard"]
"""New tasks in each round, drawn uniformly; or as many, drawn by weight from these and all that were explored."""


@dataclass(frozen=True, slots=True)
class EvolveConfig:
    """Settings of the rounds."""

    seed: Basic[int] = 0
    """Seed of everything that is drawn."""
    rounds: Basic[int] = 3
    """Rounds after Agent_v0."""
    prompt: Prompt = "brief"
    """Which rules text opens an episode."""
    expert_tasks: Basic[int] = 12
    """Training tasks of each world whose demonstrations by the --expert make Agent_v0. Few leave the rounds something
    to learn: 12 make an agent with 25 % success in the shop, 90 one with 75 %. 0: the model itself is Agent_v0."""
    expert: Literal["exact", "fair"] = "fair"
    """Expert of round 0: `exact` knows everything and always succeeds; `fair` knows only what the episode has shown,
    so that all it does can be learnt, and may fail."""
    expert_thoughts: bool = True
    """Whether the expert says its thought, where it has one, before an action."""
    reward_model: str | None = None
    """Folder of a reward model: a trainer that plays itself learns from its scores in place of the world's rewards."""
    explore_tasks: Basic[int] = 1000
    """Training tasks of each world that a round explores."""
    explore_weights: dict[str, float] = field(default_factory=dict)
    """Weights of several worlds, as {shop: 3, maze: 0.5}, by which a round's tasks are shared out; 1 where none is
    given. A round has as many tasks as without."""
    explore_order: Order = "uniform"
    """`uniform`: a round explores new tasks; `hard`: as many, but drawn from new and explored ones, by weight: who
    failed more comes more often."""
    attempts: Basic[int] = 1
    """Episodes per task in exploration."""
    forks: int = 0
    """States within each of these episodes, drawn by the seed, from which further episodes start: pairs that share a
    state, for `--trainer dpo --trainer.level fork`."""
    fork_attempts: int = 4
    """Episodes that start from each of these states, in addition to the --attempts."""
    temperature: Basic[float] = 0.5
    """Sampling temperature of exploration; evaluation is greedy."""
    max_new_tokens: Basic[int] = 64
    """Longest reply, in tokens."""
    select: SelectConfig = field(default_factory=SelectConfig)
    merge: Literal["all", "last", "initial+last"] = "last"
    """Which rounds' selected data a round trains on; `all` includes the expert's, as in the paper."""
    restart: Literal["base", "previous"] = "previous"
    """Where a round's training starts: the base model, as in the paper, or the last round's agent."""
    valid_tasks: Basic[int] = 100
    """Tasks of each world's valid split that every round is evaluated on."""
    test_tasks: Basic[int] = 300
    """Tasks of each world's test split on which Agent_v0 and the final agent are compared at the end."""
    patience: int = 0
    """Rounds without a better valid success rate after which the run stops; 0 never stops early."""
    slots: int = 128
    """Episodes that are live at once."""
    step_timeout: float | None = None
    """Seconds that a world may take to begin or for a step; later ones are stopped, begun again once, and then left
    out as infrastructure failures. Worlds run in a process of their own then."""
    step_threads: int = 0
    """Threads, in each process that plays, for worlds that take seconds a step; 0 for fast worlds."""
    save_episodes: int = 1024
    """Exploration of more episodes is played in parts of this size, each saved when it ends: a run that is
    killed resumes after the last one."""
    allow_empty: bool = False
    """Go on when a round has nothing to train on (its agent is then the last round's)."""

    def __post_init__(self) -> None:
        require_seed(self.seed)
        require_field_types(self)
        positive = ("explore_tasks", "attempts", "fork_attempts", "valid_tasks", "slots", "save_episodes")
        not_negative = ("expert_tasks", "rounds", "forks", "test_tasks", "patience")
        require_at_least(self, dict.fromkeys(positive, 1.0) | dict.fromkeys(not_negative, 0.0))
        self.play(0)  # raises for wrong settings
        SamplingParams(temperature=self.temperature, max_new_tokens=self.max_new_tokens)  # complains of wrong ones

    def play(self, seed: int, executor: Executor | None = None) -> PlayConfig:
        """Return how episodes are played, by a seed of their own."""
        return PlayConfig(self.slots, self.prompt, seed, executor, self.step_timeout, step_threads=self.step_threads)


def require_fit(config: EvolveConfig, trainer: Trainer | OnPolicyTrainer, worlds: int = 1) -> None:
    """ConfigError where a trainer that plays itself would ignore a setting of the rounds, or could not learn by it.

    Where several processes train together, for a trainer that does not, too; and what its own `check_round` says.
    """
    require_several_processes(trainer)
    if not isinstance(trainer, OnPolicyTrainer):
        if config.reward_model is not None:
            raise ConfigError(
                "reward_model is for a trainer that plays itself; this one learns from what select leaves"
            )
        return
    if (config.merge, config.restart) != ("last", "previous"):
        raise ConfigError(
            "this trainer plays itself, from the last round's agent and on no older data: merge must be last, restart "
            f"previous, got {config.merge} and {config.restart}"
        )
    if config.forks:
        raise ConfigError("forks are for a trainer that learns from what was stored; grpo has branches of its own")
    if not config.temperature:
        raise ConfigError("this trainer plays itself, and learns nothing at temperature 0: all attempts are the same")
    if config.reward_model is not None and isinstance(trainer, PlanChecks) and not trainer.uses_reward:
        raise ConfigError(
            "reward_model scores what is returned, and the trainer, as it is set, compares by something else"
        )
    if config.rounds and isinstance(trainer, PlanChecks):
        trainer.check_round(worlds * config.explore_tasks * config.attempts)


def require_reachable(config: EvolveConfig, trainer: Trainer | OnPolicyTrainer, envs: Sequence[EnvSpec]) -> None:
    """ConfigError if no episode of any world can pass `select`, as far as the worlds say what they can return."""
    if isinstance(trainer, OnPolicyTrainer) or not config.rounds:
        return
    largest = {spec.name: _max_return(spec) for spec in envs}
    if all(config.select.threshold > (sys.float_info.max if most is None else most) for most in largest.values()):
        known = [f"{most:g} in {name}" for name, most in largest.items() if most is not None]
        why = f": the largest return is {', '.join(known)}" if known else ", because no return is so large"
        raise ConfigError(f"select.threshold {config.select.threshold:g} keeps no trajectory{why}")


def _max_return(spec: EnvSpec) -> float | None:
    """What the world says of its largest return."""
    with closing(spec.make()) as env:
        return env.max_return


def require_cloner(config: EvolveConfig, trainer: Trainer | OnPolicyTrainer, cloner: Trainer | None) -> None:
    """ConfigError where nobody can make Agent_v0 of an expert's episodes."""
    if config.expert_tasks and cloner is None and isinstance(trainer, OnPolicyTrainer):
        raise ConfigError(
            f"{type(trainer).__name__} plays itself, and there is no cloner to make Agent_v0 of the expert's episodes: "
            "set expert_tasks 0, or declare one (TrainerInfo(warm_start='filtered_bc'); in Python "
            "Evolution(cloner=...))"
        )


def require_judges(config: EvolveConfig, trainer: Trainer | OnPolicyTrainer, policy: Policy) -> None:
    """ConfigError where the reward model cannot read what the policy writes, or what the trainer's `check_policy` says.

    The same is found out when the first round that needs it begins, after what comes before it has been played.
    """
    require_reward_model(config.reward_model, policy)
    if config.rounds and isinstance(trainer, PlanChecks):
        trainer.check_policy(policy)
