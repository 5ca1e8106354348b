"""What one core does in a second: estimates for any machine, and the form of what is measured on one.

Cuts are chosen, and digests made, with the nominal rates alone, so that neither depends on a machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockveil.engine.answers.eight_bit import LARGEST, LARGEST_OF_HALVES
from blockveil.engine.answers.float_sums import arithmetic

SINGLE = 1.6
"""Times as many operations in single precision, what its sums cost besides included."""


@dataclass(frozen=True)
class Rates:
    """What one core does in a second.

    Attributes
    ----------
    flops
        Useful float64 operations of a product.
    read
        Bytes of records, as float64, read and decompressed.
    quantise
        Values clipped and quantised.
    move
        Bytes sent from worker to worker.
    noise
        Entries noised.
    write
        Bytes compressed and written.
    pairs
        Products of two values other than zero, found and added up.
    narrow
        Useful operations of a product of integers of at most 127; nominally as in single precision.
    halves
        The same of integers that have halves of eight bits and need double precision; nominally as in it.
    """

    flops: float = 4.0e10
    read: float = 2.0e9
    quantise: float = 5.0e8
    move: float = 8.0e8
    noise: float = 4.0e7
    write: float = 2.0e8
    pairs: float = 1.0e8
    narrow: float = 6.4e10
    halves: float = 4.0e10

    def product(self, largest: int) -> float:
        """Useful operations of a product of integers of at most this size."""
        if largest <= LARGEST:
            return self.narrow
        if arithmetic(largest).single:
            return self.flops * SINGLE
        return self.halves if largest <= LARGEST_OF_HALVES else self.flops


NOMINAL = Rates()
"""A common server core; estimates, not a measurement."""
