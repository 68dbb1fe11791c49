"""`agentgym check`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym_py import registry
from agentgym_py.env import EnvSpec, registration
from agentgym_py.testing import Failure, runner

Run = Callable[..., tuple[int, str, str]]
EXAMPLE = Path(__file__).parents[2] / "examples" / "my_world.py"
pytestmark = pytest.mark.usefixtures("own_sources")


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
        "check", "GUESS", "--json", "--only", "random_baseline", "--episodes", "7", "--seed", "3",
        "--env_kwargs.max_steps", "5",
    )  # fmt: skip
    found = json.loads(out)
    assert status == 0 and found["ok"] and "passed" in err
    assert found["env_kwargs"] == {"max_steps": 5} and found["settings"]["seed"] == 3
    assert found["checks"][0]["counts"]["episodes"] == 35


@pytest.mark.parametrize(("sent", "said"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_check_that_is_stopped_says_so(
    agentgym: Run, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals, said: int
) -> None:
    """Which checks were done, which not, and what had failed before; also as JSON."""

    def killed(_: object) -> None:
        """Somebody presses Ctrl-C."""
        signal.raise_signal(sent)

    monkeypatch.setitem(runner.CHECKS, "forks", killed)
    argv = ("check", "GUESS", "--only", "tasks,card,forks,strings", "--episodes", "2")
    status, out, _ = agentgym(*argv)
    assert status == said and [line.split()[:2] for line in out.splitlines()[:3]] == [
        ["passed", "tasks"], ["failed", "card"], ["stopped", "forks"],
    ]  # fmt: skip
    assert "FAILED card" in out and "1 of 4 checks failed; not done: forks, strings" in out.splitlines()[-1]
    status, out, _ = agentgym(*argv, "--json")
    found = json.loads(out)
    assert status == said and found["not_done"] == ["forks", "strings"] and len(found["checks"]) == 2


def test_mistakes_are_one_line(agentgym: Run) -> None:
    """Unknown checks, worlds and amounts."""
    for argv, said in (
        (["GUESS", "--only", "random_base"], "--only: no check 'random_base'; did you mean random_baseline?"),
        (["GUESS", "--only", "qqqq"], "--only: no check 'qqqq'; there are isolation, gymnasium, "),
        (["no-such-world"], "No environment 'no-such-world'"),
        (["guessfortest"], "Did you mean 'guessfortests'?"),
        (["no_such.py"], "no_such.py: no such file"),
        ([str(EXAMPLE) + ":GuesEnv"], "has no environment 'GuesEnv'. Did you mean 'GuessEnv'?"),
        (["no_such_module:World"], "no_such_module does not load: ModuleNotFoundError"),
        (["agentgym_py.rng:Rng"], "agentgym_py.rng defines no environment: an environment is a subclass of TextEnv.\n"),
        (["GUESS", "--episodes", "0"], "--episodes must be a number of at least 1, got 0"),
    ):
        status, out, err = agentgym("check", *argv)
        assert status == 2 and out == "" and said in err and err.count("\n") == 1


@pytest.mark.parametrize("command", ["play", "check", "eval", "collect", "train", "evolve"])
def test_a_negative_seed_is_one_line(agentgym: Run, command: str) -> None:
    """Wherever there is a seed."""
    named = {
        "play": ["GUESS"],
        "check": ["GUESS"],
        "train": ["--data", "no.jsonl"],
        "collect": ["--env", "GUESS", "--out", "x.jsonl"],
    }.get(command, ["--env", "GUESS"])
    status, out, err = agentgym(command, *named, "--seed", "-1")
    assert (status, out) == (2, "") and err.count("\n") == 1, err
    assert "--seed must be an integer of at least 0, not -1" in err


@pytest.mark.parametrize(
    ("source", "checks"),
    [
        ("my_world.py", "card,vectors,reproducible"),
        ("my_world.py:GuessEnv", "card"),  # found by the same import as without the class
        ("my_world:GuessEnv", "card,vectors,reproducible"),
    ],
)
def test_a_world_is_checked_from_its_source(agentgym: Run, source: str, checks: str) -> None:
    """Also in processes of their own, and under the id that its card says; nothing need be installed."""
    Path("my_world.py").write_bytes(EXAMPLE.read_bytes())
    status, out, err = agentgym("check", source, "--only", checks, "--episodes", "5")
    passed = checks.count(",") + 1
    assert (status, err) == (0, "") and out.count("passed") == passed and "AgentGuess-v0: no failure" in out
    status, out, _ = agentgym("envs", "show", "my_world.py")
    assert status == 0 and "(agentgym … --env my_world.py)" in out


def test_a_file_is_checked_where_another_copy_is_installed(
    agentgym: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's class in every process, and in the program to paste; nobody warns."""
    source = EXAMPLE.read_text(encoding="utf-8")
    site = tmp_path / "site"
    info = site / "copy-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: copy\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[agentgym.envs]\nAgentGuess-v0 = copied_world:GuessEnv\n")
    (site / "copied_world.py").write_text(source.replace("Find a number below", "Guess one below"), encoding="utf-8")
    monkeypatch.syspath_prepend(site)
    registry.entry_points_of.cache_clear()
    registration.register_envs()
    try:
        Path("my_world.py").write_text(source, encoding="utf-8")
        status, out, err = agentgym("check", "my_world.py", "--only", "card,vectors,reproducible", "--episodes", "5")
        assert (status, err) == (0, "") and out.count("passed") == 3 and "AgentGuess-v0: no failure" in out
        script = Failure("shown").script(EnvSpec("AgentGuess-v0"))
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={
            **os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))
        })  # fmt: skip
        assert "Find a number below" in done.stdout and done.stderr == ""
    finally:
        registry.entry_points_of.cache_clear()


def test_a_card_without_an_id_is_told_the_class_s_name(agentgym: Run) -> None:
    """As it is written, for that is what the card must say."""
    wrong = EXAMPLE.read_text(encoding="utf-8").replace("AgentGuess-v0: find", "Find").replace("Task:", "It:")
    Path("my_world.py").write_text(wrong, encoding="utf-8")
    status, out, _ = agentgym("check", "my_world.py", "--only", "card", "--json")
    said = json.loads(out)["checks"][0]
    assert status == 1 and said["failure"]["message"].endswith("does not say: task, GuessEnv-v0")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("y = x + nothing", "NameError: name 'nothing' is not defined ("),
        ("y = (", "SyntaxError: '(' was never closed ("),
    ],
)
def test_a_file_that_does_not_load_says_where(agentgym: Run, line: str, said: str) -> None:
    """Its line, in one line, and status 2."""
    Path("broken_world.py").write_text(f"x = 1\n{line}\n", encoding="utf-8")
    status, _, err = agentgym("check", "broken_world.py")
    assert (
        status == 2 and f"broken_world.py does not load: {said}" in err and err.endswith("broken_world.py, line 2)\n")
    )


def test_a_world_that_cannot_be_made_says_where(agentgym: Run) -> None:
    """An error of its own `__init__`; it is told no check, for none can begin."""
    source = EXAMPLE.read_text(encoding="utf-8")
    number = source[: source.index("self.low, self.high, self.number")].count("\n") + 1
    Path("my_world.py").write_text(source.replace("self.low, self.high, self.number = 0, 0, 0", "self.low = nothing"))
    status, out, err = agentgym("check", "my_world.py")
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert err.startswith(
        "agentgym: the world AgentGuess-v0 cannot be made: NameError(\"name 'nothing' is not defined\") ("
    )
    assert err.endswith(f"my_world.py, line {number}, in __init__)\n")
    assert agentgym("eval", "--env", "my_world.py", "--agent", "random") == (status, out, err)


def test_a_world_that_lacks_methods_is_one_line(agentgym: Run) -> None:
    """It is said once, with what is missing, and no check is run; so it is of a world without `__init__`."""
    source = EXAMPLE.read_text(encoding="utf-8")
    for old, new, message in (
        (" expert(", " expertise(", "GuessEnv lacks expert: define them (see TextEnv)"),
        (" state(", " condition(", "GuessEnv lacks state: define them (see TextEnv)"),
        (" __init__(self, *,", " not_called(self, *,", "GuessEnv sets no max_steps: define __init__ and call super()"),
    ):
        file = f"lacks{old.split('(')[0].strip()}.py"
        Path(file).write_text(source.replace(old, new, 1), encoding="utf-8")
        status, out, err = agentgym("check", file)
        assert status == 2 and out == "" and err.startswith(f"agentgym: {message}") and err.count("\n") == 1
