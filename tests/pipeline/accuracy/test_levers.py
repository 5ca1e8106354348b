"""Levers do what is said of them: each was planned, and a person who pulls one gets that plan."""

import re
import tomllib
from datetime import date, timedelta
from pathlib import Path

import pytest

from blockveil.pipeline.accuracy.assessing import noise_size
from blockveil.pipeline.accuracy.changes import SHARED
from blockveil.pipeline.accuracy.good_enough import AccuracyQuestion, good_enough
from blockveil.pipeline.accuracy.levers import compared_features, levers
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.accuracy.priced_change import epsilon_of_nights, rarer_release, with_table
from blockveil.pipeline.accuracy.rhythm import Rhythm, rhythm_of
from blockveil.pipeline.budget.filter import Ticks
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.excess_noise import with_epsilon, with_section
from blockveil.pipeline.plan.planning import make_plan, plan_near
from tests.house import support

NIGHT = date(2026, 11, 20)
WEEK = 7


def planned(path, **overrides):
    plan = plan_near(load_config(path, overrides=overrides), NIGHT)
    return plan, Population.of(plan, Supposed())


def by_word(found, word):
    (lever,) = [each for each in found if word in each.what]
    return lever


@pytest.mark.parametrize("name", ["quickstart", "totals", "training", "visits", "pickups", "growing", "directions"])
def test_whoever_sets_a_lever_by_hand_gets_the_noise_that_it_promises(name):
    path = Path("configs") / f"{name}.toml"
    plan, population = planned(path)
    found = levers(plan, population)
    assert [lever.times_less for lever in found] == sorted((lever.times_less for lever in found), reverse=True)
    names, tried = compared_features(plan), 0
    for lever in found:
        if lever.setting:
            key, _, value = lever.setting.partition("=")
            changed, _ = planned(path, **{key: value})
            factor = noise_size(plan, population, names) / noise_size(changed, population, names)
            # What is set by hand has four digits.
            assert factor == pytest.approx(lever.times_less, rel=2e-3), lever.what
            tried += 1
    assert tried > 0
    assert all(lever.price for lever in found)


def test_where_noise_follows_the_records_no_bound_and_no_shared_charge_is_a_lever():
    learns, population = planned(Path("configs") / "quickstart.toml")
    shape = learns.config.query.geometry.model_copy(update={"learn": None})
    query = learns.config.query.model_copy(update={"geometry": shape})
    boxed = make_plan(with_table(learns.loaded, query=query), NIGHT)
    words = ("half as wide", "norm bound", "shared charge")
    for plan, wanted in ((learns, 0), (boxed, 3)):
        found = [lever.what for lever in levers(plan, population, Rhythm("night"))]
        assert sum(any(word in what for what in found) for word in words) == wanted, found


def test_fewer_rows_per_unit_divide_the_noise_by_as_much(tmp_path):
    path = support.write_config(tmp_path)
    path.write_text(path.read_text().replace('unit = "one person', 'rows_per_unit = 50\nunit = "one person'))
    found = levers(*planned(path))
    assert by_word(found, "rows per unit 10 in place of 50").times_less == pytest.approx(5.0, rel=0.02)
    assert by_word(found, "rows per unit 1 in place of 50").times_less == pytest.approx(50.0, rel=0.02)
    price = by_word(found, "rows per unit 10 in place of 50").price
    assert "at most 80 % of all rows; what it drops takes back as much of the gain" in price


def test_bounds_half_as_wide_give_a_quarter_of_the_noise_and_twice_the_records_half_of_it(tmp_path):
    plan, population = planned(support.write_config(tmp_path))
    found = levers(plan, population)
    assert by_word(found, "half as wide").times_less == pytest.approx(4.0, rel=1e-3)
    assert by_word(found, "twice as many records, 20,000").times_less == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("name", ["quickstart", "visits"])
def test_one_night_a_week_costs_no_more_than_every_night(name):
    plan, _ = planned(Path("configs") / f"{name}.toml")
    epsilon = epsilon_of_nights(plan, WEEK)
    weekly = make_plan(with_epsilon(plan.loaded, epsilon), NIGHT)
    whole, one = Ticks.of(plan.charge).times(WEEK), Ticks.of(weekly.charge)
    assert 0.999 * whole.loss <= one.loss <= whole.loss
    assert 0.999 * whole.pure <= one.pure <= whole.pure


@pytest.mark.parametrize(
    ("deployments", "often"),
    [
        (None, "unknown"),
        ("", "once"),
        ('config = "another"\ncron = "30 2 * * *"', "once"),
        ('config = "release"\ncron = "30 2 * * *"', "night"),
        ('config = "release"\ncron = "30 2 * * 1"', "week"),
        ('config = "release"\ncron = "30 2 5 * *"', "month"),
        ('config = "release"\ncron = "30 2 * * 1-5"', "several"),
        ('config = "release"\ncron = "every so often"', "unknown"),
    ],
)
def test_only_what_is_released_again_and_again_is_told_to_be_released_more_rarely(tmp_path, deployments, often):
    path = support.write_config(tmp_path).rename(tmp_path / "release.toml")
    rest = 'mode = "release"\nmissed_nights = "latest"\ntimezone = "UTC"\n'
    if deployments is not None:
        (tmp_path / "deployments.toml").write_text(f"[[night]]\n{deployments}\n{rest}" if deployments else "")
    plan, population = planned(path)
    assert rhythm_of(plan.loaded) == Rhythm(often)
    whats = [lever.what for lever in levers(plan, population)]
    rarer = [what for what in whats if "one night a week" in what or "one release in" in what]
    assert len(rarer) == (often != "once"), whats
    assert any("shared charge" in what for what in whats) == (often in ("night", "several", "unknown")), whats
    words = {
        "night": "one night a week in place of every night",
        "unknown": "one night a week where it is released every night",
        "week": "one release in 4 weeks in place of every week",
        "month": "one release in 3 months in place of every month",
        "several": "one release in place of 7",
    }
    assert rarer == ([] if often == "once" else [words[often]])


@pytest.mark.parametrize(("share", "releases"), [(0.03, WEEK), (0.25, 4)])
def test_releases_that_share_a_promise_become_rarer_by_a_larger_share(tmp_path, share, releases):
    path = support.write_config(tmp_path)
    text = re.sub(r"(?m)^(epsilon = .*)$", rf"\1\nshare = {share}", path.read_text())
    path.write_text(text)
    plan, population = planned(path)
    found = levers(plan, population)
    lever = by_word(found, f"one release in place of {releases}")
    assert lever.setting == f"privacy.share={releases * share:g}"
    assert lever.times_less == pytest.approx(releases**0.5, rel=1e-3)
    rarer = make_plan(rarer_release(plan, Rhythm("several"), releases).loaded, NIGHT)
    assert Ticks.of(rarer.charge).loss <= 1.000001 * Ticks.of(plan.charge).times(releases).loss
    assert rarer_release(plan, Rhythm("several"), int(1 / share) + 1) is None
    nights = int(1 / share)
    together = by_word(found, f"{nights} nights in one shared charge")
    assert "[continual]" in together.what
    assert together.times_less > 1.2


def test_nights_that_share_a_charge_are_not_divided_again_and_a_lever_that_is_none_is_not_named():
    plan, population = planned(Path("configs/growing.toml"))
    assert epsilon_of_nights(plan, WEEK) is None
    found = levers(plan, population)
    assert not any("one night a week" in lever.what for lever in found)
    assert all(lever.times_less >= 1.02 for lever in found)


def test_nights_in_one_shared_charge_have_the_noise_that_is_promised_and_cost_no_more(tmp_path):
    path = support.write_config(tmp_path)
    plan, population = planned(path)
    lever = by_word(levers(plan, population), f"{SHARED} nights in one shared charge")
    epsilon = epsilon_of_nights(plan, SHARED)
    assert f"epsilon {epsilon:.4g} of all nights together" in lever.price
    text = re.sub(r"(?m)^epsilon = .*$", f"epsilon = {epsilon}", path.read_text())
    last = NIGHT - timedelta(days=SHARED - 1)  # of the planned night the noise is the largest
    path.write_text(f"{text}\n[continual]\nnights = {SHARED}\nfirst = {last}\n")
    shared, _ = planned(path)
    names = compared_features(plan)
    factor = noise_size(plan, population, names) / noise_size(shared, population, names)
    assert factor == pytest.approx(lever.times_less, rel=1e-6)
    assert factor == pytest.approx(SHARED**0.5 / shared.series.levels.factors[-1], rel=1e-3)
    assert Ticks.of(shared.charge).loss <= Ticks.of(plan.charge).times(SHARED).loss


def test_where_nights_share_a_charge_already_fewer_of_them_are_named():
    plan, population = planned(Path("configs/growing.toml"))
    lever = by_word(levers(plan, population), f"{SHARED} nights in one shared charge in place of 365")
    assert f"lasts {SHARED} nights where it lasted 365" in lever.price
    fewer, _ = planned(Path("configs/growing.toml"), **{"continual.nights": str(SHARED)})
    names = compared_features(plan)
    factor = noise_size(plan, population, names) / noise_size(fewer, population, names)
    assert factor == pytest.approx(lever.times_less, rel=1e-6)


@pytest.mark.parametrize("name", ["training", "directions", "visits"])
def test_a_query_or_a_mechanism_that_cannot_share_a_charge_is_offered_none(name):
    plan, population = planned(Path("configs") / f"{name}.toml")
    assert not any("shared charge" in lever.what for lever in levers(plan, population))


def test_a_wide_matrix_is_told_of_norm_features_and_directions(tmp_path):
    path = support.write_config(tmp_path)
    text = path.read_text()
    start, end = text.index("features = ["), text.index("]\n\n[privacy]")
    path.write_text(f'{text[:start]}features = [{{ name = "f", lower = -1, upper = 1, count = 300 }}{text[end:]}')
    plan, population = planned(path)
    found = levers(plan, population)
    norm = by_word(found, "a norm bound of")
    assert norm.times_less > 3.0
    assert "half of the distance of its furthest corner" in norm.what
    assert by_word(found, "the first 150 of the 300 features").times_less > 1.5
    assert any("principal directions in place of the matrix" in lever.what for lever in found)


@pytest.mark.parametrize(("declared", "share"), [("", 0.1), ("density_at_most = 0.01", 0.01)])
def test_records_of_many_zeros_are_measured_from_zero_where_that_is_a_bound(tmp_path, declared, share):
    text = support.write_config(tmp_path).read_text()
    start, end = text.index("features = ["), text.index("]\n\n[privacy]")
    text = f'{text[:start]}features = [{{ name = "f", lower = 0, upper = 2, count = 300 }}{text[end:]}'
    text = text.replace("[compute]", f"[compute]\n{declared}")
    (tmp_path / "zeros.toml").write_text(text)
    plan, population = planned(tmp_path / "zeros.toml")
    found = levers(plan, population)
    assert "zero is a bound here, and extreme too" in by_word(found, "furthest corner").price
    lever = by_word(found, 'origin = "zero"')
    norm = float(f"{2.0 * (300 * share) ** 0.5:.3g}")
    assert f"a norm bound of {norm:g}," in lever.what
    middle = 'origin = "midpoint"'
    assert middle in text
    (tmp_path / "set.toml").write_text(text.replace(middle, f'origin = "zero"\nnorm_at_most = {norm}'))
    by_hand, _ = planned(tmp_path / "set.toml")
    names = compared_features(plan)
    factor = noise_size(plan, population, names) / noise_size(by_hand, population, names)
    assert factor == pytest.approx(lever.times_less, rel=1e-6)
    assert factor > 1.5
    again = levers(by_hand, population)
    assert not any('origin = "zero"' in each.what for each in again)
    assert "further than that from zero" in by_word(again, "furthest corner").price


def test_a_middle_that_is_zero_needs_no_other_origin(tmp_path):
    plan, population = planned(support.write_config(tmp_path))
    shape = plan.config.query.geometries["geometry"]
    assert any(feature.lower + feature.upper for feature in shape.features)
    even = tuple(feature.model_copy(update={"lower": -1.0, "upper": 1.0}) for feature in shape.features)
    narrower = with_section(plan.loaded, "query", {"geometry": shape.model_copy(update={"features": even})})
    found = levers(plan_near(narrower, NIGHT), population)
    assert not any('origin = "zero"' in lever.what for lever in found)


def test_three_levers_are_shown_and_the_rest_where_they_are_asked_for(tmp_path):
    plan, _ = planned(support.write_config(tmp_path))
    few = good_enough(plan, AccuracyQuestion(Supposed(rows=5_000))).lines
    every = good_enough(plan, AccuracyQuestion(Supposed(rows=5_000), options=True)).lines
    assert sum("less noise" in what for what, _ in few) == 3
    assert sum("less noise" in what for what, _ in every) > 3
    assert "--options shows" in dict(few)["Options"]
    assert "--options shows" not in dict(every)["Options"]


def test_a_lever_leaves_the_config_that_lies_in_a_file_as_it_is(tmp_path):
    path = support.write_config(tmp_path)
    before = tomllib.loads(path.read_text())
    plan, population = planned(path)
    digest = plan.digest
    levers(plan, population)
    assert (tomllib.loads(path.read_text()), plan.digest) == (before, digest)
