"""A store in this process behind a door that can fail: it refuses, loses replies, or goes away at a request."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

SKEWED = b"<Error><Code>RequestTimeTooSkewed</Code><Message>never-to-be-quoted</Message></Error>"
DENIED = b"<Error><Code>AccessDenied</Code><Message>never-to-be-quoted</Message></Error>"
SLOW_SECONDS = 2
CONDITIONS = ("if-none-match", "x-goog-if-generation-match")
KEPT = ("content-type", "etag", "last-modified", "content-range", "accept-ranges", "x-goog-generation")


class Door:
    """Passes requests on to a server, and does to each what ``fault`` says.

    Attributes
    ----------
    fault
        Called with the method, the path and the number of a request; returns "pass", "busy" (503, not carried out),
        "lost" (carried out, no reply), "slow" (carried out after seconds), "denied" or "skewed" (403, not carried out),
        or "ignorant" (carried out without its condition).
    seen
        Method and path of each request that was carried out.
    """

    def __init__(self, server: str) -> None:
        self.fault: Callable[[str, str, int], str] = lambda method, path, number: "pass"
        self.seen: list[tuple[str, str]] = []
        self._target, self._count, self._lock = urlsplit(server).netloc, 0, threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def reset(self) -> None:
        """Pass everything on, and forget what was seen."""
        self.fault, self._count = lambda method, path, number: "pass", 0
        self.seen.clear()

    def close(self) -> None:
        """End it."""
        self._http.shutdown()
        self._http.server_close()

    def puts(self) -> list[str]:
        """Paths that were put, in order."""
        return [path for method, path in self.seen if method == "PUT"]

    def answer(self, handler: Any) -> None:
        """Answer one request."""
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        path = unquote(handler.path.partition("?")[0])
        with self._lock:
            self._count += 1
            doing = self.fault(handler.command, path, self._count)
        if doing == "busy":
            self._reply(handler, 503, [], b"")
        elif doing in ("denied", "skewed"):
            self._reply(handler, 403, [("Content-Type", "application/xml")], DENIED if doing == "denied" else SKEWED)
        else:
            if doing == "slow":
                time.sleep(SLOW_SECONDS)
            self._carry_out(handler, path, body, doing)

    def _carry_out(self, handler: Any, path: str, body: bytes, doing: str) -> None:
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in CONDITIONS}
        if doing != "ignorant":
            headers = dict(handler.headers.items())
        with closing(http.client.HTTPConnection(self._target)) as link:
            link.request(handler.command, handler.path, body, headers)
            got = link.getresponse()
            content = got.read()
        with self._lock:
            self.seen.append((handler.command, path))
        if doing == "lost":
            handler.close_connection = True
            return
        given = [(name, value) for name, value in got.getheaders() if name.lower() in KEPT]
        length = got.getheader("Content-Length") if handler.command == "HEAD" else str(len(content))
        self._reply(handler, got.status, [*given, ("Content-Length", length or "0")], content)

    @staticmethod
    def _reply(handler: Any, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        with suppress(ConnectionError):
            handler.send_response(status)
            for name, value in headers:
                handler.send_header(name, value)
            if "Content-Length" not in dict(headers):
                handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            if handler.command != "HEAD":
                handler.wfile.write(content)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        door = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

            def answer(self) -> None:
                """Answer."""
                door.answer(self)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 - names of the library

        return Handler
