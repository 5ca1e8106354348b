"""A statistic of growing records, published every night, as earlier versions began it: which noise the nights share.

Night t publishes ``P_t``, the exact sum over all records that have arrived by then, rounded to the grid. Fresh noise
every night costs as much as T releases. Here night t starts from the release of an earlier night ``b(t) < t``, or from
nothing (``b(t) = 0``), and adds what has arrived since with noise of its own::

    release_t = release_b(t) + (P_t - P_b(t)) + z_t  =  P_t + sum of z_j over the chain t, b(t), b(b(t)), ..., above 0

``z_1, ..., z_T`` are independent grid noise of one law. So all releases follow from the T *increments*
``P_t - P_b(t) + z_t``, which are whole numbers of steps: nothing but whole numbers is ever added, so no digits of an
answer show below its noise, and a night needs its own exact sum and the noise of its chain alone.

**Privacy.** Let neighbours differ in a record that arrives in night s. Their exact sums differ by the same D in all
nights from s on, by nothing before, and rounding to steps keeps ``P'_t - P_t`` strictly within one step of D, in each
entry that changes. The increment of night t covers the record if ``b(t) < s <= t``; it then differs by D up to one
step. If it starts at or after s, it differs by two roundings of one number, at most one step; if it ends before, by
nothing. With at most ``cover`` nights that cover any s, the vector of all increments differs by at most

    ``sqrt(cover) |D| + sqrt(T * changing entries)`` steps in L2.

That is one Gaussian release of T times the entries, whose sensitivity is ``sqrt(cover)`` that of one night, charged
once. Increments come one after the other and each noise is independent of all that came before, so the bound holds for
records of later nights that are chosen in view of earlier releases too (Gaussian losses compose adaptively). A night
that is not published, and nights that share one state of the store, are cases of it: a record arrives in the first
night whose release has it.

**Choice of b.** Noise of night t has ``depth(t)``, the length of its chain, times the variance of one increment, which
is itself ``cover`` times that of one release. A binary tree is one choice. Here increments are nested, and for each
cover c the least sum of depths of n nights is that of the best night m among those that could be the last to start from
nothing, ``f(n, c) = min f(m - 1, c - 1) + 1 + f(n - m, c) + n - m``: its increment covers what comes before it once
more, and every chain after it is one longer.

**Source**: Chan, Shi and Song, 2011, and Dwork, Naor, Pitassi and Rothblum, 2010 (binary tree); Andersson and Pagh,
2023 (chains of equal length); Denisov, McMahan, Rush, Smith and Thakurta, 2022 (adaptive streams).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.noise.additive import gaussian_design
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.noise.discrete_gaussian import Grid, NoiseKey, noise_block
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Scaling, Spread

MOST_NIGHTS = 3660
"""Ten years of nights; the search for the best chains grows with their square."""


@dataclass(frozen=True)
class Chains:
    """Which earlier night each night starts from.

    Attributes
    ----------
    starts
        ``b(t)`` for nights t = 1, ..., T: an earlier night, or 0 for none.
    """

    starts: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse a night that starts from itself or a later one: its release would not be known."""
        if not self.starts or not all(0 <= start <= night for night, start in enumerate(self.starts)):
            raise ValueError("each of at least one night starts from an earlier night, or from 0")

    @property
    def nights(self) -> int:
        """T."""
        return len(self.starts)

    def chain(self, night: int) -> tuple[int, ...]:
        """Nights whose noise is in the release of a night, from itself back.

        Raises
        ------
        ValueError
            There is no such night.
        """
        if not 1 <= night <= self.nights:
            raise ValueError(f"night {night} is not among the nights 1 to {self.nights}")
        found = []
        while night:
            found.append(night)
            night = self.starts[night - 1]
        return tuple(found)

    @property
    def depths(self) -> NDArray[np.int64]:
        """Length of each night's chain, shape (T,)."""
        found = np.zeros(self.nights + 1, dtype=np.int64)
        for night, start in enumerate(self.starts, 1):
            found[night] = found[start] + 1
        return found[1:]

    @property
    def cover(self) -> int:
        """Largest number of nights whose increment holds a record, over all nights in which it may arrive."""
        changes = np.zeros(self.nights + 1, dtype=np.int64)
        for night, start in enumerate(self.starts, 1):
            changes[start] += 1  # the increment holds the arrivals of nights start + 1, ..., night
            changes[night] -= 1
        return int(np.cumsum(changes).max())

    @property
    def factors(self) -> NDArray[np.float64]:
        """Standard deviation of each night's noise, shape (T,), where that of one release for the whole charge is 1."""
        found: NDArray[np.float64] = np.sqrt(self.cover * self.depths.astype(np.float64))
        return found


def independent(nights: int) -> Chains:
    """Every night starts from nothing: independent noise."""
    return Chains((0,) * nights)


def binary(nights: int) -> Chains:
    """The binary tree: night t starts from t without its lowest bit."""
    return Chains(tuple(night & (night - 1) for night in range(1, nights + 1)))


@lru_cache(maxsize=8)
def best(nights: int) -> Chains:
    """Chains with the least mean variance over all nights: nested increments, with a binary tree's cover at most.

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
    # With cover 0 no night can be served.
    totals = [np.concatenate([[0], np.full(nights, 2**62, dtype=np.int64)])]
    firsts: list[NDArray[np.int64]] = [np.zeros(nights + 1, dtype=np.int64)]
    for _ in range(nights.bit_length()):
        total, first = _with_cover(totals[-1])
        totals.append(total)
        firsts.append(first)
    cover = min(range(1, len(totals)), key=lambda c: (c * int(totals[c][nights]), c))
    return Chains(_starts(nights, cover, firsts))


def _with_cover(less: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Least sum of depths by number of nights, and the night m that reaches it, from those with a cover one less."""
    size = less.size
    total, first = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for n in range(1, size):
        # m runs from 1 to n; what no chains reach stays at 2**61 and more, far above any sum of depths.
        choices = np.minimum(less[:n], 2**61) + 1 + total[n - 1 :: -1] + np.arange(n - 1, -1, -1)
        first[n] = int(np.argmin(choices)) + 1
        total[n] = choices[first[n] - 1]
    return total, first


def _starts(nights: int, cover: int, firsts: list[NDArray[np.int64]]) -> tuple[int, ...]:
    starts = [0] * nights
    parts = [(0, nights, cover)]  # nights offset + 1, ..., offset + n, whose chains go on at the offset
    while parts:
        offset, n, c = parts.pop()
        if n:
            m = int(firsts[c][n])
            starts[offset + m - 1] = offset
            parts += [(offset, m - 1, c - 1), (offset + m, n - m, c)]
    return tuple(starts)


@dataclass(frozen=True)
class Chained(Grid):
    """Law of the noise of one night: the sum of the increments' noises on its chain, all of one grid.

    Attributes
    ----------
    chain
        Nights whose noise is added; each is a stream of its own under the key of all nights.
    """

    chain: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a night without noise, and one that would get the same noise twice."""
        super().__post_init__()
        if not self.chain or len(set(self.chain)) < len(self.chain):
            raise ValueError("a chain has at least one night, and each once")

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the sum; ``variance`` and ``privacy_scale`` stay those of one increment."""
        return super().standard_deviation * sqrt(len(self.chain))

    @property
    def total_variation_per_draw(self) -> float:
        """Total variation distance of all draws of one entry on the chain together."""
        return super().total_variation_per_draw * len(self.chain)

    def draw(
        self, key: NoiseKey, rows: tuple[int, int], columns: tuple[int, int], symmetric: bool
    ) -> NDArray[np.int64]:
        """Sum of the noises of a block; see :func:`.discrete_gaussian.noise_block`."""
        total = np.zeros((rows[1] - rows[0], columns[1] - columns[0]), dtype=np.int64)
        for night in self.chain:
            total += noise_block(key, rows, columns, grid=self, symmetric=symmetric, stream=night)
        return total


def of_night(design: NoiseDesign, chains: Chains, night: int) -> NoiseDesign:
    """Noise of one night, from that of one increment; the same steps, so that all nights lie on one grid.

    Raises
    ------
    ValueError
        The noise is not Gaussian on a grid, or there is no such night.
    """
    if type(design.grid) is not Grid or design.strategy is not None:
        raise ValueError("nights share Gaussian noise on the answer itself")
    return replace(design, grid=Chained(design.grid.levels, chains.chain(night)))


def increment_design(
    spread: Spread, sensitivity: Sensitivity, scaling: Scaling, guarantee: ApproxDP, chains: Chains
) -> NoiseDesign:
    """Least Gaussian noise of one increment such that all nights together keep a guarantee.

    Parameters
    ----------
    spread, sensitivity, scaling
        Of one night's answer; see :func:`.additive.gaussian_design`.
    guarantee
        Of all nights together.
    chains
        Which night starts from which.

    Raises
    ------
    CannotCalibrate
        See :func:`.additive.gaussian_design`.
    """
    factor = sqrt(chains.cover)
    together = Sensitivity(sensitivity.bound * factor, sensitivity.attained * factor)
    # All increments are one release of T times the entries: rounding may move each of them, and each has its own draw.
    return gaussian_design(spread, together, scaling, guarantee, times=chains.nights)
