"""Clients that vanish, lie, flood and never read: nothing of them stays. `benchmarks/soak.py` does it for longer."""

from __future__ import annotations

import gc
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("uvicorn")
from scripts import load_script
from uvicorn.protocols.http.h11_impl import H11Protocol

from agentgym_py.cli import whole_requests
from agentgym_py.cli.server_options import allow_files
from agentgym_py.errors import AgentGymError, InfrastructureError
from agentgym_py.rng import Rng
from agentgym_py.serving import server as server_module
from agentgym_py.serving import sessions as sessions_module
from agentgym_py.serving.sessions import Session

ODD = "OddForTests-v0"
KEY = "a-session-of-these-tests"


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`benchmarks/soak.py`, with short waits."""
    made = load_script("benchmarks/soak.py")
    for name in ("_GLANCE", "_PAUSE"):
        monkeypatch.setattr(made, name, 0.1)
    monkeypatch.setattr(whole_requests, "_REQUEST_SECONDS", 0.3)
    return made


def protocols() -> int:
    """The number of connections that this process knows of."""
    gc.collect()
    return sum(isinstance(each, H11Protocol) for each in gc.get_objects())


def kept_sessions() -> int:
    """The number of sessions that this process knows of."""
    gc.collect()
    return sum(isinstance(each, Session) for each in gc.get_objects())


def test_nothing_stays_of_clients_that_behave_badly(
    soak: ModuleType, serve: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """No session, no connection, no byte of a request, and no line in the log; a good client is served meanwhile."""
    before = protocols(), kept_sessions()
    server = serve(*soak.WORLDS, idle=0.5)
    target = soak.Target(server.url, "a-token-for-tests")

    def act(number: int) -> None:
        try:
            soak.BEHAVIOURS[number % len(soak.BEHAVIOURS)](target, Rng("bad clients", number))
        except (AgentGymError, OSError):
            assert number % len(soak.BEHAVIOURS)  # the first kind is a good client

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(act, range(4 * len(soak.BEHAVIOURS))))
    soak.good_episode(target)
    until(lambda: not server.sessions._sessions and not server.running.server_state.connections)
    assert server.sessions.pending_bytes == 0
    until(lambda: (protocols(), kept_sessions()) == before)
    assert capfd.readouterr().err == ""


def test_a_client_that_reads_nothing_is_dropped(soak: ModuleType, serve: Any) -> None:
    """Although it stays; the answers that it does not read would fill the memory."""
    server = serve("todo")
    target = soak.Target(server.url, "a-token-for-tests")
    with target.connect() as connection:
        connection.settimeout(1.0)
        with suppress(OSError):
            connection.sendall(target.request("PUT", f"/{KEY}", b'{"env": "todo"}'))
            for _ in range(1000):
                connection.sendall(target.request("POST", f"/{KEY}/tools", b"{}"))
        until(lambda: not server.running.server_state.connections)


def test_nothing_is_kept_of_a_connection_that_is_reset(soak: ModuleType, serve: Any) -> None:
    """Uvicorn would keep it for as long as an idle connection may last."""
    before, server = protocols(), serve("maze")
    target = soak.Target(server.url, "a-token-for-tests")
    for _ in range(3):
        connection = target.connect()
        connection.sendall(target.request("GET", ""))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    until(lambda: not server.running.server_state.connections and protocols() == before, 5.0)


def test_a_stop_cuts_requests_off_without_a_traceback(
    serve: Any, woken: threading.Event, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever they wait for."""
    server = serve(ODD, longest=4.0)
    env = server.env(ODD)
    env.reset(seed=0)
    with ThreadPoolExecutor(1) as pool:
        hangs = pool.submit(env.step, "hang")
        until(lambda: server.sessions.threads.busy == 1)
        server.stop()
        woken.set()
        with pytest.raises(InfrastructureError):
            hangs.result(30)
    assert capfd.readouterr().err == ""


def test_who_has_no_token_keeps_no_connection(serve: Any) -> None:
    """It is closed after the answer, whatever it is; those of clients stay."""
    server = serve("maze")
    address = server.url.removeprefix("http://").split(":")
    for token, status in (("wrong", b"401"), ("", b"401"), ("a-token-for-tests", b"200")):
        with socket.create_connection((address[0], int(address[1])), timeout=5) as connection:
            connection.sendall(
                f"GET /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
            )
            answer = connection.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 " + status)
            connection.settimeout(0.3)
            closed = True
            try:
                while connection.recv(1 << 16):
                    pass
            except TimeoutError:
                closed = False
            assert closed == (status == b"401")


def strange(first: str, *headers: str, body: bytes = b"") -> bytes:
    """Return the bytes of a request with the token."""
    lines = [first, "Host: 127.0.0.1", "Authorization: Bearer a-token-for-tests", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


PUT = f"PUT /v1/sessions/{KEY} HTTP/1.1"
WEBSOCKET = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==")  # fmt: skip
CHUNKED = "Transfer-Encoding: chunked"
STRANGE = {
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500,
    "a websocket": strange("GET /v1/nothing HTTP/1.1", *WEBSOCKET),
    "no version": b"GET /\r\n\r\n", "another protocol": strange("GET / GOPHER/1.1"),
    "two lengths": strange(PUT, "Content-Length: 3", "Content-Length: 4", body=b"{}{}"),
    "a length and chunks": strange(PUT, "Content-Length: 3", CHUNKED, body=b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
    "a negative length": strange(PUT, "Content-Length: -1"),
    "an absurd length": strange(PUT, f"Content-Length: {'9' * 5000}"),
    "a length in words": strange(PUT, "Content-Length: 0x10", body=b"{}"),
    "an absurd chunk": strange(PUT, CHUNKED, body=b"FFFFFFFFFFFFFFFFFFFF\r\n{}\r\n"),
    "a negative chunk": strange(PUT, CHUNKED, body=b"-1\r\n{}\r\n"),
    "an endless chunk extension": strange(PUT, CHUNKED, body=b"2;" + b"x" * (1 << 20)),
    "endless trailers": strange(PUT, CHUNKED, body=b"2\r\n{}\r\n0\r\n" + b"A: b\r\n" * 100_000),
    "an endless line": b"GET /" + b"x" * (1 << 20),
    "an endless header": strange("GET / HTTP/1.1", "A: " + "b" * (1 << 20)),
    "a flood of headers": strange("GET / HTTP/1.1", *["A: b"] * 100_000),
    "a null": strange("GET / HTTP/1.1", "A: \0"), "a folded header": strange("GET / HTTP/1.1", "A: b", " \x01c"),
    "two hosts": strange("GET / HTTP/1.1", "Host: evil.example"),
    "a foreign host": b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "another encoding": strange(PUT, "Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "a place elsewhere": strange("GET /v1/sessions/../../../../etc/passwd HTTP/1.1"),
    "a bad escape": strange("GET /%00%ff%zz HTTP/1.1"), "a method of its own": strange("\x1b]0;x HTTP/1.1"),
}  # fmt: skip
"""Requests that no client of ours sends."""


@pytest.mark.parametrize("kind", STRANGE)
def test_a_strange_request_is_refused(kind: str, serve: Any) -> None:
    """With a status from 400 to 499, or a closed connection; the next client is served."""
    server = serve("maze")
    address = server.url.removeprefix("http://").split(":")
    with socket.create_connection((address[0], int(address[1])), timeout=20) as connection, suppress(ConnectionError):
        with suppress(OSError):  # the server may have closed it already
            connection.sendall(STRANGE[kind])
            connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(1 << 16)
        assert answer[:12] in (b"", *(b"HTTP/1.1 4%02d" % code for code in range(100))), answer[:200]
    assert server.ask("GET")["sessions"] == 0


def test_a_long_answer_is_not_kept(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that lost it gets another session; one that is longer than clients read ends its session."""
    server = serve(ODD)
    monkeypatch.setattr(sessions_module, "_MAX_KEPT", 100)
    path = f"/{KEY}"
    server.ask("PUT", path, json.dumps({"env": ODD}).encode())
    change = json.dumps({"n": 1, "seed": 0}).encode()
    assert server.ask("POST", f"{path}/reset", change)["observation"] == "0"
    assert server.sessions._sessions[KEY].last_change[2] is None
    with pytest.raises(InfrastructureError, match="too long to keep"):
        server.ask("POST", f"{path}/reset", change)
    until(lambda: KEY not in server.sessions._sessions)
    monkeypatch.setattr(sessions_module, "MAX_ANSWER", 100)
    env = server.env(ODD)
    with pytest.raises(InfrastructureError, match="failed, and its session is closed"):
        env.reset(seed=0)
    assert "memory_mib" in server.ask("GET")


def test_requests_that_wait_are_limited(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In all, whoever sends them; the next one is served."""
    server = serve("maze", request_bytes=1000)
    monkeypatch.setattr(server_module, "_MAX_PENDING", 1000)
    server.sessions.pending_bytes = 1990
    with pytest.raises(InfrastructureError, match="unanswered requests"):
        server.ask("PUT", f"/{KEY}", b'{"env": "maze"}')
    server.sessions.pending_bytes = 0
    assert server.ask("PUT", f"/{KEY}", b'{"env": "maze"}')["name"] == "maze"


def test_long_names_are_cut(serve: Any) -> None:
    """In errors of worlds, arguments and calls."""
    server, long = serve("maze"), "x" * 10_000
    for asked in ({"env": long}, {"env": "maze", "kwargs": {long: 1}}):
        with pytest.raises(AgentGymError) as said:
            server.ask("PUT", f"/{KEY}", json.dumps(asked).encode())
        assert len(str(said.value)) < 500


def test_files_are_allowed_as_far_as_possible() -> None:
    """The limit of this process is raised to what is wanted, and told where it cannot be."""
    resource = pytest.importorskip("resource")
    soft, hard = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        assert allow_files(200) == 200 and resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 256
        assert allow_files(300) == 300 and resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 300
        if hard != resource.RLIM_INFINITY:
            assert allow_files(hard + 1) == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert soft


def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for it."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to hold")
