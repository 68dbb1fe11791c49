"""The environment server among bad clients: `python benchmarks/soak.py [--clients 1000] [--seconds 600]`.

The server runs in its own process. Each client is a thread that behaves in one way after another: it plays and closes,
vanishes in the middle of an episode, sends half a request, lies (a wrong token, wrong numbers, forged snapshots, bytes
that are no HTTP), floods (long and many requests, new connections) or never reads an answer. At the end all vanish. The
script prints the server's memory, files, threads and sessions, and fails unless they are those of the first minute
again, to 10 % and 8 MiB of its memory, and a good client is answered all the while.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import resource
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from agentgym_py.env import EnvSpec
from agentgym_py.errors import AgentGymError
from agentgym_py.rng import Rng
from agentgym_py.serving.client import TOKEN, Connection, RemoteEnv
from agentgym_py.serving.protocol import SESSIONS

COMMAND = "import sys; from agentgym_py.cli import main; sys.exit(main())"
WORLDS = ("maze", "todo", "textcraft")
SERVE = ("serve", "--env", ",".join(WORLDS))
WRONG = "not-the-token"
_TIMEOUT = 20.0
"""Seconds that a client waits for an answer."""
_GLANCE = 2.0
"""Seconds that one waits that is about to vanish."""
_PAUSE = 5.0
"""Seconds that one waits that does not read."""
_LAST_ACT = 300.0
"""Longest time that clients take for their last act, with its retries, on a busy machine."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server as its clients know it."""

    url: str
    token: str

    def env(self, world: str) -> RemoteEnv:
        """Open a session."""
        return RemoteEnv(url=self.url, env=world, token=self.token, timeout=_TIMEOUT, retries=2)

    def connect(self) -> socket.socket:
        """Open a connection."""
        parts = urlsplit(self.url)
        return socket.create_connection((parts.hostname or "", parts.port or 80), timeout=_TIMEOUT)

    def request(self, method: str, path: str, body: bytes = b"", token: str | None = None, length: int = -1) -> bytes:
        """Return the bytes of a request, with a `Content-Length` that may be wrong."""
        head = f"{method} {SESSIONS}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        head += f"Authorization: Bearer {self.token if token is None else token}\r\n"
        return f"{head}Content-Length: {len(body) if length < 0 else length}\r\n\r\n".encode() + body

    def send(self, *requests: bytes) -> None:
        """Send bytes on a new connection, read what comes at once, and vanish."""
        with suppress(OSError), self.connect() as connection:
            connection.settimeout(_GLANCE)
            for request in requests:
                connection.sendall(request)
            connection.recv(1 << 16)


def plays(target: Target, rng: Rng, *, closes: bool = True) -> None:
    """Play some steps, like a good client."""
    env = target.env(rng.choice(WORLDS))
    env.reset(seed=rng.below(1000))
    for _ in range(5):
        env.step("look")
    env.snapshot()
    if closes:
        env.close()
    else:
        env._link.close()


def vanishes(target: Target, rng: Rng) -> None:
    """Leave an episode without a word."""
    plays(target, rng, closes=False)


def sends_a_part(target: Target, rng: Rng) -> None:
    """Send a part of a request."""
    send_part(target, target.request("PUT", f"/{secrets.token_urlsafe(16)}", b'{"env": "maze"}'), rng)


def send_part(target: Target, whole: bytes, rng: Rng) -> None:
    """Send a part of `whole`, and leave, or wait until the server closes."""
    part = whole[: 1 + rng.below(len(whole) - 1)]
    if rng.uniform() < 0.5:
        target.send(part)
    else:
        with suppress(OSError), target.connect() as connection:
            connection.sendall(part)
            connection.recv(1)


def lies(target: Target, rng: Rng) -> None:
    """Send what no client sends."""
    key = f"/{secrets.token_urlsafe(16)}"
    snapshot = base64.b64encode(rng.choice([b"{}", b"[" * 10_000, b"\xff" * 100])).decode()
    target.send(target.request("PUT", key, b'{"env": "maze"}'))
    lie = rng.choice([
        target.request("GET", "", token=WRONG), target.request("PUT", key, b"{", token=WRONG),
        target.request("POST", f"{key}/step", b'{"n": 7, "action": "x"}'),
        target.request("POST", f"{key}/restore", json.dumps({"n": 1, "snapshot": snapshot}).encode()),
        target.request("PUT", key, b'{"env": "' + b"m" * 100_000 + b'"}'), target.request("PUT", "/../../x", b"{}"),
        target.request("PUT", key, b'{"env": "maze"}', length=10), secrets.token_bytes(1000),
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 3000 + b"\r\n", target.request("BREW", key),
    ])  # fmt: skip
    target.send(lie)


def floods(target: Target, rng: Rng) -> None:
    """Send long requests, many requests on one connection, or many connections."""
    kind = rng.below(4)
    if kind == 0:
        target.send(target.request("PUT", f"/{secrets.token_urlsafe(16)}", b"x" * (2 << 20)))
    elif kind == 1:
        target.send(target.request("GET", "") * 50)
    elif kind == 2:
        for _ in range(20):
            target.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    else:
        env = target.env("maze")
        env.reset(seed=0)
        env.step("ж" * 80_000)
        env._link.close()


def never_reads(target: Target, rng: Rng) -> None:
    """Ask for long answers and read none."""
    path = f"/{secrets.token_urlsafe(16)}"
    target.send(target.request("PUT", path, b'{"env": "todo"}'), target.request("POST", f"{path}/reset", b'{"n": 1}'))
    with suppress(OSError), target.connect() as connection:
        connection.settimeout(1.0)
        for _ in range(10 + rng.below(400)):
            connection.sendall(target.request("POST", f"{path}/tools", b"{}"))
        connection.settimeout(_TIMEOUT)
        while connection.recv(1):  # a byte, so that the rest stays unread
            time.sleep(_PAUSE)
            break


BEHAVIOURS: tuple[Callable[[Target, Rng], None], ...] = (
    plays, vanishes, sends_a_part, lies, floods, never_reads,
)  # fmt: skip


@dataclass
class Crowd:
    """Clients that behave at random until they are told to stop."""

    target: Target
    behaviours: Sequence[Callable[[Target, Rng], None]] = BEHAVIOURS
    stop: threading.Event = field(default_factory=threading.Event)
    done: int = 0
    broken: list[str] = field(default_factory=list)
    """Errors of this script."""
    refused: int = 0
    """Requests of well-formed clients that a busy server refused or lost."""

    def client(self, number: int) -> None:
        """Behave in one way after another."""
        rng = Rng("soak", number)
        while not self.stop.is_set():
            try:
                rng.choice(self.behaviours)(self.target, rng)
            except (AgentGymError, OSError):
                self.refused += 1
            except Exception as error:
                self.broken.append(repr(error))
                raise
            self.done += 1
            self.stop.wait(rng.uniform())


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process holds."""

    mib: float
    files: int
    threads: int

    @classmethod
    def of(cls, pid: int) -> Usage:
        """Look at a process."""
        folder = Path(f"/proc/{pid}")
        pages = int((folder / "statm").read_text().split()[1])
        files, threads = (len(list((folder / name).iterdir())) for name in ("fd", "task"))
        return cls(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, files, threads)

    def __str__(self) -> str:
        return f"{self.mib:.0f} MiB, {self.files} files, {self.threads} threads"


@contextmanager
def serving(clients: int, idle: float, command: Sequence[str] = SERVE) -> Iterator[tuple[Target, int]]:
    """Run a server for these clients."""
    token = secrets.token_urlsafe(24)
    words = [*command, "--sessions", str(2 * clients), "--idle", str(idle)]
    with subprocess.Popen(  # noqa: S603  # fixed arguments
        [sys.executable, "-c", COMMAND, *words], stdout=subprocess.PIPE, text=True, env={**os.environ, TOKEN: token}
    ) as process:
        assert process.stdout is not None
        try:
            yield Target(process.stdout.readline().strip(), token), process.pid
        finally:
            process.kill()


def watch(pid: int, began: float, usages: list[tuple[float, Usage]], stop: threading.Event) -> None:
    """Look at a process twice a second, however busy it is."""
    while not stop.wait(0.5):
        usages.append((time.monotonic() - began, Usage.of(pid)))


def most(usages: Iterable[Usage]) -> Usage:
    """Return the usage with the most memory."""
    return max(usages, key=lambda usage: usage.mib)


def good_episode(target: Target) -> float:
    """Play an episode, compare it with the same one here, and return the longest seconds of a request."""
    here, there, longest = EnvSpec("maze").make(), target.env("maze"), 0.0
    assert there.reset(seed=1) == here.reset(seed=1)
    for action in here.expert()[:10]:
        began = time.monotonic()
        assert there.step(action) == here.step(action)
        longest = max(longest, time.monotonic() - began)
    there.close()
    return longest


def sessions_after(target: Target, seconds: float) -> int:
    """Return the number of sessions as soon as it is 0, or after some seconds."""
    link, ends = Connection(target.url, target.token, _TIMEOUT, 5), time.monotonic() + seconds
    while (count := int(link.ask("GET", "")["sessions"])) and time.monotonic() < ends:
        time.sleep(0.5)
    link.close()
    return count


@dataclass(frozen=True, slots=True)
class Soak:
    """A server and its clients."""

    command: Sequence[str] = SERVE
    behaviours: Sequence[Callable[[Target, Rng], None]] = BEHAVIOURS
    good_episode: Callable[[Target], float] = good_episode
    sessions_after: Callable[[Target, float], int] = sessions_after


def main(soak: Soak, description: str | None) -> int:
    """Print what the server holds; return 1 if it has lost or kept something."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--first", type=float, default=60.0, help="seconds after which memory must not grow")
    parser.add_argument("--idle", type=float, default=5.0, help="seconds after which the server forgets a session")
    args = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * args.clients + 200)), hard))
    with serving(args.clients, args.idle, soak.command) as (target, pid):
        soak.good_episode(target)
        before, crowd = Usage.of(pid), Crowd(target, soak.behaviours)
        print(f"before: {before}", flush=True)
        clients = [threading.Thread(target=crowd.client, args=[n], daemon=True) for n in range(args.clients)]
        for client in clients:
            client.start()
        usages, slowest, failed, began = list[tuple[float, Usage]](), 0.0, 0, time.monotonic()
        threading.Thread(target=watch, args=[pid, began, usages, crowd.stop], daemon=True).start()
        while (passed := time.monotonic() - began) < args.seconds:
            try:
                slowest = max(slowest, soak.good_episode(target))
            except (AgentGymError, OSError) as error:
                failed += 1
                print(f"a good episode failed after {passed:.0f} s: {error}", flush=True)
            time.sleep(0.5)
        first = most(usage for passed, usage in usages if passed < args.first)
        last = most(usage for passed, usage in usages if passed >= args.first)
        print(f"first {args.first:g} s, most: {first}\nlater, most: {last}", flush=True)
        crowd.stop.set()
        ends = time.monotonic() + _LAST_ACT
        for client in clients:
            client.join(max(0.0, ends - time.monotonic()))
        left = soak.sessions_after(target, 4 * args.idle + 30)
        time.sleep(15)  # connections that are not whole are dropped after 10 s
        after = Usage.of(pid)
        print(f"after: {after}, {left} sessions")
        print(
            f"{crowd.done} acts of {args.clients} clients in {args.seconds:g} s, {crowd.refused} refused; good "
            f"episodes: {failed} failed, longest request {slowest:.2f} s"
        )
    grown = max(last.mib, after.mib) > 1.1 * first.mib + 8
    return int(bool(crowd.broken or left or failed or grown or after.files > before.files + 5))


if __name__ == "__main__":
    sys.exit(main(Soak(), __doc__))
