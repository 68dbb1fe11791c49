"""Garbage collections are off while libraries are imported, and on again afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from agentgym_py.policy.memory import without_collections


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    """Python's collector is on after each test."""
    yield
    gc.enable()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_before(enabled: bool) -> None:
    """Also after an error; a collector that was off stays off."""
    if not enabled:
        gc.disable()
    with pytest.raises(ImportError), without_collections():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled() is enabled
