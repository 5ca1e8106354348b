"""Each civil date of a schedule's zone is one night, whatever its clocks do, at the instants that Prefect plans."""

import asyncio
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from types import SimpleNamespace
from zoneinfo import ZoneInfo, available_timezones

import pytest

from blockveil.flows.base import prefect_internals
from blockveil.flows.runs import deployed
from blockveil.pipeline.config.deployments_file import NightSection
from blockveil.pipeline.config.night_dates import night_at, wall_clock

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
ZONES = sorted(available_timezones() - {"localtime", "Factory"})
ORDINARY = (date(2026, 1, 31), date(2026, 5, 20), date(2028, 2, 29))
STARTS = (-25.5, -0.5, 0.75)
"""Hours from a change of clock at which the server begins to plan."""


@cache
def changes(zone):
    """Instants of ten years from which on a zone's clocks have another offset."""
    there, found = ZoneInfo(zone), []
    offset = lambda at: at.astimezone(there).utcoffset()  # noqa: E731
    for week in range(522):
        before = datetime(2021, 1, 1, tzinfo=UTC) + 7 * week * DAY
        after = before + 7 * DAY
        if offset(before) == offset(after):
            continue
        while after - before > MINUTE:
            middle = before + (after - before) // (2 * MINUTE) * MINUTE
            before, after = (middle, after) if offset(middle) == offset(before) else (before, middle)
        found.append(after)
    return found


def kinds_of_changes():
    """One zone and change for each pair of clock readings and offsets; zones with the same rule behave alike."""
    found = {}
    for zone in ZONES:
        there = ZoneInfo(zone)
        for change in changes(zone):
            before, after = (change - MINUTE).astimezone(there), change.astimezone(there)
            found.setdefault((before.time(), after.time(), before.utcoffset(), after.utcoffset()), (zone, change))
    return list(found.values())


def planned(cron, zone, start, end):
    """What Prefect's scheduler plans."""
    return asyncio.run(prefect_internals.cron_schedule(cron=cron, timezone=zone).get_dates(20, start=start, end=end))


def near(zone, change):
    """Crons whose time lies at a change of clock or near it."""
    before, after = (change - MINUTE).astimezone(ZoneInfo(zone)), change.astimezone(ZoneInfo(zone))
    hours = {before.hour, after.hour, 0, 23}
    return [f"{minute} {hour} * * *" for hour in sorted(hours) for minute in (0, 30)]


def days_from(first, count):
    return [first + number * DAY for number in range(count)]


@pytest.mark.slow
def test_every_instant_that_prefect_plans_at_a_change_of_clock_is_the_next_date():
    kinds = kinds_of_changes()
    assert len(kinds) > 50
    for zone, change in kinds:
        for cron in near(zone, change):
            for hours in STARTS:
                start = change + timedelta(hours=hours)
                nights = [night_at(at, cron, zone) for at in planned(cron, zone, start, change + 1.5 * DAY)]
                assert nights == days_from(nights[0], len(nights)), (zone, cron, start)


@pytest.mark.slow
def test_each_date_comes_once_at_every_change_of_clock_of_every_zone():
    """With the offset before the change and with the one after it, as one or another scheduler takes it."""
    for zone in ZONES:
        there = ZoneInfo(zone)
        for change in changes(zone):
            day = change.astimezone(there).date()
            for cron in near(zone, change):
                minute, hour = map(int, cron.split()[:2])
                for night in days_from(day - 2 * DAY, 5):
                    clock = wall_clock(night, cron, zone)
                    both = [datetime.combine(night, time(hour, minute, fold=fold), there) for fold in (0, 1)]
                    assert {night_at(at, cron, zone) for at in (*both, clock)} == {clock.date()} == {night}, (
                        zone,
                        cron,
                    )
                    assert clock.timestamp() == max(at.timestamp() for at in both)


def test_each_hour_of_other_days_is_a_night_of_its_date_in_every_zone():
    for zone in ZONES:
        there = ZoneInfo(zone)
        for day in ORDINARY:
            for hour in range(24):
                cron, at = f"0 {hour} * * *", datetime(day.year, day.month, day.day, hour, tzinfo=there)
                assert wall_clock(day, cron, zone) == at
                # By the schedule, and by a person at any other time.
                assert {night_at(at + more * MINUTE, cron, zone) for more in (0, 17)} == {day}, (zone, cron)


@pytest.mark.parametrize("day", ORDINARY)
def test_each_hour_of_other_days_is_planned_by_prefect_as_the_calendar_has_it(day):
    zones = {datetime.combine(day, time(12), ZoneInfo(zone)).utcoffset(): zone for zone in ZONES}
    for zone in zones.values():
        start = datetime.combine(day - DAY, time(12), ZoneInfo(zone))
        for hour in range(24):
            cron = f"0 {hour} * * *"
            found = prefect_internals.times(cron, zone, start, start + 2 * DAY)
            assert found == planned(cron, zone, start, start + 2 * DAY)
            assert [at.date() for at in found] == [night_at(at, cron, zone) for at in found]


@pytest.mark.parametrize("zone", ["Africa/Cairo", "America/Santiago", "Asia/Beirut", "Atlantic/Azores", "America/Nuuk"])
@pytest.mark.parametrize("cron", ["0 0 * * *", "30 0 * * *", "30 23 * * *", "30 1 * * *"])
def test_the_times_of_ten_years_are_one_a_date(cron, zone):
    """More of them than Prefect looks at in one go."""
    there = ZoneInfo(zone)
    found = prefect_internals.times(
        cron, zone, datetime(2021, 1, 1, tzinfo=there), datetime(2030, 12, 31, 23, 59, tzinfo=there)
    )
    assert [at.date() for at in found] == days_from(date(2021, 1, 1), 3652)


def test_the_dates_of_a_calendar_with_gaps_keep_their_gaps():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    found = prefect_internals.times("0 0 24 4 *", "Africa/Cairo", start, start + 366 * DAY)
    assert [at.date() for at in found] == [date(2026, 4, 24)]


@pytest.mark.parametrize(("now", "missed"), [((24, 12), False), ((25, 12), True)])
def test_a_night_that_was_planned_before_its_skipped_midnight_is_not_its_own_newer_night(monkeypatch, now, missed):
    night = NightSection(
        config="people",
        cron="0 0 * * *",
        timezone="Africa/Cairo",
        mode="release",
        missed_nights="latest",
        grace_minutes=60,
    )
    run = SimpleNamespace(scheduled_start_time=datetime(2026, 4, 23, 21, tzinfo=UTC), run_count=1)
    monkeypatch.setattr(deployed, "runtime", SimpleNamespace(flow_run=run))
    here = deployed.Deployed(night, by_schedule=True)
    assert here.night() == date(2026, 4, 24)
    assert (here.missed(datetime(2026, 4, *now, tzinfo=UTC)) is not None) == missed
