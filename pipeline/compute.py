"""What a release needs from whatever runs its graph. The pipeline names no scheduler; one in this process serves tests.

The contract every implementation keeps:

* an un-noised total never leaves the place where it was computed, except as an argument of a further task there;
* a key reaches the place where tasks run by :meth:`Compute.install`, never as a task argument, and leaves it again;
* a failure surfaces as :class:`pipeline.errors.DataError` or :class:`pipeline.errors.ComputeError`, without the
  original message.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, Protocol

import dask
from dask.callbacks import Callback
from dask.delayed import Delayed
from numpy.typing import NDArray

from engine import keyring
from engine.counts import CountError
from engine.fixedpoint import NotFiniteError
from engine.noise import NoiseKey
from engine.queries.graph import TaskFailed
from pipeline.errors import ComputeError, DataError

Progress = Callable[[float], None]


class Compute(Protocol):
    """Runs the graph of one release.

    Attributes
    ----------
    parallel
        Tasks that run at once.
    """

    parallel: int

    def hold(self, leaves: Sequence[Delayed], total: Delayed, progress: Progress) -> Any:
        """Compute the exact total and keep it where it is; return a value usable in a further graph."""

    def fetch(self, value: Delayed) -> NDArray[Any]:
        """Compute a noised value and bring it here."""

    def install(self, handle: str, key: NoiseKey) -> None:
        """Make a key known under a public handle wherever tasks run."""

    def forget(self, handle: str) -> None:
        """Remove a key from wherever tasks run; silent when it is not there."""


def translate(error: BaseException) -> DataError | ComputeError:
    """Error to show for a failed graph. Only the kind of an unexpected error is kept: its text could quote a record."""
    if isinstance(error, NotFiniteError):
        return DataError(
            "The records hold a missing or infinite value",
            "Each value must be finite, because a sum over it would be undefined",
            'Clean the data, or set [query] missing = "impute" with a public constant for each feature',
        )
    if isinstance(error, CountError):
        return DataError(
            "A column of codes holds a value that is not a whole number",
            "A code is a whole number; without edges a column is read as codes",
            "Declare lower and upper for this axis, or encode the column as integers",
        )
    kind = error.kind if isinstance(error, TaskFailed) else type(error).__name__
    return ComputeError(kind, secrets.token_hex(4))


class ThreadCompute:
    """Dask threads in this process: for small matrices, and where no cluster is wanted."""

    def __init__(self, parallel: int = 2) -> None:
        self.parallel = parallel

    def hold(self, leaves: Sequence[Delayed], total: Delayed, progress: Progress) -> Any:
        """Compute the total with threads; progress counts finished tasks that read records."""
        names = {leaf.key for leaf in leaves}
        done, lock = 0, Lock()

        def finished(key: Any, *_: Any) -> None:
            nonlocal done
            if key in names:
                with lock:
                    done += 1
                progress(done / len(names))

        with Callback(posttask=finished):
            return self._run(total)

    def fetch(self, value: Delayed) -> NDArray[Any]:
        """Compute a noised value with threads."""
        return self._run(value)

    def install(self, handle: str, key: NoiseKey) -> None:
        """Install the key in this process."""
        keyring.install(handle, key)

    def forget(self, handle: str) -> None:
        """Forget the key in this process."""
        keyring.forget(handle)

    def _run(self, value: Delayed) -> Any:
        try:
            with ThreadPoolExecutor(self.parallel) as pool, dask.config.set(scheduler="threads", pool=pool):
                return dask.compute(value, optimize_graph=False)[0]
        except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
            failure = translate(error)
        raise failure
