"""Matrix Gaussian noise: exact loss on the Frobenius ball, refusal of small pairs, composition, Renyi divergence."""

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_delta, gaussian_mu
from blockveil.engine.guarantees.guarantee import GaussianDP, compose
from blockveil.engine.study.imgm import (
    ball_loss,
    least_singular_value,
    mahalanobis,
    published_renyi_bound,
    renyi_divergence,
    required_product,
)

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "testvectors.json").read_text())
ONE = np.ones(1)


def vectors(name):
    found = [vector for vector in VECTORS if vector["name"] == name]
    assert found
    return found


def pairs(count):
    rng = np.random.default_rng(5)
    for _ in range(count):
        m, n = rng.integers(1, 6, 2)
        yield rng, rng.normal(size=(m, m)) + 2 * np.eye(m), rng.normal(size=(n, n)) + 2 * np.eye(n)


@pytest.mark.parametrize("vector", vectors("imgm_composition"))
def test_the_required_product_is_the_independent_number_from_above(vector):
    s2, epsilon, delta = (float(vector["inputs"][name]) for name in ("s2", "eps", "delta"))
    found = required_product(s2, epsilon, delta, int(vector["inputs"]["T"]))
    exact = mpmath.mpf(vector["expected"]["required_product"])
    assert exact <= found <= exact * (1 + mpmath.mpf(vector["tolerance"]))


def test_the_distance_is_that_of_exact_rational_arithmetic():
    left, right = np.array([[2.0, 0.0], [1.0, 3.0]]), np.array([[1.0, 1.0], [0.0, 2.0]])
    difference = np.array([[1.0, -1.0], [0.5, 2.0]])
    assert mahalanobis(left, right, difference) == pytest.approx(0.9860132971832693404278880, rel=1e-13)
    for rng, a, b in pairs(20):
        d = rng.normal(size=(len(a), len(b)))
        with mpmath.workdps(40):
            exact = mpmath.matrix(a.tolist()) ** -1 * mpmath.matrix(d.tolist()) * (mpmath.matrix(b.tolist()) ** -1).T
            assert mahalanobis(a, b, d) == pytest.approx(float(mpmath.norm(exact, 2)), rel=1e-11)
        assert mahalanobis(np.diagonal(a), b, d) == pytest.approx(mahalanobis(np.diag(np.diagonal(a)), b, d))


def test_the_loss_on_the_ball_is_the_supremum_over_it():
    for rng, a, b in pairs(100):
        loss = ball_loss(1.5, a, b).mu
        worst = np.outer(np.linalg.svd(a)[0][:, -1], np.linalg.svd(b)[0][:, -1])
        # Reached by the rank-one difference along both least directions.
        assert mahalanobis(a, b, 1.5 * worst) == pytest.approx(loss, rel=1e-8)
        for _ in range(20):
            d = rng.normal(size=worst.shape)
            assert mahalanobis(a, b, 1.5 * d / np.linalg.norm(d)) <= loss


def test_a_least_singular_value_never_exceeds_the_true_one():
    for _, a, _ in pairs(30):
        with mpmath.workdps(40):
            exact = min(mpmath.svd_r(mpmath.matrix(a.tolist()), compute_uv=False))
        found = least_singular_value(a)
        assert found <= exact
        assert found == pytest.approx(float(exact), rel=1e-10)


@pytest.mark.parametrize("epsilon, delta", [(1.0, 1e-5), (0.01, 1e-9), (8.0, 1e-6), (1e-4, 0.3)])
def test_noise_at_the_required_product_spends_the_loss_and_no_more(epsilon, delta):
    product = required_product(1.7, epsilon, delta, steps=1)
    loss = ball_loss(1.7, np.full(3, product), np.ones(2))
    assert loss.mu == pytest.approx(gaussian_mu(epsilon, delta), rel=1e-12)
    assert gaussian_delta(ball_loss(1.7, np.full(3, product * (1 + 1e-12)), np.ones(2)).mu, epsilon) <= delta
    assert gaussian_delta(ball_loss(1.7, np.full(3, product * (1 - 1e-9)), np.ones(2)).mu, epsilon) > delta


def test_directional_noise_of_the_same_loss_is_larger_in_every_direction():
    isotropic = required_product(1.0, 1.0, 1e-5, steps=1) ** 2 * np.eye(6)
    for _, a, b in pairs(50):
        if (len(a), len(b)) != (3, 2):
            continue
        needed = required_product(1.0, 1.0, 1e-5, 1) / (least_singular_value(a) * least_singular_value(b))
        other = np.kron(b @ b.T, a @ a.T) * needed**2
        assert np.linalg.eigvalsh(other - isotropic)[0] >= -1e-9 * np.linalg.norm(other)


def test_equal_steps_compose_by_the_root_of_their_number():
    product = required_product(2.0, 1.0, 1e-5, steps=100)
    total = compose([ball_loss(2.0, np.full(4, product), np.ones(4))] * 100)
    assert total.mu == pytest.approx(gaussian_mu(1.0, 1e-5), rel=1e-12)


@pytest.mark.parametrize("vector", vectors("gaussian_rdp"))
def test_the_renyi_divergence_is_linear_in_the_order(vector):
    mu = gaussian_mu(float(vector["inputs"]["eps"]), float(vector["inputs"]["delta"]))
    found = renyi_divergence(GaussianDP(mu), float(vector["inputs"]["alpha"]))
    assert found == pytest.approx(float(vector["expected"]["correct_rdp"]), rel=vector["tolerance"])


@pytest.mark.parametrize(
    "epsilon, published", [(1.0, "5051.390806781896054363830"), (0.1, "0.1273301901340464962493430")]
)
def test_the_published_renyi_value_is_reproduced_and_far_too_large(epsilon, published):
    found = published_renyi_bound(epsilon, 1e-5, 8.0)
    assert found == pytest.approx(float(published), rel=1e-12)
    assert found > 30 * renyi_divergence(GaussianDP(gaussian_mu(epsilon, 1e-5)), 8.0)


def test_the_renyi_divergence_is_that_of_two_gaussians_by_quadrature():
    for mu, order in ((0.3, 2.0), (1.0, 1.5), (2.0, 4.0)):
        with mpmath.workdps(30):
            moment = mpmath.quad(
                lambda x, mu=mu, order=order: mpmath.npdf(x, mu) ** order * mpmath.npdf(x) ** (1 - order),
                [-20, 0, mu * order, 40],
            )
        assert renyi_divergence(GaussianDP(mu), order) == pytest.approx(float(mpmath.log(moment)) / (order - 1))
    assert published_renyi_bound(30.0, 1e-5, 100.0) == math.inf


@pytest.mark.parametrize(
    "call",
    [
        lambda: ball_loss(0.0, ONE, ONE),
        lambda: ball_loss(1.0, np.array([1.0, 0.0]), ONE),
        lambda: ball_loss(1.0, np.ones((2, 2)), ONE),
        lambda: ball_loss(1.0, np.ones((2, 3)), ONE),
        lambda: ball_loss(1.0, np.array([math.nan]), ONE),
        lambda: mahalanobis(ONE, ONE, np.ones((2, 1))),
        lambda: required_product(1.0, 1.0, 1e-5, 0),
        lambda: required_product(1.0, 0.0, 1e-5, 1),
        lambda: renyi_divergence(GaussianDP(1.0), 1.0),
    ],
)
def test_what_promises_nothing_is_refused(call):
    with pytest.raises(CalibrationError, match="; "):
        call()
