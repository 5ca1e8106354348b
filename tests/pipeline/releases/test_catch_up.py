"""Nights whose time has passed: what was begun is finished, what was missed follows the policy."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import catch_up
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests import support

FIRST = date(2026, 11, 10)
NIGHTS = [FIRST + timedelta(days=day) for day in range(5)]


def nights(found):
    return [each.night for each in found]


@pytest.mark.parametrize(("missed", "wanted"), [("skip", []), ("latest", NIGHTS[-1:]), ("all", NIGHTS)])
def test_missed_nights_follow_the_policy(missed, wanted):
    assert nights(catch_up.due(NIGHTS, {}, set(), missed)) == wanted


@pytest.mark.parametrize("missed", ["skip", "latest", "all"])
def test_a_night_that_is_not_late_yet_is_due_under_every_policy(missed):
    assert nights(catch_up.due(NIGHTS[:2], {}, set(), missed, {NIGHTS[1]}))[-1:] == [NIGHTS[1]]
    assert catch_up.due(NIGHTS[:1], {}, {NIGHTS[0]}, missed, {NIGHTS[0]}) == []


@pytest.mark.parametrize("missed", ["skip", "latest", "all"])
def test_a_night_that_was_begun_is_finished_under_every_policy(missed):
    older = FIRST - timedelta(days=40)
    found = catch_up.due([], {older: State.COMMITTED, NIGHTS[0]: State.RESERVED}, set(), missed)
    assert nights(found) == [older, NIGHTS[0]]
    assert all("costs nothing more" in each.why for each in found)


def test_a_latest_night_that_is_released_or_at_work_leaves_nothing_to_do():
    assert catch_up.due(NIGHTS, {NIGHTS[-1]: State.RELEASED}, set(), "latest") == []
    assert catch_up.due(NIGHTS, {}, {NIGHTS[-1]}, "latest") == []


@given(
    st.dictionaries(st.sampled_from(NIGHTS), st.sampled_from([State.RESERVED, State.COMMITTED, State.RELEASED])),
    st.sets(st.sampled_from(NIGHTS)),
    st.sampled_from(["skip", "latest", "all"]),
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
            release_id=f"people/{name}/{day}",
            dataset="people",
            spec={"a": 1},
            spec_digest="0" * 64,
            charge=Loss(mu=0.1, epsilon=0.0, total_variation=0.0),
            neighbours=loaded.config.privacy.neighbours,
            unit=support.UNIT,
            attempt="test",
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
    assert catch_up.last_released(found) == date(2026, 11, 10)
    assert catch_up.last_released({}) is None


def test_nights_are_found_where_data_sets_share_a_budget(tmp_path):
    path = support.prepare(tmp_path).path
    path.write_text(path.read_text().replace('dataset = "people"', 'dataset = "patients"\nbudget = "people"'))
    plan = make_plan(load_config(path), date(2026, 11, 10))
    run_release(plan, ThreadCompute(1), "test", lambda *_: None)
    found = catch_up.charges_of(Ledger(plan.loaded.ledger_url), plan.config.release)
    assert found == {date(2026, 11, 10): State.RELEASED}
