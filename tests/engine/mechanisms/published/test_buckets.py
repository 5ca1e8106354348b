"""DAWA as released: both steps from one key, an exact loss, and standard deviations of the noise."""

import json
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.mechanisms.published.buckets import Buckets, Dawa
from blockveil.engine.mechanisms.published.dawa import Partitioner, bucket_counts, hilbert_order
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.workloads.kronecker import rows_of
from blockveil.engine.workloads.workload import AllRange, Kronecker, Prefix
from blockveil.testing.mechanism import PROBLEMS

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
GUARANTEE = ApproxDP(0.7, 1e-6)
RNG = np.random.default_rng(2)
TABLE = RNG.poisson(np.add.outer(np.arange(6), np.arange(9)))


def key(number=0):
    return NoiseKey.derive(bytes(32), number.to_bytes(4))


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize("share", [0.01, 0.25, 0.9])
@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0, 7.3, 50.0])
def test_the_losses_of_both_steps_are_within_epsilon_and_near_it(neighbours, share, epsilon):
    problem = Counts((89, 89), neighbours, 10**6)
    design = Dawa(share).design(problem, ApproxDP(epsilon, 1e-12 if epsilon < 40 else 1e-6))
    partition, buckets = design.losses
    assert partition + buckets <= Fraction(design.loss.epsilon) <= Fraction(epsilon)
    assert design.loss.epsilon >= epsilon * (1 - 1e-9)
    assert float(partition) <= epsilon * share
    assert float(partition + buckets) > 0.95 * epsilon
    # What each law promises for whole numbers that are one apart, times how far one record moves them.
    changed = 1 if neighbours is ADD else 2
    assert partition == 2 * design.partitioner.sensitivity * changed * design.partition_law.rate
    assert buckets == changed * design.bucket_law.rate
    assert design.loss.total_variation >= 7921 * 11 * 2.0**-115


def test_the_release_is_the_noisy_counts_of_the_partition_and_a_function_of_the_key():
    design = Dawa(0.5).design(Counts((6, 9), ADD, 1000), ApproxDP(40.0, 1e-6))
    released = design.release(key(), TABLE)
    assert released.shape == design.shape == (2, 54)
    assert np.array_equal(released, design.release(key(), TABLE))
    assert not np.array_equal(released, design.release(key(1), TABLE))
    starts = np.flatnonzero(released[1])
    borders = np.append(starts, 54)
    assert released[1].sum() == 54
    assert np.array_equal(np.diff(borders), released[1, starts])
    line = TABLE.ravel()[hilbert_order((6, 9))]
    # Noise of standard deviation below 0.1 at this epsilon.
    assert np.max(np.abs(released[0, starts] - bucket_counts(line, borders))) <= 2
    assert np.all(released[0, released[1] == 0] == 0)


def test_cells_share_their_bucket_and_their_deviations_are_those_of_the_noise():
    design = Dawa(0.25).design(Counts((6, 9), ADD, 1000), GUARANTEE)
    found = Buckets.of(design.release(key(), TABLE), design)
    cells = found.cells()
    assert cells.shape == (6, 9)
    assert float(cells.sum()) == pytest.approx(float(found.counts.sum()))
    for bucket, (count, length) in enumerate(zip(found.counts, found.lengths, strict=True)):
        assert np.count_nonzero(found.numbers == bucket) == length
        assert np.allclose(cells[found.numbers == bucket], count / length)
    part = Kronecker(AllRange(6), Prefix(9))
    matrix = np.kron(rows_of(part.rows), rows_of(part.columns))
    spread = np.array([(found.numbers.ravel() == b) / n for b, n in enumerate(found.lengths)]).T
    expected = found.deviation * np.sqrt(np.sum((matrix @ spread) ** 2, axis=1))
    assert np.allclose(found.answer_deviations(part).ravel(), expected)
    assert np.allclose(found.cell_deviations().ravel(), found.deviation * np.sqrt(np.sum(spread**2, axis=1)))


def test_the_noise_of_buckets_has_the_stated_law_and_a_rate_wrong_by_5_percent_is_rejected():
    design = Dawa(0.5).design(Counts((1, 2**13), ADD, 1000), ApproxDP(0.5, 1e-6))
    # Where no bucket has more than one cell there are as many counts as cells.
    design = replace(design, partitioner=Partitioner(2**13, 1, 1, 0, ADD))
    none = np.zeros((1, 2**13), dtype=np.int64)
    noise = np.concatenate([design.release(key(number), none)[0] for number in range(12)])
    values = np.arange(-12, 13)
    observed = np.array([np.sum(noise <= -12), *(np.sum(noise == k) for k in values[1:-1]), np.sum(noise >= 12)])

    def pvalue(rate):
        mass = np.tanh(rate / 2) * np.exp(-rate * np.abs(values))
        mass[[0, -1]] = np.exp(-12 * rate) / (1 + np.exp(-rate))
        return stats.chisquare(observed, noise.size * mass / mass.sum()).pvalue

    rate = float(design.bucket_law.rate)
    # alpha 1e-9, 98,304 draws under fixed keys.
    assert pvalue(rate) > 1e-9
    assert pvalue(rate * 1.05) < 1e-9
    assert pvalue(rate / 1.05) < 1e-9


def test_noise_of_the_partition_and_of_the_buckets_is_drawn_apart():
    design = Dawa(0.5).design(Counts((1, 128), ADD, 1000), GUARANTEE)
    streams = [
        design.bucket_law.draw(key(), (0, 128), (0, 128), False, stream).ravel().astype(float) for stream in (1, 2)
    ]
    assert abs(np.corrcoef(streams)[0, 1]) < 6.2 / 128


def test_it_travels_and_writes_its_parameters_down():
    design = Dawa(0.25).design(Counts((6, 9), REPLACE, 1000), GUARANTEE)
    again = pickle.loads(pickle.dumps(design))
    assert again == design
    assert json.loads(json.dumps(design.facts())) == design.facts()
    assert sum(step["loss"] for step in design.facts()["steps"]) <= 0.7


def test_what_cannot_be_released_is_refused_in_words():
    for problem, guarantee, kind, message in (
        (PROBLEMS["rows"], GUARANTEE, NotApplicable, "for counts"),
        (Counts((1, 1), ADD, 10), GUARANTEE, NotApplicable, "at least two cells"),
        (Counts((1024, 1024), ADD, 10), GUARANTEE, NotApplicable, "choose hierarchical"),
        (Counts((89, 89), ADD, 10**14), ApproxDP(0.5, 1e-16), CannotCalibrate, "rows_at_most"),
        (Counts((6, 9), ADD, 10), ApproxDP(1e-8, 1e-6), CannotCalibrate, "coarser|least one"),
        (Counts((6, 9), ADD, 10), ApproxDP(1.0, 1e-40), CannotCalibrate, "raise delta"),
        (Counts((6, 9), ADD, 10), ApproxDP(500.0, 1e-6), CannotCalibrate, "at most 64|raise delta"),
    ):
        with pytest.raises(kind, match=message):
            Dawa(0.25).design(problem, guarantee)
    assert isinstance(PROBLEMS["rows"], Rows)
