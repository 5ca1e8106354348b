"""Hosts of a network that lasts for one test: network namespaces of Linux on one switch, and faults of their links.

Nothing of the machine's own network is touched: the switch is a namespace too. It needs root's rights over networks.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import itertools
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

_NETWORK = 0x40000000  # CLONE_NEWNET
_ETHTOOL, _SET_CHECKSUMS = 0x8946, 0x17  # SIOCETHTOOL, ETHTOOL_STXCSUM
_PACKETS, _IGNORE_OUTGOING, _ALL_PROTOCOLS = 263, 23, 0x0003
_MASK = "/24"
_libc = ctypes.CDLL(None, use_errno=True)
_numbers = itertools.count()


def run(*words: object) -> str:
    """Output of a command, which must succeed."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def missing() -> str | None:
    """Why there can be no such network here; None where there can."""
    if os.geteuid() != 0:
        return "only root makes hosts in network namespaces"
    if shutil.which("ip") is None:
        return "there is no ip on the PATH: install iproute2"
    try:
        with Network(("probe",)):
            return None
    except OSError as error:
        return f"hosts cannot be made in network namespaces: {error}"


def needs(command: str) -> None:
    """Skip a test, with the reason, where a command of the network is missing; fail where networks are required."""
    if shutil.which(command) is not None:
        return
    reason = f"there is no {command} on the PATH"
    if os.environ.get("BLOCKVEIL_REQUIRE_HOSTS"):
        pytest.fail(reason)
    pytest.skip(reason)


class Host:
    """A machine with one address; its files, users and clock are those of this machine.

    Attributes
    ----------
    address
        Its address in the network of its switch.
    """

    def __init__(self, network: Network, name: str, number: int) -> None:
        self.address = f"10.77.0.{number}"
        self.space, self._switch = f"{network.mark}-{name}", network.switch
        self._port, self._number = f"port{number}", number

    def plug_in(self) -> None:
        """Make it, and connect it with the switch."""
        run("ip", "netns", "add", self.space)
        run("ip", "-n", self._switch, "link", "add", self._port, "type", "veth", "peer", "name", "eth0",
            "netns", self.space)  # fmt: skip
        run("ip", "-n", self._switch, "link", "set", self._port, "master", "switch", "up")
        run("ip", "-n", self.space, "address", "add", self.address + _MASK, "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", self.space, "link", "set", device, "up")
        run("ip", "-n", self.space, "route", "add", "default", "dev", "eth0")  # programs ask it which address is theirs
        with self.inside():
            _compute_checksums("eth0")

    def pull_out(self) -> None:
        """End its processes and remove it."""
        for process in run("ip", "netns", "pids", self.space).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        run("ip", "netns", "delete", self.space)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Let this thread, and the threads and processes that it starts, open their sockets on this host."""
        with open("/proc/thread-self/ns/net") as before, open(f"/run/netns/{self.space}") as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    def cut(self) -> None:
        """Cut its link: nobody is told that it is gone."""
        run("ip", "-n", self._switch, "link", "set", self._port, "down")

    def mend(self) -> None:
        """Let its link work again."""
        run("ip", "-n", self._switch, "link", "set", self._port, "up")

    @contextlib.contextmanager
    def limited(self, rate: str) -> Iterator[None]:
        """Give its link a rate in both directions, as ``10mbit``."""
        ends = ((self._switch, self._port), (self.space, "eth0"))
        limit = ("root", "tbf", "rate", rate, "burst", "32kbit", "latency", "400ms")
        for space, device in ends:
            run("tc", "-n", space, "qdisc", "add", "dev", device, *limit)
        try:
            yield
        finally:
            for space, device in ends:
                run("tc", "-n", space, "qdisc", "delete", "dev", device, "root")

    @contextlib.contextmanager
    def lossy(self, percent: int) -> Iterator[None]:
        """Drop a share of the packets that come and go."""
        with self.inside():
            run("nft", "add", "table", "ip", "lossy")
            for hook in ("input", "output"):
                run("nft", f"add chain ip lossy {hook} {{ type filter hook {hook} priority 0; }}")
                run("nft", f"add rule ip lossy {hook} numgen random mod 100 < {percent} counter drop")
        try:
            yield
        finally:
            with self.inside():
                dropped = run("nft", "list", "table", "ip", "lossy").count("packets 0 ")
                run("nft", "delete", "table", "ip", "lossy")
        assert not dropped, "no packet was dropped in one direction"

    @contextlib.contextmanager
    def delayed(self, seconds: float) -> Iterator[None]:
        """Make its link longer: all that comes and goes arrives later. Works without the kernel's netem."""
        near, far = f"near{self._number}", f"far{self._number}"
        on_switch = ("ip", "-n", self._switch, "link")
        run(*on_switch, "add", near, "type", "veth", "peer", "name", far)
        run(*on_switch, "set", near, "up")
        run(*on_switch, "set", far, "master", "switch", "up")
        run(*on_switch, "set", self._port, "nomaster")
        with Wire(self._switch, (self._port, near), seconds):
            try:
                yield
            finally:
                run(*on_switch, "set", self._port, "master", "switch")
        run(*on_switch, "delete", near)


class Network:
    """Hosts on one switch, removed with all their processes at the end.

    Parameters
    ----------
    names
        Of the hosts.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.mark = f"blockveil-{os.getpid()}-{next(_numbers)}"
        self.switch = f"{self.mark}-switch"
        self._hosts = {name: Host(self, name, number) for number, name in enumerate(names, start=1)}

    def __getitem__(self, name: str) -> Host:
        """A host by its name."""
        return self._hosts[name]

    def __enter__(self) -> Network:
        """Make the switch and connect the hosts."""
        self._made = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            run("ip", "netns", "add", self.switch)
            undo.callback(run, "ip", "netns", "delete", self.switch)
            run("ip", "-n", self.switch, "link", "add", "switch", "type", "bridge")
            run("ip", "-n", self.switch, "link", "set", "switch", "up")
            for host in self._hosts.values():
                undo.callback(_quietly, host.pull_out)
                host.plug_in()
            self._made = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove all of it."""
        self._made.close()


class Wire:
    """A long wire between two devices of a switch, in a thread of this process.

    Parameters
    ----------
    space, devices
        Where it is.
    seconds
        How long a frame takes.
    """

    def __init__(self, space: str, devices: tuple[str, str], seconds: float) -> None:
        self._space, self._devices, self._seconds = space, devices, seconds
        self._thread = threading.Thread(target=self._carry)
        self._over = threading.Event()
        self._ends: list[socket.socket] = []

    def __enter__(self) -> Wire:
        """Begin."""
        with open("/proc/thread-self/ns/net") as before, open(f"/run/netns/{self._space}") as there:
            _enter(there.fileno())
            try:
                for device in self._devices:
                    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
                    self._ends.append(end)
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**23)
                    end.setsockopt(_PACKETS, _IGNORE_OUTGOING, 1)
                    end.bind((device, _ALL_PROTOCOLS))
                    end.setblocking(False)
            finally:
                _enter(before.fileno())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._over.set()
        self._thread.join()
        for end in self._ends:
            end.close()

    def _carry(self) -> None:
        on_the_way: list[tuple[float, int, socket.socket, bytes]] = []
        order = itertools.count()
        with selectors.DefaultSelector() as ready:
            for end, other in zip(self._ends, reversed(self._ends), strict=True):
                ready.register(end, selectors.EVENT_READ, other)
            while not self._over.is_set():
                wait = on_the_way[0][0] - time.monotonic() if on_the_way else 0.1
                for key, _ in ready.select(max(0.0, min(wait, 0.1))):
                    assert isinstance(key.fileobj, socket.socket)
                    with contextlib.suppress(BlockingIOError):
                        frame = key.fileobj.recv(65536)
                        heapq.heappush(on_the_way, (time.monotonic() + self._seconds, next(order), key.data, frame))
                while on_the_way and on_the_way[0][0] <= time.monotonic():
                    _, _, to, frame = heapq.heappop(on_the_way)
                    with contextlib.suppress(OSError):  # a full queue drops a frame, as a switch does
                        to.send(frame)


def _enter(space: int) -> None:
    if _libc.setns(space, _NETWORK):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _quietly(end: object) -> None:
    with contextlib.suppress(OSError):
        end()  # type: ignore[operator]


def _compute_checksums(device: str) -> None:
    """Have packets sent whole, in pieces of the size of a frame: a wire of this process carries them as they are."""
    value = ctypes.create_string_buffer(struct.pack("II", _SET_CHECKSUMS, 0))
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _ETHTOOL, struct.pack("16sP8x", device.encode(), ctypes.addressof(value)))
