"""Answers of servers of strangers: bounded in size and time, and no request goes elsewhere."""

from __future__ import annotations

import gzip
import importlib
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentgym_py import http_client
from agentgym_py.errors import EndpointError, InfrastructureError
from agentgym_py.http_client import HttpClient, RequestFailedError, run_in_loop
from agentgym_py.serving.client import Connection

pytest.importorskip("httpx2")
Send = Callable[[bytes], None]
Answer = Callable[[Send], None]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """Starts a server that answers every request in one way; gives its address."""
    sockets = list[socket.socket]()
    stop = threading.Event()

    def start(answer: Answer) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        sockets.append(listener)

        def reply(connection: socket.socket) -> None:
            def send(data: bytes) -> None:
                if stop.is_set():
                    raise OSError
                connection.sendall(data)

            with suppress(OSError), connection:
                connection.recv(1 << 16)
                answer(send)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=reply, args=[listener.accept()[0]], daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    stop.set()
    for listener in sockets:
        listener.close()


def endless_body(send: Send) -> None:
    """Without a length."""
    send(HEAD + b"\r\n")
    while True:
        send(b" " * (1 << 16))


def endless_chunks(send: Send) -> None:
    """With chunks."""
    send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        send(b"10000\r\n" + b" " * (1 << 16) + b"\r\n")


def long_body(send: Send) -> None:
    """With its length."""
    send(HEAD + b"Content-Length: 99999999999\r\n\r\n")
    while True:
        send(b" " * (1 << 16))


def drip(send: Send) -> None:
    """A byte now and then, so that no single read is late."""
    send(HEAD + b"Content-Length: 1000\r\n\r\n")
    while True:
        send(b" ")
        time.sleep(0.02)


def drip_of_headers(send: Send) -> None:
    """Before any body."""
    send(HEAD + b"X: ")
    while True:
        send(b"x")
        time.sleep(0.02)


def endless_continue(send: Send) -> None:
    """Never an answer."""
    while True:
        send(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.001)


def bomb(send: Send) -> None:
    """200 MB of spaces in 200 KB."""
    packed = gzip.compress(b" " * (1 << 20)) * 200
    send(HEAD + f"Content-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode() + packed)


def unknown_packing(send: Send) -> None:
    """That was not asked for."""
    send(HEAD + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}")


def broken_packing(send: Send) -> None:
    """That is none."""
    send(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}")


def cut_off(send: Send) -> None:
    """Before its end."""
    send(HEAD + b"Content-Length: 20\r\n\r\n{}")


BAD = [endless_body, endless_chunks, long_body, drip, drip_of_headers, endless_continue, bomb, cut_off]


@pytest.mark.parametrize("answer", [*BAD, unknown_packing, broken_packing])
def test_no_endpoint_fills_memory_or_time(answer: Answer, serve: Callable[[Answer], str]) -> None:
    """The request fails within its timeout."""
    address = serve(answer)
    server = HttpClient("the server", concurrency=1, timeout=1.0, retries=0, advice="")
    before = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises((EndpointError, RequestFailedError)):
            run_in_loop(server.ask(address, {}, lambda data: None, "answer"))
        assert tracemalloc.get_traced_memory()[1] < 4 * http_client.MAX_ANSWER
    finally:
        tracemalloc.stop()
    assert time.monotonic() - before < 20


@pytest.mark.parametrize("answer", BAD)
def test_no_environment_server_fills_memory_or_time(answer: Answer, serve: Callable[[Answer], str]) -> None:
    """The episode ends with an infrastructure failure."""
    link = Connection(serve(answer), "token", timeout=1.0, retries=0)
    before = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(InfrastructureError):
            link.ask("GET", "/x")
        assert tracemalloc.get_traced_memory()[1] < 4 * http_client.MAX_ANSWER
    finally:
        tracemalloc.stop()
        link.close()
    assert time.monotonic() - before < 20


@pytest.mark.parametrize("answer", [*BAD, lambda send: send(HEAD + b"Content-Length: 99999\r\n\r\n" + b"[" * 99_999)])
def test_no_foreign_server_fills_memory_or_time(
    answer: Answer, serve: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of AgentGym, as of all servers whose client is ours."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "bridges" / "agentgym"))
    world: Any = importlib.import_module("agentgym_agentenv_world")
    env = world.GymServerEnv(url=serve(answer), dialect="textcraft", timeout=1.0)
    before = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(InfrastructureError):
            env.connect()
        assert tracemalloc.get_traced_memory()[1] < 4 * http_client.MAX_ANSWER
    finally:
        tracemalloc.stop()
    assert time.monotonic() - before < 20


def test_a_packed_answer_is_read(serve: Callable[[Answer], str]) -> None:
    """As endpoints behind a proxy send it."""
    packed = gzip.compress(b'{"a": [1]}')
    head = HEAD + f"Content-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    server = HttpClient("the server", concurrency=1, timeout=10.0, retries=0, advice="")
    assert run_in_loop(server.ask(serve(lambda send: send(head + packed)), {}, lambda data: data, "x")) == {"a": [1]}


@pytest.mark.parametrize("place", ["{other}/x", "file:///etc/passwd"])
def test_redirects_are_not_followed(place: str, serve: Callable[[Answer], str]) -> None:
    """Another address would get the key or the token."""
    asked = list[int]()
    other = serve(lambda send: asked.append(1))
    place = place.format(other=other)
    address = serve(lambda send: send(f"HTTP/1.1 307 x\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()))
    server = HttpClient("the server", concurrency=1, timeout=10.0, retries=0, advice="")
    with pytest.raises(RequestFailedError):
        run_in_loop(server.ask(address, {}, lambda data: data, "x"))
    link = Connection(address, "token", timeout=10.0, retries=0)
    with pytest.raises(InfrastructureError):
        link.ask("GET", "/x")
    link.close()
    assert asked == []


def test_a_server_of_this_machine_is_asked_without_a_proxy(
    serve: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy would get the key."""
    proxied = list[int]()
    proxy = serve(lambda send: proxied.append(1))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    address = serve(lambda send: send(HEAD + b"Content-Length: 2\r\n\r\n{}"))
    server = HttpClient("the server", concurrency=1, timeout=10.0, retries=0, advice="")
    assert run_in_loop(server.ask(address, {}, lambda data: data, "x")) == {}
    link = Connection(address, "token", timeout=10.0, retries=0)
    assert link.ask("GET", "/x") == {}
    link.close()
    assert proxied == []
