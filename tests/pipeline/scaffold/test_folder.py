"""Answers make configs that are planned as written, whose nights fit their budget, in a folder that is whole."""

from __future__ import annotations

import stat
import tomllib
from datetime import date
from pathlib import Path

import pytest

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.budget.filter import NOTHING, Cap, Ticks
from blockveil.pipeline.config import load_config
from blockveil.pipeline.config.bounds_file import BoundedFeature, BoundsFile
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.config.toml import read_toml
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.scaffold.answers import Answers
from blockveil.pipeline.scaffold.interview import answered
from blockveil.pipeline.scaffold.whole_answers import all_answered
from blockveil.pipeline.scaffold.written_folder import write
from tests.pipeline.scaffold import scaffold_support as first


@pytest.mark.parametrize("purpose", first.PURPOSES)
@pytest.mark.parametrize(
    "unit", [{}, {"unit_column": None, "unit_type": None, "rows_per_unit": None}], ids=["persons", "rows"]
)
def test_every_purpose_gives_configs_that_load_and_plan_as_they_were_shown(tmp_path, purpose, unit):
    composed = first.made(tmp_path, purpose=purpose, **first.PURPOSES[purpose], **unit)
    write(composed)
    loaded = load_config(composed.folder / "release.toml")
    ingest = load_ingest(composed.folder / "ingest.toml").config
    assert make_plan(loaded, date(2026, 12, 1)).digest == composed.plan.digest
    assert ingest.outputs == loaded.config.query.columns
    assert (ingest.unit.name, ingest.rows_per_unit) == ("one person", loaded.config.privacy.rows_per_unit or 1)
    (night,) = load_deployments(composed.folder).deployments.night
    assert (night.config, night.cron) == ("release", "30 2 * * *")


@pytest.mark.parametrize("strictness", ["strict", "loose"])
@pytest.mark.parametrize("until", [date(2026, 12, 2), date(2027, 11, 30)], ids=["two nights", "a year"])
@pytest.mark.parametrize("unit", [{}, {"rows_per_unit": "average", "row_count_public": True, "missing": "refuse"}])
def test_the_budget_that_is_granted_holds_every_night_and_no_more(tmp_path, strictness, until, unit):
    composed = first.made(tmp_path, strictness=strictness, until=until, **unit)
    answers = first.given(strictness=strictness, until=until, **unit)
    assert f"--epsilon {answers.epsilon:g} --delta {answers.delta:g}" in composed.files["README.md"]
    cap = Cap(float(answers.epsilon or 0), float(answers.delta or 0))
    assert cap.nights(NOTHING, Ticks.of(composed.plan.charge)) == answers.nights


def test_one_night_takes_the_whole_promise(tmp_path):
    composed = first.made(tmp_path, every="once", until=None)
    assert "share" not in composed.files["release.toml"].replace("privacy.share", "")
    assert composed.plan.guarantee.epsilon == 3.0
    assert "[[night]]" not in composed.files["deployments.toml"]


@pytest.mark.parametrize(
    ("changes", "neighbours"),
    [
        ({"row_count_public": True, "rows_per_unit": 1, "missing": "refuse"}, Neighbours.REPLACE_ONE),
        ({"row_count_public": False, "rows_per_unit": 1}, Neighbours.ADD_REMOVE),
        ({}, Neighbours.ADD_REMOVE),
    ],
)
def test_the_relation_follows_from_whether_the_number_of_records_is_known(tmp_path, changes, neighbours):
    assert first.made(tmp_path, **changes).plan.neighbours is neighbours


@pytest.mark.parametrize(("every", "cron"), [("week", "30 2 * * 2"), ("month", "30 2 1 * *")])
def test_the_schedule_runs_on_the_day_of_the_first_night(tmp_path, every, cron):
    assert f'cron = "{cron}"' in first.made(tmp_path, every=every).files["deployments.toml"]


def test_what_was_answered_begins_again_with_the_same_files(tmp_path):
    rows = {"unit_column": None, "unit_type": None, "rows_per_unit": None, "row_count_public": False}
    for purpose, more in [*first.PURPOSES.items(), ("correlations-of-rows", rows)]:
        more = {"purpose": purpose.partition("-of-")[0], **more}
        composed = first.made(tmp_path / purpose, **more)
        write(composed)
        again = all_answered(first.SCHEMA, read_toml(composed.folder / "answers.toml"))
        assert again.model_dump(exclude={"source"}) == first.given(**more).model_dump(exclude={"source"})


STEPPED = {"age": "0 to 120 whole", "cost": "0 to 500", "urgent": "yes-no", "ward": "a, b", "day": "weekday"}


def _steps(composed):
    """Steps of the features of a release, by the column that they are of."""
    features = composed.plan.config.query.geometry.features
    return {feature.name.partition("=")[0]: feature.step for feature in features}


@pytest.mark.parametrize("purpose", ["correlations", "totals"])
def test_columns_said_to_hold_whole_numbers_lists_or_dates_are_declared_with_their_step(tmp_path, purpose):
    days = {**STEPPED, "day": "2026-01-01 to 2026-12-31"}
    for columns in (STEPPED, days):
        composed = first.made(tmp_path, purpose=purpose, columns=columns)
        assert _steps(composed) == {"age": 1.0, "cost": None, "urgent": 1.0, "ward": 1.0, "day": 1.0}
        assert not composed.plan.answer.question.side.rounded[0]
    assert ("age", "a whole number from 0 to 120") in composed.understood
    kinds = {column["name"]: column["kind"] for column in tomllib.loads(composed.files["ingest.toml"])["columns"]}
    assert kinds["age"] == "whole", "the ingest refuses what is no whole number"
    assert kinds["cost"] == "number"


def test_means_of_several_rows_are_no_whole_numbers(tmp_path):
    composed = first.made(tmp_path, rows_per_unit="average", columns=STEPPED)
    assert set(_steps(composed).values()) == {None}


def test_names_and_categories_of_any_kind_are_written_as_they_are(tmp_path):
    names = ('a"b', "c\\d", "é [x]", "#e", "f = g", "h.i")
    schema = first.SCHEMA.__class__("visits.csv", "csv", (*names, "person"))
    columns = dict.fromkeys(names[1:], "0 to 1") | {names[0]: ['"', "\\", "#", "x]"]}
    values = {**first.GIVEN, "columns": columns}
    from blockveil.pipeline.scaffold.folder import BegunFolder, compose

    answers = answered(Answers(), schema, values)
    composed = compose(BegunFolder(answers, schema, tmp_path / "visits", tmp_path), answers)
    write(composed)
    found = load_ingest(composed.folder / "ingest.toml").config
    assert found.outputs == (*names[1:], *(f"{names[0]}={label}" for label in ('"', "\\", "#", "x]")))


def test_a_folder_is_whole_private_where_it_must_be_and_never_replaced(tmp_path):
    composed = first.made(tmp_path)
    write(composed)
    assert {path.name for path in composed.folder.iterdir()} == {*composed.files, "private"}
    assert stat.S_IMODE((composed.folder / "private").stat().st_mode) == 0o700
    with pytest.raises(ConfigError, match="exists already"):
        write(composed)
    assert [path.name for path in tmp_path.iterdir()] == ["visits"]


def test_a_folder_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(self: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    composed = first.made(tmp_path)
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(StoreError, match="full"):
        write(composed)
    assert list(tmp_path.iterdir()) == []


def test_a_promise_that_no_noise_keeps_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError):
        first.made(tmp_path, strictness={"epsilon": 1e-9, "delta": 1e-13}, until=date(2036, 11, 30))
    assert list(tmp_path.iterdir()) == []


def test_nights_that_share_a_promise_have_gaussian_noise_where_laplace_alone_would_be_best(tmp_path):
    alone = first.made(tmp_path, purpose="counts", columns={"ward": "a, b"}, every="once", until=None, rows_per_unit=1)
    shared = first.made(tmp_path, purpose="counts", columns={"ward": "a, b"}, rows_per_unit=1)
    assert alone.plan.charge.epsilon > 0 == alone.plan.charge.mu
    assert shared.plan.charge.mu > 0 == shared.plan.charge.epsilon
    refused = [row for row in shared.plan.compared if row.error is None and "mu squared" in row.reason]
    assert alone.plan.mechanism.name in {row.mechanism for row in refused}


def test_texts_that_programs_write_for_missing_values_are_missing_unless_they_are_categories(tmp_path):
    plain = first.made(tmp_path).files["ingest.toml"]
    named = first.made(tmp_path, columns={"ward": ["EU", "NA"], "age": "0 to 120"}).files["ingest.toml"]
    assert '"", "NA", "N/A"' in plain
    assert '"", "N/A"' in named


def test_a_single_release_is_told_of_no_nights(tmp_path):
    once = first.made(tmp_path, every="once", until=None)
    assert not any("night" in why or "first" in why for _, why in once.commands)
    assert any("for all nights" in why for _, why in first.made(tmp_path).commands)


UNKNOWN = {"columns": {"age": "0 to 120", "urgent": "yes-no", "cost, ward": "unknown"}}


@pytest.mark.parametrize("often", [{}, {"every": "once", "until": None}], ids=["nights", "once"])
@pytest.mark.parametrize("purpose", ["correlations", "totals"])
def test_sums_learn_bounds_that_nobody_knows_in_the_charge_of_each_night(tmp_path, often, purpose):
    composed = first.made(tmp_path, **UNKNOWN, **often, purpose=purpose)
    write(composed)
    assert not (composed.folder / "find-bounds.toml").exists()
    plan = make_plan(load_config(composed.folder / "release.toml"), date(2026, 12, 1))
    assert plan.digest == composed.plan.digest
    shape = plan.config.query.geometry
    assert shape.learn_bounds
    assert shape.learn == ("mean" if purpose == "totals" else "correlation")
    assert {each.name: (each.lower, each.upper) for each in shape.features} == {
        "age": (0.0, 120.0),
        "urgent": (0.0, 1.0),
        "cost": (-1e15, 1e15),
        "ward": (-1e15, 1e15),
    }
    nights = first.given(**UNKNOWN, **often, purpose=purpose).nights or 1
    assert Cap(3.0, 1e-6).nights(NOTHING, Ticks.of(plan.charge)) == nights
    assert [command.split()[1] for command, _ in composed.commands[:4]] == ["ingest", "plan", "ledger", "run"]


@pytest.mark.parametrize("often", [{}, {"every": "once", "until": None}], ids=["nights", "once"])
def test_bounds_that_nobody_knows_are_found_within_the_promise_and_nothing_is_edited(tmp_path, often):
    more = {"purpose": "training", "target": "urgent", "examples": 9}
    composed = first.made(tmp_path, **UNKNOWN, **often, **more)
    write(composed)
    ingest = load_ingest(composed.folder / "ingest.toml").config
    finding = load_config(composed.folder / "find-bounds.toml")
    bounds = make_plan(finding, date(2026, 12, 1))
    assert bounds.digest == composed.plan.digest
    assert set(bounds.question.names) == {"cost", "cost, digits", "ward", "ward, digits"}
    assert ingest.outputs == finding.config.query.columns
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(composed.folder / "release.toml")
    found = BoundsFile(
        release=bounds.release_id,
        content_sha256="0" * 64,
        features=tuple(BoundedFeature(name=name, lower=-1.0, upper=4096.0) for name in bounds.question.names),
    )
    (composed.folder / "bounds.toml").write_text(found.text())
    loaded = load_config(composed.folder / "release.toml")
    night = make_plan(loaded, date(2026, 12, 1))
    assert {*ingest.outputs} == {*night.columns}
    nights, cap = first.given(**UNKNOWN, **often, **more).nights, Cap(3.0, 1e-6)
    spent = Ticks.of(bounds.charge)
    assert cap.nights(spent, Ticks.of(night.charge)) == nights
    assert composed.charge == spent + Ticks.of(night.charge).times(nights)
    commands = [command for command, _ in composed.commands]
    assert [command.split()[1] for command in commands[:7]] == [
        "ingest",
        "plan",
        "ledger",
        "run",
        "public",
        "plan",
        "run",
    ]
