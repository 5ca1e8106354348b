"""Public maps: a record has the same features alone, shuffled and in any batch, and they are what they are called."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.answers.public_features import FourierFeatures, OrientedGradients, cosine_of_turns

RNG = np.random.default_rng(2)
FOURIER = FourierFeatures((-1.0,) * 5 + (0.0,), (1.0,) * 5 + (7.0,), 300, 0.8, "seed")
GRADIENTS = OrientedGradients(8, 12, 4, 6, 0.1)
MAPS = {"fourier": (FOURIER, RNG.uniform(-2, 9, (400, 6))), "gradients": (GRADIENTS, RNG.uniform(0, 1, (400, 96)))}


@pytest.mark.parametrize(("made", "values"), MAPS.values(), ids=MAPS.keys())
@given(cuts=st.lists(st.integers(1, 399), max_size=6), seed=st.integers(0, 10))
def test_a_record_has_the_same_bits_alone_shuffled_and_in_any_batch(made, values, cuts, seed):
    whole = made.of(values)
    borders = [0, *sorted(set(cuts)), 400]
    parts = [made.of(values[a:b]) for a, b in zip(borders, borders[1:], strict=False)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()
    order = np.random.default_rng(seed).permutation(400)
    assert made.of(values[order]).tobytes() == whole[order].tobytes()
    assert made.of(values[seed : seed + 1]).tobytes() == whole[seed : seed + 1].tobytes()


@pytest.mark.parametrize(("made", "values"), MAPS.values(), ids=MAPS.keys())
def test_features_lie_within_their_bounds(made, values):
    found = made.of(np.vstack([values, values * 1e6, -values * 1e6]))
    low = -1.0 if made is FOURIER else 0.0
    assert low <= found.min() < found.max() <= 1.0
    assert found.shape == (1200, made.count)


def test_products_of_fourier_features_are_near_the_kernel():
    made = FourierFeatures((-1.0,) * 4, (1.0,) * 4, 2**14, 0.7, "x")
    values = RNG.uniform(-1, 1, (40, 4))
    found = made.of(values)
    squares = ((values[:, None] - values[None]) ** 2).sum(axis=2)
    assert np.abs(2 * found @ found.T / made.count - np.exp(-squares / (2 * 0.7**2))).max() < 0.05
    other = FourierFeatures((-1.0,) * 4, (1.0,) * 4, 2**14, 0.7, "y").of(values)
    assert not np.array_equal(found, other), "the seed fixes the map"


def test_the_cosine_is_right_to_the_last_bits_whatever_the_library_says():
    turns = np.concatenate([RNG.uniform(-50, 50, 200), [0.0, 0.25, 0.5, 1.0, -0.125]])
    with mpmath.workdps(40):
        exact = np.array([float(mpmath.cos(2 * mpmath.pi * mpmath.mpf(t))) for t in turns])
    assert np.abs(cosine_of_turns(turns) - exact).max() < 4e-15


def test_edges_vote_for_their_direction_and_not_for_their_brightness():
    across = np.tile(np.linspace(0, 1, 12), (8, 1))
    found = GRADIENTS.of(np.stack([across, across * 0.5 + 3.0, across[:, ::-1]]).reshape(3, 96))
    votes = found.reshape(3, 2, 3, 6)
    assert (votes[..., 0] > 0.2).all()
    assert np.abs(votes[..., 1:]).max() < 1e-12
    assert np.allclose(votes[0], votes[2]), "a direction half a turn away is the same"
    assert np.allclose(votes[0], votes[1], atol=0.1), "brightness and contrast hardly count"
    down = GRADIENTS.of(np.tile(np.linspace(0, 1, 8)[:, None], (1, 12)).reshape(1, 96)).reshape(2, 3, 6)
    assert down.argmax(axis=2).tolist() == [[3, 3, 3], [3, 3, 3]]
    assert GRADIENTS.of(np.full((1, 96), 0.7)).max() == 0.0, "a plain image has no edges"
