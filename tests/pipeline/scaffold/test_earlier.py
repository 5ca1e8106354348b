"""A further question about a source joins the ledger, the keys, the store and the budget of the first one."""

from __future__ import annotations

import os
import tomllib
import warnings
from datetime import date
from pathlib import Path

import pytest

import blockveil as bv
from blockveil.pipeline.base.errors import BudgetExhausted, ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest import known_sources
from blockveil.pipeline.ledger import Ledger

FIRST = {
    "unit_column": "person", "unit_type": "whole", "rows_per_unit": 2, "rows_at_most": 20000, "row_count_public": False,
    "purpose": "correlations",
    "every": "once", "strictness": "usual", "columns": {"age": "0 to 120", "cost": "0 to 1,000"},
}  # fmt: skip
TABLES = {"purpose": "tables", "ways": 2, "every": "once", "strictness": "usual"}
CELLS = {"columns": {"age": "0 to 120 in 4", "cost": "0 to 1,000 in 5"}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    lines = [f"{row % 150},{row % 90},{row % 997}" for row in range(300)]
    Path("visits.csv").write_text("person,age,cost\n" + "\n".join(lines) + "\n")
    return tmp_path


def begin(source="visits.csv", **given):
    return bv.init(source, date="2026-12-01", **{**FIRST, **given})


def join(source="visits.csv", **given):
    return bv.init(source, date="2026-12-01", **{**TABLES, **CELLS, **given})


def test_a_second_question_asks_what_is_new_and_has_the_first_ones_ledger_keys_and_budget(folder):
    first, second = begin(), join()
    assert second.folder == first.folder
    one, two = load_config(first.folder / "release.toml"), load_config(first.folder / "tables.toml")
    assert (two.ledger_url, two.config.output.keys) == (one.ledger_url, one.config.output.keys)
    assert two.config.release.account == one.config.release.account
    assert two.config.privacy.unit == one.config.privacy.unit
    assert two.config.release.name != one.config.release.name
    assert not (first.folder / "tables-ingest.toml").exists(), "the first one's store holds what it reads"


def test_both_are_released_from_one_budget_that_the_second_raises_by_what_it_says(folder):
    first = begin()
    bv.ingest(first.folder / "ingest.toml")
    bv.budget(first.config).grant(epsilon=3.0, delta=1e-7)
    bv.run(first.config, date="2026-12-01")
    shown = str(join())
    assert "raises the promise from epsilon 3" in shown
    assert "which reads the same source" in shown
    command = next(line for line in shown.splitlines() if "ledger grant visits" in line).split()
    epsilon = float(command[command.index("--epsilon") + 1])
    assert 3.0 < epsilon < 6.0, "less than the sum, as Gaussian losses add up in squares"
    tables = first.folder / "tables.toml"
    with pytest.raises(BudgetExhausted):
        bv.run(tables, date="2026-12-01")
    bv.budget(tables).grant(epsilon=epsilon, delta=1e-7)
    bv.run(tables, date="2026-12-01")
    status = Ledger(load_config(tables).ledger_url).budget("visits")
    assert status.charges == 2
    assert status.spent_epsilon <= epsilon


def test_the_same_records_are_read_from_the_first_ones_store(folder):
    first = begin()
    second = bv.init("visits.csv", date="2026-12-01", **{**FIRST, "purpose": "totals"})
    assert not (first.folder / "totals-ingest.toml").exists()
    other = {"columns": {"age": "codes: 1, 2", "cost": "0 to 1,000 in 5"}}
    join(**other)
    assert load_ingest(first.folder / "tables-ingest.toml").config.unit.column == "person"
    assert load_config(first.folder / "tables.toml").store_path != load_config(first.config).store_path
    one, two = load_config(first.config), load_config(second.folder / "totals.toml")
    assert two.store_path == one.store_path


def test_the_nights_of_a_second_question_are_scheduled_beside_the_first_ones(folder):
    first = begin(every="night", until=date(2026, 12, 10))
    join(every="week", until=date(2026, 12, 31))
    nights = tomllib.loads((first.folder / "deployments.toml").read_text())["night"]
    assert [night["config"] for night in nights] == ["release", "tables"]


def test_a_third_question_of_the_same_purpose_has_a_name_of_its_own(folder):
    begin()
    second = bv.init("visits.csv", date="2026-12-01", **{**FIRST, "columns": {"age": "0 to 99", "cost": "0 to 9"}})
    assert (second.folder / "correlations-2.toml").exists()


@pytest.mark.parametrize("way", ["another name", "a link", "from below", "the pattern", "the folder", "remembered"])
def test_a_source_is_known_by_where_it_is_whatever_it_is_called(folder, monkeypatch, way):
    first = begin()
    source, output = "visits.csv", "two"
    match way:
        case "a link":
            Path("link.csv").symlink_to("visits.csv")
            source = "link.csv"
        case "from below":
            Path("below").mkdir()
            monkeypatch.chdir("below")
            source = "../visits.csv"
            bv.ingest(first.folder / "ingest.toml")
        case "the pattern":
            source = "vis*.csv"
        case "the folder":
            Path("more").mkdir()
            os.link("visits.csv", "more/visits.csv")
            begin("more/visits.csv", output="third", new_budget="another file")
            source = "more"
        case "remembered":
            bv.ingest(first.folder / "ingest.toml")
            elsewhere = folder.parent / f"{folder.name}-elsewhere"
            elsewhere.mkdir()
            monkeypatch.chdir(elsewhere)
            source = str(folder / "visits.csv")
    with pytest.raises(ConfigError, match="reads the same source") as refused:
        begin(source, output=output)
    assert "new-budget" in str(refused.value)
    assert not Path(output).exists()


def test_another_budget_over_the_same_people_takes_a_reason_that_its_ledger_keeps(folder):
    first = begin()
    second = begin(output="two", new_budget="the auditors asked for one")
    assert second.folder != first.folder
    bv.budget(second.config).grant(epsilon=3.0, delta=1e-7)
    entries = Ledger(load_config(second.config).ledger_url).history()
    assert entries[0].payload["new_budget"] == "the auditors asked for one"


def test_an_ingest_names_the_ledger_that_pays_for_the_same_source_already(folder):
    first, second = begin(), begin(output="two", new_budget="the auditors asked for one")
    bv.ingest(first.folder / "ingest.toml")
    with pytest.warns(UserWarning, match="another ledger pays for") as warned:
        bv.ingest(second.folder / "ingest.toml")
    assert str(first.folder) in str(warned[0].message)
    assert oct((folder / "state" / "blockveil" / "sources.json").stat().st_mode & 0o777) == "0o600"


def test_what_is_remembered_and_cannot_be_read_or_written_stops_no_ingest(folder):
    first = begin()
    state = folder / "state" / "blockveil"
    state.mkdir(parents=True)
    (state / "sources.json").write_text("[not json")
    bv.ingest(first.folder / "ingest.toml")
    (folder / "state").chmod(0o755)
    assert known_sources.remembered() == []


@pytest.mark.parametrize(("key", "value"), [("unit_column", "cost"), ("row_count_public", True), ("dataset", "other")])
def test_an_answer_that_would_put_other_units_under_the_budget_is_refused(folder, key, value):
    begin()
    with pytest.raises(ConfigError, match=key):
        join(**{key: value})


def test_no_message_advises_to_remove_a_folder(folder):
    Path("visits").mkdir()
    with pytest.raises(ConfigError, match="exists already") as refused:
        begin()
    assert "remove" not in str(refused.value)
    Path("other.csv").write_text("person,age,cost\n1,2,3\n")
    Path("visits").rmdir()
    begin()
    with pytest.raises(ConfigError, match="exists already") as refused:
        begin("other.csv", output="visits")
    assert "remove" not in str(refused.value)


def test_files_of_other_sources_are_no_part_of_one_another():
    assert known_sources.overlap(["/a/visits.csv"], ["/a/visits.csv"])
    assert known_sources.overlap(["/a/*.csv"], ["/a/visits.csv"])
    assert known_sources.overlap(["/a"], ["/a/visits.csv"])
    assert not known_sources.overlap(["/a/visits.csv"], ["/a/visits.csv2"])
    assert not known_sources.overlap(["/a/wards.csv"], ["/a/visits.csv"])
    assert not known_sources.overlap(["duckdb:/a/c.duckdb:visits"], ["duckdb:/a/c.duckdb:wards"])


def test_files_are_the_same_under_every_name_that_leads_to_them(folder):
    Path("in").mkdir()
    Path("beside").mkdir()
    os.link("visits.csv", "in/other-name.csv")
    Path("beside/link").symlink_to(folder / "in")
    Path("wards.csv").write_text("ward\n1\n")

    def same(one, other):
        return known_sources.overlap((known_sources.path_name(one, folder),), (known_sources.path_name(other, folder),))

    for name in (
        "in",
        "in/",
        "in/../in/other-name.csv",
        "in/*.csv",
        "i?/oth*",
        "beside/link",
        "beside/../visits.csv",
        "*.csv",
    ):
        assert same("visits.csv", name), name
        assert same(name, "visits.csv"), name
    for name in ("wards.csv", "beside", "w*.csv", "nowhere.csv"):
        assert not same("visits.csv", name), name


def test_tables_are_the_same_with_and_without_the_schema_that_is_meant(monkeypatch, tmp_path):
    def named(kind, table):
        return known_sources.table_name(kind, "/a/clinic", table)

    assert (
        len({named("duckdb", name) for name in ("visits", "main.Visits", '"main"."visits"', "clinic.main.visits")}) == 1
    )
    assert len({named("postgresql", name) for name in ("visits", "public.visits", 'public."visits"')}) == 1
    assert named("postgresql", "archive.visits") != named("postgresql", "visits")
    monkeypatch.setenv("ONE", "postgresql://nurse:secret@db:5432/clinic")
    monkeypatch.setenv("TWO", "postgresql://doctor:other@db/clinic?sslmode=require")
    monkeypatch.setenv("OTHER", "postgresql://doctor:other@db/archive")
    one, two, other = ({*known_sources.server_names(f"env:{name}", tmp_path)} for name in ("ONE", "TWO", "OTHER"))
    assert one & two
    assert not one & other
    (tmp_path / "c.duckdb").write_bytes(b"a database")
    os.link(tmp_path / "c.duckdb", tmp_path / "linked.duckdb")
    places = [f"duckdb:{tmp_path}/{name}" for name in ("c.duckdb:visits", "linked.duckdb:visits", "c.duckdb:wards")]
    assert known_sources.overlap(places[:1], places[1:2])
    assert not known_sources.overlap(places[:2], places[2:])
    assert known_sources.server_names("env:NONE", tmp_path) == ("env:NONE",)
    assert not any("secret" in name for name in one)


@pytest.mark.parametrize("way", ["a hard link", "a folder with it", "the folder in another spelling"])
def test_a_first_question_by_another_name_of_the_file_takes_a_reason(folder, way):
    Path("in").mkdir()
    os.link("visits.csv", "in/v.csv")
    begin()
    with pytest.raises(ConfigError, match="reads the same source"):
        begin(
            {"a hard link": "in/v.csv", "a folder with it": "in", "the folder in another spelling": "./in/"}[way],
            output="two",
        )


def test_an_ingest_of_a_copy_elsewhere_names_the_ledger_that_pays_for_the_same_bytes(folder, monkeypatch):
    first = begin()
    bv.ingest(first.folder / "ingest.toml")
    elsewhere = folder.parent / f"{folder.name}-elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    Path("copied.csv").write_bytes((folder / "visits.csv").read_bytes())
    second = begin("copied.csv")
    with pytest.warns(UserWarning, match="another ledger pays for") as warned:
        bv.ingest(second.folder / "ingest.toml")
    assert str(first.folder) in str(warned[0].message)
    Path("other.csv").write_text(Path("copied.csv").read_text().replace("1,1,1\n", "1,1,2\n"))
    third = begin("other.csv", dataset="other", output="third")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bv.ingest(third.folder / "ingest.toml")
