"""Nights whose time has passed: what was begun is finished, what was missed follows the policy."""

from datetime import date, timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.ledger.periods import Period
from blockveil.pipeline.ledger.reserving import ChargeRequest
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import catch_up
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support

FIRST = date(2026, 11, 10)
NIGHTS = [FIRST + timedelta(days=day) for day in range(5)]


def nights(found):
    return [each.night for each in found]


POLICIES = ["skip", "latest", "all"]


@pytest.mark.parametrize(("missed", "wanted"), list(zip(POLICIES, ([], NIGHTS[-1:], NIGHTS), strict=True)))
def test_missed_nights_follow_the_policy(missed, wanted):
    assert nights(catch_up.due(NIGHTS, {}, set(), missed)) == wanted


@pytest.mark.parametrize("missed", POLICIES)
def test_a_night_that_is_not_late_yet_is_due_under_every_policy(missed):
    assert NIGHTS[1] in nights(catch_up.due(NIGHTS[:2], {}, set(), missed, {NIGHTS[1]}))
    assert catch_up.due(NIGHTS[:1], {}, {NIGHTS[0]}, missed, {NIGHTS[0]}) == []


@pytest.mark.parametrize("missed", POLICIES)
def test_a_night_that_was_begun_is_finished_under_every_policy(missed):
    older = FIRST - timedelta(days=40)
    found = catch_up.due([], {older: State.COMMITTED, NIGHTS[0]: State.RESERVED}, set(), missed)
    assert nights(found) == [older, NIGHTS[0]]
    assert all("costs nothing more" in each.why for each in found)


def test_a_latest_night_that_is_released_or_at_work_leaves_nothing_to_do():
    assert catch_up.due(NIGHTS, {NIGHTS[-1]: State.RELEASED}, set(), "latest") == []
    assert catch_up.due(NIGHTS, {}, {NIGHTS[-1]}, "latest") == []


def test_the_newest_released_night_is_none_that_is_still_to_come():
    charges = {NIGHTS[0]: State.RELEASED, NIGHTS[1]: State.COMMITTED, date.max: State.RELEASED}
    assert catch_up.last_released(charges, NIGHTS[-1]) == NIGHTS[0]
    assert catch_up.last_released(charges, NIGHTS[0] - timedelta(days=1)) is None
    assert catch_up.last_released(charges, date.max) == date.max


@given(
    st.dictionaries(st.sampled_from(NIGHTS), st.sampled_from([State.RESERVED, State.COMMITTED, State.RELEASED])),
    st.sets(st.sampled_from(NIGHTS)),
    st.sampled_from(POLICIES),
)
def test_no_night_is_ever_due_twice_nor_while_it_is_at_work_nor_once_it_is_released(charges, at_work, missed):
    found = nights(catch_up.due(NIGHTS, charges, at_work, missed))
    assert len(set(found)) == len(found)
    assert not set(found) & at_work
    assert not [night for night in found if charges.get(night) is State.RELEASED]


def test_the_ledger_tells_where_each_night_stands(tmp_path):
    loaded = support.prepare(tmp_path)
    ledger = support.set_budget(loaded, 3.0)

    def reserve(day, name="covariance"):
        return ledger.reserve(
            ChargeRequest(
                release_id=f"people/{name}/{day}",
                dataset="people",
                spec={"a": 1},
                spec_digest="0" * 64,
                charge=Loss(mu=0.1, epsilon=0.0, total_variation=0.0),
                neighbours=loaded.config.privacy.neighbours,
                unit=support.UNIT,
                attempt="test",
            )
        ).charge_id

    for day, end in (("2026-11-10", "RELEASED"), ("2026-11-11", "VOID"), ("2026-11-12", "RESERVED")):
        charge = reserve(day)
        if end == "VOID":
            ledger.void_if_reserved(charge, "test")
        if end == "RELEASED":
            ledger.commit(charge, "check")
            ledger.released(charge, "digest", "place")
    reserve("2026-11-13", name="other")
    found = catch_up.charges_of(ledger, loaded.config.release)
    assert found == {date(2026, 11, 10): State.RELEASED, date(2026, 11, 12): State.RESERVED}
    assert catch_up.last_released(found, date.max) == date(2026, 11, 10)
    assert catch_up.last_released({}, date.max) is None


def test_nights_are_found_where_data_sets_share_a_budget(tmp_path):
    path = support.prepare(tmp_path).path
    path.write_text(path.read_text().replace('dataset = "people"', 'dataset = "patients"\nbudget = "people"'))
    plan = make_plan(load_config(path), date(2026, 11, 10))
    run_release(plan, ThreadCompute(1), "test", lambda *_: None)
    found = catch_up.charges_of(Ledger(plan.loaded.ledger_url), plan.config.release)
    assert found == {date(2026, 11, 10): State.RELEASED}


def test_missed_nights_are_priced_before_any_runs_and_only_those_that_fit_are_taken(tmp_path):
    loaded = support.prepare(tmp_path, budget=2.0)
    ledger, room = Ledger(loaded.ledger_url), catch_up.Room()
    status = ledger.budget("people")
    fitting = status.nights_left(make_plan(loaded, FIRST).charge)
    assert 2 <= fitting <= 20
    costs = [room.take(make_plan(loaded, night), status, paid=False) for night in NIGHTS * 5][: fitting + 2]
    assert [cost is None for cost in costs] == [False] * fitting + [True] * 2
    share = 100 * status.cap.used(status.cap.book(make_plan(loaded, FIRST).charge, status.spent))
    assert costs[0] == f"for {share:.3g} % of the budget"
    assert room.take(make_plan(loaded, FIRST), status, paid=True) == "at no further charge"
    assert room.take(make_plan(loaded, FIRST), None, paid=True) is None
    assert ledger.budget("people").spent == status.spent


def test_no_more_missed_nights_are_taken_than_the_cap_of_a_period_holds(tmp_path):
    loaded = support.prepare(tmp_path, budget=2.0)
    ledger, plan = Ledger(loaded.ledger_url), make_plan(loaded, FIRST)
    ledger.set_budget(
        "people", 2.0, 1e-5, loaded.config.privacy.neighbours, support.UNIT, periods=[Period("month", 1.2)]
    )
    status, room = ledger.budget("people"), catch_up.Room()
    soon = status.taken_by(plan.charge).soon[0][1]
    assert 1 <= soon < status.nights_left(plan.charge)
    costs = [room.take(make_plan(loaded, night), status, paid=False) for night in NIGHTS * 5][: soon + 2]
    assert [cost is None for cost in costs] == [False] * soon + [True] * 2


def test_nights_of_parts_without_a_common_record_count_once(tmp_path):
    loaded = support.prepare(tmp_path, budget=1.1)
    status, plan = Ledger(loaded.ledger_url).budget("people"), make_plan(loaded, FIRST)
    part = Part("people", "day", "")
    room = catch_up.Room()
    for number in range(5):
        night = SimpleNamespace(
            config=plan.config, charge=plan.charge, new_part=part, logical_date=FIRST + timedelta(days=number)
        )
        assert room.take(night, status, paid=False) is not None
    whole = SimpleNamespace(config=plan.config, charge=plan.charge, new_part=None, logical_date=FIRST)
    assert room.take(whole, status, paid=False) is None
