"""Correlations and partial correlations from a released second moment, and how noise moves them. All post-processing.

A correlation is the ratio of what was released where first order states all errors and the ratios are those of some
records, and else simulated (:mod:`.likely_moments`). A partial correlation is always the ratio.

Shortening records to a learned ellipsoid takes about as much of a covariance as of the variances, which leaves ratios
as they are. So a correlation is as far off as noise makes it and beside that
``(0.05^2 s_i s_j + (0.05 q (s_i + s_j))^2)^0.5``, s being the shares that shortening takes from the two variances
(:mod:`.shortening`). The two numbers are as found for normal, skewed and heavy-tailed records; where the few far out
are correlated otherwise than all others, it is more.

Both are ratios ``q_ij = P_ij / sqrt(P_ii P_jj)``: a correlation of the cross products T about the mean, a partial
correlation the negative of that of their inverse. With B for the centring and ``b_i`` for row i of B, or of
``T^-1 B``, over ``sqrt(P_ii)``, a ratio moves to first order by

    ``dq_ij = b_i'N b_j - (q_ij / 2) (b_i'N b_i + b_j'N b_j)``   (with the other sign for an inverse: ``dP = -P dT P``).

A partial correlation given chosen features is that of residuals, ``P = W T W'`` for the weights W that regression on
these features leaves, and ``b_i`` is row i of W B: a change of the slopes changes P by second order alone.

Its variance is made of the covariances of such forms, see :mod:`.noisy_moments`.

**Source**: derived here; Whittaker, 1990, section 5.7 (partial correlations as entries of the scaled inverse).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.likely_moments import LikelyMoments
from blockveil.engine.estimates.matrices import Estimate
from blockveil.engine.estimates.noisy_moments import Array, NoisyMoments, Statistic, cross_products

_OfPairs = tuple[Array, Array, Array, Array]
_OfOwnNoise = Callable[[Array, Array], _OfPairs]

_OF_ANY, _OF_ITS_OWN = 0.05, 0.1
"""What shortening moves a correlation by, over the share that it takes: any, and in proportion to it."""


def correlation(moments: NoisyMoments) -> Estimate:
    """Best estimate of the correlation of each pair of features, shape (d, d), and its standard error from noise.

    Values are those of a positive semi-definite matrix with a unit diagonal, and none is NaN. Both are the ratios of
    what was released where first order states all their errors and they are such a matrix, and else those of simulated
    moments.
    """
    raw = _ratio_of_entries(moments.noise_alone)
    if not np.all(np.isfinite(moments.matrix)):
        unknown = np.full(raw.value.shape, np.inf)
        np.fill_diagonal(unknown, 0.0)
        return Estimate(np.eye(moments.features), unknown)
    if np.all(np.isfinite(raw.standard_deviation)) and np.linalg.eigvalsh(raw.value)[0] >= 0.0:
        return _beside_shortening(raw, moments)

    def of(stack: Array) -> Array:
        return np.nan_to_num(_ratios(cross_products(stack, moments.constant)), posinf=0.0, neginf=0.0)

    with np.errstate(all="ignore"):
        estimate = LikelyMoments(moments).estimate(of)
    value, error = (np.clip((part + part.T) / 2.0, -1.0, 1.0) for part in (estimate.value, estimate.standard_deviation))
    np.fill_diagonal(value, 1.0)
    np.fill_diagonal(error, 0.0)
    return _beside_shortening(Estimate(value, error), moments)


def _beside_shortening(found: Estimate, moments: NoisyMoments) -> Estimate:
    """With what shortening takes in the error; a feature's correlation with itself is one all the same."""
    if (share := moments.shortened) is None:
        return found
    root, value = np.sqrt(share), np.nan_to_num(found.value)
    own = np.hypot(_OF_ANY * np.outer(root, root), _OF_ITS_OWN * np.add.outer(share, share) / 2.0 * value)
    np.fill_diagonal(own, 0.0)
    return Estimate(found.value, np.hypot(found.standard_deviation, own))


def nothing_learnt(found: Estimate) -> NDArray[np.bool_]:
    """Pairs of which a release tells no more than what its correlations are like on the whole, shape (d, d).

    Whoever knows of a pair only that it is one of these states zero, whose error is their root mean square. Where the
    stated error is 0.7 times that or more, zero was as good in simulations (see :mod:`.likely_moments`).
    """
    pairs = np.triu_indices(len(found.value), 1)
    size = np.sqrt(np.mean((found.value**2 + found.standard_deviation**2)[pairs])) if pairs[0].size else 0.0
    return np.asarray((found.standard_deviation > 0.0) & (found.standard_deviation >= 0.7 * size))


def raw_correlation(moments: NoisyMoments) -> Estimate:
    """Ratio of the released entries of each pair of features, shape (d, d), and its standard error from noise.

    Values lie between -1 and 1, and are NaN where a released variance is not positive. A standard error is infinite
    where noise is too large to state one. The moments have a constant coordinate.
    """
    return _beside_shortening(_ratio_of_entries(moments.noise_alone), moments)


def _ratio_of_entries(moments: NoisyMoments) -> Estimate:
    """The same with errors by noise alone."""

    def of(stack: Array) -> Array:
        return _ratios(cross_products(stack, moments.constant))

    of_own = _of_centred_noise if moments.constant else _of_own_noise
    with np.errstate(all="ignore"):
        forms = moments.centring.T / np.sqrt(np.diagonal(moments.products))
        ratios = of(moments.matrix[None])[0]
        deviation = _combined(ratios, *_of_pairs(forms, moments, of_own))
    return _estimate(moments, of, deviation)


def partial_correlation(moments: NoisyMoments, given: Sequence[int] | None = None) -> Estimate:
    """Correlation of each pair of features given others; as :func:`correlation`.

    All of them are NaN where the released products are not those of any records.

    Parameters
    ----------
    moments
        The second moment of all features that take part.
    given
        Positions of the features that all pairs are given, which leaves the k others, in their order: values have
        shape (k, k). Where it is None, each pair is given all others, of shape (d, d).
    """
    products = moments.products
    size = moments.features - len(given or ())
    if not _definite(products):
        return Estimate(np.full((size, size), np.nan), np.full((size, size), np.inf))
    return _given_all_others(moments) if given is None else _given(moments, list(given))


def _given_all_others(moments: NoisyMoments) -> Estimate:
    def of(stack: Array) -> Array:
        ratios = -_ratios(_inverted(cross_products(stack, moments.constant)))
        ratios[:, range(moments.features), range(moments.features)] *= -1.0
        return ratios

    inverse = _inverted(moments.products[None])[0]
    forms = (inverse @ moments.centring).T / np.sqrt(np.diagonal(inverse))
    deviation = _combined(_ratios(inverse[None])[0], *_of_pairs(forms, moments, _of_own_noise))
    return _estimate(moments, of, deviation)


def _given(moments: NoisyMoments, given: list[int]) -> Estimate:
    others = [place for place in range(moments.features) if place not in given]

    def residuals(stack: Array) -> tuple[Array, Array]:
        """Coefficients on what is given, and the products of what they leave."""
        products = cross_products(stack, moments.constant)
        crossed = products[:, others][:, :, given]
        slopes = crossed @ _inverted(products[:, given][:, :, given])
        return slopes, products[:, others][:, :, others] - slopes @ np.swapaxes(crossed, 1, 2)

    def of(stack: Array) -> Array:
        return _ratios(residuals(stack)[1])

    slopes, products = residuals(moments.matrix[None])
    # Weights of the residuals: dP_ij = w_i' dT w_j, as a change of the slopes moves P by second order alone.
    weights = np.zeros((len(others), moments.features))
    weights[:, others], weights[:, given] = np.eye(len(others)), -slopes[0]
    forms = (weights @ moments.centring).T / np.sqrt(np.diagonal(products[0]))
    deviation = _combined(_ratios(products)[0], *_of_pairs(forms, moments, _of_own_noise))
    return _estimate(moments, of, deviation)


def _estimate(moments: NoisyMoments, of: Statistic, deviation: Array) -> Estimate:
    with np.errstate(all="ignore"):
        value = of(moments.matrix[None])[0]
    np.fill_diagonal(deviation, 0.0)
    standard_error = moments.stated(of, deviation)
    # A feature's correlation with itself is one, whatever the noise.
    np.fill_diagonal(standard_error, np.where(np.isfinite(np.diagonal(value)), 0.0, np.inf))
    return Estimate(np.clip(value, -1.0, 1.0), standard_error)


def _ratios(stack: Array) -> Array:
    """Entries over the roots of their diagonal entries, shape (draws, d, d); NaN where one of these is negative."""
    root = np.sqrt(np.diagonal(stack, axis1=1, axis2=2))
    ratios: Array = stack / (root[:, :, None] * root[:, None, :])
    ratios[:, range(stack.shape[1]), range(stack.shape[1])] = np.where(root > 0.0, 1.0, np.nan)
    return ratios


def _inverted(stack: Array) -> Array:
    """Inverses, shape (draws, d, d), through matrices of unit diagonal; NaN where there are none."""
    root = np.sqrt(np.abs(np.diagonal(stack, axis1=1, axis2=2)))
    scale = np.where(root > 0.0, root, 1.0)
    sides = scale[:, :, None] * scale[:, None, :]
    try:
        return np.asarray(np.linalg.inv(stack / sides) / sides)
    except np.linalg.LinAlgError:
        return np.full(stack.shape, np.nan)


def _definite(products: Array) -> bool:
    size = np.diagonal(products)
    if not (np.all(np.isfinite(products)) and np.all(size > 0.0)):
        return False
    return bool(np.linalg.eigvalsh(products / np.sqrt(np.outer(size, size)))[0] > 0.0)


def _of_pairs(forms: Array, moments: NoisyMoments, of_own: _OfOwnNoise) -> _OfPairs:
    """Covariances of the forms of each pair (i, j) of columns of forms, shape (p, d) to (d, d) each.

    ``Var b_i'N b_j``, ``Cov(b_i'N b_j, b_i'N b_i)``, ``Cov(b_i'N b_i, b_j'N b_j)``, and ``Var b_i'N b_i`` by row.
    """
    own = of_own(forms, moments.variance)
    if moments.common is None:
        return own
    # One number adds y times C_ij to b_i'N b_j.
    c = forms.T @ (moments.common[:, None] * forms)
    diagonal = np.diagonal(c)
    by_row = np.repeat(diagonal[:, None], diagonal.size, axis=1)
    both = c**2, c * by_row, np.outer(diagonal, diagonal), by_row**2
    pair, first, apart, alone = (mine + shared for mine, shared in zip(own, both, strict=True))
    return pair, first, apart, alone


def _of_centred_noise(forms: Array, variance: Array) -> _OfPairs:
    """As :func:`_of_own_noise`, for forms of the constant and of one feature each, with no work by pair of pairs.

    With ``b_i = a_i e_0 + s_i e_i`` it is ``b_i'N b_j = a_i a_j N_00 + a_i s_j N_0j + a_j s_i N_0i + s_i s_j N_ij``.
    """
    a, s = forms[0], np.diagonal(forms[1:])
    count, sums, products = variance[0, 0], variance[0, 1:], variance[1:, 1:]
    of_sums = np.outer(a**2, s**2 * sums)
    pair = np.outer(a, a) ** 2 * count + of_sums + of_sums.T + np.outer(s, s) ** 2 * products
    alone = a**4 * count + 4.0 * a**2 * s**2 * sums + s**4 * np.diagonal(products)
    first = np.outer(a**3 * count + 2.0 * a * s**2 * sums, a)
    apart = np.outer(a, a) ** 2 * count
    for covariance in (pair, first, apart):
        np.fill_diagonal(covariance, alone)
    return pair, first, apart, np.repeat(alone[:, None], alone.size, axis=1)


def _of_own_noise(forms: Array, variance: Array) -> _OfPairs:
    """The same from independent noise of distinct entries."""
    squares, own = forms**2, np.diagonal(variance)
    through = variance @ squares
    crossed, shared = squares.T @ through, squares.T @ (own[:, None] * squares)
    both, first = np.empty_like(crossed), np.empty_like(crossed)
    for i in range(forms.shape[1]):
        mixed = forms[:, i, None] * forms
        both[i] = np.sum(mixed * (variance @ mixed), axis=0)
        first[i] = 2.0 * through[:, i] @ mixed - (own * forms[:, i] ** 3) @ forms
    alone = np.diagonal(2.0 * crossed - shared)
    return crossed + both - shared, first, 2.0 * both - shared, np.repeat(alone[:, None], alone.size, axis=1)


def _combined(ratios: Array, pair: Array, first: Array, apart: Array, alone: Array) -> Array:
    """Standard deviation of each ratio; parameters as :func:`_of_pairs` returns them."""
    own = alone + alone.T + 2.0 * apart
    deviation: Array = np.sqrt(np.maximum(pair - ratios * (first + first.T) + ratios**2 / 4.0 * own, 0.0))
    return deviation
