"""The ellipsoid that is learned: where records lie, and as far out as noise and shortening together cost least."""

import numpy as np
import pytest

from blockveil.engine.answers.learned_spread import ring_edges
from blockveil.engine.estimates.learned_ellipsoid import (
    NoisySpread,
    RingsSeen,
    box_error,
    chosen_radius,
    error_of_means,
    error_of_products,
    learned_axes,
)

RNG = np.random.default_rng(8)
LEAST = 2.0**-12


def spread(mean, variance, noise):
    return NoisySpread(mean, variance, noise, np.full(mean.size, LEAST))


def radius_of(counts, deviation, records, sizes, noise):
    rings = RingsSeen(counts, deviation, records, sizes.size)
    return chosen_radius(rings, error_of_products(sizes, noise / records, 0.45))


def counted(lengths, dimension):
    edges = ring_edges(dimension)
    return np.histogram(np.clip(lengths, 0, edges[-1]), edges)[0].astype(float)


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_axes_are_powers_of_the_spread_in_which_usual_records_have_the_length_of_the_root_of_the_dimension(power):
    deviation, mean = np.array([0.02, 0.1, 0.3]), np.array([0.5, 0.0, -0.4])
    found = learned_axes(spread(mean, deviation**2, np.zeros(3)), power, np.ones(3))
    assert np.allclose(found.centre, mean)
    assert np.ptp(found.axes / deviation**power) < 1e-12
    assert np.sum(deviation**2 / found.axes**2) == pytest.approx(3.0)


def test_axes_for_raw_units_follow_the_raw_spread():
    deviation, widths = np.array([0.1, 0.1]), np.array([1.0, 100.0])
    found = learned_axes(spread(np.zeros(2), deviation**2, np.zeros(2)), 0.5, widths)
    raw = found.axes * widths
    assert raw[1] / raw[0] == pytest.approx(10.0)  # of deviations that are a hundredfold


def test_what_noise_hides_is_taken_for_as_wide_as_the_noise():
    found = learned_axes(spread(np.full(2, 3.0), np.array([-1.0, 0.2]), np.full(2, 0.01)), 1.0, np.ones(2))
    assert np.all(np.abs(found.centre) <= 1.0)
    assert np.all(found.axes > 0)
    narrow = learned_axes(spread(np.zeros(2), np.array([0.0, 0.25]), np.zeros(2)), 1.0, np.ones(2))
    assert narrow.axes[0] / narrow.axes[1] == pytest.approx(LEAST / 0.5)


def test_a_radius_weighs_noise_against_what_it_shortens():
    lengths = np.linalg.norm(RNG.normal(size=(20_000, 9)), axis=1)
    radii = [radius_of(counted(lengths, 9), 1.0, 20_000, np.ones(9), noise).radius for noise in (1e-3, 1.0, 100.0, 1e4)]
    assert radii == sorted(radii, reverse=True)
    assert radii[0] >= lengths.max() * 0.8
    assert radii[-1] < np.median(lengths)


def test_a_ring_that_noise_made_does_not_move_the_radius():
    counts = counted(np.linalg.norm(RNG.normal(size=(20_000, 9)), axis=1), 9)
    alone = radius_of(counts, 30.0, 20_000, np.ones(9), 50.0)
    counts[-2] += 3.9 * 30.0
    beside = radius_of(counts, 30.0, 20_000, np.ones(9), 50.0)
    assert beside.radius == alone.radius
    assert beside.shortened > alone.shortened  # the share that is stated has every ring
    counts[-2] += 20_000
    assert radius_of(counts, 30.0, 40_000, np.ones(9), 50.0).radius > alone.radius


def test_nearer_bounds_hold_the_records_also_where_noise_hid_how_far_they_spread():
    found = spread(np.array([0.9, -0.2]), np.array([0.01, -0.003]), np.array([0.001, 0.002]))
    lower, upper = found.bounds()
    assert np.allclose(lower, [0.5, -0.2 - 4 * np.sqrt(0.004)])
    assert np.allclose(upper, [1.0, -0.2 + 4 * np.sqrt(0.004)])


def test_a_pilot_in_the_declared_bounds_is_believed_of_features_that_stand_out_of_its_noise():
    first = spread(np.zeros(2), np.array([0.5, 0.01]), np.array([0.01, 0.01]))
    nearer = spread(np.ones(2), np.array([0.3, 0.001]), np.array([0.0001, 0.0001]))
    both = first.or_nearer(nearer)
    assert both.mean.tolist() == [0.0, 1.0]
    assert both.variance.tolist() == [0.5, 0.001]
    assert both.noise.tolist() == [0.01, 0.0001]


def test_the_box_has_the_smaller_error_where_records_fill_it_and_are_many():
    width = np.full(4, 0.577)
    lengths = np.linalg.norm(RNG.uniform(-1, 1, (10_000, 4)) / width, axis=1)
    deviations = np.ones(4)
    for records, wins in ((10_000, "box"), (10_000, "ellipsoid")):
        scale = 1.0 if wins == "box" else 40.0
        inside = box_error(deviations * scale / (width if wins == "box" else width / 50), records)
        ellipsoid = radius_of(counted(lengths, 4), 3.0, records, np.ones(4), 1.0).error
        assert (inside < ellipsoid) == (wins == "box")


def test_the_radius_is_chosen_alike_in_any_unit_and_its_error_is_of_that_unit():
    lengths = np.sqrt(RNG.chisquare(9, 20_000))
    one, other = (radius_of(counted(lengths, 9), 3.0, 20_000, each, 50.0) for each in (np.ones(9), np.full(9, 0.1)))
    assert one.radius == other.radius
    assert other.error == pytest.approx(one.error * 0.1**4)


def test_a_radius_for_means_is_smaller_than_one_that_keeps_nearly_all_as_shortening_moves_them_little():
    counts = counted(np.linalg.norm(RNG.standard_t(3, (20_000, 9)), axis=1) / np.sqrt(3.0), 9)
    radii = [
        chosen_radius(RingsSeen(counts, 1.0, 20_000, 9), error_of_means(np.ones(9), noise / 20_000)).radius
        for noise in (1e-2, 10.0, 1e3)
    ]
    assert radii == sorted(radii, reverse=True)
    assert len(set(radii)) == 3
    assert radii[-1] < radius_of(counts, 1.0, 20_000, np.ones(9), 1e-2).radius


@pytest.mark.parametrize(("tails", "least"), [(3.0, 0.3), (5.0, 0.9), (np.inf, 0.9)])
def test_what_is_lost_is_found_but_for_what_lies_far_out_in_heavy_tails(tails, least):
    drawn = RNG.normal(size=(30_000, 10)) if np.isinf(tails) else RNG.standard_t(tails, (30_000, 10))
    lengths = np.linalg.norm(drawn / drawn.std(axis=0), axis=1)
    edges = ring_edges(10)
    for place in (10, 12, 14):
        found = [
            RingsSeen(counted(lengths, 10) + 30.0 * RNG.normal(size=edges.size - 1), 30.0, 30_000.0, 10).lost(place)
            for _ in range(100)
        ]
        true = np.mean(np.maximum(lengths**2 - edges[place] ** 2, 0.0)) / 10.0
        assert np.mean(found) > least * true
        assert np.median(found) < 1.3 * true + 0.01


def test_what_shortening_moves_of_covariances_is_less_the_less_features_are_related():
    shared, own = RNG.normal(size=(30_000, 1)), RNG.normal(size=(30_000, 12))
    parts = []
    for share in (0.0, 0.3, 0.9):
        lengths = np.linalg.norm(np.sqrt(share) * shared + np.sqrt(1.0 - share) * own, axis=1)
        parts.append(RingsSeen(counted(lengths, 12), 30.0, 30_000.0, 12).moved)
    assert parts == sorted(parts)
    assert parts[0] < 0.45
    assert parts[-1] == 0.45
    assert RingsSeen(np.zeros(24), 30.0, 0.0, 12).moved == pytest.approx(12**-0.5)
