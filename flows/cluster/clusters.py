"""One Dask cluster for one run, with settings that keep un-noised values and keys where they belong.

* All parts of a cluster are reached by TLS only, and workers elsewhere run this very code; both is checked before any
  work, and of workers that join later.
* Spilled values stay in a private folder (0700, files 0600) that is removed afterwards, and at the next start after a
  crash.
* Peer-to-peer shuffles stay off the disk; a local cluster serves no pages.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dask
from distributed import Client, WorkerPlugin
from distributed.comm import connect
from distributed.security import Security

from blockveil.flows.base import compiled, products
from blockveil.flows.cluster import local_workers, scratch, workers
from blockveil.flows.cluster.distributed_compute import DistributedCompute, failure_of
from blockveil.pipeline.base.errors import BlockveilError, ConfigError
from blockveil.pipeline.config import Address, ClusterClass, LoadedConfig
from blockveil.pipeline.config import LocalCluster as LocalSection
from blockveil.pipeline.releases.compute import Compute

CONNECT_SECONDS = 30
"""How long to wait for a scheduler at an address."""

PATIENCE_SECONDS = 3600.0
"""The longest time in which no task of a cluster makes any progress; the run fails then."""

_SPAWN = "distributed.nanny.pre-spawn-environ"
_KEPT_BYTES = 128 * 2**20
_LARGEST_KEPT_BYTES = 32 * 2**20  # the most that glibc takes


# Its finalisers complain, as errors, about folders that went with the private one.
logging.getLogger("distributed.diskutils").setLevel(logging.CRITICAL)
# Of a scheduler that is gone it shows the whole traceback; the run says so itself, and how to go on.
logging.getLogger("distributed.client").setLevel(logging.CRITICAL)


class PrivateFilesPlugin(WorkerPlugin):
    """Makes what a local worker writes its user's alone, also after a restart."""

    name = "blockveil-private-files"

    def setup(self, worker: Any) -> None:
        """Set the process's file mode mask."""
        os.umask(0o077)


class CompiledPlugin(WorkerPlugin):
    """Compiles the inner loops of a worker, or loads them, before it takes a task; also after a restart."""

    name = "blockveil-compiled"

    def setup(self, worker: Any) -> None:
        """Leave the work to NumPy where that is not possible."""
        compiled.prepare()


class ProductsPlugin(WorkerPlugin):
    """Chooses how a worker multiplies integers of eight bits, before it takes a task; also after a restart."""

    name = "blockveil-products"

    def setup(self, worker: Any) -> None:
        """Leave the work to BLAS where that is as fast, or where nothing else is exact."""
        products.prepare()


@contextmanager
def open_cluster(
    loaded: LoadedConfig, section: LocalSection | Address | ClusterClass, compile_loops: bool, choose_products: bool
) -> Iterator[Compute]:
    """Cluster of a config, for the time of one run.

    Parameters
    ----------
    loaded, section
        The config, and its cluster.
    compile_loops, choose_products
        Whether workers compile their inner loops, and choose how they multiply, before they take a task.

    Raises
    ------
    ComputeError
        It cannot be started or reached.
    StoreError
        There is no private place for what workers spill.
    """
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(_settings(stack.enter_context(scratch.private_folder()))))
        try:
            client = _connect(loaded, section, stack)
            if compile_loops:
                workers.register(client, CompiledPlugin())
            if choose_products:
                workers.register(client, ProductsPlugin())
        except BlockveilError:
            raise
        except Exception as error:  # noqa: BLE001 - an address or a credential could be in its text
            failure = failure_of(error)
        else:
            yield DistributedCompute(client, PATIENCE_SECONDS, getattr(section, "workers", 1))
            return
        raise failure


def _connect(loaded: LoadedConfig, section: LocalSection | Address | ClusterClass, stack: ExitStack) -> Client:
    """Start or reach a cluster; what was opened is closed with the stack, also when a later part fails."""
    stack.enter_context(local_workers.safe_path())
    if isinstance(section, LocalSection):
        return _start(loaded, section, stack)
    client = _reach(loaded, section) if isinstance(section, Address) else _launch(section, stack)
    stack.callback(_close, client.close)
    if not section.insecure:
        workers.check_transport(client)  # now too: a scheduler in clear is refused before anybody waits for a worker
    seconds = 2 * CONNECT_SECONDS if isinstance(section, Address) else 60 * section.wait_minutes
    workers.wait_for_one(client, seconds)
    if not section.insecure:
        workers.check_transport(client)
        workers.register(client, workers.Encrypted())
    workers.check(client, int(loaded.config.compute.memory_gib * 2**30))
    return client


def _start(loaded: LoadedConfig, section: LocalSection, stack: ExitStack) -> Client:
    """Processes on this machine."""
    stack.enter_context(local_workers.without_main())
    with scratch.private_files():
        memory = f"{loaded.config.compute.memory_gib}GiB"
        cluster = local_workers.start(section.workers, section.threads_per_worker, memory)
    stack.callback(_close, cluster.close)
    client = Client(cluster, set_as_default=False)
    stack.callback(_close, client.close)
    workers.check_transport(client)
    workers.register(client, workers.Encrypted())
    workers.register(client, PrivateFilesPlugin())
    # Workers have this process's code now; one that is restarted would have what an upgrade has put on the disk.
    workers.register(client, workers.SameCode(workers.versions()))
    return client


def _reach(loaded: LoadedConfig, section: Address) -> Client:
    """A scheduler that runs already."""
    security = _security(loaded)
    _greet(section.address, security)
    return Client(section.address, security=security, set_as_default=False, timeout=CONNECT_SECONDS)


def _launch(section: ClusterClass, stack: ExitStack) -> Client:
    """A cluster of a class that the config names."""
    module, _, name = section.cluster_class.rpartition(".")
    try:
        cluster_class = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f'cluster.cluster_class "{section.cluster_class}" cannot be imported ({type(error).__name__})',
            "It is the import path of a Dask cluster class of an installed package",
            "Install the package, or correct the path",
        ) from None
    try:
        with scratch.private_files():
            cluster = cluster_class(**section.arguments)
    except Exception as error:  # noqa: BLE001 - a credential could be in its text
        kind = type(error).__name__
    else:
        stack.callback(_close, cluster.close)
        cluster.scale(section.workers)
        return Client(cluster, set_as_default=False, timeout=CONNECT_SECONDS)
    raise ConfigError(
        f'cluster.cluster_class "{section.cluster_class}" does not take its arguments ({kind})',
        "cluster.arguments are what the class is called with",
        "Correct them; try them in a Python session to see the whole message",
    )


def _close(close: Callable[[], Any]) -> None:
    """Close quietly: at this point what was computed is safe, and it must not fail over a slow farewell."""
    try:
        close()
    except Exception as error:  # noqa: BLE001 - as above
        logging.getLogger(__name__).warning("the cluster did not close cleanly (%s)", type(error).__name__)


def _security(loaded: LoadedConfig) -> Security | None:
    files = loaded.tls_files()
    if files is None:
        return None
    return Security(**{name: str(path) for name, path in files.items()}, require_encryption=True)


def _greet(address: str, security: Security | None) -> None:
    """Shake hands with a scheduler within a time limit: a client waits for ever for one that accepts and is silent."""

    async def shake() -> None:
        arguments = {} if security is None else security.get_connection_args("client")
        (await connect(address, timeout=CONNECT_SECONDS, **arguments)).abort()

    async def limited() -> None:
        await asyncio.wait_for(shake(), CONNECT_SECONDS)

    with ThreadPoolExecutor(1) as thread:  # this thread may have an event loop already
        thread.submit(lambda: asyncio.run(limited())).result()


def memory_settings() -> dict[str, Any]:
    """Have the C library of a worker keep what it frees for the next task.

    Dask's own setting gives every array back to the system at once and gets it anew, page by page, for each piece of
    records: a fifth of the time of a narrow covariance.
    """
    thresholds = {"MALLOC_TRIM_THRESHOLD_": _KEPT_BYTES, "MALLOC_MMAP_THRESHOLD_": _LARGEST_KEPT_BYTES}
    return {_SPAWN: {**dask.config.get(_SPAWN), **thresholds}}


def _settings(folder: Path) -> dict[str, Any]:
    return {
        **memory_settings(),
        "temporary-directory": str(folder),
        "distributed.p2p.storage.disk": False,
        # The scheduler of a class runs in this process, with pages that ask for no password.
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.scheduler.allowed-failures": 3,
        # A worker of a class that dies is away for as long as its nanny takes to start another; then its job is ended.
        "distributed.deploy.lost-worker-timeout": "2 minutes",
        "distributed.worker.memory.spill": 0.7,  # off would make workers pause, and the run hang
    }
