"""`agentgym envs` and `agentgym play`."""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout, suppress
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agentgym_py import registry
from agentgym_py.cli import main
from agentgym_py.cli.envs import _about
from agentgym_py.cli.play import HELP
from agentgym_py.env import EnvSpec, registration

Run = Callable[..., tuple[int, str, str]]


def test_list_shows_what_is_installed(agentgym: Run) -> None:
    """The shop is there, by short name and by id, with what one does there."""
    status, out, err = agentgym("envs", "list")
    assert status == 0 and err == ""
    assert re.search(r"^shop +AgentShop-v0 +find and buy what a request describes$", out, re.MULTILINE)


def test_list_is_a_line_a_world_in_80_columns(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted by short name; each world once, without the package that all share, its id or a full stop at the end."""
    ours = {
        name: point
        for name, point in registry.entry_points_of("agentgym.envs").items()
        if "agentgym_envs" in point.value
    }
    monkeypatch.setattr(registry, "entry_points_of", lambda group: ours)
    head, *lines = agentgym("envs", "list")[1].splitlines()
    assert head.split(None, 2) == ["name", "id", "what one does there"]
    assert [line.split()[0] for line in lines] == sorted(map(registration.short_name, ours))
    for line in lines:
        _, env_id, about = line.split(None, 2)
        assert len(line) <= 80 and env_id not in about and about[0].islower() and about[-1].isalpha(), line


@pytest.mark.parametrize(
    ("card", "about"),
    [
        ("AgentX-v0: find a number.\n\nTask: it.", "find a number"),
        ("AgentX-v0. Task: find a number. Actions: `guess[n]`.", "find a number"),
        ("AgentX-v0, find 3.5 of 4", "find 3.5 of 4"),
    ],
)
def test_a_card_is_listed_by_its_first_sentence(card: str, about: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the id stands before it, and with the word Task or without."""
    monkeypatch.setattr(registry, "load", lambda group, name: type("X", (), {"__doc__": card}))
    assert _about(registry.Plugin("AgentX-v0", "x:X", "x")) == about


def test_the_example_is_listed_by_what_one_does_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """`examples/my_world.py`, which strangers copy."""
    found = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "my_world.py"))["GuessEnv"]
    monkeypatch.setattr(registry, "load", lambda group, name: found)
    about = _about(registry.Plugin("AgentGuess-v0", "x:X", "x"))
    assert about == "find a hidden number in as few guesses as possible"


def test_list_names_packages_where_there_are_several(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads it sees whose world it is; a terminal cuts what is too long, a pipe does not."""
    found = [registry.Plugin("AgentShop-v0", "x:X", "agentgym-py"), registry.Plugin("Cave-v0", "y:Y", "caves")]
    monkeypatch.setattr(registration, "plugins", lambda *_: found)
    monkeypatch.setattr(registry, "load", lambda *_: type("Cave", (), {"__doc__": "Cave-v0, a cave " + "in " * 50}))
    head, cave, _ = agentgym("envs", "list")[1].splitlines()
    assert head.split()[:3] == ["name", "id", "package"]
    assert cave.split()[:5] == ["cave", "Cave-v0", "caves", "a", "cave"] and cave.count("in") == 50
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "in i…\n" in agentgym("envs", "list")[1]


def test_list_as_json(agentgym: Run) -> None:
    """A program reads names, targets and packages; only JSON is on stdout."""
    _, out, _ = agentgym("envs", "list", "--json")
    shop = next(each for each in json.loads(out) if each["name"] == "AgentShop-v0")
    assert shop["short_name"] == "shop" and shop["package"] == "agentgym-py" and shop["broken"] is None


def test_a_broken_plugin_is_listed_with_its_reason(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It neither breaks the list nor hides."""
    broken = {"AgentBad-v0": EntryPoint("AgentBad-v0", "no_such_module_here:Env", "agentgym.envs")}
    monkeypatch.setattr(registry, "entry_points_of", lambda group: broken if group == "agentgym.envs" else {})
    status, out, err = agentgym("envs", "list")
    assert status == 0 and err == "" and re.search(r"^bad +AgentBad-v0 +broken, see below$", out, re.MULTILINE)
    assert "\nAgentBad-v0 (no_such_module_here:Env) is broken: ModuleNotFoundError(" in out
    assert "no_such_module_here" in json.loads(agentgym("envs", "list", "--json")[1])[0]["broken"]


def test_show_is_the_card_with_an_example(agentgym: Run) -> None:
    """Card, splits, rules by prompt, tools, and the expert's episode."""
    status, out, _ = agentgym("envs", "show", "GUESS")
    assert status == 0
    for wanted in (
        "AgentGuess-v0: find a hidden number in as few guesses as possible.",
        "guess/test/0",
        "--prompt brief",
        "Write guess[n].",
        "> guess[",
        "(reward 1)",
    ):
        assert wanted in out


def test_show_as_json(agentgym: Run) -> None:
    """The same for a program; arguments of the world go in by --env_kwargs."""
    about = json.loads(agentgym("envs", "show", "GUESS", "--json", "--env_kwargs.max_steps", "7")[1])
    assert about["name"] == "guess" and about["max_steps"] == 7 and set(about["splits"]) == {"train", "valid", "test"}
    assert about["example"]["turns"][-1] == {"observation": "Found."}


def play(agentgym: Run, monkeypatch: pytest.MonkeyPatch, lines: list[str], *argv: str) -> str:
    """The transcript of an episode whose lines come from a pipe."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    status, out, err = agentgym("play", "GUESS", *argv)
    assert status == 0 and err == ""
    return out


def test_play_follows_the_experts_hint_to_the_end(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`:hint` shows the expert's action, which solves the task."""
    out = play(agentgym, monkeypatch, [":hint"], "--task", "guess/test/3")
    action = next(line for line in out.splitlines() if line.startswith("guess["))
    assert "Solved: reward 1 after 1 step." in play(agentgym, monkeypatch, [action], "--task", "guess/test/3")


def test_a_command_without_its_colon_is_named(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The world does not know the word; any other wrong action is left to the world."""
    out = play(agentgym, monkeypatch, ["help", "nonsense"], "--task", "guess/test/3")
    assert out.count("(:help lists the commands.)") == 1 and "(:nonsense" not in out


class Hinted(io.StringIO):
    """A person who asks for a hint and enters what is printed, line by line, up to the end."""

    def __init__(self, out: io.StringIO) -> None:
        super().__init__()
        self.out, self.asked = out, False

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]  # typeshed's StringIO is of two minds
        """`:hint`, then the hint."""
        self.asked = not self.asked
        if self.asked:
            return ":hint\n"
        hint = self.out.getvalue().rpartition("> :hint\n")[2]
        assert hint.count("\n") == 1, hint
        return hint


@pytest.mark.parametrize("name", registry.names("agentgym.envs"))
def test_what_a_hint_prints_can_be_entered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every world, to the solution."""
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdin", Hinted(out))
    with redirect_stdout(out):
        assert main(["play", name, "--task", "4", "--split", "test"]) == 0
    assert "\nSolved: reward" in out.getvalue(), out.getvalue()


def test_play_lists_actions_and_takes_any_text(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`:actions` lists what can be done; nonsense is an observation; the end of input leaves."""
    out = play(agentgym, monkeypatch, [":actions", "so what"], "--task", "3", "--split", "valid")
    assert (
        "guess/valid/3" in out and "guess[12]" in out and "Write guess[n]." in out and "You left after 1 step." in out
    )


def test_play_writes_what_a_pipe_says(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal echoes what is typed; where there is none, the transcript shows it all the same; it ends cleanly."""
    out = play(agentgym, monkeypatch, ["so what"], "--task", "3")
    assert out.endswith("\n> so what\nWrite guess[n].\nYou left after 1 step.\n")
    assert play(agentgym, monkeypatch, [":quit", "so what"]).endswith("\n> :quit\nYou left after 0 steps.\n")


def test_play_leaves_every_word_to_the_world(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`help`, `quit` and `hint` are actions; play's own commands have a colon, and a wrong one costs no step."""
    out = play(agentgym, monkeypatch, ["help", "quit", "hint", "?", ":hlp", "", ":help"])
    assert out.count("Write guess[n].") == 4 and out.endswith("You left after 4 steps.\n")
    assert "> :hlp\nNo command ':hlp'; did you mean :help? (:help lists them.)\n" in out
    assert out.count(HELP) == 2 and all(name in HELP for name in (":actions", ":hint", ":help", ":quit"))


@pytest.mark.parametrize("name", registry.names("agentgym.envs"))
def test_no_world_has_an_action_that_play_takes_for_itself(name: str) -> None:
    """None begins with a colon."""
    env = EnvSpec(name).make()
    env.reset(seed=1)
    assert not [each for each in [*(env.actions() or []), *env.expert()] if each.startswith(":")]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of its own")
def test_play_in_a_terminal_ends_with_ctrl_d() -> None:
    """The prompt's line is ended, the last line says how far one came, and the status is 0."""
    import pty

    code = "import sys; from agentgym_py.cli import main; sys.exit(main(['play', 'maze', '--seed', '1']))"
    ours, theirs = pty.openpty()
    with (
        subprocess.Popen([sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs) as running,
        ExitStack() as end,
    ):
        end.callback(running.kill)  # a failure would wait for it forever
        os.close(theirs)
        seen, typed = b"", [b"look\n", b"\x04"]
        with suppress(OSError):  # the terminal is gone when the program is
            while part := os.read(ours, 4096):
                seen += part
                if typed and seen.endswith(b"> "):
                    os.write(ours, typed.pop(0))
        assert running.wait(60) == 0
    os.close(ours)
    assert seen.endswith(b"> \r\nYou left after 1 step.\r\n"), seen


def test_play_draws_a_task(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one each time, of the split that is asked for; a seed draws the same again."""
    anew = {play(agentgym, monkeypatch, [], "--split", "test").split(".")[0] for _ in range(4)}
    seeded = {play(agentgym, monkeypatch, [], "--seed", "3").split(".")[0] for _ in range(2)}
    assert len(anew) > 1 and all(each.startswith("guess/test/") for each in anew)
    assert len(seeded) == 1 and seeded.pop().startswith("guess/train/")


@pytest.mark.parametrize(("method", "lines"), [("begin", []), ("act", ["x"]), ("expert", [":hint"])])
def test_play_says_what_a_world_raises(
    agentgym: Run, guess_world: str, monkeypatch: pytest.MonkeyPatch, method: str, lines: list[str]
) -> None:
    """Which world, what and where, in one line, and status 1."""

    def broken(self: Any, *_: object) -> Any:
        return self.nothing

    monkeypatch.setattr(gymnasium.registry[guess_world].entry_point, method, broken)
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    status, _, err = agentgym("play", "GUESS", "--task", "3")
    assert status == 1 and err.count("\n") == 1
    assert err.startswith(
        f"agentgym: the world {guess_world} raised AttributeError: 'GuessEnv' object has no attribute"
    )
    assert f"test_envs.py, line {broken.__code__.co_firstlineno + 1}, in broken); agentgym check" in err


def test_an_error_of_play_itself_keeps_its_trace(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no world's, and a defect."""
    monkeypatch.setattr("agentgym_py.cli.play._play", lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        agentgym("play", "GUESS", "--task", "3")


def test_what_was_made_is_closed(agentgym: Run, guess_world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a world must be that a server runs; `--env_kwargs` are tried on one of its own."""
    made = [0, 0]
    world: Any = gymnasium.registry[guess_world].entry_point
    begin = world.__init__

    def init(self: Any, **kwargs: Any) -> None:
        made[0] += 1
        begin(self, **kwargs)

    def close(_: object) -> None:
        made[1] += 1

    monkeypatch.setattr(world, "__init__", init)
    monkeypatch.setattr(world, "close", close)
    play(agentgym, monkeypatch, [":quit"])
    assert agentgym("envs", "show", "GUESS")[0] == 0
    assert made == [4, 4]


def test_play_says_what_a_task_may_be(agentgym: Run) -> None:
    """Its number or its id, of which there is an example; status 2."""
    status, _, err = agentgym("play", "maze", "--task", "x")
    said = "No task 'x': neither a number nor an id of four parts; ids here look like 'maze/test/medium/17'."
    assert status == 2 and err == f"agentgym: {said}\n"


def test_play_says_when_it_was_not_solved(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of steps."""
    assert "Not solved: reward 0 after 10 steps." in play(agentgym, monkeypatch, ["x"] * 10)


@pytest.mark.parametrize(
    "words",
    [
        *(("--env_kwargs.max_steps", value) for value in ("1e400", "nan", "-1", "true", "[1]", "{a: 1}", "9" * 5000)),
        *(("--env_kwargs.difficulty", value) for value in ("3", "[easy]", "null", "e" * 10_000)),
        *(("--tasks", value) for value in ("1e400", "-1", "9" * 5000, "1000000000000")),
        *(("--first", value) for value in ("1e400", "-1")),
        ("--seed", "1e400"),
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_an_absurd_argument_is_one_short_line(words: tuple[str, str], agentgym: Run) -> None:
    """Of a wrong type, without end, or far out of range; nothing is written."""
    tasks = () if "--tasks" in words else ("--tasks", "2")
    argv = ("collect", "--env", "maze", "--agent", "random", *tasks, *words, "--out", "absurd.jsonl")
    status, out, err = agentgym(*argv)
    assert status == 2 and not out and err.count("\n") == 1 and len(err) < 400, err
    assert not Path("absurd.jsonl").exists()


@pytest.mark.parametrize("command", ["collect --out out", "eval --out out", "attack --reward agent", "credit"])
def test_absurdly_many_tasks_are_one_short_line(command: str, agentgym: Run) -> None:
    """Before their list is made."""
    words = f"{command} --env maze --agent random --tasks 1000000000"
    status, out, err = agentgym(*words.split())
    assert (status, out, err.count("\n")) == (2, "", 1) and "more than 10,000,000 episodes" in err, err
    assert not Path("out").exists()


@pytest.mark.parametrize("command", ["eval", "collect --split test --out out"])
def test_two_tasks_are_few_wherever_they_begin(command: str, agentgym: Run) -> None:
    """Far tasks are played if the world has them; otherwise it says how many it has."""
    words = f"{command} --env maze --agent random --tasks 2 --first".split()
    assert agentgym(*words, "999999999")[0] == 0
    Path("out").unlink(missing_ok=True)
    status, out, err = agentgym(*words, str(10**30))
    assert (status, out, err.count("\n")) == (2, "", 1) and not Path("out").exists()
    assert f"--first {10**30} with --tasks 2 asks for {10**30 + 2} test tasks, maze has 1{'0' * 18}\n" in err
