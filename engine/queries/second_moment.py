"""The noisy second moment as one Dask graph: read, clip, quantise, multiply; then a tree sum; then noise.

Un-noised sums exist only as task results inside the cluster's memory. Task names are numbers, so nothing about the data
or the key shows in them; the noise key reaches a worker through :mod:`engine.keyring`, never as a task argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np
from dask import delayed
from dask.delayed import Delayed
from numpy.typing import NDArray

from engine import gram, keyring
from engine.fixedpoint import NotFiniteError, Quantiser
from engine.mechanisms.gaussian import NoiseDesign, add_noise
from engine.noise import noise_block

_BRANCHES = 8
"""Partial matrices added in one task; bounds what a worker holds while it adds."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class TaskFailed(RuntimeError):
    """A task failed; only the kind of failure is kept, because a message could quote a record.

    Attributes
    ----------
    kind
        Class name of the original exception.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(f"a task failed with {kind}")
        self.kind = kind

    def __reduce__(self) -> tuple[type[TaskFailed], tuple[str]]:
        """Travel between processes without the original exception."""
        return type(self), (self.kind,)


def _sealed(function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Call a function, letting no exception text out that could quote a record."""
    try:
        return function(*args, **kwargs)
    except (NotFiniteError, keyring.MissingNoiseKey):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
        kind = type(error).__name__
    raise TaskFailed(kind)


def _partial(source: Any, start: int, stop: int, quantiser: Quantiser, chunk_rows: int) -> NDArray[np.int64]:
    return _sealed(gram.partial_gram, source, start, stop, quantiser, chunk_rows)


def _add(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return _sealed(gram.add, parts)


def _release(total: NDArray[np.int64], design: NoiseDesign, handle: str) -> NDArray[np.int64]:
    everything = (0, design.width)
    steps = design.steps(everything, everything)
    noise = noise_block(keyring.fetch(handle), everything, everything, grid=design.grid, symmetric=True)
    return add_noise(total, steps, noise)


def _noisy(total: NDArray[np.int64], design: NoiseDesign, handle: str) -> NDArray[np.int64]:
    return _sealed(_release, total, design, handle)


def exact_sum_graph(
    source: gram.RowSource, quantiser: Quantiser, ranges: list[tuple[int, int]], chunk_rows: int, name: str
) -> tuple[list[Delayed], Delayed]:
    """Graph of the exact integer second moment.

    Parameters
    ----------
    source
        Records, shape (n, d); must travel to workers (a Zarr array does).
    quantiser
        Clip and quantisation.
    ranges
        Row ranges, one task each.
    chunk_rows
        Rows to read at once.
    name
        Public prefix of the task names, unique to the run.

    Returns
    -------
    The tasks that read records (for progress), and the total, shape (width, width), int64. Neither is private yet.
    """
    read = delayed(_partial, pure=False)
    together = delayed(_add, pure=False)
    leaves = [
        read(source, start, stop, quantiser, chunk_rows, dask_key_name=f"{name}-multiply-{i}")
        for i, (start, stop) in enumerate(ranges)
    ]
    level, layer = list(leaves), 0
    while len(level) > 1:
        groups = [level[i : i + _BRANCHES] for i in range(0, len(level), _BRANCHES)]
        level = [together(group, dask_key_name=f"{name}-add-{layer}-{i}") for i, group in enumerate(groups)]
        layer += 1
    return leaves, level[0]


def noisy_graph(total: Any, design: NoiseDesign, handle: str, name: str) -> Delayed:
    """Graph of the released integers: the total, rounded to the grid, with noise.

    Parameters
    ----------
    total
        The exact sum: a Dask value.
    design
        Noise of the release.
    handle
        Name under which the key is installed where tasks run.
    name
        Public prefix of the task name.

    Returns
    -------
    Shape (width, width), int64, in grid steps. Safe to publish.
    """
    return delayed(_noisy, pure=False)(total, design, handle, dask_key_name=f"{name}-noise")
