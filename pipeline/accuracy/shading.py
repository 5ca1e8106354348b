"""Two matrices beside each other as text, for a terminal: the truth about simulated records, and their release."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.accuracy.rehearsal import Rehearsal

_MOST = 16
"""Cells of a side; of larger matrices of features the first ones are shown, of others the means of blocks."""

_RAMP = " .:-=+*#%@"

Table = NDArray[np.float64]


def side_by_side(made: Rehearsal) -> list[str]:
    """Lines of text: a heading, both matrices row by row, and what the signs mean.

    Correlations and directions are written as tenths, such as ``5`` for 0.5; other matrices as shades of their largest
    entry.
    """
    corner = bool(made.rows) and made.rows == made.columns and len(made.rows) > _MOST
    truth, released = (table[:_MOST, :_MOST] if corner else blocks(table) for table in (made.truth, made.released))
    signed = made.what.startswith(("correlation", "directions", "mean"))
    largest = max(float(np.nanmax(np.abs(truth), initial=0.0)), 1e-300)
    panels = [[_row(row, signed, largest) for row in table] for table in (truth, released)]
    width = len(panels[0][0])
    lines = ["  ".join(text.ljust(width) for text in ("true", "released")).rstrip()]
    lines += [f"{left}  {right}" for left, right in zip(*panels, strict=True)]
    legend = "in tenths: 5 is 0.5" if signed else f"from {_RAMP[1]} to {_RAMP[-1]}, the largest, {largest:.4g}"
    each = "" if truth.shape == made.truth.shape else "; each sign is the mean of a block"
    each = f", the first {_MOST} of {len(made.rows)} features" if corner else each
    return [f"{made.what}, {legend}{each}:", *lines]


def blocks(table: Table, most: int = _MOST) -> Table:
    """Means of blocks of a matrix, at most ``most`` along each side; the matrix itself where it is no larger."""
    for axis in (0, 1):
        if table.shape[axis] > most:
            starts = np.unique(np.linspace(0, table.shape[axis], most + 1).astype(int)[:-1])
            sums = np.add.reduceat(table, starts, axis=axis)
            lengths = np.diff(np.append(starts, table.shape[axis]))
            table = sums / (lengths[:, None] if axis == 0 else lengths)
    return table


def _row(values: Table, signed: bool, largest: float) -> str:
    return "".join(_sign(float(value), signed, largest) for value in values)


def _sign(value: float, signed: bool, largest: float) -> str:
    if not np.isfinite(value):
        return "  ?" if signed else "??"
    if signed:
        return f"{round(10.0 * min(max(value, -1.0), 1.0)) + 0:3d}"
    share = min(max(abs(value) / largest, 0.0), 1.0)
    return 2 * _RAMP[round(share * (len(_RAMP) - 1))]
