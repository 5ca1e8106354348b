"""Noise is chosen for positive semi-definite versions by their own error, without a record."""

import numpy as np
import pytest

from blockveil.engine.estimates.postprocessing import nearest_psd
from blockveil.engine.estimates.shrunk_spectrum import noise_of_moment, shrunk, suits
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.mechanisms.positive_error import MOST_FEATURES
from blockveil.engine.records.geometry import Body

PROMISE = ApproxDP(0.9, 1e-6)
POSITIVE, TOTAL = Metric("psd"), Metric("total")


def moment(features, rows, power=0.5, body=Body.CUBE, constant=False):
    scale = np.arange(1.0, features + 1.0) ** -power
    return SecondMoment(body, scale, Neighbours.ADD_REMOVE, 2**15 - 1, rows, constant)


def test_where_noise_hides_the_answer_a_version_is_better_with_noise_that_its_total_variance_would_not_choose():
    problem = moment(23, 300)
    by_version, by_matrix = compare(problem, PROMISE, POSITIVE), compare(problem, PROMISE, TOTAL)
    assert by_version.mechanism.parameters() != by_matrix.mechanism.parameters()
    assert compare(moment(23, 100_000), PROMISE, POSITIVE).mechanism.parameters() == by_matrix.mechanism.parameters()
    # The same by noise and a truth of the test's own: other directions and eigenvalues, and the same mean squares.
    axes = np.linalg.qr(np.random.default_rng(77).standard_normal((23, 23)))[0]
    shape = (axes * np.arange(1.0, 24.0) ** -1.5) @ axes.T
    truth = 30.0 * shape / np.sqrt(np.outer(np.diagonal(shape), np.diagonal(shape)))
    errors = []
    for design in (by_version.design, by_matrix.design):
        rng, found = np.random.default_rng(4), 0.0
        for _ in range(40):
            noisy = truth + symmetric(design, rng)
            version = shrunk(noisy, noise_of_moment(design)) if suits(design, 0) else nearest_psd(noisy)[0]
            found += float(np.sum(((version - truth) * np.outer(problem.units[0], problem.units[0])) ** 2))
        errors.append(found)
    assert errors[0] < 0.25 * errors[1]


def symmetric(design, rng):
    upper = np.triu(rng.standard_normal(design.shape))
    return (upper + np.triu(upper, 1).T) * design.entry_standard_deviation()


@pytest.mark.parametrize("constant", [False, True])
def test_where_records_are_many_the_matrix_and_its_version_want_the_same_noise(constant):
    problem = moment(12, 10**8, constant=constant)
    by_version = compare(problem, PROMISE, POSITIVE)
    assert by_version.mechanism.name == compare(problem, PROMISE, TOTAL).mechanism.name
    # Nothing is cut or shrunk there, so that the error is the total variance, up to the chance of the draws.
    assert POSITIVE.value(by_version.design, problem) == pytest.approx(
        TOTAL.value(by_version.design, problem), rel=0.15
    )


@pytest.mark.parametrize("body", [Body.CUBE, Body.BALL])
def test_a_version_is_never_further_from_the_truth_than_the_matrix(body):
    # With fewer than ten features it is a projection onto a convex set that holds the truth.
    problem = moment(6, 1000, power=0.0, body=body)
    for row in compare(problem, PROMISE, POSITIVE).table:
        if row.error is not None:
            total = next(each.error for each in compare(problem, PROMISE, TOTAL).table if same(each, row))
            assert row.error <= 1.15 * total


def same(one, other):
    return (one.mechanism, one.parameters) == (other.mechanism, other.parameters)


def test_what_has_no_such_version_has_no_such_error():
    with pytest.raises(CannotCalibrate, match="only covariances and second moments"):
        compare(Rows(Body.CUBE, np.ones(3), Neighbours.REPLACE_ONE, 100, 10), PROMISE, POSITIVE)
    with pytest.raises(CannotCalibrate, match=f"2 to {MOST_FEATURES}"):
        compare(moment(MOST_FEATURES + 1, 100), PROMISE, POSITIVE)
