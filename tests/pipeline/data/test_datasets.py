"""Records that fit their declaration are opened and identified; others are refused, and no message quotes a value."""

from __future__ import annotations

import multiprocessing
import operator
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from blockveil.engine.answers.gram import OtherRecordsError
from blockveil.pipeline.base.errors import BlockveilError, DataError, StoreError
from blockveil.pipeline.config import LoadedConfig, load_config
from blockveil.pipeline.data.datasets import open_records
from blockveil.pipeline.data.fingerprint import fingerprint
from blockveil.pipeline.data.zarr_arrays import chunk_files, folder

ROWS = 137
CANARY = 271828.182845904

CONFIG = """
release = {{dataset = "people", name = "moments"}}
data = {{store = "{store}"}}
privacy = {{epsilon = 1, delta = 1e-9, neighbours = "add-remove", unit = "one person"}}
mechanism = {{kind = "gaussian"}}
output = {{root = "out", ledger = "ledger.db", keys = "keys"}}
[query]
kind = "covariance"
rows_at_most = {rows_at_most}
missing = "refuse"
[query.geometry]
kind = "box"
origin = "midpoint"
features = [{{name = "a", lower = 0, upper = 1}}, {{name = "b", lower = 0, upper = 1}}]
"""

Values = np.ndarray[Any, Any]


def values(rows: int = ROWS) -> Values:
    table = np.random.default_rng(5).normal(size=(rows, 2))
    table[rows // 2, 1] = CANARY
    return table


def write(path: Path, table: Values, **options: Any) -> zarr.Array[Any]:
    options = {"chunks": (20, 2)[: table.ndim], "config": {"write_empty_chunks": True}} | options
    array = zarr.create_array(path, shape=table.shape, dtype=table.dtype, **options)
    array[...] = table
    return array


def configure(place: Path, store: str = "records.zarr", rows_at_most: int = 1000) -> LoadedConfig:
    place.mkdir(exist_ok=True)
    (place / "people.toml").write_text(CONFIG.format(store=store, rows_at_most=rows_at_most))
    return load_config(place / "people.toml")


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """Open records that must be refused, and return the message."""

    def message(kind: type[BlockveilError], **config: Any) -> str:
        with pytest.raises(kind) as caught:
            open_records(configure(tmp_path, **config))
        assert caught.value.__context__ is None
        for private in (str(CANARY), str(ROWS)):
            assert private not in str(caught.value)
        return str(caught.value)

    return message


class TestOpening:
    """Both formats, in a group or alone."""

    @pytest.mark.parametrize("zarr_format", [2, 3])
    @pytest.mark.parametrize("member", ["", "records"])
    def test_an_array_alone_or_in_a_group_is_found(self, tmp_path: Path, zarr_format: Any, member: str) -> None:
        if member:
            zarr.create_group(tmp_path / "records.zarr", zarr_format=zarr_format)
        write(tmp_path / "records.zarr" / member, values(), zarr_format=zarr_format)
        dataset = open_records(configure(tmp_path))
        assert (dataset.rows, dataset.features, dataset.dtype) == (ROWS, 2, np.dtype("f8"))
        assert (dataset.chunk_shape, dataset.chunk_rows) == ((20, 2), 20)
        assert np.array_equal(dataset.array[:], values())

    def test_the_records_cannot_be_written_through_it(self, tmp_path: Path) -> None:
        write(tmp_path / "records.zarr", values())
        with pytest.raises(ValueError, match="read-only"):
            open_records(configure(tmp_path)).array[0, 0] = 1

    @pytest.mark.parametrize("zarr_format", [2, 3])
    @pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8", "f2", "f4", ">f8", ">i8"])
    def test_every_real_type_is_accepted(self, tmp_path: Path, dtype: str, zarr_format: int) -> None:
        table = np.arange(10).reshape(5, 2)
        write(tmp_path / "records.zarr", table.astype(dtype), zarr_format=zarr_format)
        dataset = open_records(configure(tmp_path))
        assert dataset.dtype.newbyteorder("<") == np.dtype(dtype).newbyteorder("<")
        assert np.array_equal(dataset.array[:], table)

    def test_sharded_records_are_read_by_the_chunk(self, tmp_path: Path) -> None:
        write(tmp_path / "records.zarr", values(), shards=(80, 2))
        assert open_records(configure(tmp_path)).chunk_shape == (20, 2)

    def test_stale_consolidated_metadata_do_not_hide_new_records(self, tmp_path: Path) -> None:
        group = zarr.create_group(tmp_path / "records.zarr", zarr_format=2)
        array = group.create_array(
            "records", shape=(10, 2), chunks=(10, 2), dtype="f8", config={"write_empty_chunks": True}
        )
        array[:] = 1
        zarr.consolidate_metadata(tmp_path / "records.zarr")
        array.append(np.ones((10, 2)))
        assert open_records(configure(tmp_path)).rows == 20

    def test_its_text_form_holds_nothing_private(self, tmp_path: Path) -> None:
        write(tmp_path / "records.zarr", values())
        dataset = open_records(configure(tmp_path))
        assert repr(dataset) == str(dataset) == "Dataset(features=2, dtype=float64)"


class TestRefusals:
    """What does not fit is refused before anything is spent."""

    @pytest.mark.parametrize(
        "table",
        [
            np.ones((4, 2), bool),
            np.ones((4, 2), complex),
            np.ones((4, 2), "M8[s]"),
            np.full((4, 2), "x"),
            np.zeros(4, dtype=[("a", "f8"), ("b", "i4")]),
        ],
        ids=["boolean", "complex", "dates", "text", "records with fields"],
    )
    @pytest.mark.filterwarnings("ignore:The data type")
    def test_other_types_are_refused(self, tmp_path: Path, refused: Callable[..., str], table: Values) -> None:
        write(tmp_path / "records.zarr", table)
        assert "Records are real numbers" in refused(DataError)

    @pytest.mark.parametrize("shape", [(ROWS,), (ROWS, 2, 2)])
    def test_other_shapes_are_refused(
        self, tmp_path: Path, refused: Callable[..., str], shape: tuple[int, ...]
    ) -> None:
        write(tmp_path / "records.zarr", np.ones(shape), chunks=shape)
        assert f"{len(shape)} axes" in refused(DataError)

    def test_another_number_of_columns_is_refused(self, tmp_path: Path, refused: Callable[..., str]) -> None:
        write(tmp_path / "records.zarr", np.ones((ROWS, 3)))
        assert "3 columns and query declares 2" in refused(DataError)

    def test_an_empty_table_is_refused(self, tmp_path: Path, refused: Callable[..., str]) -> None:
        write(tmp_path / "records.zarr", np.ones((0, 2)))
        assert "no records" in refused(DataError)

    def test_too_many_records_are_refused_without_saying_how_many(
        self, tmp_path: Path, refused: Callable[..., str]
    ) -> None:
        write(tmp_path / "records.zarr", values())
        assert "more records than query.rows_at_most = 136" in refused(DataError, rows_at_most=ROWS - 1)
        assert open_records(configure(tmp_path, rows_at_most=ROWS)).rows == ROWS

    @pytest.mark.parametrize("options", [{}, {"shards": (40, 2)}, {"zarr_format": 2}])
    def test_a_missing_chunk_is_refused(
        self, tmp_path: Path, refused: Callable[..., str], options: dict[str, Any]
    ) -> None:
        array = write(tmp_path / "records.zarr", values(), **options)
        (folder(array) / list(chunk_files(array))[2]).unlink()
        assert "write_empty_chunks" in refused(DataError)

    def test_chunks_left_out_because_they_are_zero_are_refused_too(
        self, tmp_path: Path, refused: Callable[..., str]
    ) -> None:
        write(tmp_path / "records.zarr", np.zeros((40, 2)), config={"write_empty_chunks": False})
        assert "a chunk is missing" in refused(DataError)

    def test_a_cut_shard_is_refused(self, tmp_path: Path, refused: Callable[..., str]) -> None:
        array = write(tmp_path / "records.zarr", values(), shards=(40, 2))
        (folder(array) / next(chunk_files(array))).write_bytes(b"x")
        assert "cut short" in refused(StoreError)

    def test_an_absent_store_is_named_as_in_the_config(self, tmp_path: Path, refused: Callable[..., str]) -> None:
        message = refused(StoreError, store="other.zarr")
        assert 'data.store "other.zarr" is not there' in message
        assert str(tmp_path) not in message

    def test_a_file_or_a_plain_folder_is_no_store(self, tmp_path: Path, refused: Callable[..., str]) -> None:
        (tmp_path / "records.zarr").write_text("a,b\n1,2\n")
        assert "is not a Zarr store" in refused(StoreError)
        (tmp_path / "folder").mkdir()
        assert "is not a Zarr store" in refused(StoreError, store="folder")

    def test_a_group_without_the_array_is_refused(self, tmp_path: Path, refused: Callable[..., str]) -> None:
        zarr.create_group(tmp_path / "records.zarr").create_group("records")
        assert 'has no array "records"' in refused(StoreError)

    @pytest.mark.parametrize("content", ["", "not json", "[]", '{"node_type": "array"}', '{"node_type": 3}'])
    def test_damaged_metadata_are_refused(self, tmp_path: Path, refused: Callable[..., str], content: str) -> None:
        write(tmp_path / "records.zarr", values())
        (tmp_path / "records.zarr" / "zarr.json").write_text(content)
        assert 'data.store "records.zarr"' in refused(StoreError)


class TestFingerprint:
    """Equal data, equal fingerprint; other data, another one."""

    def test_another_process_finds_the_same_fingerprint(self, tmp_path: Path) -> None:
        array = write(tmp_path / "records.zarr", values())
        code = (
            "import sys, zarr; from blockveil.pipeline.data.fingerprint import fingerprint;"
            "print(*(fingerprint(zarr.open_array(sys.argv[1], mode='r'), limit) for limit in (2**20, 0)))"
        )
        command = [sys.executable, "-c", code, str(tmp_path / "records.zarr")]
        environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
        found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert found.stdout.split() == [fingerprint(array, limit) for limit in (2**20, 0)]

    def test_a_copy_is_the_same_data(self, tmp_path: Path) -> None:
        write(tmp_path / "records.zarr", values())
        first = open_records(configure(tmp_path)).fingerprint
        shutil.copytree(tmp_path / "records.zarr", tmp_path / "elsewhere" / "copy.zarr", copy_function=shutil.copyfile)
        for file in (tmp_path / "elsewhere").rglob("*"):
            os.utime(file, (1, 1))
        assert open_records(configure(tmp_path / "elsewhere", "copy.zarr")).fingerprint == first

    @pytest.mark.parametrize("limit", [2**30, 0], ids=["by content", "by time"])
    def test_a_changed_value_is_other_data(self, tmp_path: Path, limit: int) -> None:
        array = write(tmp_path / "records.zarr", values(), compressors=None)
        first = fingerprint(array, limit)
        array[ROWS - 1, 0] = np.nextafter(values()[ROWS - 1, 0], np.inf)
        assert fingerprint(array, limit) != first

    def test_a_changed_value_is_seen_although_size_and_time_are_the_same(self, tmp_path: Path) -> None:
        array = write(tmp_path / "records.zarr", values(), compressors=None)
        first, file = fingerprint(array), folder(array) / next(chunk_files(array))
        times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
        array[0, 0] = 1
        os.utime(file, ns=times)
        assert fingerprint(array) != first

    def test_swapped_chunks_are_other_data(self, tmp_path: Path) -> None:
        array = write(tmp_path / "records.zarr", values())
        first, files = fingerprint(array), [folder(array) / name for name in chunk_files(array)]
        files[0].rename(tmp_path / "aside")
        files[1].rename(files[0])
        (tmp_path / "aside").rename(files[1])
        assert fingerprint(array) != first

    def test_the_meaning_of_the_bytes_counts(self, tmp_path: Path) -> None:
        table = np.ones((4, 2), "i8")
        signed, unsigned = (write(tmp_path / kind, table.astype(kind)) for kind in ("i8", "u8"))
        assert fingerprint(signed) != fingerprint(unsigned)

    def test_remarks_and_stray_files_do_not_count(self, tmp_path: Path) -> None:
        array = write(tmp_path / "records.zarr", values())
        first = fingerprint(array)
        array.attrs["note"] = "seen by the board"
        (tmp_path / "records.zarr" / "c" / "9.partial").write_text("left over")
        assert fingerprint(array) == first

    def test_another_process_identifies_the_records_before_it_reads_them(self, tmp_path: Path) -> None:
        array = write(tmp_path / "records.zarr", values())
        source = open_records(configure(tmp_path)).source
        assert repr(source) == "Records()"
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            assert np.array_equal(process.submit(operator.getitem, source, slice(3, 9)).result(), values()[3:9])
        array[0, 0] = 9
        assert source[0:1][0, 0] == 9, "the process that opened them looks once more at the end"
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            other = process.submit(operator.getitem, source, slice(3, 9)).exception()
        assert isinstance(other, OtherRecordsError)

    def test_records_that_change_under_a_running_release_are_noticed(self, tmp_path: Path) -> None:
        array = write(tmp_path / "records.zarr", values())
        dataset = open_records(configure(tmp_path))
        dataset.check_unchanged()
        array[0, 0] = 9
        with pytest.raises(DataError, match="changed while"):
            dataset.check_unchanged()
        shutil.rmtree(tmp_path / "records.zarr")
        with pytest.raises(StoreError, match="cannot be read"):
            dataset.check_unchanged()
