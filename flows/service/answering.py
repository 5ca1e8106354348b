"""Small servers of our own, which answer from a thread and log no request."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client.exposition import ThreadingWSGIServer

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""What answers a request, as PEP 3333 has it."""


@dataclass(frozen=True)
class Answering:
    """A server and the thread that it runs in."""

    server: WSGIServer
    thread: threading.Thread

    def close(self) -> None:
        """Stop answering."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class _Handler(WSGIRequestHandler):
    """Logs no request, and waits for no silent one for ever."""

    timeout = 30

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Log nothing."""


class _Server6(ThreadingWSGIServer):
    address_family = socket.AF_INET6


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
    kind = _Server6 if ":" in host else ThreadingWSGIServer
    server = make_server(host, port, app, kind, _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    return Answering(server, thread)
