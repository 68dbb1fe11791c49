"""AgentBabyAI-v0: BabyAI itself, from the package minigrid.

agentgym eval --env babyai --env_kwargs.level GoToLocal --agent expert
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

import gymnasium
from agentgym_babyai_view import Names, describe
from agentgym_originals import OriginalEnv, import_original, seed_of_task

from agentgym_py.env import Reply
from agentgym_py.env.arguments import require_choice
from agentgym_py.env.foreign import ForeignTurn

MOVES = ("turn left", "turn right", "move forward", "pick up", "drop", "toggle")
"""In the order of BabyAI's numbers."""


class BabyAIEnv(OriginalEnv):
    """AgentBabyAI-v0: BabyAI's own levels, missions, moves, view, reward and bot, told in words.

    Task: a mission of a level. Task N of the splits train, valid and test is the episode of seed 3 N, 3 N + 1 and
    3 N + 2: BabyAI has no splits.

    Actions: `turn left`, `turn right`, `move forward`, `pick up`, `drop`, `toggle`. They act on the cell ahead.

    Observation: at the start the mission. Then the things in view, the nearest first, the free cells ahead, to the left
    and to the right, and what is carried: BabyAI's 7 x 7 cells in words, as AgentGrid-v0 tells them.

    Reward: BabyAI's: on success 1 - 0.9 t / T for t moves of at most T; else 0.

    End: the mission is done; BabyAI's limit T truncates, and so does `max_steps`.

    Luck: random moves often solve a small level, so `random_baseline` is 95 %.

    Expert: BabyAI's bot, which knows what it has seen. It gives up when a box is opened: its plan is empty then.

    Snapshots: by repeating the moves. BabyAI is deterministic.

    Args:
        level: such as `GoToRedBall`, `BossLevel`: an id of minigrid without `BabyAI-` and the version.
        max_steps: step limit; BabyAI's own, at most 4,608 moves, comes first by default.
        split: where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    Registered ids: AgentBabyAI-v0.
    """

    name: ClassVar[str] = "babyai"
    max_return: ClassVar[float | None] = 1.0
    id_arguments: ClassVar[tuple[str, ...]] = ("level",)
    random_baseline: float = 0.95
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "You are in a room of a grid of rooms and carry out a mission. You see the cells ahead of you, not through "
            "walls and closed doors. Each turn you do one action: turn left, turn right, move forward, pick up, drop "
            "or toggle. The last three act on the cell ahead. You carry one thing. toggle opens or closes a door and "
            "opens a box, which is gone then. A locked door opens if you carry a key of its colour.\n"
            "Answer in this form:\nThought: why\nAction: move forward, or another action"
        ),
        "brief": f"Carry out the mission by {', '.join(MOVES)}.",
        "none": "",
    }

    def __init__(
        self, *, level: str = "GoToLocal", max_steps: int = 5_000, split: str = "train", render_mode: str | None = None
    ) -> None:
        import_original("AgentBabyAI-v0", "minigrid", "minigrid")  # registers the levels
        ids = {key[7:].rpartition("-v")[0]: key for key in gymnasium.registry if key.startswith("BabyAI-")}
        require_choice("level", level, sorted(ids))
        self._id = ids[level]
        super().__init__(max_steps=max_steps, level=level, split=split, render_mode=render_mode)

    def connect(self) -> Session:
        """Make an instance of the level."""
        return Session(gymnasium.make(self._id, disable_env_checker=True).unwrapped)


class Session:
    """An instance of a level, any `RoomGridLevel`."""

    def __init__(self, env: Any) -> None:
        level = import_original("AgentBabyAI-v0", "minigrid", "minigrid.envs.babyai.core.roomgrid_level")
        level.print = lambda *_: None  # it prints every draft of a mission that it rejects
        names = import_original("AgentBabyAI-v0", "minigrid", "minigrid.core.constants")
        self._names = Names(names.IDX_TO_OBJECT, names.IDX_TO_COLOR)
        self.env, self._seed, self._moves = env, 0, list[int]()
        self._plan: list[int] | None = None

    def reset(self, split: str, number: int) -> str:
        """Start the episode of a seed."""
        self._seed, self._moves, self._plan = seed_of_task(split, number), [], None
        observation, _ = self.env.reset(seed=self._seed)
        return f"{observation['mission']}\n{self._view(observation['image'])}"

    def step(self, reply: Reply, text: str) -> ForeignTurn:
        """Do a move."""
        del text
        action = reply.action.strip().lower()
        if action not in MOVES or reply.action_input is not None:
            return ForeignTurn(f"Not an action. Write {', '.join(MOVES)}.", valid=False)
        move = MOVES.index(action)
        self._moves.append(move)
        self._plan = self._plan[1:] if self._plan and self._plan[0] == move else None
        observation, reward, terminated, truncated, _ = self.env.step(move)
        return ForeignTurn(self._view(observation["image"]), float(reward), terminated, truncated, reward > 0)

    def actions(self) -> list[str]:
        """Return all moves."""
        return list(MOVES)

    def plan(self) -> list[str]:
        """Return what the bot does from here."""
        if self._plan is None:
            module = import_original("AgentBabyAI-v0", "minigrid", "minigrid.utils.baby_ai_bot")
            try:
                self._plan = self._bot_moves(module)
            except (AssertionError, module.DisappearedBoxError):  # so the bot says that it is lost
                self._plan = []
        return [MOVES[move] for move in self._plan]

    def _bot_moves(self, module: Any) -> list[int]:
        """Let the bot see the episode again in another instance, and then play it to the end; empty if it fails."""
        env = deepcopy(self.env)
        env.reset(seed=self._seed)
        bot = module.BabyAIBot(env)
        moves, over = [int(bot.replan())], False
        for move in self._moves:
            env.step(move)
            moves = [int(bot.replan(None if move == moves[0] else move))]
        while not over and moves[-1] < len(MOVES):
            _, reward, terminated, truncated, _ = env.step(moves[-1])
            if reward > 0:
                return moves
            over = terminated or truncated
            moves.append(int(bot.replan()))
        return []

    def _view(self, image: Any) -> str:
        held = self.env.carrying
        return describe(image, self._names, f"{held.color} {held.type}" if held else "nothing")

    def close(self) -> None:
        """Close the instance."""
        self.env.close()
