"""Workers on other machines, checked before they get any work: how they are reached, what they run, what they have."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from typing import Any, ClassVar
from urllib.parse import urlsplit

from distributed import Client, WorkerPlugin
from distributed.comm import CommClosedError

from blockveil.flows.base import code
from blockveil.pipeline.base.errors import BlockveilError

PACKAGES = ("numpy", "scipy", "zarr", "dask", "distributed", "cryptography")
"""What decides the numbers of a release, or how tasks travel."""

_TRIES = 3
"""How often a plugin is sent: a worker that leaves before it answers fails that for all of them."""


class ClusterUnfit(BlockveilError):
    """The cluster may not compute a release."""

    exit_code: ClassVar[int] = 8


class NoWorker(ClusterUnfit):
    """No worker has come so far."""

    passes = True


class SameCode(WorkerPlugin):
    """Keeps out workers that join later with other code or packages."""

    name = "blockveil-same-code"

    def __init__(self, expected: dict[str, str]) -> None:
        self._expected = expected

    def setup(self, worker: Any) -> None:
        """End a worker with other versions before it takes a task; the message names packages only."""
        packages = versions()
        if packages != self._expected:
            _end(worker, "blockveil-other-versions")
            raise RuntimeError(f"other versions: {_differences(self._expected, packages)}")


def versions() -> dict[str, str]:
    """Versions of this code and of the packages that matter, in this process."""
    return {"blockveil": code.running(), **{name: version(name) for name in PACKAGES}}


def register(client: Client, plugin: WorkerPlugin) -> None:
    """Install a plugin. A worker that leaves meanwhile is no failure: the one in its place gets it as it joins."""
    for _ in range(_TRIES - 1):
        with suppress(OSError):
            client.register_plugin(plugin)
            return
    client.register_plugin(plugin)


def wait_for_one(client: Client, seconds: float) -> None:
    """Wait until there is a worker.

    Raises
    ------
    ClusterUnfit
        None came in time.
    """
    try:
        client.wait_for_workers(1, timeout=seconds)
        return
    except TimeoutError:
        pass
    raise NoWorker(
        f"The cluster has no worker after {seconds:g} seconds",
        "A release needs at least one",
        "Look at the cluster's queue or scheduler, then run again",
    )


def check_transport(client: Client) -> None:
    """Refuse a cluster that has a scheduler, a worker or a nanny that can be reached without encryption.

    How this process reaches the scheduler says little: an address of this machine may be a port that is forwarded to a
    cluster whose parts talk in clear.

    Raises
    ------
    ClusterUnfit
        It has one, or does not say.
    """
    identity = client.scheduler_info(n_workers=-1)
    parts = [("scheduler", client.scheduler.address), ("scheduler", identity["address"])]
    parts += [("scheduler", address) for address in _listened_at(client)]
    for address, worker in identity["workers"].items():
        parts += [("worker", address), *([("nanny", worker["nanny"])] if worker["nanny"] else [])]
    for part, address in parts:
        if not encrypted(address):
            raise ClusterUnfit(
                f"The {part} of the cluster is reached by {urlsplit(address).scheme}://",
                "Keys and un-noised sums travel between all parts of a cluster, and whoever reaches one of them "
                "without TLS can run code on it",
                'Start scheduler, workers and nannies with TLS, such as by protocol = "tls://" and security = true; '
                "or accept the risk with insecure = true in [cluster]",
            )


def _listened_at(client: Client) -> list[str]:
    """All addresses that the scheduler listens at: it may have one with TLS and one without."""
    try:
        # A lambda travels whole, so that the scheduler's machine need not have this package.
        addresses: list[str] = client.run_on_scheduler(
            lambda dask_scheduler: [listener.listen_address for listener in dask_scheduler.listeners]
        )
        return addresses
    except Exception as error:  # noqa: BLE001 - an address could be in its text
        kind = type(error).__name__
    raise ClusterUnfit(
        f"The scheduler does not say where it listens ({kind})",
        "It must be reachable with TLS alone",
        "Run the scheduler with the Python and the packages of this machine",
    )


def encrypted(address: str) -> bool:
    """Whether what is sent to an address of Dask cannot be read or changed on the way.

    Dask's gateways speak TLS always. Values of ``inproc`` stay in the process, which must be this one.
    """
    parts = urlsplit(address)
    return parts.scheme in ("tls", "gateway") or (
        parts.scheme == "inproc" and parts.path.split("/")[1:2] == [str(os.getpid())]
    )


class Encrypted(WorkerPlugin):
    """Keeps out workers that join later and can be reached without encryption, or reach their scheduler so."""

    name = "blockveil-encrypted"

    def setup(self, worker: Any) -> None:
        """End such a worker before it takes a task; the message names how it is reached only."""
        addresses = [worker.address, worker.contact_address or worker.address, worker.scheduler.address]
        addresses += [listener.listen_address for listener in worker.listeners]
        addresses += [worker.nanny] if worker.nanny else []
        for address in addresses:
            if not encrypted(address):
                for listener in worker.listeners:  # nobody is to reach it while it closes
                    listener.stop()
                _end(worker, "blockveil-not-encrypted")
                raise RuntimeError(f"a worker is reached by {urlsplit(address).scheme}://")


def _end(worker: Any, reason: str) -> None:
    """End a worker for good.

    Dask logs what a plugin raises, and gives the worker tasks all the same: one that closes takes none. That is not
    awaited here, where the worker still starts; a nanny would start it again, so that goes too.
    """
    worker.loop.add_callback(worker.close, nanny=True, reason=reason)


def check(client: Client, memory: int) -> None:
    """Refuse workers with other code, other packages or less memory than the plan counts on.

    Raises
    ------
    ClusterUnfit
        With what differs.
    """
    expected = versions()
    for name in PACKAGES:  # by the standard library alone: workers need not have this package yet
        _compare(client.run(version, name, on_error="return"), {name: expected[name]}, name)
    _compare(client.run(code.running, on_error="return"), {"blockveil": expected["blockveil"]}, "blockveil")
    for worker in client.scheduler_info(n_workers=-1)["workers"].values():
        limit = worker["memory_limit"]
        if limit and limit < memory:
            raise ClusterUnfit(
                f"A worker has {limit / 2**30:.3g} GiB and [compute] memory_gib is {memory / 2**30:.3g}",
                "The plan counts on that much memory in each worker",
                "Lower memory_gib, or give workers more",
            )
    register(client, SameCode(expected))


def _compare(found: dict[str, Any], expected: dict[str, str], name: str) -> None:
    for answer in found.values():
        if isinstance(answer, CommClosedError):
            continue  # it left meanwhile; whoever comes back is checked as one that joins
        version = answer if isinstance(answer, str) else "none"
        if version != expected[name]:
            raise ClusterUnfit(
                f"A worker has another version of {name}: {_differences(expected, {name: version})}",
                "Workers run the code and packages of the client, so that the plan holds for what they compute",
                "Install the same locked packages on the workers",
            )


def _differences(expected: dict[str, str], found: dict[str, str]) -> str:
    return ", ".join(
        f"{name} {found.get(name, 'none')} in place of {version}"
        for name, version in expected.items()
        if found.get(name) != version
    )
