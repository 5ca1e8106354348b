"""A statistic of growing records, published every night: records count by a whole-number weight that falls with age.

Night t publishes a weighted sum of the records that have arrived by then. A record of age a (it arrived in night t - a)
has the weight ``v(a)``, a whole number that is constant between the ages 0, 1, 2, 4, 8, ... With ``P_t`` the exact sum
over all records that have arrived by night t, ``a_0 = 0, a_1 = 1, a_2 = 2, a_3 = 4, ...``, and ``r`` the differences of
the weights (``r_0 = v_0``)::

    y_t = sum_l r_l P_(t - a_l) + z_t                       measured: whole grid steps, rounded once
    s_t = (y_t - sum_(l >= 1) r_l s_(t - a_l)) / r_0        read: without bias for P_t

A night measures its own ``y_t``, with noise of a key of its own, and nothing of it is used again: what later nights
share with it is ``s_t``, which is published. So each key is destroyed when its night is sealed.

**Privacy.** Let neighbours differ in a record that arrives in night s, and D be the difference of their exact sums from
then on. The exact weighted sums of night t differ by ``v(t - s) D`` for t >= s, by nothing before, and rounding to
steps adds less than one step in each entry that changes. So the vector of all measured nights differs by at most

    ``|v| |D| + sqrt(T * changing entries)`` steps in L2, where ``|v|^2 = sum of v(a)^2 over ages a = 0, ..., T - 1``.

That is one Gaussian release of T times the entries, whose sensitivity is ``|v|`` times that of one night, charged once.
Nights come one after the other and each noise is independent of all that came before, so the bound holds for records
of later nights that are chosen in view of earlier releases too (Gaussian losses compose adaptively). Nights are counted
by release: where a date is left out, its records arrive with the next release, and no row of the matrix is used twice.

**Error.** ``s_t - P_t = sum_k w_k z_(t - k)``, where w are the coefficients of ``1 / r(x)``, ``r(x) = sum_l r_l
x^(a_l) = (1 - x) v(x)``: apart from rounding, the noise of night t is ``sqrt(w_0^2 + ... + w_(t-1)^2)`` times that of
one measurement. The weights are those of least ``|v|^2`` times mean squared noise, in 8 bits (:mod:`.level_weights`).

**Source**: Li, Miklau, Hay, McGregor and Rastogi, 2015 (matrix mechanism); Denisov, McMahan, Rush, Smith and Thakurta,
2022, and Henzinger, Upadhyay and Upadhyay, 2023 (lower-triangular strategies for prefix sums, adaptive streams).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.noise.additive import gaussian_design
from blockveil.engine.noise.design import WEIGHT_BITS, Block, NoiseDesign, add_noise
from blockveil.engine.noise.discrete_gaussian import Grid, NoiseKey
from blockveil.engine.noise.level_weights import WEIGHTS
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Scaling, Spread

MOST_NIGHTS = 3660
"""Ten years of nights."""

_EXACT = 2**62
"""What exact sums and their multiples stay below, so that noise can be added in int64."""


@dataclass(frozen=True)
class Levels:
    """Weights of records by age.

    Attributes
    ----------
    nights
        T, how many releases share the charge at most.
    weights
        One for each range of ages: 0, 1, 2 to 3, 4 to 7, and so on; the last range has no end.
    """

    nights: int
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse weights that are no whole numbers of 8 bits, or whose last one no night reaches."""
        if not 1 <= self.nights <= MOST_NIGHTS:
            raise ValueError(f"{self.nights} nights; between 1 and {MOST_NIGHTS} can be planned in one charge")
        if not self.weights or not all(type(one) is int and 1 <= one < 2**WEIGHT_BITS for one in self.weights):
            raise ValueError(
                f"weights are whole numbers of {WEIGHT_BITS} bits, at least one of them, none of them zero"
            )
        if self.ages[-1] >= self.nights:
            raise ValueError("the last weight is of an age that no record reaches")

    @property
    def ages(self) -> tuple[int, ...]:
        """Age at which each weight begins to hold, in nights."""
        return tuple(0 if level == 0 else 2 ** (level - 1) for level in range(len(self.weights)))

    @property
    def differences(self) -> tuple[int, ...]:
        """What each weight adds to the one before it: r."""
        return tuple(one - before for before, one in zip((0, *self.weights), self.weights, strict=False))

    @property
    def squared_norm(self) -> int:
        """Sum of the squared weights of one record over all nights, where it arrives in the first of them."""
        return self.squared_norm_of(self.nights)

    def squared_norm_of(self, nights: int) -> int:
        """The same over the first nights alone."""
        ends = (*self.ages[1:], self.nights)
        pieces = zip(self.weights, self.ages, ends, strict=True)
        return sum(v * v * max(0, min(end, nights) - age) for v, age, end in pieces)

    @cached_property
    def responses(self) -> tuple[float, ...]:
        """w: how much of the noise of k nights ago is in what is read of a night, for k below T."""
        # Plain floats in a fixed order: the plan of a release holds what follows from them, to the last digit.
        first, terms = float(self.weights[0]), list(zip(self.ages, self.differences, strict=True))[1:]
        responses: list[float] = []
        for k in range(self.nights):
            total = 1.0 if k == 0 else 0.0
            for age, difference in terms:
                if age > k:
                    break
                total -= difference * responses[k - age]
            responses.append(total / first)
        return tuple(responses)

    @cached_property
    def _variances(self) -> tuple[float, ...]:
        return tuple(accumulate(w * w for w in self.responses))

    def deviation(self, night: int) -> float:
        """Standard deviation of what is read of a night, where that of one measurement is 1.

        Raises
        ------
        ValueError
            There is no such night.
        """
        self._check(night)
        return math.sqrt(self._variances[night - 1])

    def deviation_of_change(self, night: int, back: int) -> float:
        """Standard deviation of the change over ``back`` nights up to a night, where that of one measurement is 1.

        Raises
        ------
        ValueError
            There is no such night, or none so long before it.
        """
        self._check(night)
        if not 1 <= back < night:
            raise ValueError(f"night {night} has no night {back} nights before it")
        shifted = (0.0,) * back + self.responses[: night - back]
        return math.sqrt(math.fsum((w - v) ** 2 for w, v in zip(self.responses, shifted, strict=False)))

    @property
    def factors(self) -> NDArray[np.float64]:
        """Standard deviation of each night's noise, shape (T,), where that of one release for the whole charge is 1."""
        factors: NDArray[np.float64] = np.sqrt(self.squared_norm * np.asarray(self._variances))
        return factors

    def estimate(
        self, measured: NDArray[np.int64], night: int, earlier: Callable[[int], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """What is read of a night, from what was measured and what was read of earlier nights; post-processing.

        Parameters
        ----------
        measured
            y of the night, in grid steps.
        night
            Its number, from 1.
        earlier
            What was read of an earlier night, by its number; same shape, in grid steps.

        Returns
        -------
        s of the night in grid steps, float64, by the same operations in the same order on every machine.
        """
        self._check(night)
        reading: NDArray[np.float64] = measured.astype(np.float64)
        for age, difference in list(zip(self.ages, self.differences, strict=True))[1:]:
            if age < night:
                reading -= float(difference) * earlier(night - age)
        reading /= float(self.weights[0])
        return reading

    def needed(self, night: int) -> tuple[int, ...]:
        """Numbers of the earlier nights that a night is read with, the newest first."""
        self._check(night)
        return tuple(night - age for age in self.ages[1:] if age < night)

    def _check(self, night: int) -> None:
        if not 1 <= night <= self.nights:
            raise ValueError(f"night {night} is not among the nights 1 to {self.nights}")


@lru_cache(maxsize=8)
def least_noise(nights: int) -> Levels:
    """Weights for a number of nights: those found for the least tabled number that holds them all.

    Parameters
    ----------
    nights
        T, from 1 to :data:`MOST_NIGHTS`.

    Raises
    ------
    ValueError
        T is out of range.
    """
    if not 1 <= nights <= MOST_NIGHTS:
        raise ValueError(f"{nights} nights; between 1 and {MOST_NIGHTS} can be planned in one charge")
    weights = WEIGHTS[min(horizon for horizon in WEIGHTS if horizon >= nights)]
    return Levels(nights, weights[: 1 + (nights - 1).bit_length()])


@dataclass(frozen=True)
class ReadNight(Grid):
    """Law of the noise of what is read of one night; what is drawn is the noise of its measurement.

    Attributes
    ----------
    factor
        Standard deviation of what is read, where that of the measurement is 1.
    """

    factor: float = 1.0

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of what is read; ``variance`` and ``privacy_scale`` stay those of one measurement."""
        return super().standard_deviation * self.factor


@dataclass(frozen=True, eq=False)
class WeightedDesign(NoiseDesign):
    """Noise on a weighted sum of records, whose weights may come digit by digit.

    Attributes
    ----------
    digit_bits
        Bits of the digits of the weights. With fewer than a weight has, the exact answer is a sum for each digit, the
        least first: in one sum, many records could leave the range of int64.
    """

    digit_bits: int = WEIGHT_BITS

    @property
    def weight_digits(self) -> tuple[int, int]:
        """Bits of a digit, and how many sums the exact answer is of."""
        return self.digit_bits, -(-WEIGHT_BITS // self.digit_bits)

    def release(self, key: NoiseKey, exact: NDArray[np.int64], block: Block | None = None) -> NDArray[np.int64]:
        """Round the weighted sum to the grid once and add noise; ``exact`` has a leading axis of digits if several."""
        if self.weight_digits[1] == 1:
            return super().release(key, exact, block)
        if self.strategy is not None:  # it is linear: its answers to each digit make up those to the weighted sum
            exact = np.stack([self.strategy.answers(digit) for digit in exact])
        rows, columns = block or ((0, self.shape[0]), (0, self.shape[1]))
        steps, noise = self.steps(rows, columns), self.grid.draw(key, rows, columns, self.symmetric)
        whole, rest = np.divmod(exact[-1] << self.shift, steps)
        for digit in exact[-2::-1]:
            quotient, remainder = np.divmod(digit << self.shift, steps)
            # rest 2**bits + remainder < steps 2**(bits + 1) <= 2**63, which the design has checked.
            carried, rest = np.divmod((rest << self.digit_bits) + remainder, steps)
            whole = (whole << self.digit_bits) + quotient + carried
        return whole + add_noise(rest, steps, noise)


def measurement(
    spread: Spread, sensitivity: Sensitivity, scaling: Scaling, guarantee: ApproxDP, levels: Levels
) -> WeightedDesign:
    """Least Gaussian noise of one night's measurement such that all nights together keep a guarantee.

    Parameters
    ----------
    spread, sensitivity, scaling
        Of the answer over all records; see :func:`.additive.gaussian_design`.
    guarantee
        Of all nights together.
    levels
        Weights of the records by age.

    Raises
    ------
    CannotCalibrate
        See :func:`.additive.gaussian_design`.
    """
    factor = math.sqrt(levels.squared_norm) * (1.0 + 1e-15)
    together = Sensitivity(sensitivity.bound * factor, sensitivity.attained * factor)
    failure: Exception | None = None
    for bits in (8, 4, 2, 1):
        most = max(levels.weights) if bits == WEIGHT_BITS else 2**bits - 1
        if scaling.largest * most > _EXACT:
            continue
        # All measurements are one release of T times the entries: rounding may move each, and each has its own draw.
        try:
            weighted_scaling = Scaling(scaling.unit, scaling.largest * most)
            gaussian = gaussian_design(spread, together, weighted_scaling, guarantee, times=levels.nights)
        except CannotCalibrate as error:
            failure = error
            continue
        weighted_design = WeightedDesign(
            **{each.name: getattr(gaussian, each.name) for each in fields(NoiseDesign)}, digit_bits=bits
        )
        if _fits(weighted_design):
            return weighted_design
    raise CannotCalibrate(
        str(failure) if failure else "the weighted sums leave the exact range; lower rows_at_most or quantisation_bits"
    )


def _fits(design: WeightedDesign) -> bool:
    """Whether sums by digit can be put together in int64."""
    if design.weight_digits[1] == 1:
        return True
    one = design.unit * design.scale / design.grid.privacy_scale * 2.0**design.shift
    least, most = one * design.spread.least * math.sqrt(0.5), one * design.spread.largest
    # Whole steps stay below 2**8 2**62 / least, and a rest with its next digit below 2**(bits + 1) times a step.
    return least >= 2.0 ** (WEIGHT_BITS + 1) and most * 1.001 + 1.0 <= 2.0 ** (62 - design.digit_bits)


def of_night(design: NoiseDesign, levels: Levels, night: int) -> NoiseDesign:
    """Noise of what is read of one night, from that of a measurement; the same steps, so that nights lie on one grid.

    Raises
    ------
    ValueError
        It is the noise of a night already, or there is no such night.
    """
    if type(design.grid) is not Grid:
        raise ValueError("nights share the noise of a measurement")
    return replace(design, grid=ReadNight(design.grid.levels, levels.deviation(night)))


def as_read(design: NoiseDesign, exact: NDArray[np.int64], drawn: NDArray[np.int64]) -> NDArray[np.float64]:
    """What would be read of a night whose exact answer is known: the answer with noise of the night's law, in steps.

    Parameters
    ----------
    design
        Noise of what is read of the night.
    exact
        The exact answer over all records, without weights.
    drawn
        Noise of one measurement, of the shape of what is measured.

    Raises
    ------
    ValueError
        The noise is of another kind.
    """
    if type(design.grid) is not ReadNight:
        raise ValueError("only nights that are weighed by age are read")
    measured = exact if design.strategy is None else design.strategy.answers(exact)
    rows, columns = ((0, length) for length in measured.shape)
    steps = design.steps(rows, columns).astype(np.float64)
    reading: NDArray[np.float64] = (
        np.ldexp(measured.astype(np.float64), design.shift) / steps + design.grid.factor * drawn
    )
    return reading


def of_change(design: NoiseDesign, levels: Levels, night: int, back: int) -> NoiseDesign:
    """Noise of what the nights after an earlier one brought: of the difference of two results, from either's design.

    Parameters
    ----------
    design
        Noise of what is read of a night.
    levels
        Weights of the records by age.
    night, back
        Number of the later night, and how many nights before it the earlier one was.

    Raises
    ------
    ValueError
        There are no such nights, or the noise is of another kind.
    """
    if type(design.grid) is not ReadNight:
        raise ValueError("only results of nights that share noise have a change")
    return replace(design, grid=ReadNight(design.grid.levels, levels.deviation_of_change(night, back)))
