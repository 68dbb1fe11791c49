"""The conformance kit over every installed world: how much was tried, and what failed.

    python benchmarks/conformance.py [--episodes 100] [--memory_episodes 10000] [--seed 0] [NAME ...]

Each world is checked in each of its difficulties; those after the first go without the checks that do not depend on it.
Exit status 1 where something failed.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import time
from collections import Counter
from collections.abc import Iterator

from agentgym_py import registry
from agentgym_py.collect import EnvSpec
from agentgym_py.testing import CHECKS, Report, Result, Settings, run_checks

DIFFICULTIES = ("easy", "medium", "hard")
"""Of a world that does not say its own, in `limits`."""
ONCE = {"gymnasium", "vectors", "interface", "card", "globals"}
COLUMNS = ("episodes", "steps", "plans", "strings", "snapshots", "corrupt snapshots")


def worlds(names: list[str]) -> Iterator[tuple[str, dict[str, str], list[str]]]:
    """Id, arguments and checks of each world and difficulty."""
    for name in names or registry.names("agentgym.envs"):
        env_id = registry.env_id(name)
        world = type(EnvSpec(env_id).make())
        takes = inspect.signature(world).parameters
        known = tuple(getattr(world, "limits", DIFFICULTIES)) if "difficulty" in takes else ("",)
        for difficulty in known:
            yield (
                env_id,
                {"difficulty": difficulty} if difficulty else {},
                [c for c in CHECKS if difficulty == known[0] or c not in ONCE],
            )


def row(title: str, counts: Counter[str], failures: int, seconds: float) -> str:
    """A row of the table."""
    return f"| {title} | " + " | ".join(f"{counts[each]:,}" for each in COLUMNS) + f" | {failures} | {seconds:.0f} |"


def main() -> int:
    """Check, print the table, and what failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="worlds; by default all that are installed")
    for name, default in (("episodes", 100), ("memory_episodes", 10_000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    settings = Settings(given.episodes, given.memory_episodes, given.seed)
    print(f"| world | {' | '.join(COLUMNS)} | failures | seconds |\n|---|{'--:|' * (len(COLUMNS) + 2)}", flush=True)
    reports: list[Report] = []
    began = time.monotonic()
    for env_id, kwargs, checks in worlds(given.names):
        start = time.monotonic()
        report = run_checks(EnvSpec(env_id, kwargs), checks, settings, told=_tell)
        reports.append(report)
        title = " ".join([env_id, *kwargs.values()])
        print(row(title, report.counts, len(report.failed), time.monotonic() - start), flush=True)
    counts = sum((each.counts for each in reports), Counter[str]())
    failures = sum(len(each.failed) for each in reports)
    print(row("all", counts, failures, time.monotonic() - began))
    for each in reports:
        for result in each.failed:
            print(f"\n{each.spec}\n{each.story(result)}")
    return 1 if failures else 0


def _tell(result: Result) -> None:
    if result.failure:
        print(f"    {result.check}: {result.failure.message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
