"""Reward models: scores of whole trajectories, read from a language model at the trajectory's last token.

A reward model has one head per outcome that makes a trajectory good, and is an ensemble of separately trained members.
Its folder holds `reward_model.json` and one folder per member: an ordinary policy checkpoint, `heads.safetensors`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from agentgym_py import distributed
from agentgym_py.errors import ConfigError, PolicyError
from agentgym_py.files import load_json, missing_file_hint, require_ordinary, write_atomic
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import without_lm_head
from agentgym_py.policy.loading import Quantized
from agentgym_py.policy.policy import require_reader, stored_max_context
from agentgym_py.policy.tokens import PASS_TOKENS, RowSize, Sample, encode, pack_rows
from agentgym_py.policy.typing import Tensor
from agentgym_py.trajectory import Trajectory

Floats = NDArray[np.float64]
Aggregate = Literal["mean", "min", "mean-std"]
"""Score of an ensemble: the mean of its members, their minimum, or the mean less `std_weight` standard deviations."""
_FILE, _HEADS = "reward_model.json", "heads.safetensors"
OUTCOMES = ("reward", "success", "steps", "valid")
"""Outcomes that every trajectory has; an environment's reward parts are outcomes too."""


def outcome(trajectory: Trajectory, head: str) -> float:
    """Return an outcome of a trajectory; more is better.

    `reward` (the return), `success`, `steps` (fewer are better), `valid` (share of valid actions), or otherwise the sum
    of the steps' reward parts of that name.
    """
    steps = trajectory.steps
    if head == "reward":
        return trajectory.reward
    if head == "success":
        return float(trajectory.success)
    if head == "steps":
        return -float(len(steps))
    if head == "valid":
        return sum(step.valid for step in steps) / max(len(steps), 1)
    return math.fsum(step.reward_parts.get(head, 0.0) for step in steps)


class Member(NamedTuple):
    """One member of an ensemble."""

    policy: Policy
    """The backbone with its tokenizer; its language-model head is not used."""
    heads: Any
    """A `torch.nn.Linear` in float32, from the backbone's last hidden state to H numbers."""

    def predict(self, samples: Sequence[Sample], batch_size: int = 16) -> Floats:
        """Return the heads' outputs at the last tokens of N samples, (N, H).

        A forward pass has at most `batch_size` samples and 4,096 tokens, unless one sample has more.
        """
        import torch

        from agentgym_py.policy.logprobs import pad_samples

        self.policy.model.eval()
        outputs_NH = np.zeros((len(samples), self.heads.out_features))
        for rows in pack_rows([RowSize.of(sample) for sample in samples], PASS_TOKENS, batch_size):
            batch = [samples[i] for i in rows]
            lengths_B = torch.tensor([len(sample.input_ids) for sample in batch])
            ids, _ = pad_samples(batch, self.policy.model.device)
            with torch.no_grad():
                outputs_BH = outputs_at_last_token(self.policy.model, self.heads, ids, lengths_B)
            outputs_NH[rows] = outputs_BH.cpu().double().numpy()
        return outputs_NH


def outputs_at_last_token(model: Any, heads: Any, input_ids: Tensor, lengths_B: Tensor) -> Tensor:
    """Return the outputs of `heads` at the last tokens of B rows, padded at their right end, (B, H)."""
    import torch

    states = without_lm_head(model)(input_ids=input_ids, use_cache=False).last_hidden_state  # (B, S, D)
    rows = torch.arange(len(states), device=states.device)
    with torch.autocast(states.device.type, enabled=False):  # the heads compute in float32, as when they score
        values_BH: Tensor = heads(states[rows, lengths_B.to(states.device) - 1].to(heads.weight.dtype))
    return values_BH


def require_reward_model(folder: str | None, policy: Policy | None = None) -> None:
    """Raise ConfigError if the folder of the setting `reward_model` holds none, or one that cannot read the policy.

    No weights are loaded.
    """
    if folder is None:
        return
    if not (Path(folder) / _FILE).is_file():
        raise ConfigError(f"reward_model {folder} is not a reward model: {missing_file_hint(Path(folder), _FILE)}")
    if policy:
        for member in sorted(Path(folder).glob("member_*")):
            require_reader(member, policy, f"reward_model {folder}", Path(folder) / _FILE)


@dataclass(slots=True)
class RewardModel:
    """Score trajectories; an ensemble of one or more members."""

    members: Sequence[Member]
    heads: Mapping[str, float]
    """Weight of each head in the score, by the name of its outcome, in the order of the members' heads."""
    aggregate: Aggregate = "mean"
    std_weight: float = 1.0
    """Standard deviations of the members that `mean-std` subtracts."""

    def __post_init__(self) -> None:
        if self.aggregate not in get_args(Aggregate):
            raise ConfigError(f"aggregate must be one of {', '.join(get_args(Aggregate))}, got {self.aggregate!r}")

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, dtype: str = "float32", device: str | None = None,
        quantize: Quantized | None = None,
    ) -> RewardModel:  # fmt: skip
        """Load the model that a training wrote to its `output_dir`; the other arguments are those of `Policy.load`.

        Raises:
            PolicyError: the folder holds no reward model, or a damaged one.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file
        from torch import nn

        path = Path(folder)
        try:
            require_ordinary(path)
            about = load_json(path / _FILE)
            heads, rest = dict(about["heads"]), {"aggregate": about["aggregate"], "std_weight": about["std_weight"]}
            members = []
            for name in about["members"]:
                if Path(name).name != name or name in ("", ".."):
                    raise ValueError(f"the member {name!r} is not a folder within")
                policy = Policy.load(
                    path / name, dtype=dtype, device=device, quantize=quantize, max_context=stored_max_context(about)
                )
                weights = load_file(path / name / _HEADS)
                linear = nn.Linear(weights["weight"].shape[1], len(heads))
                linear.load_state_dict(weights)
                members.append(Member(policy, linear.to(policy.model.device)))
            return cls(members, heads, **rest)
        except (OSError, ValueError, LookupError, TypeError, RuntimeError, SafetensorError) as error:
            raise PolicyError(f"the folder {str(path)!r} holds no reward model that opens: {error}") from error

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model's folder, `reward_model.json` last."""
        save_reward_model(Path(folder), self.members, self.heads, self.aggregate, self.std_weight)

    def by_head(self, trajectories: Sequence[Trajectory], batch_size: int = 16) -> Floats:
        """Return the outputs of K members' H heads for N trajectories, (K, N, H).

        Raises:
            PolicyError: a trajectory has no turn, or is longer than the model's context.
        """
        chat, longest = self.members[0].policy.chat, self.members[0].policy.max_length
        samples = [encode(trajectory, chat).sequence(-1) for trajectory in trajectories]
        for trajectory, sample in zip(trajectories, samples, strict=True):
            if not 0 < (length := len(sample.input_ids)) <= longest:
                raise PolicyError(f"the trajectory {trajectory.id!r} has {length} tokens; it must have 1 to {longest}")
        return np.stack([member.predict(samples, batch_size) for member in self.members])

    def score(self, trajectories: Sequence[Trajectory], batch_size: int = 16) -> Floats:
        """Score N trajectories, (N,): the heads' weighted sum, aggregated over the members; errors as `by_head`."""
        scores_KN = self.by_head(trajectories, batch_size) @ np.array(list(self.heads.values()))
        return aggregate_scores(scores_KN, self.aggregate, self.std_weight)


def aggregate_scores(scores_KN: Floats, aggregate: Aggregate, std_weight: float) -> Floats:
    """Aggregate the scores of K members for N trajectories, (N,); the standard deviation is that of a population."""
    if aggregate == "mean":
        return np.asarray(scores_KN.mean(0))
    if aggregate == "min":
        return np.asarray(scores_KN.min(0))
    return np.asarray(scores_KN.mean(0) - std_weight * scores_KN.std(0))


def save_reward_model(
    folder: Path, members: Iterable[Member], heads: Mapping[str, float], aggregate: Aggregate, std_weight: float
) -> None:
    """Write a reward model's folder, member by member, so that one at a time is in memory.

    Of several processes, which all train the members, rank 0 writes.
    """
    from safetensors.torch import save_file

    names, max_context = list[str](), None
    for number, member in enumerate(members):
        names.append(f"member_{number}")
        max_context = member.policy.max_context
        if not distributed.is_rank_zero():
            continue
        member.policy.merged().save(folder / names[-1])
        weights = {name: w.detach().cpu().contiguous() for name, w in member.heads.state_dict().items()}
        save_file(weights, folder / names[-1] / _HEADS)
    about = {
        "heads": dict(heads), "aggregate": aggregate, "std_weight": std_weight, "members": names,
        "max_context": max_context,
    }  # fmt: skip
    if distributed.is_rank_zero():
        write_atomic(folder / _FILE, json.dumps(about, indent=1) + "\n")
