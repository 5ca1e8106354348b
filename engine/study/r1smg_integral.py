"""Privacy loss of R1SMG noise as an integral over size and angle: positive terms only, in logarithms.

The law of the noise is spherically symmetric. With M entries, s the ratio of the noise's standard deviation (of its
signed radius) to the sensitivity, z standard normal, ``t = 1 / (s |z|)``, psi the angle of the noise from the plane
across the difference of the two answers, of density ``~ cos(psi)^(M-2)``, and ``v = t^2 + 2 t sin(psi)``,

    L = (M - 1)/2 ln(1 + v) + z^2 v / 2,        delta(epsilon) = E max(0, 1 - e^(epsilon - L)).

L grows with v, so for each z the integral over psi starts at the angle where L is epsilon. From there

    L - epsilon = (M - 1)/2 ln(1 + w / (1 + v0)) + z^2 w / 2,     w = v - v0,

which does not cancel, v0 being the root of ``(M - 1) ln(1 + v0) + z^2 v0 = 2 epsilon``. The usual difference of two
probabilities would lose all digits where delta is small.

**Source**: derived here from the law of the noise of Ji and Li, "Less is More", equation (10).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_RATIO = 3.0
_LAYER_RATIO = 7.0
_REACH = 13.0
"""Angles beyond this many standard deviations from the densest allowed angle hold less than e^-84 of the integral."""

_BELOW = 42.0
"""Sizes below e^-42 of the least size at which some angle keeps the loss hold less than 1e-18 of the integral."""

_TOLERANCE = 1e-12
_FAR = 30.0
"""Logarithm of t from which the angle changes delta by less than a relative M e^-60."""

_BATCH = 1024
_LEVELS = 60


def log_half_step(a: float) -> float:
    """``ln Gamma(a + 1/2) - ln Gamma(a)`` for a of at least 1/2, without the cancellation of large logarithms."""
    if a < 50.0:
        return math.log(math.gamma(a + 0.5) / math.gamma(a))
    # The next term, 31/18432 a^-9, is below 1e-18.
    square = a * a
    series = (-1 / 8 + (1 / 192 + (-1 / 640 + 17 / 14336 / square) / square) / square) / a
    return 0.5 * math.log(a) + series


def log_delta(entries: int, relative_deviation: float, epsilon: float) -> float:
    """Natural logarithm of delta for at least 2 entries; no checks; see
    :mod:`.r1smg_profile`.
    """
    m, s = entries, relative_deviation
    # Along the sphere across the difference the loss is (M-1)/2 ln(1 + t^2) + 1/(2 s^2).
    log_t = (epsilon - 0.5 / s**2) / (m - 1)
    against = _crossings_against(m, s, epsilon)
    if log_t > _FAR and len(against) == 2:
        # Small noise: L = (M-1) ln t + 1/(2 s^2), whatever the angle; E max(0, 1 - (z/z0)^(M-1)) with a flat density.
        near = 0.5 * math.log(2.0 / math.pi) - log_t - math.log(s) + math.log1p(-1.0 / m)
        edges = _edges(m, s, epsilon, against[1:], -log_t - math.log(s))
        return near if edges.size < 2 else float(np.logaddexp(near, _integral(m, s, epsilon, edges)))
    along = _crossing_along(m, s, epsilon)
    turns = [along, *against]
    if log_t > 0:
        turns.append(-math.log(s) - 0.5 * math.log(math.expm1(2.0 * log_t)))
    lowest = min(along, 0.0) - _BELOW
    return min(0.0, _integral(m, s, epsilon, _edges(m, s, epsilon, [lowest, *turns], min(along, 0.0))))


def _edges(m: int, s: float, epsilon: float, turns: list[float], log_least: float) -> Array:
    """Panel borders in ``x = ln z`` from the first turn on: turns, unit steps, and unit steps of z above 1."""
    # P(|z| > last) is below e^-50 of the probability of the sizes below e^log_least.
    last = math.log(math.sqrt(2.0 * (50.0 - log_least)))
    first = min(turns)
    if first >= last:
        return np.array([last])
    inner = [0.5 * math.log(m) - math.log(s), *np.log(np.arange(1.0, math.exp(last)))]
    around = [turn + side * _layer(m, s, turn) for turn in turns for side in (-1.0, 1.0)]
    steps = np.arange(first, last, 2.0)
    edges = np.unique(np.concatenate([*around, steps, inner, [last]]))
    borders: Array = edges[(edges >= first) & (edges <= last)]
    return borders


def _layer(m: int, s: float, x: float) -> Array:
    """Distances from a turn, from that over which the loss changes by one on, to 1."""
    t, z = math.exp(-x - math.log(s)), math.exp(x)
    # |dL/dx| = ((M-1)/(1+v) + z^2) |t^2 - t c|, with |c| at most _REACH / sqrt(M) wherever there is any mass.
    slope = (m - 1) * min(1.0, t * (t + min(1.0, _REACH / math.sqrt(m)))) + 1.0 / s**2 + z / s
    count = max(1, math.ceil(math.log(max(slope, 1.0)) / math.log(_LAYER_RATIO)) + 1)
    return np.concatenate([[0.0], _LAYER_RATIO ** -np.arange(count, dtype=np.float64)])


def _crossing_along(m: int, s: float, epsilon: float) -> float:
    """Value of ln z at which noise along the difference has loss epsilon; below it every angle exceeds epsilon."""

    def excess(q: float) -> float:
        return (m - 1) * q + 0.5 * math.tanh(0.5 * q) / s**2 - epsilon

    # With q = ln(t - 1) the loss is 0 at q = 0, and at least epsilon where (M - 1) q = epsilon.
    high = epsilon / (m - 1) * (1.0 + 1e-12)
    q = float(brentq(excess, 0.0, high, rtol=1e-14)) if high > 0 else 0.0
    return -math.log(s) - float(np.logaddexp(0.0, q))


def _crossings_against(m: int, s: float, epsilon: float) -> list[float]:
    """Both values of ln z at which noise against the difference has loss epsilon; none where it has always more."""

    def excess(x: float) -> float:
        log_t = -x - math.log(s)
        return (m - 1) * float(np.logaddexp(0.0, log_t)) + 0.5 / s**2 + math.exp(x) / s - epsilon

    # The loss falls with z up to the root of z (s z + 1) = (M - 1) s, then grows.
    lowest = math.log(2.0 * s * (m - 1) / (1.0 + math.sqrt(1.0 + 4.0 * s * s * (m - 1))))
    if excess(lowest) >= 0:
        return []
    left = min(lowest, -math.log(s)) - epsilon / (m - 1) - 2.0
    right = max(lowest, math.log(s * epsilon)) + 1.0
    return [float(brentq(excess, left, lowest, rtol=1e-14)), float(brentq(excess, lowest, right, rtol=1e-14))]


def _integral(m: int, s: float, epsilon: float, edges: Array) -> float:
    """``ln int 2 phi(z) g(z) z dx`` over the panels, ``z = e^x``; g is the integral over the angle."""

    def integrand(x: Array) -> Array:
        logs = np.concatenate([_log_given_size(m, s, epsilon, part) for part in _parts(x.ravel())])
        return (logs + x.ravel() - 0.5 * np.exp(2.0 * x.ravel())).reshape(x.shape)

    return _adaptive(integrand, edges) + 0.5 * math.log(2.0 / math.pi)


def _parts(x: Array) -> list[Array]:
    return [x[start : start + _BATCH] for start in range(0, x.size, _BATCH)]


def _adaptive(log_integrand: Callable[[Array], Array], edges: Array) -> float:
    """Logarithm of an integral of a positive function: panels are halved until the halves agree with the whole."""
    low, high = edges[:-1], edges[1:]
    whole = _gauss(log_integrand, low, high)
    log_sum = -math.inf
    for _ in range(_LEVELS):
        middle = 0.5 * (low + high)
        halves = _gauss(log_integrand, np.concatenate([low, middle]), np.concatenate([middle, high]))
        left, right = halves[: low.size], halves[low.size :]
        pair = np.logaddexp(left, right)
        total = float(np.logaddexp(log_sum, np.logaddexp.reduce(pair)))
        if total == -math.inf:
            return total
        open_ = np.abs(np.exp(whole - total) - np.exp(pair - total)) > _TOLERANCE
        log_sum = float(np.logaddexp(log_sum, np.logaddexp.reduce(pair[~open_], initial=-math.inf)))
        if not np.any(open_):
            return log_sum
        low, high = np.concatenate([low[open_], middle[open_]]), np.concatenate([middle[open_], high[open_]])
        whole = np.concatenate([left[open_], right[open_]])
    return float(np.logaddexp(log_sum, np.logaddexp.reduce(whole)))


def _gauss(log_integrand: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Logarithm of the integral over each panel."""
    half = 0.5 * (high - low)[:, None]
    logs = log_integrand(low[:, None] + half * (_NODES + 1.0))
    top = np.max(logs, axis=1)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        log_integral: Array = np.log(np.exp(logs - safe[:, None]) @ _WEIGHTS * half[:, 0]) + safe
    return log_integral


def _log_given_size(m: int, s: float, epsilon: float, x: Array) -> Array:
    """``ln E max(0, 1 - e^(epsilon - L))`` over the angle, for each size ``e^x``, shape (n,)."""
    z = np.exp(x)
    t = np.exp(-x - math.log(s))
    v0 = _loss_root(m, epsilon, z)
    sine = (v0 - t * t) / (2.0 * t)
    least = np.arcsin(np.clip(sine, -1.0, 1.0))
    # Where every angle exceeds epsilon, the least loss is still above it by this much of w.
    surplus = np.where(sine < -1.0, np.maximum(-2.0 * t * (1.0 + sine), 0.0), 0.0)
    spread = 1.0 / math.sqrt(max(m - 2.0, 0.25))
    start = np.maximum(least, -_REACH * spread)
    stop = np.minimum(math.pi / 2.0, np.maximum(start, 0.0) + _REACH * spread)
    owner, low, high = _panels(m, z, t, start, stop, spread)
    psi = low[:, None] + 0.5 * (high - low)[:, None] * (_NODES + 1.0)
    w = surplus[owner, None] + 4.0 * t[owner, None] * (
        np.cos(0.5 * (psi + least[owner, None])) * np.sin(0.5 * (psi - least[owner, None]))
    )
    rise = 0.5 * (m - 1) * np.log1p(w / (1.0 + v0)[owner, None]) + 0.5 * (z * z)[owner, None] * w
    top = (m - 2) * _log_cosine(np.maximum(start, 0.0)) if m > 2 else np.zeros(x.size)
    density = np.exp((m - 2) * _log_cosine(psi) - top[owner, None]) if m > 2 else 1.0
    terms = (density * -np.expm1(-np.maximum(rise, 0.0))) @ _WEIGHTS * (0.5 * (high - low))
    with np.errstate(divide="ignore"):
        log_mean: Array = np.log(np.bincount(owner, weights=terms, minlength=x.size)) + top
    return np.minimum(log_mean - _log_normaliser(m), 0.0)


def _panels(
    m: int, z: Array, t: Array, start: Array, stop: Array, spread: float
) -> tuple[NDArray[np.intp], Array, Array]:
    """Non-empty panels of the angle: geometric from the start on, and even across the bulk; with their owners."""
    v = np.maximum(t * (t + 2.0 * np.sin(start)), 0.0)
    growth = ((m - 1) / (1.0 + v) + z * z) * t
    decay = (m - 2) * np.tan(np.clip(start, 0.0, math.pi / 2.0 - 1e-9))
    first = 1.0 / np.maximum(np.maximum(growth, decay), 1.0 / spread)
    length = stop - start
    count = 1 + max(0, math.ceil(math.log(max(1.0, float(np.max(length / first)))) / math.log(_RATIO)))
    geometric = start[:, None] + first[:, None] * _RATIO ** np.arange(count)
    step = min(0.4, 2.0 * spread)
    number = math.ceil(min(_REACH * spread, math.pi / 2.0) / step)
    even = np.broadcast_to(step * np.arange(-number, 2 * number + 1), (z.size, 3 * number + 1))
    # Far out in the tail the bulk is not reached: even steps from the start on serve there.
    even = even + np.where(start > 0, start, 0.0)[:, None]
    edges = np.concatenate([start[:, None], geometric, even, stop[:, None]], axis=1)
    edges = np.sort(np.clip(edges, start[:, None], np.maximum(stop, start)[:, None]), axis=1)
    owner, place = np.nonzero(edges[:, 1:] > edges[:, :-1])
    return owner, edges[owner, place], edges[owner, place + 1]


def _loss_root(m: int, epsilon: float, z: Array) -> Array:
    """v0: root of ``(M - 1) ln(1 + v) + z^2 v = 2 epsilon``, by Newton's method on ``ln(1 + v)``."""
    square = z * z
    with np.errstate(over="ignore"):
        y = np.minimum(2.0 * epsilon / (m - 1), np.log1p(2.0 * epsilon / square))
    for _ in range(50):
        # The function is convex and increasing in y and y starts above its root: the steps fall towards it.
        growth = square * np.expm1(y)
        step = ((m - 1) * y + growth - 2.0 * epsilon) / ((m - 1) + growth + square)
        y = np.maximum(y - step, 0.0)
        if np.all(np.abs(step) <= 1e-15 * y):
            break
    root: Array = np.expm1(y)
    return root


def _log_cosine(psi: Array) -> Array:
    with np.errstate(divide="ignore"):
        log_cosine: Array = 0.5 * np.log1p(-np.minimum(np.sin(psi) ** 2, 1.0))
    return log_cosine


@cache
def _log_normaliser(m: int) -> float:
    """``ln int cos^(M-2)``, that is of the beta function at (M-1)/2 and 1/2."""
    return 0.5 * math.log(math.pi) - log_half_step((m - 1) / 2.0)
