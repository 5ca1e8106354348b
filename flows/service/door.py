"""The door of a Prefect server: what happens before somebody has shown the login.

Prefect itself checks no Origin of a WebSocket, waits for its login for ever, counts it among the requests that it
answers at a time, and writes a traceback for a login that is not ASCII. Over HTTP, describing itself takes seconds.
"""

from __future__ import annotations

import hmac
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from starlette.responses import PlainTextResponse

from blockveil.flows.service import connections

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]
"""What answers a request, as ASGI has it."""

_DESCRIPTIONS = ("/openapi.json", "/docs", "/redoc")
_REFUSED = 1008  # policy violation, of RFC 6455


class Door:
    """Lets WebSockets with the right origin and login into a server; requests without it get little work, no traceback.

    Parameters
    ----------
    app
        The server, which checks the login of each request over HTTP itself.
    login
        What must be shown, as ``user:password``.
    origins
        Origins whose pages may talk to the server; ``*`` stands for all.
    """

    def __init__(self, app: App, login: str, origins: list[str]) -> None:
        self._app, self._login = app, login.encode()
        self._origins = {origin.strip().encode() for origin in origins}

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer a request, or talk on a WebSocket."""
        if scope["type"] == "websocket":
            await self._talk(scope, receive, send)
        elif scope["type"] == "http" and not self._has_login(scope):
            await self._answer_stranger(scope, receive, send)
        else:
            if scope["type"] == "http":
                connections.show_login(scope)
            await self._app(scope, receive, send)

    def _has_login(self, scope: Any) -> bool:
        for _, value in (header for header in scope["headers"] if header[0] == b"authorization"):
            kind, _, text = value.partition(b" ")
            with suppress(ValueError):
                return kind == b"Basic" and hmac.compare_digest(b64decode(text.strip()), self._login)
        return False

    async def _answer_stranger(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["path"] in _DESCRIPTIONS:
            await PlainTextResponse("Unauthorized", 401)(scope, receive, send)
            return
        # Compressing a page takes long, and a wrong login may be one that Prefect cannot read.
        headers = [each for each in scope["headers"] if each[0] not in (b"authorization", b"accept-encoding")]
        with suppress(Exception):  # the answer is 500 already; a traceback of a stranger's request would fill the log
            await self._app({**scope, "headers": headers}, receive, send)

    async def _talk(self, scope: Any, receive: Receive, send: Send) -> None:
        await receive()
        origins = {value for name, value in scope["headers"] if name == b"origin"}  # every browser sends one
        foreign = b"*" not in self._origins and origins - self._origins
        if foreign or "prefect" not in scope["subprotocols"]:
            await send({"type": "websocket.close"})
            return
        await send({"type": "websocket.accept", "subprotocol": "prefect"})
        first = await receive()
        if not self._is_login(first.get("text")):
            if first["type"] == "websocket.receive":
                await send({"type": "websocket.close", "code": _REFUSED, "reason": "Invalid token"})
            return
        connections.show_login(scope)
        messages = [{"type": "websocket.connect"}, first]

        async def receive_again() -> Any:
            return messages.pop(0) if messages else await receive()

        async def send_on(message: Any) -> None:
            if message["type"] != "websocket.accept":
                await send(message)

        await self._app({**scope, "extensions": {}}, receive_again, send_on)

    def _is_login(self, text: str | None) -> bool:
        try:
            message = json.loads(text or "")
            token = message["token"] if message["type"] == "auth" else ""
            return hmac.compare_digest(token.encode(errors="replace"), self._login)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return False
