"""Rows that are read straight into place are those that Zarr reads, and what is wrong is left to Zarr."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, TransposeCodec, ZstdCodec

from blockveil.pipeline.data import plain_rows
from blockveil.pipeline.data.plain_rows import NotAsWritten, RowMemory, pieces_of, rows_of

ROWS, COLUMNS, HEIGHT = 23, 5, 4
KEYS = [
    slice(None),
    slice(0, 4),
    slice(3, 9),
    slice(4, 20),
    slice(19, 23),
    slice(21, 99),
    slice(-5, None),
    slice(7, 7),
    (slice(2, 11), slice(None)),
    (slice(0, 8), slice(0, COLUMNS)),
]


def stored(path: Path, dtype: str = "<f4", **changes: Any) -> zarr.Array[Any]:
    fields = {"chunks": (HEIGHT, COLUMNS), "compressors": [Crc32cCodec()], **changes}
    array = zarr.create_array(path, shape=(ROWS, COLUMNS), dtype=dtype, **fields)
    array[...] = np.random.default_rng(0).integers(-100, 100, (ROWS, COLUMNS)).astype(dtype)
    return zarr.open_array(path, mode="r")


def chunk_file(path: Path, number: int) -> Path:
    return path / "c" / str(number) / "0"


def zarr_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, key: Any) -> Any:
        raise AssertionError("Zarr was asked")

    monkeypatch.setattr(zarr.Array, "__getitem__", refuse)


@pytest.mark.parametrize("width", [1, 2, COLUMNS, COLUMNS + 3], ids="{} columns in a chunk".format)
@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<f2", "<i4", "<i8", "i1", "u1"])
def test_rows_are_those_that_zarr_reads(
    tmp_path: Path, dtype: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = stored(tmp_path / "x", dtype, chunks=(HEIGHT, width))
    expected = [array[key] for key in KEYS]
    zarr_is_not_asked(monkeypatch)
    for key, rows in zip(KEYS, expected, strict=True):
        found = rows_of(array, key)
        assert found.dtype == rows.dtype
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, rows)


@pytest.mark.parametrize(
    "changes",
    [
        {"compressors": [ZstdCodec(), Crc32cCodec()]},
        {"compressors": []},
        {"filters": [TransposeCodec(order=(1, 0))]},
        {"shards": (2 * HEIGHT, COLUMNS)},
        {"zarr_format": 2, "compressors": None},
        {"serializer": BytesCodec(endian="big")},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_another_form_of_chunks_is_left_to_zarr(tmp_path: Path, changes: dict[str, Any]) -> None:
    array = stored(tmp_path / "x", **changes)
    assert not plain_rows._is_plain(array)
    for key in KEYS:
        np.testing.assert_array_equal(rows_of(array, key), array[key])


@pytest.mark.parametrize("key", [slice(0, 9, 2), (slice(0, 9), slice(1, 3)), 3, (slice(0, 2), 1), Ellipsis])
def test_parts_of_rows_are_left_to_zarr(tmp_path: Path, key: Any) -> None:
    array = stored(tmp_path / "x")
    np.testing.assert_array_equal(rows_of(array, key), array[key])


def damaged(content: bytes) -> bytes:
    return content[:7] + bytes([content[7] ^ 1]) + content[8:]


@pytest.mark.parametrize(
    "spoil",
    [damaged, lambda content: content[:-5], lambda content: content + b"x", lambda content: b""],
    ids=["damaged", "cut short", "too long", "empty"],
)
def test_a_chunk_that_is_not_what_was_written_is_refused(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    array = stored(tmp_path / "x")
    file = chunk_file(tmp_path / "x", 1)
    file.write_bytes(spoil(file.read_bytes()))
    np.testing.assert_array_equal(rows_of(array, slice(0, HEIGHT)), array[:HEIGHT])
    with pytest.raises(ValueError, match=r".") as found:
        rows_of(array, slice(0, 9))
    with pytest.raises(type(found.value)):
        array[0:9]


def test_a_chunk_that_is_gone_reads_as_zarr_reads_it(tmp_path: Path) -> None:
    array = stored(tmp_path / "x", fill_value=float("nan"))
    chunk_file(tmp_path / "x", 1).unlink()
    found = rows_of(array, slice(0, 9))
    assert np.isnan(found[HEIGHT : 2 * HEIGHT]).all()
    np.testing.assert_array_equal(found, array[0:9])


def test_what_was_read_into_a_room_stands_until_the_second_reading_after_it(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    values = np.arange(60.0).reshape(12, 5)
    array = group.create_array("a", shape=(12, 5), chunks=(4, 2), dtype="<f8", compressors=(Crc32cCodec(),))
    array[...] = values
    room = RowMemory()
    first, second = rows_of(array, slice(0, 4), room), rows_of(array, slice(4, 8), room)
    assert np.array_equal(first, values[:4])
    assert np.array_equal(second, values[4:8])
    third = rows_of(array, slice(8, 12), room)
    assert np.array_equal(second, values[4:8])
    assert np.array_equal(third, values[8:])
    assert np.shares_memory(first, third)
    assert not np.shares_memory(rows_of(array, slice(0, 4)), rows_of(array, slice(0, 4)))


def test_anything_that_is_no_zarr_array_is_read_by_slices() -> None:
    np.testing.assert_array_equal(rows_of(np.arange(12).reshape(4, 3), slice(1, 3)), np.arange(3, 9).reshape(2, 3))


@pytest.mark.parametrize("piece", [1, 40, 100, 400, 2000], ids="pieces of {} bytes".format)
@pytest.mark.parametrize("width", [2, COLUMNS, COLUMNS + 3], ids="{} columns in a chunk".format)
@pytest.mark.parametrize("height", [HEIGHT, ROWS, ROWS + 9], ids="{} rows in a chunk".format)
def test_pieces_are_all_rows_and_each_stands_until_the_second_one_after_it(
    tmp_path: Path, height: int, width: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = stored(tmp_path / "x", chunks=(height, width))
    expected = array[...]
    zarr_is_not_asked(monkeypatch)
    monkeypatch.setattr(plain_rows, "PIECE_BYTES", piece)
    pieces, found, before = pieces_of(array, RowMemory()), [], None
    assert pieces is not None
    while (rows := next(pieces, None)) is not None:
        found += [before.copy()] if before is not None else []
        before = rows
    assert before is not None
    np.testing.assert_array_equal(np.concatenate([*found, before]), expected)
    assert all(rows.nbytes <= max(piece, expected[:1].nbytes) for rows in found)


@pytest.mark.parametrize(
    "spoil",
    [damaged, lambda content: content[:-5], lambda content: content + b"x", None],
    ids=["damaged", "cut short", "too long", "missing"],
)
def test_pieces_of_a_chunk_that_is_not_what_was_written_are_not_to_be_used(
    tmp_path: Path, spoil: Callable[[bytes], bytes] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = stored(tmp_path / "x")
    monkeypatch.setattr(plain_rows, "PIECE_BYTES", 40)
    file = chunk_file(tmp_path / "x", 1)
    if spoil is None:
        file.unlink()
    else:
        file.write_bytes(spoil(file.read_bytes()))
    pieces = pieces_of(array, RowMemory())
    assert pieces is not None
    with pytest.raises(NotAsWritten):
        list(pieces)


@pytest.mark.parametrize("packed", [(), (ZstdCodec(level=1),)], ids=["plain", "compressed"])
@pytest.mark.parametrize("shape", [(), (1,), (23,), (9, 5), (5, 4, 3)], ids=str)
def test_a_small_array_is_what_zarr_reads_and_what_is_wrong_with_it_is_left_to_zarr(
    tmp_path: Path, shape: tuple[int, ...], packed: tuple[ZstdCodec, ...]
) -> None:
    values = np.random.default_rng(1).normal(size=shape)
    sides = tuple(min(4, length) for length in shape)
    array = zarr.create_array(
        tmp_path / "x", shape=shape, chunks=sides, dtype="<f8", compressors=[*packed, Crc32cCodec()]
    )
    array[...] = values
    small = plain_rows._small(array)
    assert small is not None
    assert (small.shape, small.dtype) == (values.shape, values.dtype)
    np.testing.assert_array_equal(small, values)
    file = max(path for path in (tmp_path / "x").rglob("*") if path.is_file() and path.name != "zarr.json")
    whole = file.read_bytes()
    for spoilt in (damaged(whole), whole[:-5], whole + b"x", b""):
        file.write_bytes(spoilt)
        assert plain_rows._small(array) is None
    file.unlink()
    assert plain_rows._small(array) is None
