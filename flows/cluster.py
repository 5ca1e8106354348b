"""One Dask cluster for one run, with settings that keep un-noised values and keys where they belong.

* The noise key travels as a worker plugin: it is in no task, name or log, reaches restarted workers, and is removed
  after use.
* Spilled values stay in a private folder (0700, files 0600) that is removed afterwards, and at the next start after a
  crash.
* Peer-to-peer shuffles stay off the disk; the dashboard listens on this machine only.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
from dask.delayed import Delayed
from distributed import Client, Future, LocalCluster, WorkerPlugin, as_completed
from distributed.security import Security
from numpy.typing import NDArray

import flows.settings  # noqa: F401 - before Dask reads its environment
from engine import keyring
from engine.noise import NoiseKey
from pipeline import staging
from pipeline.compute import Compute, Progress, ThreadCompute, translate
from pipeline.config import Address, LoadedConfig
from pipeline.config import LocalCluster as LocalSection

CONNECT_SECONDS = 30
"""How long to wait for a scheduler at an address."""

_PLUGIN = "blockveil-noise-key"


class NoiseKeyPlugin(WorkerPlugin):
    """Installs a key in every worker, also in those that join or restart later."""

    name = _PLUGIN

    def __init__(self, handle: str, key: NoiseKey) -> None:
        self._handle, self._key = handle, key

    def setup(self, worker: Any) -> None:
        """Install the key."""
        keyring.install(self._handle, self._key)

    def teardown(self, worker: Any) -> None:
        """Forget the key."""
        keyring.forget(self._handle)

    def __repr__(self) -> str:
        """Show nothing."""
        return "NoiseKeyPlugin(***)"


class PrivateFilesPlugin(WorkerPlugin):
    """Makes what a local worker writes its user's alone, also after a restart."""

    name = "blockveil-private-files"

    def setup(self, worker: Any) -> None:
        """Set the process's file mode mask."""
        os.umask(0o077)


class DistributedCompute:
    """Runs a release's graph on a Dask cluster.

    Parameters
    ----------
    client
        Connected client.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.parallel = max(1, sum(client.nthreads().values()))

    def hold(self, leaves: Sequence[Delayed], total: Delayed, progress: Progress) -> Any:
        """Compute the total and keep it on the cluster; returns its future."""
        try:
            *parts, whole = self._client.compute([*leaves, total], optimize_graph=False)
            for done, future in enumerate(as_completed(parts, loop=self._client.loop), start=1):
                if future.status != "finished":
                    break
                progress(done / len(parts))
            return _settled(whole)
        except Exception as error:  # noqa: BLE001 - any text could quote a record; only its kind goes on
            failure = translate(error)
        raise failure

    def fetch(self, value: Delayed) -> NDArray[Any]:
        """Compute a noised value and bring it here."""
        try:
            return self._client.compute(value, optimize_graph=False).result()
        except Exception as error:  # noqa: BLE001 - as above
            failure = translate(error)
        raise failure

    def install(self, handle: str, key: NoiseKey) -> None:
        """Send the key to all workers, outside any task."""
        self._client.register_plugin(NoiseKeyPlugin(handle, key))

    def forget(self, handle: str) -> None:
        """Remove the key from the workers and from the scheduler's list of plugins."""
        try:
            self._client.unregister_worker_plugin(_PLUGIN)
        except Exception as error:  # noqa: BLE001 - the cluster is gone, and the key with it
            logging.getLogger(__name__).warning(
                "the key could not be removed from the cluster (%s)", type(error).__name__
            )


def _settled(future: Future) -> Future:
    """Wait for a future without fetching its value."""
    error = future.exception()
    if error is not None:
        raise error
    return future


@contextmanager
def open_compute(loaded: LoadedConfig) -> Iterator[Compute]:
    """Cluster of a config, for the time of one run.

    Raises
    ------
    ComputeError
        It cannot be started or reached.
    """
    section = loaded.config.cluster
    if not isinstance(section, LocalSection | Address):
        yield ThreadCompute(section.threads_per_worker)
        return
    with _scratch() as scratch, dask.config.set(_settings(scratch)):
        try:
            client, cluster = _connect(loaded, section)
        except Exception as error:  # noqa: BLE001 - an address or a credential could be in its text
            failure = translate(error)
        else:
            try:
                yield DistributedCompute(client)
            finally:
                client.close()
                if cluster is not None:
                    cluster.close()
            return
        raise failure


def _connect(loaded: LoadedConfig, section: LocalSection | Address) -> tuple[Client, LocalCluster | None]:
    if isinstance(section, Address):
        files = loaded.tls_files()
        security = (
            None
            if files is None
            else Security(
                tls_ca_file=str(files["authority"]),
                tls_client_cert=str(files["certificate"]),
                tls_client_key=str(files["key"]),
                require_encryption=True,
            )
        )
        client = Client(section.address, security=security, set_as_default=False, timeout=CONNECT_SECONDS)
        client.wait_for_workers(1, timeout=60)
        return client, None
    cluster = LocalCluster(
        n_workers=section.workers,
        threads_per_worker=section.threads_per_worker,
        memory_limit=f"{loaded.config.compute.memory_gib}GiB",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )
    client = Client(cluster, set_as_default=False)
    client.register_plugin(PrivateFilesPlugin())
    return client, cluster


def _settings(scratch: Path) -> dict[str, Any]:
    return {
        "temporary-directory": str(scratch),
        "distributed.p2p.storage.disk": False,
        "distributed.scheduler.allowed-failures": 3,
        "distributed.worker.memory.spill": 0.7,  # off would make workers pause, and the run hang
    }


@contextmanager
def _scratch() -> Iterator[Path]:
    """Private folder of one run; those of dead runs are removed first."""
    home = Path(tempfile.gettempdir()) / f"blockveil-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    home.chmod(0o700)  # fails where another user made it, which must stop the run
    staging.sweep(home)
    scratch = staging.scratch_path(home, "scratch")
    scratch.mkdir(mode=0o700)
    try:
        yield scratch
    finally:
        staging.remove(scratch)
