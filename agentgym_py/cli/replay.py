"""`agentgym replay`: replay stored trajectories and report differences."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from agentgym_py.cli.env_options import add_own_envs, register_own_envs
from agentgym_py.cli.parser import JSON_HELP, Parser, Values
from agentgym_py.cli.runtime import print_json, read_trajectories
from agentgym_py.cli.saved_settings import world_advice

if TYPE_CHECKING:
    from agentgym_py.collection.replay import Difference, ReplayResult

DIFFERS = 1
_SHOWN = 5


def options(parser: Parser) -> None:
    """Add the options of `replay`."""
    parser.add_positional("file", "Trajectories in the project's store format, or parquet.")
    add_own_envs(parser)
    parser.add("json", bool, False, JSON_HELP)


def run(args: Values) -> int:
    """Replay a file; return 1 if a trajectory differs, or none could be replayed."""
    from agentgym_py.collection.replay import replay_all

    register_own_envs(args)
    results = list(replay_all(read_trajectories(args["file"])))
    different = [result for result in results if result.difference]
    identical = sum(result.holds for result in results)
    if args["json"]:
        rows = [asdict(result) | {"holds": result.holds} for result in results]
        print_json({"file": args["file"], "held": identical, "differ": len(different), "results": rows})
    else:
        _show(results, different, identical)
    if any(result.skipped for result in results) and (advice := world_advice("replay", args, args["file"])):
        print(f"the run's world needs its source: {advice}", file=sys.stderr)
    return DIFFERS if different or not identical else 0


def _show(results: Sequence[ReplayResult], different: Sequence[ReplayResult], identical: int) -> None:
    steps = sum(result.steps for result in results if result.holds)
    skipped = [result.skipped for result in results if result.skipped]
    print(
        f"{len(results)} trajector{'y' if len(results) == 1 else 'ies'}: {identical} identical "
        f"({steps} step{'s' * (steps != 1)}), {len(different)} different"
        + (f", {len(skipped)} not replayed" if skipped else "")
    )
    for result in different[:_SHOWN]:
        assert result.difference is not None
        print(f"\n{result.id} differs at step {result.difference.step}, {result.difference.what}:")
        print(_both_sides(result.difference))
    if len(different) > _SHOWN:
        print(f"\nand {len(different) - _SHOWN} more")
    for reason in dict.fromkeys(skipped):
        print(f"not replayed: {reason}", file=sys.stderr)


def _both_sides(difference: Difference) -> str:
    """Return the stored and the replayed value; of multi-line texts only the lines that differ."""
    from difflib import unified_diff

    old, new = str(difference.stored), str(difference.replayed)
    if "\n" not in old + new:
        return f"  stored   {old}\n  replayed {new}"
    lines = unified_diff(old.splitlines(), new.splitlines(), "stored", "replayed", lineterm="", n=1)
    return "\n".join(f"  {line}" for line in lines)
