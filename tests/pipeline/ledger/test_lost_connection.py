"""A PostgreSQL connection that is lost in mid-commit: the outcome is found by identifier, nothing is booked twice."""

import shutil
import tempfile
from pathlib import Path

import pytest
import sqlalchemy as sa

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.ledger import Ledger, database
from blockveil.testing.ledger_processes import STEPS
from blockveil.testing.ledger_support import UNIT, grant, reserve
from tests.house.postgres_proxy import CuttingProxy

ENDS = {
    "reserve": ["RESERVED"],
    "commit": ["RESERVED", "COMMITTED"],
    "released": ["RESERVED", "COMMITTED", "RELEASED"],
    "void": ["RESERVED", "VOID"],
    "expire": ["RESERVED", "VOID"],
}


@pytest.fixture
def place(postgres):
    return postgres.new_database()


@pytest.fixture
def direct(postgres, place):
    return grant(postgres.url(place), 100.0)


@pytest.fixture
def through(postgres, place, direct):
    """Open the ledger through a proxy that cuts."""
    folder = Path(tempfile.mkdtemp(prefix="blockveil-proxy-"))
    made = []

    def open_(how, cuts=1):
        made.append(CuttingProxy(folder, postgres.folder, how, cuts))
        return Ledger(postgres.url(place, folder=folder)), made[-1]

    yield open_
    for proxy in made:
        proxy.close()
    shutil.rmtree(folder)


def prepared(ledger, step):
    if step == "reserve":
        return "none"
    charge = reserve(ledger, "1").charge_id
    if step == "released":
        ledger.commit(charge, "check")
    return charge


@pytest.mark.parametrize("how", ["before", "after", "late"])
@pytest.mark.parametrize("step", ENDS)
def test_an_unknown_commit_is_resolved_by_its_identifier(direct, through, step, how):
    charge = prepared(direct, step)
    ledger, proxy = through(how)
    done = STEPS[step](ledger, "1", charge)
    assert proxy.cut == 1
    assert [entry.kind for entry in direct.history(release_id="people/covariance/1")] == ENDS[step]
    assert direct.budget("people").charges == (0 if ENDS[step][-1] == "VOID" else 1)
    assert direct.verify().problems == []
    if step == "reserve":
        assert done.is_new, "this call made the charge, whichever of its tries it was"


@pytest.mark.parametrize("how", ["before", "after", "late"])
def test_a_budget_is_granted_once(direct, through, how):
    ledger, proxy = through(how, cuts=2)
    before = len(direct.history())
    ledger.set_budget("people", 50.0, 1e-6, Neighbours.ADD_REMOVE, UNIT)
    assert proxy.cut == 2
    assert len(direct.history()) == before + 1


@pytest.mark.parametrize("step", ENDS)
def test_a_backend_that_is_ended_before_the_commit_costs_nothing(postgres, place, direct, step):
    charge = prepared(direct, step)
    ledger = Ledger(postgres.url(place))
    ended = []

    def end(connection):
        if not ended:
            pid = connection.connection.dbapi_connection.info.backend_pid
            ended.append(postgres.execute(f"SELECT pg_terminate_backend({pid}, 5000)"))

    sa.event.listen(ledger._database._engine, "commit", end)
    STEPS[step](ledger, "1", charge)
    assert ended == [[(True,)]]
    assert [entry.kind for entry in direct.history(release_id="people/covariance/1")] == ENDS[step]
    assert direct.verify().problems == []


def test_a_server_that_stays_away_is_an_error_that_says_what_to_do(direct, through, monkeypatch):
    monkeypatch.setattr(database, "_PAUSES", (0.0, 0.0, 0.0))
    ledger, _ = through("after", cuts=3)
    with pytest.raises(LedgerError, match="what was booked is not booked twice"):
        reserve(ledger, "1")
    again = reserve(direct, "1")
    assert not again.is_new
    assert direct.budget("people").charges == 1
