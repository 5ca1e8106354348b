"""The digest of a release."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from zarr.codecs import Crc32cCodec, GzipCodec, ZstdCodec

from blockveil.pipeline.data import content
from blockveil.pipeline.data.content import (
    Labelled,
    array_digest,
    array_digest_of,
    content_digest,
    leaf,
    release_digest,
    tiles,
)
from blockveil.pipeline.data.zarr_arrays import create_array, create_group


def digest(**values: Any) -> str:
    return content_digest({name: Labelled(np.asarray(value)) for name, value in values.items()}, {})


def field(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text


def hashed(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 4 x 8, so that small arrays have many."""
    monkeypatch.setattr(content, "TILE_COLUMNS", 8)
    monkeypatch.setattr(content, "TILE_ENTRIES", 32)


class TestContentDigest:
    """The digest depends on content and labels, and on nothing else."""

    @settings(deadline=None)
    @given(
        values=arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(1, 5))),
        chunks=st.tuples(st.integers(1, 7), st.integers(1, 3)),
    )
    def test_chunks_and_byte_order_do_not_matter(self, values: np.ndarray[Any, Any], chunks: tuple[int, int]) -> None:
        stored = zarr.create_array({}, shape=values.shape, chunks=chunks, dtype=">f8")
        stored[...] = values
        plain = digest(a=values)
        assert digest(a=np.asfortranarray(values.astype(">f8"))) == plain
        assert content_digest({"a": Labelled.of(stored)}, {}) == plain

    @pytest.mark.parametrize("packing", [(), (ZstdCodec(level=9),), (GzipCodec(),)])
    @pytest.mark.parametrize("endian", ["<f8", ">f8"])
    @pytest.mark.parametrize("chunks", [(4, 8), (8, 4), (3, 5), (50, 30), (1, 30), (50, 1)])
    def test_neither_layout_nor_codec_matters_across_many_tiles(
        self, tmp_path: Path, small_tiles: None, chunks: tuple[int, int], endian: str, packing: tuple[Any, ...]
    ) -> None:
        values = np.random.default_rng(0).normal(size=(50, 30))
        stored = zarr.create_group(tmp_path / "g").create_array(
            "a", shape=values.shape, chunks=chunks, dtype=endian, compressors=(*packing, Crc32cCodec())
        )
        stored[...] = values
        assert content_digest({"a": Labelled.of(stored)}, {}) == digest(a=values)

    @pytest.mark.parametrize("shape", [(), (0,), (5, 0), (7,), (100,), (9, 17), (3, 4, 9), (2, 1, 1, 20), (1, 70)])
    def test_each_leaf_can_be_computed_from_its_tile_alone(self, shape: tuple[int, ...], small_tiles: None) -> None:
        values = np.random.default_rng(1).normal(size=shape)
        matrix = values.reshape(-1, shape[-1] if len(shape) > 1 else 1) if values.size else np.zeros((0, 0))
        leaves = [leaf(matrix[rows, columns]) for rows, columns in tiles(shape)]
        assert all(matrix[rows, columns].size <= 32 for rows, columns in tiles(shape))
        assert sum(matrix[rows, columns].size for rows, columns in tiles(shape)) == values.size
        assert array_digest_of("a", Labelled(values), leaves) == array_digest("a", Labelled(values))

    def test_slabs_of_a_large_array_give_the_digest_of_the_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        values = np.arange(3000.0).reshape(30, 25, 4)
        whole = digest(a=values)
        monkeypatch.setattr(content, "_SLAB_BYTES", 300)
        assert digest(a=values) == whole

    @pytest.mark.parametrize("chunks", [(10, 15), (4, 8)])
    @pytest.mark.parametrize("piece", [1, 100, 500, 1000, 3000, 10**6])
    def test_tiles_on_the_disk_have_the_digest_of_the_whole_and_are_read_without_a_detour(
        self, tmp_path: Path, chunks: tuple[int, int], piece: int, small_tiles: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        values = np.random.default_rng(0).normal(size=(50, 30))
        axes = ("i", "j")
        array = create_array(create_group(tmp_path / "g", {}), "a", values.shape, "f8", axes, chunks, shrinks=False)
        array[...] = values
        monkeypatch.setattr("blockveil.pipeline.data.plain_rows.PIECE_BYTES", piece)
        plain = array_digest("a", Labelled(values, axes))
        with monkeypatch.context() as patch:
            patch.delattr(zarr.Array, "__getitem__")
            assert array_digest("a", Labelled.of(array)) == plain
        file = tmp_path / "g" / "a" / "c" / "2" / "1"
        whole = file.read_bytes()
        file.write_bytes(whole[:9] + bytes([whole[9] ^ 1]) + whole[10:])
        with pytest.raises(ValueError, match="checksum"):
            array_digest("a", Labelled.of(array))
        file.unlink()
        assert array_digest("a", Labelled.of(array)) != plain

    def test_name_type_shape_and_every_element_matter(self) -> None:
        values = np.arange(6, dtype="f8")
        changed = values.copy()
        changed[5] = np.nextafter(5.0, 6.0)
        variants: list[dict[str, Any]] = [
            {"a": values},
            {"b": values},
            {"a": values.reshape(2, 3)},
            {"a": values.reshape(3, 2)},
            {"a": values.view("i8")},
            {"a": changed},
            {"a": values, "b": values},
            {"a": values[:0]},
            {"a": values[:0].reshape(0, 3)},
            {},
            {"a": np.array(["ab", "c"])},
            {"a": np.array(["a", "bc"])},
        ]
        assert len({digest(**variant) for variant in variants}) == len(variants)

    def test_names_of_axes_and_attributes_matter(self) -> None:
        values = np.arange(4.0).reshape(2, 2)
        labels: list[tuple[tuple[str | None, ...], dict[str, Any]]] = [
            (("ill", "ward"), {}),
            (("ward", "ill"), {}),
            (("illw", "ard"), {}),
            ((None, "ward"), {}),
            ((), {}),
            (("ill", "ward"), {"note": "exact"}),
            (("ill", "ward"), {"note": ["exact"]}),
            (("ill", "ward"), {"scale_factor": 1.0}),
            (("ill", "ward"), {"scale_factor": 1}),
        ]
        found = {content_digest({"a": Labelled(values, *each)}, {}) for each in labels}
        assert len(found) == len(labels)

    def test_what_a_release_states_matters_but_for_its_digest_and_signature(self) -> None:
        arrays = {"a": array_digest("a", Labelled(np.arange(3.0)))}
        stated: dict[str, Any] = {"guarantee": {"epsilon": 1.0}, "title": "t"}
        one = release_digest(arrays, stated)
        assert release_digest(arrays, {**stated, "output_digest": one, "signature": {"of": "anybody"}}) == one
        for other in ({"guarantee": {"epsilon": 0.01}, "title": "t"}, {"title": "t"}, {**stated, "note": None}):
            assert release_digest(arrays, other) != one

    def test_a_value_cannot_move_between_an_array_and_what_is_stated(self) -> None:
        arrays = {name: array_digest(name, Labelled(np.arange(3.0))) for name in "abc"}
        fewer = {name: arrays[name] for name in "ab"}
        assert release_digest(arrays, {}) != release_digest(fewer, {"c": arrays["c"]})

    def test_a_number_that_json_cannot_hold_has_no_digest(self) -> None:
        with pytest.raises(ValueError, match="JSON"):
            release_digest({}, json.loads('{"epsilon": NaN}'))

    def test_minus_zero_differs_from_zero(self) -> None:
        assert digest(a=-0.0) != digest(a=0.0)

    @pytest.mark.parametrize("count", range(2, 10))
    def test_the_last_tile_given_twice_is_another_array(self, count: int, small_tiles: None) -> None:
        # A tree that doubles an odd node takes n leaves for n + 1 of which the last two are equal.
        values = np.arange(count * 32.0).reshape(-1, 8)
        twice = np.concatenate([values, values[-4:]])
        assert digest(a=values) != digest(a=twice)
        labelled = Labelled(values)
        leaves = [leaf(values[rows, columns]) for rows, columns in tiles(values.shape)]
        assert array_digest_of("a", labelled, leaves) != array_digest_of("a", labelled, [*leaves, leaves[-1]])

    def test_the_digest_is_the_documented_one(self, small_tiles: None) -> None:
        values = np.arange(12.0).reshape(4, 3)[:, :2].repeat(5, axis=1)  # 4 x 10: two tiles
        left, right = (hashed(b"\0", part.tobytes()) for part in (values[:, :8], values[:, 8:]))
        count = (2).to_bytes(8, "little")
        labels = b'["a","<f8",[4,10],["i","j"],{"note":1}]'
        one = hashed(b"\2", field(labels), field(count), field(hashed(b"\1", left, right)))
        text = hashed(b"\0", field("ü".encode()))
        two = hashed(b"\2", field(b'["b","text",[1],[],{}]'), field((1).to_bytes(8, "little")), field(text))
        expected = hashed(b"\3", field(b'{"title":"t"}'), field(count), field(hashed(b"\1", one, two))).hex()
        arrays = {"b": Labelled(np.array(["ü"])), "a": Labelled(values, ("i", "j"), {"note": 1})}
        assert content_digest(arrays, {"title": "t", "output_digest": "0"}) == expected
