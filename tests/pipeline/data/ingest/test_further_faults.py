"""Who corrects a source is told all of its columns at fault at once, each in its order and without a value."""

import pyarrow as pa
import pytest

from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.data.ingest import source_rows
from tests.pipeline.data.ingest import ingest_support as people

ROWS = 5_000
CSV = 'kind = "csv"\nfiles = ["in"]'
COLUMNS = [
    people.NUMBER,
    {"name": "stay", "kind": "number", "missing": "refuse"},
    {
        "name": "ward",
        "kind": "category",
        "categories": ["a", "b", "c"],
        "unknown": "refuse",
        "missing": "refuse",
        "encode": "one-hot",
    },
    {"name": "day", "kind": "date", "extract": "weekday", "encode": "code", "missing": "refuse"},
    {"name": "urgent", "kind": "boolean", "missing": "refuse"},
]
WRONG = {
    "urgent": (10, "maybe 271828"),
    "day": (2_000, "27.18.2818"),
    "ward": (3_000, "d 271828"),
    "cost": (4_990, "1,2"),
}
"""Columns of a CSV file with a value that does not fit, and the row that it is in: the last column comes first."""


def table(wrong):
    columns = {
        "person": [str(row % 900) for row in range(ROWS)],
        "cost": [str(row / 4) for row in range(ROWS)],
        "stay": [str(row % 40) for row in range(ROWS)],
        "ward": ["abc"[row % 3] for row in range(ROWS)],
        "day": [f"2026-11-{row % 30 + 1:02}" for row in range(ROWS)],
        "urgent": [("yes", "no")[row % 2] for row in range(ROWS)],
    }
    for name, (row, value) in wrong.items():
        columns[name][row] = value
    return pa.table(columns)


def refusal(folder, *args, wrong=WRONG, **options):
    people.write_csv(folder / "in" / "visits.csv", table(wrong))
    with pytest.raises(DataError) as caught:
        people.run(people.configure(folder, COLUMNS, CSV, *args, **options))
    assert caught.value.__context__ is None
    assert not (folder / "out.zarr").exists()
    assert people.left(folder) == []
    for shown in (caught.value.in_full, str(caught.value), *caught.value.__notes__):
        assert not any(value in shown for _, value in wrong.values())
    return caught.value


@pytest.mark.parametrize("unit", [people.ROW, people.CHOOSE.format(most=2)])
def test_all_columns_at_fault_are_told_in_their_order(tmp_path, unit):
    found = refusal(tmp_path, unit)
    assert [each.value.split('"')[3] for each in found.each] == ["cost", "ward", "day", "urgent"]
    assert "there are 4 problems." in found.in_full
    assert 'column "ward" holds a category that is not in the list' in found.in_full
    assert "(3 more to correct)" in str(found)
    assert len(found.__notes__) == 3


def test_a_corrected_source_is_ingested_and_the_one_that_is_left_is_told_alone(tmp_path):
    people.write_csv(tmp_path / "in" / "visits.csv", table({"ward": WRONG["ward"]}))
    loaded = people.configure(tmp_path, COLUMNS, CSV)
    with pytest.raises(DataError, match='column "ward"') as caught:
        people.run(loaded)
    assert (len(caught.value.each), "problems" in caught.value.in_full) == (1, False)
    people.write_csv(tmp_path / "in" / "visits.csv", table({}))
    people.run(loaded)
    assert people.stored(tmp_path).shape[0] == ROWS


def test_a_search_ends_after_some_rows_and_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(source_rows, "MOST_FAULTS", 2)
    assert len(refusal(tmp_path).each) == 2
    monkeypatch.setattr(source_rows, "MOST_FAULTS", 20)
    monkeypatch.setattr(source_rows, "MOST_ROWS", 1)
    first, *_ = refusal(tmp_path, wrong={**WRONG, "cost": (0, "1,2")}).each
    assert 'column "cost"' in first.value


def test_a_store_that_grows_is_told_the_first_fault(tmp_path):
    people.write_csv(tmp_path / "in" / "visits.csv", table(WRONG))
    with pytest.raises(DataError, match=r'column "\w+" holds') as caught:
        people.run(people.configure(tmp_path, COLUMNS, CSV, append=True, late="next"))
    assert len(caught.value.each) == 1
