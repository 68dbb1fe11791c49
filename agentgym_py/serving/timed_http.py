"""HTTP requests to servers that may be a stranger's: an answer has a size limit and a deadline, headers included.

Redirects are not followed, and no proxy is asked.
"""

from __future__ import annotations

import http.client
import io
import time
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from agentgym_py import trust
from agentgym_py.errors import ConfigError, InfrastructureError
from agentgym_py.http_client import MAX_ANSWER


class TimedConnection:
    """A connection to a server; it opens on first use and reopens after a failure.

    Args:
        url: Address of the server, whose path begins that of every request.
        timeout: Seconds for a whole answer.

    Raises:
        ConfigError: `url` is no address, or only a file names it; see `trust`.
    """

    def __init__(self, url: str, timeout: float) -> None:
        try:
            parts = urlsplit(url)
            if not parts.hostname:
                raise ValueError("no host")
            kind = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}[parts.scheme]
            self.http = kind(parts.hostname, parts.port, timeout=timeout)
        except (ValueError, LookupError, http.client.InvalidURL) as error:
            message = f"url must be an address such as http://127.0.0.1:8000, got {url!r}"
            raise ConfigError(message) from error
        self.http.response_class = _TimedResponse
        self.url, self._path = url, parts.path.rstrip("/")
        trust.require_host(url)

    def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Send a request; return the status and the body.

        Raises:
            OSError, http.client.HTTPException: no whole answer came in time.
            InfrastructureError: the answer is too large.
        """
        trust.require_online(self.url)
        if self.http.sock:
            self.http.sock.settimeout(self.http.timeout)  # the last answer has shortened it
        try:
            self.http.request(method, self._path + path, body, dict(headers or {}))
            answer = self.http.getresponse()
            return answer.status, _read_limited(answer)
        except BaseException:  # also Ctrl-C: a late answer must not be read as the answer to the next request
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        self.http.close()


class _TimedReader(io.RawIOBase):
    """Reads a socket until a deadline for all of it; the socket's own timeout is for each read."""

    def __init__(self, raw: Any, sock: Any) -> None:
        self._raw, self._sock, self._seconds = raw, sock, sock.gettimeout()
        self._deadline = time.monotonic() + self._seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no whole answer within {self._seconds:g} s")
        self._sock.settimeout(left)
        return cast("int | None", self._raw.readinto(buffer))

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    """A response whose headers and body must arrive within the connection's timeout."""

    def __init__(self, sock: Any, *arguments: Any, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        self.fp = io.BufferedReader(_TimedReader(cast(Any, self.fp).detach(), sock))


def _read_limited(answer: http.client.HTTPResponse) -> bytes:
    """Return the body.

    Raises:
        InfrastructureError: it is too large.
        http.client.IncompleteRead: it was cut off.
    """
    raw = answer.read(MAX_ANSWER + 1)
    if len(raw) > MAX_ANSWER:
        raise InfrastructureError(f"the answer is larger than {MAX_ANSWER >> 20} MiB")
    if answer.length:
        raise http.client.IncompleteRead(raw, answer.length)
    return raw
