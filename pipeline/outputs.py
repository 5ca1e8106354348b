"""What a published release holds: arrays with their error, and attributes that explain them. Public values only.

Nothing here depends on a clock, a path or the data beyond the released integers, so a resumed run stages the same bits.
"""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import estimates
from engine.guarantees import Neighbours
from pipeline.ledger import Charge
from pipeline.planning import Plan
from pipeline.publishing import ReleaseArrays

_PAIR = ("feature", "feature_")


def release_arrays(plan: Plan, released: NDArray[np.int64], rows: int) -> ReleaseArrays:
    """Arrays of the release, from released grid integers.

    Parameters
    ----------
    plan
        The plan.
    released
        Noised integers, shape (width, width).
    rows
        Number of records; used only where replace-one makes it public.
    """
    names = np.asarray(plan.features, dtype=np.str_)
    coordinates, design = plan.quantiser.coordinates, plan.design
    if not plan.augmented:
        moment = estimates.second_moment(released, design, coordinates)
        return {
            "feature": (names, ("feature",)),
            "second_moment": (moment.value, _PAIR),
            "second_moment_standard_deviation": (moment.standard_deviation, _PAIR),
            "second_moment_psd": (estimates.second_moment_psd(released, design, coordinates), _PAIR),
        }
    public_count = rows if plan.neighbours is Neighbours.REPLACE_ONE else None
    found = estimates.covariance(released, design, coordinates, public_count)
    return {
        "feature": (names, ("feature",)),
        "count": (found.count.value, ()),
        "count_standard_deviation": (found.count.standard_deviation, ()),
        "mean": (found.mean.value, ("feature",)),
        "mean_standard_deviation": (found.mean.standard_deviation, ("feature",)),
        "covariance": (found.covariance.value, _PAIR),
        "covariance_standard_deviation": (found.covariance.standard_deviation, _PAIR),
        "covariance_psd": (found.covariance_psd, _PAIR),
        "second_moment": (found.second_moment.value, _PAIR),
        "second_moment_standard_deviation": (found.second_moment.standard_deviation, _PAIR),
    }


def attributes(plan: Plan, charge: Charge, arrays: ReleaseArrays) -> dict[str, Any]:
    """Attributes of the release group: plain JSON, public, the same for every attempt."""
    config = plan.config
    public = plan.public
    return {
        "title": f"Differentially private {config.query.kind.replace('-', ' ')} of {config.release.dataset}",
        "release_id": plan.release_id,
        "dataset": config.release.dataset,
        "name": config.release.name,
        "logical_date": plan.logical_date.isoformat(),
        "query": public["query"],
        "origin": [float(value) for value in plan.quantiser.coordinates.origin],
        "guarantee": {
            "epsilon": plan.guarantee.epsilon,
            "delta": plan.guarantee.delta,
            "mu": plan.design.mu,
            "total_variation": plan.design.total_variation,
            "neighbours": plan.neighbours.value,
            "privacy_unit": config.privacy.unit,
            "sentence": plan.guarantee_sentence(),
        },
        "mechanism": {**public["mechanism"], **public["calibration"], "algorithms": public["algorithms"]},
        "reliable": _reliable(arrays),
        "plan_digest": plan.digest,
        "ledger": {"charge_id": charge.charge_id, "sequence": charge.sequence, "row_hash": charge.row_hash},
        "software": _software(),
    }


def _reliable(arrays: ReleaseArrays) -> bool:
    """Whether the count is far enough from zero, next to its own noise, for means and covariances to be ratios."""
    if "count" not in arrays:
        return True
    return float(arrays["count"][0]) > max(4.0 * float(arrays["count_standard_deviation"][0]), 0.0)


def _software() -> dict[str, str]:
    packages = ("blockveil", "numpy", "scipy", "zarr", "dask", "cryptography")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
