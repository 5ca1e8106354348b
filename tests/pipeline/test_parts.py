"""Stores of one part of the records, and releases of them that are charged as such."""

import datetime
import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
import zarr
from typer.testing import CliRunner

from engine.guarantees import Neighbours
from flows import budgets
from flows.cli import app
from pipeline import approval, datasets, summary
from pipeline.compute import ThreadCompute
from pipeline.config import load_config
from pipeline.errors import BudgetExhausted, ConfigError, DataError, ReleaseConflict, StoreError
from pipeline.forecast import forecast
from pipeline.ingest import readers
from pipeline.keys import KeyStore
from pipeline.ledger import Ledger
from pipeline.planning import make_plan
from pipeline.release import Workspace, run_release
from pipeline.report import make_report
from tests.pipeline.ingest import ingest_support as people

UNIT = "one visit (one row)"
DAYS = ("2026-11-20", "2026-11-21")
DATES = [datetime.date.fromisoformat(day) for day in DAYS]

RELEASE = """
release = {{dataset = "people", name = "costs"}}
data = {{store = "out.zarr"{part_of}}}
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

PART_OF = ', part_of = "day"'


def load(folder, part_of=PART_OF, neighbours="add-remove", unit=UNIT, more="", sections=""):
    path = folder / "release.toml"
    path.write_text(RELEASE.format(part_of=part_of, neighbours=neighbours, unit=unit, more=more, sections=sections))
    return load_config(path)


def by_day(kind=None):
    """Visits of two days, and some of no known day."""
    table = people.visits()
    days = np.random.default_rng(7).choice([*DAYS, None], table.num_rows, p=[0.5, 0.4, 0.1]).tolist()
    return table.append_column("day", pa.array(days, pa.string()) if kind is None else kind(days))


def keep(folder, equals, column="day", columns=people.COLUMNS[:2], **more):
    """Ingest the records of one value in place of what is there."""
    shutil.rmtree(folder / "out.zarr", ignore_errors=True)
    only = {"column": column, "equals": equals}
    return people.run(people.configure(folder, columns, only=only, **more))


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
        keep(tmp_path, equals, "stay")
        assert np.array_equal(people.stored(tmp_path), people.expected(table)[table["stay"].to_numpy() == 7, :2])

    def test_arrays_are_divided_too(self, tmp_path):
        values = np.column_stack([np.arange(40.0), np.arange(40) % 3])
        values[5, 1] = np.nan
        (tmp_path / "in").mkdir()
        np.save(tmp_path / "in" / "a.npy", values)
        source = 'kind = "npy"\nfiles = ["in"]\nnames = ["cost", "day"]'
        keep(tmp_path, 2, columns=[people.NUMBER], source=source)
        assert np.array_equal(people.stored(tmp_path)[:, 0], values[values[:, 1] == 2, 0])

    @pytest.mark.parametrize("layout", ["rows", "entries"])
    def test_a_text_in_a_csv_file_is_never_taken_for_a_number_and_never_trimmed(self, tmp_path, layout):
        """One record has one text: "07" is in the part of "07" and in no other, whatever an ingest asks for."""
        (tmp_path / "in").mkdir()
        rows = ["07,1", "7,2", " 7,3", ",4", "7.0,5", "x,6"]
        (tmp_path / "in" / "a.csv").write_text("\n".join(["day,cost", *rows]) + "\n")
        source, found = 'kind = "csv"\nfiles = ["in"]', {}
        for equals in (7, "07", "7.0", "x"):
            keep(tmp_path, equals, columns=[people.NUMBER], source=source, layout=layout)
            group = tmp_path / "out.zarr" / "records" / ("data" if layout == "entries" else "")
            found[equals] = zarr.open_array(group, mode="r")[...].ravel().tolist()
        assert found == {7: [2.0], "07": [1.0], "7.0": [5.0], "x": [6.0]}

    def test_a_column_that_is_declared_as_a_number_too_is_refused_in_a_csv_file(self, tmp_path):
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "a.csv").write_text("day,cost\n07,1\n")
        columns = [people.NUMBER, {"name": "day", "kind": "whole", "missing": "refuse"}]
        with pytest.raises(ConfigError, match="two types"):
            keep(tmp_path, 7, columns=columns, source='kind = "csv"\nfiles = ["in"]')

    @pytest.mark.parametrize("column", ["cost", "urgent"])
    def test_a_column_without_one_text_a_value_is_refused(self, tmp_path, column):
        people.write_parquet(tmp_path, people.visits())
        with pytest.raises(DataError, match="text, whole numbers or dates"):
            keep(tmp_path, "1", column)
        assert not (tmp_path / "out.zarr").exists()

    @pytest.mark.parametrize("equals", ["", " x", True, 1.5, 2**63])
    def test_a_value_that_is_no_text_or_whole_number_is_refused(self, tmp_path, equals):
        with pytest.raises(ConfigError, match=r"ingest\.only\.equals"):
            keep(tmp_path, equals)

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
        with pytest.raises(DataError, match=r"no record to store.*\n?.*ingest\.only"):
            keep(tmp_path, "2026-11-22")

    def test_the_store_says_which_part_it_holds_and_only_then(self, tmp_path):
        people.write_parquet(tmp_path, by_day())
        keep(tmp_path, DAYS[0])
        array = zarr.open_array(tmp_path / "out.zarr" / "records", mode="r")
        contract = array.attrs["blockveil ingest"]
        assert contract["only"] == {"column": "day", "equals": DAYS[0]}
        assert contract["dropping"] is True
        shutil.rmtree(tmp_path / "out.zarr")
        people.run(people.configure(tmp_path, people.COLUMNS))
        array = zarr.open_array(tmp_path / "out.zarr" / "records", mode="r")
        assert "only" not in array.attrs["blockveil ingest"]

    def test_a_filtered_store_is_refused_under_replace_one(self, visits):
        keep(visits, DAYS[0])
        loaded = load(visits, part_of="", neighbours="replace-one")
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
            assert "once, for the dearest day" in attributes["guarantee"]["sentence"]
        assert status(loaded).charges == 2
        assert status(loaded).spent_epsilon == pytest.approx(1.0)
        with pytest.raises(BudgetExhausted, match="for day = 2026-11-21"):
            release(loaded, datetime.date(2026, 11, 22))
        with pytest.raises(BudgetExhausted):
            release(load(visits, part_of=""), datetime.date(2026, 11, 22))
        assert Ledger(loaded.ledger_url).verify().problems == []

    def test_a_release_that_does_not_ask_for_it_is_charged_as_one_of_all_records(self, visits):
        keep(visits, DAYS[0])
        release(load(visits, part_of=""), DATES[0])
        keep(visits, DAYS[1])
        with pytest.raises(BudgetExhausted):
            release(load(visits), DATES[1])

    def test_the_report_and_the_plan_say_what_is_charged(self, visits):
        loaded = load(visits)
        plan = make_plan(loaded, DATES[0])
        said = dict(summary.describe(plan, status(loaded)))
        assert "once, for the dearest day" in said["Guarantee"]
        assert said["Nights left"] == "1 more release like this one of each day that has none yet"
        keep(visits, DAYS[0])
        outcome = release(loaded, DATES[0])
        after = dict(summary.describe(plan, status(loaded)))
        assert after["Nights left"] == said["Nights left"]
        assert after["Left"] == "epsilon 0 for one more release of all records, at that delta"
        shown = CliRunner().invoke(app, ["ledger", "show", str(loaded.path)]).output
        assert f"RELEASED, of day = {DAYS[0]}" in shown
        page = make_report(Workspace.open(plan), outcome).path.read_text()
        assert f"day = {DAYS[0]}" in page

    @pytest.mark.parametrize("stored", ["by hand", "whole", "another column"])
    def test_a_store_that_is_not_of_such_a_part_is_refused(self, visits, stored):
        if stored == "whole":
            people.run(people.configure(visits, people.COLUMNS[:2]))
        elif stored == "another column":
            keep(visits, "a", "ward")
        else:
            group = zarr.open_group(visits / "out.zarr", mode="w")
            group.create_array("records", data=np.ones((4, 2)), config={"write_empty_chunks": True})
        with pytest.raises(DataError, match=r'data\.part_of = "day" with'):
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
        with pytest.raises(ConfigError, match=r"data\.part_of"):
            load(tmp_path, **wrong)

    @pytest.mark.parametrize(
        "damage", [{"only": {"column": "day", "equals": DAYS[1]}}, {"only": None}, {"grouped": True}]
    )
    def test_a_store_that_says_something_else_before_the_commit_is_noticed(self, visits, damage):
        keep(visits, DAYS[0])
        metadata = visits / "out.zarr" / "records" / "zarr.json"
        loaded = load(visits)

        def tell(message, share):
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
        "only", ["day", {"column": "day"}, {"column": "day", "equals": 7}, {"column": "", "equals": ""}]
    )
    def test_a_damaged_attribute_is_refused(self, visits, only):
        keep(visits, DAYS[0])
        metadata = visits / "out.zarr" / "records" / "zarr.json"
        fields = json.loads(metadata.read_bytes())
        fields["attributes"]["blockveil ingest"]["only"] = only
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

    def test_a_release_of_a_part_is_weighed_as_if_its_part_were_the_dearest(self, visits):
        loaded = load(visits, sections="approval = {above_share = 0.9}")
        plan = make_plan(loaded, DATES[1])
        keep(visits, DAYS[0])
        release(loaded, DATES[0])
        assert budgets.nights_left(plan, status(loaded)) == 1
        asked = approval.question(plan, status(loaded), charged=False)
        assert "would take more than half of what is left" in asked.text

    def test_a_forecast_is_refused(self, visits):
        loaded = load(visits)
        with pytest.raises(ConfigError, match="of one part of the records"):
            forecast(status(loaded), [], [make_plan(loaded, DATES[0])], DATES[0], None)
