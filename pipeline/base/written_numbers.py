"""Numbers as a person reads them."""

from __future__ import annotations

import numpy as np


def number(value: float) -> str:
    """A number for a person: four significant digits, whole up to ten thousand millions with thousands marked."""
    if not np.isfinite(value):
        return "∞" if value > 0 else ("-∞" if value < 0 else "undefined")
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e10 else f"{value:.4g}"
