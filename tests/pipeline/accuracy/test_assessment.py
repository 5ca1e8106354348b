"""A plan says how exactly each number will be known, in its own unit and for stated records."""

import json
import math
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import special_ortho_group

from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.accuracy.assessing import assess
from blockveil.pipeline.accuracy.directions import Directions, ordinal
from blockveil.pipeline.accuracy.good_enough import AccuracyQuestion, good_enough
from blockveil.pipeline.accuracy.number_error import ExpectedError, short_number
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.kinds.moments import directions_found as direction_accuracy
from blockveil.pipeline.kinds.moments.directions_found import found_of, sine_of_noise, supposed_spectrum
from blockveil.pipeline.plan.excess_noise import with_rows
from blockveil.pipeline.plan.planning import make_plan, plan_near
from tests.house import support

NIGHT = date(2026, 11, 20)
SHAPED = 'kind = "shaped-gaussian"\noptimise_for = "relative-error"'
SHIPPED = (
    "quickstart",
    "totals",
    "nightly",
    "training",
    "train-model",
    "visits",
    "pickups",
    "growing",
    "gradients",
    "directions",
    "bounds",
    "marginals",
)


def people(folder, **changes):
    path = support.write_config(folder, **{key: value for key, value in changes.items() if key != "replaced"})
    for old, new in changes.get("replaced", {}).items():
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    return make_plan(load_config(path), NIGHT)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_config_is_told_how_exact_it_will_be(name, monkeypatch):
    monkeypatch.setenv("BLOCKVEIL_TLS_KEY_FILE", "/dev/null")
    plan = plan_near(load_config(Path("configs") / f"{name}.toml"), NIGHT)
    found = assess(plan, Population.of(plan, Supposed()))
    assert found.errors or found.directions
    assert all(math.isfinite(error.size) and error.size > 0.0 for error in (*found.errors, *found.pairs))
    assert all(error.at_most is None or error.at_most >= error.size for error in found.errors)
    assert all(value for _, value in found.lines())
    json.dumps(found.plain, allow_nan=False)


def test_errors_are_in_the_unit_of_the_feature_and_both_the_supposed_and_the_worst_are_said(tmp_path):
    plan = people(tmp_path)
    found = assess(plan, Population.of(plan, Supposed(rows=2_000)))
    by_name = {error.what: error for error in found.errors}
    age, income = by_name["mean of age"], by_name["mean of income"]
    # Noise of equal size relative to the features' widths, which are 120 and 1,000,000.
    # Whole years lie on whole integers, which costs a feature a part in a thousand of its range at most.
    assert income.size / age.size == pytest.approx(1_000_000 / 120, rel=1e-3)
    assert f"± {short_number(age.at_most)}" in age.amount
    assert age.at_most > 1.05 * age.size
    lines = dict(found.lines())
    assert "2,000 records (a guess)" in lines["Supposed"]
    assert "correlation of 0.5" in " ".join(lines)


def test_more_records_make_errors_smaller_in_proportion(tmp_path):
    plan = people(tmp_path)
    few, many = (assess(plan, Population.of(plan, Supposed(rows=rows))) for rows in (1_000, 10_000))
    ratios = [
        one.size / other.size for one, other in zip(few.errors + few.pairs, many.errors + many.pairs, strict=True)
    ]
    assert [ratio for ratio in ratios if math.isfinite(ratio)] == pytest.approx([10.0] * len(ratios))


def test_a_correlation_says_beside_it_what_holds_where_records_fill_less_of_their_bounds(tmp_path):
    plan = people(tmp_path)
    usual, narrow = (assess(plan, Population.of(plan, Supposed(spread=spread))).pairs for spread in (1 / 6, 1 / 18))
    assert narrow[0].size > 5.0 * usual[0].size
    assert f"± {short_number(narrow[0].size)} where standard deviations are a third of that" in usual[0].note


def test_with_a_guess_a_plan_also_says_what_holds_at_the_bound(tmp_path):
    plan = people(tmp_path)
    lines = dict(good_enough(plan, AccuracyQuestion(Supposed(rows=2_000))).lines)
    assert "10,000 records" in lines["At the bound"]
    assert "5 times smaller" in lines["At the bound"]
    assert "At the bound" not in dict(good_enough(plan, AccuracyQuestion(Supposed(rows=10_000))).lines)
    assert "as many as there may be" in dict(good_enough(plan, AccuracyQuestion()).lines)["Supposed"]


def test_what_is_below_the_noise_is_called_unknown(tmp_path):
    plan = people(tmp_path)
    found = assess(plan, Population.of(plan, Supposed(rows=20)))
    assert not any(error.known for error in found.pairs)
    assert "says nothing" in found.pairs[-1].amount
    sizes = [error for error in found.errors if error.what.startswith("standard deviation")]
    assert all("not known" in error.amount for error in sizes)
    assert "none is found" in found.directions.sentence
    assert all(each["error_95"] is None for each in found.plain["errors"] if each["what"].startswith("standard"))


def test_records_within_a_norm_are_supposed_nearer_to_the_origin(tmp_path):
    features = 'kind = "ball"\nradius = 2.0\nfeatures = [{ name = "f", origin = 1.0, count = 50 }]\n'
    text = support.write_config(tmp_path).read_text()
    start, end = text.index('kind = "box"'), text.index("\n[privacy]")
    (tmp_path / "ball.toml").write_text(text[:start] + features + text[end:])
    plan = make_plan(load_config(tmp_path / "ball.toml"), NIGHT)
    population = Population.of(plan, Supposed())
    assert np.sqrt(np.sum(population.size**2)) == pytest.approx(2.0 * 2.0 / 3.0)
    assert (population.mean == 1.0).all()
    assert "times nearer to the origin" in population.words


def test_of_sparse_records_values_are_supposed_to_be_zero_as_often_as_the_config_declares(tmp_path):
    text = support.write_config(tmp_path).read_text()
    start, end = text.index("features = ["), text.index("]\n\n[privacy]")
    features = '{ name = "f", lower = 0, upper = 3 }, { name = "g", lower = 1, upper = 3 }'
    text = f"{text[:start]}features = [{features}{text[end:]}"
    (tmp_path / "dense.toml").write_text(text)
    (tmp_path / "sparse.toml").write_text(text.replace("[compute]", "[compute]\ndensity_at_most = 0.05"))
    dense, sparse = (
        Population.of(make_plan(load_config(tmp_path / f"{name}.toml"), NIGHT), Supposed())
        for name in ("dense", "sparse")
    )
    random = np.random.default_rng(3)
    values = np.where(random.random(10**6) < 0.05, random.normal(1.5, 0.5, 10**6), 0.0)
    assert sparse.mean == pytest.approx([values.mean(), 2.0], rel=0.02)
    assert sparse.size == pytest.approx([values.std(), 1.0 / 3.0], rel=0.02)
    assert dense.mean.tolist() == [1.5, 2.0]
    assert "zeros in all but a share of 0.05 (compute.density_at_most)" in sparse.words
    assert "zeros" not in dense.words


@pytest.mark.parametrize(
    ("supposed", "told"),
    [
        (Supposed(rows=0), "--rows 0 is not between 1 and 10,000"),
        (Supposed(rows=-5), "--rows -5"),
        (Supposed(rows=10_001), "--rows 10,001"),
        (Supposed(correlation=1.0), "--correlation 1"),
        (Supposed(correlation=-0.1), "--correlation -0.1"),
        (Supposed(correlation=math.nan), "--correlation nan"),
        (Supposed(spread=0.0), "--spread 0"),
        (Supposed(spread=math.inf), "--spread inf"),
        (Supposed(spread=math.nan), "--spread nan"),
    ],
)
def test_what_no_records_can_be_is_refused(tmp_path, supposed, told):
    plan = people(tmp_path)
    with pytest.raises(ConfigError) as refused:
        Population.of(plan, supposed)
    assert told in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("rows", [2_000, 4_000, 6_000])
def test_directions_that_are_found_are_within_30_degrees_in_noisy_matrices(tmp_path, rows):
    """Many noisy matrices of the stated spectrum, in many bases."""
    path = support.write_config(tmp_path)
    text = path.read_text()
    start, end = text.index("features = ["), text.index("]\n\n[privacy]")
    path.write_text(f'{text[:start]}features = [{{ name = "f", lower = -1, upper = 1, count = 6 }}{text[end:]}')
    plan = make_plan(load_config(path), NIGHT)
    population = Population.of(plan, Supposed(rows=rows))
    sines = sine_of_noise(plan.answer, population)
    spectrum = supposed_spectrum(population, population.names, np.ones(6))
    draws, m = 2_000, 7
    drawn = plan.design.grid.draw(NoiseKey.derive(bytes(32), b"angles"), (0, draws * m), (0, m), False)
    noise = drawn.reshape(draws, m, m) * (plan.design.steps((0, m), (0, m)) / plan.design.shifted_unit) / rows
    noise = (np.triu(noise) + np.swapaxes(np.triu(noise, 1), 1, 2))[:, 1:, 1:]
    bases = special_ortho_group(6, seed=1).rvs(draws)
    noisy = np.linalg.eigh((bases * spectrum) @ np.swapaxes(bases, 1, 2) + noise)[1][:, :, ::-1]
    lost = 1.0 - np.mean(np.sum(bases * noisy, axis=1) ** 2, axis=0)
    found = found_of(sines)
    assert 0 < found < 6
    assert (lost[:found] <= 0.25).all()
    assert lost[found] > 0.15
    assert lost[:found] == pytest.approx(sines[:found], rel=0.25)


def test_noise_that_the_diagonal_shares_in_different_sizes_is_in_the_bound_between_any_two_directions(tmp_path):
    following = {SHAPED: 'kind = "shaped-diagonal"\noptimise_for = { age = 1.0, income = 2e-8, debt = 1e-8 }'}
    plan = people(tmp_path, kind="second-moment", replaced=following)
    shared = plan.design.spread.diagonal.shared
    assert shared > 0
    assert np.ptp(plan.design.spread.diagonal.sizes(plan.design.spread.rows)) > 0.0
    population = Population.of(plan, Supposed(rows=2_000))
    bound = direction_accuracy._along_any_pair(plan.answer, population) * 2_000
    whole, size = ((0, 3), (0, 3)), plan.design.steps((0, 3), (0, 3)) / plan.design.shifted_unit
    noise = np.array([plan.design.noise(NoiseKey(k.to_bytes(32)), *whole) * size for k in range(1_000)])
    pairs = special_ortho_group(3, seed=2).rvs(50)
    moved = np.einsum("pi,nij,pj->pn", pairs[:, :, 0], noise, pairs[:, :, 1]).std(axis=1)
    assert moved.max() <= bound * 1.05


def test_how_many_directions_are_found_can_be_read_aloud():
    assert Directions(3, 10).sentence.startswith("the first 3 are found, the 4th is not")
    assert Directions(1, 10).sentence.startswith("the first is found, the 2nd is not")
    assert Directions(4, 4).sentence.startswith("all 4 are found")
    assert [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th",
    ]  # fmt: skip


def test_numbers_are_short_and_whole_where_they_are_large():
    shown = {
        0.0: "0",
        0.00074: "0.00074",
        0.4: "0.40",
        12.34: "12",
        1234.5: "1,200",
        3e9: "3,000,000,000",
        3e12: "3.0e+12",
        2e-7: "2.0e-07",
    }
    assert {value: short_number(value) for value in shown} == shown
    assert ExpectedError("x", math.inf).plain["error_95"] is None


def test_errors_depend_on_how_many_records_a_config_would_allow_by_their_rounding_alone(tmp_path):
    plan = people(tmp_path)
    more = make_plan(with_rows(plan.loaded, 20_000), NIGHT)
    few, many = (assess(each, Population.of(each, Supposed(rows=2_000))) for each in (plan, more))
    for one, other in zip(few.errors, many.errors, strict=True):
        assert replace(one, size=0.0, at_most=None, note="") == replace(other, size=0.0, at_most=None, note="")
        assert one.size <= other.size <= one.size * (1.0 + 1e-6), "ten times the records are rounded"
