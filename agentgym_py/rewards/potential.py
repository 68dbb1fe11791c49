"""Potential-based shaping: a reward for progress that does not change which policy is best (Ng et al., ICML 1999).

    r'_t = r_t + weight * (gamma * Phi(s_{t+1}) - Phi(s_t))

with the world's reward r and a potential Phi of states. The shaping of an episode sums, discounted by gamma, to
-Phi(s_0): every policy loses the same. The potential of a final state counts as 0, however the episode ended, because
another value would change the best policy (Grzes, AAMAS 2017).

By default Phi(s) is the exact expert's value of a state: `discount` to the power of the number of steps to success, or
0 if it cannot succeed any more. States are rebuilt by replaying the episode.

`gamma` must be the trainer's discount. A trainer that compares whole returns of one start, such as GRPO, sees no
difference at gamma 1; a trainer with a critic learns from the rewards of single steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentgym_py import registry
from agentgym_py.errors import ConfigError
from agentgym_py.rewards.state_values import exact_values
from agentgym_py.trajectory import Trajectory


def shaping_rewards(potentials: Sequence[float], gamma: float) -> list[float]:
    """Return gamma * Phi(s') - Phi(s) for each of T steps, from the potentials of T + 1 states; that of the last is 0.

    Raises:
        ValueError: there is no state.
    """
    if not potentials:
        raise ValueError("an episode has at least one state")
    before = list(potentials[:-1])
    after = [*before[1:], 0.0]
    return [gamma * later - earlier for earlier, later in zip(before, after, strict=True)]


@dataclass(frozen=True, slots=True)
class Potential:
    """The world's rewards, each with the gain in potential."""

    phi: str = "expert"
    """Potential of states: the exact `expert`'s value, or `FILE.py:name`, a function from a trajectory of T steps to
    the potentials of its T + 1 states."""
    gamma: float = 1.0
    """Discount of the trainer."""
    discount: float = 0.9
    """For `expert`, the factor of a state's value for each step that success is away."""
    shaping_weight: float = 1.0
    """Weight of the shaping."""

    def __post_init__(self) -> None:
        for name in ("gamma", "discount"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be above 0 and at most 1, got {getattr(self, name)}")
        if self.phi != "expert":
            self._load()

    def __call__(self, trajectory: Trajectory) -> dict[str, list[float]]:
        """Return the world's rewards and the shaping, step by step.

        Raises:
            ValueError: the function gives another number of potentials.
            SnapshotError, ExpertError: as `exact_values`.
        """
        potentials = exact_values(trajectory, self.discount) if self.phi == "expert" else self._load()(trajectory)
        if len(potentials) != len(trajectory.steps) + 1:
            raise ValueError(f"{self.phi} gave {len(potentials)} potentials for {len(trajectory.steps) + 1} states")
        gains = shaping_rewards(potentials, self.gamma)
        return {
            "return": [step.reward for step in trajectory.steps],
            "shaping": [self.shaping_weight * gain for gain in gains],
        }

    def _load(self) -> Callable[[Trajectory], Sequence[float]]:
        function: Callable[[Trajectory], Sequence[float]] = registry.load("agentgym.rewards", self.phi)
        return function
