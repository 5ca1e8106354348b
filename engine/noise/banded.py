"""Gaussian noise of the steps of a training that cancels from step to step, where a record is in few of them.

Weights follow the sum of all steps so far. If a step's noise takes away part of the noise of the steps before it, then
that sum has less of it. Let ``v_0, ..., v_(b-1)`` be whole numbers, the *band*, and C the lower-triangular matrix with
``C_ts = v_(t-s)``. With ``q_t`` the exact sum of step t, rounded to grid steps, and z independent discrete noise::

    n_t = z_t - floor( sum_(1 <= a < b) v_a n_(t - a) / v_0 )      whole numbers, of the key alone
    w_t = v_0 q_t + n_t                                            published; w_t / v_0 is read

No sum of an earlier step is needed, and none is kept.

**Claim.** Let a record be in the steps ``j, j + B, j + 2 B, ...`` alone, at most E of T, for a j that depends on the
record alone, and ``b <= B``. Let it move each ``q_t`` of these by at most d in L2, whatever the weights are. Then all
steps together have a Gaussian loss of ``sqrt(E) |v| d / s``, s the scale of z. If a record leaves the steps of one j
for those of another, the loss is at most twice as much.

**Proof.** Fix what was published before step t. The weights of step t follow from it, so they are the same for
neighbours, and ``q_t, q'_t`` differ by ``D_t`` with ``|D_t| <= d``, and by nothing in other steps. As ``n_(t-a)`` is
``w_(t-a) - v_0 q_(t-a)``, step t publishes ``z_t`` moved by

    ``m_t = v_0 q_t - floor( (sum_a v_a w_(t-a)) / v_0 - sum_a v_a q_(t-a) )``,

and ``sum_a v_a q_(t-a)`` is whole, so it leaves the floor: neighbours' moves differ by exactly ``(C D)_t = sum_(0 <= a
< b) v_a D_(t-a)``. So step t is normal noise of scale s (up to a map that is the same for both, :mod:`.additive`) moved
by ``|(C D)_t|``, which depends on the past. On every path ``sum_t |(C D)_t|^2 <= E |v|^2 d^2``: columns of C that are
at least b apart have no row in common, so ``|C D|^2 = sum |column|^2 |D_t|^2`` over at most E steps.

Moves ``s_t`` that depend on the past, with ``sum |s_t|^2 <= mu^2`` on every path, have a loss of mu: let one more
normal number be published, moved by what is missing to ``mu^2``, which only helps an attacker. With g the noise, the
logarithm of the ratio of both laws is ``L - mu^2 / 2``, ``L = sum <s_t, g_t>``. For each real x, ``E exp(i x <s_t, g_t>
+ x^2 |s_t|^2 / 2)`` is one given the past, so from the last step to the first ``E exp(i x L) = exp(-x^2 mu^2 / 2)``:
L is normal with variance ``mu^2``, as for one Gaussian mu apart. A record that changes its j is the sum of two
changes of this kind, and norms of ``C D`` add up. Rounding moves ``q_t`` by at most one more in each entry of a step
that the record is in. QED.

**Error.** ``w_t / v_0`` has the noise ``sum_k rho_k z_(t-k) / v_0``, rho the coefficients of ``v_0 / v(x)``, and sums
of all steps so far have those of ``v_0 / ((1 - x) v(x))``. The band is ``64 (2a choose a) / 4^a``, rounded, at least
one: the coefficients of ``(1 - x)^(-1/2)``. Rounding costs less than a part in 500 of the error of those sums.

**Source**: Denisov, McMahan, Rush, Smith and Thakurta, 2022, theorem 2.1 (adaptive streams); Choquette-Choo et al.,
2023, "(Amplified) banded matrix factorization" (participations that are b apart); Kalinin and Lampert, 2024 (banded
square roots); Smith and Thakurta, 2022 (Gaussian losses chosen by the past).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.noise.additive import gaussian_design
from blockveil.engine.noise.design import Block, NoiseDesign
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.noise.entry_noise import ROUND_UP
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Scaling, Spread

MOST_STEPS_BACK = 256
"""The widest band: noise of that many steps is kept in memory while training goes on."""

_FIRST = 64
_RANGE = 2.0**61
"""What the multiples of a sum in grid steps stay below, so that noise can be added in int64."""


@dataclass(frozen=True)
class Band:
    """How much of the noise of a step the following ones take away.

    Attributes
    ----------
    width
        b, the number of weights.
    steps
        T, the number of steps.
    """

    width: int
    steps: int

    def __post_init__(self) -> None:
        """Refuse a band of one step, which is no band, and one that is too wide."""
        if not 2 <= self.width <= MOST_STEPS_BACK:
            raise ValueError(f"a band has 2 to {MOST_STEPS_BACK} steps")

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """v: whole numbers, of which the first is the largest and none is zero."""
        exact = (_FIRST * math.comb(2 * age, age) * 2 // 4**age for age in range(self.width))
        return tuple(max(1, (twice + 1) // 2) for twice in exact)

    @property
    def squared_norm(self) -> int:
        """``|v|^2``."""
        return sum(one * one for one in self.weights)

    @cached_property
    def responses(self) -> tuple[float, ...]:
        """rho: how much of the noise of k steps ago is in a step, beside its own; k below T."""
        # Plain floats in a fixed order: what a release says of its noise follows from them, to the last digit.
        responses: list[float] = []
        for step in range(self.steps):
            total = 1.0 if step == 0 else 0.0
            for age in range(1, min(self.width, step + 1)):
                total -= self.weights[age] / self.weights[0] * responses[step - age]
            responses.append(total)
        return tuple(responses)

    @cached_property
    def deviations(self) -> NDArray[np.float64]:
        """Noise of each step over that of the first, shape (T,)."""
        return np.array([math.sqrt(total) for total in accumulate(one * one for one in self.responses)])

    @property
    def deviation_of_the_sum(self) -> float:
        """Root mean square noise of the sum of all steps so far, over that of the first step."""
        totals = [one * one for one in accumulate(self.responses)]
        return math.sqrt(math.fsum(accumulate(totals)) / self.steps)

    @property
    def stretch(self) -> float:
        """Bound of how much further than a step's own noise the noise of all steps together reaches in a direction."""
        # |R| is at most the sum of |rho| (Young); the furthest that rows reach by themselves is the last deviation.
        return max(1.0, math.fsum(abs(one) for one in self.responses) / float(self.deviations[-1]))

    @property
    def share_of_the_sum(self) -> float:
        """Noise of the sum of all steps so far, root mean square, over what independent noise of the same loss has."""
        length = math.sqrt(self.squared_norm) / self.weights[0]
        return length * self.deviation_of_the_sum / math.sqrt((self.steps + 1) / 2.0)


@dataclass(frozen=True, eq=False)
class BandedDesign(NoiseDesign):
    """Noise of all steps, one below the other; what it releases of a step is without the noise of earlier ones.

    Attributes
    ----------
    band
        By which :class:`BandedNoise` takes away noise of earlier steps.
    """

    band: Band = field(kw_only=True)

    @property
    def shifted_unit(self) -> float:
        """Shifted integers that stand for one unit of what is read."""
        return super().shifted_unit * self.band.weights[0]

    def release(self, key: NoiseKey, exact: NDArray[np.int64], block: Block | None = None) -> NDArray[np.int64]:
        """``v_0 q + z``. Secret, as the key is: beside what is published it shows the noise of earlier steps."""
        rows, columns = block or ((0, self.shape[0]), (0, self.shape[1]))
        return self.rounded(exact, block) + self.grid.draw(key, rows, columns, self.symmetric)

    def rounded(self, exact: NDArray[np.int64], block: Block | None = None) -> NDArray[np.int64]:
        """``v_0 q``."""
        return super().rounded(exact, block) * self.band.weights[0]

    def standard_deviations(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.float64]:
        """Standard deviation of what is read of a block: a step has noise of those before it, too."""
        own = np.arange(*rows) // (self.shape[0] // self.band.steps)
        return super().standard_deviations(rows, columns) * self.band.deviations[own][:, None]

    def taken_by_step(self, key: NoiseKey) -> Callable[[], NDArray[np.int64]]:
        """See :class:`BandedNoise`."""
        return BandedNoise(self, key).taken

    def noise(self, key: NoiseKey, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.int64]:
        """Noise n of a block: its steps take away noise of those before them."""
        away, height = self.taken_by_step(key), self.shape[0] // self.band.steps
        earlier: NDArray[np.int64] = np.concatenate([away() for _ in range(-(-rows[1] // height))])
        block: NDArray[np.int64] = (
            self.grid.draw(key, rows, columns, self.symmetric) - earlier[slice(*rows), slice(*columns)]
        )
        return block

    def apart(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """``C w / v_0``: what moves z, of a difference of releases by records, or z - z' of one by keys."""
        by_step = values.reshape(self.band.steps, -1).astype(np.float64)
        product = np.zeros_like(by_step)
        for age, weight in enumerate(self.band.weights[: self.band.steps]):
            product[age:] += weight / self.band.weights[0] * by_step[: self.band.steps - age]
        return product.reshape(values.shape)

    def facts(self) -> dict[str, Any]:
        """With the band; see :class:`.design.Design`."""
        return {**super().facts(), "band": list(self.band.weights)}


class BandedNoise:
    """What a step takes away of the noise of the steps before it, step after step. Secret, as the key is.

    Parameters
    ----------
    design
        Noise of all steps.
    key
        Of the release.
    """

    def __init__(self, design: BandedDesign, key: NoiseKey) -> None:
        self._design, self._key, self._step = design, key, 0
        self._past: list[NDArray[np.int64]] = []
        """n of the last steps, the last one first."""

    def taken(self) -> NDArray[np.int64]:
        """``floor(sum v_a n_(t - a) / v_0)`` of the step that comes next, shape of a step."""
        design, weights = self._design, self._design.band.weights
        height, width = design.shape[0] // design.band.steps, design.shape[1]
        rows = (self._step * height, (self._step + 1) * height)
        total = np.zeros((height, width), np.int64)
        for weight, past in zip(weights[1:], self._past, strict=False):
            total += weight * past  # below 2**8 b times the noise, some 2**40: exact
        total //= weights[0]
        own = design.grid.draw(self._key, rows, (0, width), design.symmetric) - total
        self._past = [own, *self._past][: len(weights) - 1]
        self._step += 1
        return total


def independent(design: NoiseDesign, band: Band) -> NoiseDesign:
    """Noise of the same standard deviations that is independent from step to step, for statements about errors.

    With R what noise of earlier steps is in each, rows are those of ``R D1 G D2``, and ``|R D1|`` is at most
    :attr:`Band.stretch` times what it is of independent ones. So that factor on their bounds of norms bounds these.
    """
    first, own = band.weights[0], np.repeat(band.deviations, design.shape[0] // band.steps)
    arguments = {each.name: getattr(design, each.name) for each in fields(NoiseDesign)}
    spread = replace(design.spread, rows=design.spread.rows * own)
    return NoiseDesign(**(arguments | {"spread": spread, "scale": design.scale / first, "unit": design.unit * first}))


def banded_design(
    spread: Spread, sensitivity: Sensitivity, scaling: Scaling, guarantee: ApproxDP, band: Band, patterns: float
) -> BandedDesign:
    """Least noise of all steps together.

    Parameters
    ----------
    spread
        Relative size of the noise of all steps, one below the other.
    sensitivity
        L2, of ``C x``: ``patterns |v|`` times what a record changes in one step.
    scaling
        Of the exact integers of one step.
    guarantee
        The asked loss.
    band
        Of the noise.
    patterns
        ``sqrt(E)``, or twice that where a record may change its steps.

    Raises
    ------
    CannotCalibrate
        As :func:`.additive.gaussian_design`, or multiples of the sums would leave the exact range.
    """
    # Rounding moves q of a step by one more in each entry, in the steps that a record is in: an increment of its own,
    # which C makes |v| times as long.
    rounding = patterns * math.sqrt(band.squared_norm * spread.changing / band.steps) * ROUND_UP
    design = gaussian_design(spread, sensitivity, scaling, guarantee, moved=rounding)
    least = design.unit * design.scale / design.grid.privacy_scale * spread.least
    # |v_0 q| <= v_0 largest / least step, and noise is below 2**45.
    if scaling.largest / least * band.weights[0] * (1.0 + 1e-9) > _RANGE:
        raise CannotCalibrate("multiples of the sums leave the exact range; lower rows_at_most, or leave band out")
    return BandedDesign(**{each.name: getattr(design, each.name) for each in fields(NoiseDesign)}, band=band)
