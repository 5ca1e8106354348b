"""A forecast says what the ledger will do: as many nights fit, and the advised noise lasts."""

import dataclasses
import json
from datetime import date, timedelta

import pytest

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.pipeline.base.errors import BudgetExhausted, ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.periods import Period
from blockveil.pipeline.plan.forecast import forecast, lines
from blockveil.pipeline.plan.forecast_picture import picture
from blockveil.pipeline.plan.planning import make_plan
from tests import support

TODAY = date(2026, 11, 20)


@pytest.fixture
def plan(tmp_path):
    return make_plan(support.prepare(tmp_path), TODAY)


def book(ledger, plan, night, loss=None):
    ledger.reserve(
        release_id=f"people/covariance/{night}",
        dataset="people",
        spec={},
        spec_digest="0" * 64,
        charge=loss or plan.charge,
        neighbours=plan.neighbours,
        unit=support.UNIT,
        attempt="test",
    )


def ahead(ledger, plans, until=None, today=TODAY, every=1):
    return forecast(ledger.budget("people"), ledger.history("people"), plans, today, until, every)


def test_nights_a_week_apart_last_seven_times_as_long(plan):
    ledger = Ledger(plan.loaded.ledger_url)
    daily, weekly = ahead(ledger, [plan]), ahead(ledger, [plan], TODAY + timedelta(days=100), every=7)
    assert weekly.nights_left == daily.nights_left
    assert weekly.lasts_until - TODAY == 7 * (daily.lasts_until - TODAY)
    assert weekly.nights_until == 15
    assert weekly.noise_factor < ahead(ledger, [plan], TODAY + timedelta(days=100)).noise_factor
    with pytest.raises(ConfigError, match="a day apart at least"):
        ahead(ledger, [plan], every=0)


def test_as_many_nights_fit_as_are_forecast(plan):
    ledger = Ledger(plan.loaded.ledger_url)
    left = ahead(ledger, [plan]).nights_left
    assert left > 3
    for night in range(left):
        book(ledger, plan, night)
        assert ahead(ledger, [plan]).nights_left == left - night - 1
    with pytest.raises(BudgetExhausted):
        book(ledger, plan, "one-more")
    assert ahead(ledger, [plan]).lasts_until is None


def test_the_advised_noise_lasts_until_the_date_and_hardly_longer(plan):
    ledger = Ledger(plan.loaded.ledger_url)
    book(ledger, plan, "before")
    found = ahead(ledger, [plan], TODAY + timedelta(days=100))
    assert found.nights_until == 100
    assert found.noise_factor > 1
    loss = Loss(plan.charge.mu / found.noise_factor, 0.0, plan.charge.total_variation)
    for night in range(100):
        book(ledger, plan, night, loss)
    with pytest.raises(BudgetExhausted):
        book(ledger, plan, "one-more", loss)


def test_the_advised_epsilon_when_written_into_the_config_lasts(plan):
    ledger = Ledger(plan.loaded.ledger_url)
    until = TODAY + timedelta(days=60)
    (epsilon,) = ahead(ledger, [plan], until).epsilons
    path = plan.loaded.path
    path.write_text(path.read_text().replace("epsilon = 1.0", f"epsilon = {epsilon}"))
    again = make_plan(load_config(path), TODAY)
    later = ahead(ledger, [again], until)
    assert later.noise_factor == 1.0
    assert later.nights_left >= 60
    assert ahead(ledger, [again], TODAY + timedelta(days=75)).noise_factor > 1


def test_a_night_of_several_releases_costs_them_all(plan):
    ledger = Ledger(plan.loaded.ledger_url)
    one, two = ahead(ledger, [plan]), ahead(ledger, [plan, plan])
    assert two.nights_left == one.nights_left // 2
    assert len(two.costs) == 2


def test_the_present_rate_is_that_of_the_last_four_weeks(plan, tmp_path):
    times = iter([f"2026-10-{day:02d}T03:00:00+00:00" for day in range(1, 8)])
    ledger = Ledger(f"sqlite:///{tmp_path / 'other.db'}", now=times.__next__)
    ledger.set_budget("people", 3.0, 1e-5, plan.neighbours, support.UNIT)
    for night in range(3):
        book(ledger, plan, night)
    share = ahead(ledger, [plan]).costs[0].share
    found = ahead(ledger, [plan], today=date(2026, 10, 10))
    assert found.rate_share == pytest.approx(3 * share / 9, rel=1e-6)  # since the first charge, on the second
    assert found.rate_until is not None
    assert ahead(ledger, [plan], today=date(2026, 12, 10)).rate_share == 0.0


def test_what_was_given_back_is_not_part_of_the_rate(plan):
    ledger = Ledger(plan.loaded.ledger_url)
    book(ledger, plan, "void")
    ledger.void_if_reserved(ledger.find("people/covariance/void").charge_id, "test")
    found = ahead(ledger, [plan], today=date.fromisoformat(ledger.history("people")[-1].time[:10]))
    assert (found.used, found.rate_share) == (0.0, 0.0)


def test_nothing_left_is_said_and_a_past_date_is_refused(plan):
    ledger = Ledger(plan.loaded.ledger_url)
    with pytest.raises(ConfigError, match="is not after"):
        ahead(ledger, [plan], TODAY)
    found = ahead(ledger, [plan], TODAY + timedelta(days=3))
    assert dict(lines(found))[f"To {found.until}"] == "3 nights fit as they are"
    book(ledger, plan, "all", Loss(ledger.budget("people").left_mu, 0.0, 1e-25))
    none = ahead(ledger, [plan], TODAY + timedelta(days=3))
    assert (none.nights_left, none.noise_factor) == (0, None)
    assert "nothing is left" in dict(lines(none))[f"To {none.until}"]


@pytest.mark.parametrize("form", ["svg", "png"])
def test_the_picture_is_drawn_and_the_same_each_time(plan, form):
    ledger = Ledger(plan.loaded.ledger_url)
    book(ledger, plan, "first")
    budget, history = ledger.budget("people"), ledger.history("people")
    found = ahead(ledger, [plan], TODAY + timedelta(days=30))
    drawn = picture(found, budget, history, TODAY, form)
    assert drawn == picture(found, budget, history, TODAY, form)
    assert drawn.startswith(b"\x89PNG" if form == "png" else b"<?xml")
    empty = dataclasses.replace(found, lasts_until=None, rate_until=None, until=None)
    assert len(picture(empty, budget, [], TODAY, form)) < len(drawn)


def test_a_forecast_is_plain_json(plan):
    found = ahead(Ledger(plan.loaded.ledger_url), [plan], TODAY + timedelta(days=30)).plain()
    assert json.loads(json.dumps(found))["until"] == "2026-12-20"
    assert found["costs"][0]["release"] == "people/covariance"


def test_a_forecast_says_what_a_period_holds(plan):
    ledger = Ledger(plan.loaded.ledger_url)
    budget = ledger.budget("people")
    ledger.set_budget(
        "people",
        budget.epsilon,
        budget.delta,
        plan.neighbours,
        support.UNIT,
        periods=(Period("365d", budget.epsilon / 2),),
    )
    (part,) = ahead(ledger, [plan]).periods
    assert 0 < part.nights_left == part.nights < ahead(ledger, [plan]).nights_left
    book(ledger, plan, "1")
    (after,) = ahead(ledger, [plan]).periods
    assert (after.nights_left, after.nights) == (part.nights - 1, part.nights)
    said = dict(lines(ahead(ledger, [plan])))
    assert said["Any 365 days"] == f"{part.nights - 1} more nights like this; a whole one holds {part.nights}"
