"""Strategies of whole numbers: exact loss, errors as simulated, and a proof beside each search."""

import itertools
from math import isqrt, sqrt

import mpmath
import numpy as np
import pytest

from engine.calibration import CalibrationError
from engine.guarantees import Neighbours
from engine.mechanisms.matrix_mechanism import AxisStrategy, Strategy
from engine.mechanisms.strategy_search import optimal_axis, optimal_product, p_identity, singular_value_bound
from engine.workload_errors import factor_trace
from engine.workloads import AllRange, Identity, Kronecker, Prefix, Total, marginals

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def strategy(neighbours=ADD, shape=(6, 5), bits=16, records=10**6):
    rows, columns = (AxisStrategy.rounded(optimal_axis(AllRange(n).gram()).strategy, bits) for n in shape)
    return Strategy(rows, columns, neighbours, records)


def kron_columns(found):
    """Columns of the Kronecker strategy, in Python integers."""
    one, two = found.rows.integers.tolist(), found.columns.integers.tolist()
    return [[r[j] * s[k] for r in one for s in two] for j in range(len(one[0])) for k in range(len(two[0]))]


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize("bits", [3, 16])
def test_the_sensitivity_is_that_of_the_whole_numbers_that_are_used(neighbours, bits):
    found = strategy(neighbours, (4, 3), bits)
    columns = kron_columns(found)
    if neighbours is ADD:
        changes = columns
    else:
        changes = [[a - b for a, b in zip(c, d, strict=True)] for c, d in itertools.combinations(columns, 2)]
    square, absolute = max(sum(v * v for v in c) for c in changes), max(sum(map(abs, c)) for c in changes)
    assert square <= found.l2_squared
    assert absolute <= found.l1
    assert max(sum(v != 0 for v in c) for c in changes) <= found.changing
    if neighbours is ADD:
        assert (square, absolute) == (found.l2_squared, found.l1)
    elif bits == 16:
        assert found.l2_squared <= square * (1 + 1e-3)


def test_the_loss_is_never_below_the_exact_ratio():
    found = strategy()
    with mpmath.workdps(40):
        for scale in (1.0, 3e9, 7.7e11):
            exact = mpmath.sqrt(found.l2_squared) / mpmath.mpf(scale)
            assert exact <= found.gaussian_loss(scale).mu <= exact * (1 + mpmath.mpf(1e-11))
            assert mpmath.mpf(found.l1) / scale <= found.laplace_loss(scale).epsilon
    for wished in (0.1, 1.0, 3.7):
        assert found.gaussian_loss(found.gaussian_scale(wished)).mu <= wished
        assert found.laplace_loss(found.laplace_scale(wished)).epsilon <= wished
    assert found.l2 >= isqrt(found.l2_squared)


def test_the_answers_are_exact_in_python_integers_however_large():
    rng = np.random.default_rng(1)
    for bits, records in ((4, 10**5), (16, 2**28)):
        found = strategy(bits=bits, records=records)
        counts = rng.multinomial(records, np.full(30, 1 / 30)).reshape(6, 5).astype(np.int64)
        answers = found.answers(counts)
        one, two, table = found.rows.integers.tolist(), found.columns.integers.tolist(), counts.tolist()
        for p, q in itertools.product(range(6), range(5)):
            exact = sum(one[p][i] * table[i][j] * two[q][j] for i in range(6) for j in range(5))
            assert int(answers[p, q]) == exact


def test_estimates_are_without_bias_and_have_the_stated_error():
    rng, found = np.random.default_rng(2), strategy(shape=(6, 5))
    counts = rng.integers(0, 100, (6, 5))
    workload = (Kronecker(AllRange(6), AllRange(5)),)
    deviation = found.gaussian_scale(0.5)
    errors, total = [], np.zeros((6, 5))
    for _ in range(4000):

        def draw(rows, columns):
            return np.rint(rng.normal(0, deviation, (rows[1] - rows[0], columns[1] - columns[0]))).astype(np.int64)

        estimate = found.estimate(found.release(counts, draw))
        errors.append(float(np.sum((workload[0].apply(estimate) - workload[0].apply(counts)) ** 2)))
        total += estimate - counts
    mean, spread = np.mean(errors), np.std(errors) / sqrt(4000)
    stated = found.total_squared_error(workload, deviation)
    assert abs(mean - stated) < 6.2 * spread
    assert abs(mean - 1.1025 * stated) > 6.2 * spread
    cell = sqrt(found.total_squared_error((Kronecker(Identity(6), Identity(5)),), deviation) / 4000)
    assert np.max(np.abs(total)) / 4000 < 6.2 * cell


def test_exact_answers_are_estimated_exactly():
    found = strategy()
    counts = np.random.default_rng(3).integers(0, 1000, (6, 5))
    assert np.allclose(found.estimate(found.answers(counts)), counts, atol=1e-8)


@pytest.mark.parametrize("factor", [Identity(9), Prefix(9), AllRange(9), Prefix(40), AllRange(89)])
def test_the_axis_optimum_meets_its_own_lower_bound(factor):
    found = optimal_axis(factor.gram())
    assert np.allclose(np.diagonal(found.gram), 1.0, atol=1e-15)
    assert found.error == pytest.approx(factor_trace(factor.gram(), found.gram), rel=1e-12)
    assert found.singular_value_bound <= found.lower_bound <= found.error <= found.lower_bound * (1 + 2e-6)
    assert found.singular_value_bound == pytest.approx(singular_value_bound(factor.gram()), rel=1e-9)
    assert found.error <= float(np.trace(factor.gram())) * (1 + 1e-12)


def test_no_random_strategy_beats_the_lower_bound():
    rng = np.random.default_rng(4)
    for factor in (Prefix(5), AllRange(4)):
        found = optimal_axis(factor.gram())
        for _ in range(300):
            matrix = found.strategy + rng.normal(0, rng.choice([0.01, 0.1, 1.0]), found.strategy.shape)
            gram = matrix.T @ matrix
            assert factor_trace(factor.gram(), gram / np.max(np.diagonal(gram))) >= found.lower_bound


def test_the_optimum_of_two_cells_is_the_known_one():
    # V = [[a, c], [c, a]] has the symmetric optimum X = [[1, t], [t, 1]] minimising 2 (a - c t) / (1 - t^2).
    a, c = 2.0, 1.0
    t = (a - sqrt(a * a - c * c)) / c
    found = optimal_axis(np.array([[a, c], [c, a]]))
    assert found.error == pytest.approx(2 * (a - c * t) / (1 - t * t), rel=1e-8)
    assert found.gram[0, 1] == pytest.approx(t, rel=1e-4)


def test_products_and_unions_are_bounded_from_below():
    single = optimal_product((Kronecker(AllRange(12), Prefix(7), 3.0),))
    assert single.lower_bound <= single.error <= single.lower_bound * (1 + 1e-5)
    union = optimal_product((*marginals((8, 9)), Kronecker(Identity(8), Identity(9))))
    assert union.lower_bound <= union.error <= union.lower_bound * (1 + 1e-5)
    ranges = optimal_product((Kronecker(Prefix(8), Identity(9)), Kronecker(Identity(8), Prefix(9))))
    assert ranges.lower_bound <= ranges.error <= 1.3 * ranges.lower_bound


def test_rounding_a_strategy_to_integers_costs_almost_nothing():
    workload = (Kronecker(AllRange(6), AllRange(5)),)
    best, found = optimal_product(workload), strategy()
    share = found.total_squared_error(workload, sqrt(found.l2_squared)) / best.error
    assert 1 - 1e-5 <= share < 1.001


def test_a_laplace_strategy_has_columns_of_norm_one_and_beats_the_identity():
    factor, rng = AllRange(64), np.random.default_rng(5)
    matrix = p_identity(factor.gram(), 4, rng)
    assert np.allclose(np.sum(np.abs(matrix), axis=0), 1.0, atol=1e-12)
    assert factor_trace(factor.gram(), matrix.T @ matrix) < 0.95 * float(np.trace(factor.gram()))
    axis = AxisStrategy.rounded(matrix, 16)
    found = Strategy(axis, axis, ADD, 10**6)
    assert found.l1 == pytest.approx(2.0**32, rel=1e-3)
    counts = rng.integers(0, 50, (64, 64))
    assert np.allclose(found.estimate(found.answers(counts)), counts, atol=1e-8)
    identity = p_identity(np.eye(5), 1, rng)
    assert factor_trace(np.eye(5), identity.T @ identity) <= 5 * (1 + 1e-9)


def test_what_would_not_be_exact_or_private_is_refused():
    with pytest.raises(CalibrationError, match="2\\*\\*62"):
        strategy(records=2**40)
    with pytest.raises(CalibrationError, match="does not determine"):
        AxisStrategy(np.ones((3, 3), dtype=np.int64), 0)
    with pytest.raises(CalibrationError, match="bits"):
        AxisStrategy.rounded(np.eye(3), 40)
    with pytest.raises(CalibrationError, match="fewer bits"):
        AxisStrategy.rounded(np.eye(100), 24)
    with pytest.raises(CalibrationError, match="leaves some counts out"):
        optimal_axis(Total(4).gram())
    found = strategy()
    with pytest.raises(CalibrationError, match="records_at_most"):
        found.answers(np.full((6, 5), 10**6))
    with pytest.raises(CalibrationError, match="another shape"):
        found.answers(np.zeros((5, 6), dtype=np.int64))
    with pytest.raises(CalibrationError, match="noise must be int64"):
        found.release(np.zeros((6, 5), dtype=np.int64), lambda rows, columns: np.zeros((6, 5)))
    with pytest.raises(CalibrationError, match="positive"):
        found.gaussian_scale(0.0)
