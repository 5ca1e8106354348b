"""Passes of models: near the textbook, and the same bits whatever the blocks."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.answers import models
from blockveil.engine.answers.models import FEATURE_STEPS, Activation, Model, Output, PublicMap

RNG = np.random.default_rng(4)


def make(output=Output.SOFTMAX, features=5, units=(), outputs=3, activation=Activation.TANH, size=1.0):
    """Model and its weights as given, the first layer first."""
    sizes = [features, *units, outputs if output is Output.SOFTMAX else 1]
    weights = [RNG.standard_normal((after, before + 1)) * size for before, after in zip(sizes, sizes[1:], strict=False)]
    *hidden, last = (PublicMap.of(each) for each in weights)
    return Model(output, last, tuple(hidden), activation), weights


def records(rows=200, features=5, outputs=3, output=Output.SOFTMAX):
    integers = np.rint(RNG.uniform(-1, 1, (rows, features + 1)) * FEATURE_STEPS)
    integers[:, 0] = FEATURE_STEPS
    codes = RNG.integers(0, outputs if output is Output.SOFTMAX else 2, rows).astype(float)
    return integers, codes if output is not Output.SQUARED else RNG.uniform(-1, 1, rows)


ACTIVATIONS = {
    Activation.TANH: np.tanh,
    Activation.RELU: lambda z: np.maximum(z, 0.0),
    Activation.GELU: lambda z: 0.5 * z * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (z + 0.044715 * z**3))),
}


def textbook(weights, activation, output, x, y):
    """Gradients of the loss of one example by central differences, by layer."""

    def loss(weights):
        a = x
        for layer in weights[:-1]:
            a = np.concatenate([[1.0], ACTIVATIONS[activation](layer @ a)])
        z = weights[-1] @ a
        if output is Output.SQUARED:
            return 0.5 * (z[0] - y) ** 2
        if output is Output.LOGISTIC:
            return np.logaddexp(0.0, z[0]) - y * z[0]
        return np.logaddexp.reduce(z) - z[int(y)]

    def slope(which):
        found = np.zeros(weights[which].shape)
        for place in np.ndindex(found.shape):
            moved = []
            for by in (1e-6, -1e-6):
                changed = [layer.copy() for layer in weights]
                changed[which][place] += by
                moved.append(loss(changed))
            found[place] = (moved[0] - moved[1]) / 2e-6
        return found

    return [slope(which) for which in range(len(weights))]


@pytest.mark.parametrize("output", list(Output))
@pytest.mark.parametrize("activation", list(Activation))
@pytest.mark.parametrize("units", [(), (4,), (4, 3), (3, 4, 2)], ids=len)
def test_factors_multiply_out_to_the_gradient_of_the_loss(output, units, activation):
    model, weights = make(output, units=units, activation=activation, size=0.7)  # no error beyond where they are cut
    assert model.layers == models.layer_names(len(units))
    integers, labels = records(8, output=output)
    factors = model.factors(integers, labels)
    for i in range(8):
        expected = textbook(weights, activation, output, integers[i] / FEATURE_STEPS, labels[i])
        for part, slope in zip(factors, expected, strict=True):
            found = np.outer(part.errors[i], part.inputs[i] / part.steps)
            assert np.allclose(found, slope, atol=1e-3)


def test_a_gelu_far_out_is_a_relu():
    far = np.array([-1e9, -40.0, 40.0, 1e9])
    values, slopes = models._activated(far, Activation.GELU)
    assert np.array_equal(values, np.maximum(far, 0.0))
    assert np.array_equal(slopes, far > 0.0)


@given(cuts=st.lists(st.integers(1, 199), max_size=6), order=st.randoms(use_true_random=False))
def test_any_cut_and_order_of_the_rows_gives_the_same_bits(cuts, order):
    rng = np.random.default_rng(8)
    model = Model(
        Output.SOFTMAX,
        PublicMap.of(rng.standard_normal((3, 10)) * 3),
        (PublicMap.of(rng.standard_normal((17, 40))), PublicMap.of(rng.standard_normal((9, 18)))),
        Activation.GELU,
    )
    integers = np.rint(rng.uniform(-1, 1, (200, 40)) * FEATURE_STEPS)
    labels = rng.integers(0, 3, 200).astype(float)
    whole = model.factors(integers, labels)
    borders = [0, *sorted(set(cuts)), 200]
    places = list(range(200))
    order.shuffle(places)
    for start, stop in zip(borders, borders[1:], strict=False):
        some = places[start:stop]
        for part, expected in zip(model.factors(integers[some], labels[some]), whole, strict=True):
            assert part.errors.tobytes() == expected.errors[some].tobytes()
            assert part.inputs.tobytes() == expected.inputs[some].tobytes()


def test_functions_are_exact_to_the_last_places():
    points = np.concatenate([-np.geomspace(1e-300, 699, 400), [0.0]])
    with mpmath.workprec(200):
        true = np.array([float(mpmath.exp(mpmath.mpf(float(z)))) for z in points])
    assert np.allclose(models.exp(points), true, rtol=4 * 2.0**-52, atol=0)
    assert models.exp(np.array([-1e9, -701.0])).tolist() == [0.0, 0.0]
    both = np.concatenate([points, -points])
    assert np.allclose(models.tanh(both), np.tanh(both), rtol=0, atol=2.0**-51)
    assert np.allclose(models.sigmoid(both), [1 / (1 + math.exp(-z)) for z in both], atol=2.0**-51)
    values = RNG.standard_normal((50, 7)) * 20
    sizes = np.exp(values - values.max(axis=1, keepdims=True))
    assert np.allclose(models.softmax(values), sizes / sizes.sum(axis=1, keepdims=True), atol=1e-11)
    assert np.allclose(models.softmax(values).sum(axis=1), 1.0, atol=1e-12)


def test_powers_of_two_are_exact_multiples_to_the_last_bit():
    """Speed may not change a bit of a release: the same numbers as by the library's ``ldexp``, at the ends too."""
    edges = [0.0, -0.0, -700.0, np.nextafter(-700.0, 0.0), np.nextafter(-700.0, -701.0), -5e-324, -0.34657359027997264]
    points = np.concatenate([edges, -np.geomspace(1e-300, 700.0, 20_000), np.linspace(-745.0, 0.0, 20_000)])
    powers = np.rint(np.maximum(points, -700.0) * (1.0 / math.log(2.0)))
    rest = (np.maximum(points, -700.0) - powers * models._LN2_HIGH) - powers * models._LN2_LOW
    found = np.full_like(rest, models._TAYLOR[0])
    for coefficient in models._TAYLOR[1:]:
        found = found * rest + coefficient
    wanted = np.where(points > -700.0, np.ldexp(found, powers.astype(np.int32)), 0.0)
    assert models.exp(points).tobytes() == wanted.tobytes()
    rng = np.random.default_rng(6)
    for size in (1e-12, 1.0, 300.0):
        layer = PublicMap.of(rng.normal(size=(5, 40)) * size)
        inputs, errors = (rng.integers(-(2**20), 2**20, (200, width)).astype(float) for width in (40, 5))
        assert layer.forward(inputs).tobytes() == np.ldexp(inputs @ layer.integers.T, -layer.bits).tobytes()
        assert layer.forward(inputs, 2.0**20 - 1).tobytes() == (layer.forward(inputs) / (2.0**20 - 1)).tobytes()
        wanted = np.ldexp(errors @ layer.integers, -layer.bits)[:, 1:] / 2.0**16
        assert layer.backward(errors).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-3, 1.0, 1e4])
def test_weights_become_integers_whose_products_are_exact(size):
    weights = RNG.standard_normal((6, 50)) * size
    found = PublicMap.of(weights)
    assert np.abs(found.integers).sum(axis=1).max() <= 2.0**33
    assert np.abs(found.integers).sum(axis=0).max() <= 2.0**33
    inputs = np.full((2, 50), 2.0**20)
    inputs[1] *= np.sign(found.integers[0])
    exact = [[sum(int(a) * int(b) for a, b in zip(x, row, strict=True)) for row in found.integers] for x in inputs]
    expected = np.array([[math.ldexp(value, -found.bits) for value in row] for row in exact])
    assert np.array_equal(found.forward(inputs), expected)
    if size >= 1e-3:
        assert np.allclose(np.ldexp(found.integers, -found.bits), weights, atol=1e-6 * size)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e6])
def test_weights_that_are_not_usable_are_refused(bad):
    with pytest.raises(ValueError, match="finite"):
        PublicMap.of(np.array([[bad, 1.0]]))
