"""An on-policy trainer of your own: REINFORCE whose baseline is the mean return of the other attempts (RLOO).

    A_i = R_i - mean of the other returns of the group                   (Kool et al. 2019; arXiv:2402.14740)
    loss = - mean_i A_i mean_t log pi(token_it)    over the attempts of groups with different returns

Run it: `agentgym evolve --env shop --trainer examples/my_reinforce.py:Reinforce`. Each iteration takes one step, so no
ratio to an older policy is needed. Deviations from the papers: the mean over an episode's tokens in place of their sum,
and gradients of a norm above 1 are scaled to 1. It trains all weights in float32, in one process, and no episodes that
outgrew their context; `agentgym_py.training.rl` does all of that.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar

from agentgym_py.checks import require_at_least, require_positive
from agentgym_py.errors import ConfigError, NothingToTrainOnError, TrainingError
from agentgym_py.training import TrainReport
from agentgym_py.training.trainer import PlanChecks, TrainerInfo

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.policy import Policy
    from agentgym_py.policy.tokens import Sample
    from agentgym_py.training.progress import Progress
    from agentgym_py.trajectory import Trajectory


def leave_one_out(returns: Sequence[float]) -> list[float]:
    """Return each return less the mean of the others."""
    total, others = sum(returns), len(returns) - 1
    return [own - (total - own) / others for own in returns] if others else [0.0] * len(returns)


def reinforce_loss(logprobs_N: Tensor, advantage: float) -> Tensor:
    """Return the loss of an episode: the mean over its N agent tokens, so that long episodes do not count more."""
    return -advantage * logprobs_N.mean()


@dataclass(frozen=True, slots=True)
class Reinforce(PlanChecks):
    """REINFORCE with a leave-one-out baseline."""

    info: ClassVar = TrainerInfo(
        compares_attempts=True, resumes=False, several_sequences=False, warm_start="filtered_bc",
        evolve_defaults={"temperature": 1.0},
    )  # fmt: skip

    learning_rate: float = 7e-4
    """Of Adam, constant."""
    tasks: int = 16
    """Tasks per iteration."""
    group_size: int = 8
    """Attempts per task."""
    mask_truncated_completions: bool = True
    """Leave replies that were cut at the maximum length out of the loss."""

    def __post_init__(self) -> None:
        require_positive(self, "learning_rate")
        require_at_least(self, {"tasks": 1, "group_size": 2})

    def check_round(self, episodes: int) -> None:
        """Raise ConfigError if a round of this many episodes has no whole group."""
        if episodes < self.group_size:
            raise ConfigError(f"group_size {self.group_size} needs as many episodes, and there are {episodes}")

    def check_policy(self, policy: Policy) -> None:
        """Raise ConfigError for weights that are not float32: small steps would be lost."""
        if str(policy.model.dtype) != "torch.float32":
            raise ConfigError(f"reinforce trains float32 weights, and these are {policy.model.dtype}")

    def improve(
        self, policy: Policy, rollouts: Rollouts, *, seed: int, output_dir: Path, progress: Progress | None = None
    ) -> TrainReport:
        """Play groups, take a step, and repeat until the budget of episodes is spent."""
        import torch

        temperature = rollouts.temperature  # raises if replies are not sampled from the whole distribution
        weights = [weight for weight in policy.model.parameters() if weight.requires_grad]
        optimizer = torch.optim.Adam(weights, lr=self.learning_rate)
        began, dropped, history, tokens, agent_tokens = time.monotonic(), Counter[str](), list[dict[str, float]](), 0, 0
        while groups := rollouts.groups(self.tasks, self.group_size):  # attempts at the next tasks; none at the end
            rollouts.release_cache()  # memory for the training
            rows = [row for group in groups for row in self._rows(group, policy, dropped)]
            loss = self._step(policy, optimizer, rows, temperature)
            rollouts.sync()  # the next groups are played with the new weights
            episodes = [episode for group in groups for episode in group if episode.is_evidence]
            history.append({"step": len(history) + 1, "loss": loss} | averages(episodes))
            tokens += sum(len(sample.input_ids) for sample, _ in rows)
            agent_tokens += sum(sum(sample.mask) for sample, _ in rows)
            if progress:
                progress(len(rollouts.episodes), rollouts.budget)
        if not agent_tokens:
            raise NothingToTrainOnError(f"reinforce: nothing was left to learn from: {dict(dropped)}")
        return TrainReport(
            trajectories=len(rollouts.episodes) - sum(dropped.values()),
            dropped=dict(dropped),
            tokens=tokens,
            agent_tokens=agent_tokens,
            seconds=time.monotonic() - began,
            loss=[row["loss"] for row in history],
            history=history,
        )

    def _rows(self, group: Sequence[Trajectory], policy: Policy, dropped: Counter[str]) -> list[tuple[Sample, float]]:
        """Return the attempts at a task as token ids with their advantages; `dropped` counts those left out."""
        from agentgym_py.training.data import prepare

        evidence = [episode for episode in group if episode.is_evidence]  # an infrastructure failure says nothing
        dropped.update(["ended by an infrastructure error"] * (len(group) - len(evidence)))
        returns = [episode.reward for episode in evidence]  # by `--reward`, if one is set
        if len(set(returns)) < 2:
            dropped.update(["in a group with identical returns"] * len(evidence))
            return []
        advantages = dict(zip((episode.id for episode in evidence), leave_one_out(returns), strict=True))
        kept = prepare(policy, evidence, policy.max_length, mask_cut=self.mask_truncated_completions)
        dropped.update(kept.dropped)
        return [(s, advantages[t.id]) for s, t in zip(kept.samples, kept.trajectories, strict=True)]

    def _step(
        self, policy: Policy, optimizer: Optimizer, rows: Sequence[tuple[Sample, float]], temperature: float
    ) -> float:
        """Take one step of the optimizer; return the loss before it."""
        import torch

        from agentgym_py.policy.logprobs import agent_logits, agent_logprobs

        optimizer.zero_grad()
        total = 0.0
        for sample, advantage in rows:  # one row at a time: their gradients add up
            ids, labels = (
                torch.tensor([each], device=policy.model.device) for each in (sample.input_ids, sample.labels)
            )
            logprobs_N = agent_logprobs(agent_logits(policy.model, ids, labels), temperature)  # as they were sampled
            loss = reinforce_loss(logprobs_N, advantage) / len(rows)
            loss.backward()  # type: ignore[no-untyped-call]  # torch has it so
            total += float(loss.detach())
        norm = torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
        if not norm.isfinite():
            raise TrainingError("reinforce: the gradient is not finite")
        if rows:
            optimizer.step()
        return total


def averages(episodes: Sequence[Trajectory]) -> dict[str, float]:
    """Return success and return of an iteration, for the log; nothing without episodes."""
    if not episodes:
        return {}
    return {"success": fmean(e.success for e in episodes), "return": fmean(e.reward for e in episodes)}
