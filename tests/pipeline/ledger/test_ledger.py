"""Who may spend: caps, identities, states, refusals."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.guarantees import Loss, Neighbours
from pipeline.accounting import Ticks
from pipeline.errors import BudgetExhausted, LedgerError, ReleaseConflict
from pipeline.ledger import Ledger, State
from tests.pipeline.ledger.ledger_support import MU, UNIT, make, reserve

ROOT = Path(__file__).parents[3]


def test_a_charge_goes_through_its_states_and_keeps_its_anchor(tmp_path):
    ledger = make(tmp_path)
    new = reserve(ledger, "1")
    assert (new.state, new.is_new, new.key_check) == (State.RESERVED, True, None)
    committed = ledger.commit(new.charge_id, "check")
    assert (committed.state, committed.key_check) == (State.COMMITTED, "check")
    released = ledger.released(new.charge_id, "digest", "place")
    assert released.state is State.RELEASED
    assert (released.sequence, released.row_hash) == (committed.sequence, committed.row_hash)
    assert ledger.verify().problems == []


def test_the_same_release_is_charged_once(tmp_path):
    ledger = make(tmp_path)
    first = reserve(ledger, "1")
    again = reserve(ledger, "1")
    assert again.charge_id == first.charge_id
    assert not again.is_new
    assert ledger.budget("people").spent_mu == pytest.approx(MU)


def test_the_first_key_check_stands_whatever_comes_later(tmp_path):
    ledger = make(tmp_path)
    charge = reserve(ledger, "1")
    assert ledger.commit(charge.charge_id, "first").key_check == "first"
    assert ledger.commit(charge.charge_id, "second").key_check == "first"


def test_a_void_charge_costs_nothing_and_the_release_may_be_charged_again(tmp_path):
    ledger = make(tmp_path)
    charge = reserve(ledger, "1")
    assert ledger.void_if_reserved(charge.charge_id, "bad data")
    assert ledger.void_if_reserved(charge.charge_id, "bad data")
    assert ledger.budget("people").spent_mu == 0
    with pytest.raises(LedgerError, match="given back"):
        ledger.commit(charge.charge_id, "check")
    new = reserve(ledger, "1", spec={"other": 1})
    assert new.is_new
    assert new.charge_id != charge.charge_id


def test_a_committed_charge_is_never_given_back(tmp_path):
    ledger = make(tmp_path)
    charge = reserve(ledger, "1")
    ledger.commit(charge.charge_id, "check")
    assert not ledger.void_if_reserved(charge.charge_id, "too late")
    assert ledger.budget("people").spent_mu == pytest.approx(MU)


def test_only_a_committed_charge_is_released_and_with_one_output(tmp_path):
    ledger = make(tmp_path)
    charge = reserve(ledger, "1")
    with pytest.raises(LedgerError, match="Only a committed charge"):
        ledger.released(charge.charge_id, "digest", "place")
    ledger.commit(charge.charge_id, "check")
    ledger.released(charge.charge_id, "digest", "place")
    ledger.released(charge.charge_id, "digest", "place")
    with pytest.raises(LedgerError, match="one output"):
        ledger.released(charge.charge_id, "other", "place")
    assert [entry.kind for entry in ledger.history()] == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]


def test_another_specification_is_refused_with_what_differs_and_no_fingerprint(tmp_path):
    ledger = make(tmp_path)
    old = {"privacy": {"epsilon": 1.0}, "list": [1, 2], "data": {"fingerprint": "a" * 64}, "calibration": {"mu": 1.0}}
    new = {"privacy": {"epsilon": 0.5}, "list": [1, 3], "data": {"fingerprint": "b" * 64}, "calibration": {"mu": 2.0}}
    reserve(ledger, "1", spec=old)
    with pytest.raises(ReleaseConflict) as caught:
        reserve(ledger, "1", spec=new)
    assert caught.value.differences == [
        "data.fingerprint: the records have changed",
        "list: changed",
        "privacy.epsilon: 1.0 -> 0.5",
    ]
    assert "aaaa" not in str(caught.value)
    assert "bbbb" not in str(caught.value)


def test_a_full_budget_refuses_with_what_was_asked_and_what_is_left(tmp_path):
    ledger = make(tmp_path)
    reserve(ledger, "1")
    with pytest.raises(BudgetExhausted) as caught:
        reserve(ledger, "2")
    for words in ("asked epsilon 0.83", "left epsilon 0.5", "of 1 ", "blockveil budget set"):
        assert words in str(caught.value)
    assert len(ledger.history()) == 2


def test_budgets_rise_and_fall_but_not_below_what_is_spent(tmp_path):
    ledger = make(tmp_path)
    reserve(ledger, "1")
    assert ledger.set_budget("people", 4.0, 1e-6, Neighbours.ADD_REMOVE, UNIT).epsilon == 4.0
    reserve(ledger, "2")
    with pytest.raises(LedgerError, match="below what 'people' has spent"):
        ledger.set_budget("people", 1.0, 1e-6, Neighbours.ADD_REMOVE, UNIT)
    assert ledger.budget("people").epsilon == 4.0
    assert ledger.datasets() == ["people"]


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 1e-6), (-1, 1e-6), (float("nan"), 1e-6), (1, 0), (1, 1), (1e9, 0.1)]
)
def test_a_budget_without_meaning_is_refused(tmp_path, epsilon, delta):
    with pytest.raises(LedgerError, match="not usable"):
        make(tmp_path).set_budget("people", epsilon, delta, Neighbours.ADD_REMOVE, UNIT)


def test_relations_and_units_never_mix(tmp_path):
    ledger = make(tmp_path)
    with pytest.raises(LedgerError, match="do not add up"):
        reserve(ledger, "1", neighbours=Neighbours.REPLACE_ONE)
    with pytest.raises(LedgerError, match="do not add up"):
        reserve(ledger, "1", unit="one visit")
    reserve(ledger, "1")
    with pytest.raises(LedgerError, match="do not add up"):
        ledger.set_budget("people", 2.0, 1e-6, Neighbours.REPLACE_ONE, UNIT)


def test_data_sets_have_budgets_of_their_own(tmp_path):
    ledger = make(tmp_path)
    ledger.set_budget("cars", 1.0, 1e-6, Neighbours.ADD_REMOVE, UNIT)
    reserve(ledger, "1")
    assert reserve(ledger, "1", dataset="cars").is_new
    with pytest.raises(LedgerError, match="has no budget"):
        reserve(ledger, "1", dataset="boats")


def test_a_missing_ledger_is_refused_and_not_made_by_looking(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path / 'none.db'}")
    for look in (ledger.history, ledger.verify, lambda: ledger.budget("people"), lambda: reserve(ledger, "1")):
        with pytest.raises(LedgerError, match="budget set"):
            look()
    assert not (tmp_path / "none.db").exists()


def test_a_file_that_is_no_ledger_is_refused(tmp_path):
    (tmp_path / "ledger.db").write_bytes(b"not a database, but long enough to look like one" * 100)
    with pytest.raises(LedgerError, match="damaged or is not a ledger"):
        Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").budget("people")


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "ledger.db").touch()
    with pytest.raises(LedgerError, match="damaged or is not a ledger"):
        Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").budget("people")


def test_other_databases_are_refused():
    with pytest.raises(LedgerError, match="SQLite"):
        Ledger("postgresql://user:secret@host/db")


def test_the_ledgers_file_is_private(tmp_path):
    make(tmp_path)
    assert (tmp_path / "ledger.db").stat().st_mode & 0o077 == 0


FULL = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from pipeline.errors import StoreError
from tests.pipeline.ledger.ledger_support import make, reserve
import signal
ledger = make(Path(sys.argv[1]), 1000.0)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
try:
    for night in range(500):
        reserve(ledger, str(night), mu=0.01, spec={"long": "x" * 2000})
except StoreError as error:
    print("refused", error)
"""


def test_a_full_disk_refuses_and_leaves_no_half_entry(tmp_path):
    found = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert "refused The ledger cannot be written" in found.stdout
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert ledger.verify().problems == []
    before = len(ledger.history())
    assert reserve(ledger, "after").is_new
    assert len(ledger.history()) == before + 1


def test_ten_thousand_charges_are_summed_exactly(tmp_path):
    ledger = make(tmp_path, 1000.0)
    row = ledger._append
    with ledger._database.transaction() as connection:
        ticks = Ticks.of(Loss(0.01, 0.0, 1e-25))
        for night in range(10_000):
            row(connection, "RESERVED", "people", {"spec": {}, "spec_digest": ""}, f"r{night}", f"{night:032x}", ticks)
    assert ledger.budget("people").spent.loss == 10_000 * ticks.loss
    assert ledger.budget("people").spent_mu == pytest.approx(1.0)
