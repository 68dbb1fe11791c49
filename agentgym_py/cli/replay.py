"""`agentgym replay`: do stored trajectories still hold?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from agentgym_py.cli.env_options import add_own_envs, register_own_envs
from agentgym_py.cli.runtime import print_json, read_trajectories

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values
    from agentgym_py.collection.replay import Difference, ReplayResult

DIFFERS = 1
_SHOWN = 5


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `replay` takes."""
    del argv
    parser.usage = "agentgym replay FILE [options]"
    parser.add_positional("file", "Trajectories of this project's store, or parquet.")
    add_own_envs(parser)
    parser.add("json", bool, False, "Print JSON, for a program.")


def run(args: Values) -> int:
    """Replay a file; 1 where a trajectory differs, or none could be replayed."""
    from agentgym_py.collection.replay import replay_all

    register_own_envs(args)
    results = list(replay_all(read_trajectories(args["file"])))
    differ = [each for each in results if each.difference]
    held = sum(each.holds for each in results)
    if args["json"]:
        rows = [asdict(each) | {"holds": each.holds} for each in results]
        print_json({"file": args["file"], "held": held, "differ": len(differ), "results": rows})
    else:
        _show(results, differ, held)
    return DIFFERS if differ or not held else 0


def _show(results: Sequence[ReplayResult], differ: Sequence[ReplayResult], held: int) -> None:
    steps = sum(each.steps for each in results if each.holds)
    skipped = [each for each in results if each.skipped]
    print(
        f"{len(results)} trajector{'y' if len(results) == 1 else 'ies'}: {held} hold{'s' * (held == 1)} "
        f"({steps} step{'s' * (steps != 1)}), {len(differ)} differ{'s' * (len(differ) == 1)}"
        + (f", {len(skipped)} not replayed" if skipped else "")
    )
    for each in differ[:_SHOWN]:
        assert each.difference is not None
        print(f"\n{each.id} differs at step {each.difference.step}, {each.difference.what}:")
        print(_beside(each.difference))
    if len(differ) > _SHOWN:
        print(f"\nand {len(differ) - _SHOWN} more")
    for reason in dict.fromkeys(str(each.skipped) for each in skipped):
        print(f"not replayed: {reason}", file=sys.stderr)


def _beside(difference: Difference) -> str:
    """Both sides; of texts of several lines the lines that differ."""
    from difflib import unified_diff

    old, new = str(difference.stored), str(difference.replayed)
    if "\n" not in old + new:
        return f"  stored   {old}\n  replayed {new}"
    lines = unified_diff(old.splitlines(), new.splitlines(), "stored", "replayed", lineterm="", n=1)
    return "\n".join(f"  {line}" for line in lines)
