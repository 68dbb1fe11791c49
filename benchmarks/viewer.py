"""Seconds until the viewer shows stores of many trajectories: `python benchmarks/viewer.py [--episodes 1000 100000]`.

The stores hold a random agent's episodes of the shop, which repeat after 1,000 with other ids. `agentgym view` opens
each store twice, without and with an index. Printed are wall-clock seconds: from the start of the command to its
address, from there to the first content of the page (its frame and a hundred rows), to the end of indexing; then, with
the index, for a filtered list, a word search and an episode.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentgym_py.agents import RandomAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.trajectory import store

COMMAND = "import sys; from agentgym_py.cli import main; sys.exit(main())"
DISTINCT = 1000


@dataclass
class Served:
    """A running viewer."""

    address: str
    started: float
    """Seconds until it printed its address."""

    def ask(self, path: str) -> tuple[float, Any]:
        """Send a request; return its seconds and the answer."""
        base, token = self.address.split("/#token=")
        request = urllib.request.Request(f"{base}/api/{path}", headers={"Authorization": f"Bearer {token}"})  # noqa: S310  # local server
        began = time.perf_counter()
        with urllib.request.urlopen(request) as answer:  # noqa: S310  # local server
            value = json.load(answer)
        return time.perf_counter() - began, value

    def first_look(self) -> float:
        """Return the seconds of the requests of the first page."""
        return self.ask("state")[0] + self.ask("episodes?limit=100")[0]


def make(path: Path, episodes: int) -> None:
    """Write a store of this many episodes."""
    jobs = jobs_for("shop", "train", range(min(episodes, DISTINCT)))
    trajectories = Collector(RandomAgent()).collect_batch(jobs)
    store.write(path, (replace(trajectories[i % DISTINCT], id=f"e{i}") for i in range(episodes)))


@contextmanager
def served(path: Path) -> Iterator[Served]:
    """Run `agentgym view PATH` within the context."""
    began = time.perf_counter()
    words = [sys.executable, "-c", COMMAND, "view", str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as run:  # noqa: S603  # fixed arguments
        assert run.stdout is not None
        try:
            yield Served(run.stdout.readline().strip(), time.perf_counter() - began)
        finally:
            run.send_signal(signal.SIGINT)


def measured(path: Path, episodes: int) -> list[str]:
    """Measure a row of the table."""
    with served(path) as viewer:
        began = time.perf_counter()
        first = (viewer.started, viewer.first_look())
        while viewer.ask("state")[1]["episodes"] < episodes:
            time.sleep(0.2)
        indexed = time.perf_counter() - began
    with served(path) as viewer:
        again = (viewer.started, viewer.first_look())
        time.sleep(1)
        filtered = viewer.ask("episodes?split=train&outcome=failure&min_reward=0.1&order=best")[0]
        searched = viewer.ask("episodes?text=jigsaw")[0]
        row = viewer.ask(f"episodes?offset={episodes - 1}&limit=1")[1]["rows"][0]
        opened = viewer.ask(f"episodes/{row['n']}")[0]
    seconds = [*first, indexed, *again, filtered, searched, opened]
    return [f"{episodes:,}", f"{path.stat().st_size / 1e6:,.0f} MB", *(f"{s:.2f}" for s in seconds)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", nargs="+", type=int, default=[1000, 100_000])
    names = ["episodes", "store", "first: address", "first look", "all indexed", "again: address", "first look"]
    names += ["filter", "search", "episode"]
    print(f"| {' | '.join(names)} |\n|{'--:|' * len(names)}")
    for episodes in parser.parse_args().episodes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trajectories.jsonl"
            make(path, episodes)
            print(f"| {' | '.join(measured(path, episodes))} |", flush=True)


if __name__ == "__main__":
    main()
