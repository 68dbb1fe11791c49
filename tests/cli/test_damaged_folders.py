"""Runs and checkpoints of other shapes: one line, no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym_py.errors import PolicyError
from agentgym_py.policy.loading import adapter_base

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("command", [["report", "run"], ["export", "run", "--out", "x"]])
@pytest.mark.parametrize(
    ("settings", "metrics"),
    [
        ("rounds: 1", "{}"), ("rounds: 1", "[]"), ("rounds: 1", '{"round": 0, "valid": 3}'), ("rounds: x", "{}"),
        ("env: 5", "{}"), ("rounds: 1e400", '{"round": []}'), ("trainer: [1]", "{}"), ("[]", "{}"),
    ],
)  # fmt: skip
def test_a_damaged_run_is_one_line(agentgym: Run, command: list[str], settings: str, metrics: str) -> None:
    """Whatever its files hold."""
    Path("run/rounds/00").mkdir(parents=True)
    Path("run/run.yaml").write_text(settings)
    Path("run/rounds/00/metrics.json").write_text(metrics)
    status, out, err = agentgym(*command)
    assert (status, out, err.count("\n")) == (2, "", 1), err


@pytest.mark.parametrize("text", ["[]", "{", "{}", '{"base_model_name_or_path": 5}', "[" * 100_000, "1" * 5000])
def test_damaged_adapters_are_one_line(text: str, tmp_path: Path) -> None:
    """Nothing is loaded."""
    (tmp_path / "adapter_config.json").write_text(text)
    with pytest.raises(PolicyError):
        adapter_base(str(tmp_path))
