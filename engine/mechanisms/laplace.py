"""Laplace noise on integers: calibrations from an L1 sensitivity, and what "pure" means for a real sampler.

What is released is ``round(answer / step) + noise`` with an integer answer, integer steps and discrete Laplace noise
of a rational rate (:mod:`engine.discrete_laplace`). Against another data set whose rounded answer is d whole steps away
in L1, probabilities differ by at most ``exp(rate d)``, and exactly that is attained.

* Whole numbers such as counts need no rounding: ``epsilon = rate * L1``. One record in a histogram moves one count by 1
  (add-remove) or two counts by 1 each (replace-one).
* Otherwise ``|round(x) - round(y)| < |x - y| + 1``: rounding adds at most one step for each entry that one record can
  change, so ``epsilon = rate * (L1 in steps + changing entries)``. Entries that agree before rounding agree after it.

"Pure" is a property of the law. The sampler draws each entry within ``2**-115`` of the law in total variation, from
a finite number of random bits, so its largest value is finite and no sampler of this kind is pure in the strict sense:
beyond some value a neighbour's probability is 0. A release of n entries is therefore ``(epsilon, (1 + e^epsilon) n
2**-115)``-private. The loss that is booked states both parts; only the first is a :class:`~engine.guarantees.PureDP`
statement, about the law.

**Source**: Dwork, McSherry, Nissim and Smith, 2006, Theorem 1; Ghosh, Roughgarden and Sundararajan, 2009; Mironov, 2012
(why not on floats).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from engine.calibration import CalibrationError
from engine.discrete_laplace import LARGEST_SCALE, DiscreteLaplace
from engine.geometry import Vector
from engine.guarantees import Loss, Neighbours, PureDP
from engine.mechanisms.additive import add_noise

_LEAST_STEP = 1024
"""Steps of at least this many units: rounding them up then adds less than a part in a thousand."""

_ROUND_UP = 1.0 + 1e-12


@dataclass(frozen=True, eq=False)
class LaplaceRelease:
    """Discrete Laplace noise for an integer answer.

    Attributes
    ----------
    law
        Law of the noise, in steps.
    steps
        Step of each entry, shape (n,), int64, in units of the answer; all ones where nothing is rounded.
    charged
        Loss of the law, exact: rate times the largest L1 distance of rounded answers, in steps.
    """

    law: DiscreteLaplace
    steps: NDArray[np.int64]
    charged: Fraction

    @property
    def pure(self) -> PureDP:
        """Loss of the law, rounded up; of the release only together with :attr:`loss`'s total variation."""
        return PureDP(_up(self.charged))

    @property
    def loss(self) -> Loss:
        """What is booked: the law's epsilon, and the distance of the sampler from the law."""
        # A product with a power of two: exact.
        return Loss(0.0, _up(self.charged), self.steps.size * self.law.total_variation_per_draw)

    @property
    def standard_deviations(self) -> Vector:
        """Standard deviation of the noise of each entry, shape (n,), in units of the answer."""
        deviations: Vector = self.steps.astype(np.float64) * self.law.standard_deviation
        return deviations

    @property
    def expected_squared_error(self) -> float:
        """Largest expected squared error of ``steps * released``, over all answers: noise, and half a step of rounding.

        Exactly that of the noise where all steps are one.
        """
        rounding = np.where(self.steps == 1, 0.0, 0.25)
        return float(np.sum(self.steps.astype(np.float64) ** 2 * (self.law.variance + rounding)))

    def release(self, exact: NDArray[np.int64], noise: NDArray[np.int64]) -> NDArray[np.int64]:
        """Noisy answer in steps; times :attr:`steps` it estimates the answer.

        Parameters
        ----------
        exact
            Integer answer, shape (n,), int64.
        noise
            Draws of :attr:`law`, shape (n,), int64.
        """
        return add_noise(exact, self.steps, noise)


def histogram_sensitivity(neighbours: Neighbours) -> int:
    """L1 sensitivity of a histogram in which each record is in one cell: 1 or, if a record is replaced, 2."""
    return 1 if neighbours is Neighbours.ADD_REMOVE else 2


def integer_laplace(entries: int, sensitivity: int, epsilon: float) -> LaplaceRelease:
    """Least discrete Laplace noise on whole numbers.

    Parameters
    ----------
    entries
        Number n of released numbers, at least 1.
    sensitivity
        Largest L1 distance between neighbours' answers, a positive whole number.
    epsilon
        Loss of the law.

    Returns
    -------
    Noise of the largest rate with a denominator up to ``2**20`` that keeps to epsilon.

    Raises
    ------
    CalibrationError
        The sensitivity is not known, epsilon is out of range, or so small that no table has its rate.

    **Source**: Ghosh, Roughgarden and Sundararajan, 2009; for one count it is optimal for every loss function.
    """
    PureDP(epsilon)
    if entries < 1 or not (math.isfinite(sensitivity) and sensitivity == int(sensitivity) >= 1):
        raise CalibrationError(
            f"entries is {entries}, sensitivity {sensitivity}; both must be known, whole and positive; "
            "bound what one record can change"
        )
    # At rate 64 a draw is zero but for a part in 10**27: tables go no further.
    law = DiscreteLaplace.at_most(min(Fraction(epsilon) / int(sensitivity), Fraction(64)))
    return LaplaceRelease(law, np.ones(entries, dtype=np.int64), law.rate * int(sensitivity))


def grid_laplace(spread: Vector, sensitivity: float, changing: int, epsilon: float) -> LaplaceRelease:
    """Least discrete Laplace noise of given proportions on an answer in fixed point, rounded to steps.

    Parameters
    ----------
    spread
        Relative size of the noise of each entry, shape (n,), positive, in units of the answer.
    sensitivity
        Largest ``sum |difference_i| / spread_i`` between neighbours' integer answers.
    changing
        Largest number of entries that differ between neighbours.
    epsilon
        Loss of the law.

    Raises
    ------
    CalibrationError
        The sensitivity is not known, or rounding would take more than half of epsilon.
    """
    PureDP(epsilon)
    _check_grid(spread, sensitivity, changing)
    # With steps of 1024 units and more, scale t costs changing / t for rounding; more than 2**20 is not needed.
    wanted = float(np.min(spread)) * sensitivity / epsilon / _LEAST_STEP
    scale = int(min(LARGEST_SCALE, max(1.0, wanted)))
    rounding = Fraction(changing, scale)
    if rounding > Fraction(epsilon) / 2:
        raise CalibrationError(
            f"rounding {changing} entries costs {float(rounding):g} of epsilon {epsilon:g}, more than half; "
            "state the answer in finer units, raise epsilon, or use Gaussian noise"
        )
    size = sensitivity * _ROUND_UP / float(Fraction(epsilon) - rounding)
    # Each step is at least its ideal value, so sum |difference_i| / step_i is at most sensitivity * scale / size.
    steps = np.ceil(spread * (size * _ROUND_UP / scale))
    if float(np.max(steps)) > 2.0**60:
        raise CalibrationError(
            f"a step of {float(np.max(steps)):g} units leaves int64; state the answer in coarser units"
        )
    distance = Fraction(sensitivity) * Fraction(float(np.max(spread / steps))) * Fraction(_ROUND_UP)
    charged = (distance + changing) / scale
    # The ideal steps cost at most epsilon; what is charged is computed from the steps in use.
    return LaplaceRelease(DiscreteLaplace(1, scale), steps.astype(np.int64), min(charged, Fraction(epsilon)))


def _check_grid(spread: Vector, sensitivity: float, changing: int) -> None:
    if spread.size == 0 or not np.all(np.isfinite(spread)) or np.any(spread <= 0):
        raise CalibrationError("a spread is not positive and finite; give each entry a size, or leave it out")
    if not (math.isfinite(sensitivity) and sensitivity > 0):
        raise CalibrationError(
            f"the sensitivity is {sensitivity}; it must be known, positive and finite; bound every record first"
        )
    if not 1 <= changing <= spread.size:
        raise CalibrationError(
            f"changing is {changing}; it must lie between 1 and {spread.size}; count the entries one record can move"
        )


def _up(value: Fraction) -> float:
    """Least float not below an exact value."""
    found = float(value)
    return found if Fraction(found) >= value else math.nextafter(found, math.inf)
