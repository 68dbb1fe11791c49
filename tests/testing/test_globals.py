"""The check of global generators, in a world that cuts its episodes early."""

from __future__ import annotations

import pytest

from agentgym_py.testing import check_world


@pytest.mark.parametrize("max_steps", [1, 2, 5, 11, 12])
def test_a_plan_that_the_limit_cuts_is_no_failure(max_steps: int) -> None:
    """The check wastes steps before it follows the plan."""
    check_world("AgentShop-v0", "globals", env_kwargs={"max_steps": max_steps}, episodes=100)
