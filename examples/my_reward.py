"""A reward of your own: a success, less a price for each step and each invalid action.

Train with it: `agentgym evolve --env shop --trainer grpo --reward examples/my_reward.py:score`.
"""

from __future__ import annotations

from agentgym_py.trajectory import Trajectory


def score(trajectory: Trajectory, *, step_price: float = 0.02, invalid_price: float = 0.1) -> dict[str, float]:
    """Return the parts of an episode's reward; their sum is what the trainer learns from."""
    invalid = sum(not step.valid for step in trajectory.steps)
    return {
        "success": float(trajectory.success),
        "steps": -step_price * len(trajectory.steps),
        "invalid": -invalid_price * invalid,
    }
