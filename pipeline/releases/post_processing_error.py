"""Error of a release after its post-processing, as written into it: bounds, and simulation on released values alone.

A function of the plan and the released arrays: a resumed run writes the same numbers. They are rounded to three digits,
so that machines whose linear algebra differs in last bits agree.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.simulated import Simulated
from blockveil.pipeline.questions.arrays import ReleaseArrays


def simulated_facts(simulated: Simulated) -> dict[str, Any]:
    """Sizes of simulated errors, as plain JSON values."""
    sizes = {
        column: {name: None if value is None else three_digits(value) for name, value in asdict(size).items()}
        for column, size in (("raw", simulated.noisy), ("post_processed", simulated.after))
    }
    return {"matrix": "the released matrix, with noise of a public key", "draws": simulated.draws, **sizes}


def values_of(arrays: ReleaseArrays, name: str) -> NDArray[Any]:
    """Values of one of the arrays."""
    return np.asarray(arrays[name][0])


def three_digits(value: float, up: bool = False) -> float:
    """Three significant digits; never below the value where it is a bound."""
    if value == 0.0 or not math.isfinite(value):
        return value
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    rounded = math.ceil(value / unit) if up else round(value / unit)
    return float(f"{rounded * unit:.6g}")
