"""Tampering is found: edits, deletions, reorder, truncation; and the database itself refuses changes."""

import io
import json
import sqlite3

import pytest

from pipeline.ledger import queries
from tests.pipeline.ledger.ledger_support import make, reserve


@pytest.fixture
def chain(tmp_path):
    ledger = make(tmp_path, 5.0)
    for night in "12345":
        ledger.commit(reserve(ledger, night).charge_id, "check")
    return ledger, tmp_path / "ledger.db"


def tamper(path, *statements):
    """Change the file as somebody with full access could."""
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER no_update")
        connection.execute("DROP TRIGGER no_delete")
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("statement", ["UPDATE entry SET dataset = 'x'", "DELETE FROM entry WHERE sequence = 3"])
def test_the_database_refuses_to_change_rows(chain, statement):
    ledger, path = chain
    with sqlite3.connect(path) as connection, pytest.raises(sqlite3.DatabaseError, match="never changed"):
        connection.execute(statement)
    assert ledger.verify().problems == []


@pytest.mark.parametrize(
    "column", ["kind", "dataset", "release_id", "charge_id", "payload", "time", "nonce", "previous_hash", "hash"]
)
def test_an_edit_of_any_text_is_found(chain, column):
    ledger, path = chain
    value = "VOID" if column == "kind" else "edited"
    tamper(path, f"UPDATE entry SET {column} = '{value}' WHERE sequence = 4")
    assert any("row 4" in problem for problem in ledger.verify().problems)


@pytest.mark.parametrize("column", ["loss_ticks", "sampler_ticks"])
def test_an_edit_of_a_charge_is_found(chain, column):
    ledger, path = chain
    tamper(path, f"UPDATE entry SET {column} = {column} - 1 WHERE sequence = 4")
    assert ledger.verify().problems == ["row 4: content does not match its hash; it was edited"]


def test_a_deletion_is_found(chain):
    ledger, path = chain
    tamper(path, "DELETE FROM entry WHERE sequence = 5")
    assert any("missing or out of order" in problem for problem in ledger.verify().problems)


def test_a_reorder_is_found(chain):
    ledger, path = chain
    tamper(
        path,
        "UPDATE entry SET sequence = 99 WHERE sequence = 4",
        "UPDATE entry SET sequence = 4 WHERE sequence = 6",
        "UPDATE entry SET sequence = 6 WHERE sequence = 99",
    )
    assert ledger.verify().problems


def test_a_truncation_is_found_with_a_head_kept_elsewhere(chain):
    ledger, path = chain
    head = ledger.verify().head
    assert ledger.verify(head).problems == []
    reserve(ledger, "6")
    assert ledger.verify(head).problems == [], "an older head stays valid"
    tamper(path, "DELETE FROM entry WHERE sequence > 8")
    assert ledger.verify().problems == [], "without it the shorter chain looks whole"
    assert ledger.verify(head).problems == ["the expected head is not in the chain: rows were cut off or rewritten"]


def test_a_state_that_may_not_follow_is_found_even_with_a_correct_hash(chain):
    ledger, _ = chain
    with ledger._database.transaction() as connection:
        known = queries.active(connection, "people/covariance/1")
        ledger._append(connection, "VOID", "people", {"reason": "forged"}, known.release_id, known.charge_id)
    assert ledger.verify().problems == ["row 12: VOID may not follow for this charge"]


def test_hashes_hide_equal_content_behind_a_nonce(chain):
    ledger, _ = chain
    nonces = {entry.nonce for entry in ledger.history()}
    assert len(nonces) == len(ledger.history())


def test_exports_hold_every_row_and_column(chain):
    ledger, _ = chain
    lines, table = io.StringIO(), io.StringIO()
    assert ledger.export("jsonl", lines) == ledger.export("csv", table) == 11
    rows = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [row["sequence"] for row in rows] == list(range(1, 12))
    assert rows[1]["previous_hash"] == rows[0]["hash"]
    assert len(table.getvalue().splitlines()) == 12
