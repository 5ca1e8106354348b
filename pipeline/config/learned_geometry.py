"""Whether a shape that is learned has what it is learned for: a covariance or totals, with noise that follows it."""

from __future__ import annotations

from typing import Any

from blockveil.pipeline.base.kinds import kind_of
from blockveil.pipeline.config.mechanism_sections import MechanismSection
from blockveil.pipeline.sections.fields import refusal
from blockveil.pipeline.sections.geometry_section import BY_DIGITS

MOST_LEARNED = 4_000
"""Features of which bounds are learned: their counts are 2,050 each by digits, and fewer by powers of two."""


def check(query: Any, mechanism: MechanismSection, continual: object, density: float | None) -> None:
    """Refuse ``learn`` where no ellipsoid follows from it.

    Parameters
    ----------
    query, mechanism
        What is asked, and how noise is shaped.
    continual, density
        Nights that share a charge, and the bound on values other than zero; None where they are not given.
    """
    for key, shape in query.geometries.items():
        if getattr(shape, "learn", None) is None:
            if getattr(shape, "learn_bounds", None):
                raise refusal(
                    f"query.{key}.learn_bounds",
                    "true without learn",
                    "Bounds are learned for an ellipsoid that is learned from them",
                    "Give learn, or leave learn_bounds out",
                )
            continue
        if shape.learn_bounds:
            _check_bounds(key, shape)
        aim = getattr(mechanism, "minimise", None)
        has_weights = isinstance(getattr(mechanism, "optimise_for", None), dict)
        reasons = {
            f'query.kind = "{query.kind}"': shape.learn not in kind_of(query.kind).learns.get(query.kind, ()),
            f'mechanism.kind = "{mechanism.kind}"': mechanism.kind not in ("shaped-gaussian", "auto"),
            f'minimise = "{str(aim)[:40]}"': mechanism.kind == "auto" and aim not in ("total", "relative"),
            "importances by feature": has_weights,
            "norm_at_most": shape.norm_at_most is not None,
            "[continual]": continual is not None,
            "compute.density_at_most": density is not None,
        }
        for what, applies in reasons.items():
            if applies:
                raise refusal(
                    f"query.{key}.learn",
                    f'"{shape.learn}" with {what}',
                    "What is learned is the ellipsoid of one covariance, or of totals, with shaped-gaussian noise",
                    _instead(query.kind),
                )


def _instead(kind: str) -> str:
    """What to do about a query that learns for what it does not release."""
    learns = kind_of(kind).learns
    if learns and kind not in learns:
        return f'Ask for query.kind = "{next(iter(learns))}", which releases that and more; or leave learn out'
    words = " or ".join(f'learn = "{each}"' for each in learns.get(kind, ()))
    return f"Give {words}, or leave learn out" if words else "Leave learn out, or the other"


def _check_bounds(key: str, shape: Any) -> None:
    """Refuse bounds that are learned where the answer is relative to declared ones, or where counts do not fit."""
    reasons = (
        (
            f'learn = "{shape.learn}"',
            shape.learn == "covariance",
            "The error of covariances is relative to declared bounds, and these are too wide to be a measure",
            'Give learn = "correlation"',
        ),
        (
            f'a feature whose name ends in "{BY_DIGITS}"',
            any(each.name.endswith(BY_DIGITS) for each in shape.features),
            "That is how counts by digits are named",
            "Name the feature otherwise",
        ),
        (
            f"{len(shape.features):,} features",
            len(shape.features) > MOST_LEARNED,
            f"Counts by size of at most {MOST_LEARNED:,} features are made",
            "Declare bounds that you know",
        ),
    )
    for what, applies, why, instead in reasons:
        if applies:
            raise refusal(
                f"query.{key}.learn_bounds", f"true with {what}", why, f"{instead}, or leave learn_bounds out"
            )
