"""Linear classifiers from a released second moment of features and classes. All post-processing.

Classes are columns of 0 and 1 beside the features, one for each class, or one alone for two classes. With T for the
features' cross products about the mean, ``S_c`` for the sum of the features over class c, ``n_c`` for its records and
``m_c = S_c / n_c``, both rules need the second moment alone:

* *ridge*: one regression a class of its column on the features, ``w_c = (T + R)^-1 T_xc``;
* *lda*: ``w_c = n (W + R)^-1 m_c`` with ``W = sum over records xx' - sum over classes S_c S_c' / n_c``, the sum of
  squares within classes, and the constant ``log(n_c / n) - w_c m_c / 2``.

A record belongs to the class of the largest ``w_c x + b_c``.

Noise ruins the inverse long before it ruins the products: a direction in which records vary less than noise has an
eigenvalue that is noise alone, of either sign. So negative eigenvalues count as zero, and R is a multiple of the
largest eigenvalue that noise alone gives, ``2 d^0.5`` standard deviations of an entry, in coordinates in which the
noise is as large for each feature. Nothing here bounds how often a class is wrong: that depends on the records.

**Source**: Hoerl and Kennard, 1970 (ridge); Fisher, 1936, and Friedman, 1989 (regularised discriminant analysis);
Benaych-Georges and Nadakuditi, 2011 (largest eigenvalue of noise).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from blockveil.engine.estimates.noisy_moments import Array, NoisyMoments


class ClassRule(StrEnum):
    """How weights of classes follow from moments."""

    RIDGE = "ridge"
    LDA = "lda"


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Scores of classes, linear in the features; the largest one decides.

    Attributes
    ----------
    weights
        By class and feature, one over the feature's unit, shape (classes, d).
    constants
        By class, shape (classes,).
    """

    weights: Array
    constants: Array

    def of(self, rows: Array) -> Array:
        """Scores of rows in the features' units, shape (n, d) to (n, classes)."""
        scores: Array = rows @ self.weights.T + self.constants
        return scores


@dataclass(frozen=True, eq=False)
class _ByClass:
    """Moments that a rule needs, about the origin of the features, with one column for each class.

    Attributes
    ----------
    count
        n.
    products
        Sum of xx' over records, shape (d, d).
    sums
        Sum of x over the records of each class, shape (classes, d).
    counts
        Records of each class, shape (classes,), at least the standard deviation of their noise.
    whole
        Sum of x over all records, shape (d,).
    noise
        Standard deviation of an entry's noise as products ``a_j a_k``: a, shape (d,).
    """

    count: float
    products: Array
    sums: Array
    counts: Array
    whole: Array
    noise: Array

    @classmethod
    def of(cls, moments: NoisyMoments, labels: list[int], columns: list[int]) -> _ByClass:
        features, classes = np.array(columns) + 1, np.array(labels) + 1
        matrix, middle = moments.matrix, moments.origin[labels]
        count, whole = float(matrix[0, 0]), matrix[0, features]
        # A label y is seen as y - o: sum y x = sum (y - o) x + o sum x, and the same for its count.
        sums = matrix[np.ix_(classes, features)] + middle[:, None] * whole
        counts = matrix[0, classes] + middle * count
        least = np.sqrt(moments.variance[0, classes])
        if len(labels) == 1:
            sums, counts, least = (
                np.vstack([whole - sums, sums]),
                np.append(count - counts, counts),
                np.repeat(least, 2),
            )
        noise, _ = moments.of(columns).noise_units()
        products = matrix[np.ix_(features, features)]
        return cls(count, products, sums, np.maximum(counts, np.maximum(least, 1.0)), whole, noise)


def class_scores(
    moments: NoisyMoments, labels: list[int], columns: list[int], rule: ClassRule, ridge: float
) -> ClassScores:
    """Scores of classes from a released second moment.

    Parameters
    ----------
    moments
        Released moments, with the constant.
    labels
        Positions of the classes' columns of 0 and 1; a single one stands for the second of two classes.
    columns
        Positions of the features, none of them a label.
    rule
        How weights follow.
    ridge
        R, in units of the largest eigenvalue that noise alone gives; at least 0.

    Returns
    -------
    Of two classes where there is one label, and else of each label in order; in raw units.
    """
    classes = _ByClass.of(moments, labels, columns)
    weights, constants = (_ridge if rule is ClassRule.RIDGE else _lda)(classes, ridge)
    return ClassScores(weights, constants - weights @ moments.origin[columns])


def _ridge(found: _ByClass, ridge: float) -> tuple[Array, Array]:
    """Weights and constants for features about their origin."""
    mean, share = found.whole / found.count, found.counts / found.count
    within = found.products - np.outer(mean, found.whole)
    weights = _solved(within, found.noise, ridge, found.sums - share[:, None] * found.whole)
    return weights, share - weights @ mean


def _lda(found: _ByClass, ridge: float) -> tuple[Array, Array]:
    """Weights and constants for features about their origin."""
    means = found.sums / found.counts[:, None]
    weights = found.count * _solved(found.products - means.T @ found.sums, found.noise, ridge, means)
    return weights, np.log(found.counts / found.count) - np.einsum("cd,cd->c", weights, means) / 2.0


def _solved(matrix: Array, noise: Array, ridge: float, sides: Array) -> Array:
    """Rows ``(matrix + R)^-1 side`` for sides in rows, negative eigenvalues counted as zero; zero where singular."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0 / np.outer(noise, noise))
    added = np.maximum(values, 0.0) + ridge * 2.0 * np.sqrt(noise.size)
    least = 1e-12 * float(added.max(initial=0.0))
    inverse = np.divide(1.0, added, out=np.zeros_like(added), where=added > least)
    solution: Array = (sides / noise @ vectors) * inverse @ vectors.T / noise
    return solution
