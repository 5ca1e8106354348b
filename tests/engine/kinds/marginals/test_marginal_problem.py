"""The sensitivity of tables is that of all pairs of records, and grows with the number of tables."""

import itertools

import numpy as np
import pytest

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.marginals.problem import Marginals
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.mechanisms.laplace import IntegerLaplace
from blockveil.engine.workloads.marginal_tables import MarginalTables
from tests.oracles.dense_tables import table_matrix

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
TABLES = MarginalTables((3, 2, 2), ((0, 1), (1, 2), (2,)))


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("norm", [1, 2])
def test_it_is_the_largest_distance_of_all_pairs_of_records(relation, norm):
    problem = Marginals(TABLES, relation, 100)
    sizes = np.concatenate([np.full(TABLES.size(table), 1.0 + number) for number, table in enumerate(TABLES.tables)])
    columns = (table_matrix(TABLES.sizes, TABLES.tables) / sizes[:, None]).T
    distances = [np.linalg.norm(column, norm) for column in columns]
    if relation is REPLACE:
        distances += [np.linalg.norm(a - b, norm) for a, b in itertools.combinations(columns, 2)]
    spread = problem.spread(np.ones(1), sizes)
    found = (problem.l1 if norm == 1 else problem.l2)(spread)
    assert found.exact
    assert max(distances) == pytest.approx(found.attained)
    assert found.bound >= max(distances)
    changed = [np.count_nonzero(column) for column in columns]
    if relation is REPLACE:
        changed += [np.count_nonzero(a - b) for a, b in itertools.combinations(columns, 2)]
    assert spread.changing == max(changed)


def test_noise_of_uneven_size_within_a_table_has_a_bound_that_is_not_called_exact():
    problem = Marginals(TABLES, ADD, 100)
    found = problem.l2(problem.spread(np.ones(1), np.linspace(1.0, 2.0, TABLES.cells)))
    assert not found.exact
    assert found.bound > found.attained


def test_a_spread_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="by cell"):
        Marginals(TABLES, ADD, 100).spread(np.ones(2), np.ones(TABLES.cells))


def test_the_noise_of_the_mechanisms_is_for_all_tables_together():
    one = MarginalTables((3, 2, 2), ((0, 1),))
    for mechanism, factor in ((Gaussian(), np.sqrt(3.0)), (IntegerLaplace(), 3.0)):
        designs = [mechanism.design(Marginals(each, ADD, 1000), ApproxDP(0.2, 1e-6)) for each in (TABLES, one)]
        sizes = [design.entry_standard_deviation()[0, 0] for design in designs]
        assert sizes[0] / sizes[1] == pytest.approx(factor, rel=0.02)
