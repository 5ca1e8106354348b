"""A forecast says what the ledger will do: as many nights fit, and the advised noise lasts."""

import dataclasses
import json
import math
from datetime import UTC, date, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.flows.base.prefect_internals import times
from blockveil.pipeline.base.errors import BudgetExhausted, ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.config.cadence import Cadence, CalendarDays, cadence_of
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.periods import Period
from blockveil.pipeline.ledger.reserving import ChargeRequest
from blockveil.pipeline.plan.forecast import forecast
from blockveil.pipeline.plan.forecast_lines import forecast_lines
from blockveil.pipeline.plan.planning import make_plan
from tests.house import support

TODAY = date(2026, 11, 20)


@pytest.fixture
def plan(tmp_path):
    return make_plan(support.prepare(tmp_path), TODAY)


def book(ledger, plan, night, loss=None):
    ledger.reserve(
        ChargeRequest(
            release_id=f"people/covariance/{night}",
            dataset="people",
            spec={},
            spec_digest="0" * 64,
            charge=loss or plan.charge,
            neighbours=plan.neighbours,
            unit=support.UNIT,
            attempt="test",
        )
    )


def ahead(ledger, plans, until=None, today=TODAY, every=None):
    cadence = None if every is None else Cadence.each(every)
    return forecast(ledger.budget("people"), ledger.history("people"), plans, today, until, cadence)


def test_nights_a_week_apart_last_seven_times_as_long(plan):
    ledger = Ledger(plan.loaded.ledger_url)
    daily, weekly = ahead(ledger, [plan]), ahead(ledger, [plan], TODAY + timedelta(days=100), every=7)
    assert weekly.nights_left == daily.nights_left
    tomorrow = TODAY + timedelta(days=1)
    assert weekly.lasts_until - tomorrow == 7 * (daily.lasts_until - tomorrow)
    assert (daily.unit, weekly.unit) == ("nights", "weeks")
    assert weekly.nights_until == 15
    assert weekly.noise_factor < ahead(ledger, [plan], TODAY + timedelta(days=100)).noise_factor
    with pytest.raises(ConfigError, match="a day apart at least"):
        ahead(ledger, [plan], every=0)


FRIDAYS = ("30 2 * * 5", "30 2 * * fri", "0 23 * * FRI")


def schedule(plan, cron, zone="Europe/Berlin", config=None):
    """A deployments file beside the config."""
    night = {"config": config or plan.loaded.path.stem, "mode": "release", "cron": cron, "timezone": zone}
    text = "".join(f'{key} = "{value}"\n' for key, value in {**night, "missed_nights": "latest"}.items())
    (plan.loaded.base / "deployments.toml").write_text(f"[[night]]\n{text}")


@pytest.mark.parametrize("cron", FRIDAYS)
def test_a_weekly_schedule_is_paid_for_by_its_own_dates_and_not_night_by_night(plan, cron):
    """Of a budget for five Fridays the first is spent: the other four fit, and no more noise is advised."""
    ledger = Ledger(plan.loaded.ledger_url)
    schedule(plan, cron)
    friday, last = date(2026, 11, 27), date(2026, 12, 31)
    nightly = ahead(ledger, [plan], last, friday, every=1)
    loss = Loss(ledger.budget("people").left_mu / math.sqrt(5.001), 0.0, plan.charge.total_variation)
    paid = dataclasses.replace(plan, charge=loss)
    book(ledger, paid, friday)
    found = ahead(ledger, [paid], last, friday)
    assert (found.nights_left, found.nights_until, found.noise_factor) == (4, 4, 1.0)
    assert found.lasts_until == date(2026, 12, 25)
    assert nightly.nights_until == 34
    assert ahead(ledger, [paid], last, friday, every=1).noise_factor > 2
    rows = dict(forecast_lines(found))
    assert rows["Weeks left"] == "4 like this, until 2026-12-25"
    assert rows["To 2026-12-31"] == "4 weeks fit as they are"
    assert rows["Schedule"] == f'every week: "{cron}" in deployments.toml, Europe/Berlin'
    # A charge of today is that of its week.
    assert found.rate_share == pytest.approx(found.used)
    assert "20 % a week lasts" in rows["Present rate"]


def test_the_date_of_today_counts_until_its_night_is_booked(plan):
    ledger = Ledger(plan.loaded.ledger_url)
    schedule(plan, "0 22 * * *")
    before = ahead(ledger, [plan], TODAY + timedelta(days=9))
    book(ledger, plan, TODAY)
    after = ahead(ledger, [plan], TODAY + timedelta(days=9))
    assert (before.nights_until, after.nights_until) == (10, 9)
    assert before.lasts_until == after.lasts_until


def test_without_a_schedule_of_it_a_forecast_is_of_every_night_and_says_so(plan):
    ledger = Ledger(plan.loaded.ledger_url)
    assert "no deployments.toml beside it" in dict(forecast_lines(ahead(ledger, [plan])))["Schedule"]
    schedule(plan, "30 2 * * 5", config="another")
    assert "has no [[night]] of it" in dict(forecast_lines(ahead(ledger, [plan])))["Schedule"]
    schedule(plan, "30 2 * * 5#2")
    assert "are not followed" in dict(forecast_lines(ahead(ledger, [plan])))["Schedule"]
    assert ahead(ledger, [plan]).unit == "nights"


def test_configs_of_different_days_are_refused_unless_days_are_given(plan, tmp_path):
    ledger = Ledger(plan.loaded.ledger_url)
    schedule(plan, "30 2 * * 5")
    other = plan.loaded.path.with_name("other.toml")
    other.write_text(plan.loaded.path.read_text().replace('name = "covariance"', 'name = "other"', 1))
    plans = [plan, make_plan(load_config(other), TODAY)]
    with pytest.raises(ConfigError, match="--every"):
        ahead(ledger, plans)
    assert ahead(ledger, plans, every=7).unit == "weeks"


CRONS = (
    "30 2 * * *", "0 0 1 * *", "5 4 31 * *", "30 2 * * 1-5", "30 2 * * mon,thu", "30 2 1,15 * *", "30 2 13 * */2",
    "30 2 13 * 5", "30 2 29 2 *", "30 2 1 */3 *", "30 2 * jan-mar 0", "30 2 * * 7", "30 2 * * 0-6", "30 2 1-31 * 2",
    "30 2 */1 * 2", "30 2 13 * 0-6", "30 2 ? * 2",
    "30 2 1 1 *", "30 2 3/7 * *", "0 0 * * sun",
)  # fmt: skip
ZONES = ("UTC", "Europe/Berlin", "America/Santiago", "Asia/Beirut", "Pacific/Kiritimati", "Australia/Lord_Howe")


@pytest.mark.parametrize("cron", CRONS)
def test_the_dates_of_a_schedule_are_those_on_which_it_runs(cron):
    """Against what plans the runs, which knows instants: no zone's clock may move a date here."""
    zone = ZONES[len(cron) % len(ZONES)] if not cron.startswith("0 0") else "UTC"
    first, last = (datetime(year, 3, 1, tzinfo=ZoneInfo(zone)) for year in (2026, 2028))
    instants = times(cron, zone, first, last)
    dates = Cadence(CalendarDays.of(cron), zone, "").dates(date(2026, 3, 1))
    expected = [at.date() for at in instants]
    assert expected
    assert list(takewhile(lambda day: day <= expected[-1], dates)) == expected


def test_each_date_comes_once_where_clocks_jump_at_midnight(plan):
    schedule(plan, "0 0 * * *", "America/Santiago")
    days = list(islice(cadence_of(plan.loaded).dates(date(2026, 1, 1)), 730))
    assert days == [date(2026, 1, 1) + timedelta(days=number) for number in range(730)]


def test_how_often_is_said_as_a_person_would(plan):
    for cron, words in (
        ("30 2 * * *", "every night"),
        ("30 2 * * 3", "every week"),
        ("30 2 28 * *", "every month"),
        ("30 2 31 * *", "on the days of its schedule"),
        ("30 2 * * 1-5", "on the days of its schedule"),
        ("30 2 * 5 *", "on the days of its schedule"),
    ):
        schedule(plan, cron)
        assert cadence_of(plan.loaded).words == words
    # The day is that of the schedule's zone.
    schedule(plan, "30 2 * * *", "Pacific/Kiritimati")
    assert cadence_of(plan.loaded).today(datetime(2026, 11, 27, 12, tzinfo=UTC)) == date(2026, 11, 28)


def test_a_date_before_the_next_release_asks_for_no_noise(plan):
    schedule(plan, "30 2 1 * *")
    found = ahead(Ledger(plan.loaded.ledger_url), [plan], TODAY + timedelta(days=5))
    assert (found.nights_until, found.noise_factor) == (0, 1.0)
    assert dict(forecast_lines(found))[f"To {found.until}"] == "no release is due until then"


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
    assert dict(forecast_lines(found))[f"To {found.until}"] == "3 nights fit as they are"
    book(ledger, plan, "all", Loss(ledger.budget("people").left_mu, 0.0, 1e-25))
    none = ahead(ledger, [plan], TODAY + timedelta(days=3))
    assert (none.nights_left, none.noise_factor) == (0, None)
    assert "nothing is left" in dict(forecast_lines(none))[f"To {none.until}"]


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
    said = dict(forecast_lines(ahead(ledger, [plan])))
    assert said["Any 365 days"] == f"{part.nights - 1} more releases like this; a whole one holds {part.nights}"
