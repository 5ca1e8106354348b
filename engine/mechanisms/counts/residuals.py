"""The mechanism for marginal tables: Gaussian noise on their residuals.

What is private about it is in :mod:`.additive`, with the sensitivity of :mod:`.residual_strategy`, or of
:mod:`.range_residuals` where axes are ordered, in place of that of the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.abilities import one_cell_of_each_table
from blockveil.engine.mechanisms.contract import NotApplicable, Status
from blockveil.engine.mechanisms.counts.range_residuals import RangeResiduals
from blockveil.engine.mechanisms.counts.residual_strategy import ResidualStrategy
from blockveil.engine.mechanisms.declaration import BOTH, CatalogueEntry, MechanismDeclaration
from blockveil.engine.noise.additive import Measured, NoiseDesign
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.sensitivity.spread import Scaling, Spread


@dataclass(frozen=True)
class ResidualNoise:
    """Gaussian noise on the residuals of the declared tables, of the least total variance of their cells."""

    name: ClassVar[str] = "residuals"

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Noise whose size depends on the set of axes."""
        return self.measured(problem).design(guarantee)

    def measured(self, problem: Problem, weight: int = 1) -> Measured:
        """The residuals; ``weight`` is what a record may count, where it may count several times."""
        if not one_cell_of_each_table(problem):
            raise NotApplicable('residuals are for tables of counts; declare a query of kind "marginals"')
        try:
            kind = RangeResiduals if problem.tables.ordered else ResidualStrategy
            strategy = kind(problem.tables, problem.rows_at_most * weight)
        except CalibrationError as error:
            raise NotApplicable(str(error)) from None
        sizes = strategy.least_sizes(problem.neighbours)
        # Each entry of each measured residual changes with each record.
        spread = Spread(strategy.by_row(sizes), np.ones(strategy.shape[1]), False, problem.tables.entries)
        scaling = Scaling(1, strategy.largest // weight)
        return Measured(spread, strategy.l2(sizes, problem.neighbours), scaling, strategy)

    def parameters(self) -> dict[str, Any]:
        """None: the sizes follow from the tables."""
        return {}


DECLARED = (
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="residuals",
            title="noise on residuals of marginal tables (ResidualPlanner), in whole numbers",
            status=Status.PROVEN_EXACT,
            source="Xiao, He, Zhang and Kifer, 2023",
            theorem=(
                "residuals of sets A of axes, with variances v_A, have mu^2 = sum of p_A / v_A, p_A = product of (n_i "
                "- 1) / n_i, and no Gaussian noise on tables has less total variance under add-remove"
            ),
            relations=BOTH,
            needs="the cells along each axis, and which tables are asked for",
            loss=(
                "mu^2 = sum over sets A of axes of p_A / variance_A; under replace-one the largest distance of two "
                "records, over all sets of axes along which they agree"
            ),
            error="(sum over sets A of sqrt(p_A v_A))^2 / mu^2 under add-remove",
            finding=(
                "Right and exact under add-remove, where the total variance is the least that any Gaussian noise has. "
                "Under replace-one sizes within a thousandth of the least are sought for up to 12 axes, and for more "
                "that are symmetric; else those of add-remove are charged their distance. Along ordered axes a matrix "
                "in whole numbers is measured for ranges of cells; the sensitivity is exact, the error near the bound."
            ),
            use="release",
        ),
        mechanism=ResidualNoise,
        form="Gaussian noise on the residuals of the declared tables, which then agree with each other.",
        tried=lambda _: (ResidualNoise(),),
        tried_for=one_cell_of_each_table,
        audited=(ResidualNoise(),),
    ),
)
