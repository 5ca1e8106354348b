"""What a published release holds: arrays with their error, and attributes that explain them. Public values only.

Nothing here depends on a clock, a path or the data beyond the released integers, so a resumed run stages the same bits.
"""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version
from typing import Any

from blockveil.engine.estimates.bands import CONFIDENCE
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.ledger import Charge
from blockveil.pipeline.plan import promise, rounded
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.releases.post_processing_error import post_processing


def attributes(plan: Plan, charge: Charge, arrays: ReleaseArrays, dataset: Dataset) -> dict[str, Any]:
    """Attributes of the release group: plain JSON, public, the same for every attempt.

    Parameters
    ----------
    plan, charge
        The release and what paid for it.
    arrays
        Arrays of it that are small enough to stay in memory.
    dataset
        Its records, of which only the part, what a unit contributes and which maps made columns is stated.
    """
    part, contribution = dataset.part, dataset.contribution
    config = plan.config
    public = plan.stated
    title = "training of a model" if plan.trains else config.kind.titles[config.query.kind]
    return {
        "title": f"Differentially private {title} {'on' if plan.trains else 'of'} {config.release.dataset}",
        "release_id": plan.release_id,
        "dataset": config.release.dataset,
        "name": config.release.name,
        "logical_date": plan.logical_date.isoformat(),
        "query": public["query"],
        "matrix": plan.answer.matrix,
        "origin": [float(value) for value in plan.question.origin],
        **({"public_maps": [each.plain for each in dataset.maps]} if dataset.maps else {}),
        "guarantee": {
            "epsilon": plan.guarantee.epsilon,
            "delta": plan.guarantee.delta,
            "loss": plan.charge.plain,
            "neighbours": plan.neighbours.value,
            "privacy_unit": config.privacy.unit,
            "contribution": contribution.facts(),
            **({} if plan.series is None else {"nights": plan.series.nights}),
            "sentence": f"{promise.sentence(plan, part)} {contribution.sentence}",
        },
        **({} if part is None else {"part": {"column": part.column, "equals": part.value}}),
        "mechanism": {
            **public["mechanism"],
            **public["calibration"],
            **_least(plan),
            "algorithms": public["algorithms"],
        },
        **({"unvetted": public["unvetted"]} if "unvetted" in public else {}),
        **({} if plan.learned is None else {"learned": plan.learned.facts}),
        "error": {**error_facts(plan), **post_processing(config.kind, plan.answer, arrays)},
        "reliable": _reliable(arrays),
        **({"computed_in_clear": True} if config.in_clear else {}),
        "plan_digest": plan.digest,
        "ledger": {"charge_id": charge.charge_id, "sequence": charge.sequence, "row_hash": charge.row_hash},
        **({} if charge.approval is None else {"approval": charge.approval.plain}),
        "software": dict(_software()),
    }


def _least(plan: Plan) -> dict[str, float]:
    """Error below which no Gaussian noise gets, in six digits rounded down, where ``auto`` chose and it is known."""
    least = plan.least
    # Digits beyond these may differ between machines, and every attempt states the same.
    return {} if least is None else {"least_error": float(f"{least * (1.0 - 1e-5):.5e}")}


def error_facts(plan: Plan) -> dict[str, Any]:
    """Error of the whole matrix, known before any data was read; see :mod:`.error_bounds`; empty without
    noise.
    """
    report = plan.answer.error()
    if report is None:
        return {}
    return {
        "array": "second_moment" if plan.answer.matrix == "covariance" else plan.answer.matrix,
        "confidence": CONFIDENCE,
        "band_in_standard_deviations": report.band,
        "spectral_norm_bound": report.spectral,
        "frobenius_norm_bound": report.frobenius,
        "expected_squared_error": report.total_variance,
        **rounded.facts(plan.answer),
    }


def _reliable(arrays: ReleaseArrays) -> bool:
    """Whether the count is far enough from zero, next to its own noise, for means and covariances to be ratios."""
    if "count" not in arrays:
        return True
    return float(arrays["count"][0]) > max(4.0 * float(arrays["count_standard_deviation"][0]), 0.0)


@cache
def _software() -> dict[str, str]:
    packages = ("blockveil", "numpy", "scipy", "zarr", "dask", "cryptography")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
