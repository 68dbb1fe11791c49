"""`agentgym certify`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentgym_py.files import claimed

Run = Callable[..., tuple[int, str, str]]


def test_the_command_writes_both_files(agentgym: Run) -> None:
    """It says before the checks how long they will take, and what was written."""
    argv = ("certify", "maze", "--only", "solvable", "--episodes", "4", "--out", "made")
    status, out, err = agentgym(*argv)
    assert status == 0 and out.startswith("AgentMaze-v0: 1 check, about ") and "24 of 25 checks were not done" in out
    assert "written: made/AgentMaze-v0.incomplete.json and made/AgentMaze-v0.incomplete.svg" in err
    status, out, _ = agentgym(*argv, "--json")
    found: dict[str, Any] = json.loads(out)
    assert status == 0 and found["measured"] == {} and found["checks"][0]["openenv"] == ["semantic.oracle_max"]
    status, _, err = agentgym("certify", "maze", "--only", "solvabel")
    assert status == 2 and "did you mean solvable?" in err
    with claimed(Path("made/AgentMaze-v0.json")):
        status, _, err = agentgym(*argv)
        assert status == 2 and "made/AgentMaze-v0.json is in use" in err
