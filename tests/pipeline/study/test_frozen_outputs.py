"""Mechanisms that add no noise under replay: what they charge is not exceeded, and planted mistakes are refuted."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.published.dawa import Partitioner
from blockveil.engine.noise.discrete_laplace import DiscreteLaplace
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.study import frozen_outputs
from blockveil.pipeline.study.replay import replay
from tests.house.support import write_config
from tests.pipeline.study.test_replay import DAY, with_design

CONFIG = """
[release]
dataset = "people"
name = "drawn"
[data]
store = "records.zarr"
{query}
[privacy]
epsilon = 1.0
delta = 1e-9
neighbours = "{neighbours}"
unit = "one person"
{rows}
[mechanism]
kind = "{mechanism}"
[output]
root = "releases"
ledger = "ledger.db"
keys = "keys"
"""
QUERIES = {
    "exponential": """
[query]
kind = "principal-directions"
directions = 2
rows_at_most = 60
missing = "refuse"
[query.geometry]
kind = "ball"
radius = 2.0
features = [ { name = "x", origin = 0.0, count = 5 } ]
""",
    "dawa": """
[query]
kind = "counts"
rows_at_most = 60
outside = "drop"
missing = "refuse"
[[query.axes]]
name = "u"
lower = 0
upper = 8
cells = 16
""",
}
RELATIONS = ["add-remove", "replace-one"]


def planned(folder, mechanism, neighbours="add-remove", rows=""):
    path = folder / "drawn.toml"
    path.write_text(CONFIG.format(query=QUERIES[mechanism], neighbours=neighbours, mechanism=mechanism, rows=rows))
    return make_plan(load_config(path), DAY)


def replayed(plan):
    return replay(plan, ThreadCompute(1), lambda stage, share: None)


def half_as_noisy(design):
    if hasattr(design, "concentration"):
        return replace(design, concentration=2.0 * design.concentration)
    partition, buckets = (
        DiscreteLaplace.at_most(2 * law.rate * Fraction(999, 1000)) for law in (design.partition_law, design.bucket_law)
    )
    return replace(design, partition_law=partition, bucket_law=buckets)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(("mechanism", "attained"), [("exponential", 0.999), ("dawa", 0.85)])
def test_the_charge_is_attained_or_nearly_and_half_the_noise_is_refuted(mechanism, attained, neighbours, tmp_path):
    plan = planned(tmp_path, mechanism, neighbours)
    found = replayed(plan)
    assert found.refutations == []
    assert attained < found.share <= 1.0
    (reason,) = found.not_tested
    assert f"blockveil audit {mechanism}" in reason
    half = replayed(with_design(plan, half_as_noisy(plan.design)))
    assert half.share == pytest.approx(2.0 * found.share, rel=0.01)
    assert "moves the release" in half.refutations[0]


@pytest.mark.parametrize("mechanism", QUERIES)
def test_a_charge_for_one_of_three_rows_is_refuted(mechanism, tmp_path):
    plan = planned(tmp_path, mechanism, rows="rows_per_unit = 3")
    assert replayed(plan).refutations == []
    of_a_row = replace(plan.charge, epsilon=plan.charge.epsilon / 3.0)
    assert replayed(replace(plan, charge=of_a_row)).refutations != []


def test_records_twice_as_long_as_what_is_charged_are_refuted(tmp_path):
    plan = planned(tmp_path, "exponential")
    found = replayed(with_design(plan, replace(plan.design, unit=plan.design.unit // 4)))
    assert found.share == pytest.approx(4.0, rel=0.01)
    assert found.refutations


def test_one_direction_charged_for_two_is_refuted(tmp_path):
    plan = planned(tmp_path, "exponential")
    assert replayed(replace(plan, charge=replace(plan.charge, epsilon=plan.charge.epsilon / 2.0))).refutations


@pytest.mark.parametrize("mechanism", QUERIES)
def test_a_number_of_records_beside_what_is_drawn_is_refuted(mechanism, tmp_path, monkeypatch):
    plan = planned(tmp_path, mechanism)
    honest = type(plan.answer).arrays

    def telling(self, released, rows):
        return {**honest(self, released, rows), "rows": (np.array([rows]), ("one",))}

    assert replayed(plan).counted is False
    monkeypatch.setattr(type(plan.answer), "arrays", telling)
    assert any("number of records" in claim for claim in replayed(plan).refutations)


def partitions(cells, longest):
    """Every partition of a line into buckets whose lengths are powers of two, as borders."""
    if cells == 0:
        yield (0,)
        return
    for level in range(longest.bit_length()):
        if 2**level <= cells:
            for before in partitions(cells - 2**level, longest):
                yield (*before, cells)


@pytest.mark.parametrize("longest", [2, 4, 8])
def test_the_gain_is_the_largest_over_every_pair_of_partitions(longest):
    rng, cells = np.random.default_rng(longest), 9
    every = list(partitions(cells, longest))
    partitioner = Partitioner(cells, longest, 4, 3, Neighbours.ADD_REMOVE)
    seen = set()
    for _ in range(30):
        first = rng.integers(0, 6, cells)
        second = first.copy()
        np.add.at(second, rng.integers(0, cells, rng.integers(1, 3)), 1)
        costs = partitioner.costs(first), partitioner.costs(second)
        moved = [
            sum(
                int(costs[0][(end - begin).bit_length() - 1, begin] - costs[1][(end - begin).bit_length() - 1, begin])
                for begin, end in pairwise(borders)
            )
            for borders in every
        ]
        expected = max(moved) - min(moved)
        assert partitioner.gain(first, second) == expected
        seen.add(expected)
    assert len(seen) > 2


def test_the_gain_is_charged_in_full_for_every_table_of_three_cells():
    partitioner = Partitioner(3, 2, 1, 0, Neighbours.ADD_REMOVE)
    gains = []
    for code in range(5**3):
        first = np.array(np.unravel_index(code, (5, 5, 5)), dtype=np.int64)
        for cell in range(3):
            second = first.copy()
            second[cell] += 1
            gains.append(partitioner.gain(first, second))
    assert max(gains) == 2 * partitioner.sensitivity  # what exact_loss charges, and no less would do


def test_a_mechanism_that_adds_noise_has_no_exact_answer_in_place_of_its_release(tmp_path):
    assert frozen_outputs.exact_answer(make_plan(load_config(write_config(tmp_path)), DAY).design) is None
