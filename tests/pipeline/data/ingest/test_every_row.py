"""Every row of a source is stored, or left out by a policy that the config declares; no format loses one on the way."""

import csv
import gzip
import io
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import deltalake
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as arrow_parquet
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

from blockveil.pipeline.base.errors import BlockveilError, ConfigError, DataError
from blockveil.pipeline.data.ingest.store_contract import Contract
from blockveil.pipeline.data.sparse_store import open_rows
from tests.pipeline.data.ingest import ingest_support as people

CONSTANT = 77.0

WARD = {"name": "ward", "kind": "category", "encode": "code", "missing": "drop", "unknown": "refuse"}


def table_of(values):
    return pa.table({"cost": pa.array(values, pa.float64())})


def in_csv(folder, text, name="a.csv"):
    (folder / name).write_bytes(gzip.compress(text) if name.lower().endswith(".gz") else text)
    return f'kind = "csv"\nfiles = ["{name}"]'


def lines(values, end="\n", *, last=True, quoted=False, mark=b"", name="a.csv"):
    """A CSV file of one column, as programs write it: a missing value is an empty line, or two quotation marks."""

    def write(folder):
        texts = ['""' if value is None and quoted else "" if value is None else str(value) for value in values]
        if not last and texts and texts[-1] == "":
            texts[-1] = '""'  # nobody could see a last row that is nothing at all
        return in_csv(folder, mark + (end.join(["cost", *texts]) + end * last).encode(), name)

    return write


def by_arrow(values):
    def write(folder):
        content = io.BytesIO()
        arrow_csv.write_csv(table_of(values), content)
        return in_csv(folder, content.getvalue())

    return write


def by_python(values):
    def write(folder):
        content = io.StringIO()
        csv.writer(content).writerows([["cost"], *([value] for value in values)])
        return in_csv(folder, content.getvalue().encode())

    return write


def by_duckdb(values):
    def write(folder):
        with closing(duckdb.connect()) as opened:
            opened.register("given", table_of(values))
            opened.execute(f"COPY (SELECT * FROM given) TO '{folder}/a.csv' (HEADER)")
        return 'kind = "csv"\nfiles = ["a.csv"]'

    return write


def with_notes(values):
    """Two columns, one of which is not read and goes over lines; blank lines between rows are no rows."""

    def write(folder):
        rows = "".join(f'"a\n\n""b"" {row}","{"" if value is None else value}"\n\n' for row, value in enumerate(values))
        return in_csv(folder, f"note,cost\n{rows}\n".encode())

    return write


def in_parquet(values):
    def write(folder):
        arrow_parquet.write_table(table_of(values), folder / "a.parquet", row_group_size=3)
        return 'kind = "parquet"\nfiles = ["a.parquet"]'

    return write


def in_array(kind):
    def of(values):
        def write(folder):
            content = np.array([np.nan if value is None else value for value in values])[:, None]
            if kind == "npy":
                np.save(folder / "a.npy", content)
            elif kind == "npz":
                np.savez(folder / "a.npz", x=content)
            else:
                zarr.create_array(folder / "a.zarr", data=content, chunks=(2, 1))
            more = '\narrays = ["x"]' if kind == "npz" else ""
            return f'kind = "{kind}"\nfiles = ["a.{kind}"]\nnames = ["cost"]{more}'

        return write

    return of


def in_database(kind):
    def of(values):
        def write(folder):
            file = folder / f"a.{kind}"
            opened = sqlite3.connect(file) if kind == "sqlite" else duckdb.connect(str(file))
            with closing(opened):
                opened.execute("CREATE TABLE visits (cost DOUBLE)")
                opened.executemany("INSERT INTO visits VALUES (?)", [(value,) for value in values])
                opened.commit()
            return f'kind = "{kind}"\nfile = "a.{kind}"\nquery = "SELECT cost FROM visits"'

        return write

    return of


def in_delta(values):
    def write(folder):
        deltalake.write_deltalake(str(folder / "a"), table_of(values))
        return 'kind = "delta"\ntable = "a"'

    return write


def in_iceberg(values):
    def write(folder):
        catalog = SqlCatalog("a", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/w")
        catalog.create_namespace("a")
        made = catalog.create_table("a.visits", schema=table_of(values).schema)
        made.append(table_of(values))
        place = made.refresh().metadata_location.removeprefix("file://")
        catalog.engine.dispose()
        return f'kind = "iceberg"\ntable = "{Path(place).relative_to(folder)}"'

    return write


QUICK = {
    "lines": lines,
    "lines of Windows": lambda values: lines(values, "\r\n", mark=b"\xef\xbb\xbf"),
    "lines of old Macs": lambda values: lines(values, "\r"),
    "no last end": lambda values: lines(values, last=False),
    "quoted": lambda values: lines(values, quoted=True),
    "packed": lambda values: lines(values, name="A.CSV.GZ"),
    "by Arrow": by_arrow,
    "by Python": by_python,
    "beside notes": with_notes,
    "parquet": in_parquet,
    "npy": in_array("npy"),
    "npz": in_array("npz"),
    "zarr": in_array("zarr"),
    "sqlite": in_database("sqlite"),
}
SLOW = {"by DuckDB": by_duckdb, "duckdb": in_database("duckdb"), "delta": in_delta, "iceberg": in_iceberg}

values = st.lists(st.one_of(st.none(), st.integers(-9, 9).map(float)), min_size=1, max_size=12)


def stored(folder, source, policy):
    """What is stored of a source under a policy for missing values, and whether the store says that rows may be left
    out; None where the ingest refuses.
    """
    loaded = people.configure(folder, [{**people.NUMBER, "missing": policy}], source)
    try:
        people.run(loaded)
    except DataError:
        return None
    contract = Contract.of(open_rows(loaded.target, "records", "", ""))
    return people.stored(folder)[:, 0].tolist(), contract.dropping


def check(write, rows):
    """Hold what is stored under each policy against the rows."""
    there = [value for value in rows if value is not None]
    expected = {
        "refuse": (rows, False) if there == rows else None,
        "drop": (there, True) if there else None,
        CONSTANT: ([CONSTANT if value is None else value for value in rows], False),
    }
    for policy, wanted in expected.items():
        with tempfile.TemporaryDirectory() as name:
            source = write(rows)(Path(name))
            assert stored(Path(name), source, policy) == wanted, policy


@pytest.mark.parametrize("write", QUICK.values(), ids=QUICK)
@settings(max_examples=8)
@given(values)
def test_rows_stored_and_rows_dropped_are_the_rows_of_the_source(write, rows):
    check(write, rows)


@pytest.mark.parametrize("write", SLOW.values(), ids=SLOW)
@pytest.mark.parametrize("rows", [[1.0, None, 3.0], [None], [None, 1.0, None, None]], ids=str)
def test_rows_of_tables_of_other_programs_are_all_there(write, rows):
    check(write, rows)


@pytest.mark.parametrize("rows", [[1.0, None, 3.0], [None, 1.0, None]], ids=str)
def test_rows_of_a_database_are_all_there(tmp_path, database, rows):
    database.put(table_of(rows))
    assert stored(tmp_path, database.source(), "refuse") is None
    assert stored(tmp_path, database.source(), CONSTANT)[0] == [CONSTANT if value is None else value for value in rows]


@pytest.mark.parametrize("text", ["cost,stay\n1,2\n3\n", "cost,stay\n1,2\n3,4,5\n", "cost,stay\n1,2\n3,4\n5"])
def test_a_short_or_long_row_is_refused(tmp_path, text):
    with pytest.raises(DataError, match="lines of different length"):
        people.run(people.configure(tmp_path, [people.NUMBER], in_csv(tmp_path, text.encode())))


def test_rows_without_a_column_that_is_read_are_counted_too(tmp_path):
    folder = tmp_path / "in" / "ward=EU"
    folder.mkdir(parents=True)
    columns = [{**WARD, "categories": ["NA", "EU"]}]
    (folder / "a.csv").write_text("x\n1\n\n\n")
    people.run(people.configure(tmp_path, columns, 'kind = "csv"\nfiles = ["in"]'))
    assert people.stored(tmp_path).tolist() == [[1.0]] * 3
    arrow_parquet.write_table(pa.table({"x": [1, None]}), folder / "a.parquet")
    people.run(people.configure(tmp_path, columns, 'kind = "parquet"\nfiles = ["in"]', store="b.zarr"))
    assert zarr.open_array(tmp_path / "b.zarr" / "records", mode="r").shape == (2, 1)


def test_rows_that_go_over_the_blocks_of_a_reader_are_whole(tmp_path):
    rows = [f'"{"long " * 40000}\n\n{row}",{row}' for row in range(60)]
    source = in_csv(tmp_path, "\n".join(["note,cost", *rows, ""]).encode())
    people.run(people.configure(tmp_path, [people.NUMBER], source))
    assert people.stored(tmp_path)[:, 0].tolist() == list(range(60))


CROSS = {
    "name": "both",
    "kind": "cross",
    "missing": "drop",
    "author": "us",
    "fitted_on": "nothing",
    "columns": [{"name": "ward", "categories": ["NA", "EU"]}, {"name": "sex", "categories": ["f", "m"]}],
}


@pytest.mark.parametrize(
    ("column", "texts", "more"),
    [
        ({**WARD, "categories": ["NA", "EU"]}, ["", "NA"], {}),
        ({**WARD, "categories": ["", "EU"]}, [""], {}),
        ({**WARD, "categories": [0, 1, 9]}, ["9"], {}),
        ({**WARD, "categories": [0, 1, 9]}, ["", "9.0"], {}),
        ({"name": "ward", "kind": "boolean", "missing": "drop"}, ["", "No"], {}),
        (CROSS, ["", "NA"], {}),
        (
            people.NUMBER,
            ["NA"],
            {"partition": {"column": "ward", "type": "text", "equals": "NA", "values": ["NA", "EU"]}},
        ),
        (people.NUMBER, ["9"], {"partition": {"column": "ward", "type": "whole", "equals": 9}}),
    ],
)
def test_a_text_is_a_declared_value_or_a_missing_one(tmp_path, column, texts, more):
    source = f'kind = "csv"\nfiles = ["a.csv"]\nmissing_values = {people.toml(texts)}'
    with pytest.raises(ConfigError, match=r"source\.missing_values") as refused:
        people.configure(tmp_path, [column], source, **more)
    assert '"ward"' in str(refused.value)


def test_a_folder_stands_for_all_of_its_files(tmp_path):
    (tmp_path / "in").mkdir()
    in_csv(tmp_path / "in", b"cost\n1\n")
    in_csv(tmp_path / "in", b"cost\n2\n", "B.CSV")
    in_csv(tmp_path / "in", b"cost\n3\n", "c.Csv.Gz")
    loaded = people.configure(tmp_path, [people.NUMBER], 'kind = "csv"\nfiles = ["in"]')
    people.run(loaded)
    assert sorted(people.stored(tmp_path)[:, 0]) == [1, 2, 3]
    (tmp_path / "in" / "d.csv.xz").write_bytes(b"")
    with pytest.raises(BlockveilError, match="in a compression that is not read"):
        people.look(loaded)
    (tmp_path / "in" / "d.csv.xz").unlink()
    (tmp_path / "more").mkdir()
    (tmp_path / "in" / "more").symlink_to(tmp_path / "more")
    with pytest.raises(BlockveilError, match="a link to a folder"):
        people.look(loaded)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-32", "cp1252"])
@pytest.mark.parametrize("text", ["cost,ward\n1,ä\n", "cost,wärd\n1,ä\n"])
def test_text_of_another_encoding_is_called_so(tmp_path, encoding, text):
    name = text.partition("\n")[0].partition(",")[2]
    column = {**WARD, "name": name, "categories": ["ä"]}
    with pytest.raises(DataError, match="is not UTF-8 text"):
        people.run(people.configure(tmp_path, [column], in_csv(tmp_path, text.encode(encoding))))
