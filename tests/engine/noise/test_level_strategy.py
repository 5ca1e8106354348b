"""Weights by age: the sensitivity of all nights together, what is read of one, its law, the guarantee, the error."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from benchmarks.continual import binary_tree
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.noise import level_strategy
from blockveil.engine.noise.design import add_noise
from blockveil.engine.noise.discrete_gaussian import GRID_TWO_LEVEL, NoiseKey, noise_block
from blockveil.engine.noise.level_strategy import Levels, ReadNight, WeightedDesign, least_noise, measurement, of_night
from blockveil.engine.noise.level_weights import WEIGHTS
from blockveil.engine.records.geometry import Body

KEY = NoiseKey(bytes(range(32)))
GUARANTEE = ApproxDP(1.0, 1e-6)


def problem(features=3, neighbours=Neighbours.ADD_REMOVE, bits=16, rows=100_000):
    return SecondMoment(Body.CUBE, np.ones(features), neighbours, 2 ** (bits - 1) - 1, rows, True)


def design_of(levels, guarantee=GUARANTEE, asked=None):
    asked = asked or problem()
    spread = Gaussian().spread(asked)
    return measurement(spread, asked.l2(spread), asked.scaling, guarantee, levels)


def strategy_matrix(levels):
    """C, by its definition: the weight of a record in each night after its arrival; shape (T, T)."""
    found = np.zeros((levels.nights, levels.nights), dtype=np.int64)
    for night in range(levels.nights):
        for arrival in range(night + 1):
            age = night - arrival
            found[night, arrival] = [v for v, low in zip(levels.weights, levels.ages, strict=True) if low <= age][-1]
    return found


weights_of = (
    st.integers(1, 40)
    .flatmap(
        lambda nights: st.tuples(
            st.just(nights),
            st.lists(st.integers(1, 255), min_size=1, max_size=1 + (nights - 1).bit_length()),
        )
    )
    .map(lambda drawn: Levels(drawn[0], tuple(sorted(drawn[1], reverse=True))))
)


@settings(max_examples=60, deadline=None)
@given(weights_of)
def test_norm_and_responses_are_those_of_the_strategy_matrix(levels):
    matrix = strategy_matrix(levels)
    assert levels.squared_norm == int((matrix[:, 0] ** 2).sum()) == int((matrix**2).sum(axis=0).max())
    read = np.tril(np.ones_like(matrix)) @ np.linalg.inv(matrix.astype(float))
    expected = read[-1, ::-1]
    assert np.allclose(levels.responses, expected, rtol=1e-6, atol=1e-9 * max(1.0, float(np.abs(expected).max())))
    for night in {1, levels.nights}:
        assert levels.deviation(night) == pytest.approx(math.sqrt((read[night - 1] ** 2).sum()), rel=1e-6)
        for back in {1, night - 1} - {0, night}:
            change = read[night - 1] - read[night - 1 - back]
            assert levels.deviation_of_change(night, back) == pytest.approx(math.sqrt((change**2).sum()), rel=1e-6)


@settings(max_examples=80, deadline=None)
@given(weights_of, st.data())
def test_measurements_of_neighbours_differ_by_no_more_than_the_bound(levels, data):
    """In whole steps, with rounding: the inequality that the guarantee rests on, wherever the record arrives."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    entries, step = 3, data.draw(st.sampled_from([1, 2, 7, 1000]))
    arrivals = rng.integers(-5000, 5000, (levels.nights, entries))
    record = rng.integers(-3000, 3000, entries)
    other = arrivals.copy()
    other[data.draw(st.integers(0, levels.nights - 1))] += record
    matrix, none = strategy_matrix(levels), np.zeros((levels.nights, entries), dtype=np.int64)
    measured = [add_noise(matrix @ world, np.full_like(none, step), none) for world in (arrivals, other)]
    distance = np.linalg.norm(measured[0] - measured[1])
    bound = math.sqrt(levels.squared_norm) * np.linalg.norm(record) / step + math.sqrt(levels.nights * entries)
    assert distance <= bound * (1 + 1e-12)


def test_a_record_of_the_first_night_attains_the_sensitivity():
    levels = least_noise(30)
    world = np.zeros((30, 1), dtype=np.int64)
    world[0] = 10**6
    distance = float(np.linalg.norm(strategy_matrix(levels) @ world))
    assert distance == pytest.approx(math.sqrt(levels.squared_norm) * 10**6)


@settings(max_examples=40, deadline=None)
@given(weights_of, st.integers(0, 2**32 - 1))
def test_what_is_read_is_the_running_total_and_the_noise_that_the_responses_say(levels, seed):
    rng = np.random.default_rng(seed)
    arrivals, noise = rng.integers(0, 100, levels.nights), rng.integers(-9, 10, levels.nights)
    measured = strategy_matrix(levels) @ arrivals + noise
    read = {}
    for night in range(1, levels.nights + 1):
        found = levels.estimate(measured[night - 1 : night], night, read.__getitem__)
        assert sorted(levels.needed(night), reverse=True) == list(levels.needed(night))
        read[night] = found
        expected = arrivals[:night].sum() + sum(levels.responses[k] * noise[night - 1 - k] for k in range(night))
        scale = 1.0 + sum(abs(one) for one in levels.responses[:night])
        assert found[0] == pytest.approx(expected, abs=1e-7 * scale * 100)


@pytest.mark.parametrize(
    ("nights", "optimum", "share"),
    [(7, 1.46, 1.05), (30, 1.87, 1.05), (90, 2.20, 1.05), (365, 2.63, 1.05), (3650, 3.46, 1.02)],
)
def test_errors_are_close_to_the_best_real_factorisations(nights, optimum, share):
    """The lower-triangular optimum; at 3,650 nights the best Toeplitz factorisation."""
    factors = least_noise(nights).factors
    assert math.sqrt(np.mean(factors**2)) <= share * optimum


@pytest.mark.parametrize("nights", [2, 3, 7, 9, 30, 33, 65, 100, 365, 513, 1000, 3660])
def test_weights_beat_a_binary_tree_and_independent_nights_at_every_number_of_nights(nights):
    weighed, tree = least_noise(nights).factors, binary_tree(nights)
    assert np.mean(weighed**2) < min(float(np.mean(tree**2)), nights)
    assert weighed.max() < tree.max()
    assert list(weighed) == sorted(weighed)


def test_the_table_holds_weights_that_fall_with_age_for_every_number_of_nights():
    assert max(WEIGHTS) == level_strategy.MOST_NIGHTS
    for nights, weights in WEIGHTS.items():
        assert Levels(nights, weights).weights == tuple(sorted(weights, reverse=True))
    for nights in range(1, level_strategy.MOST_NIGHTS + 1, 7):
        assert len(least_noise(nights).weights) == 1 + (nights - 1).bit_length()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("nights", [2, 30, 3660])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_loss_of_all_nights_is_at_most_the_target_and_covers_every_part(epsilon, nights, neighbours):
    asked, guarantee, levels = problem(5, neighbours), ApproxDP(epsilon, 1e-6), least_noise(nights)
    design = design_of(levels, guarantee, asked)
    assert design.loss.delta(epsilon) <= guarantee.delta
    # Every part again, from the numbers of the design alone: distance, rounding, samplers.
    one = asked.l2(design.spread).bound
    rounding = math.sqrt(nights * design.spread.changing)
    mu = math.sqrt(levels.squared_norm) * one / design.scale + rounding / design.grid.privacy_scale
    assert mu <= design.loss.mu <= mu * (1 + 1e-9)
    assert design.loss.total_variation >= nights * design.spread.entries * design.grid.total_variation_per_draw
    size = (0, design.width)
    ideal = np.multiply.outer(design.spread.rows, design.spread.columns) * design.scale * design.shifted_unit
    ideal *= np.where(np.eye(design.width) > 0, 1.0, math.sqrt(0.5)) / design.grid.privacy_scale
    assert np.all(design.steps(size, size) >= ideal)


def test_the_weights_times_the_noise_is_what_one_release_would_need():
    """Like for like: the noise of a measurement over its largest weight's norm is that of one release."""
    asked, levels = problem(), least_noise(30)
    alone = design_of(Levels(1, (1,)), asked=asked)
    together = of_night(design_of(levels, asked=asked), levels, 30)
    ratio = together.entry_standard_deviation() / alone.entry_standard_deviation()
    # More rounding and draws cost less than a part in a thousand.
    assert np.allclose(ratio, levels.factors[-1], rtol=1e-3)


BIG = 4_290_000_000


@pytest.mark.parametrize(
    ("bits", "rows", "digit_bits"), [(16, 10_000_000, 8), (16, 200_000_000, 4), (16, 1_000_000_000, 2), (16, BIG, 1)]
)
def test_series_of_as_many_records_as_one_release_may_have_are_planned_in_digits(bits, rows, digit_bits):
    design = design_of(least_noise(365), asked=problem(bits=bits, rows=rows))
    assert design.digit_bits == digit_bits
    largest = rows * (2 ** (bits - 1) - 1) ** 2 * (255 if digit_bits == 8 else 2**digit_bits - 1)
    assert largest << design.shift < 2**63


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 2, 4, 8]), st.data())
def test_a_sum_by_digits_is_rounded_to_the_bits_of_the_whole_sum(digit_bits, data):
    """The carry, against Python's whole numbers of any size."""
    whole = design_of(Levels(9, (255, 120, 70, 28, 9)), asked=problem(2))
    design = WeightedDesign(
        whole.spread, whole.scale, whole.sensitivity, whole.grid, whole.unit, 0, whole.loss, digit_bits=digit_bits
    )
    size = design.shape
    most = 2**61 // (2**digit_bits - 1)
    sums = [data.draw(st.lists(st.integers(-most, most), min_size=9, max_size=9)) for _ in range(3)]
    weights = [data.draw(st.integers(1, 255)) for _ in sums]
    digits = np.zeros((design.weight_digits[1], *size), dtype=np.int64)
    for values, weight in zip(sums, weights, strict=True):
        part = np.array(values, dtype=np.int64).reshape(size) // 3
        part = np.tril(part) + np.tril(part, -1).T
        for position in range(design.weight_digits[1]):
            digits[position] += ((weight >> (position * digit_bits)) & (2**digit_bits - 1)) * part
    released = design.release(KEY, digits if len(digits) > 1 else digits[0])
    steps = design.steps((0, size[0]), (0, size[1]))
    noise = noise_block(KEY, (0, size[0]), (0, size[1]), grid=GRID_TWO_LEVEL, symmetric=True)
    for place in np.ndindex(size):
        exact = sum(int(digit[place]) << (position * digit_bits) for position, digit in enumerate(digits))
        quotient, remainder = divmod(exact, int(steps[place]))
        assert int(released[place]) == quotient + (2 * remainder >= int(steps[place])) + int(noise[place])


def rejected(values, deviation):
    """Whether normal values are refused this standard deviation at alpha 1e-9."""
    total = float(np.sum((values / deviation) ** 2))
    return not chi2.ppf(5e-10, values.size) < total < chi2.isf(5e-10, values.size)


def test_what_is_read_of_a_night_has_the_stated_law_and_a_wrong_scale_is_rejected():
    levels, read = least_noise(12), {}
    for night in range(1, 13):
        key = NoiseKey(bytes([night]) * 32)
        noise = noise_block(key, (0, 256), (0, 256), grid=GRID_TWO_LEVEL, symmetric=False)
        read[night] = levels.estimate(noise, night, read.__getitem__)
        deviation = ReadNight(2, levels.deviation(night)).standard_deviation
        values = read[night].ravel()
        assert not rejected(values, deviation)
        assert rejected(values, 1.05 * deviation)
        assert rejected(values, deviation / 1.05)
        assert abs(values.mean()) < 6.2 * deviation / 256
    change = (read[12] - read[5]).ravel()
    assert not rejected(change, GRID_TWO_LEVEL.standard_deviation * levels.deviation_of_change(12, 7))
    assert rejected(change, 1.05 * GRID_TWO_LEVEL.standard_deviation * levels.deviation_of_change(12, 7))


def losses_of_an_adaptive_stream(levels, mu, rng, *, redrawn=False, trials=20_000):
    """Privacy loss of all nights where later records are chosen in view of earlier results; shape (trials,).

    The neighbours' record arrives in the first night and is of full size. Each night the adversary adds or withholds
    records by the sign of what it has read so far, which both worlds see. With ``redrawn`` the first night is measured
    twice with noise of two keys, as after a night that was committed, lost and run again under another.
    """
    scale = math.sqrt(levels.squared_norm) / mu
    column = strategy_matrix(levels)[:, 0].astype(float)
    column = np.append(column[:1], column) if redrawn else column
    total, arrived = np.zeros(trials), np.zeros((trials, column.size))
    for night, shift in enumerate(column):
        exact = arrived[:, : night + 1] @ column[night::-1] + shift
        measured = exact + scale * rng.standard_normal(trials)
        # The density of what was measured with the record over that without it.
        without = measured - (exact - shift)
        total += (without**2 - (without - shift) ** 2) / (2.0 * scale**2)
        if night + 1 < column.size:
            arrived[:, night + 1] = np.where(measured > exact.mean(), 50.0, -50.0)
    return total


def breaks(losses, mu):
    """Whether losses exceed what a Gaussian mechanism of this mu allows, at alpha 1e-9: their mean is mu^2 / 2."""
    error = losses.std() / math.sqrt(losses.size)
    return bool(losses.mean() > mu**2 / 2.0 + 6.0 * error)


def test_an_adaptive_stream_of_records_stays_within_the_loss_and_a_night_drawn_twice_does_not():
    levels, mu = least_noise(12), 1.0
    assert not breaks(losses_of_an_adaptive_stream(levels, mu, np.random.default_rng(5)), mu)
    assert breaks(losses_of_an_adaptive_stream(levels, mu, np.random.default_rng(6), redrawn=True), mu)
    # Noise for a column one weight short is caught as well.
    lacking = mu * math.sqrt(levels.squared_norm / (levels.squared_norm - levels.weights[1] ** 2))
    assert breaks(losses_of_an_adaptive_stream(levels, lacking, np.random.default_rng(7)), mu)


def test_what_cannot_be_is_refused():
    for nights, weights in ((0, (1,)), (3661, (1,)), (5, ()), (5, (256, 1)), (5, (3, 0)), (5, (2.0,)), (2, (3, 2, 1))):
        with pytest.raises(ValueError, match=r"nights|weight"):
            Levels(nights, weights)
    levels = least_noise(30)
    for night in (0, 31, -1):
        for ask in (levels.deviation, levels.needed, lambda n: levels.deviation_of_change(n, 1)):
            with pytest.raises(ValueError, match="not among"):
                ask(night)
    with pytest.raises(ValueError, match="no night"):
        levels.deviation_of_change(5, 5)
    for nights in (0, 3661):
        with pytest.raises(ValueError, match="between"):
            least_noise(nights)
    design = design_of(levels)
    with pytest.raises(ValueError, match="share"):
        of_night(of_night(design, levels, 3), levels, 4)


@pytest.mark.parametrize(
    ("nights", "age", "shares"),
    [
        (30, 1, {0: "0.50", 7: "0.26", 28: "0.17"}),
        (30, 15, {0: "0.86", 7: "0.82"}),
        (365, 1, {0: "0.50", 7: "0.22", 28: "0.09"}),
        (365, 182, {0: "0.97", 7: "0.91", 28: "0.83"}),
    ],
)
def test_the_share_of_an_erased_record_in_later_nights_is_the_one_that_is_documented(nights, age, shares):
    levels = least_noise(nights)
    read = []
    for night in range(1, nights + 1):
        weight = [w for w, begin in zip(levels.weights, levels.ages, strict=True) if begin <= night - 1][-1]
        measured = np.array([weight if night <= age else 0])  # it arrived in the first night
        read.append(levels.estimate(measured, night, lambda number: read[number - 1])[0])
    assert read[:age] == pytest.approx([1.0] * age)
    assert all(0 < share < 1 for share in read[age:])
    assert {after: f"{read[age + after]:.2f}" for after in shares} == shares
