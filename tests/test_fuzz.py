"""Readers of foreign bytes: some examples of each. `benchmarks/fuzz.py` runs more."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scripts import load_script

EXAMPLES = int(os.environ.get("AGENTGYM_FUZZ_EXAMPLES", "30"))
"""Examples of each reader."""
READERS = (
    "action parser", "SQL guard", "expressions", "constraints", "rewards", "judge's answer", "chat template",
    "store line", "store file", "verify", "AgentTraj", "ATIF", "chats", "parquet", "saved dataset", "viewer's index",
    "manifest", "Inspect's log", "Inspect's archive", "lm-eval's samples", "YAML", "feedback", "verdicts",
    "answers", "run's settings", "forked run", "household's game", "process reward model", "row of tasks",
    "request to the viewer", "AgentGym's server", "tools' index", "tools' vectors",
    "adapters", "adapters' base", "reward model", "multipliers", "training's state", "pipeline",
    "protocol Make", "protocol Step", "protocol Reset", "protocol Restore", "protocol Limit", "protocol Ask",
    "protocol FindTask", "protocol Read", "protocol ExpertThought", "environment server", "vllm server",
    "sglang server", "llamacpp server", "completion", "snapshot calculator", "snapshot errand", "snapshot grid",
    "snapshot household", "snapshot householdteam", "snapshot lab", "snapshot maze", "snapshot service",
    "snapshot sheet", "snapshot shop", "snapshot sql", "snapshot textcraft", "snapshot todo", "snapshot tools",
    "snapshot twentyquestions", "snapshot wordle", "recipes", "catalogue",
)  # fmt: skip


@pytest.fixture(scope="module")
def fuzz() -> Any:
    """`benchmarks/fuzz.py`."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))  # the readers stand in others
    return load_script("benchmarks/fuzz.py")


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
    reader = fuzz.Reader(import_module("fuzz_samples").texts, lambda text: {}[text])
    with pytest.raises(KeyError):
        fuzz.run(reader, 5, 1)
