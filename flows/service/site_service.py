"""The site of all releases beside the Prefect server, behind the same login, made anew when something has changed.

It only reads: no request changes a release, a ledger or a run, and what is not a page of the site is not there. Pages
are made in a process of their own, which gets no login. Where `deployments.toml` says so, they are sent to an object
store as well, without being asked for.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import re
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from blockveil.flows.runs.artifacts import SITE
from blockveil.flows.service import connections
from blockveil.flows.service import login as logins
from blockveil.flows.service.answering import App, listen
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.config.deployments_file import LoadedDeployments, SiteSection
from blockveil.pipeline.report.release_site import INDEX
from blockveil.pipeline.report.releases_found import SiteSource, fingerprint, look_at
from blockveil.pipeline.report.site_folder import MANIFEST

FOLDER = "blockveil-site"
"""Place of the site in the Prefect home."""

PATIENCE_SECONDS = 20.0
"""How long a reader of the first page waits for the newest pages, before those before them are shown."""

LOOK_SECONDS = 60.0
"""Time between two looks at whether a site that is sent has changed."""

_log = logging.getLogger("blockveil")
_MAKE = "from blockveil.flows.cli import main; main()"
_NAME = re.compile(r"(?:[\w-]+/){0,3}[\w-]+\.(?:html|json)", re.ASCII)
_KINDS = {"html": "text/html; charset=utf-8", "json": "application/json"}
_SOON = "The pages of releases and budgets are being made. This page loads again by itself."

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
}


@contextmanager
def shown(
    loaded: LoadedDeployments, home: Path, address: tuple[str, int], login: str, tell: Callable[[str], None]
) -> Iterator[None]:
    """Show the site while a service runs; a service without one runs all the same, and says why.

    Parameters
    ----------
    loaded
        What runs when, and where the site is sent.
    home
        The Prefect home, where pages are kept.
    address
        Host and port to listen at.
    login
        What a reader must know, as ``user:password``.
    tell
        Receives lines for a person.
    """
    host, port = address
    with ExitStack() as stack:
        try:
            maker = stack.enter_context(made(loaded, home, tell))
            answering = listen(guarded_pages(home / FOLDER, login, maker.refresh), host, port)
        except (BlockveilError, OSError) as error:
            reason = error.value if isinstance(error, BlockveilError) else os.strerror(error.errno or 0)
            tell(f"There is no site of releases at {host}:{port} ({reason}); --site-port names another port")
            answering = None
        if answering is None:
            yield
            return
        stack.callback(answering.close)
        name = host.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - it is replaced
        stack.enter_context(_address_shown(f"http://{f'[{name}]' if ':' in name else name}:{port}/"))
        tell(f"Releases and budgets: {os.environ[SITE]}, with the same login")
        yield


@contextmanager
def _address_shown(address: str) -> Iterator[None]:
    """Tell runs where the site is, unless somebody has set the address of a proxy before it."""
    set_before = os.environ.get(SITE)
    os.environ[SITE] = set_before or address
    try:
        yield
    finally:
        if set_before is None:
            del os.environ[SITE]


@contextmanager
def made(loaded: LoadedDeployments, home: Path, tell: Callable[[str], None]) -> Iterator[SiteMaker]:
    """Make the site while a service runs, and send it where ``deployments.toml`` says so.

    Parameters
    ----------
    loaded, home, tell
        As for :func:`shown`.

    Raises
    ------
    BlockveilError
        The folder of configs cannot be read.
    """
    place = loaded.deployments.site
    maker = SiteMaker(loaded.root, home, place)
    try:
        if place is not None:
            maker.keep_sent()
            tell(f"The site of releases is sent to {place.upload} within {LOOK_SECONDS:.0f} seconds of a change")
        yield maker
    finally:
        maker.close()


def guarded_pages(folder: Path, login: str, refresh: Callable[[], None]) -> App:
    """Answer with pages of a site, to who shows a login; whatever is asked for, nobody else learns what there is.

    Parameters
    ----------
    folder
        Where the site is, or will be.
    login
        What must be shown, as ``user:password``.
    refresh
        Is called when the first page is asked for.
    """
    expected = b"Basic " + b64encode(login.encode())

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await (await response(Request(scope)))(scope, receive, send)

    async def response(asked: Request) -> Response:
        header = asked.headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(header, expected):
            return _say(401, **{"WWW-Authenticate": 'Basic realm="blockveil", charset="UTF-8"'})
        connections.show_login(asked.scope)
        if asked.method not in ("GET", "HEAD"):
            return _say(405, Allow="GET, HEAD")
        name = asked.scope["path"].removeprefix("/") or INDEX
        if name == INDEX:
            await asyncio.to_thread(refresh)
        content = _page(folder, name)
        if content is None and name == INDEX:  # it is being made
            return _say(503, words=_SOON, **{"Retry-After": "5", "Refresh": "5"})
        if content is None:
            return _say(404)
        return Response(content, 200, _HEADERS, _KINDS[name.rpartition(".")[2]])

    return answer


def _say(status: int, words: str = "", **more: str) -> Response:
    text = f"{words or HTTPStatus(status).phrase}\n"
    return Response(text, status, {**_HEADERS, **more}, "text/plain")


def _page(folder: Path, name: str) -> bytes | None:
    """A page that the manifest of the site names; None for everything else."""
    if not _NAME.fullmatch(name):
        return None
    try:
        place = folder.resolve(strict=True)  # all of it is of one site, also where that is replaced meanwhile
        manifest = json.loads((place / MANIFEST).read_bytes())
        return (place / name).read_bytes() if name in manifest else None
    except (OSError, ValueError):
        return None


class SiteMaker:
    """Makes the site when somebody asks for it and releases, ledgers or the hour have changed since it was made.

    Parameters
    ----------
    root
        Folder of the reviewed configs.
    home
        The Prefect home.
    place
        Where each site that was made is sent; None sends none.
    """

    def __init__(self, root: Path, home: Path, place: SiteSection | None = None) -> None:
        self._root, self._home, self._source, self._place = root, home, look_at(root), place
        self._looking: threading.Thread | None = None
        self._failed = False
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._made: object = None
        self._thread: threading.Thread | None = None

    def refresh(self) -> None:
        """See to it that the site is of now, and wait a while for that."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                try:
                    now: object = _stamp(self._source)
                except (BlockveilError, OSError):  # a pointer that went, or a folder that may not be looked into
                    now = None
                if now is not None and now == self._made and (self._home / FOLDER).exists():
                    return
                self._thread = threading.Thread(target=self._make, args=(now,), daemon=True)
                self._thread.start()
            thread = self._thread
        thread.join(PATIENCE_SECONDS)

    def keep_sent(self) -> None:
        """Make and send the site whenever it has changed, or was not sent, until :meth:`close`."""

        def look() -> None:
            while not self._stopped.is_set():
                self.refresh()
                self._stopped.wait(LOOK_SECONDS)

        self._looking = threading.Thread(target=look, daemon=True)
        self._looking.start()

    def close(self) -> None:
        """End what is being made or sent; what was sent in part is finished by the next start."""
        self._stopped.set()
        if self._looking is not None:
            self._looking.join()
        if self._thread is not None:
            self._thread.join()

    def _make(self, stamp: object) -> None:
        """Make the site in a process of its own, which gets no login and is ended with this service."""
        secret = (logins.SERVER, logins.CLIENT)
        words = [
            sys.executable,
            "-P",
            "-c",
            _MAKE,
            "export",
            "site",
            str(self._root),
            "--output",
            str(self._home / FOLDER),
        ]
        words += [] if self._place is None else _sending(self._place, self._root)
        environment = {name: value for name, value in os.environ.items() if name not in secret}
        nothing = subprocess.DEVNULL
        with subprocess.Popen(words, cwd=self._home, env=environment, stdout=nothing, stderr=nothing) as process:  # noqa: S603 - fixed words
            while process.poll() is None:
                if self._stopped.wait(0.1):
                    process.terminate()
                    return
        if process.returncode and not self._failed:  # reported once, and tried again
            verb = "made" if self._place is None else "made or sent"
            _log.warning(
                "The site of releases was not %s (exit code %s): try `blockveil export site`", verb, process.returncode
            )
        self._failed = bool(process.returncode)
        if not self._failed:
            self._made = stamp


def _sending(place: SiteSection, root: Path) -> list[str]:
    """Words of the command that send the site; they hold a reference to credentials, and no credentials."""
    if place.upload_credentials is None:
        return ["--upload", place.upload]
    scheme, _, rest = place.upload_credentials.partition(":")
    reference = f"file:{root / rest}" if scheme == "file" else place.upload_credentials
    return ["--upload", place.upload, "--upload-credentials", reference]


def _stamp(source: SiteSource) -> tuple[object, ...]:
    ledgers = {each.ledger_path for each in source.configs.values() if each.ledger_path is not None}
    files = sorted(path.with_name(path.name + end) for path in ledgers for end in ("", "-wal"))
    mtimes = tuple((str(file), file.stat().st_mtime_ns) for file in files if file.exists())
    return datetime.now().astimezone().strftime("%Y-%m-%d %H"), fingerprint(source.roots), mtimes
