"""`MultiAgentEnv`: a game of several roles as a world for one of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, get_args

from agentgym_py.agents.base import Agent, Episode
from agentgym_py.agents.expert import ExpertAgent
from agentgym_py.env import GeneratedEnv, Outcome, PartnerRecord, Reply, Task
from agentgym_py.env.arguments import require_choice
from agentgym_py.errors import ConfigError, SnapshotError
from agentgym_py.multiagent.game import Asking, Game, Match, action_parts, action_text, ask
from agentgym_py.multiagent.partners import (
    Partner,
    PartnerKind,
    PartnerSettings,
    load_partner,
    partner_agent,
    require_checkpoint,
)
from agentgym_py.rng import seed_of

P = TypeVar("P")
IDLE = "wait"
"""What a role does if the game has ended before its first turn; any other text does, too."""
_LONGEST_PLAN = 1000
"""Most moves of a plan, if a game has no end of its own."""


class MultiAgentEnv(GeneratedEnv[P]):
    """A world of several roles that take turns, as an ordinary `TextEnv` for one of them.

    An agent plays `role`; a partner plays all other roles within `step`, from what they see. So collecting, training,
    evaluating, forking and replaying need nothing of their own, and a trajectory holds the moves of one role with its
    exact tokens. A world defines `roles`, `role_rules`, `draft` and `game`; `reset` starts at the role's first turn.

    The expert assumes partners that act like the given kind of expert, or like the exact one instead of a model. Its
    plan is what the role does if both sides play on like that.

    Args:
        difficulty: One of the keys of `limits`.
        role: The role that the agent plays; by default the first of `roles`.
        partner: Agent of the other roles: `fair` (an expert that knows only what its role has seen), `expert` (one
            that knows everything), `random`, or `recorded`, with which replays repeat a checkpoint's moves.
        partner_model: Folder of a checkpoint that plays them instead, frozen and greedy; it reads their `brief` rules.
            A collection samples the moves of many episodes together, with the settings of `PlayConfig.partner`.
        max_steps: Limit on the role's own moves.
        split: Where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.
    """

    roles: ClassVar[tuple[str, ...]]
    """The names of the roles; tasks, snapshots and files use them."""
    role_rules: ClassVar[Mapping[str, Mapping[str, str]]]
    """The text that opens an episode, by role and length."""
    role_baselines: ClassVar[Mapping[str, Mapping[str, float]]] = {}
    """`random_baseline` by role and difficulty, if it is above 5 %."""
    _reset_options: ClassVar[tuple[str, ...]] = ("task", "split", "partner")
    partner_moves: ClassVar[int] = 20
    """Moves in a row after which a partner that does not come to an end has given up."""

    def __init__(
        self,
        *,
        difficulty: str = "medium",
        role: str | None = None,
        partner: PartnerKind = "fair",
        partner_model: str | Path | None = None,
        max_steps: int | None = None,
        split: str = "train",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(difficulty=difficulty, max_steps=max_steps, split=split, render_mode=render_mode)
        self.role = self.roles[0] if role is None else role
        require_choice("role", self.role, self.roles)
        if self.role == self.roles[0]:
            self._kwargs.pop("role", None)  # the default, also if it is named
        self.rules = self.role_rules[self.role]  # type: ignore[misc]  # each role has its own
        self.random_baseline = self.role_baselines.get(self.role, {}).get(difficulty, self.random_baseline)
        self.has_model_partner = bool(partner_model)
        self._checkpoint = require_checkpoint(Path(partner_model)) if partner_model else None
        self._loaded_partner = None if self._checkpoint else partner_agent(partner)
        self._partner_name = str(self._checkpoint or partner)
        self.partner_settings = PartnerSettings()
        """How a checkpoint plays; it is loaded with them at the first reset."""
        self._is_replay = not partner_model and partner == "recorded"
        self._record: tuple[str | None, ...] = ()
        if self.has_model_partner or self._is_replay:
            self._kwargs.pop("partner", None)  # the state names the checkpoint
        self._over = self._in_seat = False
        """Whether a partner plays this role, which is asked for one move at a time."""

    # ---- what a world defines ---------------------------------------------------------------------------------------

    @abstractmethod
    def game(self, puzzle: P) -> Game:
        """Return the game of a puzzle before its first move."""

    # ---- the episode ------------------------------------------------------------------------------------------------

    def begin(self, task: Task) -> str:
        """Play up to the role's first turn; return what it has been told."""
        return ask(self._beginning(task), self.partner)

    def act(self, reply: Reply) -> Outcome:
        """Do the role's move, and those of the others up to its next turn."""
        return ask(self._acting(reply), self.partner)

    @property
    def partner(self) -> Agent:
        """The agent of the other roles."""
        return self._partner.agent

    @property
    def _partner(self) -> Partner:
        if self._loaded_partner is None:
            assert self._checkpoint is not None
            self._loaded_partner = load_partner(self._checkpoint, self.partner_settings)
        return self._loaded_partner

    def resetting(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> Asking[tuple[str, dict[str, Any]]]:
        """Do what `reset` does, but leave the partner's replies to the caller, who asks `partner` for many worlds."""
        task = self._begin_reset(seed, options)
        return self._end_reset((yield from self._beginning(task)))

    def stepping(self, action: str) -> Asking[tuple[str, float, bool, bool, dict[str, Any]]]:
        """Do what `step` does, but leave the partner's replies to the caller."""
        reply = self._begin_step(action)
        return self._end_step(reply if isinstance(reply, Outcome) else (yield from self._acting(reply)))

    def _beginning(self, task: Task) -> Asking[str]:
        self._match, self._over = self._new_match(task), False
        yield from self._match.play_partners(self.partner_moves, self._record)
        return self._match.game.read(self.role)

    def _acting(self, reply: Reply) -> Asking[Outcome]:
        match, game = self._match, self._match.game
        if not game.ended:
            if refusal := match.play(action_text(*action_parts(reply))):
                return self.invalid(refusal)
            yield from match.play_partners(self.partner_moves, self._record)
        self._over = game.ended
        observation, reward = game.read(self.role), game.payment(self.role)
        return Outcome(observation or "The game is over.", reward, terminated=game.ended, success=game.success)

    def actions(self) -> list[str]:
        """List what the role can try."""
        game = self._current_game
        return [] if self._over else [IDLE] if game.ended else game.actions(self.role)

    def secrets(self) -> list[str]:
        """Return what the role must not have seen yet."""
        game = self._current_game
        return [] if game.ended else game.secrets(self.role)

    @property
    def _current_game(self) -> Game:
        self._require_reset()
        return self._match.game

    # ---- replays ----------------------------------------------------------------------------------------------------

    @property
    def partner_record(self) -> PartnerRecord | None:
        """The episode's moves, if a checkpoint plays the other roles."""
        if self._partner.identity in get_args(PartnerKind):  # no checkpoint, also in a replay without a record
            return None
        return PartnerRecord(self._partner.identity, tuple(self._match.moves))

    def _begin_reset(self, seed: int | None, options: Mapping[str, Any] | None) -> Task:
        """Choose the task; the option `partner` is the `PartnerRecord` of an episode that is replayed."""
        task = super()._begin_reset(seed, options)
        record = (options or {}).get("partner")
        if record is not None and not isinstance(record, PartnerRecord):
            raise ConfigError(f"the reset option 'partner' must be a PartnerRecord, not {record!r:.60}")
        if self._is_replay:
            self._loaded_partner = self._partner._replace(identity=record.digest if record else "recorded")
        self._record = record.moves if record and record.digest == self._partner.identity else ()
        return task

    # ---- forks ------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all moves, which determine the state, and who the partner is."""
        match = self._match
        return {"moves": list(match.moves), "done": self._over, "partner": self._partner.identity}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Play the moves again; the partner is not asked."""
        moves, done, partner = state["moves"], state["done"], state["partner"]
        if type(partner) is not str:
            raise ValueError("partner must be a text")
        if partner != self._partner.identity and not self._is_replay:
            raise SnapshotError(
                f"The snapshot does not fit: its partner is {partner!r:.80}, here it is {self._partner.identity!r:.80}"
            )
        if type(moves) is not list or not all(text is None or type(text) is str for text in moves):
            raise ValueError("moves must be a list of texts")
        match = self._replayed(task, moves)
        game = match.game
        # a game that has ended before the role's first turn is over after one step
        fits = (done or not match.is_begun) if game.ended else (not done and game.turn == self.role)
        if type(done) is not bool or not fits:
            raise ValueError(f"done={done!r} does not fit the moves")
        self._match, self._over = match, done
        self._loaded_partner = self._partner._replace(identity=partner)

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Return whether the game is over for the role."""
        return state["done"] is True

    def _new_match(self, task: Task) -> Match:
        game, seats = self.game(self.puzzle_of(task)), dict[str, Episode]()
        match = Match(game, self.role, seats, self._partner_name)
        for role in self.roles:
            if role != self.role:
                seed = seed_of(task.id, role, "partner")
                seats[role] = Episode(self._seat(role, task, match), task, seed, self.role_rules[role]["brief"], "")
        return match

    def _seat(self, role: str, task: Task, match: Match) -> Self:
        """Return the world as a partner sees it, which answers its questions and is not stepped."""
        seat: Self = object.__new__(type(self))
        rules = self.role_rules[role]
        seat.__dict__ |= self.__dict__ | {
            "role": role,
            "rules": rules,
            "current_task": task,
            "stop_reason": None,
            "_over": False,
        }
        seat._match, seat._in_seat, seat._parsed = match, True, None
        return seat

    def _replayed(self, task: Task, moves: list[str | None]) -> Match:
        match = self._new_match(task)
        for text in moves:
            is_own = match.game.turn == self.role
            if match.game.ended or (is_own and text is None):
                raise ValueError("a move after the end")
            if (refusal := match.play(text)) and is_own:
                raise ValueError(f"a move that is refused: {refusal}")
        match.game.read(self.role)
        if match.is_begun:
            match.game.payment(self.role)
        return match

    # ---- the experts ------------------------------------------------------------------------------------------------

    def expert(self) -> list[str]:
        """Return the role's moves up to the end, if everybody plays on like the experts; see the class."""
        game, task = self._current_game, self._require_reset()
        if game.ended:
            return [] if self._over else [IDLE]
        if self._in_seat:
            return [game.expert_move(self.role)]
        match, plan = self._replayed(task, self._match.moves), list[str]()
        partner = self._partner.agent if isinstance(self._partner.agent, ExpertAgent) else ExpertAgent(thoughts=False)
        while not match.game.ended and len(plan) < _LONGEST_PLAN:
            plan.append(match.game.expert_move(self.role))
            match.play(plan[-1])
            ask(match.play_partners(self.partner_moves), partner)
        return plan

    def fair_expert(self) -> str | None:
        """Return the role's next move of a teacher that knows only what the role has seen."""
        game = self._current_game
        return None if self._over else IDLE if game.ended else game.fair_move(self.role)

    def expert_thought(self, action: str) -> str:
        """Return what the role's teacher would say."""
        game = self._current_game
        return "" if game.ended else game.thought(self.role, action)
