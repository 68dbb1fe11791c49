"""Proximal policy optimization of whole episodes, with a critic on the policy's own trunk.

    loss = mean over t of (- min(rho_t A_t, clip(rho_t, 1 - clip, 1 + clip) A_t) + vf_coef V_loss_t - entropy_coef H_t)
    V_loss_t = 1/2 max((V_t - G_t)^2, (clip(V_t, V_old_t - value_clip, V_old_t + value_clip) - G_t)^2)

over agent tokens t (arXiv:1707.06347, eq. 9; the clipped V_loss with its 1/2 is OpenAI Baselines', the paper has (V -
G)^2). H is the entropy of the next token. A and G = A + V_old come from generalized advantage estimation
(arXiv:1506.02438) over tokens, whose successor is the next agent token (observations are skipped), or over turns, with
one advantage for all tokens of a reply and one value before its first. A turn's reward is paid at its last token, and
each token pays kl_coef (log pi_old - log pi_ref), the reference being the policy at the start of training. With
`kl_target`, kl_coef is multiplied by 1.5 above 1.5 times the target, and divided by 1.5 below the target / 1.5. A
truncated episode bootstraps from the critic's value of its last observation, or of the state before its last token if
that observation does not fit the context. The bootstrap is 0 for an episode that terminated, that was given up because
the context is full, or that a reward function or reward model scored as a whole.

With `constraint` rewards are the Lagrangian's, with a multiplier for each constrained cost (`rl.constraints`), which do
not move while the critic warms up.

Deviations: all means are over agent tokens, so that over turns, where V_loss is at first tokens only, vf_coef counts
less by the length of a reply (for the trunk: Adam makes the head's steps independent of scale); rewards and values are
not scaled; advantages are whitened over an iteration; the critic shares the policy's trunk (`critic_gradient` scales
its gradient there), begins at 0 on scaled states, and has a learning rate, a clipping and a warm-up of its own;
`kl_target` adapts the price of a KL to the reference, where the paper doubles and halves that of one to the sampling
policy, in the loss; learning rates are constant; AdamW with beta2 0.95; 2 epochs by default, not 4; replies that were
cut at the maximum length have neither loss nor value (`mask_truncated_completions`), and their reward is paid to the
last reply before them that has some, or to none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from agentgym_py.checks import require_at_least
from agentgym_py.errors import ConfigError, setting
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.progress import Progress
from agentgym_py.training.rl.constraints import ConstraintSettings, Multipliers
from agentgym_py.training.rl.loop import Checkpointable
from agentgym_py.training.settings import OnPolicySettings
from agentgym_py.training.trainer import TrainerInfo
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.scores import mean_parts

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.policy import Policy
    from agentgym_py.training.rl.actor_critic import Output
    from agentgym_py.training.rl.batch import Record, TokenBatch
    from agentgym_py.training.rl.learner import Learner
    from agentgym_py.training.rl.losses import Loss


def ppo_loss(
    logps_N: Tensor, old_logps_N: Tensor, advantages_N: Tensor, values_N: Tensor, old_values_N: Tensor,
    returns_N: Tensor, entropy_N: Tensor, *, clip: float = 0.2, value_clip: float = 0.2, vf_coef: float = 0.5,
    entropy_coef: float = 0.0, valued_N: Tensor | None = None, importance_N: Tensor | None = None,
) -> Loss:  # fmt: skip
    """Return the loss of each of N agent tokens; `valued_N` is 1 where the critic is trained (default: everywhere).

    `importance_N` weighs the surrogate by how much likelier a token is to the trainer than to the sampler.
    """
    import torch

    from agentgym_py.training.rl.losses import Loss, clipped_surrogate

    actor = clipped_surrogate(logps_N, old_logps_N, advantages_N, clip, clip)
    clipped_N = torch.clamp(values_N, old_values_N - value_clip, old_values_N + value_clip)
    critic_N = 0.5 * torch.maximum((values_N - returns_N) ** 2, (clipped_N - returns_N) ** 2)
    if valued_N is not None:
        critic_N = critic_N * valued_N
    actor_N = actor.loss_N if importance_N is None else actor.loss_N * importance_N
    loss_N = actor_N + vf_coef * critic_N - entropy_coef * entropy_N
    logged = {"policy_loss": actor_N, "value_loss": critic_N, "clip_fraction": actor.clipped_N}
    return Loss(loss_N, logged)


class StepRewards(Checkpointable, Protocol):
    """Additional rewards, such as those of a process reward model."""

    logged: Mapping[str, float]
    """Logs of the last iteration."""

    def score(self, episodes: Sequence[Trajectory], records: Sequence[Record], dropped: Counter[str]) -> None:
        """Fill the records' `process_rewards_n`, one record per episode; count episodes that it plays in `dropped`."""
        ...


RewardOf = Callable[[Trajectory, "Record", float], Tensor]
"""Returns the reward at each of a record's n agent tokens, from the episode, its record and the KL coefficient."""


def adapt_kl_coef(kl_coef: float, measured: float, target: float) -> float:
    """Return the KL coefficient after an iteration with the divergence `measured`."""
    if target and measured > 1.5 * target:
        return kl_coef * 1.5
    return kl_coef / 1.5 if target and measured < target / 1.5 else kl_coef


@dataclass(frozen=True, slots=True)
class PPOSettings(OnPolicySettings, ConstraintSettings):
    """Settings of proximal policy optimization."""

    tasks_per_iteration: int = 128
    """Episodes per iteration, one per task."""
    epochs: int = 2
    """Passes over an iteration's episodes."""
    clip: float = 0.2
    """The ratio is clipped to [1 - clip, 1 + clip]."""
    value_clip: float = 0.2
    """How far a value moves in the loss from its value at sampling."""
    vf_coef: float = 0.5
    """Weight of the critic's loss."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus."""
    gamma: float = 1.0
    """Discount per choice."""
    gae_lambda: float = 0.95
    """Lambda of generalized advantage estimation."""
    credit_level: Literal["token", "turn"] = "turn"
    """What a choice is: a token or a whole turn."""
    kl_coef: float = 0.02
    """Weight, in the reward, of the KL to the policy at the start of training; 0 keeps no reference model."""
    kl_target: float = 0.0
    """Divergence (nats per token) to which `kl_coef` is adapted; 0 keeps `kl_coef` constant."""
    critic_warmup: int = 1
    """Iterations in which only the critic is trained."""
    critic_learning_rate: float = 1e-3
    """Learning rate of the value head."""
    critic_gradient: float = 0.1
    """Share of the critic's gradient that reaches the trunk."""

    def __post_init__(self) -> None:
        OnPolicySettings.__post_init__(self)
        ConstraintSettings.__post_init__(self)
        least = {"tasks_per_iteration": 1, "epochs": 1, "clip": 0.0, "value_clip": 0.0, "vf_coef": 0.0, "gamma": 0.0}
        least |= {"gae_lambda": 0.0, "kl_coef": 0.0, "kl_target": 0.0, "entropy_coef": 0.0, "critic_gradient": 0.0}
        require_at_least(self, least | {"critic_warmup": 0, "critic_learning_rate": 0.0})
        if self.gamma > 1 or self.gae_lambda > 1 or self.critic_gradient > 1:
            raise ConfigError("gamma, gae_lambda and critic_gradient must be at most 1")
        for name in ("critic_learning_rate", "vf_coef"):
            if not getattr(self, name):
                raise ConfigError(f"{name} must not be 0: without a critic there is no advantage")
        if self.kl_target and not self.kl_coef:
            raise ConfigError("kl_target adapts kl_coef: kl_coef must not be 0")

    def check_round(self, episodes: int) -> None:
        """Raise ConfigError if the critic's warm-up uses all of a round's episodes."""
        if episodes <= self.critic_warmup * self.tasks_per_iteration:
            raise ConfigError(
                f"critic_warmup {self.critic_warmup} times tasks_per_iteration {self.tasks_per_iteration} leaves the "
                f"policy none of {episodes} episodes to learn from: set a smaller "
                f"{setting('trainer.tasks_per_iteration')} or a larger {setting('explore_tasks')}"
            )


@dataclass(frozen=True, slots=True)
class PPO(PPOSettings):
    """Proximal policy optimization."""

    info: ClassVar = TrainerInfo(several_processes=True, warm_start="filtered_bc", evolve_defaults={"temperature": 1.0})

    def improve(
        self, policy: Policy, rollouts: Rollouts, *, seed: int, output_dir: Path, progress: Progress | None = None
    ) -> TrainReport:
        """Train `policy` in place until the budget of episodes is spent, with a new critic.

        Raises:
            ConfigError: replies are not sampled from the whole distribution, or all episodes go to `critic_warmup`.
            NothingToTrainOnError: no episode had a reply to learn from.
            TrainingError: the loss was not finite.
        """
        return run_ppo(self, policy, rollouts, seed=seed, output_dir=output_dir, progress=progress)


def run_ppo(
    settings: PPOSettings, policy: Policy, rollouts: Rollouts, *, seed: int, output_dir: Path,
    progress: Progress | None = None, rewards_of: RewardOf | None = None, extra: StepRewards | None = None,
    step_weight: float = 0.0,
) -> TrainReport:  # fmt: skip
    """Iterate: play episodes, estimate advantages, take steps.

    `extra` fills the records' process rewards; `rewards_of` returns the tokens' rewards (default: `token_rewards`);
    `step_weight` is the weight of a turn's process rewards in its own advantage.
    """
    from agentgym_py.training.rl.batch import episode_stats
    from agentgym_py.training.rl.loop import Loop

    settings.check_round(rollouts.remaining)
    multipliers = Multipliers(settings)
    learner = make_learner(settings, policy, rollouts, seed)
    scored, mask_cut = rollouts.scorer is not None, settings.mask_truncated_completions
    rewards_of = rewards_of or token_rewards
    with Loop(learner, rollouts, output_dir, progress, [seed], [part for part in (extra, multipliers) if part]) as loop:
        totals = loop.totals
        totals.kl_coef = totals.kl_coef if loop.finished else settings.kl_coef
        for _ in loop.iterations():
            played = play_iteration(settings, rollouts)
            episodes, records = encode_episodes(played, policy, loop.dropped, scored, mask_cut)
            if not records:
                continue
            rollouts.release_cache()
            warming_up = loop.finished < settings.critic_warmup
            multipliers.update(played, frozen=warming_up)
            learner.annotate(records)  # values, and log-probabilities of the reference model
            if extra:
                extra.score(episodes, records, loop.dropped)
            for episode, record in zip(episodes, records, strict=True):
                rewards_n = rewards_of(multipliers.penalize_steps(episode), record, totals.kl_coef)
                fill_advantages(settings, record, rewards_n)
                add_step_advantages(record, step_weight)
            whiten_advantages(records)
            learner.net.critic_gradient = 0.0 if warming_up else settings.critic_gradient
            for minibatch in learner.minibatches(records, "token", epochs=settings.epochs):
                for batch in learner.microbatches(minibatch):  # N agent tokens of B episodes
                    out = learner.forward(batch)
                    learner.backward(settings_loss(settings, out, batch, critic_only=warming_up), out, batch)
                learner.step()
            divergence = kl_to_reference(records)
            stats = kl_stats(totals.kl_coef, divergence) | episode_stats(played, mask_cut)
            stats |= dict(extra.logged) if extra else {}
            stats |= (mean_parts(played) if scored else {}) | multipliers.logged
            loop.finish_iteration(records, settings.epochs, learner.logged | stats)
            if loop.finished > settings.critic_warmup + 1:  # the sampling policy had been trained
                totals.kl_coef = adapt_kl_coef(totals.kl_coef, divergence or 0.0, settings.kl_target)
    multipliers.save(output_dir)
    return loop.report(loop.finished > settings.critic_warmup)


def make_learner(settings: PPOSettings, policy: Policy, rollouts: Rollouts, seed: int) -> Learner:
    """Return a learner with a new critic, and with a reference model if the KL counts."""
    from agentgym_py.training.rl.learner import Learner

    return Learner(
        policy, settings, seed=seed, temperature=rollouts.temperature, reference=settings.kl_coef > 0,
        critic_rate=settings.critic_learning_rate, critic_gradient=settings.critic_gradient,
        entropy_gradient=settings.entropy_coef > 0, remote_sampler=rollouts.is_remote,
    )  # fmt: skip


def play_iteration(settings: PPOSettings, rollouts: Rollouts) -> list[Trajectory]:
    """Play an iteration's episodes, one per task: as many in each iteration, not a rest in the last."""
    left = math.ceil(rollouts.remaining / settings.tasks_per_iteration)
    return [group[0] for group in rollouts.groups(math.ceil(rollouts.remaining / left), 1)]


def settings_loss(settings: PPOSettings, out: Output, batch: TokenBatch, *, critic_only: bool = False) -> Loss:
    """Return the loss of a batch's N agent tokens by the settings; that of the critic alone while it warms up."""
    assert out.values_N is not None and batch.advantages_N is not None
    assert batch.values_N is not None and batch.returns_N is not None
    loss = ppo_loss(
        out.logps_N, batch.old_logps_N, batch.advantages_N, out.values_N, batch.values_N, batch.returns_N,
        out.entropy_N, clip=settings.clip, value_clip=settings.value_clip, vf_coef=settings.vf_coef,
        entropy_coef=settings.entropy_coef, valued_N=batch.valued_N,
        importance_N=batch.importance_N,
    )  # fmt: skip
    return loss._replace(loss_N=settings.vf_coef * loss.logged_N["value_loss"]) if critic_only else loss


def encode_episodes(
    episodes: Sequence[Trajectory], policy: Policy, dropped: Counter[str], scored: bool = False, mask_cut: bool = False
) -> tuple[list[Trajectory], list[Record]]:
    """Return the episodes that can be learnt from, and their records.

    Those that are `scored`, as a whole, have no bootstrap. `mask_cut` leaves replies that were cut out of the loss.
    """
    from agentgym_py.policy.tokens import why_nothing_to_learn
    from agentgym_py.training.rl.batch import encode_record

    encoded: list[tuple[Trajectory, Record]] = []
    for episode in episodes:
        if not episode.is_evidence:
            dropped["ended by an infrastructure error"] += 1
        elif record := encode_record(episode, policy.chat, tail=episode.truncated and not scored, mask_cut=mask_cut):
            encoded.append((episode, record))
        else:
            dropped[why_nothing_to_learn(episode)] += 1
    return [episode for episode, _ in encoded], [record for _, record in encoded]


def token_rewards(episode: Trajectory, record: Record, kl_coef: float) -> Tensor:
    """Return the reward at each of the record's n agent tokens: the turn's at its last, less the KL penalty."""
    import torch

    from agentgym_py.training.rl.batch import rewards_by_turn

    rewards_n = torch.zeros_like(record.old_logps_n)
    rewards_T = rewards_by_turn(record, [step.reward for step in episode.steps])
    rewards_n[record.last_of_turn_n] = rewards_n.new_tensor(rewards_T)
    if record.ref_logps_n is not None:
        rewards_n -= kl_coef * (record.old_logps_n - record.ref_logps_n)
    return rewards_n


def fill_advantages(settings: PPOSettings, record: Record, rewards_n: Tensor) -> None:
    """Fill a record's advantages and returns, and mark the tokens at which the critic is trained."""
    import torch

    from agentgym_py.training.rl.advantages import gae

    values_n, bootstrap = record.values_n, record.bootstrap
    assert values_n is not None
    if settings.credit_level == "token":
        record.advantages_n, record.returns_n = gae(rewards_n, values_n, bootstrap, settings.gamma, settings.gae_lambda)
        record.valued_n = torch.ones(record.n)
        return
    of_turn_n = torch.unique(record.turns_n, return_inverse=True)[1]
    first = record.first_of_turn_n
    rewards_T = rewards_n.new_zeros(int(first.sum())).index_add(0, of_turn_n, rewards_n)
    advantages_T, returns_T = gae(rewards_T, values_n[first], bootstrap, settings.gamma, settings.gae_lambda)
    record.advantages_n, record.returns_n = advantages_T[of_turn_n], returns_T[of_turn_n]
    record.valued_n = first.float()


def add_step_advantages(record: Record, weight: float) -> None:
    """Add a turn's process rewards to the advantages of its tokens, and to no other turn's (arXiv:2410.08146)."""
    import torch

    if not weight or record.process_rewards_n is None or record.advantages_n is None:
        return
    of_turn_n = torch.unique(record.turns_n, return_inverse=True)[1]
    rewards_T = record.process_rewards_n.new_zeros(len(record.turns)).index_add(0, of_turn_n, record.process_rewards_n)
    record.advantages_n = record.advantages_n + weight * rewards_T[of_turn_n]


def whiten_advantages(records: Sequence[Record]) -> None:
    """Shift and scale the advantages of all records together."""
    from agentgym_py.training.rl.advantages import whiten

    advantages = [record.advantages_n for record in records if record.advantages_n is not None]
    for record, advantages_n in zip(records, whiten(advantages), strict=True):
        record.advantages_n = advantages_n


def kl_to_reference(records: Sequence[Record]) -> float | None:
    """Return the sampling policy's mean KL to the reference (k1, nats per token); None without a reference."""
    from agentgym_py.training.rl.batch import concat_field

    old_N, ref_N = concat_field(records, "old_logps"), concat_field(records, "ref_logps")
    return None if old_N is None or ref_N is None else float((old_N - ref_N).mean())


def kl_stats(kl_coef: float, divergence: float | None) -> dict[str, float]:
    """Return the logs of the KL to the reference; only its coefficient without a reference."""
    stats = {"kl_coefficient": kl_coef}
    return stats if divergence is None else stats | {"kl_ref": divergence, "kl_penalty": kl_coef * divergence}
