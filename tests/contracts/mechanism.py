"""What every mechanism that releases must keep. A test class inherits this and names its mechanism."""

import json
import pickle

import numpy as np
import pytest
from scipy import stats

from engine.errors import total_variance
from engine.geometry import Body
from engine.guarantees import ApproxDP, Neighbours
from engine.mechanisms.additive import CannotCalibrate
from engine.mechanisms.contract import NotApplicable
from engine.noise import NoiseKey
from engine.problems import Counts, OuterProducts, Rows, SecondMoment
from engine.sensitivity import Sensitivity

K = 2**15 - 1
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
UNITS = np.array([1.0, 3.0, 0.2, 10.0])

PROBLEMS = {
    "second moment, box": SecondMoment(Body.CUBE, UNITS, ADD, K, 1000, False),
    "second moment, positive box, replace-one": SecondMoment(Body.HALF_CUBE, UNITS, REPLACE, K, 1000, False),
    "second moment, ball": SecondMoment(Body.BALL, np.ones(4), REPLACE, K, 1000, False),
    "covariance": SecondMoment(Body.CUBE, UNITS, ADD, K, 1000, True),
    "rows": Rows(Body.CUBE, UNITS, REPLACE, K, 30),
    "rows, ball": Rows(Body.BALL, np.ones(4), REPLACE, K, 30),
    "outer products": OuterProducts(Body.BALL, Body.CUBE, np.ones(3), UNITS, ADD, K, 1000),
    "counts": Counts((6, 5), ADD, 1000),
    "counts, replace-one": Counts((6, 5), REPLACE, 1000),
    "one entry": SecondMoment(Body.CUBE, np.ones(1), ADD, K, 10, False),
    "one row": Rows(Body.CUBE, UNITS, REPLACE, K, 1),
    "one column": Rows(Body.CUBE, np.ones(1), REPLACE, K, 50),
    "one cell": Counts((1, 1), REPLACE, 10),
    "one by many": OuterProducts(Body.CUBE, Body.CUBE, np.ones(1), UNITS, REPLACE, K, 1000),
}


class MechanismContract:
    """Inherited by the tests of each mechanism; ``applies`` names the problems it must answer."""

    mechanism = None
    applies = tuple(PROBLEMS)
    guarantees = (ApproxDP(0.5, 1e-6), ApproxDP(0.01, 1e-12), ApproxDP(0.9, 1e-3))

    def designs(self, guarantee):
        return [(PROBLEMS[name], self.mechanism.design(PROBLEMS[name], guarantee)) for name in self.applies]

    def test_the_loss_is_at_most_the_target(self):
        for guarantee in self.guarantees:
            for _, design in self.designs(guarantee):
                assert design.loss.delta(guarantee.epsilon) <= guarantee.delta

    def test_the_loss_is_that_of_the_noise_it_draws(self):
        for problem, design in self.designs(self.guarantees[0]):
            if design.loss.mu:
                assert design.loss.mu >= problem.l2(design.spread).attained / design.scale
            else:
                assert design.loss.epsilon >= problem.l1(design.spread).attained / design.scale

    def test_a_larger_epsilon_never_needs_more_noise(self):
        for name in self.applies:
            problem = PROBLEMS[name]
            left, right = problem.units
            totals = [
                total_variance(self.mechanism.design(problem, ApproxDP(epsilon, 1e-6)), left, right)
                for epsilon in (0.05, 0.2, 0.5, 0.9)
            ]
            assert all(later <= earlier * (1 + 1e-9) for earlier, later in zip(totals, totals[1:], strict=False))

    def test_a_block_is_the_block_of_the_whole(self):
        key = NoiseKey(bytes(range(32)))
        for _, design in self.designs(self.guarantees[0]):
            m, n = design.shape
            rows, columns = (m // 2, m), (n // 3, n)
            inside = (slice(*rows), slice(*columns))
            whole = design.steps((0, m), (0, n)), design.grid.draw(key, (0, m), (0, n), design.spread.symmetric)
            assert np.array_equal(design.steps(rows, columns), whole[0][inside])
            assert np.array_equal(design.grid.draw(key, rows, columns, design.spread.symmetric), whole[1][inside])

    def test_it_travels_and_writes_its_parameters_down(self):
        copy = pickle.loads(pickle.dumps(self.mechanism))
        assert copy.parameters() == self.mechanism.parameters()
        assert json.loads(json.dumps(copy.parameters(), allow_nan=False)) == copy.parameters()
        for problem, design in self.designs(self.guarantees[0]):
            again = pickle.loads(pickle.dumps(design))
            assert again.loss == design.loss
            everything = ((0, problem.shape[0]), (0, problem.shape[1]))
            assert np.array_equal(again.steps(*everything), design.steps(*everything))

    @pytest.mark.parametrize("bound", [np.inf, np.nan, 0.0, -1.0])
    def test_an_unknown_sensitivity_is_refused(self, bound, monkeypatch):
        problem = PROBLEMS[self.applies[0]]
        for norm in ("l1", "l2"):
            monkeypatch.setattr(type(problem), norm, lambda *_: Sensitivity(bound, bound))
        with pytest.raises(ValueError, match=r"sensitivity|finite"):
            self.mechanism.design(problem, self.guarantees[0])

    def test_the_sampler_has_the_right_law_and_a_scale_wrong_by_5_percent_is_rejected(self):
        _, design = self.designs(self.guarantees[0])[0]
        everything = ((0, design.shape[0]), (0, design.shape[1]))
        steps, deviation = design.steps(*everything), design.standard_deviations(*everything)
        upper = np.triu_indices(design.shape[0]) if design.spread.symmetric else None
        drawn = []
        for number in range(-(-45_000 // design.spread.entries)):
            key = NoiseKey.derive(bytes(32), number.to_bytes(4))
            noise = (
                design.grid.draw(key, *everything, design.spread.symmetric) * steps / design.shifted_unit / deviation
            )
            drawn.append(noise[upper] if upper else noise.ravel())
        values = np.concatenate(drawn)
        law = stats.norm() if design.loss.mu else stats.laplace(scale=np.sqrt(0.5))
        # alpha 1e-9, with a fixed key: Kolmogorov's distance for the shape, the mean square for the scale.
        assert stats.kstest(values, law.cdf).pvalue > 1e-9
        spread = np.sqrt((law.moment(4) - 1.0) / values.size)
        bound = stats.norm.isf(0.5e-9) * spread
        assert abs(np.mean(values**2) - 1.0) < bound
        assert abs(np.mean((1.05 * values) ** 2) - 1.0) > bound
        assert abs(np.mean((values / 1.05) ** 2) - 1.0) > bound

    @pytest.mark.parametrize("guarantee", [ApproxDP(1e-6, 1e-9), ApproxDP(0.99, 1e-15), ApproxDP(0.5, 0.4)])
    def test_extreme_guarantees_are_kept_or_refused_in_words(self, guarantee):
        for name in self.applies:
            refusal = ""
            try:
                design = self.mechanism.design(PROBLEMS[name], guarantee)
            except (CannotCalibrate, NotApplicable) as error:
                refusal = str(error)
            if refusal:
                assert ";" in refusal, "value and rule, then remedy"
                continue
            assert design.loss.delta(guarantee.epsilon) <= guarantee.delta
            assert np.all(design.entry_standard_deviation() > 0)
