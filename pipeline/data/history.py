"""Records that only ever grow: a night that continues others must hold the records of the night before, unchanged.

A history is the SHA-256 of the type of the elements, the number of columns and the bytes of all records in order,
whatever the chunks. Like a fingerprint it stays in the ledger. It does not tell how many records it is of, so the
records of earlier nights are found again by hashing record by record, all of them in one pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base.errors import BlockveilError, DataError
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.data.stores import unreadable

_BYTES = 64 * 2**20


@dataclass(frozen=True, repr=False)
class History:
    """Which records those of a night are, and where those of earlier nights end among them.

    Attributes
    ----------
    digest
        History of the records. Private: it stays in the ledger.
    ends
        Number of records of each earlier night that was asked for. Private, and never stored.
    """

    digest: str
    ends: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """Show nothing."""
        return "History()"


def history_of(dataset: Dataset, earlier: Sequence[str] = (), own: str | None = None) -> History:
    """History of records that begin with those of earlier nights.

    Parameters
    ----------
    dataset
        Opened records.
    earlier
        Histories of earlier nights, from the oldest to the newest.
    own
        History of the night itself where it has begun: of more records, its own come first.

    Raises
    ------
    DataError
        The records do not begin with those of the earlier nights, or with its own.
    StoreError
        They cannot be read.
    """
    wanted = [*earlier, *([] if own is None else [own])]
    try:
        found = _found(dataset, wanted, to_the_end=own is None)
    except BlockveilError:
        raise
    except Exception as error:  # noqa: BLE001 - an object store may raise anything, and its text may hold keys
        failure = unreadable("The store of the records", error)
    else:
        return found
    raise failure


def _found(dataset: Dataset, wanted: list[str], *, to_the_end: bool) -> History:
    total = hashlib.sha256(f"blockveil history 1 {dataset.dtype.str} {dataset.features}\n".encode())
    ends, rows = list[int](), 0
    for block in _blocks(dataset):
        rest = block
        if len(ends) < len(wanted):
            for position, record in enumerate(block, 1):
                total.update(record.data)
                digest = total.hexdigest()
                while len(ends) < len(wanted) and wanted[len(ends)] == digest:  # two nights may be of the same records
                    ends.append(rows + position)
                if len(ends) == len(wanted):
                    rest = block[position:]
                    break
            else:
                rows += len(block)
                continue
        rows += len(block)
        if not to_the_end:
            break
        total.update(np.ascontiguousarray(rest).tobytes())
    if len(ends) < len(wanted):
        raise DataError(
            "The records do not begin with those of the night before",
            "Nights that share a charge are of records to which others are only appended: a change of older records "
            "would show without noise",
            "Restore the older records in their order, or plan new nights under another continual.first (a new charge)",
        )
    return History(total.hexdigest(), tuple(ends))


def _blocks(dataset: Dataset) -> Iterator[NDArray[Any]]:
    rows = max(1, _BYTES // max(1, dataset.features * dataset.dtype.itemsize))
    rows = max(dataset.chunk_rows, rows // dataset.chunk_rows * dataset.chunk_rows)
    for start in range(0, dataset.rows, rows):
        yield np.ascontiguousarray(dataset.array[start : min(start + rows, dataset.rows)])
