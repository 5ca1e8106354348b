"""Leading directions of a second moment by the exponential mechanism: exact matrix Bingham draws.

A frame V, shape (d, k) with orthonormal columns, is drawn with density proportional to ``exp(c tr V'AV)`` for the sum
``A = sum x x'`` of records in the unit ball. One record contributes ``|V'x|^2``, between 0 and 1. Hence, c being the
concentration,

* add-remove: the exponent changes by between 0 and c, in one direction, and so does the logarithm of its integral; the
  loss is at most c. So ``c = epsilon``.
* replace-one: the exponent changes by between -c and c, and so does the integral: ``c = epsilon / 2``.

Both are tight: for data whose draws concentrate where the record weighs least the integral hardly changes. The
published constant (``n epsilon / 2`` on ``A / n``) is the second one; it is valid for both relations and wastes a
factor of 2 under add-remove. In both cases the loss varies over outputs by at most epsilon, so it is also ``epsilon^2 /
8``-zero-concentrated.

Draws are by rejection from angular central Gaussian frames, ``V = Y (Y'Y)^(-1/2)`` with columns of Y from ``N(0,
W^-1)``, whose density is proportional to ``det(V'WV)^(-d/2)``. In eigenvectors of A let ``r_i = c (lambda_k -
lambda_i)``, R the diagonal matrix of their positive and T that of their negative parts, ``W = I + 2 R / b``. The target
is ``exp(tr V'TV - tr V'RV)``. With u the eigenvalues of ``V'RV`` its ratio to the envelope is ``exp(tr V'TV) prod
exp(-u) (1 + 2 u / b)^(d/2)``. The first factor is at most ``exp(tr T)``, since ``VV' <= I``; each other one is
at most ``exp(-(d - b) / 2) (d / b)^(d/2)``, its value at ``u = (d - b) / 2``. So an accepted frame has exactly the law,
for any k; the number of proposals grows like ``d^(k/2)`` at least. Where that is too many, k successive draws of one
direction each from what is orthogonal to the earlier ones are private by composition.

What is not claimed. A Gibbs chain (Hoff, 2009), with which such mechanisms have been run, has the law only in the
limit; after finitely many steps its distance from it enters delta and no useful bound of that distance is known: not
pure. The draw here is exact in real arithmetic, but runs on floats, on an eigendecomposition of the private matrix.
Floats tell neighbours apart in principle, so the guarantee is one of the law, not of this program: :data:`CERTIFIED` is
False, and no ledger may book it. It is for studies of frames; what releases is
:mod:`.exact_bingham`.

**Source**: Chaudhuri, Sarwate and Sinha, 2013, algorithm PPCA; Kent, Ganeiban and Mardia, 2013 (envelope);
Cesar and Rogers, 2021 (bounded range).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ZCDP, Neighbours, PureDP
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Matrix, Vector

CERTIFIED = False
"""Whether the program, not only the law, is proven private; it is not, see above."""

Uniforms = Callable[[int, int], Vector]
"""Gives a number of uniform numbers in (0, 1) for a number of a batch."""

_LANE = 32
_BATCH = 64
_MOST_BATCHES = 20_000
_WORDS_A_CALL = 2**15


@dataclass(frozen=True)
class BinghamDraw:
    """Calibrated draw of leading directions.

    Attributes
    ----------
    count
        Number k of directions.
    concentration
        c, for each draw, of the sum of outer products of records in the unit ball.
    joint
        Whether all directions are drawn as one frame; else successively.
    epsilon
        Loss of the law, in all.
    """

    count: int
    concentration: float
    joint: bool
    epsilon: float

    @property
    def pure(self) -> PureDP:
        """Loss of the law; see :data:`CERTIFIED` for that of the program."""
        return PureDP(self.epsilon)

    @property
    def zcdp(self) -> ZCDP:
        """What bounded range gives: ``epsilon^2 / 8`` for each draw, rounded up. **Source**: Cesar and Rogers, 2021."""
        draws = 1 if self.joint else self.count
        return ZCDP((self.epsilon / draws) ** 2 / 8.0 * draws * (1.0 + 1e-12))


def directions(count: int, epsilon: float, neighbours: Neighbours, joint: bool) -> BinghamDraw:
    """Largest concentration for a loss.

    Parameters
    ----------
    count
        Number k of directions, at least 1.
    epsilon
        Loss of the law.
    neighbours
        Neighbouring relation; records lie in the unit ball.
    joint
        One frame at the whole epsilon, or k successive directions at ``epsilon / k`` each.

    Raises
    ------
    CalibrationError
        The count or epsilon is out of range.
    """
    PureDP(epsilon)
    if count < 1:
        raise CalibrationError(f"count is {count}; at least one direction is drawn; give a positive count")
    share = epsilon if joint else epsilon / count
    scale = 1.0 if neighbours is Neighbours.ADD_REMOVE else 0.5
    return BinghamDraw(count, share * scale * (1.0 - 1e-12), joint, epsilon)


def published_concentration(epsilon: float) -> float:
    """PPCA's constant in units of the sum: ``epsilon / 2``, for both relations and any number of directions.

    **Source**: Chaudhuri, Sarwate and Sinha, 2013.
    """
    PureDP(epsilon)
    return epsilon / 2.0


def key_uniforms(key: NoiseKey, stream: int, draw: int) -> Uniforms:
    """Uniform numbers of 53 bits from a key, in a lane of their own.

    Parameters
    ----------
    key
        Key of the release.
    stream
        Number of an independent matrix under the same key, below 2**16.
    draw
        Number of the draw within it, below 2**32.
    """

    def uniforms(batch: int, count: int) -> Vector:
        head = stream.to_bytes(2) + bytes((_LANE, 0)) + draw.to_bytes(4) + batch.to_bytes(4)
        parts = [
            key.stream(head + (start // 2).to_bytes(4), 8 * min(_WORDS_A_CALL, count - start))
            for start in range(0, count, _WORDS_A_CALL)
        ]
        words = np.frombuffer(b"".join(parts), dtype="<u8")
        numbers: Vector = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return numbers

    return uniforms


def draw_directions(key: NoiseKey, second_moment: Matrix, design: BinghamDraw, stream: int = 0) -> Matrix:
    """Leading directions of a second moment, as a pure function of key and matrix. Not certified, see the module.

    Parameters
    ----------
    key
        Key of the release.
    second_moment
        ``sum x x'`` of records in the unit ball, shape (d, d), d at least 2 and above the count.
    design
        Calibrated draw.
    stream
        Number of an independent release under the same key.

    Returns
    -------
    Orthonormal columns, shape (d, k).

    Raises
    ------
    CalibrationError
        The matrix is not square, symmetric and finite, too small for the count, or no proposal was accepted.
    """
    dimension = second_moment.shape[0]
    if second_moment.shape != (dimension, dimension) or not np.all(np.isfinite(second_moment)):
        raise CalibrationError("the second moment is not a finite square matrix; sum outer products of clipped records")
    if not np.array_equal(second_moment, second_moment.T):
        raise CalibrationError("the second moment is not symmetric; copy its upper triangle down")
    if design.count >= dimension:
        raise CalibrationError(f"count is {design.count}; it must be below the dimension {dimension}; ask for fewer")
    if design.joint:
        return _frame(second_moment, design.count, design.concentration, key_uniforms(key, stream, 0))
    basis = np.eye(dimension)
    directions = np.empty((dimension, 0))
    for draw in range(design.count):
        inner = _frame(basis.T @ second_moment @ basis, 1, design.concentration, key_uniforms(key, stream, draw))
        directions = np.hstack([directions, basis @ inner])
        # What is orthogonal to released directions, found from them alone.
        basis = np.linalg.qr(directions, mode="complete")[0][:, draw + 1 :]
    return directions


def _frame(second_moment: Matrix, count: int, concentration: float, uniforms: Uniforms) -> Matrix:
    if second_moment.shape[0] == 1:
        return np.array([[1.0 if uniforms(0, 1)[0] < 0.5 else -1.0]])
    values, vectors = np.linalg.eigh((second_moment + second_moment.T) / 2.0)
    rates = concentration * (values[-1] - values)
    for batch in range(_MOST_BATCHES):
        frames, accepted = proposals(rates, count, uniforms, batch)
        if np.any(accepted):
            frame: Matrix = vectors @ frames[int(np.argmax(accepted))]
            return frame
    raise CalibrationError(f"no frame of {count} directions was accepted; draw them successively instead")


def proposals(
    rates: Vector, count: int, uniforms: Uniforms, batch: int, size: int = _BATCH
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Proposed frames in eigenvectors, and which of them have the law ``exp(-tr V' diag(rates) V)``.

    Parameters
    ----------
    rates
        Shape (d,), ascending or not; a common constant changes nothing.
    count
        k, below d.
    uniforms
        Source of randomness.
    batch
        Number of the batch.
    size
        Number n of proposals in it.

    Returns
    -------
    Frames, shape (n, d, k), and acceptance, shape (n,).
    """
    d, relative = rates.size, rates - np.sort(rates)[count - 1]
    rest, lead = np.maximum(relative, 0.0), np.maximum(-relative, 0.0)
    b = envelope(rest)
    numbers = uniforms(batch, size * (d * count + 1)).reshape(size, d * count + 1)
    normal = ndtri(numbers[:, 1:]).reshape(size, d, count) / np.sqrt(1.0 + 2.0 * rest / b)[:, None]
    left, _, right = np.linalg.svd(normal, full_matrices=False)
    frames = left @ right
    u = np.maximum(np.linalg.eigvalsh(np.einsum("nik,i,nil->nkl", frames, rest, frames)), 0.0)
    # Each factor is at most its value at u = (d - b) / 2.
    excess = np.sum(0.5 * d * np.log((1.0 + 2.0 * u / b) * (b / d)) - u + 0.5 * (d - b), axis=1)
    # tr V'TV <= tr T.
    excess += np.einsum("nik,i->n", frames**2, lead) - np.sum(lead)
    return frames, np.log(numbers[:, 0]) < excess


def envelope(rates: Vector) -> float:
    """The b of the tightest envelope: ``sum 1 / (b + 2 rate_i) = 1``, between 1 and d, for rates from zero on.

    Any b in (0, d] is exact; this one is accepted most often.

    **Source**: Kent, Ganeiban and Mardia, 2013.
    """
    d = float(rates.size)
    if d == 1.0 or float(np.max(rates)) == 0.0:
        return d
    from scipy.optimize import brentq  # takes long to import, and a plan imports every mechanism

    return min(d, float(brentq(lambda b: float(np.sum(1.0 / (b + 2.0 * rates))) - 1.0, 0.5, d + 1.0)))


def captured_variance(second_moment: Matrix, frame: Matrix) -> float:
    """Share of the largest possible ``tr V'AV`` that a frame captures, q_F; in [0, 1]. Not private: for studies."""
    best = float(np.sum(np.linalg.eigvalsh(second_moment)[-frame.shape[1] :]))
    return float(np.einsum("ik,ij,jk->", frame, second_moment, frame)) / best


def expected_sine_distance(spectrum: Vector, count: int, concentration: float) -> float:
    """Expected squared sine distance of the drawn from the true leading subspace, first order; at most k.

    ``sum_(i <= k < j) 1 / (2 c (lambda_i - lambda_j))``: near its mode the law is Gaussian with these variances.
    Infinite gaps cost nothing; no gap gives the trivial bound.

    Parameters
    ----------
    spectrum
        Eigenvalues of the sum (assumed or released), shape (d,).
    count, concentration
        k and c of each draw.
    """
    values, k = np.sort(spectrum)[::-1], count
    gaps = values[:k, None] - values[None, k:]
    with np.errstate(divide="ignore"):
        terms = np.minimum(1.0, 1.0 / (2.0 * concentration * gaps))
    return min(float(np.sum(terms)), float(min(k, values.size - k)), math.inf)
