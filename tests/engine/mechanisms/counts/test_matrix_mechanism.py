"""Strategies of whole numbers: exact loss, errors as simulated, and a proof beside each search."""

import itertools
from math import isqrt, sqrt

import mpmath
import numpy as np
import pytest

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.counts.matrix_mechanism import AxisStrategy, ProductStrategy
from blockveil.engine.mechanisms.counts.strategy_search import optimal_axis, optimal_product, singular_value_bound
from blockveil.engine.workloads.expected_error import factor_trace
from blockveil.engine.workloads.workload import AllRange, Identity, Kronecker, Prefix, Total, marginals

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def strategy(shape=(6, 5), bits=16, records=10**6):
    rows, columns = (AxisStrategy.rounded(optimal_axis(AllRange(n).gram()).strategy, bits) for n in shape)
    return ProductStrategy(rows, columns, records)


def kron_columns(found):
    """Columns of the Kronecker strategy, in Python integers."""
    one, two = found.rows.integers.tolist(), found.columns.integers.tolist()
    return [[r[j] * s[k] for r in one for s in two] for j in range(len(one[0])) for k in range(len(two[0]))]


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize("bits", [3, 16])
def test_the_sensitivity_is_that_of_the_whole_numbers_that_are_used(neighbours, bits):
    found = strategy((4, 3), bits)
    columns = kron_columns(found)
    # Under replace-one a record may also leave the table for nowhere, or enter it.
    changes = list(columns)
    if neighbours is REPLACE:
        changes += [[a - b for a, b in zip(c, d, strict=True)] for c, d in itertools.combinations(columns, 2)]
    square = max(sum(v * v for v in c) for c in changes)
    assert square <= found.l2_squared(neighbours)
    assert max(sum(v != 0 for v in c) for c in changes) <= found.changing(neighbours)
    sensitivity = found.l2(neighbours)
    with mpmath.workdps(40):
        assert mpmath.sqrt(found.l2_squared(neighbours)) / found.unit <= sensitivity.bound
        assert sensitivity.attained <= mpmath.sqrt(square) / found.unit * (1 + mpmath.mpf(1e-14))
    assert sensitivity.bound <= isqrt(found.l2_squared(neighbours)) / found.unit * (1 + 2.0 ** (1 - 2 * bits))
    if neighbours is ADD:
        assert square == found.l2_squared(ADD)
        assert sensitivity.exact
    elif bits == 16:
        assert found.l2_squared(neighbours) <= square * (1 + 1e-3)


def test_a_record_that_leaves_the_table_counts_where_all_columns_are_nearly_alike():
    alike = AxisStrategy(np.array([[1, 0], [0, 1], [5, 5]]), 0)
    found = ProductStrategy(alike, AxisStrategy(np.array([[1]]), 0), 100)
    # Two columns are sqrt(2) apart, but each of them is sqrt(26) away from nothing.
    assert found.l2_squared(ADD) == 26
    assert found.l2_squared(REPLACE) == 26


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


def test_estimates_are_without_bias_and_have_the_stated_errors():
    rng, found, trials = np.random.default_rng(2), strategy(shape=(6, 5)), 4000
    counts = rng.integers(0, 100, (6, 5))
    part, deviations = Kronecker(AllRange(6), AllRange(5)), np.full(6, 3.0)
    exact, noise = found.answers(counts) / found.unit, rng.normal(0, 3.0, (trials, 6, 5))

    def each(linear, tables):
        """A linear map of many tables, from what it does to the tables with a single one."""
        single = np.array([linear(one.reshape(6, 5)) for one in np.eye(30)])
        return np.tensordot(tables.reshape(len(tables), 30), single, axes=1)

    errors = each(lambda answers: found.estimate(answers, deviations), noise)
    for error, drawn in zip(errors[:20], noise, strict=False):
        assert np.allclose(found.estimate(exact + drawn, deviations) - counts, error, atol=1e-9)
    stated = found.cell_deviations(deviations)
    assert np.max(np.abs(errors.mean(axis=0)) / stated) < 6.2 / sqrt(trials)
    assert np.max(np.abs(errors.std(axis=0) / stated - 1)) < 6.2 / sqrt(2 * trials)
    answers = each(part.apply, errors)
    for answer, error in zip(answers[:20], errors, strict=False):
        assert np.allclose(part.apply(error), answer, atol=1e-9)
    single = found.answer_deviations(part, deviations)
    assert np.max(np.abs(answers.std(axis=0) / single - 1)) < 6.2 / sqrt(2 * trials)
    squares = np.sum(answers**2, axis=(1, 2))
    whole, spread = found.workload_error((part,), deviations), np.std(squares) / sqrt(trials)
    assert whole == pytest.approx(float(np.sum(single**2)), rel=1e-10)
    assert abs(np.mean(squares) - whole) < 6.2 * spread
    assert abs(np.mean(squares) - 1.1025 * whole) > 6.2 * spread
    directions = errors.reshape(trials, -1) @ np.linalg.qr(rng.normal(size=(30, 30)))[0]
    assert np.max(directions.std(axis=0)) <= found.widest(deviations) * (1 + 6.2 / sqrt(2 * trials))


def test_exact_answers_are_estimated_exactly_and_published_with_their_coefficients():
    found = strategy()
    counts = np.random.default_rng(3).integers(0, 1000, (6, 5))
    exact = found.answers(counts) / found.unit
    assert np.allclose(found.estimate(exact, np.ones(6)), counts, atol=1e-8)
    arrays = found.arrays(exact, np.ones(6))
    again = arrays["row_strategy"][0] @ counts @ arrays["column_strategy"][0].T
    assert np.array_equal(again, arrays["strategy_answers"][0])
    assert found.facts()["rows"]["sha256"] == found.rows.digest


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
    share = found.workload_error(workload, np.full(6, found.l2(ADD).bound)) / best.error
    assert 1 - 1e-5 <= share < 1.001


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
    with pytest.raises(CalibrationError, match="rows_at_most"):
        found.answers(np.full((6, 5), 10**6))
    with pytest.raises(CalibrationError, match="another shape"):
        found.answers(np.zeros((5, 6), dtype=np.int64))
