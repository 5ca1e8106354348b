"""What an ingest stores is a function of the multiset of its rows, whatever the source: the contract of all sources."""

from __future__ import annotations

import gzip
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as arrow_parquet
import pytest
import scipy.sparse
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.database_support import Database

NAMES = ("person", "number", "cost", "stay")
COLUMNS = [
    {"name": "number", "kind": "whole", "missing": "refuse"},
    people.NUMBER,
    {"name": "stay", "kind": "whole", "missing": "refuse"},
]
UNITS = {
    "row": people.ROW,
    "one": people.CHOOSE.format(most=1),
    "three": people.CHOOSE.format(most=3),
    "sum": people.TOGETHER.format(by="sum"),
    "mean": people.TOGETHER.format(by="mean"),
}
ARRAY = 'names = ["person", "number", "cost", "stay"]'


def visits(rows=150, persons=30):
    """Rows of people, some of which are equal, and some of whose costs are zero with either sign."""
    rng = np.random.default_rng(11)
    cost = np.where(rng.random(rows) < 0.3, -0.0, rng.lognormal(0, 8, rows))
    cost[rng.random(rows) < 0.3] = 0.0
    who = rng.integers(0, persons, rows)
    return pa.table(dict(zip(NAMES, (who, who, cost, rng.integers(0, 3, rows)), strict=True)))


def divided(table, order, cuts):
    """The rows in another order, in some tables."""
    moved = table.take(pa.array(np.asarray(order, np.int64)))
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < moved.num_rows}), moved.num_rows]
    return [moved.slice(start, stop - start) for start, stop in zip(edges, edges[1:], strict=False)]


def matrix(part):
    return np.column_stack([part[name].to_numpy() for name in NAMES]).astype(np.float64)


def records(folder, source, unit, **keys):
    """What is stored, one row below the other; the rows in order where each is a unit."""
    people.run(people.configure(folder, COLUMNS, source, unit=UNITS[unit], dtype="float64", **keys))
    group = zarr.open_group(folder / "out.zarr", mode="r")
    found = group["records"]
    if isinstance(found, zarr.Group):
        parts = (found[name][...] for name in ("data", "indices", "indptr"))
        found = scipy.sparse.csr_matrix(tuple(parts), shape=found.attrs["shape"]).toarray()
    rows = np.asarray(found[...])
    return rows[np.lexsort(rows.T)] if unit == "row" else rows


class RowOrderContract:
    """Any order and division of the rows gives the same store, and one unit more changes no other one's records."""

    @staticmethod
    def put(folder, parts):
        """Write tables as a source; ``[source]`` of the config that reads it."""
        raise NotImplementedError

    def stored(self, tmp_path, name, parts, unit):
        (tmp_path / name).mkdir()
        return records(tmp_path / name, self.put(tmp_path / name, parts), unit)

    @pytest.mark.parametrize("unit", UNITS)
    def test_another_order_and_division_of_the_rows_changes_no_bit(self, tmp_path, unit):
        table = visits()
        first = self.stored(tmp_path, "first", [table], unit)
        order = np.random.default_rng(5).permutation(table.num_rows)
        assert self.stored(tmp_path, "moved", divided(table, order, (1, 40, 90)), unit).tobytes() == first.tobytes()

    @pytest.mark.parametrize("unit", UNITS)
    def test_a_unit_more_whose_rows_move_all_others_changes_no_record_of_another_unit(self, tmp_path, unit):
        table, rng = visits(), np.random.default_rng(6)
        gone = np.flatnonzero(table["person"].to_numpy() != 7)
        without = self.stored(
            tmp_path, "without", divided(table.take(pa.array(gone)), rng.permutation(gone.size), (9,)), unit
        )
        with_all = self.stored(tmp_path, "with", divided(table, rng.permutation(table.num_rows), (60,)), unit)
        rows = table["person"].to_numpy() == 7
        # A sum of persons' numbers is not that of a person alone: the other records are those that are in both.
        others = with_all[[row.tobytes() in {one.tobytes() for one in without} for row in with_all]]
        assert others.tobytes() == without.tobytes()
        assert len(with_all) - len(without) == {"row": rows.sum(), "three": min(3, rows.sum())}.get(unit, 1)


class TestParquet(RowOrderContract):
    @staticmethod
    def put(folder, parts):
        for number, part in enumerate(parts):
            packed = ("none", "zstd", "snappy")[number % 3]
            arrow_parquet.write_table(part, folder / f"{number}.parquet", compression=packed, row_group_size=7 + number)
        return 'kind = "parquet"\nfiles = ["*.parquet"]'


class TestCsv(RowOrderContract):
    @staticmethod
    def put(folder, parts):
        for number, part in enumerate(parts):
            arrow_csv.write_csv(part.select(NAMES if number % 2 else NAMES[::-1]), folder / f"{number}.csv")
            if number % 2:
                (folder / f"{number}.csv.gz").write_bytes(gzip.compress((folder / f"{number}.csv").read_bytes()))
                (folder / f"{number}.csv").unlink()
        return 'kind = "csv"\nfiles = ["*.csv*"]'


class TestNpy(RowOrderContract):
    @staticmethod
    def put(folder, parts):
        for number, part in enumerate(parts):
            np.save(folder / f"{number}.npy", np.asarray(matrix(part), order="CF"[number % 2]))
        return f'kind = "npy"\nfiles = ["*.npy"]\n{ARRAY}'


class TestNpz(RowOrderContract):
    @staticmethod
    def put(folder, parts):
        for number, part in enumerate(parts):
            np.savez_compressed(folder / f"{number}.npz", all=matrix(part))
        return f'kind = "npz"\nfiles = ["*.npz"]\narrays = ["all"]\n{ARRAY}'


class TestZarr(RowOrderContract):
    @staticmethod
    def put(folder, parts):
        for number, part in enumerate(parts):
            zarr.create_array(folder / f"{number}.in", data=matrix(part), chunks=(11 + number, 2))
        names = ", ".join(f'"{number}.in"' for number in range(len(parts)))
        return f'kind = "zarr"\nfiles = [{names}]\n{ARRAY}'


class TestScipy(RowOrderContract):
    @staticmethod
    def put(folder, parts):
        for number, part in enumerate(parts):
            scipy.sparse.save_npz(folder / f"{number}.npz", scipy.sparse.csr_matrix(matrix(part)))
        return f'kind = "scipy"\nfiles = ["*.npz"]\n{ARRAY}'

    @pytest.mark.parametrize("unit", UNITS)
    def test_entries_are_stored_as_the_same_records(self, tmp_path, unit):
        table = visits()
        whole = self.stored(tmp_path, "whole", [table], unit)
        (tmp_path / "entries").mkdir()
        order = np.random.default_rng(5).permutation(table.num_rows)
        source = self.put(tmp_path / "entries", divided(table, order, (50,)))
        assert (records(tmp_path / "entries", source, unit, layout="entries") == whole).all()


class OfTables(RowOrderContract):
    """A table of a database, whose rows lie in the order in which they were inserted."""

    kind = ""

    @pytest.fixture(autouse=True)
    def server(self, request, monkeypatch):
        self.place, self.patch = None, monkeypatch
        if self.kind == "postgresql":
            self.place = request.getfixturevalue("postgres")

    def put(self, folder, parts):
        database = Database(self.kind, folder, self.place)
        if self.place is not None:
            self.patch.setenv("CLINIC", database.address)
        database.put(pa.concat_tables(parts))
        return database.source()


class TestSqlite(OfTables):
    kind = "sqlite"


class TestDuckdb(OfTables):
    kind = "duckdb"


class TestPostgresql(OfTables):
    kind = "postgresql"


class TestDelta(RowOrderContract):
    @staticmethod
    def put(folder, parts):
        for part in parts:
            deltalake.write_deltalake(str(folder / "clinic"), part, mode="append")
        if len(parts) == 4:
            deltalake.DeltaTable(str(folder / "clinic")).optimize.compact()
        return 'kind = "delta"\ntable = "clinic"'


class TestIceberg(RowOrderContract):
    @staticmethod
    def put(folder, parts):
        catalog = SqlCatalog("clinic", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        catalog.create_namespace("clinic")
        table = catalog.create_table("clinic.visits", schema=parts[0].schema)
        for part in parts:
            table.append(part)
        place = table.refresh().metadata_location.removeprefix("file://")
        catalog.engine.dispose()
        return f'kind = "iceberg"\ntable = "{Path(place).relative_to(folder)}"'


TABLE = visits(24, 6)
EQUAL = "Some rows are equal by chance, so a file of one row may be equal to another"


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(24)), st.lists(st.integers(1, 23), max_size=3), st.sampled_from([*UNITS]))
def test_no_order_of_a_few_rows_changes_a_bit(tmp_path_factory, order, cuts, unit):
    stores = []
    for parts in ([TABLE], divided(TABLE, order, cuts)):
        folder = tmp_path_factory.mktemp("order")
        source = TestParquet.put(folder, parts)
        stores.append(records(folder, source, unit, accept_repeated_rows=EQUAL).tobytes())
    assert stores[0] == stores[1]


@pytest.mark.parametrize("unit", UNITS)
def test_a_value_is_the_same_in_whatever_type_a_file_keeps_it(tmp_path, unit):
    """Else another writer of one file would choose other rows of a person."""
    who = [1] * 9 + [2] * 9
    columns = (who, who, [number / 4 for number in range(18)], [number % 3 for number in range(18)])
    table = pa.table(dict(zip(NAMES, columns, strict=True)))
    kinds = (
        (pa.int64(), pa.int64(), pa.float64(), pa.int64()),
        (pa.int16(), pa.int8(), pa.float32(), pa.float64()),
        (pa.int32(), pa.float32(), pa.decimal128(12, 4), pa.decimal128(30, 2)),
        (pa.uint64(), pa.float64(), pa.decimal256(40, 20), pa.uint8()),
    )
    stores = set()
    for number, types in enumerate(kinds):
        (tmp_path / str(number)).mkdir()
        part = table.cast(pa.schema(list(zip(NAMES, types, strict=True))))
        source = TestParquet.put(tmp_path / str(number), [part])
        stores.add(records(tmp_path / str(number), source, unit).tobytes())
    assert len(stores) == 1


def test_a_decimal_is_the_number_that_its_digits_say(tmp_path):
    digits = ["0.1", "2.675", "1234567.891", "99999999999.9999"]
    table = pa.table({"cost": pa.array(digits).cast(pa.decimal128(28, 9))})
    arrow_parquet.write_table(table, tmp_path / "a.parquet")
    people.run(people.configure(tmp_path, [people.NUMBER], 'kind = "parquet"\nfiles = ["a.parquet"]', dtype="float64"))
    assert people.stored(tmp_path)[:, 0].tolist() == [float(one) for one in digits]
