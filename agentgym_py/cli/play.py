"""`agentgym play`: a person plays in the terminal; `agentgym eval --agent person` measures one."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentgym_py.agents.human import list_actions, list_commands, next_line
from agentgym_py.cli.env_options import WORLD, add_env_kwargs, env_spec, print_env_error
from agentgym_py.cli.parser import read_options, suggestion
from agentgym_py.env import TextEnv
from agentgym_py.env.actions import from_keyboard, to_keyboard
from agentgym_py.env.base import require_seed

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values

COMMANDS = {
    ":actions": "lists what can be done here",
    ":hint": "shows what the expert would do",
    ":help": "shows this",
    ":quit": "leaves, as Ctrl-D does",
}
"""Words of `play` itself; no world has an action that begins with a colon."""
HELP = list_commands(COMMANDS)


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """The episode."""

    task: str | None = None
    """A task's id (the first line shows it), or its number within the split; by default one is drawn."""
    split: str = "train"
    """`train`, `valid` or `test`."""
    seed: int | None = None
    """Seed of the task that is drawn; by default another task each time."""

    def __post_init__(self) -> None:
        if self.seed is not None:
            require_seed(self.seed)


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `play` takes."""
    del argv
    parser.usage = "agentgym play NAME [options]"
    parser.add_positional("name", WORLD)
    add_env_kwargs(parser)
    parser.add_dataclass(PlayOptions)


def run(args: Values) -> int:
    """Play one episode; 1 where the world raises."""
    chosen, name = read_options(PlayOptions, args), args["name"]
    start: dict[str, Any] = {"split": chosen.split}
    if chosen.task is not None:
        numbered = re.fullmatch(r"-?\d+", chosen.task)
        start = start | {"task": int(chosen.task)} if numbered else {"task": chosen.task}  # an id says its split
    try:
        with closing(env_spec(name, args["env_kwargs"]).make()) as env:
            observation, info = env.reset(seed=chosen.seed, options=start)
            print(f"{info['task_id']}. Write an action, or :help.\n")
            print(observation)
            _play(env)
    except Exception as error:  # a world may raise anything
        return print_env_error(error, name, f"; agentgym check {name} shows the way there")
    return 0


def _play(env: TextEnv) -> None:
    total = 0.0
    while not env.stop_reason:
        said = next_line(sys.stdout)
        if said is None or said == ":quit":
            print(f"You left after {_steps(env.steps)}.")
            return
        if said.startswith(":") or not said:
            print(_answer(env, said))
        else:
            observation, reward, *_ = env.step(from_keyboard(said, env.tools()))
            total += reward
            print(observation)
    outcome = "Solved" if env.succeeded else "Not solved"
    print(f"{outcome}: reward {total:g} after {_steps(env.steps)}.")


def _answer(env: TextEnv, command: str) -> str:
    """What `play` itself says to one of its commands."""
    if command == ":actions":
        return list_actions(env)
    if command == ":hint":
        return "\n".join(map(to_keyboard, env.expert()[:1])) or "The expert knows no way from here."
    if command in ("", ":help"):
        return HELP
    return f"No command {command!r}{suggestion(command, COMMANDS)} (:help lists them.)"


def _steps(number: int) -> str:
    return f"{number} step{'' if number == 1 else 's'}"
