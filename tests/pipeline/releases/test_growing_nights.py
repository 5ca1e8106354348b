"""Nights over a store to which an ingest appends: series continue, and what was begun keeps its own records."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest
import zarr

from blockveil.engine.answers.gram import partial_gram
from blockveil.pipeline import report
from blockveil.pipeline.base.errors import LedgerError, ReleaseConflict
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.data.datasets import open_records
from blockveil.pipeline.data.ingest import erasing
from blockveil.pipeline.data.ingest.ingest_run import look
from blockveil.pipeline.data.released import read_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.begun_plans import as_begun
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import charged_steps
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.contents import LedgerDigests
from blockveil.pipeline.releases.growing import growth_of
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.releases.renewing import ReleaseLedgers
from tests.house import support
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people

FIRST = date(2026, 11, 1)
CONFIG = """
release = {{dataset = "people", name = "stays"}}
data = {{store = "out.zarr"}}
privacy = {{epsilon = 1, delta = 1e-9, neighbours = "add-remove", unit = "{unit}", rows_per_unit = {rows}}}
mechanism = {{kind = "gaussian"}}
output = {{root = "out", ledger = "ledger.db", keys = "keys"}}
{more}
[query]
kind = "{kind}"
rows_at_most = 5000
missing = "refuse"
[query.geometry]
kind = "box"
origin = "midpoint"
features = [{{name = "person", lower = 0, upper = 40}}, {{name = "stay", lower = 0, upper = 9000}}]
"""


def prepared(folder, more="", kind="covariance", unit="one visit (one row)", rows_per_unit=1):
    text = CONFIG.format(more=more, kind=kind, unit=unit, rows=rows_per_unit)
    (folder / "release.toml").write_text(text)
    loaded = load_config(folder / "release.toml")
    support.set_budget(loaded, 3.0)
    return loaded


def grow(folder, number, layout="rows"):
    grown.put(folder, number)
    people.run(people.configure(folder, grown.COLUMNS, append=True, late="next", layout=layout))


def run(loaded, number):
    plan = make_plan(loaded, FIRST + timedelta(days=number))
    return run_release(plan, ThreadCompute(2), "test", lambda *_: None)


def test_nights_that_share_a_charge_continue_over_appends(tmp_path):
    loaded = prepared(tmp_path, "continual = {nights = 3, first = 2026-11-01}")
    for number in range(3):
        grow(tmp_path, number)
        outcome = run(loaded, number)
        assert outcome.resumed is None
    assert sum(entry.kind == "RELEASED" for entry in Ledger(loaded.ledger_url).history()) == 3
    assert zarr.open_group(outcome.path, mode="r").attrs["mechanism"]["continual"]["night"] == 3


def test_a_release_and_its_report_say_what_becomes_of_late_records_and_how_rows_were_chosen(tmp_path):
    grow(tmp_path, 0)
    loaded = prepared(tmp_path)
    outcome = run(loaded, 0)
    said = read_release(outcome.path).attributes["guarantee"]["contribution"]
    assert said["late"] == "next"
    assert said["sentence"].endswith("Records that come late count from the next release on.")
    assert Contribution.read(read_release(outcome.path).attributes["guarantee"]).facts() == said
    made = report.make_report(make_plan(loaded, FIRST), Ledger(loaded.ledger_url), outcome)
    assert "Records that come late count from the next release on." in made.path.read_text()
    chosen = Contribution("one person", 3, 3, "choose", False, "refuse").sentence
    assert "a unit that has its rows already gets no others. Records that come late are refused." in chosen


@pytest.mark.parametrize("layout", ["rows", "entries"])
def test_a_night_that_was_killed_after_its_commit_is_finished_though_the_store_has_grown(tmp_path, layout):
    loaded = prepared(tmp_path)
    grow(tmp_path, 0, layout)
    plan = make_plan(loaded, FIRST)
    plan, books = support.opened(plan)
    staged = charged_steps.measure(
        plan, books, charged_steps.reserve(plan, books, "killed"), ThreadCompute(1), lambda *_: None
    )
    for number in (1, 2):
        grow(tmp_path, number, layout)
    outcome = run(loaded, 0)
    assert "committed" in outcome.resumed
    assert outcome.output_digest == staged.output_digest
    spent = Ledger(loaded.ledger_url).budget("people").spent
    assert "complete already" in run(loaded, 0).resumed
    assert Ledger(loaded.ledger_url).budget("people").spent == spent
    # Another night is of all records, and is charged.
    later = run(loaded, 1)
    assert later.resumed is None
    assert Ledger(loaded.ledger_url).budget("people").spent != spent


def test_a_night_of_a_series_that_was_killed_is_finished_after_appends_and_the_series_goes_on(tmp_path):
    loaded = prepared(tmp_path, "continual = {nights = 4, first = 2026-11-01}")
    grow(tmp_path, 0)
    run(loaded, 0)
    grow(tmp_path, 1)
    plan, books = support.opened(make_plan(loaded, FIRST + timedelta(days=1)))
    staged = charged_steps.measure(
        plan, books, charged_steps.reserve(plan, books, "killed"), ThreadCompute(1), lambda *_: None
    )
    grow(tmp_path, 2)
    spent = Ledger(loaded.ledger_url).budget("people").spent
    assert run(loaded, 1).output_digest == staged.output_digest
    assert run(loaded, 2).resumed is None
    assert Ledger(loaded.ledger_url).budget("people").spent == spent


def erase(folder, persons, layout="rows"):
    loaded = people.configure(
        folder, grown.COLUMNS, unit=grown.UNITS["chosen"], append=True, late="next", layout=layout
    )
    erasing.erase(look(loaded), persons, lambda *_: None, ReleaseLedgers())


def grow_by_person(folder, number, layout="rows"):
    grown.put(folder, number)
    people.run(
        people.configure(folder, grown.COLUMNS, unit=grown.UNITS["chosen"], append=True, late="next", layout=layout)
    )


def of_persons(folder, more=""):
    return prepared(folder, more, unit="one person", rows_per_unit=2)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["rows", "entries"])
def test_a_series_goes_on_after_an_erasure_with_the_nights_where_they_were_among_the_records(tmp_path, layout):
    loaded = of_persons(tmp_path, "continual = {nights = 5, first = 2026-11-01}")
    held = []
    for number in range(5):
        grow_by_person(tmp_path, number, layout)
        if number == 3:
            erase(tmp_path, [3, 17], layout)
            erase(tmp_path, [5], layout)
        held.append([rows for _, rows in grown.opened(tmp_path).manifest.parts])
        plan = as_begun(make_plan(loaded, FIRST + timedelta(days=number)), Ledger(loaded.ledger_url))
        plan, books = support.opened(plan)
        contents = LedgerDigests.of(books.ledger, books.keys)
        growth = growth_of(plan, plan.series, books.ledger, loaded.output_root, open_records(loaded), contents)
        levels = plan.series.levels
        borders = np.cumsum([0, *held[-1]])
        expected = [borders[max(0, number + 1 - age)] for age in reversed(levels.ages[1:])]
        assert growth.ages.ends == (*expected, borders[-1])
        assert run_release(plan, ThreadCompute(2), "test", lambda *_: None).resumed is None
    assert sum(entry.kind == "RESERVED" for entry in Ledger(loaded.ledger_url).history()) == 5
    assert held[-1][:3] != held[2]  # rows of the first nights are gone


def test_units_are_not_erased_while_a_release_reads_their_records(tmp_path):
    loaded = of_persons(tmp_path)
    grow_by_person(tmp_path, 0)

    class ErasedMeanwhile(ThreadCompute):
        def hold(self, graph, report):
            held = super().hold(graph, report)
            with pytest.raises(LedgerError, match="is RESERVED"):
                erase(tmp_path, [3])
            return held

    run_release(make_plan(loaded, FIRST), ErasedMeanwhile(1), "test", lambda *_: None)
    erase(tmp_path, [3])
    assert 3 not in grown.records(tmp_path)[:, 0]


def test_a_reservation_from_before_an_append_is_used_for_the_records_that_it_was_for(tmp_path):
    loaded = prepared(tmp_path)
    grow(tmp_path, 0)
    plan = make_plan(loaded, FIRST)
    charged_steps.reserve(*support.opened(plan), "killed")
    grow(tmp_path, 1)
    assert "reserved" in run(loaded, 0).resumed


def test_records_that_were_never_those_of_the_store_are_refused_as_before(tmp_path):
    loaded = prepared(tmp_path)
    grow(tmp_path, 0)
    run(loaded, 0)
    array = zarr.open_array(tmp_path / "out.zarr" / "records" / "part-000000", mode="r+")
    array[0, 0] = 39 - np.asarray(array[0, 0])
    with pytest.raises(ReleaseConflict, match="another specification"):
        run(loaded, 0)


@pytest.mark.parametrize("chunk_rows", [1, 7, 64, 1000])
def test_records_in_parts_have_the_exact_sum_of_the_same_records_in_one_array(tmp_path, chunk_rows):
    for number in range(3):
        grow(tmp_path, number)
    loaded = prepared(tmp_path)
    data, quantiser = open_records(loaded), make_plan(loaded, FIRST).question.query.quantiser
    whole = np.asarray(data.array[:])
    wanted = partial_gram(whole, 0, data.rows, quantiser, data.rows)
    assert np.array_equal(partial_gram(data.source, 0, data.rows, quantiser, chunk_rows), wanted)
