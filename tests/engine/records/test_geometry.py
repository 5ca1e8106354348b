"""Declared shapes: what is accepted, and coordinates that really are the unit body."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.records.geometry import Ball, Body, Box, Ellipsoid, GeometryError


def positive_definite(d, seed):
    factor = np.random.default_rng(seed).standard_normal((d, d))
    return factor @ factor.T + 0.05 * np.eye(d)


def coordinates_of(geometry, records):
    """Coordinates in plain floats, without clipping or quantising."""
    c = geometry.coordinates()
    scaled = (records - c.origin) / c.scale
    return scaled if c.mixing is None else scaled @ c.mixing.matrix.T


@given(d=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
def test_whitening_takes_the_ellipsoid_to_the_unit_ball_and_back(d, seed):
    matrix, rng = positive_definite(d, seed), np.random.default_rng(seed)
    geometry = Ellipsoid(rng.standard_normal(d), matrix)
    records = geometry.origin + rng.standard_normal((20, d))
    centred = records - geometry.origin
    expected = np.einsum("ij,jk,ik->i", centred, np.linalg.inv(matrix), centred)
    v = coordinates_of(geometry, records)
    assert np.sum(v * v, axis=1) == pytest.approx(expected, rel=1e-5)
    back = geometry.coordinates().to_raw()
    assert v @ back.T == pytest.approx(centred, rel=1e-7, abs=1e-9)


def test_semi_axes_and_a_diagonal_matrix_are_the_same_shape():
    axes = np.array([1.0, 3.0, 0.2])
    records = np.random.default_rng(1).standard_normal((10, 3))
    by_axes = coordinates_of(Ellipsoid(np.zeros(3), axes), records)
    by_matrix = coordinates_of(Ellipsoid(np.zeros(3), np.diag(axes**2)), records)
    assert by_axes == pytest.approx(by_matrix, rel=1e-8)


def test_a_box_without_values_below_its_origin_is_a_half_cube():
    assert Box([0.0, 1.0], [1.0, 5.0], [0.0, 1.0]).coordinates().body is Body.HALF_CUBE
    assert Box([0.0, 1.0], [1.0, 5.0], [0.5, 1.0]).coordinates().body is Body.CUBE


def test_half_widths_are_the_farthest_distances_from_the_origin():
    assert Box([-1.0, 0.0], [3.0, 4.0], [0.0, 3.0]).half_widths.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Box([0.0], [0.0], [0.0]), "lower bound"),
        (lambda: Box([0.0, 1.0], [1.0], [0.0]), "length"),
        (lambda: Box([0.0], [1.0], [2.0]), "origin lies outside"),
        (lambda: Box([np.nan], [1.0], [0.0]), "finite"),
        (lambda: Box([], [], []), "non-empty"),
        (lambda: Ball([0.0], 0.0), "radius"),
        (lambda: Ball([0.0], np.inf), "radius"),
        (lambda: Ellipsoid([0.0, 0.0], [1.0]), "d finite semi-axes"),
        (lambda: Ellipsoid([0.0], [-1.0]), "semi-axis is not positive"),
        (lambda: Ellipsoid([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]), "not symmetric"),
        (lambda: Ellipsoid([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "not positive definite"),
        (lambda: Ellipsoid([0.0, 0.0], [[1.0, 0.0], [0.0, -1.0]]), "not positive definite"),
    ],
)
def test_a_shape_without_meaning_is_refused(make, words):
    with pytest.raises(GeometryError, match=words):
        make()
