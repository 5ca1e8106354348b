"""Writing arrays so that damage shows, finding what is missing, digesting content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from blockveil.pipeline.data.content import Labelled, array_digest
from blockveil.pipeline.data.zarr_arrays import (
    LayoutError,
    chunk_files,
    create_array,
    create_group,
    folder,
    missing_chunks,
    write_array,
)


def chunked(path: Path, values: np.ndarray[Any, Any], **options: Any) -> zarr.Array[Any]:
    array = zarr.create_array(path, shape=values.shape, dtype=values.dtype, **options)
    array[...] = values
    return array


@pytest.mark.parametrize(
    "values",
    [
        np.arange(6.0).reshape(2, 3),
        np.zeros((3, 3)),
        np.array(2.5),
        np.arange(4, dtype=">i4"),
        np.array([True, False]),
        np.array(["height", "größe", ""]),
        np.full((1030, 2), np.nan),
    ],
    ids=["matrix", "all zero", "scalar", "big-endian", "boolean", "text", "all fill value"],
)
def test_a_written_array_is_complete_and_reads_back_the_same(tmp_path: Path, values: np.ndarray[Any, Any]) -> None:
    group = create_group(tmp_path / "g", {"note": "plain"})
    write_array(group, "a", values, tuple(f"axis{i}" for i in range(values.ndim)))
    stored = zarr.open_group(tmp_path / "g", mode="r")["a"]
    assert isinstance(stored, zarr.Array)
    assert np.array_equal(np.asarray(stored[...]).astype(values.dtype), values, equal_nan=values.dtype.kind == "f")
    assert missing_chunks(stored) == 0
    assert array_digest("a", Labelled(stored)) == array_digest("a", Labelled(values))


@pytest.mark.parametrize(("side", "codecs"), [(1000, ["Crc32cCodec"]), (1100, ["ZstdCodec", "Crc32cCodec"])])
def test_what_does_not_shrink_is_compressed_only_where_chunks_are_mostly_padding(
    tmp_path: Path, side: int, codecs: list[str]
) -> None:
    array = create_array(create_group(tmp_path / "x.zarr", {}), "x", (side, side), float, ("i", "j"), shrinks=False)
    assert [type(codec).__name__ for codec in array.compressors] == codecs


def test_a_flipped_bit_is_an_error_and_not_another_number(tmp_path: Path) -> None:
    write_array(create_group(tmp_path / "g", {}), "a", np.random.default_rng(1).normal(size=(50, 50)), ("x", "y"))
    file = tmp_path / "g" / "a" / "c" / "0" / "0"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match="checksum"):
        zarr.open_array(tmp_path / "g" / "a", mode="r")[...]


def test_a_lost_chunk_of_a_written_array_reads_as_nan(tmp_path: Path) -> None:
    write_array(create_group(tmp_path / "g", {}), "a", np.ones((2000, 1)), ("x", "y"))
    (tmp_path / "g" / "a" / "c" / "1" / "0").unlink()
    stored = zarr.open_array(tmp_path / "g" / "a", mode="r")
    assert np.isnan(np.asarray(stored[1024:])).all()
    assert missing_chunks(stored) == 1


@pytest.mark.parametrize("dimensions", [(), ("x",), ("x", "x"), ("x", "y", "z")])
def test_axes_need_one_name_each(tmp_path: Path, dimensions: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="each axis"):
        write_array(create_group(tmp_path / "g", {}), "a", np.ones((2, 2)), dimensions)


@pytest.mark.parametrize("values", [np.array([1j]), np.array([object()]), np.array(["2026-01-01"], dtype="M8[D]")])
def test_elements_that_are_not_real_numbers_or_text_are_refused(tmp_path: Path, values: np.ndarray[Any, Any]) -> None:
    with pytest.raises(TypeError, match="real numbers"):
        write_array(create_group(tmp_path / "g", {}), "a", values, ("x",))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_each_absent_or_empty_chunk_file_is_counted(tmp_path: Path, zarr_format: int) -> None:
    array = chunked(tmp_path / "a", np.ones((95, 6)), chunks=(10, 4), zarr_format=zarr_format)
    files = list(chunk_files(array))
    assert len(files) == 20
    assert missing_chunks(array) == 0
    (folder(array) / files[3]).unlink()
    (folder(array) / files[19]).write_bytes(b"")
    assert missing_chunks(array) == 2


@pytest.mark.parametrize("location", ["start", "end"])
def test_chunks_missing_in_a_shard_are_counted_but_not_those_outside_the_array(tmp_path: Path, location: str) -> None:
    shards: Any = {"shape": (100, 8), "index_location": location}
    array = zarr.create_array(tmp_path / "a", shape=(250, 7), chunks=(50, 4), shards=shards, dtype="f4")
    array[...] = 1
    assert missing_chunks(array) == 0
    array[150:200] = 0
    array[0:50, 4:] = 0
    assert missing_chunks(array) == 3


def test_a_shard_that_is_cut_short_is_not_taken_for_complete(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "a", shape=(250, 7), chunks=(50, 4), shards=(100, 8), dtype="f4")
    array[...] = 1
    (folder(array) / next(chunk_files(array))).write_bytes(b"short")
    with pytest.raises(LayoutError, match="cut short"):
        missing_chunks(array)


def test_an_unusual_shard_index_is_not_taken_for_complete(tmp_path: Path) -> None:
    from zarr.codecs import BytesCodec, ShardingCodec

    codec = ShardingCodec(chunk_shape=(50, 7), index_codecs=[BytesCodec()])
    array = zarr.create_array(
        tmp_path / "a", shape=(100, 7), chunks=(100, 7), dtype="f4", serializer=codec, compressors=None
    )
    array[...] = 1
    with pytest.raises(LayoutError, match="unusual"):
        missing_chunks(array)


def test_an_array_in_memory_has_no_folder() -> None:
    array = zarr.create_array({}, shape=(2,), dtype="f8")
    with pytest.raises(LayoutError, match="local file system"):
        folder(array)
