"""On-policy distillation: a teacher grades every token of the student's own episodes.

    loss = mean over the agent tokens of D(teacher(. | s_t), student(. | s_t)),  s_t from the student's episodes

with D a divergence over the whole vocabulary at a temperature, as in GKD (Agarwal et al., arXiv:2306.13649, eq. 1):

============  ==================================================  ============
divergence    D                                                   trl's beta
============  ==================================================  ============
`reverse_kl`  KL(student | teacher)                               1
`forward_kl`  KL(teacher | student)                               0
`jsd`         beta KL(teacher | m) + (1 - beta) KL(student | m)   0 < beta < 1
              with m = beta teacher + (1 - beta) student
============  ==================================================  ============

With `kl_estimator` k1 only the teacher's log-probabilities of the sampled tokens are used: the reverse KL is estimated
at each token, and its negative is the token's advantage in a policy gradient, without a discount (MiniLLM's single-step
term, arXiv:2306.08543; "On-Policy Distillation", Thinking Machines, 2025):

    A_t = log teacher(a_t) - log pi_old(a_t),    loss = - mean over the agent tokens of pi(a_t) / pi_old(a_t) A_t

Deviations: all data is the student's own (GKD's lambda is 1; imitation of the teacher's episodes is `filtered_bc`); no
gradient goes through the sampling, as in GKD; rewards play no part. A step's loss is a mean over its tokens, as in
trl's GKDTrainer, whose loss the whole-vocabulary divergences equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from agentgym_py.checks import require_at_least, require_positive
from agentgym_py.errors import ConfigError
from agentgym_py.policy.typing import Tensor
from agentgym_py.training import TrainReport
from agentgym_py.training.progress import Progress
from agentgym_py.training.settings import OnPolicySettings, Rates
from agentgym_py.training.trainer import TrainerInfo
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.policy import Policy
    from agentgym_py.training.rl.actor_critic import Output, Teacher
    from agentgym_py.training.rl.batch import Record, TokenBatch
    from agentgym_py.training.rl.losses import Loss

DivergenceName = Literal["reverse_kl", "forward_kl", "jsd"]


def divergence(
    student_nV: Tensor, teacher_nV: Tensor, *, kind: DivergenceName = "reverse_kl", beta: float = 0.5,
    temperature: float = 1.0,
) -> Tensor:  # fmt: skip
    """Return the divergence at each of n tokens, in nats, from logits over V words, (n,)."""
    import torch

    student_nV = torch.log_softmax(student_nV / temperature, -1)
    teacher_nV = torch.log_softmax(teacher_nV / temperature, -1)
    if kind == "reverse_kl":
        return kl(student_nV, teacher_nV)
    if kind == "forward_kl":
        return kl(teacher_nV, student_nV)
    weights = torch.tensor([1 - beta, beta], dtype=student_nV.dtype, device=student_nV.device).log()
    mixture_nV = torch.logaddexp(student_nV + weights[0], teacher_nV + weights[1])
    return beta * kl(teacher_nV, mixture_nV) + (1 - beta) * kl(student_nV, mixture_nV)


def kl(p_nV: Tensor, q_nV: Tensor) -> Tensor:
    """Return KL(p | q) of log-probabilities, (n,)."""
    return (p_nV.exp() * (p_nV - q_nV)).sum(-1)


def sampled_loss(logps_N: Tensor, old_logps_N: Tensor, advantages_N: Tensor) -> Tensor:
    """Return the policy-gradient loss of each of N sampled tokens, corrected to the policy that sampled them."""
    return -(logps_N - old_logps_N).exp() * advantages_N


@dataclass(frozen=True, slots=True)
class Distill(OnPolicySettings):
    """Settings of on-policy distillation."""

    info: ClassVar = TrainerInfo(several_processes=True, warm_start="filtered_bc", evolve_defaults={"temperature": 1.0})
    rates: ClassVar[Rates] = Rates(3e-4, 1e-5)

    teacher: str | None = None
    """Folder or name of the teacher, a policy of the same tokens; required."""
    divergence: DivergenceName = "reverse_kl"
    """Divergence of the student from the teacher at a token; see docs/reference/trainers/distill.md."""
    beta: float = 0.5
    """Weight of the teacher in the mixture of `jsd`, between 0 and 1."""
    temperature: float = 1.0
    """Temperature of both distributions in the divergence."""
    kl_estimator: Literal["exact", "k1"] = "exact"
    """`exact`: over the whole vocabulary; `k1`: at the sampled tokens alone, as their advantages in a policy gradient
    (reverse_kl only)."""
    tasks_per_iteration: int = 32
    """Episodes per iteration, one per task."""
    epochs: int = 1
    """Passes over an iteration's episodes."""

    def __post_init__(self) -> None:
        OnPolicySettings.__post_init__(self)
        require_at_least(self, {"tasks_per_iteration": 1, "epochs": 1})
        require_positive(self, "temperature")
        if not 0 < self.beta < 1:
            raise ConfigError(f"beta must be between 0 and 1 (at the ends: forward_kl, reverse_kl), got {self.beta:g}")
        if self.kl_estimator == "k1" and self.divergence != "reverse_kl":
            raise ConfigError(f"kl_estimator k1 estimates reverse_kl, and divergence is {self.divergence}")
        if self.importance_sampling_correction and self.kl_estimator == "exact":
            raise ConfigError("importance_sampling_correction needs kl_estimator k1: exact has no sampled estimate")

    @property
    def uses_reward(self) -> bool:
        """Whether the policy learns from returns: the teacher alone grades it."""
        return False

    def check_policy(self, policy: Policy) -> None:
        """Raise ConfigError if there is no teacher, or one of other tokens; a teacher in a folder is not loaded."""
        from agentgym_py.policy.policy import require_reader

        teacher = require_teacher(self.teacher)
        if Path(teacher).is_dir():
            require_reader(Path(teacher), policy, f"teacher {teacher}")
        else:
            open_teacher(teacher, policy)

    def improve(
        self, policy: Policy, rollouts: Rollouts, *, seed: int, output_dir: Path, progress: Progress | None = None
    ) -> TrainReport:
        """Train `policy` in place until the budget of episodes is spent.

        Raises:
            ConfigError: there is no teacher of the same tokens, or replies are not sampled from the whole distribution.
            NothingToTrainOnError: no episode had a reply to learn from.
            TrainingError: the loss was not finite.
        """
        from agentgym_py.training.rl.batch import episode_stats
        from agentgym_py.training.rl.learner import Learner
        from agentgym_py.training.rl.loop import Loop

        if self.kl_estimator == "k1" and rollouts.temperature != self.temperature:
            raise ConfigError(
                f"kl_estimator k1 needs the sampling temperature: temperature of the trainer is {self.temperature:g}, "
                f"of the episodes {rollouts.temperature:g}"
            )
        teacher = LocalTeacher(self, policy)
        learner = Learner(
            policy, self, seed=seed, temperature=rollouts.temperature, entropy_gradient=False,
            remote_sampler=rollouts.is_remote,
        )  # fmt: skip
        with Loop(learner, rollouts, output_dir, progress, [seed, teacher.digest]) as loop:
            for _ in loop.iterations():
                episodes = [group[0] for group in rollouts.groups(self.tasks_per_iteration, 1)]
                records = encode_records(episodes, policy, loop.dropped, self.mask_truncated_completions)
                rollouts.release_cache()
                with teacher.on_device(learner.device):
                    learner.annotate(records)
                    if self.kl_estimator == "k1":
                        for record, logps_n in zip(records, learner.logprobs(records, teacher.module), strict=True):
                            record.advantages_n = logps_n - record.old_logps_n
                    for minibatch in learner.minibatches(records, "token", epochs=self.epochs):
                        for batch in learner.microbatches(minibatch):  # N agent tokens of B episodes
                            out = learner.forward(batch, teacher.at(batch) if self.kl_estimator == "exact" else None)
                            learner.backward(self.loss(out, batch), out, batch)
                        learner.step()
                stats = episode_stats(episodes, self.mask_truncated_completions)
                loop.finish_iteration(records, self.epochs, learner.logged | stats)
        return loop.report(any("loss" in row for row in loop.totals.history))

    def loss(self, out: Output, batch: TokenBatch) -> Loss:
        """Return the loss of a batch's N agent tokens."""
        from agentgym_py.training.rl.losses import Loss

        if self.kl_estimator == "exact":
            assert out.divergence_N is not None
            return Loss(out.divergence_N, {"divergence_loss": out.divergence_N})
        assert batch.advantages_N is not None
        loss_N = sampled_loss(out.logps_N, batch.old_logps_N, batch.advantages_N)
        if batch.importance_N is not None:
            loss_N = loss_N * batch.importance_N
        return Loss(loss_N, {"policy_loss": loss_N})


def encode_records(
    episodes: Sequence[Trajectory], policy: Policy, dropped: Counter[str], mask_cut: bool
) -> list[Record]:
    """Return the records of the episodes that have a token to learn from, and count the others."""
    from agentgym_py.policy.tokens import why_nothing_to_learn
    from agentgym_py.training.rl.batch import encode_record

    records = []
    for trajectory in episodes:
        if not trajectory.is_evidence:
            dropped["ended by an infrastructure error"] += 1
        elif (record := encode_record(trajectory, policy.chat, mask_cut=mask_cut)) is None:
            dropped[why_nothing_to_learn(trajectory)] += 1
        else:
            records.append(record)
    return records


# ---- the teacher -----------------------------------------------------------------------------------------------------


def require_teacher(name: str | None) -> str:
    """Return the name of the teacher; raise ConfigError if the setting names no policy that can be opened here."""
    if not name:
        raise ConfigError("distill needs a teacher: set trainer.teacher to a policy's folder or name")
    if "://" in name:
        raise ConfigError(f"teacher must be a local policy, because no server scores given tokens here; got {name}")
    return name


def open_teacher(name: str | None, policy: Policy) -> Policy:
    """Open the teacher in the student's number format, on the CPU.

    Raises:
        ConfigError: its tokens or its context are not the student's.
    """
    from agentgym_py.policy import Policy
    from agentgym_py.policy.loading import DTYPES

    name, dtype = require_teacher(name), str(policy.model.dtype).removeprefix("torch.")
    teacher = Policy.load(name, dtype=dtype if dtype in DTYPES else "float32", device="cpu")
    if teacher.tokenizer.get_vocab() != policy.tokenizer.get_vocab() or teacher.vocab_size != policy.vocab_size:
        raise ConfigError(f"teacher {name} has other tokens than the policy")
    if teacher.max_length < policy.max_length:
        raise ConfigError(f"teacher {name} reads {teacher.max_length} tokens at most, the policy {policy.max_length}")
    return teacher


class LocalTeacher:
    """A frozen policy that predicts at the student's tokens; it is in the CPU's memory while episodes are played."""

    def __init__(self, settings: Distill, policy: Policy) -> None:
        from agentgym_py.training.rl.actor_critic import ActorCritic

        opened = open_teacher(settings.teacher, policy)
        self.digest = opened.digest()
        self.module: Any = ActorCritic(
            opened.model.requires_grad_(False), False, settings.temperature, bf16=settings.bf16
        )
        self._divergence = partial(
            divergence, kind=settings.divergence, beta=settings.beta, temperature=settings.temperature
        )

    @contextmanager
    def on_device(self, device: Any) -> Iterator[None]:
        """Move the teacher to the device of the training for as long as that lasts."""
        from agentgym_py.policy.memory import release_memory

        self.module.to(device)
        try:
            yield
        finally:
            if device.type != "cpu":
                self.module.to("cpu")
                release_memory()

    def at(self, batch: TokenBatch) -> Teacher:
        """Return the teacher's predictions of a batch's tokens; their logits are computed with the student's."""
        import torch

        from agentgym_py.policy.logprobs import agent_logits
        from agentgym_py.training.rl.actor_critic import Teacher

        autocast = torch.autocast(batch.input_ids.device.type, torch.bfloat16, enabled=self.module.bf16)
        with torch.no_grad(), autocast:
            return Teacher(agent_logits(self.module.model, batch.input_ids, batch.labels), self._divergence)
