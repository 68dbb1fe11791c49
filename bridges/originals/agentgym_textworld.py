"""AgentTextWorld-v0: TextWorld itself, from the package textworld.

agentgym eval --env textworld --env_kwargs '{challenge: treasure_hunter, settings: {level: 12}}' --agent expert
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from agentgym_originals import OriginalEnv, import_original
from agentgym_textworld_games import CHALLENGES, game_file, quiet

from agentgym_py.env import SPLITS, Reply
from agentgym_py.env.arguments import require_choice
from agentgym_py.env.foreign import ForeignTurn

INFOS = (
    "admissible_commands", "description", "lost", "max_score", "objective", "policy_commands", "score", "won",
)  # fmt: skip
"""What TextWorld tells beside its observation."""
_WORD = 9
"""Characters of a word that the interpreter reads."""
_META = frozenset(word[:_WORD] for word in (
    "o", "oops", "q", "quit", "recording", "replay", "restart", "restore", "save", "script", "transcript", "undo",
    "unscript",
))  # fmt: skip
"""Commands to the interpreter: some would write files, take an action back, or mend the last command into another."""
_COMMAND = re.compile(r"[a-z0-9' -]{1,200}")
"""A full stop or comma would begin another command in the same line, and so would a return, which is `\\_` there."""


def is_command(text: str) -> bool:
    """Return whether a text in lower case is one command, and none to the interpreter."""
    words = text.split()
    return bool(_COMMAND.fullmatch(text) and words) and words[0][:_WORD] not in _META and "then" not in words


class TextWorldEnv(OriginalEnv):
    """AgentTextWorld-v0: games that TextWorld's own challenges generate and its interpreter runs.

    Task: the game of seed 3 N, 3 N + 1 and 3 N + 2 in the splits train, valid and test. `cooking` and `simple` have
    splits of their own, which are used, too. A game is compiled at its first reset, which takes a second or more.

    Actions: TextWorld's commands, such as `go north`, `take coin`, `open chest`. Commands to the interpreter, such as
    `save` and `undo`, are invalid. So are several commands in one line, such as `look. look`.

    Observation: TextWorld's, without its title and status line. The first one has the objective.

    Reward: the gain of the score, as a share of the largest one. Success is a game that is won.

    End: the game is won or lost; `max_steps` truncates. An action that TextWorld does not list counts as invalid.

    Expert: TextWorld's policy from any state.

    Snapshots: by repeating the commands. TextWorld's games are deterministic.

    Args:
        challenge: `coin_collector`, `treasure_hunter`, `simple` or `cooking`.
        settings: such as {"level": 12}; the others keep their defaults, `CHALLENGES` of agentgym_textworld_games.
        max_steps: step limit.
        split: where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    Registered ids: AgentTextWorld-v0.
    """

    name: ClassVar[str] = "textworld"
    max_return: ClassVar[float | None] = 1.0
    id_arguments: ClassVar[tuple[str, ...]] = ("challenge", "settings")
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "You play a text adventure. Each turn you do one command, such as: look, inventory, go north, open X, "
            "close X, take X, take X from Y, drop X, put X on Y, insert X into Y, unlock X with Y, lock X with Y, "
            "examine X, eat X, cook X with Y, slice X with Y, prepare meal.\n"
            "Answer in this form:\nThought: why\nAction: command"
        ),
        "brief": "Play the text adventure by commands such as go north, open X, take X, put X on Y.",
        "none": "",
    }

    def __init__(
        self, *, challenge: str = "treasure_hunter", settings: Mapping[str, Any] | None = None, max_steps: int = 100,
        split: str = "train", render_mode: str | None = None,
    ) -> None:  # fmt: skip
        require_choice("challenge", challenge, list(CHALLENGES))
        for key in settings or {}:
            require_choice("a key of settings", key, list(CHALLENGES[challenge]))
        self.textworld = import_original("AgentTextWorld-v0", "textworld", "textworld")
        self.challenge, self.settings = challenge, dict(settings or {})
        changed = [f"{key}={value}" for key, value in sorted((settings or {}).items())]
        level = ":".join([challenge, *([",".join(changed)] if changed else [])])
        super().__init__(max_steps=max_steps, level=level, split=split, render_mode=render_mode)

    def task_count(self, split: str) -> int:
        """Return the number of tasks in a split: TextWorld's seeds have 32 bits."""
        return (1 << 32) // len(SPLITS)

    def connect(self) -> Session:
        """Open an interpreter."""
        return Session(self)


class Session:
    """An interpreter with one game."""

    def __init__(self, env: TextWorldEnv) -> None:
        self._env = env
        self._infos = env.textworld.EnvInfos(**dict.fromkeys(INFOS, True))
        self._game: Any = None
        self._state: Any = None

    def reset(self, split: str, number: int) -> str:
        """Start a game."""
        self.close()
        env = self._env
        file = game_file(env.textworld, env.challenge, env.settings, split, number)
        with quiet():
            self._game = env.textworld.start(file, self._infos)
            self._state = self._game.reset()
        return _tidy(f"{self._state.objective}\n\n{self._state.description}")

    def step(self, reply: Reply, text: str) -> ForeignTurn:
        """Do a command."""
        del text
        command, before = " ".join(reply.action.lower().split()), self._state
        if reply.action_input is not None or not is_command(command):
            return ForeignTurn("Not a command. Write for example: look, go north, take X.", valid=False)
        self._state, _, _ = self._game.step(command)
        reward = (self._state.score - before.score) / max(1, self._state.max_score)
        won, valid = bool(self._state.won), command in before.admissible_commands
        return ForeignTurn(_tidy(self._state.feedback), reward, won or bool(self._state.lost), success=won, valid=valid)

    def actions(self) -> list[str]:
        """Return the admissible commands."""
        return list(self._state.admissible_commands)

    def plan(self) -> list[str]:
        """Return TextWorld's policy."""
        return list(self._state.policy_commands or [])

    def close(self) -> None:
        """Close the game."""
        if self._game is not None:
            self._game.close()


def _tidy(text: str) -> str:
    """Remove the prompt with its status line, and empty lines."""
    return re.sub(r"\s*\n\s*\n\s*", "\n\n", re.sub(r"\n> .*", "", text)).strip()
