"""Starts a Prefect server behind our door: what :mod:`.server` calls with ``python -P -m``, and a team's unit too."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from pathlib import Path
from typing import Any

from blockveil.flows.base.imports import uncollected

LOG_BYTES = 10_000_000
"""Size at which the log is set aside, in place of the one that was set aside before."""

_TICK_SECONDS = 1
_TELL_TICKS = 60


def main() -> None:
    """Serve until a signal says stop."""
    parser = argparse.ArgumentParser(prog="python -P -m blockveil.flows.service.start_server")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen")
    parser.add_argument("--port", type=int, default=4200)
    parser.add_argument("--fd", type=int, help="a socket that listens already, in place of host and port")
    parser.add_argument("--log", type=Path, help="file to which the output goes, which is to be rotated")
    words = parser.parse_args()
    with uncollected():
        from blockveil.flows.service import connections

        app, keep_alive = _app()
    where = {"host": words.host, "port": words.port} if words.fd is None else {"fd": words.fd}
    tick = _Tick(words.log)
    server = connections.server(
        app, timeout_keep_alive=keep_alive, timeout_notify=_TICK_SECONDS, callback_notify=tick, **where
    )
    with contextlib.suppress(KeyboardInterrupt):
        server.run()


def _app() -> tuple[Any, int]:
    """The server's application behind the door, and how long a connection without a request stays."""
    from prefect.settings import get_current_settings

    settings = get_current_settings().server
    login = settings.api.auth_string
    if login is None or not login.get_secret_value().strip():
        sys.exit("PREFECT_SERVER_API_AUTH_STRING is not set: a server is never without a password. Set user:password.")
    from blockveil.flows.base import prefect_internals
    from blockveil.flows.service.door import Door

    origins = settings.api.cors_allowed_origins.split(",")
    door = Door(prefect_internals.server_application(), login.get_secret_value(), origins)
    return door, int(settings.api.keepalive_timeout)


class _Tick:
    """What a server does each second beside its work: rotate its log, and tell how many strangers were turned away."""

    def __init__(self, log: Path | None) -> None:
        self._log, self._ticks = log, 0

    async def __call__(self) -> None:
        from blockveil.flows.service import connections

        self._ticks += 1
        if self._ticks % _TELL_TICKS == 0 and (number := connections.ended()):
            logging.getLogger("blockveil").warning("%d connections showed no login in time and were closed", number)
        if self._log is not None:
            with contextlib.suppress(OSError):  # a disk that is full; the next tick tries again
                rotate(self._log, LOG_BYTES)


def rotate(log: Path, largest: int) -> None:
    """Set a log aside once it is large, and write the output of this process to a new one."""
    if log.stat().st_size < largest:
        return
    log.replace(log.with_name(log.name + ".1"))
    with log.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())


if __name__ == "__main__":
    main()
