"""Draws of mechanisms that mix globally, for study: the same bits in whatever blocks they are asked for.

Gaussian factors are addressed by position (:mod:`.discrete_gaussian`) and multiplied as whole numbers: float64
products of 13-bit limbs are exact in any order, and what is done to the sums afterwards is elementwise. So a block of
the answer, or a range of records, may be computed anywhere; no task needs a whole matrix. The factors are discrete (two
million steps a standard deviation) and nobody is charged: draws are for study, not a release.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.noise.discrete_gaussian import GRID_TWO_LEVEL, NoiseKey, noise_block
from blockveil.engine.records.geometry import Matrix

_WISHART_STREAM = 2
_SKETCH_STREAM = 3
_FLOOR_STREAM = 4
_LIMB_BITS = 13
_RECORD_BITS = 15
_PIECE = 2048

MOST_TERMS = 2**24
"""Largest number of degrees or records: limbs of 13 bits times 15 bits summed so often stay below 2**53."""

Span = tuple[int, int]


def wishart_noise(key: NoiseKey, degrees: int, scale: float, rows: Span, columns: Span) -> Matrix:
    """Block of Wishart noise ``scale * G'G``, G of shape (degrees, d).

    Parameters
    ----------
    key
        Key of the study.
    degrees
        m, at most 2**24.
    scale
        c, in squared units of a record.
    rows, columns
        Half-open ranges of the d x d matrix.

    Returns
    -------
    Shape (rows, columns), float64; symmetric over the whole matrix, bit for bit.
    """
    _check_terms(degrees)
    high, cross, low = (np.zeros((rows[1] - rows[0], columns[1] - columns[0])) for _ in range(3))
    for start in range(0, degrees, _PIECE):
        span = (start, min(start + _PIECE, degrees))
        left, right = (_limbs(_factor(key, span, side, _WISHART_STREAM)) for side in (rows, columns))
        # Whole numbers of at most 2**24 * 2**26 < 2**53: exact, in any order.
        high += left[0].T @ right[0]
        cross += left[0].T @ right[1] + left[1].T @ right[0]
        low += left[1].T @ right[1]
    total = (high * 2.0 ** (2 * _LIMB_BITS) + low) + cross * 2.0**_LIMB_BITS
    noise: Matrix = total * (scale / GRID_TWO_LEVEL.variance)
    return noise


def sketch(key: NoiseKey, records: Matrix, first: int, rows: Span, radius: float) -> tuple[Matrix, Matrix]:
    """Part of a Gaussian sketch: rows of ``G Y`` over a range of records, as whole numbers in two limbs that add up.

    Parameters
    ----------
    key
        Key of the study.
    records
        Public records ``first``, ``first + 1``, ..., shape (n, d); pulled back to the radius where longer.
    first
        Number of the first of them.
    rows
        Half-open range of rows of the sketch.
    radius
        R.

    Returns
    -------
    High and low limb, shape (rows, d) each, float64 holding whole numbers; add those of all ranges of records.
    """
    _check_terms(first + records.shape[0])
    whole = quantised(records, radius)
    high, low = (np.zeros((rows[1] - rows[0], records.shape[1])) for _ in range(2))
    for start in range(0, records.shape[0], _PIECE):
        stop = min(start + _PIECE, records.shape[0])
        limbs = _limbs(_factor(key, rows, (first + start, first + stop), _SKETCH_STREAM))
        # At most 2**24 * 2**(13 + 15) = 2**52: exact, in any order.
        high += limbs[0] @ whole[start:stop]
        low += limbs[1] @ whole[start:stop]
    return high, low


def finished_sketch(key: NoiseKey, limbs: tuple[Matrix, Matrix], rows: Span, radius: float, floor: float) -> Matrix:
    """Rows of ``G Y + w G_0`` from the limbs of all records, shape (rows, d); second moment ``Y'Y + w^2 I`` each.

    Parameters
    ----------
    key, rows, radius
        As for :func:`sketch`.
    limbs
        Sums of :func:`sketch` over all records.
    floor
        w.
    """
    extra = _factor(key, rows, (0, limbs[0].shape[1]), _FLOOR_STREAM).astype(np.float64)
    projected = (limbs[0] * 2.0**_LIMB_BITS + limbs[1]) * (radius * 2.0**-_RECORD_BITS)
    return np.asarray((projected + extra * floor) / GRID_TWO_LEVEL.standard_deviation)


def quantised(records: Matrix, radius: float) -> Matrix:
    """Records within a radius as whole numbers of ``radius * 2**-15``, truncated towards zero, float64."""
    squares = np.zeros(records.shape[0])
    for column in records.T:  # one by one: a row's length must not depend on the block that it comes in
        squares += column**2
    factor = 2.0**_RECORD_BITS / np.maximum(np.sqrt(squares), radius)
    integers: Matrix = np.trunc(records * factor[:, None])
    return integers


def _factor(key: NoiseKey, rows: Span, columns: Span, stream: int) -> NDArray[np.int64]:
    return noise_block(key, rows, columns, grid=GRID_TWO_LEVEL, symmetric=False, stream=stream)


def _limbs(values: NDArray[np.int64]) -> tuple[Matrix, Matrix]:
    """``values = 2**13 high + low``, low from 0 to 2**13 - 1; |values| < 2**25."""
    high = values >> _LIMB_BITS
    return high.astype(np.float64), (values - (high << _LIMB_BITS)).astype(np.float64)


def _check_terms(count: int) -> None:
    if count > MOST_TERMS:
        raise CalibrationError(f"{count} degrees or records; at most {MOST_TERMS} are drawn exactly; ask for fewer")
