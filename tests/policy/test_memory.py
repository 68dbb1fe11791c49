"""Garbage collections are off while libraries are imported, and a command in Python freezes nothing for good."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from agentgym_py import cli
from agentgym_py.policy.memory import unfreeze_afterwards, without_collections


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    """Python's collector is on after each test, and leaves out what it left out before."""
    yield
    gc.enable()
    gc.freeze()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_before(enabled: bool) -> None:
    """Also after an error; a collector that was off stays off."""
    if not enabled:
        gc.disable()
    with pytest.raises(ImportError), without_collections():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled() is enabled


def test_what_a_block_freezes_is_collected_again() -> None:
    """Also after an error; what the caller has frozen stays so."""
    gc.unfreeze()
    with pytest.raises(ImportError), unfreeze_afterwards():
        gc.freeze()
        raise ImportError
    assert gc.get_freeze_count() == 0
    gc.freeze()
    with unfreeze_afterwards():
        gc.freeze()
    assert gc.get_freeze_count() > 0


def test_a_command_in_python_leaves_the_heap_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ag.evolve` in a notebook: its user's cyclic garbage is collected afterwards."""

    def command(argv: object) -> int:
        gc.freeze()
        return 0

    monkeypatch.setattr(cli, "_main", command)
    gc.unfreeze()
    cli.run_command(["evolve"])
    assert gc.get_freeze_count() == 0
