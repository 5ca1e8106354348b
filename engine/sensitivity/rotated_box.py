"""A box seen along dense directions: ``d = A s`` with all ``|s_j| <= 1``, and the exact loss of noise along them.

The loss is ``mu^2 = max of s' G s`` over signs s, ``G = A' K^-1 A``: convex, so at a corner of the box, but at which
one is a hard question (it contains the largest cut of a graph). So

* up to 16 generators every corner is tried: exact;
* beyond, up to 2,048, ``s' G s <= lambda_max(D^-1/2 G D^-1/2) sum D_jj`` for *any* positive diagonal D; the D tried is
  the dual of the semidefinite relaxation, whose bound is at most pi/2 of the truth in mu squared. No convergence is
  assumed: what is charged is the bound of the D at hand;
* the box that holds the rotated box, ``mu^2 <= sum_i (sum_j |A_ij|)^2 / K_i``, always holds and is all beyond 2,048.

Bounds are rounded up to 12 bits (30 where every corner was tried), so that a plan is the same on all machines, whose
linear algebra differs in last bits.

**Source**: Nesterov, 1998 (the relaxation and its factor); Journee, Nesterov, Richtarik and Sepulchre, 2010 (ascent).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity

_UP = 1.0 + 2.0**-46
_MOST_ENUMERATED = 16
_MOST_RELAXED = 2048
_ROUNDS = (10, 20, 40, 80, 160)
"""Steps of the search at which its bound is looked at; the last one ends it."""
_CLOSE = 1e-3
"""Relative distance from the relaxation's optimum, in mu squared, at which the search ends."""


@dataclass(frozen=True, eq=False)
class RotatedBox:
    """``d = A s`` with ``|s_j| <= 1``; ``bound`` of a loss is attained up to 16 generators, else an upper bound.

    Attributes
    ----------
    generators
        A, shape (n, k): what each of the box's k half widths adds to each of the n entries.
    """

    generators: Matrix

    def __post_init__(self) -> None:
        """Keep a private copy."""
        generators = np.array(self.generators, dtype=np.float64)
        if generators.ndim != 2 or not np.all(np.isfinite(generators)) or not np.any(generators):
            raise CalibrationError("generators are a finite matrix that is not all zero; give one column a half width")
        generators.setflags(write=False)
        object.__setattr__(self, "generators", generators)

    def mu(self, variances: ArrayLike) -> Sensitivity:
        """Largest ``|K^-1/2 d|`` for independent noise, at a corner: all of them tried, or a certified bound.

        Parameters
        ----------
        variances
            K, shape (n,), positive; infinite where an entry is not released.

        Raises
        ------
        CalibrationError
            A variance is zero, negative or no number, or there are not n of them.
        """
        return self.worst(variances)[0]

    def worst(self, variances: ArrayLike) -> tuple[Sensitivity, Vector]:
        """The loss as in :meth:`mu`, and the signs of a corner that attains ``attained``, shape (k,)."""
        deviations = np.sqrt(self._checked(variances))
        weighted = self.generators / deviations[:, None]
        n, k = weighted.shape
        size = float(np.max(np.abs(weighted)))
        if size == 0.0:
            return Sensitivity(0.0, 0.0), np.ones(k)
        used = np.flatnonzero(np.any(weighted != 0.0, axis=0))
        signs = np.ones(k)
        unit = weighted[:, used] / size
        # |M s| errs by at most (k sqrt(n) + n) 2**-53 of the largest, which is no less than any sum of a row's entries.
        margin = 1.0 + (k * math.sqrt(n) + n + 64.0) * 2.0**-51
        if used.size <= _MOST_ENUMERATED:
            signs[used], attained = _enumerated(unit)
            bound = _few_bits(attained * margin, 30)
        else:
            signs[used], attained, bound = _relaxed(unit)
            bound = _few_bits(max(bound, attained) * margin, 12)
        # Scaling by the largest entry rounds twice.
        return Sensitivity(bound * size * _UP, attained * size), signs

    def _checked(self, variances: ArrayLike) -> Vector:
        noise = np.asarray(variances, dtype=np.float64)
        if noise.shape != self.generators.shape[:1] or not np.all(noise > 0):
            raise CalibrationError(
                f"{noise.size} variances are given for {self.generators.shape[0]} entries; each must be positive; "
                "use infinity for an entry that is not released"
            )
        return noise


def _enumerated(weighted: Matrix) -> tuple[Vector, float]:
    """A longest corner ``|M s|`` of all, the last sign being plus, and its length."""
    k = weighted.shape[1]
    patterns = (np.arange(2 ** (k - 1))[:, None] >> np.arange(k)) & 1
    signs = 1.0 - 2.0 * patterns
    reach = signs @ weighted.T
    lengths = np.sqrt(np.einsum("ij,ij->i", reach, reach))
    best = int(np.argmax(lengths))
    return signs[best], float(lengths[best])


def _relaxed(weighted: Matrix) -> tuple[Vector, float, float]:
    """Signs of a long corner, its length, and an upper bound of the longest."""
    hull = float(np.linalg.norm(np.sum(np.abs(weighted), axis=1)))
    k = weighted.shape[1]
    if k > _MOST_RELAXED:
        signs, attained = _ascent(weighted, np.sign(weighted[:8].T))
        return signs, attained, hull
    gram = weighted.T @ weighted
    vectors = np.cos(np.sqrt(2.0) * np.outer(np.arange(1, k + 1), np.arange(1, math.isqrt(2 * k) + 3)))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    bound = hull
    for turn in range(1, _ROUNDS[-1] + 1):
        pulled = gram @ vectors
        lengths = np.maximum(np.linalg.norm(pulled, axis=1), 1e-300)
        if turn in _ROUNDS:
            bound = min(bound, _certified(gram, lengths, weighted.shape[0]))
            if bound**2 <= float(np.sum(pulled * vectors)) * (1.0 + _CLOSE):
                break
        vectors = pulled / lengths[:, None]
    signs, attained = _ascent(weighted, np.sign(vectors))
    return signs, attained, bound


def _certified(gram: Matrix, diagonal: Vector, entries: int) -> float:
    """``sqrt(lambda_max(D^-1/2 G D^-1/2) sum D)``, rounded up: no corner is longer, whatever D is."""
    root = np.sqrt(diagonal)
    largest = max(float(np.linalg.eigvalsh(gram / root[:, None] / root[None, :])[-1]), 0.0)
    # A Gram matrix of n entries errs by at most n 2**-53 of its trace, the solver by a small multiple of k 2**-53 of
    # it; the trace is at most k times the largest eigenvalue.
    k = gram.shape[0]
    return float(math.sqrt(largest * float(np.sum(diagonal))) * (1.0 + k * (entries + k) * 2.0**-48))


def _ascent(weighted: Matrix, starts: Matrix) -> tuple[Vector, float]:
    """A longest of the corners reached from some, columns of shape (k, starts): each step lengthens, as G is convex."""
    signs = np.where(starts < 0, -1.0, 1.0)
    for _ in range(100):
        turned = np.where(weighted.T @ (weighted @ signs) < 0, -1.0, 1.0)
        if np.array_equal(turned, signs):
            break
        signs = turned
    lengths = np.linalg.norm(weighted @ signs, axis=0)
    best = int(np.argmax(lengths))
    # A length of the corner itself, less what its computation may have rounded up.
    return signs[:, best], float(lengths[best]) * (1.0 - weighted.size * 2.0**-52)


def _few_bits(value: float, bits: int) -> float:
    """The least number with a given number of binary digits that is not below the value."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(math.ldexp(mantissa, bits)), exponent - bits)
