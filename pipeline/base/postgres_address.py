"""How a client knows that it is the named PostgreSQL server that answers, and not somebody in its place."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

_VERIFIED = ("verify-ca", "verify-full")
_LOCAL = ("localhost", "127.0.0.1", "::1")
_USUAL_SOCKET = Path("/var/run/postgresql")
"""Folder of the socket where an address names no host; the client's library may have been built for another."""

_MUTUAL = {"require_auth": "scram-sha-256"}
# While a server of this machine is away, any account may listen at its port. With SCRAM a server proves that it knows
# the role's password, and learns nothing of it; libpq would tell the password to whoever asks for it in clear.


@dataclass(frozen=True)
class ServerProof:
    """What lets a client know a server.

    Attributes
    ----------
    options
        What is to be added to the address.
    problem, remedy
        Why nothing does, and what would; None where ``options`` do.
    """

    options: dict[str, str] = field(default_factory=dict)
    problem: str | None = None
    remedy: str = ""


def proof(address: str) -> ServerProof:
    """Find how the server of an address proves who it is; the environment has what the address leaves out."""
    try:
        parts = urlsplit(address)
    except ValueError:  # whose text quotes it
        return ServerProof(problem="has an address that is malformed", remedy="Correct the address")
    parameters = {key: values[-1] for key, values in parse_qs(parts.query).items()}

    def option(key: str) -> str:
        return parameters.get(key) or os.environ.get(f"PG{key.upper()}", "")

    if option("sslmode") in _VERIFIED:
        return ServerProof()
    hosts = [_host(each) for each in parts.netloc.rpartition("@")[2].split(",")]
    hosts += parameters.get("host", "").split(",")
    places = [place for place in hosts if place] or option("host").split(",")
    places = [place for place in (*places, *option("hostaddr").split(",")) if place]
    options = {} if places or option("service") else {"host": str(_USUAL_SOCKET)}
    places = places or list(options.values())
    sockets = [Path(place) for place in places if place.startswith("/")]
    if option("service") or any(place not in _LOCAL for place in places if not place.startswith("/")):
        return ServerProof(
            problem="is on another machine, and the address does not say how to know it",
            remedy="Add ?sslmode=verify-full&sslrootcert=PATH to the address",
        )
    if not option("requirepeer") and any(_is_open_to_all(folder) for folder in sockets):
        return ServerProof(
            problem="has its socket in a folder in which every account may put one",
            remedy="Add ?requirepeer=ACCOUNT, the account of the server, to the address, or move the socket",
        )
    return ServerProof(options if "require_auth" in parameters or len(places) == len(sockets) else _MUTUAL)


def _host(place: str) -> str:
    """Host of ``host:port``, where an address of IPv6 has brackets."""
    return unquote(place[1:].partition("]")[0] if place.startswith("[") else place.partition(":")[0])


def _is_open_to_all(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:  # then there is no socket either
        return False
