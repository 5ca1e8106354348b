"""Every independent 40-digit number: each kind has one function here that computes it with the engine."""

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

from blockveil.engine.guarantees.calibration import gaussian_log_delta, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, GaussianDP, Neighbours, compose
from blockveil.engine.mechanisms.published import mvg_allocation, mvg_limits
from blockveil.engine.mechanisms.published.classic import classic_standard_deviation
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.box_with_ball import knapsack_loss
from blockveil.engine.sensitivity.second_moment import second_moment_sensitivity
from blockveil.engine.shapes.box_noise import box_variances
from blockveil.engine.study import error_constants, error_moments, imgm, r1smg, r1smg_profile, sampled_steps
from tests.oracles import covariances, mvg, r1smg_laws

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "testvectors.json").read_text())
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def number(text):
    """A decimal, a fraction, a root such as "sqrt(1488)", or a multiple of one such as "2 sqrt 6"."""
    factor, root, radicand = str(text).replace("(", " ").replace(")", " ").partition("sqrt")
    return float(Fraction(factor.strip(" *") or "1")) * (math.sqrt(Fraction(radicand.strip())) if root else 1.0)


def relation_of(text):
    """Neighbouring relation, however its name is joined."""
    return {"add": ADD, "replace": REPLACE}[text.replace("-", "_").replace("/", "_").partition("_")[0]]


def numbers(values):
    return np.array([number(value) for value in values])


def matrix(rows):
    return np.array([[number(value) for value in row] for row in rows])


def classic_gaussian_sigma(i):
    return {"sigma": classic_standard_deviation(number(i["sensitivity"]), number(i["eps"]), number(i["delta"]))}


def analytic_gaussian_B(i):
    mu = gaussian_mu(number(i["eps"]), number(i["delta"]))
    return {"B": mu, "sigma_over_sensitivity": 1 / mu, "zcdp_rho": GaussianDP(mu).rho}


def analytic_gaussian_B_eps0(i):
    delta = number(i["delta"])
    log_delta = math.log(delta)  # the root is above delta, however small that is
    # From 100 down to 1e-300 takes a thousand halvings, and to stop at an absolute error leaves it wrong.
    search = {"xtol": math.ulp(0.0), "rtol": 1e-15, "maxiter": 5000}
    return {"B": brentq(lambda mu: gaussian_log_delta(mu, 0.0) - log_delta, delta, 100.0, **search)}


def gaussian_profile_logdelta(i):
    log_delta = gaussian_log_delta(number(i["mu"]), number(i["eps"]))
    return {"log_delta": log_delta, "delta": math.exp(log_delta)}


def gdp_composition(i):
    together = compose(GaussianDP(number(mu)) for mu in i["mus"])
    return {"mu": together.mu, "delta_at_eps": together.delta(number(i["eps"]))}


def imgm_threshold(i):
    epsilon, delta = number(i["eps"]), number(i["delta"])
    product = imgm.required_product(number(i["s2"]), epsilon, delta, int(i["T"]))
    return {"B": gaussian_mu(epsilon, delta), "required_sigma_min_U2": product / number(i["sigma_min_U1"])}


def imgm_composition(i):
    product = imgm.required_product(number(i["s2"]), number(i["eps"]), number(i["delta"]), int(i["T"]))
    return {"required_product": product}


def imgm_mahalanobis(i):
    return {"frobenius": imgm.mahalanobis(matrix(i["U1"]), matrix(i["U2"]), matrix(i["Delta"]))}


def gaussian_rdp(i):
    epsilon, delta, order = number(i["eps"]), number(i["delta"]), number(i["alpha"])
    correct = imgm.renyi_divergence(GaussianDP(gaussian_mu(epsilon, delta)), order)
    return {"correct_rdp": correct, "published_imgm_eq52": imgm.published_renyi_bound(epsilon, delta, order)}


def r1smg_published(i):
    found = r1smg.published(int(i["M"]), number(i["eps"]), number(i["delta"]), math.sqrt(number(i["sensitivity_sq"])))
    return {"psi": found.psi, "sigma_star": found.variance, "theta0": found.theta}


def r1smg_true_delta(i):
    return {"delta": r1smg_profile.true_delta(int(i["M"]), number(i["s"]), number(i["eps"]))}


def r1smg_correct_calibration_law(i):
    arguments = int(i["M"]), number(i["eps"]), number(i["delta"])
    law, exact = (f(*arguments) for f in (r1smg_laws.correct_variance_law, r1smg_profile.correct_variance))
    if int(i["M"]) >= 10**5 and number(i["delta"]) <= 1e-4:  # where the law is meant to hold
        assert exact == pytest.approx(law, rel=2e-3)
    return {"sigma_star_over_Delta_sq": law}


def r1smg_tv_law(i):
    return {"tv": r1smg_laws.total_variation_law(int(i["M"]), number(i["s"]))}


def limit(i):
    query = mvg_limits.MvgQuery(int(i["m"]), int(i.get("n", i["m"])), number(i["gamma"]), number(i["s2"]))
    variant = mvg_limits.Zeta.PUBLISHED if i["zeta_variant"] == "published" else mvg_limits.Zeta.SQUARE_ROOT
    theorem = mvg_limits.Theorem(int(i.get("theorem", 2)))
    return query, mvg_limits.precision_limit(query, number(i["eps"]), number(i["delta"]), theorem, variant)


def mvg_bound(i):
    _, found = limit(i)
    return {
        "H_r": found.harmonic,
        "H_r_half": found.root_harmonic,
        "zeta": found.zeta,
        "alpha": found.curvature,
        "omega": found.curvature,
        "beta": found.beta,
        "rhs": found.limit,
    }


def mvg_algorithm1(i):
    query, found = limit(i)
    noise = mvg.unimodal(found, numbers(i["theta"]), int(i["n"]))
    return {
        "P": found.limit**2 / query.columns,
        "sigma": noise.row_variances,
        "expected_loss": noise.expected_loss,
        "exact_mu_fball": noise.ball_loss(query.sensitivity).mu,
        "exact_mu_box_pm2": noise.box_loss(np.full(query.rows, 2.0)).mu,
    }


def mvg_algorithm2(i):
    query, found = limit(i)
    noise = mvg.equimodal(found, numbers(i["theta"]))
    return {
        "P": found.limit,
        "sigma": noise.row_variances,
        "expected_loss": noise.expected_loss,
        "exact_mu_fball": noise.ball_loss(query.sensitivity).mu,
    }


def mvg_theorem7(i):
    signal, budget = numbers(i["Lambda_f"]), number(i["budget_d"])
    published, right = mvg.published_max_pnr(signal, budget), mvg.max_pnr(signal, budget)
    with np.errstate(divide="ignore"):
        variances = 1 / right.precisions
    return {
        "c_published": published.level,
        "precisions_published": published.precisions,
        "published_is_valid": published.valid,
        "c_waterfill": right.level,
        "precisions_waterfill": right.precisions,
        "variances_waterfill": variances,
        "max_pnr": math.exp(mvg.log_power_to_noise_ratio(signal, right.precisions)),
    }


def exact_box_maxpnr(i):
    widths, signal = numbers(i["box_difference_halfwidths"]), numbers(i["Lambda_f"])
    found = mvg_allocation.exact_box_max_pnr(signal, widths, number(i["B_squared"]))
    return {
        "nu": found.level,
        "precisions": found.precisions,
        "budget_check": float(np.sum(widths**2 * found.precisions)),
    }


def exact_algorithm1_box(i):
    widths, mu = numbers(i["max_abs_difference_per_row"]), number(i["B"])
    noise = mvg.exact_box(widths, numbers(i["theta"]), mu, 1)
    return {"row_variances": noise.row_variances, "mu_check": noise.box_loss(widths).mu}


def exact_algorithm2_covariance_box(i):
    relation = relation_of(i["adjacency"])
    rows, mu = int(i["N"]), number(i["B"])
    noise = mvg.exact_second_moment(numbers(i["feature_bounds"]), numbers(i["theta"]), mu, rows, relation)
    return {
        "sigma": noise.row_variances,
        "budget": rows * mu / (1.0 if relation is ADD else math.sqrt(2.0)),
        "total_after_symmetrising": noise.expected_loss_symmetrised,
    }


def r1smg_loss_moments(_):
    return moments(error_moments.r1smg_loss_moments(1.0))


def classic_loss_moments(i):
    return moments(error_moments.gaussian_loss_moments(int(i["M"]), 1.0))


def mvg_loss_moments(i):
    return moments(error_moments.kronecker_loss_moments(numbers(i["Sigma_eigs"]), numbers(i["Psi_eigs"])))


def moments(found):
    names = ("mean", "raw_kurtosis", "raw_skewness", "central_kurtosis", "central_skewness", "coefficient_of_variation")
    return {name: getattr(found, name) for name in names}


def expected_loss_uber(i):
    entries, s, delta = int(i["M"]), math.sqrt(number(i["sensitivity_sq"])), number(i["delta"])
    return {
        "classic": entries * classic_standard_deviation(s, number(i["eps_gauss"]), delta) ** 2,
        "analytic": error_constants.analytic_constant(entries, number(i["eps_gauss"]), delta) * s**2,
        "r1smg_published": r1smg.published(entries, number(i["eps_r1smg"]), delta, s).variance,
    }


def loss_constants(i):
    arguments = int(i["M"]), number(i["eps"]), number(i["delta"])
    return {
        "C_C": error_constants.classic_constant(*arguments),
        "C_A": error_constants.analytic_constant_upper_bound(*arguments),
        "C_R": r1smg.published(*arguments, 1.0).variance,
        "analytic_true": error_constants.analytic_constant(*arguments),
    }


def loss_constant_mvg(i):
    return {"C_M": error_constants.mvg_constant_lower_bound(int(i["r"]), int(i["MN"]), number(i["eps"]))}


def strong_composition_eq16(i):
    rate, epochs, slack = number(i["q"]), number(str(i["epochs"])), number(i["delta_prime"])
    step = sampled_steps.published_step(ApproxDP(number(i["eps"]), number(i["delta"])), rate, epochs, slack)
    amplified = sampled_steps.subsampled(step, rate)
    composed = sampled_steps.strong_composition(amplified, epochs / rate, slack)
    return {
        "steps": epochs / rate,
        "eps0": step.epsilon,
        "delta0": step.delta,
        "valid_amplified_step_eps": amplified.epsilon,
        "composed_eps_with_valid_amplification": composed.epsilon,
    }


def subsampling_amplification(i):
    return {"eps": sampled_steps.subsampled(ApproxDP(number(i["eps0"]), 1e-6), number(i["q"])).epsilon}


def gram_sensitivity_box(i):
    weights = np.full(int(i["m"]), number(i["c"]) ** 2)
    cases = (("add_remove", Body.CUBE, ADD), ("replace_one", Body.CUBE, REPLACE))
    found = {name: second_moment_sensitivity(body, weights, relation).bound for name, body, relation in cases}
    return {**found, "replace_one_box01": second_moment_sensitivity(Body.HALF_CUBE, weights, REPLACE).bound}


def gram_sensitivity_ball(i):
    squared = number(i["C"]) ** 2
    found = {
        name: second_moment_sensitivity(Body.BALL, np.full(5, squared), relation).bound
        for name, relation in (("add_remove", ADD), ("replace_one", REPLACE))
    }
    rows = 50
    centred = covariances.centred_covariance_sensitivity(rows, number(i["C"]), rows) * rows**2 / (rows - 1)
    return {**found, "centred_over_N_times_N_squared_over_Nminus1": centred}


def centred_cov_sensitivity(i):
    rows, radius = int(i["N"]), number(i["C"])
    return {
        "replace_one_1_over_N": covariances.centred_covariance_sensitivity(rows, radius, rows),
        "replace_one_1_over_Nminus1": covariances.centred_covariance_sensitivity(rows, radius, rows - 1),
    }


def swarm_sensitivity(i):
    return {"s2": second_moment_sensitivity(Body.CUBE, np.ones(int(i["m"])), REPLACE).bound / int(i["N"])}


def movement_sensitivity(i):
    weights, rows = np.full(int(i["m"]), number(i["c"]) ** 2), int(i["N"])
    one, two = (second_moment_sensitivity(Body.CUBE, weights, relation).bound for relation in (ADD, REPLACE))
    return {"published": 2 * one / rows, "tight": two / rows}  # the publication uses the triangle inequality


def box_optimal_covariance(i):
    c, w, mu = numbers(i["c"]), numbers(i["w"]), number(i["B"])
    variances = box_variances(c, w, mu)
    return {
        "K_diag": variances,
        "weighted_error": float(np.sum(w * variances)),
        "iid_weighted_error": float(np.sum(w) * np.sum(c**2)) / mu**2,
        "mu_check": covariances.box_loss(c, variances),
    }


def box_and_ball_exact_mu(i):
    return {"mu_squared": knapsack_loss(numbers(i["c"]), number(i["C"]), numbers(i["K_diag"])) ** 2}


def covariance_ball_addremove_optimal(i):
    found = covariances.ball_second_moment(int(i["m"]), number(i["C"]), number(i["B"]))
    return {
        "var_trace_direction": found.trace,
        "var_traceless": found.traceless,
        "total": found.total,
        "isotropic_total": found.isotropic_total,
    }


def covariance_ellipsoid_total(i):
    relation = relation_of(i["adjacency"])
    total, isotropic = covariances.ellipsoid_second_moment_total(numbers(i["E_diag"]), number(i["B"]), relation)
    return {"total": total, "iid_total": isotropic}


def symmetric_noise(i):
    """Unit noise: independent entries; what the product draws; an unscaled triangle copied down."""
    m = int(i["m"])
    found = covariances.ball_second_moment(m, 1.0, 1.0)
    return {"raw_iid_total": m**2, "symmetrised_total": found.isotropic_total, "upper_triangle_copied_total": m**2}


COMPUTED = {name: value for name, value in globals().items() if name in {vector["name"] for vector in VECTORS}}


def matches(found, expected, tolerance):
    if isinstance(expected, bool):
        return found is expected
    if isinstance(expected, list):
        return all(matches(a, b, tolerance) for a, b in zip(np.atleast_1d(found), expected, strict=True))
    wanted = math.inf if expected == "inf" else number(expected)
    # Engine results end on the private side, up to 3e-12 away from the root.
    return found == wanted or abs(found - wanted) <= max(tolerance, 3e-12) * abs(wanted)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_engine_agrees_with_the_independent_number(vector):
    assert vector["name"] in COMPUTED, "each kind of number is computed by the engine"
    found = COMPUTED[vector["name"]](vector["inputs"])
    for name, expected in vector["expected"].items():
        # A number may be named after its paper in another way: what it is stands at the end.
        value = found[name] if name in found else found[next(key for key in found if key[-5:] == name[-5:])]
        assert matches(value, expected, float(vector["tolerance"])), (name, value, expected)
