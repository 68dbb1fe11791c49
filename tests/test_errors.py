from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from agentgym_py import errors
from agentgym_py.errors import AgentGymError, did_you_mean, naming_options, setting

ROOT = Path(__file__).parents[1]

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


def test_a_setting_is_named_as_its_user_writes_it() -> None:
    """As an option only on the command line."""
    assert (setting("rounds"), setting("rounds", 2), setting("trainer.name")) == ("rounds", "rounds=2", "trainer.name")
    with naming_options():
        assert (setting("rounds"), setting("rounds", 2)) == ("--rounds", "--rounds 2")
        assert (setting("trainer.name", "dpo"), setting("select.success_only", False)) == (
            "--trainer dpo", "--select.success_only false",
        )  # fmt: skip
    assert setting("rounds") == "rounds"


OPTION = re.compile(r"(?<![\w-])--[a-z]")
OTHER_PROGRAMS = (
    "agentgym_py/engine/server_protocols.py", "agentgym_py/report/", "agentgym_py/serving/", "agentgym_py/trust.py",
)  # fmt: skip
"""Modules that name options of other programs, and CSS; the server names the options of `agentgym serve`, and `trust`
refuses only what the files of a command line name."""
LIBRARY = [
    path for folder in ("agentgym_py", "envs", "trainers") for path in sorted((ROOT / folder).rglob("*.py"))
    if not path.relative_to(ROOT).as_posix().startswith(("agentgym_py/cli/", *OTHER_PROGRAMS))
]  # fmt: skip


def test_messages_of_the_library_name_no_options() -> None:
    """Outside the command line a message names a setting by `setting`, or a whole command."""
    found = []
    for path in LIBRARY:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docs = {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and node not in docs and isinstance(node.value, str):
                if " " not in node.value:  # an argument of a command
                    continue
                text = re.sub(r"agentgym [a-z]+[^,;]*", "", node.value)
                found += [f"{path.relative_to(ROOT)}:{node.lineno}: {node.value!r}"] if OPTION.search(text) else []
    assert found == []


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
