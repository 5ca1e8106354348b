"""Backup and restore: what was published shows that a ledger has forgotten charges, and nothing is spent with it."""

import shutil
import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from blockveil.flows.cli import app, night_commands
from blockveil.pipeline.base.errors import LedgerError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.released import read_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.marks import folder
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import lost_ledger, night
from blockveil.pipeline.releases.compute import ThreadCompute
from tests.house import support

EVENTS = """
neighbours = "add-remove"
unit = "one person (one row)"

[[event]]
kind = "gaussian"
mu = 0.24  # the night that was forgotten had 0.237
"""


@pytest.fixture
def site(tmp_path):
    return support.prepare(tmp_path)


def run(loaded, day):
    plan = make_plan(loaded, date(2026, 11, day))
    return night.run_release(plan, ThreadCompute(1), "test", lambda *_: None)


def blockveil(*words):
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)


def copy_of(ledger, to):
    """What docs/operations.md says: a copy while the ledger may be in use."""
    with closing(sqlite3.connect(ledger)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)
    return to


def put_back(loaded, copy):
    """As after the loss of a disk: nothing of the old ledger is left."""
    for extra in ("", "-wal", "-shm"):
        loaded.ledger_path.with_name(loaded.ledger_path.name + extra).unlink(missing_ok=True)
    shutil.copy(copy, loaded.ledger_path)


def on_another_machine(loaded):
    """The account has no mark there, and somebody attests that nothing was put back."""
    shutil.rmtree(folder())
    blockveil("ledger", "admin", "attest", loaded.path, "--by", "J. Doe", "--why", "a new machine")


def spent(loaded):
    return Ledger(loaded.ledger_url).budget("people").spent_mu


def test_ledger_and_releases_that_are_lost_and_restored_spend_on_where_they_were(site, tmp_path):
    first = run(site, 19)
    run(site, 20)
    before = spent(site)
    copy = copy_of(site.ledger_path, tmp_path / "copy.db")
    shutil.copytree(site.output_root, tmp_path / "releases-copy")
    shutil.rmtree(site.output_root)
    put_back(site, copy)
    shutil.copytree(tmp_path / "releases-copy", site.output_root)

    assert blockveil("ledger", "verify", site.path).exit_code == 0
    assert read_release(first.pointer).output_digest == first.output_digest
    assert spent(site) == before
    assert "complete already" in run(site, 20).resumed, "a restored night is neither drawn nor charged again"
    assert spent(site) == before
    run(site, 21)
    assert spent(site) > before


def test_a_restored_ledger_that_is_older_than_a_release_spends_nothing_until_it_is_put_right(site, tmp_path):
    run(site, 19)
    copy = copy_of(site.ledger_path, tmp_path / "copy.db")
    newest = run(site, 20)
    whole = copy_of(site.ledger_path, tmp_path / "whole.db")
    before = spent(site)
    put_back(site, copy)
    on_another_machine(site)
    entries = len(Ledger(site.ledger_url).history())
    assert Ledger(site.ledger_url).verify().problems == [], "the chain itself is sound: that is the danger"

    for day in (20, 21):  # the forgotten night and the next one
        with pytest.raises(LedgerError, match="paid for people/covariance/2026-11-20"):
            run(site, day)
    with pytest.raises(LedgerError, match="is not in this ledger"):
        blockveil("ledger", "verify", site.path)
    assert len(Ledger(site.ledger_url).history()) == entries, "nothing was written"

    put_back(site, whole)
    on_another_machine(site)
    assert blockveil("ledger", "verify", site.path).exit_code == 0
    assert spent(site) == before

    # Where there is no newer copy: book what was forgotten, and put away what the ledger does not know.
    put_back(site, copy)
    on_another_machine(site)
    (tmp_path / "events.toml").write_text(EVENTS)
    booked = blockveil(
        "ledger", "charge", site.path, tmp_path / "events.toml", "--name", "forgotten", "--date", "2026-11-20"
    )
    assert booked.exit_code == 0, booked.output
    with pytest.raises(LedgerError, match="is not in this ledger"):
        run(site, 21)
    away = tmp_path / "away"
    away.mkdir()
    for file in newest.pointer.parent.glob("2026-11-20*"):
        shutil.move(file, away)
    assert spent(site) >= before
    run(site, 21)


LOST = "The disk of the 20th; decided by the privacy officer"


def grant(loaded, *words):
    found = CliRunner().invoke(app, ["ledger", "grant", str(loaded.path), "--epsilon", "3", "--delta", "1e-5", *words])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


@pytest.fixture(params=["sqlite", "postgresql"])
def kept(request, tmp_path, monkeypatch):
    """A released night, and what loses its ledger."""
    if request.param == "sqlite":
        loaded = support.prepare(tmp_path)
    else:
        server = request.getfixturevalue("postgres")
        monkeypatch.setenv("LEDGER_ADDRESS", server.url(server.new_database()))
        support.write_records(tmp_path, support.records())
        path = support.write_config(tmp_path)
        path.write_text(path.read_text().replace('ledger = "ledger.db"', 'ledger = "env:LEDGER_ADDRESS"'))
        loaded = load_config(path)
        support.set_budget(loaded)
    run(loaded, 19)

    def lose():
        if request.param == "postgresql":
            monkeypatch.setenv("LEDGER_ADDRESS", server.url(server.new_database()))
        else:
            loaded.ledger_path.unlink()
        return load_config(loaded.path)

    return loaded, lose


def test_a_budget_in_a_lost_ledger_is_granted_only_with_a_reason_that_stays(kept):
    before, lose = kept
    assert grant(before).exit_code == 0, "nothing is lost: a budget is changed as ever"
    loaded = lose()
    ledger = Ledger(loaded.ledger_url)
    with pytest.raises(LedgerError, match="paid for people/covariance/2026-11-19, is not in this ledger") as caught:
        grant(loaded)
    assert "--after-loss REASON" in caught.value.remedy
    assert not ledger.exists(), "and nothing was made"
    for words in ("", "  ", "two\nlines", "\x1b[31mred", "x" * 201):
        with pytest.raises(LedgerError, match="does not say a reason"):
            grant(loaded, "--after-loss", words)
    assert grant(loaded, "--after-loss", LOST).exit_code == 0

    (entry,) = ledger.history()
    assert entry.payload["after_loss"] == LOST
    assert ledger.verify().losses == (f"entry 1 for 'people': {LOST}",)
    assert ledger.verify().problems == []
    assert f"granted after a loss: {LOST}" in blockveil("ledger", "show", loaded.path).output
    with pytest.raises(LedgerError, match="is not in this ledger"):
        run(loaded, 20)
    with pytest.raises(LedgerError, match="give --after-loss REASON"):
        grant(loaded)
    shutil.move(loaded.output_root, loaded.output_root.with_name("away"))
    assert grant(loaded).exit_code == 0
    assert f"Granted after a loss: entry 1 for 'people': {LOST}" in blockveil("ledger", "verify", loaded.path).output
    assert len(ledger.history()) == 2


@pytest.mark.parametrize("state", ["empty", "older", "another name"])
def test_a_budget_over_a_ledger_that_has_forgotten_releases_is_refused(site, tmp_path, state):
    copy = copy_of(site.ledger_path, tmp_path / "copy.db")
    run(site, 19)
    loaded = site
    if state == "empty":
        (tmp_path / "empty.db").touch(mode=0o600)
        put_back(site, tmp_path / "empty.db")
    else:
        put_back(site, copy)
    if state == "another name":  # of the same data set, whose people are the same
        site.path.write_text(site.path.read_text().replace('name = "covariance"', 'name = "other"'))
        loaded = load_config(site.path)
        on_another_machine(site)
        assert lost_ledger.problem(loaded, Ledger(loaded.ledger_url)) is None
    content = loaded.ledger_path.read_bytes()
    with pytest.raises(LedgerError, match="is not in this ledger"):
        grant(loaded)
    assert loaded.ledger_path.read_bytes() == content
    assert grant(loaded, "--after-loss", LOST).exit_code == 0
    assert Ledger(loaded.ledger_url).verify().losses


def test_a_demo_grants_nothing_again_over_a_lost_ledger(site, monkeypatch):
    run(site, 19)
    site.ledger_path.unlink()
    monkeypatch.setattr(night_commands, "_demo_config", lambda: site.path)
    with pytest.raises(LedgerError, match="is not in this ledger"):
        blockveil("demo")
    assert not site.ledger_path.exists()


def test_an_empty_ledger_before_releases_is_refused_too_and_what_is_no_pointer_is_no_release(site):
    outcome = run(site, 19)
    (outcome.pointer.parent / "notes.json").write_text("[1]")
    (outcome.pointer.parent / "torn.json").write_text('{"ledger": {"sequence": "x"}}')
    assert lost_ledger.problem(site, Ledger(site.ledger_url)) is None
    site.ledger_path.unlink()
    assert "is not in this ledger" in lost_ledger.problem(site, Ledger(site.ledger_url))
    support.set_budget(site)
    with pytest.raises(LedgerError, match="is not in this ledger"):
        run(site, 20)


def test_a_folder_of_releases_that_may_not_be_read_is_not_taken_for_an_empty_one(site, monkeypatch):
    folder = run(site, 19).pointer.parent
    site.ledger_path.unlink()
    within = Path.iterdir

    def denied(path):
        if path == folder:
            raise PermissionError(13, "Permission denied")
        return within(path)

    monkeypatch.setattr(Path, "iterdir", denied)  # what the system answers to another account
    with pytest.raises(StoreError, match="cannot be looked into"):
        grant(site)
    assert not site.ledger_path.exists()
    with pytest.raises(StoreError, match="cannot be looked into"):
        run(site, 20)
