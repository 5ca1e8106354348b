"""Every source and every kind of column gives the records that the config declares, whatever the batches."""

from __future__ import annotations

import gzip
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import Crc32cCodec, ZstdCodec

from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.data.ingest import readers
from blockveil.pipeline.data.ingest import source_rows as module
from blockveil.pipeline.data.ingest import store_writer as writing
from blockveil.pipeline.data.ingest.store_contract import ATTRIBUTE
from blockveil.pipeline.data.zarr_arrays import missing_chunks
from tests.pipeline.data.ingest import ingest_support as people


def matrix(rows=300):
    values = np.random.default_rng(5).integers(-9, 9, (rows, 3)).astype(np.float64)
    values[:, 0] += 0.5
    return values


ABC = 'names = ["a", "b", "c"]'
ABC_COLUMNS = [
    {"name": "c", "kind": "whole", "missing": "refuse"},
    {"name": "a", "kind": "number", "missing": "refuse"},
    {"name": "b", "kind": "whole", "missing": "refuse"},
]


def test_parquet_is_stored_in_the_order_of_files_and_rows(tmp_path):
    people.write_parquet(tmp_path, people.visits(), files=3, row_group_size=70)
    people.run(people.configure(tmp_path, people.COLUMNS))
    np.testing.assert_array_equal(people.stored(tmp_path), people.expected(people.visits()))


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_csv_gives_what_parquet_gives(tmp_path, packed):
    people.write_csv(tmp_path / "in" / "visits.csv", people.visits())
    if packed:
        plain = tmp_path / "in" / "visits.csv"
        (tmp_path / "in" / "visits.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    people.run(people.configure(tmp_path, people.COLUMNS, 'kind = "csv"\nfiles = ["in"]'))
    np.testing.assert_array_equal(people.stored(tmp_path), people.expected(people.visits()))


def test_arrays_in_every_format_are_put_side_by_side_under_their_names(tmp_path):
    values = matrix()
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "columns.npy", np.asfortranarray(values))
    np.savez_compressed(tmp_path / "x.npz", left=values[:, 0], right=np.asfortranarray(values[:, 1:]))
    group = zarr.create_group(tmp_path / "x.zarr")
    for name, part in (("left", values[:, :2].astype("f4")), ("right", values[:, 2].astype("i2"))):
        made = group.create_array(name, shape=part.shape, dtype=part.dtype, chunks=(70, *part.shape[1:]))
        made[...] = part
    for source in (
        f'kind = "npy"\nfiles = ["x.npy"]\n{ABC}',
        f'kind = "npy"\nfiles = ["columns.npy"]\n{ABC}',
        f'kind = "npz"\nfiles = ["x.npz"]\narrays = ["left", "right"]\n{ABC}',
        f'kind = "zarr"\nfiles = ["x.zarr"]\narrays = ["left", "right"]\n{ABC}',
    ):
        name = f"o{abs(hash(source))}"
        people.run(people.configure(tmp_path, ABC_COLUMNS, source, store=f"{name}.zarr"))
        found = zarr.open_array(tmp_path / f"{name}.zarr" / "records", mode="r")[...]
        np.testing.assert_array_equal(found, values[:, [2, 0, 1]].astype(np.float32))


def test_columns_alike_are_named_by_a_count(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(40.0).reshape(4, 10))
    columns = [{"name": "x", "kind": "number", "missing": "refuse", "count": 8}]
    source = 'kind = "npy"\nfiles = ["x.npy"]\nnames = ["id", { name = "x", count = 9 }]'
    people.run(people.configure(tmp_path, columns, source))
    np.testing.assert_array_equal(people.stored(tmp_path), np.arange(40.0).reshape(4, 10)[:, 1:9])


def test_columns_alike_that_stand_in_another_order_keep_their_names(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(4.0)[None, :].repeat(2, axis=0))
    columns = [{"name": "x", "kind": "number", "missing": "refuse", "count": 4}]
    people.run(people.configure(tmp_path, columns, 'kind = "npy"\nfiles = ["x.npy"]\nnames = ["x1", "x3", "x2", "x4"]'))
    assert people.stored(tmp_path).tolist() == [[0.0, 2.0, 1.0, 3.0]] * 2


def test_folders_named_after_a_value_give_a_column(tmp_path):
    for ward in ("b", "a%20x"):
        people.write_parquet(tmp_path, people.visits(40).drop(["ward"]))
        (tmp_path / "in" / f"ward={ward}").mkdir()
        (tmp_path / "in" / "part-0.parquet").rename(tmp_path / "in" / f"ward={ward}" / "part-0.parquet")
    ward = {"kind": "category", "categories": ["a x", "b"], "unknown": "refuse", "missing": "refuse", "encode": "code"}
    people.run(people.configure(tmp_path, [{"name": "ward", **ward}]))
    # Folders are read by name.
    np.testing.assert_array_equal(people.stored(tmp_path)[:, 0], np.repeat([0.0, 1.0], 40))


def test_missing_unknown_and_outside_values_follow_their_policy(tmp_path):
    table = pa.table(
        {
            "cost": pa.array([1.0, None, float("nan"), float("inf"), 5.0, 6.0]),
            "stay": pa.array([1, 2, 3, None, 5, 6]),
            "ward": pa.array(["a", "a", "z", None, "b", "a"]),
            "age": pa.array([0.0, 9.99, 10.0, 20.0, 99.0, None]),
        }
    )
    people.write_parquet(tmp_path, table)
    ward = {"name": "ward", "kind": "category", "categories": ["a", "b"], "missing": "unknown"}
    age = {"name": "age", "kind": "bins", "edges": [0, 10, 20], "outside": "clip", "missing": 15, "encode": "code"}
    people.run(
        people.configure(
            tmp_path,
            [
                {"name": "cost", "kind": "number", "missing": -1.5},
                {"name": "stay", "kind": "whole", "missing": 9},
                {**ward, "unknown": "zeros", "encode": "one-hot"},
                age,
            ],
        )
    )
    assert people.stored(tmp_path).tolist() == [
        [1.0, 1.0, 1.0, 0.0, 0.0],
        [-1.5, 2.0, 1.0, 0.0, 0.0],
        [-1.5, 3.0, 0.0, 0.0, 1.0],
        [-1.5, 9.0, 0.0, 0.0, 1.0],
        [5.0, 5.0, 0.0, 1.0, 1.0],
        [6.0, 6.0, 1.0, 0.0, 1.0],
    ]
    dropping = [
        {"name": "cost", "kind": "number", "missing": "drop"},
        {"name": "stay", "kind": "whole", "missing": 0},
        {**age, "outside": "drop", "missing": "drop"},
    ]
    people.run(people.configure(tmp_path, dropping, name="second", store="dropped.zarr"))
    array = zarr.open_array(tmp_path / "dropped.zarr" / "records", mode="r")
    assert array[...].tolist() == [[1.0, 1.0, 0.0]]
    assert array.attrs[ATTRIBUTE]["dropping"] is True


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float64"])
def test_records_are_stored_in_the_asked_type(tmp_path, dtype):
    people.write_parquet(tmp_path, pa.table({"stay": [1, 2, 127], "urgent": [True, False, True]}))
    columns = [{"name": name, "kind": "whole", "missing": "refuse"} for name in ("stay",)] + [people.COLUMNS[3]]
    people.run(people.configure(tmp_path, columns, dtype=dtype))
    found = people.stored(tmp_path)
    assert found.dtype == dtype
    assert found.tolist() == [[1, 1], [2, 0], [127, 1]]


def test_whole_numbers_of_64_bits_stay_exact(tmp_path):
    far = [2**63 - 1, -(2**63), 2**53 + 1]
    people.write_parquet(tmp_path, pa.table({"id": far}))
    people.run(people.configure(tmp_path, [{"name": "id", "kind": "whole", "missing": "refuse"}], dtype="int64"))
    assert people.stored(tmp_path)[:, 0].tolist() == far


CODE = {"name": "level", "kind": "category", "categories": [1, 2], "unknown": "refuse", "encode": "code"}
GAPS = [{"name": "stay", "kind": "whole", "missing": -1}, {**CODE, "missing": "drop"}]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_with_gaps_are_whole_although_programs_write_them_with_a_point(tmp_path, kind, dtype):
    stay, level = [517.0, None, -3.0, 8.0], [2.0, 1.0, 2.0, None]
    if kind == "csv":
        (tmp_path / "in").mkdir()
        lines = [f"{'' if a is None else a},{'' if b is None else b}" for a, b in zip(stay, level, strict=True)]
        (tmp_path / "in" / "visits.csv").write_text("\n".join(["stay,level", *lines, ""]))
    else:
        people.write_parquet(tmp_path, pa.table({"stay": stay, "level": level}))
    people.run(people.configure(tmp_path, GAPS, f'kind = "{kind}"\nfiles = ["in"]', dtype=dtype))
    assert people.stored(tmp_path).tolist() == [[517, 1], [-1, 0], [-3, 1]]


@pytest.mark.parametrize("words", ["true,False,TRUE", "yes,no,Yes", "1.0,0.0,1.0", "1,0,YES", "True,NO,1"])
def test_yes_and_no_are_read_however_programs_write_them(tmp_path, words):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "visits.csv").write_text("\n".join(["urgent", *words.split(","), ""]))
    urgent = [{"name": "urgent", "kind": "boolean", "missing": "refuse"}]
    people.run(people.configure(tmp_path, urgent, 'kind = "csv"\nfiles = ["in"]'))
    assert people.stored(tmp_path)[:, 0].tolist() == [1, 0, 1]


def test_whole_numbers_of_64_bits_stay_exact_in_csv_too(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "visits.csv").write_text("id\n9223372036854775807\n-9223372036854775808\n9007199254740993.0\n")
    columns = [{"name": "id", "kind": "whole", "missing": "refuse"}]
    people.run(people.configure(tmp_path, columns, 'kind = "csv"\nfiles = ["in"]', dtype="int64"))
    assert people.stored(tmp_path)[:, 0].tolist() == [2**63 - 1, -(2**63), 2**53 + 1]


@pytest.mark.parametrize("written", ["1.5", "1e30", "9223372036854775808"])
def test_a_number_that_is_not_whole_is_refused_in_csv(tmp_path, written):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "visits.csv").write_text(f"id\n1\n{written}\n")
    columns = [{"name": "id", "kind": "whole", "missing": "refuse"}]
    for dtype in ("float32", "int64"):
        with pytest.raises(DataError, match='column "id" holds a ') as caught:
            people.run(people.configure(tmp_path, columns, 'kind = "csv"\nfiles = ["in"]', dtype=dtype))
        assert written not in str(caught.value)


def test_the_store_is_private_complete_checksummed_and_has_its_layout(tmp_path):
    people.write_parquet(tmp_path, people.visits())
    people.run(people.configure(tmp_path, people.COLUMNS, chunk_rows=64))
    array = zarr.open_array(tmp_path / "out.zarr" / "records", mode="r")
    assert (array.shape, array.chunks, array.shards) == ((500, 6), (64, 6), None)
    assert missing_chunks(array) == 0
    assert stat.S_IMODE(os.stat(tmp_path / "out.zarr").st_mode) & 0o077 == 0
    np.testing.assert_array_equal(array[...], people.expected(people.visits()))
    assert people.left(tmp_path) == []
    chunk = tmp_path / "out.zarr" / "records" / "c" / "0" / "0"
    content = bytearray(chunk.read_bytes())
    content[100] ^= 1
    chunk.chmod(0o600)
    chunk.write_bytes(content)
    with pytest.raises(ValueError, match="checksum"):
        array[:64]


@pytest.mark.parametrize(("random", "compressed"), [(True, False), (False, True)])
def test_chunks_are_compressed_where_they_shrink(tmp_path, random, compressed):
    values = np.random.default_rng(0).standard_normal((400, 3)) if random else np.full((400, 3), 7.5)
    np.save(tmp_path / "x.npy", values)
    source = f'kind = "npy"\nfiles = ["x.npy"]\n{ABC}'
    columns = [{"name": name, "kind": "number", "missing": "refuse"} for name in "abc"]
    people.run(people.configure(tmp_path, columns, source))
    array = zarr.open_array(tmp_path / "out.zarr" / "records", mode="r")
    kinds = [type(codec) for codec in array.compressors]
    assert kinds == [ZstdCodec, Crc32cCodec] if compressed else kinds == [Crc32cCodec]
    np.testing.assert_array_equal(array[...], values.astype(np.float32))


@pytest.mark.parametrize("zeros", [np.zeros((5, 3)), np.full((5, 3), -0.0)])
def test_chunks_of_zeros_are_stored_too(tmp_path, zeros):
    np.save(tmp_path / "x.npy", zeros)
    people.run(people.configure(tmp_path, ABC_COLUMNS, f'kind = "npy"\nfiles = ["x.npy"]\n{ABC}', dtype="float64"))
    assert missing_chunks(zarr.open_array(tmp_path / "out.zarr" / "records", mode="r")) == 0


def test_rows_of_a_unit_are_bounded_and_the_store_says_so(tmp_path):
    table = people.visits()
    people.write_parquet(tmp_path, table, files=4)
    people.run(people.configure(tmp_path, people.COLUMNS, unit=people.CHOOSE.format(most=2)))
    found, everything = people.stored(tmp_path), people.expected(table)
    owner = {tuple(row): person for row, person in zip(everything, table["person"].to_pylist(), strict=True)}
    who = [owner[tuple(row)] for row in found]
    wanted = np.minimum(np.bincount(table["person"].to_numpy()), 2)
    np.testing.assert_array_equal(np.bincount(who), wanted)
    attributes = zarr.open_array(tmp_path / "out.zarr" / "records", mode="r").attrs[ATTRIBUTE]
    assert (attributes["unit"], attributes["rows_per_unit"], attributes["grouped"]) == ("one person", 2, True)
    assert (attributes["by"], attributes["dropping"]) == ("choose", True)
    # The rows of one person stand together.
    assert len([1 for one, other in zip(who, who[1:], strict=False) if one != other]) == len(set(who)) - 1


@pytest.mark.parametrize("by", ["sum", "mean"])
def test_all_rows_of_a_unit_become_one_record(tmp_path, by):
    table = people.visits()
    people.write_csv(tmp_path / "in" / "visits.csv", table)
    source = 'kind = "csv"\nfiles = ["in"]'
    people.run(people.configure(tmp_path, people.COLUMNS, source, people.TOGETHER.format(by=by), dtype="float64"))
    who = table["person"].to_numpy()
    values = people.expected(table).astype(np.float64)
    values[:, 0] = table["cost"].to_numpy()
    wanted = [getattr(values[who == person], by)(axis=0) for person in np.unique(who)]
    found = people.stored(tmp_path)
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], sorted(wanted, key=lambda row: row[0]), rtol=1e-12)


def test_a_unit_with_far_more_rows_than_fit_in_a_run_is_bounded_too(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "run_bytes", lambda config: 2000)
    monkeypatch.setattr(readers, "BATCH_BYTES", 8 * 2 * 50)
    table = pa.table({"person": np.r_[np.zeros(800, int), 1, np.zeros(800, int)], "cost": np.arange(1601.0)})
    people.write_parquet(tmp_path, table)
    people.run(people.configure(tmp_path, [people.NUMBER], unit=people.CHOOSE.format(most=1)))
    found = people.stored(tmp_path)[:, 0]
    assert found.size == 2
    assert 800.0 in found


UNITS = [people.ROW, people.CHOOSE.format(most=2), people.TOGETHER.format(by="sum")]


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """Sources, and the bits of one ingest of each kind of unit."""
    folder = tmp_path_factory.mktemp("once")
    people.write_parquet(folder, people.visits(), files=2, row_group_size=90)
    people.write_csv(folder / "csv" / "visits.csv", people.visits())
    return folder, {}


@settings(max_examples=16)
@given(
    unit=st.sampled_from(range(3)),
    batch=st.integers(15, 300),
    block=st.sampled_from([1, 120, 170, 10**6]),
    share=st.integers(3_000, 30_000),
    piece=st.integers(1, 999),
)
def test_neither_batches_nor_blocks_nor_memory_change_a_bit(once, unit, batch, block, share, piece):
    folder, known = once
    loaded = people.configure(folder, people.COLUMNS, unit=UNITS[unit], chunk_rows=50)
    with pytest.MonkeyPatch.context() as patch:
        if unit in known:
            patch.setattr(readers, "BATCH_BYTES", 8 * 6 * batch)
            patch.setattr(writing, "BLOCK_BYTES", 24 * block)
            patch.setattr(module, "run_bytes", lambda config: share)
            patch.setattr(module, "PIECE_ROWS", piece)
        people.run(loaded)
    found = people.bits(folder)
    for file in sorted((folder / "out.zarr").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    (folder / "out.zarr").rmdir()
    assert known.setdefault(unit, found) == found


GROWTH = """
import sys
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest.ingest_run import ingest, look

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

source = look(load_ingest(sys.argv[1]))
before = peak()
ingest(source, lambda stage, share: None)
print((peak() - before) / 2**20)
"""


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    """A source that is larger than the memory of the tests."""
    folder, rng = tmp_path_factory.mktemp("larger"), np.random.default_rng(0)
    table = {"person": rng.integers(0, 500_000, 2_000_000)}
    table |= {f"x{i}": rng.standard_normal(2_000_000, dtype=np.float32) for i in range(1, 51)}
    people.write_parquet(folder, pa.table(table), row_group_size=2**17)
    return folder / "in"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs a kernel that tells the peak of a process")
@pytest.mark.parametrize("unit", range(3))
def test_memory_stays_within_its_bound_on_a_source_that_is_larger(tmp_path, larger, unit):
    (tmp_path / "in").mkdir()
    for file in larger.iterdir():
        (tmp_path / "in" / file.name).hardlink_to(file)
    columns = [{"name": "x", "kind": "number", "missing": "refuse", "count": 50}]
    loaded = people.configure(tmp_path, columns, unit=UNITS[unit], memory_gib=0.6)
    code = [sys.executable, "-c", GROWTH, str(loaded.path)]
    shown = subprocess.run(code, capture_output=True, text=True, check=True, timeout=280, cwd=Path(__file__).parents[4])
    assert float(shown.stdout) < 0.6
