"""Stores of one part of the records, and releases of them that are charged as such."""

import datetime
import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
import zarr
from typer.testing import CliRunner

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.flows.cli import app, night_commands
from blockveil.pipeline.base.errors import (
    BudgetExhausted,
    ConfigError,
    DataError,
    LedgerError,
    ReleaseConflict,
    StoreError,
)
from blockveil.pipeline.base.spelling import REMEDIES
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data import datasets
from blockveil.pipeline.data.ingest import readers
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import approval, budgets, summary
from blockveil.pipeline.plan.forecast import forecast
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.price import price_of
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import make_report
from tests.pipeline.data.ingest import ingest_support as people

UNIT = "one visit (one row)"
DAYS = ("2026-11-20", "2026-11-21")
DATES = [datetime.date.fromisoformat(day) for day in DAYS]

RELEASE = """
release = {{dataset = "people", name = "costs"}}
data = {{store = "out.zarr"{partition_by}}}
privacy = {{epsilon = 1, delta = 1e-9, neighbours = "{neighbours}", unit = "{unit}"{more}}}
mechanism = {{kind = "gaussian"}}
output = {{root = "out", ledger = "ledger.db", keys = "keys"}}
{sections}
[query]
kind = "covariance"
rows_at_most = 500
missing = "refuse"
[query.geometry]
kind = "box"
origin = "midpoint"
features = [{{name = "cost", lower = 0, upper = 1}}, {{name = "stay", lower = 0, upper = 40}}]
"""

PART_OF = ', partition_by = "day"'


def load(folder, partition_by=PART_OF, neighbours="add-remove", unit=UNIT, more="", sections=""):
    path = folder / "release.toml"
    path.write_text(
        RELEASE.format(partition_by=partition_by, neighbours=neighbours, unit=unit, more=more, sections=sections)
    )
    return load_config(path)


def by_day(kind=None):
    """Visits of two days, and some of no known day."""
    table = people.visits()
    days = np.random.default_rng(7).choice([*DAYS, None], table.num_rows, p=[0.5, 0.4, 0.1]).tolist()
    return table.append_column("day", pa.array(days, pa.string()) if kind is None else kind(days))


def keep(folder, equals, column="day", columns=people.COLUMNS[:2], kind="date", **more):
    """Ingest the records of one value in place of what is there."""
    shutil.rmtree(folder / "out.zarr", ignore_errors=True)
    only = {"column": column, "type": kind, "equals": equals}
    if kind == "text":
        only["values"] = more.pop("values", [equals])
    return people.run(people.configure(folder, columns, partition=only, **more))


@pytest.fixture
def visits(tmp_path):
    people.write_parquet(tmp_path, by_day())
    loaded = load(tmp_path)
    Ledger(loaded.ledger_url).set_budget("people", 1.0, 1e-9, Neighbours.ADD_REMOVE, UNIT)
    return tmp_path


def release(loaded, day, tell=lambda message, share: None):
    return run_release(make_plan(loaded, day), ThreadCompute(2), "test", tell)


def status(loaded):
    return Ledger(loaded.ledger_url).budget("people")


OTHER_SPELLINGS = [
    ("whole", ["07", "+7", " 7", "7 ", "7.0", "-0", "7e0", "0x7", "\uff17", "seven", str(2**63)], REMEDIES["whole"]),
    ("date", ["20261120", "2026-11-20T00:00", " 2026-11-20", "2026-2-3", "2026-02-30", "2026-W47-5"], REMEDIES["date"]),
    ("text", [" a", "a ", "e\u0301", "a\u200b", "a\u00a0b", "a\tb", "\ufeffa"], REMEDIES["text"]),
]
GOOD = {"whole": "7", "date": "2026-11-20", "text": "\u00e9 b"}
OTHER_VALUE = {"whole": "-12", "date": "2026-11-21", "text": "07"}


def csv(folder, *lines):
    """A CSV file of a day and a cost, as a source."""
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "a.csv").write_text("\n".join(["day,cost", *lines]) + "\n")
    return 'kind = "csv"\nfiles = ["in"]'


def texts_as(form, folder, texts):
    """Texts of days beside costs 0, 1 and so on, as a source of a format."""
    (folder / "in").mkdir(exist_ok=True)
    costs = np.arange(len(texts), dtype=np.float64)
    if form == "csv":
        return csv(folder, *(f'"{text}",{cost}' for text, cost in zip(texts, costs, strict=True)))
    if form == "parquet":
        people.write_parquet(folder, pa.table({"cost": costs, "day": texts}))
        return people.SOURCE
    if form == "npy":
        np.savez(folder / "in" / "a.npz", days=np.array(texts), costs=costs)
        return 'kind = "npz"\nfiles = ["in"]\narrays = ["days", "costs"]\nnames = ["day", "cost"]'
    group = zarr.open_group(folder / "in" / "a.zarr", mode="w", zarr_format=2)
    for name, values in (("days", np.array(texts)), ("costs", costs)):
        group.create_array(name, data=values, config={"write_empty_chunks": True})
    return 'kind = "zarr"\nfiles = ["in/a.zarr"]\narrays = ["days", "costs"]\nnames = ["day", "cost"]'


class TestIngest:
    """Exactly the records whose column has the value, whatever the column's type and the file's format."""

    @pytest.mark.parametrize(
        "kind",
        [
            pa.array,
            lambda days: pa.array(days).dictionary_encode(),
            lambda days: pa.array(days, pa.large_string()),
            lambda days: pa.array([day and datetime.date.fromisoformat(day) for day in days], pa.date32()),
        ],
    )
    def test_text_and_dates_are_told_apart_by_their_text(self, tmp_path, kind, monkeypatch):
        monkeypatch.setattr(readers, "BATCH_BYTES", 8 * 3 * 17)
        table = by_day(kind)
        people.write_parquet(tmp_path, table, files=3)
        texts = np.array([str(day) for day in table["day"].to_pylist()])
        for day in DAYS:
            keep(tmp_path, day, columns=people.COLUMNS)
            assert np.array_equal(people.stored(tmp_path), people.expected(table)[texts == day])

    @pytest.mark.parametrize("equals", [7, "7"])
    def test_whole_numbers_are_told_apart_by_their_digits(self, tmp_path, equals):
        table = people.visits()
        people.write_parquet(tmp_path, table)
        keep(tmp_path, equals, "stay", kind="whole")
        assert np.array_equal(people.stored(tmp_path), people.expected(table)[table["stay"].to_numpy() == 7, :2])

    def test_arrays_are_divided_too(self, tmp_path):
        values = np.column_stack([np.arange(40.0), np.arange(40) % 3])
        values[5, 1] = np.nan
        (tmp_path / "in").mkdir()
        np.save(tmp_path / "in" / "a.npy", values)
        source = 'kind = "npy"\nfiles = ["in"]\nnames = ["cost", "day"]'
        keep(tmp_path, 2, columns=[people.NUMBER], source=source, kind="whole")
        assert np.array_equal(people.stored(tmp_path)[:, 0], values[values[:, 1] == 2, 0])

    @pytest.mark.parametrize("layout", ["rows", "entries"])
    def test_a_text_in_a_csv_file_is_never_taken_for_a_number(self, tmp_path, layout):
        source, found = csv(tmp_path, "7,2", "x,6", ",4", "7,7", "07,8"), {}
        for equals in ("7", "x", "07"):
            keep(tmp_path, equals, columns=[people.NUMBER], source=source, layout=layout, kind="text")
            group = tmp_path / "out.zarr" / "records" / ("data" if layout == "entries" else "")
            found[equals] = zarr.open_array(group, mode="r")[...].ravel().tolist()
        assert found == {"7": [2.0, 7.0], "x": [6.0], "07": [8.0]}

    @pytest.mark.parametrize(
        ("kind", "spelling", "remedy"),
        [(kind, text, remedy) for kind, texts, remedy in OTHER_SPELLINGS for text in texts],
    )
    @pytest.mark.parametrize("form", ["csv", "parquet", "npy", "zarr"])
    def test_another_spelling_of_a_value_is_refused_in_every_format(self, tmp_path, form, kind, spelling, remedy):
        """Its record would be in one part by this file and in another by the next."""
        texts = [GOOD[kind], spelling]
        with pytest.raises(
            DataError, match=f'column "day" holds another spelling than that of type "{kind}"'
        ) as caught:
            keep(tmp_path, GOOD[kind], columns=[people.NUMBER], source=texts_as(form, tmp_path, texts), kind=kind)
        assert caught.value.remedy == remedy
        assert "seven" not in str(caught.value), "the value itself"
        assert not (tmp_path / "out.zarr").exists()

    @pytest.mark.parametrize("kind", ["whole", "date", "text"])
    @pytest.mark.parametrize("form", ["csv", "parquet", "npy", "zarr"])
    def test_the_one_spelling_is_taken_in_every_format(self, tmp_path, form, kind):
        texts = [GOOD[kind], OTHER_VALUE[kind], GOOD[kind]]
        keep(tmp_path, GOOD[kind], columns=[people.NUMBER], source=texts_as(form, tmp_path, texts), kind=kind)
        assert people.stored(tmp_path)[:, 0].tolist() == [0.0, 2.0]

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_a_whole_number_that_an_array_of_floats_does_not_hold_exactly_is_refused(self, tmp_path, dtype):
        """2^53 + 1 of another file is 2^53 here."""
        (tmp_path / "in").mkdir()
        first = 2.0 ** (24 if dtype == "float32" else 53)
        np.save(tmp_path / "in" / "a.npy", np.array([[0.5, 7.0], [1.5, first]], dtype))
        source = 'kind = "npy"\nfiles = ["in"]\nnames = ["cost", "day"]'
        with pytest.raises(DataError, match=f"that {dtype} does not hold exactly"):
            keep(tmp_path, 7, columns=[people.NUMBER], source=source, kind="whole")
        np.save(tmp_path / "in" / "a.npy", np.array([[0.5, 7.0], [1.5, first - 1]], dtype))
        keep(tmp_path, 7, columns=[people.NUMBER], source=source, kind="whole")
        assert people.stored(tmp_path)[:, 0].tolist() == [0.5]

    @pytest.mark.parametrize(
        ("kind", "values"), [("text", [1, 2]), ("date", [1, 2]), ("whole", DATES), ("text", DATES), ("whole", [0.5, 1])]
    )
    def test_a_column_of_another_type_than_declared_is_refused(self, tmp_path, kind, values):
        people.write_parquet(tmp_path, pa.table({"cost": [1.0, 2.0], "day": pa.array(values)}))
        with pytest.raises(DataError, match="of its declared type"):
            keep(tmp_path, GOOD[kind], columns=[people.NUMBER], kind=kind)

    def test_a_column_that_is_declared_as_a_number_too_is_refused_in_a_csv_file(self, tmp_path):
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "a.csv").write_text("day,cost\n07,1\n")
        columns = [people.NUMBER, {"name": "day", "kind": "whole", "missing": "refuse"}]
        with pytest.raises(ConfigError, match="two types"):
            keep(tmp_path, 7, columns=columns, source='kind = "csv"\nfiles = ["in"]', kind="whole")

    @pytest.mark.parametrize("column", ["cost", "urgent"])
    def test_a_column_without_one_text_a_value_is_refused(self, tmp_path, column):
        people.write_parquet(tmp_path, people.visits())
        with pytest.raises(DataError, match="text, whole numbers or dates"):
            keep(tmp_path, "1", column, kind="whole")
        assert not (tmp_path / "out.zarr").exists()

    @pytest.mark.parametrize("equals", ["", " x", True, 1.5, 2**63])
    def test_a_value_that_is_no_text_or_whole_number_is_refused(self, tmp_path, equals):
        with pytest.raises(ConfigError, match=r"ingest\.partition\.equals"):
            keep(tmp_path, equals)

    @pytest.mark.parametrize(
        ("kind", "equals", "remedy"),
        [
            ("whole", "07", "Write 7"),
            ("whole", "seven", "Write 7"),
            ("date", "20.11.2026", "Write 2026-11-20"),
            ("date", "2026-02-30", "Write 2026-11-20"),
            ("text", "e\u0301", "Normalise"),
        ],
    )
    def test_a_value_in_another_spelling_than_that_of_its_type_is_refused(self, tmp_path, kind, equals, remedy):
        with pytest.raises(ConfigError, match=r"ingest\.partition\.equals") as caught:
            keep(tmp_path, equals, kind=kind)
        assert remedy in caught.value.remedy

    def test_a_column_without_a_declared_type_is_refused(self, tmp_path):
        with pytest.raises(ConfigError, match=r"ingest\.partition\.type"):
            people.configure(tmp_path, people.COLUMNS, partition={"column": "day", "equals": DAYS[0]})

    def test_records_of_other_parts_are_looked_at_no_further(self, tmp_path):
        """Their missing values refuse nothing: the store of a part is the same whatever the others hold."""
        table = by_day()
        days = np.array(table["day"].to_pylist())
        costs = np.where(days == DAYS[0], table["cost"].to_numpy(), np.nan)
        people.write_parquet(tmp_path, table)
        keep(tmp_path, DAYS[0])
        before = people.stored(tmp_path)
        people.write_parquet(tmp_path, table.set_column(1, "cost", pa.array(costs)))
        keep(tmp_path, DAYS[0])
        assert np.array_equal(people.stored(tmp_path), before)
        with pytest.raises(DataError, match="missing or infinite"):
            keep(tmp_path, DAYS[1])

    def test_a_value_that_no_record_has_is_refused(self, tmp_path):
        people.write_parquet(tmp_path, by_day())
        with pytest.raises(DataError, match=r"no record to store.*\n?.*ingest\.partition"):
            keep(tmp_path, "2026-11-22")

    def test_the_store_says_which_part_it_holds_and_only_then(self, tmp_path):
        people.write_parquet(tmp_path, by_day())
        keep(tmp_path, DAYS[0])
        array = zarr.open_array(tmp_path / "out.zarr" / "records", mode="r")
        contract = array.attrs["blockveil ingest"]
        assert contract["partition"] == {"column": "day", "equals": DAYS[0], "type": "date"}
        assert contract["dropping"] is True
        shutil.rmtree(tmp_path / "out.zarr")
        people.run(people.configure(tmp_path, people.COLUMNS))
        array = zarr.open_array(tmp_path / "out.zarr" / "records", mode="r")
        assert "partition" not in array.attrs["blockveil ingest"]

    def test_a_filtered_store_is_refused_under_replace_one(self, visits):
        keep(visits, DAYS[0])
        loaded = load(visits, partition_by="", neighbours="replace-one")
        with pytest.raises(DataError, match="dropped record would show"):
            release(loaded, DATES[0])


class TestRelease:
    """What a release of a part costs and says, and what is refused."""

    def test_a_budget_for_one_release_holds_one_of_each_day(self, visits):
        loaded = load(visits)
        for day, date in zip(DAYS, DATES, strict=True):
            keep(visits, day)
            outcome = release(loaded, date)
            attributes = zarr.open_group(outcome.path, mode="r").attrs
            assert attributes["part"] == {"column": "day", "equals": day}
            assert f"It is of the records of day = {day} alone" in attributes["guarantee"]["sentence"]
            assert "once, for the day that costs most" in attributes["guarantee"]["sentence"]
        assert status(loaded).charges == 2
        assert status(loaded).spent_epsilon == pytest.approx(1.0)
        with pytest.raises(BudgetExhausted, match="for day = 2026-11-21"):
            release(loaded, datetime.date(2026, 11, 22))
        with pytest.raises(BudgetExhausted):
            release(load(visits, partition_by=""), datetime.date(2026, 11, 22))
        assert Ledger(loaded.ledger_url).verify().problems == []

    def test_a_release_that_does_not_ask_for_it_is_charged_as_one_of_all_records(self, visits):
        keep(visits, DAYS[0])
        release(load(visits, partition_by=""), DATES[0])
        keep(visits, DAYS[1])
        with pytest.raises(BudgetExhausted):
            release(load(visits), DATES[1])

    @pytest.mark.usefixtures("pictures_in_words")
    def test_the_report_and_the_plan_say_what_is_charged(self, visits):
        loaded = load(visits)
        plan = make_plan(loaded, DATES[0])
        said = dict(summary.describe(plan, price_of(plan, status(loaded))))
        assert "once, for the day that costs most" in said["Guarantee"]
        assert said["Nights left"] == "1 more release like this one of each day that has none yet"
        keep(visits, DAYS[0])
        outcome = release(loaded, DATES[0])
        after = dict(summary.describe(plan, price_of(plan, status(loaded))))
        assert after["Nights left"] == said["Nights left"]
        assert after["Left"].endswith("one more release of all records alone may take epsilon 0 at that delta")
        shown = CliRunner().invoke(app, ["ledger", "show", str(loaded.path)]).output
        assert f"RELEASED, of day = {DAYS[0]}" in shown
        page = make_report(plan, Ledger(plan.loaded.ledger_url), outcome).path.read_text()
        assert f"day = {DAYS[0]}" in page

    @pytest.mark.parametrize("stored", ["by hand", "whole", "another column"])
    def test_a_store_that_is_not_of_such_a_part_is_refused(self, visits, stored):
        if stored == "whole":
            people.run(people.configure(visits, people.COLUMNS[:2]))
        elif stored == "another column":
            keep(visits, "a", "ward", kind="text")
        else:
            group = zarr.open_group(visits / "out.zarr", mode="w")
            group.create_array("records", data=np.ones((4, 2)), config={"write_empty_chunks": True})
        with pytest.raises(DataError, match=r'data\.partition_by = "day" with'):
            release(load(visits), DATES[0])
        assert status(load(visits)).charges == 0

    @pytest.mark.parametrize("unit", [people.CHOOSE.format(most=1), people.TOGETHER.format(by="sum")])
    def test_units_that_a_column_names_are_refused(self, visits, unit):
        keep(visits, DAYS[0], unit=unit)
        loaded = load(visits, unit="one person")
        with pytest.raises(DataError, match="may have records in several parts"):
            release(loaded, DATES[0])

    @pytest.mark.parametrize(
        "wrong",
        [
            {"neighbours": "replace-one"},
            {"more": ", rows_per_unit = 2"},
            {"more": ", share = 0.5"},
            {"sections": "continual = {nights = 3, first = 2026-11-20}"},
        ],
    )
    def test_a_config_for_which_the_proof_does_not_hold_is_refused(self, tmp_path, wrong):
        with pytest.raises(ConfigError, match=r"data\.partition_by"):
            load(tmp_path, **wrong)

    @pytest.mark.parametrize(
        "damage",
        [
            {"partition": {"column": "day", "equals": DAYS[1], "type": "date"}},
            {"partition": {"column": "day", "equals": DAYS[0], "type": "text", "listed": "0" * 64}},
            {"partition": None},
            {"grouped": True, "by": "choose"},
        ],
    )
    def test_a_store_that_says_something_else_before_the_commit_is_noticed(self, visits, damage):
        keep(visits, DAYS[0])
        metadata = visits / "out.zarr" / "records" / "zarr.json"
        loaded = load(visits)

        def tell(message, share):
            if not message.startswith("reading"):  # the plan has been made, and the budget reserved
                return
            fields = json.loads(metadata.read_bytes())
            contract = fields["attributes"]["blockveil ingest"] | damage
            fields["attributes"]["blockveil ingest"] = {k: v for k, v in contract.items() if v is not None}
            metadata.write_text(json.dumps(fields))

        with pytest.raises(DataError, match="What the store says of its records changed"):
            release(loaded, DATES[0], tell)
        assert [entry.kind for entry in Ledger(loaded.ledger_url).history()] == ["BUDGET", "RESERVED", "VOID"]
        assert status(loaded).spent.loss == 0
        assert KeyStore(loaded.keys_root).list() == []

    def test_a_store_that_is_replaced_while_it_is_opened_is_noticed(self, visits, monkeypatch):
        keep(visits, DAYS[0])
        fingerprint = datasets.fingerprint

        def meanwhile(array):
            keep(visits, DAYS[1])
            return fingerprint(array)

        monkeypatch.setattr(datasets, "fingerprint", meanwhile)
        with pytest.raises(DataError, match="What the store says of its records changed"):
            release(load(visits), DATES[0])
        assert status(load(visits)).charges == 0

    @pytest.mark.parametrize(
        "only",
        [
            "day",
            {"column": "day"},
            {"column": "day", "equals": 7},
            {"column": "", "equals": ""},
            {"column": "day", "equals": "07", "type": "whole"},
            {"column": "day", "equals": "7", "type": "number"},
            {"column": "day", "equals": "7", "type": "text"},
            {"column": "day", "equals": "7", "type": "whole", "listed": "0" * 64},
            {"column": "day", "equals": "7", "type": ["whole"]},
            {"column": "day", "equals": "7"},
            {"column": "day", "equals": "7", "type": None},
        ],
    )
    def test_a_damaged_attribute_is_refused(self, visits, only):
        keep(visits, DAYS[0])
        metadata = visits / "out.zarr" / "records" / "zarr.json"
        fields = json.loads(metadata.read_bytes())
        fields["attributes"]["blockveil ingest"]["partition"] = only
        metadata.write_text(json.dumps(fields))
        with pytest.raises(StoreError, match="Ingest the records again"):
            release(load(visits), DATES[0])

    def test_the_same_records_as_another_part_are_another_release(self, visits):
        """Also where every record is the same: what is charged is not."""
        keep(visits, DAYS[0])
        loaded = load(visits)
        release(loaded, DATES[0])
        metadata = visits / "out.zarr" / "records" / "zarr.json"
        metadata.write_text(metadata.read_text().replace(DAYS[0], DAYS[1]))
        with pytest.raises(ReleaseConflict, match=f"data.equals: {DAYS[0]} -> {DAYS[1]}"):
            release(loaded, DATES[0])

    def test_one_table_of_two_formats_is_one_part_however_its_value_is_spelled(self, tmp_path):
        """Else "7" of one file and "07" of the other would be charged once, and noise drawn twice for their records."""
        loaded = self._of_bays(tmp_path)
        Ledger(loaded.ledger_url).set_budget("people", 1.0, 1e-9, Neighbours.ADD_REMOVE, UNIT)
        keep(tmp_path, 7, "bay", kind="whole")
        release(loaded, DATES[0])
        source = 'kind = "csv"\nfiles = ["csv"]'
        with pytest.raises(DataError, match=r'column "bay" holds another spelling.*\n?.*Write 7 in place of 07'):
            keep(tmp_path, 7, "bay", source=source, kind="whole")
        # As texts they are parts of another column, beside which the first one counts.
        keep(tmp_path, "07", "bay", source=source, kind="text")
        with pytest.raises(LedgerError, match="were charged as bay = 7 for 'people/costs/2026-11-20'"):
            release(loaded, DATES[1])
        self._drop_a_row(tmp_path)
        keep(tmp_path, "07", "bay", source=source, kind="text")
        with pytest.raises(BudgetExhausted):
            release(loaded, DATES[1])
        assert status(loaded).charges == 1

    def _of_bays(self, folder):
        """One table twice: with whole numbers in Parquet, and with two digits each in CSV."""
        table = people.visits()
        bays = np.random.default_rng(5).choice([7, 8], table.num_rows)
        people.write_parquet(folder, table.append_column("bay", pa.array(bays)))
        people.write_csv(folder / "csv" / "a.csv", table.append_column("bay", pa.array([f"0{bay}" for bay in bays])))
        return load(folder, partition_by=', partition_by = "bay"')

    def _drop_a_row(self, folder):
        """Other records, so that no fingerprint tells that most of them are the same."""
        lines = (folder / "csv" / "a.csv").read_text().splitlines(keepends=True)
        last = max(number for number, line in enumerate(lines) if "07" in line)
        (folder / "csv" / "a.csv").write_text("".join(lines[:last] + lines[last + 1 :]))

    def test_the_same_records_under_another_data_set_are_told_of(self, visits, caplog, capsys):
        keep(visits, DAYS[0])
        loaded = load(visits, partition_by="")
        release(loaded, DATES[0])
        path = visits / "release.toml"
        path.write_text(path.read_text().replace('dataset = "people"', 'dataset = "patients"'))
        Ledger(loaded.ledger_url).set_budget("patients", 1.0, 1e-9, Neighbours.ADD_REMOVE, UNIT)
        release(load_config(path), DATES[0])
        (said,) = [
            record.getMessage()
            for record in caplog.records
            if record.name == "blockveil.pipeline.releases.charged_steps"
        ]
        assert said.startswith("patients/costs/2026-11-20: The same records stand in the ledger for ")
        assert "'people/costs/2026-11-20' (budget 'people')" in said
        plan = make_plan(load_config(path), DATES[0])
        night_commands._tell_result(plan, Ledger(plan.loaded.ledger_url), "Released.", as_json=False)
        assert "\nWarning    " in (printed := capsys.readouterr().out)
        assert "The same records stand in the ledger for 'people/costs/2026-11-20'" in printed

    def test_a_release_of_a_part_is_weighed_as_if_its_part_were_the_largest(self, visits):
        loaded = load(visits, sections="approval = {threshold_share = 0.9}")
        plan = make_plan(loaded, DATES[1])
        keep(visits, DAYS[0])
        release(loaded, DATES[0])
        assert budgets.nights_left(plan, Ledger(loaded.ledger_url), status(loaded)) == 1
        asked = approval.question(plan, status(loaded), charged=False)
        assert "would take more than half of what is left" in asked.text

    def test_a_forecast_is_refused(self, visits):
        loaded = load(visits)
        with pytest.raises(ConfigError, match="of one part of the records"):
            forecast(status(loaded), [], [make_plan(loaded, DATES[0])], DATES[0], None)
