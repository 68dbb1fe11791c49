"""Settings of the rounds of AgentEvol, and checks that a trainer can follow them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from agentgym_py.checks import Basic, has_type, require_at_least, require_field_types, require_positive
from agentgym_py.collection import Executor, PlayConfig
from agentgym_py.engine import SamplingParams
from agentgym_py.env import EnvSpec, Prompt
from agentgym_py.env.arguments import require_seed
from agentgym_py.env.registration import short_name
from agentgym_py.errors import ConfigError, setting
from agentgym_py.evolution.critic import require_threshold
from agentgym_py.evolution.curricula import Curriculum, find_levels
from agentgym_py.evolution.reflection import Reflection
from agentgym_py.evolution.sequence import Schedule
from agentgym_py.feedback import FeedbackSource
from agentgym_py.feedback.types import ComparesAttempts, FileSource, ReadsTokens
from agentgym_py.multiagent import MultiAgentEnv
from agentgym_py.rewards.functions import build_reward, is_relative, potential_gamma
from agentgym_py.rewards.reward_model import require_reward_model
from agentgym_py.training import OnPolicyTrainer, Trainer
from agentgym_py.training.coreset import Coreset
from agentgym_py.training.rl.constraints import ConstraintSettings
from agentgym_py.training.settings import DataSettings, OfflineSettings
from agentgym_py.training.trainer import PlanChecks, info_of, require_several_processes, require_single_trajectories
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.selectors import SelectConfig

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
Order = Literal["uniform", "hard", "learnable"]
"""How a round's tasks are drawn."""


@dataclass(frozen=True, slots=True)
class EvolveConfig:
    """Settings of the rounds."""

    seed: Basic[int] = 0
    """Seed of every random draw."""
    rounds: Basic[int] = 3
    """Rounds after Agent_v0."""
    prompt: Prompt = "brief"
    """The rules text that opens an episode."""
    prompt_template: str | None = None
    """Text in place of the rules, in which {rules} is the --prompt text; the first observation follows."""
    expert_tasks: Basic[int] = 12
    """Training tasks of each world that the --expert demonstrates to make Agent_v0. More demonstrations make a better
    Agent_v0 and leave the rounds less to learn. 0: the model itself is Agent_v0."""
    expert_order: Literal["uniform", "kinds"] = "uniform"
    """How these tasks are drawn: `kinds` takes the kinds of tasks in turn, so that even few demonstrations show all
    kinds."""
    expert_epochs: float | None = None
    """Passes over the demonstrations, in place of the epochs of the trainer that makes Agent_v0 of them."""
    expert: Literal["exact", "fair"] = "fair"
    """Expert of round 0: `exact` knows the whole state and always succeeds; `fair` knows only what the episode has
    shown, so all its actions can be learnt, and may fail."""
    expert_thoughts: bool = True
    """Whether the expert writes its thought, if it has one, before an action."""
    reward: str | None = None
    """What the rounds learn from, in place of the world's own reward: success, return, accuracy, length_penalty, step,
    efficiency, agent, potential, judge, FILE.py:NAME, or a weighted sum such as "agent + 0.1*my.py:score"; see
    docs/guides/rewards.md. Episodes are stored and evaluated with the world's reward."""
    reward_kwargs: dict[str, Any] = field(default_factory=dict)
    """Settings of the reward functions by name, such as --reward_kwargs.alpha 0.01."""
    reward_model: str | None = None
    """Folder of a reward model: an on-policy trainer learns from its scores instead of the world's rewards. In a
    weighted sum its name is reward_model."""
    explore_tasks: Basic[int] = 1000
    """Training tasks of each world that a round explores, --attempts episodes of each. An on-policy trainer plays as
    many episodes in all. grpo plays group_size of them at each task, so it explores fewer tasks."""
    explore_weights: dict[str, float] = field(default_factory=dict)
    """Weights that distribute a round's tasks over several worlds, as {shop: 3, maze: 0.5}, or over the roles of one,
    as {errand:client: 3}; the default is 1. The number of tasks stays the same."""
    explore_order: Order = "uniform"
    """`uniform`: a round explores new tasks; `hard`: the same number, drawn from new and explored ones with a weight
    that grows with a task's failures; `learnable`: new tasks, shared among several worlds by p (1 - p), where p is a
    world's success in the round before (arXiv:2502.12272)."""
    curriculum: Curriculum | None = None
    """How a round's tasks of a world are shared among its levels; None: all are of the world's own difficulty. Round 0
    and all evaluations keep that difficulty."""
    levels: list[str] = field(default_factory=list)
    """Difficulties that the curriculum uses, from easy to hard, such as easy,medium; by default all of the world."""
    horizon: list[int] = field(default_factory=list)
    """Steps after which an episode of exploration is truncated, if that is before the world's own limit: one number, or
    one for each round, such as 10,20,50 (arXiv:2509.08755). Demonstrations and evaluations keep the world's limit."""
    self_play: bool = False
    """Whether the agent of the last round, frozen, plays the other roles in exploration, in worlds of several roles.
    Demonstrations and evaluations keep the partner that --env_kwargs names, so that rounds can be compared."""
    attempts: Basic[int] = 1
    """Episodes per task in exploration."""
    forks: int = 0
    """States within each of these episodes, drawn by the seed, from which further episodes start: pairs that share a
    state, for `--trainer dpo --trainer.level fork`."""
    fork_attempts: int = 4
    """Episodes that start from each of these states, in addition to the --attempts."""
    temperature: Basic[float] = 0.5
    """Sampling temperature of exploration; evaluation is greedy."""
    explore_temperatures: list[float] = field(default_factory=list)
    """Temperatures of exploration in place of --temperature, such as 0.5,1.0: the attempts at a task use them in
    turn."""
    max_new_tokens: Basic[int] = 64
    """Maximum length of a reply, in tokens."""
    critic: FeedbackSource | None = None
    """What scores the explored episodes from 0 to 1 in place of the world; `select` then reads these scores, and 0.5 is
    a success. None: the world does. Round 0 and all evaluations are the world's."""
    reflection: Reflection | None = None
    """What writes a text on each failed episode of exploration, with which its task is tried once more; successes of
    these retries are learnt without the text. None: nothing is tried again."""
    select: SelectConfig = field(default_factory=SelectConfig)
    coreset: Coreset | None = None
    """Which part of the selected data a round of an offline trainer learns from; None: all of it. Round 0 learns from
    all demonstrations."""
    merge: Literal["all", "last", "initial+last"] = "last"
    """Rounds whose selected data a round trains on; `all` includes the expert's, as in the paper."""
    restart: Literal["base", "previous"] = "previous"
    """Model that a round's training starts from: the base model, as in the paper, or the last round's agent."""
    valid_tasks: Basic[int] = 100
    """Tasks of each world's valid split on which every round is evaluated."""
    test_tasks: Basic[int] = 300
    """Tasks of each world's test split on which Agent_v0, the best and the last agent are compared at the end."""
    sequence: bool = False
    """Whether the worlds of --env are learnt one after another, each by demonstrations and --rounds rounds, and the
    agent after each is tested in all of them; otherwise each round learns in all worlds."""
    replay_ratio: float = 0.0
    """In a sequence, the share of a training that is selected episodes of the worlds before, below 1; 0 replays
    none."""
    replay_size: int = 500
    """Largest number of episodes that are kept for it, as equally many of each world as there are."""
    fisher_episodes: int = 100
    """In a sequence with --trainer.ewc_lambda, the selected episodes of a world from which it is estimated how much
    each weight matters there."""
    patience: int = 0
    """Rounds without a better valid success rate after which the run stops; 0 never stops early."""
    slots: int = 128
    """Concurrent episodes."""
    step_timeout: float | None = None
    """Seconds that a world may take for a reset or a step. An episode beyond it is started once more, and then left out
    as an infrastructure failure. Worlds run in processes of their own then."""
    step_threads: int = 0
    """Threads per collecting process for worlds that take seconds per step; 0 for fast worlds."""
    save_episodes: int = 1024
    """Exploration with more episodes is collected and saved in parts of this size; a killed run resumes after the last
    part."""
    allow_empty: bool = False
    """If a round has nothing to train on, its agent is the last round's. By default it trains on as many further
    demonstrations as made Agent_v0."""

    def __post_init__(self) -> None:
        require_seed(self.seed)
        require_field_types(self)
        positive = (
            "explore_tasks", "attempts", "fork_attempts", "valid_tasks", "slots", "save_episodes", "replay_size",
            "fisher_episodes",
        )  # fmt: skip
        not_negative = ("expert_tasks", "rounds", "forks", "test_tasks", "patience")
        require_at_least(self, dict.fromkeys(positive, 1.0) | dict.fromkeys(not_negative, 0.0))
        if self.expert_epochs is not None:
            require_positive(self, "expert_epochs")
        self._require_curriculum()
        self._require_sequence()
        if self.critic:
            if isinstance(self.critic, FileSource):
                name = type(self.critic).__name__
                raise ConfigError(f"critic must score new episodes, and {name} only reads files about earlier ones")
            require_threshold(self.select)
            if self.reward is not None:
                raise ConfigError(
                    f"reward cannot be combined with {setting('critic', 'NAME')}: both replace the world's reward"
                )
        if 0 < self.attempts < len(self.explore_temperatures):
            raise ConfigError(
                f"explore_temperatures has {len(self.explore_temperatures)} for {self.attempts} "
                f"attempt{'s' * (self.attempts > 1)} at a task; raise {setting('attempts')}"
            )
        for temperature in self.explore_temperatures:
            try:
                SamplingParams(temperature=temperature)
            except ConfigError as error:
                raise ConfigError(f"explore_temperatures: {error}") from error
        self.play_config(0)  # both check their settings
        SamplingParams(temperature=self.temperature, max_new_tokens=self.max_new_tokens)

    def _require_curriculum(self) -> None:
        """Raise ConfigError if the levels or the horizon are wrong."""
        if self.levels and not self.curriculum:
            raise ConfigError(f"levels needs {setting('curriculum', 'NAME')}")
        if repeated := [name for number, name in enumerate(self.levels) if name in self.levels[:number]]:
            raise ConfigError(f"levels has {repeated[0]} twice")
        if not all(has_type(steps, int) and steps >= 1 for steps in self.horizon):
            raise ConfigError(f"horizon must be whole numbers of at least 1, got {', '.join(map(str, self.horizon))}")
        if self.rounds and len(self.horizon) not in (0, 1, self.rounds):
            raise ConfigError(
                f"horizon needs one number, or one for each round: it has {len(self.horizon)} for {self.rounds} rounds"
            )

        if self.self_play and self.explore_order == "hard":
            raise ConfigError("explore_order must not be hard with self_play, because each round has another partner")

    def _require_sequence(self) -> None:
        """Raise ConfigError for settings that do not fit a sequence, or need one."""
        if not 0 <= self.replay_ratio < 1:
            raise ConfigError(f"replay_ratio must be at least 0 and below 1, got {self.replay_ratio:g}")
        if not self.sequence:
            if self.replay_ratio:
                raise ConfigError(f"replay_ratio needs {setting('sequence', True)}")
            return
        if self.restart != "previous":
            raise ConfigError("restart must be previous in a sequence, because each world starts from the last agent")
        if self.patience:
            raise ConfigError("patience must be 0 in a sequence, because every world has the same number of rounds")
        if self.explore_weights:
            raise ConfigError("explore_weights must be empty in a sequence, because a round explores one world")

    @property
    def temperatures(self) -> list[float]:
        """Sampling temperatures of exploration; attempt k at a task has that at position k modulo their number."""
        return self.explore_temperatures or [self.temperature]

    def schedule(self, worlds: int) -> Schedule:
        """Return which stage and which of its rounds each round of a run in this number of worlds is."""
        return Schedule(worlds if self.sequence else 1, self.rounds)

    def horizon_of(self, number: int) -> int | None:
        """Return the horizon of a round, from 1; None if there is none."""
        return self.horizon[-1 if len(self.horizon) == 1 else number - 1] if self.horizon else None

    def play_config(self, seed: int, executor: Executor | None = None) -> PlayConfig:
        """Return the settings of collecting episodes with a seed."""
        return PlayConfig(
            self.slots, self.prompt, seed, executor, self.step_timeout, step_threads=self.step_threads,
            prompt_template=self.prompt_template,
        )  # fmt: skip


def require_compatible(config: EvolveConfig, trainer: Trainer | OnPolicyTrainer, envs: int = 1) -> None:
    """Raise ConfigError, with all reasons, if the trainer would ignore a setting of the rounds or cannot learn with it.

    This includes several processes for a trainer that supports one, and the trainer's own `check_round`.
    """
    require_reward(config)
    checks: list[Callable[[], object]] = [
        lambda: require_several_processes(trainer),
        lambda: require_discount(config, trainer),
        lambda: require_attempts_to_judge(config, trainer),
    ]
    if config.coreset:
        checks.append(lambda: require_single_trajectories(trainer, "coreset"))
    if isinstance(trainer, PlanChecks) and isinstance(trainer, OnPolicyTrainer) and config.rounds:
        checks.append(partial(trainer.check_round, envs * config.explore_tasks * config.attempts))
    reasons = [*_ignored(config, trainer)]
    for check in checks:
        try:
            check()
        except ConfigError as error:
            reasons.append(str(error))
    if reasons:
        raise ConfigError(". ".join(reasons))


def _ignored(config: EvolveConfig, trainer: Trainer | OnPolicyTrainer) -> Iterator[str]:
    """Yield which settings of the rounds the trainer would ignore, each with what to do."""
    if not isinstance(trainer, OnPolicyTrainer):
        if config.reward_model is not None:
            yield f"{setting('reward_model')} needs an on-policy trainer; this one learns from selected trajectories"
        return
    needed = {"merge": "last", "restart": "previous"}
    if changes := [setting(name, value) for name, value in needed.items() if getattr(config, name) != value]:
        yield f"an on-policy trainer continues the last round's agent on new data: set {' and '.join(changes)}"
    for name in ("critic", "reflection", "explore_temperatures"):
        if getattr(config, name):
            advice = f"; {setting('reward', 'judge')} has a judge's scores" if name == "critic" else ""
            yield f"{setting(name)} needs an offline trainer, which learns from selected trajectories{advice}"
    if config.forks:
        yield f"{setting('forks')} needs an offline trainer; grpo has a setting branches instead"
    if not config.temperature:
        yield f"{setting('temperature')} must be above 0 for an on-policy trainer, because equal attempts teach nothing"
    for name in ("reward", "reward_model"):
        if getattr(config, name) is not None and isinstance(trainer, PlanChecks) and not trainer.uses_reward:
            yield f"{setting(name)} needs a trainer that learns from returns; this one's settings ignore them"


def require_reward(config: EvolveConfig) -> None:
    """Raise ConfigError or UnknownNameError if the reward is wrong; a reward model is not loaded."""
    build_reward(config.reward, config.reward_kwargs, _no_scores if config.reward_model else None)


def require_discount(config: EvolveConfig, trainer: Trainer | OnPolicyTrainer) -> None:
    """Raise ConfigError if the potential of the reward has another discount than the trainer."""
    discount = getattr(trainer, "gamma", None)
    gamma = potential_gamma(config.reward, config.reward_kwargs) if config.reward else None
    if None not in (discount, gamma) and discount != gamma:
        raise ConfigError(
            f"{setting('reward_kwargs.gamma')} is {gamma:g} and {setting('trainer.gamma')} is {discount:g}: give both "
            "one value, because a potential keeps the best policy only with the trainer's discount"
        )


def require_attempts_to_judge(config: EvolveConfig, trainer: Trainer | OnPolicyTrainer) -> None:
    """Raise ConfigError if the reward or the critic compares attempts, and each task would have too few of them."""
    if isinstance(config.critic, ComparesAttempts) and config.rounds and not config.forks:
        least = config.critic.least_attempts
        if config.attempts < least and not isinstance(trainer, OnPolicyTrainer):
            raise ConfigError(f"the critic compares the attempts at a task: set {setting('attempts', least)} or more")
    if not (config.rounds and config.reward and is_relative(config.reward)):
        return
    needed = f"reward {config.reward!r} compares the attempts at a task"
    if not isinstance(trainer, OnPolicyTrainer):
        if config.attempts == 1 and not config.forks:
            raise ConfigError(f"{needed}: set {setting('attempts', 2)} or more")
    elif not info_of(trainer).compares_attempts:
        name = type(trainer).__name__
        raise ConfigError(f"{needed}, and {name} plays each task of an iteration once: use a trainer such as grpo")


def _no_scores(trajectories: Sequence[Trajectory]) -> list[float]:
    return [0.0] * len(trajectories)


def require_reachable(config: EvolveConfig, trainer: Trainer | OnPolicyTrainer, envs: Sequence[EnvSpec]) -> None:
    """Raise ConfigError if no episode of any env can pass `select`, if the envs declare their largest returns.

    Returns of a `reward` and scores of a critic are not known before.
    """
    if isinstance(trainer, OnPolicyTrainer) or not config.rounds or config.reward is not None or config.critic:
        return
    max_returns = {spec.name: _max_return(spec) for spec in envs}
    limits = [sys.float_info.max if limit is None else limit for limit in max_returns.values()]
    if all(config.select.threshold > limit for limit in limits):
        declared = [f"{limit:g} in {name}" for name, limit in max_returns.items() if limit is not None]
        reason = f": the largest return is {', '.join(declared)}" if declared else ", because no return is so large"
        raise ConfigError(f"select.threshold {config.select.threshold:g} keeps no trajectory{reason}")


def require_levels(config: EvolveConfig, envs: Sequence[EnvSpec]) -> None:
    """Raise ConfigError if an env lacks a level of the curriculum."""
    for spec in envs if config.curriculum and config.rounds else ():
        find_levels(spec, config.levels)


def require_roles(config: EvolveConfig, envs: Sequence[EnvSpec]) -> None:
    """Raise ConfigError if an env of a run with self-play has no other roles."""
    for spec in envs if config.self_play and config.rounds else ():
        with closing(spec.make()) as env:
            if not isinstance(env, MultiAgentEnv):
                raise ConfigError(f"{setting('self_play')} needs worlds of several roles, and {spec.name} has one")


def require_costs(trainer: Trainer | OnPolicyTrainer, envs: Sequence[EnvSpec]) -> None:
    """Raise ConfigError if a constraint of the trainer is on a cost that no env names."""
    if isinstance(trainer, ConstraintSettings) and trainer.constraint:
        trainer.check_costs({name for spec in envs for name in _costs(spec)})


def _costs(spec: EnvSpec) -> Collection[str]:
    with closing(spec.make()) as env:
        return env.costs


def _max_return(spec: EnvSpec) -> float | None:
    with closing(spec.make()) as env:
        return env.max_return


def require_sequence(config: EvolveConfig, trainer: Trainer | OnPolicyTrainer, envs: Sequence[EnvSpec]) -> None:
    """Raise ConfigError if the worlds are no sequence, or the trainer cannot replay or use EWC as it is asked to."""
    if not config.sequence:
        if isinstance(trainer, OfflineSettings) and trainer.ewc_lambda and trainer.ewc_anchor is None:
            raise ConfigError(
                f"{setting('trainer.ewc_lambda')} needs {setting('sequence', True)}, or {setting('trainer.ewc_anchor')}"
            )
        return
    if getattr(trainer, "ewc_lambda", 0) and not isinstance(trainer, OfflineSettings):
        raise ConfigError(_without_ewc(trainer))
    names = [short_name(spec.local_spec.name) for spec in envs]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigError(f"{setting('sequence')} needs several worlds, each once, got {', '.join(names)}")
    if config.replay_ratio:
        require_single_trajectories(trainer, "replay_ratio")


def ewc_strength(config: EvolveConfig, trainer: Trainer | OnPolicyTrainer) -> float:
    """Return the strength of EWC's penalty in a sequence; 0 without one."""
    return trainer.ewc_lambda if config.sequence and isinstance(trainer, OfflineSettings) else 0.0


def _without_ewc(trainer: Trainer | OnPolicyTrainer) -> str:
    name = type(trainer).__name__
    return f"{setting('trainer.ewc_lambda')} needs a trainer whose settings extend OfflineSettings; {name}'s do not"


def demonstrations_trainer(config: EvolveConfig, trainer: Trainer) -> Trainer:
    """Return a trainer as it learns from demonstrations; ConfigError if it has no epochs that could be replaced."""
    if config.expert_epochs is None:
        return trainer
    if not isinstance(trainer, DataSettings):
        raise ConfigError(
            f"{setting('expert_epochs')} needs a trainer whose settings extend DataSettings; those of "
            f"{type(trainer).__name__} do not"
        )
    changed: Trainer = replace(trainer, epochs=config.expert_epochs)
    return changed


def require_cloner(config: EvolveConfig, trainer: Trainer | OnPolicyTrainer, cloner: Trainer | None) -> None:
    """Raise ConfigError if no trainer can make Agent_v0 of the expert's episodes, or it cannot use EWC."""
    maker = cloner or trainer
    if config.expert_tasks and not isinstance(maker, OnPolicyTrainer):
        demonstrations_trainer(config, maker)
    if cloner is not None and ewc_strength(config, trainer) and not isinstance(cloner, OfflineSettings):
        raise ConfigError(_without_ewc(cloner))
    if config.expert_tasks and cloner is None and isinstance(trainer, OnPolicyTrainer):
        raise ConfigError(
            f"{type(trainer).__name__} is an on-policy trainer without a cloner that makes Agent_v0 of demonstrations: "
            "set expert_tasks 0, or declare one (TrainerInfo(warm_start='filtered_bc'); in Python "
            "Evolution(cloner=...))"
        )


def require_compatible_policy(config: EvolveConfig, trainer: Trainer | OnPolicyTrainer, policy: Policy) -> None:
    """Raise ConfigError if the reward model, the critic or the trainer cannot read the policy's episodes.

    The trainer's `check_policy` is called, too.

    Without this check the first round that needs them would raise it, after earlier rounds.
    """
    require_reward_model(config.reward_model, policy)
    if isinstance(config.critic, ReadsTokens):
        config.critic.check_policy(policy)
    if config.rounds and policy.context != "error" and not info_of(trainer).several_sequences:
        name = type(trainer).__name__
        raise ConfigError(f"context must be error: {name} trains only episodes of one token sequence")
    if config.rounds and isinstance(trainer, PlanChecks):
        trainer.check_policy(policy)
