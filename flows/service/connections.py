"""Bounds for connections that have not shown the login: in number, time and size.

An account of this machine needs no password to connect. Only a few such connections are open at a time; one too many
ends the oldest one of the peer that has most of them. Whoever has the login asks at once, and is not counted from then
on, so connections that stay silent, or read slowly, keep nobody else out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections import Counter
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

LOGIN_SECONDS = 5.0
"""Time for the first request, and on a WebSocket for the login."""

ANSWER_SECONDS = 20.0
"""Time for the answer to a request without the login; whoever reads it slowly is cut off."""

LOGIN_BYTES = 65_536
"""What a WebSocket may send before the login. The first request over HTTP has about the same limit, of h11."""

ACCEPTED_AT_ONCE = 16
"""Connections that are accepted before those that are open are read: far fewer than may be open."""

QUEUE = 4096
"""Connections that the system keeps until they are accepted."""

_RESET = struct.pack("ii", 1, 0)
_CONNECTION = "blockveil.connection"


class _Bounded(asyncio.Protocol):
    """Part of a protocol of uvicorn that ends its connection unless the login is shown in time."""

    app_state: dict[str, Any]
    client: Any
    connections: set[Any]
    loop: Any
    transport: Any

    most: int
    """How many connections of this protocol may be open without the login."""

    ended = 0
    """How many were ended by a bound, in this process."""

    _shown = False
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.app_state = {**self.app_state, _CONNECTION: self}
        self._since = self.loop.time()
        self._end_after(LOGIN_SECONDS)
        strangers = [each for each in self.connections if isinstance(each, type(self)) and each._timer is not None]
        if len(strangers) > self.most:
            peers = Counter(each._peer for each in strangers)
            (most_open, _), *_ = peers.most_common(1)
            min((each for each in strangers if each._peer == most_open), key=lambda each: each._since).end()

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget_deadline()
        super().connection_lost(exc)

    @property
    def _peer(self) -> str | None:
        return None if self.client is None else self.client[0]

    def show_login(self) -> None:
        """Count the connection no longer: it belongs to somebody who may come in."""
        self._shown = True
        self.forget_deadline()

    def end(self) -> None:
        """Close the connection at once, also where its peer does not read what was sent."""
        _Bounded.ended += 1
        self.forget_deadline()
        # Reset, or the system would keep what was sent until the peer reads it.
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def forget_deadline(self) -> None:
        """Let the connection live on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_after(self, seconds: float) -> None:
        if not self._shown:
            self.forget_deadline()
            self._timer = self.loop.call_later(seconds, self.end)


class _Http(_Bounded, H11Protocol):
    most = 64  # below the 100 requests that Prefect's server answers at a time on SQLite

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:  # a whole request has come
            self._end_after(ANSWER_SECONDS)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self.forget_deadline()  # the WebSocket has one of its own
        super().handle_websocket_upgrade(event)


class _WebSocket(_Bounded, WebSocketsSansIOProtocol):
    most = 256  # the workers of a fleet may all connect at once, and need two round trips for the login
    _heard = 0

    def data_received(self, data: bytes) -> None:
        self._heard += len(data)
        if self._heard > LOGIN_BYTES and not self._shown:
            self.end()
        else:
            super().data_received(data)


class Server(uvicorn.Server):
    """A server of uvicorn that takes few connections at once and lets the others wait with the system."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        for server in self.servers:
            for each in server.sockets:
                with socket.socket(fileno=os.dup(each.fileno())) as listening:
                    listening.listen(QUEUE)


def _is_an_error(record: logging.LogRecord) -> bool:
    """Unlike a level this stays: Prefect sets the levels of uvicorn's loggers when its server starts."""
    return record.levelno >= logging.ERROR


def server(app: Any, **settings: Any) -> Server:
    """A server whose connections without the login are bounded, and whose log has no line for what strangers send."""
    logging.getLogger("uvicorn.error").addFilter(_is_an_error)
    return Server(
        uvicorn.Config(
            app,
            http=_Http,
            ws_per_message_deflate=False,  # a few bytes of a stranger could become many
            backlog=ACCEPTED_AT_ONCE,
            access_log=False,
            server_header=False,
            **{"ws": _WebSocket, **settings},
        )
    )


def show_login(scope: Any) -> None:
    """Say that the connection of a request has shown the login."""
    connection = scope.get("state", {}).get(_CONNECTION)
    if connection is not None:  # in a test there may be none
        connection.show_login()


def ended() -> int:
    """How many connections were ended since this was asked last."""
    number, _Bounded.ended = _Bounded.ended, 0
    return number
