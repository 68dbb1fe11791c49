"""The command line `agentgym`: one module per command, with `options(parser)` and `run(args)`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentgym_py import distributed, trust
from agentgym_py.cli.interrupts import (
    INTERRUPTED,
    KILLED,
    Killed,
    interrupts_honoured,
    no_interrupt_lost,
    require_not_interrupted,
)
from agentgym_py.cli.json_output import stdout_for_results
from agentgym_py.errors import AgentGymError, RunError, WriteError, naming_options, setting
from agentgym_py.escapes import escaped_output
from agentgym_py.version import __version__

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser

COMMANDS = {
    "evolve": "Train an agent by AgentEvol: rounds of exploration, selection, training and evaluation.",
    "fork": "Fork a run after one of its rounds: other settings, the same tasks and random numbers.",
    "collect": "Collect trajectories of an agent.",
    "judge": "Judge stored trajectories: by the world, its expert, a language model or people's verdicts.",
    "train": "Train a model on stored trajectories.",
    "eval": "Evaluate an agent on held-out tasks, with 95 % intervals.",
    "compare": "Compare evaluations of agents or training algorithms: difference, 95 % interval, p-value.",
    "faults": "Locate the first fault of each failed episode: the step that lost it.",
    "attack": "Search for episodes that a reward or reward model overrates.",
    "credit": "Measure advantage estimators against the exact advantages of an agent.",
    "export": "Export a trained model to a folder, with merged adapters and a model card.",
    "pipeline": (
        "Run stages (sft, collect, judge, reward_model, rl, evaluate, export) that use the products of earlier ones."
    ),
    "envs": "List the installed worlds, or show one.",
    "trainers": "List the installed trainers, or show one with its settings.",
    "agents": "List the installed agents.",
    "plan": "Compute the memory that a model's playing and training take of a GPU, without its weights.",
    "tools": "Train an index that finds a world's tools by meaning, or search it.",
    "check": "Check that a world keeps the contract, and show what breaks it.",
    "certify": "Certify a world: solvable, learnable, not gameable, its splits apart; a JSON file and a badge.",
    "prove": "Prove a trainer: its gradients and its learning, against exact truth on a table.",
    "play": "Play a world yourself, in the terminal.",
    "replay": "Replay stored trajectories and report differences.",
    "data": "Verify trajectory files, salvage damaged ones, or convert them to another format.",
    "report": "Write the report.html of a run folder again.",
    "view": "View and judge trajectories in the browser, and continue from any step.",
    "serve": "Serve worlds over HTTP to clients in other processes.",
    "mcp": "Offer a world's tools to agents that speak the Model Context Protocol.",
}
"""Every command and its line of help."""
GROUPS = {
    "Train": ("evolve", "fork", "collect", "train", "pipeline", "export", "trainers", "plan"),
    "Measure": ("eval", "compare", "faults", "credit", "prove", "attack", "agents"),
    "Worlds": ("envs", "check", "certify", "play", "tools"),
    "Stored episodes": ("view", "judge", "report", "replay", "data"),
    "Serve": ("serve", "mcp"),
}
"""The commands as the help shows them."""

_DISTRIBUTED = ("evolve", "fork", "train")
"""Commands that several processes can run together."""
BAD_USAGE, BROKEN_PIPE = 2, 141
_MAX_WORD, _MAX_MESSAGE = 300, 8000
"""Longest word of an error message, such as a path, and longest message."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    2 means a user error, which one line on stderr names; 130 means Ctrl-C, 143 SIGTERM; 141 means that stdout was
    closed. A bug keeps its traceback.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    with escaped_output(), _short_warnings(), naming_options(), trust.naming(words):
        try:
            with interrupts_honoured(), distributed.rank_zero_output():
                status = _main(without_trusted(words))
                if status not in (INTERRUPTED, KILLED):
                    require_not_interrupted()  # a library swallowed it
            print(end="", flush=True)  # raises BrokenPipeError here instead of at shutdown
            return status
        except AgentGymError as error:
            return print_error(error)
        except KeyboardInterrupt as stop:
            print("\nagentgym: interrupted", file=sys.stderr)
            return interrupt_status(stop)
        except BrokenPipeError:  # `agentgym … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE
        except OSError as error:  # such as a missing file or a full disk
            return print_error(error)


def run_command(argv: Sequence[str]) -> None:
    """Run a command as `main` does, but raise its errors, which name settings as in Python.

    Raises:
        AgentGymError: a user error.
        KeyboardInterrupt: the command was interrupted.
    """
    from agentgym_py.policy.memory import unfreeze_afterwards

    with unfreeze_afterwards(), _short_warnings(), interrupts_honoured(), distributed.rank_zero_output():
        status = _main(argv)
    if status in (INTERRUPTED, KILLED):
        raise KeyboardInterrupt
    if status:
        raise RunError(f"agentgym {argv[0]} ended with status {status}")


def without_trusted(words: Sequence[str]) -> list[str]:
    """Remove `--trust NAME`, which every command takes: `trust` reads it.

    Raises:
        UsageError: it has no value.
    """
    kept = [word for word in words if not word.startswith("--trust=")]
    while "--trust" in kept:
        place = kept.index("--trust")
        if (following := kept[place + 1 : place + 2]) == [] or following[0].startswith("--"):
            from agentgym_py.cli.parser import UsageError

            raise UsageError(f"{setting('trust')} needs a value")
        del kept[place : place + 2]
    return kept


def build_parser(name: str, argv: Sequence[str]) -> Parser:
    """Return the parser of a command. Some options depend on others in `argv`, such as `--trainer`."""
    from agentgym_py.cli.parser import Parser

    parser = Parser(f"agentgym {name}", COMMANDS[name], argv)
    command_module(name).options(parser)
    for part in (parser, *parser.commands.values()):
        part.other_commands = partial(_commands_with, command=name)
    return parser


def _commands_with(option: str, command: str) -> list[str]:
    """Return the commands other than `command` that have an option."""
    others = (name for name in COMMANDS if name != command)
    return [name for name in others if build_parser(name, ()).find_option(option)]


def _root_parser() -> Parser:
    """Return the parser of `agentgym` itself, with the names and lines of help of its commands."""
    from agentgym_py.cli.parser import Parser

    parser = Parser("agentgym", "Text worlds and trainers for language-model agents.")
    for name, line in COMMANDS.items():
        parser.add_command(name, line)
    parser.command_groups = GROUPS
    return parser


def command_module(name: str) -> Any:
    """Import the module of a command."""
    return import_module(f"agentgym_py.cli.{name}")


def print_error(error: Exception) -> int:
    """Print an error in one line and return the exit status."""
    words = (_short(word, _MAX_WORD) for word in _message(error).split())
    print("agentgym: " + _short(" ".join(words), _MAX_MESSAGE), file=sys.stderr)
    return BAD_USAGE


def _short(text: str, most: int) -> str:
    """Cut what no reader would read, such as a number of 5,000 digits or a server's answer of megabytes."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 4 :]}"


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


@contextmanager
def write_errors_with(advice: Callable[[], str]) -> Iterator[None]:
    """Add to an error of writing, such as a full disk, how to resume the command when that is fixed.

    Nothing is added to an error that the same command meets again.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, WriteError) as error:
        if isinstance(error, AgentGymError) and not isinstance(error, WriteError):
            raise
        from agentgym_py.files import is_lasting

        hint = "" if is_lasting(error) else resume_hint(advice())
        raise WriteError(f"{_message(error)}{hint}") from error


def run_resumable(work: Callable[[], int], advice: Callable[[], str]) -> int:
    """Run a command that can be resumed; return its status, or that of an interrupt.

    Args:
        work: Runs the command.
        advice: Returns how to resume it, which is printed after an interrupt and added to an error of writing.
    """
    try:
        with write_errors_with(advice), no_interrupt_lost():
            return work()
    except KeyboardInterrupt as stop:
        if distributed.is_rank_zero():
            print_interrupted(advice())
        return interrupt_status(stop)


def _main(argv: Sequence[str]) -> int:
    from agentgym_py.cli.argv import normalize_argv
    from agentgym_py.cli.parser import HelpRequest, UsageError

    words = normalize_argv(argv)
    if words[:1] == ["help"]:
        words = [*(word for word in words[1:] if word != "help"), "--help"]
    name = words[0] if words else ""
    if name == "--version":
        print(f"agentgym {__version__}")
        return 0
    if not words:
        from agentgym_py.cli.help import help_text

        print(help_text(_root_parser(), False), end="", file=sys.stderr)
        return BAD_USAGE
    if distributed.world_size() > 1 and name in COMMANDS and name not in _DISTRIBUTED:
        count, several = distributed.world_size(), ", ".join(_DISTRIBUTED)
        raise UsageError(f"{name} runs in one process, but {count} were started; only {several} run in several")
    try:
        args = build_parser(name, words[1:]).parse(words[1:]) if name in COMMANDS else _root_parser().parse(words)
    except HelpRequest as request:
        from agentgym_py.cli.help import help_text

        print(help_text(request.parser, request.everything), end="")
        return 0
    if args.pop("print_config", False):
        from agentgym_py.cli.parser import config_text

        print(config_text(args), end="")
        return 0
    with stdout_for_results() if args.get("json") else nullcontext():
        return int(command_module(name).run(args))


_nested: ContextVar[bool] = ContextVar("nested", default=False)


@contextmanager
def nested_command() -> Iterator[None]:
    """Mark the commands within as parts of another command, which prints its own advice how to resume."""
    before = _nested.set(True)
    try:
        yield
    finally:
        _nested.reset(before)


def print_interrupted(advice: str, what: str = "interrupted") -> None:
    """Print that a command was interrupted, and how to resume it."""
    print(f"\n{what}{resume_hint(advice)}", file=sys.stderr)


def resume_hint(advice: str) -> str:
    """Return `; ADVICE` to append to a message, or an empty string without one or within `nested_command`."""
    return f"; {advice}" if advice and not _nested.get() else ""


def interrupt_status(stop: KeyboardInterrupt) -> int:
    """Return the exit status after Ctrl-C or SIGTERM."""
    return KILLED if isinstance(stop, Killed) else INTERRUPTED


@contextmanager
def _short_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: print(f"agentgym: warning: {message}", file=sys.stderr)
        yield
