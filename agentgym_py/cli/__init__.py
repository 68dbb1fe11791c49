"""`agentgym`, the command line: one module a command, each with `options(parser, argv)` and `run(given)`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from agentgym_py import distributed
from agentgym_py.cli.interrupts import INTERRUPTED, KILLED, Killed, interrupts_honoured, note
from agentgym_py.errors import AgentGymError
from agentgym_py.version import __version__

COMMANDS = {
    "evolve": "Train an agent by AgentEvol: explore, select, train, evaluate, in rounds.",
    "collect": "Let an agent play tasks and store its trajectories.",
    "train": "Train a model on stored trajectories.",
    "eval": "Measure an agent on held-out tasks, with 95 % intervals.",
    "compare": "Compare evaluations: difference, 95 % interval, p; of agents, or of algorithms over training seeds.",
    "export": "Write a trained model as a folder for others, adapters merged, with a card of its provenance.",
    "pipeline": "Run stages (sft, collect, reward_model, rl, evaluate, export), each on what the one before made.",
    "envs": "List the installed worlds, or show one.",
    "check": "Check that a world keeps the contract; show what breaks it.",
    "play": "Play a world yourself, in the terminal.",
    "replay": "Run stored trajectories again and say whether they still hold.",
    "data": "Verify trajectory files, save what is whole of a damaged one, convert to another format.",
    "report": "Write a run folder's report.html again.",
    "view": "Look at trajectories in the browser, judge them, go on from any step.",
    "serve": "Serve worlds over HTTP, for clients in other processes.",
}
"""Every command and its line of help."""

_SHARED = ("evolve", "train")
"""Commands that several processes run together."""
BAD_USAGE, BROKEN_PIPE = 2, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status.

    2 for whatever the user can mend (one line on stderr says what), 130 after Ctrl-C, 141 where nobody reads any more;
    a defect keeps its traceback.
    """
    with _warnings_in_a_line():
        try:
            with interrupts_honoured(), distributed.together():
                status = _main(sys.argv[1:] if argv is None else argv)
            print(end="", flush=True)  # a pipe that nobody reads any more is noticed here, not after the end
            return status
        except AgentGymError as error:
            return print_error(error)
        except KeyboardInterrupt:
            print("\nagentgym: interrupted", file=sys.stderr)
            return INTERRUPTED
        except BrokenPipeError:  # `agentgym … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE
        except OSError as error:  # a disk, a folder or a file that is not as the user thinks
            return print_error(error)


def build(name: str, argv: Sequence[str]) -> tuple[Any, Any]:
    """The whole parser and the one of command `name`; only the latter's options are filled in."""
    from agentgym_py.cli.parser import add_command, add_commands, new_parser

    parser = new_parser("agentgym", "Text worlds and trainers for language-model agents.", version=__version__)
    commands = add_commands(parser, "agentgym", "command")
    chosen = parser
    for each, line in COMMANDS.items():
        command = add_command(commands, "agentgym", each, line)
        if each == name:
            chosen = command
            module(each).options(command, argv)
    return parser, chosen


def module(name: str) -> Any:
    """The module of a command."""
    return import_module(f"agentgym_py.cli.{name}")


def print_error(error: Exception) -> int:
    """Say in one line what is wrong; returns the exit status for it."""
    said = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        said = f"{error.filename}: {error.strerror}"
    print("agentgym: " + " ".join(said.split()), file=sys.stderr)
    return BAD_USAGE


def _main(argv: Sequence[str]) -> int:
    from agentgym_py.cli.parser import UsageError, humanize_parser_error, normalize_argv

    words = normalize_argv(argv)
    name = words[0] if words else ""
    if distributed.world() > 1 and name in COMMANDS and name not in _SHARED:
        raise UsageError(
            f"{name} runs in one process, and here are {distributed.world()}; in several run {', '.join(_SHARED)}"
        )
    parser, chosen = build(name, words[1:])
    try:
        given = parser.parse_args(words)
    except SystemExit as stop:  # --help and --version
        return stop.code if isinstance(stop.code, int) else 0
    except argparse.ArgumentError as error:
        inner = _inner(chosen, words[1:])
        known = [option for option in inner._option_string_actions if option.startswith("--")]
        known += _world_options(known, words[1:])
        said = humanize_parser_error(str(error), known, _choices(inner) or list(COMMANDS))
        if said == "no option --env":
            said += f"; a world is named without it: {inner.usage}"
        raise UsageError(f"{said}; see {inner.prog} --help") from error
    return int(module(name).run(given[name]))


def _world_options(options: Sequence[str], words: Sequence[str]) -> list[str]:
    """`--env_kwargs.difficulty` and the like, of the worlds that are named, for who writes `--difficulty`."""
    from agentgym_py.cli.env_options import arguments_of, envs_named_in

    if "--env_kwargs" not in options:
        return []
    named = envs_named_in(words) or ["shop"] * ("--env" in options and "--config" not in words)
    return [f"--env_kwargs.{key}" for name in named for key in arguments_of(name)]


def _inner(parser: Any, words: Sequence[str]) -> Any:
    """The parser of `envs show`, where the words are of that kind; else `parser`."""
    inner = _subcommands(parser).get(words[0]) if words else None
    return inner or parser


def _choices(parser: Any) -> list[str]:
    return list(_subcommands(parser))


def _subcommands(parser: Any) -> dict[str, Any]:
    return dict(parser._subcommands_action.choices) if parser._subcommands_action else {}


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """`kill` unwinds the stack as Ctrl-C does, so that the terminal gets its cursor back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    here = os.getpid()

    def leave(*_: object) -> None:
        if os.getpid() != here:  # a process that was forked meanwhile
            os._exit(KILLED)
        note(Killed)
        raise Killed

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


_part: ContextVar[bool] = ContextVar("part", default=False)


@contextmanager
def nested_command() -> Iterator[None]:
    """A command that runs within is part of another one, which says how to go on."""
    before = _part.set(True)
    try:
        yield
    finally:
        _part.reset(before)


def interrupted(advice: str, said: str = "interrupted") -> None:
    """Say that a command was interrupted, and how to go on."""
    print(f"\n{said}{resume_hint(advice)}", file=sys.stderr)


def resume_hint(advice: str) -> str:
    """What is added to a message to say how to go on; nothing where the command is part of another one."""
    return "" if _part.get() else f"; {advice}"


def status_of(stop: KeyboardInterrupt) -> int:
    """The exit status after Ctrl-C, or after SIGTERM where `sigterm_as_interrupt`."""
    return KILLED if isinstance(stop, Killed) else INTERRUPTED


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: print(f"agentgym: warning: {message}", file=sys.stderr)
        yield
