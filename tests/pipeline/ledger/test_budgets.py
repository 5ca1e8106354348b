"""Budgets for ever and for periods, shared, of every currency; reservations that expire; charges from elsewhere."""

import contextlib
import re
from datetime import datetime, timedelta

import pytest

from blockveil.engine.guarantees.events import PoissonGaussian, Step
from blockveil.engine.guarantees.guarantee import ZCDP, ApproxDP, Loss, Neighbours
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import BudgetExhausted, LedgerError
from blockveil.pipeline.budget.filter import Accountant
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.periods import Period
from blockveil.pipeline.ledger.reserving import ChargeRequest
from blockveil.pipeline.plan.balance import budget_lines
from blockveil.testing.ledger_support import UNIT, reserve

ADD = Neighbours.ADD_REMOVE
MONTH = (Period("month", 1.0),)


class Clock:
    """A clock that a test sets."""

    def __init__(self, text):
        self.moment = datetime.fromisoformat(f"{text}+00:00")

    def __call__(self):
        return self.moment.isoformat(timespec="seconds")

    def forward(self, **length):
        self.moment += timedelta(**length)


@pytest.fixture
def clock():
    return Clock("2026-11-20T03:00:00")


@pytest.fixture(params=["sqlite", "postgres"])
def ledger(request, tmp_path, clock):
    if request.param == "sqlite":
        return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}", now=clock)
    server = request.getfixturevalue("postgres")
    return Ledger(server.url(server.new_database()), now=clock)


def book(ledger, night, charge, dataset="people", account="people"):
    return ledger.reserve(
        ChargeRequest(
            release_id=f"{dataset}/query/{night}",
            dataset=account,
            spec={},
            spec_digest=digest({}),
            charge=charge,
            neighbours=ADD,
            unit=UNIT,
            attempt="test",
        )
    )


def test_a_month_has_its_own_cap_and_the_next_month_a_new_one(ledger, clock):
    ledger.set_budget("people", 10.0, 1e-6, ADD, UNIT, periods=MONTH)
    reserve(ledger, "1", mu=0.15)
    clock.forward(days=5)
    reserve(ledger, "2", mu=0.15)
    with pytest.raises(BudgetExhausted, match=r"of 1 in this month") as refused:
        reserve(ledger, "3", mu=0.15)
    assert "or wait" in refused.value.remedy
    assert "times the noise it fits" in refused.value.remedy
    (part,) = ledger.budget("people").periods
    assert (part.start, part.charges) == ("2026-11-01T00:00:00+00:00", 2)
    clock.moment = datetime.fromisoformat("2026-12-01T00:00:00+00:00")
    assert ledger.budget("people").periods[0].charges == 0
    reserve(ledger, "3", mu=0.15)
    assert ledger.budget("people").charges == 3


def test_no_window_of_days_holds_more_than_its_cap(ledger, clock):
    ledger.set_budget("people", 20.0, 1e-6, ADD, UNIT, periods=(Period("7d", 1.0),))
    times = []
    for _ in range(40):
        try:
            reserve(ledger, len(times), mu=0.1)
            times.append(clock.moment)
        except BudgetExhausted:
            pass
        clock.forward(hours=11)
    assert len(times) > 8
    most = max(sum(1 for other in times if timedelta(0) <= other - start < timedelta(days=7)) for start in times)
    assert most == 5  # 0.1 * sqrt(5) = 0.2236 < B(1, 1e-6) = 0.2367 < 0.1 * sqrt(6)


def test_what_was_given_back_counts_in_no_period(ledger):
    ledger.set_budget("people", 10.0, 1e-6, ADD, UNIT, periods=MONTH)
    ledger.void_if_reserved(reserve(ledger, "1", mu=0.2).charge_id, "test")
    assert ledger.budget("people").periods[0].charges == 0
    reserve(ledger, "2", mu=0.2)


def test_caps_of_periods_stay_until_they_are_changed(ledger):
    ledger.set_budget("people", 10.0, 1e-6, ADD, UNIT, periods=MONTH)
    assert ledger.set_budget("people", 12.0, 1e-6, ADD, UNIT).grant.periods == MONTH
    assert ledger.set_budget("people", 12.0, 1e-6, ADD, UNIT, periods=()).grant.periods == ()


@pytest.mark.parametrize(
    ("length", "start"),
    [
        ("day", "2026-11-20T00:00:00"),
        ("week", "2026-11-16T00:00:00"),
        ("month", "2026-11-01T00:00:00"),
        ("quarter", "2026-10-01T00:00:00"),
        ("year", "2026-01-01T00:00:00"),
        ("2d", "2026-11-18T03:00:01"),
    ],
)
def test_periods_start_where_the_calendar_says(length, start):
    assert Period(length, 1.0).start("2026-11-20T03:00:00+00:00") == f"{start}+00:00"


@pytest.mark.parametrize(
    "text", ["month", "month:", "month:x", "fortnight:1", "0d:1", "30d:0", "30d:nan", "1.5d:1", ":1"]
)
def test_a_period_that_is_none_is_refused(text):
    with pytest.raises(LedgerError):
        Period.parse(text)


def test_data_sets_that_share_people_share_one_budget(ledger):
    ledger.set_budget("everybody", 1.0, 1e-6, ADD, UNIT)
    book(ledger, "1", Loss(0.16, 0.0, 1e-25), "clinic", "everybody")
    book(ledger, "1", Loss(0.16, 0.0, 1e-25), "pharmacy", "everybody")
    with pytest.raises(BudgetExhausted):
        book(ledger, "2", Loss(0.16, 0.0, 1e-25), "pharmacy", "everybody")


def test_the_people_of_a_data_set_have_one_budget(ledger):
    for name in ("everybody", "clinic", "clinic-two"):
        ledger.set_budget(name, 1.0, 1e-6, ADD, UNIT)
    first = book(ledger, "1", Loss(0.1, 0.0, 1e-25), "clinic", "everybody")
    with pytest.raises(LedgerError, match="charged to the budget 'everybody'"):
        book(ledger, "2", Loss(0.1, 0.0, 1e-25), "clinic", "clinic")
    book(
        ledger, "1", Loss(0.1, 0.0, 1e-25), "clinic-two", "clinic-two"
    )  # another data set, whatever its name starts with
    ledger.void_if_reserved(first.charge_id, "test")
    book(ledger, "2", Loss(0.1, 0.0, 1e-25), "clinic", "clinic")


def test_what_may_be_spent_on_what_is_fixed_once_something_is_charged(ledger):
    ledger.set_budget("people", 2.0, 1e-6, ADD, UNIT)
    ledger.set_budget("people", 2.0, 1e-6, ADD, UNIT, reserve=0.5, slack=0.1)
    cap = ledger.budget("people").cap
    assert (cap.reserve, cap.slack, cap.accountant) == (0.5, 0.1, Accountant.GAUSSIAN)
    book(ledger, "pure", Loss(0.0, 0.3, 1e-25))
    ledger.set_budget(
        "people", 2.0, 1e-6, ADD, UNIT, reserve=0.6
    )  # pure losses alone have shown nothing beyond epsilon
    book(ledger, "gaussian", Loss(0.1, 0.0, 1e-25))
    for change in ({"reserve": 0.5}, {"slack": 0.2}, {"accountant": Accountant.ZCDP}):
        with pytest.raises(LedgerError, match="stay as they are"):
            ledger.set_budget("people", 2.0, 1e-6, ADD, UNIT, **change)
    assert ledger.set_budget("people", 3.0, 1e-6, ADD, UNIT).cap.reserve == 0.6


@pytest.mark.parametrize(
    "wrong", [{"reserve": -0.1}, {"reserve": 2.1}, {"slack": 0.0}, {"slack": 1.0}, {"periods": MONTH * 2}]
)
def test_parts_of_a_budget_that_mean_nothing_are_refused(ledger, wrong):
    with pytest.raises(LedgerError):
        ledger.set_budget("people", 2.0, 1e-6, ADD, UNIT, **wrong)


def test_a_pure_loss_after_a_gaussian_one_is_booked_in_the_reserve_or_as_a_gaussian(ledger):
    ledger.set_budget("people", 3.0, 1e-6, ADD, UNIT, reserve=0.5)
    book(ledger, "1", Loss(0.1, 0.0, 1e-25))
    book(ledger, "2", Loss(0.0, 0.4, 1e-25))
    book(ledger, "3", Loss(0.0, 0.2, 1e-25))
    entries = [entry for entry in ledger.history("people") if entry.kind == "RESERVED"]
    assert [bool(entry.pure_ticks) for entry in entries] == [False, True, False]
    assert [bool(entry.loss_ticks) for entry in entries] == [True, False, True]
    assert entries[2].payload["event"] == {"mu": 0.0, "epsilon": 0.2, "total_variation": 1e-25}


def test_a_gaussian_after_pure_losses_beyond_the_reserve_is_refused_with_the_reason(ledger):
    ledger.set_budget("people", 3.0, 1e-6, ADD, UNIT)
    book(ledger, "1", Loss(0.0, 0.4, 1e-25))
    with pytest.raises(BudgetExhausted, match="at most the reserve") as refused:
        book(ledger, "2", Loss(0.1, 0.0, 1e-25))
    assert "`blockveil ledger grant --reserve 0.4`, which may be chosen" in refused.value.remedy
    with pytest.raises(BudgetExhausted) as larger:
        book(ledger, "2", Loss(0.65, 0.0, 1e-25))
    assert "--reserve 0.4` and a larger epsilon" in larger.value.remedy
    ledger.set_budget("people", 3.0, 1e-6, ADD, UNIT, reserve=0.4)
    book(ledger, "2", Loss(0.1, 0.0, 1e-25))


def test_a_pure_loss_beyond_the_reserve_that_does_not_fit_is_refused_with_what_it_counts_as(ledger):
    ledger.set_budget("people", 3.0, 1e-5, ADD, UNIT)
    book(ledger, "1", Loss(0.2, 0.0, 1e-25))
    with pytest.raises(BudgetExhausted, match=r"reserve, 0 here, counts as the Gaussian loss.*ledger grant --reserve"):
        book(ledger, "2", Loss(0.0, 1.0, 1e-25))


def test_a_charge_stores_its_whole_event_and_its_failure_is_in_the_chain(ledger):
    ledger.set_budget("people", 3.0, 1e-5, ADD, UNIT, slack=0.1)
    series = (Step(PoissonGaussian(0.01, 1.0), 1000), Step(ApproxDP(0.1, 1e-9)))
    charge = book(ledger, "training", series)
    assert ledger.history("people")[-1].payload["event"]["series"][0]["count"] == 1000
    spent = ledger.budget("people").spent
    assert spent.failure > 0
    assert ledger.verify().problems == []
    assert ledger.void_if_reserved(charge.charge_id, "test")
    assert ledger.budget("people").spent.failure == 0
    assert ledger.verify().problems == []


def test_a_failure_beyond_the_slack_is_refused_with_the_reason(ledger):
    ledger.set_budget("people", 3.0, 1e-6, ADD, UNIT)
    reserve(ledger, "1")
    with pytest.raises(BudgetExhausted, match="half of the slack") as refused:
        book(ledger, "2", (Step(ApproxDP(0.1, 1e-8)),))
    assert "No noise makes it fit" in refused.value.remedy


def test_a_budget_is_advised_to_be_raised_only_where_that_helps(ledger):
    ledger.set_budget("people", 20.0, 1e-5, ADD, UNIT)
    reserve(ledger, "1")
    with pytest.raises(BudgetExhausted) as refused:
        reserve(ledger, "2", mu=3.6)
    assert "raise the budget with `blockveil ledger grant`" in refused.value.remedy
    ledger.set_budget("people", 900.0, 1e-5, ADD, UNIT)
    reserve(ledger, "2", mu=3.6)
    with pytest.raises(BudgetExhausted) as refused:
        reserve(ledger, "3", mu=3.6)
    assert "raise the budget" not in refused.value.remedy
    assert "lower privacy.epsilon; no larger epsilon of the budget holds it" in refused.value.remedy


def test_a_zero_concentrated_budget_holds_what_its_rho_allows(ledger):
    ledger.set_budget("people", 2.0, 1e-6, ADD, UNIT, accountant=Accountant.ZCDP)
    night = (Step(ZCDP(0.01)),)
    held = 0
    with contextlib.suppress(BudgetExhausted):
        while True:
            book(ledger, held, night)
            held += 1
    spent = ledger.budget("people").spent_epsilon
    assert ZCDP(0.01 * held).to_approx(1e-6).epsilon <= spent <= 2.001
    assert ZCDP(0.01 * held).to_approx(1e-6).epsilon <= 2.0 < ZCDP(0.01 * (held + 1)).to_approx(0.999e-6).epsilon


def test_only_reservations_that_are_old_and_wanted_by_nobody_expire(ledger, clock):
    ledger.set_budget("people", 5.0, 1e-6, ADD, UNIT)
    old, wanted, committed = (reserve(ledger, night).charge_id for night in "123")
    ledger.commit(committed, "check")
    clock.forward(hours=30)
    new = reserve(ledger, "4").charge_id
    before = (clock.moment - timedelta(hours=24)).isoformat(timespec="seconds")
    assert ledger.expire("people", before, {wanted}.__contains__) == ["people/covariance/1"]
    assert ledger.expire("people", before, {wanted}.__contains__) == []
    assert ledger.budget("people").charges == 3
    with pytest.raises(LedgerError, match="given back"):
        ledger.commit(old, "check")  # an attempt that wakes up draws nothing
    assert {ledger.find(f"people/covariance/{night}").charge_id for night in "234"} == {wanted, committed, new}
    assert ledger.verify().problems == []


@pytest.mark.parametrize("reserve_", [None, 0.5])
@pytest.mark.parametrize("first", [Loss(0.0, 0.4, 1e-25), Loss(0.1, 0.0, 1e-25)])
def test_what_is_left_is_the_largest_release_that_fits(ledger, first, reserve_):
    ledger.set_budget("people", 3.0, 1e-6, ADD, UNIT, reserve=reserve_)
    book(ledger, "1", first)
    status = ledger.budget("people")
    pure, gaussian = status.cap.left_pure(status.spent), status.left_mu
    assert status.remaining_epsilon == max(pure, status.cap.epsilon_of(gaussian)) > 0
    kinds = dict(budget_lines(status))["Left"]
    assert ("pure loss" in kinds) is (first.epsilon > 0 and reserve_ is None)
    if gaussian:
        with pytest.raises(BudgetExhausted):
            book(ledger, "2", Loss(gaussian * (1 + 1e-6), 0.0, 1e-25))
        ledger.void_if_reserved(book(ledger, "2", Loss(gaussian * (1 - 1e-6), 0.0, 1e-25)).charge_id, "test")
    if pure:
        booked = book(ledger, "3", Loss(0.0, pure * (1 - 1e-6), 1e-25))
        assert ledger.history()[-1].loss_ticks == 0
        ledger.void_if_reserved(booked.charge_id, "test")
    if pure > gaussian == 0:
        with pytest.raises(BudgetExhausted):
            book(ledger, "4", Loss(0.0, pure * (1 + 1e-6), 1e-25))


def test_the_nights_that_a_period_holds_are_said_beside_those_for_ever(ledger):
    ledger.set_budget("people", 3.0, 1e-6, ADD, UNIT, periods=(Period("7d", 2.9), Period("month", 0.5)))
    loss = Loss(0.05, 0.0, 1e-25)
    book(ledger, "first", loss)
    status = ledger.budget("people")
    week, month = (nights for _, nights in status.taken_by(loss).soon)
    said = dict(budget_lines(status, loss))["Nights left"]
    soon = f"{week} of them in any 7 days; {month} of them in this month"
    assert said == f"{status.nights_left(loss)} more releases like this one; {soon}"
    assert 0 < month < week <= status.nights_left(loss)
    for night in range(month):
        book(ledger, night, loss)
    with pytest.raises(BudgetExhausted, match="this month"):
        book(ledger, "last", loss)


def test_the_warning_of_a_large_budget_says_what_its_guesses_say(ledger):
    ledger.set_budget("people", 20.0, 1e-6, ADD, UNIT)
    book(ledger, "1", Loss(3.0, 0.0, 1e-25))
    said = dict(budget_lines(ledger.budget("people")))
    (allowed,) = re.findall(r"and at most (\S+) % with all that the budget allows", said["Guesses"])
    assert f"may be right {allowed} % of the time" in said["Warning"]
    assert float(allowed) < 96.0
