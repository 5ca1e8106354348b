"""A table of a database is ingested as a file of the same rows is: computed row by row, in one snapshot, read-only."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from blockveil.pipeline.base.errors import ConfigError, DataError
from blockveil.pipeline.data.ingest import readers
from blockveil.pipeline.data.ingest.database_table import open_table
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from blockveil.pipeline.data.ingest.store_contract import Contract
from blockveil.pipeline.data.sparse_store import open_rows
from tests.pipeline.data.ingest import ingest_support as people

COST = [people.NUMBER]


@pytest.mark.parametrize("unit", [people.ROW, people.CHOOSE.format(most=2), people.TOGETHER.format(by="sum")])
def test_a_table_becomes_the_store_that_a_file_becomes(tmp_path, database, unit):
    table = people.visits()
    (tmp_path / "file").mkdir()
    people.write_parquet(tmp_path / "file", table)
    people.run(people.configure(tmp_path / "file", people.COLUMNS, unit=unit))
    database.put(table)
    people.run(people.configure(tmp_path, people.COLUMNS, database.source(), unit=unit))
    assert (people.stored(tmp_path) == people.stored(tmp_path / "file")).all()
    assert people.left(tmp_path) == []


def test_a_query_filters_renames_and_computes(tmp_path, database):
    table = people.visits()
    database.put(table)
    query = (
        "SELECT cost * 2 AS cost, stay AS nights, CASE WHEN ward = 'a' THEN 1 ELSE 0 END AS first\n"
        "FROM visits AS v WHERE v.stay BETWEEN 5 AND 20 AND NOT ward IN ('c') -- no more"
    )
    columns = [{"name": name, "kind": "number", "missing": "refuse"} for name in ("first", "cost", "nights")]
    loaded = people.configure(tmp_path, columns, database.source(query), dtype="float64")
    people.run(loaded)
    rows = [row for row in table.to_pylist() if 5 <= row["stay"] <= 20 and row["ward"] != "c"]
    expected = [(row["ward"] == "a", row["cost"] * 2, row["stay"]) for row in rows]
    assert np.array_equal(people.stored(tmp_path), np.array(expected, float))


@pytest.mark.parametrize(
    ("query", "dropping"), [("SELECT cost FROM visits", False), ("SELECT * FROM visits WHERE cost > 0", True)]
)
def test_a_filter_counts_as_dropping_records_for_their_values(tmp_path, database, query, dropping):
    database.put(people.visits())
    loaded = people.configure(tmp_path, COST, database.source(query))
    people.run(loaded)
    contract = Contract.of(open_rows(loaded.target, "records", "", ""))
    assert contract.dropping is dropping


WARDS = pa.table({"id": ["a", "b"], "beds": [10, 20], "person": [1, 2]})
JOINED = "SELECT cost, w.beds AS beds FROM visits LEFT JOIN wards w ON visits.ward = w.id"
PUBLIC = 'public = [{ table = "wards", key = "id" }]'
BEDS = [*COST, {"name": "beds", "kind": "number", "missing": 0}]


def test_a_public_table_is_looked_up_by_its_key(tmp_path, database):
    table = people.visits()
    database.put(table)
    database.put(WARDS, "wards")
    people.run(people.configure(tmp_path, BEDS, database.source(JOINED, PUBLIC)))
    beds = {"a": 10, "b": 20, "c": 0}
    assert people.stored(tmp_path)[:, 1].tolist() == [beds[ward] for ward in table["ward"].to_pylist()]
    assert np.array_equal(people.stored(tmp_path)[:, 0], table["cost"].to_numpy().astype(np.float32))


def test_a_public_table_whose_key_repeats_is_refused(tmp_path, database):
    database.put(people.visits())
    database.put(pa.concat_tables([WARDS, WARDS]), "wards")
    with pytest.raises(DataError, match=r'Two rows of the public table "wards" have the same "id"'):
        people.run(people.configure(tmp_path, BEDS, database.source(JOINED, PUBLIC)))


def test_a_key_that_is_missing_in_several_public_rows_matches_nothing(tmp_path, database):
    database.put(people.visits())
    database.put(pa.table({"id": ["a", None, None], "beds": [10, 20, 30]}), "wards")
    people.run(people.configure(tmp_path, BEDS, database.source(JOINED, PUBLIC)))
    assert set(people.stored(tmp_path)[:, 1].tolist()) == {0.0, 10.0}


def test_a_view_is_refused_because_it_may_mix_persons(tmp_path, database):
    database.put(people.visits())
    database.execute("CREATE VIEW totals AS SELECT person, sum(cost) AS cost FROM visits GROUP BY person")
    with pytest.raises(DataError, match=r'"totals" is not a table that the database itself stores'):
        people.run(people.configure(tmp_path, COST, database.source("SELECT * FROM totals")))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM visit", r'no table "visit"|has no such table'),
        ("SELECT * FROM elsewhere.visits", r'no table "visits"|has no such table'),
        ("SELECT coast AS cost FROM visits", r'Table "visits" does not have column "coast"'),
        ("SELECT * FROM visits WHERE coast > 1", r'Table "visits" does not have column "coast"'),
        ("SELECT visits AS cost FROM visits", r'Table "visits" does not have column "visits"'),
        ("SELECT * FROM 'in.csv'", r'no table "in.csv"|has no such table'),
        ("SELECT lower(cost) || ward AS cost FROM visits", r"does not fit source.query|is of type string"),
    ],
)
def test_what_the_database_does_not_have_is_named(tmp_path, database, query, said):
    database.put(people.visits())
    with pytest.raises(DataError, match=said) as caught:
        people.run(people.configure(tmp_path, COST, database.source(query)))
    assert caught.value.__context__ is None
    assert people.left(tmp_path) == []
    assert not (tmp_path / "out.zarr").exists()


def test_a_column_that_the_query_does_not_select_is_a_mistake_of_the_config(tmp_path):
    source = 'kind = "sqlite"\nfile = "x.db"\nquery = "SELECT stay FROM visits"'
    with pytest.raises(ConfigError, match=r'columns: "cost"\. A column is one that source\.query selects'):
        people.configure(tmp_path, COST, source)


@pytest.mark.parametrize(
    "query", ["SELECT max(cost) AS cost FROM visits", "SELECT cost FROM visits\u202e", "DROP TABLE x"]
)
def test_a_config_with_a_query_that_mixes_rows_is_not_even_loaded(tmp_path, query):
    source = f'kind = "sqlite"\nfile = "x.db"\nquery = \'{query}\''
    with pytest.raises(ConfigError, match=r"source\.query") as caught:
        people.configure(tmp_path, COST, source)
    assert len(str(caught.value)) < 400


def test_parts_of_the_records_are_by_a_column_of_the_table_itself(tmp_path, database):
    database.put(people.visits())
    only = {"column": "stay", "type": "whole", "equals": 7}
    people.run(people.configure(tmp_path, COST, database.source("SELECT cost, stay FROM visits"), partition=only))
    assert len(people.stored(tmp_path)) == people.visits()["stay"].to_pylist().count(7)
    with pytest.raises(ConfigError, match=r"which source\.query computes or renames"):
        people.configure(tmp_path, COST, database.source("SELECT cost, stay % 9 AS stay FROM visits"), partition=only)


def test_a_store_that_grows_takes_in_no_table_because_two_queries_may_select_the_same_row(tmp_path, database):
    with pytest.raises(ConfigError, match=r"ingest\.append"):
        people.configure(tmp_path, COST, database.source(), append=True, late="next")


def test_reading_goes_on_at_any_row(tmp_path, database, monkeypatch):
    database.put(people.visits(rows=50))
    monkeypatch.setattr(readers, "BATCH_BYTES", 8 * 7)
    loaded = people.configure(tmp_path, COST, database.source("SELECT cost FROM visits WHERE stay > 3"))
    whole = None
    for start in (0, 1, 6, 7, 8, 20, 1000):
        pieces = open_table(loaded).pieces(start, 7)
        found = np.concatenate([np.empty((0, 1)), *(batch.numbers(["cost"]) for batch, _ in pieces)])[:, 0].tolist()
        whole = found if whole is None else whole
        assert found == whole[start:]
    assert len(whole) > 40


def test_the_same_state_is_ingested_once_and_another_one_is_refused(tmp_path, database):
    database.put(people.visits())
    loaded = people.configure(tmp_path, COST, database.source())
    people.run(loaded)
    assert "already" in people.run(loaded).message
    database.execute(
        "INSERT INTO visits (person, cost, stay, ward, urgent) SELECT person, cost, stay, ward, urgent FROM visits"
    )
    with pytest.raises(Exception, match="is not of this config and source"):
        people.run(loaded)


def test_what_was_opened_and_not_read_is_closed(tmp_path, database):
    database.put(people.visits())
    look(people.configure(tmp_path, COST, database.source()))
    database.execute("DROP TABLE visits")  # nobody holds it any more


DATES = pa.table(
    {
        "day": pa.array([datetime.date(2026, 11, 20), None, datetime.date(2026, 1, 2)], pa.date32()),
        "urgent": [True, None, False],
        "ward": ["a", None, "ä"],
        "stay": pa.array([1, None, 2**53 + 1]),
        "cost": [0.5, float("nan"), 2.0],
    }
)


def test_dates_booleans_texts_and_missing_values_are_read_as_declared(tmp_path, database):
    database.put(DATES)
    columns = [
        {"name": "day", "kind": "date", "extract": "weekday", "encode": "code", "missing": "drop"},
        {"name": "urgent", "kind": "boolean", "missing": "refuse"},
        {
            "name": "ward",
            "kind": "category",
            "categories": ["a", "ä"],
            "unknown": "refuse",
            "missing": "refuse",
            "encode": "code",
        },
        {"name": "stay", "kind": "whole", "missing": "refuse"},
    ]
    query = "SELECT * FROM visits WHERE day >= '2026-01-01'"
    people.run(people.configure(tmp_path, columns, database.source(query), dtype="int64"))
    assert people.stored(tmp_path).tolist() == [[4, 1, 0, 1], [4, 0, 1, 2**53 + 1]]


def test_a_table_without_a_row_that_fits_holds_no_record(tmp_path, database):
    database.put(people.visits())
    with pytest.raises(DataError, match="holds no record"):
        people.run(people.configure(tmp_path, COST, database.source("SELECT cost FROM visits WHERE stay < 0")))
    assert people.left(tmp_path) == []


def test_a_source_is_told_without_its_content(tmp_path, database):
    database.put(people.visits())
    source = look(people.configure(tmp_path, COST, database.source()))
    assert "host=" not in repr(source)
    told = []
    ingest(source, lambda stage, share: told.append(share))
    assert set(told) == {None}
