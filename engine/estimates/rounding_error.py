"""What rounding at places by content adds to the error of sums, in coordinates, beside the noise.

A value that is rounded at one of N even places is off by e steps with mean t at most (the tilt of the places) and
variance at most 1/4 + t over the starts of contents (:mod:`.dither`, :mod:`.fine_dither`). Records of one content are
rounded alike; contents are not. Of n records of which no content occurs more than m times, with n_c of content c, a sum
of single coordinates is off with variance at most ``(1/4 + t) K^-2 sum n_c^2 <= (1/4 + t) K^-2 n m``. A feature whose
values are integers is rounded by nothing. So with

    r_j^2 = (1/4 + t) n m / K^2 + (n t / K)^2    where feature j is rounded, 0 elsewhere and for the constant,

r_j bounds the root of the mean square of a sum's error. A product of two coordinates of at most one is off by
``v f + w e + e f``. The first two add ``r_i + r_j`` at most; the last has a mean of at most ``(1/4 + t) n / K^2`` and
deviates by at most ``sqrt(n m) / K^2``, which is ``c r_i r_j`` with ``c = 1 / m + 4 / sqrt(n m)``. So the root mean
square of an entry's error is at most ``r_i + r_j + c r_i r_j``, also in the row of the constant, where it is r_j.

Without an assumption about contents a single value is off by less than a step: a sum of n coordinates by less than
``n / K``, one of products by less than ``n (2 / K + 1 / K^2)``, and a mean by less than ``1 / K``.

**Source**: derived here. The sum over contents is Hoelder's inequality.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.noise.design import NoiseDesign

Array = NDArray[np.float64]
Places = NDArray[np.intp]
Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class RoundingError:
    """Root mean square errors by rounding, of sums of products of coordinates.

    Attributes
    ----------
    rows, columns
        r of each coordinate of either side, that of a constant 0, shapes (p,) and (q,).
    second_order
        c.
    """

    rows: Array
    columns: Array
    second_order: float

    def deviations(self, rows: Span | None = None, columns: Span | None = None) -> Array:
        """Of sums of products, all or a block of them, by half-open ranges of coordinates."""
        down = self.rows if rows is None else self.rows[slice(*rows)]
        across = self.columns if columns is None else self.columns[slice(*columns)]
        deviation: Array = np.add.outer(down, across) + self.second_order * np.outer(down, across)
        return deviation

    def at(self, rows: Places, columns: Places) -> RoundingError:
        """The same of some coordinates of either side."""
        return replace(self, rows=self.rows[rows], columns=self.columns[columns])

    def beside(self, noise: Array, rows: Span | None = None, columns: Span | None = None) -> Array:
        """Root of the sum of squares of a block of noise and of its rounding."""
        return np.hypot(noise, self.deviations(rows, columns))


def entry_deviations(design: NoiseDesign, rounding: RoundingError | None) -> Array:
    """Standard deviation of the error of every entry: of its noise, and of the rounding of records where it is known.

    Plans and releases both state this one.
    """
    noise = design.entry_standard_deviation()
    return noise if rounding is None else rounding.beside(noise)


def extremes(
    design: NoiseDesign, rounding: RoundingError | None, lead: int = 0
) -> tuple[NoiseDesign, RoundingError | None]:
    """Few coordinates among whose entries are the least and the largest error of all; see :meth:`NoiseDesign.extremes`.

    Parameters
    ----------
    design, rounding
        Of an answer.
    lead
        Constant coordinates in front, which stay.
    """
    if rounding is None:
        return design.extremes(lead), None
    # Of coordinates with the same error by rounding, that of an entry grows with its noise.
    rows = _outermost(design.spread.rows, rounding.rows, lead)
    columns = _outermost(design.spread.columns, rounding.columns, lead)
    spread = replace(design.spread, rows=design.spread.rows[rows], columns=design.spread.columns[columns])
    return replace(design, spread=spread), rounding.at(rows, columns)


def _outermost(noise: Array, rounding: Array, lead: int) -> Places:
    """The lead, and of each size of errors by rounding the two coordinates of least and of most noise."""
    groups = [np.arange(lead)]
    for size in np.unique(rounding[lead:]):
        alike = lead + np.flatnonzero(rounding[lead:] == size)
        order = alike[np.argsort(noise[alike], kind="stable")]
        groups += [order[:2], order[-2:]]
    places: Places = np.unique(np.concatenate(groups)).astype(np.intp)
    return places


def of_coordinates(rounded: NDArray[np.bool_], largest: int, records: int, alike: int, tilt: float) -> Array:
    """Return r of each coordinate, shape of ``rounded``.

    Parameters
    ----------
    rounded
        Whether values of a coordinate are no integers.
    largest
        K.
    records
        n, the largest number of records.
    alike
        m, how often one content occurs at most.
    tilt
        t of the places.
    """
    of_contents = sqrt((0.25 + tilt) * records * min(alike, records)) / largest
    return np.where(rounded, float(np.hypot(of_contents, records * tilt / largest)), 0.0)


def second_order(records: int, alike: int) -> float:
    """c; parameters as for :func:`of_coordinates`."""
    m = min(alike, records)
    return 1.0 / m + 4.0 / sqrt(records * m)
