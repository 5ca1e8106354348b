"""Error of a matrix after it is made positive semi-definite: bounds, and simulation on released values alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates import simulated as simulated_errors
from blockveil.engine.estimates.error_bounds import error_report
from blockveil.engine.estimates.postprocessing import nearest_psd
from blockveil.engine.records.geometry import Coordinates
from blockveil.pipeline.kinds.moments.question import MomentAnswer
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.releases.post_processing_error import simulated_facts, three_digits, values_of

Array = NDArray[np.float64]

NEAREST_PSD = "nearest positive semi-definite matrix, in units of the declared shape"
SHRUNK = (
    "positive semi-definite matrix with eigenvalues shrunk for the noise in them and the released trace, in units of "
    "the declared shape"
)


def post_processing(answer: MomentAnswer, arrays: ReleaseArrays) -> dict[str, Any]:
    """Nothing where no such version is released."""
    if f"{answer.matrix}_psd" not in arrays:
        return {}
    design, coordinates, stand_in = answer.design, answer.question.coordinates, _stand_in(answer, arrays)
    how = SHRUNK if answer.shrinks else NEAREST_PSD
    facts: dict[str, Any] = {"post_processing": how, "post_processed": f"{answer.matrix}_psd"}
    scaled = coordinates.to_scaled()
    units = np.ones(coordinates.dimension) if scaled is None else scaled
    released = _scaled(values_of(arrays, answer.matrix), coordinates)
    if answer.question.lead:
        count = round(float(values_of(arrays, "count"))) if _public(arrays) else None
        simulated = simulated_errors.covariance(stand_in, design, coordinates, count, answer.shrinks)
        # The noise of a covariance is no linear function of the drawn noise: its norm is the simulated one.
        norm = simulated.scaled_spectral if simulated else math.inf
        basis = "Davis-Kahan, with the simulated norm of the noise"
    else:
        simulated = simulated_errors.second_moment(stand_in, design, coordinates, answer.shrinks)
        norm, basis = error_report(design, units, units).spectral, "Davis-Kahan"
        facts["post_processed_frobenius_norm_bound"] = three_digits(_after_bound(answer, arrays, stand_in), up=True)
    if simulated is None:
        return facts
    facts["simulated"] = simulated_facts(simulated)
    spectrum = np.linalg.eigvalsh(released).astype(np.float64)
    facts["subspace"] = {
        "matrix": f"{answer.matrix} with each feature in units of its declared scale",
        "bound_by": basis,
        "leading": [
            {
                "dimensions": k,
                "squared_sine_bound": three_digits(simulated_errors.davis_kahan(spectrum, norm, k), up=True),
                "squared_sine_simulated": three_digits(lost),
            }
            for k, lost in enumerate(simulated.subspace, 1)
        ],
    }
    return facts


def _after_bound(answer: MomentAnswer, arrays: ReleaseArrays, stand_in: Array) -> float:
    """Bound of the Frobenius error of the positive semi-definite version of a second moment, raw units."""
    coordinates = answer.question.coordinates
    back, inside = _map(coordinates), np.ones(coordinates.dimension)
    # A projection in coordinates does not expand the noise there, ...
    bound = error_report(answer.design, inside, inside).frobenius
    if answer.shrinks:
        # ... and what was shrunk is as far from the projection as both are released: the triangle inequality.
        way = np.linalg.inv(back)
        bound += float(np.linalg.norm(stand_in - nearest_psd(way @ values_of(arrays, answer.matrix) @ way.T)[0]))
    # The way back stretches the error by the square of the map's norm.
    return float(np.linalg.norm(back, 2)) ** 2 * bound


def _stand_in(answer: MomentAnswer, arrays: ReleaseArrays) -> Array:
    """Positive semi-definite second moment in coordinates that resembles the release."""
    coordinates, psd = answer.question.coordinates, values_of(arrays, f"{answer.matrix}_psd")
    raw = coordinates.to_raw()
    back = 1.0 / raw if raw.ndim == 1 else np.linalg.inv(raw)
    inner: Array = back[:, None] * psd * back if raw.ndim == 1 else back @ psd @ back.T
    if not answer.question.lead:
        return inner
    count = max(float(values_of(arrays, "count")), float(values_of(arrays, "count_standard_deviation")), 1.0)
    shift = values_of(arrays, "mean") - coordinates.origin
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
    return float(values_of(arrays, "count_standard_deviation")) == 0.0


POST_PROCESSING = post_processing
