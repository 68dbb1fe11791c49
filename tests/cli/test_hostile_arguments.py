"""Every argument of every command that takes text gets a device, a pipe, a sparse file, a folder and a loop of links.

The arguments come from the parsers, those of plugins and worlds included, so a new one is covered at once. A new
command needs a line in `WORK`.
"""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agentgym_py import registry
from agentgym_py.cli import COMMANDS, build_parser, main
from agentgym_py.cli.env_options import path_arguments
from agentgym_py.cli.parser import Option, Parser
from agentgym_py.env.registration import short_name

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes and devices of POSIX")
WORLD = "--env maze --env_kwargs.difficulty easy"
PLAY = f"{WORLD} --agent random --tasks 1"
MODEL = "--model tiny-random --max_new_tokens 2 --threads 1"
WORK: dict[str, tuple[str, str]] = {
    "evolve": ("", f"{WORLD} {MODEL} --rounds 1 --expert_tasks 2 --explore_tasks 2 --valid_tasks 1 --test_tasks 1 "
                   "--allow_empty --out out"),
    "fork": ("run@0", "--set rounds=2 --out out"),
    "collect": ("", f"{PLAY} --out out"),
    "judge": ("", "--data s.jsonl --source environment --out out"),
    "train": ("", "--data s.jsonl --model tiny-random --threads 1 --out out"),
    "eval": ("", f"{PLAY} --out out"),
    "compare": ("e e", ""),
    "faults": ("s.jsonl", ""),
    "attack": ("", f"{PLAY} --reward agent --generations 1 --out out"),
    "credit": ("", f"{PLAY} --estimators grpo --episodes 2 --continuations 1 --redraws 1 --group_size 2"),
    "export": ("run", "--out out"),
    "pipeline": ("p.yaml", "--list"),
    "envs list": ("", ""), "envs show": ("maze", ""), "trainers list": ("", ""), "trainers show": ("filtered_bc", ""),
    "agents list": ("", ""),
    "plan": ("", "--model tiny-random --max_context 64"),
    "tools index": ("", "--env tools --tasks 2 --measure_tasks 1 --epochs 1 --rows 8 --size 4 --threads 1 --out out"),
    "tools search": ("word", "--index index"),
    "check": ("maze", "--only card --episodes 1 --memory_episodes 1"),
    "certify": ("maze", "--only solvable --episodes 1 --memory_episodes 1 --out out"),
    "prove": ("filtered_bc", "--only nothing"),
    "play": ("maze", ""),
    "replay": ("s.jsonl", ""),
    "data verify": ("s.jsonl", ""), "data salvage": ("s.jsonl out", ""), "data convert": ("s.jsonl out", "--to store"),
    "report": ("run", ""),
    "view": ("s.jsonl", "--export out"),
    "serve": ("", "--env maze"),
    "mcp": ("", "--env tools --task 0"),
}  # fmt: skip
"""The positional arguments and options with which each command has little to do."""
GROUPS: dict[str, registry.Group] = {
    "trainer": "agentgym.trainers", "curriculum": "agentgym.curricula", "coreset": "agentgym.coresets",
    "source": "agentgym.feedback", "critic": "agentgym.feedback", "judge": "agentgym.feedback",
    "reflection": "agentgym.reflections",
}  # fmt: skip
"""The plugins of each option that names one."""
HOSTILE = ("zero", "pipe", "sparse", "folder", "loop")
MOST_MEMORY = 12 << 30
"""Address space, of which torch reserves several GiB."""
TIMERS = ((signal.SIGPROF, signal.ITIMER_PROF, 60), (signal.SIGALRM, signal.ITIMER_REAL, 300))
"""A command may take a minute of the processor, and longer only while the machine does other work."""
CONFIGURED = ("evolve", "collect", "judge", "train", "eval", "faults", "attack", "credit")
"""Commands with `--config`."""
SLOW = ("evolve", "fork", "tools index")
"""Commands that work for seconds with each text that they take."""


class Argument(NamedTuple):
    """An argument of a command."""

    command: str
    name: str
    """An option, or the number of a positional argument."""
    more: str = ""
    """Options that it needs."""
    world: str = "maze"
    """The world that it is an argument of."""

    def configured(self, value: str) -> list[str]:
        """Return a command line whose config file, c.yaml, sets the option to `value`."""
        words = self.words("DROPPED")
        settings: Any = value
        for part in reversed(self.name.split(".")):
            settings = {part: settings}
        Path("c.yaml").write_text(json.dumps(settings))
        return [*words[:-2], "--config", "c.yaml"]

    def words(self, value: str) -> list[str]:
        """Return a command line in which the argument is `value`."""
        positionals, options = (part.replace("maze", self.world).split() for part in WORK[self.command])
        if self.name.isdigit():
            at = positionals[int(self.name)].partition("@")[2]
            positionals[int(self.name)] = f"{value}@{at}" if at else value
            return [*self.command.split(), *positionals, *options, *self.more.split()]
        if f"--{self.name}" in options:
            at_option = options.index(f"--{self.name}")
            del options[at_option : at_option + 2]
        return [*self.command.split(), *positionals, *options, *self.more.split(), f"--{self.name}", value]


def parser_of(command: str) -> Parser:
    """Return the parser of a command or of a subcommand, such as `data verify`."""
    name, _, part = command.partition(" ")
    parser = build_parser(name, ())
    return parser.commands[part] if part else parser


def takes_text(option: Option) -> bool:
    """Whether an option takes the name of a file, or any other text."""
    try:
        option.read("/dev/zero")
    except Exception:
        return False
    return True


def arguments(command: str) -> Iterator[Argument]:
    """Yield every argument that takes text: positional ones, options, and those of plugins and worlds."""
    parser = parser_of(command)
    texts = [option.name for option in parser.options.values() if takes_text(option)]
    yield from (Argument(command, str(number)) for number in range(len(parser.positionals)))
    yield from (Argument(command, name.removesuffix(".name")) for name in texts)
    if "env_kwargs" in parser.options:
        for world in map(short_name, registry.names("agentgym.envs")):
            yield from (Argument(command, f"env_kwargs.{key}", world=world) for key in path_arguments(world))
    for key in [name.removesuffix(".name") for name in parser.options if name.endswith(".name")]:
        for plugin in registry.names(GROUPS[key]):
            chosen = f"--{key} {plugin}"
            for option in build_parser(command, chosen.split()).options.values():
                if option.name.startswith(f"{key}.") and option.name not in parser.options and takes_text(option):
                    yield Argument(command, option.name, chosen)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands read, and the hostile files."""
    folder = tmp_path_factory.mktemp("arguments")
    with chdir(folder):
        for words in (f"collect {PLAY} --out s.jsonl", f"eval {PLAY} --out e"):
            assert main(words.split()) == 0, words
        tables = {"out": "pipe-line", "stages": [{"stage": "collect", "agent": "random", "env": "maze", "tasks": 1}]}
        Path("p.yaml").write_text(str(tables))
        save_index("index")
        os.mkfifo("pipe")
        Path("zero").symlink_to("/dev/zero")  # what replaces it replaces the link
        with Path("sparse").open("wb") as file:
            file.truncate(1 << 40)
        Path("folder").mkdir()
        Path("folder/file").touch()
        Path("loop").symlink_to("loop")
    return folder


@pytest.fixture(scope="module")
def run(samples: Path) -> None:
    """A run among the samples."""
    pytest.importorskip("torch")
    with chdir(samples):
        assert main(["evolve", *WORK["evolve"][1].replace("--out out", "--out run").split()]) == 0


def save_index(name: str) -> None:
    """Save an index of one tool."""
    import numpy as np

    from agentgym_py.retrieval import ToolIndex

    ToolIndex.of({"get_weather": "the weather"}, np.ones((8, 4), np.float32)).save(name)


@pytest.fixture
def remove_outputs(samples: Path) -> Callable[[], None]:
    """Return a function that removes what a command has written."""

    def remove() -> None:
        for path in samples.glob("out*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return remove


@pytest.fixture(autouse=True)
def no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers end as soon as they would wait for clients, and a player as soon as it would wait for a person."""
    monkeypatch.setattr("agentgym_py.cli.serve.serve", lambda *_, **__: 0)
    monkeypatch.setattr("agentgym_py.cli.mcp._serve_stdio", lambda *_: 0)
    monkeypatch.setattr("agentgym_py.cli.mcp._serve_http", lambda *_: 0)
    monkeypatch.setattr("sys.stdin", io.StringIO())


def fault(words: list[str]) -> str:
    """Run a command line and return what is wrong with how it ended; empty if nothing is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    out, err = io.StringIO(), io.StringIO()
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, hard))
    for number, timer, seconds in TIMERS:
        signal.signal(number, lambda *_: pytest.fail("it does not end"))
        signal.setitimer(timer, seconds)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            status = main(words)
    except BaseException as error:
        return f"{type(error).__name__}: {error!s:.500}"
    finally:
        for number, timer, _ in TIMERS:
            signal.setitimer(timer, 0)
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    said = [line for line in err.getvalue().splitlines() if line and "warning" not in line]
    if status not in (0, 1, 2) or (status == 2 and (not said or not said[-1].startswith("agentgym: "))):
        return f"status {status}: {err.getvalue()[-500:]}"
    return f"a traceback: {err.getvalue()[-500:]}" if "Traceback" in err.getvalue() else ""


def test_every_command_has_work() -> None:
    """So that its arguments are tried, and those of its config file."""
    parsers = {name: build_parser(name, ()) for name in COMMANDS}
    names = [f"{name} {part}".strip() for name, parser in parsers.items() for part in parser.commands or [""]]
    assert list(WORK) == names
    assert set(CONFIGURED) == {name for name in WORK if "config" in parser_of(name).options}


@pytest.mark.parametrize("command", [pytest.param(c, marks=pytest.mark.slow) if c in SLOW else c for c in WORK])
def test_no_argument_hangs_or_fills_the_memory(
    command: str, samples: Path, request: pytest.FixtureRequest, remove_outputs: Callable[[], None]
) -> None:
    """The command refuses it in one line, or takes it as a text."""
    if WORK[command][0].startswith("run"):
        request.getfixturevalue("run")
    request.getfixturevalue("monkeypatch").chdir(samples)
    faults = []
    for argument in arguments(command):
        for value in HOSTILE:
            if wrong := fault(argument.words(value)):
                faults.append(f"agentgym {' '.join(argument.words(value))}\n{wrong}")
            remove_outputs()
    assert not faults, "\n\n".join(faults)


@pytest.mark.parametrize("command", [pytest.param(c, marks=pytest.mark.slow) if c in SLOW else c for c in CONFIGURED])
def test_no_option_of_a_config_writes_elsewhere(
    command: str, samples: Path, monkeypatch: pytest.MonkeyPatch, remove_outputs: Callable[[], None]
) -> None:
    """Whatever it sets: nothing appears beside the current folder, and nothing in it is replaced."""
    monkeypatch.chdir(samples)
    before, precious = set(samples.parent.iterdir()), samples / "precious.jsonl"
    for argument in arguments(command):
        if argument.name.isdigit() or argument.name == "config":
            continue
        for value in ("../elsewhere", str(precious)):
            precious.write_text("precious")
            fault(argument.configured(value))
            remove_outputs()
            assert set(samples.parent.iterdir()) == before, f"{command}: {argument.name} of a config writes elsewhere"
            assert precious.read_text() == "precious", f"{command}: {argument.name} of a config replaces a file"
