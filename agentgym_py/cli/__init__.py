"""`agentgym`, the command line: one module a command, each with `options(parser, argv)` and `run(args)`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentgym_py import distributed
from agentgym_py.cli.interrupts import INTERRUPTED, KILLED, Killed, interrupts_honoured, note
from agentgym_py.errors import AgentGymError, RunError
from agentgym_py.version import __version__

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser

COMMANDS = {
    "evolve": "Train an agent by AgentEvol: explore, select, train, evaluate, in rounds.",
    "collect": "Let an agent play tasks and store its trajectories.",
    "train": "Train a model on stored trajectories.",
    "eval": "Measure an agent on held-out tasks, with 95 % intervals.",
    "compare": "Compare evaluations: difference, 95 % interval, p; of agents, or of algorithms over training seeds.",
    "export": "Write a trained model as a folder for others, adapters merged, with a card of its provenance.",
    "pipeline": "Run stages (sft, collect, reward_model, rl, evaluate, export), each on what the one before made.",
    "envs": "List the installed worlds, or show one.",
    "trainers": "List the installed trainers, or show one with its settings.",
    "agents": "List the installed agents.",
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

    2 for a mistake of the user (one line on stderr names it), 130 after Ctrl-C, 141 when stdout is closed. A defect
    keeps its traceback.
    """
    with _warnings_in_a_line():
        try:
            with interrupts_honoured(), distributed.rank_zero_output():
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


def run_command(argv: Sequence[str]) -> None:
    """Run a command as `main` does, but raise its errors.

    Raises:
        AgentGymError: whatever the user can mend.
        KeyboardInterrupt: it was interrupted.
    """
    with _warnings_in_a_line(), interrupts_honoured(), distributed.rank_zero_output():
        status = _main(argv)
    if status in (INTERRUPTED, KILLED):
        raise KeyboardInterrupt
    if status:
        raise RunError(f"agentgym {argv[0]} ended with status {status}")


def build(name: str, argv: Sequence[str]) -> Parser:
    """The parser of command `name`; some options depend on others that stand in `argv`."""
    from agentgym_py.cli.parser import Parser

    parser = Parser(f"agentgym {name}", COMMANDS[name])
    module(name).options(parser, argv)
    return parser


def root() -> Parser:
    """The parser of `agentgym` itself, with the commands' names and lines of help alone."""
    from agentgym_py.cli.parser import Parser

    parser = Parser("agentgym", "Text worlds and trainers for language-model agents.")
    for name, line in COMMANDS.items():
        parser.add_command(name, line)
    return parser


def module(name: str) -> Any:
    """The module of a command."""
    return import_module(f"agentgym_py.cli.{name}")


def print_error(error: Exception) -> int:
    """Print in one line what is wrong; returns the exit status."""
    message = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        message = f"{error.filename}: {error.strerror}"
    print("agentgym: " + " ".join(message.split()), file=sys.stderr)
    return BAD_USAGE


def _main(argv: Sequence[str]) -> int:
    from agentgym_py.cli.parser import HelpRequest, UsageError, normalize_argv

    words = normalize_argv(argv)
    name = words[0] if words else ""
    if name == "--version":
        print(f"agentgym {__version__}")
        return 0
    if distributed.world_size() > 1 and name in COMMANDS and name not in _SHARED:
        raise UsageError(
            f"{name} runs in one process, and here are {distributed.world_size()}; in several run {', '.join(_SHARED)}"
        )
    try:
        args = (build(name, words[1:]).parse(words[1:])) if name in COMMANDS else root().parse(words)
    except HelpRequest as request:
        from agentgym_py.cli.help import help_text

        print(help_text(request.parser, request.everything), end="")
        return 0
    if args.pop("print_config", False):
        from agentgym_py.cli.parser import config_text

        print(config_text(args), end="")
        return 0
    return int(module(name).run(args))


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Make SIGTERM unwind the stack as Ctrl-C does, so that the terminal gets its cursor back."""
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


_nested: ContextVar[bool] = ContextVar("nested", default=False)


@contextmanager
def nested_command() -> Iterator[None]:
    """Commands that run within are part of another one, which says itself how to resume."""
    before = _nested.set(True)
    try:
        yield
    finally:
        _nested.reset(before)


def interrupted(advice: str, what: str = "interrupted") -> None:
    """Print that a command was interrupted, and how to resume it."""
    print(f"\n{what}{resume_hint(advice)}", file=sys.stderr)


def resume_hint(advice: str) -> str:
    """How to resume, to be added to a message; empty when the command is part of another one."""
    return "" if _nested.get() else f"; {advice}"


def status_of(stop: KeyboardInterrupt) -> int:
    """The exit status after Ctrl-C, or after SIGTERM where `sigterm_as_interrupt`."""
    return KILLED if isinstance(stop, Killed) else INTERRUPTED


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: print(f"agentgym: warning: {message}", file=sys.stderr)
        yield
