"""Readers of foreign bytes: some examples of each. `benchmarks/fuzz.py` runs more."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = int(os.environ.get("AGENTGYM_FUZZ_EXAMPLES", "30"))
"""Examples of each reader."""
READERS = (
    "action parser", "store line", "store file", "verify", "AgentTraj", "ATIF", "chats", "manifest", "YAML",
    "SQL guard", "expressions", "protocol Make", "protocol Step", "protocol Reset", "protocol Restore", "snapshot maze",
    "snapshot todo", "snapshot household",
)  # fmt: skip


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    """`benchmarks/fuzz.py`."""
    path = Path(__file__).parents[1] / "benchmarks" / "fuzz.py"
    found = importlib.util.spec_from_file_location("benchmarks_fuzz", path)
    assert found and found.loader
    sys.modules[found.name] = made = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def readers(fuzz: ModuleType) -> dict[str, Any]:
    """All readers, by their names."""
    made: dict[str, Any] = fuzz.make_readers()
    assert set(made) == set(READERS)
    return made


@pytest.mark.parametrize("name", READERS)
def test_a_reader_reads_or_refuses(name: str, fuzz: ModuleType, readers: dict[str, Any]) -> None:
    """Arbitrary bytes and damaged files end in a value or in an error of the reader's own."""
    assert fuzz.run(readers[name], EXAMPLES, 1) >= EXAMPLES // 2


def test_a_finding_is_raised(fuzz: ModuleType) -> None:
    """Any other error is one."""
    reader = fuzz.Reader(fuzz.texts, lambda text: {}[text])
    with pytest.raises(KeyError):
        fuzz.run(reader, 5, 1)
