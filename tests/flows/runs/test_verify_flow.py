"""The flow that verifies a ledger finds what a restored copy has forgotten, also on a server that never saw it."""

import os
import sqlite3
from contextlib import closing
from datetime import date

from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.flows.runs.verify_flow import verify_ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import night
from blockveil.pipeline.releases.compute import ThreadCompute
from tests.house import support


def test_a_restored_ledger_that_is_older_than_a_release_is_damaged(tmp_path, monkeypatch, prefect):
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    loaded, copy = support.prepare(tmp_path), tmp_path / "copy.db"
    with closing(sqlite3.connect(loaded.ledger_path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    night.run_release(make_plan(loaded, date(2026, 11, 20)), ThreadCompute(1), "test", lambda *_: None)
    for extra in ("-wal", "-shm"):
        loaded.ledger_path.with_name(loaded.ledger_path.name + extra).unlink(missing_ok=True)
    os.replace(copy, loaded.ledger_path)
    state = verify_ledger("people", return_state=True)
    assert state.name == "LedgerDamaged"
    assert "which this account saw last on this machine, is not in this ledger" in state.message
    assert "Stop releasing" in state.message
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # as on another machine, which has seen nothing of it
    state = verify_ledger("people", return_state=True)
    assert state.name == "LedgerDamaged"
    assert "which paid for people/covariance/2026-11-20, is not in this ledger" in state.message
    assert "Stop releasing" in state.message
