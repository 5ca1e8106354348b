"""A regression and principal components of a release, with labels and with errors that account for the noise."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from blockveil.engine.estimates.components import ComponentEstimates
from blockveil.engine.estimates.matrices import Estimate
from blockveil.engine.estimates.noisy_moments import Array, NoisyMoments
from blockveil.engine.estimates.regression import LinearFit, linear_fit
from blockveil.engine.estimates.sampling_error import with_sample
from blockveil.pipeline.analysis import labelled
from blockveil.pipeline.analysis.joint_noise import POPULATION, RECORDS, check_of, p_values, positions, quantile
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.showing import FactSheet
from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.report.matrix import Shown

MOST_STANDARDISED = 300
"""Features of standardised components: their errors take as many numbers as a cube of that side."""

INTERCEPT = "(intercept)"

OF_NOISE = (
    "Standard errors and intervals account for the noise of the release, not for the choice of a sample. An infinite "
    "one says that the noise is too large to state it: take fewer features, a ridge, or a release with less noise."
)


SHRUNK = (
    "The noise hides what these are: none of their errors can be stated. They are of a matrix that was shrunk for the "
    "noise, with a ridge by the noise for a regression, which is nearer to the truth than what was released."
)


class Interval(NamedTuple):
    """Both ends of intervals, each labelled as the values are."""

    low: Any
    high: Any


def ends(found: Estimate, reach: float) -> tuple[Array, Array]:
    """Both ends of intervals that reach a given number of standard errors; the whole line where none is stated."""
    value, finite = found.value, np.isfinite(found.value) & np.isfinite(found.standard_deviation)
    width = np.where(finite, reach * np.where(finite, found.standard_deviation, 0.0), np.inf)
    centre = np.where(finite, value, 0.0)
    return centre - width, centre + width


class LabelledCoefficients(FactSheet):
    """Coefficients of a release with their errors, intercept first, and what follows from these."""

    release: Shown
    target: str
    features: tuple[str, ...]

    @property
    @abstractmethod
    def _estimate(self) -> Estimate:
        """Intercept and coefficients, and the standard deviations of their noise, shape (1 + features,)."""

    @property
    @abstractmethod
    def _sampling(self) -> Array:
        """Their standard deviations by the sample, of the same shape."""

    @property
    def intercept(self) -> float:
        """Value where all features are zero: in the target's unit, or log odds."""
        return float(self._estimate.value[0])

    @property
    def coefficients(self) -> Any:
        """Change for one unit of each feature, a Series by feature: of the target in its unit, or of the log odds."""
        return self._series(self._estimate.value)

    @property
    def standard_error(self) -> Any:
        """Standard deviation of the noise of each coefficient: a Series by feature; infinite where none is stated."""
        return self._series(self._estimate.standard_deviation)

    @property
    def intercept_standard_error(self) -> float:
        """Standard deviation of the noise of the intercept."""
        return float(self._estimate.standard_deviation[0])

    @property
    def p_values(self) -> Any:
        """Chance of a coefficient as large if that of the population is zero, a Series by feature; of noise and sample.

        The assumptions are those of :mod:`.sampling_error`; 1 where the noise is too large to state an error.
        """
        return self._series(self._chances)

    def interval(self, confidence: float = 0.95, of: str = "records") -> Any:
        """Intervals of intercept and coefficients: a DataFrame with columns ``low`` and ``high``.

        The interval of each holds, in this share of releases of the same records, what the records would give without
        noise. With ``of="population"`` the error of the sample is part of it; its assumptions are those of
        :mod:`.sampling_error`. The whole line where no error is stated. Raises ConfigError where the confidence is no
        probability, or there is no such ``of``.
        """
        both = np.column_stack(self._ends(confidence, of))
        return labelled.table(both, ("feature", "end"), ([INTERCEPT, *self.features], ["low", "high"]))

    def _ends(self, confidence: float, of: str) -> tuple[Array, Array]:
        check_of(of)
        estimate = self._estimate if of == RECORDS else with_sample(self._estimate, self._sampling)
        return ends(estimate, quantile(self.release, confidence))

    @property
    def _chances(self) -> Array:
        estimate = with_sample(self._estimate, self._sampling)
        finite = np.isfinite(estimate.value) & np.isfinite(estimate.standard_deviation)
        scores = np.where(finite, estimate.value, 0.0) / np.where(finite, estimate.standard_deviation, 1.0)
        return p_values(self.release, scores)

    def _series(self, values: Array) -> Any:
        """Those of features, without the intercept's."""
        return labelled.table(values[1:], ("feature",), (self.features,))


@dataclass(frozen=True, eq=False)
class Regression(LabelledCoefficients):
    """Linear regression of one feature on others, from a release.

    Attributes
    ----------
    release
        What it was computed from.
    target, features
        What is explained, and by what.
    ridge
        What was added to each feature's sum of squares about the mean, in its unit squared.
    fit
        Coefficients as arrays, intercept first, and the covariance of their noise.
    """

    release: Shown = field(repr=False)
    target: str
    features: tuple[str, ...]
    ridge: float
    fit: LinearFit = field(repr=False)

    @property
    def r_squared(self) -> float:
        """Share of the target's sum of squares that is explained; noise can take it out of the range from 0 to 1."""
        return float(self.fit.r_squared.value)

    @property
    def r_squared_standard_error(self) -> float:
        """Standard deviation of the noise of that share."""
        return float(self.fit.r_squared.standard_deviation)

    def predict(self, rows: Any) -> Array:
        """Predicted target of rows of your own, shape (rows,), in the target's unit; nothing is charged for it.

        Raises ConfigError where a feature is missing, or these are not numbers.

        Parameters
        ----------
        rows
            A DataFrame with the features as columns, or numbers of shape (rows, features) in their order.
        """
        predictions: Array = self.intercept + rows_of(rows, self.features) @ self.fit.values[1:]
        return predictions

    @property
    def _estimate(self) -> Estimate:
        return Estimate(self.fit.values, self.fit.standard_error)

    @property
    def _sampling(self) -> Array:
        return self.fit.sampling_error

    def rows(self) -> list[tuple[str, str]]:
        """Coefficients with their intervals."""
        low, high = self._ends(0.95, RECORDS)
        intervals = zip((INTERCEPT, *self.features), self.fit.values, low, high, strict=True)
        rows = [(name, f"{number(value)}   95 %: {number(a)} to {number(b)}") for name, value, a, b in intervals]
        shrunk = [("Shrunk", SHRUNK)] if self.fit.shrunk else []
        return [*rows, ("R squared", self._explained), ("Errors", OF_NOISE), *shrunk]

    @property
    def _explained(self) -> str:
        """The share with its error, where it is one: noise can make it any number."""
        share, error = self.r_squared, self.r_squared_standard_error
        if not (0.0 <= share <= 1.0 and math.isfinite(error)):
            return "not known: the noise of the released moments hides it"
        return f"{number(share)}   standard error {number(error)}"

    @property
    def _title(self) -> str:
        of = f", ridge {number(self.ridge)}" if self.ridge else ""
        return f"Regression of {self.target}{of}, from {self.release.attributes.get('release_id')}"


@dataclass(frozen=True, eq=False)
class PrincipalComponents(FactSheet):
    """Leading principal components of a release.

    Attributes
    ----------
    release
        What they were computed from.
    features
        Names of the features.
    standardised
        Whether each feature counts in units of its own standard deviation.
    found
        Components as arrays, with their errors.
    """

    release: Shown = field(repr=False)
    features: tuple[str, ...]
    standardised: bool
    found: ComponentEstimates = field(repr=False)

    @property
    def components(self) -> Any:
        """Unit directions: a DataFrame, one row each, the largest entry of each positive."""
        return self._by_feature(self.found.loadings.value)

    @property
    def components_standard_error(self) -> Any:
        """Standard deviation of the noise of each entry of the directions, labelled the same."""
        return self._by_feature(self.found.loadings.standard_deviation)

    @property
    def explained_variance(self) -> Any:
        """Variance along each direction, a Series, in products of the features' units; a sum for a second moment."""
        return self._each(self.found.variances.value)

    @property
    def standard_error(self) -> Any:
        """Standard deviation of the noise of each explained variance, a Series."""
        return self._each(self.found.variances.standard_deviation)

    @property
    def explained_variance_ratio(self) -> Any:
        """Share of the total variance along each direction, a Series."""
        return self._each(self.found.shares.value)

    @property
    def explained_variance_ratio_standard_error(self) -> Any:
        """Standard deviation of the noise of each share, a Series."""
        return self._each(self.found.shares.standard_deviation)

    @property
    def sine_distance(self) -> Any:
        """Expected squared sine of each direction's angle to its true one, a Series; 1 where that is not small."""
        return self._each(self.found.sine_distance)

    def interval(self, confidence: float = 0.95, of: str = "records") -> Any:
        """Intervals of the explained variances, a DataFrame with columns ``low`` and ``high``; see :class:`Regression`.

        Raises ConfigError where the confidence is no probability.
        """
        check_of(of)
        variances = self.found.variances
        if of == POPULATION:
            variances = with_sample(variances, self.found.sampling_error)
        both = np.column_stack(ends(variances, quantile(self.release, confidence)))
        return labelled.table(both, ("component", "end"), (self._names, ["low", "high"]))

    @property
    def _names(self) -> list[str]:
        return [f"component {i + 1}" for i in range(self.found.variances.value.size)]

    def _each(self, values: Array) -> Any:
        return labelled.table(values, ("component",), (self._names,))

    def _by_feature(self, values: Array) -> Any:
        return labelled.table(values, ("component", "feature"), (self._names, self.features))

    def rows(self) -> list[tuple[str, str]]:
        """Components with the intervals of their variances."""
        pca = self.found
        low, high = ends(pca.variances, quantile(self.release, 0.95))
        intervals = zip(self._names, pca.variances.value, low, high, pca.shares.value, pca.sine_distance, strict=True)
        rows = [
            (
                name,
                f"variance {number(value)}   95 %: {number(a)} to {number(b)}   share {number(share)}   "
                + ("direction not known" if sine >= 1.0 else f"squared sine from the true direction {number(sine)}"),
            )
            for name, value, a, b, share, sine in intervals
        ]
        return [*rows, ("Errors", OF_NOISE), *([("Shrunk", SHRUNK)] if pca.shrunk else [])]

    @property
    def _title(self) -> str:
        of = ", each feature in units of its standard deviation" if self.standardised else ""
        return f"Principal components{of}, from {self.release.attributes.get('release_id')}"


def check_components(held: tuple[str, ...], k: object, standardise: bool) -> None:
    """Refuse a number of components that there is not, or that takes too long, with a ConfigError."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= max(len(held), 1):
        raise ConfigError("k is not a number of components", f"It lies between 1 and {len(held)}", "Correct it")
    if standardise and len(held) > MOST_STANDARDISED:
        raise ConfigError(
            f"Components of {len(held):,} standardised features take too long",
            f"They are computed for {MOST_STANDARDISED} at most",
            "Leave standardise out",
        )


def regression_of(
    release: Shown,
    held: tuple[str, ...],
    moments: NoisyMoments,
    asked: tuple[str, Sequence[str] | None, float],
) -> Regression:
    """Regression on a release.

    Raises ConfigError where a name is unknown, or the ridge is out of range.

    Parameters
    ----------
    release, held, moments
        The release, the names of its features, and their moments.
    asked
        Target, features (all others where None) and ridge.
    """
    target, features, ridge = asked
    [place] = positions(held, (target,))
    others = [name for name in held if name != target]
    names = others if features is None else [features] if isinstance(features, str) else list(features)
    columns = positions(held, names)
    if place in columns:
        raise ConfigError(f'"{target[:60]}" is target and feature', "It explains nothing of itself", "Leave it out")
    if isinstance(ridge, bool) or not isinstance(ridge, int | float) or not 0.0 <= ridge < np.inf:
        raise ConfigError("ridge is out of range", "It is a number that is not negative", "Give for instance 0")
    fit = linear_fit(moments.of([place, *columns]), 0, list(range(1, len(columns) + 1)), float(ridge))
    return Regression(release, target, tuple(names), float(ridge), fit)


def rows_of(rows: Any, features: tuple[str, ...]) -> Array:
    """Numbers of a caller's rows in the order of features, shape (rows, k).

    Raises
    ------
    ConfigError
        A feature is missing, or these are not numbers of that shape; the message holds none of them.
    """
    if hasattr(rows, "columns") and hasattr(rows, "__getitem__"):
        missing = [name for name in features if name not in rows.columns]
        if missing:
            raise ConfigError(
                f'The rows have no column "{missing[0][:60]}"', "They need a column for each feature", "Add the column"
            )
        rows = rows[list(features)]
    try:
        numbers = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.ndim != 2 or numbers.shape[1] != len(features):
        raise ConfigError(
            "The rows are not numbers of two axes with a column for each feature",
            f"There are {len(features)} features",
            "Give a DataFrame with the features as columns, or an array of shape (rows, features)",
        )
    return numbers


def finite_rows_of(rows: Any, features: tuple[str, ...]) -> Array:
    """The same of finite numbers alone; raises as :func:`rows_of`, and where one is missing or infinite."""
    numbers = rows_of(rows, features)
    if not np.isfinite(numbers).all():  # whose scores are in no order: the first class would be named
        raise ConfigError(
            "The rows hold a missing or infinite value",
            "A class or a number follows from finite numbers",
            "Leave such rows out, or put a constant in the place of the value",
        )
    return numbers
