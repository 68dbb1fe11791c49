"""`TextAECEnv`: a world of several roles as an environment of PettingZoo."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np

from agentgym_py.env import EnvSpec
from agentgym_py.env.actions import parse_reply
from agentgym_py.env.spaces import UnicodeText
from agentgym_py.env.types import MAX_TEXT
from agentgym_py.errors import ActionError, ConfigError, ResetNeededError, SnapshotError
from agentgym_py.multiagent.env import MultiAgentEnv
from agentgym_py.multiagent.game import Game
from agentgym_py.registry import install_advice

try:
    from pettingzoo import AECEnv

    _AECEnv: Any = AECEnv[str, str, str]
except ImportError:
    _AECEnv = None  # `TextAECEnv` says so when it is made

_OPTIONS = ("task", "split")


class Observation(str):
    """A text with a dtype, which PettingZoo's API test asks every observation for."""

    __slots__ = ()
    dtype = np.dtype(str)


class TextAECEnv(_AECEnv or object):  # type: ignore[misc]  # mypy sees no class
    """All roles of a world in PettingZoo's AEC form: each step is a reply of the role in `agent_selection`.

    No partner plays. A refused reply costs a move and leaves the turn where it is; `infos[role]["valid_action"]` says
    so. At the game's end all roles terminate; when a role has used up the world's `max_steps`, all are truncated.
    `infos[role]` also holds `success` and `task_id`.

    Args:
        env: Name of a world of several roles, such as `errand`.
        render_mode: `ansi` or None.
        kwargs: Arguments of the world, such as `difficulty`.

    Raises:
        ConfigError: the world has one role, or PettingZoo is not installed.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "agentgym_text_v0", "render_modes": ["ansi"], "is_parallelizable": False
    }  # fmt: skip

    def __init__(self, env: str, render_mode: str | None = None, **kwargs: Any) -> None:
        if _AECEnv is None:
            raise ConfigError(f"TextAECEnv needs PettingZoo, of the extra `pettingzoo`: {install_advice('pettingzoo')}")
        super().__init__()
        world = EnvSpec(env, kwargs).make()
        if not isinstance(world, MultiAgentEnv):
            raise ConfigError(f"{env} has one role; PettingZoo needs a world of several, such as errand")
        self.world, self.render_mode = world, render_mode
        self.possible_agents = list(world.roles)
        self._spaces = {role: (UnicodeText(MAX_TEXT), UnicodeText(MAX_TEXT)) for role in world.roles}
        self._game: Game | None = None

    def observation_space(self, agent: str) -> UnicodeText:
        """Return the space of a role's observations: texts."""
        return self._spaces[agent][0]

    def action_space(self, agent: str) -> UnicodeText:
        """Return the space of a role's replies: texts."""
        return self._spaces[agent][1]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode; `seed` and the options `task` and `split` are those of `TextEnv.reset`.

        Other options are ignored, because PettingZoo's wrappers and tests pass them on.
        """
        self.world.reset(seed=seed, options={key: value for key, value in (options or {}).items() if key in _OPTIONS})
        self._begin()

    def _begin(self) -> None:
        game = self._game = self.world.game(self.world.puzzle)
        roles = self.agents = list(self.possible_agents)
        self.rewards, self._cumulative_rewards = dict.fromkeys(roles, 0.0), dict.fromkeys(roles, 0.0)
        self.terminations, self.truncations = dict.fromkeys(roles, False), dict.fromkeys(roles, False)
        self._seen, self._moves = dict.fromkeys(roles, ""), dict.fromkeys(roles, 0)
        self._replies: list[str | None] = []
        self._select(game)
        self._inform(game, valid=True)

    def observe(self, agent: str) -> Observation:
        """Return what was written to a role since its last reply, or why that was refused."""
        return Observation(self._running.unread(agent) or self._seen[agent])

    def step(self, action: str | None) -> None:
        """Do the reply of the role that has the turn; None for a role whose episode is over.

        Raises:
            ActionError: it is no string.
        """
        game, role = self._running, self.agent_selection
        if self.terminations[role] or self.truncations[role]:
            self._replies.append(action)
            self._was_dead_step(action)
            return
        if not isinstance(action, str):
            raise ActionError(f"action must be a string, the role's whole reply; got {action!r:.60}")
        self._replies.append(action)
        self._cumulative_rewards[role] = 0.0
        self._moves[role] += 1
        refusal = game.play(parse_reply(action))
        self._seen[role] = refusal
        self.rewards = {each: game.payment(each) for each in self.agents}
        self._accumulate_rewards()
        cut = not game.ended and max(self._moves.values()) >= self.world.max_steps
        self.terminations, self.truncations = dict.fromkeys(self.agents, game.ended), dict.fromkeys(self.agents, cut)
        self._inform(game, valid=not refusal)
        if game.ended or cut:
            self._deads_step_first()
        else:
            self._select(game)

    def _select(self, game: Game) -> None:
        """Give the turn to the game's role, which reads what was written to it."""
        self.agent_selection = game.turn
        self._seen[game.turn] = "\n".join(filter(None, (self._seen[game.turn], game.read(game.turn))))

    def _inform(self, game: Game, *, valid: bool) -> None:
        task = self.world.current_task
        info = {"success": game.success, "task_id": task.id if task else "", "valid_action": valid}
        self.infos = {role: dict(info) for role in self.agents}

    @property
    def _running(self) -> Game:
        if self._game is None:
            raise ResetNeededError("TextAECEnv needs reset() before it can be used")
        return self._game

    def render(self) -> str | None:
        """Return what the role at its turn sees, in render mode `ansi`."""
        return self.observe(self.agent_selection) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Close the world."""
        self.world.close()

    # ---- forks and experts ------------------------------------------------------------------------------------------

    def expert(self, *, fair: bool = False) -> str:
        """Return the best action of the role that has the turn, or what its fair expert does."""
        game = self._running
        return game.fair_move(self.agent_selection) if fair else game.expert_move(self.agent_selection)

    def snapshot(self) -> bytes:
        """Return the episode as JSON bytes, from which `restore` continues exactly."""
        self._running  # noqa: B018  # raises before a reset
        world = self.world.snapshot().decode("utf-8", "surrogatepass")
        return json.dumps({"world": world, "replies": self._replies}).encode()

    def restore(self, snapshot: bytes) -> None:
        """Continue the episode of `snapshot` by doing its replies again.

        Raises:
            SnapshotError: it is none, or is of another world.
        """
        try:
            data = json.loads(snapshot)
            world, replies = data["world"].encode("utf-8", "surrogatepass"), list(data["replies"])
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise SnapshotError(f"The bytes are not a snapshot: {error!r}") from error
        self.world.restore(world)
        self._begin()
        for reply in replies:
            self.step(reply)
