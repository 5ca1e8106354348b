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

from blockveil.engine.estimates import simulated as simulated_errors
from blockveil.engine.estimates.error_bounds import error_report
from blockveil.engine.estimates.postprocessing import nearest_psd
from blockveil.engine.estimates.simulated import Simulated
from blockveil.engine.records.geometry import Coordinates
from blockveil.pipeline.kinds.counts.question import CellsAnswer
from blockveil.pipeline.kinds.moments.question import MomentAnswer
from blockveil.pipeline.questions import Answer
from blockveil.pipeline.questions.arrays import ReleaseArrays

Array = NDArray[np.float64]

NEAREST_PSD = "nearest positive semi-definite matrix, in units of the declared shape"
SHRUNK = (
    "positive semi-definite matrix with eigenvalues shrunk for the noise in them and the released trace, in units of "
    "the declared shape"
)
WHOLE = "nearest whole number that is not negative"


def post_processing(answer: Answer, arrays: ReleaseArrays) -> dict[str, Any]:
    """What is known of the error after post-processing; empty where nothing is post-processed.

    Parameters
    ----------
    answer
        What was asked, with its design.
    arrays
        Arrays of the release.

    Returns
    -------
    Plain JSON: which post-processing, in which array, proven bounds, and what was simulated.
    """
    match answer:
        case MomentAnswer() if f"{answer.matrix}_psd" in arrays:
            return _moment(answer, arrays)
        case CellsAnswer() if answer.design.strategy is None:
            return _counts(answer, arrays)
    return {}


def _moment(answer: MomentAnswer, arrays: ReleaseArrays) -> dict[str, Any]:
    design, coordinates, stand_in = answer.design, answer.question.coordinates, _stand_in(answer, arrays)
    how = SHRUNK if answer.shrinks else NEAREST_PSD
    found: dict[str, Any] = {"post_processing": how, "post_processed": f"{answer.matrix}_psd"}
    scaled = coordinates.to_scaled()
    units = np.ones(coordinates.dimension) if scaled is None else scaled
    released = _scaled(_values(arrays, answer.matrix), coordinates)
    if answer.question.lead:
        count = round(float(_values(arrays, "count"))) if _public(arrays) else None
        simulated = simulated_errors.covariance(stand_in, design, coordinates, count, answer.shrinks)
        # The noise of a covariance is no linear function of the drawn noise: its norm is the simulated one.
        norm = simulated.scaled_spectral if simulated else math.inf
        basis = "Davis-Kahan, with the simulated norm of the noise"
    else:
        simulated = simulated_errors.second_moment(stand_in, design, coordinates, answer.shrinks)
        norm, basis = error_report(design, units, units).spectral, "Davis-Kahan"
        found["post_processed_frobenius_norm_bound"] = _digits(_after_bound(answer, arrays, stand_in), up=True)
    if simulated is None:
        return found
    found["simulated"] = _simulated(simulated)
    spectrum = np.linalg.eigvalsh(released).astype(np.float64)
    found["subspace"] = {
        "matrix": f"{answer.matrix} with each feature in units of its declared scale",
        "bound_by": basis,
        "leading": [
            {
                "dimensions": k,
                "squared_sine_bound": _digits(simulated_errors.davis_kahan(spectrum, norm, k), up=True),
                "squared_sine_simulated": _digits(lost),
            }
            for k, lost in enumerate(simulated.subspace, 1)
        ],
    }
    return found


def _after_bound(answer: MomentAnswer, arrays: ReleaseArrays, stand_in: Array) -> float:
    """Bound of the Frobenius error of the positive semi-definite version of a second moment, raw units."""
    coordinates = answer.question.coordinates
    back, inside = _map(coordinates), np.ones(coordinates.dimension)
    # A projection in coordinates does not expand the noise there, ...
    bound = error_report(answer.design, inside, inside).frobenius
    if answer.shrinks:
        # ... and what was shrunk is as far from the projection as both are released: the triangle inequality.
        way = np.linalg.inv(back)
        bound += float(np.linalg.norm(stand_in - nearest_psd(way @ _values(arrays, answer.matrix) @ way.T)[0]))
    # The way back stretches the error by the square of the map's norm.
    return float(np.linalg.norm(back, 2)) ** 2 * bound


def _counts(answer: CellsAnswer, arrays: ReleaseArrays) -> dict[str, Any]:
    design, noise = answer.design, answer.error().frobenius
    rounding = 0.5 * math.sqrt(design.shape[0] * design.shape[1])
    found: dict[str, Any] = {
        "post_processing": WHOLE,
        "post_processed": "counts_integer",
        # Each cell is off by at most twice its noise, and by at most half a count more than it.
        "post_processed_frobenius_norm_bound": _digits(min(2.0 * noise, noise + rounding), up=True),
    }
    if "counts_integer" not in arrays:  # too large to be held whole
        return found
    simulated = simulated_errors.counts(
        _values(arrays, "counts_integer").astype(np.float64).reshape(design.shape), design
    )
    return found if simulated is None else {**found, "simulated": _simulated(simulated)}


def _simulated(simulated: Simulated) -> dict[str, Any]:
    sizes = {
        column: {name: None if value is None else _digits(value) for name, value in asdict(size).items()}
        for column, size in (("raw", simulated.noisy), ("post_processed", simulated.after))
    }
    return {"matrix": "the released matrix, with noise of a public key", "draws": simulated.draws, **sizes}


def _stand_in(answer: MomentAnswer, arrays: ReleaseArrays) -> Array:
    """Positive semi-definite second moment in coordinates that resembles the release."""
    coordinates, psd = answer.question.coordinates, _values(arrays, f"{answer.matrix}_psd")
    raw = coordinates.to_raw()
    back = 1.0 / raw if raw.ndim == 1 else np.linalg.inv(raw)
    inner: Array = back[:, None] * psd * back if raw.ndim == 1 else back @ psd @ back.T
    if not answer.question.lead:
        return inner
    count = max(float(_values(arrays, "count")), float(_values(arrays, "count_standard_deviation")), 1.0)
    shift = _values(arrays, "mean") - coordinates.origin
    centre = back * shift if raw.ndim == 1 else back @ shift
    lead = np.concatenate([[1.0], centre])
    whole = np.outer(lead, lead)
    whole[1:, 1:] += inner
    return np.asarray(count * whole)


def _map(coordinates: Coordinates) -> Array:
    raw = coordinates.to_raw()
    return np.diag(raw) if raw.ndim == 1 else raw


def _scaled(matrix: Array, coordinates: Coordinates) -> Array:
    return matrix / np.outer(coordinates.scale, coordinates.scale)


def _public(arrays: ReleaseArrays) -> bool:
    return float(_values(arrays, "count_standard_deviation")) == 0.0


def _values(arrays: ReleaseArrays, name: str) -> NDArray[Any]:
    return np.asarray(arrays[name][0])


def _digits(value: float, up: bool = False) -> float:
    """Three significant digits; never below the value where it is a bound."""
    if value == 0.0 or not math.isfinite(value):
        return value
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    rounded = math.ceil(value / unit) if up else round(value / unit)
    return float(f"{rounded * unit:.6g}")
