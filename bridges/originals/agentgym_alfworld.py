"""AgentALFWorld-v0: ALFWorld's text games themselves, from the package alfworld.

agentgym eval --env alfworld --env_kwargs.games json_2.1.1 --agent expert
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Literal

from agentgym_originals import OriginalEnv, import_original

from agentgym_py.env import Reply
from agentgym_py.env.foreign import ForeignTurn
from agentgym_py.errors import ConfigError

FOLDERS: Mapping[str, str] = {"train": "train", "valid": "valid_seen", "test": "valid_unseen"}
"""ALFWorld's names of our splits."""


class ALFWorldEnv(OriginalEnv):
    """AgentALFWorld-v0: the games of ALFWorld's data in its own text engine.

    The data are not part of the package: `alfworld-download` fetches them. Nothing is downloaded here.

    Task: a game, a file `*.tw-pddl`. The splits train, valid and test are ALFWorld's train, valid_seen and
    valid_unseen; in a folder without these, all games are training tasks. As in ALFWorld, games of sliced things and
    movable receptacles are left out.

    Actions: ALFWorld's commands, such as `go to desk 1`, `take pen 2 from desk 1`. The observation is ALFWorld's.

    Reward: 1 for the goal; else 0. Success is the goal, which ends the episode. `max_steps` truncates.

    Expert: ALFWorld's planner, from any state; or its handcoded expert, which names one action at a time, must see the
    episode from its start and reads `traj_data.json` beside the game.

    Snapshots: by repeating the commands. ALFWorld is deterministic.

    Args:
        games: folder of the games, such as `json_2.1.1`.
        expert: `planner` or `handcoded`.
        max_steps: step limit; ALFWorld's is 50.
        split: where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    Registered ids: AgentALFWorld-v0.
    """

    name: ClassVar[str] = "alfworld"
    max_return: ClassVar[float | None] = 1.0
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "You do a task in a household. Each turn you do one command: go to X, open X, close X, take X from Y, "
            "move X to Y, examine X, use X, heat X with Y, cool X with Y, clean X with Y, slice X with Y, inventory, "
            "look. Things have numbers, such as desk 1.\n"
            "Answer in this form:\nThought: why\nAction: command"
        ),
        "brief": "Do the task by commands such as go to X, open X, take X from Y, move X to Y.",
        "none": "",
    }

    def __init__(
        self, *, games: str | Path, expert: Literal["planner", "handcoded"] = "planner", max_steps: int = 50,
        split: str = "train", render_mode: str | None = None,
    ) -> None:  # fmt: skip
        self.textworld = import_original("AgentALFWorld-v0", "alfworld", "textworld")
        import_original("AgentALFWorld-v0", "textworld[pddl]", "fast_downward")
        self.engine = import_original("AgentALFWorld-v0", "alfworld", "alfworld.agents.environment.alfred_tw_env")
        self.folder, self.expert_type = Path(games), expert
        if not any(self.games.values()):
            raise ConfigError(f"{games}: no *.tw-pddl in it; alfworld-download fetches ALFWorld's games")
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)

    @cached_property
    def games(self) -> Mapping[str, list[Path]]:
        """The games of each split."""
        found = [
            path for path in sorted(self.folder.rglob("*.tw-pddl"))
            if not any("movable" in part or "Sliced" in part for part in path.relative_to(self.folder).parts)
        ]  # fmt: skip
        by_split = {
            split: [path for path in found if path.relative_to(self.folder).parts[0] == folder]
            for split, folder in FOLDERS.items()
        }
        return by_split if any(by_split.values()) else {"train": found, "valid": [], "test": []}

    @property
    def files_digest(self) -> str | None:
        """Return the digest of the current task's game."""
        if self.current_task is None:
            return None
        number = int(self.current_task.id.rpartition("/")[2])
        return sha256(self.games[self.current_task.split][number].read_bytes()).hexdigest()

    def task_count(self, split: str) -> int:
        """Return the number of games in a split."""
        return len(self.games[split])

    def connect(self) -> Session:
        """Open an engine, which starts with its first game."""
        return Session(self)


class Session:
    """An engine with one game."""

    def __init__(self, env: ALFWorldEnv) -> None:
        self._env = env
        self._pddl: Any = None
        self._game: Any = None
        self._state: Any = None

    def reset(self, split: str, number: int) -> str:
        """Start a game."""
        engine, textworld = self._env.engine, self._env.textworld
        infos = textworld.EnvInfos(won=True, admissible_commands=True)
        self._pddl = textworld.envs.PddlEnv(infos)
        self._game = engine.AlfredDemangler(self._pddl, shuffle=False)
        if self._env.expert_type == "handcoded":
            self._game = engine.AlfredExpert(self._game, expert_type="handcoded")
        self._game.load(str(self._env.games[split][number]))
        self._state = self._game.reset()
        return str(self._state.feedback)

    def step(self, reply: Reply, text: str) -> ForeignTurn:
        """Do a command."""
        del text
        command = "" if reply.action_input is not None else reply.action
        listed = command.strip() in self._state["admissible_commands"]
        self._state, _, _ = self._game.step(command)
        won = bool(self._state["won"])
        return ForeignTurn(str(self._state.feedback), float(won), won, success=won, valid=listed)

    def actions(self) -> list[str]:
        """Return the admissible commands."""
        return list(self._state["admissible_commands"])

    def plan(self) -> list[str]:
        """Return the planner's commands, or the next one of the handcoded expert."""
        if self._env.expert_type == "handcoded":
            return list(self._state["extra.expert_plan"])
        return list(self._pddl._pddl_state.replan(self._pddl._entity_infos))

    def close(self) -> None:
        """Close the game."""
        if self._game is not None:
            self._game.close()
