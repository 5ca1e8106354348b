"""Ingest against reading its source alone, and against a plain copy, interleaved, in the same run.

Prints medians and ratios (1: as fast as the peer). Reading alone is what the format's own library does: it decodes
every column in batches and drops them. The plain copy reads the same batches and assigns them to a Zarr array of the
same chunks and codecs: no checks, no units, nothing brought to the disk for a resume.
``python -m benchmarks.ingest [--rows N]``
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as arrow_parquet
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from benchmarks import machine
from blockveil.pipeline.config.ingest_file import LoadedIngest, load_ingest
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from blockveil.pipeline.data.ingest.store_writer import CHUNK_BYTES

REPEATS, FEATURES, BATCH = 5, 50, 2**15

CONFIG = """
columns = [{{ name = "x", kind = "number", missing = "refuse", count = {features} }}]
[ingest]
store = "out.zarr"
[source]
{source}
[unit]
{unit}
"""

COLUMN = 'name = "one person"\ncolumn = "person"\ntype = "whole"\nmissing = "refuse"\nseed = "benchmark"\n'
UNITS = {
    "rows": 'kind = "row"\nname = "one row"',
    "one row a unit": f'kind = "choose"\nrows_at_most = 1\n{COLUMN}',
    "sum a unit": f'kind = "aggregate"\nby = "sum"\n{COLUMN}',
}


def write(folder: Path, rows: int) -> dict[str, tuple[str, Callable[[], Iterator[Any]]]]:
    """Write the same records in each format; return its source section and its batches, read by its own library."""
    rng = np.random.default_rng(0)
    values = np.round(rng.standard_normal((rows, FEATURES), dtype=np.float32), 2)
    names = [f"x{i}" for i in range(1, FEATURES + 1)]
    table = pa.table({"person": rng.integers(0, rows // 4, rows), **dict(zip(names, values.T, strict=True))})
    arrow_parquet.write_table(table, folder / "x.parquet", row_group_size=2**17)
    arrow_csv.write_csv(table.slice(0, rows // 10), folder / "x.csv")
    np.save(folder / "x.npy", np.column_stack([table["person"].to_numpy(), values]).astype(np.float32))

    def parquet() -> Iterator[Any]:
        with arrow_parquet.ParquetFile(folder / "x.parquet") as file:
            yield from file.iter_batches(BATCH, columns=names)

    def csv() -> Iterator[Any]:
        with arrow_csv.open_csv(folder / "x.csv") as reader:
            yield from (batch.select(names) for batch in reader)

    def npy() -> Iterator[Any]:
        mapped = np.load(folder / "x.npy", mmap_mode="r")
        yield from (np.array(mapped[i : i + BATCH, 1:]) for i in range(0, rows, BATCH))

    named = f'names = ["person", {{ name = "x", count = {FEATURES} }}]'
    return {
        "Parquet": ('kind = "parquet"\nfiles = ["x.parquet"]', parquet),
        "CSV": ('kind = "csv"\nfiles = ["x.csv"]', csv),
        "NPY": (f'kind = "npy"\nfiles = ["x.npy"]\n{named}', npy),
    }


def drop(batches: Iterator[Any]) -> None:
    """Read and forget."""
    for _ in batches:
        pass


def copy(batches: Iterator[Any], folder: Path, rows: int) -> None:
    """Assign batches to a Zarr array, a few whole chunks at once."""
    shutil.rmtree(folder / "copy.zarr", ignore_errors=True)
    chunk = CHUNK_BYTES // (4 * FEATURES)
    array = zarr.create_array(
        folder / "copy.zarr",
        shape=(rows, FEATURES),
        chunks=(chunk, FEATURES),
        dtype="f4",
        compressors=(ZstdCodec(level=1), Crc32cCodec()),
        config={"write_empty_chunks": True},
    )
    held: list[Any] = []
    start = size = 0
    for batch in batches:
        held.append(batch if isinstance(batch, np.ndarray) else np.column_stack([c.to_numpy() for c in batch.columns]))
        size += len(held[-1])
        whole = size // (4 * chunk) * 4 * chunk
        if whole:
            block = np.concatenate(held)
            array[start : start + whole] = block[:whole]
            held, start, size = [block[whole:]], start + whole, size - whole
    if size:
        array[start:] = np.concatenate(held)


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cases(folder: Path, rows: int) -> Iterator[tuple[str, list[Callable[[], object]], int]]:
    """Name; reading alone, copying and ingesting; and bytes of records as float32."""
    for kind, (source, batches) in write(folder, rows).items():
        held = rows // 10 if kind == "CSV" else rows
        for unit, section in UNITS.items():
            (folder / "ingest.toml").write_text(CONFIG.format(features=FEATURES, source=source, unit=section))
            loaded = load_ingest(folder / "ingest.toml")

            def made(loaded: LoadedIngest = loaded) -> object:
                shutil.rmtree(folder / "out.zarr", ignore_errors=True)
                return ingest(look(loaded), lambda stage, share: None)

            works = [partial(lambda read: drop(read()), batches), partial(_copied, batches, folder, held), made]
            yield f"{kind}, {unit}", works, 4 * FEATURES * held


def _copied(batches: Callable[[], Iterator[Any]], folder: Path, rows: int) -> None:
    copy(batches(), folder, rows)


def main() -> None:
    """Print one line for each format and kind of unit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        for name, works, size in cases(Path(folder), rows):
            timed = [[seconds(work) for work in works] for _ in range(REPEATS)]
            read, copied, ingested = (size / statistics.median(one) / 1e6 for one in zip(*timed, strict=True))
            to_read, to_copy = (statistics.median(one[peer] / one[2] for one in timed) for peer in (0, 1))
            print(
                f"{name:<24} read {read:6.0f} MB/s   copy {copied:6.0f} MB/s   ingest {ingested:6.0f} MB/s   "
                f"of reading {to_read:.2f}   of the copy {to_copy:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    machine.begin(1)
    main()
