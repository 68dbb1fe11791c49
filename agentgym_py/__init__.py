"""agentgym-py: forkable text worlds with exact experts, and trainers for language-model agents.

    import agentgym_py as ag

    env = ag.make("shop")                                  # a TextEnv: reset, step, snapshot, restore, expert
    demos = ag.collect("shop", tasks=200)                  # trajectories of the expert
    policy, report = ag.train("filtered_bc", "tiny", demos)
    result = ag.evaluate(policy, "shop", tasks=100)        # success rate with its interval

The import registers every installed environment with Gymnasium, by name only: `gymnasium.make("AgentShop-v0")` works.
It loads neither torch nor any environment or trainer.
"""

from typing import TYPE_CHECKING, Any

from agentgym_py.api import (
    Result,
    certify,
    collect,
    compare,
    compare_anytime,
    evaluate,
    evolve,
    first_faults,
    fork,
    judge,
    make,
    measure_credit,
    prove,
    train,
)
from agentgym_py.env import EnvSpec, GeneratedEnv, Outcome, Task, TextEnv
from agentgym_py.env.registration import register_envs
from agentgym_py.errors import AgentGymError
from agentgym_py.trajectory import Provenance, Step, Tokens, Trajectory
from agentgym_py.version import __version__

if TYPE_CHECKING:
    from agentgym_py.agents import ExpertAgent, ModelAgent, RandomAgent
    from agentgym_py.collection import PlayConfig
    from agentgym_py.policy import Policy

__all__ = [
    "AgentGymError", "EnvSpec", "ExpertAgent", "GeneratedEnv", "ModelAgent", "Outcome", "PlayConfig", "Policy",
    "Provenance", "RandomAgent", "Result", "Step", "Task", "TextEnv", "Tokens", "Trajectory", "__version__", "certify",
    "collect", "compare", "compare_anytime", "evaluate", "evolve", "first_faults", "fork", "judge", "make",
    "measure_credit", "prove", "train",
]  # fmt: skip

_LAZY = {
    "ExpertAgent": "agentgym_py.agents",
    "ModelAgent": "agentgym_py.agents",
    "PlayConfig": "agentgym_py.collection",
    "Policy": "agentgym_py.policy",
    "RandomAgent": "agentgym_py.agents",
}
"""Modules of names whose import would be slow."""

register_envs()


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
