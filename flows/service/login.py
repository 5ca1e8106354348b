"""The login of the Prefect server that `blockveil serve` starts, and the one place where it is kept.

A server without a password lets every account of the machine start releases. Where nobody has set one, it is made here
from the operating system's randomness and kept in a file of this user alone in the Prefect home. Other commands of
this user read it there, and send it to that server only: to the address that `serve` recorded, while a process of
this user listens there.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
import tomllib
from collections.abc import Iterator
from contextlib import chdir, contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from blockveil.flows.service import own_secret
from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError, StoreError

FILE_NAME = "blockveil-login"
"""File of the login in the Prefect home."""

ADDRESS = "blockveil-address"
"""File of the address at which the server of this home was started last."""

SERVER, CLIENT, URL = "PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING", "PREFECT_API_URL"

_ROOT = 0
_LISTENING = "0A"  # TCP_LISTEN, as /proc/net/tcp writes it


def home() -> Path:
    """Absolute path of the Prefect home, which is made where it is missing.

    Raises
    ------
    ConfigError
        The account has no home folder, and no other place is named.
    StoreError
        It cannot be made, or another user could put settings, and so code, into it or into what lies in it.
    """
    try:
        place = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser().absolute()
    except RuntimeError:
        nowhere = ConfigError(
            "This account has no home folder",
            "The login and Prefect's database are kept in one",
            "Set PREFECT_HOME to a folder of this user",
        )
    else:
        return _checked(place)
    raise nowhere


def _checked(place: Path) -> Path:
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = place.stat()
    except OSError as error:
        failure = durable.store_error(error, "The Prefect home cannot be made", "PREFECT_HOME")
    else:
        foreign = next((at for at in (place, *_reached(place, status)) if _is_of_others(at)), None)
        if foreign is None:
            return place
        what = "The" if foreign == place else f'"{foreign.name}" in the'
        failure = StoreError(
            f"{what} Prefect home {place} belongs to another user, or others can write to it",
            "It holds settings, which can name code, the login and the database of the server",
            f"Run chmod 700 {place}, or set PREFECT_HOME to a folder of this user",
        )
    raise failure


def _reached(place: Path, found: os.stat_result) -> list[Path]:
    """What lies in a home, as far as others get there at all."""
    try:
        return list(place.iterdir()) if found.st_mode & (stat.S_IXGRP | stat.S_IXOTH) else []
    except OSError:  # nobody may look, and then Prefect says so
        return []


def _is_of_others(path: Path) -> bool:
    """Whether another user owns a file or folder or can write to it."""
    try:
        status = path.stat()
    except OSError:  # removed since, or a link to nothing
        return False
    return status.st_uid not in (os.geteuid(), _ROOT) or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def configured() -> str | None:
    """Login that the environment or Prefect's active profile sets, or None.

    Raises
    ------
    ConfigError
        It is empty, which Prefect takes for none, or server and clients have different ones.
    """
    logins = {name: value for name in (SERVER, CLIENT) if (value := setting(name)) is not None}
    if any(not value.strip() for value in logins.values()):
        raise ConfigError(
            f"{next(name for name, value in logins.items() if not value.strip())} is empty",
            "A server is never without a password",
            "Set it to user:password, or remove it, and one is made",
        )
    if len(set(logins.values())) > 1:
        raise ConfigError(
            f"{SERVER} and {CLIENT} differ",
            "Runs log in at the server that is started here",
            "Set one of them, or both to the same user:password",
        )
    return next(iter(logins.values()), None)


def setting(name: str) -> str | None:
    """Setting of Prefect in the environment, else in its active profile; Prefect itself is not imported for it."""
    return os.environ[name] if name in os.environ else _profile().get(name)


def _profile() -> dict[str, str]:
    elsewhere = os.environ.get("PREFECT_PROFILES_PATH")
    path = Path(elsewhere or home() / "profiles.toml")
    if elsewhere and _is_of_others(path):
        raise StoreError(
            f"{path} belongs to another user, or others can write to it",
            "PREFECT_PROFILES_PATH names settings, which can name code",
            "Run chmod go-w on it, or give it to this user",
        )
    try:
        tree: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}  # Prefect itself says what is wrong with it
    active = os.environ.get("PREFECT_PROFILE") or tree.get("active")
    profile = tree.get("profiles", {}).get(active, {}) if isinstance(tree.get("profiles", {}), dict) else {}
    return {key: value for key, value in profile.items() if isinstance(value, str)} if isinstance(profile, dict) else {}


def kept(place: Path) -> str:
    """Login of a Prefect home; made once.

    Raises
    ------
    StoreError
        The file cannot be made or read, or others could have read or changed it.
    """
    return own_secret.kept(place / FILE_NAME, "login", "blockveil:")


def record(place: Path, address: str) -> None:
    """Keep where the server of a home listens, so that its login is sent nowhere else."""
    durable.replace_file(place / ADDRESS, f"{address}\n".encode(), place / f".{ADDRESS}")


def join() -> None:
    """Let this process log in at the server of this home, where that is the one it talks to; call before Prefect.

    Raises
    ------
    ConfigError, StoreError
        The login that is configured or kept cannot be used.
    """
    address = setting(URL)
    if setting(CLIENT) is None and address is not None and is_ours(home(), address):
        os.environ[CLIENT] = kept(home())
    import_prefect()


@contextmanager
def joined() -> Iterator[None]:
    """Log in as :func:`join` does, for as long as the block runs, also where Prefect was imported before.

    In a notebook one cell may use Prefect and a later one name a server, or another server: Prefect then reads the
    environment again, and the login of one server is not left there for the next.
    """
    before, in_use = os.environ.get(CLIENT), "prefect.settings" in sys.modules
    join()
    if in_use and URL in os.environ:
        read_again()
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(CLIENT, None)


def import_prefect() -> None:
    """Import Prefect in its home: elsewhere a .env, prefect.toml or pyproject.toml that lies there would count."""
    with chdir(home()):
        from prefect.settings import get_current_settings

        get_current_settings()


def read_again() -> None:
    """Have Prefect read its environment anew, in its home: a program may use one server after another."""
    with chdir(home()):
        from prefect.context import refresh_global_settings_context

        refresh_global_settings_context()


def is_ours(place: Path, address: str) -> bool:
    """Whether an address is the one at which this home's server was started, and this user listens there now."""
    try:
        own_address = (place / ADDRESS).read_text("utf-8").strip()
    except OSError:
        return False
    return own_address.rstrip("/") == address.rstrip("/") and _is_own_listener(own_address)


def _is_own_listener(address: str) -> bool:
    """Whether every process that takes connections for an address is this user's: a port can change its owner."""
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or 0
    with suppress(ValueError):
        host = "127.0.0.1" if ip_address(host).is_unspecified else host
    try:
        hosts = {ip_address(str(entry[4][0])) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return False
    owners = {owner for at, at_port, owner in _listeners() if at_port == port and (at in hosts or at.is_unspecified)}
    return all(at.is_loopback for at in hosts) and owners == {os.geteuid()}


def _listeners() -> Iterator[tuple[Any, int, int]]:
    """Address, port and user of everything on this machine that listens."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text("ascii").splitlines()[1:]:
                words = line.split()
                at, _, port = words[1].partition(":")
                if words[3] == _LISTENING:
                    # Each four bytes are a number in the machine's own order.
                    parts = [int(at[i : i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(at), 8)]
                    yield ip_address(b"".join(parts)), int(port, 16), int(words[7])
