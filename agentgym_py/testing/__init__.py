"""The conformance kit checks that an env keeps the contract of `TextEnv`: any registered env, built-in or yours.

In a test:

    import pytest
    from agentgym_py.testing import CHECKS, check_world

    @pytest.mark.parametrize("check", CHECKS)
    def test_my_world(check):
        check_world(MyWorld, check)  # its class, or its name

In a terminal `agentgym check my_world.py`, and once it is installed `agentgym check myworld`. The kit needs neither
torch nor pytest; with hypothesis installed it tries hypothesis's strings, too. A failure comes with a program to paste
that reproduces it.

An env may declare its `random_baseline`, the share of episodes in which luck may succeed (5 % by default; no
thoughtless agent may be above it), and its `secrets()`, the texts that must not show yet.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentgym_py.testing.failures import Moves
    from agentgym_py.testing.harness import Settings
    from agentgym_py.testing.report import Failure, Report, Result
    from agentgym_py.testing.runner import CHECKS, check_world, run_check, run_checks

__all__ = [
    "CHECKS", "Failure", "Moves", "Report", "Result", "Settings", "check_world", "run_check", "run_checks",
]  # fmt: skip

_MODULES = {
    "failures": ("Moves",),
    "harness": ("Settings",),
    "report": ("Failure", "Report", "Result"),
    "runner": ("CHECKS", "check_world", "run_check", "run_checks"),
}
"""Names by module, imported when they are used: a fresh process of a check needs few of the modules."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
