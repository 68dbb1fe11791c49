"""`Game`: roles that take turns, and `Match`: a game with agents in the seats of all roles but one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from agentgym_py.agents.base import Agent, AgentReply, Episode
from agentgym_py.env.actions import Reply, parse_reply
from agentgym_py.errors import InfrastructureError
from agentgym_py.trajectory import Step

T = TypeVar("T")
Asking: TypeAlias = Generator[Episode, AgentReply | None, T]
"""A call into a world: it yields a partner's view of the episode when the partner has the turn, and is sent its reply.

None as reply means that the partner gives up. The generator's value is what the call returns.
"""

MAX_ACTION = 400
"""Most characters of an action with its argument, such as a message."""
GAVE_UP = "The other side has given up."


class Game(ABC):
    """An episode of a game of several roles, of which one has the turn.

    A game draws nothing at random, so the task and the moves determine its state; snapshots hold no more than these.
    """

    def __init__(self, turn: str) -> None:
        self.turn = turn
        """The role that moves next, unless the game has ended."""
        self.ended = self.success = False
        self._unread = defaultdict[str, list[str]](list)
        self._unpaid = defaultdict[str, float](float)

    @abstractmethod
    def move(self, name: str, argument: str) -> str:
        """Do an action of the role that has the turn, such as `say` and `hello` for `say[hello]`.

        Returns:
            Why the action is refused, in which case nothing changes; empty if it is done.
        """

    @abstractmethod
    def actions(self, role: str) -> list[str]:
        """List what the role can try at its turn."""

    @abstractmethod
    def expert_move(self, role: str) -> str:
        """Return the role's best action in this state, for an expert who knows everything."""

    def fair_move(self, role: str) -> str:
        """Return the role's action of a teacher that knows only what the role has seen."""
        return self.expert_move(role)

    def thought(self, role: str, action: str) -> str:
        """Return one sentence that the role's teacher would say before an action; may be empty."""
        del role, action
        return ""

    def secrets(self, role: str) -> list[str]:
        """Return texts that the role must not have seen yet."""
        del role
        return []

    # ---- what a game calls ------------------------------------------------------------------------------------------

    def tell(self, role: str, text: str) -> None:
        """Write to a role, which reads it when it gets the turn, or at the end."""
        self._unread[role].append(text)

    def pay(self, role: str, reward: float) -> None:
        """Reward a role; two roles share a reward if each is paid it."""
        self._unpaid[role] += reward

    def end(self, *, success: bool) -> None:
        """End the game."""
        self.ended, self.success = True, success

    # ---- what its world calls ---------------------------------------------------------------------------------------

    def play(self, reply: Reply) -> str:
        """Do the reply of the role that has the turn; return why it is refused, empty if it is done."""
        name, argument = action_parts(reply)
        if len(name) + len(argument) > MAX_ACTION:
            return f"Not an action: it has more than {MAX_ACTION} characters."
        return reply.error or self.move(name, argument)

    def unread(self, role: str) -> str:
        """Return what was written to a role since it last read."""
        return "\n".join(self._unread.get(role, ()))

    def read(self, role: str) -> str:
        """Return what was written to a role since it last read, which is then read."""
        return "\n".join(self._unread.pop(role, ()))

    def payment(self, role: str) -> float:
        """Return the rewards of a role since the last payment."""
        return self._unpaid.pop(role, 0.0)


def action_parts(reply: Reply) -> tuple[str, str]:
    """Return the name and the argument of an action in normal form: the name in lower case, no repeated spaces.

    What follows the last bracket does not count.
    """
    name, argument = reply.bracket_parts
    return name.strip().lower(), " ".join((argument or "").split())


def action_text(name: str, argument: str) -> str:
    """Return the text of an action: `say[hello]`, or `yes`."""
    return f"{name}[{argument}]" if argument else name


class Match:
    """A game with its moves so far; agents have the seats of all roles but one.

    Args:
        game: The game, before its first move.
        role: The role without a seat, whose moves come from outside.
        seats: An episode for each other role.
        partner: Name of the agent in these seats, for messages.
    """

    def __init__(self, game: Game, role: str, seats: Mapping[str, Episode], partner: str) -> None:
        self.game, self.role, self.seats, self.partner = game, role, seats, partner
        self.moves: list[str | None] = []
        """The text of each move; None if an agent gave up."""

    @property
    def is_begun(self) -> bool:
        """Whether the role without a seat has moved."""
        return len(self.moves) > sum(len(seat.steps) for seat in self.seats.values())

    def play(self, text: str | None) -> str:
        """Do a move of the role that has the turn; return why it is refused, empty if it is done.

        A refused move is recorded if it is an agent's, because that agent has seen the refusal.
        """
        game, role = self.game, self.game.turn
        seat, seen = self.seats.get(role), game.read(role)
        reply = parse_reply(text or "")
        if text is None:
            game.tell(self.role, GAVE_UP)
            game.end(success=False)
        refusal = "" if text is None else game.play(reply)
        if seat is None:
            self.moves += [] if refusal else [text]
            return refusal
        self.moves.append(text)
        step = Step(seen, text or "", reply.thought, reply.action, reply.action_input, 0.0, valid=not refusal)
        seat.steps.append(step)
        if refusal:
            game.tell(role, refusal)
        return refusal

    def play_partners(self, most: int, record: Sequence[str | None] = ()) -> Asking[None]:
        """Ask for the partners' moves until the role without a seat has the turn, or the game ends.

        After `most` moves in a row a partner counts as having given up. As long as the moves are those of `record`, the
        partners' next moves come from there, and nobody is asked.
        """
        for number in range(most + 1):
            seat = self.seats.get(self.game.turn)
            if self.game.ended or seat is None:
                return
            played = len(self.moves)
            if played < len(record) and list(record[:played]) == self.moves:
                self.play(record[played])
                continue
            seat.observation, seat.ids = self.game.unread(self.game.turn), []  # a restored seat has no token ids
            reply = (yield seat) if number < most else None
            if reply is not None and reply.error is not None:
                raise InfrastructureError(f"the partner {self.partner} failed as {self.game.turn}: {reply.error}")
            self.play(None if reply is None else reply.text)


def ask(call: Asking[T], agent: Agent) -> T:
    """Let an agent reply whenever a partner has the turn; return what the call returns."""
    reply: AgentReply | None = None
    while True:
        try:
            seat = call.send(reply)
        except StopIteration as stop:
            value: T = stop.value
            return value
        reply = agent.act([seat])[0]  # outside, because a StopIteration of the agent is an error
