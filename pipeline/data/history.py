"""Records that only ever grow: a night that continues others must hold the records of the night before, unchanged.

A history is the SHA-256 of the type of the elements, the number of columns and the bytes of all records in order,
whatever the chunks. Like a fingerprint it stays in the ledger. It does not tell how many records it is of, so the
records of an earlier night are found again by hashing record by record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base.errors import BlockveilError, DataError
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.data.stores import unreadable

_BYTES = 64 * 2**20


def extended(dataset: Dataset, earlier: str | None) -> str:
    """History of records that begin with those of an earlier night.

    Parameters
    ----------
    dataset
        Opened records.
    earlier
        History of the earlier night; None where there is none.

    Raises
    ------
    DataError
        The records do not begin with those of the earlier night.
    StoreError
        They cannot be read.
    """
    try:
        return _extended(dataset, earlier)
    except BlockveilError:
        raise
    except Exception as error:  # noqa: BLE001 - an object store may raise anything, and its text may hold keys
        failure = unreadable("The store of the records", error)
    raise failure


def _extended(dataset: Dataset, earlier: str | None) -> str:
    total = hashlib.sha256(f"blockveil history 1 {dataset.dtype.str} {dataset.features}\n".encode())
    found = earlier is None
    for block in _blocks(dataset):
        rest = block
        if not found:
            for position, record in enumerate(block, 1):
                total.update(record.data)
                if total.hexdigest() == earlier:
                    found, rest = True, block[position:]
                    break
            else:
                continue
        total.update(np.ascontiguousarray(rest).tobytes())
    if not found:
        raise DataError(
            "The records do not begin with those of the night before",
            "Nights that share a charge are of records to which others are only appended: a change of older records "
            "would show without noise",
            "Restore the older records in their order, or plan new nights under another continual.first (a new charge)",
        )
    return total.hexdigest()


def _blocks(dataset: Dataset) -> Iterator[NDArray[Any]]:
    rows = max(1, _BYTES // max(1, dataset.features * dataset.dtype.itemsize))
    rows = max(dataset.chunk_rows, rows // dataset.chunk_rows * dataset.chunk_rows)
    for start in range(0, dataset.rows, rows):
        yield np.ascontiguousarray(dataset.array[start : min(start + rows, dataset.rows)])
