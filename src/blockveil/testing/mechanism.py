"""What every mechanism that releases must keep. A test class inherits this and names its mechanism."""

import json
import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.estimates.cells import cell_error
from blockveil.engine.estimates.error_bounds import total_variance
from blockveil.engine.guarantees.calibration import CalibrationError, CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.histograms.problem import Histograms
from blockveil.engine.kinds.marginals.problem import Marginals
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.kinds.totals.problem import Totals
from blockveil.engine.mechanisms.abilities import (
    one_bin_of_each_column,
    one_cell_of_each_table,
    one_row,
    whole_numbers,
)
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.mechanisms.k_norm.cube_noise import CubeNoise
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Body, CappedBox
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.workloads.marginal_tables import MarginalTables
from blockveil.engine.workloads.workload import AllRange, Kronecker, Prefix, Total
from blockveil.testing.recording import RecordingKey, check_asked_once, release

K = 2**15 - 1
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
UNITS = np.array([1.0, 3.0, 0.2, 10.0])

TABLES = MarginalTables((3, 2, 4), ((0, 1), (1, 2), (0,)))

PROBLEMS = {
    "second moment, box": SecondMoment(Body.CUBE, UNITS, ADD, K, 1000, False),
    "second moment, positive box, replace-one": SecondMoment(Body.HALF_CUBE, UNITS, REPLACE, K, 1000, False),
    "second moment, ball": SecondMoment(Body.BALL, np.ones(4), REPLACE, K, 1000, False),
    "second moment, box in a ball": SecondMoment(CappedBox(Body.CUBE, UNITS / 10.0), UNITS, ADD, K, 1000, False),
    "covariance": SecondMoment(Body.CUBE, UNITS, ADD, K, 1000, True),
    "rows": Rows(Body.CUBE, UNITS, REPLACE, K, 30),
    "rows, positive box in a ball": Rows(CappedBox(Body.HALF_CUBE, UNITS / 10.0), UNITS, REPLACE, K, 30),
    "rows, ball": Rows(Body.BALL, np.ones(4), REPLACE, K, 30),
    "outer products": OuterProducts(Body.BALL, Body.CUBE, np.ones(3), UNITS, ADD, K, 1000),
    "counts": Counts((6, 5), ADD, 1000),
    "counts, replace-one": Counts((6, 5), REPLACE, 1000),
    "ranges": Counts((6, 5), ADD, 1000, (Kronecker(AllRange(6), Prefix(5)),)),
    "ranges, replace-one": Counts((6, 5), REPLACE, 1000, (Kronecker(AllRange(6), AllRange(5)),)),
    "ranges on a line": Counts((1, 40), REPLACE, 10**9, (Kronecker(Total(1), AllRange(40)),)),
    "totals": Totals(Body.CUBE, UNITS, ADD, K, 1000),
    "totals, positive box in a ball, replace-one": Totals(
        CappedBox(Body.HALF_CUBE, UNITS / 10.0), UNITS, REPLACE, K, 1000, widths=np.array([1.0, 0.5, 1.0, 0.2])
    ),
    "totals, ball": Totals(Body.BALL, UNITS, ADD, K, 10**9),
    "histograms": Histograms((6, 5, 6), ADD, 1000),
    "histograms, replace-one": Histograms((6, 5, 6), REPLACE, 1000),
    "tables": Marginals(TABLES, ADD, 1000),
    "tables, replace-one": Marginals(TABLES, REPLACE, 1000),
    "one entry": SecondMoment(Body.CUBE, np.ones(1), ADD, K, 10, False),
    "one row": Rows(Body.CUBE, UNITS, REPLACE, K, 1),
    "one column": Rows(Body.CUBE, np.ones(1), REPLACE, K, 50),
    "one cell": Counts((1, 1), REPLACE, 10),
    "one by many": OuterProducts(Body.CUBE, Body.CUBE, np.ones(1), UNITS, REPLACE, K, 1000),
}


def attained(problem, design):
    """What some pair of neighbours differs by, in the norm of the noise, over its scale where spreads are one."""
    if design.joint:
        return (problem.largest_entry if one_row(problem) else problem.l2)(design.spread).attained
    if design.strategy is None:
        return (problem.l2 if design.loss.mu else problem.l1)(design.spread).attained
    # Every record that is added, and every one that is replaced by another or by none, as whole-number answers.
    columns = [design.strategy.answers(counts) for counts in single_records(problem)]
    if problem.neighbours is REPLACE:
        columns += [a - b for i, a in enumerate(columns) for b in columns[:i]]
    units = np.outer(design.spread.rows, design.spread.columns) * design.unit
    return max(np.linalg.norm((change / units).ravel(), 2 if design.loss.mu else 1) for change in columns)


def single_records(problem):
    """Counts of one record, for each cell that it may lie in; of histograms, for two bins of each column or none."""
    if one_bin_of_each_column(problem):
        places = product(*(range(-1, min(2, bins)) for bins in problem.sizes))
        width = np.arange(problem.shape[1])
        return [(width == np.array(each)[:, None]).astype(np.int64) for each in places]
    if not one_cell_of_each_table(problem):
        return [cell.reshape(problem.cells) for cell in np.eye(np.prod(problem.cells), dtype=np.int64)]
    found, tables = [], problem.tables
    for places in np.ndindex(tables.sizes):
        counts = np.zeros(problem.cells, dtype=np.int64)
        for table, values in zip(tables.tables, tables.apart(counts[0]), strict=True):
            values[tuple(places[axis] for axis in table)] = 1
        found.append(counts)
    return found


def entries_that_change(problem, design):
    """Most distinct entries of the answer in which some pair of neighbours differs."""
    if not whole_numbers(problem):
        # A record without a zero changes all entries of its row, or all of the whole answer.
        answer = np.ones(design.shape)
        if one_row(problem):
            answer[1:] = 0
        return np.count_nonzero(np.triu(answer) if design.symmetric else answer)
    answers = single_records(problem)
    if design.strategy is not None:
        answers = [design.strategy.answers(counts) for counts in answers]
    if problem.neighbours is REPLACE:
        answers += [a - b for i, a in enumerate(answers) for b in answers[:i]]
    return max(np.count_nonzero(change) for change in answers)


def rounding_loss(design, entries):
    """Loss by rounding neighbours' answers one step further apart in so many entries, in the norm of the noise."""
    steps = entries if design.grid.norm == "L1" else np.sqrt(entries)
    if isinstance(design.grid, CubeNoise):
        steps = 1.0
    elif design.joint:
        steps += 1.0  # lengths are rounded up
    diagonal = design.spread.diagonal
    if diagonal is not None and diagonal.shared:
        # What the diagonal shares is moved by whole steps, each at most 1/2 from the best real one.
        taken = float(np.sum(diagonal.taken(design.width) ** 2))
        steps += np.sqrt(diagonal.shared * (1.0 + diagonal.shared * taken)) / 2.0
    return steps / design.grid.privacy_scale


def with_rows(problem, rows):
    """A problem of that many records, where records are bounded by a number."""
    return replace(problem, rows_at_most=rows) if hasattr(problem, "rows_at_most") else problem


def total_error(problem, design):
    """Expected squared error of what is asked for."""
    if design.strategy is not None:
        return cell_error(problem.cells, design)
    return total_variance(design, *problem.units)


class ReleaseContract:
    """What holds for noise and also for drawn answers; ``applies`` names the problems that must be answered."""

    mechanism = None
    problems = PROBLEMS
    applies = tuple(PROBLEMS)
    guarantees = (ApproxDP(0.5, 1e-6), ApproxDP(0.01, 1e-12), ApproxDP(0.9, 1e-3))

    def designs(self, guarantee):
        return [(self.problems[name], self.mechanism.design(self.problems[name], guarantee)) for name in self.applies]

    def error(self, problem, design):
        """What a larger epsilon makes smaller."""
        return total_error(problem, design)

    def check_noise(self, design):
        """A design hides every number that it releases."""
        assert np.all(design.entry_standard_deviation() > 0)

    def check_same(self, design, again):
        """Two designs release the same."""
        everything = ((0, design.shape[0]), (0, design.shape[1]))
        assert again.strategy is None or again.strategy.facts() == design.strategy.facts()
        assert np.array_equal(again.steps(*everything), design.steps(*everything))

    def exact(self, problem, design):
        """An answer that may be released."""
        return np.zeros(problem.shape, dtype=np.int64)

    def test_no_part_of_the_key_stream_is_asked_for_twice_in_a_release(self):
        for problem, design in self.designs(self.guarantees[0]):
            key, plain = RecordingKey(bytes(range(32))), NoiseKey(bytes(range(32)))
            released = release(design, self.exact(problem, design), key)
            assert np.array_equal(released, release(design, self.exact(problem, design), plain))
            # Of what is in one tile: a tile below a diagonal, which mirrors another, does not occur.
            check_asked_once(key.asked)

    def test_the_loss_is_at_most_the_target(self):
        for guarantee in self.guarantees:
            for _, design in self.designs(guarantee):
                assert design.loss.delta(guarantee.epsilon) <= guarantee.delta

    def test_a_larger_epsilon_never_needs_more_noise(self):
        for name in self.applies:
            problem = self.problems[name]
            errors = [
                self.error(problem, self.mechanism.design(problem, ApproxDP(epsilon, 1e-6)))
                for epsilon in (0.05, 0.2, 0.5, 0.9)
            ]
            assert all(later <= earlier * (1 + 1e-9) for earlier, later in zip(errors, errors[1:], strict=False))
            assert errors[-1] < errors[0]

    def test_it_travels_and_writes_its_parameters_down(self):
        copy = pickle.loads(pickle.dumps(self.mechanism))
        assert copy.parameters() == self.mechanism.parameters()
        assert json.loads(json.dumps(copy.parameters(), allow_nan=False)) == copy.parameters()
        for _, design in self.designs(self.guarantees[0]):
            again = pickle.loads(pickle.dumps(design))
            assert again.loss == design.loss
            self.check_same(design, again)

    @pytest.mark.parametrize(
        "guarantee",
        [ApproxDP(1e-6, 1e-9), ApproxDP(0.99, 1e-15), ApproxDP(0.5, 0.4), ApproxDP(40.0, 1e-6), ApproxDP(1e3, 1e-12)],
    )
    def test_extreme_guarantees_are_kept_or_refused_in_words(self, guarantee):
        for name in self.applies:
            refusal = ""
            try:
                design = self.mechanism.design(self.problems[name], guarantee)
            except (CannotCalibrate, NotApplicable) as error:
                refusal = str(error)
            if refusal:
                assert ";" in refusal, "value and rule, then remedy"
                continue
            assert design.loss.delta(guarantee.epsilon) <= guarantee.delta
            self.check_noise(design)


class MechanismContract(ReleaseContract):
    """Additive noise: the loss is that of the noise, blocks do not matter, and the sampler has the law."""

    def sensitivities(self, problem):
        """Where a design takes its sensitivity from."""
        return [(type(problem), "l1"), (type(problem), "l2")]

    def test_the_loss_is_that_of_the_noise_it_draws(self):
        for problem, design in self.designs(self.guarantees[0]):
            assert (design.loss.mu or design.loss.epsilon) >= attained(problem, design) / design.scale

    def test_rounding_is_charged_in_every_entry_in_which_two_neighbours_differ(self):
        for problem, design in self.designs(self.guarantees[0]):
            if design.whole:
                continue  # counts are whole steps: nothing is rounded
            entries = entries_that_change(problem, design)
            assert entries <= design.spread.changing
            assert attained(problem, design) <= design.sensitivity.bound
            charged = design.loss.mu or design.loss.epsilon
            assert charged >= design.sensitivity.bound / design.scale + rounding_loss(design, entries)

    def test_steps_that_are_coarser_than_planned_are_told_however_many_records_are_declared(self):
        """Against the same noise with steps that are far finer, at bounds of records up to what is refused."""
        told = []
        for name in self.applies:
            for rows in (10**3, 10**7, 10**10, 10**13, 10**15, 10**17):
                try:
                    design = self.mechanism.design(with_rows(self.problems[name], rows), self.guarantees[0])
                except (CannotCalibrate, NotApplicable, OverflowError, CalibrationError):
                    continue  # a refusal in words, which other tests read
                told.append(design.step_excess)
                if not design.whole:
                    everything = ((0, design.shape[0]), (0, design.shape[1]))
                    steps = design.steps(*everything)
                    bits = min(40, 60 - int(np.max(steps)).bit_length())
                    finer = replace(design, shift=design.shift + bits).steps(*everything) / 2.0**bits
                    assert design.step_excess == pytest.approx(np.max(steps / finer), rel=1e-3)
        assert told
        assert min(told) >= 1.0

    def test_a_block_is_the_block_of_the_whole(self):
        key = NoiseKey(bytes(range(32)))
        for _, design in self.designs(self.guarantees[0]):
            m, n = design.shape
            rows, columns = (m // 2, m), (n // 3, n)
            inside = (slice(*rows), slice(*columns))
            whole = design.steps((0, m), (0, n)), design.noise(key, (0, m), (0, n))
            assert np.array_equal(design.steps(rows, columns), whole[0][inside])
            assert np.array_equal(design.noise(key, rows, columns), whole[1][inside])

    @pytest.mark.parametrize("bound", [np.inf, np.nan, 0.0, -1.0])
    def test_an_unknown_sensitivity_is_refused(self, bound, monkeypatch):
        problem = PROBLEMS[self.applies[0]]
        for owner, norm in self.sensitivities(problem):
            monkeypatch.setattr(owner, norm, lambda *_: Sensitivity(bound, bound))
        with pytest.raises(ValueError, match=r"sensitivity|finite"):
            self.mechanism.design(problem, self.guarantees[0])

    def test_the_sampler_has_the_right_law_and_a_scale_wrong_by_5_percent_is_rejected(self):
        _, design = self.designs(self.guarantees[0])[0]
        everything, symmetric = ((0, design.shape[0]), (0, design.shape[1])), design.spread.symmetric
        units = design.steps(*everything) / design.shifted_unit / design.standard_deviations(*everything)
        # One block in which the matrix is repeated, of 45,000 entries that are independent.
        times = int(np.ceil(np.sqrt(45_000 * (2 if symmetric else 1) / units.size)))
        whole = ((0, times * design.shape[0]), (0, times * design.shape[1]))
        noise = design.grid.draw(NoiseKey(bytes(32)), *whole, symmetric) * np.tile(units, (times, times))
        values = noise[np.triu_indices(noise.shape[0])] if symmetric else noise.ravel()
        law = stats.norm() if design.loss.mu else stats.laplace(scale=np.sqrt(0.5))
        # alpha 1e-9, with a fixed key: Kolmogorov's distance for the shape, the mean square for the scale.
        assert stats.kstest(values, law.cdf).pvalue > 1e-9
        spread = np.sqrt((law.moment(4) - 1.0) / values.size)
        bound = stats.norm.isf(0.5e-9) * spread
        assert abs(np.mean(values**2) - 1.0) < bound
        assert abs(np.mean((1.05 * values) ** 2) - 1.0) > bound
        assert abs(np.mean((values / 1.05) ** 2) - 1.0) > bound
