"""Standard deviations that a release states are read only where it has all that they follow from."""

from __future__ import annotations

import numpy as np
import pytest

from blockveil.pipeline.data.derived_noise import derived

SQUARE = {
    "second_moment": np.zeros((4, 4)),
    "noise_by_row": np.full(4, 100.0),
    "unit_by_row": np.ones(4),
    "noise_off_diagonal": np.asarray(0.5),
    "noise_of_a_step": np.asarray(1e-4),
}
RATIO = {
    **SQUARE,
    "covariance": np.zeros((4, 4)),
    "noise_by_row": np.full(5, 100.0),
    "count": np.asarray(50.0),
    "count_standard_deviation": np.asarray(1.0),
    "mean": np.zeros(4),
    "mean_standard_deviation": np.ones(4),
}
WIDE = {
    **SQUARE,
    "outer_products": np.zeros((4, 3)),
    "noise_by_column": np.full(3, 10.0),
    "unit_by_column": np.full(3, 2.0),
    "noise_off_diagonal": np.asarray(1.0),
}
RELEASES = {"second_moment": SQUARE, "covariance": RATIO, "outer_products": WIDE}


def stated(kind, arrays, **more):
    return derived(arrays, {"matrix": kind, "origin": [0.0] * 4, **more})


def test_what_is_stated_gives_the_noise_of_every_entry():
    (found,) = stated("second_moment", SQUARE).values()
    assert np.allclose(found[...], np.where(np.eye(4), 1.0, 0.5), rtol=1e-3)
    (found,) = stated("outer_products", WIDE).values()
    assert np.allclose(found[1:3], 0.2, rtol=1e-2)
    (found,) = stated("covariance", RATIO).values()
    assert np.allclose(found[...], np.where(np.eye(4), 1.0, 0.5) / 50.0, rtol=1e-3)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, all_ in RELEASES.items() for name in all_])
def test_a_release_that_lacks_a_part_or_has_another_shape_of_it_states_none(kind, name):
    arrays = RELEASES[kind]
    needed = name == kind or name != "second_moment"
    without = {each: array for each, array in arrays.items() if each != name}
    assert bool(stated(kind, without)) == (not needed)
    if needed:
        assert not stated(kind, {**arrays, name: np.zeros((2, 3, 4))})
        assert not stated(kind, {**arrays, name: np.full(arrays[name].shape, "text")}) or name == kind


def test_a_ratio_about_another_origin_states_none():
    assert not stated("covariance", RATIO, origin=[0.0])
    assert not derived(RATIO, {"matrix": "nothing"})
