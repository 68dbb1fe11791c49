"""The conformance kit over every installed world: how much was tried, and what failed.

    python benchmarks/conformance.py [--episodes 100] [--memory_episodes 10000] [--seed 0] [NAME ...]

Each world is checked in each of its difficulties; those after the first go without the checks that do not depend on it,
and play a 25th of the memory episodes. Exit status 1 where something failed.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from agentgym_py import registry
from agentgym_py.env import EnvSpec, registration
from agentgym_py.testing import CHECKS, Report, Result, Settings, run_checks

DIFFICULTIES = ("easy", "medium", "hard")
"""Of a world that does not say its own, in `limits`."""
FEWER = 25
"""The part of the memory episodes that the other difficulties play."""
ONCE = {"gymnasium", "vectors", "interface", "card", "globals"}
COLUMNS = ("episodes", "steps", "plans", "strings", "snapshots", "corrupt snapshots")


def worlds(names: list[str], settings: Settings) -> Iterator[tuple[EnvSpec, list[str], Settings]]:
    """Each world and difficulty, with its checks and how much they try."""
    for name in names or registry.names("agentgym.envs"):
        env_id = registration.env_id(name)
        world = type(EnvSpec(env_id).make())
        takes = inspect.signature(world).parameters
        known = tuple(getattr(world, "limits", DIFFICULTIES)) if "difficulty" in takes else ("",)
        for difficulty in known:
            first = difficulty == known[0]
            spec = EnvSpec(env_id, {"difficulty": difficulty} if difficulty else {})
            fewer = replace(settings, memory_episodes=settings.memory_episodes // FEWER)
            yield spec, [c for c in CHECKS if first or c not in ONCE], settings if first else fewer


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
    for spec, checks, chosen in worlds(given.names, settings):
        start = time.monotonic()
        report = run_checks(spec, checks, chosen, on_result=_tell)
        reports.append(report)
        title = " ".join([spec.name, *spec.kwargs.values()])
        print(row(title, report.counts, len(report.failed), time.monotonic() - start), flush=True)
    counts = sum((each.counts for each in reports), Counter[str]())
    failures = sum(len(each.failed) for each in reports)
    print(row("all", counts, failures, time.monotonic() - began))
    for each in reports:
        for results in each.causes:
            print(f"\n{each.spec}\n{each.failure_text(results)}")
        if each.not_done:
            print(f"\n{each.verdict()}")
    return 0 if all(each.ok for each in reports) else 1


def _tell(result: Result) -> None:
    if result.failure:
        print(f"    {result.check}: {result.failure.message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
