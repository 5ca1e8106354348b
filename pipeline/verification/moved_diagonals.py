"""How far one record moves a second moment whose diagonal has noise of its own.

Off the diagonal the noise is isometric. Entry i of the diagonal has a size ``s_i`` by itself, and n further numbers of
that law are added, in proportion to ``s_i``, each ``t_i`` times: once, and to the constant's entry as often as is
stated, or never. So with w the squared inverse sizes by row, a change D counts as

``sum over i != j of w_i w_j D_ij^2 + |x|^2 - n / (1 + n |t|^2) (t'x)^2``,  ``x_i = D_ii / s_i``.

The last two terms are those of the inverse of ``I + n tt'``, by Sherman and Morrison.

**Bound** for a record that is added: with ``u_i = k_i^2 / K^2``, the second derivative in one u_i is twice ``1 - n /
(1 + n |t|^2)`` over the square of ``s_i``, never negative, so that the largest value is at a corner, where each u_i is
zero or its largest. All corners are gone through up to 14 features, or one for each number of features where these are
alike. No bound is known here for two records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.verification.moved_moments import Pair, pairs
from blockveil.pipeline.verification.stated_numbers import Moved, stated_number, weights
from blockveil.pipeline.verification.stated_shapes import Shape

_MOST_CORNERS = 14
"""Most features of which every corner is looked at."""

_ROUNDED = 1.0 + 1e-9
"""More than the roundings of sums of some hundred floats, also where they cancel; of sums that do not, see below."""

_ROUNDED_UP = 1.0 + 1e-13

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Noise:
    """Squared inverse sizes by row, inverse sizes of the diagonal, how often each takes what is shared, and n."""

    rows: Floats
    diagonal: Floats
    taken: Floats
    shared: float

    def of_records(self, squares: Floats) -> Floats:
        """What records that are added count as, squared; squares of their coordinates, shape (records, features)."""
        whole = (squares @ self.rows) ** 2 - squares**2 @ self.rows**2
        return whole + self._of_diagonals(squares)

    def of_pair(self, pair: Pair, largest: int) -> float:
        """What a record that is replaced counts as, squared."""
        first, second = (np.array(record, dtype=np.float64) / largest for record in pair)
        ways = ((first, first), (second, second), (first, second))
        a, b, product = (float(np.sum(self.rows * one * other)) for one, other in ways)
        own = (first**2 - second**2)[None, :]
        squared_distance = a**2 + b**2 - 2.0 * product**2 - float(np.sum((self.rows * own) ** 2))
        return squared_distance + float(self._of_diagonals(own)[0])

    def _of_diagonals(self, own: Floats) -> Floats:
        x, common = own * self.diagonal, self.shared / (1.0 + self.shared * float(np.sum(self.taken**2)))
        squared_lengths: Floats = np.sum(x**2, axis=1) - common * (x @ self.taken) ** 2
        return squared_lengths


def own_diagonal(
    shape: Shape, spread: Sequence[float], lead: int, diagonal: Mapping[str, Any], *, replaced: bool
) -> Moved:
    """In the norm of the noise.

    Parameters
    ----------
    shape
        Of a record.
    spread
        Sizes of the noise by row, the constant's first.
    lead
        Number of constant coordinates, 0 or 1.
    diagonal
        As the release states it.
    replaced
        Whether a record is replaced; else it is added or removed.

    Raises
    ------
    KeyError, ValueError
        The diagonal is not stated, or no diagonal.
    """
    gain, shared = stated_number(diagonal, "gain"), stated_number(diagonal, "shared")
    parameters = {"power": 2.0, "lead": 0, "first": 1.0, "times": 0, **diagonal}
    power, leads, first, times = (stated_number(parameters, key) for key in ("power", "lead", "first", "times"))
    if leads != lead or gain <= 0.0 or first <= 0.0:
        raise ValueError("diagonal")
    sizes, d = np.asarray(spread), shape.features
    own = np.sqrt(gain) * sizes**-power
    own[:lead] = np.sqrt(first) * sizes[:lead] ** -2.0
    noise = _Noise(sizes**-2.0, own, np.array([times] * lead + [1.0] * d), shared)
    inverse = weights(spread, 2).least
    if replaced:
        least = max(noise.of_pair(pair, shape.largest) for pair in pairs(shape, inverse, lead))
        return Moved(Fraction(least / _ROUNDED), None)
    furthest = np.array(shape.furthest(inverse[lead:]), dtype=np.float64) / shape.largest
    # Records with the features of most weight at their ends, and the others at the origin.
    order = np.argsort(-noise.rows[lead:], kind="stable")
    some = np.zeros((d + 1, d))
    some[:, order] = np.tri(d + 1, d, -1) * furthest[order] ** 2
    least = float(np.max(noise.of_records(_behind(some, lead))))
    corners = _corners(shape, noise, lead)
    if corners is None:
        return Moved(Fraction(least / _ROUNDED), None)
    # Sums of squares, less a part of them that is never near to all: a few roundings of the result.
    return Moved(Fraction(least / _ROUNDED), Fraction(float(np.max(noise.of_records(corners))) * _ROUNDED_UP))


def _corners(shape: Shape, noise: _Noise, lead: int) -> Floats | None:
    """Squares of all records that have each feature at the origin or at its further end, or of one of each kind."""
    d, ends = shape.features, (np.array(shape.bounds, dtype=np.float64) / shape.largest) ** 2
    alike = all(float(np.ptp(each)) == 0.0 for each in (ends, noise.rows[lead:], noise.diagonal[lead:]))
    if not shape.box or not (alike or d <= _MOST_CORNERS):
        return None
    corners = np.tri(d + 1, d, -1) if alike else (np.arange(2**d)[:, None] >> np.arange(d)[None, :]) & 1
    return _behind(corners * ends, lead)


def _behind(squares: Floats, lead: int) -> Floats:
    """Squares of coordinates behind that of the constant."""
    return np.hstack([np.ones((len(squares), lead)), squares])
