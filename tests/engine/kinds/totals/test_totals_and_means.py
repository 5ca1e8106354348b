"""Totals and means follow from released sums with the errors that they say; Fieller's interval from its inequality."""

import dataclasses

import numpy as np
import pytest

from blockveil.engine.estimates.ratios import RatioErrors
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.totals.estimate import totals_and_means, totals_error, worst_deviations
from blockveil.engine.kinds.totals.problem import Totals
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import ShapedGaussian
from blockveil.engine.mechanisms.laplace import Laplace
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Ball, Box, Ellipsoid

ADD, REPLACE = Neighbours
K, D, DRAWS = 2**19 - 1, 3, 20_000
SHAPES = {
    "box": Box([0.0, -1.0, 10.0], [4.0, 1.0, 40.0], [2.0, 0.0, 25.0]),
    "ball": Ball([1.0, 2.0, -3.0], 2.0),
    "turned ellipsoid": Ellipsoid([1.0, 2.0, -3.0], [[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]]),
}
SHAPED, LAPLACE = ShapedGaussian(Importance("relative-error")), Laplace(Importance("relative-error"))


def designed(shape, relation, mechanism=SHAPED):
    c = SHAPES[shape].coordinates()
    return c, mechanism.design(Totals(c.body, c.scale, relation, K, 10**6), ApproxDP(1.0, 1e-6))


def drawn(design):
    """Noise of many releases in grid steps, shape (DRAWS, columns)."""
    tall = dataclasses.replace(design, spread=dataclasses.replace(design.spread, rows=np.ones(DRAWS)))
    return tall.grid.draw(NoiseKey(bytes(range(32))), (0, DRAWS), (0, design.shape[1]), False)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("shape", SHAPES)
def test_totals_and_means_are_those_of_the_sums_and_their_errors_those_of_the_noise(shape, relation):
    c, design = designed(shape, relation)
    lead = int(relation is ADD)
    back = np.diag(c.to_raw()) if c.to_raw().ndim == 1 else c.to_raw()
    count, about = 5000.0, np.array([0.3, -0.2, 0.1])
    sums = np.linalg.solve(back, count * about)
    exact = np.concatenate([[count] * lead, sums])
    steps = design.steps((0, 1), (0, D + lead))[0]
    released = np.rint(exact * design.shifted_unit / steps).astype(np.int64)
    public = None if lead else int(count)
    found = totals_and_means(released[None, :], design, c, public)
    assert found.totals.value == pytest.approx(count * (c.origin + about), rel=1e-6)
    assert found.mean.value == pytest.approx(c.origin + about, rel=1e-6)
    noisy = [totals_and_means((released + row)[None, :], design, c, public) for row in drawn(design)[:4000]]
    for what in ("totals", "mean"):
        values = np.array([getattr(each, what).value for each in noisy])
        # 4,000 draws: four standard errors of a standard deviation are 4.5 %.
        assert values.std(axis=0) == pytest.approx(getattr(found, what).standard_deviation, rel=0.045)
    totals, means = worst_deviations(design, c, bool(lead), int(count))
    assert totals == pytest.approx(found.totals.standard_deviation, rel=1e-4)
    assert np.all(means >= found.mean.standard_deviation * (1.0 - 1e-4))


@pytest.mark.parametrize("mechanism", [SHAPED, LAPLACE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_of_all_totals_together_hold_in_95_of_100_releases(shape, relation, mechanism):
    c, design = designed(shape, relation, mechanism)
    report = totals_error(design, c, relation is ADD)
    lead = int(relation is ADD)
    noise = drawn(design) * design.steps((0, 1), (0, D + lead)) / design.shifted_unit
    back = np.diag(c.to_raw()) if c.to_raw().ndim == 1 else c.to_raw()
    totals = noise[:, lead:] @ back.T + (noise[:, :1] * c.origin if lead else 0.0)
    sizes, _ = worst_deviations(design, c, bool(lead), 1)
    assert np.mean(np.sum(totals**2, axis=1)) == pytest.approx(report.total_variance, rel=0.05)
    assert np.mean(np.linalg.norm(totals, axis=1) <= report.frobenius) >= 0.95
    assert np.mean(np.all(np.abs(totals) <= report.band * sizes, axis=1)) >= 0.945  # 20,000 draws


@pytest.mark.parametrize("size", [1.0, 1.96, 3.0])
@pytest.mark.parametrize("count", [0.0, 0.01, 0.2, 0.32])
def test_the_ends_of_fiellers_interval_are_where_its_inequality_is_an_equality(count, size):
    errors = RatioErrors(np.array([-1.0, 0.0, 0.4]), np.array([0.1, 0.2, 0.05]), count, 3.0)
    for end in errors.interval_of_mean(size):
        distance = np.abs(errors.shift - end) / np.hypot(errors.sums, end * count)
        assert distance == pytest.approx(size)
    low, high = errors.interval_of_mean(size)
    assert np.all((low < errors.shift) & (errors.shift < high))


def test_no_interval_is_stated_where_the_count_may_be_zero():
    errors = RatioErrors(np.array([-1.0, 0.5]), np.array([0.1, 0.2]), 0.6, 3.0)
    low, high = errors.interval_of_mean(1.96)
    assert np.all(np.isneginf(low))
    assert np.all(np.isposinf(high))
