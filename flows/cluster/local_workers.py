"""Worker processes of this machine that obey their own run alone.

Whoever reaches a Dask scheduler, worker or nanny without encryption can run code as its user, and every account of a
machine reaches the loopback interface. So all three speak TLS and ask for a certificate that exists for one run, in the
memory of its processes. None of them serves pages: Dask's pages know no password.
"""

from __future__ import annotations

import logging
from typing import Any

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
    return SpecCluster(
        workers=dict.fromkeys(range(workers), worker),
        scheduler={"cls": PrivateScheduler, "options": {**common, "port": 0}},
        security=security,
        silence_logs=logging.CRITICAL,
    )
