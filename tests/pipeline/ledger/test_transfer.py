"""Exports and imports: a ledger moves whole, or not at all."""

import io
import json
import shutil
import uuid
from datetime import datetime

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.schema import row_hash
from blockveil.pipeline.ledger.transfer import read_rows
from blockveil.testing.ledger_support import make, reserve


@pytest.fixture
def ledger(tmp_path):
    ledger = make(tmp_path, 5.0)
    for night in ("2026-11-18", "2026-11-19", "once"):
        charge = reserve(ledger, night, spec={"text": 'a "quoted", comma\nand line', "data": {"fingerprint": "f" * 64}})
        if night == "once":
            ledger.void_if_reserved(charge.charge_id, "DataError")
        else:
            ledger.commit(charge.charge_id, "check")
            ledger.released(charge.charge_id, "d" * 64, "place")
    return ledger


def handed_over(ledger, target):
    """Rows of a ledger that was closed for another one."""
    ledger.close_for(target._url)
    return read_rows(exported(ledger, "jsonl"))


def exported(ledger, form):
    stream = io.StringIO(newline="")
    ledger.export(form, stream)
    stream.seek(0)
    return stream


@pytest.fixture(params=["sqlite", "postgres"])
def target(request, tmp_path):
    if request.param == "sqlite":
        return Ledger(f"sqlite:///{tmp_path / 'copy.db'}")
    server = request.getfixturevalue("postgres")
    return Ledger(server.url(server.new_database()))


def test_an_import_is_the_same_ledger_and_goes_on(ledger, target):
    rows = handed_over(ledger, target)
    found = target.load(rows, ledger.head())
    assert found.problems == []
    assert target.history()[:-1] == ledger.history()
    assert (target.history()[-1].kind, target.history()[-1].previous_hash) == ("OPENED", ledger.head().hash)
    assert target.budget("people") == ledger.budget("people")
    assert exported(target, "jsonl").read().startswith(exported(ledger, "jsonl").read())
    assert not reserve(target, "2026-11-18", spec=ledger.history()[1].payload["spec"]).is_new
    target.commit(reserve(target, "next").charge_id, "check")
    assert target.verify(ledger.head()).problems == []


def test_an_export_goes_on_nowhere_but_where_its_ledger_was_closed_for(ledger, target, tmp_path):
    with pytest.raises(LedgerError, match="not closed for this address"):
        target.load(read_rows(exported(ledger, "jsonl")))
    assert not target.exists()
    rows = handed_over(ledger, target)
    other = Ledger(f"sqlite:///{tmp_path / 'other.db'}")
    with pytest.raises(LedgerError, match="not closed for this address"):
        other.load(rows)
    assert not other.exists()
    assert reserve_is_refused(ledger)
    target.load(rows)
    assert reserve(target, "next").is_new


def reserve_is_refused(ledger):
    before = ledger.history()
    with pytest.raises(LedgerError, match="spend its budget twice"):
        reserve(ledger, "more")
    return ledger.history() == before


@pytest.mark.parametrize("closed", [False, True])
def test_a_copy_is_read_and_spends_nothing(ledger, target, tmp_path, closed):
    if closed:
        ledger.close_for(f"sqlite:///{tmp_path / 'elsewhere.db'}")
    rows = read_rows(exported(ledger, "jsonl"))
    for _ in range(2):
        found = target.load(rows, ledger.head(), as_copy=True)
    assert (found.problems, found.entries) == ([], len(rows) + (not closed))
    assert target.budget("people") == ledger.budget("people")
    assert reserve_is_refused(target)
    with pytest.raises(LedgerError, match="closed already"):
        target.close_for(f"sqlite:///{tmp_path / 'third.db'}")


def test_an_import_into_a_ledger_with_entries_is_refused(ledger, target):
    rows = handed_over(ledger, target)
    target.load(rows)
    assert target.load(rows).entries == len(rows) + 1, "the same import again changes nothing"
    reserve(target, "more")
    before = target.history()
    with pytest.raises(LedgerError, match="has entries already"):
        target.load(rows)
    assert target.history() == before


def edited(rows):
    rows[2]["payload"] = "{}"


def forged(rows):
    rows[1]["loss_ticks"] = -1
    rows[1]["hash"] = row_hash(rows[1])


@pytest.mark.parametrize("change", [edited, forged, lambda rows: rows.pop(3), lambda rows: rows.reverse()])
def test_a_broken_chain_is_not_imported(ledger, target, change):
    rows = handed_over(ledger, target)
    change(rows)
    with pytest.raises(LedgerError, match="does not verify"):
        target.load(rows)
    assert not target.exists()


def test_a_truncated_export_is_refused_by_its_head(ledger, target):
    rows = handed_over(ledger, target)[:-3]
    with pytest.raises(LedgerError, match="cut off or rewritten"):
        target.load(rows, ledger.head())
    with pytest.raises(LedgerError, match="no entries"):
        target.load([])
    assert not target.exists()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}\n",
        "[1]\n",
        "a,b\n1,2\n",
        "sequence,kind\n1,BUDGET\n",
        "\x00\n\x00\n",
        '{"sequence": "1"}\n',
        "{" * 100_000,
    ],
)
def test_what_is_no_export_is_refused(text):
    with pytest.raises(LedgerError, match="not an entry"):
        read_rows(io.StringIO(text))


class Endless(io.StringIO):
    """One line that never ends, as /dev/zero is."""

    def readline(self, size=-1, /):
        assert size > 0, "it would be read until the memory is full"
        return "0" * size


def test_a_line_without_an_end_is_refused():
    with pytest.raises(LedgerError, match="Entry 1 of the file is not an entry"):
        read_rows(Endless())


@pytest.mark.parametrize(
    ("name", "value"), [("sequence", "x"), ("sequence", True), ("time", None), ("payload", 3), ("more", 1)]
)
def test_a_value_of_another_type_is_refused(ledger, name, value):
    lines = exported(ledger, "jsonl").read().splitlines()
    lines[2] = json.dumps({**json.loads(lines[2]), name: value})
    with pytest.raises(LedgerError, match="Entry 3"):
        read_rows(io.StringIO("\n".join(lines)))


def test_the_commands_move_a_ledger_to_another_database(ledger, tmp_path, postgres, monkeypatch):
    monkeypatch.setenv("TEAM_LEDGER", postgres.url(postgres.new_database()))
    source, file, head = str(tmp_path / "ledger.db"), str(tmp_path / "export.jsonl"), str(tmp_path / "head.json")

    def run(*words):
        done = CliRunner().invoke(app, ["ledger", *words])
        assert done.exit_code == 0, done.exception
        return done.output

    move = ("--ledger", source, "--close-for", "env:TEAM_LEDGER")
    refused = CliRunner().invoke(app, ["ledger", "export", *move])
    assert "Give --output" in str(refused.exception)
    assert not reserve(ledger, "still-open").key_check
    run("export", *move, "--output", file)
    run("head", "--ledger", source, "--output", head)
    assert "goes on here" in run("admin", "import", file, "--ledger", "env:TEAM_LEDGER", "--head", head)
    assert f"{len(ledger.history()) + 1} entries" in run("verify", "--ledger", "env:TEAM_LEDGER", "--head", head)
    assert "CLOSED (it goes on at another address)" in run("show", "--ledger", source)
    assert "OPENED" in run("show", "--ledger", "env:TEAM_LEDGER")
    assert "for reading" in run("admin", "import", file, "--ledger", str(tmp_path / "copy.db"), "--as-copy")
    refused = CliRunner().invoke(
        app, ["ledger", "admin", "import", str(tmp_path / "absent"), "--ledger", "env:TEAM_LEDGER"]
    )
    assert "cannot be read" in str(refused.exception)


@pytest.mark.parametrize("words", [["export"], ["export", "--close-for", "elsewhere.db"], ["head"]])
@pytest.mark.parametrize("name", ["ledger.db", "backup.db"])
def test_a_ledger_or_its_backup_is_never_written_over(ledger, tmp_path, words, name):
    shutil.copy(tmp_path / "ledger.db", tmp_path / "backup.db")
    before = ledger.history()
    output = ["--ledger", str(tmp_path / "ledger.db"), "--output", str(tmp_path / name)]
    refused = CliRunner().invoke(app, ["ledger", *words, *output])
    assert f'"{name}" is a database' in str(refused.exception)
    assert ledger.history() == before
    assert Ledger(f"sqlite:///{tmp_path / 'backup.db'}").history() == before


def test_a_new_export_is_for_its_owner_alone(ledger, tmp_path):
    file = tmp_path / "export.jsonl"
    for _ in range(2):  # an earlier export is replaced
        done = CliRunner().invoke(
            app, ["ledger", "export", "--ledger", str(tmp_path / "ledger.db"), "--output", str(file)]
        )
        assert done.exit_code == 0, done.exception
    assert len(file.read_text().splitlines()) == len(ledger.history())
    assert file.stat().st_mode & 0o077 == 0


TEXT = {"type": "string", "minLength": 1}
FACETS = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "required": ["_producer", "_schemaURL"],
        "properties": {"_producer": {**TEXT, "format": "uri"}, "_schemaURL": {**TEXT, "format": "uri"}},
    },
}
NAMED = {"type": "object", "required": ["namespace", "name"], "properties": {"namespace": TEXT, "name": TEXT}}
RUN_EVENT = {
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "eventTime": {**TEXT, "format": "date-time"},
        "producer": {**TEXT, "format": "uri"},
        "schemaURL": {**TEXT, "format": "uri", "pattern": "^https://openlineage.io/spec/2-0-2/OpenLineage.json#/"},
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {"runId": {**TEXT, "format": "uuid"}, "facets": FACETS},
        },
        "job": NAMED,
        "inputs": {"type": "array", "items": NAMED},
        "outputs": {"type": "array", "items": NAMED},
    },
}
"""What version 2-0-2 of the specification requires of a run event."""


def test_lineage_events_are_run_events_and_hold_nothing_private(ledger):
    text = exported(ledger, "openlineage").read()
    events = [json.loads(line) for line in text.splitlines()]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE", "START", "COMPLETE", "START", "ABORT"]
    for event in events:
        Draft202012Validator(RUN_EVENT).validate(event)
        assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
        assert uuid.UUID(event["run"]["runId"])
        privacy = event["run"]["facets"]["blockveil_privacy"]
        assert 0 < privacy["epsilon"] < 1
        assert (privacy["delta"], privacy["neighbours"]) == (1e-6, "add-remove")
    first, sealed = events[:2]
    assert first["run"]["runId"] == sealed["run"]["runId"]
    assert first["outputs"] == []
    assert sealed["outputs"] == [{"namespace": "blockveil", "name": "people/covariance/2026-11-18"}]
    assert sealed["job"]["name"] == "people/covariance"
    assert sealed["run"]["facets"]["nominalTime"]["nominalStartTime"] == "2026-11-18T00:00:00Z"
    assert "nominalTime" not in events[-1]["run"]["facets"]
    for private in ("f" * 64, "fingerprint", "place", "check"):
        assert private not in text
