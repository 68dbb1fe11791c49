"""`agentgym play`: play one episode in the terminal (`agentgym eval --agent person` evaluates a person)."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from agentgym_py.agents.human import list_actions, list_commands, next_line
from agentgym_py.cli.env_options import ENV_HELP, add_env_kwargs, env_spec, print_env_error
from agentgym_py.cli.parser import Parser, Values, read_options, suggestion
from agentgym_py.env import TextEnv
from agentgym_py.env.actions import from_keyboard, to_keyboard
from agentgym_py.env.arguments import parse_task, require_seed

COMMANDS = {
    ":actions": "lists the possible actions",
    ":hint": "shows the action of the expert",
    ":help": "lists the commands",
    ":quit": "leaves, like Ctrl-D",
}
"""Commands of `play`; no world has an action that begins with a colon."""
HELP = list_commands(COMMANDS)


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """The episode."""

    task: str | None = None
    """Id of the task (the first line shows it), or its number within the split; by default a random one."""
    split: str = "train"
    """Tasks to choose from."""
    seed: int | None = None
    """Seed that chooses the task; by default every call chooses another."""

    def __post_init__(self) -> None:
        if self.seed is not None:
            require_seed(self.seed)


def options(parser: Parser) -> None:
    """Add the options of `play`."""
    parser.add_positional("name", ENV_HELP)
    add_env_kwargs(parser)
    parser.add_dataclass(PlayOptions)


def run(args: Values) -> int:
    """Play one episode; return 1 if the world raises an error."""
    chosen, name = read_options(PlayOptions, args), args["name"]
    start: dict[str, Any] = {"split": chosen.split}
    if chosen.task is not None:
        task = parse_task(chosen.task)
        start = {"task": task} if isinstance(task, str) else start | {"task": task}
    try:
        with closing(env_spec(name, args["env_kwargs"]).make()) as env:
            observation, info = env.reset(seed=chosen.seed, options=start)
            print(f"{info['task_id']}. Write an action, or :help.\n")
            print(observation)
            _play(env)
    except Exception as error:  # a world may raise anything
        return print_env_error(error, name, f"; agentgym check {name} shows how to reproduce it")
    return 0


def _play(env: TextEnv) -> None:
    total = 0.0
    while not env.stop_reason:
        line = next_line(sys.stdout)
        if line is None or line == ":quit":
            print(f"You left after {_steps(env.steps)}.")
            return
        if line.startswith(":") or not line:
            print(_answer(env, line))
        else:
            observation, reward, *_, info = env.step(from_keyboard(line, env.tools()))
            total += reward
            print(observation)
            if not info["valid_action"] and f":{line}" in COMMANDS:
                print(f"(:{line} {COMMANDS[f':{line}']}.)")
    outcome = "Solved" if env.succeeded else "Not solved"
    print(f"{outcome}: reward {total:g} after {_steps(env.steps)}.")


def _answer(env: TextEnv, command: str) -> str:
    """Return the answer to a command of `play`."""
    if command == ":actions":
        return list_actions(env)
    if command == ":hint":
        return "\n".join(map(to_keyboard, env.expert()[:1])) or "The expert cannot solve the task from here."
    if command in ("", ":help"):
        return HELP
    return f"No command {command!r}{suggestion(command, COMMANDS)} (:help lists them.)"


def _steps(number: int) -> str:
    return f"{number} step{'' if number == 1 else 's'}"
