"""Secure noise whose probability falls with the length of the whole answer, exactly, as a pure function of the key.

The law of d whole numbers z is ``P(z) ~ exp(-c ceil |z|_2 / s)``, with ``s = 2^20`` and c the least multiple of
``2^-10`` that is at least ``sqrt(d)``. It is drawn from d independent discrete Laplace variables of scale s, which have
``exp(-|z|_1 / s)``, and accepted with probability ``exp(-(c ceil |z|_2 - |z|_1) / s)``: no more than one, because
``|z|_1 <= sqrt(d) |z|_2``. That takes about ``(2 sqrt(d))^d / (d! V_d)`` draws, V_d being the volume of the unit ball:
1.3 for two entries, 4 for six, 20 for twelve, 58 for sixteen.

Everything is compared in whole numbers (:mod:`.exact_random`): the law is exact, and its sampler has no distance from
it. How long it takes is random; that depends on the draw alone, not on records.

Privacy: answers that differ by a vector of length k have probabilities within ``exp(c (k + 1) / s)``, for lengths
differ by at most k and rounding up adds less than one.

**Source**: Hardt and Talwar, 2010, section 4 (the K-norm mechanism), in whole numbers; Canonne, Kamath and Steinke,
2020, for the discrete Laplace variables; the acceptance is derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.mechanisms.k_norm.joint_entries import BallEntry
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.noise.exact_random import KeyBits

SCALE_BITS = 20
"""Entries that are proposed have the scale 2**20 steps: the noise stands for continuous noise."""

MOST_ENTRIES = 16
"""Most entries of an answer; with more, Gaussian noise is less at any delta of use, and a draw takes longer."""

_ROOT_BITS = 10


@dataclass(frozen=True)
class BallNoise:
    """Noise of a small answer, ``P(z) ~ exp(-rate ceil |z|_2)``.

    Attributes
    ----------
    rows, columns
        Shape of the answer, of at most 16 entries. What lies beyond belongs to further answers with noise of their own.
    bits
        Of the scale of proposed entries; 20 where noise is released.
    """

    norm: ClassVar[str] = "L2 of the whole answer"
    slow: ClassVar[bool] = True
    rows: int
    columns: int
    bits: int = SCALE_BITS

    def __post_init__(self) -> None:
        """Refuse answers for which a draw takes too long."""
        if self.rows < 1 or self.columns < 1 or self.entries > MOST_ENTRIES:
            raise CalibrationError(
                f"an answer of {self.rows} x {self.columns} is not within {MOST_ENTRIES} entries; choose gaussian noise"
            )

    @property
    def entries(self) -> int:
        """d, the number of entries."""
        return self.rows * self.columns

    @property
    def _rate(self) -> tuple[int, int]:
        """Loss of one step: numerator, and the bits of its denominator."""
        # isqrt rounds down: one more than the root of d 4^b - 1 is at least sqrt(d) 2^b.
        return isqrt((self.entries << 2 * _ROOT_BITS) - 1) + 1, self.bits + _ROOT_BITS

    @property
    def label(self) -> str:
        """Public name."""
        numerator, bits = self._rate
        return f"K-norm of rate {numerator}/{1 << bits}, length of {self.entries} entries, version 1"

    @property
    def standard_deviation(self) -> float:
        """Of an entry: the length has nearly a gamma law of d, whose mean square is ``d (d + 1)`` scales squared.

        Rounding lengths up makes noise less, by a factor within ``1 / scale`` of one; this is a bound.
        """
        numerator, bits = self._rate
        return sqrt(self.entries + 1.0) * 2.0**bits / numerator * (1.0 + 2.0**-50)

    @property
    def privacy_scale(self) -> float:
        """Scale, rounded down: answers k steps apart cost at most k + 1 over it."""
        numerator, bits = self._rate
        return 2.0**bits / numerator * (1.0 - 2.0**-52)

    @property
    def tails(self) -> BallEntry:
        """Law of one entry, in its standard deviations."""
        return BallEntry(self.entries)

    def length(self, change: NDArray[np.int64]) -> float:
        """Norm of a difference of two releases, in grid steps."""
        sizes = np.abs(change).astype(np.float64)
        return sqrt(float(np.sum(sizes * sizes)))

    @property
    def total_variation_per_draw(self) -> float:
        """None: the sampler is exact."""
        return 0.0

    def draw(
        self, key: NoiseKey, rows: tuple[int, int], columns: tuple[int, int], symmetric: bool
    ) -> NDArray[np.int64]:
        """Noise of a block of an answer; the same entries in whatever block.

        Parameters
        ----------
        key
            Key of the release.
        rows, columns
            Half-open ranges; of answers beside each other below 2**16, below each other below 2**32.
        symmetric
            Must be False.

        Returns
        -------
        Shape (rows, columns), int64.

        Raises
        ------
        ValueError
            The answer is symmetric.
        """
        if symmetric:
            raise ValueError("noise by the length of an answer is of all its entries; give a symmetric one another law")
        down = range(rows[0] // self.rows, -(-rows[1] // self.rows))
        across = range(columns[0] // self.columns, -(-columns[1] // self.columns))
        blocks = np.empty((len(down), self.rows, len(across), self.columns), dtype=np.int64)
        for below in down:
            for beside in across:
                blocks[below - down.start, :, beside - across.start] = self._answer(KeyBits(key, beside, below))
        whole = blocks.reshape(len(down) * self.rows, len(across) * self.columns)
        top, left = down.start * self.rows, across.start * self.columns
        return whole[rows[0] - top : rows[1] - top, columns[0] - left : columns[1] - left]

    def _answer(self, bits: KeyBits) -> NDArray[np.int64]:
        """Noise of one answer, shape (rows, columns)."""
        numerator, of_rate = self._rate
        while True:
            entries = [bits.two_sided_geometric(self.bits) for _ in range(self.entries)]
            square = sum(entry * entry for entry in entries)
            length = isqrt(square - 1) + 1 if square else 0  # rounded up
            # c ceil |z|_2 >= sqrt(d) |z|_2 >= |z|_1, so that the exponent is not negative.
            exponent = numerator * length - (sum(map(abs, entries)) << _ROOT_BITS)
            if bits.exponential_trial(exponent, of_rate):
                return np.array(entries, dtype=np.int64).reshape(self.rows, self.columns)
