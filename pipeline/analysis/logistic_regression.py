"""A logistic regression that a release has trained, with labels, standard errors, intervals and p-values."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.matrices import Estimate
from blockveil.pipeline.analysis import labelled
from blockveil.pipeline.analysis.fits import INTERCEPT, LabelledCoefficients
from blockveil.pipeline.analysis.joint_noise import POPULATION
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.report.matrix import Shown
from blockveil.pipeline.report.released_coefficients import Coefficients, coefficients_of

Array = NDArray[np.float64]

_OF_POPULATION = (
    "Intervals are for the population that the records are a sample of: they account for the noise of the release and "
    'for the sample. interval(of="records") leaves the sample out.'
)
_UNKNOWN = (
    "not known: the noise hides the Fisher matrix. Take a larger errors_share, fewer features, narrower bounds or a "
    "larger epsilon. The values are the weights of the training"
)


def released(release: Shown) -> Coefficients | None:
    """Coefficients of a release with their errors; None where it holds nothing that errors follow from."""

    def read(name: str) -> Array | None:
        array = release.arrays.get(name)
        return None if array is None else np.asarray(array[...], np.float64)

    return coefficients_of(labelled.plain(release.attributes), read)


@dataclass(frozen=True, eq=False)
class LogisticRegression(LabelledCoefficients):
    """Logistic regression of two classes: one step of Newton's method from the last weights of a training.

    What is estimated has the largest likelihood, of the records as they are clipped to their bounds: without weight
    decay, and with no gradient clipped. :mod:`.one_step` has the formulas and what they assume.

    Attributes
    ----------
    release
        What it was computed from.
    found
        Coefficients as arrays, intercept first, and their errors.
    """

    release: Shown = field(repr=False)
    found: Coefficients = field(repr=False)

    @classmethod
    def of(cls, release: Shown) -> LogisticRegression:
        """Logistic regression of a release.

        Raises
        ------
        ConfigError
            The release has trained none, or holds nothing that errors follow from.
        """
        coefficients = released(release)
        if coefficients is None:
            raise ConfigError(
                "This release holds no errors of coefficients",
                "They follow from a share of the loss that a logistic regression declares, with bounds in the config",
                "Train with query.training.errors_share, such as 0.3",
            )
        return cls(release, coefficients)

    @property
    def target(self) -> str:  # type: ignore[override]
        """What is explained: the log odds of code 1."""
        return self.found.target

    @property
    def features(self) -> tuple[str, ...]:  # type: ignore[override]
        """What explains it."""
        return self.found.features

    @property
    def _estimate(self) -> Estimate:
        return Estimate(self.found.values, self.found.noise)

    @property
    def _sampling(self) -> Array:
        return self.found.sampling

    def rows(self) -> list[tuple[str, str]]:
        """Coefficients with their intervals for the population."""
        names, values = (INTERCEPT, *self.features), self.found.values
        if not self.found.known:
            return [*((name, number(value)) for name, value in zip(names, values, strict=True)), ("Errors", _UNKNOWN)]
        intervals = zip(names, values, *self._ends(0.95, POPULATION), self._chances, strict=True)
        rows = [
            (name, f"{number(value)}   95 %: {number(low)} to {number(high)}   p {chance:.2g}")
            for name, value, low, high, chance in intervals
        ]
        return [*rows, ("Errors", _OF_POPULATION)]

    @property
    def _title(self) -> str:
        return f"Logistic regression of {self.target}, from {self.release.attributes.get('release_id')}"
