"""The store that is made: rows in the order they come, written by whole blocks of chunks, each block final.

The number of rows is known at the end only. Until then the array's metadata give it room for more rows than there can
be, which changes no chunk; the last step states the true number. The array is published after that.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, ZstdCodec

from blockveil.pipeline.base import durable
from blockveil.pipeline.config.ingest_file import IngestSection
from blockveil.pipeline.data.zarr_arrays import create_group

CHUNK_BYTES = 8 * 2**20
"""Bytes of a chunk before compression: few files, and enough chunks for tasks and threads."""

CHUNK_COLUMNS = 4096
"""Widest chunk: a plan that reads the columns of a wide array by panels reads few columns in vain."""

BLOCK_BYTES = 32 * 2**20
"""Bytes that are written at once: its chunks are compressed in parallel."""

_WORTH = 0.75
"""Largest ratio of compressed to plain bytes at which decompressing is worth its time: it takes longer than reading."""

_ROOM = 2**62
_CONFIG: Any = {"write_empty_chunks": True}

Rows = NDArray[Any]
Saved = Callable[[int, int, int], None]


def layout(section: IngestSection, width: int) -> tuple[tuple[int, int], int]:
    """Chunks and rows of a block.

    Returns
    -------
    Shape of a chunk, and rows that are written at once: whole chunks.
    """
    columns = -(-width // -(-width // CHUNK_COLUMNS))
    size = np.dtype(section.dtype).itemsize
    rows = section.chunk_rows or max(1, CHUNK_BYTES // (size * columns))
    return (rows, columns), rows * max(1, BLOCK_BYTES // (size * width * rows))


class Writer:
    """Writes the rows of one store; a context manager that waits for the last block.

    Parameters
    ----------
    folder
        Zarr group to make or to go on with.
    member
        Name of the array in it.
    section
        ``[ingest]`` of the config.
    columns
        Names of the columns.
    written
        Rows that are in the store already: whole blocks.
    saved
        Called after a block is on the disk, with the rows written so far and the place in the source to go on from.
    """

    def __init__(
        self, folder: Path, member: str, section: IngestSection, columns: tuple[str, ...], written: int, saved: Saved
    ) -> None:
        self._folder, self._section, self._width, self._saved = folder, section, len(columns), saved
        self._root = folder / member
        if written:
            for leftover in self._root.rglob("*.partial"):  # of a chunk that was being written when a run was killed
                leftover.unlink()
        self._array = None if written == 0 else zarr.open_array(self._root, mode="r+", config=_CONFIG)
        self._block = layout(section, len(columns))[1]
        self._written, self._pending = written, 0
        self._parts: list[tuple[Rows, int, NDArray[np.int64]]] = []
        self._pool = ThreadPoolExecutor(1, "blockveil-write")
        self._busy: Future[None] | None = None

    def __enter__(self) -> Writer:
        """Write in a thread, so that reading goes on meanwhile."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def add(self, rows: Rows, part: int, after: NDArray[np.int64]) -> None:
        """Take rows; ``part`` and ``after[i]`` say where to go on once row i is in the store."""
        while len(rows):
            count = min(len(rows), self._block - self._pending)
            self._parts.append((rows[:count], part, after[:count]))
            self._pending += count
            rows, after = rows[count:], after[count:]
            if self._pending == self._block:
                self._flush()

    def finish(self, attributes: dict[str, Any]) -> int:
        """Write the rest, state the number of rows and the attributes; return the number of rows."""
        if self._pending:
            self._flush()
        self._wait()
        if self._array is None:
            self._create(np.empty((0, self._width), self._section.dtype))
        _state(self._root / "zarr.json", self._written, attributes)
        return self._written

    def _flush(self) -> None:
        parts, start = self._parts, self._written
        self._written += self._pending
        self._parts, self._pending = [], 0
        self._wait()
        self._busy = self._pool.submit(self._write, parts, start)

    def _wait(self) -> None:
        if self._busy is not None:
            self._busy.result()

    def _write(self, parts: list[tuple[Rows, int, NDArray[np.int64]]], start: int) -> None:
        block = np.concatenate([rows for rows, _, _ in parts]) if len(parts) > 1 else parts[0][0]
        _, part, after = parts[-1]
        stop = start + len(block)
        array = self._array or self._create(block)
        array[start:stop] = block
        shape = array.chunks
        folders = set()
        for row in range(start // shape[0], -(-stop // shape[0])):
            for column in range(-(-array.shape[1] // shape[1])):
                file = self._root / array.metadata.encode_chunk_key((row, column))
                durable.sync(file)
                folders.add(file.parent)
        for folder in folders:
            durable.sync(folder)
        self._saved(stop, part, int(after[-1]))

    def _create(self, block: Rows) -> zarr.Array[Any]:
        """Make the array, compressed where its first rows say that it is worth it."""
        chunks = self._chunks(len(block))
        dtype = np.dtype(self._section.dtype).newbyteorder("<")
        self._array = create_group(self._folder, {}).create_array(
            self._root.name,
            shape=(_ROOM, self._width),
            chunks=chunks,
            dtype=dtype,
            # A float chunk that got lost reads as NaN, not as a plausible zero.
            fill_value=float("nan") if dtype.kind == "f" else 0,
            compressors=_codecs(block.astype(dtype)[: chunks[0]]),
            dimension_names=("record", "feature"),
            config=_CONFIG,
        )
        return self._array

    def _chunks(self, rows: int) -> tuple[int, int]:
        """Chunks of the array, whose first block has a given number of rows."""
        chunks, block = layout(self._section, self._width)
        if not self._section.append or rows >= block:
            return chunks
        # A part that is known to be small: a chunk is stored whole, and its rest would be stored every night.
        return min(chunks[0], max(1, rows)), chunks[1]


def _codecs(sample: Rows) -> tuple[ZstdCodec | Crc32cCodec, ...]:
    plain = sample.tobytes()
    small = pa.Codec("zstd", compression_level=1).compress(plain).size <= _WORTH * len(plain)
    return (ZstdCodec(level=1), Crc32cCodec()) if small else (Crc32cCodec(),)


def _state(metadata: Path, rows: int, attributes: dict[str, Any]) -> None:
    fields = json.loads(metadata.read_bytes())
    fields["shape"][0] = rows
    fields["attributes"] = attributes
    durable.replace_file(metadata, json.dumps(fields, indent=2).encode(), metadata.with_suffix(".new"))
