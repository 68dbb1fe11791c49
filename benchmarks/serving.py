"""The environment server under load: `python benchmarks/serving.py [--sessions 1000] [--steps 20] [--think 2]`.

A server in a process of its own, clients (`RemoteEnv`, a thread each, so many sessions at once) in this one. First all
clients ask without a pause; then each waits `--think` seconds at random between steps, as one does whose model thinks.
Every session plays episodes of its own by seed, over all worlds in turn; each observation, reward, end and info is
compared with the same episode played locally, and so is the snapshot at the end. Timed by the clients' clocks, from
asking to the answer; the server's memory is its resident size. At the end clients leave without closing, and the
server must forget them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from agentgym_py import registry
from agentgym_py.env import EnvSpec, TextEnv, registration
from agentgym_py.rng import Rng
from agentgym_py.serving.client import TOKEN, Connection, RemoteEnv
from agentgym_py.testing.harness import any_action

COMMAND = "import sys; from agentgym_py.cli import main; sys.exit(main())"
ABOUT = "{:9} {:>8} {:>10} {:>9} {:>9} {:>9} {:>9}"


@dataclass
class Server:
    """A server that runs."""

    url: str
    pid: int

    def memory(self) -> float:
        """MiB that it holds."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def state(self) -> dict[str, int]:
        """What it says of its sessions."""
        with closing(Connection(self.url, os.environ[TOKEN], 60, 3)) as link:
            found: dict[str, int] = link.ask("GET", "")
        return found


@contextmanager
def serving(worlds: list[str], sessions: int, idle: float, threads: int) -> Iterator[Server]:
    """A server of these worlds, on a free port."""
    words = [sys.executable, "-c", COMMAND, "serve", "--env", ",".join(worlds), "--sessions", str(sessions)]
    words += ["--idle", str(idle), "--threads", str(threads)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603  # ourselves
        assert process.stdout is not None
        try:
            yield Server(process.stdout.readline().strip(), process.pid)
        finally:
            process.kill()


@dataclass
class Told:
    """What the clients have to say."""

    seconds: list[float] = field(default_factory=list)
    """How long each request took."""
    wrong: list[str] = field(default_factory=list)
    """Where a session was not as the local episode."""


@dataclass
class Script:
    """One session's episode, played locally before."""

    world: str
    seed: int
    turns: list[tuple[str, object]]
    end: bytes

    @classmethod
    def played(cls, world: str, seed: int, steps: int, env: TextEnv) -> Script:
        """Random actions."""
        rng, turns = Rng("load", world, seed), list[tuple[str, object]]()
        turns.append(("", env.reset(seed=seed)))
        text = str(turns[0][1])
        for _ in range(steps):
            if env.stop_reason:
                break
            action = any_action(env, rng, text)
            turns.append((action, env.step(action)))
        return cls(world, seed, turns, env.snapshot())


def play(env: RemoteEnv, script: Script, think: float, told: Told, rng: Rng) -> None:
    """Play a script through the server and compare."""
    for action, wanted in script.turns:
        time.sleep(2 * think * rng.uniform())
        began = time.perf_counter()
        found = env.step(action) if action else env.reset(seed=script.seed)
        told.seconds.append(time.perf_counter() - began)
        if found != wanted:
            told.wrong.append(f"{script.world} {script.seed}: {found!r} is not {wanted!r}")
    if env.snapshot() != script.end:
        told.wrong.append(f"{script.world} {script.seed}: another snapshot")


def load(server: Server, envs: list[RemoteEnv], scripts: list[Script], think: float, name: str) -> Told:
    """All sessions at once; prints a row."""
    told = Told()
    gate = threading.Barrier(len(envs) + 1)

    def client(number: int) -> None:
        gate.wait()
        play(envs[number], scripts[number], think, told, Rng("think", number))

    with ThreadPoolExecutor(len(envs)) as pool:
        running = [pool.submit(client, number) for number in range(len(envs))]
        gate.wait()
        began = time.perf_counter()
        for each in running:
            each.result()
    spent = time.perf_counter() - began
    p50, p99 = np.percentile(told.seconds, [50, 99]) * 1e3
    rate = len(told.seconds) / spent
    row = (name, len(envs), len(told.seconds), f"{rate:.0f}", f"{p50:.0f}", f"{p99:.0f}", f"{server.memory():.0f}")
    print(ABOUT.format(*row), flush=True)
    return told


def main() -> None:
    """Print a row for each round, then what is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--think", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3, help="of each kind")
    parser.add_argument("--idle", type=float, default=90.0, help="seconds after which the server forgets a session")
    parser.add_argument("--threads", type=int, default=8)
    given = parser.parse_args()
    os.environ.setdefault(TOKEN, "a-token-for-the-load-test")
    worlds = [registration.short_name(name) for name in registry.names("agentgym.envs")]
    local = {world: EnvSpec(world).make() for world in worlds}
    of = [worlds[number % len(worlds)] for number in range(given.sessions)]
    scripts = [Script.played(world, number, given.steps, local[world]) for number, world in enumerate(of)]
    told = list[Told]()
    with serving(worlds, given.sessions, given.idle, given.threads) as server:
        print(f"{server.memory():.0f} MiB without a session")
        envs = [RemoteEnv(url=server.url, env=world) for world in of]
        print(f"{server.memory():.0f} MiB with {server.state()['sessions']} sessions")
        print(ABOUT.format("round", "sessions", "requests", "a second", "p50 ms", "p99 ms", "MiB"))
        for number in range(given.rounds):
            told.append(load(server, envs, scripts, 0.0, f"full {number + 1}"))
        for number in range(given.rounds):
            told.append(load(server, envs, scripts, given.think, f"think {number + 1}"))
        time.sleep(given.idle + 10)
        print(f"{server.memory():.0f} MiB and {server.state()['sessions']} sessions after they were left alone")
    wrong = [each for of_round in told for each in of_round.wrong]
    print(f"{len(wrong)} answers differ from the local episode", *wrong[:3], sep="\n")


if __name__ == "__main__":
    main()
