"""What R1SMG noise really gives: its privacy profile, the least noise that would keep a claim, and how it is attacked.

The law of the noise is spherically symmetric with density falling in the radius, so that the worst neighbours are
exactly one sensitivity apart and delta grows with the distance. With ``s = sqrt(sigma_star) / sensitivity``, c the
cosine of the angle between noise and difference, ``t = 1 / (s |z|)`` and ``v = t^2 - 2 t c``, the privacy loss is

    L = (M - 1)/2 ln(1 + v) + z^2 v / 2,       delta(epsilon) = E max(0, 1 - e^(epsilon - L)),

with z standard normal and c of density ``~ (1 - c^2)^((M-3)/2)``. The expectation is computed as it stands: a positive
integrand, no cancellation. Given z the noise is a Gaussian of a size that everybody sees, and it is small with
probability proportional to it; hence the closed forms for many entries.

**Source**: derived here; Ji and Li, "Less is More", Theorem 5, claims the contrary.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import iti0k0, k0e

from engine.calibration import CalibrationError

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_WIDTHS = 12.0
"""Half range of the angle in units of its spread 1/sqrt(M): what is cut off has probability below e^-70."""
_LARGEST_Z = 40.0
_TINY = 1e-300


def true_delta(entries: int, relative_deviation: float, epsilon: float) -> float:
    """Smallest delta at an epsilon.

    Parameters
    ----------
    entries
        M, at least 2.
    relative_deviation
        ``s = sqrt(sigma_star) / sensitivity``, positive.
    epsilon
        Not negative.

    Returns
    -------
    delta in [0, 1], to a relative 1e-9.

    Raises
    ------
    CalibrationError
        A parameter is out of range.
    """
    _check(entries, relative_deviation)
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise CalibrationError(f"epsilon is {epsilon}; it must be finite and not negative")
    edges = _edges(entries, relative_deviation, epsilon)
    z, weights = _panels(edges)
    z, weights = np.exp(z), weights * np.exp(z)  # integrated over ln z
    mass = weights * math.sqrt(2.0 / math.pi) * np.exp(-0.5 * z**2)
    below = math.erf(math.exp(edges[0]) / math.sqrt(2.0))  # there the loss is certain to exceed epsilon
    return min(1.0, below + float(np.sum(mass * _given_size(entries, relative_deviation, epsilon, z))))


def true_epsilon(entries: int, relative_deviation: float, delta: float) -> float:
    """Smallest epsilon at a delta; 0 where delta is at least the total variation."""
    if true_delta(entries, relative_deviation, 0.0) <= delta:
        return 0.0
    high = max(1.0, 2.0 * entries * math.log(max(2.0, 1.0 / (relative_deviation * delta))))
    while true_delta(entries, relative_deviation, high) > delta:
        high *= 2.0
    found = brentq(
        lambda e: math.log(max(true_delta(entries, relative_deviation, e), _TINY) / delta), 0.0, high, rtol=1e-10
    )
    return float(found)


def correct_variance(entries: int, epsilon: float, delta: float) -> float:
    """Least ``sigma_star``, in units of the squared sensitivity, that keeps a claim; larger by up to a part in 1e8."""

    def excess(log_deviation: float) -> float:
        return math.log(max(true_delta(entries, math.exp(log_deviation), epsilon), _TINY) / delta)

    start = 0.5 * math.log(correct_variance_law(entries, epsilon, delta))
    low, high = start - 1.0, start + 1.0
    while excess(low) < 0:
        low -= 2.0
    while excess(high) > 0:
        high += 2.0
    return math.exp(2.0 * float(brentq(excess, low, high, xtol=1e-10))) * (1.0 + 1e-8)


def correct_variance_law(entries: int, epsilon: float, delta: float) -> float:
    """Limit of :func:`correct_variance` for many entries and small delta.

    It is ``M (e^(epsilon/2) K0(epsilon/2))^2 / (pi delta)^2``.
    """
    return entries * (float(k0e(epsilon / 2.0)) / (math.pi * delta)) ** 2


def total_variation_law(entries: int, relative_deviation: float) -> float:
    """Limit of ``delta(0)`` for many entries: ``(2 / pi) int_0^a K0``, ``a = sqrt(M) / (2 s)``."""
    return 2.0 / math.pi * float(iti0k0(math.sqrt(entries) / (2.0 * relative_deviation))[1])


def attack_success(entries: int, relative_deviation: float) -> float:
    """Probability that the best test, which is the nearer of the two answers, tells two neighbours apart."""
    return 0.5 * (1.0 + true_delta(entries, relative_deviation, 0.0))


def allowed_success(epsilon: float, delta: float) -> float:
    """Largest probability of telling two neighbours apart that (epsilon, delta)-privacy allows."""
    return (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon))


def _given_size(entries: int, s: float, epsilon: float, z: Array) -> Array:
    """``E max(0, 1 - e^(epsilon - L))`` over the angle, for each size z."""
    t = 1.0 / (s * z)
    cosine = np.clip((t - _loss_root(entries, epsilon, z) / t) / 2.0, -1.0, 1.0)
    spread = _WIDTHS / math.sqrt(entries)
    # psi is the angle from the plane across the difference: c = -sin(psi), and c < cosine is psi > -asin(cosine).
    low = np.maximum(-np.arcsin(cosine), max(-math.pi / 2.0, -spread))
    high = np.minimum(math.pi / 2.0, low + 2.0 * spread)
    steps = 6
    width = np.maximum(high - low, 0.0) / steps
    offsets = (np.arange(steps)[:, None] + 0.5 * (_NODES + 1.0)).ravel()
    psi = low[:, None] + width[:, None] * offsets
    density = _density(entries, psi)
    v = t[:, None] * (t[:, None] + 2.0 * np.sin(psi))
    loss = 0.5 * (entries - 1) * np.log1p(v) + 0.5 * z[:, None] ** 2 * v
    gain = -np.expm1(np.minimum(epsilon - loss, 0.0))
    weights = np.tile(0.5 * _WEIGHTS, steps)
    found: Array = (density * gain) @ weights * width / _normaliser(entries)
    return np.minimum(found, 1.0)


def _loss_root(entries: int, epsilon: float, z: Array) -> Array:
    """Value v of loss epsilon: root of ``(M - 1) ln(1 + v) + z^2 v = 2 epsilon``, increasing and concave."""
    v = np.minimum(np.expm1(min(2.0 * epsilon / (entries - 1), 700.0)), 2.0 * epsilon / np.maximum(z**2, _TINY))
    for _ in range(60):
        # Newton on a concave increasing function, from the left of the root after one step, never overshoots.
        step = (2.0 * epsilon - (entries - 1) * np.log1p(v) - z**2 * v) / ((entries - 1) / (1.0 + v) + z**2)
        v = np.maximum(v + step, 0.0)
        if np.all(np.abs(step) <= 1e-15 * (1e-300 + v)):
            break
    return np.asarray(v, dtype=np.float64)


def _edges(entries: int, s: float, epsilon: float) -> Array:
    """Panel borders in ln z: fine about the points where the profile turns, coarse far from them."""
    last = math.log(_LARGEST_Z)
    outward = np.concatenate([[0.0], np.geomspace(1e-9, 64.0, 64)])
    # The loss at an angle of 90 degrees, and along and against the difference, crosses epsilon.
    centres = [0.5 * math.log(entries) - math.log(s)]
    for cosine in (0.0, -1.0, 1.0):
        centres += _crossings(entries, s, epsilon, cosine)
    around = [centre + sign * outward for centre in centres for sign in (-1.0, 1.0)]
    lowest = min(centres) - 64.0
    edges = np.unique(np.concatenate([*around, np.arange(-6.0, last, 0.25), [last]]))
    kept = edges[(edges >= lowest) & (edges <= last)]
    return kept if kept.size > 1 else np.array([last - 1.0, last])


def _crossings(entries: int, s: float, epsilon: float, cosine: float) -> list[float]:
    """All ln z at which the loss at this cosine is epsilon, that is ``t = c + sqrt(c^2 + v)``."""

    def excess(log_z: float) -> float:
        z = math.exp(log_z)
        v = float(_loss_root(entries, epsilon, np.array([z]))[0])
        # c + sqrt(c^2 + v) without cancellation for c = -1
        t = v / (1.0 + math.sqrt(1.0 + v)) if cosine < 0 else cosine + math.sqrt(cosine**2 + v)
        return -math.log(s * z) - math.log(max(t, _TINY))

    grid = np.arange(-math.log(s) - 60.0, math.log(_LARGEST_Z) + 1.0, 0.5)
    values = [excess(x) for x in grid]
    return [
        float(brentq(excess, low, high))
        for low, high, first, second in zip(grid, grid[1:], values, values[1:], strict=False)
        if first * second < 0
    ]


def _panels(edges: Array) -> tuple[Array, Array]:
    half = np.diff(edges)[:, None] / 2.0
    return (edges[:-1, None] + half * (_NODES + 1.0)).ravel(), (half * _WEIGHTS).ravel()


@cache
def _normaliser(entries: int) -> float:
    """Integral of ``cos^(M-2)`` over the same range as is used for the angle."""
    bound = min(math.pi / 2.0, _WIDTHS / math.sqrt(entries))
    psi, weights = _panels(np.linspace(-bound, bound, 13))
    return float(_density(entries, psi) @ weights)


def _density(entries: int, psi: Array) -> Array:
    """``cos(psi)^(M-2)``."""
    if entries == 2:
        return np.ones_like(psi)
    with np.errstate(divide="ignore"):
        found: Array = np.exp(0.5 * (entries - 2) * np.log1p(-np.minimum(np.sin(psi) ** 2, 1.0)))
    return found


def _check(entries: int, relative_deviation: float) -> None:
    if entries < 2:
        raise CalibrationError(f"the answer has {entries} entries; one entry is the scalar Gaussian; use that")
    if not (math.isfinite(relative_deviation) and relative_deviation > 0):
        raise CalibrationError(f"the relative deviation is {relative_deviation}; it must be finite and positive")
