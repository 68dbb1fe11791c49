"""The HTTP protocol of the servers; it needs uvicorn, so a server imports it when it starts."""

from __future__ import annotations

import asyncio

from h11 import IDLE, SEND_BODY
from uvicorn.protocols.http.h11_impl import H11Protocol

_REQUEST_SECONDS = 10.0
"""Longest time for a whole request to arrive, and for a client to read nothing of an answer."""


class WholeRequests(H11Protocol):
    """Uvicorn's HTTP protocol, which drops clients that do not finish a request or do not read the answer."""

    _timer: asyncio.TimerHandle | None = None
    _reader_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn keeps it, and all of this, after an error
        for timer in (self._timer, self._reader_timer):
            if timer:
                timer.cancel()
        self._timer = self._reader_timer = None

    def pause_writing(self) -> None:
        """Watch whether the client reads."""
        super().pause_writing()
        self._watch_reader(self.transport.get_write_buffer_size() + 1)

    def resume_writing(self) -> None:
        """Stop watching: the client reads."""
        super().resume_writing()
        if self._reader_timer:
            self._reader_timer.cancel()
            self._reader_timer = None

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, also one with an unread answer."""
        super().timeout_keep_alive_handler()
        self._drop_unread()

    def _watch_reader(self, before: int) -> None:
        """Abort the connection if the client has read nothing since the last look."""
        unread = self.transport.get_write_buffer_size()
        if unread >= before:
            self.transport.abort()
        elif unread:
            self._reader_timer = self.loop.call_later(_REQUEST_SECONDS, self._watch_reader, unread)

    def _drop_unread(self) -> None:
        """Abort a closed connection, which would otherwise wait until the client has read everything."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _watch(self) -> None:
        """Start the timer with the first part of a request, and stop it with the last."""
        if self.conn.their_state in (IDLE, SEND_BODY):
            self._timer = self._timer or self.loop.call_later(_REQUEST_SECONDS, self._drop)
        elif self._timer:
            self._timer.cancel()
            self._timer = None

    def _drop(self) -> None:
        self._timer = None
        if self.conn.their_state in (IDLE, SEND_BODY):
            self.transport.close()
            self._drop_unread()
