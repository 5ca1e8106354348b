"""Second moments that records may have had, simulated from a released one: where first order is not enough.

What is released is ``S = truth + N``. Without other knowledge the truth lies as far about S as N does, so it is drawn
as ``S + N'`` with noise N' of the same law. Such a draw need not be that of any records: its cross products about the
mean may have negative eigenvalues. They are shrunk as in :mod:`.shrunk_spectrum`, in coordinates in which the noise of
all features is of one size. Of a statistic f of these

* the estimate is the mean of f over draws, shrunk for :data:`_OF_VALUE` times the noise that is in the release;
* its standard error is the root mean square of what f, shrunk for :data:`_OF_ERROR` times that noise, is away from it.

Where noise is small both are what first order says. Where it is not, the error depends on the truth, and no number is
right for all of them. The two factors were chosen by simulation: for the demo's records, with 3,000 to 30,000 of them,
an epsilon of 0.3 to 10, and noise of one size for all features or by their spread, the mean square of the error over
its standard error was 0.92 to 1.10. A draw and its mirror image count together as one; of p such pairs the variance is
known up to a share of ``2 / p``, and with the factor ``p / (p - 2)`` that square has the mean one all the same.

**Source**: Bardsley, Solonen, Haario and Laine, 2014 (randomise, then optimise); Breiman, 1996 (means over perturbed
data); the factors are from simulation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockveil.engine.estimates.matrices import Estimate
from blockveil.engine.estimates.noisy_moments import Array, NoisyMoments, Statistic, cross_products
from blockveil.engine.estimates.shrunk_spectrum import SpectrumNoise, shrunk_spectra

_OF_VALUE, _OF_ERROR = 1.2, 0.9

_MOST_PAIRS, _LEAST_PAIRS, _ENTRIES = 128, 16, 2_000_000


@dataclass(frozen=True, eq=False)
class LikelyMoments:
    """What the second moment of the records may be.

    Attributes
    ----------
    moments
        The released one. Only its noise is drawn and shrunk for.
    """

    moments: NoisyMoments

    def __post_init__(self) -> None:
        """Leave out errors that are not of noise."""
        object.__setattr__(self, "moments", self.moments.noise_alone)

    def estimate(self, statistic: Statistic) -> Estimate:
        """Value and standard error of a statistic, as the module says; both have its shape.

        Parameters
        ----------
        statistic
            Of a stack of second moments whose cross products are positive semi-definite.
        """
        moments = self.moments
        pairs = int(np.clip(_ENTRIES // moments.matrix.size, _LEAST_PAIRS, _MOST_PAIRS))
        centre = statistic(self.possible(moments.matrix[None])[0])[0]
        shift, first, second = (np.zeros(np.shape(centre)) for _ in range(3))
        for noise in moments.drawn(pairs):
            for_value, for_error = self.possible(np.concatenate([moments.matrix + noise, moments.matrix - noise]))
            shift += np.sum(statistic(for_value) - centre, axis=0) / (2 * pairs)
            away = statistic(for_error) - centre
            first += np.sum(away, axis=0) / (2 * pairs)
            second += np.sum(away**2, axis=0) / (2 * pairs)
        square = np.maximum(second - 2.0 * shift * first + shift**2, 0.0)
        return Estimate(centre + shift, np.sqrt(square * pairs / (pairs - 2)))

    def possible(self, stack: Array) -> tuple[Array, Array]:
        """Second moments with positive semi-definite cross products: those for values and those for errors.

        Parameters
        ----------
        stack
            Second moments with noise, shape (draws, p, p).
        """
        moments = self.moments
        units, beside = moments.noise_units()
        sides = np.outer(units, units)
        if moments.constant:
            # A count that noise takes near zero or below is replaced by the size of its noise, as in a release.
            stack = stack.copy()
            stack[:, 0, 0] = np.maximum(stack[:, 0, 0], max(float(np.sqrt(moments.variance[0, 0])), 1.0))
        values, vectors = np.linalg.eigh(cross_products(stack, moments.constant) / sides)
        stacks = []
        for factor in (_OF_VALUE, _OF_ERROR):
            shrunk = shrunk_spectra(values, SpectrumNoise(factor * beside))
            products = (vectors * shrunk[:, None, :]) @ np.swapaxes(vectors, 1, 2) * sides
            stacks.append(_about_the_origin(stack, products) if moments.constant else products)
        return stacks[0], stacks[1]


def _about_the_origin(stack: Array, products: Array) -> Array:
    """Second moments with the count and sums of a stack, and with other cross products about the mean."""
    moments, sums = stack.copy(), stack[:, 0, 1:]
    moments[:, 1:, 1:] = products + sums[:, :, None] * sums[:, None, :] / stack[:, :1, :1]
    return moments
