from __future__ import annotations

import inspect

import pytest

from agentgym_py import errors
from agentgym_py.errors import AgentGymError, did_you_mean

CLASSES = [each for _, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", [each for each in CLASSES if each is not AgentGymError])
def test_every_error_stands_in_the_tree(kind: type[Exception]) -> None:
    """Each is an `AgentGymError` and one of Python's own, and the root's docstring draws it with that one."""
    assert issubclass(kind, AgentGymError)
    builtin = next(base for base in kind.__bases__ if base.__module__ == "builtins")
    assert f"{kind.__name__} ({builtin.__name__})" in (AgentGymError.__doc__ or "")
    assert kind.__doc__


def test_the_tree_draws_nothing_else() -> None:
    """As many lines in the drawing as classes."""
    assert (AgentGymError.__doc__ or "").count("── ") == len(CLASSES) - 1


@pytest.mark.parametrize(
    ("name", "choices", "clause"),
    [
        ("shpo", ["shop", "todo"], " Did you mean 'shop'? Installed: shop, todo."),
        ("AGENTSHOP-V0", ["AgentShop-v0"], " Did you mean 'AgentShop-v0'? Installed: AgentShop-v0."),
        ("zzz", ["shop", "todo"], " Installed: shop, todo."),
        ("nope", ["shop", "todo"], " Installed: shop, todo."),
        ("x", [], " Installed: none."),
        ("", ["shop"], " Installed: shop."),
    ],
)
def test_did_you_mean(name: str, choices: list[str], clause: str) -> None:
    """The nearest name in any case, if one is near, and what there is."""
    assert did_you_mean(name, choices) == clause
