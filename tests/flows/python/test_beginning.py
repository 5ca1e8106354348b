"""A program begins a release as a person at a terminal does."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path

import pytest

import blockveil as bv
from blockveil.pipeline.base.errors import ConfigError, StoreError
from tests.pipeline.scaffold import scaffold_support as first


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """The folder of a CSV file, which is the current one."""
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text(f"{','.join(first.NAMES)}\n")
    return tmp_path


def test_answers_by_name_as_tables_or_in_a_file_give_the_same_configs(visits):
    given = {key: value for key, value in first.GIVEN.items() if key != "first"}
    begun = bv.init("visits.csv", date="2026-12-01", **given)
    assert begun.config == visits / "visits" / "release.toml"
    for folder, source, answers in [("a", "visits.csv", given), ("b", None, begun.folder / "answers.toml")]:
        why = "a trial of the same answers"
        again = bv.init(source, answers=answers, output=f"{folder}/visits", date="2026-12-01", new_budget=why)
        assert again.config.read_text().replace(f'new_budget = "{why}"\n', "") == begun.config.read_text()
    assert bv.plan(begun.config, date="2026-12-01").digest == begun.first_release.plan.digest


def test_what_was_begun_prints_its_plan_and_what_comes_next(visits):
    begun = bv.init("visits.csv", answers=first.GIVEN)
    assert "Guarantee" in str(begun)
    assert "blockveil ingest visits/ingest.toml" in str(begun)
    assert "<table" in begun._repr_html_()


def test_everything_that_is_open_is_named_and_nothing_is_written(visits):
    with pytest.raises(ConfigError) as refused:
        bv.init("visits.csv", unit_column="person", strictness="usual")
    assert "purpose is not answered" in refused.value.in_full
    with pytest.raises(ConfigError, match="No source is given"):
        bv.init(answers=first.GIVEN)
    assert [path.name for path in visits.iterdir()] == ["visits.csv"]


def test_an_ingest_makes_the_store_tells_how_far_it_is_and_returns_no_counts(visits):
    Path("visits.csv").write_text(f"{','.join(first.NAMES)}\n1,2026-01-01,a,30,5.5,true\n,2026-01-02,b,31,6.5,false\n")
    begun = bv.init("visits.csv", answers=first.GIVEN)
    told: list[str] = []
    store = bv.ingest(begun.folder / "ingest.toml", progress=lambda stage, share: told.append(stage))
    assert store == begun.folder / "private" / "records.zarr"
    assert told
    assert bv.ingest(begun.folder / "ingest.toml") == store


def test_a_traceback_names_all_answers_that_are_open(visits):
    with pytest.raises(ConfigError) as refused:
        bv.init("visits.csv", unit_column="person")
    shown = "".join(traceback.format_exception(refused.value))
    assert all(f"{key} is not answered" in shown for key in ("rows_per_unit", "rows_at_most", "purpose", "strictness"))
    copied = pickle.loads(pickle.dumps(refused.value))
    assert copied.__notes__ == refused.value.__notes__


def test_a_release_that_is_not_there_is_not_called_damaged(visits):
    with pytest.raises(StoreError, match=r"visits is not there.*folder or its pointer"):
        bv.open("people/visits")
