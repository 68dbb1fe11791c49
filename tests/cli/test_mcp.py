from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym_py.cli import mcp
from agentgym_py.trajectory.store import read

Run = Callable[..., tuple[int, str, str]]
COMMAND = "import sys; from agentgym_py.cli import main; sys.exit(main())"
EVERYWHERE = "0.0.0.0"  # noqa: S104  # behind a token, until the test ends
OPENING = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env", "shpo"], "Did you mean 'shop'"),
        (["--env", "GUESS,maze"], "one world"),
        (["--env", "maze", "--task", "maze/x"], "maze/x"),
        (["--env", "maze", "--split", "tset"], "Did you mean 'test'"),
        (["--env", "GUESS", "--transport", "sse"], "--transport"),
        (["--env", "GUESS", "--sessions", "0"], "--sessions must be above 0"),
        (["--env", "GUESS", "--transport", "http", "--host", "no.such.host.invalid"], "at no.such.host.invalid: "),
        (["--env", "maze", "--record", "no/such\0file"], "null byte"),
    ],
)
def test_mistakes_are_one_line(agentgym: Run, words: list[str], message: str) -> None:
    """With the option; nothing is served."""
    pytest.importorskip("mcp")
    status, _, err = agentgym("mcp", *words)
    assert (status, err.count("\n")) == (2, 1), err
    assert message in err


def test_a_missing_package_is_said(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra."""
    monkeypatch.setattr(mcp, "find_spec", lambda name: None)
    status, _, err = agentgym("mcp", "--env", "maze")
    assert (status, "[mcp]" in err) == (2, True)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_an_interrupt_ends_it_and_keeps_the_record(transport: str, tmp_path: Path) -> None:
    """Also while it waits for a client; a token of its own for all addresses is printed."""
    pytest.importorskip("mcp")
    words = ["mcp", "--env", "maze", "--transport", transport, "--record", str(tmp_path / "record.jsonl")]
    words += ["--host", EVERYWHERE] if transport == "http" else []
    command, pipe = [sys.executable, "-c", COMMAND, *words], subprocess.PIPE
    env = {**os.environ, "AGENTGYM_TOKEN": ""}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env) as server:
        assert server.stdin and server.stdout
        if transport == "stdio":
            server.stdin.write(json.dumps(OPENING) + "\n")
            server.stdin.flush()
            assert '"instructions":' in server.stdout.readline()
        else:
            assert server.stdout.readline().startswith("http://0.0.0.0:")
            assert "Authorization: Bearer " in server.stdout.readline()
            server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 143
    errors = [trajectory.error for trajectory in read(tmp_path / "record.jsonl")]
    assert errors == (["the server was stopped"] if transport == "stdio" else [])


def test_the_package_is_imported_only_to_serve() -> None:
    """Not for the help."""
    start = "import sys; from agentgym_py.cli import main; main(['mcp', '--help'])"
    code = f"{start}; print({{'mcp', 'torch'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
