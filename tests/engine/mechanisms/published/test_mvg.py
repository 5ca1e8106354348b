"""MVG: published limits against independent numbers, exact losses, exact designs, and that no claim is exceeded."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_mu
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.published.mvg_allocation import (
    binary_allocation,
    exact_box_max_pnr,
    uniform_allocation,
)
from blockveil.engine.mechanisms.published.mvg_limits import (
    MvgQuery,
    Theorem,
    Zeta,
    harmonic_number,
    precision_limit,
    root_harmonic_number,
)
from blockveil.engine.study.imgm import ball_loss, mahalanobis
from tests.oracles.mvg import (
    MatrixNoise,
    equimodal,
    exact_box,
    exact_second_moment,
    half_widths_along,
    log_power_to_noise_ratio,
    max_pnr,
    optimal_allocation,
    published_max_pnr,
    published_trace_budget,
    trace_budget,
    unimodal,
)

GENERAL, SYMMETRIC = Theorem.GENERAL, Theorem.SYMMETRIC
PUBLISHED, ROOT = Zeta.PUBLISHED, Zeta.SQUARE_ROOT

LIVER = MvgQuery(6, 248, math.sqrt(1488), 2 * math.sqrt(6))
MOVEMENT = MvgQuery(4, 4, 4e4, 8e4 / 10176)
HEART = MvgQuery(21, 2126, 211.2960009086778717398922, 4.582575694955840006588047)
SWARM = MvgQuery(2400, 2400, 2400.0, 0.1413271381452126964158916)

# query, epsilon, delta, theorem, zeta -> zeta, alpha or omega, beta, limit; independent, 25 digits.
LIMITS = [
    (LIVER, 1.0, 1 / 248, GENERAL, PUBLISHED, "1680.178528467714494199369", "9987.782703257700411817326",
     "250500.0772362253612391861", "6.374468606427648228654391e-11"),
    (LIVER, 1.0, 1 / 248, GENERAL, ROOT, "40.98998083029210803243114", "9987.782703257700411817326",
     "6111.251387829454020766740", "0.0000001069881046286572831362379"),
    (MOVEMENT, 1.0, 1 / 10176, GENERAL, PUBLISHED, "58.75739315078700750443961", "7789774886.471898226616576",
     "3849.409928641706466485824", "2.489498706827005174825272e-10"),
    (MOVEMENT, 1.0, 1 / 10176, GENERAL, ROOT, "7.665337119187062049514839", "7789774886.471898226616576",
     "502.1840355861544843759721", "2.557159280866055397944584e-10"),
    (MOVEMENT, 1.0, 1 / 10176, SYMMETRIC, PUBLISHED, "58.75739315078700750443961", "2620545.073375262054507338",
     "3849.409928641706466485824", "0.0000001655400916795873369477528"),
    (MOVEMENT, 1.0, 1 / 10176, SYMMETRIC, ROOT, "7.665337119187062049514839", "2620545.073375262054507338",
     "502.1840355861544843759721", "0.0000006131442633921441887119682"),
    (HEART, 1.0, 1 / 2126, GENERAL, ROOT, "214.0819280199456609753362", "518650.4517763573449251130",
     "103969.4050107104711835159", "3.699691703016410300759903e-10"),
    (SWARM, 1.6, 1e-7, GENERAL, ROOT, "2404.018087143476010228546", "604172584.5746649419908644",
     "278316.4339389277373431831", "1.259830816823104945338201e-10"),
]  # fmt: skip

# theorem, zeta -> standard variances of Algorithm 2 on the movement data with theta (.4, .3, .2, .1), error, exact mu.
EQUIMODAL = [
    (GENERAL, PUBLISHED, [100210.6898510603095829149, 115713.3375223755366958314, 141719.3166821333621125091,
     200421.3797021206191658298], 311436235902.7466570452190, 0.00007845106377184173978435954),
    (SYMMETRIC, PUBLISHED, [3886.139699679238339311629, 4487.327603436599360915424, 5495.831468562885390186869,
     7772.279399358476678623258], 468357905.7331138286601240, 0.002022993465925757868975755),
    (GENERAL, ROOT, [98876.05130484750906934536, 114172.2296745219143709880, 139831.8527492133088546866,
     197752.1026096950181386907], 303195859694.8929643351600, 0.00007951000385206888514514762),
    (SYMMETRIC, ROOT, [2019.243388959151630930393, 2331.621428349876790981749, 2855.641386398243011222382,
     4038.486777918303261860785], 126449867.1568084324700183, 0.003893356919285584668010866),
]  # fmt: skip


def array(*values):
    return np.array(values, dtype=np.float64)


def close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=0)


@pytest.mark.parametrize("query, epsilon, delta, theorem, variant, zeta, curvature, beta, limit", LIMITS)
def test_the_limit_is_the_independent_number_from_below(
    query, epsilon, delta, theorem, variant, zeta, curvature, beta, limit
):
    found = precision_limit(query, epsilon, delta, theorem, variant)
    close([found.zeta, found.curvature, found.beta], [float(zeta), float(curvature), float(beta)], 1e-13)
    assert (1 - mpmath.mpf("1e-12")) * mpmath.mpf(limit) <= found.limit < mpmath.mpf(limit)


@pytest.mark.parametrize("terms", [1, 2, 4, 21, 511, 512, 513, 2400, 10**6])
def test_harmonic_numbers_are_accurate_and_fast(terms):
    with mpmath.workdps(40):
        half = mpmath.mpf(1) / 2
        close(harmonic_number(terms), float(mpmath.harmonic(terms)), 1e-15)
        close(root_harmonic_number(terms), float(mpmath.zeta(half) - mpmath.zeta(half, terms + 1)), 1e-15)


def test_algorithm_1_reproduces_the_published_design_and_its_exact_loss():
    limit = precision_limit(LIVER, 1.0, 1 / 248, GENERAL, PUBLISHED)
    design = unimodal(limit, binary_allocation(np.arange(6) < 2, 0.55), 248)
    close(design.row_variances, [471102606276.8763749283980] * 2 + [736555696324.9843585000754] * 4, 1e-12)
    close(limit.limit**2 / 248, 1.638461694126275953714546e-23, 1e-12)
    close(design.expected_loss, 964330143467715.1655965601, 1e-12)
    close(design.ball_loss(LIVER.sensitivity).mu, 0.000007137528697636821321750696, 1e-12)
    close(design.box_loss(np.full(6, 2.0)).mu, 0.000006221267389276207214595284, 1e-12)
    assert design.satisfies(limit)


@pytest.mark.parametrize("theorem, variant, variances, expected_loss, mu", EQUIMODAL)
def test_algorithm_2_reproduces_the_published_design_and_its_exact_loss(theorem, variant, variances, expected_loss, mu):
    limit = precision_limit(MOVEMENT, 1.0, 1 / 10176, theorem, variant)
    design = equimodal(limit, array(0.4, 0.3, 0.2, 0.1))
    close(design.row_variances, variances, 1e-12)
    close(design.expected_loss, expected_loss, 1e-12)
    close(design.ball_loss(MOVEMENT.sensitivity).mu, mu, 1e-12)
    assert design.satisfies(limit)
    assert not MatrixNoise(design.row_precisions * 1.000001, design.row_precisions).satisfies(limit)


def test_the_exact_loss_on_the_ball_is_that_of_any_matrix_gaussian_pair():
    rng = np.random.default_rng(3)
    for _ in range(30):
        design = MatrixNoise(rng.uniform(0.1, 3, 4), rng.uniform(0.1, 3, 3))
        factors = np.sqrt(design.row_variances), np.sqrt(design.column_variances)
        assert design.ball_loss(1.3).mu == pytest.approx(ball_loss(1.3, *factors).mu, rel=1e-12)


def test_the_exact_loss_on_a_box_is_the_largest_over_its_corners():
    rng = np.random.default_rng(4)
    for _ in range(20):
        design, half_widths = MatrixNoise(rng.uniform(0, 3, 4), rng.uniform(0.1, 3, 3)), rng.uniform(0.1, 2, 4)
        factors = np.sqrt(design.row_variances), np.sqrt(design.column_variances)
        largest = 0.0
        for signs, column in itertools.product(itertools.product((-1, 1), repeat=4), range(3)):
            difference = np.zeros((4, 3))
            difference[:, column] = half_widths * signs
            largest = max(largest, mahalanobis(*factors, difference))
        assert largest <= design.box_loss(half_widths).mu <= largest * (1 + 1e-12)


def test_a_box_seen_along_other_directions_is_never_undercharged():
    rng = np.random.default_rng(5)
    for _ in range(20):
        directions, half_widths = np.linalg.qr(rng.normal(size=(4, 4)))[0], rng.uniform(0.1, 2, 4)
        precisions = rng.uniform(0.1, 3, 4)
        charged = MatrixNoise(precisions, np.ones(1)).box_loss(half_widths_along(directions, half_widths)).mu
        for signs in itertools.product((-1, 1), repeat=4):
            along = directions.T @ (half_widths * signs)
            assert math.sqrt(float(np.sum(precisions * along**2))) <= charged
    close(half_widths_along(np.eye(3), array(1, 2, 3)), [1, 2, 3], 1e-13)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_loss_of_a_second_moment_is_the_largest_over_corners_or_above(neighbours):
    rng = np.random.default_rng(6)
    for size in (1, 2, 3, 4):
        equal = np.ones(size)
        for bounds, precisions in ((equal, equal), (rng.uniform(0.1, 2, size), rng.uniform(0.1, 3, size))):
            design = MatrixNoise(precisions, precisions)
            corners = [bounds * signs for signs in itertools.product((-1, 1), repeat=size)]
            moments = [np.outer(x, x) for x in corners]
            others = [np.zeros((size, size))] if neighbours is Neighbours.ADD_REMOVE else [*moments, moments[0] * 0]
            factor = np.sqrt(design.row_variances)
            largest = max(mahalanobis(factor, factor, a - b) for a in moments for b in others) / 10
            charged = design.second_moment_loss(bounds, 10, neighbours).mu
            assert largest <= charged
            # Two records at corners, signs split evenly or as evenly as equal weights allow.
            if neighbours is Neighbours.ADD_REMOVE or bounds is equal:
                assert charged <= largest * (1 + 1e-12)


def test_symmetrising_keeps_the_loss_and_halves_the_error():
    design = MatrixNoise(array(125.0, 300.0, 800.0), array(125.0, 300.0, 800.0))
    close(design.expected_loss_symmetrised, 0.0001175069444444444444444444, 1e-13)
    variances = np.multiply.outer(design.row_variances, design.row_variances)
    # Entry (i, j) of (Z + Z') / 2 has a quarter of both variances, and all of one on the diagonal.
    close(design.expected_loss_symmetrised, np.sum((variances + np.diag(np.diagonal(variances))) / 2), 1e-13)


CLAIMS = list(
    itertools.product(
        [(1, 1), (2, 7), (4, 4), (30, 30), (21, 2126)],
        [(1e-3, 1e-9), (0.1, 1e-5), (0.7, 0.94), (1.0, 1e-5), (1.0, 0.2), (10.0, 1e-5), (50.0, 1e-3), (200.0, 0.4)],
        [0.5, 2.0, 1e3],
        list(itertools.product(Theorem, Zeta)),
    )
)


def designs_of(limit, shape):
    """Even shares, and all of the budget in one direction, which costs most."""
    for rest in (1 / shape[0], 1e-9):
        theta = np.full(shape[0], rest)
        theta[0] = 1 - rest * (shape[0] - 1)
        if shape[0] == shape[1]:
            yield equimodal(limit, theta)
        if limit.theorem is GENERAL:
            yield unimodal(limit, theta, shape[1])


def log_true_delta(mu, epsilon):
    with mpmath.workdps(40 + int(epsilon)):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        first, second = mpmath.ncdf(mu / 2 - epsilon / mu), mpmath.ncdf(-mu / 2 - epsilon / mu)
        return mpmath.log(first - mpmath.exp(epsilon) * second)


def test_no_published_design_has_a_larger_delta_than_it_claims():
    worst = -math.inf
    for shape, (epsilon, delta), norm, (theorem, variant) in CLAIMS:
        if theorem is SYMMETRIC and shape[0] != shape[1]:
            continue
        # Norms start at half the sensitivity: no smaller one is possible.
        limit = precision_limit(MvgQuery(*shape, norm, 1.0), epsilon, delta, theorem, variant)
        for design in designs_of(limit, shape):
            mu = design.ball_loss(1.0).mu
            assert mu < gaussian_mu(epsilon, delta)
            # Below epsilon / 10 the true delta is below the normal tail at 9.9, under every claim here.
            if mu > epsilon / 10:
                worst = max(worst, float(log_true_delta(mu, epsilon)) - math.log(delta))
    # Valid, and never near tight.
    assert -5.0 < worst < -4.0


@pytest.mark.parametrize(
    "half_widths, theta, mu, variances",
    [
        ([2] * 6, [0.4, 0.4] + [0.05] * 4, 0.46206, [46.83852955952153123081956] * 2 + [374.70823647617224984] * 4),
        ([1, 0.5, 2], [0.5, 0.2, 0.3], 0.25, [32.0, 20.0, 213.3333333333333333333333]),
    ],
)  # fmt: skip
def test_the_exact_box_design_spends_exactly_its_budget(half_widths, theta, mu, variances):
    design = exact_box(array(*half_widths), array(*theta), mu, columns=7)
    close(design.row_variances, variances, 1e-13)
    assert mu * (1 - 1e-13) <= design.box_loss(array(*half_widths)).mu <= mu


def test_the_exact_second_moment_design_spends_exactly_its_budget():
    bounds, theta = array(1, 0.5, 0.25), array(0.5, 0.3, 0.2)
    design = exact_second_moment(bounds, theta, 0.25, 1000, Neighbours.ADD_REMOVE)
    close(design.row_variances, [0.008, 0.003333333333333333333333333, 0.00125], 1e-13)
    close(design.expected_loss_symmetrised, 0.0001175069444444444444444444, 1e-13)
    bounds, theta = np.full(4, 100.0), array(0.4, 0.3, 0.2, 0.1)
    mu = gaussian_mu(1.0, 1 / 10176)
    design = exact_second_moment(bounds, theta, mu, 10176, Neighbours.REPLACE_ONE)
    close(design.row_variances, [11.08362757, 14.77817009, 22.16725514, 44.33451028], 2e-5)
    # Less noise than the published design by more than two orders of magnitude.
    assert design.expected_loss < 4e-5 * 468357905.7


def test_random_exact_designs_never_charge_more_than_they_were_given():
    rng = np.random.default_rng(7)
    for _ in range(300):
        size, mu = int(rng.integers(1, 40)), float(10 ** rng.uniform(-6, 2))
        bounds, theta = 10 ** rng.uniform(-3, 3, size), rng.dirichlet(np.ones(size))
        assert exact_box(bounds, theta, mu, 3).box_loss(bounds).mu <= mu
        for neighbours in Neighbours:
            design = exact_second_moment(bounds, theta, mu, 77, neighbours)
            assert design.second_moment_loss(bounds, 77, neighbours).mu <= mu
        signal = 10 ** rng.uniform(-3, 3, size)
        precisions = exact_box_max_pnr(signal, bounds, mu * mu).precisions
        assert mu * (1 - 1e-12) <= MatrixNoise(precisions, np.ones(2)).box_loss(bounds).mu <= mu


def test_the_optimal_allocation_has_the_least_weighted_error():
    half_widths, weights = array(1, 0.5, 0.25), array(1, 2, 3)
    best = exact_box(half_widths, optimal_allocation(half_widths, weights), 1.0, 1).row_variances
    close(best, [2.140119483078766847782706, 0.7566464995172223933377524, 0.3088996399133721952188407], 1e-13)
    close(np.sum(weights * best), 4.580111401853328220114733, 1e-13)
    rng = np.random.default_rng(8)
    for theta in rng.dirichlet(np.ones(3), 500):
        other = exact_box(half_widths, theta, 1.0, 1).row_variances
        assert np.sum(weights * other) >= np.sum(weights * best) * (1 - 1e-12)


def test_allocations_share_the_whole_budget():
    close(binary_allocation(np.arange(6) < 2, 0.55), [0.275] * 2 + [0.1125] * 4, 1e-15)
    close(uniform_allocation(3), [1 / 3] * 3, 1e-15)
    # A sum that rounding puts above one spends no more than one.
    over = array(0.1, 0.2, 0.7) * (1 + 1e-10)
    assert exact_box(np.ones(3), over, 1.0, 1).box_loss(np.ones(3)).mu <= 1.0


@pytest.mark.parametrize(
    "signal, budget, published, valid, level, precisions, ratio",
    [
        ([5, 2, 1, 0.5], 6, [2.225, 1.925, 1.425, 0.425], True, 2.425, [2.225, 1.925, 1.425, 0.425], 172.908751953125),
        ([5, 2, 1, 0.5], 3, [1.475, 1.175, 0.675, -0.325], False, 1.5666666666666666666,
         [1.3666666666666666667, 1.0666666666666666667, 0.56666666666666666667, 0], 38.45296296296296296),
        ([120, 60, 30, 15, 8, 4], 0.2,
         [0.1083333333333333333333333, 0.1, 0.08333333333333333333333333, 0.05, -0.008333333333333333333333333,
          -0.1333333333333333333333333], False, 0.08125,
         [0.07291666666666666666666667, 0.06458333333333333333333333, 0.04791666666666666666666667,
          0.01458333333333333333333333, 0, 0], 141.20123291015625),
    ],
)  # fmt: skip
def test_theorem_7_is_reproduced_flagged_and_corrected(signal, budget, published, valid, level, precisions, ratio):
    signal = array(*signal)
    claim, water = published_max_pnr(signal, budget), max_pnr(signal, budget)
    close(claim.precisions, published, 1e-13)
    close(claim.level, (budget + np.sum(1 / signal)) / signal.size, 1e-13)
    assert claim.valid is valid
    assert water.valid
    close([water.level, *water.precisions], [level, *precisions], 1e-13)
    close(math.exp(log_power_to_noise_ratio(signal, water.precisions)), ratio, 1e-13)


@pytest.mark.parametrize(
    "half_widths, budget, level, precisions",
    [
        ([2, 2, 1, 0.5], 0.2135, 0.7135, [0, 0, 0, 0.854]),
        ([2, 2, 1, 0.5], 1.5, 3.8 / 3, [0.35 / 3, 0, 0.8 / 3, 9.2 / 3]),
        ([1, 1, 1, 1], 6.0, 2.425, [2.225, 1.925, 1.425, 0.425]),
    ],
)  # fmt: skip
def test_the_exact_box_ratio_spends_its_budget_at_the_known_optimum(half_widths, budget, level, precisions):
    found = exact_box_max_pnr(array(5, 2, 1, 0.5), array(*half_widths), budget)
    close(found.level, level, 1e-13)
    close(found.precisions, precisions, 1e-13)
    assert budget * (1 - 1e-13) <= float(np.sum(array(*half_widths) ** 2 * found.precisions)) <= budget


def test_no_other_split_of_the_budget_has_a_larger_ratio():
    rng = np.random.default_rng(9)
    for _ in range(50):
        signal, half_widths, budget = rng.exponential(1, 5), rng.uniform(0.2, 2, 5), float(rng.exponential(2))
        best = log_power_to_noise_ratio(signal, exact_box_max_pnr(signal, half_widths, budget).precisions)
        for theta in rng.dirichlet(np.full(5, 0.5), 100):
            assert log_power_to_noise_ratio(signal, theta * budget / half_widths**2) <= best * (1 + 1e-12)


def test_a_small_budget_survives_large_common_floors():
    found = max_pnr(array(1e-12, 1e-12), 1e-6)
    close(found.precisions, [5e-7, 5e-7], 1e-13)


def test_a_budget_for_the_sum_of_precisions_meets_the_published_condition():
    limit = precision_limit(LIVER, 1.0, 1 / 248, GENERAL, ROOT)
    for budget in (trace_budget(limit, 248), published_trace_budget(limit, 248)):
        assert MatrixNoise(array(budget, 0, 0), np.ones(248)).satisfies(limit)
    assert not MatrixNoise(array(trace_budget(limit, 248) * 1.000001, 0, 0), np.ones(248)).satisfies(limit)


def test_a_direction_without_precision_is_not_released_and_costs_nothing():
    design = exact_box(array(1, 1, 1), array(0.5, 0.5, 0.0), 1.0, 2)
    assert design.row_variances[2] == math.inf
    assert design.released.tolist() == [[True, True], [True, True], [False, False]]
    assert design.expected_loss == math.inf
    assert design.box_loss(array(1, 1, 1e9)).mu == design.box_loss(array(1, 1, 1)).mu
    square = MatrixNoise(array(1, 0), array(1, 0))
    assert square.expected_loss_symmetrised == math.inf
    assert square.second_moment_loss(array(2, 5), 1, Neighbours.ADD_REMOVE).mu == pytest.approx(4.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: MvgQuery(0, 3, 1.0, 1.0),
        lambda: MvgQuery(2, 3, -1.0, 1.0),
        lambda: MvgQuery(2, 3, 1.0, math.inf),
        lambda: precision_limit(LIVER, 1.0, 1e-5, SYMMETRIC, ROOT),
        lambda: precision_limit(LIVER, 0.0, 1e-5, GENERAL, ROOT),
        lambda: unimodal(precision_limit(MOVEMENT, 1.0, 1e-5, SYMMETRIC, ROOT), uniform_allocation(4), 4),
        lambda: exact_box(array(1, 1), array(0.6, 0.6), 1.0, 1),
        lambda: exact_box(array(1, 1), array(1.1, -0.1), 1.0, 1),
        lambda: exact_box(array(1, 1), array(0.0, 0.0), 1.0, 1),
        lambda: exact_box(array(1, 1), array(math.nan, 0.5), 1.0, 1),
        lambda: exact_box(array(1, 0), array(0.5, 0.5), 1.0, 1),
        lambda: exact_box(array(1, 1, 1), array(0.5, 0.5), 1.0, 1),
        lambda: exact_box(array(1, 1), array(0.5, 0.5), 0.0, 1),
        lambda: exact_second_moment(array(1, 1), array(0.5, 0.5), 1.0, 0, Neighbours.ADD_REMOVE),
        lambda: half_widths_along(array(1, 1, 0, 1).reshape(2, 2), array(1, 1)),
        lambda: MatrixNoise(array(0, 0), array(1)),
        lambda: MatrixNoise(array(1, -1), array(1)),
        lambda: MatrixNoise(array(1, math.inf), array(1)),
        lambda: MatrixNoise(array(1, 2), array(2, 1)).second_moment_loss(array(1, 1), 1, Neighbours.ADD_REMOVE),
        lambda: uniform_allocation(0),
        lambda: binary_allocation(np.array([True, True]), 0.5),
        lambda: binary_allocation(np.array([True, False]), 1.0),
        lambda: optimal_allocation(array(1, 0), array(1, 1)),
        lambda: optimal_allocation(array(1, 1), array(0, 0)),
        lambda: published_max_pnr(array(1, 0), 1.0),
        lambda: max_pnr(array(1, 1), 0.0),
        lambda: max_pnr(array(0, 0), 1.0),
        lambda: exact_box_max_pnr(array(1, 1), array(1), 1.0),
    ],
)
def test_what_promises_nothing_is_refused(call):
    with pytest.raises(CalibrationError, match="; "):
        call()
