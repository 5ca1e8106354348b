"""A file that holds all rows of another one is noticed, whatever it is packed in, and refused without a reason."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as arrow_parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.data.ingest import growth_state, repeated_rows, source_rows
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from blockveil.pipeline.data.ingest.repeated_rows import TakenRows
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people

REFUSED = "holds all or most rows of one of its files once more"
CSV = 'kind = "csv"\nfiles = ["in"]'
UNITS = {**grown.UNITS, "together": people.TOGETHER.format(by="sum")}
COLUMNS = [grown.COLUMNS[1]]


def written(table, **options):
    sink = pa.BufferOutputStream()
    arrow_csv.write_csv(table, sink, arrow_csv.WriteOptions(**options))
    return sink.getvalue().to_pybytes()


def moved(table):
    return table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))


COPIES = {
    "compressed": lambda table: ("b.csv.gz", gzip.compress(written(table))),
    "other line ends": lambda table: ("b.csv", written(table).replace(b"\n", b"\r\n")),
    "quoted": lambda table: ("b.csv", written(table.cast(pa.schema([("person", "str"), ("stay", "str")])))),
    "with a point": lambda table: ("b.csv", written(table.set_column(1, "stay", table["stay"].cast(pa.float64())))),
    "in another order": lambda table: ("b.csv", written(moved(table))),
    "columns in another order": lambda table: ("b.csv", written(table.select(["stay", "person"]))),
    "a column more": lambda table: ("b.csv", written(table.append_column("note", pa.array(["x"] * len(table))))),
    "all rows so far": lambda table: ("b.csv", written(moved(pa.concat_tables([table, grown.day(5)])))),
}


def put(folder, name, content):
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_bytes(content)


def configured(folder, unit, append, **keys):
    growing = {"append": True, "late": "next"} if append else {}
    return people.configure(folder, COLUMNS, CSV, unit=UNITS[unit], **growing, **keys)


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("unit", grown.UNITS)
def test_a_new_file_with_all_rows_of_a_stored_one_is_refused_and_the_store_stays(tmp_path, unit, copy):
    put(tmp_path, "a.csv", written(grown.day(0)))
    loaded = configured(tmp_path, unit, append=True)
    people.run(loaded)
    before = grown.content(tmp_path)
    name, content = COPIES[copy](grown.day(0))
    put(tmp_path, name, content)
    with pytest.raises(DataError, match=REFUSED):
        people.run(loaded)
    assert grown.content(tmp_path) == before
    assert people.left(tmp_path) == [".grown-out.zarr"]


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_two_files_of_one_ingest_of_which_one_holds_all_rows_of_the_other_are_refused(tmp_path, unit, append):
    if append and unit == "together":
        pytest.skip("one record of all rows of a unit cannot grow")
    put(tmp_path, "a.csv", written(pa.concat_tables([grown.day(0), grown.day(1)])))
    put(tmp_path, "b.csv", written(moved(grown.day(0))))
    with pytest.raises(DataError, match=REFUSED):
        people.run(configured(tmp_path, unit, append))
    assert not (tmp_path / "out.zarr").exists()


def test_files_that_hold_a_stored_one_together_are_refused(tmp_path):
    put(tmp_path, "a.csv", written(grown.day(0)))
    loaded = configured(tmp_path, "rows", append=True)
    people.run(loaded)
    for name, rows in {"b.csv": grown.day(0).slice(0, 25), "c.csv": grown.day(0).slice(25)}.items():
        put(tmp_path, name, written(rows))
    with pytest.raises(DataError, match=REFUSED):
        people.run(loaded)


def test_another_format_is_noticed_too(tmp_path):
    table = pa.table({"person": [1, 2, 3], "stay": [4, 5, 6]})
    (tmp_path / "in").mkdir()
    arrow_parquet.write_table(table, tmp_path / "in" / "a.parquet", use_dictionary=True, compression="zstd")
    plain = table.set_column(1, "stay", table["stay"].cast(pa.float64()))
    arrow_parquet.write_table(plain, tmp_path / "in" / "b.parquet", use_dictionary=False, row_group_size=1)
    with pytest.raises(DataError, match=REFUSED):
        people.run(people.configure(tmp_path, COLUMNS, unit=UNITS["chosen"]))


def test_a_file_that_has_one_row_less_often_repeats_nothing(tmp_path):
    """Of three equal rows two, and every other row."""
    table = pa.table({"person": [1, 1, 1, 2], "stay": [5, 5, 5, 6]})
    put(tmp_path, "a.csv", written(table))
    put(tmp_path, "b.csv", written(pa.concat_tables([table.slice(1), pa.table({"person": [3], "stay": [7]})])))
    people.run(configured(tmp_path, "rows", append=False))
    assert len(people.stored(tmp_path)) == 8


def test_a_row_of_another_unit_is_another_row(tmp_path):
    put(tmp_path, "a.csv", written(pa.table({"person": [1, 2], "stay": [5, 6]})))
    put(tmp_path, "b.csv", written(pa.table({"person": [3, 4], "stay": [5, 6]})))
    people.run(configured(tmp_path, "chosen", append=False))
    with pytest.raises(DataError, match=REFUSED):
        people.run(configured(tmp_path, "rows", append=False, store="rows.zarr"))


def test_an_erased_store_still_knows_the_rows_of_its_files_and_files_without_rows_repeat_nothing(tmp_path):
    loaded = configured(tmp_path, "rows", append=True)
    for night, rows in enumerate((3, 0, 0)):
        put(tmp_path, f"{night}.csv", written(grown.day(night, rows)))
        people.run(loaded)
    put(tmp_path, "9.csv", written(grown.day(0, 3)))
    with pytest.raises(DataError, match=REFUSED):
        people.run(loaded)


def state_of(folder):
    attributes = json.loads((folder / "out.zarr" / "records" / "zarr.json").read_bytes())["attributes"]
    spec = attributes["blockveil ingest"]["spec"]
    return growth_state.read(folder / "out.zarr", spec), attributes


def test_a_person_goes_on_with_a_reason_that_the_store_keeps(tmp_path):
    for name in ("a.csv", "b.csv"):
        put(tmp_path, name, written(pa.table({"person": [1, 2], "stay": [5, 6]})))
    reason = "two codes a day"
    people.run(configured(tmp_path, "rows", append=True, accept_repeated_rows=reason))
    put(tmp_path, "c.csv", written(grown.day(3)))
    people.run(configured(tmp_path, "rows", append=True))
    state, _ = state_of(tmp_path)
    assert state.accepted == (reason,)
    put(tmp_path, "d.csv", written(grown.day(3)))
    with pytest.raises(DataError, match=REFUSED):
        people.run(configured(tmp_path, "rows", append=True))
    people.run(configured(tmp_path, "rows", append=False, accept_repeated_rows=reason, store="once.zarr"))
    metadata = json.loads((tmp_path / "once.zarr" / "records" / "zarr.json").read_bytes())
    assert metadata["attributes"]["accepted repeated rows"] == reason


def test_the_refusal_names_no_file_and_the_counts_for_the_terminal_do(tmp_path):
    for name in ("anna.csv", "bert.csv"):
        put(tmp_path, name, written(grown.day(0)))
    source = look(configured(tmp_path, "rows", append=False))
    with pytest.raises(DataError) as caught:
        ingest(source, lambda stage, share: None)
    assert "anna" not in str(caught.value)
    assert source.counts.repeated == '"anna.csv" holds all or most rows of "bert.csv"'
    assert "anna" not in repr(source.counts)


def test_dates_of_a_table_that_hold_all_rows_of_earlier_dates_are_refused(tmp_path, database):
    """A job that writes all rows so far under each date."""
    table = pa.table(
        {"day": pa.array([20_000, 20_000, 20_001, 20_001, 20_001], pa.date32()), "cost": [1.5, 2.5, 2.5, 1.5, 9.0]}
    )
    database.put(table)

    source = database.source("SELECT cost FROM visits", 'arrival = { column = "day", first = 2024-10-04 }')
    loaded = people.configure(tmp_path, [people.NUMBER], source, append=True, late="refuse")
    ingest(look(loaded, before=date(2024, 10, 5)), lambda stage, share: None)
    with pytest.raises(DataError, match=REFUSED):
        ingest(look(loaded, before=date(2024, 10, 6)), lambda stage, share: None)


@pytest.mark.parametrize("unit", grown.UNITS)
def test_what_is_kept_of_rows_is_the_same_after_kills(tmp_path, monkeypatch, unit):
    monkeypatch.setattr(source_rows, "run_bytes", lambda config: 700)
    found = []
    for name, killed in (("whole", False), ("killed", True)):
        (tmp_path / name).mkdir()
        for number in range(4):
            put(tmp_path / name, f"{number}.csv", written(grown.day(number)))
        loaded = configured(tmp_path / name, unit, append=True, chunk_rows=16)
        if killed:
            steps = iter(range(10**6))

            def tell(stage, share, steps=steps):
                if next(steps) in (2, 7, 9):
                    raise KeyboardInterrupt

            for _ in range(4):
                try:
                    ingest(look(loaded), tell)
                    break
                except KeyboardInterrupt:
                    continue
        else:
            people.run(loaded)
        held = state_of(tmp_path / name)[0].taken[0]
        entries = repeated_rows.stretch(
            tmp_path / name / ".grown-out.zarr" / held.file.name, 0, held.borders[-1], repeated_rows.ENTRY
        )
        found.append((held.names, held.borders, entries.tobytes()))
    assert found[0] == found[1]


rows = st.lists(st.integers(0, 3), max_size=6)


@given(st.lists(rows, min_size=1, max_size=4), st.sampled_from([1, 10**9]))
def test_a_repetition_is_found_where_there_is_one_and_only_there(tmp_path_factory, files, at_once):
    taken = TakenRows(tmp_path_factory.mktemp("rows"), 0)
    for number, values in enumerate(files):
        taken.add(number, np.array(values, np.float64)[:, None], None)
    pair = taken.divided(len(files), at_once).repeated()
    counts = [Counter(values) for values in files]
    expected = {
        (one, other)
        for one in range(len(files))
        for other in range(len(files))
        if one != other and counts[other] and counts[other] <= counts[one]
    }
    assert (pair in expected) if expected else pair is None


def days(first, stop):
    return pa.concat_tables([grown.day(number, 100) for number in range(first, stop)])


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("unit", grown.UNITS)
@pytest.mark.parametrize(("first", "refused"), [(1, True), (3, True), (4, False), (7, False)])
def test_an_export_of_the_last_days_is_refused_where_most_of_an_earlier_one_is_in_it(
    tmp_path, unit, append, first, refused
):
    put(tmp_path, "a.csv", written(days(0, 7)))
    loaded = configured(tmp_path, unit, append)
    if append:
        people.run(loaded)
    put(tmp_path, "b.csv", written(moved(days(first, first + 7))))
    if refused:
        with pytest.raises(DataError, match=REFUSED):
            people.run(loaded)
    else:
        people.run(loaded)


def rows_of(*files):
    """The rows of some files, as an ingest notes them: a number for each."""
    return [np.asarray(file, "<u8").view("S8") for file in files]


@pytest.mark.parametrize("codes", [2, 50, 2_000])
def test_files_of_few_codes_are_not_taken_for_one_another(tmp_path, codes):
    rng = np.random.default_rng(codes)
    digests = rng.integers(0, 2**63, codes).astype("<u8")
    first, other, larger = (digests[rng.integers(0, codes, size)] for size in (1_000, 1_000, 5_000))
    for name, pair in {"equal": (first, other), "larger": (first, larger)}.items():
        taken = TakenRows(tmp_path / name, 0)
        for number, rows in enumerate(rows_of(*pair)):
            taken.add(number, rows, rows)
        holds_all = all(Counter(pair[1].tolist())[row] >= times for row, times in Counter(pair[0].tolist()).items())
        assert (taken.divided(2, 2**20).repeated() is not None) == holds_all
    taken = TakenRows(tmp_path / "window", 0)
    for number, rows in enumerate(rows_of(first, np.concatenate([first[200:], other[:200]]))):
        taken.add(number, rows, rows)
    assert codes < 2_000 or taken.divided(2, 2**20).repeated() is not None
