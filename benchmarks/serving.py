"""The environment server under load: `python benchmarks/serving.py [--sessions 1000] [--steps 20] [--think 2]`.

The server runs in its own process, the clients (`RemoteEnv`, one thread and session each) in this one. First they all
send requests without a pause; then each waits `--think` seconds on average between steps, as a client does whose model
thinks. Sessions have different seeds and cycle through all worlds. Each result of `reset` and `step`, and the final
snapshot, is compared with the same episode run locally. Latencies are the clients'; the server's memory is its resident
size. At the end the clients leave without closing, and the server must drop their sessions.
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
from agentgym_py.testing.random_actions import any_action

COMMAND = "import sys; from agentgym_py.cli import main; sys.exit(main())"
ABOUT = "{:9} {:>8} {:>10} {:>9} {:>9} {:>9} {:>9}"


@dataclass
class Server:
    """A running server."""

    url: str
    pid: int

    def memory(self) -> float:
        """Return its resident size in MiB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def state(self) -> dict[str, int]:
        """Return the server's counts of sessions."""
        with closing(Connection(self.url, os.environ[TOKEN], 60, 3)) as link:
            counts: dict[str, int] = link.ask("GET", "")
        return counts


@contextmanager
def serving(worlds: list[str], sessions: int, idle: float, threads: int) -> Iterator[Server]:
    """Run a server of these worlds on a free port."""
    words = [sys.executable, "-c", COMMAND, "serve", "--env", ",".join(worlds), "--sessions", str(sessions)]
    words += ["--idle", str(idle), "--threads", str(threads)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603  # fixed arguments
        assert process.stdout is not None
        try:
            yield Server(process.stdout.readline().strip(), process.pid)
        finally:
            process.kill()


@dataclass
class LoadResult:
    """The measurements of the clients."""

    seconds: list[float] = field(default_factory=list)
    """The latency of each request."""
    errors: list[str] = field(default_factory=list)
    """Differences between a session and the local episode."""


@dataclass
class Script:
    """A session's episode, run locally."""

    world: str
    seed: int
    turns: list[tuple[str, object]]
    end: bytes

    @classmethod
    def record(cls, world: str, seed: int, steps: int, env: TextEnv) -> Script:
        """Run an episode of random actions."""
        rng, turns = Rng("load", world, seed), list[tuple[str, object]]()
        turns.append(("", env.reset(seed=seed)))
        text = str(turns[0][1])
        for _ in range(steps):
            if env.stop_reason:
                break
            action = any_action(env, rng, text)
            turns.append((action, env.step(action)))
        return cls(world, seed, turns, env.snapshot())


def play(env: RemoteEnv, script: Script, think: float, load_result: LoadResult, rng: Rng) -> None:
    """Run a script on the server and compare."""
    for action, expected in script.turns:
        time.sleep(2 * think * rng.uniform())
        began = time.perf_counter()
        answer = env.step(action) if action else env.reset(seed=script.seed)
        load_result.seconds.append(time.perf_counter() - began)
        if answer != expected:
            load_result.errors.append(f"{script.world} {script.seed}: {answer!r} is not {expected!r}")
    if env.snapshot() != script.end:
        load_result.errors.append(f"{script.world} {script.seed}: another snapshot")


def load(server: Server, envs: list[RemoteEnv], scripts: list[Script], think: float, name: str) -> LoadResult:
    """Run all sessions at once; print a row."""
    load_result = LoadResult()
    gate = threading.Barrier(len(envs) + 1)

    def client(number: int) -> None:
        gate.wait()
        play(envs[number], scripts[number], think, load_result, Rng("think", number))

    with ThreadPoolExecutor(len(envs)) as pool:
        running = [pool.submit(client, number) for number in range(len(envs))]
        gate.wait()
        began = time.perf_counter()
        for client_run in running:
            client_run.result()
    spent = time.perf_counter() - began
    p50, p99 = np.percentile(load_result.seconds, [50, 99]) * 1e3
    rate = len(load_result.seconds) / spent
    row = (
        name,
        len(envs),
        len(load_result.seconds),
        f"{rate:.0f}",
        f"{p50:.0f}",
        f"{p99:.0f}",
        f"{server.memory():.0f}",
    )
    print(ABOUT.format(*row), flush=True)
    return load_result


def main() -> None:
    """Print a row for each round, and the sessions at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--think", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each kind")
    parser.add_argument("--idle", type=float, default=90.0, help="seconds after which the server forgets a session")
    parser.add_argument("--threads", type=int, default=8)
    args = parser.parse_args()
    os.environ.setdefault(TOKEN, "a-token-for-the-load-test")
    worlds = [registration.short_name(name) for name in registry.names("agentgym.envs")]
    local = {world: EnvSpec(world).make() for world in worlds}
    of = [worlds[number % len(worlds)] for number in range(args.sessions)]
    scripts = [Script.record(world, number, args.steps, local[world]) for number, world in enumerate(of)]
    results = list[LoadResult]()
    with serving(worlds, args.sessions, args.idle, args.threads) as server:
        print(f"{server.memory():.0f} MiB without a session")
        envs = [RemoteEnv(url=server.url, env=world) for world in of]
        print(f"{server.memory():.0f} MiB with {server.state()['sessions']} sessions")
        print(ABOUT.format("round", "sessions", "requests", "a second", "p50 ms", "p99 ms", "MiB"))
        for number in range(args.rounds):
            results.append(load(server, envs, scripts, 0.0, f"full {number + 1}"))
        for number in range(args.rounds):
            results.append(load(server, envs, scripts, args.think, f"think {number + 1}"))
        time.sleep(args.idle + 10)
        print(f"{server.memory():.0f} MiB and {server.state()['sessions']} sessions after the clients left")
    errors = [error for result in results for error in result.errors]
    print(f"{len(errors)} answers differ from the local episode", *errors[:3], sep="\n")


if __name__ == "__main__":
    main()
