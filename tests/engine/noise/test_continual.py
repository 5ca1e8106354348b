"""Noise that nights share: the chains, the sensitivity of all increments together, the law, the guarantee."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from blockveil.engine.noise import continual
from blockveil.engine.noise.continual import Chained, Chains, best, binary, independent
from blockveil.engine.noise.design import add_noise
from blockveil.engine.noise.discrete_gaussian import GRID_THREE_LEVEL, GRID_TWO_LEVEL, Grid, NoiseKey, noise_block
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.problems import SecondMoment

KEY = NoiseKey(bytes(range(32)))
GUARANTEE = ApproxDP(1.0, 1e-6)


def problem(features=3, neighbours=Neighbours.ADD_REMOVE):
    return SecondMoment(Body.CUBE, np.ones(features), neighbours, 2**15 - 1, 100_000, True)


def design_of(chains, guarantee=GUARANTEE, asked=None):
    asked = asked or problem()
    spread = Gaussian().spread(asked)
    return continual.increment_design(spread, asked.l2(spread), asked.scaling, guarantee, chains)


def increments(chains, prefixes):
    """What the nights' increments are, by their definition; shape (T, ...)."""
    known = [np.zeros_like(prefixes[0]), *prefixes]
    return np.array([known[t] - known[start] for t, start in enumerate(chains.starts, 1)])


def covered(chains):
    """Largest number of increments that hold the arrivals of one night, counted one by one."""
    nights = range(1, chains.nights + 1)
    return max(sum(chains.starts[t - 1] < s <= t for t in nights) for s in nights)


def least_total(nights, cover):
    """Least sum of depths over all nested choices, by trying them."""
    if nights == 0:
        return 0
    if cover == 0:
        return math.inf
    return min(
        least_total(m - 1, cover - 1) + 1 + least_total(nights - m, cover) + nights - m for m in range(1, nights + 1)
    )


@pytest.mark.parametrize("nights", [1, 2, 3, 7, 30, 100, 365, 1000])
def test_chains_are_nested_cover_what_they_say_and_beat_tree_and_independent_nights(nights):
    chains = best(nights)
    assert chains.nights == nights
    for made in (chains, binary(nights), independent(nights)):
        assert made.cover == covered(made) if nights <= 100 else True
        assert [len(made.chain(t)) for t in range(1, nights + 1)] == list(made.depths)
    mean = {
        name: np.mean(made.factors**2)
        for name, made in {"best": chains, "tree": binary(nights), "independent": independent(nights)}.items()
    }
    assert mean["best"] <= min(mean["tree"], mean["independent"]) * (1 + 1e-12)
    assert mean["independent"] == pytest.approx(nights)


@pytest.mark.parametrize("nights", range(1, 11))
def test_no_nested_choice_has_a_smaller_mean_variance(nights):
    least = min(cover * least_total(nights, cover) for cover in range(1, nights + 1))
    found = best(nights)
    assert found.cover * int(found.depths.sum()) == least


def test_a_year_of_nights_has_a_quarter_of_the_noise_of_independent_nights():
    factors = best(365).factors
    assert math.sqrt(np.mean(factors**2)) == pytest.approx(4.838, abs=1e-3)
    assert factors.max() < 5.66
    assert math.sqrt(np.mean(binary(365).factors ** 2)) == pytest.approx(6.063, abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.data())
def test_all_increments_of_neighbours_differ_by_no_more_than_the_bound(nights, data):
    """In whole steps, with rounding: the inequality that the guarantee rests on."""
    chains = data.draw(st.sampled_from([best(nights), binary(nights), independent(nights)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    entries, step = 3, data.draw(st.sampled_from([1, 2, 7, 1000]))
    arrivals = rng.integers(-5000, 5000, (nights, entries))
    record = rng.integers(-3000, 3000, entries)
    other = arrivals.copy()
    other[data.draw(st.integers(0, nights - 1))] += record
    steps, none = np.full(entries, step), np.zeros(entries, dtype=np.int64)
    rounded = [
        increments(chains, [add_noise(total, steps, none) for total in np.cumsum(world, axis=0)])
        for world in (arrivals, other)
    ]
    distance = np.linalg.norm(rounded[0] - rounded[1])
    bound = math.sqrt(chains.cover) * np.linalg.norm(record) / step + math.sqrt(nights * entries)
    assert distance <= bound * (1 + 1e-12)


def test_one_record_on_the_most_covered_night_attains_the_sensitivity():
    chains = best(30)
    worst = 0.0
    for night in range(30):
        world = np.zeros((30, 1), dtype=np.int64)
        world[night] = 10**6
        worst = max(worst, np.linalg.norm(increments(chains, list(np.cumsum(world, axis=0)))))
    assert worst == pytest.approx(math.sqrt(chains.cover) * 10**6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("nights", [2, 30, 3660])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_loss_of_all_nights_is_at_most_the_target_and_covers_every_part(epsilon, nights, neighbours):
    asked, guarantee, chains = problem(5, neighbours), ApproxDP(epsilon, 1e-6), best(nights)
    design = design_of(chains, guarantee, asked)
    assert design.loss.delta(epsilon) <= guarantee.delta
    # Every part again, from the numbers of the design alone: distance, rounding, samplers.
    one = asked.l2(design.spread).bound
    rounding = math.sqrt(nights * design.spread.changing)
    mu = math.sqrt(chains.cover) * one / design.scale + rounding / design.grid.privacy_scale
    assert mu <= design.loss.mu <= mu * (1 + 1e-9)
    assert design.loss.total_variation >= nights * design.spread.entries * design.grid.total_variation_per_draw
    # Steps are the real noise: none is below its ideal.
    size = (0, design.width)
    ideal = np.multiply.outer(design.spread.rows, design.spread.columns) * design.scale * design.shifted_unit
    ideal *= np.where(np.eye(design.width) > 0, 1.0, math.sqrt(0.5)) / design.grid.privacy_scale
    assert np.all(design.steps(size, size) >= ideal)


def test_noise_of_a_night_is_the_sum_of_its_increments_and_shared_with_other_nights():
    chains = best(30)
    for grid in (GRID_TWO_LEVEL, GRID_THREE_LEVEL):
        known = {0: np.zeros((5, 5), dtype=np.int64)}
        for night in range(1, 31):
            law = Chained(grid.levels, chains.chain(night))
            whole = law.draw(KEY, (0, 5), (0, 5), True)
            own = noise_block(KEY, (0, 5), (0, 5), grid=grid, symmetric=True, stream=night)
            assert np.array_equal(whole, known[chains.starts[night - 1]] + own)
            assert np.array_equal(law.draw(KEY, (2, 4), (1, 5), True), whole[2:4, 1:5])
            known[night] = whole


def rejected(values, deviation):
    """Whether normal values are refused this standard deviation at alpha 1e-9."""
    total = float(np.sum((values / deviation) ** 2))
    return not chi2.ppf(5e-10, values.size) < total < chi2.isf(5e-10, values.size)


def test_each_night_has_the_stated_law_and_a_wrong_scale_is_rejected():
    chains = best(365)
    for night in (1, 90, int(np.argmax(chains.depths)) + 1):
        law = Chained(2, chains.chain(night))
        values = law.draw(KEY, (0, 256), (0, 256), False).ravel().astype(np.float64)
        assert not rejected(values, law.standard_deviation)
        assert rejected(values, 1.05 * law.standard_deviation)
        assert rejected(values, law.standard_deviation / 1.05)
        assert abs(values.mean()) < 6.2 * law.standard_deviation / 256


def test_the_steps_of_all_nights_are_those_of_one_increment():
    asked, chains = problem(), best(30)
    mechanism = ShapedGaussian(Importance("relative-error"))
    spread = mechanism.spread(asked)
    one = continual.increment_design(spread, asked.l2(spread), asked.scaling, GUARANTEE, chains)
    size = (0, one.width)
    for night in (1, 17, 30):
        made = continual.of_night(one, chains, night)
        assert np.array_equal(made.steps(size, size), one.steps(size, size))
        ratio = made.entry_standard_deviation() / one.entry_standard_deviation()
        assert ratio == pytest.approx(math.sqrt(len(chains.chain(night))))
        assert made.loss == one.loss


def test_released_nights_follow_from_the_increments_alone():
    """Post-processing, bit by bit: prefix plus chain noise is a sum of noisy increments."""
    chains, step = best(20), np.full((1, 1), 777)
    rng = np.random.default_rng(4)
    none = np.zeros((1, 1), dtype=np.int64)
    prefixes = [add_noise(total, step, none) for total in np.cumsum(rng.integers(-9999, 9999, (20, 1, 1)), axis=0)]
    noise = [noise_block(KEY, (0, 1), (0, 1), grid=GRID_TWO_LEVEL, symmetric=True, stream=t) for t in range(1, 21)]
    noisy = increments(chains, prefixes) + np.array(noise)
    for night in range(1, 21):
        law = Chained(2, chains.chain(night))
        released = prefixes[night - 1] + law.draw(KEY, (0, 1), (0, 1), True)
        assert np.array_equal(released, sum(noisy[t - 1] for t in chains.chain(night)))


def test_what_cannot_be_is_refused():
    for starts in ((), (1,), (0, 2), (0, -1)):
        with pytest.raises(ValueError, match="earlier night"):
            Chains(starts)
    for night in (0, 31, -1):
        with pytest.raises(ValueError, match="not among"):
            best(30).chain(night)
    for nights in (0, 3661):
        with pytest.raises(ValueError, match="between"):
            best(nights)
    for chain in ((), (3, 3)):
        with pytest.raises(ValueError, match="chain"):
            Chained(2, chain)
    one = design_of(best(5))
    with pytest.raises(ValueError, match="share"):
        continual.of_night(continual.of_night(one, best(5), 2), best(5), 3)
    assert type(one.grid) is Grid
