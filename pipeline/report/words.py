"""Numbers and promises in words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr


def number(value: float) -> str:
    """A number for a person: four significant digits, whole up to ten thousand millions with thousands marked."""
    if not np.isfinite(value):
        return "∞" if value > 0 else ("-∞" if value < 0 else "undefined")
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e10 else f"{value:.4g}"


def guess_at_most(guarantee: dict[str, Any]) -> float:
    """Largest probability of telling two neighbouring data sets apart, for somebody who is right half of the time else.

    A test between outputs of two neighbours is right with probability ``(1 + TV) / 2`` at most, TV their total
    variation. TV is at most ``1 - 2 (1 - delta) / (1 + e^epsilon)``; of the charged loss, ``2 Phi(mu / 2) - 1`` of its
    Gaussian and ``tanh(e / 2)`` of its pure part, which compose as ``1 - (1 - a)(1 - b)``. Both bounds hold.

    **Source**: Kairouz, Oh and Viswanath, 2015, Theorem 2.1; Dong, Roth and Su, 2022.
    """
    promised = 1.0 - 2.0 * (1.0 - guarantee["delta"]) / (1.0 + math.exp(min(guarantee["epsilon"], 700.0)))
    loss = guarantee.get("loss")
    if not loss:
        return (1.0 + promised) / 2.0
    gaussian, pure = 2.0 * float(ndtr(loss["mu"] / 2.0)) - 1.0, math.tanh(loss["epsilon"] / 2.0)
    # Each of the two samplers is within total_variation of its law.
    charged = 1.0 - (1.0 - gaussian) * (1.0 - pure) + 2.0 * loss["total_variation"]
    return (1.0 + min(promised, charged, 1.0)) / 2.0


def plain_words(guarantee: dict[str, Any]) -> str:
    """What the guarantee means for one person, for a reader without mathematics."""
    percent = math.ceil(1000.0 * guess_at_most(guarantee)) / 10.0
    unit = str(guarantee["privacy_unit"])
    if guarantee["neighbours"] == "add-remove":
        guess = f"whether {unit} was in the data at all"
    else:
        guess = f"which of two given values {unit} had"
    return (
        f"Somebody who knows every other record and must guess {guess} is right half of the time by tossing a coin, "
        f"and at most {percent:g} % of the time with this release, whatever method or further knowledge is used."
    )
