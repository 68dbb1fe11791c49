"""Process reward models: score each step of a trajectory with a language model, at the end of the step's thought.

A step is scored at the last token of its thought, or of its reply if there is no thought. Two layers map the backbone's
last hidden state there and the step's number (one-hot, of `STEPS`) to one number per dimension:

- `relevance`: 1 if the action was valid and is new for this observation, else 0. It needs only the trajectory.
- `correctness`: the value of the state that the step led to (`agentgym_py.rewards.state_values`), from 0 to 1.
- `progress`: the gain in value over the state before, from -1 to 1. Summed over an episode it is the value of the end
  less that of the start, whatever the episode's length.

A model's folder holds `process_reward.json`, `heads.safetensors` and `backbone/`, an ordinary policy checkpoint.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym_py import distributed
from agentgym_py.errors import ConfigError, PolicyError, did_you_mean
from agentgym_py.files import load_json, missing_file_hint, require_ordinary, write_atomic
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import cast_weights, has_adapters, is_quantized, merged_copy, without_lm_head
from agentgym_py.policy.loading import Quantized
from agentgym_py.policy.policy import require_reader, stored_max_context
from agentgym_py.policy.tokens import PASS_TOKENS, RowSize, Sample, encode, encode_turns, pack_rows
from agentgym_py.policy.typing import Tensor
from agentgym_py.trajectory import Step, Trajectory

Floats = NDArray[np.float64]
DIMENSIONS = ("relevance", "correctness", "progress")
CORRECTNESS = DIMENSIONS.index("correctness")
STEPS = 64
"""Step numbers that the heads tell apart; later steps count as the last one."""
_FILE, _HEADS, _BACKBONE = "process_reward.json", "heads.safetensors", "backbone"


def require_process_reward(folder: str | os.PathLike[str], policy: Policy | None = None) -> None:
    """Raise ConfigError if the folder of the setting `prm` holds no model, or one that cannot read the policy's tokens.

    No weights are loaded.
    """
    if not (Path(folder) / _FILE).is_file():
        raise ConfigError(f"prm {folder} is not a process reward model: {missing_file_hint(Path(folder), _FILE)}")
    if policy:
        require_reader(Path(folder) / _BACKBONE, policy, f"prm {folder}", Path(folder) / _FILE)


# ---- where a step is scored -----------------------------------------------------------------------------------------


class StepSample(NamedTuple):
    """A trajectory in tokens, and where its steps are scored."""

    sample: Sample
    positions: list[int]
    """Position in `sample` at which each of the T steps is scored."""


def encode_with_positions(trajectory: Trajectory, policy: Policy) -> StepSample:
    """Encode a trajectory as `tokens.encode` does, and find the token at which each step is scored."""
    positions, length, steps = list[int](), 0, iter(trajectory.steps)
    for turn in encode_turns(trajectory.rules, trajectory.steps, policy.chat):
        if not turn.is_summary:
            positions.append(length + len(turn.context) + end_of_thought(next(steps), turn.reply, policy))
        length += len(turn.context) + len(turn.reply)
    return StepSample(encode(trajectory, policy.chat), positions)


def end_of_thought(step: Step, reply: Sequence[int], policy: Policy) -> int:
    """Return the position, among a reply's tokens, of its thought's last one; of the reply's if it has no thought."""
    text, thought = policy.decode(reply), step.thought
    if (start := text.find(thought)) < 0:  # it has two parts: a block of a thinking model, and a line `Thought:`
        thought = thought.rpartition("\n")[2]
        start = text.rfind(thought)
    if not thought or start < 0:
        return max(len(reply) - 1, 0)  # an empty reply is scored at the token before it
    end, low, high = start + len(thought), 1, len(reply)
    while low < high:  # the fewest tokens that hold the thought
        middle = (low + high) // 2
        low, high = (low, middle) if len(policy.decode(reply[:middle])) >= end else (middle + 1, high)
    return low - 1


# ---- labels ---------------------------------------------------------------------------------------------------------


def label_steps(trajectory: Trajectory, values: Sequence[float | None]) -> Floats:
    """Label each step by the values of the T + 1 states, (T, 3); NaN if unknown."""
    values_T1 = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    earlier, relevant = set[tuple[str, str, str | None]](), list[float]()
    for step in trajectory.steps:
        choice = (step.observation, step.action, step.action_input)
        relevant.append(float(step.valid and choice not in earlier))
        earlier.add(choice)
    return np.stack([np.array(relevant, dtype=np.float64), values_T1[1:], values_T1[1:] - values_T1[:-1]], -1)


class LabelledTrajectory(NamedTuple):
    """A trajectory with the labels of its steps."""

    encoded: StepSample
    labels: Floats
    """(T, 3), NaN if unknown."""
    state_ids: list[str]
    """Identity of the state before each step."""
    replies: list[str]


def label_trajectory(trajectory: Trajectory, values: Sequence[float | None], policy: Policy) -> LabelledTrajectory:
    """Encode and label a trajectory; steps that are not trained on get no labels."""
    labels = label_steps(trajectory, values)
    labels[[not step.trained for step in trajectory.steps]] = math.nan
    replies = [step.reply for step in trajectory.steps]
    return LabelledTrajectory(encode_with_positions(trajectory, policy), labels, _state_ids(trajectory), replies)


def _state_ids(trajectory: Trajectory) -> list[str]:
    """Identify the state before each step by the environment and all observations and replies so far."""
    provenance, ids = trajectory.provenance, list[str]()
    past = hashlib.sha256(repr((provenance.task_key, provenance.env_seed, trajectory.rules)).encode())
    for step in trajectory.steps:
        past.update(repr(step.observation).encode())
        ids.append(past.hexdigest())
        past.update(repr(step.reply).encode())
    return ids


def state_pairs(batch: Sequence[LabelledTrajectory]) -> list[tuple[int, int]]:
    """Pair a better and a worse step from one state, as positions among all steps of a batch."""
    by_state: dict[str, list[tuple[int, str, float]]] = defaultdict(list)
    at = 0
    for row in batch:
        for state, reply, label in zip(row.state_ids, row.replies, row.labels[:, CORRECTNESS], strict=True):
            if not math.isnan(label):
                by_state[state].append((at, reply, float(label)))
            at += 1
    pairs = []
    for steps in by_state.values():
        for (i, reply_i, label_i), (j, reply_j, label_j) in combinations(steps, 2):
            if reply_i != reply_j and abs(label_i - label_j) > 1e-6:
                pairs.append((i, j) if label_i > label_j else (j, i))
    return pairs


# ---- the model ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ProcessRewardModel:
    """Score the steps of trajectories."""

    policy: Policy
    """The backbone with its tokenizer; its language-model head is not used."""
    heads: Any
    """A `torch.nn.Sequential` in float32 of Linear, ReLU, Linear, from the features of `states_at_steps` to 3 numbers.
    """
    weights: Mapping[str, float]
    """Weight of each dimension in the score."""

    def __post_init__(self) -> None:
        require_weights(self.weights)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, dtype: str = "float32", device: str | None = None,
        quantize: Quantized | None = None,
    ) -> ProcessRewardModel:  # fmt: skip
        """Load the model that a training wrote to its `output_dir`; the other arguments are those of `Policy.load`.

        Raises:
            PolicyError: the folder holds no process reward model, or a damaged one.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        path = Path(folder)
        try:
            require_ordinary(path)
            about = load_json(path / _FILE)
            if about["dimensions"] != list(DIMENSIONS):
                raise ValueError(f"its dimensions are {about['dimensions']}")
            policy = Policy.load(
                path / _BACKBONE, dtype=dtype, device=device, quantize=quantize, max_context=stored_max_context(about)
            )
            state = load_file(path / _HEADS)
            hidden, size = state["0.weight"].shape
            if size != policy.model.config.get_text_config().hidden_size + STEPS:
                raise ValueError("its heads were made for another backbone, or by an older version")
            heads = new_heads(size - STEPS, hidden)
            heads.load_state_dict(state)
            return cls(policy, heads.to(policy.model.device), about["weights"])
        except (OSError, ValueError, LookupError, TypeError, RuntimeError, SafetensorError) as error:
            raise PolicyError(f"the folder {str(path)!r} holds no process reward model that opens: {error}") from error

    def save(self, folder: str | os.PathLike[str], *, merged: bool = True) -> None:
        """Write the model's folder, `process_reward.json` last; of several processes, rank 0 writes.

        Adapters of the backbone are merged, or stay apart to be trained further.
        """
        from safetensors.torch import save_file

        if not distributed.is_rank_zero():
            return
        path = Path(folder)
        (self.policy.merged() if merged else self.policy).save(path / _BACKBONE)
        save_file({k: v.detach().cpu().contiguous() for k, v in self.heads.state_dict().items()}, path / _HEADS)
        about = {
            "dimensions": list(DIMENSIONS), "weights": dict(self.weights), "max_context": self.policy.max_context,
        }  # fmt: skip
        write_atomic(path / _FILE, json.dumps(about, indent=1) + "\n")

    def by_dimension(self, trajectories: Sequence[Trajectory], batch_size: int = 16) -> list[Floats]:
        """Predict the dimensions of each trajectory's T steps, (T, 3) each.

        Raises:
            PolicyError: a trajectory is longer than the model's context.
        """
        import torch

        rows = [encode_with_positions(trajectory, self.policy) for trajectory in trajectories]
        for trajectory, row in zip(trajectories, rows, strict=True):
            if row.sample.longest > self.policy.max_length:
                raise PolicyError(
                    f"the trajectory {trajectory.id!r} has {row.sample.longest} tokens; at most "
                    f"{self.policy.max_length} can be read"
                )
        self.policy.model.eval()
        predictions = [np.zeros((0, len(DIMENSIONS))) for _ in rows]
        order = sorted((i for i, row in enumerate(rows) if row.positions), key=lambda i: -len(rows[i].sample.input_ids))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            with torch.no_grad():
                predicted_MD = self.heads(states_at_steps(self.policy.model, [rows[i] for i in batch]))
            parts = predicted_MD.cpu().double().split([len(rows[i].positions) for i in batch])
            for i, part in zip(batch, parts, strict=True):
                predictions[i] = part.numpy()
        return predictions

    def combine(self, predicted_TD: Floats) -> Floats:
        """Return the weighted sum of the dimensions, (T,)."""
        scores_T: Floats = predicted_TD @ np.array([self.weights.get(name, 0.0) for name in DIMENSIONS])
        return scores_T

    def score(self, trajectories: Sequence[Trajectory], batch_size: int = 16) -> list[Floats]:
        """Score each step of each trajectory, (T,) each; errors as `by_dimension`."""
        return [self.combine(predicted_TD) for predicted_TD in self.by_dimension(trajectories, batch_size)]


def label_error(predictions: Sequence[Floats], labels: Sequence[Floats]) -> dict[str, float]:
    """Measure the mean squared error and, if both vary, the correlation of predictions and labels, (T, 3) each."""
    errors: dict[str, float] = {}
    predicted_MD, target_MD = np.concatenate(list(predictions)), np.concatenate(list(labels))
    for number, name in enumerate(DIMENSIONS[1:], 1):
        labelled_M = ~np.isnan(target_MD[:, number])
        predicted, target = predicted_MD[labelled_M, number], target_MD[labelled_M, number]
        if labelled_M.any():
            errors[f"mse_{name}"] = float(((predicted - target) ** 2).mean())
            if predicted.std() > 0 and target.std() > 0:
                errors[f"correlation_{name}"] = float(np.corrcoef(predicted, target)[0, 1])
    return errors


def require_weights(weights: Mapping[str, float]) -> None:
    """Raise ConfigError for weights of unknown dimensions, that are not finite, or all 0."""
    for name in weights:
        if name not in DIMENSIONS:
            raise ConfigError(f"No dimension {name!r}." + did_you_mean(name, DIMENSIONS, "There are"))
    if not any(weights.values()) or not all(math.isfinite(weight) for weight in weights.values()):
        raise ConfigError(f"weights must be numbers by dimension, not all of them 0, got {dict(weights)}")


def new_heads(size: int, hidden: int) -> Any:
    """Make Linear, ReLU, Linear from a hidden state and a one-hot step number, with torch's initial weights."""
    from torch import nn

    return nn.Sequential(nn.Linear(size + STEPS, hidden), nn.ReLU(), nn.Linear(hidden, len(DIMENSIONS)))


def init_process_reward_model(
    policy: Policy, labels: Sequence[Floats], hidden: int, weights: Mapping[str, float], seed: int
) -> ProcessRewardModel:
    """Copy the policy and give it new heads whose biases are the means of the labels, (T, 3) a trajectory.

    Adapters are merged, except into quantized weights, on which they stay and are trained further.
    """
    import torch

    model = policy.model
    merges = has_adapters(model) and not is_quantized(model)
    model = cast_weights(merged_copy(model), model.dtype) if merges else copy.deepcopy(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        heads = new_heads(model.config.get_text_config().hidden_size, hidden)
    labels_MD = np.concatenate(list(labels))
    counts_D = np.maximum((~np.isnan(labels_MD)).sum(0), 1)
    with torch.no_grad():
        heads[-1].bias.copy_(torch.tensor(np.nansum(labels_MD, 0) / counts_D))
    copied = Policy(model, copy.deepcopy(policy.tokenizer), policy.name, max_context=policy.max_context)
    wide = torch.promote_types(model.dtype, torch.float32)
    return ProcessRewardModel(copied, heads.to(model.device, wide), weights)


def states_at_steps(
    model: Any, rows: Sequence[StepSample], bf16: bool = False, pass_tokens: float = PASS_TOKENS
) -> Tensor:
    """Compute the features of the rows' M steps, (M, H + STEPS): last hidden states and one-hot step numbers.

    In float32, or wider if the backbone computes so; with `bf16` the backbone runs under autocast. The number is
    one-hot because near the step limit one step decides between success and failure, which a model learns badly from a
    single number or by counting turns. One forward pass takes at most `pass_tokens` tokens, padding included.
    """
    import torch
    from torch.nn.functional import one_hot

    from agentgym_py.policy.logprobs import at_least_float32, pad_samples

    states: dict[int, Tensor] = {}
    for part in pack_rows([RowSize.of(row.sample) for row in rows], pass_tokens):
        ids, _ = pad_samples([rows[i].sample for i in part], model.device)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
            hidden_RSH = without_lm_head(model)(input_ids=ids, use_cache=False).last_hidden_state
        sequences = iter(hidden_RSH)
        for i in part:
            places = rows[i].sample.sequences
            hidden_SH = torch.cat([next(sequences)[: place.stop - place.start] for place in places])
            states[i] = hidden_SH[torch.tensor(rows[i].positions, device=hidden_SH.device)]
    states_MH = at_least_float32(torch.cat([states[i] for i in range(len(rows))]))
    numbers = [torch.arange(len(row.positions), device=states_MH.device) for row in rows]
    number_M = torch.cat(numbers).clamp(max=STEPS - 1)
    return torch.cat([states_MH, one_hot(number_M, STEPS).to(states_MH.dtype)], -1)
