"""Laws of R1SMG noise with many entries: approximations that its profile must approach."""

from __future__ import annotations

import math

from scipy.special import iti0k0, k0e


def correct_variance_law(entries, epsilon, delta):
    """Variance that keeps a claim over squared sensitivity: ``M (e^(epsilon/2) K0(epsilon/2) / (pi delta))^2``."""
    return entries * (float(k0e(epsilon / 2.0)) / (math.pi * delta)) ** 2


def total_variation_law(entries, relative_deviation):
    """``delta(0)``: ``(2 / pi) int_0^a K0``, ``a = sqrt(M) / (2 s)``."""
    return 2.0 / math.pi * float(iti0k0(math.sqrt(entries) / (2.0 * relative_deviation))[1])
