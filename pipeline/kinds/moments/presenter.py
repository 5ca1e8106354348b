"""What a report says of second moments and covariances.

A variance has the square of its feature's unit, and a covariance the product of two, so a reader is shown standard
deviations and correlations. The noise of a standard deviation s with variance v is of first order in that of the
released numbers, ``noise(v) / (2 s)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from blockveil.engine.estimates import correlations
from blockveil.engine.estimates.matrices import Estimate
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.report.facts import LONGEST_TABLE, Facts
from blockveil.pipeline.report.matrix import Array, Shown
from blockveil.pipeline.report.own_units import measured, ranges
from blockveil.pipeline.report.presenter import Presenter, Row
from blockveil.pipeline.report.released_moments import correlation_of, moments_of
from blockveil.pipeline.report.scan import BeyondNoise


class SecondMomentPresenter(Presenter):
    """Second moments: products of two features, and squares on the diagonal."""

    matrix = "second_moment"
    symmetric = True
    pairs, own = "products of two features", "squares"

    def searched(self, facts: Facts) -> tuple[tuple[BeyondNoise, str], tuple[BeyondNoise, str]]:
        """Entries off and on the diagonal."""
        others, diagonal = facts.scan.others, facts.scan.diagonal
        return (others, f"{others.entries:,} {self.pairs}"), (diagonal, f"{diagonal.entries:,} {self.own}")

    def ratio_errors(self, facts: Facts) -> Array | None:
        """Errors of ratios about the origin, where the release tells how the noise of its entries is related."""
        try:
            moments = moments_of(facts.release, "An error")
        except ConfigError:
            return None
        return None if moments.constant else correlations.raw_correlation(moments).standard_deviation


class CovariancePresenter(SecondMomentPresenter):
    """Covariances: ratios to the count, of which means, standard deviations and correlations are shown."""

    matrix = "covariance"
    follows_from = "second_moment"
    about_origin = False
    has_means = True
    pairs, own = "covariances of two features", "variances"
    diagonal, root, ratio = "variance", "standard deviations", "correlation"

    def correlation(self, release: Shown) -> Estimate | None:
        """Correlations as :attr:`.Release.correlation` has them."""
        return correlation_of(release)

    def ratio_errors(self, facts: Facts) -> Array | None:
        """Errors of correlations."""
        return None if facts.correlation is None else facts.correlation.standard_deviation

    def in_own_units(self, facts: Facts, rows: Sequence[Row]) -> list[dict[str, str]] | None:
        """Mean and standard deviation of each feature."""
        matrix, declared = facts.matrix, ranges(facts)
        if "mean" not in matrix.vectors():
            return super().in_own_units(facts, rows)
        mean, noise = matrix.vectors()["mean"]
        variance, deviation = matrix.diagonal("kind"), matrix.diagonal("deviation")
        reach, shown_rows = _reach(facts, variance, deviation), []
        for i, name in enumerate(matrix.names(0, LONGEST_TABLE)):
            line = {"feature": name}
            if declared is not None:
                low, high = declared[i]
                line["declared range"] = f"{number(low)} to {number(high)}"
            line["mean"] = measured(float(mean[i]), float(noise[i]))
            line["standard deviation"] = spread(float(variance[i]), float(deviation[i]), float(reach[i]))
            if declared is not None:
                line["noise of the mean, share of the range"] = f"{100.0 * float(noise[i]) / (high - low):.2g} %"
            shown_rows.append(line)
        return shown_rows


def spread(variance: float, deviation: float, reach: float) -> str:
    """Standard deviation of a feature with its noise, or the most that it can be where noise hides it.

    Parameters
    ----------
    variance, deviation
        Released, and standard deviation of its noise.
    reach
        How far noise alone may take it, all numbers at once.
    """
    if not math.isfinite(reach):
        return "not known"
    if variance > reach:
        return measured(math.sqrt(variance), deviation / (2.0 * math.sqrt(variance)))
    return f"hidden, at most {number(math.sqrt(max(variance, 0.0) + reach))}"


def _reach(facts: Facts, variance: Array, deviation: Array) -> Array:
    if not facts.scan.alone.estimable:
        return np.full(variance.shape, np.inf)
    along = np.arange(variance.size)
    return facts.scan.alone.reach(along, along, variance, deviation)


PRESENTER = (CovariancePresenter(), SecondMomentPresenter())
