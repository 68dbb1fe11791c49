"""Connections that send a part of a request, and then nothing."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agentgym_py.cli import server_options

uvicorn = pytest.importorskip("uvicorn")
from agentgym_py.cli import whole_requests


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body and answers."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """A server that waits a third of a second for a request."""
    monkeypatch.setattr(whole_requests, "_REQUEST_SECONDS", 0.3)
    listener = server_options.listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, http=whole_requests.WholeRequests, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, args=[[listener]], daemon=True)
    thread.start()
    yield listener.getsockname()
    server.should_exit = True
    thread.join(10)


WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PARTS = (b"", b"GET / HTTP/1.1\r\nHo", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")


@pytest.mark.parametrize("first", [b"", WHOLE])
@pytest.mark.parametrize("part", PARTS)
def test_a_request_that_is_not_whole_is_dropped(first: bytes, part: bytes, address: tuple[str, int]) -> None:
    """Also after a whole one on the same connection; others are answered."""
    if first and not part:
        pytest.skip("an idle connection is kept for as long as the server says")
    with socket.create_connection(address, timeout=10) as connection:
        if first:
            connection.sendall(first)
            answer = connection.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 200")
        connection.sendall(part)
        while data := connection.recv(1 << 16):
            assert b"HTTP/1.1 5" not in data
    other = http.client.HTTPConnection(*address, timeout=10)
    for _ in range(2):
        other.request("POST", "/", b"x" * 1000)
        assert other.getresponse().read() == b"{}"
    other.close()
