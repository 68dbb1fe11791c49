"""Hostile actions in every world: `python benchmarks/hostile_actions.py [WORLD …] [--actions 100000] [--seconds 600]`.

Agents reply with valid actions of which characters have changed, tool calls with wrong arguments, arbitrary text, and a
fixed list of awkward strings; now and then with a valid action, which leads deeper. Episodes are of every difficulty,
role and split. Any exception is a finding, as is a reward that is no finite number or an observation that is no text.

With `--state FILE.jsonl` each block of actions is a line of that file. The same command continues there, so that
`--seconds` can bound one call. The exit status is 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from resumable import add_to_state, print_findings, read_state

from agentgym_py import registry
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.registration import env_class, short_name
from agentgym_py.env.types import SPLITS
from agentgym_py.rng import Rng
from agentgym_py.testing.fuzz import AWKWARD, corrupted_text, random_text, wrong_call

BLOCK = 1000
"""Actions of a line of the state file."""
MOST = 30
"""Actions of an episode before the next task."""


@dataclass(slots=True)
class Block:
    """Actions in one world, as a line of the state file."""

    world: str
    number: int
    actions: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


def hostile(env: TextEnv, valid: Sequence[str], rng: Rng) -> str:
    """Return an action that no good agent sends."""
    kind, tools = rng.below(10), env.tools()
    if kind < 1:
        return rng.choice(AWKWARD)
    if kind < 3:
        return random_text(rng)
    if kind < 6 and tools:
        return wrong_call(rng.choice(tools), rng)
    return rng.choice(valid) if kind < 7 else corrupted_text(rng.choice(valid), rng)


def variants(world: str) -> list[EnvSpec]:
    """Return a world in each difficulty and, if it has some, in each role."""
    kind = env_class(world)
    levels = [{"difficulty": level} for level in getattr(kind, "limits", ())] or [{}]
    roles = [{"role": role} for role in getattr(kind, "roles", ())] or [{}]
    return [EnvSpec(world, {**level, **role}) for level in levels for role in roles]


def play(world: str, number: int) -> Block:
    """Play a block of actions."""
    block, rng, began = Block(world, number), Rng("hostile actions in all levels", world, number), time.monotonic()
    with ExitStack() as stack:
        envs = [(spec.kwargs, stack.enter_context(closing(spec.make()))) for spec in variants(world)]
        while block.actions < BLOCK:
            options, env = rng.choice(envs)
            env.reset(seed=rng.below(1 << 31), options={"split": rng.choice(SPLITS)})
            valid = [*(env.actions() or ()), *env.expert()[:10], "look"]
            for _ in range(MOST):
                action = hostile(env, valid, rng)
                block.actions += 1
                try:
                    observation, reward, terminated, truncated, _ = env.step(action)
                    if not (isinstance(observation, str) and math.isfinite(reward)):
                        raise TypeError(f"observation {observation!r:.100}, reward {reward!r}")
                except Exception as error:
                    block.findings.append(f"{options}: {action!r:.200}: {error!r:.200}")
                    break
                if terminated or truncated or block.actions == BLOCK:
                    break
    block.seconds = time.monotonic() - began
    return block


def main() -> int:
    """Print a table; return 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", nargs="*", metavar="WORLD", help="by default all installed ones")
    parser.add_argument("--actions", type=int, default=100_000, help="of each world")
    parser.add_argument("--seconds", type=float, default=math.inf, help="for all worlds")
    parser.add_argument("--state", type=Path, help="file of the blocks, where this command continues")
    args = parser.parse_args()
    worlds = args.worlds or list(map(short_name, registry.names("agentgym.envs")))
    blocks, ends = read_state(Block, args.state), time.monotonic() + args.seconds
    done = {(block.world, block.number) for block in blocks}
    for number in range(math.ceil(args.actions / BLOCK)):
        for world in worlds:
            if (world, number) not in done and time.monotonic() < ends:
                blocks.append(play(world, number))
                add_to_state(args.state, blocks[-1])
    return print_findings(blocks, worlds, "world", "actions")


if __name__ == "__main__":
    sys.exit(main())
