"""``auto``: the proven mechanism with the least expected error for a problem, and the table that says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import singledispatchmethod
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from blockveil.engine.estimates.cells import cell_deviations, workload_error
from blockveil.engine.estimates.error_bounds import expected_spectral_norm, subspace_error_by_rows, total_variance
from blockveil.engine.guarantees.calibration import CannotCalibrate, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.abilities import (
    about_count,
    constants,
    moment,
    places,
    ranges_asked,
    workload,
)
from blockveil.engine.mechanisms.contract import Importance, Mechanism, NotApplicable
from blockveil.engine.mechanisms.counts.range_errors import range_errors
from blockveil.engine.mechanisms.directions.bingham import expected_sine_distance
from blockveil.engine.mechanisms.directions.exponential import DirectionsDesign, Exponential
from blockveil.engine.mechanisms.gaussian_bound import least_total
from blockveil.engine.mechanisms.positive_error import positive_error
from blockveil.engine.mechanisms.registry import declarations
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.engine.noise.design import Design
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.problems import Problem


@dataclass(frozen=True)
class Metric:
    """What "least error" means.

    Attributes
    ----------
    kind
        "total", "relative" or "weighted" (expected squared error of all entries; along ordered axes of marginal tables,
        of ranges), "workload" (of all answers of the
        declared workload of counts), "psd" (that of all entries of a positive semi-definite version, simulated),
        "spectral" (bound of the mean spectral norm), or "subspace" (expected squared sine distance of the leading
        subspace).
    importance
        Weights of "weighted".
    spectrum
        Public guess of the variance of each feature in raw units, for "subspace".
    leading
        Dimension of the subspace.
    """

    kind: str
    importance: Importance = field(default_factory=lambda: Importance("absolute-error"))
    spectrum: tuple[float, ...] = ()
    leading: int = 0

    @singledispatchmethod
    def value(self, design: NoiseDesign | DirectionsDesign, problem: Problem) -> float:
        """Expected error of a design, in raw units (squared, but for "spectral").

        Raises
        ------
        NotApplicable
            The metric has no meaning for this query or for designs of this kind.
        """
        raise NotApplicable(f"no expected error is known of {type(design).__name__}")

    @value.register
    def _added(self, design: NoiseDesign, problem: Problem) -> float:
        if self.kind == "workload":
            queries = workload(problem)
            if not queries:
                raise NotApplicable("no workload is declared; declare query.workload, or minimise another error")
            return workload_error(queries, design)
        if self.kind == "psd":
            return positive_error(problem, _units(problem, self.importance)[0], design)
        tables = ranges_asked(problem)
        if tables is not None and self.kind not in ("spectral", "subspace"):
            # Along ordered axes ranges are asked for, which together weigh as much as the cells.
            return float(range_errors(tables, design) @ tables.cells_of_each)
        if design.strategy is not None or self._by_bin(problem):
            return self._estimated(problem, design)
        if self.kind == "subspace":
            return self._subspace(problem, design, constants(problem)[0])
        weights = Importance("relative-error") if self.kind == "relative" else self.importance
        if self.kind == "spectral":
            if design.joint:
                raise NotApplicable("the spectral norm of dependent entries is not bounded; minimise total")
            return expected_spectral_norm(design, *_units(problem, Importance("absolute-error")))
        return total_variance(design, *_units(problem, weights))

    def _by_bin(self, problem: Problem) -> bool:
        """Whether places without a bin are left out."""
        return places(problem) is not None and self.kind not in ("spectral", "subspace")

    def _estimated(self, problem: Problem, design: NoiseDesign) -> float:
        """Expected error of counts of cells or bins, also where they follow from a strategy by least squares."""
        if self.kind in ("spectral", "subspace"):
            raise NotApplicable(f"the {self.kind} error of least squares is not known; minimise workload or total")
        weights = Importance("relative-error") if self.kind == "relative" else self.importance
        rows, columns = weights.weights(problem)
        errors = cell_deviations(design) ** 2
        there = places(problem)
        if there is not None:
            errors = np.where(there, errors, 0.0)
        return float(rows @ errors @ columns)

    def _subspace(self, problem: Problem, design: NoiseDesign, constant: int) -> float:
        if not problem.symmetric or len(self.spectrum) != problem.shape[0] - constant:
            raise NotApplicable("a leading subspace needs a symmetric query and a variance for each feature")
        units, everything = problem.units[0][constant:], (constant, problem.shape[0])

        def deviations_of(row: int) -> Vector:
            noise = design.standard_deviations((constant + row, constant + row + 1), everything)[0]
            deviations: Vector = noise * units[row] * units
            return deviations

        # The released matrix is a sum over records: its eigenvalues are rows times variance.
        spectrum = np.asarray(self.spectrum) * getattr(problem, "rows_at_most", 1)
        return subspace_error_by_rows(deviations_of, spectrum, self.leading)

    @value.register
    def _drawn(self, design: DirectionsDesign, problem: Problem) -> float:
        if self.kind != "subspace" or len(self.spectrum) != design.dimension or self.leading != design.count:
            raise NotApplicable("drawn directions have an error only as the leading subspace that is asked for")
        # Eigenvalues in coordinates, where records lie in the unit ball.
        spectrum = np.asarray(self.spectrum) / problem.units[0] ** 2 * getattr(problem, "rows_at_most", 1)
        return expected_sine_distance(spectrum, design.count, design.concentration)

    def least(self, problem: Problem, guarantee: ApproxDP, design: Design | None = None) -> float | None:
        """Error below which no Gaussian noise gets; None where no bound is known, or of another error.

        Parameters
        ----------
        problem, guarantee
            What is asked.
        design
            Noise of a covariance: the bound is of all noise that knows count and sums no worse; not used for others.
        """
        if self.kind not in ("total", "relative", "weighted") or guarantee.delta <= 0.0:
            return None
        weights = Importance("relative-error") if self.kind == "relative" else self.importance
        units, square = _units(problem, weights), gaussian_mu(guarantee.epsilon, guarantee.delta) ** 2
        if moment(problem) and constants(problem) == (1, 1):
            noise = None if design is None else design.additive
            if noise is None or not noise.gaussian:
                return None
            variances = noise.standard_deviations((0, 1), (0, noise.width))[0] ** 2 * square
            bound = problem.least_products(units[0][1:], float(variances[0]), variances[1:])
        else:
            bound = least_total(problem, *units)
        return None if bound is None else bound / square

    def parameters(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "kind": self.kind,
            "importance": self.importance.parameters(),
            "spectrum": list(self.spectrum),
            "leading": self.leading,
        }


def _units(problem: Problem, weights: Importance) -> tuple[Vector, Vector]:
    """Raw units by row and by column, times the roots of importances; 0 for what is a means to an end."""
    rows, columns = (units.copy() for units in problem.units)
    for side, constant, weight in zip((rows, columns), constants(problem), weights.weights(problem), strict=True):
        side[:constant] = 0.0  # the count and the sums of a covariance
        side[constant:] *= np.sqrt(weight)
    if about_count(problem):  # a mean is off by the count's noise too
        columns[0] = sqrt(problem.count_weight(weights.weights(problem)[1]))
    return rows, columns


@dataclass(frozen=True)
class Candidate:
    """One row of the comparison.

    Attributes
    ----------
    mechanism
        Name.
    parameters
        Its choices.
    error
        Expected error, or None where the mechanism does not apply.
    reason
        Why it does not apply, or an empty text.
    """

    mechanism: str
    parameters: dict[str, Any]
    error: float | None
    reason: str


_FIRST = (
    "shaped-gaussian",
    "gaussian",
    "imgm",
    "classic-gaussian",
    "mgm",
    "laplace",
    "discrete-laplace",
    "matrix-mechanism",
    "hierarchical",
    "mvg-exact",
    "mvg",
)
"""Mechanisms in the order of a comparison: of equal errors the first wins, and mechanisms not named here come last."""


def proven(metric: Metric, problem: Problem | None = None) -> Sequence[Mechanism | Exponential]:
    """All proven mechanisms that could be best or are published as rivals, with the parameters that suit a metric.

    Parameters
    ----------
    metric
        What "least error" means.
    problem
        For which they are compared; None for those of all problems.
    """
    order = {name: place for place, name in enumerate(_FIRST)}
    listed = sorted(declarations(), key=lambda each: order.get(each.name, len(order)))
    compared = [each for each in listed if problem is None or each.tried_for(problem)]
    return tuple(mechanism for each in compared for mechanism in each.tried(metric.importance))


@dataclass(frozen=True, eq=False)
class MechanismComparison:
    """The best mechanism and how the others would have done.

    Attributes
    ----------
    table
        Every mechanism, best first; those that do not apply last.
    mechanism, design
        The best one.
    """

    table: tuple[Candidate, ...]
    mechanism: Mechanism | Exponential
    design: NoiseDesign | DirectionsDesign


def compare(
    problem: Problem,
    guarantee: ApproxDP,
    metric: Metric,
    check: Callable[[Any], object] = lambda _: None,
) -> MechanismComparison:
    """Expected error of every proven mechanism at the same guarantee.

    Parameters
    ----------
    problem, guarantee, metric
        What is compared.
    check
        Refuses with a ValueError a design that cannot be used for another reason.

    Raises
    ------
    CannotCalibrate
        No mechanism meets the guarantee.
    """
    fit: list[tuple[float, Candidate, Mechanism | Exponential, NoiseDesign | DirectionsDesign]] = []
    unfit: list[Candidate] = []
    for mechanism in proven(metric, problem):
        try:
            design: NoiseDesign | DirectionsDesign = mechanism.design(problem, guarantee)
            check(design)
            error = metric.value(design, problem)
        except ValueError as refusal:
            unfit.append(Candidate(mechanism.name, mechanism.parameters(), None, str(refusal)))
        else:
            row = Candidate(mechanism.name, mechanism.parameters(), error, "")
            fit.append((error, row, mechanism, design))
    if not fit:
        raise CannotCalibrate(unfit[0].reason)
    fit.sort(key=lambda entry: entry[0])
    _, _, best, design = fit[0]
    return MechanismComparison(_distinct([*(row for _, row, _, _ in fit), *unfit]), best, design)


def _distinct(rows: list[Candidate]) -> tuple[Candidate, ...]:
    """Without repetitions: an importance may be one of the standard aims."""
    distinct: list[Candidate] = []
    for row in rows:
        if not any((row.mechanism, row.parameters) == (other.mechanism, other.parameters) for other in distinct):
            distinct.append(row)
    return tuple(distinct)


@dataclass(frozen=True)
class Auto:
    """The proven mechanism with the least expected error.

    Attributes
    ----------
    metric
        What "least error" means.
    """

    name: ClassVar[str] = "auto"
    metric: Metric

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign | DirectionsDesign:
        """Design of the best mechanism."""
        return compare(problem, guarantee, self.metric).design

    def parameters(self) -> dict[str, Any]:
        """Metric."""
        return {"metric": self.metric.parameters()}
