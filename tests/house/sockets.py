"""Sockets at which the processes of a command listen, and its processes, from /proc."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.end_to_end.served import parents

MARK = "BLOCKVEIL_TREE"
"""Variable that all processes of a command inherit, also those that leave their parent."""


@dataclass(frozen=True)
class Listener:
    """Something that others may talk to.

    Attributes
    ----------
    kind
        ``tcp``, ``udp``, ``raw`` or ``unix``, with 6 for the newer protocol.
    host, port
        Where; a unix socket's path is its host.
    number
        The system's own number of the socket.
    process
        Number of the oldest process that holds it. Between its fork and its own program, a child holds all sockets of
        its parent: they are the same sockets.
    """

    kind: str
    host: str
    port: int
    number: int
    process: int = field(compare=False)


def tree(process: int, mark: str) -> set[int]:
    """A process, its descendants, and whoever has inherited its mark."""
    found, known = {process}, dict(parents())
    for _ in known:
        more = {pid for pid, parent in known.items() if parent in found} - found
        if not more:
            break
        found |= more
    return found | {pid for pid in known if f"{MARK}={mark}\0".encode() in read(pid, "environ") + b"\0"}


def read(process: int, name: str) -> bytes:
    """A file of a process; empty where it has ended."""
    try:
        return Path(f"/proc/{process}/{name}").read_bytes()
    except OSError:
        return b""


def words(process: int) -> str:
    """Command line of a process."""
    return read(process, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def started(process: int) -> int:
    """When a process began, in ticks of the machine; 0 where it has ended."""
    fields = read(process, "stat").rpartition(b")")[2].split()
    return int(fields[19]) if fields else 0


def listeners(processes: set[int]) -> set[Listener]:
    """All sockets of processes that others can open a connection to, or send to."""
    held: dict[int, int] = {}
    for process in sorted(processes, key=lambda each: (started(each), each), reverse=True):  # the oldest has the word
        with contextlib.suppress(OSError):
            for link in os.scandir(f"/proc/{process}/fd"):
                with contextlib.suppress(OSError):
                    found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link.path))
                    if found:
                        held[int(found[1])] = process
    spaces = {}  # network name spaces, each with one of its processes
    for process in processes:
        with contextlib.suppress(OSError):  # it has ended
            spaces[os.readlink(f"/proc/{process}/ns/net")] = process
    return {
        Listener(kind, host, port, number, held[number])
        for process in spaces.values()
        for kind, host, port, number in _open(process)
        if number in held
    }


def _open(process: int) -> Iterator[tuple[str, str, int, int]]:
    for kind in ("tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp", "icmp6"):
        for line in read(process, f"net/{kind}").decode().splitlines()[1:]:
            fields = line.split()
            # Listening (TCP), or bound and open to everybody (the others); one with a peer hears that peer alone.
            if fields[3] == ("0A" if kind.startswith("tcp") else "07"):
                host, _, port = fields[1].partition(":")
                yield kind, _address(host), int(port, 16), int(fields[9])
    for line in read(process, "net/unix").decode().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        accepts, datagrams = int(fields[3], 16) & 0x10000, fields[4] == "0002"
        if len(fields) == 8 and (accepts or datagrams):
            yield "unix", fields[7].replace("@", "\0", 1), 0, int(fields[6])
    for line in read(process, "net/packet").decode().splitlines()[1:]:
        yield "packet", "", 0, int(line.split()[8])


def _address(text: str) -> str:
    raw = b"".join(struct.pack("=I", int(text[i : i + 8], 16)) for i in range(0, len(text), 8))
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
