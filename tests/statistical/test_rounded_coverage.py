"""Intervals hold what the clipped records give, for 20 million records too, whatever kind their contents are of."""

import numpy as np
import pytest

from benchmarks import coverage
from blockveil.pipeline.plan.rounded import rounded

DRAWS = 20_000
CHANCE = 6.2 * np.sqrt(0.05 * 0.95 / DRAWS)
"""Beyond 6.2 deviations a right coverage is once in 10**9."""


def errors(folder, name, rows, epsilon):
    rng, kind = np.random.default_rng(coverage._SEED), coverage.KINDS[name]
    found = coverage.of_moments(coverage.planned(folder, kind, rows, epsilon), kind, rows, DRAWS, rng)
    found |= coverage.of_sums(coverage.planned(folder, kind, rows, epsilon, "totals"), kind, rows, DRAWS, rng)
    outer = coverage.planned(folder, kind, rows, epsilon, "outer-products")
    return found | coverage.of_products(outer, kind, rows, DRAWS, rng)


@pytest.mark.parametrize("rows", [10**5, 2 * 10**7])
@pytest.mark.parametrize("name", ["continuous", "at most 8 alike", "codes, declared", "whole numbers, declared"])
def test_intervals_cover_at_94_to_96_per_cent_and_a_scale_5_per_cent_off_is_rejected(tmp_path, name, rows):
    for statistic, found in errors(tmp_path, name, rows, 8.0).items():
        assert 0.95 - CHANCE - 0.001 < found.coverage() < 0.96 + CHANCE, statistic
        assert found.coverage(scale=0.95) < 0.95 - CHANCE, statistic


def test_of_outer_products_a_plan_says_that_records_may_be_alike_in_one_factor(tmp_path):
    kind = coverage.KINDS["at most 8 alike"]
    answer = coverage.planned(tmp_path, kind, 10**9, 8.0, "outer-products").answer
    said = rounded(answer)
    assert "if no more than 8 records are alike in a factor" in said.usual
    left = answer.question.query.left
    same = np.tile(left.quantise(np.array([[0.3, 1.7]])), (5, 1))
    assert np.array_equal(left.quantise(np.tile([0.3, 1.7], (5, 1))), same), "whatever the other factors are"


@pytest.mark.parametrize("name", ["64 contents", "all alike"])
def test_intervals_that_are_widened_by_the_worst_case_cover_where_equal_records_are_many(tmp_path, name):
    found = errors(tmp_path, name, 2 * 10**7, 8.0)
    assert found["mean"].coverage() < 0.5, "they do not without it"
    assert all(each.coverage(widened=1.0) > 0.94 - CHANCE for each in found.values())
