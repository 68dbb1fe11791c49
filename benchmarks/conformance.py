"""The conformance kit on every installed world: counts of what was tried, and failures.

    python benchmarks/conformance.py [--episodes 100] [--memory_episodes 10000] [--seed 0] [NAME ...]

Each world is checked in each of its difficulties. All but the first difficulty skip the checks that do not depend on
it and run a 25th of the memory episodes. The exit status is 1 if something fails.
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
"""The difficulties of a world without `limits`."""
FEWER = 25
"""The other difficulties run the memory episodes divided by this."""
ONCE = {"gymnasium", "vectors", "interface", "card", "globals"}
COLUMNS = ("episodes", "steps", "plans", "strings", "snapshots", "corrupt snapshots")


def worlds(names: list[str], settings: Settings) -> Iterator[tuple[EnvSpec, list[str], Settings]]:
    """Yield each world and difficulty with its checks and settings."""
    for name in names or registry.names("agentgym.envs"):
        env_id = registration.env_id(name)
        world = type(EnvSpec(env_id).make())
        takes = inspect.signature(world).parameters
        difficulties = tuple(getattr(world, "limits", DIFFICULTIES)) if "difficulty" in takes else ("",)
        for difficulty in difficulties:
            first = difficulty == difficulties[0]
            spec = EnvSpec(env_id, {"difficulty": difficulty} if difficulty else {})
            fewer = replace(settings, memory_episodes=settings.memory_episodes // FEWER)
            yield spec, [c for c in CHECKS if first or c not in ONCE], settings if first else fewer


def row(title: str, counts: Counter[str], failures: int, seconds: float) -> str:
    """Format a row of the table."""
    return (
        f"| {title} | " + " | ".join(f"{counts[column]:,}" for column in COLUMNS) + f" | {failures} | {seconds:.0f} |"
    )


def main() -> int:
    """Run the checks, print the table and the failures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="worlds; by default all installed ones")
    for name, default in (("episodes", 100), ("memory_episodes", 10_000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    settings = Settings(args.episodes, args.memory_episodes, args.seed)
    print(f"| world | {' | '.join(COLUMNS)} | failures | seconds |\n|---|{'--:|' * (len(COLUMNS) + 2)}", flush=True)
    reports: list[Report] = []
    began = time.monotonic()
    for spec, checks, chosen in worlds(args.names, settings):
        start = time.monotonic()
        report = run_checks(spec, checks, chosen, on_result=_tell)
        reports.append(report)
        title = " ".join([spec.name, *spec.kwargs.values()])
        print(row(title, report.counts, len(report.failed), time.monotonic() - start), flush=True)
    counts = sum((report.counts for report in reports), Counter[str]())
    failures = sum(len(report.failed) for report in reports)
    print(row("all", counts, failures, time.monotonic() - began))
    for report in reports:
        for results in report.causes:
            print(f"\n{report.spec}\n{report.failure_text(results)}")
        if report.not_done:
            print(f"\n{report.verdict()}")
    return 0 if all(report.ok for report in reports) else 1


def _tell(result: Result) -> None:
    if result.failure:
        print(f"    {result.check}: {result.failure.message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
