"""Small servers of our own, which answer from a thread and log no request."""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from blockveil.flows.service import connections

App = Callable[[Any, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]
"""What answers a request, as ASGI has it."""

_FAREWELL_SECONDS = 5


@dataclass(frozen=True)
class Answering:
    """A server, the thread that it runs in, and the port at which it listens."""

    server: connections.Server
    thread: threading.Thread
    port: int

    def close(self) -> None:
        """Stop answering."""
        self.server.should_exit = True
        self.thread.join(_FAREWELL_SECONDS)


def listen(app: App, host: str, port: int) -> Answering:
    """Answer requests at an address from a thread of its own.

    Parameters
    ----------
    app
        What answers.
    host, port
        Where to listen.

    Raises
    ------
    OSError
        The address is taken, or is none of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=connections.QUEUE)
    server = connections.server(app, ws="none", lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    return Answering(server, thread, listening.getsockname()[1])
