"""AgentGrid beside BabyAI itself, where `minigrid` is installed: the same moves give the same states and rewards."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agentgym_envs.grid import wording
from agentgym_envs.grid.levels import LEVELS, draw
from agentgym_envs.grid.planner import plan
from agentgym_envs.grid.view import seen_cells
from agentgym_envs.grid.world import BORDER, FREE, World
from agentgym_py.rng import Rng

pytest.importorskip("minigrid")
sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
from babyai_layout import Original, xy


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
def test_rooms_and_limits_are_those_of_the_registered_level(level: str) -> None:
    """Rows, columns and size of the rooms, and the limit of moves for each walk that the mission needs."""
    env: Any = gymnasium.make(f"BabyAI-{level}-v0").unwrapped
    for seed in range(3):
        with contextlib.redirect_stdout(io.StringIO()):
            env.reset(seed=seed)
        layout = draw(Rng("limit", level, seed), level, wording.COLORS)
        assert (layout.rows, layout.columns, layout.size) == (env.num_rows, env.num_cols, env.room_size)
        if LEVELS[level].limit is None:
            walks = env.num_navs_needed(env.instrs)
            assert layout.limit * walks == env.max_steps * layout.mission.navigations
        else:
            assert layout.limit == env.max_steps


def test_the_pages_tell_how_many_levels_are_registered() -> None:
    """In both tables."""
    count = sum(name.startswith("BabyAI-") for name in gymnasium.registry)
    guides = Path(__file__).parents[3] / "docs" / "guides"
    assert f"| levels | {count} registered |" in (guides / "grid.md").read_text(encoding="utf-8")
    assert f"any seed of {count} levels" in (guides / "originals.md").read_text(encoding="utf-8")


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
