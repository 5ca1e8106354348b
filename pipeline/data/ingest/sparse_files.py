"""Sparse records: read from files of SciPy, and written as their values other than zero; see
blockveil.pipeline.data.sparse_store.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.lib import format as npy
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, ZstdCodec

from blockveil.engine.answers.sparse import dense
from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.config.ingest_file import IngestSection
from blockveil.pipeline.data.ingest.npy import NpyStream
from blockveil.pipeline.data.sparse_store import ENCODING, PARTS
from blockveil.pipeline.data.zarr_arrays import create_group

CHUNK_ENTRIES = 2**17
"""Entries of a chunk: a part of a second's work, and little in vain where a task reads a few rows."""

_FLUSH_ENTRIES = 32 * CHUNK_ENTRIES

Rows = NDArray[Any]


class SparseStream:
    """Rows of a matrix that ``scipy.sparse.save_npz`` wrote, written out a few at once.

    Raises
    ------
    DataError
        The matrix is not stored by rows, or not of numbers.
    ValueError, KeyError
        It is no such file.
    """

    def __init__(self, bundle: zipfile.ZipFile, name: str) -> None:
        kind = npy.read_array(bundle.open("format.npy"), allow_pickle=False).item()
        if kind not in (b"csr", "csr"):
            raise DataError(
                f'File "{name}" holds a sparse matrix that is not stored by rows',
                "Records are read from first to last",
                "Save matrix.tocsr()",
            )
        shape = npy.read_array(bundle.open("shape.npy"), allow_pickle=False)
        self.rows, self.columns = (int(length) for length in shape)
        # One number a row: little beside the records themselves.
        self._borders = npy.read_array(bundle.open("indptr.npy"), allow_pickle=False).astype(np.int64)
        self._data, self._indices = (NpyStream(bundle.open(f"{part}.npy"), name, 0) for part in PARTS[:2])
        lengths = {self._data.rows, self._indices.rows, int(self._borders[-1])}
        if self._borders.shape != (self.rows + 1,) or self._borders[0] or len(lengths) > 1:
            raise ValueError("the parts do not fit together")
        if np.any(np.diff(self._borders) < 0):
            raise ValueError("borders of rows fall")
        self._at = 0

    def skip(self, rows: int) -> None:
        """Leave rows out."""
        entries = int(self._borders[self._at + rows] - self._borders[self._at])
        for part in (self._data, self._indices):
            part.skip(entries)
        self._at += rows

    def take(self, rows: int) -> Rows:
        """Read the next rows, shape (rows, columns); entries of one place are added up, as SciPy does."""
        borders = self._borders[self._at : self._at + rows + 1]
        count = int(borders[-1] - borders[0])
        values, columns = self._data.take(count)[:, 0], self._indices.take(count)[:, 0].astype(np.int64)
        self._at += rows
        if count and not 0 <= columns.min() <= columns.max() < self.columns:
            raise ValueError("a column lies outside of the matrix")
        inside = borders - borders[0]
        places = np.repeat(np.arange(rows), np.diff(inside)) * self.columns + columns
        if np.unique(places).size == count:
            return dense(columns, values, inside, self.columns)
        matrix = np.zeros(rows * self.columns, dtype=values.dtype)
        np.add.at(matrix, places, values)
        return matrix.reshape(rows, self.columns)


class EntryWriter:
    """Writes records as their values other than zero; as :class:`.store_writer.Writer`, from the
    start only.

    Parameters
    ----------
    folder
        Zarr group to make.
    member
        Name of the group of the entries in it.
    section
        ``[ingest]`` of the config.
    columns
        Names of the columns.
    """

    def __init__(self, folder: Path, member: str, section: IngestSection, columns: tuple[str, ...]) -> None:
        self._root, self._width, self._dtype = folder / member, len(columns), np.dtype(section.dtype)
        create_group(folder, {})
        self._group = create_group(self._root, {})
        kinds: tuple[np.dtype[Any], ...] = (self._dtype, np.dtype(np.int32), np.dtype(np.int64))
        self._arrays = {name: _array(self._group, name, kind) for name, kind in zip(PARTS, kinds, strict=True)}
        self._waiting: dict[str, list[NDArray[Any]]] = {"data": [], "indices": [], "indptr": [np.zeros(1, np.int64)]}
        self._rows = self._entries = 0

    def __enter__(self) -> EntryWriter:
        """Write."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing open."""

    def add(self, rows: Rows, part: int, after: NDArray[np.int64]) -> None:
        """Take rows."""
        del part, after
        if not len(rows):
            return
        places, columns = np.nonzero(rows)
        ends = np.searchsorted(places, np.arange(1, len(rows) + 1)) + self._entries
        self._waiting["data"].append(rows[places, columns].astype(self._dtype, copy=False))
        self._waiting["indices"].append(columns.astype(np.int32))
        self._waiting["indptr"].append(ends.astype(np.int64))
        self._entries += columns.size
        self._rows += len(rows)
        if max(sum(part.size for part in parts) for parts in self._waiting.values()) >= _FLUSH_ENTRIES:
            self._flush(CHUNK_ENTRIES)

    def finish(self, attributes: dict[str, Any]) -> int:
        """Write the rest and the attributes; return the number of rows."""
        self._flush(1)
        self._group.attrs.put({**attributes, **ENCODING, "shape": [self._rows, self._width]})
        durable.sync_tree(self._root)
        return self._rows

    def _flush(self, unit: int) -> None:
        """Write what fills chunks, so that each is written once; all of it where the unit is one entry."""
        for name, parts in self._waiting.items():
            joined = np.concatenate(parts) if parts else np.empty(0, self._arrays[name].dtype)
            ready, start = joined.size // unit * unit, self._arrays[name].shape[0]
            if ready:
                self._arrays[name].resize((start + ready,))
                self._arrays[name][start : start + ready] = joined[:ready]
            self._waiting[name] = [joined[ready:]]


def _array(group: zarr.Group, name: str, dtype: np.dtype[Any]) -> zarr.Array[Any]:
    config: Any = {"write_empty_chunks": True}
    return group.create_array(
        name,
        shape=(0,),
        chunks=(CHUNK_ENTRIES,),
        dtype=dtype.newbyteorder("<"),
        fill_value=float("nan") if dtype.kind == "f" else 0,
        compressors=(ZstdCodec(level=1), Crc32cCodec()),
        config=config,
    )
