"""Records that only ever grow: a night that continues others must hold the records of the night before, unchanged.

A history is a keyed digest of the type of the elements, the number of columns and the bytes of all records in order,
whatever the chunks. Like a fingerprint it stays in the ledger. It does not tell how many records it is of, so the
records of earlier nights are found again by hashing record by record, all of them in one pass.

Of records that an erasure has thinned out, the histories from before it cannot be hashed again: an entry of the ledger
says which history the records have now that are left of them (:mod:`blockveil.pipeline.ledger.renewals`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.data.content_key import ContentKey
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.data.sparse_store import Stored
from blockveil.pipeline.data.stores import guarded

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


def history_of(dataset: Dataset, key: ContentKey, earlier: Sequence[str] = (), own: str | None = None) -> History:
    """History of records that begin with those of earlier nights.

    Parameters
    ----------
    dataset
        Opened records.
    key
        Key of the histories.
    earlier
        Histories of earlier nights as they are now, from the oldest to the newest.
    own
        History of the night itself where it has begun: of more records, its own come first.

    Raises
    ------
    DataError
        The records do not begin with those of the earlier nights, or with its own.
    StoreError
        They cannot be read.
    """
    digests = [*earlier, *([] if own is None else [own])]
    return guarded(lambda: _found(dataset, key, digests, to_the_end=own is None))


def histories(array: Stored, key: ContentKey, ends: Sequence[int]) -> list[str]:
    """Histories of the first ``ends[i]`` of stored records, for each i; the numbers ascend.

    Raises
    ------
    Exception
        Whatever reading raises.
    """
    total, digests, rows = key.history(np.dtype(array.dtype), array.shape[1]), list[str](), 0
    for block in _blocks(array, array.shape[0]):
        begin = 0
        while len(digests) < len(ends) and ends[len(digests)] <= rows + len(block):
            stop = ends[len(digests)] - rows
            total.update(np.ascontiguousarray(block[begin:stop]).tobytes())
            digests.append(total.hexdigest())
            begin = stop
        total.update(np.ascontiguousarray(block[begin:]).tobytes())
        rows += len(block)
    return digests


def ends_of(array: Stored, key: ContentKey, wanted: Collection[str]) -> dict[str, int]:
    """Number of records of each wanted history that stored records begin with.

    Raises
    ------
    Exception
        Whatever reading raises.
    """
    total, ends, rows = key.history(np.dtype(array.dtype), array.shape[1]), dict[str, int](), 0
    for block in _blocks(array, array.shape[0]):
        if len(ends) == len(wanted):
            break
        for record in block:
            rows += 1
            total.update(record.data)
            if (digest := total.hexdigest()) in wanted:
                ends[digest] = rows
    return ends


def _found(dataset: Dataset, key: ContentKey, wanted: list[str], *, to_the_end: bool) -> History:
    total = key.history(dataset.dtype, dataset.features)
    ends, rows = list[int](), 0
    for block in _blocks(dataset.array, dataset.rows):
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


def _blocks(array: Stored, count: int) -> Iterator[NDArray[Any]]:
    chunk = array.chunks[0]
    rows = max(1, _BYTES // max(1, array.shape[1] * np.dtype(array.dtype).itemsize))
    rows = max(chunk, rows // chunk * chunk)
    for start in range(0, count, rows):
        yield np.ascontiguousarray(array[start : min(start + rows, count)])
