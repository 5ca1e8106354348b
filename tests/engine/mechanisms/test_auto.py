"""Auto is never worse than any other proven mechanism, in the metric that was asked for."""

import tracemalloc

import numpy as np
import pytest

from benchmarks.mechanisms import GUARANTEE, shapes, workloads
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.marginals.problem import Marginals
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.auto import Metric, compare, proven
from blockveil.engine.mechanisms.catalogue import ENTRIES, find
from blockveil.engine.mechanisms.contract import Importance, Status
from blockveil.engine.mechanisms.counts.strategy_search import optimal_product
from blockveil.engine.mechanisms.counts.workload_answers import MatrixMechanism
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.records.geometry import Body
from blockveil.engine.workloads.marginal_tables import MarginalTables

K = 2**15 - 1
METRICS = {
    "total": Metric("total"),
    "relative": Metric("relative"),
    "spectral": Metric("spectral"),
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("shape", shapes())
def test_no_proven_mechanism_has_a_smaller_error_on_the_papers_shapes(metric, shape):
    problem = shapes()[shape]
    found = compare(problem, GUARANTEE, METRICS[metric])
    best = METRICS[metric].value(found.design, problem)
    assert found.table[0].error == best
    for mechanism in proven(METRICS[metric]):
        try:
            error = METRICS[metric].value(mechanism.design(problem, GUARANTEE), problem)
        except ValueError:
            continue
        assert best <= error


@pytest.mark.parametrize("name", ["all rectangles of 89 x 89", "corner rectangles of 89 x 89", "marginals of 89 x 89"])
def test_no_proven_mechanism_has_a_smaller_error_on_a_workload(name):
    problem, metric = workloads()[name], Metric("workload")
    for guarantee in (GUARANTEE, ApproxDP(0.5, 1e-12), ApproxDP(4.0, 1e-3)):
        found = compare(problem, guarantee, metric)
        for mechanism in proven(metric):
            try:
                design = mechanism.design(problem, guarantee)
            except ValueError:
                continue
            assert found.table[0].error <= metric.value(design, problem)
        errors = {row.mechanism: row.error for row in found.table if row.error is not None}
        # The strategies are what the workload is declared for: plain Gaussian noise is worse than the best of them.
        assert errors["matrix-mechanism"] < errors["gaussian"]


def test_the_optimised_strategy_is_within_a_part_in_300_of_the_least_error_of_any_strategy():
    problem = workloads()["all rectangles of 89 x 89"]
    design = MatrixMechanism().design(problem, GUARANTEE)
    noise = design.scale / design.sensitivity.bound
    least = optimal_product(problem.workload).lower_bound * noise**2
    assert least <= Metric("workload").value(design, problem) <= least * (1 + 1 / 300)


def test_an_importance_is_served_better_by_its_own_shape():
    problem = SecondMoment(Body.CUBE, np.array([1.0, 3.0, 10.0]), Neighbours.ADD_REMOVE, K, 1000, False)
    weights = (1.0, 50.0, 1.0)
    found = compare(problem, GUARANTEE, Metric("weighted", Importance("weights", weights, weights)))
    assert found.mechanism.parameters()["importance"]["aim"] == "weights"
    errors = [row.error for row in found.table if row.error is not None]
    assert errors == sorted(errors)


def test_a_subspace_is_compared_by_a_public_guess_of_its_spectrum():
    problem = SecondMoment(Body.CUBE, np.array([1.0, 3.0, 10.0]), Neighbours.ADD_REMOVE, K, 10_000, True)
    metric = Metric("subspace", spectrum=(0.2, 2.0, 30.0), leading=1)
    found = compare(problem, GUARANTEE, metric)
    assert 0 < found.table[0].error <= 1.0
    rows = Rows(Body.CUBE, np.ones(3), Neighbours.REPLACE_ONE, K, 10)
    with pytest.raises(CannotCalibrate, match="symmetric query"):
        compare(rows, GUARANTEE, metric)


def test_a_subspace_of_many_features_is_compared_without_a_square_matrix():
    features = 20_000
    problem = SecondMoment(Body.BALL, np.ones(features), Neighbours.ADD_REMOVE, 255, 10_000, False)
    metric = Metric("subspace", spectrum=tuple(1.0 / np.arange(1, features + 1)), leading=3)
    design = Gaussian().design(problem, GUARANTEE)
    tracemalloc.start()
    try:
        found = metric.value(design, problem)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0 < found <= 3
    assert peak < 200 * 8 * features


def test_only_proven_mechanisms_are_compared_and_each_is_in_the_catalogue():
    for mechanism in proven(Metric("total")):
        entry = find(mechanism.name)
        assert entry.use == "release"
        assert entry.status is not Status.NOT_PRIVATE
    # The error of dawa depends on the records, so nobody can compare it beforehand.
    released = {entry.name for entry in ENTRIES if entry.use == "release"}
    assert {mechanism.name for mechanism in proven(Metric("total"))} == released - {"dawa"}


def test_a_mechanism_for_few_queries_leaves_the_tables_of_other_queries_as_they_were():
    of_counts = compare(Counts((3, 3), Neighbours.ADD_REMOVE, 100), GUARANTEE, Metric("total"))
    assert {row.mechanism for row in of_counts.table} == {
        *("shaped-gaussian", "gaussian", "imgm", "classic-gaussian", "mgm", "laplace", "discrete-laplace"),
        *("matrix-mechanism", "hierarchical", "mvg-exact", "mvg", "exponential", "analyze-gauss", "mod-sulq"),
    }
    tables = Marginals(MarginalTables((3, 3), ((0, 1),)), Neighbours.ADD_REMOVE, 100)
    assert "residuals" in {row.mechanism for row in compare(tables, GUARANTEE, Metric("total")).table}


def test_what_does_not_apply_says_why_and_a_check_can_refuse_more():
    problem = Counts((3, 3), Neighbours.ADD_REMOVE, 100)
    table = compare(problem, ApproxDP(2.0, 1e-6), Metric("total")).table
    assert all(row.reason for row in table if row.error is None)
    assert any(row.mechanism == "classic-gaussian" and "epsilon < 1" in row.reason for row in table)

    def refuse(_design):
        raise ValueError("no")

    with pytest.raises(CannotCalibrate):
        compare(problem, ApproxDP(2.0, 1e-6), Metric("total"), refuse)
