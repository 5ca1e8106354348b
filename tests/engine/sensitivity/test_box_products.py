"""Products of two coordinates: no pair of records in boxes differs by more than the ends of their factors allow."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.box_products import replaced_products, replaced_triangle
from blockveil.testing.mechanism import REPLACE, K


def corners(ends):
    return np.array(list(product(*zip(*ends, strict=True))))


def furthest(left, right, norm):
    """Over all corners: the distance is convex in each of the four factors."""
    records = np.einsum("ai,bj->abij", corners(left), corners(right)).reshape(-1, left[0].size * right[0].size)
    return np.max(np.linalg.norm(records[:, None] - records[None], norm, axis=-1))


def ends_of(rng, d, kind):
    far = rng.random(d) + 0.1
    near = far * {"one sign": 0.0, "even": 1.0, "mixed": rng.random(d), "alike": 0.3}[kind]
    turned = rng.random(d) < 0.5
    return np.where(turned, -far, -near), np.where(turned, near, far)


KINDS = st.sampled_from(["one sign", "even", "mixed", "alike"])


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3), KINDS, KINDS, st.sampled_from([1, 2]))
def test_no_pair_of_corners_is_further_apart_than_the_bound(seed, p, q, one, other, norm):
    rng = np.random.default_rng(seed)
    left, right = ends_of(rng, p, one), ends_of(rng, q, other)
    found, best = replaced_products(left, right, norm), furthest(left, right, norm)
    assert best <= found.bound
    assert best >= found.attained * (1.0 - 1e-12)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize(
    "kinds", [("alike", "alike"), ("even", "mixed"), ("mixed", "one sign"), ("one sign", "one sign")]
)
def test_it_is_attained_where_one_side_is_nowhere_less_even_than_the_other(kinds, norm):
    rng = np.random.default_rng(3)
    left, right = ends_of(rng, 3, kinds[0]), ends_of(rng, 2, kinds[1])
    found = replaced_products(left, right, norm)
    assert found.exact
    assert found.bound == pytest.approx(furthest(left, right, norm), rel=1e-12)


@pytest.mark.parametrize("norm", [1, 2])
def test_the_sum_is_that_of_the_ranges_of_all_entries(norm):
    rng = np.random.default_rng(4)
    left, right = ends_of(rng, 40, "mixed"), ends_of(rng, 30, "mixed")
    both = [np.multiply.outer(one, other) for one, other in product(left, right)]
    ranges = np.max(both, axis=0) - np.min(both, axis=0)
    assert replaced_products(left, right, norm).bound == pytest.approx(np.linalg.norm(ranges.ravel(), norm), rel=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), KINDS, st.sampled_from([0.0, 0.5]))
def test_no_pair_of_records_has_products_that_differ_by_more_in_a_triangle(seed, d, kind, constant):
    rng = np.random.default_rng(seed)
    ends = ends_of(rng, d, kind)
    records = np.vstack([corners(ends), np.zeros((1, d)), rng.uniform(*ends, (60, d))])
    records = np.hstack([np.full((len(records), 1), constant), records])
    products = (records[:, :, None] * records[:, None, :])[:, *np.triu_indices(d + 1)]
    assert np.max(np.abs(products[:, None] - products[None]).sum(axis=-1)) <= replaced_triangle(ends, constant)


@pytest.mark.parametrize("norm", [1, 2])
def test_rows_of_an_uneven_box_differ_by_its_width_and_no_more(norm):
    ends = np.array([0.0, -0.001, -0.5]), np.ones(3)
    problem = Rows(Body.CUBE, np.ones(3), REPLACE, K, 5, even=False, ends=ends)
    sizes = np.array([1.0, 0.5, 2.0])
    found = getattr(problem, f"l{norm}")(problem.spread(np.ones(5), sizes))
    assert found.exact
    assert found.bound == pytest.approx(np.linalg.norm((ends[1] - ends[0]) / sizes, norm), rel=1e-12)


@pytest.mark.parametrize("norm", [1, 2])
def test_outer_products_of_uneven_boxes_have_less_noise_than_of_even_ones(norm):
    ends = np.array([-0.2, -0.2]), np.ones(2)
    without = OuterProducts(Body.CUBE, Body.CUBE, np.ones(2), np.ones(2), REPLACE, K, 9, even=False)
    within = OuterProducts(
        Body.CUBE, Body.CUBE, np.ones(2), np.ones(2), REPLACE, K, 9, even=False, left_ends=ends, right_ends=ends
    )
    noise = without.spread(np.ones(2), np.ones(2))
    loose, tight = (getattr(problem, f"l{norm}")(noise) for problem in (without, within))
    assert tight.exact
    assert not loose.exact
    assert tight.bound == pytest.approx(loose.bound * 0.6, rel=1e-12)
