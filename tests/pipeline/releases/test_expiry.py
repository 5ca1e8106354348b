"""A reservation whose run died long ago gives its budget back, where nothing can have been drawn."""

from datetime import date

import pytest

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.errors import BudgetExhausted
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.charged_steps import Books, reserve
from blockveil.pipeline.releases.keys import KeyStore
from tests.house import support

LONG_AGO = "2020-01-01T00:00:00+00:00"


@pytest.fixture
def loaded(tmp_path):
    """A budget for one release, granted and half reserved long ago."""
    support.write_records(tmp_path, support.records())
    loaded = load_config(support.write_config(tmp_path))
    ledger = Ledger(loaded.ledger_url, now=lambda: LONG_AGO)
    ledger.set_budget("people", 1.0, 1e-6, Neighbours.ADD_REMOVE, support.UNIT)
    return loaded


def opened(loaded, day):
    return support.opened(make_plan(loaded, date(2026, 11, day)))


def die(loaded, day):
    """Reserve, long ago, and end there."""
    plan, _ = opened(loaded, day)
    old = Ledger(loaded.ledger_url, now=lambda: LONG_AGO)
    return reserve(plan, Books(loaded, old), "dead").charge


def test_the_next_release_gets_the_budget_of_a_dead_run(loaded):
    die(loaded, 1)
    made = reserve(*opened(loaded, 2), "test")
    assert made.charge.is_new
    ledger = Ledger(loaded.ledger_url)
    assert ledger.budget("people").charges == 1
    assert ledger.history(release_id="people/covariance/2026-11-01")[-1].payload == {"reason": "expired"}


def test_a_reservation_with_a_key_is_left_to_a_person(loaded):
    charge = die(loaded, 1)
    KeyStore(loaded.keys_root).create(charge.charge_id)
    with pytest.raises(BudgetExhausted):
        reserve(*opened(loaded, 2), "test")


def test_the_release_itself_resumes_its_own_old_reservation(loaded):
    charge = die(loaded, 1)
    again = reserve(*opened(loaded, 1), "test")
    assert again.charge.charge_id == charge.charge_id
    assert again.resumed


def test_a_fresh_reservation_is_left_alone(loaded):
    reserve(*opened(loaded, 1), "test")
    with pytest.raises(BudgetExhausted):
        reserve(*opened(loaded, 2), "test")
