"""Worker processes of this machine that obey their own run alone.

Whoever reaches a Dask scheduler, worker or nanny without encryption can run code as its user, and every account of a
machine reaches the loopback interface. So all three speak TLS and ask for a certificate that exists for one run, in the
memory of its processes. None of them serves pages: Dask's pages know no password.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import spawn
from typing import Any

import dask
from distributed import Nanny, Scheduler, SpecCluster, Worker
from distributed.security import Security

_HOST = "127.0.0.1"
_PROTOCOL = "tls://"


class _WithoutPages:
    """A part of a cluster that opens no port for pages."""

    def start_http_server(self, *_args: Any, **_options: Any) -> None:
        """Open no port, where Dask always opens one, without a password and without TLS."""


class PrivateScheduler(_WithoutPages, Scheduler):
    """Scheduler without pages."""


class PrivateWorker(_WithoutPages, Worker):
    """Worker without pages."""


class Patient:
    """A cluster that leaves it to nannies to bring back workers that die, however long they take.

    Dask's own looks after some seconds whether a worker is back, and closes the nanny where it is not: under load, or
    where the worker dies once more meanwhile, none ever comes back. It also fails over the loss of a worker that it
    does not know, or knows no more, as one is that dies just after it joined.
    """

    def _update_worker_status(self: Any, op: str, msg: Any) -> None:
        if op == "remove":
            self.scheduler_info["workers"].pop(msg, None)
        else:
            super()._update_worker_status(op, msg)  # type: ignore[misc]  # of the cluster that this is mixed into


class PrivateCluster(Patient, SpecCluster):
    """Scheduler and workers of one run."""


def start(workers: int, threads: int, memory: str | int) -> SpecCluster:
    """Start a scheduler in this process, and workers in processes of their own.

    Parameters
    ----------
    workers, threads
        Number of worker processes, and of threads in each.
    memory
        Memory limit of a worker, as Dask writes it; 0 for none.
    """
    security = Security.temporary()
    common = {"host": _HOST, "protocol": _PROTOCOL, "security": security, "dashboard": False}
    worker = {
        "cls": Nanny,
        "options": {
            **common,
            "worker_class": PrivateWorker,
            "nthreads": threads,
            "memory_limit": memory,
            "silence_logs": logging.CRITICAL,
        },
    }
    # All workers are there from the start and equally fast. An idle one would take over tasks that take a tile out of a
    # part, which go by the time of those that compute parts, and would be sent the whole part.
    with dask.config.set({"distributed.scheduler.work-stealing": False}):
        return PrivateCluster(
            workers=dict.fromkeys(range(workers), worker),
            scheduler={"cls": PrivateScheduler, "options": {**common, "port": 0}},
            security=security,
            silence_logs=logging.CRITICAL,
        )


_SAFE_PATH = "PYTHONSAFEPATH"
_path_lock = threading.Lock()
_safe: list[str | None] = []


@contextmanager
def safe_path() -> Iterator[None]:
    """Let new processes of Python import nothing from the folder that they start in, for as long as the block runs.

    Dask starts workers with ``python -c``, which looks in the present folder before Python's own library: whoever may
    write there, as everybody may in ``/tmp``, could run code as this user, beside records and key.
    """
    with _path_lock:
        _safe.append(os.environ.get(_SAFE_PATH) if not _safe else None)
        os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        with _path_lock:
            before = _safe[0]
            _safe.pop()
            if not _safe and before is None:
                del os.environ[_SAFE_PATH]
            elif not _safe:
                os.environ[_SAFE_PATH] = str(before)


_WORKER = "Dask Worker process"
"""How the name of every process begins that a nanny starts."""

_MAIN = ("init_main_from_name", "init_main_from_path")
"""What tells a new process to run the main script of this one."""

_prepared, _lock, _open = spawn.get_preparation_data, threading.Lock(), [0]


@contextmanager
def without_main() -> Iterator[None]:
    """Let workers start without running this process's main script, for as long as the block runs.

    A script of three lines that makes a release would else be run again by each of its workers, which would try to
    release too, and fail. Workers need nothing of it. Other processes that are started meanwhile are as always.
    """
    with _lock:
        _open[0] += 1
        spawn.get_preparation_data = _prepared_alone
    try:
        yield
    finally:
        with _lock:
            _open[0] -= 1
            if not _open[0]:
                spawn.get_preparation_data = _prepared


def _prepared_alone(name: str) -> dict[str, Any]:
    setup = _prepared(name)
    return {key: value for key, value in setup.items() if key not in _MAIN} if name.startswith(_WORKER) else setup
