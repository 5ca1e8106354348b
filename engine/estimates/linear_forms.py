"""How exactly means, standard deviations and correlations will be known: linear forms of a second moment's noise.

Write U for the augmented second moment (count n, sums s, products V) about the origin, Z for its noise, whose distinct
entries are independent, m for the mean and C for the covariance of the records, and ``u_i = e_i - m_i e_0`` for the
feature i seen from its mean. To first order in the noise, exactly as the estimates of :mod:`.matrices` are made,

* a mean moves by ``e_0' Z u_i / n``;
* a covariance moves by ``(u_i' Z u_j - C_ij Z_00) / n``;
* a standard deviation ``s_i`` moves by half the change of its variance over ``s_i``;
* a correlation r moves by ``(w_i' Z w_j - r (w_i' Z w_i + w_j' Z w_j) / 2) / n`` with ``w_i = u_i / s_i``: the terms of
  the noisy count cancel.

Each is ``<H, Z>`` for a symmetric H, and has the variance ``2 sum G_kl^2 D_kl - sum G_kk^2 D_kk`` for ``G = A' H A``, A
the map from coordinates to raw units and D the variances of the noise in coordinates. A second moment without a
constant coordinate has no count and no mean: there ``u_i = e_i``, and a correlation is one about the origin.

**Source**: derived here; the ratios' remainder beyond first order is bounded in :mod:`.ratios`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from blockveil.engine.estimates.rounding_error import RoundingError
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.records.geometry import Coordinates, Matrix, Vector


@dataclass(frozen=True, eq=False)
class FeatureNoise:
    """Noise of the second moment of a few features.

    Attributes
    ----------
    to_raw
        Map from noisy coordinates to the constant coordinate, where there is one, and the features in raw units, shape
        (lead + k, q).
    variance
        Variance of each entry's own error in those coordinates, shape (q, q).
    lead
        1 with a constant coordinate, else 0.
    common
        Standard deviation of what entries of the diagonal have in common beside that, shape (q,); None without any.
    """

    to_raw: Matrix
    variance: Matrix
    lead: int
    common: Vector | None = None

    @classmethod
    def of(
        cls,
        design: NoiseDesign,
        coordinates: Coordinates,
        lead: int,
        chosen: Sequence[int],
        rounding: RoundingError | None = None,
    ) -> FeatureNoise:
        """Noise of chosen features of a release.

        Parameters
        ----------
        design
            Noise of the release, of ``lead`` and then of all coordinates.
        coordinates
            Map back to raw units.
        lead
            1 with a constant coordinate in front, else 0.
        chosen
            Positions of the features, from 0. Where coordinates are not mixed, nothing of the size of the whole matrix
            is made.
        rounding
            Of the records, where coordinates are not mixed; it is part of the variances.
        """
        back = coordinates.to_raw()
        beside: Matrix | float = 0.0
        if back.ndim == 1:
            positions = np.array([*range(lead), *(lead + position for position in chosen)], dtype=np.intp)
            rows, columns = design.spread.rows[positions], design.spread.columns[positions]
            design = replace(design, spread=replace(design.spread, rows=rows, columns=columns))
            to_raw = np.diag(np.concatenate([np.ones(lead), back[list(chosen)]]))
            beside = 0.0 if rounding is None else rounding.at(positions, positions).deviations() ** 2
        else:
            to_raw = np.zeros((lead + len(chosen), lead + back.shape[1]))
            to_raw[:lead, :lead] = 1.0
            to_raw[lead:, lead:] = back[list(chosen)]
        variance, diagonal = design.entry_standard_deviation() ** 2, design.spread.diagonal
        if diagonal is None or not diagonal.shared:
            return cls(to_raw, variance + beside, lead)
        size = variance.shape[0]
        own = np.diagonal(variance) / (1.0 + diagonal.shared * diagonal.taken(size) ** 2.0)
        np.fill_diagonal(variance, own)
        return cls(to_raw, variance + beside, lead, diagonal.taken(size) * np.sqrt(own * diagonal.shared))

    def with_public_count(self) -> FeatureNoise:
        """The same noise where the number of records is public and is not estimated."""
        variance = self.variance.copy()
        variance[0, 0] = 0.0
        return replace(self, variance=variance)

    def deviation(self, form: Matrix) -> float:
        """Standard deviation of ``<form, noise>`` for a symmetric form in raw units, shape (lead + k, lead + k)."""
        inner = self.to_raw.T @ form @ self.to_raw
        squares = inner**2 * self.variance
        together = 0.0 if self.common is None else float(np.diagonal(inner) @ self.common) ** 2
        return float(np.sqrt(max(2.0 * float(np.sum(squares)) - float(np.trace(squares)), 0.0) + together))


@dataclass(frozen=True, eq=False)
class SupposedMoments:
    """What records are supposed to be, and the noise that their second moment will get.

    Attributes
    ----------
    noise
        Of the features in question.
    rows
        Number of records.
    mean
        About the origin of the shape, raw units, shape (k,); not used without a constant coordinate.
    size
        Standard deviation of each feature, or root mean square from the origin without a constant coordinate, shape
        (k,), positive.
    """

    noise: FeatureNoise
    rows: int
    mean: Vector
    size: Vector

    def mean_deviation(self, feature: int) -> float:
        """Standard deviation of a mean's noise, in the feature's unit."""
        constant, form = self._constant, self._seen(feature)
        return self.noise.deviation((np.outer(constant, form) + np.outer(form, constant)) / (2.0 * self.rows))

    def size_deviation(self, feature: int) -> float:
        """Standard deviation of the noise of a standard deviation or root mean square, in the feature's unit."""
        return self.product_deviation(feature, feature, 1.0) / (2.0 * float(self.size[feature]))

    def product_deviation(self, first: int, second: int, correlation: float) -> float:
        """Standard deviation of the noise of a covariance, or of a second moment per record, in units of both."""
        pair = _symmetric(self._seen(first), self._seen(second))
        if self.noise.lead:
            covariance = correlation * float(self.size[first] * self.size[second])
            pair = pair - covariance * np.outer(self._constant, self._constant)
        return self.noise.deviation(pair / self.rows)

    def correlation_deviation(self, first: int, second: int, correlation: float) -> float:
        """Standard deviation of the noise of a correlation of this size, first order in the noise."""
        w, v = self._seen(first) / self.size[first], self._seen(second) / self.size[second]
        form = _symmetric(w, v) - 0.5 * correlation * (np.outer(w, w) + np.outer(v, v))
        return self.noise.deviation(form / self.rows)

    @property
    def _constant(self) -> Vector:
        constant = np.zeros(self.noise.lead + self.size.size)
        constant[0] = 1.0
        return constant

    def _seen(self, feature: int) -> Vector:
        """A feature as a form: from its mean where there is a constant coordinate, else from the origin."""
        form = np.zeros(self.noise.lead + self.size.size)
        form[self.noise.lead + feature] = 1.0
        if self.noise.lead:
            form[0] = -float(self.mean[feature])
        return form


def _symmetric(left: Vector, right: Vector) -> Matrix:
    crossed = np.outer(left, right)
    return np.asarray((crossed + crossed.T) / 2.0)
