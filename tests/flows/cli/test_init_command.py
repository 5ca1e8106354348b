"""From a file and a few answers to a release, at a terminal or from a file of answers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

import blockveil as bv
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import BlockveilError, ConfigError
from tests.pipeline.scaffold import scaffold_support as first

WORDS = [
    "persn", "?", "person", "text", "3", "5000", "correlations", "no",
    "skip", "a, b", "120 to 0", "0 to 120", "-10.5 to 1e4", "yes-no",
    "every night until 2026-12-31", "usual", "yes",
]  # fmt: skip
"""What somebody types, two mistakes and a call for help included."""

BESIDE = ("--new-budget", "a trial of the same answers")
"""What begins a second folder of one source."""


def blockveil(*words: object, typed: list[str] | None = None) -> str:
    done = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False, input="\n".join([*(typed or []), ""]))
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """The folder of a CSV file of 600 visits, which is the current one."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    with Path("visits.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(first.NAMES)
        for row in range(600):
            day = np.datetime64("2026-01-01") + rng.integers(365)
            cost = "" if row % 50 == 0 else round(float(rng.uniform(0, 900)), 2)
            lines.writerow([f"p{row % 250}", day, rng.choice(["a", "b", "c"]), rng.integers(90), cost, row % 3 == 0])
    return tmp_path


def test_a_rhythm_without_an_end_is_asked_for_its_end(visits):
    typed = [*WORDS[:-3], "night", *WORDS[-3:]]
    shown = blockveil("init", "visits.csv", "--date", "2026-12-01", typed=typed)
    assert shown.count("Until when? Write the last night too, such as night until 2026-12-31.") == 1
    assert "Until when?" not in blockveil(
        "init", "visits.csv", "--date", "2026-12-01", "--output", "b", *BESIDE, typed=WORDS
    )


def test_somebody_answers_and_releases_by_the_commands_that_are_shown(visits):
    shown = blockveil("init", "visits.csv", "--date", "2026-12-01", typed=WORDS)
    assert 'Did you mean "person"?' in shown
    assert "The lowest value comes first" in shown
    assert "protected ten times less" in shown, "help was asked for"
    assert "p17" not in shown
    commands = [line.split("#")[0].split() for line in shown.splitlines() if line.strip().startswith("blockveil ")]
    assert [words[1] for words in commands] == ["ingest", "plan", "ledger", "run", "verify", "serve"]
    for words in commands[:5]:
        blockveil(*words[1:])
    (released,) = (visits / "visits" / "releases").rglob("*.zarr")
    group = zarr.open_group(released, mode="r")
    assert group["covariance"].shape == (5, 5)
    status = json.loads(blockveil("plan", "visits/release.toml", "--date", "2026-12-02", "--json"))
    assert status["release_id"] == "visits/correlations/2026-12-02"


def test_a_script_gives_its_answers_in_a_file_and_gets_the_same_configs(visits):
    blockveil("init", "visits.csv", "--date", "2026-12-01", typed=WORDS)
    again = visits / "visits" / "answers.toml"
    blockveil("init", "--answers", again, "--yes", "--output", "again/visits", *BESIDE)
    for name in ("release.toml", "deployments.toml", "answers.toml", "README.md"):
        again_text = (visits / "again" / "visits" / name).read_text().replace(f'new_budget = "{BESIDE[1]}"\n', "")
        assert again_text == (visits / "visits" / name).read_text()
    ingest = (visits / "again" / "visits" / "ingest.toml").read_text()
    assert '"../../visits.csv"' in ingest


def test_counts_of_averages_dates_and_categories_are_released_too(visits):
    (visits / "answers.toml").write_text(
        'source = "visits.csv"\nunit = "one visit"\nunit_column = "person"\nunit_type = "text"\nrows_per_unit = 1\n'
        'rows_at_most = 5000\nrow_count_public = false\nmissing = "drop"\npurpose = "counts"\n'
        'every = "once"\nstrictness = "strict"\n'
        '[columns]\nday = "month"\nward = ["a", "b"]\n'
    )
    shown = blockveil("init", "--answers", "answers.toml", "--yes", "--date", "2026-12-01")
    commands = [line.split("#")[0].split() for line in shown.splitlines() if line.strip().startswith("blockveil ")]
    for words in commands:
        blockveil(*words[1:])
    (released,) = (visits / "visits" / "releases").rglob("*.zarr")
    counts = np.asarray(zarr.open_group(released, mode="r")["counts"][...])
    assert counts.shape == (12, 3)
    assert abs(float(counts.sum()) - 250) < 100


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "No source is given"),
        (("visits.csv", "--yes"), "unit_column is not answered"),
        (("visits.csv", "--output", "visits.csv"), "exists already"),
        (("nowhere.csv", "--yes"), "there is no such file"),
        (("visits.csv", "--answers", "nowhere.toml"), "no such file"),
    ],
)
def test_what_cannot_be_begun_is_refused_and_nothing_is_written(visits, words, reason):
    with pytest.raises(BlockveilError) as refused:
        blockveil("init", *words)
    assert reason in getattr(refused.value, "in_full", "")
    assert [path.name for path in visits.iterdir()] == ["visits.csv"]


def test_all_open_questions_are_named_at_once_where_nobody_is_asked(visits):
    with pytest.raises(ConfigError) as refused:
        blockveil("init", "visits.csv", "--yes")
    for key in ("unit_column", "rows_at_most", "purpose", "columns", "every", "strictness"):
        assert f"{key} is not answered" in refused.value.in_full


def test_somebody_goes_back_to_an_earlier_question_or_column(visits):
    typed = [
        "<", "person as one cat", "<", "person", "text", "3", "5000", "tables", "2",
        "skip", "<", "skip", "a, b", "0 to 120 in 4", "<", "0 to 120 in 3", "skip", "true/false",
        "once", "usual", "yes",
    ]  # fmt: skip
    shown = blockveil("init", "visits.csv", "--date", "2026-12-01", typed=typed)
    assert "This is the first question" in shown
    answers = (visits / "visits" / "answers.toml").read_text()
    assert 'unit = "one person"' in answers
    assert 'age = "0 to 120 in 3"' in answers
    assert 'urgent = "yes-no"' in answers
    assert 'missing = "drop"' in answers


def test_a_guess_above_the_bound_of_the_records_is_refused_at_its_question(visits):
    typed = [words.replace("5000", "500") for words in WORDS]
    typed.insert(typed.index("500") + 1, "5000")
    shown = blockveil("init", "visits.csv", "--date", "2026-12-01", "--rows", "600", typed=typed)
    assert "rows_at_most: 500 with --rows 600" in shown
    assert "600 records (a guess)" in shown


def test_nothing_is_written_before_somebody_confirms_how_the_columns_were_understood(visits):
    lines = ["skip", "a, b", "0, 90", "0 to 90", "codes: 0, 1,000", "0 to 1,000", "yes-no"]
    again = ["skip", "a, b", "0 to 120", "0 to 1,000", "yes-no", "once", "usual"]
    typed = ["person", "text", "3", "5000", "correlations", "no", *lines, "once", "usual", "no", "no", *again]
    (visits / "visits").mkdir()
    with pytest.raises(ConfigError):
        blockveil("init", "visits.csv", "--date", "2026-12-01", typed=[*typed, "yes"])
    (visits / "visits").rmdir()
    aborted = CliRunner().invoke(app, ["init", "visits.csv", "--date", "2026-12-01"], input="\n".join([*typed, ""]))
    assert aborted.exit_code != 0
    assert not (visits / "visits").exists()
    shown = blockveil("init", "visits.csv", "--date", "2026-12-01", typed=[*typed, "yes"])
    assert "could be a range or a list" in shown
    assert "a number from 0 to 90" in shown
    assert "a number from 0 to 120" in shown
    assert "one of 2 texts: a, b" in shown
    assert 'age = "0 to 120"' in (visits / "visits" / "answers.toml").read_text()


def test_a_promise_that_no_noise_keeps_is_asked_once_more_and_no_answer_is_lost(visits):
    typed = [*WORDS[:-3], "every night until 2036-11-30", "epsilon 1e-9 delta 1e-13", "usual", "yes"]
    shown = blockveil("init", "visits.csv", "--date", "2026-12-01", typed=typed)
    assert "The last question once more" in shown
    assert 'strictness = "usual"' in (visits / "visits" / "answers.toml").read_text()


PERSONS = """
source = "visits.csv"
unit = "one person"
unit_column = "person"
unit_type = "text"
rows_per_unit = 3
rows_at_most = 5000
missing = "drop"
every = "once"
strictness = "loose"
"""
TABLES = """
purpose = "tables"
ways = 2
[columns]
age = "0 to 120 in 6"
urgent = "yes-no"
ward = "a, b"
"""
TRAINING = """
purpose = "training"
target = "urgent"
examples = 600
[columns]
age = "0 to 120"
urgent = "yes-no"
"""


@pytest.mark.parametrize("answers", [TABLES, TRAINING], ids=["tables", "training"])
def test_tables_and_models_are_released_by_the_commands_that_are_shown(visits, answers):
    (visits / "answers.toml").write_text(PERSONS + answers)
    shown = blockveil("init", "--answers", "answers.toml", "--yes", "--date", "2026-12-01", "--rows", 600)
    commands = [line.split("#")[0].split() for line in shown.splitlines() if line.strip().startswith("blockveil ")]
    for words in commands:
        blockveil(*words[1:])
    purpose = "tables" if answers is TABLES else "training"
    release = bv.open(f"visits/{purpose}/2026-12-01", root=visits / "visits" / "releases")
    if answers is TABLES:
        assert abs(release.linear_query({("age", "urgent"): np.ones((6, 2))}).value - 600) < 200
    else:
        assert len(release.predict(np.asarray([[30.0], [60.0]]))) == 2


def test_a_wide_frame_whose_bounds_nobody_knows_takes_ten_decisions_and_no_edit(visits):
    rng = np.random.default_rng(3)
    names = ["person", "age", *(f"q{i}" for i in range(6)), "is_new", *(f"cost{i}" for i in range(16))]
    columns = [rng.integers(1500, size=3000), rng.integers(90, size=3000), *rng.integers(1, 6, (6, 3000))]
    columns += [rng.integers(2, size=3000), *rng.uniform(100, 1000, (16, 3000))]
    np.savetxt("wide.csv", np.stack(columns, axis=1), "%.6g", ",", header=",".join(names), comments="")
    typed = [
        "person",
        "whole",
        "2",
        "5000",
        "correlations",
        "perhaps",
        "yes",
        "q*: 1 to 5",
        "*: unknown",
        "once",
        "loose",
        "yes",
    ]
    assert len(set(typed) - {"perhaps"}) == 10, "one line confirms what was understood"
    shown = blockveil("init", "wide.csv", "--date", "2026-12-01", typed=typed)
    assert "Answer yes or no" in shown
    assert "16 columns: cost0, cost1" in shown
    commands = [line.split("#")[0].split() for line in shown.splitlines() if line.strip().startswith("blockveil ")]
    for words in commands:
        blockveil(*words[1:])
    group = zarr.open_group(next((visits / "wide" / "releases" / "wide" / "correlations").glob("*.zarr")), mode="r")
    assert group["covariance"].shape == (24, 24)
    declared = group.attrs["learned"]["declared_geometry"]
    bounds = {each["name"]: (each["lower"], each["upper"]) for each in declared["features"]}
    assert bounds["q3"] == (1.0, 5.0)
    assert bounds["is_new"] == (0.0, 1.0)
    assert bounds["cost7"] == (-1e15, 1e15)
    found = group.attrs["learned"]["stages"]["nearer_pilot"]["query"]["geometry"]["features"]
    assert {each["name"]: each["upper"] for each in found}["cost7"] <= 2048.0


def test_a_line_may_correct_a_suggestion_and_what_names_no_column_is_said(visits):
    lines = ["wrd: a, b", "ag*: 0 to 99", "age: 18 to 99", "<", "age: 20 to 99", "*: skip"]
    typed = ["person", "text", "3", "5000", "correlations", "yes", *lines, "once", "usual", "yes"]
    shown = blockveil("init", "visits.csv", "--date", "2026-12-01", typed=typed)
    assert 'Did you mean "ward"?' in shown
    assert "0 columns" in shown, "a pattern does not replace what is answered"
    answers = (visits / "visits" / "answers.toml").read_text()
    assert '[columns]\nage = "20 to 99"\n' in answers
    assert "urgent" not in answers


def test_an_end_of_the_input_writes_nothing(visits):
    done = CliRunner().invoke(app, ["init", "visits.csv"], input="person\n")
    assert done.exit_code != 0
    assert [path.name for path in visits.iterdir()] == ["visits.csv"]


def test_a_guess_of_the_rows_says_how_exact_it_would_be_and_enters_no_file(visits):
    blockveil("init", "visits.csv", "--date", "2026-12-01", typed=WORDS)
    shown = blockveil(
        "init", "--answers", "visits/answers.toml", "--yes", "--output", "more/visits", "--rows", "4321", *BESIDE
    )
    assert "mean ±" in shown
    assert "4,321 records (a guess)" in shown
    for file in ("release.toml", "answers.toml", "README.md"):
        text = (visits / "more" / "visits" / file).read_text().replace(f'new_budget = "{BESIDE[1]}"\n', "")
        assert text == (visits / "visits" / file).read_text()


@pytest.mark.parametrize(("every", "told"), [('"once"', False), ('"night"\nuntil = 2026-12-31', True)])
def test_fewer_nights_are_advised_only_to_whom_asked_for_several(visits, every, told):
    often = PERSONS.replace('"once"', every)
    columns = "purpose = 'totals'\n[columns]\nage = '0 to 120'\ncost = '0 to 900'\n"
    (visits / "answers.toml").write_text(often + columns)
    begun = blockveil("init", "--answers", "answers.toml", "--yes", "--date", "2026-12-01", "--rows", 600, "--json")
    planned = blockveil("plan", "visits/release.toml", "--date", "2026-12-01", "--rows", 600, "--json")
    for shown in (begun, planned):
        whats = [lever["what"] for lever in json.loads(shown)["accuracy"]["options"]]
        assert any("one night a week in place of every night" in what for what in whats) == told
        assert any("31 nights in one shared charge" in what for what in whats) == told
        assert not any("28 nights" in what for what in whats)
