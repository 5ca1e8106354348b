"""Which records a step of training is over: all of them, one of several fixed batches, or a secret sample.

**Fixed batches.** The batch of a record is a keyed hash of the record itself, so it is a function of that record alone:
not of its position, nor of how many records there are. Step t is over batch ``t mod B``.

*Claim.* Over T steps a record is in the sums of at most ``E = ceil(T / B)`` of them. One that is there or not moves
each of those by at most D, and no other sum, whatever the weights: ``sqrt(E) D`` in L2 and ``E D`` in L1. One that is
replaced either stays in its batch, and moves E sums by at most D'; or it leaves one batch and enters another, and moves
up to 2 E sums by at most D. So ``sqrt(E) max(D', sqrt(2) D)`` in L2, and ``E max(D', 2 D)`` in L1, bound both.

*Proof.* The batches of all other records are the same in both data sets, because each is a function of its record. So a
sum over a batch without the differing records is the same, given the weights; and given what was released, so are the
weights. The steps of the batch in question, b, are t = b, b + B, ...: at most E of them. The rest is addition. QED.
By position this is false: a missing first record moves a record over each boundary, and every sum changes.
Noise that cancels from step to step counts participations that are B steps apart (:mod:`engine.noise.banded`).

**A secret sample.** In each step each record takes part with probability q, decided by 32 bits of the key stream at the
step and the *number of its row*, never by its content: equal records would otherwise be drawn together. All records are
read, by the same tasks whatever was drawn. The sample is never published, and the sum is divided by q times a public
number.

*Claim.* Under add-remove, and where a unit has one row, each step is dominated by the pair ``(1 - q) N(0, 1) + q N(m,
1)`` and ``N(0, 1)``, in both directions, with m the loss of the step over all records.

*Proof.* The bits of different rows and steps are independent and identically distributed, and independent of all noise.
If a record is missing then later rows have other numbers, but the sample of the other records has the same law, and it
is independent of whether the record takes part. Given that sample and the past, the step is normal noise (up to a map
that is the same for both, :mod:`.additive`) about a sum ``a``, or with probability q about ``a'``, at most m deviations
away; or about ``a`` always. That pair is dominated by the one at distance m, and mixtures over the sample of pairs with
one dominating pair have that pair (joint convexity). The steps compose because the pair holds whatever the past. QED.
Under replace-one, with several rows per unit, or with noise that is not Gaussian, no pair is proven here: refused.

**Source**: McSherry, 2009 (parallel composition); Balle, Barthe and Gaboardi, 2018, and Zhu, Dong and Wang, 2022,
theorem 11 (Poisson samples); Dietzfelbinger, 1996 (the hash: any two records fall into one batch with probability
about 1 / B).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.noise import keyring

Flags = NDArray[np.bool_]

_LANE = 8
"""Lane of the key stream: noise has 0 to 3 and 24 on."""

_ROWS_A_CALL = 2**15
_ROWS_A_BLOCK = 4


class StepRecords(Protocol):
    """The records of one step."""

    def marks(self, records: NDArray[Any]) -> NDArray[Any]:
        """What decides the steps of each of some records, the same in all steps, shape (n,).

        Parameters
        ----------
        records
            Stored records, shape (n, columns), finite.
        """

    def taken(self, marks: NDArray[Any], first: int) -> Flags:
        """Which of some records take part, shape (n,).

        Parameters
        ----------
        marks
            Of :meth:`marks`, shape (n,).
        first
            Number of the row of the first.
        """


@dataclass(frozen=True)
class FixedBatches:
    """Disjoint batches, by a keyed hash of the record.

    Attributes
    ----------
    count
        B, the number of batches.
    seed
        Any text; the guarantee does not rest on its secrecy.
    band
        Steps over which noise cancels, at most B; one where noise of steps is independent.
    """

    count: int
    seed: str
    band: int = 1

    def at(self, step: int, handle: str) -> FixedBatch:
        """Records of a step, counted from 0; ``handle`` is not used."""
        return FixedBatch(self, step % self.count)

    def most(self, steps: int) -> int:
        """E, the most steps that a record takes part in."""
        return -(-steps // self.count)

    @property
    def share(self) -> float:
        """Part of the records that a step is over."""
        return 1.0 / self.count

    def of(self, records: NDArray[Any]) -> NDArray[np.int64]:
        """Batch of each record, shape (n,)."""
        values = np.ascontiguousarray(records, dtype="<f8") + 0.0  # one zero
        words = values.view("<u4").astype(np.uint64)
        factors = np.frombuffer(
            hashlib.shake_256(b"blockveil batches 1 " + self.seed.encode()).digest(8 * (words.shape[1] + 1)), "<u8"
        ).astype(np.uint64)
        # Sums of 64 bits wrap around; their upper half is the hash.
        hashed = (words @ factors[1:] + factors[0]) >> np.uint64(32)
        return ((hashed * np.uint64(self.count)) >> np.uint64(32)).astype(np.int64)


@dataclass(frozen=True)
class FixedBatch:
    """One of several fixed batches; see :class:`StepRecords`."""

    batches: FixedBatches
    number: int

    def marks(self, records: NDArray[Any]) -> NDArray[np.int16]:
        """Number of the batch of each."""
        return self.batches.of(records).astype(np.int16)  # of at most 10,000

    def taken(self, marks: NDArray[Any], first: int) -> Flags:
        """Those whose hash is the batch's number, wherever they stand."""
        return marks == self.number


@dataclass(frozen=True)
class PoissonBatches:
    """A secret sample for each step.

    Attributes
    ----------
    probability
        q, of each record to take part in a step.
    """

    probability: float

    def at(self, step: int, handle: str) -> SecretSample:
        """Records of a step, counted from 0, by the key that is installed under ``handle``."""
        return SecretSample(self.probability, step, handle)

    @property
    def share(self) -> float:
        """Part of the records that a step is over."""
        return self.probability


@dataclass(frozen=True)
class SecretSample:
    """The sample of one step; see :class:`StepRecords`. The key is fetched where a task runs, and is no part of this.

    Attributes
    ----------
    probability
        q.
    step
        Number of the step.
    handle
        Name under which the key is installed.
    """

    probability: float
    step: int
    handle: str

    def marks(self, records: NDArray[Any]) -> Flags:
        """Nothing of a record decides, but its place."""
        return np.zeros(len(records), np.bool_)

    def taken(self, marks: NDArray[Any], first: int) -> Flags:
        """Those whose 32 bits of the key stream, at this step and the number of the row, are below q; secret."""
        # Rounded down: a record takes part with at most the probability that is accounted for.
        below = math.floor(math.ldexp(self.probability, 32))
        end = first + len(marks)
        words = [self._words(start, min(_ROWS_A_CALL, end - start)) for start in range(first, end, _ROWS_A_CALL)]
        return np.concatenate([np.zeros(0, np.uint64), *words]) < np.uint64(below)

    def _words(self, first: int, count: int) -> NDArray[np.uint64]:
        block, offset = divmod(first, _ROWS_A_BLOCK)
        counter = bytes((0, 0, _LANE, 0)) + self.step.to_bytes(4) + block.to_bytes(8)
        stream = keyring.fetch(self.handle).stream(counter, 4 * (offset + count))
        return np.frombuffer(stream, "<u4")[offset:].astype(np.uint64)


Batches = FixedBatches | PoissonBatches
"""How a training takes part of the records in a step."""
