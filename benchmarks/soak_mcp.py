"""The MCP server among bad clients: `python benchmarks/soak_mcp.py [--clients 200] [--seconds 600]`.

As `benchmarks/soak.py`, for `agentgym mcp --transport http`. This server does not tell its number of sessions; at the
end it must still open one.
"""

from __future__ import annotations

import http.client
import json
import secrets
import sys
import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from soak import WRONG, Soak, Target, main, send_part

from agentgym_py.env import EnvSpec
from agentgym_py.rng import Rng
from agentgym_py.serving.mcp_server import PATH
from agentgym_py.serving.tool_episode import EpisodeSettings, ToolEpisode

COMMAND = ("mcp", "--env", "tools", "--task", "0", "--transport", "http")
CALL = ("search_papers", {"title": "the"})
VERSION = "2025-06-18"
OPENING = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
_TIMEOUT = 20.0
"""Seconds that a client waits for an answer."""
_PAUSE = 5.0
"""Seconds that one waits that does not read."""


def message(method: str, params: dict[str, Any], number: int | None = 1) -> bytes:
    """Return a request, or a notification without a number."""
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(body if number is None else {**body, "id": number}).encode()


class Session:
    """A session of a good client.

    Raises:
        OSError: the server refuses a request, or does not answer in time.
    """

    def __init__(self, target: Target) -> None:
        parts = urlsplit(target.url)
        self._link = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT)
        self._headers = headers(target.token)
        self._post(message("initialize", OPENING))
        self._post(message("notifications/initialized", {}, None))

    def _post(self, body: bytes, method: str = "POST") -> bytes:
        try:
            self._link.request(method, PATH, body, self._headers)
            response = self._link.getresponse()
            answer = response.read()
        except http.client.HTTPException as error:
            raise OSError(repr(error)) from error
        if response.status >= 400:
            raise OSError(f"status {response.status}")
        if name := response.getheader("mcp-session-id"):
            self._headers["mcp-session-id"] = name
        return answer

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool and return the text of its answer."""
        answer = json.loads(self._post(message("tools/call", {"name": tool, "arguments": arguments})))
        if "result" not in answer:
            raise OSError(str(answer.get("error")))
        return str(answer["result"]["content"][0]["text"])

    @property
    def name(self) -> str:
        """The server's name of the session."""
        return self._headers["mcp-session-id"]

    def tools(self) -> bytes:
        """Return the list of tools."""
        return self._post(message("tools/list", {}))

    def vanish(self) -> None:
        """Leave without a word."""
        self._link.close()

    def close(self) -> None:
        """Close the session."""
        self._post(b"", "DELETE")
        self.vanish()


def headers(token: str) -> dict[str, str]:
    """Return the headers of a request."""
    return {
        "Authorization": f"Bearer {token}", "Content-Type": "application/json", "mcp-protocol-version": VERSION,
        "Accept": "application/json, text/event-stream",
    }  # fmt: skip


def request(
    target: Target, body: bytes, token: str | None = None, length: int | None = None, session: str = ""
) -> bytes:
    """Return the bytes of a request, with a `Content-Length` that may be wrong."""
    fields = {**headers(target.token if token is None else token), "Host": "127.0.0.1"}
    if session:
        fields["mcp-session-id"] = session
    fields["Content-Length"] = str(len(body) if length is None else length)
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {PATH} HTTP/1.1\r\n{head}\r\n".encode() + body


def plays(target: Target, rng: Rng) -> None:
    """Make some calls, like a good client."""
    play(target, rng).close()


def vanishes(target: Target, rng: Rng) -> None:
    """Leave an episode without a word."""
    play(target, rng).vanish()


def play(target: Target, rng: Rng) -> Session:
    """Make some calls and return the session."""
    session = Session(target)
    session.tools()
    for _ in range(1 + rng.below(3)):
        session.call(*CALL)
    return session


def sends_a_part(target: Target, rng: Rng) -> None:
    """Send a part of a request."""
    send_part(target, request(target, message("initialize", OPENING)), rng)


def lies(target: Target, rng: Rng) -> None:
    """Send what no client sends."""
    opening = message("initialize", OPENING)
    target.send(rng.choice([
        request(target, opening, token=WRONG), request(target, b"{"), request(target, b"[" * 10_000),
        request(target, message("tools/call", {"name": "x" * 100_000})), request(target, opening, length=10),
        request(target, message("initialize", {"protocolVersion": "x" * 1000})), secrets.token_bytes(1000),
        request(target, b"\xff" * 1000), f"GET {PATH} HTTP/1.1\r\n".encode() + b"X: y\r\n" * 3000 + b"\r\n",
    ]))  # fmt: skip


def floods(target: Target, rng: Rng) -> None:
    """Send long requests, many requests on one connection, or many connections."""
    kind = rng.below(3)
    if kind == 0:
        target.send(request(target, b"x" * (2 << 20)))
    elif kind == 1:
        target.send(request(target, message("initialize", OPENING)) * 10)
    else:
        for _ in range(10):
            target.send(request(target, message("tools/list", {})))


def never_reads(target: Target, rng: Rng) -> None:
    """Ask for long answers and read none."""
    session = Session(target)
    ask = request(target, message("tools/list", {}), session=session.name)
    with suppress(OSError), target.connect() as connection:
        connection.settimeout(1.0)
        connection.sendall(ask * (10 + rng.below(100)))
        time.sleep(_PAUSE)
    session.vanish()


BEHAVIOURS = (plays, vanishes, sends_a_part, lies, floods, never_reads)


def good_episode(target: Target) -> float:
    """Make calls, compare the answers with those of the world here, and return the longest seconds of a request."""
    here, there, longest = ToolEpisode(EpisodeSettings(EnvSpec("tools")), 0), Session(target), 0.0
    for _ in range(5):
        began = time.monotonic()
        assert there.call(*CALL) == here.call(*CALL).observation
        longest = max(longest, time.monotonic() - began)
    there.close()
    here.close()
    return longest


def sessions_after(target: Target, seconds: float) -> int:
    """Wait until every idle session is closed; return 1 if no session can be opened then."""
    time.sleep(seconds)
    try:
        Session(target).close()
    except OSError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Soak(COMMAND, BEHAVIOURS, good_episode, sessions_after), __doc__))
