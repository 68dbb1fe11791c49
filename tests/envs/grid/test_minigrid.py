"""AgentGrid beside BabyAI itself, where `minigrid` is installed: the same moves give the same states and rewards."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest

from agentgym_envs.grid import wording
from agentgym_envs.grid.levels import LEVELS, draw
from agentgym_envs.grid.mission import Clause, Mission, Verb
from agentgym_envs.grid.planner import plan
from agentgym_envs.grid.view import seen_cells
from agentgym_envs.grid.world import BORDER, FREE, WALL, Layout, World
from agentgym_py.rng import Rng

pytest.importorskip("minigrid")
from minigrid.core import world_object
from minigrid.envs.babyai.core import verifier
from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel

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
    """The original's coordinates of a cell."""
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


def original_state(env: Original) -> tuple[object, ...]:
    """Pose, carried thing, contents of all cells, states of doors."""
    number = {id(thing): index for index, thing in enumerate(env.things)}
    cells = tuple(FREE if cell is None else number.get(id(cell), -2) + 1 for cell in env.grid.grid)
    doors = tuple(
        (0 if thing.is_open else 2 if thing.is_locked else 1) if thing.type == "door" else 0 for thing in env.things
    )
    carried = number[id(env.carrying)] if env.carrying else -1
    return (int(env.agent_pos[0]), int(env.agent_pos[1])), int(env.agent_dir), carried, cells, doors


def our_state(world: World) -> tuple[object, ...]:
    """The same of ours."""
    layout = world.layout
    inside = ((layout.size - 1) * layout.columns + 1, (layout.size - 1) * layout.rows + 1)
    cells = tuple(
        world.cells[(y + BORDER) * layout.stride + x + BORDER] for y in range(inside[1]) for x in range(inside[0])
    )
    return xy(layout, world.at), world.facing, world.carried, cells, tuple(world.doors)


def visible(env: Original) -> set[tuple[int, int]]:
    """The cells that the original shows, by its coordinates, without those beyond its grid."""
    _, mask = env.gen_obs_grid()
    forward, right = env.dir_vec, env.right_vec
    corner = env.agent_pos + forward * 6 - right * 3
    cells = (corner - forward * j + right * i for j in range(7) for i in range(7) if mask[i, j])
    return {(int(x), int(y)) for x, y in cells if 0 <= x < env.width and 0 <= y < env.height}


@pytest.mark.parametrize("level", LEVELS)
def test_the_same_moves_give_the_same_states_views_and_rewards(level: str) -> None:
    """A plan with random moves between, until the mission is done."""
    for number in range(3):
        layout = draw(Rng("minigrid", level, number), level, wording.COLORS)
        world, env, rng = World(layout), Original(layout), Rng("moves", level, number)
        with contextlib.redirect_stdout(io.StringIO()):
            env.reset(seed=0)
        if level not in ("PickupDist",):  # there, BabyAI counts grey walls among grey things
            assert env.mission == wording.word(Rng(0), "test", layout.mission)
        assert our_state(world) == original_state(env)
        moves = list[int]()
        for step in range(120):
            if step in (8, 60):  # random moves, then a plan, random moves again, and the last plan
                moves = plan(world)
            elif step == 30:
                moves = []
            move = moves.pop(0) if moves else rng.below(6)
            world.do(move)
            _, reward, terminated, _, _ = env.step(move)
            assert our_state(world) == original_state(env), (number, step)
            inside = {xy(layout, cell) for cell in seen_cells(world)}
            assert {cell for cell in inside if 0 <= cell[0] < env.width and 0 <= cell[1] < env.height} == visible(env)
            assert terminated is world.is_done
            assert reward == (pytest.approx(1 - 0.9 * world.moves / layout.limit) if world.is_done else 0)
            if world.is_done or world.is_lost:
                break
