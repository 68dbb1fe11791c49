from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from agentgym_py.cli import server_options
from agentgym_py.env import EnvSpec
from agentgym_py.errors import InfrastructureError
from agentgym_py.serving import RemoteEnv

Run = Callable[..., tuple[int, str, str]]
COMMAND = "import sys; from agentgym_py.cli import main; sys.exit(main())"


@pytest.mark.parametrize(
    ("given", "sent", "status"),
    [("", signal.SIGINT, 130), ("a-token-of-the-environment", signal.SIGTERM, 143)],
)
def test_it_serves_until_it_is_interrupted(given: str, sent: signal.Signals, status: int) -> None:
    """Its address and a new token are printed; a client plays; Ctrl-C or SIGTERM ends it with one line."""
    pytest.importorskip("uvicorn")
    words = [sys.executable, "-c", COMMAND, "serve", "--env", "maze", "--env_kwargs.difficulty", "easy"]
    env = {**os.environ, "AGENTGYM_TOKEN": given}
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as server,
        ExitStack() as end,
    ):
        end.callback(server.kill)  # a failure would wait for it forever
        assert server.stdout is not None
        url, said = server.stdout.readline().strip(), server.stdout.readline().strip()
        token = given or said.removeprefix("export AGENTGYM_TOKEN=")
        assert token not in said if given else len(token) >= 32
        env_there = RemoteEnv(url=url, env="maze", token=token, difficulty="easy")
        assert env_there.reset(seed=0) == EnvSpec("maze", {"difficulty": "easy"}).make().reset(seed=0)
        server.send_signal(sent)
        err = server.communicate(timeout=30)[1]
    assert (server.returncode, err) == (status, "\nstopped; sessions opened: 1\n")


def test_a_world_that_hangs_does_not_keep_the_server(tmp_path: Path) -> None:
    """Ctrl-C ends it all the same; the world is a file."""
    pytest.importorskip("uvicorn")
    text = (Path(__file__).parents[2] / "examples" / "my_world.py").read_text(encoding="utf-8")
    head = "    def act(self, reply: Reply) -> Outcome:\n"
    assert head in text
    (tmp_path / "hanging.py").write_text(text.replace(head, head + "        import time; time.sleep(1000)\n"))
    words = [sys.executable, "-c", COMMAND, "serve", "--env", str(tmp_path / "hanging.py"), "--longest", "0.3"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server, ExitStack() as end:
        end.callback(server.kill)  # a failure would wait for it forever
        assert server.stdout is not None
        url, said = server.stdout.readline().strip(), server.stdout.readline().strip()
        env = RemoteEnv(url=url, env="guess", token=said.partition("=")[2])
        env.reset(seed=0)
        with pytest.raises(InfrastructureError, match=r"did not answer in 0\.3 s"):
            env.step("x")
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)
    assert server.returncode == 130


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env", "shpo"], "Did you mean 'shop'"),
        (["--env", "GUESS", "--port", "70000"], "--port must be from 0 to 65535"),
        (["--env", "GUESS", "--sessions", "0"], "--sessions must be above 0"),
        (["--env", "GUESS", "--idle", "-1"], "--idle must be above 0"),
        (["--env", "GUESS", "--host", "no.such.host.invalid"], "at no.such.host.invalid: "),
        (["--env", "household", "--allow", "games"], "games of household is a file or folder"),
    ],
)
def test_mistakes_are_one_line(agentgym: Run, words: list[str], message: str) -> None:
    """With the option."""
    pytest.importorskip("uvicorn")
    status, _, err = agentgym("serve", *words)
    assert (status, err.count("\n")) == (2, 1), err
    assert message in err


def test_a_token_that_can_be_guessed_is_refused(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In words, and without repeating it."""
    pytest.importorskip("uvicorn")
    monkeypatch.setenv("AGENTGYM_TOKEN", "letmein")
    status, _, err = agentgym("serve", "--env", "GUESS")
    assert (status, "at least 16" in err, "letmein" in err) == (2, True, False)


def test_a_port_that_is_taken(agentgym: Run) -> None:
    """Is said by its number."""
    pytest.importorskip("uvicorn")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, _, err = agentgym("serve", "--env", "GUESS", "--port", str(taken.getsockname()[1]))
    assert (status, "Address already in use" in err) == (2, True)


def test_what_is_missing_is_said(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra."""
    monkeypatch.setattr(server_options, "find_spec", lambda name: None)
    status, _, err = agentgym("serve", "--env", "GUESS")
    assert (status, "[serve]" in err) == (2, True)


def test_the_server_is_imported_only_to_serve() -> None:
    """Neither by the package nor for the help nor by the client; torch never."""
    code = (
        "import sys; from agentgym_py.cli import main; main(['serve', '--help']); import agentgym_py.serving;"
        "print({'fastapi', 'uvicorn', 'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
