"""A Prefect server of one machine: started for a while, private to this machine, and gone with its owner."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from blockveil.flows.base import temporary
from blockveil.flows.service import login as logins
from blockveil.pipeline.base.errors import BlockveilError

START_SECONDS = 180
"""How long the first start may take; it makes the database."""

TEMPORARY_LOG = "blockveil-temporary-server.log"
"""File in the Prefect home for what a temporary server prints."""

STOP_SECONDS = 30
"""How long a server may take to end."""

FAREWELL_SECONDS = 5
"""How long a run's last words may take to reach a temporary server."""

_ONLY_ITS_OWN_PAGES = {
    "PREFECT_SERVER_CORS_ALLOWED_METHODS": "GET,POST,PUT,PATCH,DELETE",
    "PREFECT_SERVER_CORS_ALLOWED_HEADERS": "authorization,content-type,prefect-csrf-client,prefect-csrf-token",
    "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
}
"""A page of another origin can neither read answers nor send what changes anything."""

_STARTED = "blockveil.flows.service.start_server"

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


class ServerFailed(BlockveilError):
    """The Prefect server cannot be started or reached."""

    exit_code: ClassVar[int] = 8


@dataclass(frozen=True)
class Running:
    """A server that was started here.

    Attributes
    ----------
    address
        Address of its API.
    process
        The server; when it ends by itself, nobody starts it again.
    """

    address: str
    process: subprocess.Popen[bytes]


@contextmanager
def running(host: str, port: int, log: Path, login: str) -> Iterator[Running]:
    """Start a server that wants a login, wait until it answers, and stop it at the end.

    Parameters
    ----------
    host, port
        Where it listens.
    log
        File for what it prints, in the Prefect home that the server is alone in.
    login
        What it wants, as ``user:password``. It travels in the environment, which this user alone can read.

    Raises
    ------
    ServerFailed
        The port is taken, or the server does not come up.
    """
    _check_free(host, port)
    _forget_dead_lock(log.parent)
    _keep_private(log.parent / "prefect.db")
    words = ["--host", host, "--port", str(port)]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/api"
    process = _start(words, _settings(address, login), log, "ab")
    try:
        _wait(process, f"{address}/health", log)
        yield Running(address, process)
    finally:
        _stop(process)


@contextmanager
def at_hand() -> Iterator[None]:
    """Let this process have a Prefect server: the one that is named, else a temporary one that ends with it.

    Prefect's own temporary server would want no login, read its settings in the present folder and outlive a killed
    owner.

    Raises
    ------
    ServerFailed
        The temporary server does not come up.
    """
    if _is_named():
        with logins.joined():
            yield
        return
    place, login = logins.home(), f"blockveil:{secrets.token_urlsafe(32)}"
    _keep_private(place / "prefect.db")
    with socket.create_server(("127.0.0.1", 0)) as listening:  # bound before it is named: nobody else can take it
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
        settings = {**_settings(address, login), "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT_SERVER_UI_ENABLED": "false"}
        words = ["--fd", str(listening.fileno())]
        process = _start(words, settings, place / TEMPORARY_LOG, "wb", listening)
    try:
        _wait(process, f"{address}/health", place / TEMPORARY_LOG)
        with _talking_to(address, login):
            try:
                yield
            finally:
                _send_the_last()
    finally:
        _stop(process)


def _is_named() -> bool:
    prefect = sys.modules.get("prefect.settings")  # a test or a program may have given it an address already
    return bool(logins.setting(logins.URL)) or (prefect is not None and bool(prefect.PREFECT_API_URL.value()))


@contextmanager
def _talking_to(address: str, login: str) -> Iterator[None]:
    """Name a server to Prefect, which reads its environment when it is imported."""
    before = {name: os.environ.get(name) for name in (logins.URL, logins.CLIENT)}
    os.environ.update({logins.URL: address, logins.CLIENT: login})
    logins.import_prefect()
    logins.read_again()
    try:
        with temporary.talking_to_one():
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        logins.read_again()


def _send_the_last() -> None:
    """Let Prefect's threads send the logs and events that they hold: after this their server is gone."""
    if "prefect" in sys.modules:
        from prefect.events.worker import EventsWorker
        from prefect.logging.handlers import APILogWorker

        with ThreadPoolExecutor(1) as thread:  # where an event loop runs, as in a notebook, nothing would be waited for
            for worker in (APILogWorker, EventsWorker):
                thread.submit(worker.drain_all, timeout=FAREWELL_SECONDS).result()


def _start(
    words: list[str], settings: dict[str, str], log: Path, mode: str, listening: socket.socket | None = None
) -> subprocess.Popen[bytes]:
    with log.open(mode) as file:
        return subprocess.Popen(  # noqa: S603 - our own interpreter with fixed words
            [sys.executable, "-P", "-m", _STARTED, "--log", str(log), *words],
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=log.parent,  # settings and code of the folder that somebody happens to stand in do not count
            env={**os.environ, **settings},
            pass_fds=() if listening is None else (listening.fileno(),),
            start_new_session=True,  # an interrupt from the keyboard is for its owner, which stops it in order
            preexec_fn=_end_with_parent,
        )


def _settings(address: str, login: str) -> dict[str, str]:
    """Settings of a server: who may come in, and whose pages may."""
    ui_url = os.environ.get("PREFECT_UI_API_URL", address.replace("//0.0.0.0:", "//127.0.0.1:"))
    parts = urlsplit(ui_url)
    return {
        **_ONLY_ITS_OWN_PAGES,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{parts.scheme}://{parts.netloc}",
        logins.SERVER: login,
        logins.CLIENT: login,
        logins.URL: address,
        "PREFECT_UI_API_URL": ui_url,
        "PREFECT_HOME": str(logins.home()),
        "PYTHONSAFEPATH": "1",
    }


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
