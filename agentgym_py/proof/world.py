"""The world of a proof: four tasks of two turns, in which every episode can be enumerated."""

from __future__ import annotations

from typing import Any

from agentgym_py.env import EnvSpec, Outcome, Task, TextEnv
from agentgym_py.env.actions import Reply
from agentgym_py.errors import UnknownNameError
from agentgym_py.rng import Rng

ACTIONS = ("amber", "birch", "cedar", "delta", "ember", "fjord")
FILLERS = ("please", "now")
"""Words that a reply may have behind its action; the world ignores them."""
TURNS = 2
TASKS = 4
PAYOFFS = (1.0, 0.5, 0.25, 0.0, 0.0, 0.0)
"""Reward of an action by its rank; the last one ends the episode."""
BEST_RETURN = TURNS * PAYOFFS[0]
_SEEN = {1.0: "good", 0.5: "fair", 0.25: "poor", 0.0: "none"}
WORDS = (*ACTIONS, *FILLERS, "task", *_SEEN.values(), *map(str, range(TASKS)))
"""All words that a policy reads and writes here."""
WORLD_ID = "AgentProof-v0"


class ProofWorld(TextEnv):
    """Two turns, in each of which one of six words pays most. Only the first word of a reply counts.

    Observation: the number of the task, then what the last word paid and the turn. Reward: 1, 0.5, 0.25 or 0 by the
    word's rank, which depends on task and turn; the worst word ends the episode. Success is a return of at least 1.
    """

    name = "proof"
    random_baseline = 0.5
    max_return = BEST_RETURN

    def __init__(self, *, max_steps: int = TURNS, split: str = "train", render_mode: str | None = None) -> None:
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)
        self.turn, self.total = 0, 0.0

    def task(self, name: str | int, split: str | None = None) -> Task:
        """Return task `proof/SPLIT/n` with n below `TASKS`."""
        full = f"{self.name}/{split or self.split}/{name}" if isinstance(name, int) else name
        parts = full.split("/")
        if len(parts) != 3 or parts[0] != self.name or parts[2] not in map(str, range(TASKS)):
            raise UnknownNameError(f"No task {name!r}: there are {self.name}/SPLIT/0 to {TASKS - 1}")
        return Task(full, parts[1], "proof", "easy", f"task {parts[2]}", TURNS)

    def sample_task(self, split: str) -> Task:
        """Draw one of the tasks."""
        return self.task(self.rng.below(TASKS), split)

    def begin(self, task: Task) -> str:
        """Start the first turn."""
        self.turn, self.total = 0, 0.0
        return task.instruction

    def read(self, text: str) -> Reply:
        """Take the first word of a reply as its action if it is one, and else the whole text.

        So experts write the bare word, which a table can write, and no `Action:` before it.
        """
        first = next(iter(text.split()), "")
        return Reply(first if first in ACTIONS else text)

    def act(self, reply: Reply) -> Outcome:
        """Pay for the word by its rank."""
        ranked = self._ranked(self.turn)
        rank = ranked.index(reply.action) if reply.action in ranked else len(ranked) - 1
        self.turn += 1
        self.total += PAYOFFS[rank]
        over = self.turn == TURNS or rank == len(ranked) - 1
        observation = f"{_SEEN[PAYOFFS[rank]]} {self.turn}"
        success = over and self.total >= 1
        return Outcome(observation, PAYOFFS[rank], terminated=over, success=success, valid=reply.action in ranked)

    def _ranked(self, turn: int) -> list[str]:
        """Return the actions of a turn, the best first."""
        assert self.current_task is not None
        return Rng("proof", self.current_task.id, turn).sample(ACTIONS, len(ACTIONS))

    def state(self) -> dict[str, Any]:
        """Return turn and return."""
        return {"turn": self.turn, "total": self.total}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Restore turn and return."""
        self.turn, self.total = int(state["turn"]), float(state["total"])

    def expert(self) -> list[str]:
        """Return the best word of each turn that is left."""
        return [] if self.stop_reason else [self._ranked(turn)[0] for turn in range(self.turn, TURNS)]

    def actions(self) -> list[str]:
        """List the words that can pay."""
        return list(ACTIONS)


def proof_spec() -> EnvSpec:
    """Return the world's spec, and register the world with Gymnasium."""
    import gymnasium

    if WORLD_ID not in gymnasium.registry:
        gymnasium.register(id=WORLD_ID, entry_point=ProofWorld)  # type: ignore[arg-type]  # Gymnasium's type is narrower
    return EnvSpec(WORLD_ID)
