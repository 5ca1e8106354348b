"""The page on databases is followed as written, and names what a query may say."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.config.query_reading import checked
from blockveil.pipeline.data.sparse_store import open_rows

PAGE = (Path(__file__).parents[1] / "docs" / "how-to" / "databases.md").read_text()


def block(kind, number=0):
    return re.findall(rf"(?s)```{kind}\n(.*?)```", PAGE)[number]


def test_the_page_works_as_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), "page", "exec"), {})
    Path("clinic.toml").write_text(block("toml"))
    (command,) = re.findall(r"(?m)^blockveil (.*)$", PAGE)
    done = CliRunner().invoke(app, command.split(), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    records = np.asarray(zarr.open_array("clinic.zarr/records", mode="r")[...])
    assert 700 < len(records) <= 800
    assert 40 / 60 <= records[:, 1].min() <= records[:, 1].max() < 95 / 60
    assert 0 <= records[:, 3].min() < records[:, 3].max() <= 30


GROWING = """
columns = [{ name = "minutes", kind = "number", missing = "refuse" }]
ingest = { store = "nights.zarr", append = true, late = "next" }
source = { kind = "parquet", files = ["nights"] }
unit = { kind = "row", name = "one visit" }
"""


def test_a_store_grows_by_the_dates_that_the_page_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), "page", "exec"), {})
    columns, unit = GROWING.splitlines()[1], GROWING.splitlines()[4]
    Path("grow.toml").write_text(f"{columns}\n{unit}\n{block('toml', 1)}")
    held = []
    for date in ("2026-03-02", "2026-03-08", "2026-03-08"):
        done = CliRunner().invoke(app, ["ingest", "grow.toml", "--before", date], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        held.append(len(open_rows(Path("visits.zarr").absolute(), "records", "store")[:]))
    with duckdb.connect("clinic.duckdb", read_only=True) as clinic:
        count = "SELECT count(*) FROM visits WHERE day >= DATE '2026-03-01' AND day < DATE "
        wanted = [clinic.execute(f"{count}'{date}'").fetchone()[0] for date in ("2026-03-02", "2026-03-08")]
    assert held == [wanted[0], wanted[1], wanted[1]]
    late = CliRunner().invoke(app, ["ingest", "grow.toml", "--before", "2999-01-01"])
    assert "2999-01-01 is still to come" in str(late.exception)


def test_a_store_grows_by_the_files_that_the_page_has_the_database_write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), "page", "exec"), {})
    Path("nights").mkdir()
    Path("grow.toml").write_text(GROWING)
    held = []
    for night in ("2026-03-01", "2026-03-02", "2099-01-01"):
        with duckdb.connect("clinic.duckdb", read_only=True) as clinic:
            clinic.execute(block("sql").replace("2026-03-01", night))
        done = CliRunner().invoke(app, ["ingest", "grow.toml"], catch_exceptions=False)
        held.append(
            len(open_rows(Path("nights.zarr").absolute(), "records", "store")[:])
            if done.exit_code == 0
            else done.output
        )
    assert held == [7, 14, 14]


FUNCTIONS = {
    *("ABS(a)", "ROUND(a)", "FLOOR(a)", "CEIL(a)", "SQRT(a)", "POWER(a, 2)", "LN(a)", "EXP(a)", "SIGN(a)"),
    *("LOWER(a)", "UPPER(a)", "TRIM(a)", "LENGTH(a)", "SUBSTRING(a, 1, 2)", "LEFT(a, 1)", "RIGHT(a, 1)"),
    *("REPLACE(a, 'x', 'y')", "COALESCE(a, 1)", "NULLIF(a, 1)"),
}


@pytest.mark.parametrize(
    ("computed", "is_read"),
    [
        *((f"LENGTH({call})", False) for call in ("LEFT(day, 4)", "RIGHT(day, 2)")),
        *((text, False) for text in ("EXTRACT(YEAR FROM day)", "day >= DATE '2026-01-31'", "CAST(a AS DECIMAL(5, 1))")),
        *((text, True) for text in ("CAST(SUBSTRING(day, 1, 4) AS INTEGER)", "day >= '2026-01-31'", "CAST(a AS REAL)")),
        ("LENGTH(CAST(a AS TEXT))", True),
    ],
)
def test_sqlite_reads_what_the_page_names_in_place_of_what_it_does_not_have(tmp_path, computed, is_read):
    with closing(sqlite3.connect(tmp_path / "clinic.sqlite")) as clinic:
        clinic.execute("CREATE TABLE visits (a INTEGER, day TEXT)")
        clinic.execute("INSERT INTO visits VALUES (1, '2026-03-04')")
        clinic.commit()
    (tmp_path / "ingest.toml").write_text(
        'columns = [{ name = "n", kind = "number", missing = "refuse" }]\ningest = { store = "out.zarr" }\n'
        f'unit = {{ kind = "row", name = "one visit" }}\n[source]\nkind = "sqlite"\nfile = "clinic.sqlite"\n'
        f'query = "SELECT {computed} AS n FROM visits"\n'
    )
    done = CliRunner().invoke(app, ["ingest", str(tmp_path / "ingest.toml")])
    assert (done.exit_code == 0) == is_read, done.exception


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "postgres"])
def test_every_function_that_the_page_names_is_accepted(dialect):
    listed = set(re.findall(r"`([A-Z]+)`", PAGE.split("## What may a query say?")[1].split("All else")[0]))
    for call in FUNCTIONS:
        assert call.partition("(")[0] in listed
        assert checked(f"SELECT {call} AS n FROM t", dialect).outputs
    for text in (
        "a IS DISTINCT FROM b",
        "a BETWEEN 1 AND 2",
        "a LIKE 'x'",
        "a IN (1, 2)",
        "CASE WHEN a > 1 THEN 2 END",
    ):
        assert checked(f"SELECT {text} AS n FROM t", dialect).outputs
