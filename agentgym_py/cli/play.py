"""`agentgym play`: a person plays in the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentgym_py.actions import entered, one_line
from agentgym_py.cli.common import WORLD, env_spec
from agentgym_py.cli.parser import add_options, meant, read_options
from agentgym_py.env import TextEnv

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

COMMANDS = {
    ":actions": "lists what can be done here",
    ":hint": "shows what the expert would do",
    ":help": "shows this",
    ":quit": "leaves, as Ctrl-D does",
}
"""Words of `play` itself; no world has an action that begins with a colon."""
HELP = "\n".join([*(f"{name:9} {what}" for name, what in COMMANDS.items()), "Anything else is an action."])


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """The episode."""

    task: str | None = None
    """A task's id (the first line shows it), or its number within the split; by default one is drawn."""
    split: str = "train"
    """`train`, `valid` or `test`."""
    seed: int | None = None
    """Seed of the task that is drawn; by default another task each time."""


def options(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """Add what `play` takes."""
    del argv
    parser.usage = "agentgym play NAME [options]"
    parser.add_argument("name", metavar="NAME", help=WORLD)
    parser.add_argument(
        "--env_kwargs", type=dict[str, Any], default={}, metavar="NAME VALUE",
        help="Arguments of the world, as --env_kwargs.difficulty hard.",
    )  # fmt: skip
    add_options(parser, PlayOptions)


def run(given: Namespace) -> int:
    """Play one episode."""
    chosen = read_options(PlayOptions, given)
    env = env_spec(given["name"], given["env_kwargs"]).make()
    start: dict[str, Any] = {"split": chosen.split}
    if chosen.task is not None:
        start["task"] = int(chosen.task) if re.fullmatch(r"-?\d+", chosen.task) else chosen.task
    observation, info = env.reset(seed=chosen.seed, options=start)
    print(f"{info['task_id']}. Write an action, or :help.\n")
    print(observation)
    _play(env)
    return 0


def _play(env: TextEnv) -> None:
    total = 0.0
    while not env.ended:
        said = _said()
        if said is None or said == ":quit":
            print(f"You left after {_steps(env.steps)}.")
            return
        if said.startswith(":") or not said:
            print(_answer(env, said))
        else:
            observation, reward, *_ = env.step(entered(said, env.tools()))
            total += reward
            print(observation)
    outcome = "Solved" if env.succeeded else "Not solved"
    print(f"{outcome}: reward {total:g} after {_steps(env.steps)}.")


def _said() -> str | None:
    """The next line, without spaces around it; None where there are no more. A pipe's is shown, as a terminal does."""
    if sys.stdin.isatty():
        with suppress(ImportError):  # with it `input` knows the arrow keys
            import readline  # noqa: F401
        try:
            return input("> ").strip()
        except EOFError:
            print()
            return None
    line = sys.stdin.readline()
    if not line:
        return None
    print(f"> {line.strip()}")
    return line.strip()


def _answer(env: TextEnv, command: str) -> str:
    """What `play` itself says to one of its commands."""
    if command == ":actions":
        actions = env.actions()
        return "This world does not list its actions." if actions is None else "\n".join(map(one_line, actions))
    if command == ":hint":
        return "\n".join(map(one_line, env.expert()[:1])) or "The expert knows no way from here."
    if command in ("", ":help"):
        return HELP
    return f"No command {command!r}{meant(command, COMMANDS)}; :help lists them."


def _steps(number: int) -> str:
    return f"{number} step{'' if number == 1 else 's'}"
