"""How many rows a store that grows holds of each unit, so that the bound on a unit's rows holds over all appends.

**Claim.** Let the source be a sequence of appends, each a multiset of rows. Then the store holds at most k rows of each
unit, whatever the appends; and sources that differ by all rows of one unit u have stores that differ by rows of u
alone, at most k of them, in all appends together.

**Proof.** An append keeps of unit v the ``min(k - h, n)`` rows of the smallest ``F(v, content, number)`` among the n
that fit, equal ones numbered within this append; h is how many rows of v the earlier appends kept. By induction h is a
function of v's rows in the earlier appends, of v's identifier, of k and of the seed, and ``h <= k``: it is 0 before the
first, and each adds at most ``k - h``. So what is kept of v depends on the rows of no other unit (the claim in
:mod:`.units`, with ``k - h`` in place of k), and removing u's rows from every append changes nothing that is stored of
v, nor, as each append is in the order of units, the order of it. Over all appends ``sum_a min(k - h_a, n_a) <= k`` rows
of u are stored. QED.

Which append a row is in is given: it is that of its file, which is known by its name and never by its content (a file
that repeats another is refused, not skipped: to skip it would hide all of its rows for what one row in it says). Under
replace-one the claim fails for k = 1 too: how many records the *first* append has would tell whether u had a row in it.
Releases under replace-one are refused, as the contract of the store says that it grows.

The rows of a unit that the first appends bring are kept, and those beyond the bound are dropped in all later appends.

On the disk this is a list of immutable files, each of units in order with how many rows some appends kept of them; they
add up. Four files of equally many appends are merged to one, as a counter carries: n appends write each entry at most
``1 + log4 n`` times. Each is encrypted as a whole (:mod:`.identity_key`): the seed of the config is no secret, and even
the place of an erased unit among others would tell about its identifier.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.data.ingest.identity_key import EncryptedFile, IdentityKey, content_bytes, open_private
from blockveil.pipeline.data.ingest.units import DIGEST, Digests, ranges

ENTRY = np.dtype([("unit", DIGEST), ("rows", "<u4")])
"""One unit and how many rows of it are kept; files hold entries in the order of units, and nothing else."""

Places = NDArray[np.int64]
Entries = NDArray[Any]

_MERGE_BYTES = 64 * 2**20
_AT_ONCE = 4
"""Files that become one."""


@dataclass(frozen=True)
class UnitFile:
    """One file of units.

    Attributes
    ----------
    name
        Its name in the folder of the state.
    appends
        Of how many appends it is.
    digest
        SHA-256 of the file as it lies there, encrypted.
    """

    name: str
    appends: int
    digest: str


class UnitBound:
    """What an append may still store of each unit, and what it does store.

    Parameters
    ----------
    folder
        Folder of the files.
    files
        What earlier appends kept.
    scratch
        Private folder for what this one keeps: a file a range of units, so that a run that goes on has them.
    """

    def __init__(self, folder: Path, files: Sequence[UnitFile], scratch: Path) -> None:
        self._files = [folder / file.name for file in files]
        self._scratch, self._ranges = scratch, 0
        scratch.mkdir(mode=0o700, exist_ok=True)

    @property
    def size(self) -> int:
        """Bytes of what is known of units."""
        return sum(content_bytes(file.stat().st_size) for file in self._files)

    def earlier(self, low: bytes, high: bytes | None) -> tuple[Digests, Places]:
        """Units of a range in order, each once, and how many of their rows are stored; shape (units,) each."""
        entries = _added([_within(file, low, high) for file in self._files])
        return entries["unit"], entries["rows"].astype(np.int64)

    def keep(self, number: int, of: int, digests: Digests, rows: Places) -> None:
        """Note how many rows are kept of the units of one range of hashes; it is on the disk when this returns."""
        self._ranges = of
        entries = np.empty(digests.size, ENTRY)
        entries["unit"], entries["rows"] = digests, rows
        with open_private(self._range(number)) as stream:
            stream.write(entries[rows > 0].tobytes())
        durable.sync(self._range(number))

    def kept(self) -> Iterator[bytes]:
        """Content of one file of all units that this append keeps rows of, range by range."""
        for number in range(self._ranges):
            yield self._range(number).read_bytes()

    def _range(self, number: int) -> Path:
        return self._scratch / f"range-{number:06d}"


def written(file: Path, appends: int, content: Iterator[bytes]) -> UnitFile:
    """Write a file of units under the key of its folder; it is on the disk when this returns."""
    total, key = hashlib.sha256(), IdentityKey.load(file.parent)
    with open_private(file) as stream:
        for piece in key.encrypted(content):
            stream.write(piece)
            total.update(piece)
        stream.flush()
        os.fsync(stream.fileno())
    return UnitFile(file.name, appends, total.hexdigest())


def carried(folder: Path, files: tuple[UnitFile, ...], number: int) -> tuple[UnitFile, ...]:
    """Merge the last files while enough are of equally many appends; ``number`` tells the new files from others."""
    while len(files) >= _AT_ONCE and files[-1].appends == files[-_AT_ONCE].appends:
        last = [folder / file.name for file in files[-_AT_ONCE:]]
        parts = max(1, ceil(sum(file.stat().st_size for file in last) / _MERGE_BYTES))
        pieces = (_added([_within(file, *border) for file in last]).tobytes() for border in ranges(parts))
        appends = _AT_ONCE * files[-1].appends
        files = (*files[:-_AT_ONCE], written(folder / file_name(number, appends), appends, pieces))
    return files


def file_name(number: int, appends: int) -> str:
    """Name of a file that append ``number`` writes and that is of a given number of appends."""
    return f"units-{number:06d}-{appends}"


def entries_of(file: Path) -> Entries:
    """All entries of a file."""
    return _within(file, bytes(DIGEST.itemsize), None)


def stretch(file: Path, start: int, stop: int, entry: np.dtype[Any]) -> Entries:
    """Some adjacent entries of a file that :func:`written` wrote."""
    with EncryptedFile(file) as stream:
        return np.frombuffer(stream.read(start * entry.itemsize, (stop - start) * entry.itemsize), entry)


def rows_of(folder: Path, files: Sequence[UnitFile], unit: Digests) -> int:
    """How many rows some appends kept of one unit, shape (1,)."""
    total = 0
    for each in files:
        with EncryptedFile(folder / each.name) as stream:
            count = stream.size // ENTRY.itemsize
            place = _first(stream, count, unit.tobytes())
            entries = _entries(stream, place, min(place + 1, count))
            total += int(entries["rows"][entries["unit"] == unit].sum())
    return total


def check(folder: Path, files: Sequence[UnitFile]) -> None:
    """Refuse files that are not those that were written; StoreError."""
    for file in files:
        try:
            with open(folder / file.name, "rb") as stream:
                same = hashlib.file_digest(stream, "sha256").hexdigest() == file.digest
        except FileNotFoundError:
            same = False
        if not same:
            raise lost(folder.name)


def lost(name: str) -> StoreError:
    """Error where nobody knows any more how many rows of a unit are stored."""
    return StoreError(
        f'What "{name}" keeps beside the store is missing, damaged, or not of this store',
        "It says which files are stored and how many rows of each unit: without it the bound on a unit would not hold",
        "Restore it together with the store, or ingest all files again into another store",
    )


def _within(file: Path, low: bytes, high: bytes | None) -> Entries:
    """Entries of the units of a range."""
    with EncryptedFile(file) as stream:
        count = stream.size // ENTRY.itemsize
        start = _first(stream, count, low)
        stop = count if high is None else _first(stream, count, high)
        return _entries(stream, start, stop)


def _first(stream: EncryptedFile, count: int, border: bytes) -> int:
    """Place of the first unit that is not below a border, by bisection."""
    return bisect_left(range(count), border, key=lambda place: _entries(stream, place, place + 1)["unit"].tobytes())


def _entries(stream: EncryptedFile, start: int, stop: int) -> Entries:
    return np.frombuffer(stream.read(start * ENTRY.itemsize, (stop - start) * ENTRY.itemsize), ENTRY)


def _added(found: Sequence[Entries]) -> Entries:
    """Entries of several files as one: each unit once, in order, with the sum of its rows."""
    joined = np.concatenate([np.empty(0, ENTRY), *found])
    joined = joined[np.argsort(joined["unit"], kind="stable")]
    first = np.ones(joined.size, np.bool_)
    first[1:] = joined["unit"][1:] != joined["unit"][:-1]
    starts = np.flatnonzero(first)
    added = joined[starts]
    if starts.size:
        added["rows"] = np.add.reduceat(joined["rows"], starts)
    return added
