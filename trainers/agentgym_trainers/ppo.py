"""Proximal policy optimization of whole episodes, with a critic on the policy's own trunk.

    L = - mean min(rho_t A_t, clip(rho_t, 1 - eps, 1 + eps) A_t) + c_v mean V-loss_t - c_e mean H_t
    V-loss_t = 1/2 max((V_t - G_t)^2, (clip(V_t, V_old - eps_v, V_old + eps_v) - G_t)^2)

over agent tokens (arXiv:1707.06347, eq. 9). A and G = A + V_old come from generalized advantage estimation
(arXiv:1506.02438) over tokens, where a token's successor is the next agent token (observations are skipped), or over
turns, where a reply is one choice: one advantage for all its tokens, one value before its first. A turn's reward stands
at its last token; each token's is lessened by kl (log pi_old - log pi_ref), the reference being the policy as the
training began, and kl follows a target if one is set: x 1.5 above 1.5 times the target, / 1.5 below the target / 1.5.
A truncated episode goes on from the critic's value of what was shown last; a terminated one is worth 0 from there, and
so are one given up because the policy's context is full and one that a reward model scores, which is as a whole.

Deviations: all means are over agent tokens, so that over turns, where V-loss stands at first tokens alone, c_v counts
less by the length of a reply (in the trunk: the head's own steps, Adam's, have no scale); rewards and values are not
scaled; advantages are whitened over an iteration; the critic's trunk is the policy's (its gradient is cut by
`critic_gradient`); learning rates are constant; 2 epochs by default, not 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from agentgym_py.checks import check_least
from agentgym_py.env import StopReason
from agentgym_py.errors import ConfigError
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.progress import Progress
from agentgym_py.training.rl.loop import Kept
from agentgym_py.training.rl.settings import LearnerSettings
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.policy import Policy
    from agentgym_py.training.rl.batch import Batch, Record
    from agentgym_py.training.rl.learner import Learner, Loss, Output


def ppo_loss(
    logps_N: Tensor, old_logps_N: Tensor, advantages_N: Tensor, values_N: Tensor, old_values_N: Tensor,
    returns_N: Tensor, entropy_N: Tensor, *, clip: float = 0.2, value_clip: float = 0.2, value_weight: float = 0.5,
    entropy_weight: float = 0.0, valued_N: Tensor | None = None,
) -> Loss:  # fmt: skip
    """The loss of each of N agent tokens; `valued_N` is 1 where the critic is trained (default: everywhere)."""
    import torch

    from agentgym_py.training.rl.learner import Loss
    from agentgym_py.training.rl.losses import clipped_surrogate

    actor = clipped_surrogate(logps_N, old_logps_N, advantages_N, clip, clip)
    near_N = torch.clamp(values_N, old_values_N - value_clip, old_values_N + value_clip)
    critic_N = 0.5 * torch.maximum((values_N - returns_N) ** 2, (near_N - returns_N) ** 2)
    if valued_N is not None:
        critic_N = critic_N * valued_N
    loss_N = actor.loss_N + value_weight * critic_N - entropy_weight * entropy_N
    logged = {"policy_loss": actor.loss_N, "value_loss": critic_N, "clip_fraction": actor.clipped_N}
    return Loss(loss_N, logged)


class MoreRewards(Kept, Protocol):
    """Puts into an iteration's records what `rewards` reads beside the world's."""

    logged: Mapping[str, float]
    """What is to be logged of the iteration that was read last."""

    def read(self, episodes: Sequence[Trajectory], records: Sequence[Record], dropped: Counter[str]) -> None:
        """One record an episode; what it plays itself is counted in `dropped`."""
        ...


def adapted(kl: float, measured: float, target: float) -> float:
    """The KL coefficient after an iteration in which the divergence was `measured`."""
    if target and measured > 1.5 * target:
        return kl * 1.5
    return kl / 1.5 if target and measured < target / 1.5 else kl


@dataclass(frozen=True, slots=True)
class PPO(LearnerSettings):
    """Settings of proximal policy optimization."""

    shared: ClassVar = True
    evolve_defaults: ClassVar = {"temperature": 1.0}
    cloner: ClassVar = "filtered_bc"

    batch_tasks: int = 128
    """Episodes an iteration, each of another task."""
    epochs: int = 2
    """Passes over an iteration's episodes."""
    clip: float = 0.2
    """The ratio's bounds are 1 - clip and 1 + clip."""
    value_clip: float = 0.2
    """How far a value may move from what it was when the episodes were played, in the loss."""
    value_weight: float = 0.5
    """Of the critic's loss."""
    entropy_weight: float = 0.0
    """Of the tokens' entropy, which is then sought."""
    gamma: float = 1.0
    """Discount a choice."""
    lam: float = 0.95
    """GAE's lambda."""
    level: Literal["token", "turn"] = "turn"
    """What a choice is."""
    kl: float = 0.02
    """Weight of the divergence from the policy as the training began, in the reward; 0 keeps no reference."""
    kl_target: float = 0.0
    """Divergence a token that `kl` is steered to; 0 keeps `kl` as it is."""
    critic_warmup: int = 1
    """Iterations in which the critic learns alone, and the policy stays as it is."""
    critic_learning_rate: float = 1e-3
    """Of the value head."""
    critic_gradient: float = 0.1
    """Share of the critic's gradient that reaches the trunk."""

    def __post_init__(self) -> None:
        LearnerSettings.__post_init__(self)
        least = {"batch_tasks": 1, "epochs": 1, "clip": 0.0, "value_clip": 0.0, "value_weight": 0.0, "gamma": 0.0}
        least |= {"lam": 0.0, "kl": 0.0, "kl_target": 0.0, "entropy_weight": 0.0, "critic_gradient": 0.0}
        check_least(self, least | {"critic_warmup": 0, "critic_learning_rate": 0.0})
        if self.gamma > 1 or self.lam > 1 or self.critic_gradient > 1:
            raise ConfigError("gamma, lam and critic_gradient must be at most 1")
        for name in ("critic_learning_rate", "value_weight"):
            if not getattr(self, name):
                raise ConfigError(f"{name} must not be 0: without a critic there is no advantage")
        if self.kl_target and not self.kl:
            raise ConfigError("kl_target steers kl: kl must not be 0")

    def check_round(self, episodes: int) -> None:
        """ConfigError where a round of so many episodes leaves the policy none to learn from."""
        if episodes <= self.critic_warmup * self.batch_tasks:
            raise ConfigError(
                f"critic_warmup {self.critic_warmup} times batch_tasks {self.batch_tasks} leaves the policy none of "
                f"{episodes} episodes to learn from"
            )

    def improve(
        self,
        policy: Policy,
        rollouts: Rollouts,
        *,
        seed: int,
        output_dir: Path,
        progress: Progress | None = None,
    ) -> TrainReport:
        """Iterate: play `batch_tasks` episodes, estimate advantages, take steps; until the budget is spent.

        The critic starts anew each time.

        Raises:
            ConfigError: replies are not sampled from the whole distribution, or all episodes go to `critic_warmup`.
            NothingToTrainOnError: no episode had a reply to learn from.
            TrainingError: the loss was not finite.
        """
        return self._improve(policy, rollouts, seed, output_dir, progress)

    def _improve(
        self, policy: Policy, rollouts: Rollouts, seed: int, output_dir: Path, progress: Progress | None,
        more: MoreRewards | None = None,
    ) -> TrainReport:  # fmt: skip
        from agentgym_py.training.rl.batch import played
        from agentgym_py.training.rl.learner import Learner, training
        from agentgym_py.training.rl.loop import Loop

        self.check_round(rollouts.remaining)
        made = Learner(
            policy, self, seed=seed, temperature=rollouts.temperature, reference=self.kl > 0,
            critic_rate=self.critic_learning_rate, critic_gradient=self.critic_gradient,
            entropy_gradient=self.entropy_weight > 0,
        )  # fmt: skip
        loop = Loop(made, rollouts, output_dir, progress, [seed], [more] if more else [])
        tally = loop.tally
        tally.kl = tally.kl if tally.history else self.kl
        with training(made) as learner:
            for _ in loop.iterations():
                episodes = [group[0] for group in rollouts.groups(self.batch_tasks, 1)]
                ended = rollouts.scorer is not None  # a score is of the whole episode: nothing is still to come
                records = self._records(learner, episodes, tally.kl, tally.dropped, more, ended)
                if not records:
                    continue
                logged = self._iterate(learner, records, only_critic=len(tally.history) < self.critic_warmup)
                paid = {"kl_penalty": tally.kl * logged["kl_ref"]} if "kl_ref" in logged else {}
                also = {"kl_coefficient": tally.kl, **paid, **played(episodes), **(more.logged if more else {})}
                loop.count(records, self.epochs, logged | also)
                if len(tally.history) > self.critic_warmup + 1:  # a policy that had been trained played
                    tally.kl = adapted(tally.kl, logged.get("kl_ref", 0.0), self.kl_target)
        return loop.report(len(tally.history) > self.critic_warmup)

    def _records(
        self, learner: Learner, episodes: Sequence[Trajectory], kl: float, dropped: Counter[str],
        more: MoreRewards | None = None, ended: bool = False,
    ) -> list[Record]:  # fmt: skip
        """The episodes' records with values, advantages and returns; `ended` where truncated ones are worth no more."""
        from agentgym_py.training.rl.advantages import whiten
        from agentgym_py.training.rl.batch import record_of

        kept, records = [], []
        for episode in episodes:
            goes_on = episode.stop_reason is StopReason.TRUNCATED and not ended
            record = record_of(episode, learner.policy.chat, tail=goes_on) if episode.is_evidence else None
            if record is None:
                why = "without a reply to learn" if episode.is_evidence else "ended by an infrastructure error"
                dropped[why] += 1
            else:
                kept.append(episode)
                records.append(record)
        learner.evaluate(records)
        if more and records:
            more.read(kept, records, dropped)
        for episode, record in zip(kept, records, strict=True):
            self._estimate(record, self.rewards(episode, record, kl))
        whitened = whiten([record.extra["advantages"] for record in records]) if records else []
        for record, advantages_n in zip(records, whitened, strict=True):
            record.extra["advantages"] = advantages_n
        return records

    def rewards(self, episode: Trajectory, record: Record, kl: float) -> Tensor:
        """The reward at each of the record's n agent tokens: the turn's at its last, and what the divergence costs."""
        import torch

        rewards_n = torch.zeros_like(record.old_logps_n)
        rewards_n[record.last_of_turn_n] = rewards_n.new_tensor([episode.steps[t].reward for t in record.turns])
        if "ref_logps" in record.extra:
            rewards_n -= kl * (record.old_logps_n - record.extra["ref_logps"])
        return rewards_n

    def _estimate(self, record: Record, rewards_n: Tensor) -> None:
        """Put advantages, returns and where they are meant for the critic into a record."""
        import torch

        from agentgym_py.training.rl.advantages import gae

        values_n, bootstrap = record.extra["values"], record.bootstrap
        if self.level == "token":
            found = gae(rewards_n, values_n, bootstrap, self.gamma, self.lam)
            record.extra |= {"advantages": found.advantages_T, "returns": found.returns_T}
            record.extra["valued"] = torch.ones(record.n)
            return
        of_turn_n = torch.unique(record.turns_n, return_inverse=True)[1]
        first = record.first_of_turn_n
        rewards_T = rewards_n.new_zeros(int(first.sum())).index_add(0, of_turn_n, rewards_n)
        found = gae(rewards_T, values_n[first], bootstrap, self.gamma, self.lam)
        record.extra |= {"advantages": found.advantages_T[of_turn_n], "returns": found.returns_T[of_turn_n]}
        record.extra["valued"] = first.float()

    def _iterate(self, learner: Learner, records: list[Record], only_critic: bool) -> dict[str, float]:
        import torch

        from agentgym_py.training.rl.batch import averaged

        learner.net.critic_gradient = 0.0 if only_critic else self.critic_gradient
        loss_of = self._critic_loss if only_critic else self._loss
        steps = [s for _ in range(self.epochs) for s in learner.epoch(records, loss_of, "token")]
        reference = [r.old_logps_n - r.extra["ref_logps"] for r in records if "ref_logps" in r.extra]
        return averaged(steps) | ({"kl_ref": float(torch.cat(reference).mean())} if reference else {})

    def _critic_loss(self, out: Output, batch: Batch) -> Loss:
        found = self._loss(out, batch)
        return found._replace(loss_N=self.value_weight * found.logged_N["value_loss"])

    def _loss(self, out: Output, batch: Batch) -> Loss:
        assert out.values_N is not None
        extra = batch.extra
        return ppo_loss(
            out.logps_N, batch.old_logps_N, extra["advantages"], out.values_N, extra["values"], extra["returns"],
            out.entropy_N, clip=self.clip, value_clip=self.value_clip, value_weight=self.value_weight,
            entropy_weight=self.entropy_weight, valued_N=extra["valued"],
        )  # fmt: skip
