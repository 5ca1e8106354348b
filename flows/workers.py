"""Workers on other machines, checked before they get any work: how they are reached, what they run, what they have."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, ClassVar
from urllib.parse import urlsplit

from distributed import Client, WorkerPlugin
from distributed.comm import CommClosedError

from flows import code
from pipeline.errors import BlockveilError

PACKAGES = ("numpy", "scipy", "zarr", "dask", "distributed", "cryptography")
"""What decides the numbers of a release, or how tasks travel."""

_LOOPBACK = ("127.", "::1", "localhost")


class ClusterUnfit(BlockveilError):
    """The cluster may not compute a release."""

    exit_code: ClassVar[int] = 8


class SameCode(WorkerPlugin):
    """Keeps out workers that join later with other code or packages."""

    name = "blockveil-same-code"

    def __init__(self, expected: dict[str, str]) -> None:
        self._expected = expected

    def setup(self, worker: Any) -> None:
        """End a worker with other versions before it takes a task; the message names packages only."""
        found = versions()
        if found != self._expected:
            # Dask logs what a plugin raises, and gives the worker tasks all the same: one that closes takes none. Not
            # awaited here, where the worker still starts; a nanny would start it again, so that goes too.
            worker.loop.add_callback(worker.close, nanny=True, reason="blockveil-other-versions")
            raise RuntimeError(f"other versions: {_differences(self._expected, found)}")


def versions() -> dict[str, str]:
    """Versions of this code and of the packages that matter, in this process."""
    return {"blockveil": code.running(), **{name: version(name) for name in PACKAGES}}


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
    raise ClusterUnfit(
        f"The cluster has no worker after {seconds:g} seconds",
        "A release needs at least one",
        "Look at the cluster's queue or scheduler, then run again",
    )


def check_transport(client: Client) -> None:
    """Refuse a scheduler that is reached over a network without encryption.

    Raises
    ------
    ClusterUnfit
        It is.
    """
    address = urlsplit(client.scheduler.address)
    if address.scheme in ("tls", "inproc") or (address.hostname or "").startswith(_LOOPBACK):
        return
    raise ClusterUnfit(
        f"The scheduler is reached by {address.scheme}:// over a network",
        "Keys and un-noised sums travel to workers, so a scheduler on another machine must use TLS",
        'Give the cluster class arguments for it, such as protocol = "tls://" and security = true',
    )


def check(client: Client, memory: int) -> None:
    """Refuse workers with other code, other packages or less memory than the plan counts on.

    Parameters
    ----------
    client
        Connected client.
    memory
        Bytes that a worker may use.

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
    client.register_plugin(SameCode(expected))


def _compare(found: dict[str, Any], expected: dict[str, str], name: str) -> None:
    for answer in found.values():
        if isinstance(answer, CommClosedError):
            continue  # it left meanwhile; whoever comes back is checked as one that joins
        there = answer if isinstance(answer, str) else "none"
        if there != expected[name]:
            raise ClusterUnfit(
                f"A worker has another version of {name}: {_differences(expected, {name: there})}",
                "Workers run the code and packages of the client, so that the plan holds for what they compute",
                "Install the same locked packages on the workers",
            )


def _differences(expected: dict[str, str], found: dict[str, str]) -> str:
    return ", ".join(
        f"{name} {found.get(name, 'none')} in place of {wanted}"
        for name, wanted in expected.items()
        if found.get(name) != wanted
    )
