"""Estimators of the advantage of a step: what trainers credit it with.

An estimator is a function of a `CreditSample`, or a class whose objects are called with one. A class may have a method
`fit(episodes)`, which gets episodes of the policy first, as a critic does, and a method `prepare(samples)`, which gets
all samples before the first call. Register it in the group `agentgym.credit`,
or name it as FILE.py:NAME.
"""

from __future__ import annotations

import inspect
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from agentgym_py import registry
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.env import StopReason
from agentgym_py.errors import ConfigError
from agentgym_py.rewards.state_values import DISCOUNT, exact_value
from agentgym_py.trajectory import Trajectory

_WORDS = 512
"""Features of the words of an observation."""


class CreditSample(NamedTuple):
    """What an estimator may use to credit a step."""

    group: Sequence[Trajectory]
    """Episodes of one task by one policy, which end or begin independently of each other."""
    own: int
    """Which of them has the step."""
    step: int
    """Number of the step, from 0."""
    forks: Sequence[Trajectory]
    """Other episodes that continue from the state before the step, with the steps before it: tree rollouts."""

    @property
    def episode(self) -> Trajectory:
        """The episode that has the step."""
        return self.group[self.own]


class Estimator(Protocol):
    """A function or an object of a class of the group `agentgym.credit`."""

    def __call__(self, sample: CreditSample, /) -> float:
        """Return the advantage of a step."""
        ...


def return_to_go(episode: Trajectory, step: int, gamma: float = 1.0) -> float:
    """Return the sum of the rewards from a step on, discounted to that step."""
    return sum(reward.reward * gamma**k for k, reward in enumerate(episode.steps[step:]))


# ---- the whole episode ----------------------------------------------------------------------------------------------


def grpo(sample: CreditSample) -> float:
    """GRPO: (R - mean) / std of the group's returns, the same for all steps (arXiv:2402.03300)."""
    return _of_group(sample, "std")


def dr_grpo(sample: CreditSample) -> float:
    """Dr. GRPO: R - mean, whose expectation is (1 - 1/G) times that of RLOO (arXiv:2503.20783)."""
    return _of_group(sample, "none")


def rloo(sample: CreditSample) -> float:
    """RLOO: R minus the mean of the others (arXiv:2402.14740)."""
    return _of_group(sample, "leave_one_out")


def _of_group(sample: CreditSample, scale: str) -> float:
    import torch

    from agentgym_py.training.rl.advantages import group_advantages

    returns_G = torch.tensor([return_to_go(episode, 0) for episode in sample.group], dtype=torch.float64)
    return float(group_advantages(returns_G, scale)[sample.own])  # type: ignore[arg-type]


# ---- the turn -------------------------------------------------------------------------------------------------------


def turn_group(sample: CreditSample) -> float:
    """Per-turn group baseline: the return to go minus its mean over the group's episodes that reach this turn.

    It compares different states, because the episodes of a group part after their first turn. Let n of the others reach
    the turn, each with probability p, and let m be their expected return to go. Then E[A | s, a] = c (Q(s, a) - m) with
    c = E[n / (n + 1)] = 1 - (1 - (1 - p)^G) / (G p), and not Q(s, a) - V(s).
    """
    alive = [return_to_go(episode, sample.step) for episode in sample.group if len(episode.steps) > sample.step]
    return return_to_go(sample.episode, sample.step) - sum(alive) / len(alive)


@dataclass(frozen=True)
class GiGPO:
    """GiGPO: the episode's advantage plus that among all steps of the group with the same observation.

    A = R - mean + weight (R_t - mean of R_t over these steps), with discounted returns to go R_t (arXiv:2505.10978,
    without its division by standard deviations). Observations stand for states, as there.
    """

    weight: float = 1.0
    gamma: float = 0.95

    def __call__(self, sample: CreditSample) -> float:
        """Return the advantage of a step."""
        state = sample.episode.steps[sample.step].observation
        anchored = [
            return_to_go(episode, number, self.gamma)
            for episode in sample.group
            for number, step in enumerate(episode.steps)
            if step.observation == state
        ]
        own = return_to_go(sample.episode, sample.step, self.gamma)
        return dr_grpo(sample) + self.weight * (own - sum(anchored) / len(anchored))


def tree(sample: CreditSample) -> float:
    """Tree rollouts: the return to go minus its mean over other continuations of the same state."""
    own = return_to_go(sample.episode, sample.step)
    return own - sum(return_to_go(fork, sample.step) for fork in sample.forks) / len(sample.forks)


# ---- critics and process rewards -----------------------------------------------------------------------------------


@dataclass
class GAE:
    """Generalized advantage estimation with a linear critic of the observation's words and the turn.

    The critic is a ridge regression of returns to go on the policy's episodes (arXiv:1506.02438, eq. 16). PPO's is a
    head of the policy, which is another function of the same input.
    """

    gamma: float = 1.0
    lam: float = 0.95
    ridge: float = 1.0
    _weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(_WORDS + 2), init=False, repr=False)

    def fit(self, episodes: Sequence[Trajectory]) -> None:
        """Fit the critic to episodes of the policy."""
        rows = [(features(step.observation, n), return_to_go(t, n)) for t in episodes for n, step in enumerate(t.steps)]
        inputs, targets = np.stack([row for row, _ in rows]), np.array([target for _, target in rows])
        gram = inputs.T @ inputs + self.ridge * np.eye(inputs.shape[1])
        self._weights = np.linalg.solve(gram, inputs.T @ targets)

    def value(self, observation: str, turn: int) -> float:
        """Return the critic's value of a state."""
        return float(features(observation, turn) @ self._weights)

    def __call__(self, sample: CreditSample) -> float:
        """Return the advantage of a step."""
        import torch

        from agentgym_py.training.rl.advantages import gae

        episode, first = sample.episode, sample.step
        rewards = [step.reward for step in episode.steps[first:]]
        values = [self.value(step.observation, first + n) for n, step in enumerate(episode.steps[first:])]
        truncated = episode.stop_reason is StopReason.TRUNCATED
        bootstrap = self.value(episode.final_observation, len(episode.steps)) if truncated else 0.0
        rewards_T, values_T = torch.tensor(rewards, dtype=torch.float64), torch.tensor(values, dtype=torch.float64)
        found = gae(rewards_T, values_T, bootstrap, self.gamma, self.lam)
        return float(found.advantages_T[0])


@lru_cache(maxsize=100_000)
def features(observation: str, turn: int) -> NDArray[np.float64]:
    """Return the features of a state for a linear critic: hashed words, the turn, and 1."""
    row = np.zeros(_WORDS + 2)
    for word in set(re.findall(r"\w+", observation.lower())):
        row[zlib.crc32(word.encode()) % _WORDS] = 1.0
    row[_WORDS:] = turn / 10, 1.0
    return row


@dataclass
class Progress:
    """The progress that R3's process reward model learns to predict: the gain in the exact expert's discounted value.

    It does not depend on the policy, and so differs from its advantage where the policy would not do as the expert.
    """

    discount: float = DISCOUNT
    _envs: EnvPool = field(default_factory=EnvPool, init=False, repr=False)
    _values: dict[tuple[object, ...], float] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, sample: CreditSample) -> float:
        """Return the progress of a step."""
        return self._value(sample.episode, sample.step + 1) - self._value(sample.episode, sample.step)

    def close(self) -> None:
        """Close the environments."""
        self._envs.close()

    def _value(self, episode: Trajectory, steps: int) -> float:
        """Return the value of the state after the first steps, rebuilt by replaying them."""
        replies = tuple(step.reply for step in episode.steps[:steps])
        key = (*episode.provenance.task_key, episode.provenance.env_seed, replies)
        if key not in self._values:
            with self._envs.lent(episode.replay_spec()) as env:
                episode.restart(env)
                for reply in replies:
                    env.step(reply)
                self._values[key] = exact_value(env, self.discount)
        return self._values[key]


@dataclass
class R3(GAE):
    """R3 with a perfect process reward model: GAE plus beta times the step's progress (`prm_credit` step)."""

    beta: float = 0.5
    _progress: Progress = field(default_factory=Progress, init=False, repr=False)

    def __call__(self, sample: CreditSample) -> float:
        """Return the advantage of a step."""
        return GAE.__call__(self, sample) + self.beta * self._progress(sample)

    def close(self) -> None:
        """Close the environments."""
        self._progress.close()


def load_estimators(names: Sequence[str] = ()) -> dict[str, Estimator]:
    """Return estimators by installed names or sources, all installed ones by default; of a class an object.

    Raises:
        UnknownNameError: there is no such estimator.
        ConfigError: two have one name.
    """
    found: dict[str, Estimator] = {}
    for name in names or registry.names("agentgym.credit"):
        target: Any = registry.load("agentgym.credit", name)
        label = target.__name__ if registry.is_source(name) else name
        if label in found:
            raise ConfigError(f"estimators has {label} twice")
        found[label] = cast(Estimator, target() if inspect.isclass(target) else target)
    return found
