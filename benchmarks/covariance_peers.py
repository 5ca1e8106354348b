"""What the exact sums of a covariance are compared with, on the same store: dask.array, NumPy and scikit-learn."""

from __future__ import annotations

import importlib
import os
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, wait
from threadpoolctl import threadpool_limits

WIDEST_PCA = 500
LARGEST_ALONE = 4 * 10**8
"""Values of an array that NumPy gets whole: 3.2 GB, and twice that while it works."""

PEERS = {
    "floats": "the same plan in plain floats",
    "peer": "dask.array",
    "peer32": "dask.array in float32",
    "numpy": "np.cov",
    "sklearn": "IncrementalPCA",
}
"""What is compared with."""

MOST_BY_ROWS = 10_000
"""Features up to which dask.array is tried with whole rows in a chunk, each of which has a product of all features."""


def chunkings(rows: int, features: int, tall: int) -> list[tuple[int, int]]:
    """Chunks that dask.array is tried with, of a store with chunks of so many rows."""
    narrow = (4 * tall, min(features, 2048))
    return [(tall, features), (4 * tall, features), narrow] if features <= MOST_BY_ROWS else [narrow, (rows // 4, 2048)]


def peer(
    client: Client, store: Any, chunks: tuple[int, int], bound: float, dtype: str = "f8", rows: int | None = None
) -> None:
    """The same by dask.array, of all rows or the first of them."""
    with dask.config.set({"array.slicing.split-large-chunks": False}), client.as_current():
        records = da.from_zarr(store, chunks=chunks)[:rows].clip(-bound, bound).astype(dtype)
        wait(client.persist(records.T @ records))


def numpy_alone(store: Any, bound: float) -> None:
    """The same by NumPy in this process."""
    with threadpool_limits(os.cpu_count(), user_api="blas"):
        np.cov(np.clip(store[...], -bound, bound), rowvar=False, dtype=np.float64)


def incremental_pca(store: Any, bound: float) -> None:
    """Principal components by scikit-learn, a few thousand records at a time."""
    rows, features = store.shape
    several = max(1, 2 * features // store.chunks[0]) * store.chunks[0]
    found = importlib.import_module("sklearn.decomposition").IncrementalPCA(10)
    with threadpool_limits(os.cpu_count(), user_api="blas"):
        for first in range(0, rows - features, several):
            found.partial_fit(np.clip(store[first : first + several], -bound, bound), check_input=False)
