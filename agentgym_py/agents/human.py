"""A person as an agent: acts are typed at the terminal, or come through a pipe, a line each."""

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
    ":actions": "lists what can be done here",
    ":skip": "gives this episode up",
    ":help": "shows this",
    ":quit": "ends the evaluation, as Ctrl-D does; episodes that are over are kept",
}
"""Words of the agent itself; no world has an action that begins with a colon."""
_HINTS = 8
"""Valid actions that are shown unasked."""


class PersonAgent:
    """You: it shows each observation on stderr with some of the valid actions, and reads an action a line from stdin.

    Tool calls may stand in one line: `name {"argument": 1}`. At Ctrl-D or the end of a pipe it raises
    KeyboardInterrupt, as Ctrl-C does. It never shows what an expert would do.
    """

    name = "person"
    policy_digest: str | None = None
    slots = 1

    def __init__(self) -> None:
        self.sampling: dict[str, Any] = {}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """What is typed, or None for an episode that is given up."""
        return [self._reply(episode) for episode in episodes]

    def _reply(self, episode: Episode) -> AgentReply | None:
        env, seen = episode.env, episode.observation
        if not episode.steps:
            seen = f"{episode.task.id}. Write an action, or :help.\n\n{opening_text(episode.rules, seen)}"
        _say("", seen, *_hints(env))
        while (said := next_line(sys.stderr)) is not None and said != ":quit":
            if said == ":skip":
                return None
            if said and not said.startswith(":"):
                return AgentReply(from_keyboard(said, env.tools()))
            _say(listed(env) if said == ":actions" else helped(COMMANDS))
        raise KeyboardInterrupt

    def tell(self, trajectory: Trajectory) -> None:
        """Show how an episode ended."""
        outcome = "Solved" if trajectory.success else "Given up" if trajectory.given_up else "Not solved"
        _say(trajectory.final_observation * bool(trajectory.steps), f"{outcome}: reward {trajectory.reward:g}.")


def next_line(out: TextIO) -> str | None:
    """The next line of stdin, without spaces around it; None where there are no more. A pipe's is shown on `out`."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        with suppress(ImportError):  # with it `input` knows the arrow keys
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


def listed(env: TextEnv) -> str:
    """What can be done here, an action a line as a person enters it."""
    actions = env.actions()
    return "This world does not list its actions." if actions is None else "\n".join(map(to_keyboard, actions))


def helped(commands: Mapping[str, str]) -> str:
    """The commands, a line each."""
    return "\n".join([*(f"{name:9} {what}" for name, what in commands.items()), "Anything else is an action."])


def _hints(env: TextEnv) -> Iterator[str]:
    actions = env.actions() or []
    yield from (f"  {to_keyboard(each)}" for each in islice(actions, _HINTS))
    if len(actions) > _HINTS:
        yield f"  … and {len(actions) - _HINTS} more: :actions"


def _say(*lines: str) -> None:
    print(*lines, sep="\n", file=sys.stderr)
