"""A person as an agent, who types actions at the terminal or sends them through a pipe, one per line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, TextIO

from agentgym_py.agents.base import AgentReply, Episode
from agentgym_py.env import TextEnv
from agentgym_py.env.actions import from_keyboard, to_keyboard
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.types import opening_text

COMMANDS = {
    ":actions": "lists the actions",
    ":skip": "gives this episode up",
    ":help": "shows this help",
    ":quit": "ends the evaluation, like Ctrl-D; finished episodes are kept",
}
"""Commands of the agent itself; no action of a world begins with a colon."""
_HINTS = 8
"""How many valid actions are shown with an observation."""


class PersonAgent:
    """You: shows each observation and some valid actions on stderr, and reads one action per line from stdin.

    A tool call is typed in one line: `name {"argument": 1}`. Ctrl-D and the end of a pipe raise KeyboardInterrupt, as
    Ctrl-C does. It never shows what an expert would do.
    """

    name = "person"
    policy_digest: str | None = None
    slots = 1

    def __init__(self) -> None:
        self.sampling: dict[str, Any] = {}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Return what is typed, or None for `:skip`."""
        return [self._reply(episode) for episode in episodes]

    def _reply(self, episode: Episode) -> AgentReply | None:
        env, text = episode.env, episode.observation
        if not episode.steps:
            text = f"{episode.task.id}. Write an action, or :help.\n\n{opening_text(episode.rules, text)}"
        _print("", text, *_hints(env))
        while (line := next_line(sys.stderr)) is not None and line != ":quit":
            if line == ":skip":
                return None
            if line and not line.startswith(":"):
                return AgentReply(from_keyboard(line, env.tools()))
            _print(list_actions(env) if line == ":actions" else list_commands(COMMANDS))
        raise KeyboardInterrupt

    def show_end(self, trajectory: Trajectory) -> None:
        """Show how an episode ended."""
        outcome = "Solved" if trajectory.success else "Given up" if trajectory.given_up else "Not solved"
        _print(trajectory.final_observation if trajectory.steps else "", f"{outcome}: reward {trajectory.reward:g}.")


def next_line(out: TextIO) -> str | None:
    """Read a line from stdin, stripped; None at the end. A line from a pipe is echoed on `out`."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        with suppress(ImportError):  # makes the arrow keys work in `input`
            import readline  # noqa: F401
        try:
            return input("> ").strip()
        except EOFError:
            print(file=out)
            return None
    if sys.stdin.isatty():
        print("> ", end="", file=out, flush=True)
    line = sys.stdin.readline()
    if not line:
        return None
    if not sys.stdin.isatty():
        print(f"> {line.strip()}", file=out)
    return line.strip()


def list_actions(env: TextEnv) -> str:
    """Return the actions, one per line, in typed form."""
    actions = env.actions()
    return "This world does not list its actions." if actions is None else "\n".join(map(to_keyboard, actions))


def list_commands(commands: Mapping[str, str]) -> str:
    """Return the help for commands, one per line."""
    return "\n".join(
        [*(f"{name:9} {description}" for name, description in commands.items()), "Anything else is an action."]
    )


def _hints(env: TextEnv) -> Iterator[str]:
    actions = env.actions() or []
    yield from (f"  {to_keyboard(action)}" for action in islice(actions, _HINTS))
    if len(actions) > _HINTS:
        yield f"  … and {len(actions) - _HINTS} more: :actions"


def _print(*lines: str) -> None:
    print(*lines, sep="\n", file=sys.stderr)
