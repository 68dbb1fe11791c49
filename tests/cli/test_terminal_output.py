"""Nothing that a world, model, file or server says reaches the terminal unescaped."""

from __future__ import annotations

import gc
import io
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agentgym_py.agents import ExpertAgent
from agentgym_py.cli import command_module, runtime
from agentgym_py.cli.json_output import stdout_for_results
from agentgym_py.collection import Collector, Job
from agentgym_py.env import EnvSpec
from agentgym_py.errors import RunError
from agentgym_py.escapes import EscapedStream, visible
from agentgym_py.trajectory import store

Run = Callable[..., tuple[int, str, str]]
EVIL = "\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\x7f\r\u202e\udc9b\0"
SHOWN = r"\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\x7f\x0d\u202e\udc9b\x00"


def clean(text: str) -> bool:
    """Whether a terminal obeys nothing in a text."""
    return all(character in "\n\t" or character.isprintable() or character.isspace() for character in text)


def test_a_text_is_shown_as_it_is() -> None:
    """Letters of any script, tabs and line feeds stay."""
    assert visible(EVIL) == SHOWN and clean(SHOWN) and not clean(EVIL)
    assert visible("Zähl auf\t日本\n🙂") == "Zähl auf\t日本\n🙂"


def by_print() -> None:
    """As most commands do."""
    print(EVIL)
    print(EVIL, file=sys.stderr)
    sys.stdout.writelines([EVIL])


def by_warning() -> None:
    """As readers do."""
    warnings.warn(EVIL, stacklevel=1)


def by_error() -> None:
    """The one line on stderr."""
    raise RunError(f"bad {EVIL} file")


def by_console() -> None:
    """The console of progress and results, with a table."""
    from rich.text import Text

    from agentgym_py.report.terminal import print_table

    runtime.console().print(EVIL, soft_wrap=True)
    runtime.console().print(Text(EVIL, style="bold"), soft_wrap=True)
    print_table(runtime.console(), ("a",), [(EVIL,)])


def by_json() -> None:
    """For programs."""
    runtime.print_json({"x": EVIL})


def says(say: Callable[[], None]) -> Callable[[Any], int]:
    """Make the body of a command that says it."""

    def run(args: Any) -> int:
        say()
        return 0

    return run


@pytest.mark.parametrize("say", [by_print, by_warning, by_error, by_console])
def test_every_way_out_is_escaped(say: Callable[[], None], agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a command does with a stranger's text."""
    monkeypatch.setattr(command_module("agents"), "run", says(say))
    _, out, err = agentgym("agents", "list")
    assert r"\x1b]52;c;aGk=" in out + err and clean(out + err), (out, err)


def test_json_stays_json(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its escapes are JSON's."""
    monkeypatch.setattr(command_module("agents"), "run", says(by_json))
    _, out, _ = agentgym("agents", "list")
    assert clean(out) and json.loads(out) == {"x": EVIL}


def test_the_colours_of_the_console_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not text."""
    from rich.text import Text

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", EscapedStream(terminal))
    runtime.console().print(Text("a\x1bb", style="bold"))
    assert terminal.getvalue() == "\x1b[1ma\\x1bb\x1b[0m\n"


def test_a_bug_s_traceback_is_escaped(tmp_path: Path) -> None:
    """In a process of its own, whose last word it is."""
    code = (
        "import sys; from agentgym_py import cli; cli._main = lambda words: 1 / 0 if 0 else int('\\x1b[2J' * 2)\n"
        "sys.exit(cli.main([]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1 and "ValueError" in done.stderr and clean(done.stderr)


def test_a_stored_episode_is_replayed_without_a_sound(agentgym: Run) -> None:
    """Its observations and errors are strangers' texts."""
    episode = Collector(ExpertAgent()).collect(Job(EnvSpec("maze"), 0))
    changed: Any = replace(episode, final_observation=EVIL.replace("\udc9b", ""))
    store.write("a.jsonl", [changed, replace(episode, id="b", error=EVIL.replace("\udc9b", ""))])
    status, out, err = agentgym("replay", "a.jsonl")
    assert status == 1 and clean(out + err) and r"\x1b]52" in out and r"\x1b]52" in err


def test_what_worlds_print_is_not_in_machine_readable_output(tmp_path: Path) -> None:
    """With --json, stdout is the command's alone: Python, C code and child processes of a world print to stderr."""
    world = Path(__file__).parents[1] / "misbehaving_env.py"
    argv = ["collect", "--env", str(world), "--env_kwargs.fault", "prints", "--agent", "random", "--tasks", "3"]
    program = "import sys; from agentgym_py.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, *argv, "--json", "--out", "t.jsonl"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["trajectories"] == 3 and "{" in done.stderr and "[" in done.stderr


def test_a_stream_without_a_descriptor_keeps_its_results(capsys: pytest.CaptureFixture[str]) -> None:
    """As in a notebook: what Python code prints meanwhile goes to stderr."""
    with stdout_for_results():
        print("noise")
        runtime.print_json({"reward": 1})
    print("after")
    out, err = capsys.readouterr()
    assert out == '{\n "reward": 1\n}\nafter\n' and err == "noise\n"


@pytest.mark.parametrize(
    ("is_terminal", "loaded", "said"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_the_import_of_torch_is_announced_at_a_terminal(
    is_terminal: bool, loaded: bool, said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes seconds; a pipe or a file gets no such line, nor does a process that has torch already."""
    import torch

    @contextmanager
    def loading() -> Iterator[None]:
        monkeypatch.setitem(sys.modules, "torch", torch)
        yield

    if not loaded:
        monkeypatch.delitem(sys.modules, "torch")
    text = io.StringIO()
    monkeypatch.setattr(
        runtime, "console", lambda **_: Console(file=text, force_terminal=is_terminal, color_system=None)
    )
    monkeypatch.setattr(runtime, "without_collections", loading)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    runtime.load_torch(torch.get_num_threads())
    assert text.getvalue() == ("Loading torch and transformers …\n" if said else "")
