"""BabyAI's own engine in a layout of AgentGrid's, so that both can play the same mission; needs minigrid."""

from __future__ import annotations

from typing import Any

from minigrid.core import world_object
from minigrid.envs.babyai.core import verifier
from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel

from agentgym_envs.grid.mission import Clause, Mission, Verb
from agentgym_envs.grid.world import BORDER, WALL, Layout

_KINDS = {"ball": world_object.Ball, "box": world_object.Box, "key": world_object.Key}


class Original(RoomGridLevel):  # type: ignore[misc]  # minigrid has no types
    """BabyAI's own engine in a layout of ours."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        super().__init__(num_rows=layout.rows, num_cols=layout.columns, room_size=layout.size, max_steps=layout.limit)

    def gen_mission(self) -> None:
        """Furnish the rooms as ours are."""
        layout = self._layout
        self.things: list[Any] = []
        for thing, state in zip(layout.things, layout.doors, strict=True):
            if thing.kind == "door":
                made: Any = world_object.Door(thing.color, is_open=state == 0, is_locked=state == 2)
            else:
                made = _KINDS[thing.kind](thing.color)
            self.things.append(made)
        for index, box in enumerate(self.things):
            if index in layout.hidden:
                box.contains = self.things[layout.hidden[index]]
        for cell, content in enumerate(layout.cells):
            x, y = xy(layout, cell)
            if 0 <= x < self.width and 0 <= y < self.height:
                if content > 0:
                    self.put_obj(self.things[content - 1], x, y)
                else:
                    self.grid.set(x, y, world_object.Wall() if content == WALL else None)
        self.agent_pos, self.agent_dir = xy(layout, layout.at), layout.facing
        self.instrs = _instruction(layout.mission)


def xy(layout: Layout, cell: int) -> tuple[int, int]:
    """Return the original's coordinates of a cell."""
    y, x = divmod(cell, layout.stride)
    return x - BORDER, y - BORDER


def _instruction(mission: Mission) -> Any:
    parts = []
    for part in mission.parts:
        clauses = [_clause(mission.clauses[index]) for index in part]
        parts.append(clauses[0] if len(clauses) == 1 else verifier.AndInstr(*clauses))
    if len(parts) == 1:
        return parts[0]
    return verifier.AfterInstr(*parts[::-1]) if mission.after else verifier.BeforeInstr(*parts)


def _clause(clause: Clause) -> Any:
    descriptions = [
        verifier.ObjDesc(each.kind, each.color, each.location) for each in (clause.thing, clause.other) if each
    ]
    kinds = {
        Verb.GO_TO: verifier.GoToInstr, Verb.PICK_UP: verifier.PickupInstr, Verb.OPEN: verifier.OpenInstr,
        Verb.PUT: verifier.PutNextInstr,
    }  # fmt: skip
    return kinds[clause.verb](*descriptions)
