"""The digest of arrays by content."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from blockveil.pipeline.data.content import content_digest
from blockveil.pipeline.data.zarr_arrays import create_array, create_group


class TestContentDigest:
    """The digest depends on content and on nothing else."""

    @settings(deadline=None)
    @given(
        values=arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(1, 5))),
        chunks=st.tuples(st.integers(1, 7), st.integers(1, 3)),
    )
    def test_chunks_and_byte_order_do_not_matter(self, values: np.ndarray[Any, Any], chunks: tuple[int, int]) -> None:
        stored = zarr.create_array({}, shape=values.shape, chunks=chunks, dtype=">f8")
        stored[...] = values
        reversed_order = np.asfortranarray(values.astype(">f8"))
        plain = content_digest({"a": values})
        assert content_digest({"a": reversed_order}) == plain
        assert content_digest({"a": np.asarray(stored[...])}) == plain

    def test_slabs_of_a_large_array_give_the_digest_of_the_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        values = np.arange(1000.0).reshape(250, 4)
        whole = content_digest({"a": values})
        monkeypatch.setattr("blockveil.pipeline.data.content._SLAB_BYTES", 1000)
        assert content_digest({"a": values}) == whole

    @pytest.mark.parametrize("piece", [1, 500, 1000, 3000, 10**6])
    def test_tiles_on_the_disk_have_the_digest_of_the_whole_and_are_read_without_a_detour(
        self, tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        values = np.random.default_rng(0).normal(size=(50, 30))
        array = create_array(
            create_group(tmp_path / "g", {}), "a", values.shape, "f8", ("i", "j"), (10, 15), shrinks=False
        )
        array[...] = values
        monkeypatch.setattr("blockveil.pipeline.data.plain_rows.PIECE_BYTES", piece)
        with monkeypatch.context() as patch:
            patch.delattr(zarr.Array, "__getitem__")
            assert content_digest({"a": array}) == content_digest({"a": values})
        file = tmp_path / "g" / "a" / "c" / "2" / "1"
        whole = file.read_bytes()
        file.write_bytes(whole[:9] + bytes([whole[9] ^ 1]) + whole[10:])
        with pytest.raises(ValueError, match="checksum"):
            content_digest({"a": array})
        file.unlink()
        assert content_digest({"a": array}) != content_digest({"a": values})

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
            {"a": np.array(["ab", "c"])},
            {"a": np.array(["a", "bc"])},
        ]
        assert len({content_digest(variant) for variant in variants}) == len(variants)

    def test_minus_zero_differs_from_zero(self) -> None:
        assert content_digest({"a": np.array(-0.0)}) != content_digest({"a": np.array(0.0)})

    def test_the_digest_is_the_documented_one(self) -> None:
        def field(text: bytes) -> bytes:
            return len(text).to_bytes(8, "little") + text

        expected = hashlib.sha256(
            b"blockveil content 1"
            + field(b"a")
            + field(b"<f8")
            + field(b"2")
            + np.array([1.0, 2.0], "<f8").tobytes()
            + field(b"b")
            + field(b"text")
            + field(b"1")
            + field("ü".encode())
        ).hexdigest()
        assert content_digest({"b": np.array(["ü"]), "a": np.array([1.0, 2.0])}) == expected
