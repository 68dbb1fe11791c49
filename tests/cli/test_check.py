"""`agentgym check`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., tuple[int, str, str]]


def test_a_line_a_check_and_a_verdict(agentgym: Run) -> None:
    """Status 0 where nothing is wrong; nothing is left in the folder where it is called."""
    status, out, err = agentgym("check", "GUESS", "--only", "tasks,forks", "--only", "strings", "--episodes", "2")
    assert status == 0 and err == ""
    lines = out.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [["passed", name] for name in ("tasks", "forks", "strings")]
    assert lines[-1].startswith("GuessForTests-v0: no failure; ") and not list(Path().iterdir())


def test_a_failure_has_a_program_that_shows_it(agentgym: Run) -> None:
    """Status 1: the example's card names another id than it has here."""
    status, out, _ = agentgym("check", "GUESS", "--only", "card")
    assert status == 1 and "FAILED card: The class docstring" in out and "1 of 1 checks failed" in out
    assert "does not say: GuessForTests-v0" in out


def test_as_json(agentgym: Run) -> None:
    """Only JSON on stdout; arguments of the world and the amounts stand in it."""
    status, out, err = agentgym(
        "check", "GUESS", "--json", "--only", "floor", "--episodes", "7", "--seed", "3", "--env_kwargs.max_steps", "5"
    )
    found = json.loads(out)
    assert status == 0 and found["ok"] and "passed" in err
    assert found["env_kwargs"] == {"max_steps": 5} and found["settings"]["seed"] == 3
    assert found["checks"][0]["counts"]["episodes"] == 35


def test_mistakes_are_one_line(agentgym: Run) -> None:
    """Unknown checks, worlds and amounts."""
    for argv, said in (
        (["GUESS", "--only", "florr"], "--only: no check 'florr' (did you mean floor?)"),
        (["no-such-world"], "No environment 'no-such-world'"),
        (["GUESS", "--episodes", "0"], "--episodes must be at least 1"),
    ):
        status, out, err = agentgym("check", *argv)
        assert status == 2 and out == "" and said in err and err.count("\n") == 1
