"""Process reward models: what each step of a trajectory is worth, read off a language model where its thought ends.

A step is judged at the last token of its thought; where a reply has no thought, at the reply's last token. There two
layers make one number a dimension of the backbone's last state and the number of the step, one of `STEPS` that are
told apart:

- `relevance`: 1 where the world could do the action and it was not done before on the same page, else 0. It needs
  nothing but the trajectory.
- `correctness`: the value of the state that the step led to (`agentgym_py.rewards.state_values`), from 0 to 1.
- `progress`: by how much that is more than the value of the state before it, from -1 to 1. Summed over an episode it
  comes to the value of the end less that of the start, however long the episode is.

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
from agentgym_py.files import missing_file_hint, write_atomic
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import merge_adapters, without_lm_head
from agentgym_py.policy.policy import require_reader
from agentgym_py.policy.tokens import Sample, encode_turns, pack_rows
from agentgym_py.policy.typing import Tensor
from agentgym_py.trajectory import Step, Trajectory

Floats = NDArray[np.float64]
DIMENSIONS = ("relevance", "correctness", "progress")
CORRECTNESS = DIMENSIONS.index("correctness")
STEPS = 64
"""Step numbers that the heads tell apart; later steps count as the last one."""
_PASS_TOKENS = 4096
_FILE, _HEADS, _BACKBONE = "process_reward.json", "heads.safetensors", "backbone"


def require_process_reward(folder: str | os.PathLike[str], policy: Policy | None = None) -> None:
    """Raise ConfigError if the folder of the setting `prm` holds no model; no weights are loaded.

    With a policy, also if the model cannot read what that writes.
    """
    if not (Path(folder) / _FILE).is_file():
        raise ConfigError(f"prm {folder} is no process reward model: {missing_file_hint(Path(folder), _FILE)}")
    if policy:
        require_reader(Path(folder) / _BACKBONE, policy, f"prm {folder}")


# ---- where a step is read -------------------------------------------------------------------------------------------


class Marked(NamedTuple):
    """A trajectory in tokens, and where its steps are read."""

    sample: Sample
    marks: list[int]
    """Position in `sample` at which each of the T steps is read."""


def marked_sample(trajectory: Trajectory, policy: Policy) -> Marked:
    """Encode a trajectory as `tokens.encode` does, and find the token at which each step is read."""
    ids, mask, marks = list[int](), list[int](), list[int]()
    every = encode_turns(trajectory.rules, trajectory.steps, policy.chat)
    for step, (context, reply, kept) in zip(trajectory.steps, every, strict=True):
        marks.append(len(ids) + len(context) + end_of_thought(step, reply, policy))
        ids += context + reply
        mask += [0] * len(context) + kept
    return Marked(Sample(ids, mask), marks)


def end_of_thought(step: Step, reply: Sequence[int], policy: Policy) -> int:
    """Position, among a reply's tokens, of the last one of its thought; of its last token if it has no thought."""
    found = step.reply.find(step.thought) if step.thought else -1
    if found < 0:
        return max(len(reply) - 1, 0)  # an empty reply is read at the token before it
    end, low, high = found + len(step.thought), 1, len(reply)
    while low < high:  # the fewest tokens that hold the thought
        middle = (low + high) // 2
        low, high = (low, middle) if len(policy.decode(reply[:middle])) >= end else (middle + 1, high)
    return low - 1


# ---- what it should say ---------------------------------------------------------------------------------------------


def step_labels(trajectory: Trajectory, values: Sequence[float | None]) -> Floats:
    """Labels of each step from the values of the T + 1 states, (T, 3); NaN if unknown."""
    known = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    seen, relevant = set[tuple[str, str, str | None]](), list[float]()
    for step in trajectory.steps:
        did = (step.observation, step.action, step.action_input)
        relevant.append(float(step.valid and did not in seen))
        seen.add(did)
    return np.stack([np.array(relevant, dtype=np.float64), known[1:], known[1:] - known[:-1]], -1)


class Labelled(NamedTuple):
    """A trajectory with the labels of its steps."""

    row: Marked
    labels: Floats
    """(T, 3), NaN if unknown."""
    states: list[str]
    """Identity of the state before each step."""
    replies: list[str]


def labelled(trajectory: Trajectory, values: Sequence[float | None], policy: Policy) -> Labelled:
    """Encode and label a trajectory; steps that must not be learnt from get no labels."""
    labels = step_labels(trajectory, values)
    labels[[not step.trained for step in trajectory.steps]] = math.nan
    return Labelled(
        marked_sample(trajectory, policy), labels, _states(trajectory), [step.reply for step in trajectory.steps]
    )


def _states(trajectory: Trajectory) -> list[str]:
    """Identify the state before each step by the environment and everything that was seen and said so far."""
    provenance, found = trajectory.provenance, list[str]()
    past = hashlib.sha256(repr((provenance.task_key, provenance.env_seed, trajectory.rules)).encode())
    for step in trajectory.steps:
        past.update(repr(step.observation).encode())
        found.append(past.hexdigest())
        past.update(repr(step.reply).encode())
    return found


def paired(batch: Sequence[Labelled]) -> list[tuple[int, int]]:
    """Pairs of a better and a worse step from one state, as positions among all steps of a batch."""
    by_state: dict[str, list[tuple[int, str, float]]] = defaultdict(list)
    at = 0
    for each in batch:
        for state, reply, label in zip(each.states, each.replies, each.labels[:, CORRECTNESS], strict=True):
            if not math.isnan(label):
                by_state[state].append((at, reply, float(label)))
            at += 1
    found = []
    for steps in by_state.values():
        for (one, said, first), (other, answered, second) in combinations(steps, 2):
            if said != answered and abs(first - second) > 1e-6:
                found.append((one, other) if first > second else (other, one))
    return found


# ---- the model ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ProcessRewardModel:
    """Score the steps of trajectories."""

    policy: Policy
    """The backbone with its tokenizer; its language-model head is not used."""
    heads: Any
    """A `torch.nn.Sequential` in float32 of Linear, ReLU, Linear, from the features of `states_at_marks` to 3 numbers.
    """
    weights: Mapping[str, float]
    """Weight of each dimension in the score."""

    def __post_init__(self) -> None:
        check_weights(self.weights)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, dtype: str = "float32", device: str | None = None
    ) -> ProcessRewardModel:
        """Load what a training wrote to its `output_dir`; `dtype` and `device` as for `Policy.load`.

        Raises:
            PolicyError: the folder holds no process reward model, or a broken one.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        path = Path(folder)
        try:
            about = json.loads((path / _FILE).read_text(encoding="utf-8"))
            if about["dimensions"] != list(DIMENSIONS):
                raise ValueError(f"its dimensions are {about['dimensions']}")
            policy = Policy.load(path / _BACKBONE, dtype=dtype, device=device)
            state = load_file(path / _HEADS)
            hidden, size = state["0.weight"].shape
            if size != policy.model.config.get_text_config().hidden_size + STEPS:
                raise ValueError("its heads were made for another backbone, or by an older version")
            heads = new_heads(size - STEPS, hidden)
            heads.load_state_dict(state)
            return cls(policy, heads.to(policy.model.device), about["weights"])
        except (OSError, ValueError, LookupError, TypeError, RuntimeError, SafetensorError) as error:
            raise PolicyError(f"the folder {str(path)!r} holds no process reward model that opens: {error}") from error

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write all of it, `process_reward.json` last. Under several processes, which all have it, rank 0 writes."""
        from safetensors.torch import save_file

        if not distributed.is_rank_zero():
            return
        path = Path(folder)
        self.policy.save(path / _BACKBONE)
        save_file({k: v.detach().cpu().contiguous() for k, v in self.heads.state_dict().items()}, path / _HEADS)
        about = {"dimensions": list(DIMENSIONS), "weights": dict(self.weights)}
        write_atomic(path / _FILE, json.dumps(about, indent=1) + "\n")

    def by_dimension(self, trajectories: Sequence[Trajectory], batch_size: int = 16) -> list[Floats]:
        """Predictions for each trajectory's T steps, (T, 3) each.

        Raises:
            PolicyError: a trajectory is longer than the model's context.
        """
        import torch

        rows = [marked_sample(each, self.policy) for each in trajectories]
        for trajectory, row in zip(trajectories, rows, strict=True):
            if len(row.sample.input_ids) > self.policy.max_length:
                raise PolicyError(
                    f"the trajectory {trajectory.id!r} has {len(row.sample.input_ids)} tokens; at most "
                    f"{self.policy.max_length} can be read"
                )
        self.policy.model.eval()
        found = [np.zeros((0, len(DIMENSIONS))) for _ in rows]
        order = sorted((i for i, row in enumerate(rows) if row.marks), key=lambda i: -len(rows[i].sample.input_ids))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            with torch.no_grad():
                said_MD = self.heads(states_at_marks(self.policy.model, [rows[i] for i in batch]))
            parts = said_MD.double().cpu().split([len(rows[i].marks) for i in batch])
            for i, part in zip(batch, parts, strict=True):
                found[i] = part.numpy()
        return found

    def weigh(self, said_TD: Floats) -> Floats:
        """Weighted sum of the dimensions, (T,)."""
        weighed: Floats = said_TD @ np.array([self.weights.get(name, 0.0) for name in DIMENSIONS])
        return weighed

    def score(self, trajectories: Sequence[Trajectory], batch_size: int = 16) -> list[Floats]:
        """One score per step, (T,) for each trajectory; errors as `by_dimension`."""
        return [self.weigh(said_TD) for said_TD in self.by_dimension(trajectories, batch_size)]


def measured(said: Sequence[Floats], labels: Sequence[Floats]) -> dict[str, float]:
    """Mean squared error and, if both vary, correlation of predictions and labels, both (T, 3) per trajectory."""
    found: dict[str, float] = {}
    said_MD, wanted_MD = np.concatenate(list(said)), np.concatenate(list(labels))
    for number, name in enumerate(DIMENSIONS[1:], 1):
        known_M = ~np.isnan(wanted_MD[:, number])
        one, other = said_MD[known_M, number], wanted_MD[known_M, number]
        if known_M.any():
            found[f"mse_{name}"] = float(((one - other) ** 2).mean())
            if one.std() > 0 and other.std() > 0:
                found[f"correlation_{name}"] = float(np.corrcoef(one, other)[0, 1])
    return found


def check_weights(weights: Mapping[str, float]) -> None:
    """Raise ConfigError for weights of unknown dimensions, that are not finite, or all 0."""
    for name in weights:
        if name not in DIMENSIONS:
            raise ConfigError(f"No dimension {name!r}." + did_you_mean(name, DIMENSIONS, "There are"))
    if not any(weights.values()) or not all(math.isfinite(weight) for weight in weights.values()):
        raise ConfigError(f"weights must be numbers by dimension, not all of them 0, got {dict(weights)}")


def new_heads(size: int, hidden: int) -> Any:
    """Linear-ReLU-Linear from a hidden state of `size` numbers and a step's number, with torch's initial weights."""
    from torch import nn

    return nn.Sequential(nn.Linear(size + STEPS, hidden), nn.ReLU(), nn.Linear(hidden, len(DIMENSIONS)))


def untrained(
    policy: Policy, labels: Sequence[Floats], hidden: int, weights: Mapping[str, float], seed: int
) -> ProcessRewardModel:
    """Copy the policy and give it new heads whose biases are the means of the labels, (T, 3) a trajectory."""
    import torch

    model = copy.deepcopy(policy.model)
    if hasattr(model, "peft_config"):  # called during a training of adapters
        model = merge_adapters(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        heads = new_heads(model.config.get_text_config().hidden_size, hidden)
    labels_MD = np.concatenate(list(labels))
    counts_D = np.maximum((~np.isnan(labels_MD)).sum(0), 1)
    with torch.no_grad():
        heads[-1].bias.copy_(torch.tensor(np.nansum(labels_MD, 0) / counts_D))
    copied = Policy(model, copy.deepcopy(policy.tokenizer), policy.name)
    wide = torch.promote_types(model.dtype, torch.float32)
    return ProcessRewardModel(copied, heads.to(model.device, wide), weights)


def states_at_marks(
    model: Any, rows: Sequence[Marked], bf16: bool = False, pass_tokens: float = _PASS_TOKENS
) -> Tensor:
    """Features of the rows' M marks, row after row, (M, H + STEPS): last hidden states and one-hot step numbers.

    In float32, or wider if the backbone computes so; with `bf16` the backbone runs under autocast. A row attends only
    to itself. The number is one-hot because near the step limit one step decides between success and failure, which a
    model learns badly from a single number or by counting turns. One forward pass takes at most `pass_tokens` tokens,
    padding included.
    """
    import torch
    from torch.nn.functional import one_hot

    from agentgym_py.policy.logprobs import at_least_float32, pad_samples

    found: dict[int, Tensor] = {}
    for part in pack_rows([len(row.sample.input_ids) for row in rows], pass_tokens):
        ids, _ = pad_samples([rows[i].sample for i in part], model.device)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
            states = without_lm_head(model)(input_ids=ids, use_cache=False).last_hidden_state  # (B, S, H)
        for b, i in enumerate(part):
            found[i] = states[b, torch.tensor(rows[i].marks, device=states.device)]
    states_MH = at_least_float32(torch.cat([found[i] for i in range(len(rows))]))
    number_M = torch.cat([torch.arange(len(row.marks), device=states_MH.device) for row in rows]).clamp(max=STEPS - 1)
    return torch.cat([states_MH, one_hot(number_M, STEPS).to(states_MH.dtype)], -1)
