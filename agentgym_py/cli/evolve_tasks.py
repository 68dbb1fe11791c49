"""The check that the worlds of `agentgym evolve` have enough tasks."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_py.cli.env_options import require_tasks
from agentgym_py.env import EnvSpec
from agentgym_py.errors import setting
from agentgym_py.evolution import EvolveConfig
from agentgym_py.evolution.curricula import find_levels
from agentgym_py.evolution.task_sampling import tasks_per_env


def require_all_tasks(config: EvolveConfig, envs: Sequence[EnvSpec]) -> None:
    """Raise UsageError if a world has too few tasks."""
    shares = tasks_per_env(envs, config.explore_weights, config.explore_tasks)
    if config.explore_order == "learnable" and not config.sequence:
        shares = [sum(shares)] * len(envs)  # a round may explore one world alone
    for spec, share in zip(envs, shares, strict=True):
        needs = _tasks_of(config, share)
        if config.curriculum and config.rounds:  # a round may explore any level alone
            levels = find_levels(spec, config.levels)
            require_tasks([level.spec for level in levels], {"train": needs["train"]})
            needs["train"] = setting("expert_tasks"), config.expert_tasks
        require_tasks([spec], needs)


def _tasks_of(config: EvolveConfig, share: int) -> dict[str, tuple[str, int]]:
    """Return the settings and the number of tasks that a run needs of a world, by split; `share` is that of a round."""
    option = setting("expert_tasks")
    if config.rounds:
        option = f"{setting('expert_tasks', config.expert_tasks)} + {setting('rounds', config.rounds)}"
        option += f" * {setting('explore_tasks', share)}"
        option += f", by {setting('explore_weights')}," if share != config.explore_tasks else ""
    return {
        "train": (option, config.expert_tasks + config.rounds * share),
        "valid": (setting("valid_tasks"), config.valid_tasks),
        "test": (setting("test_tasks"), config.test_tasks),
    }
