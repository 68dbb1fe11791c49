"""Whether a checkpoint holds what a training changed, measured by log-probabilities of the training's own sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_py import distributed
from agentgym_py.errors import TrainingError
from agentgym_py.policy.memory import release_memory
from agentgym_py.policy.tokens import Sample, encode
from agentgym_py.training.trainer import TrainReport
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.collection.rollouts import Rollouts
    from agentgym_py.policy import Policy

_MOST = 8
"""Sequences that are measured at most; an on-policy training's first iteration has at least as many."""
_TRAJECTORIES = 32
"""Trajectories per measured sequence: the measurement takes about 1 % of the time of three epochs."""
_LONGEST = 4096
"""Tokens of a sequence that are measured."""
_LOST = 0.1
"""Largest share of the change that the checkpoint may lack."""
_ROUNDING = 1 / 8
"""Difference that is no error, as a share of the number format's precision."""


class LogprobCheck:
    """The mean log-probability of agent tokens in a few of a training's sequences; made before the training.

    Several processes measure in rank 0 alone.
    """

    def __init__(self, policy: Policy, trajectories: Sequence[Trajectory]) -> None:
        self._samples = _samples(policy, trajectories) if distributed.is_rank_zero() else []
        self._temperature = 1.0
        self._before = self._measure(policy) if self._samples else 0.0

    @classmethod
    def of_rollouts(cls, rollouts: Rollouts) -> LogprobCheck:
        """Make the check of an on-policy training, after it.

        Its first episodes were sampled by the policy as it was before, whose log-probabilities they hold; so all of the
        check's are at the sampling temperature. Nothing is checked if they are not those of the whole distribution.
        """
        check, params = cls(rollouts.policy, []), rollouts.params
        if distributed.is_rank_zero() and not (params.greedy or params.top_p < 1 or params.top_k):
            check._temperature = params.temperature
            sampled = _sampled(rollouts.policy, rollouts.episodes)
            check._samples = [sample for sample, _ in sampled]
            logprobs = [logprob for _, logprobs in sampled for logprob in logprobs]
            check._before = sum(logprobs) / len(logprobs) if logprobs else 0.0
        return check

    def require_saved(
        self, report: TrainReport, policy: Policy, folder: Path, load: Callable[[str], Policy]
    ) -> TrainReport:
        """Compare the trained policy with its checkpoint in `folder`; return the report with what was measured.

        If the GPU has no room for a second model, the checkpoint is not loaded, and the report says so.

        Raises:
            TrainingError: the checkpoint gives the sequences other log-probabilities than the trained policy.
        """
        if not self._samples:
            return report
        trained = self._measure(policy)
        report = replace(report, metrics={**report.metrics, "logprob_before": self._before, "logprob_trained": trained})
        if not _has_room(policy):
            return report.with_note(f"{folder} was not compared with the trained model: the GPU has no room for both")
        saved = self._measure(load(str(folder)))
        if not abs(saved - trained) <= _LOST * abs(trained - self._before) + _rounding(policy):
            raise TrainingError(
                f"{folder} does not hold what was trained: the mean log-probability of the training's sequences was "
                f"{self._before:.4g} before, {trained:.4g} after the training, and is {saved:.4g} in the checkpoint"
            )
        return replace(report, metrics={**report.metrics, "logprob_saved": saved})

    def _measure(self, policy: Policy) -> float:
        import torch

        from agentgym_py.policy.logprobs import agent_logits, agent_logprobs, pad_samples

        tokens, total, model = sum(sum(sample.mask[1:]) for sample in self._samples), 0.0, policy.model.eval()
        with torch.no_grad():
            for sample in self._samples:
                agent = agent_logits(model, *pad_samples([sample], model.device))
                total += agent_logprobs(agent, self._temperature).sum().item()
        return total / tokens


def _samples(policy: Policy, trajectories: Sequence[Trajectory]) -> list[Sample]:
    """Return the beginnings of a few sequences, evenly spaced over the trajectories that can be trained on."""
    from agentgym_py.training.data import prepare

    number = min(_MOST, 1 + len(trajectories) // _TRAJECTORIES)
    chosen = [trajectories[i * len(trajectories) // number] for i in range(min(number, len(trajectories)))]
    usable = (
        prepare(policy, chosen, policy.max_length).samples or prepare(policy, trajectories, policy.max_length).samples
    )
    return [sample for sample in map(_beginning, usable[:number]) if any(sample.mask[1:])]


def _sampled(policy: Policy, trajectories: Sequence[Trajectory]) -> list[tuple[Sample, list[float]]]:
    """Return the beginnings of the first episodes, with the log-probabilities of their tokens as sampled."""
    from agentgym_py.training.rl.batch import encode_record

    pairs = list[tuple[Sample, list[float]]]()
    for trajectory in trajectories[:_MOST]:
        sampled = all(step.tokens is not None for step in trajectory.steps if step.trained)
        record = encode_record(trajectory, policy.chat) if sampled and trajectory.is_evidence else None
        if record is not None:
            sample = _beginning(encode(trajectory, policy.chat))
            if tokens := sum(sample.mask[1:]):
                pairs.append((sample, record.old_logps_n[:tokens].tolist()))
    return pairs


def _beginning(sample: Sample) -> Sample:
    """Return as much of a sample's first sequence as is measured."""
    sequence = sample.sequence(0)
    return Sample(sequence.input_ids[:_LONGEST], sequence.mask[:_LONGEST])


def _rounding(policy: Policy) -> float:
    import torch

    return max(1e-5, _ROUNDING * torch.finfo(policy.model.dtype).eps)


def _has_room(policy: Policy) -> bool:
    """Whether a GPU has room for a second copy of the model."""
    import torch

    if policy.model.device.type != "cuda":
        return True
    release_memory()
    size: int = sum(parameter.numel() * parameter.element_size() for parameter in policy.model.parameters())
    free: int = torch.cuda.mem_get_info(policy.model.device)[0]
    return bool(free > 1.2 * size)
