"""The sensitivity of histograms grows with the columns: sqrt(d) and d, with factors sqrt(2) and 2 under replace-one."""

import numpy as np
import pytest

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.histograms.problem import Histograms
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.mechanisms.laplace import IntegerLaplace
from blockveil.engine.mechanisms.published.buckets import Dawa

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def even(problem):
    return problem.spread(np.ones(problem.shape[0]), np.ones(problem.shape[1]))


@pytest.mark.parametrize("columns", [1, 2, 23, 400])
def test_the_sensitivity_is_that_of_one_bin_a_column(columns):
    for relation, factor in ((ADD, 1), (REPLACE, 2)):
        problem = Histograms((8,) * columns, relation, 1000)
        assert problem.l2(even(problem)).attained == pytest.approx(np.sqrt(factor * columns))
        assert problem.l1(even(problem)).attained == pytest.approx(factor * columns)
        assert even(problem).changing == factor * columns


def test_a_column_of_one_bin_changes_in_one_place_under_replace_one():
    problem = Histograms((1, 5), REPLACE, 1000)
    assert problem.l1(even(problem)).attained == 3.0
    assert problem.l2(even(problem)).attained == pytest.approx(np.sqrt(3.0))


def test_noise_of_uneven_size_along_bins_has_a_bound_that_is_not_called_exact():
    problem = Histograms((3, 3), ADD, 10)
    found = problem.l2(problem.spread(np.ones(2), np.array([1.0, 2.0, 4.0])))
    assert found.bound >= np.sqrt(2.0)
    assert not found.exact


def test_a_spread_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="by column of the records and by bin"):
        Histograms((3, 3), ADD, 10).spread(np.ones(3), np.ones(3))


def test_the_noise_of_the_mechanisms_is_for_all_columns_together():
    """A wrong scale of 5 percent, or the noise for one column alone, would break the guarantee."""
    guarantee = ApproxDP(0.5, 1e-6)
    problem, one = Histograms((9,) * 16, ADD, 1000), Histograms((9,), ADD, 1000)
    for mechanism, factor in ((Gaussian(), 4.0), (IntegerLaplace(), 16.0)):
        design, alone = mechanism.design(problem, guarantee), mechanism.design(one, guarantee)
        ratio = design.entry_standard_deviation()[0, 0] / alone.entry_standard_deviation()[0, 0]
        assert ratio == pytest.approx(factor, rel=0.02)  # whole numbers have slightly less noise
        assert design.loss.delta(guarantee.epsilon) <= guarantee.delta


def test_mechanisms_of_grids_do_not_answer_histograms():
    with pytest.raises(ValueError, match=";"):
        Dawa(0.25).design(Histograms((8,), ADD, 100), ApproxDP(1.0, 1e-6))
