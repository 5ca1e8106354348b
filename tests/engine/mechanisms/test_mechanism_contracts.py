"""Every mechanism that releases keeps the contract."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.directions.problem import PrincipalDirections
from blockveil.engine.kinds.gradients.problem import GradientProblem
from blockveil.engine.kinds.marginals.problem import Marginals
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.auto import Auto, Metric
from blockveil.engine.mechanisms.box_diagonal import BoxDiagonal
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.counts import workload_answers
from blockveil.engine.mechanisms.counts.histogram_noise import HistogramResiduals
from blockveil.engine.mechanisms.counts.histogram_strategy import HistogramStrategy
from blockveil.engine.mechanisms.counts.matrix_mechanism import ProductStrategy
from blockveil.engine.mechanisms.counts.residual_strategy import ResidualStrategy
from blockveil.engine.mechanisms.counts.residuals import ResidualNoise
from blockveil.engine.mechanisms.counts.workload_answers import Hierarchical, MatrixMechanism
from blockveil.engine.mechanisms.directions.exponential import Exponential
from blockveil.engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from blockveil.engine.mechanisms.joint_diagonal import JointDiagonal
from blockveil.engine.mechanisms.k_norm.norm_noise import KNorm
from blockveil.engine.mechanisms.laplace import IntegerLaplace, Laplace
from blockveil.engine.mechanisms.published.buckets import Dawa
from blockveil.engine.mechanisms.published.matrix_noise import ClassicGaussian, Imgm, Mgm
from blockveil.engine.mechanisms.published.mvg_noise import Allocation, ExactMvg, Mvg
from blockveil.engine.mechanisms.shaped_diagonal import ShapedDiagonal
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Body
from blockveil.engine.workloads.workload import Identity, Kronecker
from blockveil.testing.mechanism import ADD, PROBLEMS, REPLACE, TABLES, UNITS, K, MechanismContract, ReleaseContract

NOT_AUGMENTED = tuple(name for name in PROBLEMS if name != "covariance" and not name.startswith("totals"))
WORKLOADS = ("ranges", "ranges, replace-one", "ranges on a line")
BOXES = ("second moment, box", "second moment, positive box, replace-one", "rows", "one row", "one column", "one entry")
MOMENTS = ("second moment, box", "second moment, positive box, replace-one", "second moment, ball", "one entry")


class TestGaussian(MechanismContract):
    mechanism = Gaussian()


class TestShapedGaussian(MechanismContract):
    mechanism = ShapedGaussian(Importance("absolute-error"))


class TestClassicGaussian(MechanismContract):
    mechanism = ClassicGaussian()


class TestMgm(MechanismContract):
    mechanism = Mgm()


class TestImgm(MechanismContract):
    mechanism = Imgm()


class TestImgmWithAShape(MechanismContract):
    mechanism = Imgm((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0, 4.0))
    applies = MOMENTS[:3]


class TestMvgTheorem2(MechanismContract):
    mechanism = Mvg(2, "published", Allocation("uniform"))
    applies = NOT_AUGMENTED


class TestMvgTheorem3(MechanismContract):
    mechanism = Mvg(3, "square-root", Allocation("uniform"))
    applies = MOMENTS


class TestMvgBinary(MechanismContract):
    mechanism = Mvg(2, "square-root", Allocation("binary", (1.0, 0.0, 0.0, 1.0), 0.55))
    applies = ("second moment, box", "second moment, ball", "rows", "one row")


class TestMvgMaxPnr(MechanismContract):
    """Of signals so strong that the budget reaches all of them: else a feature would not be released."""

    mechanism = Mvg(2, "published", Allocation("max-pnr", (4e4, 3e4, 2e4, 1e4)))
    applies = ("second moment, box", "rows", "one row")
    guarantees = (ApproxDP(0.5, 1e-6), ApproxDP(0.05, 1e-6), ApproxDP(0.9, 1e-3))


class TestMvgTheorem3AsPrinted(MechanismContract):
    mechanism = Mvg(3, "published", Allocation("uniform"))
    applies = MOMENTS


class TestExactMvgMaxPnr(MechanismContract):
    mechanism = ExactMvg(Allocation("max-pnr", (4e4, 3e4, 2e4, 1e4)))
    applies = ("second moment, box", "rows", "one row")
    guarantees = (ApproxDP(0.5, 1e-6), ApproxDP(0.05, 1e-6), ApproxDP(0.9, 1e-3))


class TestExactMvg(MechanismContract):
    mechanism = ExactMvg(Allocation("uniform"))
    applies = BOXES


class TestExactMvgWithShares(MechanismContract):
    mechanism = ExactMvg(Allocation("shares", (4.0, 3.0, 2.0, 1.0)))
    applies = ("second moment, box", "rows", "one row")


class TestAuto(MechanismContract):
    mechanism = Auto(Metric("total"))


class TestAutoSpectral(MechanismContract):
    mechanism = Auto(Metric("spectral"))


class TestBoxDiagonal(MechanismContract):
    mechanism = BoxDiagonal()
    applies = ("second moment, box", "second moment, box, replace-one")
    problems: ClassVar = {
        **PROBLEMS,
        "second moment, box, replace-one": SecondMoment(Body.CUBE, UNITS, REPLACE, K, 1000, False),
    }

    def test_the_sampler_has_the_right_law_and_a_scale_wrong_by_5_percent_is_rejected(self):
        """Of whole releases: entries off the diagonal, those on it, and their sum, which they share."""
        for name in self.applies:
            design = self.mechanism.design(self.problems[name], ApproxDP(0.5, 1e-6))
            d = design.shape[0]
            drawn = np.array([design.noise(NoiseKey(k.to_bytes(32)), (0, d), (0, d)) for k in range(1000)])
            sizes = design.standard_deviations((0, d), (0, d)) / design.steps((0, d), (0, d)) * design.shifted_unit
            apart = np.array([design.apart(one) for one in drawn]) / design.grid.standard_deviation
            upper = np.triu_indices(d)
            values = apart[:, *upper].ravel()
            # alpha 1e-9 each, with fixed keys. Entries are independent where what is shared was taken apart.
            assert stats.kstest(values, stats.norm().cdf).pvalue > 1e-9
            bound = stats.norm.isf(0.5e-9) * np.sqrt(2.0 / values.size)
            assert abs(np.mean(values**2) - 1.0) < bound
            assert abs(np.mean((1.05 * values) ** 2) - 1.0) > bound
            # Each entry by itself has the standard deviation that is stated.
            alone = (drawn / sizes)[:, *upper]
            each = stats.norm.isf(0.5e-9 / alone.shape[1]) * np.sqrt(2.0 / len(alone))
            assert np.all(np.abs(np.mean(alone**2, axis=0) - 1.0) < each)
            # The trace of the features, of which what is shared is the most.
            lead, shared = design.spread.diagonal.lead, design.spread.diagonal.shared
            features = np.trace(drawn[:, lead:, lead:], axis1=1, axis2=2) / design.grid.standard_deviation
            trace = features / np.sqrt((d - lead) * (1 + shared * (d - lead)))
            assert abs(np.mean(trace**2) - 1.0) < stats.norm.isf(0.5e-9) * np.sqrt(2.0 / trace.size)


class TestShapedDiagonal(MechanismContract):
    mechanism = ShapedDiagonal(Importance("relative-error"))
    applies = ("covariance", "second moment, box", "second moment, box, replace-one")
    problems: ClassVar = TestBoxDiagonal.problems
    test_the_sampler_has_the_right_law_and_a_scale_wrong_by_5_percent_is_rejected = (
        TestBoxDiagonal.test_the_sampler_has_the_right_law_and_a_scale_wrong_by_5_percent_is_rejected
    )


class TestJointDiagonal(MechanismContract):
    mechanism = JointDiagonal(Importance("relative-error"))
    applies = ("covariance",)
    test_the_sampler_has_the_right_law_and_a_scale_wrong_by_5_percent_is_rejected = (
        TestBoxDiagonal.test_the_sampler_has_the_right_law_and_a_scale_wrong_by_5_percent_is_rejected
    )


class TestWholeLaplace(MechanismContract):
    mechanism = IntegerLaplace()
    applies = (
        "counts",
        "counts, replace-one",
        "histograms",
        "histograms, replace-one",
        "one cell",
        "tables",
        "tables, replace-one",
    )

    def test_the_sampler_has_the_right_law_and_a_scale_wrong_by_5_percent_is_rejected(self):
        """Against the probabilities of whole numbers themselves."""
        design = self.mechanism.design(PROBLEMS["counts"], ApproxDP(0.25, 1e-6))
        drawn = design.grid.draw(NoiseKey(bytes(range(32))), (0, 300), (0, 300), False).ravel()
        values = np.arange(-20, 21)
        observed = np.array([np.sum(drawn <= -20), *(np.sum(drawn == k) for k in values[1:-1]), np.sum(drawn >= 20)])

        def pvalue(epsilon):
            mass = np.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(values))
            mass[[0, -1]] = np.exp(-20 * epsilon) / (1 + np.exp(-epsilon))
            return stats.chisquare(observed, drawn.size * mass / mass.sum()).pvalue

        # alpha 1e-9, 90,000 draws under a fixed key.
        assert pvalue(0.25) > 1e-9
        assert pvalue(0.25 * 1.05) < 1e-9
        assert pvalue(0.25 / 1.05) < 1e-9
        assert set(np.unique(design.steps((0, 6), (0, 5)))) == {1}


class TestHistogramResiduals(MechanismContract):
    mechanism = HistogramResiduals()
    applies = ("histograms", "histograms, replace-one")

    def sensitivities(self, problem):
        return [(HistogramStrategy, "l2")]


class TestResiduals(MechanismContract):
    mechanism = ResidualNoise()
    applies = ("tables", "tables, replace-one", "tables with ranges", "tables with ranges, replace-one")
    problems: ClassVar = {
        **PROBLEMS,
        "tables with ranges": Marginals(replace(TABLES, ordered=(0, 2)), ADD, 1000),
        "tables with ranges, replace-one": Marginals(replace(TABLES, ordered=(0, 2)), REPLACE, 1000),
    }

    def sensitivities(self, problem):
        return [(ResidualStrategy, "l2")]


class TestMatrixMechanism(MechanismContract):
    mechanism = MatrixMechanism()
    # Of single cells each record changes few answers; of ranges it changes all of them.
    applies = (*WORKLOADS, "single cells, replace-one")
    problems: ClassVar = {
        **PROBLEMS,
        "single cells, replace-one": Counts((6, 5), REPLACE, 1000, (Kronecker(Identity(6), Identity(5)),)),
    }

    def sensitivities(self, problem):
        return [(ProductStrategy, "l2")]


class TestHierarchicalGaussian(MechanismContract):
    mechanism = Hierarchical("gaussian", 2)
    applies = WORKLOADS

    def sensitivities(self, problem):
        return [(workload_answers, "_l1"), (workload_answers, "_l2")]


class TestHierarchicalLaplace(TestHierarchicalGaussian):
    mechanism = Hierarchical("laplace")


class TestLaplace(MechanismContract):
    mechanism = Laplace(Importance("absolute-error"))


class TestKNorm(MechanismContract):
    mechanism = KNorm()
    problems: ClassVar = {
        **PROBLEMS,
        "gradient": GradientProblem(Body.BALL, Body.BALL, np.ones(1), np.ones(3), ADD, K, 1000),
        "gradient, replace-one": GradientProblem(Body.BALL, Body.BALL, np.ones(2), np.ones(2), REPLACE, K, 1000),
        "rows, uneven box": Rows(
            *(Body.CUBE, UNITS, REPLACE, K, 30), even=False, ends=(np.array([-0.1, -1, 0, -0.5]), np.ones(4))
        ),
    }
    applies = (
        "rows",
        "rows, positive box in a ball",
        "one row",
        "rows, uneven box",
        "gradient",
        "gradient, replace-one",
    )

    def sensitivities(self, problem):
        return [(Rows, "largest_entry")]

    def test_the_sampler_has_the_right_law_and_a_scale_wrong_by_5_percent_is_rejected(self):
        """One entry of each row, against a uniform number between -r and r for r of a gamma law; alpha 1e-9."""
        design = self.mechanism.design(self.problems["rows"], self.guarantees[0])
        assert design.entry_standard_deviation()[0] == pytest.approx(
            design.steps((0, 1), (0, 4))[0] * design.grid.standard_deviation / design.shifted_unit
        )
        drawn = design.grid.draw(NoiseKey(bytes(32)), (0, 45_000), (0, 4), False)[:, 1] / design.grid.scale

        def cdf(values):
            size = np.abs(values)
            outside = stats.gamma.sf(size, 5) - size / 4 * stats.gamma.sf(size, 4)
            return np.where(values < 0, outside / 2, 1 - outside / 2)

        assert stats.kstest(drawn, cdf).pvalue > 1e-9
        spread = np.sqrt((np.prod([5, 6, 7, 8]) / 5 - 10.0**2) / drawn.size)
        bound = stats.norm.isf(0.5e-9) * spread
        assert abs(np.mean(drawn**2) - 10.0) < bound
        assert abs(np.mean((1.05 * drawn) ** 2) - 10.0) > bound
        assert abs(np.mean((drawn / 1.05) ** 2) - 10.0) > bound


class TestExponential(ReleaseContract):
    """The law of what is drawn, and a 5 % wrong one, are in ``directions/test_directions.py`` beside this file."""

    mechanism = Exponential()
    problems: ClassVar = {
        "two features": PrincipalDirections(Body.BALL, np.full(2, 3.0), ADD, K, 1000, False, 1),
        "all but one direction": PrincipalDirections(Body.BALL, np.full(6, 0.1), REPLACE, K, 1000, False, 5),
        "many features": PrincipalDirections(Body.BALL, np.ones(256), ADD, 255, 10**6, False, 1),
    }
    applies = tuple(problems)

    def error(self, problem, design):
        return 1.0 / design.concentration

    def exact(self, problem, design):
        # Records that are the same in all directions need the fewest proposals, which matters at 256 features.
        return np.eye(problem.shape[0], dtype=np.int64) * design.unit

    def check_noise(self, design):
        # A finite concentration times finite records gives every direction a positive density.
        assert 0.0 < design.concentration < np.inf

    def check_same(self, design, again):
        assert again == design


class TestDawa(ReleaseContract):
    """The law of its noise, and a 5 % wrong rate, are in ``tests/engine/mechanisms/published/test_buckets.py``."""

    mechanism = Dawa(0.25)
    problems: ClassVar = {
        "two cells": Counts((1, 2), REPLACE, 10),
        "a row of cells": Counts((1, 40), ADD, 10**9),
        "a column of cells": Counts((40, 1), REPLACE, 1000),
        "a grid": Counts((6, 5), ADD, 1000),
    }
    applies = tuple(problems)

    def error(self, problem, design):
        return design.bucket_law.standard_deviation

    def exact(self, problem, design):
        return np.arange(np.prod(problem.cells), dtype=np.int64).reshape(problem.cells)

    def check_noise(self, design):
        assert design.partition_law.rate > 0
        assert design.bucket_law.standard_deviation > 0

    def check_same(self, design, again):
        counts = np.arange(np.prod(design.cells)).reshape(design.cells)
        key = NoiseKey(bytes(range(32)))
        assert np.array_equal(again.release(key, counts), design.release(key, counts))
