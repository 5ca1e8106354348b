"""Dates become days since a public date, weekdays or months, whatever format they come in; others are refused."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from blockveil.pipeline.base.errors import ConfigError, DataError
from tests.pipeline.data.ingest import ingest_support as people

DAYS = [date(2026, 11, 22), date(1969, 12, 31), date(2024, 2, 29), date(1970, 1, 1), date(1900, 1, 1)]
SINCE = date(2020, 1, 1)
CSV = 'kind = "csv"\nfiles = ["in"]'


def dated(**keys: Any) -> dict[str, Any]:
    return {"name": "day", "kind": "date", "missing": "refuse", **keys}


def wanted(days: list[date]) -> np.ndarray[Any, Any]:
    columns = [
        [(day - SINCE).days, day.weekday(), *(float(day.month == month) for month in range(1, 13))] for day in days
    ]
    return np.array(columns, np.float32)


def written(folder: Path, column: pa.Array, columns: list[dict[str, Any]], kind: str) -> np.ndarray[Any, Any]:
    table = pa.table({"day": column, **{f"day{i}": column for i in (2, 3)}})
    if kind == "csv":
        people.write_csv(folder / "in" / "days.csv", table)
    else:
        people.write_parquet(folder, table)
    people.run(people.configure(folder, columns, CSV if kind == "csv" else people.SOURCE))
    return people.stored(folder)


ALL = [
    dated(extract="days", since=SINCE),
    dated(extract="weekday", encode="code") | {"name": "day2"},
    dated(extract="month", encode="one-hot") | {"name": "day3"},
]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    "column",
    [
        pa.array(DAYS, pa.date32()),
        pa.array(DAYS, pa.date64()),
        pa.array([day.isoformat() for day in DAYS]),
        pa.array([day.isoformat() for day in DAYS]).dictionary_encode(),
        pa.array(DAYS, pa.date32()).cast(pa.timestamp("us")),
        pa.array([f"{day.isoformat()}T23:59:59" for day in DAYS]).cast(pa.timestamp("s")),
        pa.array([f"{day.isoformat()}T23:59:59.999999" for day in DAYS]).cast(pa.timestamp("us")),
        pa.array([f"{day.isoformat()} 23:59:59.5" for day in DAYS]),
        pa.array([f"{day.isoformat()}T00:00" for day in DAYS]),
    ],
    ids=["date32", "date64", "text", "dictionary", "midnight", "seconds", "microseconds", "time", "minutes"],
)
def test_the_day_is_stored_as_a_number_a_weekday_or_a_month(tmp_path, column, kind):
    np.testing.assert_array_equal(written(tmp_path, column, ALL, kind), wanted(DAYS))


def test_arrays_of_text_hold_dates_too(tmp_path):
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "days.npy", np.array([[day.isoformat()] for day in DAYS]))
    people.run(people.configure(tmp_path, [ALL[0]], 'kind = "npy"\nfiles = ["in"]\nnames = ["day"]'))
    np.testing.assert_array_equal(people.stored(tmp_path), wanted(DAYS)[:, :1])


@pytest.mark.parametrize("stored", [{"extract": "days", "since": SINCE}, {"extract": "month", "encode": "code"}])
def test_a_record_without_a_date_is_dropped_where_the_config_says_so(tmp_path, stored):
    column = pa.array([DAYS[0], None, DAYS[2]], pa.date32())
    table = pa.table({"day": column})
    people.write_parquet(tmp_path, table)
    people.run(people.configure(tmp_path, [dated(**stored, missing="drop")], dtype="int16"))
    kept = [DAYS[0], DAYS[2]]
    expected = [(day - SINCE).days if "since" in stored else day.month - 1 for day in kept]
    np.testing.assert_array_equal(people.stored(tmp_path)[:, 0], expected)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["2023-02-31"]),
        pa.array(["31.12.2023"]),
        pa.array(["2023-12-31 noon"]),
        pa.array(["20231231"]),
        pa.array(["٢٠٢٣-12-31"]),
        pa.array([738_000]),
        pa.array([1_700_000_000], pa.timestamp("s", tz="Europe/Berlin")),
        pa.array([None], pa.date32()),
    ],
)
def test_what_is_no_date_is_refused_without_showing_it(tmp_path, column):
    people.write_parquet(tmp_path, pa.table({"day": column}))
    loaded = people.configure(tmp_path, [dated(extract="days", since=SINCE)])
    with pytest.raises(DataError) as refused:
        people.run(loaded)
    text = str(refused.value)
    assert '"day"' in text
    assert not any(part in text for part in ("2023", "738", "17000"))
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "keys",
    [
        {"extract": "days"},
        {"extract": "weekday"},
        {"extract": "days", "since": SINCE, "encode": "code"},
        {"extract": "month", "since": SINCE, "encode": "code"},
    ],
)
def test_a_declaration_says_what_a_date_becomes(tmp_path, keys):
    with pytest.raises(ConfigError, match=r"since|encode"):
        people.configure(tmp_path, [dated(**keys)])
