"""The records of a release: opened read-only, checked against their declaration, identified.

Messages name columns, types and public bounds only. They never hold a value of the data, nor the number of records,
which is private when neighbours may differ by one record.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np

from blockveil.engine.answers.gram import DamagedRecordsError, OtherRecordsError, RecordsError, UnreachableRecordsError
from blockveil.engine.answers.sparse import Entries, EntrySource
from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.data.content_key import ContentKey
from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.data.fingerprint import fingerprint, prefixes
from blockveil.pipeline.data.grown_rows import GrownRows
from blockveil.pipeline.data.ingest.store_contract import Contract, MapOrigin
from blockveil.pipeline.data.plain_rows import rows_of
from blockveil.pipeline.data.sparse_store import Form, Stored, open_rows, parts_of
from blockveil.pipeline.data.stores import check_complete, guarded, is_damage, is_of_objects

_identified: set[str] = set()
"""Openings whose records this process has identified."""

_identifying = Lock()


def read(work: Callable[[], Any]) -> Any:
    """Result of reading; RecordsError, which quotes nothing, for a damaged store and for one that does not answer."""
    try:
        return work()
    except RecordsError:
        raise
    except Exception as error:
        failure = _kind_of(error)
        if failure is None:
            raise
    raise failure


def _kind_of(error: Exception) -> RecordsError | None:
    if is_damage(error):
        return DamagedRecordsError()
    return UnreachableRecordsError() if isinstance(error, OSError) or is_of_objects(error) else None


class Records:
    """Stored records, identified by each process before it reads any of them.

    A worker elsewhere may find another copy at the same path, or nothing, which Zarr reads as fill values.

    Parameters
    ----------
    array
        Shape (rows, features).
    fingerprint
        What the array must have.
    opening
        Name of one opening by one client.
    """

    def __init__(self, array: Stored, fingerprint: str, opening: str) -> None:
        self._array, self._fingerprint, self._opening = array, fingerprint, opening
        self.shape: tuple[int, ...] = array.shape

    def __repr__(self) -> str:
        """Show nothing."""
        return "Records()"

    def __getitem__(self, key: Any) -> Any:
        """Some of the records; RecordsError where they are not those that were opened, or cannot be read."""
        array = self._identified_array()
        return read(lambda: rows_of(array, key))

    def _identified_array(self) -> Any:
        with _identifying:
            if self._opening not in _identified:
                read(self._identify)
                _identified.add(self._opening)
        return self._array

    def _identify(self) -> None:
        with suppress(FileNotFoundError):
            if fingerprint(self._array) == self._fingerprint:
                return
        raise OtherRecordsError


class SparseRecords(Records):
    """Records that are stored as their values other than zero."""

    def entry_blocks(self, start: int, stop: int, most: int) -> Iterator[Entries]:
        """See :class:`.sparse.EntrySource`; RecordsError as for other records."""
        return _each(self._identified_array().entry_blocks(start, stop, most))


def _each(blocks: Iterator[Entries]) -> Iterator[Entries]:
    while (block := read(lambda: next(blocks, None))) is not None:
        yield block


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """Records that fit their declaration.

    Attributes
    ----------
    array
        Shape (rows, features), read-only.
    rows
        Number of records. Private: never log or publish it under add-remove.
    features
        Number of columns.
    dtype
        Stored element type: an integer or a float.
    chunk_shape
        Shape of the smallest part that can be read.
    fingerprint
        Identity of the data. Private: the ledger has it under a key only.
    part
        Part of the records that the release is of; None where it is charged as one of all.
    contribution
        What one unit contributes to them, and how that was made true.
    maps
        Origins of the columns that public maps made, as far as the store says it.
    store_id
        Random name that the ingest gave the store; None where no ingest made it, and its address alone names it.
    stated
        What the store is, as :func:`stated_records` says it.
    """

    array: Stored
    rows: int
    features: int
    dtype: np.dtype[Any]
    chunk_shape: tuple[int, int]
    fingerprint: str
    part: Part | None
    contribution: Contribution
    _again: Callable[[], Contract | None]
    maps: tuple[MapOrigin, ...] = ()
    store_id: str | None = None
    stated: Mapping[str, Any] = field(default_factory=dict)
    _opening: str = field(default_factory=lambda: secrets.token_hex(8))

    def __repr__(self) -> str:
        return f"Dataset(features={self.features}, dtype={self.dtype})"

    @property
    def chunk_rows(self) -> int:
        """Records in the smallest part that can be read."""
        return self.chunk_shape[0]

    @property
    def source(self) -> Records:
        """The records for tasks, in whatever process they run."""
        _identified.add(self._opening)  # by this process, when they were opened
        kind = SparseRecords if isinstance(self.array, EntrySource) else Records
        return kind(self.array, self.fingerprint, self._opening)

    def as_of(self, fingerprint: str, key: ContentKey) -> Dataset:
        """These records as they were when a ledger had that fingerprint of them, of a store that has grown since.

        These records themselves, where they never had it.

        Raises StoreError where the store cannot be read.
        """
        if key.fingerprint(self.fingerprint) == fingerprint or not isinstance(self.array, GrownRows):
            return self
        grown = self.array
        fingerprints = guarded(lambda: prefixes(grown))
        of = next((count for count, one in enumerate(fingerprints, 1) if key.fingerprint(one) == fingerprint), None)
        if of is None:
            return self
        array = grown.first(of)
        opening = secrets.token_hex(8)  # processes identify records by the name of their opening
        return replace(self, array=array, rows=array.shape[0], fingerprint=fingerprints[of - 1], _opening=opening)

    def check_unchanged(self, *, committed: bool = False) -> None:
        """Refuse to go on if the stored records are no longer those that were opened.

        Parameters
        ----------
        committed
            Whether the charge for these records stands already.

        Raises
        ------
        DataError
            The data changed.
        StoreError
            The data cannot be read any more.
        """
        if _fingerprint(self.array) != self.fingerprint:
            raise _changed("The records", committed=committed)
        self.check_part(committed=committed)

    def check_part(self, *, committed: bool = False) -> None:
        """Refuse to go on if the store no longer says that it holds the part that the release is of.

        The fingerprint is of the records alone. Raises as :meth:`check_unchanged`.
        """
        if self.part is None:
            return
        contract = self._again()
        only = None if contract is None or contract.grouped else contract.partition
        if only is None or only.part(self.part.dataset) != self.part:
            raise _changed("What the store says of its records", committed=committed)


def _changed(what: str, *, committed: bool) -> DataError:
    return DataError(
        f"{what} changed while the release was computed",
        "A release is of one state of the data",
        "Put back the records that the charge is for and run again, which costs nothing more"
        if committed
        else "Run again when nothing writes to the store",
    )


def open_records(loaded: LoadedConfig) -> Dataset:
    """Open the records that a config names.

    Parameters
    ----------
    loaded
        Config; ``data.store`` is a Zarr array (format 2 or 3) or a group that holds ``data.array``, which is an array,
        or a group of sparse records (:mod:`.sparse_store`).

    Returns
    -------
    The checked records.

    Raises
    ------
    DataError
        The array does not fit its declaration, or is incomplete.
    StoreError
        There is no readable Zarr array.
    """
    name = f'data.store "{loaded.config.data.store}"'
    array = open_rows(loaded.store, loaded.config.data.array, name)
    contract = check_declared(loaded, array)
    _check_rows(array.shape[0], loaded.config.query.rows_at_most)
    for part in parts_of(array):
        check_complete(part)
    rows, features = array.shape
    chunks = (array.chunks[0], array.chunks[1])
    dtype, of_part = np.dtype(array.dtype), None

    def again() -> Contract | None:
        return Contract.of(open_rows(loaded.store, loaded.config.data.array, name))

    if contract is not None and contract.partition is not None and loaded.config.data.partition_by is not None:
        of_part = contract.partition.part(loaded.config.release.dataset)
    contribution = Contribution.of(loaded.config, contract)
    maps, store_id = ((), None) if contract is None else (contract.maps, contract.store_id)
    identity = _fingerprint(array)
    provenance = _stated(loaded, contract)
    dataset = Dataset(
        array, rows, features, dtype, chunks, identity, of_part, contribution, again, maps, store_id, provenance
    )
    dataset.check_part()  # the store may have been replaced since its attributes were read
    return dataset


def stated_records(loaded: LoadedConfig) -> dict[str, Any]:
    """Which store a config names and what holds of its records, as plain JSON values; the same after an append.

    No record is read. A store that no ingest made is known by its place alone.

    Raises DataError or StoreError where there is no such store, or it does not fit its declaration.
    """
    name = f'data.store "{loaded.config.data.store}"'
    return _stated(loaded, check_declared(loaded, open_rows(loaded.store, loaded.config.data.array, name)))


def _stated(loaded: LoadedConfig, contract: Contract | None) -> dict[str, Any]:
    if contract is None:
        return {"store": str(loaded.store), "array": loaded.config.data.array, "contract": None}
    # What the source's files were changes with each append, and with the key of their digests.
    facts = {name: value for name, value in asdict(contract).items() if name not in ("spec", "store_id")}
    return {"store": contract.store_id, "array": loaded.config.data.array, "contract": facts}


def check_declared(loaded: LoadedConfig, form: Stored | Form) -> Contract | None:
    """Contract of records, or None where they were not ingested, once they fit what a config declares and promises.

    Raises DataError or StoreError where they do not, or what they say of themselves is damaged.
    """
    _check_form(form, len(loaded.config.query.columns))
    contract = Contract.of(form)
    if contract is not None:
        contract.check(loaded.config)
    elif loaded.config.data.partition_by is not None:
        raise DataError(
            f'data.partition_by = "{loaded.config.data.partition_by}" with records that were not ingested',
            "Only an ingest makes true which part of the records a store holds",
            "Ingest the records with ingest.partition, or leave data.partition_by out",
        )
    elif (loaded.config.privacy.rows_per_unit or 1) > 1:
        raise DataError(
            f"privacy.rows_per_unit = {loaded.config.privacy.rows_per_unit} with records that were not ingested",
            "Only an ingest makes true how many rows a unit has",
            "Ingest the records with a unit column, or leave rows_per_unit out where each row is a unit",
        )
    return contract


def _check_form(array: Stored | Form, features: int) -> None:
    kind = array.dtype.kind
    if kind not in "iuf":
        raise DataError(
            f"The records have elements of type {array.dtype}",
            "Records are real numbers: integers or floats",
            "Convert the columns to float64, or leave out those that are not numbers",
        )
    if array.ndim != 2:
        raise DataError(
            f"The records have {array.ndim} axes",
            "Records are a table: one row a record, one column a feature",
            "Reshape the array",
        )
    if array.shape[1] != features:
        raise DataError(
            f"The records have {array.shape[1]} columns and query declares {features}",
            "Each column needs its own declaration, in the same order",
            "Correct the features of query, or the array",
        )


def _check_rows(rows: int, rows_at_most: int) -> None:
    # The number itself is private: neither message holds it.
    if rows == 0:
        raise DataError("The store holds no records", "A release needs records", "Ingest the data first")
    if rows > rows_at_most:
        raise DataError(
            f"There are more records than query.rows_at_most = {rows_at_most}",
            "The plan's arithmetic and memory hold for at most that many",
            "Raise rows_at_most to a public bound with room to grow",
        )


def _fingerprint(array: Stored) -> str:
    return guarded(lambda: fingerprint(array))
