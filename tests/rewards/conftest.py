"""Reward functions that a test registers, and an import path that no test changes for others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from agentgym_py import registry


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that registers reward functions by name."""
    load = registry.load

    def register(**functions: Any) -> None:
        monkeypatch.setattr(registry, "load", lambda group, name: functions.get(name) or load(group, name))

    return register


@pytest.fixture(autouse=True)
def same_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source adds its folder to `sys.path` for this test alone."""
    monkeypatch.setattr(sys, "path", [*sys.path])
