"""A store grows from a table by the dates of its rows: each is stored once, by the append whose dates hold its own."""

import datetime
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError, DataError
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest import erasing, ingest_run, readers, store_writer
from blockveil.pipeline.data.ingest.arrivals import up_to
from blockveil.pipeline.data.ingest.store_contract import Contract
from blockveil.pipeline.releases.renewing import ReleaseLedgers
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.database_support import Database

FIRST = datetime.date(2026, 3, 1)
ARRIVAL = 'arrival = { column = "day", first = 2026-03-01 }'


def date(night):
    return FIRST + datetime.timedelta(days=night)


def dated(night, rows=60):
    table = grown.day(night, rows)
    return table.append_column("day", pa.array([date(night)] * rows, pa.date32()))


def put(database, *nights):
    database.put(pa.concat_tables([dated(night) for night in nights]))


def insert(database, night, day=None, rows=60):
    """Write the rows of one more night, as the database's owner."""
    mark = "%s" if database.kind == "postgresql" else "?"
    shown = str(day or date(night))
    found = [(row["person"], row["stay"], shown) for row in dated(night, rows).to_pylist()]
    database.execute(f"INSERT INTO visits VALUES ({mark}, {mark}, {mark})", rows=found)


def configure(folder, database, unit="chosen", query="SELECT person, stay FROM visits", **keys):
    keys = {"append": True, "late": "refuse", "chunk_rows": 16, **keys}
    unit = grown.UNITS.get(unit, unit)
    return people.configure(folder, grown.COLUMNS, database.source(query, ARRIVAL), unit=unit, **keys)


def append(loaded, night):
    """What an append says that is made on the morning of a night."""
    return ingest_run.ingest(ingest_run.look(loaded, before=date(night)), lambda stage, share: None).message


@pytest.mark.parametrize("unit", ["rows", "chosen"])
def test_appends_by_date_store_what_appends_of_a_file_a_date_store(tmp_path, database, unit):
    (tmp_path / "files").mkdir()
    put(database, 0, 1, 2, 3)
    by_date, by_file = configure(tmp_path, database, unit), grown.configure(tmp_path / "files", unit)
    for night in range(4):
        grown.put(tmp_path / "files", night)
        people.run(by_file)
        assert append(by_date, night + 1) == (
            "read the whole source" if night == 0 else "appended what was new in the source"
        )
        assert np.array_equal(grown.records(tmp_path), grown.records(tmp_path / "files"))
    assert people.left(tmp_path) == [".grown-out.zarr"]


def test_a_date_is_read_once_and_only_when_it_is_over(tmp_path, database):
    put(database, 0, 1)
    loaded = configure(tmp_path, database, "rows")
    append(loaded, 1)
    assert set(grown.records(tmp_path)[:, 1] // 1000) == {0}
    before = grown.content(tmp_path)
    for night in (0, 1):
        assert (
            append(loaded, night) == "the store holds every date that is over of the source already; nothing was read"
        )
    assert grown.content(tmp_path) == before
    append(loaded, 2)
    assert sorted(grown.records(tmp_path)[:, 1]) == sorted([*range(60), *range(1000, 1060)])


def test_dates_that_were_missed_are_read_together_and_each_row_once(tmp_path, database):
    put(database, 0, 1, 2, 3)
    loaded = configure(tmp_path, database, "rows")
    append(loaded, 1)
    append(loaded, 4)
    assert sorted(grown.records(tmp_path)[:, 1]) == sorted(
        1000 * night + row for night in range(4) for row in range(60)
    )
    assert grown.opened(tmp_path).attrs["blockveil ingest"]["dropping"] is True


def test_a_date_without_rows_makes_an_append_as_any_other(tmp_path, database):
    put(database, 0, 2)
    loaded = configure(tmp_path, database, "rows")
    append(loaded, 1)
    assert append(loaded, 2) == "appended what was new in the source"
    append(loaded, 3)
    assert grown.records(tmp_path).shape[0] == 120


def test_the_bound_on_rows_of_a_unit_holds_over_all_dates(tmp_path, database):
    put(database, *range(5))
    loaded = configure(tmp_path, database)
    for night in range(1, 6):
        append(loaded, night)
    _, counts = np.unique(grown.records(tmp_path)[:, 0], return_counts=True)
    assert counts.max() == 2


def test_rows_written_later_under_a_date_that_was_read_stop_the_next_append(tmp_path, database):
    put(database, 0, 1)
    loaded = configure(tmp_path, database, "rows")
    append(loaded, 1)
    insert(database, 7, date(0), rows=1)
    before = grown.content(tmp_path)
    with pytest.raises(DataError, match=r'Table "visits" has other rows than before under dates that were read'):
        append(loaded, 2)
    assert grown.content(tmp_path) == before
    assert people.left(tmp_path) == [".grown-out.zarr"]


@pytest.mark.parametrize("date", ["NULL", "'infinity'", "'-infinity'"])
def test_rows_without_a_date_stop_an_append(tmp_path, database, date):
    put(database, 0)
    database.execute(f"INSERT INTO visits VALUES (1, 271828, {date})")
    with pytest.raises(DataError, match=r'Table "visits", column "day" holds rows without a date') as refused:
        append(configure(tmp_path, database), 1)
    assert "271828" not in str(refused.value)


def test_rows_that_the_query_leaves_out_need_no_date(tmp_path, database):
    put(database, 0)
    database.execute("INSERT INTO visits VALUES (1, 999, NULL)")
    append(configure(tmp_path, database, "rows", "SELECT person, stay FROM visits WHERE stay < 30 OR stay = 35"), 1)
    assert sorted(grown.records(tmp_path)[:, 1]) == [*range(30), 35]


@pytest.mark.parametrize("text", ["01.03.2026", "2026-3-1", "2026-02-32", "soon", "now", ""])
def test_a_text_of_sqlite_that_is_no_date_stops_an_append(tmp_path, text):
    database = Database("sqlite", tmp_path)
    put(database, 0)
    database.execute(f"INSERT INTO visits VALUES (1, 999, '{text}')")
    with pytest.raises(DataError, match="holds rows without a date"):
        append(configure(tmp_path, database), 1)


def test_a_time_counts_by_its_date(tmp_path, database):
    kind = {"sqlite": "TEXT"}.get(database.kind, "TIMESTAMP")
    database.execute(
        f"CREATE TABLE visits (person {'INTEGER' if kind == 'TEXT' else 'BIGINT'}, stay BIGINT, day {kind})",
        *[
            f"INSERT INTO visits VALUES (1, {stay}, '{time}')"
            for stay, time in enumerate(
                ["2026-03-01 00:00:00", "2026-03-01 23:59:59", "2026-03-02 00:00:00", "2026-02-28 23:59:59"]
            )
        ],
    )
    loaded = configure(tmp_path, database, "rows")
    append(loaded, 1)
    assert grown.records(tmp_path)[:, 1].tolist() == [0, 1]
    append(loaded, 2)
    assert grown.records(tmp_path)[:, 1].tolist() == [0, 1, 2]


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_a_time_with_a_zone_counts_by_its_date_in_utc_wherever_the_machine_is(tmp_path, zone):
    Database("duckdb", tmp_path).execute(
        "CREATE TABLE visits (person BIGINT, stay BIGINT, day TIMESTAMPTZ)",
        *[
            f"INSERT INTO visits VALUES (1, {stay}, '{time}')"
            for stay, time in enumerate(
                ["2026-03-01 00:30+00", "2026-03-01 23:30+00", "2026-03-02 01:00+02", "2026-03-02 00:30+00"]
            )
        ],
    )
    loaded = configure(tmp_path, Database("duckdb", tmp_path), "rows")
    words = ["-c", "from blockveil.flows.cli import main; main()", "ingest", str(loaded.path), "--before", str(date(1))]
    subprocess.run([sys.executable, *words], env={**os.environ, "TZ": zone}, check=True, capture_output=True)
    assert grown.records(tmp_path)[:, 1].tolist() == [0, 1, 2]


def test_a_text_column_of_duckdb_that_holds_no_dates_is_refused_in_words(tmp_path):
    database = Database("duckdb", tmp_path)
    table = dated(0)
    database.put(table.set_column(2, "day", table["day"].cast(pa.string())))
    database.execute("INSERT INTO visits VALUES (1, 2, 'soon 271828')")
    with pytest.raises(DataError) as refused:
        append(configure(tmp_path, database), 1)
    assert "271828" not in str(refused.value)


def test_a_column_that_the_table_does_not_have_is_refused(tmp_path, database):
    database.put(grown.day(0))
    with pytest.raises(DataError, match=r'Table "visits" does not have column "day"'):
        append(configure(tmp_path, database), 1)


def test_a_first_append_before_the_first_date_is_over_is_refused(tmp_path, database):
    put(database, 0)
    with pytest.raises(DataError, match=r"No date from 2026-03-01 on is over before 2026-03-01"):
        append(configure(tmp_path, database), 0)


def test_a_unit_that_was_deleted_and_erased_does_not_stop_the_next_append(tmp_path, database):
    put(database, 0, 1, 2)
    loaded = configure(tmp_path, database)
    append(loaded, 2)
    person = int(grown.records(tmp_path)[0, 0])
    database.execute(f"DELETE FROM visits WHERE person = {person}")
    with pytest.raises(DataError, match="other rows than before"):
        append(loaded, 3)
    erasing.erase(ingest_run.look(loaded, needed=False), [person], lambda *_: None, ReleaseLedgers())
    append(loaded, 3)
    assert person not in grown.records(tmp_path)[:, 0]


@pytest.mark.parametrize("unit", ["rows", "chosen"])
def test_an_append_that_is_killed_goes_on_with_the_same_rows(tmp_path, database, monkeypatch, unit):
    monkeypatch.setattr(readers, "BATCH_BYTES", 8 * 2 * 20)
    monkeypatch.setattr(store_writer, "BLOCK_BYTES", 1)
    put(database, 0, 1)
    loaded = configure(tmp_path, database, unit)
    append(loaded, 1)
    (tmp_path / "whole").mkdir()
    whole = grown.configure(tmp_path / "whole", unit)
    for night in (0, 1):
        grown.put(tmp_path / "whole", night)
        people.run(whole)
    states, kills = [grown.records(tmp_path), grown.records(tmp_path / "whole")], 0
    while killed_after(monkeypatch, loaded, 2, kills + 1):
        found = grown.records(tmp_path)
        assert any(np.array_equal(found, one) for one in states), "no reader sees half of an append"
        kills += 1
    assert kills > 0
    assert np.array_equal(grown.records(tmp_path), states[1])
    assert people.left(tmp_path) == [".grown-out.zarr"]


def killed_after(monkeypatch, loaded, night, syncs):
    """Append until something was put onto the disk so many times; whether that was before the append was done."""

    class Killed(BaseException):
        pass

    count, sync = [0], durable.sync

    def counted(path):
        sync(path)
        count[0] += 1
        if count[0] == syncs:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(durable, "sync", counted)
        try:
            append(loaded, night)
        except Killed:
            return True
    return False


def test_releases_of_such_a_store_may_not_replace_a_record_by_another(tmp_path, database):
    put(database, 0)
    loaded = configure(tmp_path, database, "rows")
    append(loaded, 1)
    contract = Contract.of(grown.opened(tmp_path))
    assert contract.dropping, "a record whose date is another may not be in the store"
    assert contract.late == "refuse"


@pytest.mark.parametrize(
    ("section", "arrival", "message"),
    [
        ("", ARRIVAL, "given without append"),
        ("append = true\nlate = 'refuse'", "", "true with a table"),
        ("append = true\nlate = 'refuse'", 'arrival = { column = "day" }', "source.arrival.first"),
        ("append = true\nlate = 'refuse'", 'arrival = { column = "day", first = "soon" }', "source.arrival.first"),
    ],
)
def test_dates_of_arrival_go_with_a_store_that_grows(tmp_path, section, arrival, message):
    (tmp_path / "ingest.toml").write_text(
        f"columns = {people.toml(grown.COLUMNS)}\n[ingest]\nstore = 'out.zarr'\n{section}\n"
        f"[source]\nkind = 'sqlite'\nfile = 'a.sqlite'\nquery = 'SELECT * FROM visits'\n{arrival}\n"
        f"[unit]\n{people.ROW}\n"
    )
    with pytest.raises(ConfigError, match=message):
        load_ingest(tmp_path / "ingest.toml")


def test_dates_that_are_to_come_are_refused_and_without_dates_of_arrival_nothing_is_asked(tmp_path, database):
    with_dates, without = configure(tmp_path, database).config, grown.configure(tmp_path).config
    assert up_to(with_dates, None, date(3)) == date(3)
    assert up_to(with_dates, date(2), date(3)) == date(2)
    assert up_to(without, date(5), date(3)) is None
    with pytest.raises(DataError, match=r"2026-03-05 is still to come"):
        up_to(with_dates, date(4), date(3))
