"""A Prefect server of one machine: started for a while, private to this machine, and gone with its owner."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from pipeline.errors import BlockveilError

START_SECONDS = 180
"""How long the first start may take; it makes the database."""

STOP_SECONDS = 30
"""How long a server may take to end."""

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


class ServerFailed(BlockveilError):
    """The Prefect server cannot be started or reached."""

    exit_code: ClassVar[int] = 8


@contextmanager
def running(host: str, port: int, log: Path) -> Iterator[str]:
    """Start a server, wait until it answers, and stop it at the end; gives the address of its API.

    Parameters
    ----------
    host, port
        Where it listens.
    log
        File for what it prints, in the Prefect home that the server is alone in.

    Raises
    ------
    ServerFailed
        The port is taken, or the server does not come up.
    """
    _check_free(host, port)
    _forget_dead_lock(log.parent)
    _keep_private(log.parent / "prefect.db")
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", host, "--port", str(port)]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/api"
    with log.open("ab") as file:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter with fixed words
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PREFECT_API_URL": address, "PREFECT_UI_API_URL": _seen_by_browsers(address)},
            start_new_session=True,  # an interrupt from the keyboard is for its owner, which stops it in order
            preexec_fn=_end_with_parent,
        )
    try:
        _wait(process, f"{address}/health", log)
        yield address
    finally:
        _stop(process)


def _seen_by_browsers(address: str) -> str:
    return os.environ.get("PREFECT_UI_API_URL", address.replace("//0.0.0.0:", "//127.0.0.1:"))


def _end_with_parent() -> None:
    """A server must not outlive a killed owner: its runs would be late for ever and nobody would see why."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM)


def _forget_dead_lock(home: Path) -> None:
    """Remove what a killed server may have left: the lock names a process number, which another one may have now."""
    (home / "concurrency_leases" / "expirations.lock").unlink(missing_ok=True)


def _keep_private(database: Path) -> None:
    """Let nobody else read the database: it holds the passwords of alarms and, beside them, the key that opens them."""
    if "PREFECT_SERVER_DATABASE_CONNECTION_URL" not in os.environ:
        database.touch(mode=0o600)
    for file in (database, *(database.with_name(database.name + extra) for extra in ("-wal", "-shm"))):
        with contextlib.suppress(FileNotFoundError):
            file.chmod(0o600)


def _check_free(host: str, port: int) -> None:
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return
    except OSError as error:
        reason = os.strerror(error.errno or 0)
    raise ServerFailed(
        f"{host}:{port} cannot be listened at ({reason})",
        "The Prefect server needs an address of its own",
        f"Give another --port; or use a server that runs there with PREFECT_API_URL=http://{host}:{port}/api",
    )


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=5):  # noqa: S310
            return
        time.sleep(0.2)
    raise ServerFailed(
        "The Prefect server did not come up" + ("" if process.poll() is None else f" (exit code {process.returncode})"),
        f"It must answer within {START_SECONDS} seconds",
        f"See {log}",
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
