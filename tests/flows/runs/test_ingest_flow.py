"""Ingest from the command line and as a Prefect flow: what they show holds no value and no number of records."""

import re
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zarr
from prefect import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

from blockveil.flows import cli
from blockveil.flows.runs import artifacts, deployed
from blockveil.flows.runs.ingest_flow import ingest_dataset
from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.pipeline.data.ingest import ingest_staging, readers
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.database_support import Database

CONFIGS = Path(__file__).resolve().parents[3] / "configs"


@pytest.fixture
def source(tmp_path):
    """A source with a canary, and its config."""
    table = people.visits(487)
    table = table.set_column(1, "cost", pa.array([people.CANARY, *table["cost"].to_pylist()[1:]]))
    people.write_parquet(tmp_path, table)
    return people.configure(tmp_path, people.COLUMNS, dtype="float64")


def command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["blockveil", *map(str, words)])
    try:
        cli.main()
    except SystemExit as end:
        return end.code or 0
    return 0


def test_the_command_makes_the_store_and_says_whose_it_is(source, monkeypatch, capsys):
    assert command(monkeypatch, "ingest", source.path) == 0
    first = capsys.readouterr()
    assert "one visit (one row): one record each" in first.out
    assert "read the whole source" in first.out
    assert first.err == ""
    assert not re.search(r"\b487\b", first.out.replace(str(source.path.parent), ""))
    assert "271828" not in first.out
    assert command(monkeypatch, "ingest", source.path) == 0
    assert "already; nothing was read" in capsys.readouterr().out
    assert zarr.open_array(source.target / "records", mode="r").shape == (487, 6)


def test_a_refusal_is_two_lines_and_the_exit_code_of_bad_data(source, monkeypatch, capsys):
    people.configure(source.path.parent, [{"name": "ward", "kind": "number", "missing": "refuse"}])
    assert command(monkeypatch, "ingest", source.path) == 4
    shown = capsys.readouterr().err
    assert 'column "ward" is of type string' in shown
    assert len(shown.strip().splitlines()) == 2


def test_what_an_unfinished_ingest_left_is_discarded_on_demand(source, monkeypatch, capsys):
    with ingest_staging.locked(source.target) as root:
        ingest_staging.resumed(root, "unfinished").save(runs=1)
    assert command(monkeypatch, "ingest", source.path, "--discard") == 0
    assert "is removed" in capsys.readouterr().out
    assert people.left(source.path.parent) == []
    assert command(monkeypatch, "ingest", source.path, "--discard") == 0
    assert "left anything" in capsys.readouterr().out


def test_the_example_makes_the_store_that_the_quickstart_reads(tmp_path, monkeypatch, capsys):
    text = (CONFIGS / "ingest-example.toml").read_text().replace('"../build/', '"build/')
    (tmp_path / "example.toml").write_text(text.replace('"data/', f'"{CONFIGS}/data/'))
    assert command(monkeypatch, "ingest", tmp_path / "example.toml") == 0
    store = tmp_path / "build" / "quickstart" / "credit_default.zarr" / "records"
    with np.load(CONFIGS / "data" / "credit_default" / "credit_default.npz") as bundle:
        np.testing.assert_array_equal(zarr.open_array(store, mode="r")[...], bundle["records"])
    release_config = (CONFIGS / "quickstart.toml").read_text().replace("../build/", "build/")
    (tmp_path / "release.toml").write_text(release_config.replace('kind = "local"\nworkers = 2', 'kind = "threads"'))
    arguments = ["--epsilon", "3", "--delta", "1e-5"]
    assert command(monkeypatch, "ledger", "grant", tmp_path / "release.toml", *arguments) == 0
    assert command(monkeypatch, "run", tmp_path / "release.toml", "--date", "2026-11-20", "--no-prefect") == 0
    assert "Released credit-default/covariance/2026-11-20" in capsys.readouterr().out


@pytest.mark.usefixtures("prefect")
def test_the_flow_makes_the_store_and_prefect_sees_no_value(source, monkeypatch, caplog):
    monkeypatch.setenv(CONFIG_ROOT, str(source.path.parent))
    state = ingest_dataset(config="ingest", return_state=True)
    assert state.is_completed()
    assert state.message == "out.zarr: read the whole source."
    with get_client(sync_client=True) as client:
        wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[state.state_details.flow_run_id]))
        found = client.read_artifacts(artifact_filter=wanted)
    assert [artifact.key for artifact in found] == ["ingest-progress"]
    shown = caplog.text + repr(state) + repr(found)
    assert "271828" not in shown
    assert "487" not in state.message


@pytest.mark.usefixtures("prefect")
def test_the_flow_reads_the_dates_of_a_table_that_are_over_in_the_night_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    monkeypatch.setattr(deployed.Deployed, "night", lambda _: nights[-1])
    monkeypatch.setattr(deployed.Deployed, "today", lambda _: todays[-1])
    database = Database("sqlite", tmp_path)
    database.execute(
        "CREATE TABLE visits (person INTEGER, stay INTEGER, day TEXT)",
        *[f"INSERT INTO visits VALUES (1, {day}, '2026-03-{day:02d}')" for day in range(1, 6)],
    )
    arrival = 'arrival = { column = "day", first = 2026-03-01 }'
    people.configure(
        tmp_path, grown.COLUMNS, database.source("SELECT person, stay FROM visits", arrival), append=True, late="refuse"
    )
    held, nights, todays = [], [], []
    # Before the last night, the run of a midnight that clocks skip is planned in the evening, whose date is not over.
    for night, day in ((2, 2), (5, 4), (6, 6)):
        nights.append(date(2026, 3, night))
        todays.append(date(2026, 3, day))
        assert ingest_dataset(config="ingest", return_state=True).is_completed()
        held.append(grown.records(tmp_path)[:, 1].tolist())
    assert held == [[1], [1, 2, 3], [1, 2, 3, 4, 5]]


@pytest.mark.usefixtures("prefect")
def test_the_flow_appends_and_tells_nobody_how_many_files_were_new(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    said = []
    for night in range(3):
        if night < 2:
            grown.put(tmp_path, night)
        grown.configure(tmp_path)
        state = ingest_dataset(config="ingest", return_state=True)
        assert state.is_completed()
        said.append(state.message.removeprefix("out.zarr: "))
    assert said == [
        "read the whole source.",
        "appended what was new in the source.",
        "the store holds every file of the source already; nothing was read.",
    ]
    assert "new files" not in caplog.text


@pytest.mark.usefixtures("prefect")
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_the_flow_reads_a_table_and_prefect_sees_no_value(tmp_path, monkeypatch, caplog, kind):
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    database, table = Database(kind, tmp_path), people.visits(487)
    database.put(table.set_column(3, "ward", pa.array(["a", *[f"x{people.CANARY}"] * 486])))
    people.configure(tmp_path, people.COLUMNS, database.source())
    made = ingest_dataset(config="ingest", return_state=True)
    assert made.message == "out.zarr: read the whole source."
    database.execute("UPDATE visits SET stay = NULL WHERE stay = 7")
    people.configure(tmp_path, people.COLUMNS, database.source(), store="other.zarr")
    failed = ingest_dataset(config="ingest", return_state=True)
    assert failed.name == "BadData"
    assert 'Table "visits", column "stay" holds a missing value' in failed.message
    shown = caplog.text + repr(made) + repr(failed)
    assert "271828" not in shown
    assert not re.search(r"\b487\b", shown)


@pytest.mark.usefixtures("prefect")
def test_progress_that_prefect_sees_does_not_count_batches(source, monkeypatch):
    monkeypatch.setenv(CONFIG_ROOT, str(source.path.parent))
    monkeypatch.setattr(readers, "BATCH_BYTES", 8 * 7 * 6)  # batches of a few rows
    shares = []
    monkeypatch.setattr(artifacts.Teller, "__call__", lambda self, stage, share: shares.append(share))
    assert ingest_dataset(config="ingest", return_state=True).is_completed()
    assert len(shares) > 20
    assert {20 * share for share in shares} <= set(range(21))
    assert shares[-1] == 1.0


@pytest.mark.usefixtures("prefect")
def test_a_failed_flow_says_why_and_that_no_store_was_made(source, monkeypatch):
    monkeypatch.setenv(CONFIG_ROOT, str(source.path.parent))
    people.configure(source.path.parent, [{"name": "ward", "kind": "number", "missing": "refuse"}])
    state = ingest_dataset(config="ingest", return_state=True)
    assert (state.name, state.is_failed()) == ("BadData", True)
    assert 'column "ward" is of type string' in state.message
    assert "No store was made, and one that grows is as it was." in state.message
    assert ingest_dataset(config="../ingest", return_state=True).name == "BadConfig"
